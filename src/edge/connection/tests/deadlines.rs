//! What only the clock decides, over pipes in paused time.

use super::*;

#[test]
fn a_head_that_drips_is_answered_408_at_its_deadline() {
    paused(async {
        let gate = Gate::new();
        for served in [0, 1] {
            let (mut client, serving) = gate.pipe();
            for _ in 0..served {
                client.write_all(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
                until(&mut client, "/1=").await;
                tokio::time::sleep(Duration::from_secs(30)).await;
            }
            let begun = Instant::now();
            for byte in b"GET /slow HTTP/1.1\r\nHost: aaaaaaaaaaaaaaaaaaaaaaaaaaaa" {
                if client.write_all(&[*byte]).await.is_err() {
                    break;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
                if serving.is_finished() {
                    break;
                }
            }
            assert!(rest(&mut client).await.starts_with("HTTP/1.1 408"));
            let lasted = begun.elapsed();
            assert!((10..=13).contains(&lasted.as_secs()), "{lasted:?}");
        }
        assert_eq!(*gate.counts.heads.lock().unwrap(), [HeadFault::Late, HeadFault::Late]);
    });
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    paused(async {
        let gate = Gate::new();
        // never said anything
        let begun = Instant::now();
        let (mut client, _serving) = gate.pipe();
        assert_eq!(rest(&mut client).await, "");
        assert_eq!(begun.elapsed().as_secs(), 10);
        // said one thing, and an empty line
        let (mut client, _serving) = gate.pipe();
        client.write_all(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        until(&mut client, "/1=").await;
        client.write_all(b"\r\n").await.unwrap();
        let begun = Instant::now();
        assert_eq!(rest(&mut client).await, "");
        assert_eq!(begun.elapsed().as_secs(), 60);
        assert!(gate.counts.heads.lock().unwrap().is_empty());
    });
}

#[test]
fn a_stop_closes_idle_connections_soon_but_not_at_once() {
    paused(async {
        let gate = Gate::new();
        let (mut idle, _serving) = gate.pipe();
        let (mut busy, _serving) = gate.pipe();
        for client in [&mut idle, &mut busy] {
            client.write_all(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
            until(client, "/1=").await;
        }
        gate.stop.send(true).unwrap();
        let begun = Instant::now();
        tokio::time::sleep(Duration::from_millis(500)).await;
        busy.write_all(b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        assert!(rest(&mut busy).await.ends_with("/2="));
        assert_eq!(rest(&mut idle).await, "");
        assert_eq!(begun.elapsed().as_secs(), 1);
    });
}

#[test]
fn a_body_that_stalls_or_creeps_is_given_up_and_a_steady_one_is_not() {
    paused(async {
        let gate = Gate::new();
        let head = b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n";
        for (bytes_a_second, lasts, status) in [(0, 20..=21, 408), (100, 23..=27, 408), (1000, 59..=61, 200)] {
            let (mut client, _serving) = gate.pipe();
            client.write_all(head).await.unwrap();
            let (mut answers, mut sending) = tokio::io::split(client);
            let begun = Instant::now();
            let sender = tokio::spawn(async move {
                for _ in 0..60 {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    if sending.write_all(&vec![b'x'; bytes_a_second]).await.is_err() {
                        break;
                    }
                }
                sending
            });
            let answer = until(&mut answers, "\r\n\r\n").await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
            assert!(lasts.contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
            sender.abort();
        }
        assert_eq!(*gate.counts.bodies.lock().unwrap(), [BodyFault::SlowUpload; 2]);
    });
}

#[test]
fn a_client_that_never_takes_its_answer_is_given_up() {
    paused(async {
        let gate = Gate::new();
        let (mut client, serving) = gate.pipe();
        let body = "x".repeat(1 << 17);
        let head = format!("POST /big HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
        client.write_all(head.as_bytes()).await.unwrap();
        client.write_all(body.as_bytes()).await.unwrap();
        let begun = Instant::now();
        assert!(serving.await.is_err() || begun.elapsed().as_secs() <= 25);
        assert!((20..=25).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        assert_eq!(*gate.counts.bodies.lock().unwrap(), [BodyFault::SlowDownload]);
    });
}
