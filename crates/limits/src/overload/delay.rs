//! The scheduling delay, out of what a probe saw.
//!
//! A probe is a task that asks to be woken after a while and notes how late it was. Between two notes the delay is at least the time
//! that the probe is overdue, provided that other work was done meanwhile: then the probe stands in a queue. If nothing was done, a
//! single task holds the worker or the machine stands still, and nobody would be helped by a refusal.

use std::time::Duration;

/// The delay, if the last probe was `late`, the present one is `overdue`, and other work was begun (`progress`) since it was due.
pub fn standing(late: Duration, overdue: Duration, progress: bool) -> Duration {
    if progress { late.max(overdue) } else { late }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_that_is_overdue_counts_only_while_others_are_served() {
        let (late, overdue) = (Duration::from_millis(3), Duration::from_millis(80));
        assert_eq!(standing(late, overdue, true), overdue);
        assert_eq!(standing(late, overdue, false), late);
        assert_eq!(standing(overdue, late, true), overdue);
    }
}
