//! Numbers as people read them.

use std::time::Duration;

use crate::units::Period;

/// `1st`, `22nd`, `113th`.
pub fn ordinal(number: u64) -> String {
    let ending = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// A wait, rounded up so that it is never too short: `11.4 s`, `250 ms`, `3 h 20 min`.
pub fn wait(nanos: u64) -> String {
    const MILLI: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MILLI;
    let of = |large: u64, small: u64, [one, other]: [&str; 2]| {
        let rest = nanos.div_ceil(small) % (large / small);
        let whole = nanos.div_ceil(small) / (large / small);
        if rest == 0 { format!("{whole} {one}") } else { format!("{whole} {one} {rest} {other}") }
    };
    match nanos {
        0..MILLI => format!("{} µs", nanos.div_ceil(1_000)),
        MILLI..SECOND => format!("{} ms", nanos.div_ceil(MILLI)),
        _ if nanos < 60 * SECOND => {
            let tenths = nanos.div_ceil(SECOND / 10);
            if tenths.is_multiple_of(10) {
                format!("{} s", tenths / 10)
            } else {
                format!("{}.{} s", tenths / 10, tenths % 10)
            }
        }
        _ if nanos < 3_600 * SECOND => of(60 * SECOND, SECOND, ["min", "s"]),
        _ if nanos < 86_400 * SECOND => of(3_600 * SECOND, 60 * SECOND, ["h", "min"]),
        _ => of(86_400 * SECOND, 3_600 * SECOND, ["d", "h"]),
    }
}

/// A quota's window after "per": `second`, `10m`, `month in Europe/Berlin`.
pub fn windows(window: &Period) -> String {
    match window {
        Period::Length(length) => period(*length),
        Period::Calendar(calendar) => calendar.to_string(),
    }
}

/// A period after "per": `second`, `10m`.
pub fn period(span: Duration) -> String {
    match span.as_millis() {
        1_000 => "second".to_owned(),
        60_000 => "minute".to_owned(),
        3_600_000 => "hour".to_owned(),
        86_400_000 => "day".to_owned(),
        _ => crate::config::duration_text(span),
    }
}

/// A frequency with as many digits as it deserves: `0.25/s`, `41/s`.
pub fn frequency(per_second: f32) -> String {
    match per_second {
        _ if !per_second.is_finite() => "any rate".to_owned(),
        _ if per_second < 10.0 => format!("{per_second:.2}/s"),
        _ => format!("{per_second:.0}/s"),
    }
}

/// A probability: `1.2e-9`, and `0` where there is none.
pub fn probability(chance: f64) -> String {
    if chance > 0.0 { format!("{chance:.1e}") } else { "0".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_say_them() {
        let ordinals = [1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111, 113].map(ordinal);
        assert_eq!(ordinals.join(" "), "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 101st 111th 113th");
        let seconds = |seconds: f64| wait((seconds * 1e9) as u64);
        assert_eq!(seconds(11.4), "11.4 s");
        assert_eq!(seconds(11.31), "11.4 s");
        assert_eq!(seconds(12.0), "12 s");
        assert_eq!(seconds(0.25), "250 ms");
        assert_eq!(seconds(60.0), "1 min");
        assert_eq!(seconds(61.2), "1 min 2 s");
        assert_eq!(seconds(7_261.0), "2 h 2 min");
        assert_eq!(seconds(86_400.0), "1 d");
        assert_eq!(wait(59_999_999_999), "60 s");
        assert_eq!(wait(1), "1 µs");
        assert_eq!(period(Duration::from_secs(60)), "minute");
        assert_eq!(period(Duration::from_secs(600)), "10m");
        assert_eq!(frequency(0.25), "0.25/s");
        assert_eq!(frequency(41.4), "41/s");
    }
}
