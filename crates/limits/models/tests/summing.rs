//! The summing table and the pending attempts over it; and the shortcuts, which must be seen to fail.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU32 as RealU32;

use loom::sync::atomic::{AtomicU32, Ordering};
use tidegate_limits::limiter::Pending;
use tidegate_limits::sketch::{KeyHash, Seed, SummingTable};

use crate::{cost, explore, key, once, quietly};

const SEED: Seed = Seed::from_bytes([2; 16]);

type Table<const ROWS: usize> = SummingTable<tidegate_limits::sync::AtomicU32, ROWS>;

/// How many hold a place, on counters that the model checker does not see: its threads run one at a time.
#[derive(Default)]
struct Inside(RealU32);

impl Inside {
    fn enter(&self, cost: u32, limit: u32) {
        let held = self.0.fetch_add(cost, std::sync::atomic::Ordering::SeqCst) + cost;
        assert!(held <= limit, "{OVER}: {held} of {limit}");
    }

    fn leave(&self, cost: u32) {
        self.0.fetch_sub(cost, std::sync::atomic::Ordering::SeqCst);
    }

    fn held(&self) -> u32 {
        self.0.load(std::sync::atomic::Ordering::SeqCst)
    }
}

const OVER: &str = "admitted more than the limit";

/// What one thread does: tries to reserve for the key, and gives back what it got before it goes on, or keeps it.
#[derive(Clone, Copy)]
enum Act {
    Keep(KeyHash, u32),
    GiveBack(KeyHash, u32),
}

/// After so many runs three guessers are cut off: the shortcuts below fail well within them.
const MOST_RUNS: usize = 20_000;

/// Each thread acts through its list. Whatever happens, no key holds more than `cap`, and in the end the table holds
/// exactly what was kept, which is never less than `least_kept`.
fn race<const ROWS: usize>(columns: usize, cap: u32, preemptions: usize, least_kept: u32, threads: Vec<Vec<Act>>) {
    explore(preemptions, None, move || {
        let table = Arc::new(Table::<ROWS>::with_shape(columns, &SEED).unwrap());
        // one count for each key there is: two at most
        let inside = Arc::new([Inside::default(), Inside::default()]);
        let (own, others) = threads.split_first().unwrap();
        let others: Vec<_> = others
            .iter()
            .map(|acts| {
                let (table, inside, acts) = (table.clone(), inside.clone(), acts.clone());
                loom::thread::spawn(move || run(&table, &inside, cap, &acts))
            })
            .collect();
        run(&table, &inside, cap, own);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        let kept = inside.each_ref().map(Inside::held);
        assert!(kept.iter().sum::<u32>() >= least_kept, "wrongly refused: {kept:?}");
        assert!(table.estimate(key(0)) >= kept[0]);
        assert_eq!((table.total(), table.faults()), (u64::from(kept[0] + kept[1]), 0), "undone wrongly");
    });
}

fn run<const ROWS: usize>(table: &Table<ROWS>, inside: &[Inside; 2], cap: u32, acts: &[Act]) {
    for act in acts {
        let (Act::Keep(key, cost) | Act::GiveBack(key, cost)) = *act;
        let inside = &inside[usize::from(key != crate::key(0))];
        if table.reserve(key, cost, cap).is_ok() {
            inside.enter(cost, cap);
            if let Act::GiveBack(..) = act {
                inside.leave(cost);
                table.release(key, cost);
            }
        }
    }
}

/// A key other than `key(0)` that shares its cell in exactly these rows.
fn sharing<const ROWS: usize>(columns: usize, shared: [bool; ROWS]) -> KeyHash {
    // columns are secret: found by what one key adds to the other's cells
    let shares = move |other: &KeyHash| {
        let table = Table::<ROWS>::with_shape(columns, &SEED).unwrap();
        table.add(*other, 1).unwrap();
        table.counts(key(0)).map(|count| count == 1) == shared
    };
    once(move || (1..10_000).map(key).find(shares).expect("a key with these collisions"))
}

