//! Limits that several gates share: what this gate may decide by itself, what it must ask the store, and what an answer or
//! its absence means for a request.
//!
//! The engine never waits. A face takes every shared limit of a request through [`Engine::step`](super::Engine::step) after it
//! has been judged and before it is admitted: either the gate holds enough already, or the step says what to ask, or that somebody
//! else is asking. What comes back is told by [`Engine::brought`](super::Engine::brought). By then the limit is settled, and
//! [`Engine::admit`](super::Engine::admit) charges it like any other. A face without stores (replay, tests of a policy) leaves them out: one gate alone is all gates.

mod alone;
mod names;
mod refill;
mod steps;

use std::sync::Arc;

use super::decided_by::DecidedBy;
use crate::limiter::sharing::{
    Answer, Asking, Ends, Leases, Look, Promise, Question, SecretRotation, Sharing, StoreError, Watch,
};
use crate::limiter::{Judgement, Place};
use crate::policy::{Rule, Shared};
use crate::sketch::{KeyHash, NextUnit};
use crate::units::{Cost, OutOfRange, Period, Timestamp};
use names::Names;

/// A shared limit as this gate sees it.
#[derive(Debug)]
pub struct SharedLimit {
    shared: Shared,
    leases: Arc<Leases>,
    names: Names,
    /// Those under the secret of before, while gates have it.
    previous: Option<Names>,
    /// The windows, of a quota.
    period: Option<Period>,
}

/// What became of one shared limit of a request: at which position, and what.
pub(super) type Settled = (usize, Brought);

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// Paid for; so much is left.
    Paid { left: u32 },
    /// It does not fit, and will after so many nanoseconds.
    Refused { retry_nanos: Option<u64> },
    /// Nobody knows. There are so many gates, as far as is known.
    Silent { store_error: StoreError, nodes: u32 },
}

/// What is to be done about a shared limit.
#[derive(Debug)]
pub enum Step {
    /// Nothing: this gate knows.
    Settled,
    /// The same, but what it holds goes to its end: the store should be asked for more, and the request need not wait.
    Refill(Errand),
    /// The store must be asked, and the request waits for it.
    Ask(Errand),
    /// Another request is asking about the key; when it is through, ask again for a step.
    Wait(KeyHash),
    /// Ask again for a step at once: what is held has changed meanwhile.
    Again,
}

/// A question on its way.
#[derive(Debug)]
pub struct Errand {
    /// What to ask now; see [`Errand::heard`].
    pub question: Question,
    /// What whoever waits for it waits by; see [`Step::Wait`].
    pub key: KeyHash,
    shared_limit: Arc<SharedLimit>,
    watch: Watch,
    asking: Option<Asking>,
    /// While the key has two names.
    rotation: Option<SecretRotation>,
}

/// What an errand brought home, for the request that ran it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Brought {
    by: DecidedBy,
    end: End,
    /// Whether so little came with it that the key's next request would have to wait, too.
    low: bool,
    /// When what was taken of a lease ends, should another limit refuse the request; and among how many gates.
    back: Option<(Ends, u32)>,
}

impl Errand {
    /// Takes in the answer to [`Errand::question`]. Gives what is to be [`done`](Errand::done) with; `None` while a secret is being
    /// replaced and there is another question, which then stands in the place of the one answered.
    pub fn heard(&mut self, answer: Answer) -> Option<Answer> {
        if answer.granted > 0 {
            self.shared_limit.leases.granted(&mut self.watch, self.shared_limit.names.tiers.len());
        }
        match &mut self.rotation {
            Some(rotation) => rotation.heard(&mut self.question, answer),
            None => Some(answer),
        }
    }

