//! When a case begins, and how long it is.

use std::time::Duration;

use crate::config::case::Case;
use crate::policy::{Kind, Policy};
use crate::units::Timestamp;

/// More than the longest time a limit can look back, as with the live clock.
const HEAD_START: u128 = 400 * 86_400 * 1_000_000_000;

/// From the beginning of a case to its last request.
pub fn length(case: &Case) -> Duration {
    let last = |step: &crate::config::case::Step| {
        step.begins.saturating_add(step.every.saturating_mul(step.count.saturating_sub(1)))
    };
    case.steps.iter().map(last).max().unwrap_or_default()
}

/// When the case begins: where a window of every quota does, if there is such a moment within a century, and at midnight
/// otherwise. Far enough from zero that a level of zero means "long ago".
pub fn beginning(policy: &Policy) -> Timestamp {
    const CENTURY: u128 = 100 * 366 * 86_400 * 1_000_000_000;
    const DAY: u128 = 86_400 * 1_000_000_000;
    let mut windows = policy.rules.iter().filter_map(|rule| match &rule.kind {
        Kind::Quota { window, .. } | Kind::Distinct { window, .. } => Some(window.as_nanos()),
        _ => None,
    });
    let common = windows.try_fold(DAY, |all, window| {
        let all = all / gcd(all, window.max(1)) * window.max(1);
        (all <= CENTURY).then_some(all)
    });
    let common = common.unwrap_or(DAY);
    let at = HEAD_START.div_ceil(common) * common;
    Timestamp::from_nanos(u64::try_from(at).unwrap_or(u64::MAX / 2))
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}
