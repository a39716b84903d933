//! A limit that several gates share through a store: what one asks it, what it answers, and what silence means.
//!
//! Nothing here does I/O. The engine finds that a request cannot be judged by what this gate knows and hands out a
//! [`Question`]; the face carries it to the store, brings the [`Answer`] or a [`StoreError`], and the request is judged by
//! that. What the store does with a question is the same arithmetic in every store, and written down here
//! in the terms of its [`Promise`].

pub mod deltas;
pub mod leases;
pub mod promise;
mod secret_rotation;

use std::sync::Arc;
use std::time::Duration;

use crate::units::Rate;
pub use leases::{Asking, Begin, Ends, Leases, Look, Watch};
pub use secret_rotation::SecretRotation;

/// How gates share a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// Each gate takes budget in advance and spends it by itself; of what it took, nothing comes back.
    Lease,
    /// The store is asked about every request that it has not just refused.
    Exact,
    /// Each gate decides by itself, by the whole limit, and charges what the others tell it: late, and without asking anybody.
    Estimate,
}

impl Sharing {
    /// The word in `sharing:`.
    pub fn word(self) -> &'static str {
        match self {
            Sharing::Lease => "lease",
            Sharing::Exact => "exact",
            Sharing::Estimate => "estimate",
        }
    }
}

/// What happens to a request that the store says nothing about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnStoreError {
    /// It is judged by this gate alone, which has its part of the limit: one of as many as there are gates, and at least one request.
    Local,
    /// It passes.
    Open,
    /// It is refused, and not because of what the client did.
    Closed,
}

impl OnStoreError {
    /// All of them, for tables and metrics.
    pub const ALL: [OnStoreError; 3] = [OnStoreError::Local, OnStoreError::Open, OnStoreError::Closed];

    /// The word in `on_store_error:`.
    pub fn word(self) -> &'static str {
        match self {
            OnStoreError::Local => "local",
            OnStoreError::Open => "open",
            OnStoreError::Closed => "closed",
        }
    }
}

/// What a key of a shared limit is called in the store: nothing in it can be read or, without the secret, guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreKey(pub [u8; 16]);

impl StoreKey {
    /// In two words, the low one first.
    pub fn halves(self) -> [u64; 2] {
        let whole = u128::from_le_bytes(self.0);
        [whole as u64, (whole >> 64) as u64]
    }

    /// What was taken apart into these two words.
    pub fn from_halves([low, high]: [u64; 2]) -> StoreKey {
        StoreKey((u128::from(high) << 64 | u128::from(low)).to_le_bytes())
    }
}

/// What all gates together promise about one key, in the store's time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Promise {
    /// At most `burst + rate·τ` in every interval of length τ.
    Rate {
        /// How fast the budget comes back.
        rate: Rate,
        /// How much may be spent at once.
        burst: u32,
    },
    /// At most `max` per window; windows begin at whole multiples of their length since 1970 by the store's clock.
    Quota {
        /// How much.
        max: u32,
        /// In what time; whole milliseconds.
        window: Duration,
    },
    /// At most `max` per day, week or month, as the gates' calendar has them, by the store's clock.
    Calendar {
        /// How much.
        max: u32,
        /// About how long a window is.
        nominal: Duration,
        /// Of a question: when the window before the gate's present one began, the present one, the next and the one after that
        /// begin, in seconds since 1970. In that time the store's clock must be.
        begins: [u32; 4],
    },
}

impl Promise {
    /// Grants nothing.
    pub const NOTHING: Promise = Promise::Quota { max: 0, window: Duration::from_secs(1) };

    /// The most that can be had at once.
    pub fn most(&self) -> u32 {
        match self {
            Promise::Rate { burst, .. } => *burst,
            Promise::Quota { max, .. } | Promise::Calendar { max, .. } => *max,
        }
    }

    /// The same, asked while windows of the calendar begin then.
    #[must_use]
    pub fn while_windows_begin(self, begins: Option<[u32; 4]>) -> Promise {
        match (self, begins) {
            (Promise::Calendar { max, nominal, .. }, Some(begins)) => Promise::Calendar { max, nominal, begins },
            (other, _) => other,
        }
    }
}

/// What one gate asks the store about one key: as much of `wanted` as fits, but nothing if `least` does not fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Position of the limit in the policy.
    pub rule: usize,
    /// The key.
    pub key: StoreKey,
    /// The limit's own numbers, then those of its tiers; one or more.
    pub tiers: Arc<[StoreTier]>,
    /// By which of them the key is judged. The others take note of what is granted.
    pub tier: u8,
    /// When windows of the calendar begin, of a quota that has them.
    pub begins: Option<[u32; 4]>,
    /// How much would be welcome; at least `least`.
    pub wanted: u32,
    /// How much is needed for any to be of use; at least 1.
    pub least: u32,
}

impl Question {
    /// What is promised by the numbers that the key is judged by.
    pub fn promise(&self) -> Promise {
        let judged = self.tiers.get(usize::from(self.tier)).or(self.tiers.first());
        judged.map_or(Promise::NOTHING, |tier| tier.promise.while_windows_begin(self.begins))
    }
}

/// A limit's own numbers, or those of a tier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StoreTier {
    /// What all gates know it by, wherever it stands in their policies: 0 for the limit's own, else what follows from the tier's condition.
    pub id: u32,
    /// What is promised.
    pub promise: Promise,
}

/// What the store said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// How much was charged to the key, and may be spent now: 0, or from `least` to `wanted` of the question.
    pub granted: u32,
    /// How much was left in the store after that.
    pub left: u32,
    /// Of a refusal: nanoseconds until `least` would fit if nobody else took any; `None` when it never will. Of a grant
    /// `Some(0)`.
    pub retry_nanos: Option<u64>,
    /// How many nanoseconds after the question was *sent* the grant ends at the latest: the rest of the window. `u64::MAX`
    /// for a promise without windows.
    pub ends_nanos: u64,
}

/// Why the store said nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreError {
    /// It did not answer in time. What it charged, if anything, is unknown.
    TimedOut,
    /// It could not be reached, or the connection broke.
    Unreachable,
    /// It has been silent so often that it is not asked for a while.
    Breaker,
    /// Too many questions are on their way.
    Busy,
    /// It said something that is no answer: a fault of ours or of its configuration. Treated as `closed`, whatever the limit
    /// says, so that a mistake opens nothing.
    Faulty,
}

impl StoreError {
    /// All of them, for tables and metrics.
    pub const ALL: [StoreError; 5] =
        [StoreError::TimedOut, StoreError::Unreachable, StoreError::Breaker, StoreError::Busy, StoreError::Faulty];

    /// The word in metrics and log.
    pub fn word(self) -> &'static str {
        match self {
            StoreError::TimedOut => "timeout",
            StoreError::Unreachable => "unreachable",
            StoreError::Breaker => "breaker_open",
            StoreError::Busy => "busy",
            StoreError::Faulty => "faulty",
        }
    }
}
