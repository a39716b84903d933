//! A limit's promise in the words of the fields: how much, of what, in what time.
//!
//! Each kind says its own in [`LimitKind::allowance`](crate::limiter::LimitKind::allowance). Quotas are in requests of the least cost
//! that the rule knows; where bytes are counted, in bytes.

use crate::engine::{Outcome, Reading};
use crate::limiter::kinds::{Allowance, Counts};
use crate::policy::{CostRule, Mode, Rule};

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
        let Allowance { quota, counts, .. } = kind.allowance()?;
        Some(match counts {
            // a slow average lets less than one request through in its window, and one at a time all the same
            Counts::Cost => {
                let promise = budget(quota);
                Promise { quota: promise.quota.max(promise.scale), ..promise }
            }
            Counts::Requests => Promise { quota, unit: Unit::Requests, scale: 1 },
            Counts::Concurrent => Promise { quota, unit: Unit::Concurrent, scale: 1 },
        })
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
