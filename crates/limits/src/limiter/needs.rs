//! What it would have taken to let a refused request through: a decision read backwards.
//!
//! A refusal is told together with its *standing*: what counted then, in the arithmetic of its kind.
//! [`Limiter::owed`](super::Limiter::owed) makes of it one word that keeps, and [`LimitKind::needs`](super::LimitKind::needs) makes of that the numbers that an
//! operator could have written.
//!
//! **Definition.** *On the same charges*: everything that this limit had charged to the key when the request was judged is
//! charged again, at the same stamps, by a limiter with the other number, and then the request is asked about.
//!
//! * **burst**, **max**: the smallest with which it is admitted; with one less it is refused. The charges alone decide, so
//!   this is exact for every kind that has one.
//! * **rate** of `recent_average`: the same, as its levels do not depend on the rate.
//! * **rate** of `rate`: what came back between the charges depends on when they were, which a level no longer tells. So it is the
//!   smallest rate, in whole events of the limit's own period, with which the request is admitted *whatever charges led to
//!   this level*. It is exact for the steepest of them, a client whose bucket was full and that spent it at one instant; a
//!   client that went on for long would have passed with less. None if all of it came at this very instant, or may have, as
//!   a unit or more is missing: then only a burst helps.
//! * `distinct` that moves along: a greater `max` also gives back faster, so the smallest is that of the steepest charges, as for a rate.
//! * `fair_share` promises nobody a number.
//!
//! Requests that were refused before would have been admitted, and charged, by the greater number too. Nobody knows which
//! would still have been sent then, so they are left out.

use crate::sketch::Bucket;
use crate::units::{Cost, Rate};

/// One refusal's distance from being none, in a word that means something only to its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Owed(u64);

/// The numbers that would have let a request through; each by itself is enough.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Needs {
    /// The smallest burst (`rate`) or `max` (`quota`, `distinct`, `inflight`), in units of cost. Of `recent_average`, which has no
    /// such word: the sum that the request would have made, rounded up.
    pub units: Option<u32>,
    /// The smallest rate.
    pub rate: Option<Rate>,
}

impl Owed {
    /// As it was kept.
    pub fn from_word(word: u64) -> Owed {
        Owed(word)
    }

    /// To be kept.
    pub fn word(self) -> u64 {
        self.0
    }

    /// So many units, and so many events per period of the limit's rate; zero is none.
    pub(super) fn units(units: u64, events: u32) -> Owed {
        Owed(u64::from(u32::try_from(units).unwrap_or(0)) << 32 | u64::from(events))
    }

    /// What a bucket is short of by this [standing](super::Judgement::standing).
    pub(super) fn of_rate(bucket: &Bucket, rate: Option<Rate>, standing: u64, cost: Cost) -> Owed {
        let lead = standing.saturating_add(bucket.interval_nanos().saturating_mul(u64::from(cost.get())));
        let excess = lead.saturating_sub(bucket.depth_nanos());
        let events = match rate {
            Some(rate) if excess > 0 => events(rate, excess, bucket.interval_nanos()),
            _ => 0,
        };
        Owed::units(lead.div_ceil(bucket.interval_nanos().max(1)), events)
    }

    /// A recent average's sum, with the request.
    pub(super) fn sum(sum: f64) -> Owed {
        Owed(sum.to_bits())
    }

    /// The units, and the events per period of the limit's rate, of a kind that counts units.
    pub(super) fn parts(self) -> (Option<u32>, Option<u32>) {
        let [units, events] = [(self.0 >> 32) as u32, self.0 as u32];
        ((units > 0).then_some(units), (events > 0).then_some(events))
    }

    /// The sum of an average.
    pub(super) fn as_sum(self) -> Option<f64> {
        Some(f64::from_bits(self.0)).filter(|sum| self.0 != 0 && sum.is_finite())
    }
}

/// The smallest number above `from` that fits, if greater ones fit too; `None` where the kind ends before.
pub(super) fn smallest(from: u32, fits: impl Fn(u32) -> Option<bool>) -> Option<u32> {
    // one that the kind does not take counts as one that fits, until the smallest is known
    let fits_or_ends = |number: u32| fits(number).unwrap_or(true);
    let (mut low, mut high) = (from, from.checked_add(1)?);
    while !fits_or_ends(high) {
        (low, high) = (high, high.checked_add(high - from)?);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits_or_ends(middle) { high = middle } else { low = middle }
    }
    fits(high)?.then_some(high)
}

/// The smallest number of events per period of `rate` with which a bucket that is over its depth by `excess` nanoseconds would
/// not be, whatever charges led to it; zero if none.
///
/// Be the bucket full last when S units, the request included, were still to come, a time T ago: then the request is admitted at
/// another interval i if (S − burst)·i ≤ T, whenever that was. The level says that (S − burst)·interval − excess ≤ T. If less than
/// one unit is missing, so that T is never zero, the strictest is S − burst = 1; else all of it may have come at this instant.
///
/// The bucket may run on an axis of its own, on which a unit takes `interval`.
fn events(rate: Rate, excess: u64, interval: u64) -> u32 {
    let in_time = u128::from(excess) * u128::from(rate.interval_nanos());
    let excess = u64::try_from(in_time.div_ceil(u128::from(interval.max(1)))).unwrap_or(u64::MAX);
    let Some(wanted) = rate.interval_nanos().checked_sub(excess).filter(|wanted| *wanted > 0) else { return 0 };
    let period = u64::try_from(rate.period().as_nanos()).unwrap_or(u64::MAX);
    let events = u32::try_from(period.div_ceil(wanted)).unwrap_or(0);
    Rate::new(events, rate.period()).map_or(0, |rate| rate.events())
}

#[cfg(test)]
mod tests;
