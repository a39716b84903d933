//! Requests of the process whose place this one takes.
//!
//! The old process still has requests under way when the new one begins to serve, and more come on its open connections. The new process
//! has the state of limits, so
//!
//! - what requests of the old one hold counts here until they give it back ([`UnderWay`]), and what their answers cost is charged here;
//! - a request that comes there is admitted by the old process's own state first, then by this one's: the old one
//!   [asks](Engine::to_ask), this one [charges](Engine::admit_for), the old one [goes by that](Engine::admitted_elsewhere).

use super::core::Engine;
use super::decision::{Outcome, Verdict};
use super::evaluation::{Evaluation, Held, Holds};
use crate::limiter::journal::{Event, What};
use crate::limiter::{Elsewhere, Hold, HoldElsewhere, Judgement, Lost, Place, Probe};
use crate::policy::{Mode, OnLimit};
use crate::units::{Cost, Timestamp};

/// The limits of the old process as those of this one, with what its requests hold. Dropped, all of that is given back.
#[derive(Debug, Default)]
pub struct UnderWay {
    /// In the old policy's order; `None`: the limit is gone, or began anew.
    pub(super) limits: Vec<Option<Before>>,
    /// For each route and origin of the old policy, its position in this one.
    pub(super) routes: Vec<Option<usize>>,
    pub(super) origins: Vec<Option<usize>>,
}

/// A limit of the old process.
#[derive(Debug)]
pub(super) struct Before {
    /// Its position in this policy.
    pub rule: usize,
    /// For its own numbers and each of its tiers, the tier in this policy.
    pub tiers: Vec<u8>,
    pub held: Elsewhere,
}

/// What one limit is to charge a request of the old process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Asked {
    /// Position of the reading in the old process.
    pub slot: usize,
    /// Position of the limit in the policy of the process that reads this.
    pub rule: usize,
    /// Where.
    pub place: Place,
    /// How much.
    pub cost: Cost,
    /// Whether the request is refused if it does not fit.
    pub enforced: bool,
}

/// What a limit said of it.
#[derive(Debug)]
pub struct Admitted<H> {
    /// What it said.
    pub judgement: Judgement,
    /// Whether it was charged.
    pub charged: bool,
    /// What the request holds now.
    pub hold: Option<H>,
}

impl UnderWay {
    /// Does here what was done to a limit of the old process.
    pub fn apply(&mut self, limit: usize, event: &Event) {
        let Some((_, place)) = self.here(limit, &event.place) else { return };
        // places of routes and origins that are gone are not counted
        let moves = matches!(event.what, What::Taken | What::Returned);
        if let Some(Some(before)) = self.limits.get_mut(limit)
            && let Some(place) = place.or((!moves).then_some(event.place))
        {
            before.held.apply(&Event { place, ..*event });
        }
    }

    /// The limit in this policy, and the place there; no place if its route or origin is gone.
    pub fn here(&self, limit: usize, place: &Place) -> Option<(usize, Option<Place>)> {
        let before = self.limits.get(limit)?.as_ref()?;
        let tier = before.tiers.get(usize::from(place.tier)).copied().unwrap_or(0);
        let route = self.routes.get(place.route).copied().flatten();
        let origin = match place.origin {
            None => Some(None),
            Some(origin) => self.origins.get(origin).copied().flatten().map(Some),
        };
        let place = route.zip(origin).map(|(route, origin)| Place { tier, route, origin, ..*place });
        Some((before.rule, place))
    }
}

