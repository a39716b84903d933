//! What counts the new values of a key: a window of an aligned limit, or a bucket of a sliding one.

use std::time::Duration;

use crate::limiter::Kind;
use crate::limiter::kind::{MIXED, RefusedCount};
use crate::sketch::{Bucket, Charged, Meter, NextUnit, Ratio, Window};
use crate::units::time::saturating_nanos;
use crate::units::{Cost, OutOfRange, Rate, Timestamp};

/// How new values are counted, whatever the quota.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counting {
    pub period: Duration,
    pub sliding: bool,
    /// For how many nanoseconds refused values can keep a key out; `None` if they do not count.
    pub penalty: Option<u64>,
}

impl Counting {
    pub fn of(kind: &Kind) -> Result<Counting, OutOfRange> {
        let (Some(period), sliding) = kind.fixed_windows() else { return Err(MIXED) };
        let penalty = match kind.refused() {
            Some(RefusedCount::All { max_penalty }) if sliding => Some(saturating_nanos(max_penalty)),
            _ => None,
        };
        Ok(Counting { period, sliding, penalty })
    }
}

/// What counts the new values of a key.
#[derive(Debug, Clone)]
pub(super) enum Counter {
    Aligned(Window),
    /// Beside the bucket, how far beyond its limit refused values may raise a level, as a span of the axis.
    Sliding(Bucket, u64),
}

/// Of what one unit comes back in, or of the longest lock-out if that is less: raises that are smaller are not worth four writes.
const RAISES: u64 = 16;

impl Counter {
    pub fn new(max: u32, counting: &Counting, ratio: Ratio) -> Result<Counter, OutOfRange> {
        let Counting { period, sliding, penalty } = *counting;
        Ok(match sliding {
            true => {
                let bucket = Bucket::paced(Rate::new(max, period)?, max, ratio)?;
                Counter::Sliding(bucket, ratio.places_in(penalty.unwrap_or(0)).min(u64::MAX / 4))
            }
            false => Counter::Aligned(Window::new(max, period, Duration::ZERO)?),
        })
    }

    /// The level up to which refused values count: a key that is silent from now on has room for one more after the penalty.
    pub fn ceiling(&self, now: Timestamp) -> u64 {
        match self {
            // a window ends when it ends
            Counter::Aligned(_) => 0,
            Counter::Sliding(bucket, penalty) => {
                let full = bucket.depth_nanos().saturating_sub(bucket.interval_nanos());
                now.nanos().saturating_add(full).saturating_add(*penalty)
            }
        }
    }

    /// Whether raising a level to `raised`, to count a refused value, is worth four writes. A key at the ceiling that goes on
    /// is raised this many times in a penalty at most, and stays out.
    pub fn worth_raising(&self, level: u64, raised: u64) -> bool {
        let Counter::Sliding(bucket, penalty) = self else { return false };
        raised.saturating_sub(level) > bucket.interval_nanos().min(*penalty) / RAISES
    }

    /// Whether levels mean the same by both.
    pub fn counts_as(&self, other: &Counter) -> bool {
        match (self, other) {
            (Counter::Aligned(one), Counter::Aligned(other)) => one.has_windows_of(other),
            (Counter::Sliding(one, _), Counter::Sliding(other, _)) => one == other,
            _ => false,
        }
    }

    /// The pace of an axis on which what was counted by these numbers stays counted under the new ones.
    pub fn pace_for(&self, new: &Counter) -> Ratio {
        match (self, new) {
            (Counter::Sliding(before, _), Counter::Sliding(new, _)) => before.pace_for(new, (1, 1)),
            // counts need no axis but time
            _ => Ratio::EVEN,
        }
    }

    /// Whether it counts to the unit on an axis of this pace.
    pub fn fits(&self, ratio: Ratio) -> bool {
        if let Counter::Sliding(bucket, _) = self { bucket.fits(ratio) } else { true }
    }

    /// Whether it counts in aligned windows.
    pub fn is_aligned(&self) -> bool {
        matches!(self, Counter::Aligned(_))
    }
}

impl Meter for Counter {
    #[inline]
    fn charge(&self, level: u64, now: Timestamp, cost: Cost) -> u64 {
        match self {
            Counter::Aligned(window) => window.charge(level, now, cost),
            Counter::Sliding(bucket, _) => bucket.charge(level, now, cost),
        }
    }

    #[inline]
    fn admit(&self, level: u64, now: Timestamp, cost: Cost) -> Option<Charged> {
        match self {
            Counter::Aligned(window) => window.admit(level, now, cost),
            Counter::Sliding(bucket, _) => bucket.admit(level, now, cost),
        }
    }

    #[inline]
    fn quota(&self) -> u32 {
        match self {
            Counter::Aligned(window) => window.quota(),
            Counter::Sliding(bucket, _) => bucket.quota(),
        }
    }

    #[inline]
    fn outlook(&self, level: u64, now: Timestamp) -> (u32, NextUnit) {
        match self {
            Counter::Aligned(window) => window.outlook(level, now),
            Counter::Sliding(bucket, _) => bucket.outlook(level, now),
        }
    }

    #[inline]
    fn retry_nanos(&self, level: u64, now: Timestamp, cost: Cost) -> Option<u64> {
        match self {
            Counter::Aligned(window) => window.retry_nanos(level, now, cost),
            Counter::Sliding(bucket, _) => bucket.retry_nanos(level, now, cost),
        }
    }

    #[inline]
    fn standing(&self, level: u64, now: Timestamp) -> u64 {
        match self {
            Counter::Aligned(window) => window.standing(level, now),
            Counter::Sliding(bucket, _) => bucket.standing(level, now),
        }
    }

    fn measure_nanos(&self) -> u64 {
        match self {
            Counter::Aligned(window) => window.measure_nanos(),
            Counter::Sliding(bucket, _) => bucket.measure_nanos(),
        }
    }

    fn is_over(&self, level: u64, now: Timestamp) -> bool {
        match self {
            Counter::Aligned(window) => window.is_over(level, now),
            Counter::Sliding(bucket, _) => bucket.is_over(level, now),
        }
    }

    fn fade_nanos(&self) -> u64 {
        match self {
            Counter::Aligned(window) => window.fade_nanos(),
            // values that are confirmed late may put a counter ahead by twice its quota, refused ones by the penalty
            Counter::Sliding(bucket, penalty) => {
                let once = bucket.fade_nanos();
                once.saturating_mul(2).max(once.saturating_add(*penalty))
            }
        }
    }
}
