//! Sketch and exact entries together under loom: promotion, eviction, charges and re-keying, in the code that serves.
//!
//! The order of steps is explored without any bound by the model of the same protocol (`crates/limits/tests/sketch/promotion_model.rs`). This runs the
//! code itself, with the memory orderings of C11: every load may also return an older value. That makes so many runs
//! of the larger cases that they are cut off, so passing them is evidence and not a proof.

use std::sync::Arc;

use tidegate_limits::sketch::{Admission, Bucket, KeyHash, Levels, Meter, Rekeyed, Seed, Spot};
use tidegate_limits::sync::AtomicU64;

use crate::monotone::INTERVAL;
use crate::{at, broken_interval, bucket, cost, explore, key, once};

const SEED: Seed = Seed::from_bytes([5; 16]);

type Small = Levels<AtomicU64, 1>;

/// After so many runs a case is cut off: the smaller ones end before.
const MOST_RUNS: usize = 2_000;

/// The levels of the requests of `key` that were admitted at `now`.
fn ask(levels: &Small, bucket: &Bucket, key: KeyHash, now: u64, times: usize) -> Vec<u64> {
    (0..times).filter_map(|_| admitted(levels.admit(bucket, key, at(now), cost(1)))).collect()
}

/// The levels of those that look first, as a request with several limits does, and are charged by what they saw.
fn look_and_charge(levels: &Small, bucket: &Bucket, key: KeyHash, now: u64, times: usize) -> Vec<u64> {
    let one = |_| {
        let mut spot = Spot::default();
        let level = levels.look(key, &mut spot);
        let charged = bucket.admit(level, at(now), cost(1))?;
        if levels.raise_seen(&spot, bucket, key, at(now), &charged) {
            return Some(charged.to);
        }
        admitted(levels.admit(bucket, key, at(now), cost(1)))
    };
    (0..times).filter_map(one).collect()
}

fn admitted(admission: Admission) -> Option<u64> {
    if let Admission::Admitted { level } = admission { Some(level) } else { None }
}

type Way = fn(&Small, &Bucket, KeyHash, u64, usize) -> Vec<u64>;

/// How those ask who race with the first.
const WAYS: [(Way, Way); 3] = [(ask, ask), (look_and_charge, look_and_charge), (look_and_charge, ask)];

/// Any two of the levels are a full charge apart.
fn are_apart(levels: &[u64]) -> bool {
    let mut levels = levels.to_vec();
    levels.sort_unstable();
    levels.windows(2).all(|pair| pair[1] - pair[0] >= INTERVAL)
}

/// Each thread asks so many times for one key, at one stamp.
fn race_for_one_key(burst: u32, preemptions: usize, asks: &'static [usize]) {
    WAYS.into_iter().for_each(|ways| race_in_ways(burst, preemptions, asks, ways));
}

fn race_in_ways(burst: u32, preemptions: usize, asks: &'static [usize], (first, beside): (Way, Way)) {
    explore(preemptions, Some(MOST_RUNS), move || {
        let bucket = bucket(INTERVAL, burst);
        let levels = Arc::new(Small::with_shape(1, 1, &SEED).unwrap());
        let (own, others) = asks.split_first().unwrap();
        let spawn = |times: &usize| {
            let (levels, times) = (levels.clone(), *times);
            loom::thread::spawn(move || beside(&levels, &bucket, key(0), 0, times))
        };
        let others: Vec<_> = others.iter().map(spawn).collect();
        let mut admitted = first(&levels, &bucket, key(0), 0, *own);
        admitted.extend(others.into_iter().flat_map(|thread| thread.join().unwrap()));
        let asked: usize = asks.iter().sum();
        assert_eq!(admitted.len(), asked.min(burst as usize), "{admitted:?}");
        assert!(are_apart(&admitted), "{admitted:?}");
        assert!(levels.estimate(key(0)) >= admitted.len() as u64 * INTERVAL, "an admission was forgotten");
    });
}

#[test]
pub fn two_threads_that_promote_one_key_share_its_units_exactly() {
    race_for_one_key(1, 3, &[1, 1]);
    race_for_one_key(2, 2, &[2, 1]);
    race_for_one_key(3, 2, &[2, 2]);
}

