//! What is in force, as a policy file: short forms expanded, defaults filled in, secrets masked.
//!
//! Loading it again gives the same policy, and showing that the same text; lists of `deny` stay in their files. The fingerprint is a hash over the whole of it, so equal
//! configurations have equal fingerprints.

mod answer;
mod cors;
mod health;
mod limit;
mod listener;
mod store;
mod words;

use sha2::{Digest, Sha256};

use super::compile::{WrittenClients, WrittenRoute};
use super::pattern::HostPattern;
use super::scalar::{duration, percent};
use super::setting::{Setting, Values};
use super::settings::{AdminPage, Direct, LogTarget, Settings};
use super::tree::Tree;
use super::word::{BodyLimit, Off, OrderWord, Threads};
use crate::client::key::{KeyPart, KeySpec};
use crate::client::trust::{ClientRules, CriticalityField, Trust};
use crate::door::Reserve;
use crate::policy::route::{Action, HostMatch};
use crate::policy::{
    Balance, CertificateFiles, ClientTier, InflightCap, Origin, OriginTls, Policy, QueueOrder, Responses, Route,
};
use answer::own_answer;
use limit::{condition, limit};
use listener::listener;
use store::store;
use words::{deny, key, networks, reserved, word};

/// What only the text still tells.
pub struct Written {
    /// The trusted peers and translation prefixes.
    pub clients: WrittenClients,
    /// The routes' matches and header edits, in the order of the routes.
    pub routes: Vec<WrittenRoute>,
    /// Where the secret comes from.
    pub secret: Option<Tree>,
    /// Where the token of the admin endpoints comes from.
    pub token: Option<Tree>,
    /// Where the passwords of the stores come from, in their order.
    pub passwords: Vec<Option<Tree>>,
    /// The tests, in their long form.
    pub tests: Vec<Tree>,
}

/// The effective configuration.
pub fn effective(policy: &Policy, settings: &Settings, written: &Written) -> Tree {
    let mut tree = vec![
        ("version".to_owned(), Tree::text(1)),
        ("listeners".to_owned(), Tree::map(settings.listeners.iter().map(listener))),
    ];
    let mut add = |name: &str, section: Tree| {
        if !section.is_empty() {
            tree.push((name.to_owned(), section));
        }
    };
    add("secrets", Tree::map(written.secret.iter().map(|secret| ("client_hmac", secret.clone()))));
    add("trusted_proxies", trusted_proxies(&policy.clients, &written.clients));
    add("client_ip", client_ip(&policy.clients, &written.clients));
    add("repeated_fields", word(&policy.repeated_fields));
    add("tiers", Tree::map(policy.tiers.iter().map(|tier| (tier.name.clone(), self::tier(tier)))));
    add("origins", Tree::map(policy.origins.iter().map(|origin| (origin.name.clone(), self::origin(origin)))));
    let stores = policy.stores.iter().zip(&written.passwords);
    add(
        "stores",
        Tree::map(stores.map(|(store, password)| (store.name.clone(), self::store(store, password.as_ref())))),
    );
    add("limits", Tree::map(policy.rules.iter().map(|rule| (rule.name.clone(), limit(rule, policy)))));
    let routes = policy.routes.iter().zip(&written.routes).map(|(route, written)| self::route(route, written, policy));
    add("routes", Tree::List(routes.collect()));
    add("responses", responses(&policy.responses));
    add("telemetry", telemetry(settings));
    add("admin", Tree::map(settings.admin.iter().flat_map(|page| admin(page, written.token.as_ref()))));
    add("server", server(settings));
    add("watch", settings.watch.map_or(Tree::Map(Vec::new()), |every| Tree::text(duration(every))));
    add("tests", Tree::List(written.tests.clone()));
    Tree::Map(tree)
}

