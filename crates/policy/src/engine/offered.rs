//! What a request offered to the `fair_share` of its route.

use arrayvec::ArrayVec;

use crate::limiter::fair_share::MAX_NODES;
use crate::limiter::{Judgement, Limiter, Lost, Offered};
use crate::policy::Rule;
use crate::sketch::KeyHash;
use crate::units::Timestamp;

/// What was offered, to be charged by later.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Position of the reading in the decision.
    pub(super) slot: usize,
    pub(super) keys: ArrayVec<Option<KeyHash>, MAX_NODES>,
    pub(super) offered: Offered,
}

impl Shared {
    /// The node that a late refusal is due to: the cap of the one that limits the traffic, or the whole capacity, which alone
    /// can tell a wait.
    pub fn late_node(&self, slot: usize, rule: &Rule, lost: &Lost) -> Option<u8> {
        let capped = self.offered.node.filter(|_| lost.judgement.retry_nanos.is_none());
        (slot == self.slot).then(|| u8::try_from(capped.unwrap_or(rule.nodes.len())).ok())?
    }

    /// Charges what was offered, if it was this reading's.
    pub fn take(&self, slot: usize, limiter: &Limiter, now: Timestamp) -> Option<Result<Judgement, Lost>> {
        (slot == self.slot).then(|| limiter.take(&self.keys, &self.offered, now))
    }
}

/// Whether the rule is a `fair_share`.
pub fn is_share(rule: &Rule) -> bool {
    rule.kind.has_nodes()
}
