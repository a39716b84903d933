//! Charges that wait for the answer, bytes, and switched connections.

use super::*;
use crate::policy::{CostRule, Counted, Scope, StatusSet};

/// Counts answers with 401, `most` of them in an hour or two.
fn failures(most: u32) -> Vec<Rule> {
    let counted = Counted::Responses(StatusSet::NONE.with(401, 401));
    vec![Rule { counted, ..rate("wrong", 1, HOUR, most, OnLimit::Reject) }]
}

#[test]
fn of_many_wrong_passwords_at_once_no_more_reach_the_origin_than_may_fail() {
    live(async {
        let origin = scripted().await;
        let gate = Arc::new(forwarding(failures(5), &origin, None));
        let tries: Vec<_> = (0..100)
            .map(|_| {
                let gate = Arc::clone(&gate);
                tokio::spawn(async move { gate.get("/401").await.status })
            })
            .collect();
        let mut statuses = Vec::new();
        for one in tries {
            statuses.push(one.await.unwrap());
        }
        assert_eq!(origin.heads.lock().unwrap().len(), 5);
        assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 5, "{statuses:?}");
        assert!(statuses.iter().all(|status| matches!(status, 401 | 429)), "{statuses:?}");
    });
}

#[test]
fn an_answer_is_charged_before_the_client_can_read_it() {
    live(async {
        let origin = scripted().await;
        let gate = forwarding(failures(1), &origin, None);
        let mut client = gate.connect().await;
        for _ in 0..20 {
            assert_eq!(ask(&mut client, "/", "").await.unwrap().status, 200, "what does not match is free");
        }
        assert_eq!(ask(&mut client, "/401", "").await.unwrap().status, 401);
        assert_eq!(ask(&mut client, "/", "").await.unwrap().status, 429);
        let gate = answering(failures(1), StatusCode::UNAUTHORIZED, "no");
        let mut client = gate.connect().await;
        for expected in [401, 429] {
            assert_eq!(ask(&mut client, "/", "").await.unwrap().status, expected, "an answer of the route's own");
        }
    });
}

#[test]
fn an_origin_that_had_the_request_and_a_client_that_leaves_are_charged_as_if_they_matched() {
    live(async {
        let origin = scripted().await;
        let gate = forwarding(failures(1), &origin, None);
        assert_eq!(gate.get("/close").await.status, 502, "nobody knows what the origin made of it");
        assert_eq!(gate.get("/").await.status, 429);
        let gate = forwarding(failures(1), &origin, None);
        let before = origin.heads.lock().unwrap().len();
        let mut client = gate.connect().await;
        client.write_all(b"GET /hold HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        until(|| origin.heads.lock().unwrap().len() == before + 1).await;
        drop(client);
        until(|| gate.process.generation().origin(0).unwrap().inflight() == 0).await;
        assert_eq!(gate.get("/").await.status, 429);
    });
}

#[test]
fn bytes_of_both_bodies_are_charged_and_fixed_answers_too() {
    live(async {
        let bytes =
            || vec![Rule { cost: CostRule::Bytes { unit: 1 }, ..rate("bytes", 1, HOUR, 1500, OnLimit::Reject) }];
        let origin = scripted().await;
        let gate = forwarding(bytes(), &origin, None);
        let mut client = gate.connect().await;
        for expected in [200, 200, 429] {
            assert_eq!(ask(&mut client, "/kilo", "").await.unwrap().status, expected);
        }
        let gate = forwarding(bytes(), &origin, None);
        let upload = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n{}", "x".repeat(2000));
        for expected in [200, 429] {
            let mut client = gate.connect().await;
            client.write_all(upload.as_bytes()).await.unwrap();
            assert_eq!(answer(&mut client).await.unwrap().status, expected);
        }
        let gate = answering(bytes(), StatusCode::OK, "a body that is not very long but long enough for five of them");
        let mut client = gate.connect().await;
        let mut served = 0;
        while ask(&mut client, "/", "").await.unwrap().status == 200 {
            served += 1;
            assert!(served < 1500 / 61 + 2);
        }
        assert!(served >= 1500 / 61, "{served}");
    });
}

#[test]
fn the_bytes_of_a_switched_connection_are_charged() {
    live(async {
        let origin = scripted().await;
        let rules = vec![Rule { cost: CostRule::Bytes { unit: 1 }, ..rate("bytes", 1, HOUR, 100, OnLimit::Reject) }];
        let gate = forwarding(rules, &origin, None);
        let mut client = switched(&gate).await;
        client.write_all(&[b'x'; 100]).await.unwrap();
        client.read_exact(&mut [0; 100]).await.unwrap();
        assert_eq!(gate.get("/").await.status, 429);
    });
}

/// A connection that has switched and carries bytes.
async fn switched(gate: &Served) -> TcpStream {
    let mut client = gate.connect().await;
    let head = ask(&mut client, "/switch", SWITCH).await.unwrap();
    assert_eq!(head.status, 101, "{}", head.head);
    client.write_all(b"x").await.unwrap();
    client.read_exact(&mut [0; 1]).await.unwrap();
    client
}

#[test]
fn a_switch_beyond_its_class_is_refused_and_its_connection_to_the_origin_dropped() {
    live(async {
        let origin = scripted().await;
        let kind = Kind::Inflight(kinds::Inflight { max: 2, upgraded: 1, scope: Scope::Global });
        let global = KeySpec::new([KeyPart::Global], None).unwrap();
        let gate = forwarding(vec![Rule::new("streams", global, kind, Mode::Enforce)], &origin, None);
        let first = switched(&gate).await;
        let mut second = gate.connect().await;
        let refused = ask(&mut second, "/switch", SWITCH).await.unwrap();
        assert_eq!(refused.status, 503, "{}", refused.head);
        assert!(refused.head.contains("connection: close"), "{}", refused.head);
        assert!(is_closed(&mut second).await);
        until(|| origin.open.load(std::sync::atomic::Ordering::SeqCst) == 1).await;
        // the stream takes no place of an ordinary request
        assert_eq!(gate.get("/").await.status, 200);
        drop(first);
    });
}
