//! Many askers at once.

use std::time::Duration;

use tidegate::limiter::sharing::Promise;

use super::{Server, connected, question, rate, single, until};

/// Eight askers by two clients, each as fast as it can; what was granted, by the store's clock.
async fn hammered(promise: Promise, questions: u32) -> Vec<(u64, u64)> {
    let server = Server::start(&[]);
    let clients = [connected(&single(&server)).await, connected(&single(&server)).await];
    let askers: Vec<_> = (0..8)
        .map(|asker| {
            let client = clients[asker % 2].client.clone();
            tokio::spawn(async move {
                let mut granted = Vec::new();
                for number in 0..questions {
                    let wanted = 1 + number % 4;
                    let (answer, now) = client.ask(&question(1, promise, wanted, 1), "limit").await.0.unwrap();
                    granted.push((now, u64::from(answer.granted)));
                }
                granted
            })
        })
        .collect();
    let mut all = Vec::new();
    for asker in askers {
        all.extend(asker.await.unwrap());
    }
    all.sort_unstable();
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_interval_has_more_than_the_rate_promises_however_many_ask() {
    let granted = hammered(rate(100, Duration::from_secs(1), 20), 150).await;
    let sum: u64 = granted.iter().map(|(_, units)| units).sum();
    assert!(sum >= 20, "the burst is there to be had: {sum}");
    for (index, (from, _)) in granted.iter().enumerate() {
        let mut units = 0;
        for (until, more) in &granted[index..] {
            units += more;
            // units <= 20 + 100 per second, in whole numbers
            assert!(units * 1_000_000 <= 20 * 1_000_000 + 100 * (until - from), "{units} in {} µs", until - from);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_has_exactly_its_quota_however_many_ask() {
    let window = Duration::from_secs(1);
    let granted = hammered(Promise::Quota { max: 50, window }, 150).await;
    let mut windows = std::collections::BTreeMap::new();
    for (now, units) in granted {
        *windows.entry(now / 1_000_000).or_insert(0) += units;
    }
    assert!(windows.values().all(|&units| units <= 50), "{windows:?}");
    assert!(windows.values().any(|&units| units == 50), "{windows:?}");
}

#[tokio::test]
async fn gates_know_how_many_they_are() {
    let server = Server::start(&[]);
    let first = connected(&single(&server)).await;
    until("the first to know itself", || first.nodes() == 1 && server.cli(&["ZCARD", "tg:{gates}"]) == "1").await;
    let second = connected(&single(&server)).await;
    until("both to know each other", || first.nodes() == 2 && second.nodes() == 2).await;
    drop(second);
    until("the first to know that it is alone", || first.nodes() == 1).await;
}
