//! What an honest client of HTTP/2 sees: its requests served side by side, as in HTTP/1.

use bytes::Bytes;

use super::gate_before;
use super::talker::{Talker, read, request, talk};
use crate::harness::{Gate, Latch, Origin, Reply};

#[test]
fn requests_are_served_side_by_side_on_one_connection() {
    let latch = Latch::default();
    let held = latch.clone();
    let origin =
        Origin::start(move |arrival| if arrival.target == "/slow" { Reply::Held(held.clone()) } else { Reply::Ok });
    let mut gate = gate_before(&origin, "");
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("main")).await;
        let (slow, _) = talker.begin(request("GET", "/slow", &[]), true).await;
        for _ in 0..20 {
            let answer = talker.get("/fast?a=b").await.unwrap();
            assert_eq!((answer.status, answer.body.as_slice()), (200, &b"ok"[..]));
        }
        latch.open();
        assert_eq!(read(slow.await.unwrap()).await.unwrap().status, 200);
    });
    gate.comes_to_rest();
    gate.counts("tidegate_requests_total", &[("listener", "main"), ("code", "2xx")], 21.0);
    gate.counts("tidegate_h2_abuse_total", &[], 0.0);
    let arrivals = origin.arrivals();
    assert_eq!(arrivals.iter().filter(|arrival| arrival.target == "/fast?a=b").count(), 20);
    assert!(arrivals.iter().all(|arrival| arrival.lines("host") == ["gate.example"]));
}

#[test]
fn both_versions_are_served_on_one_listener() {
    let origin = Origin::that(Reply::Echo);
    let gate = gate_before(&origin, "");
    // shorter than the preface of HTTP/2
    let mut connection = gate.connect();
    connection.send(b"GET / HTTP/1.1\r\nHost:a\r\n\r\n").unwrap();
    assert_eq!(connection.answer_to("GET").unwrap().status, 200);
    assert_eq!(connection.ask("PUT", "/x", "", b"hello").body, b"hello");
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("main")).await;
        assert_eq!(talker.ask(request("PUT", "/x", &[]), b"hello").await.unwrap().body, b"hello");
    });
    let log = gate.log_of(3);
    assert_eq!(log.iter().map(|entry| entry.protocol.as_str()).collect::<Vec<_>>(), ["h1", "h1", "h2"]);
}

#[test]
fn without_the_word_http2_is_not_spoken_and_with_it_alone_http1_is_not() {
    let gate = Gate::start(
        "listeners:
  main: { address: \"127.0.0.1:0\" }
  only: { address: \"127.0.0.1:0\", protocols: h2 }
routes:
  - respond: { status: 200, body: hello }
",
    );
    let mut connection = gate.connect();
    connection.send(super::raw::PREFACE).unwrap();
    assert_eq!(connection.answer_to("GET").unwrap().status, 505);
    let mut connection = crate::harness::Connection::open(gate.address("only"));
    connection.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(connection.answer_to("GET").unwrap().status, 505);
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("only")).await;
        assert_eq!(talker.get("/").await.unwrap().body, b"hello");
    });
}

#[test]
fn bodies_pass_whole_in_both_directions() {
    let origin = Origin::that(Reply::Echo);
    let mut gate = gate_before(&origin, "");
    let body: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("main")).await;
        for length in [0, 1, 16_384, 70_000, body.len()] {
            for declared in [false, true] {
                let length_text = length.to_string();
                let fields = [("content-length", length_text.as_str())];
                let head = request("POST", "/up", if declared { &fields } else { &[] });
                let answer = talker.ask(head, &body[..length]).await.unwrap();
                assert_eq!(answer.status, 200);
                assert!(answer.body == body[..length], "{length} bytes, declared: {declared}");
            }
        }
        let head = talker.ask(request("HEAD", "/head", &[]), b"").await.unwrap();
        assert_eq!((head.status, head.body.len()), (200, 0));
    });
    gate.comes_to_rest();
    assert!(origin.arrivals().iter().all(|arrival| arrival.complete));
}

#[test]
fn a_client_that_waits_for_the_word_to_go_on_gets_it() {
    let origin = Origin::that(Reply::Continue);
    let mut gate = gate_before(&origin, "");
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("main")).await;
        let head = request("POST", "/up", &[("expect", "100-continue"), ("content-length", "5")]);
        let (mut answer, mut sending) = talker.begin(head, false).await;
        let interim = std::future::poll_fn(|cx| answer.poll_informational(cx)).await;
        assert_eq!(interim.expect("an interim answer").unwrap().status(), 100);
        sending.send_data(Bytes::from_static(b"hello"), true).unwrap();
        assert_eq!(read(answer.await.unwrap()).await.unwrap().body, b"hello");
    });
    gate.comes_to_rest();
}

#[test]
fn early_hints_come_before_the_answer() {
    let origin = Origin::that(Reply::Bytes(
        b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ));
    let gate = gate_before(&origin, "");
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("main")).await;
        let (mut answer, _) = talker.begin(request("GET", "/", &[]), true).await;
        let interim = std::future::poll_fn(|cx| answer.poll_informational(cx)).await.expect("an interim answer");
        assert_eq!(interim.unwrap().headers()["link"], "</a.css>");
        assert_eq!(read(answer.await.unwrap()).await.unwrap().body, b"ok");
    });
}

