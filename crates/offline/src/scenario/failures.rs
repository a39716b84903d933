//! The account of a request that differs: its place in the case, and the explanation of its decision.

use std::time::Duration;

use http::{HeaderMap, StatusCode};

use super::seen::Seen;
use super::text;
use crate::answer::Told;
use crate::config::case::Range;
use crate::engine::{Evaluation, Verdict};
use crate::explain::{Answered, Explanation};

/// The account of a request; no line break at its end.
pub fn of(seen: &Seen<'_>) -> String {
    let place = match (seen.of, seen.steps) {
        (1, 1) => String::new(),
        (of, 1) => format!(" ({} of {of})", seen.nth + 1),
        (of, _) => format!(" ({} of {of} of `send` {})", seen.nth + 1, seen.step + 1),
    };
    let answered = match seen.fault {
        Some(fault) => format!("answered {} ({})", seen.status, fault.word()),
        None => format!("answered {}", seen.status),
    };
    let after = seen.delay().map(|delay| format!("after {}, ", span(delay))).unwrap_or_default();
    let line = format!("at {}: {}{place}: {after}{answered}", span(seen.at), seen.messages.line(seen.nth));
    match seen.evaluation.and_then(|evaluation| explained(seen, evaluation)) {
        Some(explanation) => format!("{line}\n{}", explanation.to_text().trim_end()),
        None => format!("{line}\nthe request could not be understood, and no limit was asked"),
    }
}

fn explained(seen: &Seen<'_>, evaluation: &Evaluation) -> Option<Explanation> {
    let (policy, decision) = (seen.policy(), &evaluation.decision);
    let status = StatusCode::from_u16(seen.status).unwrap_or_default();
    // beside what the origin says after the operator's edits; our own answers say nothing first
    let passed = decision.verdict == Verdict::Admitted && seen.fault.is_none();
    let route = decision.route.and_then(|route| policy.routes.route(route));
    let now = seen.answered.nanos();
    let beside = route.filter(|_| passed).map_or_else(HeaderMap::new, |route| {
        text::fields(seen.messages.reply(), status, (decision, route), None, &HeaderMap::new(), policy, now)
    });
    let Told { retry_after, lines } = Told::of(decision, policy, (status, &beside), now);
    let answered =
        Answered { status: (decision.verdict != Verdict::Admitted).then_some(seen.status), retry_after, sent: lines };
    let head = seen.messages.head(seen.nth);
    let request = seen.messages.request(seen.nth, &head)?;
    Some(Explanation::of_request(seen.engine, evaluation, &request, answered, seen.book))
}

/// A time for people, to the millisecond: `1h30m`, `11.4s`, `0s`.
pub fn span(span: Duration) -> String {
    let millis = span.as_nanos().div_ceil(1_000_000);
    let (minutes, rest) = (millis / 60_000, millis % 60_000);
    let (hours, minutes) = (minutes / 60, minutes % 60);
    let mut text = String::new();
    if hours > 0 {
        text.push_str(&format!("{hours}h"));
    }
    if minutes > 0 {
        text.push_str(&format!("{minutes}m"));
    }
    if rest > 0 || text.is_empty() {
        let decimals = format!("{:03}", rest % 1_000);
        let decimals = decimals.trim_end_matches('0');
        let point = if decimals.is_empty() { "" } else { "." };
        text.push_str(&format!("{}{point}{decimals}s", rest / 1_000));
    }
    text
}

/// A range of times for people.
pub fn spans(range: Range<Duration>) -> String {
    crate::config::case::written(range, span)
}

/// A range of numbers for people.
pub fn numbers(range: Range<u64>) -> String {
    crate::config::case::written(range, |number: u64| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_at_a_glance() {
        for (nanos, shown) in [
            (0, "0s"),
            (1, "0.001s"),
            (11_400_000_000, "11.4s"),
            (60_000_000_000, "1m"),
            (5_400_000_000_000, "1h30m"),
            (86_400_500_000_000, "24h0.5s"),
        ] {
            assert_eq!(span(Duration::from_nanos(nanos)), shown);
        }
    }
}
