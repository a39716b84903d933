//! The caps of limited nodes: how much of its share each has used up.
//!
//! Thinning lets the right part through on average, but only once the rate is known; in the first second of a flood the
//! estimate is still on its way. So a limited node also has a bucket, half a second deep (or two requests, where a
//! half-second share is less).
//!
//! The share α moves, and with it the interval between two requests. A cell therefore keeps *time*: until when the node
//! has spent its share. A request that passes while the share is α·m moves it on by 1/(α·m). Whatever path α takes, the
//! time spent in an interval of length τ is at most τ + depth, so that at most `max(α)·m·(τ + ½ s)` pass (two requests
//! more than max(α)·m·τ, where that is more). Kept under the protocol of [`rekeyed`](crate::sketch::rekeyed), whose
//! proof needs no fixed interval: levels of one key are pairwise a full charge apart, through every change of tables.

use std::time::Duration;

use crate::sketch::{Admission, Bucket, KeyHash, Meter, NodeLevels, Seed};
use crate::units::{Bytes, Cost, OutOfRange, Rate, Timestamp};

/// How many nanoseconds of its share a node may use at once.
const DEPTH_NANOS: u64 = 500_000_000;

/// And how many requests, where that is less: a limited client whose requests are drawn at random would lose a
/// third of its share to a bucket of one.
const LEAST_BURST: u64 = 2;

/// The longest interval that a request is charged. Below one request in eight seconds only thinning holds a node down;
/// a cell parked for minutes would still shut its client out when the flood is long over.
const LONGEST_INTERVAL: f64 = 8e9;

/// The longest that a cap needs to be whole again, which is how long both tables serve at a change.
const FADE_NANOS: u64 = LEAST_BURST * LONGEST_INTERVAL as u64;

/// The caps of all nodes.
#[derive(Debug)]
pub struct Caps {
    levels: NodeLevels,
}

impl Caps {
    /// Nothing spent yet, in two tables of at most `memory` each.
    ///
    /// # Errors
    /// What [`NodeLevels::new`] refuses.
    pub fn new(memory: Bytes, seed: &Seed) -> Result<Caps, OutOfRange> {
        Ok(Caps { levels: NodeLevels::new(memory, seed)? })
    }

    /// Whether one request of `key` under `node` fits a share of `per_second`. Changes nothing.
    #[inline]
    pub fn probe(&self, key: KeyHash, node: usize, per_second: f64, now: Timestamp) -> bool {
        let Some(bucket) = bucket(per_second) else { return false };
        bucket.admit(self.levels.read(key, node).level(), now, Cost::ONE).is_some()
    }

    /// Charges one request.
    #[inline]
    pub fn admit(&self, key: KeyHash, node: usize, per_second: f64, now: Timestamp) -> Admission {
        match bucket(per_second) {
            Some(bucket) => self.levels.admit(&bucket, key, node, now),
            None => Admission::Refused { level: u64::MAX },
        }
    }

    /// Re-keys the tables when that is due. To be called about once a second, never on the path of a request.
    pub fn maintain(&self, now: Timestamp) {
        self.levels.maintain(now, FADE_NANOS);
    }

    /// How often the tables were re-keyed so far.
    pub fn rekeyings(&self) -> u64 {
        self.levels.rekeyings()
    }

    /// The memory of both tables.
    pub fn memory(&self) -> Bytes {
        self.levels.memory()
    }
}

/// The bucket of a share, `None` if the share is not a number.
#[inline]
fn bucket(per_second: f64) -> Option<Bucket> {
    // rounded up, so that the cap is never exceeded; from 100 ns, which is the fastest rate there is
    let interval = (1e9 / per_second).ceil().clamp(100.0, LONGEST_INTERVAL) as u64;
    let rate = Rate::new(1, Duration::from_nanos(interval)).ok()?;
    let burst = u32::try_from(DEPTH_NANOS.checked_div(interval)?.max(LEAST_BURST)).ok()?;
    Bucket::new(rate, burst).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sketch::KeyHasher;

    const SECOND: u64 = 1_000_000_000;
    const SEED: Seed = Seed::from_bytes([1; 16]);

    fn key(number: u64) -> KeyHash {
        let mut hasher = KeyHasher::new(&SEED);
        hasher.part(0, &number.to_le_bytes());
        hasher.finish()
    }

    /// How many of ten thousand pass at once.
    fn spend_all(caps: &Caps, per_second: f64, now: u64) -> usize {
        let now = Timestamp::from_nanos(now);
        let passes = || matches!(caps.admit(key(1), 2, per_second, now), Admission::Admitted { .. });
        (0..10_000).take_while(|_| passes()).count()
    }

    #[test]
    fn half_a_second_of_the_share_passes_at_once_and_two_requests_of_a_small_one() {
        for (per_second, burst) in [(25.0, 12), (1_000.0, 500), (3.0, 2), (0.01, 2)] {
            let caps = Caps::new(Bytes(64 << 10), &SEED).unwrap();
            assert_eq!(spend_all(&caps, per_second, SECOND), burst, "{per_second}/s");
            assert!(!caps.probe(key(1), 2, per_second, Timestamp::from_nanos(SECOND)));
            assert!(caps.probe(key(1), 1, per_second, Timestamp::from_nanos(SECOND)), "another node of the same key");
        }
    }

    #[test]
    fn time_spent_at_one_share_is_spent_at_any_other() {
        let caps = Caps::new(Bytes(64 << 10), &SEED).unwrap();
        assert_eq!(spend_all(&caps, 10.0, SECOND), 5);
        assert_eq!(spend_all(&caps, 1_000.0, SECOND), 0, "the half second is used up");
        assert_eq!(spend_all(&caps, 1_000.0, SECOND + SECOND / 10), 100, "and comes back at the new share");
    }

    #[test]
    fn a_share_of_almost_nothing_parks_nobody_for_long() {
        let caps = Caps::new(Bytes(64 << 10), &SEED).unwrap();
        assert_eq!(spend_all(&caps, 1e-9, SECOND), 2);
        assert_eq!(spend_all(&caps, 10.0, 18 * SECOND), 5);
        assert_eq!(spend_all(&caps, f64::NAN, 100 * SECOND), 0);
    }
}
