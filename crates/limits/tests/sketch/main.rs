//! What `sketch` promises, held against an exact limiter, a model checker, two racing cores and the published formulas.

mod accuracy;
mod curve;
mod distinct;
mod end_of_time;
mod levels;
mod meters;
mod promotion_model;
mod races;
mod recent_average;
mod rekeying;
mod seen;
mod shortcuts;
mod shorthand;
mod siphash;
mod sizing;
mod sliding;
mod sliding_rekeying;
mod summing;
mod twin;
mod values;
mod window;

use shorthand::{at, broken_interval, bucket, cost, key, key_under};

#[test]
fn the_law_itself_tells_a_full_interval_from_an_overfull_one() {
    let bucket = bucket(100, 2);
    assert_eq!(broken_interval(&bucket, &[(0, 1), (0, 1), (100, 1), (200, 1)]), None);
    assert_eq!(broken_interval(&bucket, &[(0, 1), (0, 1), (99, 1)]), Some((0, 99)));
    assert_eq!(broken_interval(&bucket, &[(0, 3)]), Some((0, 0)));
}
