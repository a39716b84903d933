//! The cap follows the growth of the time to answer.
//!
//! After each window of samples, with `short` its percentile and `long` the slow mean of those: `g = reference / short`,
//! within ½ and 1, and `cap ← 0.8·cap + 0.2·(g·cap + max(4, √cap))`. The square root is the queue that is allowed, and what
//! makes the cap grow while the times do not. The reference is 1.5 times `long`, but never more than the target: a mean alone
//! gets used to an overload that lasts, and would raise the cap under it.
//!
//! Held while less than half of the cap is used: an idle origin proves nothing.
//!
//! Source: Netflix concurrency-limits, `Gradient2Limit` (tolerance 1.5, smoothing 0.2, long window 600, the long mean drifts
//! down by 5 % while it is more than twice the short one). Not from there: the target, the percentile instead of a mean,
//! that after a fall only what was sent since then counts, and that growth is slower near where the cap last fell.

use std::time::Duration;

use super::ceiling::Ceiling;
use super::spec::{AdaptiveSpec, Sample, whole};
use crate::units::Timestamp;

/// By how much times may lie above the mean before the cap falls.
const TOLERANCE: f64 = 1.5;

/// How much of each new cap is taken.
const SMOOTHING: f64 = 0.2;

/// Over how many samples the slow mean forgets.
const LONG_WINDOW: f64 = 600.0;

/// The queue that is allowed at small caps.
const LEAST_QUEUE: f64 = 4.0;

/// The fewest and the most samples of a window. In between it is the cap, about one round trip.
const LEAST_WINDOW: f64 = 16.0;
const MOST_WINDOW: usize = 256;

/// The percentile where no target names one: Envoy's gradient takes it too.
const PERCENTILE: u8 = 90;

/// The state: a window of samples, 2 KiB, and a few numbers.
#[derive(Debug, Clone)]
pub struct Gradient {
    spec: AdaptiveSpec,
    cap: f64,
    ceiling: Ceiling,
    /// The slow mean of the windows' percentiles in nanoseconds; zero before the first.
    long: f64,
    window: [u64; MOST_WINDOW],
    seen: usize,
    /// The most that were under way in this window.
    busiest: u32,
    /// When the cap last fell. What was sent before was sent under another cap.
    fell: Timestamp,
}

impl Gradient {
    /// At the least cap.
    pub fn new(spec: &AdaptiveSpec) -> Gradient {
        let cap = f64::from(spec.min);
        let window = [0; MOST_WINDOW];
        let ceiling = Ceiling::unknown();
        Gradient { spec: *spec, cap, ceiling, long: 0.0, window, seen: 0, busiest: 0, fell: Timestamp::ZERO }
    }

    /// Takes one request into account; gives the cap from now on.
    pub fn completed(&mut self, sample: &Sample) -> u32 {
        if sample.began < self.fell {
            return whole(self.cap, &self.spec);
        }
        self.busiest = self.busiest.max(sample.inflight);
        if sample.failed {
            // its time says nothing: a refused connection is the fastest answer there is
            self.moved_by(0.5, sample.ended);
        } else if let Some(place) = self.window.get_mut(self.seen) {
            *place = u64::try_from(sample.took().as_nanos()).unwrap_or(u64::MAX);
            self.seen += 1;
            let wanted = self.cap.clamp(LEAST_WINDOW, MOST_WINDOW as f64) as usize;
            if self.seen >= wanted {
                self.turn(sample.ended);
            }
        }
        whole(self.cap, &self.spec)
    }

