//! The two promises that a client can hold a bucket to: no interval of any length ever holds more than
//! `burst + rate·τ`, and whoever comes back when told is admitted.

use proptest::prelude::*;
use tidegate_limits::sketch::{Admission, Bucket, Meter, MonotoneTable};
use tidegate_limits::units::time::ceil_seconds;

use crate::{at, broken_interval, bucket, cost, key};
use tidegate_limits::units::Dice;

const SECOND: u64 = 1_000_000_000;

fn spends(table: &MonotoneTable, bucket: &Bucket, number: u64, now: u64, units: u32) -> bool {
    matches!(table.admit(bucket, key(number), at(now), cost(units)), Admission::Admitted { .. })
}

fn small_table() -> MonotoneTable {
    MonotoneTable::with_shape(16).unwrap()
}

/// Asks at every stamp until refused, and returns what was admitted.
fn greedy(bucket: &Bucket, stamps: impl IntoIterator<Item = u64>) -> Vec<(u64, u32)> {
    let table = small_table();
    let mut admitted = Vec::new();
    for now in stamps {
        while spends(&table, bucket, 0, now, 1) {
            admitted.push((now, 1));
        }
    }
    admitted
}

#[test]
fn a_greedy_client_reaches_the_bound_and_never_passes_it() {
    for (interval, burst) in [(100, 1), (100, 7), (SECOND / 3, 20), (SECOND, 100)] {
        let bucket = bucket(interval, burst);
        for start in [0, 1, 17 * SECOND, u64::MAX / 2] {
            let admitted = greedy(&bucket, (0..50).map(|n| start + n * interval));
            assert_eq!(broken_interval(&bucket, &admitted), None);
            // the bound itself, not one less: the burst at the start and one for each interval since
            for n in 0..50 {
                let so_far = admitted.iter().filter(|(now, _)| *now <= start + n * interval).count();
                assert_eq!(so_far as u64, u64::from(burst) + n, "after {n} intervals of {interval}");
            }
        }
    }
}

#[test]
fn saving_up_buys_one_burst_and_no_more() {
    let bucket = bucket(1_000, 4);
    // empty it, stay silent for ten times as long as it takes to refill, and come back in the last nanosecond of a unit
    let admitted = greedy(&bucket, [0, 40_000, 40_999, 41_000, 41_999, 42_000, 42_001]);
    assert_eq!(broken_interval(&bucket, &admitted), None);
    let per_stamp = |stamp| admitted.iter().filter(|(now, _)| *now == stamp).count();
    assert_eq!([0, 40_000, 40_999, 41_000, 41_999, 42_000, 42_001].map(per_stamp), [4, 4, 0, 1, 0, 1, 0]);
}

#[test]
fn there_is_no_seam_in_time_at_which_twice_the_burst_passes() {
    // the trace that gets 2·limit out of an aligned window: all of it just before every boundary, and all of it just after
    let bucket = bucket(SECOND / 100, 100);
    let admitted = greedy(&bucket, (1..20).flat_map(|n| [n * SECOND - 1, n * SECOND]));
    assert_eq!(broken_interval(&bucket, &admitted), None);
    let first_seam = admitted.iter().filter(|(now, _)| *now <= SECOND).count();
    assert_eq!(first_seam, 100);
}

#[test]
fn a_cost_above_the_burst_never_passes_however_long_one_waits() {
    let (table, bucket) = (small_table(), bucket(1_000, 4));
    assert!(!spends(&table, &bucket, 0, 0, 5));
    assert!(!spends(&table, &bucket, 0, u64::MAX / 2, 5));
    assert!(spends(&table, &bucket, 0, u64::MAX / 2, 4));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_interval_holds_more_than_burst_and_rate(
        interval in 100_u64..5_000,
        burst in 1_u32..12,
        seed in any::<u64>(),
        start in prop_oneof![Just(0), any::<u64>(), Just(u64::MAX - 40_000)],
    ) {
        // four clients that collide now and then; stamps that stand, creep, jump, and lag behind those of others
        let (table, bucket) = (small_table(), bucket(interval, burst));
        let mut dice = Dice(seed);
        let mut now = start;
        let mut admitted = vec![Vec::new(); 4];
        for _ in 0..400 {
            now = match dice.below(12) {
                0 => now.saturating_sub(dice.below(interval * 6)),
                1 => now.saturating_add(dice.below(interval * 20)),
                2..=6 => now,
                _ => now.saturating_add(dice.below(interval)),
            };
            let client = dice.below(4);
            let units = 1 + dice.below(3) as u32;
            if spends(&table, &bucket, client, now, units) {
                admitted[client as usize].push((now, units));
            }
        }
        for trace in &admitted {
            prop_assert_eq!(broken_interval(&bucket, trace), None);
        }
    }

    #[test]
    fn a_silent_client_is_admitted_when_told_and_not_a_nanosecond_before(
        interval in prop_oneof![100_u64..5_000, Just(SECOND / 3), Just(7 * SECOND)],
        burst in 1_u32..12,
        seed in any::<u64>(),
        units in 1_u32..12,
        back in 0_u64..20_000,
    ) {
        let bucket = bucket(interval, burst);
        let table = small_table();
        let mut dice = Dice(seed);
        let mut now = dice.below(SECOND);
        for _ in 0..40 {
            now += dice.below(interval);
            spends(&table, &bucket, 0, now, 1 + dice.below(3) as u32);
        }
        now = now.saturating_sub(back); // it may ask with a stamp older than the last
        let level = table.estimate(key(0));
        match bucket.retry_nanos(level, at(now), cost(units)) {
            None => {
                prop_assert!(units > burst);
                prop_assert!(!spends(&table, &bucket, 0, now + 100 * bucket.refill_nanos(), units));
            }
            Some(wait) => {
                prop_assert!(wait <= bucket.refill_nanos() + back);
                if wait > 0 {
                    prop_assert!(!spends(&table, &bucket, 0, now + wait - 1, units), "told to wait too long");
                }
                // in whole seconds, as it is told to clients, it is no shorter
                prop_assert!(ceil_seconds(wait) * SECOND >= wait);
                prop_assert!(spends(&table, &bucket, 0, now + wait, units), "told to come back too early");
            }
        }
    }

    #[test]
    fn the_next_unit_comes_when_told_and_not_a_nanosecond_before(
        interval in 100_u64..5_000,
        burst in 1_u32..12,
        now in 0_u64..1_000_000,
        ahead in 0_u64..60_000,
    ) {
        let bucket = bucket(interval, burst);
        let level = now + ahead.min(bucket.depth_nanos());
        let remaining = bucket.outlook(level, at(now)).0;
        match bucket.outlook(level, at(now)).1.nanos() {
            None => prop_assert_eq!(remaining, burst),
            Some(wait) => {
                prop_assert!(wait > 0);
                prop_assert_eq!(bucket.outlook(level, at(now + wait - 1)).0, remaining);
                prop_assert_eq!(bucket.outlook(level, at(now + wait)).0, remaining + 1);
            }
        }
    }
}
