//! Everything that is measured, behind one face: a batch of keys is asked for, and the number admitted comes back.
//!
//! All of them get the same keys, 32-bit numbers that stand for client addresses. Ours hashes them as the gate does
//! (family, length and address under SipHash-1-3); the others hash the bare number with what they come with.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use dashmap::DashMap;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use pingora_limits::estimator::Estimator;
use pingora_limits::inflight::Inflight;
use pingora_limits::rate::Rate;
use tidegate::sketch::{Admission, Bucket, KeyHash, KeyHasher, Levels, MonotoneTable, Seed};
use tidegate::units::{self, Cost, Timestamp};

use super::layout::{Layout, TwoLines};

/// Clients in every workload that is not about one hot key.
pub const KEYS: u32 = 1_000_000;

/// What the limit is set to before measuring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// So high that everything is admitted, and so quickly refilled that every client comes back to a full bucket: then
    /// an admission has all four of its cells to exchange, the dearest there is.
    High,
    /// As high, but refilled so slowly that collisions pile up, as in a flood: then it mostly exchanges the least cell.
    Crowded,
    /// Already used up by every key.
    Spent,
    /// For a clock that stands still, so that afterwards counts can be read.
    Counting,
}

pub trait Subject: Send + Sync {
    /// Decides on each key; returns how many were admitted.
    fn ask(&self, keys: &[u32], now: Timestamp) -> usize;

    /// How often `key` was admitted so far, as far as the structure knows.
    fn count(&self, key: u32) -> f64;
}

/// A named way to build one.
#[derive(Clone, Copy)]
pub struct Kind {
    pub name: &'static str,
    pub build: fn(Limit) -> Box<dyn Subject>,
}

pub const OURS: &str = "tidegate 4 MiB (default)";
pub const ESTIMATOR: &str = "Estimator 4x1024";
pub const SMALL: &str = "tidegate 256 KiB";
pub const RATE: &str = "Rate 4x1024";
pub const BIG_RATE: &str = "Rate 4x65536";

/// In the order of the table; ours first.
pub const KINDS: [Kind; 19] = [
    Kind { name: OURS, build: |limit| sketch::<MonotoneTable>(4 << 20, limit) },
    Kind { name: SMALL, build: |limit| sketch::<MonotoneTable>(256 << 10, limit) },
    Kind { name: "tidegate 64 MiB", build: |limit| sketch::<MonotoneTable>(64 << 20, limit) },
    // the tables above alone; a limit has two that take turns, and exact entries for heavy keys
    Kind { name: "tidegate levels 2x4 MiB", build: |limit| sketch::<Levels>(4 << 20, limit) },
    Kind {
        name: "tidegate 4 MiB, own clock read",
        build: |limit| Box::new(WithClock(sketch::<MonotoneTable>(4 << 20, limit))),
    },
    Kind { name: "two lines 4 MiB", build: |limit| sketch::<TwoLines>(4 << 20, limit) },
    Kind { name: "two lines 256 KiB", build: |limit| sketch::<TwoLines>(256 << 10, limit) },
    Kind { name: "two lines 64 MiB", build: |limit| sketch::<TwoLines>(64 << 20, limit) },
    Kind { name: "Estimator 3x1024", build: |limit| estimator(3, 1 << 10, limit) },
    Kind { name: ESTIMATOR, build: |limit| estimator(4, 1 << 10, limit) },
    Kind { name: "Estimator 4x8192", build: |limit| estimator(4, 1 << 13, limit) },
    Kind { name: "Estimator 4x131072", build: |limit| estimator(4, 1 << 17, limit) },
    Kind { name: "Estimator 4x2097152", build: |limit| estimator(4, 1 << 21, limit) },
    Kind { name: RATE, build: |limit| rate(1 << 10, limit) },
    Kind { name: BIG_RATE, build: |limit| rate(1 << 16, limit) },
    Kind { name: "Inflight 4x8192", build: inflight },
    Kind {
        name: "Mutex<HashMap>",
        build: |limit| filled(MutexMap { map: Mutex::default(), limit: most(limit) }, limit),
    },
    Kind { name: "DashMap", build: |limit| filled(Sharded { map: DashMap::default(), limit: most(limit) }, limit) },
    Kind { name: "governor", build: governed },
];

