//! Numbers, times and columns as people read them, on every surface alike.
//!
//! What an operator *writes* has the spelling of the policy file instead: [`crate::config`].

use std::fmt::Write;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000 * MICRO;
const SECOND: u64 = 1_000 * MILLI;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// Shown in the place of a missing value.
pub const NOTHING: &str = "–";

/// A whole number with commas between its thousands: `49,857`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate, or another measured number, with two digits that count and all digits before the point: `0`, `0.04`, `3.1`, `24`, `4,075`.
pub fn rate(number: f64) -> String {
    match number {
        n if !n.is_finite() => NOTHING.to_owned(),
        n if n <= 0.0 => "0".to_owned(),
        n if n < 0.005 => "< 0.01".to_owned(),
        n if n < 0.995 => trimmed(&format!("{n:.2}")).to_owned(),
        n if n < 9.95 => trimmed(&format!("{n:.1}")).to_owned(),
        n => grouped(n.round() as u64),
    }
}

/// A share of 0 to 1 in percent: `0 %`, `0.8 %`, `31 %`. A part of nothing, `0.0 / 0.0`, is a dash.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        p if !p.is_finite() => NOTHING.to_owned(),
        // what is nearly all is not all
        p if p > 99.0 && p < 100.0 => format!("{:.1} %", p.min(99.9)),
        p => format!("{} %", rate(p)),
    }
}

/// A share that a sample tells, to some points: `less than 5 %`, `about 60 %`, `more than 95 %`.
pub fn estimated(share: f64) -> String {
    match share * 100.0 {
        p if p < 5.0 => "less than 5 %".to_owned(),
        p if p > 95.0 => "more than 95 %".to_owned(),
        p => format!("about {} %", (p / 5.0).round() * 5.0),
    }
}

/// A part of a whole in percent: [`percent`].
pub fn percent_of(part: u64, whole: u64) -> String {
    percent(part as f64 / whole as f64)
}

/// How many of something: `1 route`, `2 routes`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// A probability: `1.2e-9`, and `0` where there is none.
pub fn probability(chance: f64) -> String {
    if chance > 0.0 { format!("{chance:.1e}") } else { "0".to_owned() }
}

/// A time in whole seconds: `7 s`, `1 min 7 s`, `3 d 4 h`.
pub fn span(seconds: u64) -> String {
    in_units(|unit| seconds.saturating_mul(SECOND) / unit)
}

/// A measured time in seconds, rounded down: `0.8 ms`, `212 ms`, `1.9 s`.
pub fn duration(seconds: f64) -> String {
    let nanos = (seconds * SECOND as f64).round() as u64;
    in_units(|unit| nanos / unit)
}

/// A wait, rounded up so that it is never too short: `250 ms`, `11.4 s`, `3 h 20 min`.
pub fn wait(nanos: u64) -> String {
    in_units(|unit| nanos.div_ceil(unit))
}

/// A time of which `units` says how many units of so many nanoseconds it has.
fn in_units(units: impl Fn(u64) -> u64) -> String {
    let tenths = |unit: u64, name: &str| {
        let tenths = units(unit / 10);
        format!("{} {name}", trimmed(&format!("{}.{}", tenths / 10, tenths % 10)))
    };
    let two = |small: u64, per_large: u64, [large, rest]: [&str; 2]| match (
        units(small) / per_large,
        units(small) % per_large,
    ) {
        (whole, 0) => format!("{whole} {large}"),
        (whole, part) => format!("{whole} {large} {part} {rest}"),
    };
    match () {
        () if units(1) == 0 => "0 s".to_owned(),
        () if units(MICRO) == 0 => format!("{} ns", units(1)),
        () if units(MICRO) < 100 => format!("{} µs", units(MICRO)),
        () if units(MILLI / 10) < 100 => tenths(MILLI, "ms"),
        () if units(MILLI) < 1_000 => format!("{} ms", units(MILLI)),
        () if units(SECOND / 10) < 600 => tenths(SECOND, "s"),
        () if units(SECOND) < 3_600 => two(SECOND, 60, ["min", "s"]),
        () if units(MINUTE) < 1_440 => two(MINUTE, 60, ["h", "min"]),
        () => two(HOUR, 24, ["d", "h"]),
    }
}

/// A decimal number without zeros at its end.
fn trimmed(number: &str) -> &str {
    number.trim_end_matches('0').trim_end_matches('.')
}

