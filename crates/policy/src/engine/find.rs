//! Finds where a request counts under each limit of its route, before any of them is asked.

use super::decision::{Outcome, Refusal};
use super::judged::{Ask, Judged};
use super::keys::{Hashed, Unkeyed};
use super::offered::is_share;
use super::read::Read;
use super::reading::blank;
use super::snapshot::Snapshot;
use crate::client::key::Missing;
use crate::limiter::cluster::StoreKey;
use crate::limiter::{Limiter, Near, Place};
use crate::policy::{Action, Mode, Rule};
use crate::sketch::KeyHash;

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

    /// [`Snapshot::find`] of a limit that the shorter way is enough for; says whether it was, and if not, nothing was done.
    #[inline]
    pub(super) fn find_in_brief(
        &self,
        rule: usize,
        about: &Read<'_>,
        ahead: bool,
        judged: &mut Judged,
        hashed: &mut Hashed,
    ) -> bool {
        let (Some(brief), Some(limiter)) = (self.brief(rule), self.limiter(rule)) else { return false };
        let Some(cost) = brief.same_for_all else { return false };
        let Some(key) = hashed.find(brief.key as usize).or_else(|| self.hash_key(rule, about, hashed)) else {
            return false;
        };
        let mut value = KeyHash::default();
        if brief.of_values {
            let Some(own) = self.hash_value(rule, limiter, key, about, hashed) else { return false };
            value = own;
        }
        let Judged { decision, asks, .. } = judged;
        if decision.readings.try_push(blank(rule, brief.mode)).is_err() {
            return true;
        }
        // there are as many as readings
        let _ = asks.try_push(None);
        let Some(asked) = asks.last_mut() else { return true };
        let origin = if let Action::Forward(origin) = about.route.action { Some(origin) } else { None };
        let place = Place { key: limiter.own_hash().of(key), value, route: about.index, origin, tier: 0, noted: None };
        // filled in where it stays
        let Ask { place, near, .. } = asked.insert(Ask { place, cost, near: Near::default() });
        limiter.spot(place, near, ahead);
        true
    }

    #[inline(never)]
    fn hash_key(&self, index: usize, about: &Read<'_>, hashed: &mut Hashed) -> Option<KeyHash> {
        self.keys().key(index, self.policy().rules.get(index)?, self.policy(), about, hashed).ok()
    }

    /// The limit's own hash of the key with the value.
    #[inline(never)]
    fn hash_value(
        &self,
        index: usize,
        limiter: &Limiter,
        key: KeyHash,
        about: &Read<'_>,
        hashed: &mut Hashed,
    ) -> Option<KeyHash> {
        let of = self.policy().rules.get(index)?.of.as_ref()?;
        let value = self.keys().value(index, of, about, hashed).ok()?;
        Some(limiter.own_hash().of_pair(key, value))
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
