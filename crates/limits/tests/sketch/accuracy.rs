//! How often an innocent is refused, against the formula that `check -v` prints, by simulation from fixed seeds.

use std::sync::atomic::AtomicU64;

use tidegate_limits::sketch::{Admission, MonotoneTable, Seed};
use tidegate_limits::units::Bytes;

use crate::{at, bucket, cost, key_under};

/// The share of fresh keys that a table refuses after `saturated` other keys were driven to their limit, averaged over
/// `tables` seeds of `probes` fresh keys each.
fn refused_innocents<const ROWS: usize>(columns: usize, saturated: u64, tables: u64, probes: u64) -> f64 {
    let bucket = bucket(1_000, 1);
    let mut refused = 0;
    for number in 0..tables {
        let seed = Seed::from_bytes([7; 16]).derive(&format!("{columns}/{saturated}/{number}"));
        let table = MonotoneTable::<AtomicU64, ROWS>::with_shape(columns).unwrap();
        for abuser in 0..saturated {
            while let Admission::Admitted { .. } = table.admit(&bucket, key_under(&seed, abuser), at(0), cost(1)) {}
        }
        let innocents = saturated..saturated + probes;
        refused += innocents.filter(|innocent| table.estimate(key_under(&seed, *innocent)) > 0).count();
    }
    refused as f64 / (tables * probes) as f64
}

fn is_within_a_factor_of_two<const ROWS: usize>(columns: usize, saturated: u64, tables: u64, probes: u64) {
    let measured = refused_innocents::<ROWS>(columns, saturated, tables, probes);
    let table = MonotoneTable::<AtomicU64, ROWS>::with_shape(columns).unwrap();
    let stated = table.false_refusal(saturated);
    println!("{ROWS} rows of {columns}, {saturated} at their limit: {measured:.2e}, stated {stated:.2e}");
    assert!(measured < 2.0 * stated && measured > stated / 2.0, "measured {measured:e}, stated {stated:e}");
}

#[test]
fn innocents_are_refused_as_rarely_as_stated() {
    is_within_a_factor_of_two::<4>(256, 40, 10, 100_000);
    is_within_a_factor_of_two::<4>(1_024, 200, 5, 100_000);
    is_within_a_factor_of_two::<4>(1_024, 1_024, 2, 20_000);
    is_within_a_factor_of_two::<4>(4_096, 400, 10, 100_000);
    is_within_a_factor_of_two::<4>(16_384, 4_000, 2, 100_000);
    is_within_a_factor_of_two::<4>(131_072, 40_000, 1, 50_000);
    is_within_a_factor_of_two::<3>(512, 60, 5, 100_000);
    is_within_a_factor_of_two::<2>(4_096, 100, 5, 100_000);
    is_within_a_factor_of_two::<1>(1_024, 8, 5, 10_000);
}

/// With columns `h1 + i·h2` two of them fix the rest, and the refusals cannot fall below about s/w², whatever the depth:
/// 3.8·10⁻⁵ here, eighteen times the stated error.
#[test]
fn columns_are_independent_of_each_other() {
    let (columns, saturated, tables, probes) = (1_024, 40, 40, 200_000);
    is_within_a_factor_of_two::<4>(columns, saturated, tables, probes);

    let mut refused = 0;
    for number in 0..tables {
        let seed = Seed::from_bytes([8; 16]).derive(&number.to_string());
        let doubled = |number| {
            let key = key_under(&seed, number);
            [0, 1, 2, 3].map(|row| (key.slice(0) + row * key.slice(1)) as usize & (columns - 1))
        };
        let mut full = vec![[false; 4]; columns];
        for column in (0..saturated).map(doubled) {
            (0..4).for_each(|row| full[column[row]][row] = true);
        }
        refused += (saturated..saturated + probes)
            .filter(|innocent| {
                let column = doubled(*innocent);
                (0..4).all(|row| full[column[row]][row])
            })
            .count();
    }
    let doubled = refused as f64 / (tables * probes) as f64;
    let stated = MonotoneTable::<AtomicU64, 4>::with_shape(columns).unwrap().false_refusal(saturated);
    println!("double hashing: {doubled:.2e}, stated for independent rows {stated:.2e}");
    assert!(doubled > 5.0 * stated, "the simulation cannot see dependent columns: {doubled:e}");
}

#[test]
fn a_flood_of_one_shot_keys_leaves_innocents_alone() {
    // a quarter of the default table and a quarter of ten million keys, each once, within the time a burst refills
    let table = MonotoneTable::with_memory(Bytes(1 << 20)).unwrap();
    let bucket = bucket(10_000_000, 100);
    let seed = Seed::from_bytes([9; 16]);
    let (flood, innocents) = (2_500_000, 50);
    let mut wrongly_refused = 0;
    for n in 0..flood {
        let now = at(n * bucket.refill_nanos() / flood);
        let _ = table.admit(&bucket, key_under(&seed, innocents + n), now, cost(1));
        // fifty innocents, each with fifty requests spread over the flood
        if n.is_multiple_of(flood / 2_500) {
            let innocent = (n / (flood / 2_500)) % innocents;
            let admission = table.admit(&bucket, key_under(&seed, innocent), now, cost(1));
            wrongly_refused += u32::from(!matches!(admission, Admission::Admitted { .. }));
        }
    }
    assert_eq!(wrongly_refused, 0);
}
