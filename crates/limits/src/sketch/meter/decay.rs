//! When the sum of a recent average will have decayed so far that a cost fits: to the nanosecond, by two logarithms and a
//! search. It takes longer than all else that is asked of the meter, and is kept apart so that it can be asked later, by
//! whoever tells it: of five limits of a request one is told.

use super::powers::{logarithm, power_of_two};
use crate::units::{Cost, Timestamp};

/// So many half-lives ahead, a request no longer moves a level by as much as a nanosecond counts.
pub(super) const FAR: u64 = 64;

/// The numbers of a [`RecentAverage`](super::RecentAverage) that a wait follows from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decay {
    /// Nanoseconds in which the sum halves.
    pub half_life: u64,
    /// The greatest sum that is admitted, one or more.
    pub most: f64,
    /// How far ahead of its stamp a level of that sum lies.
    pub depth: u64,
}

impl Decay {
    /// The last stamp that is admitted: levels at the end of time can no longer be told apart.
    #[inline]
    pub fn last(&self) -> u64 {
        (u64::MAX - 1).saturating_sub(self.depth)
    }

    fn quota(&self) -> u32 {
        self.most as u32
    }

    /// Nanoseconds until `cost`, which does not fit now, is admitted; `None` if never.
    pub fn opens(&self, level: u64, now: Timestamp, cost: Cost) -> Option<u64> {
        if cost.get() > self.quota() || now.nanos() > self.last() {
            return None;
        }
        let lead = i128::from(self.greatest_lead(f64::from(cost.get())));
        let opens = u64::try_from(i128::from(level) - lead).ok()?;
        (opens <= self.last()).then(|| opens.saturating_sub(now.nanos()))
    }

    /// The greatest lead of a level over the stamp at which `cost`, which fits an empty budget, is admitted.
    pub fn greatest_lead(&self, cost: f64) -> i64 {
        let half_life = self.half_life as f64;
        let fits = |lead: i64| power_of_two(lead as f64 / half_life) + cost <= self.most;
        // where the rest of a sum is nothing and where it is too much, a half-life beyond which `power_of_two` saturates
        let (lowest, highest) = (-((61 * self.half_life) as i64), (FAR * self.half_life) as i64);
        // what a rounded sum leaves room for: without the half of its last place, the search below starts dozens of
        // nanoseconds away where budgets are large
        let room = self.most - cost + (self.most.next_up() - self.most) / 2.0;
        let guess = match room {
            room if room >= 1.0 => half_life * logarithm(room),
            room if room > 0.0 => -half_life * logarithm(1.0 / room),
            _ => lowest as f64,
        };
        let guess = (guess as i64).clamp(lowest, highest);
        // from the guess outwards in growing steps, then between the last two by halves; at `lowest` it fits, at
        // `highest` it does not
        let (mut low, mut high, mut step) = (guess, guess, 1_i64);
        if fits(guess) {
            high = (guess + step).min(highest);
            while high < highest && fits(high) {
                step *= 2;
                (low, high) = (high, (high + step).min(highest));
            }
        } else {
            low = (guess - step).max(lowest);
            while low > lowest && !fits(low) {
                step *= 2;
                (low, high) = ((low - step).max(lowest), low);
            }
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        low
    }
}

/// When the unit after those that remain comes back: all that it follows from, as it was when the key was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextDecayed {
    half_life: u64,
    /// Its bits, so that two records can be told to be equal.
    most: u64,
    depth: u64,
    level: u64,
    now: Timestamp,
    remaining: u32,
}

impl NextDecayed {
    #[inline]
    pub(super) fn new(decay: Decay, level: u64, now: Timestamp, remaining: u32) -> NextDecayed {
        let Decay { half_life, most, depth } = decay;
        NextDecayed { half_life, most: most.to_bits(), depth, level, now, remaining }
    }

    /// Nanoseconds from then until it does; `None` if nothing was spent, or time ends first.
    pub fn nanos(&self) -> Option<u64> {
        let decay = Decay { half_life: self.half_life, most: f64::from_bits(self.most), depth: self.depth };
        let next = Cost::new(self.remaining.saturating_add(1)).ok().filter(|_| self.remaining < decay.quota());
        next.and_then(|cost| decay.opens(self.level, self.now, cost))
    }
}