impl Engine {
    /// Begins to note what happens to all limits, then writes their state and what requests hold of them.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn hand_over(&self, to: &mut crate::saved::Writer<'_>, now: Timestamp) -> std::io::Result<()> {
        self.write(to, now, true)
    }

    /// From now on admissions are asked of the other process.
    pub fn move_admissions(&self) {
        self.limiters().iter().for_each(|limiter| limiter.move_admissions());
    }

    /// Takes what was noted since it was asked last, by limit.
    ///
    /// # Errors
    /// Some of it is missing, as too much happened.
    pub fn take_journals(&self, mut take: impl FnMut(usize, &Event)) -> Result<(), crate::limiter::journal::Broken> {
        for (at, limiter) in self.limiters().iter().enumerate() {
            limiter.take_journal()?.iter().for_each(|event| take(at, event));
        }
        Ok(())
    }

    /// Notes nothing any more: no other process takes this one's place, or this one has ended.
    pub fn end_journals(&self) {
        self.limiters().iter().for_each(|limiter| limiter.end_journal());
    }

    /// What the other process is to be asked about a request that was [admitted](Engine::admit) here. Limits that a store is asked about
    /// have been, and those that delay are charged by both.
    pub fn to_ask(&self, evaluation: &Evaluation) -> Vec<Asked> {
        let mut asked = Vec::new();
        let apart = evaluation.charged | evaluation.shared_slots;
        for (slot, reading) in evaluation.decision.readings.iter().enumerate() {
            let Some((rule, limiter)) = self.rule(reading.rule) else { continue };
            if reading.outcome != Outcome::Admitted || apart >> slot & 1 == 1 {
                continue;
            }
            let enforced = reading.mode == Mode::Enforce && !matches!(rule.action, OnLimit::Tag { .. });
            let ask = |place: Place, cost| Asked { slot, rule: reading.rule, place, cost, enforced };
            if limiter.rate_door().is_some() {
                asked.push(ask(Place::default(), Cost::ONE));
            }
            let first = evaluation.probes.get(slot).and_then(Option::as_ref);
            asked.extend(first.map(|probe| ask(probe.place, probe.cost)));
            let more = evaluation.more.iter().filter(|more| more.slot == slot);
            asked.extend(more.map(|more| ask(more.place, more.cost)));
        }
        asked
    }

    /// Charges a request of the old process: all of it, or what comes before the first enforced limit that it does not fit, whose answer
    /// is the last one then.
    pub fn admit_for(&self, asked: &[Asked], now: Timestamp) -> Vec<Admitted<Hold>> {
        let mut all = Vec::with_capacity(asked.len());
        for Asked { rule, place, cost, enforced, .. } in asked {
            let Some(limiter) = self.limiters().get(*rule) else { continue };
            let unit = limiter.rate_door().map(|(door, _)| door.take_one(now));
            let said = match unit {
                Some(true) => Ok((Judgement::admitted(0, 0), None)),
                Some(false) => Err(limiter.probe(place, now, *cost).judgement),
                None => limiter.commit(&Probe::unasked(place, *cost), now).map_err(|lost| lost.judgement),
            };
            match said {
                Ok((judgement, mut hold)) => {
                    if let Some(sync) = self.peer_sync(*rule) {
                        sync.admitted(place, *cost, &mut hold);
                    }
                    all.push(Admitted { judgement, charged: true, hold });
                }
                Err(judgement) => {
                    all.push(Admitted { judgement, charged: false, hold: None });
                    if *enforced {
                        // places return, and attempts are forgotten
                        all.iter_mut().for_each(|admitted| admitted.hold = None);
                        break;
                    }
                }
            }
        }
        all
    }

    /// Goes by what the other process said: the request holds what it holds there for what it held here, or its verdict is a refusal.
    pub fn admitted_elsewhere(
        &self,
        evaluation: &mut Evaluation,
        asked: &[Asked],
        answers: impl IntoIterator<Item = Admitted<Box<dyn HoldElsewhere>>>,
        holds: &mut Holds,
        now: Timestamp,
    ) {
        // what a store granted, and what was charged instead, is this process's
        holds.retain(|held| evaluation.shared_slots >> held.slot & 1 == 1);
        for (Asked { slot, .. }, Admitted { judgement, charged, hold }) in asked.iter().zip(answers) {
            if !charged {
                self.refuse_late(evaluation, *slot, &Lost::refused(judgement), now);
                if evaluation.decision.verdict != Verdict::Admitted {
                    holds.clear();
                    return;
                }
                continue;
            }
            if let Some(reading) = evaluation.decision.readings.get_mut(*slot)
                && judgement.quota > 0
                && judgement.remaining < reading.remaining
            {
                reading.fill(&judgement);
            }
            if let Some(hold) = hold {
                // as many as keys at most, for which there are places
                let _ = holds.try_push(Held { slot: *slot, hold: Hold::Elsewhere(hold) });
            }
        }
    }
}
