//! How one decision came about, in words: what a failing test shows of the first request that differs.

use std::time::Duration;

use super::tally::{Seen, names};
use crate::config::case::Range;
use crate::engine::{Outcome, Reading, Verdict};
use crate::policy::{Mode, Policy};
use crate::sketch::NextUnit;

/// The account of a request: one line for each of what it was, what became of it, its client, its route and its limits.
pub fn of(seen: &Seen<'_>) -> String {
    let place = match (seen.of, seen.steps) {
        (1, 1) => String::new(),
        (of, 1) => format!(" ({} of {of})", seen.nth + 1),
        (of, _) => format!(" ({} of {of} of `send` {})", seen.nth + 1, seen.step + 1),
    };
    let mut lines = vec![format!("at {}: {}{place}", span(seen.at), seen.messages.line(seen.nth))];
    let Some(decision) = seen.decision else {
        lines.push(format!("answered {}: the request could not be understood", seen.status));
        return lines.join("\n");
    };
    let by = seen.limited_by();
    lines.push(match (decision.verdict, seen.fault) {
        (Verdict::Admitted, None) => match seen.delay() {
            Some(delay) => format!("allowed after {}, answered {}", span(delay), seen.status),
            None => format!("allowed, answered {}", seen.status),
        },
        (_, Some(fault)) => format!("answered {}: {}", seen.status, fault.word()),
        (Verdict::Refused(refusal), None) if by.is_empty() => format!("refused {}: {}", seen.status, refusal.word()),
        (Verdict::Refused(refusal), None) => {
            let wait = seen.retry_after.map(|wait| format!(", Retry-After: {}", wait.as_secs())).unwrap_or_default();
            format!("refused {} by {} ({}){wait}", seen.status, names(&by, seen.policy), refusal.word())
        }
    });
    lines.push(match &decision.client {
        None => "client: not to be found, as the forwarding header cannot be read".to_owned(),
        Some(client) => {
            let hops = match client.hops {
                0 if client.ignored_header => ", the peer; its forwarding header was ignored, as it is not trusted",
                0 => ", the peer",
                _ => ", from the forwarding header",
            };
            format!("client: {}, counted as {}{hops}", client.address, client.network)
        }
    });
    let route = decision.route.and_then(|route| seen.policy.routes.route(route));
    lines.push(route.map_or_else(|| "route: none".to_owned(), |route| format!("route: {}", route.name)));
    lines.extend(decision.readings.iter().map(|reading| format!("limit {}", self::reading(reading, seen.policy))));
    lines.join("\n")
}

/// `login: limited, 0 left, fits again in 11.4s`.
fn reading(reading: &Reading, policy: &Policy) -> String {
    let name = policy.rules.get(reading.rule).map_or("?", |rule| rule.name.as_str());
    let mode = if reading.mode == Mode::Shadow { " (shadow)" } else { "" };
    let tier = if reading.tier > 0 { format!(" (tier {})", reading.tier) } else { String::new() };
    let mut text = format!("{name}{mode}{tier}: {}", reading.outcome.word());
    if reading.outcome == Outcome::Exempt {
        return text;
    }
    text.push_str(&format!(", {} left", reading.remaining));
    match (reading.outcome, reading.retry_nanos, reading.next_unit) {
        (Outcome::Refused | Outcome::Delayed, Some(wait), _) => {
            text.push_str(&format!(", fits in {}", span(Duration::from_nanos(wait))));
        }
        (Outcome::Refused, None, _) => text.push_str(", no wait helps"),
        (_, _, NextUnit::Known(Some(next))) if next > 0 => {
            text.push_str(&format!(", more in {}", span(Duration::from_nanos(next))));
        }
        _ => {}
    }
    text
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
