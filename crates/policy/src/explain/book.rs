//! What of a policy an explanation needs: remembered once for each policy that decided anything, long after it was replaced.

use std::sync::Arc;

use crate::client::key::{KeyPart, KeySpec};
use crate::config::conceal::{HIDDEN, redacted};
use crate::config::{Config, Places, Tree};
use crate::policy::client_list::Written;
use crate::policy::route::{HostMatch, Ignore, Match, PathMatch};
use crate::policy::{Action, ClientList, Origin, Policy, Rule};

/// The names and numbers of one policy, and where they are written.
#[derive(Debug, Clone)]
pub struct Book {
    /// All limits, in the policy's order.
    pub rules: Vec<Arc<Rule>>,
    /// What each of them counts by.
    pub keys: Vec<Counted>,
    /// All routes, in the policy's order.
    pub routes: Vec<RouteName>,
    /// The names of all tiers of clients, in the policy's order.
    pub tiers: Vec<String>,
    /// The names of all stores, in the policy's order.
    pub stores: Vec<String>,
    /// The forwarding header that is read.
    pub header: String,
    /// The fingerprint of its configuration.
    pub fingerprint: String,
    /// Where limits and routes stand in the file.
    pub places: Places,
    /// When it was loaded, in nanoseconds since 1970; 0 if it never was in force.
    pub loaded_unix_nanos: u64,
}

/// What a limit counts by, in words.
#[derive(Debug, Clone)]
pub struct Counted {
    /// `key`, without `origin`.
    pub key: String,
    /// `of`; empty where there is none.
    pub of: String,
    /// The keys of its `nodes`.
    pub nodes: Vec<String>,
}

impl Counted {
    /// By what is shown of the limit, where variables have a part in that.
    fn new(rule: &Rule, places: &Places) -> Counted {
        let written =
            places.shown.as_ref().map(|shown| shown.field("limits").and_then(|limits| limits.field(&rule.name)));
        let words = |key: &KeySpec, shown: Option<&Tree>| match (written, shown.map(redacted)) {
            (_, Some(Some(redacted))) => redacted,
            // it stands under another name, which a variable made
            (Some(None), _) if key.parts().iter().any(KeyPart::can_be_missing) => HIDDEN.to_owned(),
            _ => key.parts().iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        };
        let field = |name: &str| written.flatten().and_then(|limit| limit.field(name));
        let node = |at: usize| match field("nodes") {
            Some(Tree::List(nodes)) => nodes.get(at).and_then(|node| node.field("key")),
            _ => None,
        };
        let key = words(&rule.key, field("key"));
        Counted {
            // what is shown has the origin among the parts
            key: if rule.by_origin { key.strip_suffix(", origin").unwrap_or(&key).to_owned() } else { key },
            of: rule.of.as_ref().map_or_else(String::new, |of| words(of, field("of"))),
            nodes: rule.nodes.iter().enumerate().map(|(at, key)| words(key, node(at))).collect(),
        }
    }
}

/// A route and what it asks for.
#[derive(Debug, Clone)]
pub struct RouteName {
    /// Its name.
    pub name: String,
    /// Its alternatives: `path =/login, method POST`.
    pub asks: Vec<String>,
    /// The queue of its origin, if that has one.
    pub queue: Option<QueueName>,
}

/// The queue before an origin.
#[derive(Debug, Clone)]
pub struct QueueName {
    /// The origin's name.
    pub origin: String,
    /// What requests are held together by, from the key to the widest network.
    pub levels: Vec<String>,
}

impl QueueName {
    fn of(origin: &Origin) -> Option<QueueName> {
        let levels = origin.inflight.as_ref()?.nodes().iter().map(|(key, _)| match key.parts() {
            [KeyPart::ClientIp { ipv4_prefix: None, .. }] => "client".to_owned(),
            [KeyPart::ClientIp { ipv4_prefix: Some(length), .. }] => format!("/{length} (IPv6: /{})", 2 * length),
            _ => "key".to_owned(),
        });
        Some(QueueName { origin: origin.name.clone(), levels: levels.collect() })
    }
}

impl Book {
    /// That of a configuration which is in force nowhere.
    pub fn of(config: &Config) -> Book {
        Book::new(&config.policy, &config.fingerprint, config.places.clone(), 0)
    }

    /// What is to be remembered of a policy.
    pub fn new(policy: &Policy, fingerprint: &str, places: Places, loaded_unix_nanos: u64) -> Book {
        let shown = |route: usize, nth: usize| places.shown.as_ref()?.at(&format!("routes.{route}.match.{nth}"));
        let route = |(at, route): (usize, &crate::policy::Route)| RouteName {
            name: route.name.clone(),
            asks: route.matches.iter().enumerate().map(|(nth, one)| asked(one, shown(at, nth))).collect(),
            queue: match route.action {
                Action::Forward(origin) => policy.origins.get(origin).and_then(|origin| QueueName::of(origin)),
                Action::Respond(_) => None,
            },
        };
        Book {
            rules: policy.rules.clone(),
            keys: policy.rules.iter().map(|rule| Counted::new(rule, &places)).collect(),
            routes: policy.routes.iter().enumerate().map(route).collect(),
            tiers: policy.tiers.iter().map(|tier| tier.name.clone()).collect(),
            stores: policy.stores.iter().map(|store| store.name.clone()).collect(),
            header: policy.clients.header.name().to_string(),
            fingerprint: fingerprint.to_owned(),
            places,
            loaded_unix_nanos,
        }
    }
}

