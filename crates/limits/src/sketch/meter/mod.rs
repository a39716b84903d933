//! Levels, and what charging a request does to them.
//!
//! All that a limiter remembers of one key is its **level**: one `u64` in a totally ordered set. A [`Meter`] is the
//! arithmetic on levels. It holds no state, reads no clock and knows no table, so the same meter serves the sketch, the
//! exact table and the twin that the tests compare both with.

pub mod bucket;
pub mod decay;
pub mod powers;
pub mod recent_average;
pub mod time_scale;
pub mod window;
pub mod windows;

use crate::units::{Cost, Timestamp};
pub use bucket::Bucket;
pub use decay::NextDecayed;
pub use recent_average::RecentAverage;
pub use time_scale::{Ratio, TimeScale, Timeline};
pub use window::Window;
pub use windows::Windows;

/// Arithmetic on levels that a [`MonotoneTable`](super::MonotoneTable) may keep. Zero is the level of a key that was
/// never seen. For all levels `a ≤ b`, every `now` and `cost`:
///
/// * **M1** `charge(a) ≤ charge(b)`: a level that is too high stays too high;
/// * **M2** `charge(a) > a` whenever `a` admits the cost: an admitted request always leaves a trace;
/// * **M3** if `b` admits the cost, so does `a`: a level that is too high refuses too much, never too little.
pub trait Meter {
    /// Whether a level is an instant that every unit of cost moves on by the same span, so that a debt has a duration.
    const IS_LINEAR: bool = false;

    /// The level after a request of `cost`, stamped `now`, has been charged at `level`. Saturates at the far end.
    fn charge(&self, level: u64, now: Timestamp, cost: Cost) -> u64;

    /// What a request of `cost`, stamped `now`, is charged at `level`; `None` if it does not fit.
    fn admit(&self, level: u64, now: Timestamp, cost: Cost) -> Option<Charged>;

    /// The most that is admitted at one instant, in units of cost.
    fn quota(&self) -> u32;

    /// How many requests of cost one would be admitted right now, one after the other, at most [`Meter::quota`]; and when that
    /// grows by one.
    fn outlook(&self, level: u64, now: Timestamp) -> (u32, NextUnit);

    /// Nanoseconds until a request of `cost` is admitted if nothing else is charged until then: zero if it would be
    /// admitted now, and not one too many otherwise. `None` if no wait helps, as the cost exceeds the quota or time
    /// ends first.
    fn retry_nanos(&self, level: u64, now: Timestamp, cost: Cost) -> Option<u64>;

    /// What of a level counts at `now`, in the meter's own terms, so that it means the same at any other time: the lead of an
    /// instant, the count of a window, the bits of a sum. Zero if nothing does.
    fn standing(&self, level: u64, now: Timestamp) -> u64;

    /// Nanoseconds after which any level that was admitted has become as good as that of a key never seen. A table that
    /// is read beside its successor for this long can be dropped, and no key gains by it.
    fn fade_nanos(&self) -> u64;

    /// The span that stands for as much under any numbers, so that levels saved under others can be put in its terms: in what one unit
    /// comes back, or half of a sum. Zero of counts, which mean the same under any number.
    fn measure_nanos(&self) -> u64 {
        0
    }

    /// Whether the level is as good as that of a key never seen, from `now` on and for all stamps that are not earlier. It may say no
    /// of one that is.
    fn is_over(&self, level: u64, now: Timestamp) -> bool;

    /// The windows that it counts by, of a meter that may count charges of different windows under different keys.
    fn windows(&self) -> Option<&Windows> {
        None
    }
}

/// What a request that fits is charged.
#[derive(Debug, Clone, Copy)]
pub struct Charged {
    /// The level after it.
    pub to: u64,
    /// How many requests of cost one would still fit then.
    pub remaining: u32,
    /// When one more would.
    pub next_unit: NextUnit,
}

/// When one more request of cost one will fit.
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
