//! The recent average held against the plain formula and its arrival curve. What its source says of it stands in
//! `tests/sources`.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_limits::sketch::{Meter, RecentAverage};
use tidegate_limits::units::Rate;

use crate::meters::{agrees_with_its_twin, anywhere, keeps_order, retry_is_exact};
use crate::{at, cost};
use tidegate_limits::units::Dice;

const SECOND: u64 = 1_000_000_000;

fn average(events: u32, half_life: Duration, penalties: u32) -> RecentAverage {
    RecentAverage::new(Rate::new(events, Duration::from_secs(1)).unwrap(), half_life, half_life * penalties).unwrap()
}

#[test]
fn a_level_that_was_admitted_or_counted_fades_to_a_thousandth_of_a_request() {
    let meter = average(10, Duration::from_secs(10), 6);
    let level = meter.ceiling(at(SECOND));
    assert!(meter.sum(level, at(SECOND + meter.fade_nanos())) < 1.0 / 1_024.0);
    assert_eq!(meter.outlook(level, at(SECOND + meter.fade_nanos())).0, meter.quota());
}

/// The plain formula, in floating point and with its own state: the sum and its time.
#[derive(Default)]
struct Plain {
    sum: f64,
    time: u64,
}

impl Plain {
    fn charge(&mut self, now: u64, units: u32, half_life: f64) {
        self.sum = self.sum * (-((now - self.time) as f64 / half_life)).exp2() + f64::from(units);
        self.time = now;
    }
}

/// Of (stamp, cost), whether some interval holds more than B + L·τ; looks at every one that starts and ends at a stamp.
fn breaks_the_curve(meter: &RecentAverage, admitted: &[(u64, u32)]) -> bool {
    let mut admitted = admitted.to_vec();
    admitted.sort_unstable();
    let per_nano = meter.budget() * std::f64::consts::LN_2 / meter.half_life_nanos() as f64;
    (0..admitted.len()).any(|first| {
        let mut sum = 0.0;
        admitted[first..].iter().any(|(now, units)| {
            sum += f64::from(*units);
            sum > meter.budget() + per_nano * (now - admitted[first].0) as f64 + 1e-9
        })
    })
}

#[test]
fn a_greedy_client_reaches_the_curve_and_never_passes_it() {
    let meter = average(10, Duration::from_secs(10), 0);
    let (mut level, mut admitted) = (0, Vec::new());
    for step in 0..20_000_u64 {
        let now = SECOND + step * SECOND / 500;
        if let Some(charged) = meter.admit(level, at(now), cost(1)) {
            (level, admitted) = (charged.to, [admitted, vec![(now, 1)]].concat());
        }
    }
    assert!(!breaks_the_curve(&meter, &admitted));
    // whatever it saved up, and 10 a second for the 40 s since, but for the grid of stamps and the last unit
    let total = admitted.len() as f64;
    assert!(total > 0.99 * (meter.budget() + 400.0), "{total}");
}

fn an_average() -> impl Strategy<Value = RecentAverage> {
    let half_life = prop_oneof![Just(1_u64), 2_u64..100, Just(86_400), Just(31 * 86_400)];
    (prop_oneof![2_u32..20, Just(500)], half_life, prop_oneof![Just(0_u32), Just(6), Just(100)])
        .prop_map(|(events, half_life, penalties)| average(events, Duration::from_secs(half_life), penalties.min(100)))
}

/// A meter, a stamp, and two levels: near the stamp in half-lives, neighbours of each other, or any numbers at all.
fn a_case() -> impl Strategy<Value = (RecentAverage, u64, u64, u64)> {
    (an_average(), prop_oneof![0..1_u64 << 62, anywhere(SECOND)]).prop_flat_map(|(meter, now)| {
        let half_life = meter.half_life_nanos() as f64;
        let near = (-80.0..80.0_f64)
            .prop_map(move |ahead| (now as f64 + ahead * half_life).clamp(0.0, u64::MAX as f64) as u64);
        let level = prop_oneof![6 => near, 1 => anywhere(SECOND)];
        let seam = Just(now.saturating_add(64 * meter.half_life_nanos()));
        (level, 0..4_u8, prop_oneof![1_u64..4, any::<u64>()], seam).prop_map(move |(level, kind, apart, seam)| {
            match kind {
                0 => (meter, now, seam, seam.saturating_sub(apart % 5)),
                1 => (meter, now, level, level.saturating_add(apart)),
                2 => (meter, now, level, level.saturating_add(apart % 3)),
                _ => (meter, now, level, apart),
            }
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn charging_keeps_the_order_of_levels(
        (meter, now, a, b) in a_case(),
        units in prop_oneof![1_u32..900, any::<u32>().prop_map(|n| n.max(1))],
    ) {
        keeps_order(&meter, (a, b), now, units)?;
    }

    #[test]
    fn the_way_back_is_told_to_the_nanosecond((meter, now, level, _) in a_case(), units in 1_u32..40) {
        retry_is_exact(&meter, level, now, units, now > u64::MAX / 512 || level > u64::MAX / 512)?;
    }

    #[test]
    fn what_remains_is_what_would_be_admitted_one_by_one((meter, now, mut level, _) in a_case()) {
        let told = meter.outlook(level, at(now)).0;
        let mut admitted = 0;
        while admitted < 20_000 && meter.admit(level, at(now), cost(1)).is_some() {
            level = meter.charge(level, at(now), cost(1));
            admitted += 1;
        }
        prop_assert!(admitted == 20_000 || (told.saturating_sub(1)..=told).contains(&admitted), "{admitted} of {told}");
    }

    #[test]
    fn the_level_is_never_below_the_plain_formula_and_hardly_above(meter in an_average(), seed in any::<u64>()) {
        let (mut dice, mut plain, mut level, mut now) = (Dice(seed), Plain::default(), 0, SECOND);
        let half_life = meter.half_life_nanos() as f64;
        for _ in 0..200 {
            now += match dice.below(8) {
                0 => dice.below(meter.half_life_nanos() * 4),
                1..4 => 0,
                _ => dice.below(meter.half_life_nanos() / 4),
            };
            let units = 1 + dice.below(4) as u32;
            level = meter.charge(level, at(now), cost(units));
            plain.charge(now, units, half_life);
            let excess = meter.sum(level, at(now)) / plain.sum - 1.0;
            prop_assert!((-1e-13..1e-6).contains(&excess), "{excess}");
        }
    }

    #[test]
    fn no_interval_holds_more_than_budget_and_rate(
        events in 2_u32..6,
        half_life in 1_u64..4,
        size in 0_usize..4,
        start in prop_oneof![Just(0), Just(u64::MAX / 2)],
        seed in any::<u64>(),
    ) {
        let meter = average(events, Duration::from_secs(half_life), 6);
        for admitted in [
            agrees_with_its_twin::<1>(&meter, 1_usize << size, start, SECOND, seed)?,
            agrees_with_its_twin::<4>(&meter, 1_usize << size, start, SECOND, seed)?,
        ].iter().flatten() {
            prop_assert!(!breaks_the_curve(&meter, admitted), "{admitted:?}");
        }
    }
}
