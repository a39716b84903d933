//! The clients and networks that the limits refuse most.

use serde::{Deserialize, Serialize};

/// The clients that the limits refuse most. Counts are halved every minute.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Offenders {
    /// All refusals.
    pub total: u64,
    /// The most that a count is too high, and the most that a client missing here was refused.
    pub error_bound: u64,
    /// The most refused first. The API calls them `offenders`.
    #[serde(alias = "offenders")]
    pub clients: Vec<Offender>,
    /// Networks with several of them.
    pub networks: Vec<Network>,
}

/// A client under a limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Offender {
    /// Its name, as in the access log.
    pub client: String,
    /// Its network (/24 or /48), as in the access log; empty where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub network: String,
    /// The limit that refused it.
    pub limit: String,
    /// The share of its requests that passed lately, estimated from a sample; `None`: too few were sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_share: Option<f64>,
    /// Refusals, at most `error` too high.
    pub count: u64,
    /// See `count`.
    pub error: u64,
    /// Share of all refusals, 0 to 1.
    pub share: f64,
    /// Time since its last refusal.
    pub last_seen_seconds_ago: u64,
}

/// A network with several refused clients.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Network {
    /// Its name, as in the access log.
    pub network: String,
    /// How many of its clients are listed.
    pub clients: u64,
    /// The share of its requests that passed lately, estimated from a sample; `None`: too few were sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_share: Option<f64>,
    /// Refusals together, at most `error` too high.
    pub count: u64,
    /// See `count`.
    pub error: u64,
    /// Share of all refusals, 0 to 1.
    pub share: f64,
}
