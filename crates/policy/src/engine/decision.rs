//! The decision record: everything a reader (answer, log, metrics, explain, replay) may want to know of one verdict.
//!
//! Written once, by `engine`; no reader asks a limiter again.

use std::fmt;

use arrayvec::ArrayVec;
use strum::{IntoStaticStr, VariantArray};

use super::no_place::NoPlace;
use crate::client::Client;
use crate::limiter::Judgement;
use crate::policy::{Class, Mode, Route};
use crate::sketch::NextUnit;
use crate::units::Timestamp;

/// The readings of one request, in the route's order.
pub type Readings = ArrayVec<Reading, { Route::MAX_RULES }>;

/// What was decided about one request, and why.
#[must_use = "a decision that nobody reads admits by accident"]
#[derive(Debug, Clone)]
pub struct Decision {
    /// Identifies the request and this decision in answer, log and headers.
    pub id: DecisionId,
    /// The stamp that every limit was judged by.
    pub at: Timestamp,
    /// The roll of the dice that came with the request; spreads `Retry-After`.
    pub dice: u64,
    /// Who asked. `None` when the policy rejects unreadable forwarding headers and this was one.
    pub client: Option<Client>,
    /// Position of the route in the policy; `None` when no route matched.
    pub route: Option<usize>,
    /// How much it matters, as far as its route is known.
    pub class: Class,
    /// Whether it is a CORS preflight that the gate answers itself, if it is admitted.
    pub answers_preflight: bool,
    /// What each limit of the route said; empty when none was asked.
    pub readings: Readings,
    /// How long the request must wait before it goes on, in nanoseconds, because limits with `action: delay` said so. They
    /// are charged as of then, all others when it is over.
    pub delay_nanos: u64,
    /// How it stood at the door of its rate or its origin, if it got nothing there.
    pub no_place: Option<NoPlace>,
    /// The number of the ban that refused it.
    pub ban: Option<u32>,
    /// The outcome.
    pub verdict: Verdict,
}

impl Decision {
    /// The readings that forbade the request: enforced limits over their budget.
    pub fn violated(&self) -> impl Iterator<Item = &Reading> {
        self.readings.iter().filter(|reading| reading.mode == Mode::Enforce && reading.outcome == Outcome::Refused)
    }
}

/// Admitted, or refused for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Every enforced limit agreed and has been charged.
    Admitted,
    /// Nothing was charged, but for what a lost race left behind (over-counting, the safe side).
    Refused(Refusal),
}

/// Why a request was refused. `answer::refusal` gives each its status; there is no other such table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Refusal {
    /// At least one enforced limit per key is over its budget.
    Limit,
    /// A `recent_average` limit keeps the client out because it went on while it was refused.
    Penalty,
    /// The client has as many requests under way as an enforced `inflight` limit per key allows.
    Concurrency,
    /// An enforced `inflight` limit has no free place, whoever asks.
    Inflight,
    /// `fair_share` had no unit in time: its clients and networks used more than others that waited.
    FairShare,
    /// A limit's key is missing from the request and the limit says `missing: deny`.
    KeyMissing,
    /// A limit's key has more different values in the request than can be counted, or a route asks for a parameter of which the
    /// request has values that fit and values that do not.
    AmbiguousValue,
    /// A header field that a route or an enforced limit reads stands in several lines.
    RepeatedField,
    /// `Connection` nominates a header field that the policy reads.
    NominatedField,
    /// The origin's in-flight cap is reached and its queue, if any, gave no place in time.
    OriginFull,
    /// The store of an enforced shared limit says nothing, and the limit says `on_store_error: closed`.
    StoreSilent,
    /// The gate itself has more to do than it can, and this is among the least important or the heaviest.
    Overload,
    /// No route matches.
    NoRoute,
    /// The forwarding header is unreadable or too short and the policy says `reject`.
    ClientUnresolved,
    /// A header field or query parameter that an expression of a route has to read is too long for that.
    ValueTooLong,
    /// An operator banned the client, its network, or a key of the request.
    Banned,
    /// `deny` of the route or listener names the client's network.
    Denied,
}

impl Refusal {
    /// Every reason, for tables and tests.
    pub const ALL: &'static [Refusal] = Refusal::VARIANTS;

    /// The word in metrics and log.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// What one limit said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Position of the limit in the policy.
    pub rule: usize,
    /// Whether its refusal is obeyed for this key: the rule's mode, or `shadow` for the keys that `enforce: N%` leaves out.
    pub mode: Mode,
    /// Which numbers applied: 0 the limit's own, `n` those of its n-th tier.
    pub tier: u8,
    /// Of `fair_share`, when it refused: position of the node that weighed most in [`crate::policy::Rule::nodes`].
    pub node: Option<u8>,
    /// Yes, no, or not asked.
    pub outcome: Outcome,
    /// How many more requests of the same cost would be admitted at once, after this one.
    pub remaining: u32,
    /// Nanoseconds until a request of this cost fits: `Some(0)` when it fitted, `None` when no wait helps or none can be promised.
    pub retry_nanos: Option<u64>,
    /// When more budget appears; see [`Reading::reset_nanos`].
    pub next_unit: NextUnit,
    /// Of a refusal: what it rests on, in the arithmetic of the limit's kind; see [`super::Engine::shortfall`].
    pub standing: u64,
    /// Who decided.
    pub by: DecidedBy,
}

impl Reading {
    /// The reading of a limit that was not asked.
    #[inline]
    pub(super) fn unasked(rule: usize, mode: Mode) -> Reading {
        Reading {
            rule,
            mode,
            tier: 0,
            node: None,
            outcome: Outcome::Exempt,
            remaining: 0,
            retry_nanos: None,
            next_unit: NextUnit::Known(None),
            standing: 0,
            by: DecidedBy::Gate,
        }
    }

