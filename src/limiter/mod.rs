//! One kind of limit per file, named after the word in `type:`; this file is the only list of them.
//!
//! A limiter is asked twice about a request: [`Limiter::probe`] reads and changes nothing, [`Limiter::admit`] charges. The
//! engine asks every limit of a route first and charges only when all agree, so nobody pays for another limit's refusal.

pub mod distinct;
pub mod fair_share;
pub mod inflight;
pub mod inflight_by_key;
pub mod pending;
pub mod rate;

use std::sync::Arc;

use crate::sketch::{KeyHash, Seed};
use crate::units::{Bytes, Cost, OutOfRange, Rate, Timestamp};
pub use distinct::Distinct;
pub use fair_share::{FairShare, Offered};
pub use inflight::{Inflight, Permit, Slots};
pub use inflight_by_key::{InflightByKey, KeyPermit};
pub use pending::Pending;
pub use rate::RateLimiter;

/// The kinds of limit and their numbers, as the policy file gives them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// At most `burst + rate·τ` in every interval of length τ, per key.
    Rate {
        /// How fast the budget comes back.
        rate: Rate,
        /// How much may be spent at once: at least the rule's cost.
        burst: u32,
        /// Size of the sketch, fixed for the process's life.
        memory: Bytes,
    },
    /// At most `max` requests at once, counted exactly.
    Inflight {
        /// How many, at least one.
        max: u32,
        /// What is counted together.
        scope: Scope,
    },
}

/// What an `inflight` limit counts together: things whose number the policy file fixes, so every count is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All requests under the limit.
    Global,
    /// The requests of each route.
    Route,
    /// The requests to each origin; a route that answers by itself counts as an origin of its own.
    Origin,
}

/// Where a request is counted.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The hash of the limit's key for this request. An `inflight` limit has no use for it.
    pub key: KeyHash,
    /// Position of the route in the policy.
    pub route: usize,
    /// Position of the origin in the policy, if the route has one.
    pub origin: Option<usize>,
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
    /// Nanoseconds until more budget appears; `None` when full or when that is up to others.
    pub reset_nanos: Option<u64>,
}

/// Why [`Limiter::admit`] said no although [`Limiter::probe`] had said yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// What the limit says now.
    pub judgement: Judgement,
    /// True when the race could not be settled in a bounded number of tries: counted, as it refuses without need.
    pub contended: bool,
}

/// The state of one limit.
#[derive(Debug)]
pub enum Limiter {
    /// See [`RateLimiter`].
    Rate(RateLimiter),
    /// See [`Inflight`].
    Inflight(Inflight),
}

impl Limiter {
    /// An empty limiter. `name` separates its table from those of other limits; `routes` and `origins` are how many the policy has.
    ///
    /// # Errors
    /// A burst or memory outside what [`RateLimiter::new`] takes; `config` has asked before, so that the operator hears of it.
    pub fn new(kind: &Kind, name: &str, seed: &Seed, routes: usize, origins: usize) -> Result<Limiter, OutOfRange> {
        match *kind {
            Kind::Rate { rate, burst, memory } => {
                RateLimiter::new(rate, burst, memory, seed.derive(name)).map(Limiter::Rate)
            }
            Kind::Inflight { max, scope } => Ok(Limiter::Inflight(Inflight::new(max, scope, routes, origins))),
        }
    }

    /// Whether the request would fit. Changes nothing.
    pub fn probe(&self, place: Place, now: Timestamp, cost: Cost) -> Judgement {
        match self {
            Limiter::Rate(rate) => rate.probe(place.key, now, cost),
            Limiter::Inflight(inflight) => inflight.probe(place),
        }
    }

    /// Charges the request, or says that it no longer fits and leaves the limit as it was.
    ///
    /// # Errors
    /// Another request took the last of the budget since the probe.
    pub fn admit(&self, place: Place, now: Timestamp, cost: Cost) -> Result<(Judgement, Option<Permit>), Lost> {
        match self {
            Limiter::Rate(rate) => rate.admit(place.key, now, cost).map(|judgement| (judgement, None)),
            Limiter::Inflight(inflight) => inflight.admit(place).map(|(judgement, permit)| (judgement, Some(permit))),
        }
    }

    /// The seed that the limit's keys are hashed under.
    pub fn seed(&self) -> Option<&Seed> {
        match self {
            Limiter::Rate(rate) => Some(rate.seed()),
            Limiter::Inflight(_) => None,
        }
    }

    /// The memory it holds, the same from its first request to its last.
    pub fn memory(&self) -> Bytes {
        match self {
            Limiter::Rate(rate) => rate.memory(),
            Limiter::Inflight(inflight) => inflight.memory(),
        }
    }

    /// The counters of an `inflight` limit, for gauges.
    pub fn slots(&self) -> &[Arc<Slots>] {
        match self {
            Limiter::Rate(_) => &[],
            Limiter::Inflight(inflight) => inflight.slots(),
        }
    }
}
