//! A listener that sends everybody to TLS.

use crate::harness::{Gate, Origin, Reply};

fn gate(redirect: &str, routes: &str) -> Gate {
    Gate::start(&format!(
        "listeners:\n  main: {{ address: \"127.0.0.1:0\", redirect: {redirect} }}\n  plain: {{ address: \"127.0.0.1:0\" }}
limits:\n  few: {{ rate: 1/h, burst: 1 }}\nroutes:\n{routes}"
    ))
}

#[test]
fn every_request_is_sent_to_the_same_address_by_tls() {
    let origin = Origin::that(Reply::Ok);
    let site = format!("  - {{ name: site, origin: \"{}\", limits: [few] }}\n", origin.address());
    let gate = gate("https", &site);
    let mut connection = gate.connect();
    for (method, target, host, body, status, location) in [
        ("GET", "/a/b?c=d", "Shop.Example.com:8080", &b""[..], 301, "https://shop.example.com/a/b?c=d"),
        ("HEAD", "/", "a.test.", b"", 301, "https://a.test/"),
        ("POST", "/form", "a.test", b"x=y", 308, "https://a.test/form"),
        ("DELETE", "/x", "[2001:db8::1]", b"", 308, "https://[2001:db8::1]/x"),
        ("GET", "http://b.test/absolute", "b.test", b"", 301, "https://b.test/absolute"),
        ("GET", "/.well-known/acme-challengers", "a.test", b"", 301, "https://a.test/.well-known/acme-challengers"),
    ] {
        let answer = connection.ask(method, target, &format!("Host: {host}\r\n"), body);
        assert_eq!((answer.status, answer.field("location").as_deref()), (status, Some(location)), "{method} {target}");
        assert!(answer.complete && answer.body.is_empty());
    }
    assert_eq!(origin.count(), 0);
    gate.counts("tidegate_requests_total", &[("listener", "main"), ("route", "_none"), ("code", "3xx")], 6.0);
    assert_eq!(gate.log_of(6).iter().map(|entry| entry.status).collect::<Vec<_>>(), [301, 301, 308, 308, 301, 301]);
    // no limit was asked
    assert_eq!(gate.metrics().sum("tidegate_limit_decisions_total", &[]), 0.0);
    // other listeners serve as before
    let mut plain = crate::harness::Connection::open(gate.address("plain"));
    assert_eq!(plain.ask("GET", "/", "", b"").status, 200);
}

#[test]
fn the_port_is_said_when_it_is_another() {
    let gate = gate("https:8443", "  - { name: site, respond: { status: 200, body: here } }\n");
    assert_eq!(gate.fetch("/", "Host: a.test\r\n").field("location").as_deref(), Some("https://a.test:8443/"));
}

#[test]
fn challenges_go_to_the_route_that_takes_them() {
    let route = "  - { name: challenges, match: { path: /.well-known/acme-challenge }, respond: { status: 200, body: token } }\n";
    let gate = gate("https", route);
    assert_eq!(gate.fetch("/.well-known/acme-challenge/x", "").text(), "token");
    let posted = gate.connect().ask("POST", "/.well-known/acme-challenge/x", "", b"body");
    assert_eq!((posted.status, posted.text().as_str()), (200, "token"));
    assert_eq!(gate.fetch("/", "").status, 301);
}

#[test]
fn challenges_without_a_route_are_redirected_like_all_else() {
    let gate = gate("https", "  - { name: other, match: { path: /other }, respond: { status: 200, body: other } }\n");
    let answer = gate.fetch("/.well-known/acme-challenge/x", "Host: a.test\r\n");
    assert_eq!(answer.field("location").as_deref(), Some("https://a.test/.well-known/acme-challenge/x"));
}
