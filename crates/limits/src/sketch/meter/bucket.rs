//! The token bucket, kept as one instant.
//!
//! Source: the generic cell rate algorithm of ITU-T I.371 (virtual scheduling form).

use super::{Charged, Meter, NextUnit, Ratio};
use crate::units::{Cost, Divisor, OutOfRange, Rate, Timestamp};

/// A token bucket, kept as one instant: at most `burst + rate·τ` in **every** interval of length τ.
///
/// The level is the *theoretical arrival time* in nanoseconds: when the bucket will be full again. Charging moves it on
/// by cost·[interval](Bucket::interval_nanos), from now if it lies in the past; a request is admitted if the level then
/// lies at most [depth](Bucket::depth_nanos) ahead. The promise holds for the stamps used, in whatever order they come:
/// a stamp that lags behind only refuses more. A level at the last nanosecond of time (584 years after the origin)
/// admits nothing: saturated sums can no longer be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    interval: Divisor,
    burst: u32,
    depth: u64,
}

impl Bucket {
    /// The longest time in which a burst may refill: ten years. It leaves 98 % of the range of a `Timestamp` to time
    /// itself, and a promise that refills more slowly outlives the process that keeps it.
    const MAX_DEPTH: u64 = 3_650 * 86_400 * 1_000_000_000;

    /// # Errors
    /// A burst of zero, which would admit nothing at all, or one that takes more than 3,650 days to refill.
    pub fn new(rate: Rate, burst: u32) -> Result<Bucket, OutOfRange> {
        const ALLOWED: OutOfRange = OutOfRange { allowed: "1 or more, refilled at this rate within 3650d" };
        let interval = rate.interval_nanos();
        match interval.checked_mul(u64::from(burst)) {
            Some(depth) if burst > 0 && depth <= Self::MAX_DEPTH => Ok(Bucket::of(interval, burst, depth)),
            _ => Err(ALLOWED),
        }
    }

    /// The same promise on an axis that runs at this [`Ratio`].
    ///
    /// # Errors
    /// As [`Bucket::new`], and an axis on which the burst would take more than 584 years.
    pub fn paced(rate: Rate, burst: u32, ratio: Ratio) -> Result<Bucket, OutOfRange> {
        const ALLOWED: OutOfRange = OutOfRange { allowed: "a burst that the axis has room for" };
        let own = Bucket::new(rate, burst)?;
        // rounded up, so that the promise is never exceeded
        let interval = ratio.places_in_at_least(own.interval.get()).max(1);
        let depth = interval.checked_mul(u64::from(burst)).ok_or(ALLOWED)?;
        Ok(Bucket::of(interval, burst, depth))
    }

    fn of(interval: u64, burst: u32, depth: u64) -> Bucket {
        Bucket { interval: Divisor::new(interval), burst, depth }
    }

    /// The pace at which one request of the new rate, counted in units `units.1` for every `units.0` of this one's, moves
    /// a level by as much as one of this bucket's does, so that what was spent stays spent. The new bucket must
    /// [fit](Bucket::fits) an axis of this pace.
    pub fn pace_for(&self, new: &Bucket, units: (u32, u32)) -> Ratio {
        let (old_unit, new_unit) = (u128::from(units.0.max(1)), u128::from(units.1.max(1)));
        Ratio::new(u128::from(new.interval.get()) * old_unit, u128::from(self.interval.get()) * new_unit)
    }

    /// Whether on an axis of this pace a unit is a whole number of places, without which levels would not count units, and there is
    /// room for the burst.
    pub fn fits(&self, ratio: Ratio) -> bool {
        ratio.is_whole(self.interval.get()) && ratio.places_in_at_least(self.depth) <= Self::MAX_DEPTH
    }

    /// The most that is admitted at one instant, in units of cost.
    pub fn burst(&self) -> u32 {
        self.burst
    }

    /// Nanoseconds in which one unit refills.
    pub fn interval_nanos(&self) -> u64 {
        self.interval.get()
    }

    /// How far ahead of now the level may lie: `burst · interval`, in nanoseconds.
    pub fn depth_nanos(&self) -> u64 {
        self.depth
    }

