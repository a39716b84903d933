//! `type: inflight`: a count of requests under way.

use super::form::{Allowance, Counts, Form, FromWords, LimitKind, Part, compared};
use super::words::{Takes, Value, Word, Words};
use super::{Kind, MAX as SHARED_MAX};
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

/// Counts in 32 bits, with none to spare.
const MAX: Word = Word { takes: Takes::Number(1..=u32::MAX), ..SHARED_MAX };

const UPGRADED: Word = Word::new(
    "upgraded",
    Takes::Number(0..=u32::MAX),
    "How many connections that were switched to another protocol (WebSocket) at once; these do not count in `max`. Default: `max`. For \
     `inflight`.",
);

impl Inflight {
    /// The kind before it has numbers.
    pub const FORM: Form = Form {
        synonyms: &["concurrency", "connections"],
        promise: "at most `max` at once.",
        words: &[&MAX, &UPGRADED],
        tier_words: &[&MAX],
        common: &["key", "missing", "tiers"],
        gives_back: true,
        warns_of_small_sketch: false,
        // 65,536 columns of eight rows: 10⁻¹⁴ for a thousand busy keys
        memory: Bytes(2 << 20),
        no_delay: Some("when a place becomes free is up to others"),
        ..Form::new::<Inflight>("inflight")
    };
}

impl FromWords for Inflight {
    fn from_words(words: &mut Words) -> Option<Inflight> {
        words.require(&[&MAX]);
        let memory = words.sketch(Sketch::PLACES);
        let max = words.number(&MAX);
        let upgraded = words.number(&UPGRADED).or(max).unwrap_or_default();
        Some(Inflight { max: max?, upgraded, scope: words.scope.unwrap_or(Scope::Key { memory }) })
    }
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
        vec![("max", Value::Number(self.max.into())), ("upgraded", Value::Number(self.upgraded.into()))]
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

    fn tier(&self, words: &mut Words) -> Option<Kind> {
        if !self.is_keyed() {
            // reported with the words that have no place beside an exact count
            return None;
        }
        let max = words.number(&MAX)?;
        let upgraded = if words.present.contains(&"upgraded") { self.upgraded } else { max };
        Some(Inflight { max, upgraded, ..self.clone() }.into())
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
