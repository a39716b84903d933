//! Limits that several gates share through a store, without I/O.
//!
//! What this gate holds of a key are [`Leases`]. Where they do not suffice, a [`Question`] goes to the store, and an [`Answer`] or a
//! [`StoreError`] comes back. Each store answers by the same arithmetic, which [`promise`] defines. What is known of a charge only later is
//! told to the store then ([`amend`]), places that come back are lent by it ([`places`]), and values are kept there ([`values`]).

pub mod amend;
pub mod deltas;
pub mod leases;
pub mod places;
pub mod promise;
mod secret_rotation;
pub mod values;

use std::sync::Arc;
use std::time::Duration;

use crate::units::Rate;
pub use amend::{Amendment, Change};
pub use leases::{Asking, Begin, Ends, Leases, Look, Watch};
pub use secret_rotation::{Named, SecretRotation};

/// How gates share a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// Each gate takes budget in advance and spends it by itself. What it does not spend is lost.
    Lease,
    /// The store is asked about every request that it has not just refused.
    Exact,
    /// Each gate decides by itself, by the whole limit, and charges what other gates publish, some time later.
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

/// What happens to a request that the store does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnStoreError {
    /// This gate judges it by its part of the limit: the limit divided by the number of gates, and at least one request.
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

/// The name of a key in the store. Nothing in it can be read or, without the secret, guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreKey(pub [u8; 16]);

impl StoreKey {
    /// Splits the name into two words, the low one first.
    pub fn halves(self) -> [u64; 2] {
        let whole = u128::from_le_bytes(self.0);
        [whole as u64, (whole >> 64) as u64]
    }

    /// Joins the two words of [`StoreKey::halves`].
    pub fn from_halves([low, high]: [u64; 2]) -> StoreKey {
        StoreKey((u128::from(high) << 64 | u128::from(low)).to_le_bytes())
    }
}

/// What all gates together promise for one key, in the store's time.
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
    /// At most `max` per window, and across one boundary at most `max·(1 + v/window)`, where v is the time since it: the window before counts
    /// in part. Windows as of [`Promise::Quota`].
    Sliding {
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
    /// At most `max` at once, each given back, or lent anew before its end.
    Places {
        /// How many.
        max: u32,
    },
    /// At most `max` different values per window, or in every interval of its length where that slides.
    Values {
        /// How many.
        max: u32,
        /// In what time; whole milliseconds.
        window: Duration,
        /// Whether windows follow each value rather than the store's clock.
        sliding: bool,
    },
}

impl Promise {
    /// A promise that grants nothing.
    pub const NOTHING: Promise = Promise::Quota { max: 0, window: Duration::from_secs(1) };

    /// Returns the most that can be granted at once.
    pub fn most(&self) -> u32 {
        match self {
            Promise::Rate { burst, .. } => *burst,
            Promise::Quota { max, .. }
            | Promise::Sliding { max, .. }
            | Promise::Calendar { max, .. }
            | Promise::Places { max }
            | Promise::Values { max, .. } => *max,
        }
    }

    /// Sets when the windows of the calendar begin.
    #[must_use]
    pub fn while_windows_begin(self, begins: Option<[u32; 4]>) -> Promise {
        match (self, begins) {
            (Promise::Calendar { max, nominal, .. }, Some(begins)) => Promise::Calendar { max, nominal, begins },
            (other, _) => other,
        }
    }
}

/// A question to the store about one key: grant as much of `wanted` as fits, but nothing if `least` does not fit.
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
    /// The value that is counted, of a limit of different values.
    pub value: Option<StoreKey>,
    /// Whether the store may be told of charges later that nobody asked for, so that a key may owe more than a burst.
    pub told: bool,
}

impl Question {
    /// Returns the promise that the key is judged by.
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

/// The store's answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// How much was charged to the key and may be spent now: 0, or from `least` to `wanted` of the question. Of a value that counts: all
    /// that was wanted.
    pub granted: u32,
    /// How much was left in the store after that.
    pub left: u32,
    /// Of a refusal: nanoseconds until `least` would fit if no other request took any; `None` when it never will. Of a grant
    /// `Some(0)`.
    pub retry_nanos: Option<u64>,
    /// How many nanoseconds after the question was *sent* the grant ends at the latest: the rest of the window, or of a place's or a
    /// value's life.
    /// `u64::MAX` for a rate.
    pub ends_nanos: u64,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreError {
    /// The store did not answer in time. What it charged, if anything, is unknown.
    TimedOut,
    /// The store could not be reached, or the connection broke.
    Unreachable,
    /// The store has failed so often in a row that it is not asked for a while.
    Breaker,
    /// Too many questions are on their way.
    Busy,
    /// What the store said is no answer: a fault of ours or of its configuration. Treated as `closed`, whatever the limit says, so
    /// that a mistake opens nothing.
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
