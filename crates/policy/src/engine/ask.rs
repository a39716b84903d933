//! Asks one limit about the request, where it [counts](super::find).

use super::core::Engine;
use super::decision::{DecidedBy, Outcome, Refusal};
use super::evaluation::{Evaluation, Read};
use super::keys::keys_into;
use crate::client::key::Keys;
use crate::limiter::{Judgement, Owed, Probe, Refuses};
use crate::policy::{Mode, OnLimit, Rule};
use crate::sketch::{KeyHasher, Seed};

impl Engine {
    /// Asks the limit of one reading, if it has a place to be asked at; says why it forbids the request if it does.
    pub(super) fn ask(&self, slot: usize, about: &Read<'_>, evaluation: &mut Evaluation) -> Option<Refusal> {
        let Evaluation { decision, probes, shared_slots, refills, .. } = evaluation;
        let (reading, asked) = (decision.readings.get_mut(slot)?, probes.get_mut(slot)?);
        let Probe { place, cost, .. } = asked.as_ref()?;
        let (rule, limiter) = self.rule(reading.rule)?;
        if limiter.is_exempt(place.key, about.at) {
            *asked = None;
            return None;
        }
        match self.shared_limit(reading.rule) {
            None => {
                let probe = limiter.probe(place, about.at, *cost);
                reading.fill(&probe.judgement);
                *asked = Some(probe);
                if self.peer_sync(reading.rule).is_some() {
                    reading.by = DecidedBy::Estimate;
                }
            }
            Some(shared_limit) => {
                let (judgement, due) = shared_limit.look(place, about.at, *cost);
                reading.fill(&judgement);
                *refills |= u8::from(due) << slot;
                reading.by = DecidedBy::Lease;
                *shared_slots |= 1 << slot;
            }
        }
        reading.mode = self.mode_of(reading.rule, rule, about);
        if reading.outcome == Outcome::Admitted { None } else { self.over_limit(slot, about, evaluation) }
    }

    /// What follows when the limit of one reading has said that the request does not fit.
    pub(super) fn over_limit(&self, slot: usize, about: &Read<'_>, evaluation: &mut Evaluation) -> Option<Refusal> {
        let Evaluation { decision, probes, .. } = evaluation;
        let (reading, Probe { place, cost, .. }) = (decision.readings.get_mut(slot)?, probes.get(slot)?.as_ref()?);
        let (rule, limiter) = self.rule(reading.rule)?;
        match (&rule.action, reading.mode, reading.retry_nanos) {
            (OnLimit::Tag { .. }, Mode::Enforce, _) => {
                reading.outcome = Outcome::Tagged;
                return None;
            }
            (OnLimit::Delay { max }, Mode::Enforce, Some(wait)) if u128::from(wait) <= max.as_nanos() => {
                reading.outcome = Outcome::Delayed;
                decision.delay_nanos = decision.delay_nanos.max(wait);
                return None;
            }
            _ => {}
        }
        let mut refusal = Refusal::from(limiter.refusal());
        if let Some((judgement, penalised)) = limiter.count_refusal(place, about.at, *cost) {
            // what it was refused for is what stood before it was counted
            reading.fill(&Judgement { standing: reading.standing, ..judgement });
            reading.outcome = Outcome::Refused;
            if penalised {
                refusal = Refusal::Penalty;
                if let (Some(terms), Mode::Enforce) = (&rule.ban, reading.mode) {
                    self.strike(terms, about);
                }
            }
        }
        (reading.mode == Mode::Enforce).then_some(refusal)
    }

    /// Returns what the reading at this position fell short of. Reads numbers only, no state: the answer stays the same however long
    /// one waits to ask.
    pub fn shortfall(&self, evaluation: &Evaluation, slot: usize) -> Owed {
        let Some(reading) = evaluation.decision.readings.get(slot) else { return Owed::default() };
        let Some((rule, limiter)) = self.rule(reading.rule) else { return Owed::default() };
        // a request without its key was counted nowhere
        let Some(Some(probe)) = evaluation.probes.get(slot) else { return Owed::default() };
        limiter.owed(rule.kind_of(reading.tier), reading.tier, reading.standing, probe.cost)
    }

    /// Returns whether the limit of the reading at this position counts the request's key exactly at this moment.
    pub fn is_exact(&self, evaluation: &Evaluation, slot: usize) -> bool {
        let limiter = evaluation.decision.readings.get(slot).and_then(|reading| self.limiter(reading.rule));
        let probe = evaluation.probes.get(slot).and_then(Option::as_ref);
        limiter.zip(probe).is_some_and(|(limiter, probe)| limiter.is_exact(&probe.place))
    }

    /// Whether the rule decides for this key. `enforce: 25%` picks keys by a hash that is the same in every process, so that
    /// a client is never in it today and out of it after a restart.
    #[inline]
    pub(super) fn mode_of(&self, index: usize, rule: &Rule, about: &Read<'_>) -> Mode {
        self.rollout(index).map_or(rule.mode, |seed| self.mode_by(seed, rule, about))
    }

    fn mode_by(&self, seed: &Seed, rule: &Rule, about: &Read<'_>) -> Mode {
        let mut keys = Keys::from_iter([KeyHasher::new(seed)]);
        if keys_into(&mut keys, rule, self.policy(), (about.request, about.client, about.route)).is_err() {
            return rule.mode;
        }
        // 53 bits are what a share's own number distinguishes
        let point = |key: KeyHasher| (key.finish().halves()[0] >> 11) as f64 / (1_u64 << 53) as f64;
        // of several keys one is enough, as the client chooses which comes first
        let is_enforced = keys.into_iter().any(|key| point(key) < rule.enforced.get());
        if is_enforced { Mode::Enforce } else { Mode::Shadow }
    }
}

impl From<Refuses> for Refusal {
    fn from(refuses: Refuses) -> Refusal {
        match refuses {
            Refuses::Quota => Refusal::Limit,
            Refuses::Concurrency => Refusal::Concurrency,
            Refuses::Room => Refusal::Inflight,
            Refuses::Share => Refusal::FairShare,
        }
    }
}
