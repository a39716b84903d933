//! Days, weeks and months of a time zone.
//!
//! The rules of all zones are compiled in (the IANA database, by `jiff`), so no file is read and a gate gives the same answer on every
//! machine. Rules that change after the build need a new build.

use std::fmt;
use std::time::Duration;

pub use jiff::civil::Weekday;
use jiff::civil::{Date, Time};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{Span, Timestamp};

use super::OutOfRange;

/// A time zone of the IANA database.
#[derive(Clone, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// The zone of this name, in any case.
    ///
    /// # Errors
    /// The database has no such name.
    pub fn named(name: &str) -> Result<Zone, OutOfRange> {
        const ALLOWED: OutOfRange = OutOfRange { allowed: "a name of the IANA time zone database" };
        let zone = TimeZoneDatabase::bundled().get(name).map_err(|_| ALLOWED)?;
        // a zone without a name stands for "unknown"
        if zone.is_unknown() || zone.iana_name().is_none() { Err(ALLOWED) } else { Ok(Zone(zone)) }
    }

    /// Coordinated universal time.
    pub fn utc() -> Zone {
        Zone(TimeZone::UTC)
    }

    /// The name, as the database spells it.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// All names of the database, for finding one that is near to a misspelled one.
    pub fn names() -> impl Iterator<Item = String> {
        TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect::<Vec<_>>().into_iter()
    }

    /// The first instant of a day, in seconds since 1970. Where clocks skip midnight that is when they skip it; where midnight comes
    /// twice it is the first.
    fn begins(&self, day: Date) -> Option<i64> {
        let midnight = self.0.to_ambiguous_timestamp(day.to_datetime(Time::midnight()));
        let instant = match midnight.offset() {
            AmbiguousOffset::Gap { .. } => {
                // an hour and more after the clocks were set forward
                let after = midnight.later().ok()?;
                let next = after.checked_add(Span::new().seconds(1)).ok()?;
                self.0.preceding(next).next()?.timestamp()
            }
            _ => midnight.compatible().ok()?,
        };
        Some(instant.as_second())
    }

    /// The date at an instant, in seconds since 1970.
    fn date(&self, second: i64) -> Option<Date> {
        Some(self.0.to_datetime(Timestamp::from_second(second).ok()?).date())
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which stretch of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CalendarUnit {
    /// From midnight to midnight.
    Day,
    /// Seven days, which begin with this one.
    Week {
        /// The first day.
        starts: Weekday,
    },
    /// From the first of the month.
    Month,
}

impl CalendarUnit {
    /// The word in `per:`.
    pub fn word(self) -> &'static str {
        match self {
            CalendarUnit::Day => "day",
            CalendarUnit::Week { .. } => "week",
            CalendarUnit::Month => "month",
        }
    }

    /// The length without changes of the clock, of a month the longest.
    pub fn nominal(self) -> Duration {
        let days = match self {
            CalendarUnit::Day => 1,
            CalendarUnit::Week { .. } => 7,
            CalendarUnit::Month => 31,
        };
        Duration::from_secs(days * 86_400)
    }

    /// The first day of the one that `day` lies in.
    fn first(self, day: Date) -> Option<Date> {
        match self {
            CalendarUnit::Day => Some(day),
            CalendarUnit::Week { starts } => {
                let into = day.weekday().since(starts);
                day.checked_sub(Span::new().days(into)).ok()
            }
            CalendarUnit::Month => Some(day.first_of_month()),
        }
    }

    /// The first day of the one after the one that begins with `day`.
    fn next(self, day: Date) -> Option<Date> {
        let span = match self {
            CalendarUnit::Day => Span::new().days(1),
            CalendarUnit::Week { .. } => Span::new().days(7),
            CalendarUnit::Month => Span::new().months(1),
        };
        day.checked_add(span).ok()
    }
}

/// Days, weeks or months as they begin in a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    /// Which of them.
    pub unit: CalendarUnit,
    /// Where.
    pub zone: Zone,
}

impl Calendar {
    /// When they begin, in seconds since 1970, each once and in order: the one that `from` lies in, all that follow, and as the last
    /// the first that begins at `to` or later. What would begin before 1970 begins then.
    pub fn beginnings(&self, from: u32, to: u32) -> Vec<u32> {
        let mut beginnings: Vec<u32> = Vec::new();
        let mut day = self.zone.date(i64::from(from)).and_then(|day| self.unit.first(day));
        while let Some(first) = day {
            let Some(begins) = self.zone.begins(first) else { break };
            let begins = u32::try_from(begins.max(0)).unwrap_or(u32::MAX);
            // a day that a zone leaves out begins when the next does
            if beginnings.last().is_none_or(|last| *last < begins) {
                beginnings.push(begins);
            }
            if begins >= to {
                break;
            }
            day = self.unit.next(first);
        }
        beginnings
    }
}

impl fmt::Display for Calendar {
    /// `month in Europe/Berlin`, `week from Sunday in UTC`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.unit.word())?;
        if let CalendarUnit::Week { starts } = self.unit {
            write!(f, " from {starts:?}")?;
        }
        write!(f, " in {}", self.zone.name())
    }
}

/// What a window is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Period {
    /// Always so long.
    Length(Duration),
    /// As long as the calendar says.
    Calendar(Calendar),
}

impl Period {
    /// The length; of one of the calendar that without changes of the clock, of a month the longest.
    pub fn nominal(&self) -> Duration {
        match self {
            Period::Length(length) => *length,
            Period::Calendar(calendar) => calendar.unit.nominal(),
        }
    }
}

impl From<Duration> for Period {
    fn from(length: Duration) -> Period {
        Period::Length(length)
    }
}
