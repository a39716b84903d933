use std::time::Duration;

use super::*;
use crate::client::key::{KeyPart, KeySpec};
use crate::engine::NoPlaceReason;
use crate::limiter::adaptive::{AdaptiveSpec, Algorithm};
use crate::origins::ring::affinity_seed;
use crate::policy::{Ejection, HealthCheck, InflightCap, Retries};
use crate::sketch::KeyHasher;
use crate::units::Share;

fn origin(balance: Balance, inflight: Option<InflightCap>, weights: &[u32]) -> Arc<OriginState> {
    started(Origin { balance, inflight, ..Origin::of("shop".into(), Vec::new()) }, weights)
}

fn started(spec: Origin, weights: &[u32]) -> Arc<OriginState> {
    let state = OriginState::new(Arc::new(spec), Clock::start()).unwrap();
    let addresses: Vec<_> = weights.iter().enumerate().map(|(n, weight)| located(n, *weight)).collect();
    state.install(&addresses);
    state
}

fn located(n: usize, weight: u32) -> Located {
    Located { address: address(n), weight, entry: n }
}

const NOW: Timestamp = Timestamp::from_nanos(1_000_000_000_000);

fn address(n: usize) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 9000 + n as u16))
}

fn by_client() -> Balance {
    let client_ip = KeyPart::ClientIp { ipv4_prefix: None, ipv6_prefix: None };
    Balance::Hash(KeySpec::new([client_ip], None).unwrap())
}

fn key(n: usize) -> KeyHash {
    let mut hasher = KeyHasher::new(&affinity_seed());
    hasher.part(9, &n.to_le_bytes());
    hasher.finish()
}

#[test]
fn round_robin_follows_the_weights_evenly() {
    let state = origin(Balance::RoundRobin, None, &[2, 1]);
    let chosen: Vec<_> = (0..6).map(|_| state.choose(key(0), &[], NOW).unwrap().address.port() - 9000).collect();
    assert_eq!(chosen.iter().filter(|port| **port == 0).count(), 4);
    assert_eq!(chosen[..3], chosen[3..]);
}

#[test]
fn a_second_attempt_goes_elsewhere_if_there_is_an_elsewhere() {
    for balance in [Balance::RoundRobin, Balance::LeastInflight, by_client()] {
        let two = origin(balance.clone(), None, &[1, 1]);
        for n in 0..20 {
            let first = two.choose(key(n), &[], NOW).unwrap().address;
            assert_ne!(two.choose(key(n), &[first], NOW).unwrap().address, first);
        }
        let three = origin(balance.clone(), None, &[1, 1, 1]);
        for n in 0..20 {
            assert_eq!(three.choose(key(n), &[address(2), address(0)], NOW).unwrap().address, address(1));
        }
        let one = origin(balance, None, &[1]);
        assert_eq!(one.choose(key(1), &[address(0)], NOW).unwrap().address, address(0));
    }
}

#[test]
fn least_inflight_counts_what_is_under_way_per_weight() {
    let state = origin(Balance::LeastInflight, None, &[1, 3]);
    let held: Vec<_> = (0..8).map(|n| state.choose(key(n), &[], NOW).unwrap()).collect();
    assert_eq!(held.iter().filter(|attempt| attempt.address == address(0)).count(), 2);
    drop(held);
    assert!(state.ring.load().endpoints.iter().all(|endpoint| endpoint.inflight.held() == 0));
}

#[test]
fn by_hash_only_the_keys_of_a_lost_address_move() {
    let state = origin(by_client(), None, &[1, 1, 2]);
    let before: Vec<_> = (0..400).map(|n| state.choose(key(n), &[], NOW).unwrap().address).collect();
    let to_last = before.iter().filter(|chosen| **chosen == address(2)).count();
    assert!((150..250).contains(&to_last), "weight 2 of 4 got {to_last} of 400");
    state.install(&[located(0, 1), located(2, 2)]);
    for (n, old) in before.iter().enumerate() {
        let new = state.choose(key(n), &[], NOW).unwrap().address;
        assert!(new == *old || *old == address(1), "key {n} moved without need");
    }
}

#[test]
fn no_address_is_no_attempt() {
    let state = origin(Balance::RoundRobin, None, &[]);
    assert!(state.ring().endpoints.is_empty());
    assert!(state.choose(key(0), &[], NOW).is_none());
}