fn most(limit: Limit) -> usize {
    if limit == Limit::Spent { 1 } else { usize::MAX }
}

/// Lets every key in once, so that tables hold them all and, at a limit of one, have all of them spent.
fn filled<S: Subject + 'static>(subject: S, limit: Limit) -> Box<dyn Subject> {
    if limit != Limit::Counting {
        for first in (0..KEYS).step_by(1_000) {
            let keys: Vec<u32> = (first..first + 1_000).collect();
            assert_eq!(subject.ask(&keys, Timestamp::ZERO), 1_000);
        }
    }
    Box::new(subject)
}

/// The key of a client's address, as `client` makes it.
pub fn address_key(seed: &Seed, number: u32) -> KeyHash {
    let [a, b, c, d] = number.to_be_bytes();
    let mut hasher = KeyHasher::new(seed);
    hasher.part(1, &[4, 32, a, b, c, d]);
    hasher.finish()
}

pub fn bucket(interval: Duration, burst: u32) -> Bucket {
    Bucket::new(units::Rate::new(1, interval).unwrap(), burst).unwrap()
}

struct Sketch<L: Layout> {
    table: L,
    seed: Seed,
    bucket: Bucket,
}

pub fn sketch<L: Layout + 'static>(bytes: u64, limit: Limit) -> Box<dyn Subject> {
    let (table, seed) = (L::with_bytes(bytes), Seed::from_bytes(*b"a benchmark seed"));
    let bucket = match limit {
        Limit::High => bucket(Duration::from_nanos(100), 1_000_000_000),
        Limit::Crowded => bucket(Duration::from_secs(1), 100_000_000),
        Limit::Counting => bucket(Duration::from_micros(1), 1_000_000_000),
        Limit::Spent => {
            let spend = bucket(Duration::from_secs(3_600), 80_000);
            for number in 0..KEYS {
                let key = address_key(&seed, number);
                if table.estimate(key) == 0 {
                    let _ = table.admit(&spend, key, Timestamp::ZERO, Cost::ONE);
                }
            }
            bucket(Duration::from_secs(1), 1)
        }
    };
    Box::new(Sketch { table, seed, bucket })
}

impl<L: Layout> Subject for Sketch<L> {
    fn ask(&self, keys: &[u32], now: Timestamp) -> usize {
        let admitted = |key: &&u32| {
            let admission = self.table.admit(&self.bucket, address_key(&self.seed, **key), now, Cost::ONE);
            matches!(admission, Admission::Admitted { .. })
        };
        keys.iter().filter(admitted).count()
    }

    fn count(&self, key: u32) -> f64 {
        let level = self.table.estimate(address_key(&self.seed, key));
        level as f64 / self.bucket.interval_nanos() as f64
    }
}

/// Ours with the clock read that `Rate` and governor do inside; the gate reads it once for all limits of a request.
struct WithClock(Box<dyn Subject>);

impl Subject for WithClock {
    fn ask(&self, keys: &[u32], now: Timestamp) -> usize {
        for _ in keys {
            std::hint::black_box(Instant::now());
        }
        self.0.ask(keys, now)
    }

    fn count(&self, key: u32) -> f64 {
        self.0.count(key)
    }
}

/// `incr`, and `decr` again if that was too much.
struct AddAndTakeBack {
    estimator: Estimator,
    limit: isize,
}

pub fn estimator(rows: usize, columns: usize, limit: Limit) -> Box<dyn Subject> {
    let limit = if limit == Limit::Spent { 0 } else { isize::MAX };
    Box::new(AddAndTakeBack { estimator: Estimator::new(rows, columns), limit })
}

impl Subject for AddAndTakeBack {
    fn ask(&self, keys: &[u32], _: Timestamp) -> usize {
        let admitted = |key: &&u32| {
            let admitted = self.estimator.incr(key, 1) <= self.limit;
            if !admitted {
                self.estimator.decr(key, 1);
            }
            admitted
        };
        keys.iter().filter(admitted).count()
    }

    fn count(&self, key: u32) -> f64 {
        self.estimator.get(key) as f64
    }
}

/// `observe`, as the user guide limits with it: what is refused is counted too.
struct Observed {
    rate: Rate,
    limit: isize,
}

