//! The total: one exact bucket over everything, in one word.
//!
//! The promise that holds whatever the estimates say: at most `C·(τ + ¼ s)` pass in every interval of length τ in which
//! the capacity C stands (eight requests more than C·τ if a quarter second of C is less than that). So at most 5 %
//! above C in every interval of five seconds or more. Source: the generic cell rate algorithm, ITU-T I.371 (virtual
//! scheduling form), whose interval may change here.
//!
//! How far the bucket is spent is also the fastest sign of pressure there is; the controller reads it as
//! [`Total::spent`].

use super::word::Word;
use crate::units::Timestamp;

/// The bucket's depth in time, and so the share by which five seconds may exceed the capacity: 0.25 s / 5 s = 5 %.
const DEPTH_NANOS: u64 = 250_000_000;

/// The bucket's depth in requests, where the capacity is so small that [`DEPTH_NANOS`] would be less: a browser's six
/// connections must fit.
const LEAST_BURST: u64 = 8;

/// After this many lost races in a row a request is refused; each lost one means that another request got on.
const MAX_ATTEMPTS: u32 = 64;

/// The one bucket that everything is charged to.
#[derive(Debug, Default)]
pub struct Total<W> {
    /// The theoretical arrival time, in nanoseconds: when the bucket will be full again.
    level: W,
    /// Nanoseconds per request; zero means that there is no limit.
    interval: W,
}

/// What the total has to say against a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// Nanoseconds until one request fits, if nothing else is charged until then.
    pub retry_nanos: u64,
    /// Refused because others moved the word every time, and not because it was full.
    pub contended: bool,
}

impl<W: Word> Total<W> {
    /// Whether one request fits. Changes nothing.
    ///
    /// # Errors
    /// It does not.
    #[inline]
    pub fn probe(&self, now: Timestamp) -> Result<(), Full> {
        match self.interval.load() {
            0 => Ok(()),
            interval => charged(self.level.load(), interval, now).map(|_| ()),
        }
    }

    /// Charges one request.
    ///
    /// # Errors
    /// It does not fit, and nothing was charged.
    #[inline]
    pub fn charge(&self, now: Timestamp) -> Result<(), Full> {
        let interval = self.interval.load();
        if interval == 0 {
            return Ok(());
        }
        for _ in 0..MAX_ATTEMPTS {
            // Acquire is more than this needs: the word carries the whole state, and its exchanges are totally ordered,
            // so that each admitted request was charged on top of all before it.
            let level = self.level.load();
            let next = charged(level, interval, now)?;
            if self.level.exchange(level, next) {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        Err(Full { retry_nanos: interval, contended: true })
    }

    /// Which part of the bucket is spent, 0 to 1; 0 without a limit.
    #[inline]
    pub fn spent(&self, now: Timestamp) -> f64 {
        match self.interval.load() {
            0 => 0.0,
            interval => (self.level.load().saturating_sub(now.nanos()) as f64 / depth(interval) as f64).min(1.0),
        }
    }

    /// From now on the capacity is `per_second`, 1e-5 to 1e7. What is spent stays spent, as the same number of
    /// requests, but for what the new bucket cannot hold. Only one thread may do this at a time; requests that are
    /// charged meanwhile may still go by the old number.
    pub fn set_rate(&self, per_second: f64, now: Timestamp) {
        let old = self.interval.load();
        // rounded up: the promise is never exceeded
        let interval = (1e9 / per_second).ceil().clamp(1.0, 1e14) as u64;
        for _ in 0..MAX_ATTEMPTS {
            let level = self.level.load();
            let ahead = u128::from(level.saturating_sub(now.nanos()));
            let scaled = if old == 0 { 0 } else { ahead * u128::from(interval) / u128::from(old) };
            let ahead = u64::try_from(scaled).unwrap_or(u64::MAX).min(depth(interval));
            // a level that lies in the past stays there
            let next = if level <= now.nanos() { level } else { now.nanos().saturating_add(ahead) };
            if self.level.exchange(level, next) {
                break;
            }
        }
        self.interval.store(interval);
    }
}

/// The level after one request more.
#[inline]
fn charged(level: u64, interval: u64, now: Timestamp) -> Result<u64, Full> {
    let next = level.max(now.nanos()).saturating_add(interval);
    let over = next.saturating_sub(now.nanos()).saturating_sub(depth(interval));
    if over == 0 && next < u64::MAX { Ok(next) } else { Err(Full { retry_nanos: over.max(1), contended: false }) }
}

#[inline]
fn depth(interval: u64) -> u64 {
    DEPTH_NANOS.max(interval.saturating_mul(LEAST_BURST))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    fn spend_all(total: &Total<AtomicU64>, now: u64) -> usize {
        (0..1_000_000).take_while(|_| total.charge(at(now)).is_ok()).count()
    }

    #[test]
    fn without_a_rate_everything_passes() {
        let total = Total::<AtomicU64>::default();
        assert_eq!(spend_all(&total, SECOND), 1_000_000);
        assert_eq!(total.spent(at(SECOND)), 0.0);
    }

    #[test]
    fn a_quarter_second_passes_at_once_and_then_the_rate() {
        let total = Total::<AtomicU64>::default();
        total.set_rate(1_000.0, at(SECOND));
        assert_eq!(spend_all(&total, SECOND), 250);
        assert_eq!(total.spent(at(SECOND)), 1.0);
        assert_eq!(total.probe(at(SECOND)), Err(Full { retry_nanos: 1_000_000, contended: false }));
        assert_eq!(total.probe(at(SECOND + 999_999)), Err(Full { retry_nanos: 1, contended: false }));
        assert_eq!(total.probe(at(SECOND + 1_000_000)), Ok(()));
        assert_eq!(spend_all(&total, 2 * SECOND), 250);
    }

    #[test]
    fn at_a_small_rate_eight_requests_fit() {
        let total = Total::<AtomicU64>::default();
        total.set_rate(0.5, at(SECOND));
        assert_eq!(spend_all(&total, SECOND), 8);
    }

    #[test]
    fn a_new_rate_keeps_what_is_spent_but_never_parks_the_bucket_beyond_its_depth() {
        let total = Total::<AtomicU64>::default();
        total.set_rate(0.1, at(SECOND));
        assert_eq!(spend_all(&total, SECOND), 8);
        total.set_rate(1_000.0, at(SECOND));
        assert_eq!(spend_all(&total, SECOND), 242, "eight of 250 are spent");
        total.set_rate(10.0, at(SECOND));
        assert_eq!(total.spent(at(SECOND)), 1.0);
        assert_eq!(spend_all(&total, SECOND + SECOND / 10), 1);
    }

    #[test]
    fn a_clock_that_steps_back_only_refuses_more_and_the_end_of_time_refuses() {
        let total = Total::<AtomicU64>::default();
        total.set_rate(1_000.0, at(5 * SECOND));
        assert_eq!(spend_all(&total, 5 * SECOND), 250);
        assert_eq!(spend_all(&total, SECOND), 0);
        assert_eq!(spend_all(&total, 6 * SECOND), 250);
        assert_eq!(spend_all(&total, u64::MAX), 0);
    }
}