#[test]
fn addresses_that_stay_keep_their_counts() {
    let state = origin(Balance::LeastInflight, None, &[1]);
    let _held = state.choose(key(0), &[], NOW).unwrap();
    state.install(&[located(1, 1), located(0, 1)]);
    for n in 0..4 {
        assert_eq!(state.choose(key(n), &[], NOW).unwrap().address, address(1), "address 0 still carries one");
    }
}

/// One place, and one that waits.
fn cap() -> InflightCap {
    InflightCap { queue: 1, queue_timeout: Duration::from_millis(50), ..InflightCap::of(1) }
}

fn waiting(state: &OriginState) -> u32 {
    state.waiting_by_class().iter().sum()
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_bounded_and_has_a_deadline() {
    let state = origin(Balance::RoundRobin, Some(cap()), &[1]);
    let held = state.place(None, NOW).await.unwrap();
    let waiter = tokio::spawn({
        let state = Arc::clone(&state);
        async move { state.place(None, NOW).await.map(drop) }
    });
    tokio::task::yield_now().await;
    assert_eq!(waiting(&state), 1);
    assert_eq!(state.place(None, NOW).await.unwrap_err().reason, NoPlaceReason::PushedOut);
    assert_eq!(waiter.await.unwrap().unwrap_err().reason, NoPlaceReason::QueueTimeout);
    assert_eq!((state.inflight(), waiting(&state)), (1, 0));
    drop(held);
    assert_eq!(state.inflight(), 0);
}

#[tokio::test]
async fn a_freed_place_goes_to_the_queue() {
    let state =
        origin(Balance::RoundRobin, Some(InflightCap { queue_timeout: Duration::from_secs(60), ..cap() }), &[1]);
    for _ in 0..200 {
        let held = state.place(None, NOW).await.unwrap();
        let waiter = tokio::spawn({
            let state = Arc::clone(&state);
            async move { state.place(None, NOW).await.map(drop) }
        });
        tokio::task::yield_now().await;
        drop(held);
        assert_eq!(waiter.await.unwrap(), Ok(()));
        assert_eq!((state.inflight(), waiting(&state)), (0, 0));
    }
}

#[tokio::test]
async fn a_waiter_that_gives_up_leaves_nothing_behind() {
    let state =
        origin(Balance::RoundRobin, Some(InflightCap { queue_timeout: Duration::from_secs(60), ..cap() }), &[1]);
    let held = state.place(None, NOW).await.unwrap();
    let waiter = tokio::spawn({
        let state = Arc::clone(&state);
        async move { state.place(None, NOW).await.map(drop) }
    });
    tokio::task::yield_now().await;
    waiter.abort();
    assert!(waiter.await.unwrap_err().is_cancelled());
    assert_eq!(waiting(&state), 0);
    drop(held);
    assert!(state.place(None, NOW).await.is_ok());
    assert_eq!(state.inflight(), 0);
}

#[tokio::test]
async fn the_queue_is_first_come_first_served_whoever_runs_first() {
    let cap = InflightCap { queue: 50, queue_timeout: Duration::from_secs(60), ..InflightCap::of(1) };
    let state = origin(Balance::RoundRobin, Some(cap), &[1]);
    let held = state.place(None, NOW).await.unwrap();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    for n in 0..20 {
        let (state, tell) = (Arc::clone(&state), tell.clone());
        tokio::spawn(async move {
            let _place = state.place(None, NOW).await.unwrap();
            tell.send(n).unwrap();
            // others that come meanwhile stand behind, and none of them may slip in between
            tokio::task::yield_now().await;
        });
        tokio::task::yield_now().await;
    }
    drop(held);
    let late = state.place(None, NOW).await;
    let mut order = Vec::new();
    while let Ok(n) = told.try_recv() {
        order.push(n);
    }
    assert_eq!(order, (0..20).collect::<Vec<_>>());
    drop(late);
    assert_eq!((state.inflight(), waiting(&state)), (0, 0));
}

#[tokio::test]
async fn more_places_let_those_who_wait_go_on() {
    let adaptive = AdaptiveSpec { algorithm: Algorithm::Aimd, min: 1, max: 8, target: None };
    let cap = InflightCap { queue: 50, queue_timeout: Duration::from_secs(60), ..InflightCap::of(8) };
    let spec = Origin { inflight: Some(cap), adaptive: Some(adaptive), ..Origin::of("shop".into(), Vec::new()) };
    let state = started(spec, &[1]);
    assert_eq!(state.limit(), Some(1), "it starts at the least");
    let held = state.place(None, NOW).await.unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let state = Arc::clone(&state);
            tokio::spawn(async move { state.place(None, NOW).await })
        })
        .collect();
    tokio::task::yield_now().await;
    assert_eq!(waiting(&state), 3);
    for _ in 0..3 {
        state.completed(NOW, NOW.after(Duration::from_millis(5)), false);
        tokio::task::yield_now().await;
    }
    for waiter in waiters {
        drop(waiter.await.unwrap().unwrap());
    }
    assert!(state.limit().unwrap() >= 4);
    drop(held);
    assert_eq!((state.inflight(), waiting(&state)), (0, 0));
}

