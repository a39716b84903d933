//! `type: rate`: a token bucket per key.

use super::form::{Allowance, Counts, Form, Levels, LimitKind, NANOS, Part, Shareable, Value, compared, saturating};
use crate::limiter::kind::Sketch;
use crate::limiter::needs::{Needs, Owed};
use crate::limiter::sharing::Promise;
use crate::sketch::Bucket;
use crate::units::{self, Bytes};

/// At most `burst + rate·τ` in every interval of length τ, per key.
#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    /// How fast the budget comes back, in units of cost.
    pub rate: units::Rate,
    /// How much may be spent at once: at least the rule's cost.
    pub burst: u32,
    /// Size of the sketch, fixed for the process's life.
    pub memory: Bytes,
}

impl Rate {
    /// The kind before it has numbers.
    pub const FORM: Form = Form {
        synonyms: &["bucket", "token_bucket", "leaky_bucket", "gcra"],
        words: &["key", "missing", "rate", "burst", "cost", "cost_estimate", "cost_max", "count", "tiers"],
        tier_words: &["rate", "burst"],
        counts_answers: true,
        may_count_bytes: true,
        sharing: Shareable::Always,
        ..Form::new("rate")
    };
}

impl LimitKind for Rate {
    fn form(&self) -> &'static Form {
        &Rate::FORM
    }

    fn sketch(&self) -> Option<(Sketch, Bytes)> {
        Some((Sketch::WHOLE, self.memory))
    }

    fn memory_mut(&mut self) -> Option<&mut Bytes> {
        Some(&mut self.memory)
    }

    fn settings(&self) -> Vec<(&'static str, Value)> {
        vec![("rate", Value::Rate(self.rate)), ("burst", Value::Amount(self.burst))]
    }

    fn needs(&self, owed: Owed) -> Needs {
        let (units, events) = owed.parts();
        let rate = events.and_then(|events| units::Rate::new(events, self.rate.period()).ok());
        Needs { units, rate, ..Needs::default() }
    }

    fn standing(&self) -> Vec<Part> {
        let (position, burst) = (Part::Position(self.burst), Part::Amount(self.burst));
        // a rate and burst that say the same number
        match self.rate.events() == self.burst {
            true => {
                let window = Part::Window(units::Period::Length(self.rate.period()));
                vec![position, Part::Text(" of "), burst, Part::Text(" per "), window]
            }
            false => {
                vec![position, Part::Text(" of a burst of "), burst, Part::Text(", "), Part::Rate(self.rate)]
            }
        }
    }

    fn summary(&self) -> String {
        "{rate} burst {burst}".to_owned()
    }

    fn is_no_looser(&self, other: &dyn LimitKind) -> Option<bool> {
        compared(other, |other: &Rate| self.rate.per_second() <= other.rate.per_second() && self.burst <= other.burst)
    }

    fn at_once(&self) -> Option<u32> {
        Some(self.burst)
    }

    fn most(&self) -> Option<(&'static str, u32)> {
        Some(("burst", self.burst))
    }

    fn allowance(&self) -> Option<Allowance> {
        // from the rate as it was written, because its interval is rounded
        let span = u128::from(self.burst) * self.rate.period().as_nanos();
        let second = u128::from(self.rate.events()) * NANOS;
        let window = (span >= second).then(|| saturating(span.div_ceil(second)));
        Some(Allowance { quota: u64::from(self.burst), counts: Counts::Cost, window })
    }

    fn store_promise(&self) -> Option<Promise> {
        Some(Promise::Rate { rate: self.rate, burst: self.burst })
    }

    fn unit_shape(&self) -> Option<u64> {
        Some(1)
    }

    fn refill(&self) -> Option<units::Rate> {
        Some(self.rate)
    }

    fn bucket(&self) -> Option<(units::Rate, u32)> {
        Some((self.rate, self.burst))
    }

    fn levels(&self, _zero: u64) -> Option<Box<dyn Levels>> {
        Some(Box::new(Bucket::new(self.rate, self.burst).ok()?))
    }

    fn has_table_per_tier(&self) -> bool {
        true
    }
}
