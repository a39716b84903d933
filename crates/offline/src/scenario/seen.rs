//! A request whose answer is known.

use std::time::Duration;

use http::HeaderMap;

use super::message::Messages;
use crate::answer::Fault;
use crate::config::case::By;
use crate::engine::{Decision, Engine, Evaluation, Outcome, Refusal, Verdict};
use crate::explain::Book;
use crate::policy::{Action, Mode, Policy};
use crate::units::Timestamp;

/// A request whose answer is known.
pub struct Seen<'s> {
    /// What judged it.
    pub engine: &'s Engine,
    /// The policy as it is written, and where.
    pub book: &'s Book,
    /// What it is one of.
    pub messages: &'s Messages<'s>,
    /// Its step, from 0.
    pub step: usize,
    /// Its position in the step, from 0.
    pub nth: u32,
    /// How many the step has.
    pub of: u32,
    /// How many steps there are.
    pub steps: usize,
    /// When it was sent, from the beginning of the case.
    pub at: Duration,
    /// The stamp of its answer.
    pub answered: Timestamp,
    /// Before or after others.
    pub order: (u64, usize, u32),
    /// How it was judged; `None` when it did not come that far.
    pub evaluation: Option<&'s Evaluation>,
    /// Why it could not be served, if that is no verdict of the policy.
    pub fault: Option<Fault>,
    /// What it was answered with.
    pub status: u16,
    /// What it was told to wait.
    pub retry_after: Option<Duration>,
    /// The fields of its answer; of those that were let through, only where they are asked for.
    pub headers: &'s HeaderMap,
}

impl<'s> Seen<'s> {
    /// The policy.
    pub fn policy(&self) -> &'s Policy {
        self.engine.policy()
    }

    /// What was decided.
    pub fn decision(&self) -> Option<&'s Decision> {
        self.evaluation.map(|evaluation| &evaluation.decision)
    }

    /// Let through, to the origin or to the route's own answer.
    pub fn is_allowed(&self) -> bool {
        self.fault.is_none() && self.decision().is_some_and(|decision| decision.verdict == Verdict::Admitted)
    }

    /// Refused by a limit or a cap, and not because nothing was there for it.
    pub fn is_limited(&self) -> bool {
        match self.decision().map(|decision| decision.verdict) {
            Some(Verdict::Refused(Refusal::NoRoute | Refusal::ClientUnresolved | Refusal::ValueTooLong)) | None => {
                false
            }
            Some(Verdict::Refused(_)) => true,
            Some(Verdict::Admitted) => false,
        }
    }

    /// Who refused it.
    pub fn limited_by(&self) -> Vec<By> {
        let Some(decision) = self.decision().filter(|_| self.is_limited()) else { return Vec::new() };
        if decision.verdict == Verdict::Refused(Refusal::OriginFull) {
            let route = decision.route.and_then(|route| self.policy().routes.route(route));
            return match route.map(|route| &route.action) {
                Some(Action::Forward(origin)) => vec![By::Origin(*origin)],
                _ => Vec::new(),
            };
        }
        decision.violated().map(|reading| By::Limit(reading.rule)).collect()
    }

    /// The shadow limits that it was over.
    pub fn shadowed_by(&self) -> Vec<By> {
        let readings = self.decision().into_iter().flat_map(|decision| &decision.readings);
        let over = readings.filter(|reading| reading.mode == Mode::Shadow && reading.outcome == Outcome::Refused);
        over.map(|reading| By::Limit(reading.rule)).collect()
    }

    /// How long it was held back, if it was let through after that.
    pub fn delay(&self) -> Option<Duration> {
        let decision = self.decision().filter(|_| self.is_allowed())?;
        (decision.delay_nanos > 0).then(|| Duration::from_nanos(decision.delay_nanos))
    }

    /// Let through with a tag.
    pub fn is_tagged(&self) -> bool {
        self.is_allowed() && self.has(Outcome::Tagged)
    }

    fn has(&self, outcome: Outcome) -> bool {
        self.decision().is_some_and(|decision| decision.readings.iter().any(|reading| reading.outcome == outcome))
    }
}
