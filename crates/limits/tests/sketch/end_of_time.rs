//! Levels at the ends of what numbers can hold: the last nanoseconds that a stamp can name, and sums beyond all counting.

use std::time::Duration;

use tidegate_limits::sketch::{Bucket, Meter, RecentAverage};
use tidegate_limits::units::{Cost, Rate, Timestamp};

#[test]
fn what_remains_of_a_bucket_is_the_same_by_both_ways_up_to_the_last_stamp() {
    // a unit in a hundred nanoseconds
    let bucket = Bucket::new(Rate::new(10_000_000, Duration::from_secs(1)).unwrap(), 5).unwrap();
    for before in 0..1_000 {
        let now = Timestamp::from_nanos(u64::MAX - before);
        for level in [0, now.nanos(), now.nanos().saturating_add(100)] {
            let in_passing = bucket.admit(level, now, Cost::ONE).map(|charged| charged.remaining);
            let charged = bucket.charge(level, now, Cost::ONE);
            let at_length = bucket.admits(charged, now).then(|| bucket.outlook(charged, now).0);
            assert_eq!(in_passing, at_length, "{before} ns before the end, at {level}");
        }
    }
}

#[test]
fn a_sum_beyond_all_counting_goes_on_growing_and_by_less_than_a_half_life() {
    let half_life = Duration::from_secs(60);
    let nanos = 60_000_000_000;
    let average = RecentAverage::new(Rate::new(1, Duration::from_secs(1)).unwrap(), half_life, Duration::ZERO).unwrap();
    let now = Timestamp::from_nanos(1 << 50);
    for half_lives in 40..100 {
        let level = now.nanos() + half_lives * nanos;
        for cost in [1, 1_000, u32::MAX] {
            let charged = average.charge(level, now, Cost::new(cost).unwrap());
            assert!(charged > level && charged - level < nanos, "{cost} at {half_lives} half-lives");
        }
    }
}
