//! What a limit is: a key, a promise, what is counted, and what follows when it does not fit.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Method};

use super::condition::Condition;
use super::response::OwnAnswer;
use super::statuses::StatusSet;
use super::store::Shared;
use crate::client::ban_terms::BanTerms;
use crate::client::key::{KeyPart, KeySpec};
use crate::limiter::Kind;
use crate::request::Request;
use crate::sketch::Accuracy;
use crate::units::{Cost, Share};

/// A limit of the policy file, named or written inline in a route.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The name in metrics, logs and `RateLimit` fields: the operator's own, or `ROUTE_limit`, `ROUTE_inflight` … for an inline one.
    pub name: String,
    /// The name that it had before, from whose state it goes on at a reload.
    pub renamed_from: Option<String>,
    /// Since when it has been in shadow, in days since 1970-01-01, as the operator says. Nothing is decided by it.
    pub since: Option<i64>,
    /// What requests are counted by.
    pub key: KeySpec,
    /// Whether each origin is counted apart, as a further part of the key. The route fixes the origin, not the request, so it
    /// is none of the key's own parts; a route that answers by itself counts as an origin of its own.
    pub by_origin: bool,
    /// The position in [`super::Policy::rules`] of the limit that takes a request without the key (`missing: { use: NAME }`).
    /// That one never hands on in its turn.
    pub instead: Option<usize>,
    /// Of `distinct`: the thing whose values are counted. Its own answer to a missing value is that of `key`.
    pub of: Option<KeySpec>,
    /// Of `fair_share`: the key, then the networks around it from the narrow to the wide.
    pub nodes: Vec<KeySpec>,
    /// What is promised.
    pub kind: Kind,
    /// What the operator asked of its sketch instead of saying its memory, which the kind has either way.
    pub accuracy: Option<Accuracy>,
    /// The cost of a request.
    pub cost: CostRule,
    /// Which requests are charged.
    pub counted: Counted,
    /// What a CORS preflight is to it.
    pub preflights: Preflights,
    /// Whether a refusal is obeyed or only counted.
    pub mode: Mode,
    /// For which part of all keys `mode: enforce` holds; the others are counted as in `shadow`. Always the same ones.
    pub enforced: Share,
    /// Requests that the limit does not apply to: those under any of these.
    pub exempt: Vec<Condition>,
    /// Other numbers for some requests; the first whose condition holds.
    pub tiers: Vec<Tier>,
    /// What it says itself of the answer to requests that it refuses, over what their route says.
    pub response: OwnAnswer,
    /// What follows when the request does not fit.
    pub action: OnLimit,
    /// When its penalty ends in a ban; `None`: never.
    pub ban: Option<Arc<BanTerms>>,
    /// The store through which gates share it; `None`: each gate counts for itself.
    pub shared: Option<Shared>,
}

impl Rule {
    /// The most tiers that one limit may have; a decision's record names one of them in a byte.
    pub const MAX_TIERS: usize = 16;

    /// A limit that counts every request as one, refuses what does not fit, and makes no exceptions.
    pub fn new(name: impl Into<String>, key: KeySpec, kind: Kind, mode: Mode) -> Rule {
        Rule {
            name: name.into(),
            renamed_from: None,
            since: None,
            key,
            by_origin: false,
            instead: None,
            of: None,
            nodes: Vec::new(),
            kind,
            accuracy: None,
            cost: CostRule::Fixed(Cost::ONE),
            counted: Counted::Requests,
            preflights: Preflights::Apart,
            mode,
            enforced: Share::ALL,
            exempt: Vec::new(),
            tiers: Vec::new(),
            response: OwnAnswer::default(),
            action: OnLimit::Reject,
            ban: None,
            shared: None,
        }
    }

    /// The promise to requests of a tier: 0 is the limit's own, `n` that of the n-th tier.
    pub fn kind_of(&self, tier: u8) -> &Kind {
        let tier = usize::from(tier).checked_sub(1).and_then(|index| self.tiers.get(index));
        tier.and_then(|tier| tier.kind.as_ref()).unwrap_or(&self.kind)
    }

    /// Returns whether it counts this request, a preflight that its route sends on, under a key of its own.
    ///
    /// Of limits by something that a client is known by alone: what all clients have in common is used up by a preflight as by any
    /// request. Of `distinct`, which counts no request twice that has the same value, none.
    #[inline]
    pub fn counts_apart(&self, request: &Request<'_>) -> bool {
        request.method == Method::OPTIONS
            && self.preflights == Preflights::Apart
            && self.of.is_none()
            && self.key.parts().iter().any(KeyPart::is_of_client)
            && request.preflight().is_some()
    }

