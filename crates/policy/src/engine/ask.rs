//! Puts one limit's question where the request [counts](super::find), and takes in what the limit says to it.

use super::by::By;
use super::decision::{Outcome, Reading, Refusal};
use super::judged::{Ask, Judged};
use super::keys::keys_into;
use super::read::Read;
use super::reading::{fill, fit};
use super::snapshot::Snapshot;
use crate::client::key::Keys;
use crate::limiter::{Judgement, Refuses, Said};
use crate::policy::{Mode, OnLimit, Rule};
use crate::sketch::{KeyHasher, Seed};
use crate::units::Timestamp;

impl Snapshot {
    /// Asks the rule of one reading, if it has a question; what it says but that the request fits is yet to be
    /// [taken in](Snapshot::take_in). No limit is asked twice.
    #[inline]
    pub(super) fn ask(&self, reading: &mut Reading, asked: &mut Option<Ask>, at: Timestamp) -> Option<Said> {
        let Ask { place, cost, near } = asked.as_mut()?;
        if !self.is_alone(reading.rule) {
            return Some(Said::Nothing);
        }
        match self.limiter(reading.rule)?.ask(place, near, at, *cost, &mut reading.next_unit) {
            Said::Fits(remaining) => {
                fit(reading, remaining);
                None
            }
            said => Some(said),
        }
    }

    /// Puts what a limit said into its reading, and says why it forbids the request if it does.
    #[inline(never)]
    pub(super) fn take_in(&self, slot: usize, said: Said, about: &Read<'_>, judged: &mut Judged) -> Option<Refusal> {
        let Judged { decision, asks, .. } = judged;
        let (reading, asked) = (decision.readings.get_mut(slot)?, asks.get_mut(slot)?);
        if !self.is_alone(reading.rule) {
            return self.ask_at_length(slot, about, judged);
        }
        let Ask { place, cost, .. } = asked.as_mut()?;
        match self.limiter(reading.rule)?.in_full(said, place, about.at, *cost) {
            Some(judgement) => fill(reading, &judgement),
            None => {
                *asked = None;
                return None;
            }
        }
        if reading.outcome == Outcome::Admitted { None } else { self.over_limit(slot, about, judged) }
    }

    /// Asks any rule.
    #[inline(never)]
    fn ask_at_length(&self, slot: usize, about: &Read<'_>, judged: &mut Judged) -> Option<Refusal> {
        let Judged { decision, asks, shared_slots, refills, .. } = judged;
        let (reading, asked) = (decision.readings.get_mut(slot)?, asks.get_mut(slot)?);
        let Ask { place, cost, near } = asked.as_mut()?;
        let (rule, limiter) = self.rule(reading.rule)?;
        match self.cluster(reading.rule) {
            None => {
                match limiter.ask(place, near, about.at, *cost, &mut reading.next_unit) {
                    Said::Fits(remaining) => fit(reading, remaining),
                    said => match limiter.in_full(said, place, about.at, *cost) {
                        Some(judgement) => fill(reading, &judgement),
                        None => {
                            *asked = None;
                            return None;
                        }
                    },
                }
                if self.told(reading.rule).is_some() {
                    reading.by = By::Estimate;
                }
            }
            Some(_) if limiter.is_exempt(place.key, about.at) => {
                *asked = None;
                return None;
            }
            Some(cluster) => {
                let (judgement, due) = cluster.look(place, about.at, *cost);
                fill(reading, &judgement);
                *refills |= u8::from(due) << slot;
                reading.by = By::Lease;
                *shared_slots |= 1 << slot;
            }
        }
        if let Some(seed) = self.rollout(reading.rule) {
            reading.mode = self.mode_by(seed, rule, about);
        }
        if reading.outcome == Outcome::Admitted { None } else { self.over_limit(slot, about, judged) }
    }

    /// What follows when the limit of one reading has said that the request does not fit.
    #[inline(never)]
    pub(super) fn over_limit(&self, slot: usize, about: &Read<'_>, judged: &mut Judged) -> Option<Refusal> {
        let Judged { decision, asks, .. } = judged;
        let (reading, Ask { place, cost, .. }) = (decision.readings.get_mut(slot)?, asks.get(slot)?.as_ref()?);
        let (rule, limiter) = self.rule(reading.rule)?;
        let cost = *cost;
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
        if let Some((judgement, penalised)) = limiter.count_refusal(place, about.at, cost) {
            // what it was refused for is what stood before it was counted
            fill(reading, &Judgement { standing: reading.standing, ..judgement });
            reading.outcome = Outcome::Refused;
            if penalised {
                refusal = Refusal::Penalty;
            }
        }
        (reading.mode == Mode::Enforce).then_some(refusal)
    }

    /// Whether the rule decides for this key. `enforce: 25%` picks keys by a hash that is the same in every process, so that
    /// a client is never in it today and out of it after a restart.
    #[inline]
    pub(super) fn mode_of(&self, index: usize, rule: &Rule, about: &Read<'_>) -> Mode {
        self.rollout(index).map_or(rule.mode, |seed| self.mode_by(seed, rule, about))
    }

    pub(super) fn mode_by(&self, seed: &Seed, rule: &Rule, about: &Read<'_>) -> Mode {
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
