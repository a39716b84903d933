//! The different values of `type: distinct` that a store keeps of a key, with when each ends.
//!
//! A value that is kept passes, as often as it comes, and nothing is written. One that is not is kept if fewer than `max` are, until its
//! end. Values are kept by names that nobody can read or, without the secret, guess; so a key takes at most `max` names of 16 bytes, and
//! is gone when its last value ends.
//!
//! **Windows by the clock.** A value ends with the window in which it was counted.
//!
//! > different values that pass in one window ≤ max
//!
//! *Proof.* All of them are kept until the window ends: when the last of them is counted, the others are kept, and with it they are at most
//! `max`. A clock that steps back finds values that end later than its window: what is counted then ends with those, so no window has its
//! budget twice.
//!
//! **Sliding.** A value ends a window's length P after it was counted, and then counts again.
//!
//! > values counted in any interval of length τ ≤ max·(1 + τ/P); different ones that pass in it ≤ max·(2 + τ/P)
//!
//! *Proof.* What is counted in an interval shorter than P is all kept at its end, or when the last of it is counted. An interval of τ is
//! 1 + ⌊τ/P⌋ such; and what passes in it was counted in it or at most P before.
//!
//! A gate keeps what it was told of a value for four seconds at most, counted from before it asked, and never longer than the value is
//! kept here. So it admits nothing that is not counted at that moment, whatever the other gates do.
//!
//! **What breaks it, and by how much.** A store that is emptied forgets `max` values at most, so 2·`max` pass in that window. So does a
//! replica that had not heard of them; and, of values that slide, a clock that steps forward by as much as they had yet to live.

use std::collections::BTreeMap;
use std::fmt;

use super::{Answer, StoreKey};
use crate::units::OutOfRange;

/// What a store counts different values by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValuesTerms {
    /// Microseconds per window.
    pub window_micros: u64,
    /// The most different values per window.
    pub max: u32,
    /// Whether windows follow each value.
    pub sliding: bool,
}

impl ValuesTerms {
    /// The most values that a store keeps of a key: some 12 MB.
    pub const MOST: u32 = 100_000;

    pub(super) fn new(window_micros: u64, max: u32, sliding: bool) -> Result<ValuesTerms, OutOfRange> {
        match max <= ValuesTerms::MOST {
            true => Ok(ValuesTerms { window_micros, max, sliding }),
            false => Err(OutOfRange { allowed: "at most 100000 values" }),
        }
    }
}

/// What a store keeps of a key: when each value ends, in microseconds since 1970.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Values(BTreeMap<[u8; 16], u64>);

impl Values {
    /// Drops what has ended. `src/store/values.lua` does the same first.
    pub fn forget(&mut self, now: u64) {
        self.0.retain(|_, ends| *ends > now);
    }

    /// How many values are kept.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Values {
    /// Each end with the name of its value, earliest first, as the store sorts them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted: Vec<_> = self.0.iter().map(|(name, ends)| (*ends, u128::from_be_bytes(*name))).collect();
        sorted.sort_unstable();
        sorted.iter().try_for_each(|(ends, name)| write!(f, "{ends} {name:032x} "))
    }
}

