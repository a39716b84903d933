//! Sliding windows: their two bounds, reached and kept; the way back to the nanosecond; and the crossing of a boundary by
//! two threads under a model checker, with the fence and, to see that the model can tell, without it.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_limits::sketch::{Seed, SlidingReading, SlidingWindows, Window};
use tidegate_limits::units::Bytes;

use crate::meters::anywhere;
use crate::shorthand::{LENGTH, breaks_the_promise, window};
use crate::{at, cost, key};
use tidegate_limits::units::Dice;

const SECOND: u64 = 1_000_000_000;
const SEED: Seed = Seed::from_bytes([6; 16]);
fn windows<const ROWS: usize>(limit: u32, offset: u64, columns: usize) -> SlidingWindows<AtomicU64, ROWS> {
    SlidingWindows::with_shape(window(limit, offset), columns, &SEED).unwrap()
}

/// How many of cost one pass at `now`, one after the other.
fn passes<const ROWS: usize>(windows: &SlidingWindows<AtomicU64, ROWS>, now: u64) -> usize {
    (0..1_000).take_while(|_| windows.admit(key(0), at(now), cost(1)).admitted).count()
}

#[test]
fn the_last_window_weighs_less_the_more_of_this_one_has_passed() {
    let windows = windows::<4>(100, 0, 16);
    assert_eq!(passes(&windows, LENGTH - 1), 100);
    // where a fixed window would admit a hundred more at once, this one admits as much as has passed
    assert_eq!([0, 1, 25, 99].map(|part| passes(&windows, LENGTH + part * LENGTH / 100)), [0, 1, 24, 74]);
    // and the hundred of which 99 were spent weigh half in the middle of the next
    assert_eq!(passes(&windows, 2 * LENGTH + LENGTH / 2), 50);
}

#[test]
fn limit_and_share_of_the_window_after_a_boundary_are_reached_and_not_passed() {
    for limit in [1, 10, 1_000] {
        for part in [0, 10, 50, 90, 100] {
            let windows = windows::<4>(limit, 0, 16);
            let after = LENGTH * part / 100;
            let before = passes(&windows, LENGTH - 1) as u64;
            let both = before + passes(&windows, (LENGTH + after).min(2 * LENGTH - 1)) as u64;
            // at the last nanosecond of the window the last unit has not come free yet
            let bound = u64::from(limit) + u64::from(limit) * part / 100 - u64::from(part == 100);
            assert_eq!(both, bound, "limit {limit}, {part} % of a window after the boundary");
        }
    }
}

#[test]
fn a_client_that_always_asks_gets_one_less_than_the_limit() {
    for (limit, expected) in [(1, 20), (2, 40), (10, 360), (100, 3_960)] {
        let windows = windows::<4>(limit, 0, 16);
        let per_step = |step| passes(&windows, LENGTH + step * LENGTH / 1_000) as u64;
        let warm_up: u64 = (0..4_000).map(per_step).sum();
        assert!(warm_up > 0);
        let steady: u64 = (4_000..44_000).map(per_step).sum();
        assert_eq!(steady, expected, "in 40 windows of {limit}");
    }
}

#[test]
fn a_straggler_is_refused_until_the_boundary_that_its_key_has_crossed() {
    let windows = windows::<4>(10, 0, 16);
    assert!(windows.admit(key(0), at(3 * LENGTH), cost(1)).admitted);
    let late = windows.admit(key(0), at(3 * LENGTH - 7), cost(1));
    let expected = SlidingReading {
        admitted: false,
        contended: false,
        remaining: 0,
        retry_nanos: Some(7),
        reset_nanos: Some(7),
        spent: Window::NO_LIMIT_HELPS,
    };
    assert_eq!(late, expected);
    assert_eq!(windows.probe(key(0), at(3 * LENGTH), cost(1)).remaining, 9, "and it was not charged");
    assert!(!windows.admit(key(0), at(0), cost(1)).admitted, "nor is an older stamp");
}

#[test]
fn a_refusal_changes_nothing_and_a_cost_over_the_limit_never_passes() {
    let windows = windows::<4>(3, 0, 16);
    assert_eq!(windows.admit(key(0), at(5), cost(4)).retry_nanos, None);
    assert_eq!(windows.probe(key(0), at(5), cost(1)).remaining, 3);
    assert_eq!(windows.probe(key(0), at(5), cost(1)).reset_nanos, None);
    assert!(windows.admit(key(0), at(5), cost(3)).admitted);
    let refused = windows.admit(key(0), at(5), cost(1));
    assert_eq!(refused, windows.admit(key(0), at(5), cost(1)));
    // three spent: one of them is free again a third into the next window
    assert_eq!(refused.retry_nanos, Some(LENGTH - 5 + (LENGTH).div_ceil(3)));
}

#[test]
fn where_epochs_end_everything_is_refused() {
    let windows = SlidingWindows::<AtomicU64, 2>::with_shape(
        Window::new(2, Duration::from_secs(1), Duration::ZERO).unwrap(),
        4,
        &SEED,
    )
    .unwrap();
    let last = u64::from(u32::MAX) * SECOND - 1;
    assert!(windows.admit(key(0), at(last), cost(2)).admitted);
    assert_eq!(windows.admit(key(0), at(last), cost(1)).retry_nanos, None);
    assert_eq!(windows.admit(key(0), at(last + 1), cost(1)).retry_nanos, None);
}

#[test]
fn memory_is_what_was_asked_for_or_an_error() {
    let of = |bytes| SlidingWindows::with_memory(window(1, 0), Bytes(bytes), &SEED);
    assert_eq!(of(8 << 20).unwrap().memory(), Bytes(16 << 20), "two tables, and two to take turns with");
    assert_eq!(of(8 << 10).unwrap().fade_nanos(), 2 * LENGTH);
    for bytes in [0, 4 << 10, 5 << 20, 2 << 30, u64::MAX] {
        assert!(of(bytes).is_err(), "{bytes}");
    }
}

