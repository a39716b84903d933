//! What happens when a store says nothing.

use std::time::{Duration, Instant};

use tidegate::limiter::sharing::StoreError;
use tidegate::policy::StoreMode;
use tidegate::store::{BreakerState, MOST_ON_THEIR_WAY};

use super::{Server, answered, connected, one, single, store, tended, until};
use crate::harness::PATIENCE;

#[tokio::test]
async fn a_store_that_is_not_there_is_told_without_waiting() {
    let mut server = Server::start(&[]);
    server.kill();
    let asking = tended(&store(StoreMode::Single, vec![server.port]), &Default::default());
    for _ in 0..100 {
        assert_eq!(asking.ask(&one(1), "limit").await, Err(StoreError::Unreachable));
    }
    assert_eq!(asking.nodes(), 1);
    let durations = &asking.client.counters().durations;
    assert!(durations.iter().all(|count| count.load(std::sync::atomic::Ordering::Relaxed) == 0), "none was sent");
}

#[tokio::test]
async fn a_killed_store_is_found_again_by_itself_and_begins_empty() {
    let mut server = Server::start(&[]);
    let asking = connected(&single(&server)).await;
    assert_eq!(asking.ask(&one(1), "limit").await.unwrap().left, 99);
    server.kill();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) {
        let store_error = asking.ask(&one(1), "limit").await.unwrap_err();
        assert!(matches!(store_error, StoreError::Unreachable | StoreError::Breaker), "{store_error:?}");
    }
    server.restart();
    assert_eq!(answered(&asking, &one(1)).await.left, 99, "what it kept in memory is gone");
    until("the second connection", || asking.status().connected).await;
}

#[tokio::test]
async fn a_paused_store_times_out_then_is_left_alone_and_is_found_again() {
    let server = Server::start(&[]);
    let mut store = single(&server);
    store.timeout = Duration::from_millis(20);
    let patient = connected(&single(&server)).await;
    answered(&patient, &one(1)).await;
    let asking = connected(&store).await;
    answered(&asking, &one(1)).await;
    server.pause();
    let mut silences = Vec::new();
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        let start = Instant::now();
        silences.push(asking.ask(&one(2), "limit").await.unwrap_err());
        longest = longest.max(start.elapsed());
    }
    let timed_out = silences.iter().filter(|store_error| **store_error == StoreError::TimedOut).count();
    assert!((1..20).contains(&timed_out), "{silences:?}");
    assert!(silences.iter().all(|store_error| matches!(
        store_error,
        StoreError::TimedOut | StoreError::Breaker | StoreError::Unreachable
    )));
    assert!(asking.client.counters().breaker_opened.load(std::sync::atomic::Ordering::Relaxed) > 0);
    println!("paused store, timeout 20 ms: the longest question took {longest:?}");
    assert!(longest < PATIENCE, "the store's time, not the connection's");
    server.resume();
    answered(&asking, &one(1)).await;
    assert_eq!(asking.status().breaker, BreakerState::Closed);
    let left = answered(&patient, &one(2)).await.left as usize;
    assert!(left + 1 + timed_out >= 100, "each was charged once at most: {left} left after {timed_out}");
}

#[tokio::test]
async fn one_question_too_many_is_not_sent() {
    let server = Server::start(&[]);
    let asking = connected(&single(&server)).await;
    server.pause();
    let waiting: Vec<_> = (0..MOST_ON_THEIR_WAY)
        .map(|_| {
            let client = asking.client.clone();
            tokio::spawn(async move { client.ask(&one(1), "limit").await })
        })
        .collect();
    until("all to be on their way", || asking.status().on_their_way == MOST_ON_THEIR_WAY).await;
    assert_eq!(asking.ask(&one(1), "limit").await, Err(StoreError::Busy));
    waiting.iter().for_each(|waiting| waiting.abort());
    until("all to have gone", || asking.status().on_their_way == 0).await;
    server.resume();
    answered(&asking, &one(1)).await;
}
