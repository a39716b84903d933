//! Caps on connections: never exceeded, one client's never at another's cost, and every place comes back.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use crate::harness::client::request;
use crate::harness::{Connection, Gate, Origin, Reply, wait_for};

fn gate(origin: &Origin, connections: &str) -> Gate {
    Gate::start(&format!(
        "trusted_proxies: [127.0.0.1]
listeners:
  main: {{ address: \"127.0.0.1:0\", connections: {connections} }}
  named: {{ address: \"127.0.0.1:0\", proxy_protocol: required, connections: {connections} }}
origins:
  app: {{ addresses: [\"{}\"] }}
routes:
  - {{ name: site, origin: app }}
",
        origin.address()
    ))
}

fn client(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, last)
}

/// A connection that was let in and has had an answer; `None` when it was closed at once.
fn served(mut connection: Connection, first: &str) -> Option<Connection> {
    connection.send(&[first.as_bytes(), &request("GET", "/", "", b"")].concat()).ok()?;
    let answer = connection.answer_to("GET").ok()?;
    assert_eq!(answer.status, 200, "{answer:?}");
    Some(connection)
}

fn from(gate: &Gate, source: Ipv4Addr) -> Option<Connection> {
    served(Connection::open_from(source, gate.address("main")), "")
}

/// A connection that a trusted proxy passes on for this client.
fn named(gate: &Gate, client: &str) -> Option<Connection> {
    let family = if client.contains(':') { "TCP6" } else { "TCP4" };
    let to = if client.contains(':') { "::1" } else { "192.0.2.1" };
    served(Connection::open(gate.address("named")), &format!("PROXY {family} {client} {to} 1 2\r\n"))
}

fn refused(gate: &Gate, reason: &str) -> f64 {
    gate.metrics().sum("tidegate_connections_refused_total", &[("reason", reason)])
}

fn open(gate: &Gate, listener: &str) -> f64 {
    gate.metrics().sum("tidegate_connections", &[("listener", listener)])
}

#[test]
fn the_whole_is_never_exceeded_and_places_come_back_however_connections_die() {
    let origin = Origin::start(|_| Reply::Ok);
    let gate = gate(&origin, "{ max: 6, linger: 100ms }");
    for round in 1..=3 {
        let mut held: Vec<Connection> = (0..6).map(|at| from(&gate, client(2 + at)).expect("there is room")).collect();
        for _ in 0..5 {
            assert!(from(&gate, client(20)).is_none(), "the listener is full");
        }
        assert_eq!((open(&gate, "main"), refused(&gate, "full")), (6.0, f64::from(5 * round)));
        // in the middle of a head, of a body, of an answer; with a reset, a half-close, a fault and a plain close
        held[0].send(b"GET / HT").unwrap();
        held[1].send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf").unwrap();
        held[2].send(&request("GET", "/", "", b"")).unwrap();
        held[3].finish_sending();
        held[4].send(b"nonsense\r\n\r\n").unwrap();
        for (at, connection) in held.into_iter().enumerate() {
            match at % 3 {
                0 => connection.reset(),
                _ => drop(connection),
            }
        }
        gate.counts("tidegate_connections", &[("listener", "main")], 0.0);
    }
}

#[test]
fn a_client_at_its_cap_does_not_stand_in_the_way_of_others() {
    let origin = Origin::start(|_| Reply::Ok);
    let gate = gate(&origin, "{ per_client: 3 }");
    let mut held: Vec<Connection> = (0..3).map(|_| from(&gate, client(2)).expect("below the cap")).collect();
    for _ in 0..10 {
        assert!(from(&gate, client(2)).is_none());
    }
    assert_eq!(refused(&gate, "per_client"), 10.0);
    let other: Vec<Connection> = (0..3).map(|_| from(&gate, client(3)).expect("another client")).collect();
    held.pop();
    wait_for("the place to come back", || from(&gate, client(2)));
    let proxy: Vec<Connection> = (0..10).map(|_| from(&gate, client(1)).expect("a proxy is many clients")).collect();
    drop((held, other, proxy));
    gate.counts("tidegate_connections", &[], 0.0);
}

#[test]
fn clients_that_a_proxy_names_are_told_apart_by_prefix() {
    let origin = Origin::start(|_| Reply::Ok);
    let gate = gate(&origin, "{ per_client: 2 }");
    for (one, same, other) in
        [("203.0.113.1", "203.0.113.1", "203.0.113.2"), ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", "2001:db8:0:2::1")]
    {
        let held: Vec<Connection> = (0..2).map(|_| named(&gate, one).expect("below the cap")).collect();
        assert!(named(&gate, same).is_none(), "{same} is the same client as {one}");
        assert!(named(&gate, other).is_some(), "{other} is another");
        drop(held);
        wait_for("the places to come back", || named(&gate, same));
    }
    gate.counts("tidegate_connections", &[], 0.0);
}

#[test]
fn a_client_that_connects_too_often_is_closed_at_accept_and_others_are_not() {
    let origin = Origin::start(|_| Reply::Ok);
    let gate = gate(&origin, "{ handshakes: 5/h }");
    for client in ["203.0.113.1", "2001:db8:0:1::1"] {
        for _ in 0..5 {
            assert!(named(&gate, client).is_some(), "as many as its rate says per period");
        }
        for _ in 0..50 {
            assert!(named(&gate, client).is_none(), "no more of {client} for some minutes");
        }
    }
    assert_eq!(refused(&gate, "handshakes"), 100.0);
    for last in 2..10 {
        assert!(named(&gate, &format!("203.0.113.{last}")).is_some(), "others do not notice");
    }
    // and the same at accept, of a direct peer
    assert_eq!((0..20).filter(|_| from(&gate, client(7)).is_some()).count(), 5);
    assert!((0..20).all(|_| from(&gate, client(1)).is_some()), "a trusted proxy connects as often as it likes");
    gate.counts("tidegate_connections", &[], 0.0);
}

#[test]
fn the_last_request_of_a_connection_is_told_so() {
    let origin = Origin::start(|_| Reply::Ok);
    let gate = gate(&origin, "{ requests: 3 }");
    let mut connection = gate.connect();
    for last in [false, false, true] {
        let answer = connection.ask("GET", "/", "", b"");
        assert_eq!((answer.status, answer.keeps_connection()), (200, !last), "{answer:?}");
    }
    assert!(connection.rest().unwrap().is_empty(), "and it is closed");
}

#[test]
fn an_old_connection_serves_its_next_request_and_closes() {
    let origin = Origin::start(|_| Reply::Ok);
    let gate = gate(&origin, "{ lifetime: 300ms }");
    let mut connection = gate.connect();
    let start = Instant::now();
    loop {
        let answer = connection.ask("GET", "/", "", b"");
        assert!(answer.status == 200 && answer.complete, "{answer:?}");
        if !answer.keeps_connection() {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "it goes on for ever");
    }
    assert!(start.elapsed() >= Duration::from_millis(250), "not before its time: {:?}", start.elapsed());
    assert!(connection.rest().unwrap().is_empty(), "and it is closed");
    gate.counts("tidegate_connections", &[], 0.0);
}
