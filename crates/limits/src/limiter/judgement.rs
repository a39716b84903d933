//! What a limit is asked, and what it says.

use crate::sketch::{Charged, KeyHash, NextUnit, Spot};
use crate::units::Timestamp;

/// Where a request is counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct Place {
    /// The limit's [own](super::Limiter::own_hash) hash of its key for this request. An exact `inflight` limit has no use for it.
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
    /// The moment at which the other tiers take note of the charge, if that is not the moment of the charge itself: a request that
    /// waits is charged ahead of now by the numbers that make it wait, and by them alone.
    pub noted: Option<Timestamp>,
}

/// What one request found out when it was asked about, so that it need not be found out again when it is charged. Of use to the
/// limit and the key that it is of only; anything else, and whatever is out of date, is found out anew.
#[derive(Clone, Copy, Default)]
pub struct Near {
    /// Where the levels of the key are, and what they were.
    pub(super) spot: Spot,
    /// What the key is charged; to level zero if nothing is known.
    pub(super) charged: Charged,
    /// As of when: the moment among the levels; of a value that was counted already, that at which it was found.
    pub(super) at: Timestamp,
    /// Of `distinct`: whether the value was found among those that were counted, so that nothing is charged.
    pub(super) repeat: bool,
    /// Where the places of the key are counted.
    pub(super) places: [u32; 8],
}

impl std::fmt::Debug for Near {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Near(secret)")
    }
}

/// What a limit says about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// Whether it fits, or has been charged.
    pub admitted: bool,
    /// How many more of the same cost would fit at once, after this one.
    pub remaining: u32,
    /// Of how many in all; `remaining` over it says how near the limit is to its end.
    pub quota: u32,
    /// Nanoseconds until it would fit: `Some(0)` if it did, `None` if no wait helps or none can be promised.
    pub retry_nanos: Option<u64>,
    /// When more budget appears; see [`Judgement::reset_nanos`].
    pub next_unit: NextUnit,
    /// Of a refusal: what it rests on, in the arithmetic of its kind, for [`Limiter::owed`](super::Limiter::owed); zero otherwise.
    pub standing: u64,
}

impl Judgement {
    /// Nanoseconds until more budget appears; `None` when full or when that is up to others.
    pub fn reset_nanos(&self) -> Option<u64> {
        self.next_unit.nanos()
    }
}

/// What a limit says of a request in a word: most fit, and then most of a [`Judgement`] says the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// It fits, and so many more of the same cost would, after this one: at most 2³² − 1, as wide as a level so that either is
    /// handed over in registers.
    Fits(u64),
    /// It does not, and the key's level is this.
    Over(u64),
    /// That takes more than a word.
    Nothing,
}

/// How many more of the same cost would fit at once, after a request that was charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// As many as were said when it was asked about.
    AsAsked,
    /// So many.
    Now(u32),
}

/// Why [`Limiter::admit`](super::Limiter::admit) said no although [`Limiter::probe`](super::Limiter::probe) had said yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// What the limit says now.
    pub judgement: Judgement,
    /// True when the race could not be settled in a bounded number of tries: counted, as it refuses without need.
    pub contended: bool,
}

/// What a limit's refusal means, before anybody has put it into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refuses {
    /// The key's budget is spent.
    Quota,
    /// The key has too much under way.
    Concurrency,
    /// There is no room, whoever asks.
    Room,
    /// The traffic is among the heaviest of what asks for too much in all.
    Share,
}