    /// A window is complete.
    fn turn(&mut self, now: Timestamp) {
        let short = self.percentile().max(1.0);
        let weight = (self.seen as f64 / LONG_WINDOW).min(1.0);
        self.long = if self.long > 0.0 { self.long + (short - self.long) * weight } else { short };
        if self.long > 2.0 * short {
            self.long *= 0.95;
        }
        let bound = self.spec.target.map_or(Duration::MAX, |target| target.bound);
        let reference = (self.long * TOLERANCE).min(bound.as_nanos() as f64);
        let busy = f64::from(self.busiest) * 2.0 >= self.cap;
        if busy {
            self.moved_by((reference / short).clamp(0.5, 1.0), now);
        } else {
            self.begin();
        }
    }

    fn moved_by(&mut self, gradient: f64, now: Timestamp) {
        let before = self.cap;
        let wanted = before * gradient + before.sqrt().max(LEAST_QUEUE);
        let cap = before * (1.0 - SMOOTHING) + wanted * SMOOTHING;
        // a failure must not raise it, however small it is
        let cap = if gradient <= 0.5 { cap.min(before * (1.0 - SMOOTHING / 2.0)) } else { cap };
        let cap = if cap > before { before + self.ceiling.step(before, cap - before) } else { cap };
        self.cap = cap.clamp(f64::from(self.spec.min), f64::from(self.spec.max));
        if self.cap < before {
            self.ceiling.fell_from(before);
            self.fell = now;
        }
        self.begin();
    }

    fn begin(&mut self) {
        (self.seen, self.busiest) = (0, 0);
    }

    /// The percentile of the window, which is sorted by that.
    fn percentile(&mut self) -> f64 {
        let percentile = self.spec.target.map_or(PERCENTILE, |target| target.percentile);
        let Some(window) = self.window.get_mut(..self.seen) else { return 0.0 };
        window.sort_unstable();
        // the least value that so many percent are not above
        let rank = (window.len() * usize::from(percentile.min(100))).div_ceil(100).max(1);
        window.get(rank - 1).copied().unwrap_or(0) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Algorithm, Target};
    use super::*;

    fn gradient(min: u32, max: u32, bound: Option<u64>) -> Gradient {
        let target = bound.map(|ms| Target { percentile: 95, bound: Duration::from_millis(ms) });
        Gradient::new(&AdaptiveSpec { algorithm: Algorithm::Gradient, min, max, target })
    }

    fn feed(gradient: &mut Gradient, from: u64, count: u64, took: u64) -> u64 {
        let ms = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
        for at in from..from + count {
            let inflight = gradient.cap as u32;
            gradient.completed(&Sample { began: ms(at), ended: ms(at + took), inflight, failed: false });
        }
        from + count + took
    }

    #[test]
    fn grows_while_times_stay_and_falls_when_they_grow() {
        let mut gradient = gradient(10, 1_000, None);
        let now = feed(&mut gradient, 0, 10_000, 20);
        let high = gradient.cap;
        assert!(high > 100.0, "{high}");
        let now = feed(&mut gradient, now, 1, 20);
        feed(&mut gradient, now, 600, 400);
        assert!(gradient.cap < high * 0.95, "{}", gradient.cap);
    }

    #[test]
    fn a_target_keeps_the_mean_from_getting_used_to_an_overload() {
        let (mut without, mut with) = (gradient(10, 400, None), gradient(10, 400, Some(100)));
        for gradient in [&mut without, &mut with] {
            gradient.cap = 400.0;
            let mut now = 0;
            for _ in 0..200 {
                now = feed(gradient, now, 300, 200);
            }
        }
        assert_eq!(with.cap, 10.0 + 0.0, "above the target it never grows");
        assert!(without.cap > 300.0, "to whom 200 ms are normal: {}", without.cap);
    }

    #[test]
    fn an_idle_origin_moves_nothing() {
        let mut gradient = gradient(50, 400, Some(100));
        for at in 0..10_000_u64 {
            let at = Timestamp::from_nanos(at * 1_000_000);
            let ended = at.after(Duration::from_millis(10));
            gradient.completed(&Sample { began: at, ended, inflight: 3, failed: false });
        }
        assert_eq!(gradient.cap, 50.0);
    }
}
