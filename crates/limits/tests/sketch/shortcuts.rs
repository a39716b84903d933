//! What a meter charges a request that fits is what it charges any, and leaves what the level tells after it.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_limits::sketch::{Bucket, Meter, RecentAverage, Window};
use tidegate_limits::units::{Cost, Rate};

use super::{at, cost};

/// At a level, and at all that a train of charges makes of it.
fn agrees_with_itself(meter: &impl Meter, mut level: u64, now: u64, costs: &[u32]) {
    let now = at(now);
    for units in costs {
        let admitted = meter.admit(level, now, cost(*units));
        assert_eq!(
            admitted.is_some(),
            meter.retry_nanos(level, now, cost(*units)) == Some(0),
            "{level} {now:?} {units}"
        );
        if let Some(admitted) = admitted {
            assert_eq!(admitted.to, meter.charge(level, now, cost(*units)), "{level} {now:?} {units}");
            let (remaining, next) = meter.outlook(admitted.to, now);
            assert_eq!((admitted.remaining, admitted.next_unit.nanos()), (remaining, next.nanos()), "{level} {now:?}");
        }
        let (remaining, next) = meter.outlook(level, now);
        assert!(remaining == 0 || meter.admit(level, now, cost(remaining)).is_some(), "{level} {now:?}");
        let one_more = Cost::new(remaining.saturating_add(1)).unwrap();
        let wait = if remaining == meter.quota() { None } else { meter.retry_nanos(level, now, one_more) };
        assert_eq!(next.nanos(), wait, "{level} {now:?}");
        level = admitted.map_or(level, |admitted| admitted.to);
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
            agrees_with_itself(&meter, level, now, &costs);
            // as near to the end of the budget as a request comes
            let most = cost(meter.quota().saturating_sub(3).max(1));
            agrees_with_itself(&meter, meter.charge(level, at(now), most), now, &costs);
        }
    }

    #[test]
    fn of_a_bucket(
        interval in 100_u64..100_000_000_000, burst in prop_oneof![1_u32..50, 1_u32..], costs in any_costs(),
        (now, level) in stamp_and_level(),
    ) {
        let rate = Rate::new(1, Duration::from_nanos(interval));
        if let Ok(meter) = rate.and_then(|rate| Bucket::new(rate, burst)) {
            agrees_with_itself(&meter, level, now, &costs);
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
        agrees_with_itself(&meter, level, now, &costs);
    }
}