impl RouteName {
    /// What the request matched, by the alternative that took it.
    pub fn why(&self, alternative: Option<u8>) -> String {
        match (alternative.and_then(|at| self.asks.get(usize::from(at))), self.asks.as_slice()) {
            (Some(asked), _) => asked.clone(),
            (None, []) => "takes everything".to_owned(),
            (None, all) => format!("one of {} matches", all.len()),
        }
    }
}

/// What a match asks for. What variables made of it is said as it is `shown`.
fn asked(asked: &Match, shown: Option<&Tree>) -> String {
    let mut parts = Vec::new();
    let redacted = |name: &str| shown.and_then(|shown| shown.field(name)).and_then(redacted);
    match (&asked.host, redacted("host")) {
        (_, Some(host)) => parts.push(format!("host {host}")),
        (HostMatch::Any, _) => {}
        (HostMatch::Exact(host), _) => parts.push(format!("host {host}")),
        (HostMatch::Suffix(suffix), _) => parts.push(format!("host *{suffix}")),
    }
    match (&asked.path, redacted("path")) {
        (_, Some(path)) => parts.push(format!("path {path}")),
        (PathMatch::Exact(path), _) => parts.push(format!("exact path {path}{}", spelling(asked))),
        (PathMatch::Prefix(prefix), _) if prefix.is_empty() => {}
        (PathMatch::Prefix(prefix), _) => parts.push(format!("path under {prefix}{}", spelling(asked))),
        (PathMatch::Regex(regex), _) => {
            let whole = regex.as_str();
            let written = whole.strip_prefix(r"\A(?:").and_then(|rest| rest.strip_suffix(r")\z"));
            parts.push(format!("path ~ {}", written.unwrap_or(whole).trim_end()));
        }
    }
    if let Some(methods) = redacted("method") {
        parts.push(format!("method {methods}"));
    } else if !asked.methods.is_empty() {
        let methods: Vec<&str> = asked.methods.iter().map(http::Method::as_str).collect();
        parts.push(format!("method {}", methods.join(" or ")));
    }
    parts.extend(asked.headers.iter().map(|(name, _)| format!("header {name}")));
    parts.extend(asked.query.iter().map(|(name, _)| format!("parameter {name}")));
    match (&asked.client, redacted("client")) {
        (_, Some(client)) => parts.push(format!("client in {client}")),
        (Some(client), _) => parts.push(format!("client in {}", listed(client))),
        (None, _) => {}
    }
    if parts.is_empty() { "takes everything".to_owned() } else { parts.join(", ") }
}

/// The entries of a list of clients, the first ones of a long list.
fn listed(clients: &ClientList) -> String {
    const SHOWN: usize = 3;
    let Written { networks, unix, files } = clients.written();
    let unix = unix.then(|| "unix".to_owned());
    let files = files.iter().map(|file| format!("file {file}"));
    let mut all: Vec<String> = files.chain(unix).chain(networks.iter().map(ToString::to_string)).collect();
    let more = all.len().saturating_sub(SHOWN);
    all.truncate(SHOWN);
    let more = if more > 0 { format!(" or {more} more") } else { String::new() };
    format!("{}{more}", all.join(" or "))
}

/// In which spelling a path is taken, said behind it.
fn spelling(asked: &Match) -> String {
    match asked.ignore.unwrap_or_default() {
        Ignore::NONE => String::new(),
        Ignore::ALL => " in any spelling".to_owned(),
        ignored => format!(" ignoring {}", ignored.words().collect::<Vec<_>>().join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::policy::route::{TextMatch, whole};
    use crate::units::Prefix;

    fn office() -> ClientList {
        let networks = ["10.0.0.0", "192.0.2.0"].map(|first| Prefix::around(first.parse().unwrap(), 8, 0));
        let written = Written { networks: networks.to_vec(), unix: true, files: vec!["office.txt".into()] };
        ClientList::new(written, Vec::new(), false)
    }

    #[test]
    fn a_route_says_what_it_asked_for() {
        let all = Match {
            host: HostMatch::Suffix(".example.com".into()),
            path: PathMatch::Regex(whole("/v[0-9]+/.*").unwrap()),
            ignore: None,
            methods: vec![Method::GET, Method::HEAD],
            headers: vec![("x-plan".parse().unwrap(), TextMatch::Exact("gold".into()))],
            query: vec![("q".into(), TextMatch::Exact(String::new()))],
            client: Some(Arc::new(office())),
        };
        let told = "host *.example.com, path ~ /v[0-9]+/.*, method GET or HEAD, header x-plan, parameter q, \
                    client in file office.txt or unix or 10.0.0.0/8 or 1 more";
        assert_eq!(asked(&all, None), told);
        let any = Match {
            host: HostMatch::Any,
            path: PathMatch::Prefix(String::new()),
            ignore: None,
            methods: Vec::new(),
            headers: Vec::new(),
            query: Vec::new(),
            client: None,
        };
        assert_eq!(asked(&any, None), "takes everything");
        let route = RouteName { name: "a".into(), asks: vec![told.into(), "path under /b".into()], queue: None };
        assert_eq!(route.why(Some(1)), "path under /b");
        assert_eq!(route.why(None), "one of 2 matches");
    }
}