    /// Nanoseconds in which an empty bucket refills wholly; the same number as [`Bucket::depth_nanos`], by another name.
    pub fn refill_nanos(&self) -> u64 {
        self.depth
    }
}

impl Bucket {
    /// Whether a request stamped `now` that would leave the level at `charged` may be admitted.
    #[inline]
    pub fn admits(&self, charged: u64, now: Timestamp) -> bool {
        charged < u64::MAX && charged.saturating_sub(now.nanos()) <= self.depth
    }
}

impl Meter for Bucket {
    const IS_LINEAR: bool = true;

    #[inline]
    fn charge(&self, level: u64, now: Timestamp, cost: Cost) -> u64 {
        let span = self.interval.get().saturating_mul(u64::from(cost.get()));
        level.max(now.nanos()).saturating_add(span)
    }

    /// One division for what remains and for what is left of it, which is how far the next unit has come.
    #[inline]
    fn admit(&self, level: u64, now: Timestamp, cost: Cost) -> Option<Charged> {
        let to = self.charge(level, now, cost);
        if !self.admits(to, now) {
            return None;
        }
        if to > u64::MAX - 1 - self.depth {
            // near the end of time the room is less than the depth says
            let (remaining, next_unit) = self.outlook(to, now);
            return Some(Charged { to, remaining, next_unit });
        }
        // what was charged lies ahead of now
        let (units, part) = self.interval.divide(self.depth - (to - now.nanos()));
        let remaining = u32::try_from(units).map_or(self.burst, |units| units.min(self.burst));
        Some(Charged { to, remaining, next_unit: NextUnit::Known(Some(self.interval.get() - part)) })
    }

    fn quota(&self) -> u32 {
        self.burst
    }

    #[inline]
    fn outlook(&self, level: u64, now: Timestamp) -> (u32, NextUnit) {
        let start = level.max(now.nanos());
        let ahead = start - now.nanos();
        // the second bound keeps clear of the last nanosecond of time, at which nothing is admitted
        let room = self.depth.saturating_sub(ahead).min((u64::MAX - 1).saturating_sub(start));
        let (units, _) = self.interval.divide(room);
        let remaining = u32::try_from(units).map_or(self.burst, |units| units.min(self.burst));
        let next = Cost::new(remaining.saturating_add(1)).ok().filter(|_| remaining < self.burst);
        (remaining, NextUnit::Known(next.and_then(|cost| self.retry_nanos(level, now, cost))))
    }

    fn retry_nanos(&self, level: u64, now: Timestamp, cost: Cost) -> Option<u64> {
        let charged = self.charge(level, now, cost);
        if self.admits(charged, now) {
            return Some(0);
        }
        if cost.get() > self.burst || charged == u64::MAX {
            return None;
        }
        // refused though the cost fits the burst: the level lies ahead of now, and stays put while we wait
        Some(charged.saturating_sub(self.depth).saturating_sub(now.nanos()))
    }

    /// How far ahead it lies.
    fn standing(&self, level: u64, now: Timestamp) -> u64 {
        level.saturating_sub(now.nanos())
    }

    fn fade_nanos(&self) -> u64 {
        self.depth
    }

    fn measure_nanos(&self) -> u64 {
        self.interval.get()
    }

