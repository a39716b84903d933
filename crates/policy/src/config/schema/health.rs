//! What is said of origins that may be sick: `health`, `ejection`, `adaptive`.

use std::time::Duration;

use crate::config::health_text::{CheckHost, HealthyStatuses, TargetText};
use crate::config::pattern::ExactPath;
use crate::config::scalar::Count;
use crate::config::section::section;
use crate::config::word::ProbeWord;
use crate::limiter::adaptive::Algorithm;
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
        /// The statuses of a server that is well: ranges, classes and single ones with commas between. Default `2xx,3xx`.
        optional status: HealthyStatuses,
        /// From one check to the next, a tenth earlier or later, 100ms to 1h. Default 5s.
        optional every: Duration,
        /// How long one check may take, 1ms up to `every`. Default 1s.
        optional timeout: Duration,
        /// How many passed checks in a row bring a server back, 1 to 100. Default 2.
        optional healthy_after: Count,
        /// How many failed checks in a row take it out, 1 to 100. Default 3.
        optional unhealthy_after: Count,
    }
    later: []
}

section! {
    /// When a server is left out because requests to it fail: no connection, no answer in time, a broken answer, or 502, 503,
    /// 504.
    Ejection ("a map such as `{}`") {
        /// So many failures in a row, 1 to 1000. Default 5.
        optional consecutive_failures: Count,
        /// Or this share of the requests in a window. Default 50%.
        optional error_share: Share,
        /// The window, aligned to the clock, 1s to 1h. Default 10s.
        optional window: Duration,
        /// With fewer requests in the window its share means nothing, 1 to 1000000. Default 20.
        optional min_requests: Count,
        /// How long the first time lasts, 100ms to 1h; each further one twice as long, and every window without one takes a
        /// doubling back. Default 10s.
        optional base: Duration,
        /// How long one lasts at most, up to 24h. Default 5m.
        optional max: Duration,
        /// The share of the servers that may be left out at once, rounded down; one if there are two or more, and never all.
        /// Default 50%.
        optional most: Share,
    }
    later: []
}

section! {
    /// Finds out how many requests the origin should have at once, and moves the in-flight cap between `min` and
    /// `inflight.max`. Default off.
    Adaptive ("a map such as `{ target: p95<300ms }`") {
        /// `aimd` (default): one more while all is well, a tenth less when it is not. `gradient`: by the growth of the time to
        /// answer, for routes that all take about the same time.
        optional algorithm: Algorithm,
        /// The least that the cap may be, and where it starts; 1 up to `inflight.max`. Default 10, or `inflight.max` if that is
        /// less.
        optional min: Count,
        /// What is slow: `p95<300ms`, of a hundred answers at most five may take longer. Without it only failures are a sign
        /// of overload, and for `gradient` times that grow.
        optional target: TargetText,
    }
    later: []
}
