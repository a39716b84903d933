//! A policy together with the state of its limits: what one request sees from start to end.

use std::sync::Arc;

use super::drawn::Drawn;
use super::estimate::PeerSync;
use super::keys::SharedKeys;
use super::learned::Learned;
use super::shared_limit::SharedLimit;
use crate::bans::Bans;
use crate::limiter::Limiter;
use crate::policy::{FieldsRead, Policy, Rule};
use crate::sketch::Seed;
use crate::units::Bytes;

/// A policy and one limiter per rule, in the same order. Made whole, shared, never changed.
#[derive(Debug)]
pub struct Engine {
    pub(super) policy: Policy,
    pub(super) fields: FieldsRead,
    pub(super) limiters: Vec<Arc<Limiter>>,
    /// What the tables of each were drawn by.
    pub(super) drawn: Vec<Drawn>,
    /// Of limits that are enforced for a part of their keys only: what picks them.
    pub(super) rollouts: Vec<Option<Seed>>,
    pub(super) keys: SharedKeys,
    /// Limits that a store is asked about; empty in a face without stores.
    pub(super) shared_limits: Vec<Option<Arc<SharedLimit>>>,
    /// Limits whose admissions gates publish to each other; empty in a face without stores.
    pub(super) peer_syncs: Vec<Option<Arc<PeerSync>>>,
    /// What requests cost by their answers.
    pub(super) learned: Learned,
    /// Whom operators shut out; the same from one snapshot to the next.
    pub(super) bans: Arc<Bans>,
    pub(super) seed: Seed,
    pub(super) unix_nanos_at_origin: u64,
    /// Counts the snapshots that followed one another, from 1.
    pub(super) generation: u64,
}

impl Engine {
    /// The limits that a store is asked about among all, in the policy's order; empty in a face without stores.
    pub fn shared_limits(&self) -> &[Option<Arc<SharedLimit>>] {
        &self.shared_limits
    }

    /// The limits whose admissions gates publish to each other, in the policy's order; empty in a face without stores.
    pub fn peer_syncs(&self) -> &[Option<Arc<PeerSync>>] {
        &self.peer_syncs
    }

    /// The limit at this position, if it is shared through a store and this face has stores.
    pub fn shared_limit(&self, rule: usize) -> Option<&Arc<SharedLimit>> {
        self.shared_limits().get(rule)?.as_ref()
    }

    /// The limit at this position, if gates publish its admissions to each other and this face has stores.
    #[inline]
    pub fn peer_sync(&self, rule: usize) -> Option<&Arc<PeerSync>> {
        self.peer_syncs().get(rule)?.as_ref()
    }

    /// Which one it is of those that followed one another: the first is 1.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whom operators shut out, whatever the policy says.
    pub fn bans(&self) -> &Arc<Bans> {
        &self.bans
    }

    /// The seed that all others are derived from, passed on from one snapshot to the next.
    pub fn seed(&self) -> &Seed {
        &self.seed
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

    /// What requests cost by their answers.
    pub(super) fn learned(&self) -> &Learned {
        &self.learned
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
