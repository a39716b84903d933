//! What the history tells, as it is sent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::heat::Column;
use crate::observe::state::Word;

/// A route's requests per second, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "N: Deserialize<'de> + Default"))]
pub struct RoutePast<N = f32> {
    /// Passed at once, and was not failed.
    pub allowed: Vec<N>,
    /// Passed after a wait.
    pub delayed: Vec<N>,
    /// Refused by limits.
    pub limited: Vec<N>,
    /// Refused for lack of room.
    pub shed: Vec<N>,
    /// Passed and then failed by the origin: answered 5xx, or not as a whole.
    #[serde(default)]
    pub failed: Vec<N>,
}

/// A limit's decisions per second, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "N: Deserialize<'de> + Default"))]
pub struct LimitPast<N = f32> {
    /// Fitted, here and everywhere else: was served.
    pub allowed: Vec<N>,
    /// Refused.
    pub limited: Vec<N>,
    /// Did not fit, and passed.
    pub shadow: Vec<N>,
    /// Fitted, and was refused by another limit or for lack of room.
    #[serde(default)]
    pub elsewhere: Vec<N>,
}

/// An origin, second by second, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "N: Deserialize<'de> + Default"))]
pub struct OriginPast<N = f32> {
    /// Requests that were with it.
    pub inflight: Vec<N>,
    /// Cap on these; 0 without one.
    pub cap: Vec<N>,
    /// Requests that waited.
    pub queue: Vec<N>,
    /// Failed attempts per second.
    pub errors: Vec<N>,
    /// Requests without a place per second.
    pub shed: Vec<N>,
    /// Durations that 50, 95 and 99 % of the requests did not exceed until the answer's head, in seconds, over the ten seconds up to this one; 0 without any.
    pub p50: Vec<N>,
    /// See `p50`.
    pub p95: Vec<N>,
    /// See `p50`.
    pub p99: Vec<N>,
    /// Requests that ended per second.
    #[serde(default)]
    pub ended: Vec<N>,
    /// Of these, the ones answered 5xx.
    #[serde(default)]
    pub server_errors: Vec<N>,
    /// Of these, the ones that got no whole answer.
    #[serde(default)]
    pub unanswered: Vec<N>,
    /// Requests by the time to the answer's head, a column for every ten seconds of ten minutes.
    #[serde(skip)]
    pub heat: Vec<Column>,
}

/// The past by name, the oldest second first: `tidegate.history/1`. Points are kept as `f32`, and read in full as `f64`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "N: Deserialize<'de> + Default"))]
pub struct Past<N = f32> {
    /// Always `tidegate.history/1`.
    pub schema: Word,
    /// Number of the last second; `None` before the first.
    pub second: Option<u64>,
    /// By name.
    pub routes: BTreeMap<String, RoutePast<N>>,
    /// By name.
    pub limits: BTreeMap<String, LimitPast<N>>,
    /// By name.
    pub origins: BTreeMap<String, OriginPast<N>>,
}