    /// Whether it refuses every request of a client alike, and for long: then its word is good before there is a request. Of a
    /// kind that keeps out who goes on, by `client_ip` alone, enforced for all, and without exceptions.
    pub fn keeps_out(&self) -> bool {
        let by_client = matches!(self.key.parts(), [KeyPart::ClientIp { .. }]) && !self.by_origin;
        let same_for_all = self.tiers.is_empty() && self.exempt.is_empty() && self.enforced.get() >= 1.0;
        let refuses = matches!(self.action, OnLimit::Reject | OnLimit::Close) && self.mode == Mode::Enforce;
        self.kind.keeps_out() && by_client && same_for_all && refuses
    }
}

/// Other numbers under a condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Tier {
    /// When it applies.
    pub when: Condition,
    /// The numbers, of the same kind, window and memory as the limit's own; `None` exempts.
    pub kind: Option<Kind>,
}

/// The cost of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum CostRule {
    /// A constant.
    Fixed(Cost),
    /// By method, and for all others.
    ByMethod {
        /// Methods with a cost of their own.
        methods: Vec<(Method, Cost)>,
        /// The cost of any other.
        other: Cost,
    },
    /// What the origin's answer says in this field, charged when the answer comes. Until then `estimate` is held back.
    Response {
        /// The field, whose value is a whole number.
        header: HeaderName,
        /// The least that is held back meanwhile, and what is held back while nothing is known and `max` is not given. What is held back
        /// is charged when the answer says nothing, or nothing that is a number.
        estimate: Cost,
        /// The most that an answer says, as far as the operator knows: held back while nothing is known.
        max: Option<Cost>,
    },
    /// The bytes of request and answer bodies, in units of so many bytes, charged as they pass.
    Bytes {
        /// Bytes per unit of the quota: the rate is kept in these, so that a fast one keeps its precision.
        unit: u32,
    },
}

impl CostRule {
    /// What a request must find free on entry, while no answer has said what they cost.
    #[inline]
    pub fn on_entry(&self, method: &Method) -> Cost {
        match self {
            CostRule::Fixed(cost) => *cost,
            CostRule::ByMethod { methods, other } => {
                methods.iter().find(|(named, _)| named == method).map_or(*other, |(_, cost)| *cost)
            }
            CostRule::Response { estimate, max, .. } => max.unwrap_or(*estimate),
            CostRule::Bytes { .. } => Cost::ONE,
        }
    }

    /// The least that any request costs; the fields of an answer tell the quota in requests of this cost.
    pub fn least(&self) -> Cost {
        match self {
            CostRule::Fixed(cost) => *cost,
            CostRule::ByMethod { methods, other } => methods.iter().map(|(_, cost)| *cost).fold(*other, Cost::min),
            CostRule::Response { estimate, .. } => *estimate,
            CostRule::Bytes { .. } => Cost::ONE,
        }
    }

    /// Whether the charge is only known when the answer comes.
    pub fn is_deferred(&self) -> bool {
        matches!(self, CostRule::Response { .. })
    }
}

/// Which requests are charged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counted {
    /// All that are admitted (`recent_average` counts refused ones besides, if its kind says so).
    Requests,
    /// Those whose answer has one of these statuses. Until it comes, the attempt is held as pending.
    Responses(StatusSet),
}

/// What a CORS preflight is to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Preflights {
    /// It takes nothing from requests: one that the gate answers is not counted, one that goes to an origin is counted under a key of
    /// its own, by the same numbers.
    Apart,
    /// A request like any other.
    Count,
}

/// What follows when a request does not fit an enforced limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnLimit {
    /// It is refused.
    Reject,
    /// It is refused, and its connection closed.
    Close,
    /// It waits until it fits, if that is at most `max` away; otherwise it is refused.
    Delay {
        /// The longest wait.
        max: Duration,
    },
    /// It passes, uncharged, with the limit's name in this field towards the origin. A client's own field of that name is
    /// always removed.
    Tag {
        /// The field.
        header: HeaderName,
    },
}

/// Whether a limit decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Its refusals are answered.
    Enforce,
    /// Its refusals are counted and logged, never obeyed.
    Shadow,
}

impl Mode {
    /// The YAML word and metric label.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Enforce => "enforce",
            Mode::Shadow => "shadow",
        }
    }
}
