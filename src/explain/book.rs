//! What of a policy an explanation needs: remembered once for each policy that decided anything, long after it was replaced.

use std::sync::Arc;

use crate::config::{self, Config, Places};
use crate::policy::route::{HostMatch, Ignore, Match, PathMatch};
use crate::policy::{Policy, Rule};

/// The names and numbers of one policy, and where they are written.
#[derive(Debug, Clone)]
pub struct Book {
    /// All limits, in the policy's order.
    pub rules: Vec<Arc<Rule>>,
    /// All routes, in the policy's order.
    pub routes: Vec<RouteName>,
    /// The names of all stores, in the policy's order.
    pub stores: Vec<String>,
    /// The forwarding header that is read.
    pub header: String,
    /// The hash over its effective text.
    pub fingerprint: String,
    /// Where limits and routes stand in the file.
    pub places: Places,
    /// When it was loaded, in nanoseconds since 1970; 0 if it never was in force.
    pub loaded_unix_nanos: u64,
}

/// A route and what it asks for.
#[derive(Debug, Clone)]
pub struct RouteName {
    /// Its name.
    pub name: String,
    /// Its alternatives: `path =/login, method POST`.
    pub asks: Vec<String>,
}

impl Book {
    /// That of a configuration which is in force nowhere.
    pub fn of(config: &Config) -> Book {
        let fingerprint = config::hash(&config.effective);
        Book { fingerprint, ..Book::new(&config.policy, config.places.clone(), 0) }
    }

    /// What is to be remembered of a policy.
    pub fn new(policy: &Policy, places: Places, loaded_unix_nanos: u64) -> Book {
        let route = |route: &crate::policy::Route| RouteName {
            name: route.name.clone(),
            asks: route.matches.iter().map(asked).collect(),
        };
        Book {
            rules: policy.rules.clone(),
            routes: policy.routes.iter().map(route).collect(),
            stores: policy.stores.iter().map(|store| store.name.clone()).collect(),
            header: policy.clients.header.name().to_string(),
            fingerprint: policy.fingerprint.clone(),
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

fn asked(asked: &Match) -> String {
    let mut parts = Vec::new();
    match &asked.host {
        HostMatch::Any => {}
        HostMatch::Exact(host) => parts.push(format!("host {host}")),
        HostMatch::Suffix(suffix) => parts.push(format!("host *{suffix}")),
    }
    match &asked.path {
        PathMatch::Exact(path) => parts.push(format!("exact path {path}{}", spelling(asked))),
        PathMatch::Prefix(prefix) if prefix.is_empty() => {}
        PathMatch::Prefix(prefix) => parts.push(format!("path under {prefix}{}", spelling(asked))),
        PathMatch::Regex(regex) => {
            let whole = regex.as_str();
            let written = whole.strip_prefix(r"\A(?:").and_then(|rest| rest.strip_suffix(r")\z"));
            parts.push(format!("path ~ {}", written.unwrap_or(whole).trim_end()));
        }
    }
    if !asked.methods.is_empty() {
        let methods: Vec<&str> = asked.methods.iter().map(http::Method::as_str).collect();
        parts.push(format!("method {}", methods.join(" or ")));
    }
    parts.extend(asked.headers.iter().map(|(name, _)| format!("header {name}")));
    parts.extend(asked.query.iter().map(|(name, _)| format!("parameter {name}")));
    if parts.is_empty() { "takes everything".to_owned() } else { parts.join(", ") }
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

    #[test]
    fn a_route_says_what_it_asked_for() {
        let all = Match {
            host: HostMatch::Suffix(".example.com".into()),
            path: PathMatch::Regex(whole("/v[0-9]+/.*").unwrap()),
            ignore: None,
            methods: vec![Method::GET, Method::HEAD],
            headers: vec![("x-plan".parse().unwrap(), TextMatch::Exact("gold".into()))],
            query: vec![("q".into(), TextMatch::Exact(String::new()))],
        };
        let told = "host *.example.com, path ~ /v[0-9]+/.*, method GET or HEAD, header x-plan, parameter q";
        assert_eq!(asked(&all), told);
        let any = Match {
            host: HostMatch::Any,
            path: PathMatch::Prefix(String::new()),
            ignore: None,
            methods: Vec::new(),
            headers: Vec::new(),
            query: Vec::new(),
        };
        assert_eq!(asked(&any), "takes everything");
        let route = RouteName { name: "a".into(), asks: vec![told.into(), "path under /b".into()] };
        assert_eq!(route.why(Some(1)), "path under /b");
        assert_eq!(route.why(None), "one of 2 matches");
    }
}
