//! Streams and connections of HTTP/2 that end in the middle. Whenever they do, the place at the origin is given back: when the
//! origin's work should be over, or at once where the policy says `release`. How many are at work meanwhile:
//! [`crate::abandoned`].

use bytes::Bytes;
use h2::Reason;

use super::gate_before;
use super::talker::{Talker, request, talk};
use crate::harness::{Gate, Latch, Origin, Reply};

const RELEASE: &str = "    timeouts: { connect: 2s, read: 60s, write: 60s, request: 60s }
    inflight: { max: 2, queue: 8, queue_timeout: 60s }
    on_client_abort: release
";

const CAP: &str = "    timeouts: { connect: 2s, read: 60s, write: 60s, request: 60s }
    inflight: { max: 2, queue: 8, queue_timeout: 60s }
";

fn fine_or(reply: Reply) -> Origin {
    Origin::start(move |arrival| if arrival.target == "/fine" { Reply::Ok } else { reply.clone() })
}

/// Whatever happened before, the origin takes as many requests at once as it may: no place is lost.
fn all_places_are_free(gate: &mut Gate) {
    gate.comes_to_rest();
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("main")).await;
        for _ in 0..8 {
            assert_eq!(talker.get("/fine").await.unwrap().status, 200);
        }
    });
    gate.comes_to_rest();
}

#[test]
fn a_request_that_is_cancelled_while_the_origin_thinks_gives_its_place_back_at_once_where_the_policy_says_so() {
    let latch = Latch::default();
    let origin = fine_or(Reply::Held(latch.clone()));
    let mut gate = gate_before(&origin, RELEASE);
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("main")).await;
        for round in 0..6 {
            let (_, mut sending) = talker.begin(request("GET", "/think", &[]), true).await;
            poll_until(|| origin.count() > round).await;
            sending.send_reset(Reason::CANCEL);
        }
    });
    // the latch is still shut: only the resets can have ended these requests
    all_places_are_free(&mut gate);
    latch.open();
}

#[test]
fn a_request_that_is_cancelled_in_the_queue_leaves_it() {
    let latch = Latch::default();
    let origin = fine_or(Reply::Held(latch.clone()));
    let mut gate = gate_before(&origin, CAP);
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("main")).await;
        let (_first, _) = talker.begin(request("GET", "/think", &[]), true).await;
        let (_second, _) = talker.begin(request("GET", "/think", &[]), true).await;
        poll_until(|| origin.count() == 2).await;
        let mut waiting = Vec::new();
        for number in 0..4 {
            // with and without a body still to come
            waiting.push(talker.begin(request("POST", "/wait", &[]), number % 2 == 0).await);
        }
        poll_until(|| gate.metrics().sum("tidegate_origin_queue_requests", &[]) == 4.0).await;
        for (_, sending) in &mut waiting {
            sending.send_reset(Reason::CANCEL);
        }
        poll_until(|| gate.metrics().sum("tidegate_origin_queue_requests", &[]) == 0.0).await;
    });
    assert_eq!(origin.count(), 2, "those that were cancelled never reached the origin");
    latch.open();
    all_places_are_free(&mut gate);
}

#[test]
fn an_upload_that_is_cancelled_gives_its_place_back() {
    let origin = fine_or(Reply::Echo);
    let mut gate = gate_before(&origin, CAP);
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("main")).await;
        // how long the origin takes is known from here on, and a place is kept no longer
        assert_eq!(talker.get("/fine").await.unwrap().status, 200);
        for round in 1..7 {
            let (_, mut sending) = talker.begin(request("POST", "/up", &[("content-length", "1000000")]), false).await;
            sending.send_data(Bytes::from(vec![b'x'; 10_000]), false).unwrap();
            poll_until(|| origin.count() > round).await;
            sending.send_reset(Reason::CANCEL);
        }
    });
    all_places_are_free(&mut gate);
    assert!(origin.arrivals().iter().all(|arrival| arrival.target == "/fine" || !arrival.complete));
}

#[test]
fn a_download_that_is_cancelled_gives_its_place_back() {
    let origin = fine_or(Reply::Endless);
    let mut gate = gate_before(&origin, CAP);
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("main")).await;
        for _ in 0..6 {
            let (answer, _) = talker.begin(request("GET", "/down", &[]), true).await;
            let mut body = answer.await.unwrap().into_body();
            body.data().await.unwrap().unwrap();
            drop(body);
        }
    });
    all_places_are_free(&mut gate);
}

#[test]
fn a_connection_that_is_cut_gives_all_its_places_back() {
    let latch = Latch::default();
    let origin = fine_or(Reply::Held(latch.clone()));
    let mut gate = gate_before(&origin, CAP);
    talk(async {
        let (mut talker, ended) = Talker::open(gate.address("main")).await;
        // how long the origin takes is known from here on, and the place of half a request is kept no longer
        assert_eq!(talker.get("/fine").await.unwrap().status, 200);
        let mut under_way = Vec::new();
        for number in 0..8 {
            under_way.push(talker.begin(request("POST", "/think", &[]), number % 2 == 0).await);
        }
        poll_until(|| origin.count() >= 2).await;
        ended.abort();
    });
    // those that wait in the queue leave it with their connection; those that came whole are still at work
    latch.open();
    all_places_are_free(&mut gate);
}

/// What the origin is told of a request's body stays true when the connection is cut in that moment, or it waits for the rest.
#[test]
fn requests_without_a_body_that_wait_when_their_connection_is_cut_leave_no_place_taken() {
    let origin = fine_or(Reply::Ok);
    let mut gate = gate_before(&origin, CAP);
    for round in 0..200 {
        talk(async {
            let arrived = origin.count() + round % 7;
            let (mut talker, ended) = Talker::open(gate.address("main")).await;
            let mut under_way = Vec::new();
            for _ in 0..8 {
                under_way.push(talker.begin(request("POST", "/think", &[]), true).await);
            }
            // places of requests that were cut off stay taken for a while, so not all of them may come
            let enough = std::time::Instant::now() + std::time::Duration::from_millis(50);
            poll_until(|| origin.count() > arrived || std::time::Instant::now() > enough).await;
            ended.abort();
        });
    }
    all_places_are_free(&mut gate);
}

#[test]
fn an_answer_that_breaks_off_is_reset_and_others_go_on() {
    let origin =
        fine_or(Reply::ThenReset(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly the beginning of what was said"));
    let mut gate = gate_before(&origin, CAP);
    talk(async {
        let (mut talker, _) = Talker::open(gate.address("main")).await;
        for _ in 0..4 {
            let broken = talker.get("/broken").await.expect_err("the answer is not whole");
            assert!(broken.is_reset() && broken.reason() != Some(Reason::NO_ERROR), "{broken:?}");
            assert_eq!(talker.get("/fine").await.unwrap().status, 200);
        }
    });
    all_places_are_free(&mut gate);
}

/// Waits without keeping the conversation's own task from running.
async fn poll_until(mut done: impl FnMut() -> bool) {
    while !done() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}
