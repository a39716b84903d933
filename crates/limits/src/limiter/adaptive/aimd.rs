//! Additive increase, multiplicative decrease.
//!
//! The promise: while every window of samples is within the target and nothing fails, the cap grows by one per cap
//! completions; on the first sign of overload it falls to nine tenths, and not again before a request that was sent after
//! that has ended. So one overload, however many requests feel it, is one decrease. Near where it last fell it grows more
//! slowly.
//!
//! Until the first sign the cap grows by one per completion, as TCP's does at the start, so that it is found in a few round
//! trips. It grows only while at least half of it is used: an idle origin proves nothing.
//!
//! Sources: Chiu and Jain 1989, "Analysis of the increase and decrease algorithms"; Jacobson 1988, "Congestion avoidance
//! and control" §2, §3.

use super::ceiling::Ceiling;
use super::spec::{AdaptiveSpec, Sample, whole};
use crate::units::Timestamp;

/// What is left of the cap after a sign of overload. TCP halves, because its losses come late; a time to answer is seen at
/// once, and a tenth keeps the cap within a tenth of what fits.
const DECREASE: f64 = 0.9;

/// The fewest samples among which a percentile means anything: at `p95` two of twenty are too many.
const LEAST_WINDOW: f64 = 20.0;

/// The most: a sign of overload among thousands of samples should not have to wait for the last of them.
const MOST_WINDOW: f64 = 500.0;

/// The state: a few numbers.
#[derive(Debug, Clone)]
pub struct Aimd {
    spec: AdaptiveSpec,
    cap: f64,
    ceiling: Ceiling,
    /// When the cap last fell. What was sent before was sent under another cap and says nothing about this one.
    fell: Timestamp,
    /// Samples of the present window, and how many of them were slow.
    seen: u32,
    slow: u32,
}

impl Aimd {
    /// At the least cap.
    pub fn new(spec: &AdaptiveSpec) -> Aimd {
        Aimd {
            spec: *spec,
            cap: f64::from(spec.min),
            ceiling: Ceiling::unknown(),
            fell: Timestamp::ZERO,
            seen: 0,
            slow: 0,
        }
    }

    /// Takes one request into account; gives the cap from now on.
    pub fn completed(&mut self, sample: &Sample) -> u32 {
        if sample.began < self.fell {
            return whole(self.cap, &self.spec);
        }
        let slow = self.spec.target.is_some_and(|target| sample.took() >= target.bound);
        self.seen += 1;
        self.slow += u32::from(slow);
        let window = self.cap.clamp(LEAST_WINDOW, MOST_WINDOW);
        let bearable =
            self.spec.target.map_or(0.0, |target| window * f64::from(100 - target.percentile.min(100)) / 100.0);
        if sample.failed || f64::from(self.slow) > bearable && self.slow > 0 {
            self.decrease(sample.ended);
        } else {
            if !slow && f64::from(sample.inflight) * 2.0 >= self.cap {
                let step = if self.ceiling.is_known() { 1.0 / self.cap } else { 1.0 };
                self.cap += self.ceiling.step(self.cap, step);
                self.cap = self.cap.min(f64::from(self.spec.max));
            }
            if f64::from(self.seen) >= window {
                (self.seen, self.slow) = (0, 0);
            }
        }
        whole(self.cap, &self.spec)
    }

    fn decrease(&mut self, now: Timestamp) {
        self.ceiling.fell_from(self.cap);
        self.cap = (self.cap * DECREASE).floor().max(f64::from(self.spec.min));
        self.fell = now;
        (self.seen, self.slow) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Algorithm, Target};
    use super::*;

    fn aimd(min: u32, max: u32) -> Aimd {
        let target = Some(Target { percentile: 95, bound: Duration::from_millis(100) });
        Aimd::new(&AdaptiveSpec { algorithm: Algorithm::Aimd, min, max, target })
    }

    fn ms(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    fn sample(began: u64, took: u64, inflight: u32) -> Sample {
        Sample { began: ms(began), ended: ms(began + took), inflight, failed: false }
    }

    #[test]
    fn falls_once_per_round_trip_however_many_feel_it() {
        let mut aimd = aimd(10, 1_000);
        for at in 0..90 {
            aimd.completed(&sample(at, 10, 1_000));
        }
        assert_eq!(aimd.cap, 100.0);
        // a hundred that were all sent before the first of them came back slow
        for at in 0..100 {
            aimd.completed(&sample(1_000 + at, 500, 100));
        }
        assert_eq!(aimd.cap, 90.0);
        // the answers to what was sent after it count again
        for at in 0..100 {
            aimd.completed(&sample(2_000 + at, 500, 90));
        }
        assert_eq!(aimd.cap, 81.0);
    }

    #[test]
    fn five_in_a_hundred_may_be_slow_and_no_more() {
        let mut steady = aimd(100, 1_000);
        for at in 0..10_000_u64 {
            steady.completed(&sample(at * 1_000, if at % 100 < 5 { 500 } else { 10 }, 1));
        }
        assert_eq!(steady.cap, 100.0, "within the target");
        let mut over = aimd(10, 1_000);
        over.cap = 100.0;
        for at in 0..100_u64 {
            over.completed(&sample(at * 1_000, if at < 6 { 500 } else { 10 }, 1));
        }
        assert_eq!(over.cap, 90.0, "one too many");
    }

    #[test]
    fn grows_by_one_per_round_trip_and_not_while_idle() {
        let mut aimd = aimd(10, 1_000);
        aimd.completed(&Sample { failed: true, ..sample(0, 10, 10) });
        assert_eq!(aimd.completed(&sample(100, 10, 4)), 10);
        assert_eq!(aimd.cap, 10.0, "less than half is used");
        aimd.cap = 8.0;
        for at in 0..8 {
            aimd.completed(&sample(200 + at, 10, 10));
        }
        assert!((8.9..=9.0).contains(&aimd.cap), "{}", aimd.cap);
    }

    #[test]
    fn a_clock_that_steps_back_is_no_time_to_answer() {
        let mut aimd = aimd(10, 1_000);
        let back = Sample { began: ms(500), ended: ms(100), inflight: 10, failed: false };
        assert_eq!(aimd.completed(&back), 11);
    }
}