/// How many columns of a terminal a text takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Rows as lines with aligned columns, `gap` blanks apart. The columns in `left` are flush left, the others flush right.
pub fn columns<R: AsRef<[String]>>(rows: &[R], gap: usize, left: &[usize]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows.iter().map(R::as_ref) {
        widths.resize(widths.len().max(row.len()), 0);
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = width(cell).max(*widest);
        }
    }
    let mut text = String::new();
    for row in rows.iter().map(R::as_ref) {
        let mut line = String::new();
        for (column, (cell, wide)) in row.iter().zip(&widths).enumerate() {
            let blanks = wide.saturating_sub(width(cell));
            let (before, after) = if left.contains(&column) { (0, blanks) } else { (blanks, 0) };
            let before = if column == 0 { before } else { gap + before };
            let _ = write!(line, "{:before$}{cell}{:after$}", "", "");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A text in at most so many columns; `…` stands for an end that is cut off.
pub fn shortened(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut taken = 1;
    let kept = text.chars().take_while(|letter| {
        taken += letter.width().unwrap_or(0);
        taken <= room
    });
    kept.chain(['…']).collect()
}

/// A text in lines of at most so many columns; a longer word has a line of its own.
pub fn wrapped(text: &str, room: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_ascii_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if width(line) + 1 + width(word) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sample_tells_is_no_more_exact_than_that() {
        let words = [0.0, 0.049, 0.05, 0.36, 0.94, 0.96, 1.0].map(estimated);
        let expected = [
            "less than 5 %",
            "less than 5 %",
            "about 5 %",
            "about 35 %",
            "about 95 %",
            "more than 95 %",
            "more than 95 %",
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn numbers_have_the_digits_that_count() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0.0, 0.001, 0.04, 0.26, 0.8, 3.16, 9.99, 24.4, 1_234.4].map(rate),
            ["0", "< 0.01", "0.04", "0.26", "0.8", "3.2", "10", "24", "1,234"]
        );
        assert_eq!(
            [0.0, 0.000_01, 0.008, 0.0312, 0.31, 0.9999, 1.0, f64::NAN].map(percent),
            ["0 %", "< 0.01 %", "0.8 %", "3.1 %", "31 %", "99.9 %", "100 %", "–"]
        );
        assert_eq!([count(1, "route"), count(2_000, "route")], ["1 route", "2,000 routes"]);
        assert_eq!([0.0, 1.23e-9].map(probability), ["0", "1.2e-9"]);
    }

    #[test]
    fn times_have_at_most_two_units() {
        assert_eq!(
            [0, 5, 65, 3_600, 3_700, 273_600].map(span),
            ["0 s", "5 s", "1 min 5 s", "1 h", "1 h 1 min", "3 d 4 h"]
        );
        assert_eq!(
            [0.000_05, 0.000_8, 0.001_23, 0.212, 1.94, 2.0, -1.0].map(duration),
            ["50 µs", "0.8 ms", "1.2 ms", "212 ms", "1.9 s", "2 s", "0 s"]
        );
    }

    #[test]
    fn a_wait_is_never_too_short() {
        let waits = [1, 250_000_000, 11_310_000_000, 12_000_000_000, 59_999_999_999, 61_200_000_000, 7_261_000_000_000];
        assert_eq!(waits.map(wait), ["1 µs", "250 ms", "11.4 s", "12 s", "1 min", "1 min 2 s", "2 h 2 min"]);
        assert_eq!([999_999_999, 86_400_000_000_000].map(wait), ["1 s", "1 d"]);
    }

    #[test]
    fn columns_are_as_wide_as_what_is_seen() {
        let rows = [["limit", "n"], ["日本", "12"], ["a", "7"]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(&rows, 3, &[0]), "limit    n\n日本    12\na        7\n");
        assert_eq!(columns(&rows, 2, &[0, 1]), "limit  n\n日本   12\na      7\n");
    }

    #[test]
    fn what_is_too_long_says_so() {
        assert_eq!([10, 6].map(|room| shortened("per_client", room)), ["per_client", "per_c…"]);
        assert_eq!(shortened("日本語", 5), "日本…");
        assert_eq!(wrapped("aa bb cc", 5), "aa bb\ncc");
        assert_eq!(wrapped("", 5), "");
    }
}
