//! Round moments along a time axis, in UTC.

use crate::replay::report::instant;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Distances between two labels: what a clock or a calendar shows.
const STEPS: [u64; 20] = [
    1,
    5,
    15,
    30,
    MINUTE,
    5 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    7 * DAY,
    14 * DAY,
    28 * DAY,
    84 * DAY,
    364 * DAY,
    10 * 364 * DAY,
];

/// The months as they are told, by number.
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// At most `most` labels from one second since 1970 to another, each with its second: `10:15`, `10:15:30`; midnight as `21 Nov`, and from
/// a year's length on `21 Nov 2026`.
pub fn labels(from: u64, until: u64, most: u64) -> Vec<(u64, String)> {
    let length = until.saturating_sub(from);
    let step = STEPS.into_iter().find(|step| length / step < most).unwrap_or(length.max(1));
    let first = from.div_ceil(step).saturating_mul(step);
    let seconds =
        (0..most).map(|index| first.saturating_add(index.saturating_mul(step))).take_while(|second| *second <= until);
    seconds.map(|second| (second, label(second, step, length))).collect()
}

fn label(second: u64, step: u64, length: u64) -> String {
    // such as 2026-11-21T08:35:00Z
    let text = instant(second);
    let part = |from: usize, until: usize| text.get(from..until).unwrap_or_default();
    if second.is_multiple_of(DAY) {
        let month = part(5, 7).parse::<usize>().ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
        let (day, month) = (part(8, 10).trim_start_matches('0'), month.copied().unwrap_or_default());
        return if length >= 364 * DAY { format!("{day} {month} {}", part(0, 4)) } else { format!("{day} {month}") };
    }
    part(11, if step < MINUTE { 19 } else { 16 }).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(from: u64, length: u64) -> Vec<String> {
        labels(from, from + length, 8).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn labels_are_moments_that_a_clock_shows() {
        // 2026-11-21T08:35:53Z
        let from = 1_795_250_153;
        assert_eq!(told(from, 30), ["08:35:55", "08:36:00", "08:36:05", "08:36:10", "08:36:15", "08:36:20"]);
        assert_eq!(told(from, 25 * MINUTE), ["08:40", "08:45", "08:50", "08:55", "09:00"]);
        assert_eq!(told(from, 20 * HOUR), ["09:00", "12:00", "15:00", "18:00", "21:00", "22 Nov", "03:00"]);
        assert_eq!(told(from, 3 * DAY), ["12:00", "22 Nov", "12:00", "23 Nov", "12:00", "24 Nov"]);
        assert_eq!(told(from, 400 * DAY), ["14 Jan 2027", "8 Apr 2027", "1 Jul 2027", "23 Sep 2027", "16 Dec 2027"]);
        assert_eq!(told(from, 0), ["08:35:53"]);
    }

    #[test]
    fn there_are_never_more_than_asked_for() {
        for length in [1, 59, 3_599, 86_399, 10_000_000, 4_000_000_000, u64::MAX / 2] {
            for from in [0, 1, 1_795_250_153] {
                assert!(labels(from, from + length, 8).len() <= 8, "{from} + {length}");
            }
        }
    }
}
