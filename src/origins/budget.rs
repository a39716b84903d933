//! How much may be tried again: a share of what is asked, so that an outage is never made worse by repetition.
//!
//! The promise, for a share s: within any time of τ seconds in which n requests begin, at most `s·n + 10 + 3·τ + 3` are
//! tried again. Every request deposits s of a token, up to ten; a retry takes one. Three per second are free of that, so that a
//! service with a request a second can repeat one at all.
//!
//! Source: Linkerd and Finagle, `RetryBudget` (ratio, minimum per second); the free part is a generic cell rate algorithm
//! (ITU-T I.371).

use std::sync::atomic::{AtomicU64, Ordering};

use crate::units::{Share, Timestamp};

/// One token.
const TOKEN: u64 = 1_000_000;

/// The most that quiet times save up: enough for the first moments of an outage, and no more than ten requests more than the
/// share at its end.
const SAVED: u64 = 10 * TOKEN;

/// The free retries: one per third of a second, three at once.
const FREE_INTERVAL: u64 = 333_333_334;
const FREE_DEPTH: u64 = 3 * FREE_INTERVAL;

/// The budget of one origin. Two words, no lock.
#[derive(Debug)]
pub struct RetryBudget {
    /// What one request deposits.
    deposit: u64,
    /// Relaxed: nothing is published by it, and each exchange builds on the one before.
    saved: AtomicU64,
    /// When the free part is whole again, in nanoseconds.
    free: AtomicU64,
}

impl RetryBudget {
    /// With nothing saved up.
    pub fn new(share: Share) -> RetryBudget {
        // 0 to 1, so that it fits
        let deposit = (share.get() * TOKEN as f64).floor() as u64;
        RetryBudget { deposit, saved: AtomicU64::new(0), free: AtomicU64::new(0) }
    }

    /// A request has begun.
    pub fn request(&self) {
        let _ = self.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |saved| {
            (saved < SAVED).then(|| (saved + self.deposit).min(SAVED))
        });
    }

    /// Takes what a retry costs, if it is there.
    #[must_use = "what was not taken must not be tried again"]
    pub fn retry(&self, now: Timestamp) -> bool {
        let now = now.nanos();
        let free = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |whole| {
            let next = whole.max(now).saturating_add(FREE_INTERVAL);
            (next - now <= FREE_DEPTH).then_some(next)
        });
        free.is_ok()
            || self.saved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |saved| saved.checked_sub(TOKEN)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn three_are_free_and_then_a_share() {
        let budget = RetryBudget::new(Share::new(0.1).unwrap());
        assert_eq!((0..10).filter(|_| budget.retry(ms(1_000))).count(), 3);
        for _ in 0..50 {
            budget.request();
        }
        assert_eq!((0..10).filter(|_| budget.retry(ms(1_000))).count(), 5, "a tenth of fifty");
        for _ in 0..100_000 {
            budget.request();
        }
        assert_eq!((0..100).filter(|_| budget.retry(ms(1_000))).count(), 10, "no more is saved up");
        assert_eq!((0..100).filter(|_| budget.retry(ms(2_001))).count(), 3, "a second later");
    }

    #[test]
    fn no_share_leaves_the_free_ones() {
        let budget = RetryBudget::new(Share::new(0.0).unwrap());
        (0..1_000).for_each(|_| budget.request());
        assert_eq!((0..100).filter(|_| budget.retry(ms(1_000))).count(), 3);
    }

    #[test]
    fn a_clock_that_steps_back_gives_nothing_away() {
        let budget = RetryBudget::new(Share::new(0.0).unwrap());
        assert_eq!((0..9).filter(|_| budget.retry(ms(5_000))).count(), 3);
        assert_eq!((0..9).filter(|_| budget.retry(ms(1_000))).count(), 0);
    }

    proptest! {
        #[test]
        fn never_more_than_promised_within_any_time(
            share in 0.0_f64..=1.0,
            steps in prop::collection::vec((0_u64..400, 0_u8..12, 0_u8..12), 1..200),
        ) {
            let budget = RetryBudget::new(Share::new(share).unwrap());
            let (mut now, mut events) = (1_000, Vec::new());
            for (later, requests, retries) in steps {
                now += later;
                (0..requests).for_each(|_| budget.request());
                let granted = (0..retries).filter(|_| budget.retry(ms(now))).count();
                events.push((now, f64::from(requests), granted as f64));
            }
            for from in 0..events.len() {
                let (mut asked, mut granted) = (0.0, 0.0);
                for (at, requests, retries) in &events[from..] {
                    asked += requests;
                    granted += retries;
                    let seconds = (at - events[from].0) as f64 / 1e3;
                    prop_assert!(granted <= share * asked + 10.0 + 3.0 * seconds + 3.0 + 1e-6);
                }
            }
        }
    }
}
