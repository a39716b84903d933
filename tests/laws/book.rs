//! A rule book made by hand, and requests to judge by it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes as Body;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tidegate::client::key::{KeyPart, KeySpec, Missing};
use tidegate::client::{ClientRules, ForwardHeader, OnDegraded, OnShort, ProxySet, Trust};
use tidegate::engine::{Arrival, Decision, DecisionId, Permits, Snapshot};
use tidegate::limiter::{Kind, Scope};
use tidegate::policy::{Action, FixedAnswer, HeaderEdits, Mode, Policy, Responses, Route, RouteTable, Rule, Timeouts};
use tidegate::request::{Peer, Request};
use tidegate::sketch::Seed;
use tidegate::units::{Bytes, Cost, Prefix, Rate, Timestamp};

/// `events` per second with `burst`, by client.
pub fn rate(name: &str, events: u32, burst: u32, mode: Mode) -> Rule {
    let rate = Rate::new(events, Duration::from_secs(1)).unwrap();
    let kind = Kind::Rate { rate, burst, memory: Bytes(1 << 20) };
    let client_ip = KeyPart::ClientIp { ipv4_prefix: None, ipv6_prefix: None };
    let key = KeySpec::new([client_ip], None).unwrap();
    Rule { name: name.into(), key, kind, cost: Cost::ONE, mode }
}

/// At most `max` at once.
pub fn inflight(name: &str, max: u32, mode: Mode) -> Rule {
    let key = KeySpec::new([KeyPart::Global], None).unwrap();
    Rule { name: name.into(), key, kind: Kind::Inflight { max, scope: Scope::Global }, cost: Cost::ONE, mode }
}

/// The same limit, counted by a header.
pub fn by_header(mut rule: Rule, missing: Missing) -> Rule {
    let part = KeyPart::Header("x-api-key".parse().unwrap());
    rule.key = KeySpec::new([part], Some(missing)).unwrap();
    rule
}

/// One route for everything, with these limits.
pub fn book(rules: Vec<Rule>) -> Snapshot {
    let route = Route {
        name: "all".into(),
        matches: Vec::new(),
        rules: (0..rules.len()).collect(),
        action: Action::Respond(FixedAnswer { status: StatusCode::OK, body: Body::new(), headers: HeaderMap::new() }),
        request_headers: HeaderEdits::default(),
        response_headers: HeaderEdits::default(),
        body_limit: None,
        timeouts: Timeouts::default(),
    };
    let loopback = Prefix::new("127.0.0.0".parse().unwrap(), 8).unwrap();
    let policy = Policy {
        clients: ClientRules {
            trust: Trust::Proxies(ProxySet::new([loopback], false)),
            header: ForwardHeader::XForwardedFor,
            short: OnShort::Peer,
            degraded: OnDegraded::Hop,
            ipv4_prefix: 32,
            ipv6_prefix: 64,
            translation: Vec::new(),
        },
        rules: rules.into_iter().map(Arc::new).collect(),
        origins: Vec::new(),
        routes: RouteTable::new(vec![route]),
        responses: Responses::default(),
        fingerprint: String::new(),
    };
    Snapshot::new(policy, &Seed::from_bytes([3; 16])).unwrap()
}

/// The head of a request of `client`, as a trusted proxy passes it on.
pub fn head(client: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("x-forwarded-for", HeaderValue::from_str(client).unwrap());
    headers
}

/// One request with this head at `nanos`.
pub fn ask(snapshot: &Snapshot, headers: &HeaderMap, nanos: u64) -> (Decision, Permits) {
    snapshot.decide(&request(headers), arrival(nanos))
}

/// A plain GET with these fields.
pub fn request(headers: &HeaderMap) -> Request<'_> {
    let peer = Peer::Ip("127.0.0.1".parse().unwrap());
    Request { peer, method: &Method::GET, host: "shop.example.com", path: "/a/b", query: Some("c=d"), headers }
}

/// A request's stamp and dice.
pub fn arrival(nanos: u64) -> Arrival {
    Arrival { id: DecisionId(nanos), at: Timestamp::from_nanos(nanos), dice: 7 }
}
