//! `type: quota`: a count per key and window of the clock.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::form::{
    Allowance, Counts, Form, Levels, LimitKind, Part, Shareable, Value, calendar, ceil_seconds, compared,
};
use crate::limiter::kind::Sketch;
use crate::limiter::needs::{Needs, Owed};
use crate::limiter::sharing::Promise;
use crate::sketch::{Window, Windows};
use crate::units::dice::mixed;
use crate::units::{Bytes, Period};

/// At most `max` per aligned window, per key.
#[derive(Debug, Clone, PartialEq)]
pub struct Quota {
    /// How much per window: at least the rule's cost.
    pub max: u32,
    /// What a window is. Windows of whole fractions of a day begin at midnight UTC.
    pub window: Period,
    /// Whether the window before counts in part, which smooths the boundary; not for windows of the calendar.
    pub sliding: bool,
    /// Size of the sketch.
    pub memory: Bytes,
}

impl Quota {
    /// The greatest `max`: an aligned window counts in half of a level, with one number to spare.
    pub const MOST: u32 = u32::MAX - 1;
    /// The lengths of windows. Shorter windows are a rate; longer ones outlive the process that keeps them.
    pub const WINDOWS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(31 * 86_400);

    /// The kind before it has numbers.
    pub const FORM: Form = Form {
        synonyms: &["window", "fixed_window", "sliding_window"],
        words: &[
            "key",
            "missing",
            "rate",
            "max",
            "window",
            "per",
            "time_zone",
            "week_starts",
            "sliding",
            "cost",
            "cost_estimate",
            "cost_max",
            "count",
            "tiers",
        ],
        tier_words: &["max"],
        counts_answers: true,
        sharing: Shareable::Always,
        ..Form::new("quota")
    };
}

impl LimitKind for Quota {
    fn form(&self) -> &'static Form {
        &Quota::FORM
    }

    fn sketch(&self) -> Option<(Sketch, Bytes)> {
        Some((if self.sliding { Sketch::QUARTER } else { Sketch::WHOLE }, self.memory))
    }

    fn memory_mut(&mut self) -> Option<&mut Bytes> {
        Some(&mut self.memory)
    }

    fn settings(&self) -> Vec<(&'static str, Value)> {
        let mut settings = vec![("max", Value::Number(self.max))];
        match &self.window {
            Period::Calendar(windows) => settings.extend(calendar(windows)),
            Period::Length(length) => {
                settings.extend([("window", Value::Duration(*length)), ("sliding", Value::Flag(self.sliding))]);
            }
        }
        settings
    }

    fn needs(&self, owed: Owed) -> Needs {
        Needs { units: owed.parts().0, ..Needs::default() }
    }

    fn standing(&self) -> Vec<Part> {
        let window = Part::Window(self.window.clone());
        let sliding = Part::Text(if self.sliding { ", sliding" } else { "" });
        vec![Part::Position(self.max), Part::Text(" of "), Part::Amount(self.max), Part::Text(" per "), window, sliding]
    }

    fn summary(&self) -> String {
        match &self.window {
            Period::Calendar(calendar) => format!("{{max}} per {calendar}"),
            Period::Length(_) => format!("{{max}} per {{window}}{}", if self.sliding { ", sliding" } else { "" }),
        }
    }

    fn is_no_looser(&self, other: &dyn LimitKind) -> Option<bool> {
        compared(other, |other: &Quota| {
            self.max <= other.max && self.window == other.window && self.sliding == other.sliding
        })
    }

    fn at_once(&self) -> Option<u32> {
        Some(self.max)
    }

    fn most(&self) -> Option<(&'static str, u32)> {
        Some(("max", self.max))
    }

    fn allowance(&self) -> Option<Allowance> {
        let window = Some(ceil_seconds(self.window.nominal()));
        Some(Allowance { quota: u64::from(self.max), counts: Counts::Cost, window })
    }

    fn windows(&self) -> Option<Period> {
        Some(self.window.clone())
    }

    /// Windows that do not slide can change: the open one goes on as the open one of the new windows.
    fn fixed_windows(&self) -> (Option<Duration>, bool) {
        (self.sliding.then(|| self.window.nominal()), self.sliding)
    }

    fn store_promise(&self) -> Option<Promise> {
        let max = self.max;
        match &self.window {
            _ if self.sliding => None,
            Period::Length(window) => Some(Promise::Quota { max, window: *window }),
            Period::Calendar(calendar) => {
                Some(Promise::Calendar { max, nominal: calendar.unit.nominal(), begins: [0; 4] })
            }
        }
    }

    fn unit_shape(&self) -> Option<u64> {
        match &self.window {
            _ if self.sliding => None,
            Period::Length(window) => Some(u64::try_from(window.as_millis()).unwrap_or(u64::MAX) << 8 | 2),
            // the same on every gate: a word for each calendar, as there is a number for each length
            Period::Calendar(calendar) => {
                let word = calendar.to_string();
                Some(word.bytes().fold(0, |all, byte| mixed(all ^ u64::from(byte))) << 8 | 4)
            }
        }
    }

    fn levels(&self, zero: u64) -> Option<Box<dyn Levels>> {
        if self.sliding {
            return None;
        }
        Some(Box::new(Window::on(self.max, Windows::of(&self.window, zero).ok()?).ok()?))
    }
}
