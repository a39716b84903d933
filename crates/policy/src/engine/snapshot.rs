//! The policy in force together with the state of its limits: what one request sees from start to end.

use std::sync::Arc;

use super::cluster::Cluster;
use super::estimate::Told;
use super::keys::SharedKeys;
use super::learned::Learned;
use super::numbers::Numbers;
use crate::limiter::Limiter;
use crate::policy::{FieldsRead, Mode, Policy, Rule};
use crate::sketch::Seed;
use crate::units::{Bytes, OutOfRange};

/// A policy and one limiter per rule, in the same order. Made whole, shared, never changed.
#[derive(Debug)]
pub struct Snapshot {
    policy: Policy,
    fields: FieldsRead,
    limiters: Vec<Arc<Limiter>>,
    /// Of limits that are enforced for a part of their keys only: what picks them.
    rollouts: Vec<Option<Seed>>,
    keys: SharedKeys,
    /// Of limits that a store is asked about, in a face that has stores; empty in any other.
    clusters: Vec<Option<Arc<Cluster>>>,
    /// The same of those that gates tell each other of.
    told: Vec<Option<Arc<Told>>>,
    /// What answers told that requests cost.
    learned: Learned,
    seed: Seed,
    unix_nanos_at_origin: u64,
    /// Which one it is of those that followed one another, from 1.
    generation: u64,
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
        let numbers = Numbers::of(&policy, unix_nanos_at_origin);
        let limiter = |rule: &Arc<Rule>| numbers.empty(rule, seed).map(Arc::new);
        let limiters = policy.rules.iter().map(limiter).collect::<Result<_, _>>()?;
        Ok(Snapshot::of(policy, limiters, seed, unix_nanos_at_origin, 1))
    }

    /// A policy with the state that its limits have.
    pub(super) fn of(
        policy: Policy,
        limiters: Vec<Arc<Limiter>>,
        seed: &Seed,
        unix_nanos_at_origin: u64,
        generation: u64,
    ) -> Snapshot {
        let partial = |rule: &Arc<Rule>| rule.mode == Mode::Enforce && rule.enforced.get() < 1.0;
        let rollouts = policy.rules.iter().map(|rule| partial(rule).then(|| ROLLOUT.derive(&rule.name))).collect();
        let (keys, fields) = (SharedKeys::new(&policy, seed), FieldsRead::of(&policy));
        let (clusters, told, seed) = (Vec::new(), Vec::new(), seed.clone());
        let learned = Learned::of(&policy, |_, _| None);
        Snapshot {
            policy,
            fields,
            limiters,
            rollouts,
            keys,
            clusters,
            told,
            learned,
            seed,
            unix_nanos_at_origin,
            generation,
        }
    }

    /// The same with these limits shared through stores, in the policy's order.
    pub(super) fn with_shared(self, clusters: Vec<Option<Arc<Cluster>>>, told: Vec<Option<Arc<Told>>>) -> Snapshot {
        Snapshot { clusters, told, ..self }
    }

    /// The limits that a store is asked about among all, in the policy's order; empty in a face without stores.
    pub fn clusters(&self) -> &[Option<Arc<Cluster>>] {
        &self.clusters
    }

    /// The limits that gates tell each other of among all, in the policy's order; empty in a face without stores.
    pub fn all_told(&self) -> &[Option<Arc<Told>>] {
        &self.told
    }

    /// The limit at this position, if it is shared through a store and this face has stores.
    pub fn cluster(&self, rule: usize) -> Option<&Arc<Cluster>> {
        self.clusters().get(rule)?.as_ref()
    }

    /// The limit at this position, if gates tell each other of it and this face has stores.
    #[inline]
    pub fn told(&self, rule: usize) -> Option<&Arc<Told>> {
        self.all_told().get(rule)?.as_ref()
    }

    /// Which one it is of those that followed one another: the first is 1.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What all seeds come from, the same for those that follow one another.
    pub(super) fn seed(&self) -> &Seed {
        &self.seed
    }

    /// The wall clock's time at the origin of all stamps, in nanoseconds since 1970.
    pub(super) fn unix_nanos_at_origin(&self) -> u64 {
        self.unix_nanos_at_origin
    }

    /// The rule book.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The header fields that decisions by this policy rest on.
    pub fn fields(&self) -> &FieldsRead {
        &self.fields
    }

    /// The state of the rule at this position in the policy.
    pub fn limiter(&self, rule: usize) -> Option<&Limiter> {
        self.limiters.get(rule).map(Arc::as_ref)
    }

    /// A rule and its state.
    pub(super) fn rule(&self, index: usize) -> Option<(&Rule, &Limiter)> {
        Some((self.policy.rules.get(index)?, self.limiter(index)?))
    }

    /// What answers told that requests cost.
    pub(super) fn learned(&self) -> &Learned {
        &self.learned
    }

    /// The same, knowing what the snapshot before it learned.
    pub(super) fn knowing(self, learned: Learned) -> Snapshot {
        Snapshot { learned, ..self }
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
