//! A policy under a virtual clock: every request of a log is judged and charged at the moment when it began, and gives back
//! what it held at the moment when it ended.
//!
//! The clock is the log's. Its origin is the one that the gate had which wrote the log, if the log says it, so that every number
//! is the same; otherwise 400 days before the first request, so that a level of zero means "long ago" here too.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use http::header::COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::formats::FieldName;
use super::record::{LoggedClient, Record};
use crate::client::key::KeyPart;
use crate::client::{self, Client, Mark};
use crate::engine::{Arrival, DecisionId, Holds, Judged, Refusal, Snapshot, Verdict};
use crate::policy::Policy;
use crate::request::{Peer, Request};
use crate::sketch::{KeyHasher, Seed};
use crate::units::dice::mixed;
use crate::units::{OutOfRange, Timestamp};

/// How texts of strangers are put into the form that a live gate judges. A face may not know the other, so these are handed in.
#[derive(Debug, Clone, Copy)]
pub struct Canonical {
    /// A path without query; `None` for one that a live gate refuses as malformed.
    pub path: for<'a> fn(&'a [u8]) -> Option<Cow<'a, str>>,
    /// A host with or without port.
    pub host: for<'a> fn(&'a str) -> Cow<'a, str>,
}

/// Why a request of a log is not judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unjudged {
    /// A live gate answers it with 400 before any limit is asked.
    Malformed,
    /// The gate that wrote the log refused it because its client could not be told.
    Unresolved,
}

/// The policy and the state of its limits, at the log's time.
#[derive(Debug)]
pub struct Gate {
    snapshot: Snapshot,
    canonical: Canonical,
    host: Option<String>,
    zero: u64,
    /// Header fields that the policy reads.
    wanted: Vec<HeaderName>,
    headers: HeaderMap,
    ends: BinaryHeap<Reverse<End>>,
    sequence: u64,
    maintained: u64,
}

/// Tables are hashed under a known seed, so that a replay says the same each time.
const SEED: Seed = Seed::from_bytes(*b"tidegate replays");
const HEAD_START: u64 = 400 * 86_400 * 1_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// Something that is due at a later moment.
#[derive(Debug)]
struct End {
    at: u64,
    sequence: u64,
    what: What,
}

#[derive(Debug)]
enum What {
    /// The wait of a limit with `action: delay` is over.
    Waited(Box<Judged>, After),
    /// The answer is complete.
    Answered(Box<(Judged, Holds)>, After),
}

/// What the log says of a request's end.
#[derive(Debug, Clone, Copy)]
struct After {
    duration: u64,
    status: u16,
    bytes: u64,
}

impl Gate {
    /// Before the first request, which `record` is. `policy` is that of a [`Plan`](super::plan::Plan).
    ///
    /// # Errors
    /// A limit whose numbers its limiter refuses, by name; a loaded policy has none.
    pub fn new(
        policy: Policy,
        canonical: Canonical,
        host: Option<String>,
        record: &Record<'_>,
    ) -> Result<Gate, (String, OutOfRange)> {
        let told = record.told.and_then(|told| told.zero);
        let zero = told.unwrap_or(record.start.saturating_sub(HEAD_START));
        let wanted = headers_read(&policy);
        let snapshot = Snapshot::new(policy, &SEED, zero)?;
        Ok(Gate {
            snapshot,
            canonical,
            host,
            zero,
            wanted,
            headers: HeaderMap::new(),
            ends: BinaryHeap::new(),
            sequence: 0,
            maintained: 0,
        })
    }

    /// What the wall clock shows at the origin of stamps, in nanoseconds since 1970.
    pub fn zero(&self) -> u64 {
        self.zero
    }

