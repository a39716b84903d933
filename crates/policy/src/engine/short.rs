//! What refusals of a decision were short of, and how exact the counts are that it rests on: for people who ask why.

use super::core::Engine;
use super::evaluation::Evaluation;
use crate::limiter::Owed;

impl Engine {
    /// What it would have taken for the reading at this position to be none of a refusal. Reads numbers only, no state: the answer
    /// stays the same however long one waits to ask.
    pub fn owed(&self, evaluation: &Evaluation, slot: usize) -> Owed {
        let Some(reading) = evaluation.decision.readings.get(slot) else { return Owed::default() };
        let Some((rule, limiter)) = self.rule(reading.rule) else { return Owed::default() };
        // `fair_share` has a reading and no ask
        // without its key the request was counted nowhere
        let Some(Some(probe)) = evaluation.probes.get(slot) else { return Owed::default() };
        limiter.owed(rule.kind_of(reading.tier), reading.tier, reading.standing, probe.cost)
    }

    /// Whether what the limit of the reading at this position counts for the request's key is exact at this moment.
    pub fn is_exact(&self, evaluation: &Evaluation, slot: usize) -> bool {
        let limiter = evaluation.decision.readings.get(slot).and_then(|reading| self.limiter(reading.rule));
        let probe = evaluation.probes.get(slot).and_then(Option::as_ref);
        limiter.zip(probe).is_some_and(|(limiter, probe)| limiter.is_exact(&probe.place))
    }
}
