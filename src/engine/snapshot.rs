//! The policy in force together with the state of its limits: what one request sees from start to end.

use std::sync::Arc;

use crate::limiter::Limiter;
use crate::policy::Policy;
use crate::sketch::Seed;
use crate::units::{Bytes, OutOfRange};

/// A policy and one limiter per rule, in the same order. Made whole, shared, never changed.
#[derive(Debug)]
pub struct Snapshot {
    policy: Policy,
    limiters: Vec<Arc<Limiter>>,
}

impl Snapshot {
    /// The policy with empty limiters, their tables hashed under seeds derived from `seed`.
    ///
    /// # Errors
    /// A limit whose numbers its limiter refuses, by name. `config` checks them first, so a loaded policy has none.
    pub fn new(policy: Policy, seed: &Seed) -> Result<Snapshot, (String, OutOfRange)> {
        let (routes, origins) = (policy.routes.iter().count(), policy.origins.len());
        let limiters = policy
            .rules
            .iter()
            .map(|rule| {
                Limiter::new(&rule.kind, &rule.name, seed, routes, origins)
                    .map(Arc::new)
                    .map_err(|fault| (rule.name.clone(), fault))
            })
            .collect::<Result<_, _>>()?;
        Ok(Snapshot { policy, limiters })
    }

    /// The rule book.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The state of the rule at this position in the policy.
    pub fn limiter(&self, rule: usize) -> Option<&Limiter> {
        self.limiters.get(rule).map(Arc::as_ref)
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