#[test]
pub fn three_threads_that_promote_one_key_share_its_units_exactly() {
    race_for_one_key(1, 1, &[1, 1, 1]);
    race_for_one_key(2, 1, &[1, 1, 1]);
}

/// Keys apart from each other in every row of every model here.
fn strangers<const N: usize>(columns: usize) -> [KeyHash; N] {
    once(move || {
        let table = Rekeyed::<AtomicU64, 1>::with_shape(columns, &SEED).unwrap();
        let columns = |key| table.table().columns_of(key);
        let mut found: Vec<KeyHash> = Vec::new();
        for candidate in (0..100_000).map(key) {
            if found.iter().all(|other| columns(*other) != columns(candidate)) {
                found.push(candidate);
            }
            if let Ok(found) = found.as_slice().try_into() {
                return found;
            }
        }
        panic!("no {N} keys apart");
    })
}

#[test]
pub fn a_key_that_is_evicted_while_it_asks_gets_no_fresh_budget() {
    let [heavy, victim, other] = strangers::<3>(4);
    WAYS.into_iter().for_each(|(promoted, evicted)| evict_in_ways([heavy, victim, other], promoted, evicted));
}

fn evict_in_ways([heavy, victim, other]: [KeyHash; 3], promoted: Way, evicted: Way) {
    explore(3, Some(MOST_RUNS), move || {
        let bucket = bucket(INTERVAL, 4);
        let levels = Arc::new(Small::with_shape(4, 1, &SEED).unwrap());
        // both slots are taken; an interval later the victim has one unit spent of four, and may be evicted
        let mut admitted: Vec<(u64, u32)> = ask(&levels, &bucket, victim, 0, 2).iter().map(|_| (0, 1)).collect();
        assert_eq!((admitted.len(), ask(&levels, &bucket, other, 0, 4).len()), (2, 4));
        assert_eq!(ask(&levels, &bucket, heavy, INTERVAL, 1).len(), 1);
        let racing = levels.clone();
        let promoting = loom::thread::spawn(move || promoted(&racing, &bucket, heavy, INTERVAL, 1).len());
        admitted.extend(evicted(&levels, &bucket, victim, INTERVAL, 2).iter().map(|_| (INTERVAL, 1)));
        assert_eq!(promoting.join().unwrap(), 1);
        admitted.extend(ask(&levels, &bucket, victim, INTERVAL, 4).iter().map(|_| (INTERVAL, 1)));
        assert_eq!(broken_interval(&bucket, &admitted), None, "{admitted:?}");
        assert_eq!(admitted.len(), 5, "wrongly refused");
    });
}

#[test]
pub fn a_charge_and_an_admission_that_race_are_both_counted() {
    let cases = [(1, 3 * INTERVAL), (2, 4 * INTERVAL), (2, u64::MAX)];
    for ((burst, ceiling), way) in cases.into_iter().flat_map(|case| [(case, ask as Way), (case, look_and_charge)]) {
        explore(2, Some(MOST_RUNS), move || {
            let bucket = bucket(INTERVAL, burst);
            let levels = Arc::new(Small::with_shape(1, 1, &SEED).unwrap());
            let racing = levels.clone();
            let charging = loom::thread::spawn(move || racing.charge(&bucket, key(0), at(0), cost(1), ceiling));
            let mut charged = way(&levels, &bucket, key(0), 0, 2);
            charged.push(charging.join().unwrap());
            assert!(are_apart(&charged), "{charged:?}");
            assert!(levels.estimate(key(0)) >= charged.len() as u64 * INTERVAL, "a charge was lost");
        });
    }
}

const PERIOD: u64 = tidegate_limits::sketch::rekeyed::PERIOD_NANOS;
const SECOND: u64 = 1_000_000_000;

#[test]
pub fn requests_that_race_with_the_opening_of_an_overlap_share_the_last_unit() {
    WAYS.into_iter().for_each(|(first, beside)| overlap_in_ways(first, beside));
}