/// Judges a value of a key: it passes, as often as is `wanted`, if it is kept or there is room. Writes to `kept`, and returns the answer
/// and, of a value that is new, for how many milliseconds the key is to be kept. `now` is the store's clock in microseconds since 1970.
/// `src/store/values.lua` does the same, number by number; a test drives both.
pub fn count(kept: &mut Values, terms: &ValuesTerms, value: StoreKey, wanted: u32, now: u64) -> (Answer, Option<u64>) {
    kept.forget(now);
    let (count, max) = (kept.0.len(), terms.max as usize);
    let answer = |granted: u32, left: usize, ends: u64| Answer {
        granted,
        left: u32::try_from(left).unwrap_or(u32::MAX),
        retry_nanos: Some(if granted > 0 { 0 } else { (ends - now).saturating_mul(1_000) }),
        ends_nanos: (ends - now).saturating_mul(1_000),
    };
    if let Some(ends) = kept.0.get(&value.0) {
        return (answer(wanted, max.saturating_sub(count), *ends), None);
    }
    let mut all: Vec<u64> = kept.0.values().copied().collect();
    all.sort_unstable();
    // there is room again when so many of them have ended
    if let Some(ends) = count.checked_sub(max).and_then(|too_many| all.get(too_many)) {
        return (answer(0, 0, *ends), None);
    }
    let last = all.last().copied().unwrap_or(0);
    let ends = match terms.sliding {
        true => now + terms.window_micros,
        // a clock that steps back stays in the window that it had reached
        false => (now - now % terms.window_micros + terms.window_micros).max(last),
    };
    kept.0.insert(value.0, ends);
    (answer(wanted, max - count - 1, ends), Some((last.max(ends) - now).div_ceil(1_000)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000;
    const NOW: u64 = 1_790_000_000 * SECOND;

    fn name(value: u8) -> StoreKey {
        StoreKey([value; 16])
    }

    fn terms(max: u32, sliding: bool) -> ValuesTerms {
        ValuesTerms { window_micros: 10 * SECOND, max, sliding }
    }

    #[test]
    fn a_value_that_is_kept_passes_though_no_other_does_and_lives_no_longer_for_it() {
        for sliding in [false, true] {
            let mut kept = Values::default();
            let mut ask = |value, after| count(&mut kept, &terms(2, sliding), name(value), 7, NOW + after);
            let (first, written) = ask(1, 3 * SECOND);
            assert_eq!((first.granted, first.left, first.retry_nanos), (7, 1, Some(0)));
            let rest = if sliding { 10 } else { 7 };
            assert_eq!((first.ends_nanos, written), (rest * 1_000 * SECOND, Some(rest * 1_000)), "{sliding}");
            assert_eq!(ask(2, 4 * SECOND).0.left, 0);
            let (refused, written) = ask(3, 5 * SECOND);
            assert_eq!((refused.granted, written), (0, None));
            assert_eq!(refused.retry_nanos, Some((rest - 2) * 1_000 * SECOND), "{sliding}");
            let (again, written) = ask(1, 6 * SECOND);
            assert_eq!((again.granted, again.ends_nanos, written), (7, (rest - 3) * 1_000 * SECOND, None));
            // one place is free again, or both
            let later = (3 + rest) * SECOND;
            assert_eq!(ask(3, later).0.left, u32::from(!sliding));
        }
    }

    #[test]
    fn a_smaller_number_has_room_when_as_many_have_ended() {
        let mut kept = Values::default();
        for value in 0..5 {
            count(&mut kept, &terms(5, true), name(value), 1, NOW + u64::from(value) * SECOND);
        }
        let (answer, _) = count(&mut kept, &terms(2, true), name(9), 1, NOW + 5 * SECOND);
        // the fourth ends 13 seconds after the first was counted
        assert_eq!((answer.granted, answer.left, answer.retry_nanos), (0, 0, Some(8_000 * SECOND)));
    }

    #[test]
    fn more_values_than_a_store_keeps_are_refused() {
        assert!(ValuesTerms::new(SECOND, 100_000, true).is_ok());
        assert!(ValuesTerms::new(SECOND, 100_001, false).is_err());
    }

    proptest! {
        #[test]
        fn no_window_has_more_than_its_values_whatever_the_clock_does(
            max in 1_u32..6,
            sliding: bool,
            // what time passes, and how far the clock is set back
            arrivals in proptest::collection::vec(
                (0_u8..12, 0..3 * SECOND, prop_oneof![12 => Just(0), 1 => 0..30 * SECOND]),
                1..300,
            ),
        ) {
            let (mut kept, mut now, terms) = (Values::default(), NOW, terms(max, sliding));
            // windows are those that the clock has reached; what slides goes by the time that passes
            let (mut reached, mut time) = (0, NOW);
            let mut passed: Vec<(u64, u8)> = Vec::new();
            for (value, step, back) in arrivals {
                (now, time) = (now + step - back, time + step);
                reached = reached.max(now);
                let (answer, _) = count(&mut kept, &terms, name(value), 1, now);
                prop_assert!(kept.count() <= max as usize);
                if answer.granted > 0 {
                    passed.push((if sliding { time } else { reached }, value));
                    prop_assert!(answer.ends_nanos > 0);
                }
            }
            for (at, _) in &passed {
                let within = |(other, _): &&(u64, u8)| match sliding {
                    true => *other <= *at && *at - *other < terms.window_micros,
                    false => *other / terms.window_micros == *at / terms.window_micros,
                };
                let different: BTreeSet<u8> = passed.iter().filter(within).map(|(_, value)| *value).collect();
                let most = if sliding { 2 * max } else { max };
                prop_assert!(different.len() <= most as usize, "{different:?} of {most} at {at}");
            }
        }
    }
}
