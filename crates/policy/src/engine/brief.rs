//! Limits of which nothing but the key differs from request to request: those are asked by a shorter way, to the same answers.
//!
//! Most limits make no exceptions, know no tiers, cost the same for every request and are enforced for all keys by this gate
//! alone. What of a rule the shorter way needs is found out once, when the policy is put in force, and lies together: so a
//! request reads a few words of each rule and not the whole of it.

use super::ask::{Ask, Read, blank};
use super::judge::Judged;
use super::keys::Hashed;
use super::share::is_share;
use super::snapshot::Snapshot;
use crate::limiter::{Limiter, Near, Place};
use crate::policy::{Action, CostRule, Mode, Rule};
use crate::sketch::KeyHash;
use crate::units::Cost;

/// What there is to know of a rule before there is a request.
#[derive(Debug, Clone, Copy)]
pub struct Brief {
    /// Whether nobody else is asked about it, no part of its keys is left out, and it is no `fair_share`: then the limiter's word is
    /// the reading.
    pub alone: bool,
    /// What every request costs, if the rule is one, makes no exceptions, and counts by a key.
    same_for_all: Option<Cost>,
    /// Whether what a request takes comes back at its end; see [`Limiter::gives_back`].
    pub gives_back: bool,
    mode: Mode,
    /// The number of its key, the same for rules of equal ones.
    key: u32,
    /// Whether it counts values.
    of_values: bool,
}

impl Brief {
    /// Of a rule whose key has this number, and that this gate counts by itself.
    pub fn new(rule: &Rule, limiter: &Limiter, key: u32) -> Brief {
        let alone = rule.enforced.get() >= 1.0 && !is_share(rule);
        let same_for_all = match rule.cost {
            CostRule::Fixed(cost) if alone && limiter.is_keyed() => Some(cost),
            _ => None,
        };
        Brief {
            alone,
            same_for_all: same_for_all.filter(|_| rule.exempt.is_empty() && rule.tiers.is_empty()),
            gives_back: limiter.gives_back(),
            mode: rule.mode,
            key,
            of_values: rule.of.is_some(),
        }
    }

    /// Of the same rule, which others are asked about, too.
    pub fn shared(self) -> Brief {
        Brief { alone: false, same_for_all: None, ..self }
    }
}

impl Snapshot {
    /// [`Snapshot::find`](Snapshot) of a limit that the shorter way is enough for; says whether it was, and if not, nothing was done.
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
}
