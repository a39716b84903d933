//! Answers that come before the end of their requests, and uploads and answers that take their time.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::harness::talker::{Talker, request, talk};
use crate::harness::{Connection, Gate, Latch, Origin, Reply, wait_for, wait_within};

const LOCKED: &[u8] = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";

fn gate_before(origin: &Origin, more: &str) -> Gate {
    gate_with(origin, more, "")
}

/// A gate on whose direct way alone it is so.
fn direct_gate_before(origin: &Origin, more: &str) -> Gate {
    gate_with(origin, more, DIRECT)
}

const DIRECT: &str = "server:\n  direct: on\n";

fn gate_with(origin: &Origin, more: &str, server: &str) -> Gate {
    Gate::start(&format!(
        "{server}listeners: {{ main: {{ address: '127.0.0.1:0', protocols: [http/1.1, h2] }} }}
origins:
  app:
    addresses: ['{}']
{more}routes: [{{ name: site, origin: app }}]
",
        origin.address()
    ))
}

const ONE_PLACE: &str =
    "    inflight: { max: 1, queue: 4, queue_timeout: 60s }\n    timeouts: { read: 60s, request: 60s }\n";

fn locked_or_fine() -> Origin {
    Origin::start(|arrival| if arrival.method == "POST" { Reply::ThenClose(LOCKED) } else { Reply::Ok })
}

/// A client that has the whole answer to a request of which it has sent the head.
fn answered_early(gate: &Gate) -> Connection {
    let mut client = gate.connect();
    client.send(b"POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n").unwrap();
    let answer = client.answer_to("POST").unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (401, "no"));
    client
}

#[test]
fn a_place_does_not_wait_for_the_rest_of_a_request_that_was_answered() {
    let origin = locked_or_fine();
    let mut gate = gate_before(&origin, ONE_PLACE);
    let mut client = answered_early(&gate);
    // it has all of its answer, and sends nothing more; the one place is another's
    let held = || gate.metrics().sum("tidegate_origin_inflight_requests", &[]);
    wait_within(Duration::from_secs(10), "the place", &mut || (held() == 0.0).then_some(()));
    assert_eq!(gate.fetch("/", "").status, 200);
    // nor does it hold its connection: what is left of its request is not waited for
    assert!(client.rest().is_ok_and(|rest| rest.is_empty()));
    gate.comes_to_rest();
}

#[test]
fn a_client_that_drips_the_rest_of_an_answered_request_is_not_listened_to() {
    let origin = locked_or_fine();
    let mut gate = gate_before(&origin, ONE_PLACE);
    let mut client = answered_early(&gate);
    wait_for("the end of the connection", || {
        sleep(Duration::from_millis(50));
        client.send(&[b'x'; 1_000]).is_err().then_some(())
    });
    assert_eq!(gate.fetch("/", "").status, 200);
    gate.comes_to_rest();
}

#[test]
fn nor_does_a_place_wait_for_streams_of_http2() {
    let origin = locked_or_fine();
    let mut gate = gate_before(&origin, ONE_PLACE);
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("main")).await;
        let mut open = Vec::new();
        for _ in 0..3 {
            let (answer, sending) = talker.begin(request("POST", "/login", &[("content-length", "1")]), false).await;
            assert_eq!(answer.await.unwrap().status(), 401);
            // the stream stays open: one byte is owed
            open.push(sending);
        }
        assert_eq!(talker.get("/").await.unwrap().status, 200);
    });
    gate.comes_to_rest();
}

#[test]
fn an_upload_may_take_longer_than_a_read_of_the_answer() {
    const SHORT: &str = "    timeouts: { read: 1s, request: 60s }\n";
    let origin = Origin::that(Reply::Echo);
    let mut gate = gate_before(&origin, SHORT);
    for framing in ["Content-Length: 12", "Transfer-Encoding: chunked"] {
        let mut client = gate.connect();
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n").as_bytes()).unwrap();
        for _ in 0..6 {
            sleep(Duration::from_millis(400));
            client.send(if framing.starts_with('C') { b"ab" } else { b"2\r\nab\r\n" }).unwrap();
        }
        if framing.starts_with('T') {
            client.send(b"0\r\n\r\n").unwrap();
        }
        let answer = client.answer_to("POST").unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, "abababababab"), "{framing}");
    }
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("main")).await;
        let (answer, mut sending) = talker.begin(request("POST", "/", &[]), false).await;
        for nth in 0..6 {
            tokio::time::sleep(Duration::from_millis(400)).await;
            sending.send_data("ab".into(), nth == 5).unwrap();
        }
        assert_eq!(answer.await.unwrap().status(), 200);
    });
    gate.comes_to_rest();
    assert!(origin.arrivals().iter().all(|arrival| arrival.complete && arrival.body == b"abababababab"));
}

