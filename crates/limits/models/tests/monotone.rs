//! The monotone table. And the usual shortcuts under the same checker, which must be seen to fail: a model that
//! could not tell them from the real protocol would prove nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tidegate_limits::sketch::monotone::admit;
use tidegate_limits::sketch::{Admission, Bucket, Cell, KeyHash, Meter, MonotoneTable};
use tidegate_limits::sync::{AtomicU64, Ordering, stepwise};

use crate::{at, broken_interval, bucket, cost, explore, key, once, quietly};

/// A refill interval so long that only stamps chosen for it are apart.
pub(crate) const INTERVAL: u64 = 1_000;

/// One thread's request.
#[derive(Clone, Copy)]
struct Ask {
    key: KeyHash,
    now: u64,
}

/// What must hold in every interleaving.
#[derive(Clone, Copy, PartialEq)]
enum Expect {
    /// Nobody over the promise, and somebody admitted.
    Safe,
    /// The same, and the keys admit exactly what an exact limiter admits: one key, equal stamps.
    Exact,
}

/// Each thread asks for its list, in order, on a table of `ROWS` rows.
fn race<const ROWS: usize>(columns: usize, burst: u32, preemptions: usize, expect: Expect, threads: Vec<Vec<Ask>>) {
    explore(preemptions, None, move || {
        let bucket = bucket(INTERVAL, burst);
        let table = Arc::new(MonotoneTable::<AtomicU64, ROWS>::with_shape(columns).unwrap());
        // the first list is asked by the model's own thread: one thread less to set up in each of thousands of runs
        let (own, others) = threads.split_first().unwrap();
        let spawn = |asks: &Vec<Ask>| {
            let (table, asks) = (table.clone(), asks.clone());
            loom::thread::spawn(move || run(&table, &bucket, &asks))
        };
        let others: Vec<_> = others.iter().map(spawn).collect();
        let mut outcomes = run(&table, &bucket, own);
        outcomes.extend(others.into_iter().flat_map(|thread| thread.join().unwrap()));
        judge(&table, &bucket, expect, &outcomes);
    });
}

fn run<const ROWS: usize>(
    table: &MonotoneTable<AtomicU64, ROWS>,
    bucket: &Bucket,
    asks: &[Ask],
) -> Vec<(Ask, Admission)> {
    asks.iter().map(|ask| (*ask, table.admit(bucket, ask.key, at(ask.now), cost(1)))).collect()
}

fn judge<const ROWS: usize>(
    table: &MonotoneTable<AtomicU64, ROWS>,
    bucket: &Bucket,
    expect: Expect,
    outcomes: &[(Ask, Admission)],
) {
    let mut admitted = 0;
    for (ask, _) in outcomes {
        let mut granted: Vec<(u64, u64)> = Vec::new(); // (level, stamp)
        for (other, admission) in outcomes.iter().filter(|(other, _)| other.key == ask.key) {
            if let Admission::Admitted { level } = admission {
                granted.push((*level, other.now));
            }
        }
        granted.sort_unstable();
        assert!(granted.windows(2).all(|pair| pair[1].0 - pair[0].0 >= INTERVAL), "two charges overlap: {granted:?}");
        let spent: Vec<(u64, u32)> = granted.iter().map(|(_, now)| (*now, 1)).collect();
        assert_eq!(broken_interval(bucket, &spent), None, "admitted too much: {granted:?}");
        let truth = granted.iter().fold(0, |level, (_, now)| bucket.charge(level, at(*now), cost(1)));
        assert!(table.estimate(ask.key) >= truth, "the table forgot an admission");
        admitted += granted.len();
        if expect == Expect::Exact {
            assert_eq!(granted.len(), outcomes.len().min(bucket.burst() as usize), "wrongly refused");
        }
    }
    assert!(admitted > 0, "nobody was admitted");
}

fn ask(key: KeyHash, now: u64) -> Ask {
    Ask { key, now }
}

