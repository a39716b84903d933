//! What a meter tells by a shorter way is what it tells by the long one.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_limits::sketch::{Bucket, Meter, RecentAverage, Window};
use tidegate_limits::units::{Cost, Rate};

use super::{at, cost};

/// At a level, and at all that a train of charges makes of it.
fn hold_to_the_long_way(meter: &impl Meter, mut level: u64, now: u64, costs: &[u32]) {
    let now = at(now);
    for units in costs {
        let charged = meter.charge(level, now, cost(*units));
        let fits = meter.admits(charged, now);
        assert_eq!(meter.fits(level, now, cost(*units)), fits, "{level} {now:?} {units}");
        let leaves = fits.then(|| meter.remaining(charged, now));
        assert_eq!(meter.leaves(level, now, cost(*units)), leaves, "{level} {now:?} {units}");
        let told = meter.leaves_charged(level, now, cost(*units));
        assert_eq!(
            told.map(|told| (told.to, Some(told.remaining))),
            fits.then_some((charged, leaves)),
            "{level} {now:?}"
        );
        if let Some(told) = told {
            let next = meter.next_unit_later(&told, now).nanos();
            assert_eq!(next, meter.next_unit_nanos(charged, now), "{level} {now:?} {units}");
            assert_eq!(told.half_spent, meter.is_half_spent(charged, now), "{level} {now:?} {units}");
        }
        let beyond_half = Cost::new(meter.quota() / 2 + 1).unwrap();
        assert_eq!(meter.is_half_spent(level, now), !meter.fits(level, now, beyond_half), "{level} {now:?}");
        let next = match meter.remaining(level, now) {
            all if all == meter.quota() => None,
            some => meter.retry_nanos(level, now, cost(some + 1)),
        };
        assert_eq!(meter.outlook(level, now), (meter.remaining(level, now), next), "{level} {now:?}");
        assert_eq!(meter.next_unit_nanos(level, now), next, "{level} {now:?}");
        let (remaining, later) = meter.outlook_later(level, now);
        assert_eq!((remaining, later.nanos()), meter.outlook(level, now), "{level} {now:?}");
        if fits {
            level = charged;
        }
    }
}

fn any_costs() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(prop_oneof![8 => Just(1_u32), 3 => 1..50_u32, 1 => 1_u32..], 1..40)
}

/// A stamp, and a level before, around, ahead of or far from it.
fn stamp_and_level() -> impl Strategy<Value = (u64, u64)> {
    let stamp = prop_oneof![6 => 0_u64..1 << 60, 1 => u64::MAX - (1 << 40)..];
    (stamp, any::<u64>(), 0_u32..64, 0_u8..4).prop_map(|(now, by, less, form)| {
        let by = by >> less;
        let level = match form {
            0 => 0,
            1 => now.saturating_sub(by),
            2 => now.saturating_add(by),
            _ => by,
        };
        (now, level)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn of_a_recent_average(
        events in prop_oneof![1_u32..100, 1_u32..10_000_000], half_life in 1_000_u64..100_000_000, costs in any_costs(),
        (now, level) in stamp_and_level(),
    ) {
        let rate = Rate::new(events, Duration::from_secs(1)).unwrap();
        let half_life = Duration::from_millis(half_life);
        if let Ok(meter) = RecentAverage::new(rate, half_life, half_life) {
            hold_to_the_long_way(&meter, level, now, &costs);
            // as near to the end of the budget as a request comes
            let most = cost(meter.quota().saturating_sub(3).max(1));
            hold_to_the_long_way(&meter, meter.charge(level, at(now), most), now, &costs);
        }
    }

    #[test]
    fn of_a_bucket(
        interval in 100_u64..100_000_000_000, burst in prop_oneof![1_u32..50, 1_u32..], costs in any_costs(),
        (now, level) in stamp_and_level(),
    ) {
        let rate = Rate::new(1, Duration::from_nanos(interval));
        if let Ok(meter) = rate.and_then(|rate| Bucket::new(rate, burst)) {
            hold_to_the_long_way(&meter, level, now, &costs);
        }
    }

    #[test]
    fn of_a_window(
        limit in prop_oneof![1_u32..50, 1_u32..u32::MAX], seconds in 1_u64..2_678_400, offset: u64, costs in any_costs(),
        (now, level) in stamp_and_level(), in_epoch: bool,
    ) {
        let meter = Window::new(limit, Duration::from_secs(seconds), Duration::from_nanos(offset)).unwrap();
        // levels are windows and counts, so one around now is one of this window
        let level = if in_epoch { meter.charge(0, at(now), cost(1)) + level % 100 } else { level };
        prop_assume!(level != u64::MAX);
        hold_to_the_long_way(&meter, level, now, &costs);
    }
}
