//! Aligned windows: never more than the limit in one, and twice the limit across a boundary, as admitted in the docs.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_limits::sketch::{Admission, MonotoneTable, Window};

use crate::meters::{agrees_with_its_twin, anywhere, keeps_order, retry_is_exact};
use crate::{at, cost, key};

/// The table as it serves.
type Table = MonotoneTable;

const SECOND: u64 = 1_000_000_000;

fn window(limit: u32, seconds: u64, offset: u64) -> Window {
    Window::new(limit, Duration::from_secs(seconds), Duration::from_nanos(offset)).unwrap()
}

fn a_window() -> impl Strategy<Value = Window> {
    let limit = prop_oneof![1_u32..8, Just(1_000), Just(u32::MAX - 1)];
    let seconds = prop_oneof![Just(1_u64), Just(60), Just(31 * 86_400)];
    (limit, seconds, prop_oneof![Just(0), any::<u64>()])
        .prop_map(|(limit, length, offset)| window(limit, length, offset))
}

/// A level of an epoch near that of `now`, or any number at all.
fn a_level(window: Window, now: u64) -> impl Strategy<Value = u64> {
    let epoch = u32::try_from(now / window.length_nanos()).unwrap_or(u32::MAX - 4);
    let near = (0_u32..5, prop_oneof![0_u32..9, any::<u32>(), Just(u32::MAX)])
        .prop_map(move |(ahead, count)| u64::from(epoch.saturating_add(ahead)) << 32 | u64::from(count));
    prop_oneof![4 => near, 1 => anywhere(1_000)]
}

fn a_case() -> impl Strategy<Value = (Window, u64, u64, u64)> {
    (a_window(), prop_oneof![0..100 * SECOND, anywhere(SECOND)]).prop_flat_map(|(window, now)| {
        (Just(window.clone()), Just(now), a_level(window.clone(), now), a_level(window, now))
    })
}

/// What was admitted in the fullest aligned window.
fn fullest(length: u64, offset: u64, admitted: &[(u64, u32)]) -> u32 {
    let mut windows: HashMap<u128, u32> = HashMap::new();
    for (now, units) in admitted {
        *windows.entry((u128::from(*now) + u128::from(offset)) / u128::from(length)).or_default() += units;
    }
    windows.into_values().max().unwrap_or(0)
}

#[test]
fn twice_the_limit_passes_across_a_boundary_and_no_more() {
    let (table, window) = (Table::with_shape(16).unwrap(), window(100, 10, 0));
    let passes = |now| {
        let admitted = |_: &u32| matches!(table.admit(&window, key(0), at(now), cost(1)), Admission::Admitted { .. });
        (0..300).filter(admitted).count()
    };
    assert_eq!(passes(10 * SECOND - 1), 100);
    assert_eq!(passes(10 * SECOND), 100);
    assert_eq!(passes(20 * SECOND - 1), 0);
}

#[test]
fn a_clock_that_steps_back_opens_no_window_twice() {
    let (table, window) = (Table::with_shape(16).unwrap(), window(2, 10, 0));
    let passes = |now| matches!(table.admit(&window, key(0), at(now), cost(1)), Admission::Admitted { .. });
    assert!(passes(5 * SECOND) && passes(5 * SECOND) && passes(15 * SECOND));
    assert!(!passes(9 * SECOND) && !passes(0), "the first window is spent, and stays so");
    assert!(passes(15 * SECOND) && !passes(15 * SECOND), "and the second lost nothing by it");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn charging_keeps_the_order_of_levels(
        (window, now, a, b) in a_case(),
        units in prop_oneof![1_u32..9, Just(u32::MAX)],
    ) {
        keeps_order(&window, (a, b), now, units)?;
    }

    #[test]
    fn the_way_back_is_told_to_the_nanosecond((window, now, level, _) in a_case(), units in 1_u32..9) {
        // no promise can be made for the last window that has a number, those that begin past the last stamp, or stamps near it
        let next = (level >> 32) + 1;
        let never = next > u64::from(u32::MAX) || u128::from(next) * u128::from(window.length_nanos()) > u128::from(u64::MAX);
        retry_is_exact(&window, level, now, units, now > u64::MAX / 512 || never)?;
    }

    #[test]
    fn no_aligned_window_holds_more_than_the_limit(
        limit in 1_u32..9,
        offset in 0..10 * SECOND,
        size in 0_usize..4,
        start in prop_oneof![Just(0), anywhere(SECOND)],
        seed in any::<u64>(),
    ) {
        let window = window(limit, 10, offset);
        for admitted in [
            agrees_with_its_twin::<1>(&window, 1_usize << size, start, 10 * SECOND, seed)?,
            agrees_with_its_twin::<4>(&window, 1_usize << size, start, 10 * SECOND, seed)?,
        ].iter().flatten() {
            prop_assert!(fullest(10 * SECOND, offset, admitted) <= limit, "{admitted:?}");
        }
    }
}
