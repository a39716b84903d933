//! Requests that wait because `action: delay` holds them back: what a wait keeps, and what ends it early.
//!
//! A wait is half a minute here, and one that was not ended early would end at the origin, which counts. Nothing tells from
//! outside that a request waits; but a limit has room for one that waits per client, so of two sent at once the one waits
//! when the other has been refused.

use std::time::Duration;

use crate::harness::{Answer, Connection, Gate, Latch, Origin, PATIENCE, Reply, wait_for};

/// Under `/slow` a client's second request waits for 29 seconds, and its third would wait too long. The origin has one place.
fn gate_before(origin: &Origin) -> Gate {
    Gate::start(&format!(
        "trusted_proxies: [127.0.0.0/8]
limits:
  smooth: {{ key: client_ip, rate: 1/29s, burst: 1, action: {{ delay: {{ max: 30s }} }} }}
origins:
  app: {{ addresses: [\"{}\"], inflight: {{ max: 1 }} }}
routes:
  - {{ name: slow, match: {{ path: /slow }}, origin: app, limits: [smooth] }}
  - {{ name: site, origin: app }}
",
        origin.address()
    ))
}

fn ask(gate: &Gate, client: usize, path: &str) -> Connection {
    let mut connection = gate.connect();
    let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.{client}\r\n\r\n");
    connection.send(head.as_bytes()).unwrap();
    connection
}

/// The connections of so many clients that wait; each has had one answer from the origin before.
fn waiting(gate: &mut Gate, count: usize) -> Vec<Connection> {
    let one = |client: usize| {
        assert_eq!(answer(&mut ask(gate, client, "/slow")).status, 200, "the first need not wait");
        gate.comes_to_rest();
        let mut both = [ask(gate, client, "/slow"), ask(gate, client, "/slow")];
        both.iter_mut().for_each(|connection| connection.be_patient_for(Duration::from_millis(10)));
        let (place, refused) = wait_for("one of two to be refused", || {
            both.iter_mut().enumerate().find_map(|(place, one)| Some((place, one.answer_to("GET").ok()?)))
        });
        assert_eq!(refused.status, 429, "{refused:?}");
        let [first, second] = both;
        let mut waits = if place == 0 { second } else { first };
        waits.be_patient_for(PATIENCE);
        waits
    };
    (1..=count).map(one).collect()
}

fn answer(connection: &mut Connection) -> Answer {
    connection.answer_to("GET").expect("an answer comes")
}

fn aborted(gate: &Gate, count: usize) {
    gate.counts("tidegate_requests_total", &[("route", "slow"), ("code", "aborted")], count as f64);
}

#[test]
fn who_waits_takes_no_place_at_the_origin() {
    let origin = Origin::that(Reply::Ok);
    let mut gate = gate_before(&origin);
    let connections = waiting(&mut gate, 8);
    for _ in 0..5 {
        // the place of the request before may come back a moment after its answer
        gate.comes_to_rest();
        assert_eq!(gate.fetch("/", "").status, 200, "the only place is free");
    }
    assert_eq!(origin.count(), 8 + 5, "and nobody who waits has reached the origin");
    drop(connections);
}

#[test]
fn who_waited_takes_a_place_when_the_wait_is_over_or_is_told_that_there_is_none() {
    let latch = Latch::default();
    let held = latch.clone();
    let origin = Origin::start(move |arrival| match arrival.target.as_str() {
        "/held" => Reply::Held(held.clone()),
        _ => Reply::Ok,
    });
    let mut gate = Gate::start(&format!(
        "limits:
  smooth: {{ rate: 2/s, burst: 1, action: {{ delay: {{ max: 5s }} }} }}
origins:
  app: {{ addresses: [\"{}\"], inflight: {{ max: 1 }} }}
routes:
  - {{ name: slow, match: {{ path: /slow }}, origin: app, limits: [smooth] }}
  - {{ name: site, origin: app }}
",
        origin.address()
    ));
    assert_eq!(gate.fetch("/slow", "").status, 200);
    gate.comes_to_rest();
    let mut holder = ask(&gate, 1, "/held");
    origin.wait_for(2);
    // all but the first wait for half a second and more, while somebody else has the only place all the time
    let mut late: Vec<Connection> = (0..3).map(|_| ask(&gate, 1, "/slow")).collect();
    for connection in &mut late {
        assert_eq!(answer(connection).status, 503);
    }
    assert_eq!(origin.count(), 2);
    latch.open();
    assert_eq!(answer(&mut holder).status, 200);
    gate.comes_to_rest();
    let mut after = ask(&gate, 1, "/slow");
    assert_eq!(answer(&mut after).status, 200);
    gate.comes_to_rest();
}

#[test]
fn a_client_that_leaves_ends_its_wait() {
    let origin = Origin::that(Reply::Ok);
    let mut gate = gate_before(&origin);
    let open = |gate: &Gate| gate.metrics().sum("tidegate_connections", &[("listener", "main")]);
    let connections = waiting(&mut gate, 6);
    aborted(&gate, 0);
    for (place, connection) in connections.into_iter().enumerate() {
        match place % 2 {
            0 => connection.reset(),
            _ => drop(connection),
        }
        // at once and not when its time is over
        aborted(&gate, place + 1);
    }
    wait_for("all connections to be closed", || (open(&gate) == 0.0).then_some(()));
    gate.comes_to_rest();
    assert_eq!(origin.count(), 6, "no request of those that left was sent on");
    assert_eq!(gate.fetch("/", "").status, 200);
}

#[test]
fn a_drain_refuses_who_waits_and_ends_cleanly() {
    let origin = Origin::that(Reply::Ok);
    let mut gate = gate_before(&origin);
    let mut connections = waiting(&mut gate, 4);
    gate.signal("TERM");
    for connection in &mut connections {
        let refused = answer(connection);
        assert_eq!(refused.status, 429, "{refused:?}");
        let retry: u64 = refused.field("retry-after").expect("when to come back").parse().unwrap();
        assert!((1..=60).contains(&retry), "{retry}");
        assert!(!refused.keeps_connection(), "{refused:?}");
        assert_eq!(connection.rest().unwrap(), b"");
    }
    assert_eq!(gate.exit_status().code(), Some(0));
    assert_eq!(origin.count(), 4);
    assert!(!gate.talk().contains("panic"), "{}", gate.talk());
}
