//! The set of seen pairs: insertions, sweeps and look-ups of one bucket.

use std::sync::Arc;
use std::time::Duration;

use tidegate_limits::sketch::{Inserted, Lifetime, SeenSet};
use tidegate_limits::sync::stepwise;
use tidegate_limits::units::Timestamp;

use crate::{at, explore, key};

const SECOND: u64 = 1_000_000_000;

/// The aligned period of this number.
fn period(number: u64) -> Timestamp {
    at(number * SECOND)
}

fn set<const WAYS: usize>() -> Arc<SeenSet<WAYS>> {
    Arc::new(SeenSet::with_shape(1, Lifetime::aligned(Duration::from_secs(1)).unwrap()).unwrap())
}

fn model(preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    explore(preemptions, None, move || stepwise(&run));
}

#[test]
pub fn of_two_insertions_of_one_pair_one_is_found_whatever_a_sweep_does() {
    model(2, || {
        let set = set::<2>();
        let insert = |set: Arc<SeenSet<2>>| loom::thread::spawn(move || set.insert(key(1), period(1)));
        let racing = [insert(set.clone()), insert(set.clone())];
        set.sweep(period(1));
        let outcomes = racing.map(|thread| thread.join().unwrap());
        assert!(outcomes.contains(&Inserted::Empty), "{outcomes:?}");
        assert!(set.contains(key(1), period(1)), "a live entry was swept");
    });
}

#[test]
pub fn a_look_up_finds_nothing_that_was_not_inserted() {
    model(2, || {
        let set = set::<1>();
        assert_eq!(set.insert(key(9), period(0)), Inserted::Empty);
        let insert = |set: Arc<SeenSet<1>>, pair: u64| loom::thread::spawn(move || set.insert(key(pair), period(1)));
        let racing = [insert(set.clone(), 1), insert(set.clone(), 2)];
        assert!(!set.contains(key(3), period(1)));
        assert!(!set.contains(key(9), period(1)), "dead");
        let before = [1, 2].map(|pair| set.contains(key(pair), period(1)));
        let outcomes = racing.map(|thread| thread.join().unwrap());
        for (pair, outcome) in [1, 2].into_iter().zip(outcomes) {
            assert!(outcome != Inserted::Missed || !set.contains(key(pair), period(1)));
            assert!(outcome != Inserted::Missed || !before[pair as usize - 1]);
        }
        assert!(set.contains(key(1), period(1)) || set.contains(key(2), period(1)));
    });
}

/// A thread charged a value in period 0, and sleeps before it stores it. Meanwhile the bucket is swept in period 10. The
/// entry must not lie there in period 31, which has the same tag, as the mark says "nothing older than period 10".
fn a_late_insertion() {
    let set = set::<1>();
    let late = {
        let set = set.clone();
        loom::thread::spawn(move || set.insert(key(1), period(0)))
    };
    set.sweep(period(10));
    let outcome = late.join().unwrap();
    assert!(!set.contains(key(1), period(31)), "{REVIVED}, {outcome:?}");
}

/// A look-up in period 31 beside a sweep that finds an entry of period 0: it trusts the new mark only with the entry gone.
fn a_look_up_beside_a_sweep() {
    let set = set::<1>();
    assert_eq!(set.insert(key(1), period(0)), Inserted::Empty);
    let sweeper = {
        let set = set.clone();
        loom::thread::spawn(move || set.sweep(period(31)))
    };
    assert!(!set.contains(key(1), period(31)), "{REVIVED}");
    sweeper.join().unwrap();
}

const REVIVED: &str = "an entry came back to life";

#[test]
pub fn an_insertion_that_comes_late_is_swept_or_taken_back() {
    model(3, a_late_insertion);
}

#[test]
pub fn a_mark_is_believed_only_with_what_it_promises() {
    model(3, a_look_up_beside_a_sweep);
}

#[test]
pub fn an_insertion_a_sweep_and_a_look_up_meet_in_one_bucket() {
    model(2, || {
        let set = set::<1>();
        assert_eq!(set.insert(key(1), period(0)), Inserted::Empty);
        let insert = {
            let set = set.clone();
            loom::thread::spawn(move || set.insert(key(2), period(31)))
        };
        let sweeper = {
            let set = set.clone();
            loom::thread::spawn(move || set.sweep(period(31)))
        };
        assert!(!set.contains(key(1), period(31)), "{REVIVED}");
        let outcome = insert.join().unwrap();
        sweeper.join().unwrap();
        assert!(!set.contains(key(1), period(31)), "{REVIVED}");
        // a sweep that still held the old mark may clear the newcomer, which counts it again and harms nobody
        assert!(outcome != Inserted::Missed || !set.contains(key(2), period(31)));
    });
}
