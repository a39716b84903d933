//! What limits tell metrics of themselves.

/// How full a table of levels is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Occupancy {
    /// The part of its cells that holds a debt, 0 to 1.
    pub fill: f64,
    /// How many keys have one, as so many cells are hit by chance (Whang, Vander-Zanden and Taylor 1990: linear counting).
    pub keys: u64,
    /// The probability that a key without a debt finds one in all of its cells. At a single moment, and before exact entries are
    /// looked at.
    pub error: f64,
}

impl Occupancy {
    /// Of a table of four rows of so many cells.
    pub fn new(fill: f64, columns: usize) -> Occupancy {
        let columns = columns as f64;
        // a full row could be hit by any number of keys; told is the least that is likely
        let empty = (1.0 - fill).max(1.0 / columns);
        Occupancy { fill, keys: (-empty.ln() * columns).round().max(0.0) as u64, error: fill.powi(4) }
    }
}

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
    /// A client's share at this moment, in requests per second, of `fair_share`.
    pub share: Option<f64>,
    /// What is shared out at this moment, in requests per second, of `fair_share`.
    pub capacity: Option<f64>,
    /// What would be admitted at this moment if the capacity did not cap it, in requests per second, of `fair_share`.
    pub offered: Option<f64>,
}
