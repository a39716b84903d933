//! The policy in force together with the state of its limits: what one request sees from start to end.

use std::sync::Arc;

use super::keys::SharedKeys;
use crate::limiter::{Kind, Limiter, Spec};
use crate::policy::{CostRule, Counted, Mode, OnLimit, Policy, Rule};
use crate::sketch::Seed;
use crate::units::{Bytes, OutOfRange};

/// A policy and one limiter per rule, in the same order. Made whole, shared, never changed.
#[derive(Debug)]
pub struct Snapshot {
    policy: Policy,
    limiters: Vec<Arc<Limiter>>,
    /// Of limits that are enforced for a part of their keys only: what picks them.
    rollouts: Vec<Option<Seed>>,
    keys: SharedKeys,
}

/// Not secret: the same keys are picked in every process, and a client that finds out which is none the better for it.
const ROLLOUT: Seed = Seed::from_bytes(*b"tidegate rollout");

impl Snapshot {
    /// The policy with empty limiters, their tables hashed under seeds derived from `seed`. `unix_nanos_at_origin` is the
    /// wall clock's time, in nanoseconds since 1970, at the origin of all stamps; aligned windows take their phase from it
    /// once, so that a stepped wall clock never opens one again.
    ///
    /// # Errors
    /// A limit whose numbers its limiter refuses, by name. `config` checks them first, so a loaded policy has none.
    pub fn new(policy: Policy, seed: &Seed, unix_nanos_at_origin: u64) -> Result<Snapshot, (String, OutOfRange)> {
        let routes = policy.routes.iter().count();
        let origin_caps: Vec<_> = policy.origins.iter().map(|origin| origin.inflight.map(|cap| cap.max)).collect();
        let limiter = |rule: &Arc<Rule>| {
            let tiers = rule.tiers.iter().map(|tier| tier.kind.as_ref().unwrap_or(&rule.kind));
            let kinds: Vec<Kind> = std::iter::once(&rule.kind).chain(tiers).cloned().collect();
            let deferred = rule.cost.is_deferred() || rule.counted != Counted::Requests;
            let origin_caps = &origin_caps;
            let longest_wait = match &rule.action {
                OnLimit::Delay { max } => u64::try_from(max.as_nanos()).unwrap_or(u64::MAX),
                _ => 0,
            };
            let indebts = deferred || matches!(rule.cost, CostRule::Bytes { .. });
            let spec = Spec {
                name: &rule.name,
                kinds: &kinds,
                deferred,
                indebts,
                longest_wait,
                routes,
                origin_caps,
                unix_nanos_at_origin,
            };
            Limiter::new(&spec, seed).map(Arc::new).map_err(|fault| (rule.name.clone(), fault))
        };
        let limiters = policy.rules.iter().map(limiter).collect::<Result<_, _>>()?;
        let partial = |rule: &Arc<Rule>| rule.mode == Mode::Enforce && rule.enforced.get() < 1.0;
        let rollouts = policy.rules.iter().map(|rule| partial(rule).then(|| ROLLOUT.derive(&rule.name))).collect();
        let keys = SharedKeys::new(&policy, seed);
        Ok(Snapshot { policy, limiters, rollouts, keys })
    }

    /// The rule book.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The state of the rule at this position in the policy.
    pub fn limiter(&self, rule: usize) -> Option<&Limiter> {
        self.limiters.get(rule).map(Arc::as_ref)
    }

    /// A rule and its state.
    pub(super) fn rule(&self, index: usize) -> Option<(&Rule, &Limiter)> {
        Some((self.policy.rules.get(index)?, self.limiter(index)?))
    }

    /// What the rules' keys are hashed by.
    pub(super) fn keys(&self) -> &SharedKeys {
        &self.keys
    }

    /// What picks the keys that a rule is enforced for; `None` when it is enforced for all, or none.
    pub(super) fn rollout(&self, index: usize) -> Option<&Seed> {
        self.rollouts.get(index)?.as_ref()
    }

    /// The state of all rules, in the policy's order; shared, for gauges that outlive a request.
    pub fn limiters(&self) -> &[Arc<Limiter>] {
        &self.limiters
    }

    /// What all limiters hold, the same from the first request to the last.
    pub fn memory(&self) -> Bytes {
        Bytes(self.limiters.iter().map(|limiter| limiter.memory().0).sum())
    }
}