/// A key other than `key(0)` that shares its cell in exactly these rows of a table of `columns`.
fn sharing<const ROWS: usize>(columns: usize, shared: [bool; ROWS]) -> KeyHash {
    once(move || {
        let table = MonotoneTable::<AtomicU64, ROWS>::with_shape(columns).unwrap();
        let columns = table.columns_of(key(0));
        let matches = |other: &KeyHash| {
            let others = table.columns_of(*other);
            (0..ROWS).all(|row| (columns[row] == others[row]) == shared[row])
        };
        (1..100_000).map(key).find(matches).expect("a key with these collisions")
    })
}

#[test]
pub fn two_threads_share_the_last_unit_exactly() {
    let threads = || vec![vec![ask(key(0), 0)], vec![ask(key(0), 0)]];
    race::<2>(1, 1, 5, Expect::Exact, threads());
    race::<3>(1, 1, 5, Expect::Exact, threads());
    race::<4>(1, 1, 3, Expect::Exact, threads());
}

#[test]
pub fn three_threads_share_two_units_exactly() {
    let threads = || vec![vec![ask(key(0), 0)]; 3];
    race::<2>(1, 2, 2, Expect::Exact, threads());
    race::<3>(1, 2, 1, Expect::Exact, threads());
}

#[test]
pub fn two_threads_that_ask_twice_share_three_units_exactly() {
    race::<2>(1, 3, 3, Expect::Exact, vec![vec![ask(key(0), 0); 2]; 2]);
}

#[test]
pub fn a_key_that_shares_one_row_cannot_help_another_over_its_limit() {
    for shared in [[true, false], [false, true]] {
        let other = sharing(2, shared);
        let threads = vec![vec![ask(key(0), 0)], vec![ask(key(0), 0)], vec![ask(other, 0)]];
        race::<2>(2, 1, 3, Expect::Safe, threads);
    }
    for shared in [[true, false, false], [false, true, false], [false, true, true]] {
        let other = sharing(2, shared);
        let threads = vec![vec![ask(key(0), 0)], vec![ask(key(0), 0)], vec![ask(other, 0)]];
        race::<3>(2, 1, 2, Expect::Safe, threads);
    }
}

#[test]
pub fn a_key_that_shares_every_row_cannot_help_another_over_its_limit() {
    let other = sharing(2, [true, true]);
    race::<2>(2, 1, 3, Expect::Safe, vec![vec![ask(key(0), 0)], vec![ask(key(0), 0)], vec![ask(other, 0)]]);
    race::<2>(2, 2, 3, Expect::Safe, vec![vec![ask(key(0), 0)], vec![ask(key(0), 0)], vec![ask(other, 0)]]);
}

#[test]
pub fn a_thread_whose_clock_is_stale_only_refuses_more() {
    let late = 10 * INTERVAL;
    for stamps in [[late, 0, late], [0, late, late], [late, late + INTERVAL, 0], [0, INTERVAL / 2, INTERVAL]] {
        let threads = stamps.map(|now| vec![ask(key(0), now)]).to_vec();
        race::<2>(1, 1, 2, Expect::Safe, threads.clone());
        race::<2>(1, 2, 2, Expect::Safe, threads);
    }
    let other = sharing(2, [false, true]);
    race::<2>(2, 1, 3, Expect::Safe, vec![vec![ask(key(0), late)], vec![ask(key(0), 0)], vec![ask(other, late)]]);
}

#[test]
pub fn of_two_charges_that_race_one_is_on_top_of_the_other() {
    let race = |ceiling: u64, own: fn(&MonotoneTable<AtomicU64, 2>, u64) -> bool| {
        explore(5, None, move || {
            let table = Arc::new(MonotoneTable::<AtomicU64, 2>::with_shape(1).unwrap());
            let other = table.clone();
            let racing =
                loom::thread::spawn(move || other.charge(&bucket(INTERVAL, 1), key(0), at(0), cost(1), ceiling));
            let units = 1 + u64::from(own(&table, ceiling));
            let level = racing.join().unwrap();
            assert!(level > 0 && level <= ceiling);
            assert!(table.estimate(key(0)) >= (units * INTERVAL).min(ceiling), "a charge was lost");
        });
    };
    for ceiling in [INTERVAL, INTERVAL * 3 / 2, INTERVAL * 5] {
        race(ceiling, |table, ceiling| {
            let _ = table.charge(&bucket(INTERVAL, 1), key(0), at(0), cost(1), ceiling);
            true
        });
        race(ceiling, |table, _| {
            let admission = table.admit(&bucket(INTERVAL, 1), key(0), at(0), cost(1));
            matches!(admission, Admission::Admitted { .. })
        });
    }
}

