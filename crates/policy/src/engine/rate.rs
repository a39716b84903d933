//! `fair_share` among the other limits: asked last, as who is over a limit of his own takes nothing from the others.
//!
//! [`judge`](super::judge) finds what a request asks the door of its rate with. Before anything is charged the face [enters](Engine::enter_rate):
//! where there is enough for all, the request goes on with a unit, else it waits, which is the face's to do. A unit whose request is refused
//! after all is given back. A request that a limit then delays has its unit since before that wait.

use std::sync::Arc;
use std::time::Duration;

use super::at_the_door::{LACKING, label};
use super::core::Engine;
use super::decision::{Outcome, Reading, Refusal, Verdict};
use super::evaluation::{AtRate, Evaluation, Read};
use super::keys::{Hashed, Unkeyed};
use super::no_place::{NoPlace, NoPlaceReason};
use crate::door::{Path, Standing, Token, TokenDoor, TokenEntry, TokenWaiting};
use crate::policy::{Mode, OnLimit, Preflights};
use crate::units::Timestamp;

/// A request that waits at the door of a rate.
#[derive(Debug)]
#[must_use = "who does not wait has left"]
pub struct RateWait {
    /// To be awaited.
    pub waiting: TokenWaiting,
    /// Whether nobody else sees to the time of the door: then the face is to [tick](TokenDoor::tick) it.
    pub tick: bool,
    /// How long it may wait.
    pub longest: Duration,
    /// Position of the reading.
    slot: usize,
}

impl Engine {
    /// Finds what the request asks its route's `fair_share` with, if it has one; says why the request is forbidden if that is sure.
    pub(super) fn find_rate(
        &self,
        evaluation: &mut Evaluation,
        about: &Read<'_>,
        hashed: &mut Hashed,
    ) -> Option<Refusal> {
        let is_open = |reading: &Reading| {
            reading.outcome == Outcome::Exempt
                && self.limiter(reading.rule).is_some_and(|limiter| limiter.rate_door().is_some())
        };
        let slot = evaluation.decision.readings.iter().position(is_open)?;
        let answered_here = evaluation.decision.answers_preflight;
        let reading = evaluation.decision.readings.get_mut(slot)?;
        let (rule, _) = self.rule(reading.rule)?;
        if answered_here && rule.preflights == Preflights::Apart {
            return None;
        }
        if rule.exempt.iter().any(|condition| condition.holds(about.request, about.client)) {
            return None;
        }
        reading.mode = self.mode_of(reading.rule, rule, about);
        let mut path = Path::default();
        for (level, (node, hash)) in rule.nodes.iter().zip(&mut path.0).enumerate() {
            match self.keys().node(reading.rule, level, node, about, hashed) {
                Err(Unkeyed::Several(_) | Unkeyed::TooMany) => {
                    // a request is weighed once for each node
                    reading.outcome = Outcome::Refused;
                    return (reading.mode == Mode::Enforce).then_some(Refusal::AmbiguousValue);
                }
                // zero says that there is no node
                found => *hash = Some(found.map_or(LACKING, |hash| hash.halves()[0].max(LACKING))),
            }
        }
        let asks = self.asks(path, evaluation.decision.class, label(about.client, rule.nodes.iter()));
        evaluation.rate = Some(AtRate { slot, asks });
        None
    }

    /// Takes a unit of the route's `fair_share`, if it has one and there is enough for all; else says what to wait for, or turns the verdict
    /// into a refusal. What only watches or marks never waits: it says what it would have had to.
    pub fn enter_rate(&self, evaluation: &mut Evaluation, now: Timestamp) -> Option<RateWait> {
        let AtRate { slot, asks } = evaluation.rate.take()?;
        if evaluation.decision.verdict != Verdict::Admitted {
            return None;
        }
        let reading = evaluation.decision.readings.get_mut(slot)?;
        let (rule, limiter) = self.rule(reading.rule)?;
        let (door, longest) = limiter.rate_door()?;
        reading.outcome = Outcome::Admitted;
        let marks = matches!(rule.action, OnLimit::Tag { .. });
        if reading.mode == Mode::Shadow || marks {
            match door.observe(&asks, now) {
                Ok(token) => evaluation.token = Some(token),
                Err(standing) => {
                    let tagged = reading.mode == Mode::Enforce;
                    reading.outcome = if tagged { Outcome::Tagged } else { Outcome::Refused };
                    reading.node = Some(standing.level);
                }
            }
            return None;
        }
        if let Some(token) = door.take(&asks, now) {
            evaluation.token = Some(token);
            return None;
        }
        if let Some(refusal) = self.refuse_by_own_limit(slot, evaluation, now) {
            evaluation.decision.verdict = Verdict::Refused(refusal);
            return None;
        }
        match door.arrive(&asks, now) {
            TokenEntry::Given(token) => evaluation.token = Some(token),
            TokenEntry::Waits { waiting, tick } => return Some(RateWait { waiting, tick, longest, slot }),
            TokenEntry::PushedOut(standing) => {
                self.refuse_at_rate(evaluation, (slot, door), NoPlaceReason::RatePushedOut, &standing, now);
            }
        }
        None
    }

    /// The same for a face in which nobody waits: who would have to is refused.
    pub fn enter_rate_at_once(&self, evaluation: &mut Evaluation, now: Timestamp) {
        if let Some(mut wait) = self.enter_rate(evaluation, now) {
            let answer = wait.give_up(now);
            self.leave_rate(evaluation, &wait, answer, now);
        }
    }

    /// The wait of a request is over: it goes on with a unit, or it was pushed out or [given up](RateWait::give_up).
    pub fn leave_rate(
        &self,
        evaluation: &mut Evaluation,
        wait: &RateWait,
        answer: Result<Token, (NoPlaceReason, Standing)>,
        now: Timestamp,
    ) {
        match answer {
            Ok(token) => evaluation.token = Some(token),
            Err((reason, standing)) => {
                self.refuse_at_rate(evaluation, (wait.slot, wait.waiting.door()), reason, &standing, now);
            }
        }
    }

    fn refuse_at_rate(
        &self,
        evaluation: &mut Evaluation,
        (slot, door): (usize, &Arc<TokenDoor>),
        reason: NoPlaceReason,
        standing: &Standing,
        now: Timestamp,
    ) {
        self.watch_demands(evaluation, now);
        let own = self.refuse_by_own_limit(slot, evaluation, now);
        let decision = &mut evaluation.decision;
        if let Some(own) = own {
            decision.verdict = Verdict::Refused(own);
            return;
        }
        decision.delay_nanos = 0;
        let no_place = NoPlace::at_rate(reason, decision.class.criticality, standing, door, now);
        if let Some(reading) = decision.readings.get_mut(slot) {
            reading.outcome = Outcome::Refused;
            reading.node = Some(standing.level);
            reading.retry_nanos = Some(no_place.retry_nanos());
        }
        decision.no_place = Some(NoPlace { tier: decision.class.tier, ..no_place });
        decision.verdict = Verdict::Refused(Refusal::FairShare);
        self.charge_refused_demands(evaluation, now);
    }
}

impl RateWait {
    /// Its time is over.
    ///
    /// # Errors
    /// How it stood, unless it was given a unit meanwhile.
    pub fn give_up(&mut self, now: Timestamp) -> Result<Token, (NoPlaceReason, Standing)> {
        self.waiting.give_up(now).map_err(|standing| (NoPlaceReason::RateTimeout, standing))
    }
}
