//! What some words mean to a request: the engine judges by the policy that was loaded.

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tidegate::engine::{Arrival, DecisionId, Engine, Outcome, Verdict};
use tidegate::request::{Peer, Request};
use tidegate::sketch::Seed;
use tidegate::units::Timestamp;

use crate::good;

/// A gate with these limits on three routes, of which the first two share an origin.
fn gate(limits: &str, names: &str) -> Engine {
    let route =
        |path: &str, action: &str| format!("  - {{ match: {{ path: {path} }}, limits: [{names}], {action} }}\n");
    let config = good(&format!(
        "listen: \":8080\"\nlimits:\n{limits}routes:\n{}{}{}{}",
        route("/a", "origin: \"127.0.0.1:3000\""),
        route("/b", "origin: \"127.0.0.1:3000\""),
        route("/c", "origin: \"127.0.0.1:3001\""),
        route("/d", "respond: { status: 200 }"),
    ));
    Engine::new(config.policy, &Seed::from_bytes([7; 16]), 0).unwrap()
}

/// The verdict on a request, and what each limit said.
fn ask(gate: &Engine, path: &str, fields: &[(&'static str, &'static str)]) -> (bool, Vec<(usize, Outcome)>) {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let peer = Peer::Ip("203.0.113.9".parse().unwrap());
    let request =
        Request { peer, method: &Method::GET, host: "a", path, query: None, headers: &headers, tls_sni: None };
    let at = Timestamp::from_nanos(1_000_000_000_000_000);
    let (decision, _) = gate.decide(&request, Arrival { id: DecisionId(1), at, dice: 0 });
    let readings = decision.readings.iter().map(|reading| (reading.rule, reading.outcome)).collect();
    (decision.verdict == Verdict::Admitted, readings)
}

#[test]
fn a_key_with_origin_counts_each_origin_apart_and_its_routes_together() {
    let gate = gate("  r: { key: [client_ip, origin], rate: 1/h }\n", "r");
    let passes = |path| ask(&gate, path, &[]).0;
    assert_eq!([passes("/a"), passes("/b"), passes("/a")], [true, false, false], "one origin");
    assert_eq!([passes("/c"), passes("/c")], [true, false], "another");
    assert_eq!([passes("/d"), passes("/d")], [true, false], "a route that answers by itself");
}

/// What `tidegate test` and `tidegate explain` ask about comes this way.
#[test]
fn a_request_that_nobody_sent_is_judged_by_what_its_peer_may_tell() {
    let limits = "  r: { key: global, rate: 1/h, exempt: [{ header: { x-remote-user: alice } }] }\n";
    let gate = gate(limits, "r");
    let alice = [("x-remote-user", "alice")];
    assert_eq!([ask(&gate, "/a", &alice).0, ask(&gate, "/a", &alice).0], [true, false]);
    let trusting = Engine::new(
        good(&format!(
            "listen: \":8080\"\ntrusted_proxies: [203.0.113.9]\nlimits:\n{limits}routes: [{{ origin: \"127.0.0.1:3000\", limits: [r] }}]\n"
        ))
        .policy,
        &Seed::from_bytes([7; 16]),
        0,
    )
    .unwrap();
    assert_eq!([ask(&trusting, "/a", &alice).0, ask(&trusting, "/a", &alice).0], [true, true]);
}

#[test]
fn a_request_without_the_key_is_counted_by_the_other_limit() {
    let limits = "  r: { key: header:x-api-key, missing: { use: anonymous }, rate: 1/h }\n  anonymous: { rate: 1/h }\n";
    let gate = gate(limits, "r");
    let key = [("x-api-key", "k")];
    assert_eq!(ask(&gate, "/a", &key), (true, vec![(0, Outcome::Admitted)]));
    assert_eq!(ask(&gate, "/a", &[]), (true, vec![(1, Outcome::Admitted)]));
    assert_eq!(ask(&gate, "/a", &[]), (false, vec![(1, Outcome::Refused)]));
    assert_eq!(ask(&gate, "/a", &key), (false, vec![(0, Outcome::Refused)]));
}

#[test]
fn an_exempt_request_is_not_counted_and_a_plain_one_has_no_name_in_its_handshake() {
    let limits = "  r: { rate: 1/h, exempt: [{ cidr: 203.0.113.0/24, header: { x-job: nightly } }] }\n\
                  \x20 s: { key: tls_sni, missing: deny, rate: 1/h, mode: shadow }\n";
    let gate = gate(limits, "r, s");
    let job = [("x-job", "nightly")];
    let exempt = (true, vec![(0, Outcome::Exempt), (1, Outcome::Refused)]);
    assert_eq!([ask(&gate, "/a", &job), ask(&gate, "/a", &job)], [exempt.clone(), exempt]);
    assert_eq!([ask(&gate, "/a", &[]).0, ask(&gate, "/a", &[]).0], [true, false]);
}

#[test]
fn a_share_of_nobody_refuses_nobody_and_a_mark_lets_pass() {
    let nobody = gate("  r: { rate: 1/h, enforce: 0% }\n", "r");
    assert_eq!([ask(&nobody, "/a", &[]).0, ask(&nobody, "/a", &[]).0], [true, true]);
    let mark = gate("  r: { rate: 1/h, action: tag }\n", "r");
    assert_eq!(ask(&mark, "/a", &[]), (true, vec![(0, Outcome::Admitted)]));
    assert_eq!(ask(&mark, "/a", &[]), (true, vec![(0, Outcome::Tagged)]));
}
