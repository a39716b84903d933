//! Where a request is counted.

use crate::sketch::KeyHash;
use crate::units::Timestamp;

/// Where a request is counted.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Place {
    /// The limit's [own](super::Limiter::own_hash) hash of the request's key. Unused by exact `inflight` and by `fair_share`.
    pub key: KeyHash,
    /// Of `distinct`: the limit's own hash of the key together with the value. Of a limit with `sharing: estimate`: the name that
    /// all gates know the key by.
    pub value: KeyHash,
    /// Position of the route in the policy.
    pub route: usize,
    /// Position of the origin in the policy, if the route has one.
    pub origin: Option<usize>,
    /// Which numbers apply: 0 the limit's own, `n` those of its n-th tier.
    pub tier: u8,
    /// When the other tiers note the charge, if not at the moment of the charge: a request that waits is charged ahead of now,
    /// by the numbers of its own tier only.
    pub noted: Option<Timestamp>,
}