/// What a [`Cell`] promises beyond the level itself: attempts that are charged and then no longer held rest on it.
#[test]
pub fn who_reads_a_charge_sees_what_was_done_before_it() {
    explore(2, None, || {
        stepwise(|| {
            let table = Arc::new(MonotoneTable::<AtomicU64, 2>::with_shape(1).unwrap());
            let before = Arc::new(AtomicU64::new(0));
            let (charging, done) = (table.clone(), before.clone());
            let thread = loom::thread::spawn(move || {
                done.store(1, Ordering::Relaxed);
                charging.charge(&bucket(INTERVAL, 1), key(0), at(0), cost(1), u64::MAX)
            });
            if table.estimate(key(0)) > 0 {
                assert_eq!(before.load(Ordering::Relaxed), 1, "the charge was seen without what came before it");
            }
            thread.join().unwrap();
        });
    });
}

#[test]
pub fn deciding_on_the_values_that_adding_returned_is_seen_to_fail() {
    assert!(is_refuted(|rows| {
        let returned = rows.each_ref().map(|row| row.fetch_add(1, Ordering::AcqRel) + 1);
        let admitted = returned[0].min(returned[1]) <= 1;
        if !admitted {
            for row in rows {
                row.fetch_sub(1, Ordering::AcqRel);
            }
        }
        admitted
    }));
}

#[test]
pub fn reading_and_then_raising_to_the_maximum_is_seen_to_fail() {
    assert!(is_refuted(|rows| {
        let bucket = bucket(INTERVAL, 1);
        let charged = bucket.charge(Cell::load(&rows[0]).min(Cell::load(&rows[1])), at(0), cost(1));
        let admitted = bucket.admits(charged, at(0));
        if admitted {
            for row in rows {
                row.fetch_max(charged, Ordering::AcqRel);
            }
        }
        admitted
    }));
}

#[test]
pub fn exchanging_the_smallest_row_only_is_seen_to_fail() {
    assert!(is_refuted(|rows| {
        let bucket = bucket(INTERVAL, 1);
        loop {
            let seen = rows.each_ref().map(Cell::load);
            let (least, rest) = if seen[0] <= seen[1] { (0, 1) } else { (1, 0) };
            let charged = bucket.charge(seen[least], at(0), cost(1));
            if !bucket.admits(charged, at(0)) {
                return false;
            }
            if rows[least].raise(seen[least], charged) {
                rows[rest].fetch_max(charged, Ordering::AcqRel);
                return true;
            }
        }
    }));
}

#[test]
pub fn the_real_protocol_is_not_refuted_by_the_same_means() {
    assert!(!is_refuted(|rows| {
        let admission = admit(rows.each_ref(), &bucket(INTERVAL, 1), at(0), cost(1));
        matches!(admission, Admission::Admitted { .. })
    }));
}

const OVER: &str = "admitted more than the limit";

/// Whether loom finds an interleaving of two threads in which `decide` admits both of them at limit 1.
fn is_refuted(decide: fn(&[AtomicU64; 2]) -> bool) -> bool {
    let search = || {
        explore(3, None, move || {
            let rows = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
            let racing = [rows.clone(), rows].map(|rows| loom::thread::spawn(move || decide(&rows)));
            let admitted = racing.map(|thread| thread.join().unwrap());
            assert!(admitted != [true, true], "{OVER}");
        });
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
