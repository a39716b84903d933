//! `action: tag` and `action: close`.

use http::HeaderName;

use super::*;

fn tagging(name: &str, field: &'static str, burst: u32) -> Rule {
    rate(name, 1, HOUR, burst, OnLimit::Tag { header: HeaderName::from_static(field) })
}

#[test]
fn the_origin_hears_which_limits_a_request_is_over_and_nothing_from_the_client() {
    live(async {
        let origin = scripted().await;
        let rules = vec![tagging("one", "x-over", 1), tagging("two", "x-over", 1), tagging("more", "x-more", 2)];
        let gate = forwarding(rules, &origin, None);
        let forged = "X-Over: forged\r\nX_Over: forged\r\nX-More: forged\r\nX-Other: mine\r\n";
        for _ in 0..3 {
            let mut client = gate.connect().await;
            assert_eq!(ask(&mut client, "/", forged).await.unwrap().status, 200);
        }
        let heads = origin.heads.lock().unwrap();
        assert!(heads.iter().all(|head| !head.contains("forged") && head.contains("x-other: mine")), "{heads:?}");
        let tags = |head: &String| {
            let mut tags: Vec<_> = head
                .lines()
                .filter(|line| line.starts_with("x-over") || line.starts_with("x-more"))
                .map(str::to_owned)
                .collect();
            tags.sort();
            tags
        };
        let expected: [&[&str]; 3] = [&[], &["x-over: one, two"], &["x-more: more", "x-over: one, two"]];
        for (head, expected) in heads.iter().zip(expected) {
            assert_eq!(tags(head), expected, "{head}");
        }
    });
}

#[test]
fn a_refusal_that_closes_ends_the_connection_on_both_ways() {
    live(async {
        let origin = scripted().await;
        let gate = forwarding(vec![rate("shut", 1, HOUR, 1, OnLimit::Close)], &origin, None);
        assert_eq!(gate.get("/").await.status, 200);
        // without a body it is answered before Pingora, with one by it
        for body in ["", "Content-Length: 2\r\n\r\nhi"] {
            let mut client = gate.connect().await;
            let end = if body.is_empty() { "\r\n" } else { "" };
            client.write_all(format!("POST / HTTP/1.1\r\nHost: a\r\n{body}{end}").as_bytes()).await.unwrap();
            let refused = answer(&mut client).await.unwrap();
            assert_eq!(refused.status, 429);
            assert!(refused.head.contains("connection: close"), "{}", refused.head);
            assert!(is_closed(&mut client).await);
        }
    });
}

#[test]
fn a_refusal_that_does_not_close_keeps_the_connection() {
    live(async {
        let gate = answering(vec![rate("open", 1, HOUR, 1, OnLimit::Reject)], StatusCode::OK, "");
        let mut client = gate.connect().await;
        for expected in [200, 429, 429] {
            assert_eq!(ask(&mut client, "/", "").await.unwrap().status, expected);
        }
    });
}

#[test]
fn whom_the_limits_refuse_is_counted_on_both_ways() {
    live(async {
        let gate = answering(vec![rate("tight", 1, HOUR, 1, OnLimit::Reject)], StatusCode::OK, "");
        for body in ["", "", "Content-Length: 2\r\n\r\nhi"] {
            let mut client = gate.connect().await;
            let end = if body.is_empty() { "\r\n" } else { "" };
            client.write_all(format!("POST / HTTP/1.1\r\nHost: a\r\n{body}{end}").as_bytes()).await.unwrap();
            answer(&mut client).await.unwrap();
        }
        let generation = gate.process.generation();
        let list = generation.refused().list(gate.process.clock.now());
        let told: Vec<_> = list
            .entries
            .iter()
            .map(|entry| (entry.rule, entry.payload.network.to_string(), entry.count, entry.error))
            .collect();
        assert_eq!(told, [(0, "127.0.0.1".to_owned(), 2, 0)]);
    });
}
