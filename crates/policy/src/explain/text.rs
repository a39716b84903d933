//! An explanation for people: a page of short lines, the most important first.

use std::fmt::Write as _;

use crate::engine::Refusal;

use super::limit::{LimitPart, wait_words};
use super::{ClientPart, Explanation, HopPart, PlacePart, QueuePart, doubt, is_forwarded};

/// How wide the names on the left are.
const LABEL: usize = 10;

impl Explanation {
    /// The page, with a line break at its end.
    pub fn to_text(&self) -> String {
        let mut page = Page { text: String::new(), label: "" };
        page.head(self);
        page.text.push('\n');
        page.client(&self.client);
        page.route(self);
        page.label = "class";
        self.criticality.iter().for_each(|class| page.line(class));
        page.limits(&self.limits);
        page.label = "place";
        self.queue.iter().flat_map(QueuePart::lines).for_each(|line| page.line(&line));
        page.label = "ban";
        of_ban(self).iter().for_each(|line| page.line(line));
        page.label = "estimate";
        for limit in self.decisive() {
            if let Some(estimate) = &limit.estimate {
                page.line(&format!("{}{}", self.named(limit), estimate.words()));
            }
        }
        page.label = "store";
        page.line(&self.store);
        page.label = "sent";
        self.sent.iter().for_each(|field| page.line(field));
        page.label = "change";
        for limit in self.decisive() {
            if let Some(change) = &limit.change {
                page.line(&format!("{}{change}", self.named(limit)));
            }
        }
        page.config(self);
        page.label = "note";
        self.notes.iter().for_each(|note| page.line(note));
        page.text
    }

    /// The limits that forbade the request; if none did, those that would have.
    fn decisive(&self) -> impl Iterator<Item = &LimitPart> {
        let enforced = self.limits.iter().any(LimitPart::forbade);
        self.limits.iter().filter(move |limit| if enforced { limit.forbade() } else { limit.change.is_some() })
    }

    /// The name of a limit, where another could be meant.
    fn named(&self, limit: &LimitPart) -> String {
        if self.decisive().count() > 1 { format!("{}: ", limit.name) } else { String::new() }
    }

    fn place(&self) -> Option<&PlacePart> {
        let limit = self.decisive().next().and_then(|limit| limit.place.as_ref());
        limit.or(self.route.as_ref().and_then(|route| route.place.as_ref()))
    }

    /// `429 limited by login`, `admitted`.
    fn outcome(&self) -> String {
        let status = self.status.map_or_else(String::new, |status| format!("{status} "));
        let by: Vec<String> =
            self.limits.iter().filter(|limit| limit.forbade()).map(|limit| format!("`{}`", limit.name)).collect();
        match (self.reason.as_deref(), by.is_empty()) {
            (None, _) => {
                let shadow: Vec<&str> = self.decisive().map(|limit| limit.name.as_str()).collect();
                match shadow.is_empty() {
                    true => format!("{status}admitted"),
                    false => format!("{status}admitted, over `{}`", shadow.join("`, `")),
                }
            }
            // what it was refused for is nothing that the client did
            (Some(reason), false) if reason == Refusal::StoreSilent.word() => {
                format!("{status}refused: the store of {} was silent", by.join(" and "))
            }
            (Some(_), false) => format!("{status}limited by {}", by.join(" and ")),
            (Some(reason), true) => format!("{status}refused: {}", reason.replace('_', " ")),
        }
    }
}

fn of_ban(of: &Explanation) -> Vec<String> {
    of.ban.iter().flat_map(|ban| ban.lines(time)).collect()
}

struct Page {
    text: String,
    /// What the next line is about; empty for one that goes on.
    label: &'static str,
}

impl Page {
    fn line(&mut self, line: &str) {
        let label = std::mem::take(&mut self.label);
        let _ = writeln!(self.text, " {label:<LABEL$}{line}");
    }

