//! The error that a sketch was sized for, held against the tables of every kind that has one: the bound of count-min, with the
//! sum of what its kind counts in the place of N.
//!
//! For each kind, in each of 1,500 limiters of other seeds, the keys that weigh most for the bound are charged: as many as there
//! can be of which each alone is more than ε·N. Then one key that was never charged is asked about. Let p be the probability
//! that its count is above ε·N. If p ≤ δ = 1 %, then 40 or more of 1,500 are with probability 2·10⁻⁷ at most (binomial). The
//! seeds are fixed, so a run cannot fail by chance; the number says how unlikely it was to choose seeds that hide a fault.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use proptest::prelude::*;

use tidegate_limits::limiter::{Hold, Kind, Limiter, Place, Probe, RefusedCount, Scope, Spec, kinds};
use tidegate_limits::sketch::{Accuracy, Meter, MonotoneTable, OfferedRates, RecentAverage, Seed, Window};
use tidegate_limits::units::{Bytes, Rate, Share, Timestamp};

use crate::{at, bucket, cost, key, key_under};

const LIMITERS: u64 = 1_500;
const TOO_MANY: usize = 40;
const DELTA: f64 = 0.01;
/// What each of the keys is charged: less than half of any quota here, beyond which a key has an entry of its own.
const EACH: u32 = 10;
const QUOTA: u32 = 1_000;
const START: u64 = 1_000_000_000_000;

fn accuracy(error: f64) -> Accuracy {
    Accuracy { error: Share::new(error).unwrap(), confidence: Share::new(1.0 - DELTA).unwrap() }
}

/// Every kind that has a sketch, in so much memory.
fn kinds(memory: Bytes) -> Vec<Kind> {
    let (window, rate) = (Duration::from_secs(3_600), Rate::new(QUOTA, Duration::from_secs(60)).unwrap());
    let half_life = Duration::from_secs(60);
    let refused = RefusedCount::Admitted;
    let (max, upgraded) = (QUOTA, QUOTA);
    vec![
        Kind::Rate(kinds::Rate { rate, burst: QUOTA, memory }),
        Kind::Quota(kinds::Quota { max, window: window.into(), sliding: false, memory }),
        Kind::Quota(kinds::Quota { max, window: window.into(), sliding: true, memory }),
        Kind::RecentAverage(kinds::RecentAverage { rate, half_life, refused, memory }),
        Kind::Distinct(kinds::Distinct { max, window, sliding: false, refused, memory }),
        Kind::Distinct(kinds::Distinct { max, window, sliding: true, refused, memory }),
        Kind::Inflight(kinds::Inflight { max, upgraded, scope: Scope::Key { memory } }),
    ]
}

/// How much is counted of a key that was never charged, where `heavy` others were.
fn counted(kind: &Kind, seed: &Seed, heavy: u64) -> f64 {
    let (now, stranger) = (at(START), heavy + 1);
    let spec = Spec { origins: 1, ..Spec::new("sized", std::slice::from_ref(kind)) };
    let limiter = Arc::new(Limiter::new(&spec, seed).unwrap());
    let place = |number: u64, value: u64| {
        let (key, value) = (key_under(seed, number), key_under(seed, 1 << 32 | value));
        Place { key: limiter.own_hash().of(key), value: limiter.own_hash().of_pair(key, value), ..Place::default() }
    };
    // places are counted for as long as they are held
    let mut held: Vec<Hold> = Vec::new();
    for number in 0..heavy {
        // a value counts as one, whatever a request costs
        let (requests, each) = if matches!(kind, Kind::Distinct(..)) { (EACH, 1) } else { (1, EACH) };
        for value in 0..u64::from(requests) {
            let probe = Probe::unasked(&place(number, value), cost(each));
            held.extend(limiter.commit(&probe, now).unwrap().1);
        }
    }
    let judgement = limiter.probe(&place(stranger, 0), now, cost(1)).judgement;
    f64::from(judgement.quota) - 1.0 - f64::from(judgement.remaining)
}

/// The same of offered rates.
fn offered(memory: Bytes, seed: &Seed, heavy: u64) -> f64 {
    let now = at(START);
    let rates = OfferedRates::new(memory, Duration::from_secs(1), seed).unwrap();
    for key in (0..heavy).map(|number| key_under(seed, number)) {
        for _ in 0..EACH {
            let _ = rates.add(&rates.read(key, 0), now);
        }
    }
    rates.rate(key_under(seed, heavy + 1), 0, now) / rates.per_event()
}

/// In how many limiters the count of a stranger is above ε·N.
fn above(word: &str, error: f64, counted: impl Fn(&Seed, u64) -> f64) -> usize {
    // the most keys of which each is more than ε of all
    let heavy = (1.0 / error).ceil() as u64 - 1;
    let bound = error * f64::from(EACH) * heavy as f64;
    assert!(f64::from(EACH) > bound, "one key alone is above the bound");
    let seeds = (0..LIMITERS).map(|number| Seed::from_bytes([3; 16]).derive(&format!("{word}/{number}")));
    // what is kept rounds up by a millionth
    seeds.filter(|seed| counted(seed, heavy) > bound * 1.000_001).count()
}