/// Returns the fingerprint of an effective configuration: the first twelve hexadecimal digits of its SHA-256. The contents of secrets and
/// certificates have no part in it.
pub fn fingerprint(effective: &Tree) -> String {
    Sha256::digest(effective.to_yaml().as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

fn trusted_proxies(rules: &ClientRules, trusted: &WrittenClients) -> Tree {
    let (on, hops) = match &rules.trust {
        Trust::Off => (false, None),
        Trust::Hops { hops, .. } => (true, Some(*hops)),
        Trust::Proxies(_) => (true, None),
    };
    if !on {
        return Tree::Map(Vec::new());
    }
    let from = networks(&trusted.networks, trusted.unix);
    let mut tree = vec![("header", Tree::text(rules.header.name())), ("from", from)];
    if let Some(hops) = hops {
        tree.push(("hops", Tree::text(hops)));
        tree.push(("short", word(&rules.short)));
    }
    tree.push(("degraded", word(&rules.degraded)));
    if !rules.keep_headers.is_empty() {
        tree.push(("keep_headers", Tree::List(rules.keep_headers.iter().map(Tree::text).collect())));
    }
    if let Some(CriticalityField { name, ceiling }) = &rules.criticality {
        tree.push(("criticality", Tree::map([("field", Tree::text(name)), ("ceiling", word(ceiling))])));
    }
    Tree::map(tree)
}

fn tier(tier: &ClientTier) -> Tree {
    let mut tree = vec![("when", condition(&tier.when)), ("weight", Tree::text(tier.weight))];
    tree.extend(tier.criticality.as_ref().map(|criticality| ("criticality", word(criticality))));
    Tree::map(tree)
}

fn client_ip(rules: &ClientRules, written: &WrittenClients) -> Tree {
    let mut tree = vec![("ipv4_prefix", Tree::text(rules.ipv4_prefix)), ("ipv6_prefix", Tree::text(rules.ipv6_prefix))];
    if !written.translation.is_empty() {
        tree.push(("translation", Tree::texts(&written.translation)));
    }
    Tree::map(tree)
}

fn inflight(cap: &InflightCap) -> Tree {
    let order = if cap.order == QueueOrder::Arrival { OrderWord::Arrival } else { OrderWord::Fair };
    let mut tree = vec![
        ("max", Tree::text(cap.max)),
        ("queue", Tree::text(cap.queue)),
        ("queue_timeout", Tree::text(duration(cap.queue_timeout))),
        ("order", word(&order)),
    ];
    if let Some(((own, _), networks)) = cap.nodes().split_first() {
        tree.push(("key", key(own)));
        let length = |key: &KeySpec| match key.parts() {
            [KeyPart::ClientIp { ipv4_prefix: Some(length), .. }] => *length,
            _ => 0,
        };
        if own.parts().iter().any(|part| matches!(part, KeyPart::ClientIp { .. })) {
            let networks = networks.iter().map(|(key, share)| (length(key).to_string(), Tree::text(share)));
            tree.push(("networks", Tree::map(networks)));
        }
        tree.push(("reserve", Tree::text(reserve(cap.reserve))));
    }
    let reserved = reserved(&cap.reserved);
    if !reserved.is_empty() {
        tree.push(("reserved", reserved));
    }
    tree.push(("upgraded", Tree::text(cap.upgraded)));
    Tree::map(tree)
}

fn reserve(reserve: Reserve) -> String {
    match reserve {
        Reserve::Learned => "learned".to_owned(),
        Reserve::None => "none".to_owned(),
        Reserve::Share(share) => percent(f64::from(share)),
    }
}

fn origin(origin: &Origin) -> Tree {
    let addresses = origin.addresses.iter().map(|address| {
        Tree::map([
            ("address", Tree::text(address.authority())),
            ("weight", Tree::text(address.weight)),
            ("resolve", Tree::text(duration(address.resolve))),
        ])
    });
    let balance = match &origin.balance {
        Balance::RoundRobin => Tree::text("round_robin"),
        Balance::LeastInflight => Tree::text("least_inflight"),
        Balance::Hash(spec) => Tree::map([("hash", key(spec))]),
    };
    let mut tree = vec![("addresses", Tree::List(addresses.collect())), ("balance", balance)];
    if let Some(cap) = &origin.inflight {
        tree.push(("inflight", inflight(cap)));
    }
    tree.push(("timeouts", origin.timeouts.tree()));
    tree.push(("retries", health::retries(&origin.retries)));
    tree.extend(origin.health.as_ref().map(|check| ("health", health::health(check))));
    tree.extend(origin.ejection.as_ref().map(|ejection| ("ejection", ejection.tree())));
    if !origin.slow_start.is_zero() {
        tree.push(("slow_start", Tree::text(duration(origin.slow_start))));
    }
    tree.extend(origin.adaptive.as_ref().map(|adaptive| ("adaptive", health::adaptive(adaptive))));
    tree.push(("on_client_abort", word(&origin.on_client_abort)));
    tree.push(("protocol", word(&origin.protocol)));
    tree.extend(origin.tls.as_ref().map(|tls| ("tls", origin_tls(tls))));
    Tree::map(tree)
}

fn origin_tls(tls: &OriginTls) -> Tree {
    let mut tree = Vec::new();
    tree.extend(tls.sni.as_ref().map(|name| ("sni", Tree::text(name))));
    if !tls.ca.is_empty() {
        tree.push(("ca", Tree::texts(tls.ca.iter().map(|file| file.display()))));
    }
    tree.push(("verify", Tree::text(tls.verify)));
    if let Some(CertificateFiles { cert, key }) = &tls.client_certificate {
        let files = [("cert", Tree::text(cert.display())), ("key", Tree::text(key.display()))];
        tree.push(("client_certificate", Tree::map(files)));
    }
    Tree::map(tree)
}

fn route(route: &Route, written: &WrittenRoute, policy: &Policy) -> Tree {
    let mut tree = vec![("name", Tree::text(&route.name))];
    if !written.matches.is_empty() {
        tree.push(("match", Tree::List(written.matches.clone())));
    }
    let limits = route.rules.iter().filter_map(|rule| policy.rules.get(*rule)).map(|rule| Tree::text(&rule.name));
    tree.push(("limits", Tree::List(limits.collect())));
    match &route.action {
        Action::Forward(origin) => {
            tree.extend(policy.origins.get(*origin).map(|origin| ("origin", Tree::text(&origin.name))));
        }
        Action::Respond(answer) => {
            let mut respond = vec![("status", Tree::text(answer.status.as_u16()))];
            if !answer.body.is_empty() {
                respond.push(("body", Tree::text(String::from_utf8_lossy(&answer.body))));
            }
            let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
            let mut headers: Vec<(String, Tree)> = Vec::new();
            for name in answer.headers.keys() {
                let values = answer.headers.get_all(name).iter().map(text);
                if *name == http::header::CONTENT_TYPE {
                    respond.extend(values.map(|value| ("content_type", Tree::text(value))));
                } else {
                    headers.push((name.to_string(), Tree::texts(values)));
                }
            }
            // a header map has no order of its own
            headers.sort_by(|a, b| a.0.cmp(&b.0));
            if !headers.is_empty() {
                respond.push(("headers", Tree::Map(headers)));
            }
            tree.push(("respond", Tree::map(respond)));
        }
    }
    for (name, edits) in
        [("request_headers", &written.request_headers), ("response_headers", &written.response_headers)]
    {
        if !edits.is_empty() {
            tree.push((name, edits.clone()));
        }
    }
    tree.extend(route.cors.as_ref().map(|own| ("cors", cors::cors(own))));
    let answers = [("limited", own_answer(&route.limited)), ("overloaded", own_answer(&route.overloaded))];
    let answers: Vec<_> = answers.into_iter().filter(|(_, answer)| !answer.is_empty()).collect();
    if !answers.is_empty() {
        tree.push(("responses", Tree::map(answers)));
    }
    tree.push(("body_limit", BodyLimit::tree(&route.body_limit)));
    tree.push(("timeouts", route.timeouts.tree()));
    tree.push(("criticality", word(&route.criticality)));
    tree.extend(deny(&route.deny));
    Tree::map(tree)
}

fn responses(responses: &Responses) -> Tree {
    let mut tree = vec![
        ("ratelimit_headers", word(&responses.fields)),
        ("report", word(&responses.report)),
        ("expose", Tree::text(responses.expose)),
        ("retry_after", Tree::map([("jitter", Tree::text(percent(responses.retry_jitter.get())))])),
        ("limited", own_answer(&responses.limited)),
        ("overloaded", own_answer(&responses.overloaded)),
        ("decision_id", Tree::text(responses.decision_id)),
    ];
    tree.extend(responses.proxy_name.iter().map(|name| ("proxy_name", Tree::text(name))));
    Tree::map(tree)
}

fn telemetry(settings: &Settings) -> Tree {
    let mut tree = Vec::new();
    if let Some(page) = &settings.metrics {
        let mut metrics = vec![("address", Tree::text(page.address)), ("path", Tree::text(&page.path))];
        metrics.extend(hosts(&page.hosts));
        tree.push(("metrics", Tree::map(metrics)));
    }
    if let Some(log) = &settings.access_log {
        let words = [
            ("to", LogTarget::tree(&log.to)),
            ("format", word(&log.format)),
            ("client", word(&log.client)),
            ("sample", log.sample.tree()),
        ];
        tree.push(("access_log", Tree::map(words)));
    }
    tree.push(("log", settings.log.tree()));
    Tree::map(tree)
}

fn admin(page: &AdminPage, token: Option<&Tree>) -> Vec<(&'static str, Tree)> {
    let mut tree = vec![("address", Tree::text(page.address))];
    tree.extend(token.map(|token| ("token", token.clone())));
    tree.extend(page.open.then(|| ("open", Tree::text(true))));
    tree.extend(hosts(&page.hosts));
    tree
}

/// The names of a page for operators, if it has any.
fn hosts(hosts: &[HostMatch]) -> Option<(&'static str, Tree)> {
    let names: Vec<String> = hosts.iter().filter_map(HostPattern::text).collect();
    (!names.is_empty()).then(|| ("hosts", Tree::texts(names)))
}

fn server(settings: &Settings) -> Tree {
    let mut tree = vec![
        ("threads", Threads::tree(&settings.threads)),
        ("max_buffered", Tree::text(settings.max_buffered)),
        ("overload", settings.overload.as_ref().map_or_else(|| word(&Off), Values::tree)),
        ("direct", Direct::tree(&settings.direct)),
        ("drain", settings.drain.tree()),
    ];
    let state = settings.state.as_ref().map(|state| {
        Tree::map([
            ("directory", Tree::text(state.directory.display())),
            ("every", Tree::text(duration(state.every))),
            ("fsync", Tree::text(state.fsync)),
        ])
    });
    tree.extend(state.map(|state| ("state", state)));
    Tree::map(tree)
}