#[test]
fn the_head_of_an_answer_does_not_wait_for_its_body() {
    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n12345";
    let origin = Origin::that(Reply::ThenStall(HEAD));
    let gate = direct_gate_before(&origin, ONE_PLACE);
    let mut client = gate.connect();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert!(client.head().unwrap().starts_with(b"HTTP/1.1 200 "));
    client.skip(5).expect("what has come of the body");
}

#[test]
fn what_an_answer_says_of_the_origins_connection_goes_no_further() {
    const OWN: &[u8] = b"HTTP/1.1 200 OK\r\nTE: trailers\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nok";
    let origin = Origin::that(Reply::Bytes(OWN));
    let gate = gate_before(&origin, ONE_PLACE);
    let answer = gate.fetch("/", "");
    assert_eq!((answer.status, answer.field("te"), answer.field("upgrade")), (200, None, None));
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("main")).await;
        assert_eq!(talker.get("/").await.unwrap().status, 200);
    });
}

#[test]
fn a_client_of_http10_gets_no_interim_answer() {
    const EARLY: &[u8] =
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let origin = Origin::that(Reply::Bytes(EARLY));
    let mut gate = gate_before(&origin, ONE_PLACE);
    let mut client = gate.connect();
    client.send(b"POST / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi").unwrap();
    let all = String::from_utf8(client.rest().unwrap()).unwrap();
    assert!(all.starts_with("HTTP/1.1 200 OK\r\n") && all.ends_with("\r\n\r\nok"), "{all}");
    gate.comes_to_rest();
    assert!(origin.only_arrival().lines("expect").is_empty());
    // one of HTTP/1.1 gets it
    let mut client = gate.connect();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert!(client.head().unwrap().starts_with(b"HTTP/1.1 103 "));
}

#[test]
fn who_sends_all_of_a_request_and_leaves_does_not_wait_for_a_place() {
    let latch = Latch::default();
    let held = latch.clone();
    let origin = Origin::start(move |arrival| match arrival.target.as_str() {
        "/held" => Reply::Held(held.clone()),
        _ => Reply::Ok,
    });
    let mut gate = direct_gate_before(&origin, ONE_PLACE);
    let mut holder = gate.connect();
    holder.send(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    origin.wait_for(1);
    let waiting = || gate.metrics().sum("tidegate_origin_queue_requests", &[]);
    for body in ["Content-Length: 3\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"] {
        let mut client = gate.connect();
        client.send(format!("POST /left HTTP/1.1\r\nHost: a\r\n{body}").as_bytes()).unwrap();
        wait_for("a request in the queue", || (waiting() == 1.0).then_some(()));
        drop(client);
        wait_for("the queue to be empty", || (waiting() == 0.0).then_some(()));
    }
    latch.open();
    assert_eq!(holder.answer_to("GET").unwrap().status, 200);
    gate.comes_to_rest();
    assert_eq!(origin.count(), 1, "nobody asks for what they would have done");
}

#[test]
fn a_limit_of_bytes_holds_an_answer_back_for_as_long_as_it_says() {
    // a piece of 64 KiB and what follows: six seconds at 10 KiB a second behind a burst of 4 KiB
    let body: &'static [u8] = {
        let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 66 << 10).into_bytes();
        answer.resize(answer.len() + (66 << 10), b'x');
        answer.leak()
    };
    let origin = Origin::that(Reply::Bytes(body));
    let mut gate = Gate::start(&format!(
        "{DIRECT}limits: {{ slow: {{ rate: 10KiB/s, burst: 4KiB, action: {{ delay: {{ max: 10s }} }} }} }}
routes: [{{ name: site, origin: '{}', limits: [slow] }}]
",
        origin.address()
    ));
    let begun = Instant::now();
    let answer = gate.fetch("/", "");
    let took = begun.elapsed();
    assert_eq!((answer.status, answer.body.len()), (200, 66 << 10));
    // 60 KiB beyond the burst stand in the first piece, and what follows it waits for them
    assert!(took >= Duration::from_millis(5_900), "{took:?}");
    gate.comes_to_rest();
}
