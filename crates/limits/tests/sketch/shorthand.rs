//! Keys, stamps, costs and buckets in few letters, and the law of a bucket.

use std::time::Duration;

use tidegate_limits::sketch::{Bucket, KeyHash, KeyHasher, Seed, Window};
use tidegate_limits::units::{Cost, Rate, Timestamp};

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

/// The length of every window here.
pub const LENGTH: u64 = 10_000_000_000;

pub fn window(limit: u32, offset: u64) -> Window {
    Window::new(limit, Duration::from_nanos(LENGTH), Duration::from_nanos(offset)).unwrap()
}

/// Of (stamp, cost): an aligned window over the limit, or an interval across one boundary over limit·(1 + v/W).
pub fn breaks_the_promise(limit: u32, offset: u64, admitted: &[(u64, u32)]) -> bool {
    let mut admitted = admitted.to_vec();
    admitted.sort_unstable();
    (0..admitted.len()).any(|first| {
        let mut sum = 0;
        let start = u128::from(admitted[first].0) + u128::from(offset);
        admitted[first..].iter().any(|(now, units)| {
            sum += u128::from(*units);
            let end = u128::from(*now) + u128::from(offset);
            let length = u128::from(LENGTH);
            let bound = match end / length - start / length {
                0 => u128::from(limit) * length,
                1 => u128::from(limit) * (length + end % length),
                _ => return false,
            };
            sum * length > bound
        })
    })
}
