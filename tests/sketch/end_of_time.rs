//! The last nanoseconds that a stamp can name: what is told in passing is what is told at length.

use std::time::Duration;

use tidegate::sketch::{Bucket, Meter};
use tidegate::units::{Cost, Rate, Timestamp};

#[test]
fn what_remains_of_a_bucket_is_the_same_by_both_ways_up_to_the_last_stamp() {
    // a unit in a hundred nanoseconds
    let bucket = Bucket::new(Rate::new(10_000_000, Duration::from_secs(1)).unwrap(), 5).unwrap();
    for before in 0..1_000 {
        let now = Timestamp::from_nanos(u64::MAX - before);
        for level in [0, now.nanos(), now.nanos().saturating_add(100)] {
            let in_passing = bucket.leaves_charged(level, now, Cost::ONE).map(|charged| charged.remaining);
            let charged = bucket.charge(level, now, Cost::ONE);
            let at_length = bucket.admits(charged, now).then(|| bucket.remaining(charged, now));
            assert_eq!(in_passing, at_length, "{before} ns before the end, at {level}");
        }
    }
}
