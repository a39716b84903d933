//! What counts the new values of a key: a window of an aligned limit, or a bucket of a sliding one.

use std::time::Duration;

use crate::sketch::{Bucket, Charged, Meter, NextUnit, Pace, Window};
use crate::units::{Cost, OutOfRange, Rate, Timestamp};

/// What counts the new values of a key.
#[derive(Debug, Clone)]
pub(super) enum Counter {
    Aligned(Window),
    Sliding(Bucket),
}

impl Counter {
    pub fn new(max: u32, period: Duration, sliding: bool, pace: Pace) -> Result<Counter, OutOfRange> {
        Ok(match sliding {
            true => Counter::Sliding(Bucket::paced(Rate::new(max, period)?, max, pace)?),
            false => Counter::Aligned(Window::new(max, period, Duration::ZERO)?),
        })
    }

    /// Whether levels mean the same by both.
    pub fn counts_as(&self, other: &Counter) -> bool {
        match (self, other) {
            (Counter::Aligned(one), Counter::Aligned(other)) => one.has_windows_of(other),
            (Counter::Sliding(one), Counter::Sliding(other)) => one == other,
            _ => false,
        }
    }

    /// The pace of an axis on which what was counted by these numbers stays counted under the new ones.
    pub fn pace_for(&self, new: &Counter) -> Pace {
        match (self, new) {
            (Counter::Sliding(before), Counter::Sliding(new)) => before.pace_for(new, (1, 1)),
            // counts need no axis but time
            _ => Pace::EVEN,
        }
    }

    /// In what time one comes back, of a sliding one.
    pub fn interval_nanos(&self) -> u64 {
        if let Counter::Sliding(bucket) = self { bucket.interval_nanos() } else { 1 }
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
            Counter::Sliding(bucket) => bucket.charge(level, now, cost),
        }
    }

    #[inline]
    fn admits(&self, charged: u64, now: Timestamp) -> bool {
        match self {
            Counter::Aligned(window) => window.admits(charged, now),
            Counter::Sliding(bucket) => bucket.admits(charged, now),
        }
    }

    #[inline]
    fn leaves(&self, level: u64, now: Timestamp, cost: Cost) -> Option<u32> {
        match self {
            Counter::Aligned(window) => window.leaves(level, now, cost),
            Counter::Sliding(bucket) => bucket.leaves(level, now, cost),
        }
    }

    #[inline]
    fn leaves_charged(&self, level: u64, now: Timestamp, cost: Cost) -> Option<Charged> {
        match self {
            Counter::Aligned(window) => window.leaves_charged(level, now, cost),
            Counter::Sliding(bucket) => bucket.leaves_charged(level, now, cost),
        }
    }

    #[inline]
    fn next_unit_later(&self, charged: &Charged, now: Timestamp) -> NextUnit {
        match self {
            Counter::Aligned(window) => window.next_unit_later(charged, now),
            Counter::Sliding(bucket) => bucket.next_unit_later(charged, now),
        }
    }

    #[inline]
    fn is_half_spent(&self, level: u64, now: Timestamp) -> bool {
        match self {
            Counter::Aligned(window) => window.is_half_spent(level, now),
            Counter::Sliding(bucket) => bucket.is_half_spent(level, now),
        }
    }

    #[inline]
    fn quota(&self) -> u32 {
        match self {
            Counter::Aligned(window) => window.quota(),
            Counter::Sliding(bucket) => bucket.quota(),
        }
    }

    #[inline]
    fn remaining(&self, level: u64, now: Timestamp) -> u32 {
        match self {
            Counter::Aligned(window) => window.remaining(level, now),
            Counter::Sliding(bucket) => bucket.remaining(level, now),
        }
    }

    #[inline]
    fn retry_nanos(&self, level: u64, now: Timestamp, cost: Cost) -> Option<u64> {
        match self {
            Counter::Aligned(window) => window.retry_nanos(level, now, cost),
            Counter::Sliding(bucket) => bucket.retry_nanos(level, now, cost),
        }
    }

    #[inline]
    fn next_unit_nanos(&self, level: u64, now: Timestamp) -> Option<u64> {
        match self {
            Counter::Aligned(window) => window.next_unit_nanos(level, now),
            Counter::Sliding(bucket) => bucket.next_unit_nanos(level, now),
        }
    }

    fn standing(&self, level: u64, now: Timestamp) -> u64 {
        match self {
            Counter::Aligned(window) => window.standing(level, now),
            Counter::Sliding(bucket) => bucket.standing(level, now),
        }
    }

    #[inline]
    fn outlook(&self, level: u64, now: Timestamp) -> (u32, Option<u64>) {
        match self {
            Counter::Aligned(window) => window.outlook(level, now),
            Counter::Sliding(bucket) => bucket.outlook(level, now),
        }
    }

    fn fade_nanos(&self) -> u64 {
        match self {
            Counter::Aligned(window) => window.fade_nanos(),
            // values that are confirmed late may put a counter ahead by twice its quota
            Counter::Sliding(bucket) => bucket.fade_nanos().saturating_mul(2),
        }
    }
}
