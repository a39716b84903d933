//! Connections that are closed before they cost anything: unwanted networks, and clients in a long penalty.

use std::net::Ipv4Addr;

use crate::harness::{Connection, Gate, Origin, Reply};

const GOOD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const BAD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

fn gate(origin: &Origin, connections: &str) -> Gate {
    Gate::start(&format!(
        "trusted_proxies: [127.0.0.1]
listeners:
  main: {{ address: \"127.0.0.1:0\", proxy_protocol: optional, connections: {connections} }}
origins:
  app: {{ addresses: [\"{}\"] }}
limits:
  abusers: {{ type: recent_average, rate: 1/h, half_life: 1h, count: all, max_penalty: 10h, key: client_ip }}
routes:
  - {{ name: site, origin: app, limits: [abusers] }}
",
        origin.address()
    ))
}

/// The status of one request on a connection of its own; `None` when that is closed at once.
fn status(gate: &Gate, source: Ipv4Addr, first: &str) -> Option<u16> {
    let mut connection = Connection::open_from(source, gate.address("main"));
    connection.send(format!("{first}GET / HTTP/1.1\r\nHost: gate.example\r\n\r\n").as_bytes()).ok()?;
    connection.answer_to("GET").ok().map(|answer| answer.status)
}

fn refused(gate: &Gate, reason: &str) -> f64 {
    gate.metrics().sum("tidegate_connections_refused_total", &[("reason", reason)])
}

#[test]
fn unwanted_networks_are_closed_whoever_passes_them_on() {
    let origin = Origin::start(|_| Reply::Ok);
    let gate = gate(&origin, "{ refuse: [127.0.0.3, 203.0.113.0/24, \"2001:db8:bad::/48\"] }");
    assert_eq!(status(&gate, BAD, ""), None);
    assert_eq!(status(&gate, GOOD, ""), Some(200));
    let proxy = Ipv4Addr::LOCALHOST;
    for (named, answer) in [
        ("PROXY TCP4 203.0.113.77 192.0.2.1 1 2\r\n", None),
        ("PROXY TCP6 2001:db8:bad:1::1 ::1 1 2\r\n", None),
        ("PROXY TCP4 198.51.100.1 192.0.2.1 1 2\r\n", Some(200)),
        ("", Some(200)),
    ] {
        assert_eq!(status(&gate, proxy, named), answer, "{named:?}");
    }
    assert_eq!(refused(&gate, "listed"), 3.0);
    assert_eq!(origin.count(), 3);
    gate.counts("tidegate_connections", &[], 0.0);
}

#[test]
fn a_client_in_a_long_penalty_is_closed_at_accept_and_nobody_else() {
    let origin = Origin::start(|_| Reply::Ok);
    let gate = gate(&origin, "{ refuse_at_accept: { limit: abusers, above: 1h } }");
    // a connection that is open already is answered; a second hour of penalty is what a slow machine may take for the rest
    let mut connection = Connection::open_from(BAD, gate.address("main"));
    let asked = (1..=100).find(|_| {
        let answer = connection.ask("GET", "/", "", b"");
        let wait = answer.field("retry-after").and_then(|wait| wait.parse::<u64>().ok()).unwrap_or(0);
        assert!(answer.keeps_connection(), "{answer:?}");
        wait > 2 * 3_600
    });
    let asked = asked.expect("a long penalty");
    assert_eq!(refused(&gate, "penalty"), 0.0);
    let before = gate.metrics().sum("tidegate_limit_decisions_total", &[("limit", "abusers")]);
    for _ in 0..20 {
        assert_eq!(status(&gate, BAD, ""), None, "after {asked} requests");
        assert_eq!(status(&gate, Ipv4Addr::LOCALHOST, "PROXY TCP4 127.0.0.3 192.0.2.1 1 2\r\n"), None, "named, too");
    }
    assert_eq!(refused(&gate, "penalty"), 40.0);
    let after = gate.metrics().sum("tidegate_limit_decisions_total", &[("limit", "abusers")]);
    assert_eq!(before, after, "no limit was asked about a request");
    assert_eq!(status(&gate, GOOD, ""), Some(200));
    assert_eq!(status(&gate, Ipv4Addr::LOCALHOST, "PROXY TCP4 203.0.113.1 192.0.2.1 1 2\r\n"), Some(200));
}

#[test]
fn a_short_penalty_is_answered_as_ever() {
    let origin = Origin::start(|_| Reply::Ok);
    let gate = gate(&origin, "{ refuse_at_accept: { limit: abusers, above: 24h } }");
    // an average of one request an hour has room for 1.44
    let statuses = [(), ()].map(|()| status(&gate, BAD, ""));
    assert_eq!(statuses, [Some(200), Some(429)]);
    assert_eq!(status(&gate, BAD, ""), Some(429), "the client is told when to come back");
    assert_eq!(refused(&gate, "penalty"), 0.0);
}
