//! What requests really cost, where the answer says it: what is held back for the next ones follows from that.
//!
//! Held back is what would have been enough for 95 of 100 answers on this route in the last ten to twenty minutes; never less than the
//! written estimate, and never more than the written most or half the limit. Where no answer said anything lately, it is the written
//! most, or the written estimate where there is none.
//!
//! **Promise.** Let a limit admit P(τ) = burst + rate·τ in every interval of length τ. Of one key, the answers of every such interval
//! cost at most
//!
//! > P(τ) + Σ max(0, cost − held back), over the requests that were under way together at some one moment
//!
//! as long as the limit can hold the debt: sixteen times its whole, or an hour of it.
//!
//! *Proof.* Look at the last admission before the interval's end. What was charged then and what was held back for all
//! under way, this one included, were within the limit. Until the end only those can be charged, each for what its answer says instead
//! of what was held back for it. With at most m per answer and at least e held back, at most ⌊whole/e⌋ are under way:
//! the sum is at most ⌊whole/e⌋·(m − e). What was charged beyond the limit is owed: nothing passes until it has come back,
//! and so the average over a long time is that of the limit.
//!
//! *What errs.* All clients of a route are learned from together, so that one cannot be dear on a fresh key each time; in return one
//! that asks for much has more held back for the others too. At most half of the limit, so that who has used up less always passes.
//! A dear answer among twenty or more is no quantile and moves nothing; among fewer it is forgotten in twenty minutes at the latest.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::policy::{CostRule, Policy, Route};
use crate::saved::{Fault, Reader, Writer};
use crate::sketch::UpperQuantile;
use crate::units::{Cost, Timestamp};

/// In thousandths: what is held back is enough for so many of the answers.
const ENOUGH_FOR: u32 = 950;
/// How long an answer counts at least; at most twice as long.
const PERIOD: Duration = Duration::from_secs(600);

/// What requests cost by their answers, by rule and route.
#[derive(Debug, Default)]
pub struct Learned(Vec<OfRule>);

/// By position of the route; `None` where the rule is never asked, all of it empty for rules whose cost is known.
type OfRule = Vec<Option<Arc<UpperQuantile>>>;

impl Learned {
    /// Of a policy; what `before` knows of the rule that one follows and the route of the same name goes on.
    pub fn of(policy: &Policy, before: impl Fn(usize, &Route) -> Option<Arc<UpperQuantile>>) -> Learned {
        let of_rule = |(index, rule): (usize, &Arc<crate::policy::Rule>)| {
            if !matches!(rule.cost, CostRule::Response { .. }) {
                return Vec::new();
            }
            let instead = |other: &usize| policy.rules.get(*other).is_some_and(|other| other.instead == Some(index));
            let asked = |route: &Route| route.rules.contains(&index) || route.rules.iter().any(instead);
            let known = |route: &Route| before(index, route).unwrap_or_else(empty);
            policy.routes.iter().map(|route| asked(route).then(|| known(route))).collect()
        };
        Learned(policy.rules.iter().enumerate().map(of_rule).collect())
    }

    /// Writes what is known.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn save(&self, policy: &Policy, to: &mut Writer<'_>) -> io::Result<()> {
        for (rule, routes) in policy.rules.iter().zip(&self.0) {
            for (route, known) in policy.routes.iter().zip(routes) {
                let Some(known) = known else { continue };
                to.number(1)?;
                to.text(&rule.name)?;
                to.text(&route.name)?;
                known.save(to)?;
            }
        }
        to.number(0)
    }

    /// What is known of a rule on a route.
    pub fn get(&self, rule: usize, route: usize) -> Option<&Arc<UpperQuantile>> {
        self.0.get(rule)?.get(route)?.as_ref()
    }

    /// What is held back of a request, whose limit is `whole` units.
    pub fn held_back(&self, rule: usize, route: usize, cost: &CostRule, whole: u32, now: Timestamp) -> Option<Cost> {
        let CostRule::Response { estimate, max, .. } = cost else { return None };
        let most = max.map_or(u32::MAX, Cost::get);
        let held = match self.get(rule, route).and_then(|known| known.get(now)) {
            Some(known) => known.min(most).min(whole / 2),
            // the operator's own word
            None => max.map_or(0, Cost::get).min(whole),
        };
        Cost::new(held.max(estimate.get())).ok()
    }

    /// Takes in what an answer says that its request cost.
    pub fn see(&self, rule: usize, route: usize, cost: u32, now: Timestamp) {
        if let Some(known) = self.get(rule, route) {
            known.see(cost, now);
        }
    }
}

/// What another process learned, by the names of rule and route.
#[derive(Debug, Default)]
pub struct Remembered(BTreeMap<String, BTreeMap<String, Arc<UpperQuantile>>>);

impl Remembered {
    /// Reads what [`Learned::save`] wrote.
    ///
    /// # Errors
    /// A damaged stream.
    pub fn read(from: &mut Reader<'_>) -> Result<Remembered, Fault> {
        let mut all: BTreeMap<String, BTreeMap<String, Arc<UpperQuantile>>> = BTreeMap::new();
        while from.number_up_to(1)? == 1 {
            let (rule, route, known) = (from.text(LONGEST_NAME)?, from.text(LONGEST_NAME)?, empty());
            known.restore(from)?;
            all.entry(rule).or_default().insert(route, known);
        }
        Ok(Remembered(all))
    }

    /// The names of all rules that it learned something of.
    pub fn rules(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    /// What it learned of the rule and the route of these names.
    pub fn get(&self, rule: &str, route: &str) -> Option<&Arc<UpperQuantile>> {
        self.0.get(rule)?.get(route)
    }
}

/// Of a rule or route.
const LONGEST_NAME: usize = 1_024;

fn empty() -> Arc<UpperQuantile> {
    Arc::new(UpperQuantile::new(ENOUGH_FOR, PERIOD))
}
