//! When a case begins, and how long it is.

use std::time::Duration;

use crate::config::case::Case;
use crate::gate::HEAD_START;
use crate::policy::Policy;
use crate::units::{Period, Timestamp};

/// From the beginning of a case to its last request.
pub fn length(case: &Case) -> Duration {
    let last = |step: &crate::config::case::Step| {
        step.begins.saturating_add(step.every.saturating_mul(step.count.saturating_sub(1)))
    };
    case.steps.iter().map(last).max().unwrap_or_default()
}

/// When the case begins: where a window of every quota does, if there is such a moment within a century, and at midnight
/// otherwise. Of windows of the calendar it is the beginning of the longest. Far enough from zero that a level of zero means "long
/// ago".
pub fn beginning(policy: &Policy) -> Timestamp {
    let windows = || policy.rules.iter().filter_map(|rule| rule.kind.windows());
    let calendars = windows().filter_map(|window| match window {
        Period::Calendar(calendar) => Some(calendar),
        Period::Length(_) => None,
    });
    if let Some(longest) = calendars.max_by_key(|calendar| calendar.unit.nominal()) {
        let from = u32::try_from(HEAD_START.as_secs()).unwrap_or(u32::MAX);
        let begins = longest.beginnings(from, from).last().copied().unwrap_or(from);
        return Timestamp::from_nanos(u64::from(begins) * 1_000_000_000);
    }
    const CENTURY: u128 = 100 * 366 * 86_400 * 1_000_000_000;
    const DAY: u128 = 86_400 * 1_000_000_000;
    let mut lengths = windows().map(|window| window.nominal().as_nanos());
    let common = lengths.try_fold(DAY, |all, window| {
        let all = all / gcd(all, window.max(1)) * window.max(1);
        (all <= CENTURY).then_some(all)
    });
    let common = common.unwrap_or(DAY);
    let at = HEAD_START.as_nanos().div_ceil(common) * common;
    Timestamp::from_nanos(u64::try_from(at).unwrap_or(u64::MAX / 2))
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}
