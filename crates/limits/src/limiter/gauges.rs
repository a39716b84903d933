//! What limits tell metrics of themselves.

/// What a limit can say of its own state, for metrics; what does not apply to its kind is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Gauges {
    /// Places taken, of `inflight`.
    pub inflight: Option<u64>,
    /// Connections that were switched to another protocol, of `inflight`.
    pub upgraded: Option<u64>,
    /// Bytes that it holds, the same from its first request to its last.
    pub memory: u64,
    /// Keys that are counted exactly, of `rate`, `quota` and `recent_average`.
    pub exact_keys: Option<u64>,
    /// How full the set of seen values is, 0 to 1, of `distinct`.
    pub load: Option<f64>,
    /// Values that had to make room for others before their time, of `distinct`.
    pub displaced: Option<u64>,
    /// Units held back for attempts whose answer has not come.
    pub pending: Option<u64>,
    /// What is shared out, in requests per second, of `fair_share`.
    pub capacity: Option<f64>,
    /// How many requests may go on at this moment, of `fair_share`.
    pub tokens: Option<f64>,
    /// How many of those the heaviest leave to lighter ones, of `fair_share`.
    pub kept: Option<f64>,
    /// How many requests wait, of `fair_share`.
    pub waiting: Option<u64>,
}