/// An exact limiter of one key that remembers every request, and judges by the formula alone.
#[derive(Default)]
struct Twin(Vec<(u64, u32)>);

impl Twin {
    fn admits(&self, limit: u32, offset: u64, now: u64, units: u32) -> bool {
        let epoch = |stamp: u64| (u128::from(stamp) + u128::from(offset)) / u128::from(LENGTH);
        let newest = self.0.iter().map(|(stamp, _)| epoch(*stamp)).max().unwrap_or(0);
        let spent = |wanted| {
            self.0
                .iter()
                .filter(|(stamp, _)| Some(epoch(*stamp)) == wanted)
                .map(|(_, units)| u128::from(*units))
                .sum::<u128>()
        };
        let passed = (u128::from(now) + u128::from(offset)) % u128::from(LENGTH);
        let here = epoch(now);
        let weighed = (spent(Some(here)) + u128::from(units)) * u128::from(LENGTH)
            + spent(here.checked_sub(1)) * (u128::from(LENGTH) - passed);
        newest <= here && weighed <= u128::from(limit) * u128::from(LENGTH)
    }
}

fn agrees_with_its_twin<const ROWS: usize>(
    limit: u32,
    offset: u64,
    columns: usize,
    start: u64,
    seed: u64,
) -> Result<(), TestCaseError> {
    let windows = windows::<ROWS>(limit, offset, columns);
    let mut twins: [Twin; 4] = Default::default();
    let (mut dice, mut now) = (Dice(seed), start);
    for _ in 0..150 {
        now = match dice.below(16) {
            0 => now.saturating_sub(dice.below(LENGTH)),
            1 => now.saturating_add(dice.below(3 * LENGTH)),
            2..=7 => now,
            _ => now.saturating_add(dice.below(LENGTH / 4)),
        };
        let (number, units) = (dice.below(4), 1 + dice.below(3) as u32);
        let twin = &mut twins[number as usize];
        let probed = windows.probe(key(number), at(now), cost(units));
        let reading = windows.admit(key(number), at(now), cost(units));
        prop_assert_eq!(probed.admitted, reading.admitted, "alone, what is probed is what is admitted");
        if reading.admitted {
            prop_assert!(twin.admits(limit, offset, now, units), "the twin refuses what the tables admit");
            twin.0.push((now, units));
        }
    }
    for Twin(admitted) in &twins {
        prop_assert!(!breaks_the_promise(limit, offset, admitted), "{admitted:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_the_tables_admit_the_exact_twin_admits_and_the_promise_holds(
        limit in 1_u32..9, offset in 0..LENGTH, size in 0_usize..4, seed in any::<u64>(),
        start in prop_oneof![Just(0), anywhere(SECOND)],
    ) {
        agrees_with_its_twin::<1>(limit, offset, 1_usize << size, start, seed)?;
        agrees_with_its_twin::<4>(limit, offset, 1_usize << size, start, seed)?;
    }

    #[test]
    fn a_key_alone_is_treated_exactly_as_by_the_twin(limit in 1_u32..9, offset in 0..LENGTH, seed in any::<u64>()) {
        let (windows, mut twin) = (windows::<4>(limit, offset, 8), Twin::default());
        let (mut dice, mut now) = (Dice(seed), 0_u64);
        for _ in 0..150 {
            now = if dice.below(8) == 0 { now.saturating_sub(dice.below(LENGTH)) } else { now + dice.below(LENGTH / 3) };
            let units = 1 + dice.below(3) as u32;
            let expected = twin.admits(limit, offset, now, units);
            prop_assert_eq!(windows.admit(key(0), at(now), cost(units)).admitted, expected);
            if expected {
                twin.0.push((now, units));
            }
        }
    }

    #[test]
    fn the_way_back_is_told_to_the_nanosecond(
        limit in prop_oneof![1_u32..9, Just(997)],
        offset in 0..LENGTH,
        units in 1_u32..10,
        seed in any::<u64>(),
        back in prop_oneof![Just(0), 0..LENGTH],
    ) {
        let windows = windows::<4>(limit, offset, 8);
        let (mut dice, mut now) = (Dice(seed), 0_u64);
        for _ in 0..20 {
            now += dice.below(LENGTH / 2);
            let _ = windows.admit(key(0), at(now), cost(1 + dice.below(u64::from(limit)) as u32));
        }
        now = now.saturating_sub(back);
        let reading = windows.probe(key(0), at(now), cost(units));
        let admitted = |now| windows.probe(key(0), at(now), cost(units)).admitted;
        match reading.retry_nanos {
            None => prop_assert!(units > limit),
            Some(0) => prop_assert!(reading.admitted),
            Some(wait) => {
                prop_assert!(admitted(now + wait), "told to come back too early");
                prop_assert!(!admitted(now) && !admitted(now + wait - 1), "told to wait too long");
                // whoever waits longer finds it open too
                prop_assert!([1, LENGTH / 3, LENGTH, 5 * LENGTH].iter().all(|longer| admitted(now + wait + longer)));
            }
        }
        let remaining = |now| windows.probe(key(0), at(now), cost(1)).remaining;
        match reading.reset_nanos {
            None => prop_assert_eq!(reading.remaining, limit),
            Some(wait) => {
                prop_assert!(wait > 0 && remaining(now + wait - 1) <= reading.remaining);
                prop_assert!(remaining(now + wait) > reading.remaining);
            }
        }
    }
}
