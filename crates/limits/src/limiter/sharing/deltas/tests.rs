use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::*;

/// A name as an HMAC would give it: every bit of it by chance.
fn name(number: u64) -> StoreKey {
    let mut hasher = crate::sketch::KeyHasher::new(&crate::sketch::Seed::from_bytes([7; 16]));
    hasher.part(0, &number.to_le_bytes());
    StoreKey::from_halves(hasher.finish().halves())
}

fn cost(units: u32) -> Cost {
    Cost::new(units).unwrap()
}

fn taken(deltas: &Deltas) -> HashMap<(StoreKey, u8), u64> {
    let mut sums = HashMap::new();
    deltas.take(|delta| *sums.entry((delta.name, delta.tier)).or_default() += delta.units);
    sums
}

#[test]
fn a_sum_is_taken_once_and_begins_anew() {
    let deltas = Deltas::new();
    for _ in 0..3 {
        deltas.count(name(1), 0, cost(2));
    }
    deltas.count(name(1), 4, cost(5));
    deltas.count(name(2), 0, Cost::ONE);
    let expected = HashMap::from([((name(1), 0), 6), ((name(1), 4), 5), ((name(2), 0), 1)]);
    assert_eq!(taken(&deltas), expected);
    assert!(taken(&deltas).is_empty());
    deltas.count(name(2), 0, Cost::ONE);
    assert_eq!(taken(&deltas), HashMap::from([((name(2), 0), 1)]));
}

#[test]
fn what_finds_no_place_is_counted_and_what_has_one_goes_on() {
    let deltas = Deltas::with_keys(8);
    for number in 0..20 {
        deltas.count(name(number), 0, cost(3));
    }
    deltas.count(name(0), 0, cost(3));
    assert_eq!(deltas.take_unreported(), 12 * 3);
    assert_eq!(deltas.take_unreported(), 0);
    let sums = taken(&deltas);
    assert_eq!((sums.len(), sums[&(name(0), 0)]), (8, 6));
    assert_eq!(deltas.memory(), Bytes(8 * 24));
}

#[test]
fn a_table_that_is_half_full_has_room_for_nearly_all() {
    let deltas = Deltas::new();
    let beyond = |keys: u64| {
        (0..keys).for_each(|number| deltas.count(name(number), 0, Cost::ONE));
        taken(&deltas);
        deltas.take_unreported() as f64 / keys as f64
    };
    let shares: Vec<f64> = [1_024, 2_048, 4_096, 16_384].into_iter().map(beyond).collect();
    println!("not told of 1,024, 2,048, 4,096, 16,384 keys: {shares:.5?}");
    assert!(shares[0] < 0.001 && shares[1] < 0.03 && shares[2] < 0.2 && shares[3] > 0.7, "{shares:?}");
}

#[test]
fn a_sum_never_spills_into_its_neighbours() {
    let deltas = Deltas::with_keys(8);
    for _ in 0..6 {
        deltas.count(name(1), 3, cost(u32::MAX));
    }
    assert_eq!(taken(&deltas), HashMap::from([((name(1), 3), MOST_UNITS)]));
}

#[test]
fn no_unit_is_lost_and_none_told_twice_by_threads_that_race_with_the_taking() {
    const THREADS: u64 = 4;
    const EACH: u64 = 30_000;
    // so few places that slots change hands all the time
    let deltas = Deltas::with_keys(16);
    let done = AtomicBool::new(false);
    let told = std::thread::scope(|scope| {
        let counting: Vec<_> = (0..THREADS)
            .map(|thread| {
                let deltas = &deltas;
                scope.spawn(move || {
                    for nth in 0..EACH {
                        deltas.count(name((thread + nth * nth) % 24), (nth % 2) as u8, cost(1 + (nth % 3) as u32));
                    }
                })
            })
            .collect();
        let (deltas, done) = (&deltas, &done);
        let taking = scope.spawn(move || {
            let mut told = HashMap::new();
            loop {
                let last = done.load(Ordering::Acquire);
                deltas.take(|delta| *told.entry((delta.name, delta.tier)).or_insert(0) += delta.units);
                if last {
                    return told;
                }
            }
        });
        counting.into_iter().for_each(|thread| thread.join().unwrap());
        done.store(true, Ordering::Release);
        taking.join().unwrap()
    });
    let mut counted = HashMap::new();
    for (thread, nth) in (0..THREADS).flat_map(|thread| (0..EACH).map(move |nth| (thread, nth))) {
        *counted.entry((name((thread + nth * nth) % 24), (nth % 2) as u8)).or_insert(0) += 1 + nth % 3;
    }
    for (key, units) in &told {
        assert!(counted.get(key).is_some_and(|counted| units <= counted), "{key:?} was told more than was counted");
    }
    let all: u64 = counted.values().sum();
    assert_eq!(told.values().sum::<u64>() + deltas.take_unreported(), all);
}

proptest! {
    #[test]
    fn sums_are_those_of_any_order(counts in proptest::collection::vec((0_u64..40, 0_u8..3, 1_u32..1_000), 0..200)) {
        let [one, other] = [(); 2].map(|()| Deltas::new());
        counts.iter().for_each(|(key, tier, units)| one.count(name(*key), *tier, cost(*units)));
        counts.iter().rev().for_each(|(key, tier, units)| other.count(name(*key), *tier, cost(*units)));
        prop_assert_eq!(taken(&one), taken(&other));
    }
}