#[test]
fn refusals_carry_the_same_fields_and_keep_the_connection() {
    let origin = Origin::that(Reply::Ok);
    let mut gate = Gate::start(&format!(
        "listeners:
  main: {{ address: \"127.0.0.1:0\", protocols: h2 }}
limits:
  two: {{ key: client_ip, rate: 1/h, burst: 2 }}
routes:
  - {{ name: site, origin: \"{}\", limits: [two], body_limit: 1KiB }}
",
        origin.address()
    ));
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("main")).await;
        let first = talker.get("/").await.unwrap();
        assert_eq!(first.status, 200);
        assert!(first.fields.contains_key("ratelimit"), "{first:?}");
        let too_large = talker.ask(request("POST", "/", &[]), &[b'x'; 2_000]).await;
        assert_eq!(too_large.unwrap().status, 413);
        for _ in 0..20 {
            let refused = talker.get("/").await.unwrap();
            assert_eq!(refused.status, 429, "{refused:?}");
            assert!(refused.fields.contains_key("retry-after") && !refused.fields.contains_key("connection"));
            assert_eq!(refused.fields["content-length"], refused.body.len().to_string());
        }
        // a body that nobody reads: the answer comes, and the client is told that no more of it is wanted
        let (answer, mut sending) = talker.begin(request("POST", "/up", &[]), false).await;
        sending.send_data(Bytes::from_static(b"some of it"), false).unwrap();
        assert_eq!(read(answer.await.unwrap()).await.unwrap().status, 429);
        let reason = std::future::poll_fn(|cx| sending.poll_reset(cx)).await.unwrap();
        assert_eq!(reason, h2::Reason::NO_ERROR);
        let grpc = request("POST", "/svc/Do", &[("content-type", "application/grpc"), ("te", "trailers")]);
        let refused = talker.ask(grpc, b"\0\0\0\0\0").await.unwrap();
        assert_eq!(refused.status, 200, "{refused:?}");
        let status =
            refused.fields.get("grpc-status").or(refused.trailers.as_ref().and_then(|all| all.get("grpc-status")));
        assert!(status.is_some_and(|status| status != "0"), "{refused:?}");
    });
    gate.comes_to_rest();
    gate.counts("tidegate_connections", &[("listener", "main")], 0.0);
    gate.counts("tidegate_connections_accepted_total", &[("listener", "main")], 1.0);
}

#[test]
fn an_abuser_is_told_to_leave() {
    let gate = Gate::start(
        "listeners:
  main: { address: \"127.0.0.1:0\", protocols: h2 }
limits:
  one: { key: client_ip, rate: 1/h, burst: 1, action: close }
routes:
  - { limits: [one], respond: { status: 200, body: hello } }
",
    );
    talk(async {
        let (mut talker, ended) = Talker::open(gate.address("main")).await;
        assert_eq!(talker.get("/").await.unwrap().status, 200);
        assert_eq!(talker.get("/").await.unwrap().status, 429);
        ended.await.unwrap().expect("the connection ends without blame");
    });
}

#[test]
fn a_gate_that_stops_finishes_what_is_under_way() {
    let latch = Latch::default();
    let origin = Origin::that(Reply::Held(latch.clone()));
    let mut gate = gate_before(&origin, "");
    talk(async {
        let (mut talker, ended) = Talker::open(gate.address("main")).await;
        let (slow, _) = talker.begin(request("GET", "/slow", &[]), true).await;
        while origin.count() == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        gate.signal("TERM");
        // the client hears of it while its request is under way
        while std::future::poll_fn(|cx| std::task::Poll::Ready(talker_takes(&mut talker, cx))).await {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        latch.open();
        assert_eq!(read(slow.await.unwrap()).await.unwrap().status, 200);
        ended.await.unwrap().expect("the connection ends without blame");
    });
    assert!(gate.exit_status().success());
}

fn talker_takes(talker: &mut Talker, cx: &mut std::task::Context<'_>) -> bool {
    !matches!(talker.poll_ready(cx), std::task::Poll::Ready(Err(_)))
}

#[test]
fn a_head_that_is_too_large_is_answered_431_and_the_connection_goes_on() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate_before(&origin, "");
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("main")).await;
        // the second is answered by the library that speaks the protocol
        for large in [40_000, 70_000] {
            let large = "x".repeat(large);
            let answer = talker.ask(request("GET", "/", &[("x-large", &large)]), b"").await.unwrap();
            assert_eq!(answer.status, 431);
        }
        let many: Vec<String> = (0..150).map(|number| format!("x-{number}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "1")).collect();
        assert_eq!(talker.ask(request("GET", "/", &many), b"").await.unwrap().status, 431);
        assert_eq!(talker.get("/").await.unwrap().status, 200);
    });
    assert_eq!(origin.count(), 1);
    gate.counts("tidegate_malformed_requests_total", &[("reason", "too_large")], 2.0);
    gate.counts("tidegate_malformed_requests_total", &[("reason", "too_many_fields")], 1.0);
}
