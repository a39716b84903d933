//! Requests that stop being plain HTTP: `Expect: 100-continue` and the switch to WebSocket.

use crate::harness::client::is_cut;
use crate::harness::{Connection, Gate, Origin, Reply};

fn gate_before(origin: &Origin, more: &str) -> Gate {
    gate_with(origin, "", more)
}

/// The same with more words of the origin and of the route.
fn gate_with(origin: &Origin, of_origin: &str, more: &str) -> Gate {
    Gate::start(&format!(
        "origins:
  app: {{ addresses: [\"{}\"], inflight: {{ max: 2 }}{of_origin} }}
routes:
  - {{ name: site, origin: app{more} }}
",
        origin.address()
    ))
}

const UPGRADE: &[u8] = b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// A connection that has switched and carries bytes.
fn switched(gate: &Gate) -> Connection {
    let mut connection = gate.connect();
    connection.send(UPGRADE).unwrap();
    let head = String::from_utf8(connection.head().expect("an answer comes")).unwrap();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    connection.send(b"x").unwrap();
    connection.skip(1).expect("the switch holds");
    connection
}

#[test]
fn a_websocket_carries_bytes_both_ways_until_either_side_ends_it() {
    let origin = Origin::that(Reply::Switch);
    let mut gate = gate_before(&origin, "");
    for end in ["client", "crash", "origin"] {
        let mut connection = switched(&gate);
        for length in [1, 100, 10_000] {
            connection.send(&vec![b'x'; length]).unwrap();
            connection.skip(length).unwrap_or_else(|fault| panic!("{end}: {length} bytes do not come back: {fault}"));
        }
        match end {
            "client" => drop(connection),
            "crash" => connection.reset(),
            _ => {
                connection.send(b"bye").unwrap();
                assert_eq!(connection.rest().expect("the connection ends"), b"");
            }
        }
        gate.comes_to_rest();
        origin.wait_until_left();
    }
}

#[test]
fn a_switch_that_nobody_before_the_gate_knows_of_is_not_made() {
    // an origin that switches whenever it is asked to, and calls it so
    let origin = Origin::start(|arrival| match arrival.lines("upgrade").first() {
        Some(_) if arrival.target == "/other" => {
            Reply::ThenClose(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
        }
        Some(_) => Reply::Switch,
        None => Reply::Echo,
    });
    let mut gate = gate_before(&origin, "");
    let status = |path: &str, lines: &str| gate.fetch(path, lines).status;
    // a proxy that knows the field by its option alone takes what follows for requests, and others' for those of this connection
    for option in ["", "Connection: keep-alive\r\n", "Connection: x-a\r\n"] {
        assert_eq!(status("/", &format!("Upgrade: websocket\r\n{option}")), 200, "{option}");
    }
    // requests inside would pass unjudged
    for protocol in ["h2c", "websocket, h2c", "HTTP/2.0"] {
        let lines =
            format!("Upgrade: {protocol}\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n");
        assert_eq!(status("/", &lines), 200, "{protocol}");
        let answer = gate.connect().ask("POST", "/echo", &lines, b"all of it");
        assert_eq!((answer.status, answer.text().as_str()), (200, "all of it"), "{protocol}");
    }
    assert_eq!(status("/other", "Upgrade: websocket\r\nConnection: Upgrade\r\n"), 502);
    gate.comes_to_rest();
}

#[test]
fn an_open_websocket_does_not_keep_the_gate_beyond_its_deadline() {
    let origin = Origin::that(Reply::Switch);
    let mut gate = Gate::start(&format!(
        "routes:\n  - {{ name: site, origin: \"{}\" }}\nserver:\n  overload: off\n  drain: {{ timeout: 1s }}\n",
        origin.address()
    ));
    let mut connection = switched(&gate);
    gate.signal("TERM");
    assert_eq!(gate.exit_status().code(), Some(0));
    assert!(connection.rest().is_ok(), "the client's connection ends");
}

#[test]
fn a_limited_client_cannot_switch() {
    let origin = Origin::that(Reply::Switch);
    let mut gate = gate_before(&origin, ", limit: 1/h burst 1");
    for expected in [101, 429] {
        let mut connection = gate.connect();
        connection.send(UPGRADE).unwrap();
        assert_eq!(connection.answer_to("GET").expect("an answer comes").status, expected);
    }
    assert_eq!(origin.count(), 1);
    gate.comes_to_rest();
}

#[test]
fn a_client_that_waits_for_100_gets_it_from_the_origin() {
    let origin = Origin::that(Reply::Continue);
    let mut gate = gate_before(&origin, "");
    let mut connection = gate.connect();
    connection.send(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n").unwrap();
    let head = String::from_utf8(connection.head().expect("a head comes before the body")).unwrap();
    assert!(head.starts_with("HTTP/1.1 100"), "{head}");
    connection.send(b"hello").unwrap();
    let answer = connection.answer_to("POST").expect("an answer comes");
    assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
    gate.comes_to_rest();
}

#[test]
fn a_client_that_waits_for_100_and_is_refused_need_not_send_its_body() {
    let origin = Origin::that(Reply::Continue);
    let mut gate = gate_before(&origin, ", limit: 1/h burst 1, body_limit: 1KiB");
    let mut ask = |length: usize| {
        let mut connection = gate.connect();
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n");
        connection.send(head.as_bytes()).unwrap();
        let status = connection.answer_to("POST").expect("an answer comes").status;
        gate.comes_to_rest();
        status
    };
    assert_eq!(ask(10_000), 413, "too large");
    assert_eq!(ask(5), 429, "limited");
    assert_eq!(origin.count(), 0);
}

#[test]
fn a_client_that_expects_100_and_leaves_gives_its_place_back() {
    let origin = Origin::that(Reply::Continue);
    // by default the place stays taken for as long as the origin may be at work
    let mut gate = gate_with(&origin, ", on_client_abort: release", "");
    for round in 0..6 {
        let mut connection = gate.connect();
        connection.send(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 50\r\n\r\n").unwrap();
        match connection.head() {
            Ok(head) => assert!(head.starts_with(b"HTTP/1.1 100"), "{}", String::from_utf8_lossy(&head)),
            Err(fault) => assert!(is_cut(&fault), "{fault}"),
        }
        if round % 2 == 0 {
            connection.reset();
        } else {
            drop(connection);
        }
        gate.comes_to_rest();
    }
}
