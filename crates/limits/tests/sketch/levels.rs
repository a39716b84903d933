//! Sketch and exact entries together beside an exact limiter per key, in tables so small that nearly every request meets
//! a collision, a promotion or an eviction.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;

use proptest::prelude::*;
use tidegate_limits::sketch::{Admission, Levels, Meter, MonotoneTable, Seed};
use tidegate_limits::units::Bytes;

use crate::twin::{Ask, KEYS, a_trace};
use crate::{at, bucket, cost, key};

const SEED: Seed = Seed::from_bytes([6; 16]);

fn levels(columns: usize, lines: usize) -> Levels {
    Levels::with_shape(columns, lines, &SEED).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_levels_admit_the_exact_twin_admits(
        (bucket, start, trace) in a_trace(),
        size in 0..4,
        lines in 1_usize..3,
        charges in prop::collection::vec(prop::option::weighted(0.2, any::<u64>()), 120),
    ) {
        let levels = levels(1_usize << size, lines);
        let mut twin: HashMap<u64, u64> = HashMap::new();
        let mut now = start;
        for (ask, ceiling) in trace.into_iter().zip(charges) {
            now = ask.step.from(now);
            let truth = twin.get(&ask.key).copied().unwrap_or(0);
            let exact = bucket.charge(truth, at(now), cost(ask.cost));
            if let Some(ceiling) = ceiling {
                let level = levels.charge(&bucket, key(ask.key), at(now), cost(ask.cost), ceiling);
                let exact = exact.min(ceiling).max(truth);
                prop_assert!(level >= exact, "charged too little");
                twin.insert(ask.key, exact);
            } else {
                let before: Vec<u64> = (0..KEYS).map(|number| levels.estimate(key(number))).collect();
                let own = before[ask.key as usize];
                let entries = levels.exact_entries();
                match levels.admit(&bucket, key(ask.key), at(now), cost(ask.cost)) {
                    Admission::Admitted { level } => {
                        prop_assert!(bucket.admits(exact, at(now)), "the twin refuses: {ask:?} at {now}");
                        prop_assert!(level >= exact);
                        twin.insert(ask.key, exact);
                    }
                    // at the far end of time an entry goes back to the sketch, which may judge more strictly
                    Admission::Refused { level } if now >= 1 << 60 => prop_assert!(level >= own),
                    Admission::Refused { level } => {
                        prop_assert_eq!(level, levels.estimate(key(ask.key)));
                        // it changed nothing, unless it fitted at first, and the entry that it evicted for its own went back
                        // to cells that they share
                        let gave_way = levels.exact_entries() < entries && before.iter().any(|other| *other >= level);
                        prop_assert!(level == own || level > own && gave_way, "judged by {level} instead of {own}");
                    }
                    Admission::Contended { .. } => prop_assert!(false, "contended without a contender"),
                }
            }
            for number in 0..KEYS {
                let truth = twin.get(&number).copied().unwrap_or(0);
                prop_assert!(levels.estimate(key(number)) >= truth, "key {number} is counted too low");
            }
        }
        let copied = levels.copied(|level| level);
        for (number, truth) in twin {
            prop_assert!(copied.estimate(key(number)) >= truth, "a copy forgets key {}", number);
        }
    }

    #[test]
    fn a_key_alone_is_treated_exactly_as_by_the_twin((bucket, start, mut trace) in a_trace()) {
        trace.iter_mut().for_each(|ask: &mut Ask| ask.key = 0);
        let levels = levels(8, 1);
        let (mut now, mut truth) = (start, 0);
        for ask in trace {
            now = ask.step.from(now);
            let exact = bucket.charge(truth, at(now), cost(ask.cost));
            let admission = levels.admit(&bucket, key(0), at(now), cost(ask.cost));
            if bucket.admits(exact, at(now)) {
                truth = exact;
                prop_assert_eq!(admission, Admission::Admitted { level: truth });
            } else {
                prop_assert_eq!(admission, Admission::Refused { level: truth });
            }
        }
    }
}

#[test]
fn a_colliding_abuser_cannot_get_a_heavy_honest_key_refused() {
    let bucket = bucket(1_000, 10);
    let (levels, control) = (levels(2, 64), MonotoneTable::<AtomicU64, 4>::with_shape(2).unwrap());
    let honest = key(0);
    let asks = |now: u64| {
        let by_sketch = matches!(control.admit(&bucket, honest, at(now), cost(1)), Admission::Admitted { .. });
        (matches!(levels.admit(&bucket, honest, at(now), cost(1)), Admission::Admitted { .. }), by_sketch)
    };
    let abuse = |now: u64| {
        for abuser in 1..40 {
            for _ in 0..20 {
                let _ = levels.admit(&bucket, key(abuser), at(now), cost(1));
                let _ = control.admit(&bucket, key(abuser), at(now), cost(1));
            }
        }
    };
    // half of the burst, while nobody is there
    assert!((0..5).all(|_| asks(0) == (true, true)));
    abuse(0);
    // the other half, and not one more
    let rest: Vec<(bool, bool)> = (0..6).map(|_| asks(0)).collect();
    assert_eq!(rest.iter().filter(|(admitted, _)| *admitted).count(), 5);
    assert!(rest.iter().all(|(_, by_sketch)| !by_sketch), "the control does not collide");
    // and its full rate from then on
    for now in (1..200).map(|n| n * 1_000) {
        abuse(now);
        assert!(asks(now).0, "refused at {now}");
        assert!(!asks(now).0, "one too many at {now}");
    }
}

#[test]
fn a_heavy_key_that_is_evicted_is_counted_by_the_sketch_again() {
    let bucket = bucket(1_000, 4);
    let levels = levels(1 << 12, 1);
    let spend =
        |number, now| matches!(levels.admit(&bucket, key(number), at(now), cost(1)), Admission::Admitted { .. });
    assert!(spend(0, 0) && spend(0, 0) && spend(1, 0) && spend(1, 0));
    assert_eq!((levels.exact_entries(), levels.exact_capacity()), (2, 2));
    // not yet faded: the line is full, and a third heavy key stays with the sketch
    assert!(spend(2, 500) && spend(2, 500) && spend(2, 500));
    assert_eq!(levels.exact_entries(), 2);
    // one of four units spent: key 0 gives way, and has three left
    assert!(spend(3, 1_000) && spend(3, 1_000));
    assert!(spend(4, 1_000) && spend(4, 1_000));
    assert_eq!(levels.exact_entries(), 2);
    assert_eq!([0, 1].map(|number| levels.estimate(key(number))), [2_000, 2_000]);
    assert_eq!([0, 1].map(|number| (0..5).filter(|_| spend(number, 1_000)).count()), [3, 3]);
}

#[test]
fn memory_is_two_tables_and_a_sixteenth_of_one() {
    let levels = Levels::new(Bytes(4 << 20), &SEED).unwrap();
    assert_eq!(levels.memory(), Bytes((8 << 20) + (256 << 10)));
    assert_eq!((levels.exact_capacity(), levels.exact_entries(), levels.columns()), (8_192, 0, 131_072));
    let least = Levels::new(Bytes(4 << 10), &SEED).unwrap();
    assert_eq!((least.memory(), least.exact_capacity()), (Bytes((8 << 10) + 256), 8));
    for bytes in [0, 1 << 11, (4 << 20) + 1, 1 << 30] {
        assert!(Levels::new(Bytes(bytes), &SEED).is_err(), "{bytes}");
    }
    assert_eq!(format!("{:.0e}", levels.false_refusal(1_000)), "3e-9");
}