fn ejecting() -> Ejection {
    Ejection {
        consecutive_failures: 3,
        error_share: Share::new(0.5).unwrap(),
        window: Duration::from_secs(10),
        min_requests: 20,
        base: Duration::from_secs(10),
        max: Duration::from_secs(300),
        most: Share::new(0.5).unwrap(),
    }
}

/// Lets every request that goes to one of these addresses fail, so many in all; gives the addresses that were chosen.
fn run(state: &Arc<OriginState>, sick: &[usize], requests: usize, now: Timestamp) -> Vec<usize> {
    let mut chosen = Vec::new();
    for n in 0..requests {
        let attempt = state.choose(key(n), &[], now).unwrap();
        let to = usize::from(attempt.address.port()) - 9000;
        state.note(&attempt, sick.contains(&to), now);
        chosen.push(to);
    }
    chosen
}

#[test]
fn an_address_that_fails_is_left_out_and_comes_back() {
    for balance in [Balance::RoundRobin, Balance::LeastInflight, by_client()] {
        let spec = Origin { balance, ejection: Some(ejecting()), ..Origin::of("shop".into(), Vec::new()) };
        let state = started(spec, &[1, 1, 1]);
        run(&state, &[1], 60, NOW);
        assert!(!run(&state, &[1], 60, NOW).contains(&1), "it is out");
        let later = NOW.after(Duration::from_secs(10));
        assert!(run(&state, &[], 60, later).contains(&1), "and back");
    }
}

#[test]
fn not_more_than_half_are_left_out_and_never_the_last_one() {
    for addresses in 1..=6 {
        let spec = Origin { ejection: Some(ejecting()), ..Origin::of("shop".into(), Vec::new()) };
        let state = started(spec, &vec![1; addresses]);
        let all: Vec<usize> = (0..addresses).collect();
        run(&state, &all, 300, NOW);
        let out = state.ring().endpoints.iter().filter(|endpoint| endpoint.record.is_out(NOW)).count();
        assert_eq!(out, if addresses == 1 { 0 } else { (addresses / 2).max(1) }, "of {addresses}");
    }
}

#[test]
fn the_last_address_that_passes_its_checks_is_never_ejected() {
    let check = HealthCheck { unhealthy_after: 1, ..HealthCheck::default() };
    let spec =
        Origin { health: Some(check.clone()), ejection: Some(ejecting()), ..Origin::of("shop".into(), Vec::new()) };
    let state = started(spec, &[1, 1]);
    state.ring().endpoints[0].checked.note(&check, false, NOW);
    assert_eq!(run(&state, &[1], 50, NOW), [1; 50], "the other one is worse");
    state.ring().endpoints[1].checked.note(&check, false, NOW);
    assert_eq!(state.despite(), 0);
    let despite = run(&state, &[], 50, NOW);
    assert!(despite.contains(&0) && despite.contains(&1), "where all are out, all are asked");
    assert_eq!(state.despite(), 50);
}

#[test]
fn retries_are_bounded_by_the_budget_and_not_without_one() {
    let retries = Retries { budget: Some(Share::new(0.1).unwrap()), ..Retries::default() };
    let state = started(Origin { retries, ..Origin::of("shop".into(), Vec::new()) }, &[1]);
    (0..50).for_each(|_| state.begun());
    assert_eq!((0..100).filter(|_| state.may_retry(|| NOW)).count(), 5 + 3);
    let free = started(Origin::of("shop".into(), Vec::new()), &[1]);
    assert!((0..1_000).all(|_| free.may_retry(|| NOW)));
}
