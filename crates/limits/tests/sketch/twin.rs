//! The sketch beside an exact limiter per key: what it admits, the twin would admit too. On tables of a few columns, so
//! that nearly every request meets a collision, with clocks that stand, jump and step back, to both ends of time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use tidegate_limits::sketch::{Admission, Bucket, Cell, Meter, MonotoneTable};
use tidegate_limits::units::Timestamp;

use crate::{at, bucket, cost, key};

/// A cell that fails the test if it would ever fall or stand.
#[derive(Default)]
struct Watched(AtomicU64);

impl Cell for Watched {
    fn load(&self) -> u64 {
        Cell::load(&self.0)
    }

    fn raise(&self, from: u64, to: u64) -> bool {
        assert!(to > from, "a cell would go from {from} to {to}");
        assert_eq!(self.0.load(Ordering::Relaxed), from, "nobody else is here");
        Cell::raise(&self.0, from, to)
    }

    fn pause(_: u32) {
        panic!("there is nobody to wait for");
    }
}

/// How far the clock moves before a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Forward(u64),
    Back(u64),
    To(u64),
}

#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) key: u64,
    pub(crate) cost: u32,
    pub(crate) step: Step,
}

pub(crate) const KEYS: u64 = 6;

/// A number from anywhere in `u64`, the ends and the neighbourhood of `scale` being as likely as all the rest.
fn anywhere(scale: u64) -> impl Strategy<Value = u64> + Clone {
    prop_oneof![0..scale * 4, any::<u64>(), u64::MAX - scale * 4..=u64::MAX, Just(0), Just(u64::MAX)]
}

fn a_bucket() -> impl Strategy<Value = Bucket> {
    (prop_oneof![100_u64..2_000, Just(1_000_000_000), Just(86_400_000_000_000)], 1_u32..6)
        .prop_map(|(interval, burst)| bucket(interval, burst))
}

fn an_ask(interval: u64) -> impl Strategy<Value = Ask> {
    let step = prop_oneof![
        4 => Just(Step::Forward(0)),
        8 => (0..interval * 2).prop_map(Step::Forward),
        2 => (0..interval * 8).prop_map(Step::Back),
        1 => anywhere(interval).prop_map(Step::To),
    ];
    let cost = prop_oneof![8 => Just(1_u32), 4 => 1_u32..8, 1 => Just(u32::MAX)];
    (0..KEYS, cost, step).prop_map(|(key, cost, step)| Ask { key, cost, step })
}

pub(crate) fn a_trace() -> impl Strategy<Value = (Bucket, u64, Vec<Ask>)> {
    a_bucket().prop_flat_map(|bucket| {
        let interval = bucket.interval_nanos();
        (Just(bucket), anywhere(interval), prop::collection::vec(an_ask(interval), 1..120))
    })
}

impl Step {
    pub(crate) fn from(self, now: u64) -> u64 {
        match self {
            Step::Forward(nanos) => now.saturating_add(nanos),
            Step::Back(nanos) => now.saturating_sub(nanos),
            Step::To(nanos) => nanos,
        }
    }
}

fn compare<const ROWS: usize>(columns: usize, bucket: &Bucket, start: u64, trace: &[Ask]) -> Result<(), TestCaseError> {
    let table = MonotoneTable::<Watched, ROWS>::with_shape(columns).unwrap();
    let estimates = || (0..KEYS).map(|number| table.estimate(key(number))).collect::<Vec<_>>();
    let mut twin: HashMap<u64, u64> = HashMap::new();
    let mut now = start;
    for ask in trace {
        now = ask.step.from(now);
        let before = estimates();
        let truth = twin.get(&ask.key).copied().unwrap_or(0);
        let exact = bucket.charge(truth, at(now), cost(ask.cost));
        match table.admit(bucket, key(ask.key), at(now), cost(ask.cost)) {
            Admission::Admitted { level } => {
                prop_assert!(bucket.admits(exact, at(now)), "the twin refuses: {ask:?} at {now}");
                prop_assert!(level >= exact);
                prop_assert!(table.estimate(key(ask.key)) >= level);
                twin.insert(ask.key, exact);
            }
            Admission::Refused { level } => {
                prop_assert_eq!(level, before[ask.key as usize]);
                prop_assert_eq!(&estimates(), &before, "a refusal wrote something");
            }
            Admission::Contended { .. } => prop_assert!(false, "contended without a contender"),
        }
        for (number, (after, before)) in estimates().iter().zip(&before).enumerate() {
            prop_assert!(after >= before, "the estimate of key {number} fell");
            prop_assert!(*after >= twin.get(&(number as u64)).copied().unwrap_or(0), "key {number} is counted too low");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_the_sketch_admits_the_exact_twin_admits((bucket, start, trace) in a_trace(), size in 0..4) {
        let columns = 1_usize << size;
        compare::<1>(columns, &bucket, start, &trace)?;
        compare::<2>(columns, &bucket, start, &trace)?;
        compare::<4>(columns, &bucket, start, &trace)?;
    }

    #[test]
    fn a_key_alone_is_treated_exactly_as_by_the_twin((bucket, start, mut trace) in a_trace()) {
        trace.iter_mut().for_each(|ask| ask.key = 0);
        let table = MonotoneTable::<Watched, 4>::with_shape(8).unwrap();
        let (mut now, mut truth) = (start, 0);
        for ask in trace {
            now = ask.step.from(now);
            let exact = bucket.charge(truth, at(now), cost(ask.cost));
            let admission = table.admit(&bucket, key(0), at(now), cost(ask.cost));
            if bucket.admits(exact, at(now)) {
                truth = exact;
                prop_assert_eq!(admission, Admission::Admitted { level: truth });
            } else {
                prop_assert_eq!(admission, Admission::Refused { level: truth });
            }
        }
    }

    #[test]
    fn charging_keeps_the_order_of_levels(
        bucket in a_bucket(),
        levels in (anywhere(1_000), anywhere(1_000)),
        now in anywhere(1_000),
        units in prop_oneof![1_u32..8, Just(u32::MAX)],
    ) {
        let (low, high) = (levels.0.min(levels.1), levels.0.max(levels.1));
        let charge = |level| bucket.charge(level, at(now), cost(units));
        let admits = |level| bucket.admits(charge(level), at(now));
        prop_assert!(charge(low) <= charge(high), "M1");
        prop_assert!(charge(low) >= low, "M2: never falls");
        prop_assert!(!admits(low) || charge(low) > low, "M2: an admitted request leaves a trace");
        prop_assert!(admits(low) || !admits(high), "M3");
        prop_assert!(!admits(low) || units <= bucket.burst(), "more than the burst at once");
    }

    #[test]
    fn remaining_is_the_number_that_would_be_admitted(
        bucket in a_bucket(),
        level in anywhere(1_000),
        now in anywhere(1_000),
    ) {
        let remaining = bucket.outlook(level, at(now)).0;
        prop_assert!(remaining <= bucket.burst());
        prop_assert_eq!(admitted_in_a_row(&bucket, level, at(now)), remaining);
    }
}

fn admitted_in_a_row(bucket: &Bucket, mut level: u64, now: Timestamp) -> u32 {
    for admitted in 0.. {
        let charged = bucket.charge(level, now, cost(1));
        if !bucket.admits(charged, now) {
            return admitted;
        }
        level = charged;
    }
    unreachable!("a bucket admits its burst at most")
}