#[test]
pub fn two_threads_share_the_last_place_exactly() {
    let threads = || vec![vec![Act::Keep(key(0), 1)]; 2];
    race::<2>(1, 1, 4, 1, threads());
    race::<3>(1, 1, 3, 1, threads());
}

#[test]
pub fn three_threads_share_two_places_exactly() {
    race::<2>(1, 2, 1, 2, vec![vec![Act::Keep(key(0), 1)]; 3]);
}

#[test]
pub fn a_release_that_races_admissions_frees_its_own_place_only() {
    let one = key(0);
    let threads = || vec![vec![Act::GiveBack(one, 1)], vec![Act::Keep(one, 1)], vec![Act::Keep(one, 1)]];
    race::<2>(1, 1, 1, 0, threads());
    race::<2>(1, 2, 1, 1, threads());
    race::<2>(1, 1, 2, 0, vec![vec![Act::GiveBack(one, 1), Act::Keep(one, 1)]; 2]);
}

#[test]
pub fn a_heavy_reservation_is_undone_whole_beside_light_ones() {
    let one = key(0);
    race::<2>(1, 2, 1, 0, vec![vec![Act::Keep(one, 2)], vec![Act::Keep(one, 1)], vec![Act::GiveBack(one, 1)]]);
}

#[test]
pub fn a_key_that_shares_rows_cannot_help_another_over_its_cap() {
    for shared in [[true, false], [false, true], [true, true]] {
        let other = sharing(2, shared);
        let both = vec![vec![Act::Keep(key(0), 1)], vec![Act::Keep(key(0), 1)], vec![Act::GiveBack(other, 1)]];
        race::<2>(2, 1, 1, 0, both);
    }
    let other = sharing(2, [true, false, true]);
    let both = vec![vec![Act::Keep(key(0), 1)], vec![Act::Keep(key(0), 1)], vec![Act::GiveBack(other, 1)]];
    race::<3>(2, 1, 1, 0, both);
}

/// Where the last row's cell is shared with a busy key, both are judged by what they read again, where each sees the other.
#[test]
pub fn racers_that_refuse_each_other_look_again_and_one_is_admitted() {
    let other = sharing(2, [false, true]);
    explore(4, None, move || {
        let table = Arc::new(Table::<2>::with_shape(2, &SEED).unwrap());
        table.add(other, 1).unwrap();
        let racer = table.clone();
        let racing = loom::thread::spawn(move || racer.reserve(key(0), 1, 1).is_ok());
        let admitted = [table.reserve(key(0), 1, 1).is_ok(), racing.join().unwrap()];
        assert!(admitted[0] != admitted[1], "{admitted:?}");
        assert_eq!(table.counts(key(0)), [1, 2]);
    });
}

/// Whether loom finds an interleaving of two threads in which `decide` admits both of them at limit 1.
fn is_refuted(decide: fn(&[AtomicU32; 2]) -> bool) -> bool {
    fails_as_over(3, None, move || {
        let rows = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let racing = [rows.clone(), rows].map(|rows| loom::thread::spawn(move || decide(&rows)));
        let admitted = racing.map(|thread| thread.join().unwrap());
        assert!(admitted != [true, true], "{OVER}: both");
    })
}

fn fails_as_over(preemptions: usize, runs: Option<usize>, body: impl Fn() + Send + Sync + 'static) -> bool {
    let search = || {
        explore(preemptions, runs, body);
    };
    quietly(|| match catch_unwind(AssertUnwindSafe(search)) {
        Ok(()) => false,
        Err(panic) => {
            // any other panic would be a broken model, not a refuted protocol
            let message = panic.downcast_ref::<String>().map_or("", String::as_str);
            assert!(message.contains(OVER), "the model failed otherwise: {message:?}");
            true
        }
    })
}

fn undone(rows: &[AtomicU32; 2], admitted: bool, order: Ordering) -> bool {
    if !admitted {
        rows.iter().for_each(|row| _ = row.fetch_sub(1, order));
    }
    admitted
}