    /// Takes in what the store said to questions of which the first was sent at `sent`, and says what it means for the request that
    /// asked; `nodes` is how many gates there are.
    pub fn done(self, said: Result<Answer, StoreError>, nodes: u32, sent: Timestamp, now: Timestamp) -> Brought {
        let (mut more, mut back) = (false, None);
        let end = match (said, self.asking) {
            (Err(store_error), asking) => {
                if let Some(asking) = asking {
                    self.shared_limit.leases.silent(asking);
                }
                End::Silent { store_error, nodes }
            }
            (Ok(answer), Some(asking)) => match self.shared_limit.leases.answered_until(asking, &answer, sent, now) {
                (Look::Holds { left, low }, ends) => {
                    (more, back) = (low, Some((ends, nodes)));
                    End::Paid { left: left.saturating_add(answer.left).min(self.question.promise().most()) }
                }
                (Look::Refused { retry_nanos, .. }, _) => End::Refused { retry_nanos },
                // it came too late to be used
                (Look::Unknown, _) => End::Silent { store_error: StoreError::TimedOut, nodes },
            },
            (Ok(answer), None) if answer.granted > 0 => End::Paid { left: answer.left },
            (Ok(answer), None) => {
                let (leases, promise) = (&self.shared_limit.leases, self.question.promise());
                let cost = Cost::new(self.question.least).ok();
                // what is not there any more may have come home with another's question meanwhile
                let held = cost.map(|cost| leases.take_until(self.key, cost, &promise, now));
                if let Some((Look::Holds { left, low }, ends)) = held {
                    (more, back) = (low, Some((ends, nodes)));
                    End::Paid { left }
                } else {
                    if let (Some(retry_nanos), Some(cost)) = (answer.retry_nanos, cost) {
                        leases.remember(self.key, cost, &promise, retry_nanos, (sent, now));
                    }
                    End::Refused { retry_nanos: answer.retry_nanos }
                }
            }
        };
        if let End::Refused { .. } = end {
            self.shared_limit.leases.unless_overtaken(&self.watch);
        }
        let by = if matches!(end, End::Silent { .. }) { DecidedBy::Fallback } else { DecidedBy::Store };
        Brought { by, end, low: more, back }
    }
}

impl SharedLimit {
    /// The rule's, on what it held before if that is given; `None` for one that is not shared.
    pub(super) fn of(
        rule: &Rule,
        (secret, previous): (&[u8], Option<&[u8]>),
        before: Option<&SharedLimit>,
    ) -> Result<Option<SharedLimit>, OutOfRange> {
        // of an estimate no store is asked
        let Some(shared) = rule.shared.filter(|shared| shared.sharing != Sharing::Estimate) else { return Ok(None) };
        let names = Names::new(rule, secret)?;
        let promises = |names: &Names| names.tiers.iter().map(|tier| tier.promise).collect::<Vec<_>>();
        let period = rule.kind.windows();
        let leases = match before {
            // what was granted under other numbers says nothing about these
            Some(before) if promises(&before.names) == promises(&names) && before.period == period => {
                Arc::clone(&before.leases)
            }
            _ => Arc::new(Leases::new(<Leases>::MEMORY)?),
        };
        let previous = previous.map(|previous| Names::new(rule, previous)).transpose()?;
        Ok(Some(SharedLimit { shared, leases, names, previous, period }))
    }

    /// Where and how it is shared.
    pub fn shared(&self) -> Shared {
        self.shared
    }

    /// What this gate holds of it.
    pub fn leases(&self) -> &Arc<Leases> {
        &self.leases
    }

    /// What there is of a key of which this gate holds so much, as far as is known.
    fn left(&self, place: &Place<'_>, held: u32) -> u32 {
        held.saturating_add(self.leases.left_in_store(place.key.of_tier(place.tier)))
            .min(self.promise(place.tier).most())
    }

    /// By what leases of this key are found, and what they are of.
    fn held_by(&self, place: &Place<'_>) -> (KeyHash, Promise) {
        (place.key.of_tier(place.tier), self.promise(place.tier))
    }

    fn promise(&self, tier: u8) -> Promise {
        let tiers = &self.names.tiers;
        tiers.get(usize::from(tier)).or(tiers.first()).map_or(Promise::NOTHING, |tier| tier.promise)
    }

    /// What is known without asking, and whether the store should be asked in the background all the same. A request that
    /// nothing is known about fits so far.
    pub(super) fn look(&self, place: &Place<'_>, now: Timestamp, cost: Cost) -> (Judgement, bool) {
        let (key, promise) = self.held_by(place);
        let most = promise.most();
        if cost.get() > most {
            return (refused(most, None), false);
        }
        let known = self.leases.look(key, cost, &promise, now);
        if self.shared.sharing == Sharing::Exact {
            return match known {
                Look::Refused { retry_nanos, .. } => {
                    (refused(most, retry_nanos.map(|nanos| nanos.saturating_add(<Leases>::SLACK_NANOS))), false)
                }
                _ => (Judgement::admitted(most, most), false),
            };
        }
        match known {
            // the low are filled up when they are taken from
            Look::Holds { left, .. } => (Judgement::admitted(self.left(place, left), most), false),
            Look::Refused { retry_nanos, due } => (refused(most, retry_nanos), due),
            Look::Unknown => (Judgement::admitted(0, most), false),
        }
    }
}

fn refused(quota: u32, retry_nanos: Option<u64>) -> Judgement {
    Judgement { quota, retry_nanos, next_unit: NextUnit::Known(retry_nanos), ..Judgement::REFUSED }
}
