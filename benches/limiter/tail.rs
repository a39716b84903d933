//! The longest single decision, and what one hot key is granted when all threads ask for it at once.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use pingora_limits::estimator::Estimator;
use pingora_limits::rate::Rate;
use tidegate::sketch::{Admission, MonotoneTable, Seed};
use tidegate::units::{Bytes, Cost, Timestamp};

use super::measure::{Dice, cpu_nanos, now};
use super::subjects::{KEYS, address_key, bucket};

/// Nanoseconds of single decisions, the two clock reads around each included.
pub struct Tail {
    pub median: u64,
    pub p9999: u64,
    pub longest: u64,
}

/// Times decisions one by one, in lots so short that most of them keep the CPU; those that lose it are left out.
fn tail<T>(decisions: usize, mut decide: impl FnMut(u32) -> T) -> Tail {
    const LOT: usize = 2_000;
    let mut dice = Dice(5);
    let mut times = Vec::with_capacity(decisions + LOT);
    // on a machine so busy that hardly any lot is left, give up looking for more
    for _ in 0..10 * decisions / LOT {
        let (length, cpu, wall) = (times.len(), cpu_nanos(), Instant::now());
        for _ in 0..LOT {
            let key = dice.below(KEYS);
            let began = Instant::now();
            std::hint::black_box(decide(key));
            times.push(began.elapsed().as_nanos() as u64);
        }
        let wall = wall.elapsed().as_nanos() as u64;
        // the account reads a little less than the wall even when nothing else ran
        if cpu_nanos() - cpu + 20_000 < wall {
            times.truncate(length);
        }
        if times.len() >= decisions {
            break;
        }
    }
    times.sort_unstable();
    let at = |share: f64| times.get((times.len().saturating_sub(1) as f64 * share) as usize).copied().unwrap_or(0);
    Tail { median: at(0.5), p9999: at(0.9999), longest: at(1.0) }
}

/// Nothing at all: the clock's own tail.
pub fn of_the_clock(decisions: usize) -> Tail {
    tail(decisions, |key| key)
}

/// Four random cells of as much plain memory, read and written without any protocol: the tail of the machine's memory.
pub fn of_plain_memory(bytes: u64, decisions: usize) -> Tail {
    let mut cells = vec![1_u64; bytes as usize / 8];
    let mut dice = Dice(8);
    tail(decisions, |_| {
        for _ in 0..4 {
            let place = dice.roll() as usize % cells.len();
            cells[place] += 1;
        }
    })
}

pub fn of_ours(bytes: u64, decisions: usize) -> Tail {
    let (table, seed) = (MonotoneTable::with_memory(Bytes(bytes)).unwrap(), Seed::from_bytes([5; 16]));
    let bucket = bucket(Duration::from_nanos(100), 1_000_000_000);
    let mut now = 0;
    tail(decisions, |key| {
        // so late that levels are past, and each admission exchanges all four cells
        now += 1_000;
        table.admit(&bucket, address_key(&seed, key), Timestamp::from_nanos(now), Cost::ONE)
    })
}

/// `Rate` in as much memory, turning its window every 20 ms.
pub fn of_rate(bytes: u64, decisions: usize) -> Tail {
    let rate = Rate::new_with_estimator_config(Duration::from_millis(20), 4, bytes as usize / 64);
    tail(decisions, |key| rate.observe(&key, 1))
}

/// How much of a limit of `limit` one hot key gets when `threads` threads ask for nothing else: (share, contended).
pub fn granted(threads: usize, limit: u32) -> (f64, u64) {
    let (table, seed) = (MonotoneTable::with_memory(Bytes(256 << 10)).unwrap(), Seed::from_bytes([6; 16]));
    let (bucket, key, now) = (bucket(Duration::from_millis(1), limit), address_key(&seed, 7), now());
    let start = Barrier::new(threads);
    let ask = || {
        let (mut admitted, mut contended) = (0_u64, 0_u64);
        start.wait();
        loop {
            match table.admit(&bucket, key, now, Cost::ONE) {
                Admission::Admitted { .. } => admitted += 1,
                Admission::Contended { .. } => contended += 1,
                Admission::Refused { .. } => return (admitted, contended),
            }
        }
    };
    let (admitted, contended) = together(threads, ask);
    (admitted as f64 / f64::from(limit), contended)
}

/// The share granted by adding to an estimator and taking back.
pub fn granted_by_estimator(threads: usize, limit: u32) -> f64 {
    let (estimator, start) = (Estimator::new(4, 1_024), Barrier::new(threads));
    let ask = || {
        let (mut admitted, mut refused) = (0_u64, 0_u64);
        start.wait();
        // what others are about to take back may still come: it takes some refusals to know
        while refused < 1_000 {
            if estimator.incr(7_u32, 1) <= limit as isize {
                admitted += 1;
            } else {
                estimator.decr(7_u32, 1);
                refused += 1;
            }
        }
        (admitted, refused)
    };
    together(threads, ask).0 as f64 / f64::from(limit)
}

fn together(threads: usize, ask: impl Fn() -> (u64, u64) + Sync) -> (u64, u64) {
    let ask = &ask;
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(ask)).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    })
}
