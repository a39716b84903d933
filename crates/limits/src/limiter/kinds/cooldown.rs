//! `type: cooldown`: at most one request per key in every interval of `every`.
//!
//! A token bucket of one unit, in the table that a rate has.

use std::time::Duration;

use super::form::{Allowance, Bound, Counts, Form, FromWords, Levels, LimitKind, Part, compared};
use super::rate;
use super::words::{Takes, Value, Word, Words};
use crate::limiter::kind::Sketch;
use crate::limiter::needs::{Needs, Owed};
use crate::limiter::{Spec, State};
use crate::sketch::{Bucket, Seed};
use crate::units::time::ceil_seconds;
use crate::units::{Bytes, OutOfRange, Rate};

/// One request per key, then none for a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Cooldown {
    /// How long none is admitted after one that was.
    pub every: Duration,
    /// Size of the sketch.
    pub memory: Bytes,
}

const EVERY: Word = Word::new(
    "every",
    Takes::Duration(Duration::from_secs(1)..=Duration::from_secs(86_400)),
    "How long a key waits between two requests: {range}. For `cooldown`; must be given.",
);

impl Cooldown {
    /// The kind before it has numbers.
    pub const FORM: Form = Form {
        synonyms: &["debounce"],
        words: &[&EVERY],
        common: &["key", "missing"],
        ..Form::new::<Cooldown>(
            "cooldown",
            "one request in any time `every`, per key.",
            "{ type: cooldown, every: 2s }",
        )
    };

    fn rate(&self) -> Option<Rate> {
        Rate::new(1, self.every).ok()
    }
}

impl FromWords for Cooldown {
    fn from_words(words: &mut Words) -> Option<Cooldown> {
        words.require(&[&EVERY]);
        let memory = words.sketch(Sketch::WHOLE);
        Some(Cooldown { every: words.duration(&EVERY)?, memory })
    }
}

impl LimitKind for Cooldown {
    fn form(&self) -> &'static Form {
        &Cooldown::FORM
    }

    fn state(&self, spec: &Spec<'_>, seed: &Seed) -> Result<Box<dyn State>, OutOfRange> {
        rate::state(spec, seed)
    }

    fn bound(&self) -> Option<Bound> {
        Some(Bound::Interval { burst: 1.0, per_second: 1.0 / self.every.as_secs_f64() })
    }

    fn sketch(&self) -> Option<(Sketch, Bytes)> {
        Some((Sketch::WHOLE, self.memory))
    }

    fn memory_mut(&mut self) -> Option<&mut Bytes> {
        Some(&mut self.memory)
    }

    fn settings(&self) -> Vec<(&'static str, Value)> {
        vec![("every", Value::Duration(self.every))]
    }

    fn needs(&self, _: Owed) -> Needs {
        Needs::default()
    }

    fn standing(&self) -> Vec<Part> {
        vec![Part::Text("another within "), Part::Duration(self.every)]
    }

    fn summary(&self) -> String {
        "one every {every}".to_owned()
    }

    fn is_no_looser(&self, other: &dyn LimitKind) -> Option<bool> {
        compared(other, |other: &Cooldown| self.every >= other.every)
    }

    fn at_once(&self) -> Option<u32> {
        Some(1)
    }

    fn allowance(&self) -> Option<Allowance> {
        let window = ceil_seconds(crate::units::time::saturating_nanos(self.every));
        Some(Allowance { quota: 1, counts: Counts::Requests, window: Some(window) })
    }

    fn bucket(&self) -> Option<(Rate, u32)> {
        Some((self.rate()?, 1))
    }

    fn refill(&self) -> Option<Rate> {
        self.rate()
    }

    fn levels(&self, _zero: u64) -> Option<Box<dyn Levels>> {
        Some(Box::new(Bucket::new(self.rate()?, 1).ok()?))
    }
}
