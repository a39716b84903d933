//! Origins that fail in every way a socket allows. The client is told which kind of failure it was, nothing of the inside,
//! and the place at the origin is given back.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::harness::origin::{deaf, refusing};
use crate::harness::{Answer, Gate, Origin, Reply};

/// A gate before these addresses, with one place at the origin: the next request shows whether it came back.
fn gate_before(addresses: &[SocketAddr], more: &str) -> Gate {
    let addresses: Vec<String> = addresses.iter().map(|address| format!("\"{address}\"")).collect();
    Gate::start(&format!(
        "origins:
  app:
    addresses: [{}]
    timeouts: {{ connect: 1s, read: 1s, write: 1s, request: 2s }}
    inflight: {{ max: 1 }}
{more}
routes:
  - name: site
    origin: app
",
        addresses.join(", ")
    ))
}

/// Sends a GET to an origin that always does `reply`, and checks that all is well with the gate afterwards.
fn ask_one_that(reply: Reply) -> Answer {
    let origin = Origin::start(move |arrival| if arrival.target == "/fine" { Reply::Ok } else { reply.clone() });
    let mut gate = gate_before(&[origin.address()], "");
    let answer = gate.fetch("/fails", "");
    goes_on(&mut gate);
    answer
}

fn goes_on(gate: &mut Gate) {
    gate.comes_to_rest();
    assert_eq!(gate.fetch("/fine", "").status, 200, "the next request is served");
    gate.comes_to_rest();
}

/// The gate's own answer: no store, a length, nothing of the inside.
fn is_own_answer(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert!(answer.complete, "{answer:?}");
    let text = format!("{:?} {}", answer.fields, answer.text());
    for inside in ["127.0.0.1", "pingora", "Pingora", "panic", "os error"] {
        assert!(!text.contains(inside), "{inside} is nobody's business: {text}");
    }
}

#[test]
fn an_origin_that_refuses_connections_is_502() {
    let (address, _guard) = refusing();
    let mut gate = gate_before(&[address], "");
    for _ in 0..3 {
        is_own_answer(&gate.fetch("/", ""), 502);
        gate.comes_to_rest();
    }
    assert_eq!(gate.connect().ask("POST", "/", "", b"hello").status, 502);
    gate.comes_to_rest();
}

#[test]
fn an_origin_that_never_accepts_is_504() {
    let (address, _guard) = deaf();
    let mut gate = gate_before(&[address], "");
    is_own_answer(&gate.fetch("/", ""), 504);
    gate.comes_to_rest();
}

#[test]
fn an_origin_that_resets_before_it_answers_is_502() {
    is_own_answer(&ask_one_that(Reply::ThenReset(b"")), 502);
}

#[test]
fn an_origin_that_closes_before_it_answers_is_502() {
    is_own_answer(&ask_one_that(Reply::ThenClose(b"")), 502);
}

#[test]
fn an_origin_that_closes_inside_its_head_is_502() {
    is_own_answer(&ask_one_that(Reply::ThenClose(b"HTTP/1.1 200 OK\r\nContent-Le")), 502);
}

#[test]
fn an_origin_that_sends_garbage_is_502() {
    is_own_answer(&ask_one_that(Reply::ThenClose(b"\x00\x01\x02 this is no HTTP \xff\xfe\r\n\r\n")), 502);
    is_own_answer(&ask_one_that(Reply::ThenClose(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n\r\n")), 502);
    is_own_answer(&ask_one_that(Reply::ThenClose(b"HTTP/1.1 999999 Eh\r\n\r\n")), 502);
}

#[test]
fn an_origin_that_stalls_before_it_answers_is_504() {
    let start = Instant::now();
    is_own_answer(&ask_one_that(Reply::ThenStall(b"")), 504);
    assert!(start.elapsed() >= Duration::from_millis(900), "the origin had its time");
}

#[test]
fn an_origin_that_stalls_inside_its_head_is_504() {
    is_own_answer(&ask_one_that(Reply::ThenStall(b"HTTP/1.1 200 OK\r\nX-Half")), 504);
}

#[test]
fn an_origin_whose_head_drips_is_504_when_the_request_has_had_its_time() {
    is_own_answer(&ask_one_that(Reply::DrippingHead), 504);
}

#[test]
fn a_body_that_breaks_off_is_not_made_whole() {
    const HALF: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
    const HALF_CHUNKS: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n";
    for half in [HALF, HALF_CHUNKS] {
        for reply in [Reply::ThenClose(half), Reply::ThenReset(half), Reply::ThenStall(half)] {
            let answer = ask_one_that(reply);
            // the gate may notice before it has passed the head on, never after it claimed an end
            assert!(matches!(answer.status, 200 | 502 | 504), "{answer:?}");
            assert!(answer.status != 200 || !answer.complete, "half a body was passed off as whole: {answer:?}");
        }
    }
}

#[test]
fn a_body_that_ends_with_the_connection_is_passed_on() {
    let answer = ask_one_that(Reply::ThenClose(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end"));
    assert_eq!((answer.status, answer.text().as_str(), answer.complete), (200, "until the end", true));
}

#[test]
fn interim_answers_do_not_end_a_request() {
    let answer = ask_one_that(Reply::Bytes(
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfinal",
    ));
    assert_eq!((answer.status, answer.text().as_str()), (200, "final"));
    assert_eq!(answer.interim, [103], "and are passed on");
}

#[test]
fn an_answer_with_two_lengths_is_not_passed_on() {
    let two = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\nhello";
    is_own_answer(&ask_one_that(Reply::ThenClose(two)), 502);
}

#[test]
fn a_switch_of_protocols_that_nobody_asked_for_is_not_passed_on() {
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
    let answer = ask_one_that(Reply::ThenClose(switch));
    assert!(answer.status >= 500, "{answer:?}");
}

#[test]
fn a_request_that_never_reached_an_origin_is_tried_at_the_next_address() {
    let (nobody, _guard) = refusing();
    let origin = Origin::that(Reply::Echo);
    let mut gate = gate_before(&[nobody, origin.address()], "    retries: { max: 1 }");
    for round in 1..=6 {
        // nothing was sent to anybody before, so a POST is as safe as a GET
        let answer = gate.connect().ask("POST", "/", "", b"hello");
        assert_eq!((answer.status, answer.text().as_str()), (200, "hello"));
        gate.comes_to_rest();
        assert_eq!(origin.count(), round);
    }
}

#[test]
fn a_post_that_an_origin_has_seen_is_never_sent_twice() {
    let origin = Origin::that(Reply::ThenClose(b""));
    let other = Origin::that(Reply::Ok);
    let mut gate = gate_before(&[origin.address(), other.address()], "    retries: { max: 3 }");
    let (mut failed, mut served) = (0, 0);
    for _ in 0..6 {
        match gate.connect().ask("POST", "/", "", b"hello").status {
            502 => failed += 1,
            200 => served += 1,
            status => panic!("{status}"),
        }
        gate.comes_to_rest();
    }
    assert_eq!((origin.count(), other.count()), (failed, served), "each request went to one place once");
    assert!(failed > 0, "the failing one had its turn");
}

#[test]
fn an_origin_that_comes_back_is_used_again() {
    let origin = Origin::start(|arrival| match arrival.target.as_str() {
        "/fails" => Reply::ThenClose(b""),
        _ => Reply::Ok,
    });
    let mut gate = gate_before(&[origin.address()], "");
    for _ in 0..5 {
        assert_eq!(gate.fetch("/fails", "").status, 502);
        goes_on(&mut gate);
    }
}
