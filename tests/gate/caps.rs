//! Caps: requests at once with an origin, and the size of bodies.

use std::time::Instant;

use crate::harness::client::request;
use crate::harness::{Answer, Connection, Gate, Latch, Origin, Reply, wait_for};

/// An origin that holds `/held` until the latch opens, and a gate that lets `max` in at once and `queue` wait.
fn held(max: u32, queue: u32, queue_timeout: &str) -> (Origin, Gate, Latch) {
    let latch = Latch::default();
    let shut = latch.clone();
    let origin = Origin::start(move |arrival| match arrival.target.as_str() {
        "/held" => Reply::Held(shut.clone()),
        _ => Reply::Ok,
    });
    let gate = Gate::start(&format!(
        "origins:
  app:
    addresses: [\"{}\"]
    inflight: {{ max: {max}, queue: {queue}, queue_timeout: {queue_timeout} }}
routes:
  - name: site
    origin: app
",
        origin.address()
    ));
    (origin, gate, latch)
}

fn send(gate: &Gate, path: &str) -> Connection {
    let mut connection = gate.connect();
    connection.send(&request("GET", path, "", b"")).unwrap();
    connection
}

fn says_come_back(answer: &Answer) {
    assert_eq!(answer.status, 503, "{answer:?}");
    let seconds: u64 = answer.field("retry-after").expect("a time to come back").parse().expect("in seconds");
    assert!(seconds >= 1, "{answer:?}");
    assert_eq!(answer.field("cache-control").as_deref(), Some("no-store"), "{answer:?}");
    assert!(answer.complete && answer.keeps_connection(), "{answer:?}");
}

#[test]
fn a_full_origin_is_503_and_gets_no_request_more() {
    let (origin, mut gate, latch) = held(2, 0, "1s");
    let mut inside: Vec<Connection> = (0..2).map(|_| send(&gate, "/held")).collect();
    origin.wait_for(2);
    assert_eq!(gate.metrics().sum("tidegate_origin_inflight_requests", &[("origin", "app")]), 2.0);
    let mut outside = gate.connect();
    for _ in 0..20 {
        says_come_back(&outside.ask("GET", "/more", "", b""));
    }
    assert_eq!(origin.count(), 2, "the cap is kept");
    assert_eq!(gate.metrics().sum("tidegate_origin_shed_requests_total", &[("origin", "app")]), 20.0);
    latch.open();
    for connection in &mut inside {
        assert_eq!(connection.answer_to("GET").expect("an answer comes").status, 200);
    }
    gate.comes_to_rest();
    assert_eq!(outside.ask("GET", "/more", "", b"").status, 200, "on the connection that was kept");
}

#[test]
fn who_waits_in_the_queue_is_served_when_a_place_is_free() {
    let (origin, mut gate, latch) = held(1, 1, "60s");
    let mut inside = send(&gate, "/held");
    origin.wait_for(1);
    // whichever comes second finds the queue full: one is refused at once, the other goes on waiting
    let mut pair: Vec<Connection> = (0..2).map(|_| send(&gate, "/next")).collect();
    wait_for("one of the two to be refused", || (shed(&gate) == 1.0).then_some(()));
    assert_eq!(origin.count(), 1);
    latch.open();
    assert_eq!(inside.answer_to("GET").expect("an answer comes").status, 200);
    let mut statuses: Vec<u16> = pair.iter_mut().map(|one| one.answer_to("GET").expect("an answer").status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 503]);
    gate.comes_to_rest();
}

#[test]
fn who_waits_in_the_queue_too_long_is_refused_and_leaves_it() {
    let (origin, mut gate, latch) = held(1, 5, "200ms");
    let mut inside = send(&gate, "/held");
    origin.wait_for(1);
    let start = Instant::now();
    let mut waiting: Vec<Connection> = (0..5).map(|_| send(&gate, "/next")).collect();
    for connection in &mut waiting {
        says_come_back(&connection.answer_to("GET").expect("an answer comes"));
    }
    assert!(start.elapsed().as_millis() >= 200, "they had their time");
    assert_eq!(origin.count(), 1);
    latch.open();
    assert_eq!(inside.answer_to("GET").expect("an answer comes").status, 200);
    gate.comes_to_rest();
    assert_eq!(gate.fetch("/next", "").status, 200, "nobody is left in the queue");
}

#[test]
fn who_leaves_the_queue_takes_no_place() {
    let (origin, mut gate, latch) = held(1, 4, "60s");
    let mut inside = send(&gate, "/held");
    origin.wait_for(1);
    for round in 0..4 {
        let connection = send(&gate, "/gone");
        if round % 2 == 0 {
            connection.reset();
        }
    }
    latch.open();
    assert_eq!(inside.answer_to("GET").expect("an answer comes").status, 200);
    for _ in 0..4 {
        // those who left may still be on their way through the queue, never in it for good
        wait_for("a place", || (gate.fetch("/next", "").status == 200).then_some(()));
        gate.comes_to_rest();
    }
}

#[test]
fn who_hangs_up_while_queued_leaves_the_queue_at_once() {
    let (origin, mut gate, latch) = held(1, 4, "60s");
    let mut inside = send(&gate, "/held");
    origin.wait_for(1);
    let queued = |gate: &Gate| gate.metrics().sum("tidegate_origin_queue_requests", &[]);
    let waiting: Vec<Connection> = (0..4).map(|_| send(&gate, "/gone")).collect();
    wait_for("all four to wait", || (queued(&gate) == 4.0).then_some(()));
    waiting.into_iter().for_each(Connection::reset);
    wait_for("the queue to be empty while nothing has moved", || (queued(&gate) == 0.0).then_some(()));
    latch.open();
    assert_eq!(inside.answer_to("GET").expect("an answer comes").status, 200);
    gate.comes_to_rest();
    assert_eq!(origin.count(), 1, "nobody who left was sent on");
}