#[test]
pub fn deciding_on_what_adding_returned_in_every_row_is_seen_to_fail() {
    assert!(is_refuted(|rows| {
        let sums = rows.each_ref().map(|row| row.fetch_add(1, Ordering::AcqRel) + 1);
        undone(rows, sums[0].min(sums[1]) <= 1, Ordering::AcqRel)
    }));
}

#[test]
pub fn adding_and_reading_again_all_relaxed_is_seen_to_fail() {
    assert!(is_refuted(|rows| {
        rows[0].fetch_add(1, Ordering::Relaxed);
        let own = rows[1].fetch_add(1, Ordering::Relaxed) + 1;
        undone(rows, own.min(rows[0].load(Ordering::Relaxed)) <= 1, Ordering::Relaxed)
    }));
}

#[test]
pub fn the_real_protocol_is_not_refuted_by_the_same_means() {
    assert!(!is_refuted(|rows| {
        rows[0].fetch_add(1, Ordering::AcqRel);
        let own = rows[1].fetch_add(1, Ordering::AcqRel) + 1;
        undone(rows, own.min(rows[0].load(Ordering::Acquire)) <= 1, Ordering::AcqRel)
    }));
}

/// A confirmed level that only grows.
#[derive(Default)]
struct Level(AtomicU32);

impl Level {
    fn read(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    fn charge(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Which of the four steps are in their places.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    Real,
    LevelBeforePending,
    LeaveBeforeCharge,
}

/// Three guesses at limit `limit`, each answered at once and matching. True if more than the limit were sent on.
fn guesses_get_through(order: Order, limit: u32, threads: usize) -> bool {
    // three threads are looked at with fewer preemptions, as each step more multiplies the interleavings
    let (preemptions, runs) = if threads > 2 { (1, Some(MOST_RUNS)) } else { (3, None) };
    fails_as_over(preemptions, runs, move || {
        let pending = Arc::new(Pending::over(Table::<2>::with_shape(1, &SEED).unwrap()));
        let (level, sent) = (Arc::new(Level::default()), Arc::new(Inside::default()));
        let guess = {
            let (pending, level, sent) = (pending.clone(), level.clone(), sent.clone());
            move || match order {
                Order::Real => {
                    if let Ok((_, attempt)) = pending.attempt(key(0), cost(1), |sum| level.read() + sum <= limit) {
                        sent.enter(1, limit);
                        attempt.answered(|| level.charge());
                    }
                }
                Order::LevelBeforePending => {
                    let level_then = level.read();
                    if level_then + pending.enter(key(0), 1).unwrap() <= limit {
                        sent.enter(1, limit);
                        level.charge();
                    }
                    pending.leave(key(0), 1);
                }
                Order::LeaveBeforeCharge => {
                    if pending.enter(key(0), 1).unwrap() + level.read() <= limit {
                        sent.enter(1, limit);
                        pending.leave(key(0), 1);
                        level.charge();
                    } else {
                        pending.leave(key(0), 1);
                    }
                }
            }
        };
        let racing: Vec<_> = (1..threads).map(|_| loom::thread::spawn(guess.clone())).collect();
        guess();
        racing.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!((pending.total(), pending.faults()), (0, 0));
        assert!(sent.held() >= 1, "nobody was sent on");
    })
}

#[test]
pub fn two_guesses_at_once_never_get_through_beyond_the_limit() {
    assert!(!guesses_get_through(Order::Real, 1, 2));
}

#[test]
pub fn parallel_guesses_never_get_through_beyond_the_limit() {
    assert!(!guesses_get_through(Order::Real, 2, 3));
}

#[test]
pub fn reading_the_level_before_entering_is_seen_to_fail() {
    assert!(guesses_get_through(Order::LevelBeforePending, 1, 2));
}

#[test]
pub fn leaving_before_charging_is_seen_to_fail() {
    assert!(guesses_get_through(Order::LeaveBeforeCharge, 1, 2));
}

/// As far as three guessers are looked at.
#[test]
pub fn each_shortcut_is_seen_to_fail_with_three_guessers() {
    assert!(guesses_get_through(Order::LevelBeforePending, 2, 3));
    assert!(guesses_get_through(Order::LeaveBeforeCharge, 2, 3));
}
