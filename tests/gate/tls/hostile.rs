//! Handshakes that come to nothing, and files that cannot be used.

use std::time::Duration;

use super::{Site, policy};
use crate::harness::gate::run_to_end;
use crate::harness::tls::{Authority, Files};
use crate::harness::{Connection, Gate, Origin, Reply, wait_for, wait_within};

#[test]
fn what_is_no_tls_is_counted_and_told_in_a_line_a_minute() {
    let origin = Origin::that(Reply::Ok);
    let mut site = Site::start(&origin, "");
    let before = site.gate.talk().lines().count();
    // balancers look that way whether somebody listens: counted, but nothing to tell
    for _ in 0..10 {
        drop(Connection::open(site.gate.address("main")));
    }
    site.gate.counts("tidegate_tls_handshake_failures_total", &[("reason", "closed")], 10.0);
    for noise in
        [&b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"[..], b"\0\0\0\0\0\0\0\0", b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n"]
    {
        for _ in 0..10 {
            let mut connection = Connection::open(site.gate.address("main"));
            let _ = connection.send(noise);
            let rest = connection.rest().unwrap();
            assert!(rest.len() < 16, "at most an alert: {rest:?}");
        }
    }
    let labels = [("listener", "main"), ("reason", "not_tls")];
    site.gate.counts("tidegate_tls_handshake_failures_total", &labels, 30.0);
    // and clients that go away in the middle
    for _ in 0..10 {
        let mut connection = Connection::open(site.gate.address("main"));
        connection.send(&CLIENT_HELLO_BEGUN).unwrap();
    }
    site.gate.counts("tidegate_tls_handshake_failures_total", &[("reason", "closed")], 20.0);
    let line = told_of(&site.gate);
    assert!(line.contains("tls/not_tls") && !line.contains("tls/closed 2"), "{line}");
    assert!(!line.contains("127.0.0.1"), "the client stays a pseudonym: {line}");
    let said = site.gate.talk();
    // a second one only if all this took a minute
    assert!(said.lines().count() - before <= 2, "{said}");
    assert_eq!(site.connect("a.test").ask("GET", "/", "", b"").status, 200);
    assert!(site.gate.is_alive());
}

/// The first line about clients that misbehave.
fn told_of(gate: &Gate) -> String {
    wait_for("the line", || gate.talk().lines().find(|line| line.contains("clients misbehaved")).map(str::to_owned))
}

/// A record of 16 KiB, of which only the beginning is there: a hello of TLS 1.2.
const CLIENT_HELLO_BEGUN: [u8; 11] = [0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc, 3, 3];

#[test]
fn a_handshake_that_is_never_finished_ends_at_its_deadline() {
    let origin = Origin::that(Reply::Ok);
    let (authority, files) = (Authority::new("of the site"), Files::new());
    let pair = files.put_pair("a", &authority.sign(&["a.test"]));
    let words = "connections: { handshake_deadline: 2s }";
    let gate = Gate::start(&policy(&format!("{{ certificates: {pair} }}, {words}"), &origin, ""));
    let mut silent = Connection::open(gate.address("main"));
    let mut stalled = Connection::open(gate.address("main"));
    stalled.send(&CLIENT_HELLO_BEGUN).unwrap();
    let mut dripping = Connection::open(gate.address("main"));
    dripping.send(&CLIENT_HELLO_BEGUN).unwrap();
    // a byte now and then does not buy time
    wait_within(Duration::from_secs(60), "all three to be given up", &mut || {
        let _ = dripping.send(&[0]);
        let labels = [("listener", "main"), ("reason", "late")];
        (gate.metrics().sum("tidegate_tls_handshake_failures_total", &labels) == 3.0).then_some(())
    });
    assert!(silent.rest().unwrap().is_empty());
    assert!(stalled.rest().unwrap().is_empty());
    assert_eq!(authority.client().connect(gate.address("main"), "a.test").ask("GET", "/", "", b"").status, 200);
}

#[test]
fn a_client_that_stops_reading_is_given_up() {
    let origin = Origin::that(Reply::Endless);
    let mut site = Site::start(&origin, "");
    let mut connection = site.connect("a.test");
    connection.send(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    connection.skip(100_000).unwrap();
    // it reads nothing more, and keeps its connection
    wait_within(Duration::from_secs(90), "the origin to be let go", &mut || {
        (site.gate.metrics().sum("tidegate_malformed_requests_total", &[("reason", "slow_download")]) >= 1.0)
            .then_some(())
    });
    origin.wait_until_left();
    site.gate.comes_to_rest();
    drop(connection);
}

#[test]
fn files_that_cannot_be_used_are_told_of_all_at_once() {
    let origin = Origin::that(Reply::Ok);
    let (authority, files) = (Authority::new("of the site"), Files::new());
    let good = files.put_pair("good", &authority.sign(&["a.test"]));
    files.put_pair("other", &authority.sign(&["b.test"]));
    files.put("empty.pem", "");
    let at = |name: &str| files.path().join(name).display().to_string();
    let tls = format!(
        "{{ certificates: [{good}, {{ cert: {}, key: {} }}, {{ cert: {}, key: {} }}, {{ cert: {}, key: {} }}], client_certificates: {{ ca: {} }} }}",
        at("good.pem"),
        at("other.key"),
        at("missing.pem"),
        at("good.key"),
        at("good.pem"),
        at("empty.pem"),
        at("empty.pem")
    );
    let policy = policy(&tls, &origin, "");
    for verb in [&["check", "tidegate.yaml"][..], &["run", "-c", "tidegate.yaml"]] {
        let ended = run_to_end(verb, &policy);
        assert_eq!(ended.code, Some(78));
        let told = ended.stdout + &ended.stderr;
        for cause in [
            "the key does not match the certificate",
            "No such file or directory",
            "it holds no private key",
            "it holds no certificate",
        ] {
            assert!(told.contains(cause), "{cause}: {told}");
        }
        assert!(told.matches("E0320").count() >= 4, "{told}");
    }
}
