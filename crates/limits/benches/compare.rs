//! Over-admission, early refusals, memory and time of one limit per key, beside `governor` and `pingora-limits`:
//! `cargo bench -p tidegate-limits --bench compare`. Prints the table of the README; `-- --quick` only shows that it runs.
//!
//! Each limit is 1,000 requests an hour per key. All are asked through their public API and read one clock per decision.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread::{available_parallelism, scope};
use std::time::{Duration, Instant};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use tidegate_limits::limiter::{Kind, Limiter, Place, Spec, kinds};
use tidegate_limits::sketch::{KeyHasher, Seed};
use tidegate_limits::units::{Bytes, Cost, Dice, Rate, Timestamp};

/// Requests that one key may send at once.
const BURST: u32 = 1_000;
const HOUR: Duration = Duration::from_secs(3_600);
const THREADS: usize = 8;

trait Subject: Send + Sync {
    fn admits(&self, key: u64) -> bool;
}

struct Ours {
    limiter: Arc<Limiter>,
    seed: Seed,
    started: Instant,
}

impl Ours {
    fn with_memory(memory: Bytes) -> Box<dyn Subject> {
        let seed = Seed::from_bytes([7; 16]);
        let kind = Kind::Rate(kinds::Rate { rate: Rate::new(BURST, HOUR).expect("in range"), burst: BURST, memory });
        let limiter = Limiter::new(&Spec::new("compare", &[kind]), &seed).expect("valid numbers");
        Box::new(Ours { limiter: Arc::new(limiter), seed, started: Instant::now() })
    }
}

impl Subject for Ours {
    fn admits(&self, key: u64) -> bool {
        let mut hasher = KeyHasher::new(&self.seed);
        hasher.part(1, &key.to_le_bytes());
        let place = Place { key: self.limiter.own_hash().of(hasher.finish()), ..Place::default() };
        let now = Timestamp::ZERO.after(self.started.elapsed());
        self.limiter.commit(&self.limiter.probe(&place, now, Cost::ONE), now).is_ok()
    }
}

struct Governor(DefaultKeyedRateLimiter<u64>);

impl Subject for Governor {
    fn admits(&self, key: u64) -> bool {
        self.0.check_key(&key).is_ok()
    }
}

/// The use that its documentation shows: count, then compare.
struct PingoraLimits(pingora_limits::rate::Rate);

impl Subject for PingoraLimits {
    fn admits(&self, key: u64) -> bool {
        self.0.observe(&key, 1) <= BURST as isize
    }
}

fn pingora_limits(hashes: usize, slots: usize) -> Box<dyn Subject> {
    Box::new(PingoraLimits(pingora_limits::rate::Rate::new_with_estimator_config(HOUR, hashes, slots)))
}

fn governor() -> Box<dyn Subject> {
    let burst = NonZeroU32::new(BURST).expect("more than none");
    let quota = Quota::with_period(HOUR / BURST).expect("more than no time").allow_burst(burst);
    Box::new(Governor(RateLimiter::keyed(quota)))
}

/// How to build one, by its name in the table.
type Row = (&'static str, fn() -> Box<dyn Subject>);

const ROWS: [Row; 5] = [
    ("tidegate-limits, 4 MiB", || Ours::with_memory(Bytes(4 << 20))),
    ("tidegate-limits, 64 MiB", || Ours::with_memory(Bytes(64 << 20))),
    ("governor 0.10", governor),
    ("pingora-limits 0.9, 4 × 1,024", || pingora_limits(4, 1 << 10)),
    ("pingora-limits 0.9, 4 × 131,072", || pingora_limits(4, 1 << 17)),
];

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (races, asked) = if quick { (3, 100_000) } else { (200, 10_000_000) };
    println!(
        "{THREADS} threads on {} cores, {asked} timed decisions\n",
        available_parallelism().map_or(1, usize::from)
    );
    println!(
        "| | races with too many, of {races} | most too many | refused early at 10⁵ keys | at 10⁶ | \
         bytes per key at 10⁵ | at 10⁶ | ns to admit | to refuse |"
    );
    println!("|---|{}", "--:|".repeat(8));
    for (name, build) in ROWS {
        let over: Vec<u32> = (0..races).map(|_| over_admitted(&*build())).collect();
        let broken = over.iter().filter(|over| **over > 0).count();
        let most = over.iter().max().copied().unwrap_or(0);
        let [few, many] = [100_000, 1_000_000].map(|keys| crowd(build, keys));
        let subject = build();
        (0..1_000_000).for_each(|key| _ = subject.admits(key));
        let mut dice = Dice(1);
        let decided = nanos(asked, || subject.admits(dice.below(1_000_000)));
        (0..2 * BURST).for_each(|_| _ = subject.admits(u64::MAX));
        let refused = nanos(asked, || subject.admits(u64::MAX));
        println!(
            "| {name} | {broken} | {most} | {} | {} | {:.1} | {:.1} | {decided:.0} | {refused:.0} |",
            percent(few.1),
            percent(many.1),
            few.0,
            many.0
        );
    }
}

/// By how many requests threads that race for one key get more than its burst.
fn over_admitted(subject: &dyn Subject) -> u32 {
    let (start, admitted) = (Barrier::new(THREADS), AtomicU64::new(0));
    scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                let own = (0..BURST).filter(|_| subject.admits(1)).count();
                admitted.fetch_add(own as u64, Relaxed);
            });
        }
    });
    (admitted.into_inner() as u32).saturating_sub(BURST)
}

/// Bytes per key after each of `keys` has sent as many requests as it may, at most 100, and the part of 10,000 new keys that is
/// refused at once.
fn crowd(build: fn() -> Box<dyn Subject>, keys: u64) -> (f64, f64) {
    let mut subject = None;
    let used = allocation_counter::measure(|| {
        let built = build();
        (0..keys).for_each(|key| (0..100).for_each(|_| _ = built.admits(key)));
        subject = Some(built);
    });
    let subject = subject.expect("it was built");
    let refused = (keys..keys + 10_000).filter(|key| !subject.admits(*key)).count();
    (used.bytes_current as f64 / keys as f64, refused as f64 / 10_000.0)
}

fn nanos(asked: u32, mut ask: impl FnMut() -> bool) -> f64 {
    // the least of five rounds: what other work on the machine adds is not the limiter's
    let round = |ask: &mut dyn FnMut() -> bool| {
        let started = Instant::now();
        (0..asked / 5).for_each(|_| _ = black_box(ask()));
        started.elapsed().as_nanos() as f64 / f64::from(asked / 5)
    };
    (0..5).map(|_| round(&mut ask)).fold(f64::INFINITY, f64::min)
}

fn percent(part: f64) -> String {
    format!("{:.2} %", 100.0 * part)
}
