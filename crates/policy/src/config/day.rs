//! A day of the calendar: `2026-11-21`.

use std::fmt;

use schemars::{Schema, json_schema};

use super::codes::Code;
use super::read::{Scalar, Wrong};

/// A day in UTC, as days since 1970-01-01. Written Gregorian, years 1970 to 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(pub i64);

impl Day {
    /// The day of this text; `None` when it is none.
    pub fn parse(date: &str) -> Option<Day> {
        let [year, month, day] = date.split('-').collect::<Vec<_>>().try_into().ok()?;
        let number = |text: &str, length: usize| {
            (text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit()))
                .then(|| text.parse::<i64>().ok())?
        };
        let (year, month, day) = (number(year, 4)?, number(month, 2)?, number(day, 2)?);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let length = usize::try_from(month - 1).ok().and_then(|month| lengths.get(month))?;
        if year < 1970 || !(1..=*length).contains(&day) {
            return None;
        }
        let before: i64 = lengths.iter().take(usize::try_from(month - 1).ok()?).sum();
        // leap days before this year's first of January
        let leaps = |year: i64| year / 4 - year / 100 + year / 400;
        Some(Day((year - 1970) * 365 + leaps(year - 1) - leaps(1969) + before + day - 1))
    }
}

impl fmt::Display for Day {
    /// `2026-11-21`. Source: Hinnant, *chrono-compatible low-level date algorithms* (`civil_from_days`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.0.saturating_add(719_468);
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        write!(f, "{year:04}-{month:02}-{day:02}")
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
        for wrong in ["2026-13-01", "2026-02-29", "2026-1-1", "1969-12-31", "today", "2026-00-10", "2026-01-00", ""] {
            assert_eq!(Day::parse(wrong), None, "{wrong}");
        }
    }
}
