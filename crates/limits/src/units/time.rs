//! Instants as plain numbers, so that a test, a replay and a live request run the same code.

use std::time::Duration;

/// Nanoseconds since an origin chosen by the face that made it; `u64` reaches 584 years.
///
/// Always an argument named `now`, never fetched below the faces. A stamp that is older than one seen before means
/// "no time has passed": every difference saturates at zero, every sum at the far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The origin itself.
    pub const ZERO: Timestamp = Timestamp(0);

    /// The instant `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Timestamp {
        Timestamp(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// The instant `span` later, or the far end of time.
    pub fn after(self, span: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(saturating_nanos(span)))
    }

    /// How long ago `earlier` was; zero when it is not earlier.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// A duration in nanoseconds, clamped to what a `u64` holds (584 years).
pub fn saturating_nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Whole seconds, rounded up: a wait told to a client must never be too short.
pub fn ceil_seconds(nanos: u64) -> u64 {
    nanos.div_ceil(1_000_000_000)
}

/// A duration as the policy file writes it, in whole milliseconds: `1m30s`, `250ms`, `0s`.
pub fn written(span: Duration) -> String {
    let mut millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".into();
    }
    let mut text = String::new();
    for (size, unit) in [(3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")] {
        if millis >= size {
            text.push_str(&format!("{}{unit}", millis / size));
            millis %= size;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_steps_back_counts_as_no_time_passing() {
        let late = Timestamp::from_nanos(50);
        let early = Timestamp::from_nanos(20);
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(late.since(early), Duration::from_nanos(30));
    }

    #[test]
    fn sums_stop_at_the_far_end() {
        assert_eq!(Timestamp::from_nanos(u64::MAX).after(Duration::MAX).nanos(), u64::MAX);
    }

    #[test]
    fn seconds_are_rounded_up() {
        assert_eq!(ceil_seconds(0), 0);
        assert_eq!(ceil_seconds(1), 1);
        assert_eq!(ceil_seconds(1_000_000_000), 1);
        assert_eq!(ceil_seconds(1_000_000_001), 2);
    }
}
