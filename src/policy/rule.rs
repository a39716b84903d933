//! One limit: what is counted, how much of it is allowed, and whether the verdict is obeyed.

use crate::client::key::KeySpec;
use crate::limiter::Kind;
use crate::units::Cost;

/// A limit of the policy file, named or written inline in a route.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The name in metrics, logs and `RateLimit` fields: the operator's own, or `ROUTE_limit`, `ROUTE_inflight` … for an inline one.
    pub name: String,
    /// What requests are counted by.
    pub key: KeySpec,
    /// What is promised.
    pub kind: Kind,
    /// What one request takes out of the quota.
    pub cost: Cost,
    /// Whether a refusal is obeyed or only counted.
    pub mode: Mode,
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
