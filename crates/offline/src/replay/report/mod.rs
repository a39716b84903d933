//! A replay's outcome as text for people, as JSON and as CSV.

mod json;
mod text;

use std::fmt::Write;

use jiff::Timestamp;

use super::outcome::Outcome;

pub use json::json;
pub use text::{Head, text};

/// Every minute and limit: `minute,limit,judged,limited`, the minute as RFC 3339 in UTC.
pub fn csv(outcome: &Outcome) -> String {
    let mut csv = String::from("minute,limit,judged,limited\n");
    for minute in &outcome.minutes {
        for (limit, (judged, limited)) in outcome.limits.iter().zip(&minute.limits) {
            if limit.missing.is_none() && *judged > 0 {
                let name = if limit.name.contains([',', '"']) {
                    format!("\"{}\"", limit.name.replace('"', "\"\""))
                } else {
                    limit.name.clone()
                };
                let _ = writeln!(csv, "{},{name},{judged},{limited}", instant(minute.minute * 60));
            }
        }
    }
    csv
}

/// So many seconds after 1970 as `2026-11-21T08:35:00Z`.
pub fn instant(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.unwrap_or(Timestamp::MAX).to_string()
}
