use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};

use super::*;
use crate::sketch::KeyHasher;

const SEED: Seed = Seed::from_bytes([6; 16]);

fn pending() -> Arc<Pending> {
    Arc::new(Pending::new(Bytes(64 << 10), &SEED).unwrap())
}

fn key() -> KeyHash {
    KeyHasher::new(&SEED).finish()
}

/// A confirmed level that only grows: a quota of which nothing comes back.
#[derive(Default)]
struct Level(AtomicU64);

impl Level {
    fn fits(&self, sum: u32, limit: u64) -> bool {
        self.0.load(Ordering::Acquire) + u64::from(sum) <= limit
    }

    fn charge(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

#[test]
fn of_200_parallel_attempts_at_limit_5_exactly_5_are_sent_on() {
    for _ in 0..10 {
        exactly_five_of_200(&pending());
    }
}

/// In one row of two the key shares its cell with others, so that racers are judged by what they read again in the
/// other row, where each sees the other.
#[test]
fn nor_are_they_fewer_where_the_last_cell_is_full_of_other_keys() {
    let table = SummingTable::<AtomicU32, 2>::with_shape(16, &SEED).unwrap();
    for number in 0..2_000_u64 {
        let mut hasher = KeyHasher::new(&SEED);
        hasher.part(1, &number.to_le_bytes());
        let other = hasher.finish();
        table.add(other, 1).unwrap();
        if table.counts(key())[0] > 0 {
            table.release(other, 1);
        }
    }
    assert!(table.counts(key())[0] == 0 && table.counts(key())[1] > 10);
    let pending = Arc::new(Pending::over(table));
    for _ in 0..10 {
        exactly_five_of_200(&pending);
    }
}

fn exactly_five_of_200<const ROWS: usize>(pending: &Arc<Pending<AtomicU32, ROWS>>) {
    let (before, level) = (pending.total(), Level::default());
    let (start, sent) = (Barrier::new(200), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..200 {
            scope.spawn(|| {
                start.wait();
                if let Ok((_, attempt)) = pending.attempt(key(), Cost::ONE, |sum| level.fits(sum, 5)) {
                    sent.lock().unwrap().push(attempt);
                }
            });
        }
    });
    let sent = sent.into_inner().unwrap();
    assert_eq!((sent.len(), pending.total() - before), (5, 5));
    sent.into_iter().for_each(|attempt| attempt.answered(|| level.charge()));
    assert_eq!((pending.total(), pending.faults()), (before, 0));
    assert_eq!(pending.attempt(key(), Cost::ONE, |sum| level.fits(sum, 5)).unwrap_err(), 0);
}

/// An attempt counts twice for a moment at its answer, so a race may refuse the fifth; but never let a sixth on, and
/// whoever comes after the dust has settled gets what is left.
#[test]
fn answers_that_race_new_attempts_never_let_one_more_on_and_lose_nothing() {
    for _ in 0..10 {
        let (pending, level) = (pending(), Level::default());
        let start = Barrier::new(50);
        let guess = || pending.attempt(key(), Cost::ONE, |sum| level.fits(sum, 5)).ok();
        std::thread::scope(|scope| {
            for _ in 0..50 {
                scope.spawn(|| {
                    start.wait();
                    if let Some((_, attempt)) = guess() {
                        attempt.answered(|| level.charge());
                    }
                });
            }
        });
        let matched = level.0.load(Ordering::Acquire);
        assert!((1..=5).contains(&matched), "{matched}");
        while let Some((others, attempt)) = guess() {
            assert_eq!(others, 0);
            attempt.answered(|| level.charge());
        }
        assert_eq!((level.0.load(Ordering::Acquire), pending.total()), (5, 0));
    }
}

#[test]
fn an_answer_that_does_not_match_makes_room_again() {
    let (pending, level) = (pending(), Level::default());
    let guess = || pending.attempt(key(), Cost::ONE, |sum| level.fits(sum, 1));
    let (_, held) = guess().unwrap();
    assert_eq!(guess().unwrap_err(), 1);
    drop(held);
    assert!(guess().is_ok());
    assert_eq!((pending.total(), pending.faults(), pending.estimate(key())), (0, 0, 0));
}

#[test]
fn a_refused_attempt_of_a_spent_key_asks_once_and_writes_nothing() {
    let pending = pending();
    let mut asked = Vec::new();
    let refused = pending.attempt(key(), Cost::ONE, |sum| {
        asked.push((sum, pending.total()));
        false
    });
    assert_eq!((refused.unwrap_err(), asked), (0, vec![(1, 0)]));
}

#[test]
fn what_left_while_it_was_judged_is_not_held_against_an_attempt() {
    let (pending, level) = (pending(), Level::default());
    pending.enter(key(), 1).unwrap();
    let mut looks = 0;
    let (others, _attempt) = pending
        .attempt(key(), Cost::ONE, |sum| {
            looks += 1;
            let fits = level.fits(sum, 1);
            if looks == 1 {
                pending.leave(key(), 1);
            }
            fits
        })
        .unwrap();
    assert_eq!((others, looks), (0, 3), "refused by the other, found free, held");
}

#[test]
fn a_panic_while_the_level_is_read_leaves_nothing_pending() {
    let pending = pending();
    let mut looks = 0;
    let attempt = std::panic::AssertUnwindSafe(|| {
        pending.attempt(key(), Cost::ONE, |_| {
            looks += 1;
            if looks == 2 {
                std::panic::resume_unwind(Box::new("in the level"));
            }
            true
        })
    });
    assert!(std::panic::catch_unwind(attempt).is_err());
    assert_eq!((pending.total(), pending.faults()), (0, 0));
}
