//! Limits of which nothing but the key differs from request to request: those are asked by a shorter way, to the same answers.
//!
//! Most limits make no exceptions, know no tiers, cost the same for every request and are enforced for all keys by this gate
//! alone. What of a rule the shorter way needs is found out once, when the policy is put in force, and lies together: so a
//! request reads a few words of each rule and not the whole of it.

use super::offered::is_share;
use crate::limiter::Limiter;
use crate::policy::{CostRule, Mode, Rule};
use crate::units::Cost;

/// What there is to know of a rule before there is a request.
#[derive(Debug, Clone, Copy)]
pub struct Brief {
    /// Whether nobody else is asked about it, no part of its keys is left out, and it is no `fair_share`: then the limiter's word is
    /// the reading.
    pub alone: bool,
    /// What every request costs, if the rule is one, makes no exceptions, and counts by a key.
    pub(super) same_for_all: Option<Cost>,
    /// Whether what a request takes comes back at its end; see [`Limiter::gives_back`].
    pub gives_back: bool,
    pub(super) mode: Mode,
    /// The number of its key, the same for rules of equal ones.
    pub(super) key: u32,
    /// Whether it counts values.
    pub(super) of_values: bool,
}

impl Brief {
    /// Of a rule whose key has this number, and that this gate counts by itself.
    pub fn new(rule: &Rule, limiter: &Limiter, key: u32) -> Brief {
        let alone = rule.enforced.get() >= 1.0 && !is_share(rule);
        let same_for_all = match rule.cost {
            CostRule::Fixed(cost) if alone && limiter.is_keyed() => Some(cost),
            _ => None,
        };
        Brief {
            alone,
            same_for_all: same_for_all.filter(|_| rule.exempt.is_empty() && rule.tiers.is_empty()),
            gives_back: limiter.gives_back(),
            mode: rule.mode,
            key,
            of_values: rule.of.is_some(),
        }
    }

    /// Of the same rule, which others are asked about, too.
    pub fn shared(self) -> Brief {
        Brief { alone: false, same_for_all: None, ..self }
    }
}
