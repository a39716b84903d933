//! The summing table between two cores; under a model checker in `models`.

use std::sync::atomic::AtomicU32;

use tidegate_limits::sketch::{Seed, SummingTable};

use crate::key;
use crate::races::race;

const SEED: Seed = Seed::from_bytes([2; 16]);

#[test]
fn lock_step_races_of_two_cores_admit_exactly_the_cap() {
    for cap in [1, 2, 5] {
        // nothing fades here, so each race has a key of its own in a table that they do not fill
        let table = SummingTable::<AtomicU32, 8>::with_shape(1 << 18, &SEED).unwrap();
        let tally = race(cap, 0..20_000, key, |key| table.reserve(*key, 1, u32::from(cap)).is_ok());
        assert_eq!((tally.over, tally.short), (0, 0), "cap {cap}: {tally:?}");
        assert_eq!((table.total(), table.faults()), (20_000 * u64::from(cap), 0));
    }
}
