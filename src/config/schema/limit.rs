//! `limits`.

use crate::client::key::Missing;
use crate::config::limit_text::LimitKey;
use crate::config::scalar::Count;
use crate::config::section::section;
use crate::config::shape::OneOrMany;
use crate::config::word::LimitType;
use crate::policy::Mode;
use crate::units::{Bytes, Rate};

section! {
    /// One limit.
    Limit ("a map with `rate` or `max`") {
        /// What is promised. `rate` (default): at most `burst` + `rate`·t requests in any time t, per key. `inflight`: at
        /// most `max` at once.
        optional r#type: LimitType,
        /// What requests are counted by: `client_ip` (default), `header:NAME`, `cookie:NAME`, `query:NAME`, `host`, `path`,
        /// `method`, `method_class`, `route`, `global`, or a list of up to 4 of them. For `inflight`: `global` (default),
        /// `route` or `origin`, each counted exactly.
        optional key: OneOrMany<LimitKey>,
        /// What happens to a request without the header, cookie or parameter of the key: `allow` (not counted) or `deny`
        /// (refused). Must be said when the key has one of these.
        optional missing: Missing,
        /// How fast the budget comes back: `10/s`, `5/m`, `1000/h`, `100/10s`. For `rate`; must be given.
        optional rate: Rate,
        /// How much may be spent at once. Default: one second's worth, at least 1 and at least `cost`. For `rate`.
        optional burst: Count,
        /// The size of the sketch that counts, for any number of keys. Default `4MiB`; `tidegate check -v` prints the
        /// error that it buys. For `rate`.
        optional memory: Bytes,
        /// What one request takes out of the budget. Default 1. For `rate`.
        optional cost: Count,
        /// Whether the limit is obeyed (`enforce`) or only counted and logged (`shadow`). Default: that of `defaults`.
        optional mode: Mode,
        /// How many at once. For `inflight`; must be given.
        optional max: Count,
    }
    later: [
        "action", "count", "cost_estimate", "tiers", "store", "on_store_error", "enforce", "exempt", "of", "window",
        "half_life", "tree", "weights", "renamed_from", "since", "queue"
    ]
}
