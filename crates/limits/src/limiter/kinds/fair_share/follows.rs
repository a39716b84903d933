//! What an origin can take, for a `fair_share` that follows it.
//!
//! Little's law (1961): what a server completes per second is what it has under way over the time that each takes. With its
//! in-flight cap as what it may have under way, cap / mean time to answer is the rate at which it is full.

use std::sync::Arc;
use std::time::Duration;

use crate::limiter::Capacity;
use crate::sync::{AtomicU64, Ordering};

/// The mean time to answer of one origin, as an exponentially weighted average over its answers.
#[derive(Debug)]
pub struct Follows {
    origin: usize,
    /// Nanoseconds, as the bits of an `f64`; zero before the first answer.
    mean: Arc<AtomicU64>,
}

/// Each answer moves the mean by a hundredth: a few hundred answers forget an episode, one slow answer does nothing.
const WEIGHT: f64 = 0.01;

impl Follows {
    /// `None` when the capacity is a number, or the origin has no cap.
    pub fn new(capacity: Capacity, origin_caps: &[Option<u32>]) -> Option<Follows> {
        let Capacity::Origin(origin) = capacity else { return None };
        (*origin_caps.get(origin)?)?;
        Some(Follows { origin, mean: Arc::default() })
    }

    /// The same, with what is known of the origin if that is the one it was; `origins` says for each of the new policy which of the old
    /// one it was.
    pub fn following(self, before: Option<&Follows>, origins: &[Option<usize>]) -> Follows {
        let same = |before: &&Follows| origins.get(self.origin).copied().flatten() == Some(before.origin);
        match before.filter(same) {
            Some(before) => Follows { mean: Arc::clone(&before.mean), ..self },
            None => self,
        }
    }

    /// Takes one answer into account; gives the capacity per second that follows under this in-flight cap, which may move.
    /// `None` if it was another origin's.
    pub fn completed(&self, origin: usize, took: Duration, cap: u32) -> Option<f64> {
        if origin != self.origin {
            return None;
        }
        // an answer within a microsecond tells nothing about capacity, and a zero would make it endless
        let took = (took.as_nanos() as f64).max(1_000.0);
        let before = f64::from_bits(self.mean.load(Ordering::Relaxed));
        let mean = if before > 0.0 { before + (took - before) * WEIGHT } else { took };
        // Relaxed, and a race loses one answer of many: an estimate, on which no promise rests
        self.mean.store(mean.to_bits(), Ordering::Relaxed);
        Some(f64::from(cap) * 1e9 / mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capacity_is_the_cap_over_the_mean_time_to_answer() {
        let follows = Follows::new(Capacity::Origin(1), &[None, Some(40)]).unwrap();
        assert_eq!(follows.completed(0, Duration::from_millis(1), 40), None);
        assert_eq!(follows.completed(1, Duration::from_millis(100), 40), Some(400.0));
        let mut capacity = 0.0;
        for _ in 0..2_000 {
            capacity = follows.completed(1, Duration::from_millis(200), 40).unwrap();
        }
        assert!((capacity - 200.0).abs() < 0.1, "{capacity}");
        assert!(Follows::new(Capacity::Origin(0), &[None]).is_none());
        let halved = follows.completed(1, Duration::from_millis(200), 20).unwrap();
        assert!((halved - 100.0).abs() < 0.1, "{halved}: the cap has moved");
        assert!(follows.completed(1, Duration::ZERO, 40).unwrap().is_finite());
    }
}
