//! Finds the limits of a policy that a log can judge. A limit that reads something the log does not have is left out, with the reason.
//!
//! A limit that is left out becomes a shadow limit, so that it refuses no request in place of the others.

use std::sync::Arc;

use crate::client::key::KeyPart;
use crate::client::{ClientRules, Trust};
use crate::policy::{CostRule, Mode, Policy, Rule};

/// What the logs have, as far as their first lines show.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// Whether they say how long requests took.
    pub duration: bool,
    /// Whether they say from which addresses clients come, not only who is the same.
    pub addresses: bool,
    /// Whether they say the query.
    pub query: bool,
    /// Whether they have a header field, by its name in lower case.
    pub header: &'a dyn Fn(&str) -> bool,
}

impl std::fmt::Debug for Given<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Given")
            .field("duration", &self.duration)
            .field("addresses", &self.addresses)
            .field("query", &self.query)
            .finish_non_exhaustive()
    }
}

/// A policy made ready for a replay.
#[derive(Debug)]
pub struct Plan {
    /// The policy: its clients are those of the log, and what cannot be replayed only watches.
    pub policy: Policy,
    /// Of every limit why it cannot be replayed; `None` for one that can.
    pub missing: Vec<Option<String>>,
    /// Of every limit whether it decides, in the operator's own words.
    pub enforced: Vec<bool>,
    /// What is judged otherwise than a live gate would, in words.
    pub notes: Vec<String>,
}

impl Plan {
    /// Of a policy and what the logs have.
    pub fn new(mut policy: Policy, given: &Given<'_>) -> Plan {
        let clients = policy.clients.clone();
        let missing: Vec<Option<String>> = policy.rules.iter().map(|rule| missing(rule, given, &clients)).collect();
        let enforced = policy.rules.iter().map(|rule| rule.mode == Mode::Enforce).collect();
        let mut notes = Vec::new();
        for (rule, missing) in policy.rules.iter_mut().zip(&missing) {
            if missing.is_some() {
                let left_out = Rule { mode: Mode::Shadow, instead: None, ..Rule::clone(rule) };
                *rule = Arc::new(left_out);
            }
        }
        let unread = |headers: &[(http::HeaderName, _)]| {
            headers.iter().map(|(name, _)| name.as_str().to_owned()).find(|name| !(given.header)(name))
        };
        for route in policy.routes.iter() {
            for matched in &route.matches {
                if let Some(name) = unread(&matched.headers) {
                    notes.push(format!(
                        "route `{}` needs header {name}, which this log does not have: it takes no request by it",
                        route.name
                    ));
                }
                if !matched.query.is_empty() && !given.query {
                    notes.push(format!(
                        "route `{}` needs the query, which this log does not have: it takes no request by it",
                        route.name
                    ));
                }
            }
        }
        // the log says who the client is; nobody is to be believed about that any more
        policy.clients = ClientRules { trust: Trust::Off, ..policy.clients };
        if !given.addresses {
            // who is the same was decided when the log was written; an address that stands for a name has 64 bits of its own
            policy.clients.ipv6_prefix = 64;
        }
        Plan { policy, missing, enforced, notes }
    }
}

/// What a limit needs and the logs do not have.
fn missing(rule: &Rule, given: &Given<'_>, clients: &ClientRules) -> Option<String> {
    if !given.addresses && asks_for_addresses(rule, clients) {
        return Some("needs client addresses; this log has pseudonyms".to_owned());
    }
    let parts = std::iter::once(&rule.key).chain(&rule.of).chain(&rule.nodes).flat_map(|key| key.parts());
    for part in parts {
        let lacks = match part {
            KeyPart::Header(name) if !(given.header)(name.as_str()) => Some(format!("header {name}")),
            KeyPart::Cookie(name) if !(given.header)("cookie") && !(given.header)(&format!("cookie:{name}")) => {
                Some(format!("cookie {name}"))
            }
            KeyPart::Query(name) if !given.query && !(given.header)(&format!("query:{name}")) => {
                Some(format!("query parameter {name}"))
            }
            KeyPart::TlsSni => Some("the name in the TLS handshake".to_owned()),
            _ => None,
        };
        if let Some(what) = lacks {
            return Some(format!("needs {what}; this log does not have it"));
        }
    }
    let conditions = rule.exempt.iter().chain(rule.tiers.iter().map(|tier| &tier.when));
    for (name, _) in conditions.flat_map(|condition| &condition.headers) {
        if !(given.header)(name.as_str()) {
            return Some(format!("needs header {name} for its exceptions; this log does not have it"));
        }
    }
    if matches!(rule.cost, CostRule::Response { .. }) {
        return Some("needs what the origin's answers say that they cost; logs do not have it".to_owned());
    }
    let kinds = std::iter::once(&rule.kind).chain(rule.tiers.iter().filter_map(|tier| tier.kind.as_ref()));
    for kind in kinds {
        if kind.needs_durations() && !given.duration {
            return Some("needs request durations; this log does not have them".to_owned());
        }
    }
    None
}

/// Whether it counts by other networks than those that the gate's clients are, or makes exceptions for some.
fn asks_for_addresses(rule: &Rule, clients: &ClientRules) -> bool {
    let mut parts = std::iter::once(&rule.key).chain(&rule.of).chain(&rule.nodes).flat_map(|key| key.parts());
    let by_network = parts.any(|part| match part {
        KeyPart::ClientIp { ipv4_prefix, ipv6_prefix } => {
            ipv4_prefix.is_some_and(|length| length != clients.ipv4_prefix)
                // an address that stands for a name is a /64 of its own
                || ipv6_prefix.is_some_and(|length| length != clients.ipv6_prefix || length < 64)
        }
        _ => false,
    });
    let mut conditions = rule.exempt.iter().chain(rule.tiers.iter().map(|tier| &tier.when));
    by_network || conditions.any(|condition| !condition.networks.is_empty())
}