/// The error for which a table of 128 columns is just enough: with a power of two to spare no fault of the formula would show.
fn just_enough(rows: u32) -> f64 {
    let error = (DELTA.powf(-1.0 / f64::from(rows)) / 128.0 * 1e6).ceil() / 1e6;
    assert_eq!(accuracy(error).columns(rows), Some(128));
    error
}

#[test]
fn every_kind_has_the_error_that_its_sketch_was_sized_for() {
    for number in 0..kinds(Bytes(1 << 20)).len() {
        let (sketch, _) = kinds(Bytes(1 << 20))[number].sketch().unwrap();
        let error = just_enough(sketch.shape(Bytes(1 << 20)).rows);
        let kind = kinds(sketch.memory(accuracy(error)).unwrap()).swap_remove(number);
        let above = above(kind.word(), error, |seed, heavy| counted(&kind, seed, heavy));
        assert!(above < TOO_MANY, "{kind:?}: {above} of {LIMITERS} above {error} of all, allowed {DELTA}");
    }
}

/// Otherwise the test above could not fail: one key in twenty is then above the error.
#[test]
fn a_table_of_half_the_size_is_found_out() {
    let error = just_enough(4);
    // four rows of 128 words; the only ones here that come as small as a half of that
    let memory = 4 * 128 * 8;
    let enough = above("rates", error, |seed, heavy| offered(Bytes(memory), seed, heavy));
    assert!(enough < TOO_MANY, "{enough} of {LIMITERS}");
    let half = above("rates", error, |seed, heavy| offered(Bytes(memory / 2), seed, heavy));
    assert!(half >= TOO_MANY, "{half} of {LIMITERS}");
}

/// Where all keys share every cell, so that ε is one, the estimate is at most N: which N, for counts that fade.
fn one_cell() -> MonotoneTable<AtomicU64, 4> {
    MonotoneTable::with_shape(1).unwrap()
}

proptest! {
    #[test]
    fn a_bucket_counts_no_more_than_was_charged_in_the_time_in_which_it_refills(
        burst in 1_u32..20,
        steps in prop::collection::vec((0_u64..400, 0_u64..4, 1_u32..4), 1..120),
    ) {
        let (bucket, table) = (bucket(100, burst), one_cell());
        let (mut now, mut charged) = (START, Vec::<(u64, u32)>::new());
        for (pause, number, units) in steps {
            now += pause;
            if let tidegate_limits::sketch::Admission::Admitted { .. } = table.admit(&bucket, key(number), at(now), cost(units)) {
                charged.push((now, units));
            }
            let since = now - bucket.refill_nanos();
            let all: u32 = charged.iter().filter(|(when, _)| *when > since).map(|(_, units)| units).sum();
            let level = table.estimate(key(99)).saturating_sub(now);
            prop_assert!(level <= u64::from(all) * bucket.interval_nanos(), "{level} of {all} units");
        }
    }

    #[test]
    fn a_window_counts_no_more_than_was_charged_in_it(
        max in 1_u32..20,
        steps in prop::collection::vec((0_u64..700_000_000, 0_u64..4, 1_u32..4), 1..120),
    ) {
        let (window, table) = (Window::new(max, Duration::from_secs(1), Duration::ZERO).unwrap(), one_cell());
        let (mut now, mut charged) = (START, Vec::<(u64, u32)>::new());
        for (pause, number, units) in steps {
            now += pause;
            if let tidegate_limits::sketch::Admission::Admitted { .. } = table.admit(&window, key(number), at(now), cost(units)) {
                charged.push((now / 1_000_000_000, units));
            }
            let all: u32 = charged.iter().filter(|(when, _)| *when == now / 1_000_000_000).map(|(_, units)| units).sum();
            let counted = max - window.outlook(table.estimate(key(99)), at(now)).0;
            prop_assert!(counted <= all, "{counted} of {all}");
        }
    }

    #[test]
    fn an_average_counts_no_more_than_all_of_them_decayed(
        steps in prop::collection::vec((0_u64..2_000_000_000, 0_u64..4, 1_u32..4), 1..120),
    ) {
        let second = Duration::from_secs(1);
        let average = RecentAverage::new(Rate::new(10, second).unwrap(), second, Duration::ZERO).unwrap();
        let (table, mut now, mut all) = (one_cell(), START, 0.0_f64);
        for (pause, number, units) in steps {
            now += pause;
            all *= (-(pause as f64) / 1e9).exp2();
            let now: Timestamp = at(now);
            if let tidegate_limits::sketch::Admission::Admitted { .. } = table.admit(&average, key(number), now, cost(units)) {
                all += f64::from(units);
            }
            let sum = average.sum(table.estimate(key(99)), now);
            // a sum too small to be an instant after the last one is kept as that instant; a millionth for rounding
            prop_assert!(sum <= all * 1.000_001 + 1e-6, "{sum} of {all}");
        }
    }
}
