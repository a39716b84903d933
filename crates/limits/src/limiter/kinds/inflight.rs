//! `type: inflight`: a count of requests under way.

use super::form::{Allowance, Counts, Form, LimitKind, Part, Value, compared};
use crate::limiter::kind::{Scope, Sketch};
use crate::limiter::needs::{Needs, Owed};
use crate::units::Bytes;

/// At most `max` requests at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Inflight {
    /// How many, at least one.
    pub max: u32,
    /// How many connections that were switched to another protocol at once; these do not count in `max`.
    pub upgraded: u32,
    /// What is counted together.
    pub scope: Scope,
}

impl Inflight {
    /// The kind before it has numbers.
    pub const FORM: Form = Form {
        synonyms: &["concurrency", "connections"],
        words: &["key", "missing", "max", "upgraded", "tiers"],
        tier_words: &["max"],
        gives_back: true,
        // 65,536 columns of eight rows: 10⁻¹⁴ for a thousand busy keys
        memory: Bytes(2 << 20),
        no_delay: Some("when a place becomes free is up to others"),
        ..Form::new("inflight")
    };
}

impl Inflight {
    /// Tells whether it counts by key, in a sketch.
    pub fn is_keyed(&self) -> bool {
        matches!(self.scope, Scope::Key { .. })
    }
}

impl LimitKind for Inflight {
    fn form(&self) -> &'static Form {
        &Inflight::FORM
    }

    fn sketch(&self) -> Option<(Sketch, Bytes)> {
        if let Scope::Key { memory } = self.scope { Some((Sketch::PLACES, memory)) } else { None }
    }

    fn memory_mut(&mut self) -> Option<&mut Bytes> {
        if let Scope::Key { memory } = &mut self.scope { Some(memory) } else { None }
    }

    fn settings(&self) -> Vec<(&'static str, Value)> {
        vec![("max", Value::Number(self.max)), ("upgraded", Value::Number(self.upgraded))]
    }

    fn needs(&self, owed: Owed) -> Needs {
        Needs { units: owed.parts().0, ..Needs::default() }
    }

    fn standing(&self) -> Vec<Part> {
        vec![Part::Position(self.max), Part::Text(" of "), Part::Amount(self.max), Part::Text(" at once")]
    }

    fn summary(&self) -> String {
        "{max} at once".to_owned()
    }

    fn is_no_looser(&self, other: &dyn LimitKind) -> Option<bool> {
        compared(other, |other: &Inflight| self.max <= other.max && self.scope == other.scope)
    }

    fn most(&self) -> Option<(&'static str, u32)> {
        Some(("max", self.max))
    }

    /// How full the gate or an origin is, is not the client's business.
    fn allowance(&self) -> Option<Allowance> {
        self.is_keyed().then_some(Allowance { quota: u64::from(self.max), counts: Counts::Concurrent, window: None })
    }

    fn scope(&self) -> Option<Scope> {
        Some(self.scope)
    }
}
