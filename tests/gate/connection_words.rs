//! What a listener says of heads, bodies and answers is what its connections get, and another listener's words are its own.

use std::time::{Duration, Instant};

use crate::harness::client::request;
use crate::harness::{Connection, Gate, Origin, Reply};

fn gate(origin: &Origin, words: &str) -> Gate {
    Gate::start(&format!(
        "listeners:
  main: {{ address: \"127.0.0.1:0\" }}
  other: {{ address: \"127.0.0.1:0\", {words} }}
origins:
  app: {{ addresses: [\"{}\"] }}
routes:
  - {{ name: site, origin: app, body_limit: none }}
",
        origin.address()
    ))
}

fn status(gate: &Gate, listener: &str, path: &str, lines: &str) -> u16 {
    let mut connection = Connection::open(gate.address(listener));
    connection.send(&request("GET", path, lines, b"")).unwrap();
    connection.answer_to("GET").expect("an answer comes").status
}

#[test]
fn a_head_may_be_as_large_as_its_listener_says() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate(&origin, "request_head: { size: 2KiB, line: 64B, fields: 5 }");
    let (path, large) = (format!("/{}", "p".repeat(80)), format!("X: {}\r\n", "x".repeat(3000)));
    let many: String = (0..10).map(|number| format!("X-{number}: a\r\n")).collect();
    for (path, lines, refused) in
        [(path.as_str(), "", 414), ("/", large.as_str(), 431), ("/", many.as_str(), 431), ("/", "", 200)]
    {
        assert_eq!(status(&gate, "other", path, lines), refused, "{path} {lines}");
        assert_eq!(status(&gate, "main", path, lines), 200, "{path} {lines}");
    }
}

#[test]
fn twins_of_trusted_fields_pass_only_where_they_may() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate(&origin, "request_head: { underscore_twins: allow }");
    let twin = "X_Forwarded_For: 192.0.2.1\r\n";
    assert_eq!(status(&gate, "main", "/", twin), 400);
    assert_eq!(status(&gate, "other", "/", twin), 200);
    assert_eq!(origin.only_arrival().lines("x_forwarded_for"), ["192.0.2.1"]);
    assert_eq!(status(&gate, "other", "/", "Content_Length: 3\r\n"), 400, "nobody may have two readings of framing");
}

#[test]
fn a_head_ends_with_its_time_and_an_idle_connection_with_its_own() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate(&origin, "request_head: { timeout: 300ms }, connections: { idle: 400ms, linger: 100ms }");
    let mut begun = Connection::open(gate.address("other"));
    begun.send(b"GET / HTTP/1.1\r\nHo").unwrap();
    assert_eq!(begun.answer_to("GET").expect("an answer comes").status, 408);
    let mut idle = Connection::open(gate.address("other"));
    assert_eq!(idle.ask("GET", "/", "", b"").status, 200);
    assert!(idle.rest().unwrap().is_empty(), "closed without a word");
    let mut patient = gate.connect();
    assert_eq!(patient.ask("GET", "/", "", b"").status, 200);
    assert_eq!(patient.ask("GET", "/", "", b"").status, 200, "the other listener's words are not this one's");
}

#[test]
fn a_body_that_stalls_is_408_after_the_grace() {
    let origin = Origin::that(Reply::Ok);
    let mut gate = gate(&origin, "request_body: { grace: 300ms }, connections: { linger: 100ms }");
    let mut connection = Connection::open(gate.address("other"));
    connection.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf").unwrap();
    assert_eq!(connection.answer_to("POST").expect("an answer comes").status, 408);
    gate.counts("tidegate_malformed_requests_total", &[("reason", "slow_upload")], 1.0);
    gate.comes_to_rest();
}

#[test]
fn an_answer_that_is_taken_steadily_still_ends_with_its_time() {
    let origin = Origin::that(Reply::Endless);
    // the grace is longer than the time, so that a busy machine's pauses are not taken for a slow client's
    let mut gate = gate(&origin, "response: { timeout: 500ms, grace: 20s }");
    let mut connection = Connection::open(gate.address("other"));
    connection.send(&request("GET", "/", "", b"")).unwrap();
    let start = Instant::now();
    while connection.skip(1024).is_ok() {
        assert!(start.elapsed() < Duration::from_secs(20), "it goes on for ever");
    }
    assert!(start.elapsed() >= Duration::from_millis(400), "not before its time: {:?}", start.elapsed());
    gate.counts("tidegate_malformed_requests_total", &[("reason", "late_download")], 1.0);
    gate.comes_to_rest();
}