    fn is_over(&self, level: u64, now: Timestamp) -> bool {
        level <= now.nanos()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn bucket(events: u32, period: Duration, burst: u32) -> Bucket {
        Bucket::new(Rate::new(events, period).unwrap(), burst).unwrap()
    }

    /// Spends `cost` at `now`, or says that it was refused.
    fn spend(bucket: &Bucket, level: &mut u64, now: u64, cost: u32) -> bool {
        let now = Timestamp::from_nanos(now);
        let charged = bucket.charge(*level, now, Cost::new(cost).unwrap());
        let admitted = bucket.admits(charged, now);
        if admitted {
            *level = charged;
        }
        admitted
    }

    #[test]
    fn the_burst_passes_at_once_and_then_one_per_interval() {
        let bucket = bucket(10, Duration::from_secs(1), 3);
        let mut level = 0;
        let admitted: Vec<bool> = (0..5).map(|_| spend(&bucket, &mut level, 0, 1)).collect();
        assert_eq!(admitted, [true, true, true, false, false]);
        assert!(!spend(&bucket, &mut level, SECOND / 10 - 1, 1));
        assert!(spend(&bucket, &mut level, SECOND / 10, 1));
        assert!(!spend(&bucket, &mut level, SECOND / 10, 1));
    }

    #[test]
    fn remaining_retry_and_next_unit_agree() {
        let bucket = bucket(1, Duration::from_secs(1), 5);
        let now = Timestamp::from_nanos(7 * SECOND);
        assert_eq!(bucket.outlook(0, now).0, 5);
        assert_eq!(bucket.outlook(0, now).1.nanos(), None);
        let level = 10 * SECOND - 1; // three units spent, and one nanosecond refilled
        assert_eq!(bucket.outlook(level, now).0, 2);
        assert_eq!(bucket.outlook(level, now).1.nanos(), Some(SECOND - 1));
        assert_eq!(bucket.retry_nanos(level, now, Cost::new(2).unwrap()), Some(0));
        assert_eq!(bucket.retry_nanos(level, now, Cost::new(3).unwrap()), Some(SECOND - 1));
        assert_eq!(bucket.retry_nanos(level, now, Cost::new(5).unwrap()), Some(3 * SECOND - 1));
    }

    #[test]
    fn no_wait_helps_a_cost_above_the_burst() {
        let bucket = bucket(1, Duration::from_secs(1), 5);
        assert_eq!(bucket.retry_nanos(0, Timestamp::ZERO, Cost::new(6).unwrap()), None);
        assert_eq!(bucket.retry_nanos(0, Timestamp::ZERO, Cost::new(u32::MAX).unwrap()), None);
    }

    #[test]
    fn at_the_end_of_time_it_refuses_instead_of_losing_count() {
        let bucket = bucket(1, Duration::from_secs(1), 5);
        let now = Timestamp::from_nanos(u64::MAX - 2 * SECOND);
        let mut level = 0;
        assert_eq!(bucket.outlook(level, now).0, 1);
        assert!(spend(&bucket, &mut level, now.nanos(), 1));
        assert!(!spend(&bucket, &mut level, now.nanos(), 1));
        assert_eq!(bucket.retry_nanos(level, now, Cost::ONE), None);
        assert_eq!(bucket.outlook(level, now).1.nanos(), None);
    }

    #[test]
    fn a_bucket_fits_an_axis_on_which_units_are_whole_and_the_burst_has_room() {
        let (a_second, a_day) = (Duration::from_secs(1), Duration::from_secs(86_400));
        let (fast, slow) = (bucket(10, a_second, 10), bucket(1, a_day, 10));
        for (old, new, units, fits) in [
            (&fast, &slow, (1, 1), true),
            (&slow, &fast, (1, 1), true),
            (&fast, &slow, (1, 1 << 20), true),
            // a tenth of a second over 2²⁰ are 95.4 nanoseconds
            (&fast, &slow, (1 << 20, 1), false),
            (&fast, &slow, (1 << 8, 1), true),
            // three thousand days have room where one is one, and four thousand have not
            (&slow, &bucket(9_000, a_day, 3_000), (1, 1), true),
            (&slow, &bucket(9_000, a_day, 4_000), (1, 1), false),
        ] {
            let ratio = old.pace_for(new, units);
            assert_eq!(new.fits(ratio), fits, "{old:?} {new:?} {units:?}");
            if fits {
                let of_new = u128::from(old.interval_nanos()) * u128::from(units.1) / u128::from(units.0);
                let places = u128::from(ratio.places_in(new.interval_nanos()));
                assert_eq!(places, of_new, "a unit moves a level as far as what it is worth");
            }
        }
    }

    #[test]
    fn a_burst_of_nothing_or_of_more_than_ten_years_is_refused() {
        let daily = Rate::new(1, Duration::from_secs(86_400)).unwrap();
        assert!(Bucket::new(daily, 0).is_err());
        assert!(Bucket::new(daily, 3_650).is_ok());
        assert!(Bucket::new(daily, 3_651).is_err());
        assert!(Bucket::new(daily, u32::MAX).is_err());
        assert!(Bucket::new(Rate::new(10_000_000, Duration::from_secs(1)).unwrap(), u32::MAX).is_ok());
    }
}
