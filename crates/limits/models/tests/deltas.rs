//! The sums for other gates: requests that add, and the task that takes them out, in one group of slots.

use std::sync::Arc;

use loom::thread;
use tidegate_limits::limiter::sharing::StoreKey;
use tidegate_limits::limiter::sharing::deltas::Deltas;

use crate::{cost, explore};

fn name(number: u64) -> StoreKey {
    // one group takes them all
    StoreKey::from_halves([number << 32, number])
}

/// What was told of the keys 1 and 2, each under its own name.
fn told(deltas: &Deltas, sums: &mut [u64; 2]) {
    deltas.take(|delta| {
        let number =
            (1..=2).find(|number| name(*number) == delta.name).expect("units were told of a key that nobody counted");
        assert_eq!(delta.tier, number as u8, "under another key's tier");
        sums[number as usize - 1] += delta.units;
    });
}

fn count(deltas: &Deltas, number: u64, units: u32) {
    deltas.count(name(number), number as u8, cost(units));
}

/// Each thread counts its list of (key, units) while one takes twice; a last taking finds the rest.
fn race(preemptions: usize, before: &'static [(u64, u32)], threads: &'static [&'static [(u64, u32)]]) {
    explore(preemptions, None, move || {
        let deltas = Arc::new(Deltas::with_keys(1));
        before.iter().for_each(|(number, units)| count(&deltas, *number, *units));
        let counting: Vec<_> = threads
            .iter()
            .map(|list| {
                let deltas = deltas.clone();
                thread::spawn(move || list.iter().for_each(|(number, units)| count(&deltas, *number, *units)))
            })
            .collect();
        let mut sums = [0; 2];
        told(&deltas, &mut sums);
        counting.into_iter().for_each(|thread| thread.join().unwrap());
        told(&deltas, &mut sums);
        let mut counted = [0; 2];
        for (number, units) in before.iter().chain(threads.iter().copied().flatten()) {
            counted[*number as usize - 1] += u64::from(*units);
        }
        assert_eq!(deltas.take_unreported(), 0, "there was a place for both");
        assert_eq!(sums, counted, "a unit was lost or told twice");
    });
}

#[test]
pub fn every_unit_is_told_once_and_under_its_own_name() {
    race(2, &[], &[&[(1, 1)], &[(1, 2)]]);
    race(2, &[(1, 4)], &[&[(1, 1)], &[(2, 2)]]);
    race(3, &[(1, 4)], &[&[(1, 1), (2, 2)]]);
}

#[test]
pub fn a_slot_that_changes_hands_mixes_no_units() {
    // the taking frees the slot of key 1, which key 2 claims while the other thread still adds to key 1
    race(3, &[(1, 1)], &[&[(2, 2)], &[(1, 4)]]);
}