fn rate(columns: usize, limit: Limit) -> Box<dyn Subject> {
    let interval = Duration::from_secs(if limit == Limit::Counting { 3_600 } else { 1 });
    let limit = if limit == Limit::Spent { 0 } else { isize::MAX };
    Box::new(Observed { rate: Rate::new_with_estimator_config(interval, 4, columns), limit })
}

impl Subject for Observed {
    fn ask(&self, keys: &[u32], _: Timestamp) -> usize {
        keys.iter().filter(|key| self.rate.observe(key, 1) <= self.limit).count()
    }

    fn count(&self, key: u32) -> f64 {
        self.rate.rate_with(&key, |components| components.curr_samples as f64)
    }
}

/// A guard taken and dropped for each request, admitted or not.
struct Guarded {
    inflight: Inflight,
    limit: isize,
}

fn inflight(limit: Limit) -> Box<dyn Subject> {
    match limit {
        // nothing remains counted once guards are dropped: the error is that of the table inside
        Limit::Counting => estimator(4, 8_192, limit),
        Limit::High | Limit::Crowded => Box::new(Guarded { inflight: Inflight::new(), limit: isize::MAX }),
        Limit::Spent => Box::new(Guarded { inflight: Inflight::new(), limit: 0 }),
    }
}

impl Subject for Guarded {
    fn ask(&self, keys: &[u32], _: Timestamp) -> usize {
        keys.iter().filter(|key| self.inflight.incr(key, 1).1 <= self.limit).count()
    }

    fn count(&self, _: u32) -> f64 {
        unreachable!("counted by the estimator inside")
    }
}

/// One lock around the standard map.
struct MutexMap {
    map: Mutex<HashMap<u32, usize>>,
    limit: usize,
}

impl Subject for MutexMap {
    fn ask(&self, keys: &[u32], _: Timestamp) -> usize {
        let admitted = |key: &&u32| {
            let mut map = self.map.lock().unwrap();
            let count = map.entry(**key).or_insert(0);
            let admitted = *count < self.limit;
            *count += usize::from(admitted);
            admitted
        };
        keys.iter().filter(admitted).count()
    }

    fn count(&self, key: u32) -> f64 {
        self.map.lock().unwrap().get(&key).copied().unwrap_or(0) as f64
    }
}

/// A hasher for whole numbers, quicker than any that maps come with: what a map costs is not to be blamed on hashing.
#[derive(Default)]
struct Quick(u64);

impl Hasher for Quick {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are hashed")
    }

    fn write_u32(&mut self, number: u32) {
        let mixed = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = (mixed ^ (mixed >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type QuickMap = DashMap<u32, AtomicUsize, BuildHasherDefault<Quick>>;

/// Counters behind the locks of shards; a key that is there is counted under a read lock.
struct Sharded {
    map: QuickMap,
    limit: usize,
}

impl Subject for Sharded {
    fn ask(&self, keys: &[u32], _: Timestamp) -> usize {
        let admitted = |key: &&u32| {
            if let Some(count) = self.map.get(*key) {
                return count.load(Relaxed) < self.limit && count.fetch_add(1, Relaxed) < self.limit;
            }
            self.map.entry(**key).or_default().fetch_add(1, Relaxed) < self.limit
        };
        keys.iter().filter(admitted).count()
    }

    fn count(&self, key: u32) -> f64 {
        self.map.get(&key).map_or(0, |count| count.load(Relaxed)) as f64
    }
}

struct Governed(DefaultKeyedRateLimiter<u32>);

fn governed(limit: Limit) -> Box<dyn Subject> {
    let quota = match limit {
        Limit::Spent => Quota::with_period(Duration::from_secs(3_600)).unwrap(),
        Limit::High | Limit::Crowded | Limit::Counting => Quota::per_second(NonZeroU32::new(100_000_000).unwrap()),
    };
    filled(Governed(RateLimiter::keyed(quota)), limit)
}

impl Subject for Governed {
    fn ask(&self, keys: &[u32], _: Timestamp) -> usize {
        keys.iter().filter(|key| self.0.check_key(key).is_ok()).count()
    }

    /// It is exact by construction and shows no counts; see the table's note.
    fn count(&self, _: u32) -> f64 {
        f64::NAN
    }
}
