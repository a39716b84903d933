//! Times as operators write them: an instant, a day, or so long before the end of the logs.

use std::time::Duration;

use super::stop::Stop;
use crate::config;
use crate::replay::stamp;

const DAY: u64 = 86_400 * stamp::SECOND;

/// A time in its own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Time {
    At(u64),
    BeforeEnd(u64),
}

/// `10s`, `2h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    config::parse_duration(text)
}

/// From when on and until when, in nanoseconds since 1970. `end` finds the end of the logs, which takes a pass over them and
/// is asked at most once.
pub fn range(
    since: Option<&str>,
    until: Option<&str>,
    now: u64,
    end: impl FnOnce() -> Result<u64, Stop>,
) -> Result<(u64, u64), Stop> {
    let read = |text: Option<&str>, last: bool| text.map(|text| time(text, now, last)).transpose();
    let (since, until) = (read(since, false)?, read(until, true)?);
    let from_end = [since, until].iter().flatten().any(|time| matches!(time, Time::BeforeEnd(_)));
    let end = if from_end { end()? } else { 0 };
    let at = |time: Time| match time {
        Time::At(nanos) => nanos,
        Time::BeforeEnd(nanos) => end.saturating_sub(nanos),
    };
    Ok((since.map_or(0, at), until.map_or(u64::MAX, at)))
}

/// `yesterday` begins and ends at midnight UTC, like every day.
fn time(text: &str, now: u64, last: bool) -> Result<Time, Stop> {
    let today = now / DAY * DAY;
    let day = |begins: u64| Time::At(if last { begins + DAY } else { begins });
    match text {
        "today" => return Ok(day(today)),
        "yesterday" => return Ok(day(today.saturating_sub(DAY))),
        _ => {}
    }
    if let Some(begins) = stamp::date(text.as_bytes()) {
        return Ok(day(begins));
    }
    if let Some(instant) = stamp::rfc3339(text.as_bytes()) {
        return Ok(Time::At(instant));
    }
    match duration(text) {
        Ok(span) => Ok(Time::BeforeEnd(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))),
        Err(_) => Err(Stop(
            2,
            format!(
                "found time {text:?}; allowed 2026-11-21T08:00:00Z, 2026-11-21, today, yesterday, or 2h before the end"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_696_928_816 * stamp::SECOND;

    fn found(since: Option<&str>, until: Option<&str>) -> Option<(u64, u64)> {
        range(since, until, NOW, || Ok(NOW - DAY)).ok()
    }

    #[test]
    fn times_are_instants_days_or_so_long_before_the_end() {
        let midnight = 1_696_896_000 * stamp::SECOND;
        assert_eq!(found(None, None), Some((0, u64::MAX)));
        assert_eq!(found(Some("yesterday"), Some("yesterday")), Some((midnight - DAY, midnight)));
        assert_eq!(found(Some("2023-10-10"), Some("2023-10-10T09:00:00Z")), Some((midnight, midnight + DAY / 24 * 9)));
        assert_eq!(found(Some("2h"), None), Some((NOW - DAY - DAY / 12, u64::MAX)));
        assert_eq!(found(Some("soon"), None), None);
    }
}