    fn head(&mut self, of: &Explanation) {
        let time = of.time.as_deref().map(time);
        let host = of.request.host.as_deref().unwrap_or_default();
        let target = of.request.path.as_deref().map(|path| format!("{host}{path}"));
        let what =
            [of.request.method.as_deref(), target.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(" ");
        let what = if what.is_empty() { "a request".to_owned() } else { what };
        let parts = [time, Some(what), Some(format!("→  {}", of.outcome()))];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let _ = writeln!(self.text, "{}", parts.join("  "));
        if let Some(id) = &of.id {
            let _ = writeln!(self.text, "decision {id}");
        }
    }

    fn client(&mut self, client: &ClientPart) {
        self.label = "client";
        let who = client.address.as_deref().or(client.pseudonym.as_deref()).unwrap_or("not to be told");
        let hops = if client.hops == 1 { "hop" } else { "hops" };
        let whence = match is_forwarded(client.source.as_ref()) {
            true => format!("from {}, {} {hops}", client.header, client.hops),
            false if client.ignored_header => {
                "the peer; its forwarding header was ignored: not in `trusted_proxies`".to_owned()
            }
            false if client.peer_trusted => "the peer, a trusted proxy that named nobody".to_owned(),
            false => "the peer".to_owned(),
        };
        self.line(&format!("{who:<13} ({whence})"));
        if client.chain.len() > 1 {
            let mut chain: Vec<String> = client.chain.iter().map(hop).collect();
            if let Some(peer) = chain.first_mut() {
                peer.insert_str(0, "peer ");
            }
            self.line(&format!("  {}", chain.join(" → ")));
        }
        if let Some(network) = &client.network {
            self.line(&format!("  counted as {network}"));
        }
        if let (Some(_), Some(pseudonym)) = (&client.address, &client.pseudonym) {
            self.line(&format!("  in the log {pseudonym}"));
        }
        if let Some(doubt) = client.mark.as_deref().and_then(doubt) {
            self.line(&format!("  {doubt}"));
        }
    }

    fn route(&mut self, of: &Explanation) {
        self.label = "route";
        let Some(route) = &of.route else { return self.line("none") };
        let next = route.runner_up.as_ref().map_or_else(String::new, |other| format!("; next best: {other}"));
        self.line(&format!("{:<13} ({}{next})", route.name, route.why));
    }

    fn limits(&mut self, limits: &[LimitPart]) {
        self.label = "limits";
        if limits.is_empty() {
            return self.line("none was asked");
        }
        let width = |text: fn(&LimitPart) -> usize| limits.iter().map(text).max().unwrap_or(0);
        let (name, state) = (width(|limit| limit.name.len()), width(|limit| limit.state.len()));
        for limit in limits {
            let tier = limit.tier.map(|tier| format!("tier {tier}"));
            let key = match (&limit.key_pseudonym, &limit.node) {
                // the whole of it stands above
                (Some(pseudonym), _) => format!("by {} = {}…", limit.key, pseudonym.get(..4).unwrap_or(pseudonym)),
                (None, Some(node)) => format!("levels {}", levels(&limit.key, node)),
                (None, None) => format!("by {}", limit.key),
            };
            let said = [limit.level.clone(), wait_words(limit), tier, Some(key)];
            let said = said.into_iter().flatten().collect::<Vec<_>>().join("; ");
            self.line(&format!("{:<name$}  {:<state$}  {said}", limit.name, limit.state));
        }
    }

    fn config(&mut self, of: &Explanation) {
        self.label = "config";
        let loaded = of.config.loaded.as_deref().map_or_else(String::new, |at| format!(", loaded {}", time(at)));
        let place = of.place().map_or_else(String::new, |place| format!(", {}, line {}", place.file, place.line));
        self.line(&format!("{}{loaded}{place}", of.config.fingerprint));
    }
}

/// The levels of a `fair_share` from its key to the widest network, with the one that weighed most: `client_ip (cut here) < /24 or /48`.
fn levels(levels: &str, node: &str) -> String {
    let words = |level: &str| {
        let lengths = level.strip_prefix("client_ip:ipv4_prefix=").and_then(|rest| rest.split_once(",ipv6_prefix="));
        let text = lengths.map_or_else(|| level.to_owned(), |(ipv4, ipv6)| format!("/{ipv4} or /{ipv6}"));
        if level == node { format!("{text} (cut here)") } else { text }
    };
    levels.split(" < ").map(words).collect::<Vec<_>>().join(" < ")
}

fn hop(hop: &HopPart) -> String {
    let address = hop.address.as_deref().unwrap_or("?");
    let trusted = hop.trusted_as.as_deref().map_or_else(String::new, |by| format!(" ({by})"));
    match hop.standing.as_str() {
        "end" => address.to_owned(),
        standing => format!("{address} {standing}{trusted}"),
    }
}

/// `2026-11-21T10:15:09.412000000Z` as `2026-11-21 10:15:09.412`.
fn time(text: &str) -> String {
    let text = text.trim_end_matches('Z').replacen('T', " ", 1);
    match text.split_once('.') {
        Some((seconds, part)) => format!("{seconds}.{}", part.get(..3).unwrap_or(part)),
        None => text,
    }
}
