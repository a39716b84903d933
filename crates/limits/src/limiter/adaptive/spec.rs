//! What the operator says of an adaptive cap, and what one ended request says.

use std::fmt;
use std::time::Duration;

use crate::units::Timestamp;

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
    pub(super) fn took(&self) -> Duration {
        self.ended.since(self.began)
    }
}

/// A cap as places: whole ones, within the bounds.
pub(super) fn whole(cap: f64, spec: &AdaptiveSpec) -> u32 {
    // a cast of a float saturates, and a NaN becomes zero
    (cap as u32).clamp(spec.min, spec.max.max(spec.min))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_shown_as_it_is_written() {
        let target = Target { percentile: 95, bound: Duration::from_millis(300) };
        assert_eq!(target.to_string(), "p95<300ms");
    }
}
