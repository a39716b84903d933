//! `Expect: 100-continue` from end to end: the origin decides whether the body is wanted, and nobody is left waiting.

use crate::harness::{Gate, Latch, Origin, Reply};

fn gate_before(origin: &Origin) -> Gate {
    Gate::start(&format!(
        "origins:
  app:
    addresses: [\"{}\"]
    timeouts: {{ connect: 1s, read: 2s, write: 2s, request: 3s }}
    inflight: {{ max: 1, queue: 4, queue_timeout: 10s }}
routes:
  - {{ name: site, origin: app }}
",
        origin.address()
    ))
}

const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";

#[test]
fn the_origins_continue_reaches_the_client_and_its_body_the_origin() {
    let origin = Origin::that(Reply::Continue);
    let mut gate = gate_before(&origin);
    for _ in 0..3 {
        let mut client = gate.connect();
        client.send(HEAD).unwrap();
        assert!(client.head().unwrap().starts_with(b"HTTP/1.1 100 "));
        client.send(b"hello").unwrap();
        let answer = client.answer_to("POST").unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
        gate.comes_to_rest();
    }
    assert_eq!(origin.arrivals()[0].lines("expect"), ["100-continue"]);
}

#[test]
fn a_final_answer_instead_of_continue_is_the_answer() {
    const REFUSED: &[u8] = b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\n\r\nno";
    const LOCKED: &[u8] = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno";
    for (reply, status) in [
        (Reply::ThenClose(REFUSED), 417),
        (Reply::ThenClose(LOCKED), 401),
        // and one that keeps the connection, waiting for a body that never comes
        (Reply::ThenStall(LOCKED), 401),
    ] {
        let origin = Origin::start(move |arrival| if arrival.method == "POST" { reply.clone() } else { Reply::Ok });
        let mut gate = gate_before(&origin);
        let mut client = gate.connect();
        client.send(HEAD).unwrap();
        let answer = client.answer_to("POST").unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (status, "no"));
        drop(client);
        gate.comes_to_rest();
        assert_eq!(gate.fetch("/", "").text(), "ok", "the next request has an answer of its own");
        gate.comes_to_rest();
    }
}

#[test]
fn a_client_need_not_wait_for_an_origin_that_never_says_continue() {
    let latch = Latch::default();
    let origin = Origin::that(Reply::Held(latch.clone()));
    let mut gate = gate_before(&origin);
    let mut client = gate.connect();
    client.send(HEAD).unwrap();
    origin.wait_for(1);
    client.send(b"hello").unwrap();
    latch.open();
    assert_eq!(client.answer_to("POST").unwrap().status, 200);
    gate.comes_to_rest();
    assert_eq!(origin.only_arrival().body, b"hello");
}

#[test]
fn a_client_that_waits_for_ever_is_let_go_and_the_place_comes_back() {
    let origin = Origin::start(|arrival| if arrival.method == "POST" { Reply::ThenStall(b"") } else { Reply::Ok });
    let mut gate = gate_before(&origin);
    let mut client = gate.connect();
    client.send(HEAD).unwrap();
    let answer = client.answer_to("POST").unwrap();
    assert!(matches!(answer.status, 408 | 504), "{answer:?}");
    gate.comes_to_rest();
    assert_eq!(gate.fetch("/", "").status, 200);
}
