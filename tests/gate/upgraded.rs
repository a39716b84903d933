//! WebSockets under an `inflight` limit by key: streams that live long are a class of their own, and keep no ordinary
//! request out.

use crate::harness::{Connection, Gate, Latch, Origin, Reply};

/// At most two requests at once and three streams, per client.
fn gate_before(origin: &Origin) -> Gate {
    Gate::start(&format!(
        "trusted_proxies: [127.0.0.0/8]
limits:
  at_once: {{ type: inflight, key: client_ip, max: 2, upgraded: 3 }}
routes:
  - {{ name: site, origin: \"{}\", limits: [at_once] }}
",
        origin.address()
    ))
}

/// An origin that switches on `/ws`, holds `/held` until the latch opens, and answers everything else at once.
fn origin(latch: &Latch) -> Origin {
    let held = latch.clone();
    Origin::start(move |arrival| match arrival.target.as_str() {
        "/ws" => Reply::Switch,
        "/held" => Reply::Held(held.clone()),
        _ => Reply::Ok,
    })
}

fn ask(gate: &Gate, client: &str, path: &str, lines: &str) -> Connection {
    let mut connection = gate.connect();
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n{lines}\r\n");
    connection.send(request.as_bytes()).unwrap();
    connection
}

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// A connection that has switched and carries bytes.
fn switched(gate: &Gate, client: &str) -> Connection {
    let mut connection = ask(gate, client, "/ws", UPGRADE);
    let head = String::from_utf8(connection.head().expect("an answer comes")).unwrap();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    connection.send(b"x").unwrap();
    connection.skip(1).expect("the switch holds");
    connection
}

fn status(gate: &Gate, client: &str, path: &str, lines: &str) -> u16 {
    ask(gate, client, path, lines).answer_to("GET").expect("an answer comes").status
}

fn held(gate: &Gate, requests: f64, streams: f64) {
    gate.counts("tidegate_limit_inflight_requests", &[("limit", "at_once")], requests);
    gate.counts("tidegate_limit_upgraded_connections", &[("limit", "at_once")], streams);
}

#[test]
fn streams_keep_no_ordinary_request_out_and_requests_keep_no_stream_out() {
    let latch = Latch::default();
    let origin = origin(&latch);
    let mut gate = gate_before(&origin);
    let (client, other) = ("203.0.113.1", "2001:db8:1:2::3");
    let mut streams: Vec<Connection> = (0..3).map(|_| switched(&gate, client)).collect();
    held(&gate, 0.0, 3.0);
    // three streams are more than `max`, and still both places are free
    let mut requests: Vec<Connection> = (0..2).map(|_| ask(&gate, client, "/held", "")).collect();
    held(&gate, 2.0, 3.0);
    assert_eq!(status(&gate, client, "/", ""), 429, "a third request at once");
    // a stream begins as a request, so it needs a place of that class first
    assert_eq!(status(&gate, client, "/ws", UPGRADE), 429);
    assert_eq!(status(&gate, other, "/", ""), 200, "another client has places of its own");
    latch.open();
    for connection in &mut requests {
        assert_eq!(connection.answer_to("GET").unwrap().status, 200);
    }
    held(&gate, 0.0, 3.0);
    for stream in &mut streams {
        stream.send(b"still here").unwrap();
        stream.skip(10).expect("streams go on");
    }
    drop(streams);
    gate.comes_to_rest();
    held(&gate, 0.0, 0.0);
}

#[test]
fn a_switch_above_the_class_is_refused_and_costs_no_place() {
    let latch = Latch::default();
    let origin = origin(&latch);
    let mut gate = gate_before(&origin);
    let client = "203.0.113.2";
    let mut streams: Vec<Connection> = (0..3).map(|_| switched(&gate, client)).collect();
    held(&gate, 0.0, 3.0);
    for _ in 0..4 {
        let mut connection = ask(&gate, client, "/ws", UPGRADE);
        let refused = connection.answer_to("GET").expect("an answer comes");
        assert_eq!(refused.status, 429, "{refused:?}");
        assert!(refused.field("upgrade").is_none() && refused.field("sec-websocket-accept").is_none(), "{refused:?}");
        // what nobody has refused would be passed on as a stream
        assert_eq!(connection.rest().unwrap(), b"", "the connection ends");
    }
    held(&gate, 0.0, 3.0);
    assert_eq!(status(&gate, client, "/", ""), 200, "ordinary requests go on");
    drop(switched(&gate, "203.0.113.3"));
    // one that ends makes room for the next
    drop(streams.pop());
    held(&gate, 0.0, 2.0);
    streams.push(switched(&gate, client));
    drop(streams);
    gate.comes_to_rest();
    held(&gate, 0.0, 0.0);
}

#[test]
fn a_stream_whose_client_crashes_gives_its_place_back() {
    let latch = Latch::default();
    let origin = origin(&latch);
    let mut gate = gate_before(&origin);
    for _ in 0..5 {
        let streams: Vec<Connection> = (0..3).map(|_| switched(&gate, "203.0.113.4")).collect();
        streams.into_iter().for_each(Connection::reset);
        held(&gate, 0.0, 0.0);
    }
    gate.comes_to_rest();
}
