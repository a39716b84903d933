//! A limit's promise in the words of the fields: how much, of what, in what time.
//!
//! | kind | `q` | `w` |
//! |---|---|---|
//! | `rate` | the burst | until an empty budget is full again |
//! | `quota` | what a window has | the window; of a day, week or month 1, 7 or 31 days |
//! | `recent_average` | what the average lets through in `w` | the half-life, in whole seconds |
//! | `distinct` | how many different values | the period |
//! | `inflight` per key | how many at once | – |
//!
//! Quotas are in requests of the least cost that the rule knows; where bytes are counted, in bytes. `fair_share` and the
//! exact `inflight` limits are not told: how full the gate or an origin is, is not the client's business.

use std::time::Duration;

use crate::engine::{Outcome, Reading};
use crate::limiter::Scope;
use crate::policy::{CostRule, Kind, Mode, Rule};
use crate::units::Rate;

/// What is told of one limit, whoever asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Promise {
    /// `q`.
    pub quota: u64,
    /// `qu`.
    pub unit: Unit,
    /// How many of `unit` one unit of a reading is.
    scale: u64,
}

/// What a quota counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Requests, which is what a client assumes when nothing is said.
    Requests,
    /// Bytes of bodies.
    Bytes,
    /// Requests under way.
    Concurrent,
}

impl Unit {
    /// The value of `qu`; `None` for the one that needs no saying.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Unit::Requests => None,
            Unit::Bytes => Some("content-bytes"),
            Unit::Concurrent => Some("concurrent-requests"),
        }
    }
}

impl Promise {
    /// The promise to requests of a tier; `None` for limits that are not told.
    pub fn of(rule: &Rule, tier: u8) -> Option<Promise> {
        if rule.mode == Mode::Shadow {
            return None;
        }
        let kind = rule.kind_of(tier);
        let budget = |units: u64| match rule.cost {
            CostRule::Bytes { unit } => {
                let scale = u64::from(unit.max(1));
                Promise { quota: units.saturating_mul(scale), unit: Unit::Bytes, scale }
            }
            _ => Promise { quota: units / u64::from(rule.cost.least().get()), unit: Unit::Requests, scale: 1 },
        };
        match kind {
            Kind::Rate { burst, .. } => Some(budget(u64::from(*burst))),
            Kind::Quota { max, .. } => Some(budget(u64::from(*max))),
            Kind::RecentAverage { rate, half_life, .. } => {
                let promise = budget(events_in(*rate, ceil_whole_seconds(*half_life)));
                // a slow average lets less than one request through in its half-life, and one at a time all the same
                Some(Promise { quota: promise.quota.max(promise.scale), ..promise })
            }
            // repeats are free and every new value counts as one, whatever a request costs elsewhere
            Kind::Distinct { max, .. } => Some(Promise { quota: u64::from(*max), unit: Unit::Requests, scale: 1 }),
            Kind::Inflight { max, scope: Scope::Key { .. }, .. } => {
                Some(Promise { quota: u64::from(*max), unit: Unit::Concurrent, scale: 1 })
            }
            Kind::Inflight { .. } | Kind::FairShare { .. } => None,
        }
    }

    /// `r`: never more than the quota, and nothing for a request that did not fit.
    pub fn remaining(&self, reading: &Reading) -> u64 {
        match reading.outcome {
            Outcome::Refused | Outcome::Tagged => 0,
            Outcome::Admitted | Outcome::Delayed | Outcome::Exempt => {
                u64::from(reading.remaining).saturating_mul(self.scale).min(self.quota)
            }
        }
    }

    /// `t`, in nanoseconds: until a request fits when it did not, until the next part of the budget comes back when it
    /// did; `None` when no wait helps, when the budget is full, and where it is up to the client's own other requests.
    pub fn reset_nanos(&self, reading: &Reading) -> Option<u64> {
        match (self.unit, reading.outcome) {
            (Unit::Concurrent, _) => None,
            (_, Outcome::Refused | Outcome::Tagged) => reading.retry_nanos,
            (_, Outcome::Admitted | Outcome::Delayed | Outcome::Exempt) => reading.reset_nanos(),
        }
    }
}

/// `w`: the time that the quota is for, in seconds, rounded up; `None` below one, and for limits that are not about time.
pub(super) fn window(kind: &Kind) -> Option<u64> {
    match kind {
        Kind::Rate { rate, burst, .. } => {
            // from the rate as it was written, because its interval is rounded
            let span = u128::from(*burst) * rate.period().as_nanos();
            let second = u128::from(rate.events()) * NANOS;
            (span >= second).then(|| saturating(span.div_ceil(second)))
        }
        Kind::Quota { window, .. } => Some(ceil_whole_seconds(window.nominal())),
        Kind::Distinct { window, .. } => (*window >= Duration::from_secs(1)).then(|| ceil_whole_seconds(*window)),
        Kind::RecentAverage { half_life, .. } => Some(ceil_whole_seconds(*half_life)),
        Kind::FairShare { .. } | Kind::Inflight { .. } => None,
    }
}

const NANOS: u128 = 1_000_000_000;

/// What a rate comes to in so many seconds, rounded down.
fn events_in(rate: Rate, seconds: u64) -> u64 {
    let events = u128::from(rate.events()) * u128::from(seconds) * NANOS;
    saturating(events / rate.period().as_nanos().max(1))
}

/// At least one.
fn ceil_whole_seconds(span: Duration) -> u64 {
    saturating(span.as_nanos().div_ceil(NANOS)).max(1)
}

fn saturating(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
