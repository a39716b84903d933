//! What `src/sketch` promises, held against an exact limiter, a model checker, two racing cores and the published formulas.

mod accuracy;
mod curve;
mod interleavings;
mod races;
mod siphash;
mod twin;

use std::time::Duration;

use tidegate::sketch::{Bucket, KeyHash, KeyHasher, Seed};
use tidegate::units::{Cost, Rate, Timestamp};

/// The key numbered `number` under a fixed seed.
fn key(number: u64) -> KeyHash {
    key_under(&Seed::from_bytes(*b"a seed for tests"), number)
}

fn key_under(seed: &Seed, number: u64) -> KeyHash {
    let mut hasher = KeyHasher::new(seed);
    hasher.part(0, &number.to_le_bytes());
    hasher.finish()
}

/// `burst` at once, and one more every `interval` nanoseconds.
fn bucket(interval: u64, burst: u32) -> Bucket {
    Bucket::new(Rate::new(1, Duration::from_nanos(interval)).unwrap(), burst).unwrap()
}

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn cost(units: u32) -> Cost {
    Cost::new(units).unwrap()
}

/// The law of a bucket: of what was admitted, given as (stamp, cost), no interval of any length τ holds more than
/// `burst + τ / interval`. Looks at every interval that starts and ends at a stamp; others hold no more in no less time.
fn broken_interval(bucket: &Bucket, admitted: &[(u64, u32)]) -> Option<(u64, u64)> {
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

/// Deterministic numbers for simulations: Steele, Lea and Flood's SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound
    }
}

#[test]
fn the_law_itself_tells_a_full_interval_from_an_overfull_one() {
    let bucket = bucket(100, 2);
    assert_eq!(broken_interval(&bucket, &[(0, 1), (0, 1), (100, 1), (200, 1)]), None);
    assert_eq!(broken_interval(&bucket, &[(0, 1), (0, 1), (99, 1)]), Some((0, 99)));
    assert_eq!(broken_interval(&bucket, &[(0, 3)]), Some((0, 0)));
}
