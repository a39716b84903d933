//! The algorithms before an origin that exists in numbers only: it answers in 20 ms while at most fifty requests are with it,
//! and ten times slower above that. Virtual time, no dice: every run is the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Adaptive, AdaptiveSpec, Algorithm, Sample, Target};
use crate::limiter::{Permit, Slots};
use crate::units::Timestamp;

/// Above so many at once it is slow.
const COMFORT: u32 = 50;
const FAST_NANOS: u64 = 20_000_000;
const SLOW_NANOS: u64 = 10 * FAST_NANOS;

/// What came of a run, after a settling time.
#[derive(Debug, Default)]
struct Outcome {
    asked: u64,
    fast: u64,
    slow: u64,
    shed: u64,
    caps: Vec<u32>,
}

impl Outcome {
    fn share_of_fast(&self) -> f64 {
        self.fast as f64 / self.asked as f64
    }

    fn middle(&self) -> u32 {
        let mut caps = self.caps.clone();
        caps.sort_unstable();
        caps[caps.len() / 2]
    }
}

/// Requests at an even pace, whatever comes of the ones before: an open loop, as the Internet is.
fn run(per_second: u64, seconds: u64, slots: &Arc<Slots>, adaptive: Option<&Adaptive>) -> Outcome {
    let settled = seconds / 2 * 1_000_000_000;
    let mut outcome = Outcome::default();
    // by their end, then by their number
    let mut under_way: BTreeMap<(u64, u64), (u64, Permit)> = BTreeMap::new();
    for n in 0..per_second * seconds {
        let now = 1_000_000_000 + n * 1_000_000_000 / per_second;
        while let Some(entry) = under_way.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((ended, _), (began, permit)) = entry.remove_entry();
            let (began, ended) = (Timestamp::from_nanos(began), Timestamp::from_nanos(ended));
            let sample = Sample { began, ended, inflight: slots.held(), failed: false };
            drop::<Permit>(permit);
            if let Some(adaptive) = adaptive {
                adaptive.completed(&sample, || slots.max(), |set| slots.set_max(set));
            }
        }
        let counts = now > settled;
        if counts {
            outcome.asked += 1;
            outcome.caps.push(slots.max());
        }
        let Some(permit) = slots.take() else {
            outcome.shed += u64::from(counts);
            continue;
        };
        let fast = slots.held() <= COMFORT;
        let ends = now + if fast { FAST_NANOS } else { SLOW_NANOS };
        under_way.insert((ends, n), (now, permit));
        outcome.fast += u64::from(counts && fast);
        outcome.slow += u64::from(counts && !fast);
    }
    outcome
}

fn adapted(algorithm: Algorithm, per_second: u64) -> Outcome {
    let target = Some(Target { percentile: 95, bound: Duration::from_millis(100) });
    let spec = AdaptiveSpec { algorithm, min: 10, max: 400, target };
    let adaptive = Adaptive::new(&spec);
    run(per_second, 30, &Slots::new(spec.min), Some(&adaptive))
}

#[test]
fn the_cap_settles_where_the_origin_is_still_fast() {
    for per_second in [2_600, 5_000] {
        let none = run(per_second, 30, &Slots::new(u32::MAX), None);
        let fixed = run(per_second, 30, &Slots::new(400), None);
        println!("{per_second}/s, fast answers of all that was asked (and refused):");
        for (name, outcome) in [("no cap", &none), ("fixed cap of 400", &fixed)] {
            println!("  {name}: {:.1} % ({:.1} %)", 100.0 * outcome.share_of_fast(), percent_shed(outcome));
        }
        for algorithm in [Algorithm::Aimd, Algorithm::Gradient] {
            let outcome = adapted(algorithm, per_second);
            let middle = outcome.middle();
            println!(
                "  {algorithm:?}: {:.1} % ({:.1} %), cap {middle} in the middle",
                100.0 * outcome.share_of_fast(),
                percent_shed(&outcome)
            );
            assert!((35..=75).contains(&middle), "{algorithm:?} at {per_second}/s settles at {middle}");
            assert!(outcome.share_of_fast() > none.share_of_fast() + 0.2, "{algorithm:?} beats no cap");
            assert!(outcome.share_of_fast() > fixed.share_of_fast() + 0.2, "{algorithm:?} beats a fixed cap");
            assert_eq!(outcome.fast + outcome.slow + outcome.shed, outcome.asked);
        }
    }
}

fn percent_shed(outcome: &Outcome) -> f64 {
    100.0 * outcome.shed as f64 / outcome.asked as f64
}

#[test]
fn below_its_comfort_the_origin_is_not_throttled() {
    for algorithm in [Algorithm::Aimd, Algorithm::Gradient] {
        let outcome = adapted(algorithm, 1_500);
        assert_eq!((outcome.shed, outcome.slow), (0, 0), "{algorithm:?}: thirty at once are fine");
    }
}
