//! `fair_share` among the other limits: asked last, because it counts what is offered and must not count what another limit
//! refuses anyway.

use arrayvec::ArrayVec;

use super::core::Engine;
use super::decision::{Outcome, Reading, Refusal};
use super::evaluation::{Evaluation, Read};
use super::keys::{Hashed, Unkeyed};
use crate::limiter::{Limiter, MAX_NODES, Place};
use crate::policy::{Mode, OnLimit, Preflights};
use crate::sketch::KeyHash;
use crate::units::Cost;

impl Engine {
    /// Asks the route's `fair_share`, if it has one; says why it forbids the request if it does.
    pub(super) fn ask_share(
        &self,
        evaluation: &mut Evaluation,
        about: &Read<'_>,
        hashed: &mut Hashed,
    ) -> Option<Refusal> {
        let is_open = |reading: &Reading| {
            reading.outcome == Outcome::Exempt && self.limiter(reading.rule).is_some_and(Limiter::is_by_nodes)
        };
        let slot = evaluation.decision.readings.iter().position(is_open)?;
        let answered_here = evaluation.decision.answers_preflight;
        let reading = evaluation.decision.readings.get_mut(slot)?;
        let (rule, limiter) = self.rule(reading.rule)?;
        if answered_here && rule.preflights == Preflights::Apart {
            return None;
        }
        if rule.exempt.iter().any(|condition| condition.holds(about.request, about.client)) {
            return None;
        }
        let mut keys: ArrayVec<Option<KeyHash>, MAX_NODES> = ArrayVec::new();
        for (position, node) in rule.nodes.iter().take(MAX_NODES).enumerate() {
            match self.keys().node(reading.rule, position, node, about, hashed) {
                Err(Unkeyed::Several(_) | Unkeyed::TooMany) => {
                    // what is offered is counted once for each node
                    reading.outcome = Outcome::Refused;
                    reading.mode = self.mode_of(reading.rule, rule, about);
                    return (reading.mode == Mode::Enforce).then_some(Refusal::AmbiguousValue);
                }
                // there are at most as many
                key => _ = keys.try_push(key.ok()),
            }
        }
        let place = Place { nodes: &keys, dice: evaluation.decision.dice, ..Place::default() };
        limiter.prefetch(&place);
        let probe = limiter.probe(&place, about.at, Cost::ONE);
        reading.mode = self.mode_of(reading.rule, rule, about);
        reading.fill(&probe.judgement);
        *evaluation.probes.get_mut(slot)? = Some(probe);
        match (reading.mode, &rule.action) {
            _ if reading.outcome == Outcome::Admitted => None,
            (Mode::Shadow, _) => None,
            (Mode::Enforce, OnLimit::Tag { .. }) => {
                reading.outcome = Outcome::Tagged;
                None
            }
            (Mode::Enforce, _) => self.refuse_by_own_limit(slot, evaluation).or(Some(Refusal::FairShare)),
        }
    }
}
