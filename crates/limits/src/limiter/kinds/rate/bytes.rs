//! Rates of bytes, kept in units of a power of two of bytes: the smallest by which all rates of the limit are at most a million units per
//! second.
//!
//! The emission interval of whole nanoseconds is then right to a thousandth. What is not a whole number of units is rounded down, so
//! that nothing exceeds what was written.

use std::time::Duration;

use crate::limiter::kinds::words::{At, Fault, Value, Word, Words};
use crate::units::Bytes;

/// The unit in which a limit of bytes and its tiers are counted, `Some(None)` of one that does not count bytes; `None` when there is
/// none, which is reported.
pub fn unit(words: &mut Words, rate: &Word, burst: &Word) -> Option<Option<u32>> {
    if !matches!(words.value(rate), Some((Value::ByteRate { .. }, _))) {
        return Some(None);
    }
    let rates = words.all(rate).filter_map(|value| match value {
        Value::ByteRate { bytes, period } => Some((*bytes, *period)),
        _ => None,
    });
    let bursts =
        words.all(burst).filter_map(|value| if let Value::Size(Bytes(bytes)) = value { Some(*bytes) } else { None });
    let unit = smallest_unit(rates.collect(), bursts.collect());
    if unit.is_none() {
        let label = "rates must be at most 1900TiB/s, bursts at most 8388608TiB";
        words.report(Fault::OutOfRange, At::Value(rate.name), "a rate of bytes or its burst is out of range", label);
    }
    unit.map(Some)
}

/// Whole units in so many bytes. The unit was chosen so that they fit.
pub fn units(bytes: u64, unit: u32) -> u32 {
    u32::try_from(bytes / u64::from(unit.max(1))).unwrap_or(u32::MAX)
}

/// The smallest power of two by which every rate is at most a million units per second, and all numbers fit their fields.
fn smallest_unit(mut rates: Vec<(u64, Duration)>, mut bursts: Vec<u64>) -> Option<u32> {
    const FASTEST: u128 = 1_000_000;
    loop {
        let fits = |unit: u64| {
            let fits32 = |bytes: u64| bytes / unit <= u64::from(u32::MAX);
            let slow = |bytes: u64, period: Duration| {
                u128::from(bytes) * 1_000_000_000 <= FASTEST * u128::from(unit) * period.as_nanos()
            };
            rates.iter().all(|(bytes, period)| fits32(*bytes) && slow(*bytes, *period))
                && bursts.iter().all(|bytes| fits32(*bytes))
        };
        let unit = (0..u32::BITS).map(|shift| 1_u64 << shift).find(|unit| fits(*unit))?;
        // what is left after rounding may do with a smaller unit; only then does what is shown load as the same
        let (before, rest) = ((rates.clone(), bursts.clone()), |bytes: &mut u64| *bytes -= *bytes % unit);
        rates.iter_mut().for_each(|(bytes, _)| rest(bytes));
        bursts.iter_mut().for_each(rest);
        if (rates.clone(), bursts.clone()) == before {
            return u32::try_from(unit).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_unit_is_the_smallest_that_keeps_the_rate_below_a_million() {
        let unit = |bytes, period| smallest_unit(vec![(bytes, period)], Vec::new());
        assert_eq!(unit(1_000_000, SECOND), Some(1));
        assert_eq!(unit(20 << 20, SECOND), Some(32));
        assert_eq!(unit(512 << 10, SECOND * 60), Some(1));
        assert_eq!(unit(1, SECOND), Some(1));
        assert_eq!(unit(u64::MAX, SECOND), None);
        // a million per second in all of a day is more than 32 bits hold
        assert_eq!(unit(86_400_000_000, SECOND * 86_400), Some(32));
        assert_eq!(smallest_unit(vec![(1_000, SECOND)], vec![1 << 40]), Some(512));
    }

    #[test]
    fn what_was_rounded_has_the_same_unit_again() {
        for bytes in (999_990..1_000_020).chain(1_999_990..2_000_020).chain(63_999_900..64_000_100) {
            let unit = smallest_unit(vec![(bytes, SECOND)], vec![]).unwrap();
            let rounded = bytes - bytes % u64::from(unit);
            assert_eq!(smallest_unit(vec![(rounded, SECOND)], vec![]), Some(unit), "{bytes}");
        }
    }
}