    /// Takes over what the limit said.
    pub(super) fn fill(&mut self, judgement: &Judgement) {
        self.outcome = if judgement.admitted { Outcome::Admitted } else { Outcome::Refused };
        self.remaining = judgement.remaining;
        self.retry_nanos = judgement.retry_nanos;
        self.next_unit = judgement.next_unit;
        self.standing = judgement.standing;
        self.node = None;
    }

    /// Nanoseconds until more budget appears; `None` when it is full. Of some kinds it is only found here.
    pub fn reset_nanos(&self) -> Option<u64> {
        self.next_unit.nanos()
    }
}

/// A limit's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The request fitted. It was charged only if the whole decision is [`Verdict::Admitted`].
    Admitted,
    /// It fits after a wait, which the limit's `action: delay` allows. Charged like one that fitted, as of then.
    Delayed,
    /// It did not fit and passes all the same, marked and uncharged, as the limit's `action: tag` says.
    Tagged,
    /// It did not fit.
    Refused,
    /// The limit was not asked: the request is exempt, or lacks the key and the limit says `missing: allow`, or another
    /// limit refused it before `fair_share` had to choose. Nothing was counted.
    Exempt,
}

impl Outcome {
    /// All of them, for tables and tests.
    pub const ALL: [Outcome; 5] =
        [Outcome::Admitted, Outcome::Delayed, Outcome::Tagged, Outcome::Refused, Outcome::Exempt];

    /// The word in metrics and log.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Admitted => "allowed",
            Outcome::Delayed => "delayed",
            Outcome::Tagged => "tagged",
            Outcome::Refused => "limited",
            Outcome::Exempt => "exempt",
        }
    }
}

/// Who decided about one limit of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DecidedBy {
    /// This gate alone, as for each limit without a store.
    #[default]
    Gate,
    /// This gate, by what it holds or remembers of a shared limit.
    Lease,
    /// The store, asked about this very request.
    Store,
    /// `on_store_error`, as the store did not answer.
    Fallback,
    /// This gate, by its own counts and those that other gates published.
    Estimate,
    /// This gate, by how much the client asks for, requests that `fair_share` refuses included: more than the limit admits.
    Offered,
}

impl DecidedBy {
    /// All of them, in the order of their numbers.
    pub const ALL: [DecidedBy; 6] = [
        DecidedBy::Gate,
        DecidedBy::Lease,
        DecidedBy::Store,
        DecidedBy::Fallback,
        DecidedBy::Estimate,
        DecidedBy::Offered,
    ];

    /// Returns whether the decision rests on what this gate itself counts of the key.
    pub fn counts_here(self) -> bool {
        matches!(self, DecidedBy::Gate | DecidedBy::Estimate)
    }

    /// The word in explanations.
    pub fn word(self) -> &'static str {
        match self {
            DecidedBy::Gate => "gate",
            DecidedBy::Lease => "lease",
            DecidedBy::Store => "store",
            DecidedBy::Fallback => "fallback",
            DecidedBy::Estimate => "estimate",
            DecidedBy::Offered => "offered",
        }
    }
}

/// Sixty-four bits, written as thirteen characters of Crockford's base 32, which has no letters that look alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DecisionId(pub u64);

impl DecisionId {
    const ALPHABET: &'static [u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

    /// The thirteen characters, without allocating.
    pub fn text(self) -> [u8; 13] {
        let mut text = [b'0'; 13];
        let mut rest = self.0;
        for slot in text.iter_mut().rev() {
            *slot = Self::ALPHABET.get((rest & 31) as usize).copied().unwrap_or(b'0');
            rest >>= 5;
        }
        text
    }

    /// Reads exactly what [`DecisionId::text`] writes: thirteen characters, upper case, no more than 64 bits.
    pub fn parse(text: &str) -> Option<DecisionId> {
        let value = text.bytes().try_fold(0_u64, |value, byte| {
            let digit = Self::ALPHABET.iter().position(|known| *known == byte)?;
            Some(value.checked_mul(32)? | digit as u64)
        })?;
        (text.len() == 13).then_some(DecisionId(value))
    }
}

impl DecisionId {
    /// Reads an id as people pass it on: in lower case, with dashes or spaces between, and with the letters that look like digits
    /// in their place.
    pub fn parse_lenient(text: &str) -> Option<DecisionId> {
        let plain = text.chars().filter(|letter| !matches!(letter, '-' | ' ')).map(|letter| {
            match letter.to_ascii_uppercase() {
                'O' => '0',
                'I' | 'L' => '1',
                other => other,
            }
        });
        DecisionId::parse(&plain.collect::<String>())
    }
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().iter().try_for_each(|byte| write!(f, "{}", char::from(*byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_thirteen_unmistakable_characters() {
        assert_eq!(DecisionId(0).to_string(), "0000000000000");
        assert_eq!(DecisionId(u64::MAX).to_string(), "FZZZZZZZZZZZZ");
        assert_eq!(DecisionId(32).to_string(), "0000000000010");
    }

    #[test]
    fn an_id_is_read_back_and_nothing_else_is_one() {
        for id in [0, 1, 31, 32, 0x0123_4567_89ab_cdef, u64::MAX].map(DecisionId) {
            assert_eq!(DecisionId::parse(&id.to_string()), Some(id));
        }
        assert_eq!(DecisionId::parse_lenient("7q3m-9f2k-0o1li"), DecisionId::parse("7Q3M9F2K00111"));
        assert_eq!(DecisionId::parse_lenient("7q3m-9f2k"), None);
        for text in ["", "0", "00000000000000", "G000000000000", "000000000000i", "000000000000I", "00000000000é"] {
            assert_eq!(DecisionId::parse(text), None, "{text}");
        }
    }
}
