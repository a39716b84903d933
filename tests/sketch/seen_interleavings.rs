//! The set of seen pairs under a model checker: insertions, sweeps and look-ups of one bucket in every interleaving that
//! C11 allows, up to a bound on preemptions, by the code that serves. And the two orders that the proof rests on, taken
//! away, which must be seen to fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use tidegate::sketch::seen::Words;
use tidegate::sketch::{Inserted, Lifetime, SeenSet};
use tidegate::units::Timestamp;

use crate::interleavings::quietly;
use crate::{at, key};

loom::lazy_static! {
    /// Touched before every step. Loom looks for a race with the latest access to a word only, so a thread that reads a word
    /// before it writes it hides its write from earlier readers; a step on a word of everybody's shows all orders. It is
    /// relaxed, so it orders nothing itself.
    static ref STEPS: AtomicU32 = AtomicU32::new(0);
}

fn step() {
    STEPS.fetch_add(1, Ordering::Relaxed);
}

/// Words whose interleavings loom explores, with the orderings of the real ones; or, to see them fail, without the
/// fence or with marks that publish nothing.
struct Modelled<const FENCED: bool = true, const PUBLISHED: bool = true>;

impl<const FENCED: bool, const PUBLISHED: bool> Words for Modelled<FENCED, PUBLISHED> {
    type Entry = AtomicU32;
    type Mark = AtomicU64;

    fn entry(entry: &AtomicU32) -> u32 {
        step();
        entry.load(Ordering::Relaxed)
    }

    fn exchange(entry: &AtomicU32, from: u32, to: u32) -> bool {
        step();
        let order = if PUBLISHED { Ordering::AcqRel } else { Ordering::Relaxed };
        entry.compare_exchange(from, to, order, Ordering::Relaxed).is_ok()
    }

    fn mark(mark: &AtomicU64) -> u64 {
        step();
        mark.load(if PUBLISHED { Ordering::Acquire } else { Ordering::Relaxed })
    }

    fn advance(mark: &AtomicU64, to: u64) {
        step();
        let order = if PUBLISHED { Ordering::AcqRel } else { Ordering::Relaxed };
        // fetch-max as the exchange loop that it is
        let mut seen = mark.load(Ordering::Relaxed);
        while seen < to {
            match mark.compare_exchange(seen, to, order, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    fn fence() {
        if FENCED {
            fence(Ordering::SeqCst);
        }
    }
}

const SECOND: u64 = 1_000_000_000;

/// The aligned period of this number.
fn period(number: u64) -> Timestamp {
    at(number * SECOND)
}

fn set<W: Words, const WAYS: usize>() -> Arc<SeenSet<W, WAYS>> {
    Arc::new(SeenSet::with_shape(1, Lifetime::aligned(Duration::from_secs(1)).unwrap()).unwrap())
}

fn model(preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(run);
}

#[test]
fn of_two_insertions_of_one_pair_one_is_found_whatever_a_sweep_does() {
    model(2, || {
        let set = set::<Modelled, 2>();
        let insert = |set: Arc<SeenSet<Modelled, 2>>| loom::thread::spawn(move || set.insert(key(1), period(1)));
        let racing = [insert(set.clone()), insert(set.clone())];
        set.sweep(period(1));
        let outcomes = racing.map(|thread| thread.join().unwrap());
        assert!(outcomes.contains(&Inserted::Empty), "{outcomes:?}");
        assert!(set.contains(key(1), period(1)), "a live entry was swept");
    });
}

#[test]
fn a_look_up_finds_nothing_that_was_not_inserted() {
    model(2, || {
        let set = set::<Modelled, 1>();
        assert_eq!(set.insert(key(9), period(0)), Inserted::Empty);
        let insert =
            |set: Arc<SeenSet<Modelled, 1>>, pair: u64| loom::thread::spawn(move || set.insert(key(pair), period(1)));
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
fn a_late_insertion<W: Words + 'static>() {
    let set = set::<W, 1>();
    let late = {
        let set = set.clone();
        loom::thread::spawn(move || set.insert(key(1), period(0)))
    };
    set.sweep(period(10));
    let outcome = late.join().unwrap();
    assert!(!set.contains(key(1), period(31)), "{REVIVED}, {outcome:?}");
}

/// A look-up in period 31 beside a sweep that finds an entry of period 0: it trusts the new mark only with the entry gone.
fn a_look_up_beside_a_sweep<W: Words + 'static>() {
    let set = set::<W, 1>();
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
fn an_insertion_that_comes_late_is_swept_or_taken_back() {
    model(3, a_late_insertion::<Modelled>);
}

#[test]
fn a_mark_is_believed_only_with_what_it_promises() {
    model(3, a_look_up_beside_a_sweep::<Modelled>);
}

#[test]
fn an_insertion_a_sweep_and_a_look_up_meet_in_one_bucket() {
    model(2, || {
        let set = set::<Modelled, 1>();
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

#[test]
fn without_the_fence_a_late_insertion_is_seen_to_fail() {
    assert!(is_refuted(a_late_insertion::<Modelled<false, true>>));
}

#[test]
fn with_marks_that_publish_nothing_a_look_up_is_seen_to_fail() {
    assert!(is_refuted(a_look_up_beside_a_sweep::<Modelled<false, false>>));
}

fn is_refuted(run: fn()) -> bool {
    quietly(|| match catch_unwind(AssertUnwindSafe(|| model(3, run))) {
        Ok(()) => false,
        Err(panic) => {
            // any other panic would be a broken model, not a refuted protocol
            let message = panic.downcast_ref::<String>().map_or("", String::as_str);
            assert!(message.contains(REVIVED), "the model failed otherwise: {message:?}");
            true
        }
    })
}
