//! How many requests an origin should carry at once, found out from how it answers them.
//!
//! * [`aimd`]: one more while all is well, a tenth less when it is not.
//! * [`gradient`]: by how much the time to answer has grown over what it usually is.
//!
//! Only requests that were sent and have ended say anything; refused ones never do. Both algorithms are plain sums over a
//! [`Sample`] after the other, without a clock; [`Adaptive`] shares one of them between threads.
//!
//! Not a limit that clients see: it moves the number of an origin's [`Slots`] between a least and a most.
//!
//! Sources: Chiu and Jain 1989 (additive increase, multiplicative decrease); Jacobson 1988 (at most one decrease per round
//! trip, exponential start); Netflix concurrency-limits, `Gradient2Limit`.

pub mod aimd;
mod ceiling;
pub mod gradient;
#[cfg(test)]
mod simulated;

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use super::Slots;
use crate::units::Timestamp;
use aimd::Aimd;
use gradient::Gradient;

/// What the operator says of an adaptive cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdaptiveSpec {
    /// How the cap is found.
    pub algorithm: Algorithm,
    /// The least that the cap may be: at least 1. It starts here, since what an origin takes unloaded can only be learned
    /// while it is.
    pub min: u32,
    /// The most that it may be: at least `min`.
    pub max: u32,
    /// What is slow; without it only failures are.
    pub target: Option<Target>,
}

/// How the cap is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// One more while all is well, a tenth less when it is not.
    Aimd,
    /// By the growth of the time to answer.
    Gradient,
}

/// `p95<300ms`: of a hundred answers at most five may take 300 ms or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// 50 to 99: the part of all answers, in percent, that must be faster.
    pub percentile: u8,
    /// Faster than this.
    pub bound: Duration,
}

impl fmt::Display for Target {
    /// As in the policy; a bound of whole milliseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}<{}ms", self.percentile, self.bound.as_millis())
    }
}

/// One request that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When it was sent.
    pub began: Timestamp,
    /// When its answer began, or it failed.
    pub ended: Timestamp,
    /// How many were under way when it ended, itself included.
    pub inflight: u32,
    /// Whether the origin failed it: no connection, no answer in time, or 502, 503, 504.
    pub failed: bool,
}

impl Sample {
    fn took(&self) -> Duration {
        self.ended.since(self.began)
    }
}

/// An algorithm between threads.
#[derive(Debug)]
pub struct Adaptive {
    // only ever tried, so that no request waits for another: who finds it taken leaves its sample out. Samples are lost
    // without regard to what they say, so what is left is as good
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Aimd(Aimd),
    Gradient(Box<Gradient>),
}

impl Adaptive {
    /// At its start: the cap is the least.
    pub fn new(spec: &AdaptiveSpec) -> Adaptive {
        let state = match spec.algorithm {
            Algorithm::Aimd => State::Aimd(Aimd::new(spec)),
            Algorithm::Gradient => State::Gradient(Box::new(Gradient::new(spec))),
        };
        Adaptive { state: Mutex::new(state) }
    }

    /// Takes a request into account that has ended; moves the number of places. Says whether there are more than before, so
    /// that somebody who waits may have one.
    pub fn completed(&self, sample: &Sample, slots: &Slots) -> bool {
        let Ok(mut state) = self.state.try_lock() else { return false };
        let cap = match &mut *state {
            State::Aimd(aimd) => aimd.completed(sample),
            State::Gradient(gradient) => gradient.completed(sample),
        };
        // still under the lock, so that an older number never overwrites a newer one
        let before = slots.max();
        if cap != before {
            slots.set_max(cap);
        }
        cap > before
    }
}

/// A cap as places: whole ones, within the bounds.
fn whole(cap: f64, spec: &AdaptiveSpec) -> u32 {
    // a cast of a float saturates, and a NaN becomes zero
    (cap as u32).clamp(spec.min, spec.max.max(spec.min))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(algorithm: Algorithm) -> AdaptiveSpec {
        AdaptiveSpec { algorithm, min: 4, max: 40, target: None }
    }

    fn sample(at: u64, failed: bool) -> Sample {
        let ms = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
        Sample { began: ms(at), ended: ms(at + 10), inflight: 40, failed }
    }

    #[test]
    fn the_places_follow_and_never_leave_their_bounds() {
        for algorithm in [Algorithm::Aimd, Algorithm::Gradient] {
            let spec = spec(algorithm);
            let adaptive = Adaptive::new(&spec);
            let slots = Slots::new(spec.min);
            let mut grew = false;
            for round in 0..5_000 {
                grew |= adaptive.completed(&sample(round * 20, false), &slots);
                assert!((4..=40).contains(&slots.max()), "{algorithm:?}: {}", slots.max());
            }
            assert!(grew);
            assert_eq!(slots.max(), 40, "{algorithm:?}: nothing speaks against the most");
            for round in 5_000..5_500 {
                adaptive.completed(&sample(round * 20, true), &slots);
                assert!((4..=40).contains(&slots.max()), "{algorithm:?}: {}", slots.max());
            }
            assert_eq!(slots.max(), 4, "{algorithm:?}: nothing speaks for more than the least");
        }
    }

    #[test]
    fn a_target_is_shown_as_it_is_written() {
        let target = Target { percentile: 95, bound: Duration::from_millis(300) };
        assert_eq!(target.to_string(), "p95<300ms");
    }
}
