//! `type: rate`: at most `burst + rate·τ` per key in **every** interval of length τ.
//!
//! A token bucket per key in a monotone sketch of fixed size. A refused request costs four loads and writes nothing. The
//! error is one-sided: colliding keys can only make a key refused early, with the probability that `tidegate check -v` prints.
//! A changed rate or burst keeps the state and re-rates it: the levels are instants, which the new numbers judge anew.

use super::{Judgement, Lost};
use crate::sketch::{Admission, Bucket, KeyHash, Meter, MonotoneTable, Seed};
use crate::units::{Bytes, Cost, OutOfRange, Rate, Timestamp};

/// The state of one `rate` limit: its bucket's numbers and the levels of all keys.
#[derive(Debug)]
pub struct RateLimiter {
    bucket: Bucket,
    table: MonotoneTable,
    seed: Seed,
}

impl RateLimiter {
    /// An empty limiter: every key has its whole burst.
    ///
    /// # Errors
    /// What [`Bucket::new`] and [`MonotoneTable::with_memory`] refuse.
    pub fn new(rate: Rate, burst: u32, memory: Bytes, seed: Seed) -> Result<RateLimiter, OutOfRange> {
        Ok(RateLimiter { bucket: Bucket::new(rate, burst)?, table: MonotoneTable::with_memory(memory)?, seed })
    }

    /// Whether a request of `cost` fits now.
    pub fn probe(&self, key: KeyHash, now: Timestamp, cost: Cost) -> Judgement {
        let level = self.table.estimate(key);
        let charged = self.bucket.charge(level, now, cost);
        if self.bucket.admits(charged, now) {
            self.admitted(charged, now, cost)
        } else {
            self.refused(level, now, cost)
        }
    }

    /// Charges `cost`.
    ///
    /// # Errors
    /// It does not fit any more.
    pub fn admit(&self, key: KeyHash, now: Timestamp, cost: Cost) -> Result<Judgement, Lost> {
        match self.table.admit(&self.bucket, key, now, cost) {
            Admission::Admitted { level } => Ok(self.admitted(level, now, cost)),
            Admission::Refused { level } => Err(Lost { judgement: self.refused(level, now, cost), contended: false }),
            Admission::Contended { level } => Err(Lost { judgement: self.refused(level, now, cost), contended: true }),
        }
    }

    /// The seed that keys are hashed under.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// The size of the sketch.
    pub fn memory(&self) -> Bytes {
        self.table.memory()
    }

    fn admitted(&self, level: u64, now: Timestamp, cost: Cost) -> Judgement {
        Judgement {
            admitted: true,
            remaining: self.bucket.remaining(level, now) / cost.get(),
            quota: self.bucket.burst() / cost.get(),
            retry_nanos: Some(0),
            reset_nanos: self.bucket.next_unit_nanos(level, now),
        }
    }

    fn refused(&self, level: u64, now: Timestamp, cost: Cost) -> Judgement {
        let retry_nanos = self.bucket.retry_nanos(level, now, cost);
        Judgement {
            admitted: false,
            remaining: self.bucket.remaining(level, now) / cost.get(),
            quota: self.bucket.burst() / cost.get(),
            // a race that could not be settled is refused although it fits: "at once" is what a client may try next
            retry_nanos,
            reset_nanos: retry_nanos.or_else(|| self.bucket.next_unit_nanos(level, now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sketch::KeyHasher;

    fn limiter() -> RateLimiter {
        let rate = Rate::new(10, Duration::from_secs(1)).unwrap();
        RateLimiter::new(rate, 5, Bytes(1 << 16), Seed::from_bytes([1; 16])).unwrap()
    }

    fn key(limiter: &RateLimiter, name: &str) -> KeyHash {
        let mut hasher = KeyHasher::new(limiter.seed());
        hasher.part(1, name.as_bytes());
        hasher.finish()
    }

    #[test]
    fn a_probe_changes_nothing() {
        let limiter = limiter();
        let alice = key(&limiter, "alice");
        for _ in 0..100 {
            assert!(limiter.probe(alice, Timestamp::ZERO, Cost::ONE).admitted);
        }
        assert_eq!(limiter.probe(alice, Timestamp::ZERO, Cost::ONE).remaining, 4);
    }

    #[test]
    fn the_retry_time_comes_true_for_a_silent_client() {
        let limiter = limiter();
        let alice = key(&limiter, "alice");
        let now = Timestamp::from_nanos(1 << 40);
        for left in (0..5).rev() {
            assert_eq!(limiter.admit(alice, now, Cost::ONE).unwrap().remaining, left);
        }
        let refused = limiter.admit(alice, now, Cost::ONE).unwrap_err();
        assert!(!refused.contended);
        let wait = refused.judgement.retry_nanos.unwrap();
        let almost = Timestamp::from_nanos(now.nanos() + wait - 1);
        assert!(!limiter.probe(alice, almost, Cost::ONE).admitted);
        assert!(limiter.admit(alice, Timestamp::from_nanos(now.nanos() + wait), Cost::ONE).is_ok());
    }

    #[test]
    fn remaining_counts_requests_of_the_same_cost() {
        let limiter = limiter();
        let alice = key(&limiter, "alice");
        let two = Cost::new(2).unwrap();
        assert_eq!(limiter.admit(alice, Timestamp::ZERO, two).unwrap().remaining, 1);
        assert_eq!(limiter.admit(alice, Timestamp::ZERO, two).unwrap().remaining, 0);
        let refused = limiter.admit(alice, Timestamp::ZERO, two).unwrap_err().judgement;
        assert_eq!((refused.admitted, refused.remaining), (false, 0));
        assert_eq!(limiter.probe(alice, Timestamp::ZERO, Cost::new(6).unwrap()).retry_nanos, None);
    }
}
