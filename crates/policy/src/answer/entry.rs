//! The access log's line: one JSON object per request, written and read back here, so that the two cannot drift apart.
//!
//! Everything about limits comes from the [`Decision`](crate::engine::Decision); a replay of the log can compare each
//! verdict with its own. A line never holds a query string, a header or a peer's address; the caller decides whether
//! `client` is a pseudonym, and with it a `prefix` that is the client's own. A stranger's text is escaped, cut at [`MAX_TEXT_BYTES`], and cannot end the line.

mod combined;
mod read;
#[cfg(test)]
mod tests;
mod time;

use std::borrow::Cow;

use arrayvec::ArrayVec;

use super::json;
use crate::client::KeySpec;
use crate::engine::{DecisionId, Outcome, Verdict};
use crate::policy::{Mode, Route, Rule};
use crate::units::Timestamp;
pub use read::Unreadable;
pub use time::text as time_text;

/// What the first field of every line says. Fields may be added under it; a change of meaning gets another number.
pub const SCHEMA: &str = "tidegate.access/1";

/// Text is cut after so many bytes, with `…` for the rest.
pub const MAX_TEXT_BYTES: usize = 2_048;

/// One request, borrowed when it is written, owned when it has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'a> {
    /// When the request came, in nanoseconds since 1970; for people. The limits went by `at`.
    pub time_unix_nanos: u64,
    /// The stamp that every limit was judged by.
    pub at: Timestamp,
    /// What the wall clock would have shown at stamp zero, in nanoseconds since 1970, the same in all lines of a process: with it a
    /// replay puts windows where the gate had them. None in lines of versions that did not write it.
    pub at_zero: Option<u64>,
    /// The identifier of request and decision.
    pub id: DecisionId,
    /// The name of the listener.
    pub listener: Cow<'a, str>,
    /// What the client spoke: `h1` (HTTP/1.0 and 1.1) or `h2`; none in lines of earlier versions.
    pub protocol: Option<Cow<'a, str>>,
    /// The client, as a pseudonym or in the clear; none when the request was too faulty to tell.
    pub client: Option<Cow<'a, str>>,
    /// Whose word the client's address is.
    pub client_source: Option<Cow<'a, str>>,
    /// How sure it is.
    pub client_mark: Option<Cow<'a, str>>,
    /// The method.
    pub method: Cow<'a, str>,
    /// The host, without port.
    pub host: Text<'a>,
    /// The path, without query.
    pub path: Text<'a>,
    /// The name of the route; none when no route matched.
    pub route: Option<Cow<'a, str>>,
    /// How much it mattered, where that is not `default`.
    pub criticality: Option<Cow<'a, str>>,
    /// The status of the answer; 499 when the client left before it.
    pub status: u16,
    /// The outcome of the decision; none when the request was too faulty for one.
    pub verdict: Option<Verdict>,
    /// What each limit said, in the route's order.
    pub limits: ArrayVec<LimitEntry<'a>, { Route::MAX_RULES }>,
    /// The name of the origin, if one was asked.
    pub origin: Option<Cow<'a, str>>,
    /// Which of its addresses answered, or was tried last.
    pub origin_address: Option<Cow<'a, str>>,
    /// How long the request was held back because limits with `action: delay` said so; a part of `duration_nanos`.
    pub delay_nanos: u64,
    /// How often an origin was tried.
    pub attempts: u32,
    /// From the request's head to the last byte of the answer.
    pub duration_nanos: u64,
    /// From the first byte to the origin to the head of its answer.
    pub origin_nanos: Option<u64>,
    /// Bytes of the request's body.
    pub bytes_in: u64,
    /// Bytes of the answer's body.
    pub bytes_out: u64,
    /// What went wrong, in the word of [`Fault::word`](super::Fault::word); of a head that was refused, in that of its metric.
    pub error: Option<Cow<'a, str>>,
    /// Of a refused request: how many refused requests the line stands for, itself and those before it that have no line;
    /// none when it stands for itself.
    pub sampled: Option<u64>,
}

/// A stranger's text, which may be no UTF-8; it is read back as a lenient reader sees it.
pub type Text<'a> = Cow<'a, [u8]>;

/// What one limit said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitEntry<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Whether it decides.
    pub mode: Mode,
    /// Which numbers applied: 0 the limit's own, `n` those of its n-th tier.
    pub tier: u8,
    /// What it said.
    pub outcome: Outcome,
    /// How many more requests would have been admitted at once.
    pub remaining: u32,
    /// How long until this one fits; none when no wait helps.
    pub retry_nanos: Option<u64>,
    /// Of `fair_share`, when it refused: the node that weighed most, in the words of [`node_names`].
    pub node: Option<Cow<'a, str>>,
    /// The network of the client at that node, if the node counts by one; in the clear when it is wider than what a client
    /// is counted by, since it then names nobody, otherwise in the form of `client`.
    pub prefix: Option<Cow<'a, str>>,
}