#[test]
fn a_request_that_found_no_place_has_cost_its_client_nothing() {
    let latch = Latch::default();
    let shut = latch.clone();
    let origin = Origin::start(move |_| Reply::Held(shut.clone()));
    let mut gate = Gate::start(&format!(
        "origins:
  app: {{ addresses: [\"{}\"], inflight: 1 }}
routes:
  - {{ name: site, origin: app, limit: 1/h burst 2 }}
",
        origin.address()
    ));
    let mut inside = send(&gate, "/");
    origin.wait_for(1);
    let mut outside = gate.connect();
    for _ in 0..10 {
        says_come_back(&outside.ask("GET", "/", "", b""));
    }
    latch.open();
    assert_eq!(inside.answer_to("GET").expect("an answer comes").status, 200);
    gate.comes_to_rest();
    assert_eq!(outside.ask("GET", "/", "", b"").status, 200, "the second of two");
    gate.comes_to_rest();
    assert_eq!(outside.ask("GET", "/", "", b"").status, 429, "the third");
}

#[test]
fn a_cap_holds_under_a_crowd() {
    let (origin, mut gate, latch) = held(3, 2, "60s");
    latch.open();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..16)
            .map(|_| {
                scope.spawn(|| {
                    let mut connection = gate.connect();
                    (0..40).map(|_| connection.ask("GET", "/held", "", b"").status).collect::<Vec<u16>>()
                })
            })
            .collect();
        askers.into_iter().flat_map(|asker| asker.join().unwrap()).collect()
    });
    let served = statuses.iter().filter(|status| **status == 200).count();
    assert!(statuses.iter().all(|status| matches!(status, 200 | 503)));
    assert_eq!(origin.count(), served, "the origin saw exactly the served ones");
    assert_eq!(shed(&gate), (statuses.len() - served) as f64);
    gate.comes_to_rest();
}

#[test]
fn a_limit_on_requests_at_once_lets_go_when_they_end() {
    let latch = Latch::default();
    let shut = latch.clone();
    let origin = Origin::start(move |_| Reply::Held(shut.clone()));
    let mut gate = Gate::start(&format!(
        "limits:
  crowd: {{ type: inflight, key: route, max: 1 }}
routes:
  - name: site
    origin: \"{}\"
    limits: [crowd]
",
        origin.address()
    ));
    let mut inside = send(&gate, "/");
    origin.wait_for(1);
    let refused = gate.fetch("/", "");
    assert!(matches!(refused.status, 429 | 503), "{refused:?}");
    latch.open();
    assert_eq!(inside.answer_to("GET").expect("an answer comes").status, 200);
    gate.comes_to_rest();
    assert_eq!(gate.fetch("/", "").status, 200);
}

fn shed(gate: &Gate) -> f64 {
    gate.metrics().sum("tidegate_origin_shed_requests_total", &[("origin", "app")])
}

fn gate_with_body_limit(origin: &Origin) -> Gate {
    Gate::start(&format!(
        "origins:
  # the place of a request of which the origin has a part comes back at once
  app: {{ addresses: [\"{}\"], inflight: {{ max: 4 }}, on_client_abort: release }}
routes:
  - name: site
    origin: app
    body_limit: 1KiB
",
        origin.address()
    ))
}

#[test]
fn a_body_that_is_declared_too_large_is_413_and_never_reaches_the_origin() {
    let origin = Origin::that(Reply::Echo);
    let mut gate = gate_with_body_limit(&origin);
    let mut connection = gate.connect();
    connection.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1025\r\n\r\n").unwrap();
    assert_eq!(connection.answer_to("POST").expect("an answer before the body").status, 413);
    assert_eq!(gate.connect().ask("POST", "/", "", &[b'x'; 1025]).status, 413);
    assert_eq!(origin.count(), 0);
    gate.comes_to_rest();
}

#[test]
fn a_body_that_grows_too_large_in_chunks_is_413_and_never_whole_at_the_origin() {
    let origin = Origin::that(Reply::Echo);
    let mut gate = gate_with_body_limit(&origin);
    let mut connection = gate.connect();
    connection.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    for _ in 0..8 {
        let _ = connection.send(format!("100\r\n{}\r\n", "x".repeat(256)).as_bytes());
    }
    let answer = connection.answer_to("POST").expect("an answer comes");
    assert_eq!(answer.status, 413, "{answer:?}");
    gate.comes_to_rest();
    origin.wait_until_left();
    assert!(origin.arrivals().iter().all(|arrival| !arrival.complete));
}

#[test]
fn a_body_of_exactly_the_limit_passes() {
    let origin = Origin::that(Reply::Echo);
    let gate = gate_with_body_limit(&origin);
    let body = [b'x'; 1024];
    assert_eq!(gate.connect().ask("POST", "/", "", &body).body, body);
    let mut connection = gate.connect();
    let chunked =
        [&b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n400\r\n"[..], &body, b"\r\n0\r\n\r\n"];
    connection.send(&chunked.concat()).unwrap();
    assert_eq!(connection.answer_to("POST").expect("an answer comes").body, body);
    assert_eq!(origin.count(), 2);
}
