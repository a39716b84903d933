//! Puts one limit's question: who is exempt, which numbers apply, by what key, and what the limit says to that.

use super::by::By;
use super::decision::{Outcome, Reading, Refusal};
use super::judge::{Judged, fill};
use super::keys::{Hashed, Unkeyed, keys_into};
use super::share::is_share;
use super::snapshot::Snapshot;
use crate::client::Client;
use crate::client::key::{Keys, Missing};
use crate::limiter::cluster::StoreKey;
use crate::limiter::{Judgement, Limiter, Near, Place, Refuses, Said};
use crate::policy::{Action, Mode, OnLimit, Route, Rule};
use crate::request::Request;
use crate::sketch::{KeyHasher, NextUnit, Seed};
use crate::units::{Cost, Timestamp};

/// What a limit was asked, to be charged by later.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    /// Where the request counts.
    pub place: Place,
    /// What it costs.
    pub cost: Cost,
    /// What was found out when it was asked.
    pub near: Near,
}

/// The request that is read, on its route.
#[derive(Debug, Clone, Copy)]
pub struct Read<'a> {
    pub request: &'a Request<'a>,
    pub client: &'a Client,
    pub route: &'a Route,
    pub index: usize,
    pub at: Timestamp,
}

impl Snapshot {
    /// Adds the reading of one rule, and where the request counts under it, to what was judged so far, for [`Snapshot::ask`]
    /// to ask there; says why the request is forbidden if that is sure already. With `ahead` it has what the rule will be judged
    /// by brought near: it is worth that when others stand in between.
    pub(super) fn find(
        &self,
        rule_index: usize,
        about: &Read<'_>,
        ahead: bool,
        judged: &mut Judged,
        hashed: &mut Hashed,
    ) -> Option<Refusal> {
        let (rule, limiter) = self.rule(rule_index)?;
        let Judged { decision, asks, .. } = judged;
        // `config` admits at most MAX_RULES limits to a route; one more would go unread, never out of bounds
        decision.readings.try_push(blank(rule_index, rule.mode)).ok()?;
        asks.try_push(None).ok()?;
        let (reading, asked) = (decision.readings.last_mut()?, asks.last_mut()?);
        if is_share(rule) {
            // its turn comes when all others have spoken
            if ahead {
                self.approach_share(rule_index, rule, limiter, hashed);
            }
            return None;
        }
        let tier = tier_of(rule, about)?;
        reading.tier = tier;
        let origin = if let Action::Forward(origin) = about.route.action { Some(origin) } else { None };
        // filled in where it stays
        let place = Place { route: about.index, origin, tier, ..Place::default() };
        let mut cost = rule.cost.on_entry(about.request.method);
        if rule.cost.is_deferred() {
            let whole = limiter.whole(tier).unwrap_or(u32::MAX);
            let held = self.learned().held_back(rule_index, about.index, &rule.cost, whole, about.at);
            cost = held.unwrap_or(cost);
        }
        let Ask { place, near, .. } = asked.insert(Ask { place, cost, near: Near::default() });
        if limiter.is_keyed()
            && let Err(unkeyed) = self.find_key(rule_index, (rule, limiter), about, hashed, place)
        {
            let (place, cost) = (*place, cost);
            *asked = None;
            return match unkeyed {
                Unkeyed::Missing(missing) => self.without_key(rule, missing, about, ahead, judged, hashed),
                Unkeyed::Several(_) | Unkeyed::TooMany => {
                    self.with_several((rule_index, rule, limiter), unkeyed, about, (place, cost), judged, hashed)
                }
            };
        }
        limiter.spot(place, near, ahead);
        None
    }

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

    /// A request that lacks the key of the rule whose reading was just added.
    #[cold]
    fn without_key(
        &self,
        rule: &Rule,
        missing: Missing,
        about: &Read<'_>,
        ahead: bool,
        judged: &mut Judged,
        hashed: &mut Hashed,
    ) -> Option<Refusal> {
        let readings = &mut judged.decision.readings;
        let mut reading = readings.pop()?;
        // one that the route has anyway is asked in its own place; one that hands on itself would go in circles
        let stands_in = |other: &usize| {
            let known = self.policy().rules.get(*other);
            let asked = readings.iter().any(|reading| reading.rule == *other);
            !asked && !about.route.rules.contains(other) && known.is_some_and(|known| known.instead.is_none())
        };
        if let Some(other) = rule.instead.filter(stands_in) {
            judged.asks.pop();
            return self.find(other, about, ahead, judged, hashed);
        }
        let mut refusal = None;
        if missing == Missing::Deny {
            reading.outcome = Outcome::Refused;
            if self.rollout(reading.rule).is_some() {
                // no key, no share of keys: whoever comes without is refused only when the limit holds for all
                reading.mode = Mode::Shadow;
            }
            refusal = (reading.mode == Mode::Enforce).then_some(Refusal::KeyMissing);
        }
        readings.push(reading);
        refusal
    }

    /// Puts where the request counts, of this rule, into the place.
    #[inline]
    fn find_key(
        &self,
        index: usize,
        (rule, limiter): (&Rule, &Limiter),
        about: &Read<'_>,
        hashed: &mut Hashed,
        place: &mut Place,
    ) -> Result<(), Unkeyed> {
        let Some(told) = self.told(index) else {
            return self.keys().own(index, (rule, limiter), self.policy(), about, hashed, place);
        };
        let name = told.name(rule, self.policy(), (about.request, about.client, about.route))?;
        (place.key, place.value) = (told.key(StoreKey::from_halves(name.halves())), name);
        Ok(())
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

/// Puts what a limit said in a word into its reading; the rest is as in one that was not asked about yet.
#[inline]
fn fit(reading: &mut Reading, remaining: u64) {
    (reading.outcome, reading.remaining) = (Outcome::Admitted, u32::try_from(remaining).unwrap_or(u32::MAX));
    reading.retry_nanos = Some(0);
}

/// The tier that the request belongs to, 0 for none; `None` when it is exempt.
#[inline]
fn tier_of(rule: &Rule, about: &Read<'_>) -> Option<u8> {
    if rule.exempt.is_empty() && rule.tiers.is_empty() { Some(0) } else { tier_among(rule, about) }
}

fn tier_among(rule: &Rule, about: &Read<'_>) -> Option<u8> {
    if rule.exempt.iter().any(|condition| condition.holds(about.request, about.client)) {
        return None;
    }
    let found = rule.tiers.iter().zip(1_u8..).find(|(tier, _)| tier.when.holds(about.request, about.client));
    match found {
        None => Some(0),
        Some((tier, number)) => tier.kind.is_some().then_some(number),
    }
}

#[inline]
pub(super) fn blank(rule: usize, mode: Mode) -> Reading {
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
        by: By::Gate,
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