    /// The policy and its limiters.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Judges a request and charges it, and shows the record of it to `then` before it goes on.
    ///
    /// # Errors
    /// It is not for the limits to judge.
    pub fn judge<T>(
        &mut self,
        record: &Record<'_>,
        then: impl FnOnce(&Judged, &Client, &Request<'_>) -> T,
    ) -> Result<T, Unjudged> {
        let at = record.start.saturating_sub(self.zero);
        self.advance(at);
        if record.told.is_some_and(|told| told.reason == Refusal::ClientUnresolved.word().as_bytes()) {
            return Err(Unjudged::Unresolved);
        }
        let path = (self.canonical.path)(record.path).ok_or(Unjudged::Malformed)?;
        let method = Method::from_bytes(record.method).map_err(|_| Unjudged::Malformed)?;
        let host = match record.host {
            Some(host) => std::str::from_utf8(host).map_err(|_| Unjudged::Malformed)?,
            None => self.host.as_deref().unwrap_or_default(),
        };
        let host = (self.canonical.host)(host);
        let peer = Peer::Ip(stands_for(record.client));
        let mut headers = std::mem::take(&mut self.headers);
        self.fill(&mut headers, record);
        let query = record.query.and_then(|query| std::str::from_utf8(query).ok());
        let request =
            Request { peer, method: &method, host: &host, path: &path, query, headers: &headers, tls_sni: None };
        // trust is off, so it is the peer and never refused
        let client = client::resolve(&self.snapshot.policy().clients, peer, &headers);
        let mut client = client.map_err(|_| Unjudged::Unresolved)?;
        client.mark = record.told.map_or(Mark::Verified, |told| mark(told.mark));
        self.sequence += 1;
        let id = record.told.and_then(|told| DecisionId::parse(std::str::from_utf8(told.id).ok()?));
        let arrival = Arrival {
            id: id.unwrap_or(DecisionId(self.sequence)),
            at: Timestamp::from_nanos(at),
            dice: mixed(self.sequence),
        };
        let mut judged = self.snapshot.judge_for(&request, Some(client), arrival);
        if judged.decision.verdict == Verdict::Admitted
            && record.told.is_some_and(|told| told.reason == Refusal::OriginFull.word().as_bytes())
        {
            // whether the origin had room is a fact of that day, and who found none was not charged
            judged.decision.verdict = Verdict::Refused(Refusal::OriginFull);
        }
        let after = After { duration: record.duration.unwrap_or(0), status: record.status, bytes: record.bytes };
        self.snapshot.reserve(&mut judged);
        let waits = judged.decision.delay_nanos > 0;
        let now = judged.decision.at;
        let holds = if waits { Holds::new() } else { self.snapshot.admit(&mut judged, now).0 };
        let seen = then(&judged, &client, &request);
        headers.clear();
        self.headers = headers;
        if waits {
            let until = judged.decision.goes_on().nanos();
            self.push(until, What::Waited(Box::new(judged), after));
        } else if !holds.is_empty() || self.snapshot.counts_bytes(&judged) {
            self.hold(at, judged, holds, after);
        }
        Ok(seen)
    }

    /// Lets everything happen that is due until `at`.
    fn advance(&mut self, at: u64) {
        while self.ends.peek().is_some_and(|Reverse(end)| end.at <= at)
            && let Some(Reverse(end)) = self.ends.pop()
        {
            match end.what {
                What::Waited(mut judged, after) => {
                    let now = Timestamp::from_nanos(end.at);
                    let (holds, _) = self.snapshot.admit(&mut judged, now);
                    self.hold(end.at, *judged, holds, after);
                }
                What::Answered(of, after) => {
                    let (judged, holds) = *of;
                    self.end(end.at, judged, holds, after);
                }
            }
        }
        if at / SECOND != self.maintained {
            self.maintained = at / SECOND;
            self.snapshot.maintain(Timestamp::from_nanos(at));
        }
    }

    /// What an admitted request holds is given back at its end.
    fn hold(&mut self, at: u64, judged: Judged, holds: Holds, after: After) {
        if after.duration == 0 {
            self.end(at, judged, holds, after);
        } else {
            self.push(at.saturating_add(after.duration), What::Answered(Box::new((judged, holds)), after));
        }
    }

    fn end(&mut self, at: u64, mut judged: Judged, mut holds: Holds, after: After) {
        let now = Timestamp::from_nanos(at);
        self.snapshot.sent(&mut holds);
        if let Ok(status) = StatusCode::from_u16(after.status) {
            self.snapshot.answered(&judged, &mut holds, status, &HeaderMap::new(), now);
        }
        if judged.decision.verdict == Verdict::Admitted {
            self.snapshot.carried(&mut judged, after.bytes, now);
        }
    }

    fn push(&mut self, at: u64, what: What) {
        self.sequence += 1;
        self.ends.push(Reverse(End { at, sequence: self.sequence, what }));
    }

    /// The header fields that the policy reads and the log has.
    fn fill(&self, headers: &mut HeaderMap, record: &Record<'_>) {
        if self.wanted.is_empty() {
            return;
        }
        for (name, value) in record.fields() {
            let (name, value) = match &name {
                FieldName::Header(name) => (self.wanted.iter().find(|wanted| *wanted == &**name), Cow::Borrowed(value)),
                FieldName::Cookie(name) => {
                    let line = [name.as_bytes(), b"=", value].concat();
                    (self.wanted.iter().find(|wanted| **wanted == COOKIE), Cow::Owned(line))
                }
                FieldName::Query(_) => continue,
            };
            if let (Some(name), Ok(value)) = (name, HeaderValue::from_bytes(&value)) {
                headers.append(name, value);
            }
        }
    }
}

impl PartialEq for End {
    fn eq(&self, other: &End) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}

impl Eq for End {}

impl PartialOrd for End {
    fn partial_cmp(&self, other: &End) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for End {
    fn cmp(&self, other: &End) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

/// The address that a logged client is judged by. A name gets one of its own out of a hash: in `fd00::/8`, which no public
/// client has, with the hash in the bits that clients are counted by.
pub fn stands_for(client: LoggedClient<'_>) -> std::net::IpAddr {
    match client {
        LoggedClient::Address(address) => address,
        LoggedClient::Name(name) => {
            let mut hasher = KeyHasher::new(&SEED);
            hasher.part(0, name);
            let [low, _] = hasher.finish().halves();
            std::net::Ipv6Addr::from_bits(u128::from(0xfd << 56 | low >> 8) << 64).into()
        }
    }
}

/// The header fields that limits and routes read. What tells the client is not among them: the log has said who it is.
fn headers_read(policy: &Policy) -> Vec<HeaderName> {
    let mut names = Vec::new();
    let keys = policy.rules.iter().flat_map(|rule| std::iter::once(&rule.key).chain(&rule.of).chain(&rule.nodes));
    for part in keys.flat_map(|key| key.parts()) {
        match part {
            KeyPart::Header(name) => names.push(name.clone()),
            KeyPart::Cookie(_) => names.push(COOKIE),
            _ => {}
        }
    }
    for rule in &policy.rules {
        let conditions = rule.exempt.iter().chain(rule.tiers.iter().map(|tier| &tier.when));
        names.extend(conditions.flat_map(|condition| &condition.headers).map(|(name, _)| name.clone()));
    }
    let matches = policy.routes.iter().flat_map(|route| &route.matches);
    names.extend(matches.flat_map(|matched| &matched.headers).map(|(name, _)| name.clone()));
    names.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
    names.dedup();
    names
}

fn mark(word: &[u8]) -> Mark {
    const MARKS: [Mark; 4] = [Mark::Verified, Mark::Degraded, Mark::Short, Mark::AllTrusted];
    MARKS.into_iter().find(|mark| mark.as_str().as_bytes() == word).unwrap_or(Mark::Verified)
}
