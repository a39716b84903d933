//! `type: distinct`: a count of different values per key.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::form::{Allowance, Counts, Form, LimitKind, Part, Value, ceil_seconds, compared, max_penalty};
use crate::limiter::kind::{RefusedCount, Sketch};
use crate::limiter::needs::{Needs, Owed};
use crate::units::{Bytes, Period};

/// At most `max` different values of one thing per key and period.
#[derive(Debug, Clone, PartialEq)]
pub struct Distinct {
    /// How many different values.
    pub max: u32,
    /// In what time.
    pub window: Duration,
    /// Whether the period is aligned (`false`) or moves along.
    pub sliding: bool,
    /// Whether a refused value counts as well, which only has a meaning where the period moves along.
    pub refused: RefusedCount,
    /// Size of the set of values that were seen.
    pub memory: Bytes,
}

impl Distinct {
    /// The greatest `max`.
    pub const MOST: u32 = u32::MAX - 1;
    /// The lengths of windows and of penalties.
    pub const WINDOWS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(31 * 86_400);
    /// The longest window that slides: it is kept as a rate, whose period is a day at most.
    pub const LONGEST_SLIDING: Duration = Duration::from_secs(86_400);

    /// The kind before it has numbers.
    pub const FORM: Form = Form {
        synonyms: &["unique"],
        words: &["key", "missing", "of", "max", "window", "sliding", "max_penalty", "count", "tiers"],
        tier_words: &["max"],
        counts_refused: true,
        counts_answers: true,
        // halved between two tables
        least_memory: Bytes(16 << 10),
        ..Form::new("distinct")
    };
}

impl LimitKind for Distinct {
    fn form(&self) -> &'static Form {
        &Distinct::FORM
    }

    fn sketch(&self) -> Option<(Sketch, Bytes)> {
        Some((Sketch::QUARTER, self.memory))
    }

    fn memory_mut(&mut self) -> Option<&mut Bytes> {
        Some(&mut self.memory)
    }

    fn settings(&self) -> Vec<(&'static str, Value)> {
        let mut settings = vec![
            ("max", Value::Number(self.max)),
            ("window", Value::Duration(self.window)),
            ("sliding", Value::Flag(self.sliding)),
        ];
        settings.extend(max_penalty(self.refused));
        settings
    }

    fn needs(&self, owed: Owed) -> Needs {
        Needs { units: owed.parts().0, ..Needs::default() }
    }

    fn standing(&self) -> Vec<Part> {
        let (position, max) = (Part::Position(self.max), Part::Amount(self.max));
        let window = Part::Duration(self.window);
        vec![position, Part::Text(" of "), max, Part::Text(" values"), Part::Values, Part::Text(" in "), window]
    }

    fn summary(&self) -> String {
        "{max} of {of} per {window}".to_owned()
    }

    fn is_no_looser(&self, other: &dyn LimitKind) -> Option<bool> {
        compared(other, |other: &Distinct| self == other)
    }

    fn most(&self) -> Option<(&'static str, u32)> {
        Some(("max", self.max))
    }

    fn refused(&self) -> Option<RefusedCount> {
        Some(self.refused)
    }

    /// Repeats are free and every new value counts as one, whatever a request costs elsewhere.
    fn allowance(&self) -> Option<Allowance> {
        let window = (self.window >= Duration::from_secs(1)).then(|| ceil_seconds(self.window));
        Some(Allowance { quota: u64::from(self.max), counts: Counts::Requests, window })
    }

    fn windows(&self) -> Option<Period> {
        Some(Period::Length(self.window))
    }

    fn fixed_windows(&self) -> (Option<Duration>, bool) {
        (Some(self.window), self.sliding)
    }

    fn has_table_per_tier(&self) -> bool {
        self.sliding
    }

    /// Two fingerprints of different values are equal so often, whatever the size of the set.
    fn falsely_seen(&self) -> Option<f64> {
        Some(1.2e-7)
    }
}
