//! Levels, and what charging a request does to them.
//!
//! All that a limiter remembers of one key is its **level**: one `u64` in a totally ordered set. A [`Meter`] is the
//! arithmetic on levels. It holds no state, reads no clock and knows no table, so the same meter serves the sketch, the
//! exact table and the twin that the tests compare both with.

pub mod axis;
pub mod bucket;
pub mod decay;
pub mod powers;
pub mod recent_average;
pub mod window;
pub mod windows;

use super::hash::KeyHash;
use crate::units::{Cost, Timestamp};
pub use axis::{Axis, Course, Pace};
pub use bucket::Bucket;
pub use decay::NextDecayed;
pub use recent_average::RecentAverage;
pub use window::Window;
pub use windows::Windows;

/// Arithmetic on levels that a [`MonotoneTable`](super::MonotoneTable) may keep. Zero is the level of a key that was
/// never seen. For all levels `a ≤ b`, every `now` and `cost`:
///
/// * **M1** `charge(a) ≤ charge(b)`: a level that is too high stays too high;
/// * **M2** `charge(a) > a` whenever `charge(a)` is admitted: an admitted request always leaves a trace;
/// * **M3** if `charge(b)` is admitted, so is `charge(a)`: a level that is too high refuses too much, never too little.
pub trait Meter {
    /// The level after a request of `cost`, stamped `now`, has been admitted at `level`. Saturates at the far end.
    fn charge(&self, level: u64, now: Timestamp, cost: Cost) -> u64;

    /// Whether a request stamped `now` that would leave the level at `charged` may be admitted.
    fn admits(&self, charged: u64, now: Timestamp) -> bool;

    /// Whether a request stamped `now` would be admitted at `level`; the same as [`Meter::admits`] of what it would be
    /// charged to, but for meters that can tell without working that out.
    #[inline]
    fn fits(&self, level: u64, now: Timestamp, cost: Cost) -> bool {
        self.admits(self.charge(level, now, cost), now)
    }

    /// What [`Meter::remaining`] would be after a request of `cost`, stamped `now`, at `level`; `None` if it does not fit. For
    /// meters that can tell without working out the level that it would be charged to.
    #[inline]
    fn leaves(&self, level: u64, now: Timestamp, cost: Cost) -> Option<u32> {
        let charged = self.charge(level, now, cost);
        self.admits(charged, now).then(|| self.remaining(charged, now))
    }

    /// [`Meter::leaves`] and [`Meter::charge`] of a request that fits, for meters that find both at once more cheaply.
    #[inline]
    fn leaves_charged(&self, level: u64, now: Timestamp, cost: Cost) -> Option<Charged> {
        let to = self.charge(level, now, cost);
        self.admits(to, now).then(|| Charged {
            to,
            remaining: self.remaining(to, now),
            half_spent: self.is_half_spent(to, now),
            by_the_way: 0,
        })
    }

    /// Whether half the quota or more is spent at this level: one more than the other half would not fit.
    #[inline]
    fn is_half_spent(&self, level: u64, now: Timestamp) -> bool {
        !self.fits(level, now, Cost::new(self.quota() / 2 + 1).unwrap_or(Cost::ONE))
    }

    /// The most that is admitted at one instant, in units of cost.
    fn quota(&self) -> u32;

    /// How many requests of cost one would be admitted right now, one after the other; at most [`Meter::quota`].
    fn remaining(&self, level: u64, now: Timestamp) -> u32;

    /// Nanoseconds until a request of `cost` is admitted if nothing else is charged until then: zero if it would be
    /// admitted now, and not one too many otherwise. `None` if no wait helps, as the cost exceeds the quota or time
    /// ends first.
    fn retry_nanos(&self, level: u64, now: Timestamp, cost: Cost) -> Option<u64>;

    /// Nanoseconds until [`Meter::remaining`] grows by one. `None` if nothing is spent, or time ends first.
    fn next_unit_nanos(&self, level: u64, now: Timestamp) -> Option<u64>;

    /// [`Meter::remaining`] and [`Meter::next_unit_nanos`], for meters that find both at once more cheaply.
    #[inline]
    fn outlook(&self, level: u64, now: Timestamp) -> (u32, Option<u64>) {
        (self.remaining(level, now), self.next_unit_nanos(level, now))
    }

    /// The same for a record that may never be read: what takes long to find is left to whoever asks for it.
    #[inline]
    fn outlook_later(&self, level: u64, now: Timestamp) -> (u32, NextUnit) {
        let (remaining, next) = self.outlook(level, now);
        (remaining, NextUnit::Known(next))
    }

    /// [`Meter::next_unit_nanos`] at the level after a charge that was told at `now`.
    #[inline]
    fn next_unit_later(&self, charged: &Charged, now: Timestamp) -> NextUnit {
        NextUnit::Known(self.next_unit_nanos(charged.to, now))
    }

    /// The key under which `key` is counted at `now`, for meters that keep what is charged at different times apart.
    #[inline]
    fn key_at(&self, key: KeyHash, _now: Timestamp) -> KeyHash {
        key
    }

    /// Nanoseconds until [`Meter::key_at`] is another; `None` if it stays what it is.
    fn key_changes_nanos(&self, _now: Timestamp) -> Option<u64> {
        None
    }

    /// These numbers are in force from now on.
    fn take_over(&self) {}

    /// What of a level counts at `now`, in the meter's own terms, so that it means the same at any other time: the lead of an
    /// instant, the count of a window, the bits of a sum. Zero if nothing does.
    fn standing(&self, level: u64, now: Timestamp) -> u64;

    /// Whether a level is an instant that every unit of cost moves on by the same span, so that a debt has a duration.
    fn is_linear(&self) -> bool {
        false
    }

    /// Nanoseconds after which any level that was admitted has become as good as that of a key never seen. A table that
    /// is read beside its successor for this long can be dropped, and nobody gains by it.
    fn fade_nanos(&self) -> u64;
}

/// What a request that fits is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Charged {
    /// The level after it.
    pub to: u64,
    /// [`Meter::remaining`] at that level.
    pub remaining: u32,
    /// [`Meter::is_half_spent`] at that level.
    pub half_spent: bool,
    /// What the meter found by the way of when the next unit comes back, in its own terms.
    pub by_the_way: u64,
}

/// When the next unit comes back; what [`Meter::next_unit_nanos`] would have said then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextUnit {
    /// Found already.
    Known(Option<u64>),
    /// Of a recent average: yet to be found.
    Decayed(NextDecayed),
}

impl NextUnit {
    /// Nanoseconds, from the judgement on, until it does; `None` if nothing was spent, or time ends first.
    pub fn nanos(&self) -> Option<u64> {
        match self {
            NextUnit::Known(nanos) => *nanos,
            NextUnit::Decayed(later) => later.nanos(),
        }
    }
}
