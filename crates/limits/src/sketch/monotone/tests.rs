use std::time::Duration;

use super::super::{Bucket, KeyHasher, Seed};
use super::*;
use crate::units::Rate;

fn key(number: u64) -> KeyHash {
    let mut hasher = KeyHasher::new(&Seed::from_bytes([1; 16]));
    hasher.part(0, &number.to_le_bytes());
    hasher.finish()
}

fn five_per_second() -> Bucket {
    Bucket::new(Rate::new(5, Duration::from_secs(1)).unwrap(), 5).unwrap()
}

#[test]
fn admits_the_burst_and_then_refuses_without_a_trace() {
    let table = MonotoneTable::with_memory(Bytes(4 << 10)).unwrap();
    let bucket = five_per_second();
    let now = Timestamp::from_nanos(1_000);
    for n in 1..=5 {
        let level = 1_000 + n * 200_000_000;
        assert_eq!(table.admit(&bucket, key(1), now, Cost::ONE), Admission::Admitted { level });
    }
    let level = table.estimate(key(1));
    assert_eq!(table.admit(&bucket, key(1), now, Cost::ONE), Admission::Refused { level });
    assert_eq!(table.estimate(key(1)), level);
    assert_eq!(table.estimate(key(2)), 0);
}

#[test]
fn in_one_column_all_keys_are_one() {
    let table = MonotoneTable::<AtomicU64, 4>::with_shape(1).unwrap();
    let admitted = (0..20)
        .filter(|n| {
            let admission = table.admit(&five_per_second(), key(*n), Timestamp::ZERO, Cost::ONE);
            matches!(admission, Admission::Admitted { .. })
        })
        .count();
    assert_eq!(admitted, 5);
}

/// A cell that somebody else raises every time before we can.
#[derive(Default)]
struct Rushed(AtomicU64);

impl Cell for Rushed {
    fn load(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    fn raise(&self, _: u64, _: u64) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed);
        false
    }
    fn pause(_: u32) {}
}

#[test]
fn a_race_lost_again_and_again_ends_in_a_refusal() {
    let table = MonotoneTable::<Rushed, 2>::with_shape(4).unwrap();
    let admission = table.admit(&five_per_second(), key(1), Timestamp::ZERO, Cost::ONE);
    assert!(matches!(admission, Admission::Contended { .. }), "{admission:?}");
}

#[test]
fn memory_is_what_was_asked_for_or_an_error() {
    let table = MonotoneTable::with_memory(MonotoneTable::DEFAULT_MEMORY).unwrap();
    assert_eq!((table.memory(), table.columns()), (Bytes(4 << 20), 131_072));
    for bytes in [0, 1 << 11, (4 << 20) + 1, 5 << 20, 1 << 30, u64::MAX] {
        assert!(MonotoneTable::with_memory(Bytes(bytes)).is_err(), "{bytes}");
    }
    assert!(MonotoneTable::<AtomicU64, 2>::with_shape(0).is_err());
    assert!(MonotoneTable::<AtomicU64, 2>::with_shape(3).is_err());
}

#[test]
fn the_stated_error_of_the_default_size_is_the_computed_one() {
    let table = MonotoneTable::with_memory(MonotoneTable::DEFAULT_MEMORY).unwrap();
    assert_eq!(format!("{:.0e} {:.0e}", table.false_refusal(1_000), table.false_refusal(10_000)), "3e-9 3e-5");
    assert_eq!(table.false_refusal(0), 0.0);
}

#[test]
fn no_table_has_more_columns_than_the_hash_can_address() {
    assert_eq!(MonotoneTable::columns_in(Bytes(512 << 20)).unwrap(), 1 << 24);
    assert!(MonotoneTable::columns_in(Bytes(1 << 30)).is_err());
    assert!(MonotoneTable::columns_in(Bytes(2 << 10)).is_err());
}
