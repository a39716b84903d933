//! Keys, stamps, costs and buckets in few letters, and the law of a bucket.

use std::time::Duration;

use tidegate::sketch::{Bucket, KeyHash, KeyHasher, Seed};
use tidegate::units::{Cost, Rate, Timestamp};

/// The key numbered `number` under a fixed seed.
pub fn key(number: u64) -> KeyHash {
    key_under(&Seed::from_bytes(*b"a seed for tests"), number)
}

pub fn key_under(seed: &Seed, number: u64) -> KeyHash {
    let mut hasher = KeyHasher::new(seed);
    hasher.part(0, &number.to_le_bytes());
    hasher.finish()
}

/// `burst` at once, and one more every `interval` nanoseconds.
pub fn bucket(interval: u64, burst: u32) -> Bucket {
    Bucket::new(Rate::new(1, Duration::from_nanos(interval)).unwrap(), burst).unwrap()
}

pub fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

pub fn cost(units: u32) -> Cost {
    Cost::new(units).unwrap()
}

/// The law of a bucket: of what was admitted, given as (stamp, cost), no interval of any length τ holds more than
/// `burst + τ / interval`. Looks at every interval that starts and ends at a stamp; others hold no more in no less time.
pub fn broken_interval(bucket: &Bucket, admitted: &[(u64, u32)]) -> Option<(u64, u64)> {
    let mut admitted = admitted.to_vec();
    admitted.sort_unstable();
    for (i, (start, _)) in admitted.iter().enumerate() {
        let mut sum = 0_u128;
        for (end, cost) in &admitted[i..] {
            sum += u128::from(*cost);
            if sum * u128::from(bucket.interval_nanos()) > u128::from(bucket.depth_nanos()) + u128::from(end - start) {
                return Some((*start, *end));
            }
        }
    }
    None
}
