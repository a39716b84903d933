//! Which certificate is shown, and what is learned from a handshake.

use std::sync::Arc;

use tokio_rustls::rustls::HandshakeKind;
use tokio_rustls::rustls::version::{TLS12, TLS13};

use super::{Site, policy};
use crate::harness::tls::{Authority, Files, connect};
use crate::harness::{Connection, Gate, Origin, Reply};

#[test]
fn certificates_of_the_top_level_are_those_of_every_listener_that_is_not_plain() {
    let origin = Origin::that(Reply::Ok);
    let (authority, files) = (Authority::new("of the site"), Files::new());
    let pair = files.put_pair("a", &authority.sign(&["a.test"]));
    let gate = Gate::start(&format!(
        "tls: {pair}
listeners:
  main: {{ address: \"127.0.0.1:0\" }}
  plain: {{ address: \"127.0.0.1:0\", tls: off }}
  other: {{ address: \"127.0.0.1:0\", redirect: https }}
routes: [{{ origin: \"{}\" }}]
",
        origin.address()
    ));
    let mut secure = authority.client().connect(gate.address("main"), "a.test");
    assert_eq!(secure.ask("GET", "/", "", b"").status, 200);
    let plain = |listener| Connection::open(gate.address(listener)).ask("GET", "/", "Host: a.test\r\n", b"").status;
    assert_eq!((plain("plain"), plain("other")), (200, 301));
}

#[test]
fn the_name_that_is_asked_for_picks_the_certificate() {
    let origin = Origin::that(Reply::Ok);
    let (authority, files) = (Authority::new("of the site"), Files::new());
    let signed = [&["a.test"][..], &["*.wild.test"], &["one.wild.test", "c.test"]].map(|names| authority.sign(names));
    let listed: Vec<String> = (0..3).map(|place| files.put_pair(&format!("c{place}"), &signed[place])).collect();
    let gate = Gate::start(&policy(&format!("{{ certificates: [{}] }}", listed.join(", ")), &origin, ""));
    let shown = |name: &str| {
        let connection = authority.client().connect(gate.address("main"), name);
        connection.tls().peer_certificates().unwrap()[0].clone()
    };
    assert_eq!(shown("a.test"), signed[0].der());
    assert_eq!(shown("two.wild.test"), signed[1].der());
    assert_eq!(shown("one.wild.test"), signed[2].der());
    assert_eq!(shown("ONE.wild.TEST"), signed[2].der());
    assert_eq!(shown("c.test"), signed[2].der());
    // for any other name the first is shown, which this client does not accept
    for name in ["x.y.wild.test", "other.test", "127.0.0.1"] {
        assert!(authority.client().try_connect(gate.address("main"), name).is_err(), "{name}");
    }
    gate.counts("tidegate_tls_handshake_failures_total", &[("reason", "refused_by_client")], 3.0);
    let metrics = gate.metrics();
    for name in ["a.test", "*.wild.test", "one.wild.test"] {
        let labels = [("listener", "main"), ("certificate", name)];
        // rcgen's certificates end on the first of January 4096
        assert_eq!(
            metrics.sum("tidegate_tls_certificate_expiry_timestamp_seconds", &labels),
            67_090_118_400.0,
            "{name}"
        );
        assert_eq!(metrics.sum("tidegate_tls_certificate_reload_successful", &labels), 1.0, "{name}");
    }
}

#[test]
fn both_versions_are_spoken_and_counted_and_a_connection_is_kept() {
    let origin = Origin::that(Reply::Echo);
    let site = Site::start(&origin, "");
    for (version, word) in [(&TLS12, "1.2"), (&TLS13, "1.3")] {
        let client = site.authority.client_of(version);
        let mut connection = client.connect(site.gate.address("main"), "a.test");
        let large = vec![b'x'; 200_000];
        for body in [&b"one"[..], &large, b""] {
            let answer = connection.ask("POST", "/", "X-Forwarded-Proto: http\r\n", body);
            assert_eq!((answer.status, answer.body.as_slice()), (200, body));
        }
        let labels = [("listener", "main"), ("version", word), ("resumed", "false")];
        site.gate.counts("tidegate_tls_handshakes_total", &labels, 1.0);
    }
    for arrival in origin.arrivals() {
        assert_eq!(arrival.lines("x-forwarded-proto"), ["https"], "a stranger's word is not passed on");
    }
    site.gate.counts("tidegate_connections_accepted_total", &[], 2.0);
}

#[test]
fn the_end_of_a_connection_is_said_and_not_cut() {
    let origin = Origin::that(Reply::Ok);
    let site = Site::start(&origin, "");
    let mut connection = site.connect("a.test");
    assert_eq!(connection.ask("GET", "/", "Connection: close\r\n", b"").status, 200);
    // a cut would be an error (`close_notify`)
    assert!(connection.rest().unwrap().is_empty());
    assert!(connection.has_ended_well());
}

#[test]
fn a_client_that_comes_back_resumes() {
    let origin = Origin::that(Reply::Ok);
    let site = Site::start(&origin, "");
    for version in [&TLS12, &TLS13] {
        let config = Arc::new(site.authority.client_of(version).config);
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let mut connection = connect(Arc::clone(&config), site.gate.address("main"), "a.test").unwrap();
            // tickets come with the answer
            assert_eq!(connection.ask("GET", "/", "", b"").status, 200);
            assert_eq!(connection.tls().handshake_kind(), Some(kind));
        }
    }
    site.gate.counts("tidegate_tls_handshakes_total", &[("resumed", "true")], 2.0);
}

#[test]
fn limits_hold_over_tls_whatever_the_number_of_connections() {
    let origin = Origin::that(Reply::Ok);
    let (authority, files) = (Authority::new("of the site"), Files::new());
    let pair = files.put_pair("a", &authority.sign(&["a.test"]));
    let gate = Gate::start(&format!(
        "listeners:\n  main: {{ address: \"127.0.0.1:0\", tls: {{ certificates: {pair} }} }}
routes:\n  - {{ name: site, origin: \"{}\", limit: 3/h burst 3 }}\n",
        origin.address()
    ));
    let statuses: Vec<u16> = (0..3)
        .flat_map(|_| {
            let mut connection = authority.client().connect(gate.address("main"), "a.test");
            [connection.ask("GET", "/", "", b"").status, connection.ask("POST", "/", "", b"x").status]
        })
        .collect();
    assert_eq!(statuses, [200, 200, 200, 429, 429, 429]);
    assert_eq!(origin.count(), 3);
}

#[test]
fn the_name_that_was_asked_for_can_be_counted_by() {
    let origin = Origin::that(Reply::Ok);
    let (authority, files) = (Authority::new("of the site"), Files::new());
    let pair = files.put_pair("a", &authority.sign(&["a.test", "b.test"]));
    let gate = Gate::start(&format!(
        "listeners:\n  main: {{ address: \"127.0.0.1:0\", tls: {{ certificates: {pair} }} }}
limits:\n  by_name: {{ key: tls_sni, missing: deny, rate: 2/h, burst: 2 }}
routes:\n  - {{ name: site, origin: \"{}\", limits: [by_name] }}\n",
        origin.address()
    ));
    let client = authority.client();
    let ask = |name: &str, method: &str| {
        let body: &[u8] = if method == "POST" { b"x" } else { b"" };
        client.connect(gate.address("main"), name).ask(method, "/", "", body).status
    };
    // judged early and judged late, one name
    assert_eq!([ask("a.test", "GET"), ask("A.test", "POST"), ask("a.TEST", "GET")], [200, 200, 429]);
    assert_eq!(ask("a.test", "POST"), 429);
    assert_eq!(ask("b.test", "GET"), 200);
}
