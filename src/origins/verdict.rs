//! What active checks have found out about one address.
//!
//! An address that was never checked is in use, as nothing speaks against it. The first check decides at once if it is well;
//! to be taken out an address must fail several in a row, and to come back pass several in a row, so that neither one lost
//! packet nor one lucky moment changes anything.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::policy::HealthCheck;
use crate::units::Timestamp;

/// What is thought of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is known: in use.
    Unchecked,
    /// It passes its checks: in use.
    Healthy,
    /// It does not: left out.
    Unhealthy,
}

/// The verdict and how many checks in a row speak against it. One task writes it, requests read it.
#[derive(Debug, Default)]
pub struct Checked {
    /// The verdict in the lowest two bits, the checks above. Relaxed: the word stands for itself.
    word: AtomicU32,
    /// When it last became healthy after it had been unhealthy, in nanoseconds; zero if that never was. Written before the
    /// verdict that makes it matter; a request that still reads the old number gives the address its whole share for a moment.
    returned: AtomicU64,
}

impl Checked {
    /// The verdict at this moment.
    pub fn verdict(&self) -> Verdict {
        verdict_in(self.word.load(Ordering::Relaxed))
    }

    /// When the address last came back; [`Timestamp::ZERO`] if it was never out.
    pub fn returned(&self) -> Timestamp {
        Timestamp::from_nanos(self.returned.load(Ordering::Relaxed))
    }

    /// A check has ended; gives the new verdict if it is another one. To be called by one task only.
    pub fn note(&self, spec: &HealthCheck, passed: bool, now: Timestamp) -> Option<Verdict> {
        let word = self.word.load(Ordering::Relaxed);
        let (before, row) = (verdict_in(word), (word >> 2).saturating_add(1));
        let (after, row) = match (before, passed) {
            (Verdict::Unchecked | Verdict::Healthy, true) => (Verdict::Healthy, 0),
            (Verdict::Unhealthy, false) => (Verdict::Unhealthy, 0),
            (Verdict::Unhealthy, true) if row >= spec.healthy_after => (Verdict::Healthy, 0),
            (Verdict::Unchecked | Verdict::Healthy, false) if row >= spec.unhealthy_after => (Verdict::Unhealthy, 0),
            (still, _) => (still, row),
        };
        if (before, after) == (Verdict::Unhealthy, Verdict::Healthy) {
            self.returned.store(now.nanos(), Ordering::Relaxed);
        }
        self.word.store((row << 2) | code(after), Ordering::Relaxed);
        (before != after).then_some(after)
    }
}

fn code(verdict: Verdict) -> u32 {
    match verdict {
        Verdict::Unchecked => 0,
        Verdict::Healthy => 1,
        Verdict::Unhealthy => 2,
    }
}

fn verdict_in(word: u32) -> Verdict {
    match word & 3 {
        0 => Verdict::Unchecked,
        1 => Verdict::Healthy,
        _ => Verdict::Unhealthy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(checks: &str) -> (Verdict, Timestamp) {
        let spec = HealthCheck { healthy_after: 2, unhealthy_after: 3, ..HealthCheck::default() };
        let checked = Checked::default();
        for (n, passed) in checks.bytes().enumerate() {
            let before = checked.verdict();
            let changed = checked.note(&spec, passed == b'+', Timestamp::from_nanos(n as u64 + 1));
            assert_eq!(changed, (checked.verdict() != before).then(|| checked.verdict()), "told once per change");
        }
        (checked.verdict(), checked.returned())
    }

    #[test]
    fn several_in_a_row_decide_and_the_first_good_one_at_once() {
        let expected = [
            ("", Verdict::Unchecked),
            ("+", Verdict::Healthy),
            ("--", Verdict::Unchecked),
            ("---", Verdict::Unhealthy),
            ("--+--", Verdict::Healthy),
            ("+--+--+", Verdict::Healthy),
            ("+---", Verdict::Unhealthy),
            ("+---+", Verdict::Unhealthy),
            ("+---+-+", Verdict::Unhealthy),
            ("+---++", Verdict::Healthy),
            ("+---++--", Verdict::Healthy),
            ("+---++---", Verdict::Unhealthy),
        ];
        for (checks, verdict) in expected {
            assert_eq!(after(checks).0, verdict, "{checks}");
        }
    }

    #[test]
    fn it_is_known_since_when_an_address_is_back() {
        assert_eq!(after("++").1, Timestamp::ZERO, "it was never out");
        assert_eq!(after("+---++").1, Timestamp::from_nanos(6));
        assert_eq!(after("+---++--+").1, Timestamp::from_nanos(6));
    }
}