fn overlap_in_ways(first: Way, beside: Way) {
    explore(2, Some(MOST_RUNS), move || {
        let bucket = bucket(INTERVAL, 1);
        let levels = Arc::new(Small::with_shape(1, 1, &SEED).unwrap());
        levels.maintain(at(0), bucket.fade_nanos());
        let racing = levels.clone();
        let rekeying = loom::thread::spawn(move || {
            racing.maintain(at(PERIOD), bucket.fade_nanos());
            beside(&racing, &bucket, key(0), PERIOD, 1)
        });
        let mut admitted = first(&levels, &bucket, key(0), PERIOD, 1);
        admitted.extend(rekeying.join().unwrap());
        // none, if the phase moved in the midst of the only one that could: what it had raised counts against it
        assert!(admitted.len() <= 1, "{admitted:?}");
    });
}

/// One attempt by cells alone: whether it was admitted, and the generation that it was judged in.
fn attempt(sketch: &Rekeyed<AtomicU64, 1>, bucket: &Bucket, now: u64) -> Option<u64> {
    let reading = sketch.read(key(0));
    let charged = bucket.charge(reading.level(), at(now), cost(1));
    (bucket.admits(charged, at(now)) && reading.raise(charged)).then(|| reading.generation())
}

#[test]
pub fn requests_by_cells_that_race_with_either_step_are_charged_on_top_of_each_other() {
    for steps in [vec![PERIOD], vec![PERIOD, PERIOD, PERIOD + 2 * SECOND]] {
        explore(4, Some(MOST_RUNS), move || {
            let bucket = bucket(INTERVAL, 1);
            let sketch = Arc::new(Rekeyed::<AtomicU64, 1>::with_shape(1, &SEED).unwrap());
            sketch.maintain(at(0), bucket.fade_nanos());
            let (before, steps) = (steps.len() > 1, steps.clone());
            let (first, later) = steps.split_at(if before { 2 } else { 0 });
            first.iter().for_each(|now| sketch.maintain(at(*now), bucket.fade_nanos()));
            assert_eq!(sketch.is_overlapping(), before);
            let now = *later.last().unwrap();
            let (racing, later) = (sketch.clone(), later.to_vec());
            let rekeying = loom::thread::spawn(move || {
                later.iter().for_each(|now| racing.maintain(at(*now), bucket.fade_nanos()));
                attempt(&racing, &bucket, now).is_some()
            });
            let own = attempt(&sketch, &bucket, now).is_some();
            assert!(!(own && rekeying.join().unwrap()), "both were admitted");
        });
    }
}

#[test]
pub fn a_thread_that_sleeps_until_its_table_is_cleared_admits_nothing_by_what_it_sees() {
    explore(4, Some(MOST_RUNS), || {
        let bucket = bucket(INTERVAL, 1);
        let sketch = Arc::new(Rekeyed::<AtomicU64, 1>::with_shape(1, &SEED).unwrap());
        sketch.maintain(at(0), bucket.fade_nanos());
        assert_eq!(attempt(&sketch, &bucket, PERIOD), Some(0), "the key is spent now");
        let racing = sketch.clone();
        let sleeper = loom::thread::spawn(move || attempt(&racing, &bucket, PERIOD));
        // overlap, the next generation, and the overlap after it, for which the first table is cleared
        let mut now = PERIOD;
        for wait in [0, 0, 2 * SECOND, 0, PERIOD] {
            now += wait;
            sketch.maintain(at(now), bucket.fade_nanos());
        }
        assert_eq!((sketch.generation(), sketch.is_overlapping()), (1, true));
        // a sleep of ten minutes makes it a request of the next generation, never one of its own
        assert_ne!(sleeper.join().unwrap(), Some(0));
    });
}

#[test]
pub fn maintenances_one_after_the_other_never_shorten_an_overlap() {
    explore(3, Some(MOST_RUNS), || {
        let sketch = Arc::new(Rekeyed::<AtomicU64, 1>::with_shape(1, &SEED).unwrap());
        sketch.maintain(at(0), 0);
        let racing = sketch.clone();
        // the overlap begins, and then its second
        let first = loom::thread::spawn(move || [0, 0].map(|later| racing.maintain(at(PERIOD + later), 0)));
        // half a second later this one may begin it, but never end it
        sketch.maintain(at(PERIOD + SECOND / 2), 0);
        first.join().unwrap();
        assert_eq!((sketch.generation(), sketch.is_overlapping()), (0, true));
    });
}
