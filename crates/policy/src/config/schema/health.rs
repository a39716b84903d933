//! What is said of origins that may be sick: `health`, `ejection`, `adaptive`.

use std::time::Duration;

use crate::config::health_text::{CheckHost, HealthyStatuses, TargetText};
use crate::config::pattern::ExactPath;
use crate::config::scalar::Count;
use crate::config::section::section;
use crate::config::word::ProbeWord;
use crate::limiter::adaptive::Algorithm;
use crate::policy::Ejection;
use crate::units::Share;

section! {
    /// Checks that ask every server of an origin whether it is well. A server that was never checked is in use.
    Health ("a map such as `{ path: /healthz }`") {
        /// What is asked for with a GET. Without it, checks only connect.
        optional path: ExactPath,
        /// `http` (default with a `path`) or `tcp`, which only connects.
        optional r#type: ProbeWord,
        /// The `Host` that is asked for. Default: the address.
        optional host: CheckHost,
        /// The statuses of a server that is well: ranges, classes and single ones with commas between.
        // an answer that was sent on, or says where to go, comes from a server that works
        optional status: HealthyStatuses [default 2xx,3xx],
        /// From one check to the next, a tenth earlier or later.
        // with three misses a dead address is left out after 16 s at most, and a service with ten addresses is asked twice a second
        optional every: Duration [100ms to 1h, default 5s],
        /// How long one check may take, at most `every`.
        optional timeout: Duration [1ms to 1h, default 1s],
        /// How many passed checks in a row bring a server back.
        // one could be the last before the next crash
        optional healthy_after: Count [1 to 100, default 2],
        /// How many failed checks in a row take it out.
        optional unhealthy_after: Count [1 to 100, default 3],
    }
    later: []
}

section! {
    /// When a server is left out because requests to it fail: no connection, no answer in time, a broken answer, or 502, 503,
    /// 504.
    values Ejection ("a map such as `{}`") {
        /// So many failures in a row.
        optional consecutive_failures: Count [1 to 1000, default 5],
        /// Or this share of the requests in a window, above 0%.
        // half of the requests is more than any one bad page makes
        optional error_share: Share [default 50%],
        /// The window, aligned to the clock.
        optional window: Duration [1s to 1h, default 10s],
        /// With fewer requests in the window its share means nothing.
        // below this many two unlucky ones would be a tenth
        optional min_requests: Count [1 to 1000000, default 20],
        /// How long the first time lasts; each further one twice as long, and every window without one takes a doubling back.
        optional base: Duration [100ms to 1h, default 10s],
        /// How long one lasts at most; `base` at least.
        optional max: Duration [100ms to 24h, default 5m],
        /// The share of the servers that may be left out at once, above 0%, rounded down; one if there are two or more, and never
        /// all.
        // with more than half of the servers out, the rest would get more than twice their load
        optional most: Share [default 50%],
    }
    later: []
}

section! {
    /// Finds out how many requests the origin should have at once, and moves the in-flight cap between `min` and
    /// `inflight.max`. Default off.
    Adaptive ("a map such as `{ target: p95<300ms }`") {
        /// `aimd`: one more while all is well, a tenth less when it is not. `gradient`: by the growth of the time to
        /// answer, for routes that all take about the same time.
        optional algorithm: Algorithm [default aimd],
        /// The least that the cap may be, and where it starts; 1 up to `inflight.max`. Default 10, or `inflight.max` if that is
        /// less.
        optional min: Count,
        /// What is slow: `p95<300ms`, of a hundred answers at most five may take longer. Without it only failures are a sign
        /// of overload, and for `gradient` times that grow.
        optional target: TargetText,
    }
    later: []
}
