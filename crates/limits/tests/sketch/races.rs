//! Two cores in lock-step over fresh keys: every key is asked for by both at once, until both are refused. Shows what
//! the model checker cannot: that the promise holds on this hardware, too, and that contention costs no admissions.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use pingora_limits::estimator::Estimator;
use tidegate_limits::sketch::{Admission, Levels, MonotoneTable, Seed};
use tidegate_limits::units::Bytes;

use crate::{at, bucket, cost, key};

/// What two threads were granted together, over all keys.
#[derive(Debug, Default, PartialEq)]
pub struct Tally {
    pub decisions: u64,
    /// Keys that got more than the limit, and less.
    pub over: u64,
    pub short: u64,
}

/// A counter with a cache line of its own, so that waiting for one thread does not slow the other.
#[repr(align(128))]
#[derive(Default)]
struct Arrivals(AtomicU64);

/// Both threads ask `limit + 1` times each for the key of every round, and enter a round only together.
pub fn race<K>(
    limit: u8,
    rounds: std::ops::Range<u64>,
    key_of: impl Fn(u64) -> K + Sync,
    admits: impl Fn(&K) -> bool + Sync,
) -> Tally {
    // one race at a time: it needs both cores, and two of them would mostly wait for each other
    static TRACK: Mutex<()> = Mutex::new(());
    let _on_the_track = TRACK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let arrivals = [Arrivals::default(), Arrivals::default()];
    let run = |me: usize| {
        let mut granted = Vec::with_capacity((rounds.end - rounds.start) as usize);
        for round in rounds.clone() {
            let key = key_of(round);
            arrivals[me].0.store(round + 1, Ordering::Release);
            let mut spins = 0_u32;
            while arrivals[1 - me].0.load(Ordering::Acquire) <= round {
                spins += 1;
                // on a busy machine the other thread may not be running at all
                if spins.is_multiple_of(1_000) { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
            granted.push((0..=limit).filter(|_| admits(&key)).count() as u8);
        }
        granted
    };
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(|| run(1));
        (run(0), other.join().unwrap())
    });
    let mut tally = Tally::default();
    for (a, b) in first.iter().zip(&second) {
        tally.decisions += 2 * (u64::from(limit) + 1);
        tally.over += u64::from(a + b > limit);
        tally.short += u64::from(a + b < limit);
    }
    tally
}

#[test]
fn ten_million_contested_decisions_admit_exactly_the_limit() {
    let mut decisions = 0;
    for (limit, rounds) in [(1, 800_000), (2, 600_000), (5, 300_000)] {
        let bucket = bucket(1_000, u32::from(limit));
        // every round is so much later that what earlier keys left in the cells is past
        let stamp = |round: u64| at((round + 1) * 2 * bucket.depth_nanos());
        let table: MonotoneTable = MonotoneTable::with_shape(1024).unwrap();
        let tally = race(
            limit,
            0..rounds,
            |round| (key(round), stamp(round)),
            |(key, now)| matches!(table.admit(&bucket, *key, *now, cost(1)), Admission::Admitted { .. }),
        );
        println!("limit {limit}: {tally:?}");
        assert_eq!((tally.over, tally.short), (0, 0), "limit {limit}");
        decisions += tally.decisions;
    }
    assert!(decisions >= 10_000_000);
}

#[test]
fn keys_that_two_threads_promote_are_admitted_exactly_the_limit() {
    for (limit, rounds) in [(1, 40_000), (2, 40_000), (5, 20_000)] {
        let bucket = bucket(1_000, u32::from(limit));
        let stamp = |round: u64| at((round + 1) * 2 * bucket.depth_nanos());
        // few lines, so that every promotion evicts the entry of an earlier round
        let levels: Levels = Levels::with_shape(1024, 4, &Seed::from_bytes([3; 16])).unwrap();
        let tally = race(
            limit,
            0..rounds,
            |round| (key(round), stamp(round)),
            |(key, now)| matches!(levels.admit(&bucket, *key, *now, cost(1)), Admission::Admitted { .. }),
        );
        println!("limit {limit}: {tally:?}, {} entries", levels.exact_entries());
        assert_eq!((tally.over, tally.short), (0, 0), "limit {limit}");
        // some are free: a claim that the other thread killed
        assert!(levels.exact_entries() > 0 && levels.exact_entries() <= levels.exact_capacity());
    }
}

#[test]
fn no_charge_is_lost_when_two_threads_charge_one_key() {
    let (bucket, ceiling) = (bucket(1_000, 4_000), u64::MAX >> 1);
    let levels = Levels::new(Bytes(4 << 10), &Seed::from_bytes([3; 16])).unwrap();
    let rounds = 20_000;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..rounds).for_each(|_| _ = levels.charge(&bucket, key(0), at(0), cost(1), ceiling)));
        }
    });
    assert_eq!(levels.estimate(key(0)), 2 * rounds * bucket.interval_nanos());
}

/// The control: without it, a clean result could mean that the threads never met.
#[test]
fn the_same_races_go_over_when_deciding_on_what_adding_returned() {
    // fresh keys fill the estimator, which can only make it refuse; so a new one before it is full
    let over = (0..50).find_map(|_| {
        let tallies = [1, 2, 5].map(add_and_take_back);
        tallies.iter().any(|tally| tally.over > 0).then_some(tallies)
    });
    println!("adding and taking back, at limits 1, 2 and 5: {over:?}");
    assert!(over.is_some(), "3,000,000 races never met");
}

/// What `pingora_limits` offers for a limit: add, decide on the least value returned, take back if it was too much.
fn add_and_take_back(limit: u8) -> Tally {
    let estimator = Estimator::new(4, 65_536);
    let admits = |round: &u64| {
        let admitted = estimator.incr(round, 1) <= isize::from(limit);
        if !admitted {
            estimator.decr(round, 1);
        }
        admitted
    };
    race(limit, 0..20_000, |round| round, admits)
}
