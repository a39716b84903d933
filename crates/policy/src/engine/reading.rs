//! How the reading of a limit is filled in.

use super::by::By;
use super::decision::{Outcome, Reading};
use crate::limiter::Judgement;
use crate::policy::Mode;
use crate::sketch::NextUnit;

/// The reading of a limit that was not asked.
#[inline]
pub(super) fn blank(rule: usize, mode: Mode) -> Reading {
    Reading {
        rule,
        mode,
        tier: 0,
        node: None,
        outcome: Outcome::Exempt,
        remaining: 0,
        retry_nanos: None,
        next_unit: NextUnit::Known(None),
        standing: 0,
        by: By::Gate,
    }
}

/// Puts what a limit said in a word into its reading; the rest is as in one that was not asked about yet.
#[inline]
pub(super) fn fit(reading: &mut Reading, remaining: u64) {
    (reading.outcome, reading.remaining) = (Outcome::Admitted, u32::try_from(remaining).unwrap_or(u32::MAX));
    reading.retry_nanos = Some(0);
}

/// Copies what a limit said into its reading.
pub(super) fn fill(reading: &mut Reading, judgement: &Judgement) {
    reading.outcome = if judgement.admitted { Outcome::Admitted } else { Outcome::Refused };
    reading.remaining = judgement.remaining;
    reading.retry_nanos = judgement.retry_nanos;
    reading.next_unit = judgement.next_unit;
    reading.standing = judgement.standing;
}
