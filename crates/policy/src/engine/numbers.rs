//! The numbers that a limiter is made from: those of its rule, and what of the policy around it concerns it.

use super::own_limit::has_demand;
use crate::limiter::{Kind, Limiter, Scope, Spec};
use crate::policy::{CostRule, Counted, OnLimit, Policy, Rule};
use crate::sketch::Seed;
use crate::units::OutOfRange;

/// What limiters are made from beside their rule.
pub struct Numbers<'p> {
    routes: Vec<&'p str>,
    origins: Vec<(&'p str, Option<u32>)>,
    unix_nanos_at_origin: u64,
    /// The names of the limits whose demand is counted.
    demanded: Vec<&'p str>,
}

impl<'p> Numbers<'p> {
    /// Those of a policy.
    pub fn of(policy: &'p Policy, unix_nanos_at_origin: u64) -> Numbers<'p> {
        let cap = |origin: &crate::policy::Origin| origin.inflight.as_ref().map(|cap| cap.max);
        Numbers {
            routes: policy.routes.iter().map(|route| route.name.as_str()).collect(),
            origins: policy.origins.iter().map(|origin| (origin.name.as_str(), cap(origin))).collect(),
            unix_nanos_at_origin,
            demanded: (0..)
                .zip(&policy.rules)
                .filter(|(index, rule)| has_demand(policy, *index, rule))
                .map(|(_, rule)| rule.name.as_str())
                .collect(),
        }
    }

    /// A limiter without state.
    ///
    /// # Errors
    /// Numbers that it refuses; with the rule's name.
    pub fn empty(&self, rule: &Rule, seed: &Seed) -> Result<Limiter, (String, OutOfRange)> {
        self.with_spec(rule, |spec| Limiter::new(spec, seed)).map_err(|fault| (rule.name.clone(), fault))
    }

    /// Shows what a rule's limiter is made from.
    pub fn with_spec<T>(&self, rule: &Rule, make: impl FnOnce(&Spec<'_>) -> T) -> T {
        let kinds = kinds(rule);
        let (deferred, unit, longest_wait) = charging(rule);
        make(&Spec {
            name: &rule.name,
            kinds: &kinds,
            deferred,
            // of a shared limit: what other gates tell, and this gate's part of it while its store is silent
            indebts: deferred || unit.is_some() || rule.shared.is_some(),
            unit: unit.unwrap_or(1),
            longest_wait,
            demand: self.has_demand(rule),
            routes: self.routes.len(),
            origins: self.origins.len(),
            unix_nanos_at_origin: self.unix_nanos_at_origin,
        })
    }

    fn has_demand(&self, rule: &Rule) -> bool {
        self.demanded.contains(&rule.name.as_str())
    }

    /// Whether a limiter of the rule `was` is one of the rule `now`, as it is.
    pub fn same(&self, was: &Rule, after: &Numbers<'_>, now: &Rule) -> bool {
        // by their positions
        let around = match now.kind.scope() {
            Some(Scope::Route) => self.routes == after.routes,
            Some(Scope::Origin) => self.origins == after.origins,
            _ => true,
        };
        let as_asked = self.has_demand(was) == after.has_demand(now);
        around && as_asked && kinds(was) == kinds(now) && charging(was) == charging(now) && in_the_same_order(was, now)
    }
}

/// The promise of the rule, then those of its tiers.
fn kinds(rule: &Rule) -> Vec<Kind> {
    let tiers = rule.tiers.iter().map(|tier| tier.kind.as_ref().unwrap_or(&rule.kind));
    std::iter::once(&rule.kind).chain(tiers).cloned().collect()
}

/// Whether each tier is where it was.
fn in_the_same_order(was: &Rule, now: &Rule) -> bool {
    was.tiers.iter().map(|tier| &tier.when).eq(now.tiers.iter().map(|tier| &tier.when))
}

/// Returns whether the rule waits for the answer, its bytes per unit if it counts those, and how long it may make a request wait.
fn charging(rule: &Rule) -> (bool, Option<u32>, u64) {
    let deferred = rule.cost.is_deferred() || rule.counted != Counted::Requests;
    let unit = if let CostRule::Bytes { unit } = rule.cost { Some(unit) } else { None };
    let longest_wait = match &rule.action {
        OnLimit::Delay { max } => u64::try_from(max.as_nanos()).unwrap_or(u64::MAX),
        _ => 0,
    };
    (deferred, unit, longest_wait)
}
