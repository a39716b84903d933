//! A day of the calendar: `2026-11-21`.

use std::fmt;

use jiff::SignedDuration;
use jiff::civil::{Date, date};
use schemars::{Schema, json_schema};

use super::codes::Code;
use super::read::{Scalar, Wrong};

const EPOCH: Date = date(1970, 1, 1);

/// Seconds of a day.
const SECONDS: i64 = 86_400;

/// A day in UTC, as days since 1970-01-01. Written Gregorian, years 1970 to 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(pub i64);

impl Day {
    /// The day of this text; `None` when it is none.
    pub fn parse(text: &str) -> Option<Day> {
        let date: Date = text.parse().ok()?;
        let day = Day(date.duration_since(EPOCH).as_secs() / SECONDS);
        // the library reads other forms too
        (day.0 >= 0 && date.to_string() == text).then_some(day)
    }
}

impl fmt::Display for Day {
    /// `2026-11-21`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = SignedDuration::from_secs(self.0.saturating_mul(SECONDS));
        write!(f, "{}", EPOCH.saturating_add(after))
    }
}

impl Scalar for Day {
    const NAME: &'static str = "date";
    const EXAMPLE: &'static str = "`2026-11-21`";
    const CODE: Code = Code::BAD_DATE;

    fn parse(text: &str) -> Result<Day, Wrong> {
        Day::parse(text).ok_or_else(|| Wrong::new("must be a day as year-month-day, such as `2026-11-21`"))
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": "^([0-9]{4}-[0-9]{2}-[0-9]{2}|\\$\\{.*)$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_count_days_and_come_back() {
        for (text, days) in [
            ("1970-01-01", 0),
            ("1970-12-31", 364),
            ("2000-03-01", 11_017),
            ("2024-02-29", 19_782),
            ("2026-11-21", 20_778),
        ] {
            assert_eq!(Day::parse(text), Some(Day(days)), "{text}");
            assert_eq!(Day(days).to_string(), text);
        }
        for wrong in [
            "2026-13-01",
            "2026-02-29",
            "2026-1-1",
            "1969-12-31",
            "today",
            "2026-00-10",
            "2026-01-00",
            "",
            "20261121",
            "2026-11-21T08:00",
        ] {
            assert_eq!(Day::parse(wrong), None, "{wrong}");
        }
    }
}
