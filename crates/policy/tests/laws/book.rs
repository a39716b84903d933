//! A rule book made by hand, and requests to judge by it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes as Body;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tidegate_limits::limiter::{Kind, RefusedCount, Scope, kinds};
use tidegate_limits::sketch::Seed;
use tidegate_limits::units::{Bytes, Prefix, Rate, Timestamp};
use tidegate_policy::client::key::{KeyPart, KeySpec, Missing};
use tidegate_policy::client::{ClientRules, ProxySet, Trust};
use tidegate_policy::engine::{Arrival, Decision, DecisionId, Engine, Holds};
use tidegate_policy::policy::{
    Action, FixedAnswer, HeaderEdits, Mode, Policy, Responses, Route, RouteTable, Rule, Timeouts,
};
use tidegate_policy::request::{Peer, Request};

/// `events` per second with `burst`, by client.
pub fn rate(name: &str, events: u32, burst: u32, mode: Mode) -> Rule {
    let rate = Rate::new(events, Duration::from_secs(1)).unwrap();
    let kind = Kind::Rate(kinds::Rate { rate, burst, memory: Bytes(1 << 20) });
    let client_ip = KeyPart::ClientIp { ipv4_prefix: None, ipv6_prefix: None };
    let key = KeySpec::new([client_ip], None).unwrap();
    Rule::new(name, key, kind, mode)
}

/// A limit of this kind by client.
pub fn by_client(name: &str, kind: Kind) -> Rule {
    Rule::new(name, KeySpec::new([KeyPart::CLIENT_IP], None).unwrap(), kind, Mode::Enforce)
}

/// At most `max` different values of the header `x-name` per client and window.
pub fn distinct(max: u32, window: Duration, sliding: bool) -> Rule {
    let kind = Kind::Distinct(kinds::Distinct {
        max,
        window,
        sliding,
        refused: RefusedCount::Admitted,
        memory: Bytes(1 << 20),
    });
    let of = KeySpec::new([KeyPart::Header("x-name".parse().unwrap())], Some(Missing::Allow)).unwrap();
    Rule { of: Some(of), ..by_client("distinct", kind) }
}

/// The same in windows that move along, where refused values count too and keep a client out for so long at most.
pub fn strict_distinct(max: u32, window: Duration, max_penalty: Duration) -> Rule {
    let refused = RefusedCount::All { max_penalty };
    let kind = Kind::Distinct(kinds::Distinct { max, window, sliding: true, refused, memory: Bytes(1 << 20) });
    Rule { kind, name: "strict_distinct".into(), ..distinct(max, window, true) }
}

/// Client, then the networks around it, sharing so many requests per second.
pub fn fair_share(per_second: u32) -> Rule {
    let prefixes = |ipv4, ipv6| KeyPart::ClientIp { ipv4_prefix: Some(ipv4), ipv6_prefix: Some(ipv6) };
    let nodes = [KeyPart::CLIENT_IP, prefixes(24, 48), prefixes(16, 32)];
    let kind = Kind::FairShare(kinds::FairShare {
        networks: vec![(24, 16), (16, 64)],
        ..kinds::FairShare::of(Rate::new(per_second, Duration::from_secs(1)).unwrap())
    });
    let key = KeySpec::new([KeyPart::CLIENT_IP], None).unwrap();
    let nodes = nodes.into_iter().map(|part| KeySpec::new([part], None).unwrap()).collect();
    Rule { nodes, ..Rule::new("share", key, kind, Mode::Enforce) }
}

/// At most `max` at once per client.
pub fn inflight_by_client(max: u32) -> Rule {
    by_client(
        "concurrency",
        Kind::Inflight(kinds::Inflight { max, upgraded: max, scope: Scope::Key { memory: Bytes(1 << 20) } }),
    )
}

/// At most `max` at once.
pub fn inflight(name: &str, max: u32, mode: Mode) -> Rule {
    let key = KeySpec::new([KeyPart::Global], None).unwrap();
    Rule::new(name, key, Kind::Inflight(kinds::Inflight { max, upgraded: max, scope: Scope::Global }), mode)
}

/// The same limit, counted by a header.
pub fn by_header(mut rule: Rule, missing: Missing) -> Rule {
    let part = KeyPart::Header("x-api-key".parse().unwrap());
    rule.key = KeySpec::new([part], Some(missing)).unwrap();
    rule
}

/// One route for everything, with these limits.
pub fn book(rules: Vec<Rule>) -> Engine {
    let route = Route {
        name: "all".into(),
        matches: Vec::new(),
        rules: (0..rules.len()).collect(),
        action: Action::Respond(FixedAnswer { status: StatusCode::OK, body: Body::new(), headers: HeaderMap::new() }),
        request_headers: HeaderEdits::default(),
        response_headers: HeaderEdits::default(),
        cors: None,
        limited: Default::default(),
        overloaded: Default::default(),
        deny: Default::default(),
        body_limit: None,
        timeouts: Timeouts::default(),
        criticality: Default::default(),
    };
    let loopback = Prefix::new("127.0.0.0".parse().unwrap(), 8).unwrap();
    let policy = Policy {
        clients: ClientRules { trust: Trust::Proxies(ProxySet::new([loopback], false)), ..ClientRules::default() },
        repeated_fields: Default::default(),
        tiers: Vec::new(),
        rules: rules.into_iter().map(Arc::new).collect(),
        origins: Vec::new(),
        stores: Vec::new(),
        routes: RouteTable::new(vec![route]),
        responses: Responses::default(),
    };
    Engine::new(policy, &Seed::from_bytes([3; 16]), 0).unwrap()
}

/// The head of a request of `client`, as a trusted proxy passes it on.
pub fn head(client: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("x-forwarded-for", HeaderValue::from_str(client).unwrap());
    headers
}

/// One request with this head at `nanos`.
pub fn ask(engine: &Engine, headers: &HeaderMap, nanos: u64) -> (Decision, Holds) {
    engine.decide(&request(headers), arrival(nanos))
}

/// A plain GET with these fields.
pub fn request(headers: &HeaderMap) -> Request<'_> {
    let peer = Peer::Ip("127.0.0.1".parse().unwrap());
    Request {
        peer,
        method: &Method::GET,
        host: "shop.example.com",
        path: "/a/b",
        query: Some("c=d"),
        headers,
        tls_sni: None,
    }
}

/// A request's stamp and dice.
pub fn arrival(nanos: u64) -> Arrival {
    Arrival { id: DecisionId(nanos), at: Timestamp::from_nanos(nanos), dice: 7 }
}
