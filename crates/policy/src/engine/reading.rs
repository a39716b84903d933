//! How the reading of a limit is filled in.

use super::decision::{DecidedBy, Outcome, Reading};
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
        by: DecidedBy::Gate,
    }
}

/// Copies what a limit said into its reading.
pub(super) fn fill(reading: &mut Reading, judgement: &Judgement) {
    reading.outcome = if judgement.admitted { Outcome::Admitted } else { Outcome::Refused };
    reading.remaining = judgement.remaining;
    reading.retry_nanos = judgement.retry_nanos;
    reading.next_unit = judgement.next_unit;
    reading.standing = judgement.standing;
    reading.node = judgement.node;
}
