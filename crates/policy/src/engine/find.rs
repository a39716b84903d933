//! Finds where a request counts under each limit of its route, before any of them is asked.

use super::core::Engine;
use super::decision::{Outcome, Reading, Refusal};
use super::evaluation::{Evaluation, Read};
use super::keys::{Hashed, Unkeyed};
use crate::client::key::Missing;
use crate::limiter::sharing::StoreKey;
use crate::limiter::{Limiter, Place, Probe};
use crate::policy::{Action, Mode, Preflights, Rule};

impl Engine {
    /// Adds the reading of one rule, and where the request counts under it, to what was judged so far; says why the request is
    /// forbidden if that is sure already. With `ahead` it loads what the rule will be asked into the cache: worth it when other
    /// limits are asked in between.
    pub(super) fn find(
        &self,
        rule_index: usize,
        about: &Read<'_>,
        ahead: bool,
        evaluation: &mut Evaluation,
        hashed: &mut Hashed,
    ) -> Option<Refusal> {
        let (rule, limiter) = self.rule(rule_index)?;
        let Evaluation { decision, probes, .. } = evaluation;
        // `config` admits at most MAX_RULES limits to a route; one more would go unread, never out of bounds
        decision.readings.try_push(Reading::unasked(rule_index, rule.mode)).ok()?;
        probes.try_push(None).ok()?;
        if decision.answers_preflight && rule.preflights == Preflights::Apart {
            // its answer costs what a refusal costs, and takes nothing that a limit keeps
            return None;
        }
        if limiter.rate_door().is_some() {
            // its turn comes when all others have spoken
            return None;
        }
        let tier = tier_of(rule, about)?;
        decision.readings.last_mut()?.tier = tier;
        let origin = if let Action::Forward(origin) = about.route.action { Some(origin) } else { None };
        let mut place = Place { route: about.index, origin, tier, ..Place::default() };
        let mut cost = rule.cost.on_entry(about.request.method);
        if rule.cost.is_deferred() {
            let whole = limiter.whole(tier).unwrap_or(u32::MAX);
            let held = self.learned().held_back(rule_index, about.index, &rule.cost, whole, about.at);
            cost = held.unwrap_or(cost);
        }
        if limiter.is_keyed()
            && let Err(unkeyed) = self.find_key(rule_index, (rule, limiter), about, hashed, &mut place)
        {
            return match unkeyed {
                Unkeyed::Missing(missing) => self.without_key(rule, missing, about, ahead, evaluation, hashed),
                Unkeyed::Several(_) | Unkeyed::TooMany => {
                    self.with_several((rule_index, rule, limiter), unkeyed, about, (place, cost), evaluation, hashed)
                }
            };
        }
        if ahead {
            limiter.prefetch(&place);
        }
        *probes.last_mut()? = Some(Probe::unasked(&place, cost));
        None
    }

    /// A request that lacks the key of the rule whose reading was just added.
    #[cold]
    fn without_key(
        &self,
        rule: &Rule,
        missing: Missing,
        about: &Read<'_>,
        ahead: bool,
        evaluation: &mut Evaluation,
        hashed: &mut Hashed,
    ) -> Option<Refusal> {
        let readings = &mut evaluation.decision.readings;
        let mut reading = readings.pop()?;
        // one that the route has anyway is asked in its own place; one that hands on itself would go in circles
        let stands_in = |other: &usize| {
            let known = self.policy().rules.get(*other);
            let asked = readings.iter().any(|reading| reading.rule == *other);
            !asked && !about.route.rules.contains(other) && known.is_some_and(|known| known.instead.is_none())
        };
        if let Some(other) = rule.instead.filter(stands_in) {
            evaluation.probes.pop();
            return self.find(other, about, ahead, evaluation, hashed);
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
        let Some(sync) = self.peer_sync(index) else {
            return self.keys().own(index, (rule, limiter), self.policy(), about, hashed, place);
        };
        let name = sync.name(rule, self.policy(), (about.request, about.client, about.route))?;
        (place.key, place.value) = (sync.key(StoreKey::from_halves(name.halves())), name);
        Ok(())
    }
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
