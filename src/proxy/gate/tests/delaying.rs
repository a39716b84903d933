//! `action: delay`.

use super::*;

fn patient(events: u32, window: Duration) -> Vec<Rule> {
    vec![rate("slow", events, window, 1, OnLimit::Delay { max: 2 * HOUR })]
}

#[test]
fn a_delayed_request_goes_on_when_its_moment_has_come() {
    live(async {
        let gate = answering(patient(20, Duration::from_secs(1)), StatusCode::OK, "hello");
        let begun = Instant::now();
        let mut client = gate.connect().await;
        for _ in 0..4 {
            assert_eq!(ask(&mut client, "/", "").await.unwrap().status, 200);
        }
        assert!(begun.elapsed() >= Duration::from_millis(150), "{:?}", begun.elapsed());
        assert_eq!(gate.waiting(), 0);
    });
}

#[test]
fn who_waits_holds_no_place_and_a_client_that_leaves_ends_its_wait() {
    live(async {
        let origin = scripted().await;
        let gate = forwarding(patient(1, HOUR), &origin, Some(1));
        assert_eq!(gate.get("/").await.status, 200);
        let mut client = gate.connect().await;
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        until(|| gate.waiting() == 1).await;
        assert_eq!(gate.process.generation().origin(0).unwrap().inflight(), 0);
        drop(client);
        until(|| gate.waiting() == 0).await;
        assert_eq!(origin.heads.lock().unwrap().len(), 1, "it was never forwarded");
    });
}

#[test]
fn a_place_is_taken_when_the_wait_is_over() {
    live(async {
        let origin = scripted().await;
        let gate = forwarding(patient(20, Duration::from_secs(1)), &origin, Some(1));
        let mut holding = gate.connect().await;
        holding.write_all(b"GET /hold HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        until(|| origin.heads.lock().unwrap().len() == 1).await;
        let refused = gate.get("/").await;
        assert_eq!(refused.status, 503, "{}", refused.head);
        drop(holding);
        until(|| gate.process.generation().origin(0).unwrap().inflight() == 0).await;
        assert_eq!(gate.get("/").await.status, 200);
    });
}

#[test]
fn one_more_than_may_wait_is_refused_as_if_the_limit_rejected() {
    live(async {
        let gate = serve(policy(patient(1, HOUR), respond(StatusCode::OK, ""), Vec::new()), 1, None);
        assert_eq!(gate.get("/").await.status, 200);
        let mut first = gate.connect().await;
        first.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        until(|| gate.waiting() == 1).await;
        let refused = gate.get("/").await;
        assert_eq!(refused.status, 429);
        let field = refused.head.lines().find_map(|line| line.strip_prefix("retry-after: "));
        assert!(field.is_some_and(|seconds| seconds.parse::<u64>().unwrap() > 3600), "{}", refused.head);
        assert_eq!(gate.waiting(), 1);
    });
}

#[test]
fn a_stop_ends_waits_with_a_refusal() {
    live(async {
        let gate = answering(patient(1, HOUR), StatusCode::OK, "");
        let mut client = gate.connect().await;
        assert_eq!(ask(&mut client, "/", "").await.unwrap().status, 200);
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        until(|| gate.waiting() == 1).await;
        gate.process.start_draining();
        gate.stop.send(true).unwrap();
        let refused = answer(&mut client).await.unwrap();
        assert_eq!(refused.status, 429);
        assert!(
            refused.head.contains("retry-after: ") && refused.head.contains("connection: close"),
            "{}",
            refused.head
        );
        assert!(is_closed(&mut client).await);
    });
}