/// The words for the nodes of a `fair_share` limit in log and metrics, by position: the key of each as in the policy,
/// several parts with a comma between. Empty for other kinds.
pub fn node_names(rule: &Rule) -> Vec<String> {
    if !rule.kind.has_nodes() {
        return Vec::new();
    }
    let name = |key: &KeySpec| key.parts().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    rule.nodes.iter().map(name).collect()
}

/// The name of a member as it stands in the line, with the comma before it and the colon behind. Names are our own and need no
/// escaping.
macro_rules! name {
    ($name:literal) => {
        concat!(",\"", $name, "\":")
    };
}

impl Entry<'_> {
    /// Appends the line, with its line break, to `out`; allocates nothing else.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut line = Line { out };
        line.out.extend_from_slice(br#"{"schema":"tidegate.access/1","time":""#);
        time::write(line.out, self.time_unix_nanos);
        line.out.push(b'"');
        line.number(name!("at"), self.at.nanos());
        line.optional_number(name!("at_zero"), self.at_zero);
        line.text(name!("id"), &self.id.text());
        line.text(name!("listener"), self.listener.as_bytes());
        line.optional_text(name!("protocol"), &self.protocol);
        line.optional_text(name!("client"), &self.client);
        line.optional_text(name!("client_source"), &self.client_source);
        line.optional_text(name!("client_mark"), &self.client_mark);
        line.text(name!("method"), self.method.as_bytes());
        line.text(name!("host"), &self.host);
        line.text(name!("path"), &self.path);
        line.optional_text(name!("route"), &self.route);
        line.optional_text(name!("criticality"), &self.criticality);
        line.number(name!("status"), u64::from(self.status));
        match self.verdict {
            Some(Verdict::Admitted) => line.word(name!("verdict"), ADMITTED),
            Some(Verdict::Refused(refusal)) => {
                line.word(name!("verdict"), REFUSED);
                line.word(name!("reason"), refusal.word());
            }
            None => {}
        }
        line.limits(&self.limits);
        line.optional_text(name!("origin"), &self.origin);
        line.optional_text(name!("origin_address"), &self.origin_address);
        line.positive(name!("delay_ns"), self.delay_nanos);
        line.number(name!("attempts"), u64::from(self.attempts));
        line.number(name!("duration_ns"), self.duration_nanos);
        line.optional_number(name!("origin_ns"), self.origin_nanos);
        line.number(name!("bytes_in"), self.bytes_in);
        line.number(name!("bytes_out"), self.bytes_out);
        line.optional_text(name!("error"), &self.error);
        line.optional_number(name!("sampled"), self.sampled);
        line.out.extend_from_slice(b"}\n");
    }
}

const ADMITTED: &str = "admitted";
const REFUSED: &str = "refused";

/// An object that is being written. What is absent is left out.
struct Line<'a> {
    out: &'a mut Vec<u8>,
}

impl Line<'_> {
    /// A word of our own, which needs no escaping.
    fn word(&mut self, name: &str, word: &'static str) {
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(b'"');
        self.out.extend_from_slice(word.as_bytes());
        self.out.push(b'"');
    }

    fn text(&mut self, name: &str, text: &[u8]) {
        self.out.extend_from_slice(name.as_bytes());
        json::text(self.out, text, MAX_TEXT_BYTES);
    }

    fn optional_text(&mut self, name: &str, text: &Option<Cow<'_, str>>) {
        if let Some(text) = text {
            self.text(name, text.as_bytes());
        }
    }

    fn number(&mut self, name: &str, number: u64) {
        self.out.extend_from_slice(name.as_bytes());
        json::number(self.out, number);
    }

    /// Zero goes without saying.
    fn positive(&mut self, name: &str, number: u64) {
        if number > 0 {
            self.number(name, number);
        }
    }

    fn optional_number(&mut self, name: &str, number: Option<u64>) {
        if let Some(number) = number {
            self.number(name, number);
        }
    }

    fn limits(&mut self, limits: &[LimitEntry<'_>]) {
        self.out.extend_from_slice(br#","limits":["#);
        for (at, limit) in limits.iter().enumerate() {
            self.out.extend_from_slice(if at > 0 { b",{\"name\":" } else { b"{\"name\":" });
            json::text(self.out, limit.name.as_bytes(), MAX_TEXT_BYTES);
            self.word(name!("mode"), limit.mode.word());
            self.positive(name!("tier"), u64::from(limit.tier));
            self.word(name!("outcome"), limit.outcome.word());
            self.number(name!("remaining"), u64::from(limit.remaining));
            self.optional_number(name!("retry_ns"), limit.retry_nanos);
            self.optional_text(name!("node"), &limit.node);
            self.optional_text(name!("prefix"), &limit.prefix);
            self.out.push(b'}');
        }
        self.out.push(b']');
    }
}
