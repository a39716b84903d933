//! The table of the post that presented `pingora-limits`, measured again, with the error that each row buys beside it.
//!
//! As there: a million keys, uniform; a hundred million events, by one thread or divided among eight; a 3x1024 sketch, a
//! map behind a mutex, a sharded map with a quick hasher. The events come in rounds, in which the rows take turns; each row
//! is compared with the naive map of the same round. What is printed is the table of `docs/performance.md`.

use std::time::Instant;

use tidegate::sketch::MonotoneTable;
use tidegate::units::Timestamp;

use super::allocations::{Usage, Used};
use super::measure::{Dice, cpu_nanos};
use super::subjects::{KEYS, KINDS, Kind, Limit, Subject, estimator, sketch};

/// As many threads as in the post.
const THREADS: u32 = 8;

/// The row that the others are compared with in each round.
const BASELINE: &str = "naive: `Mutex<HashMap>`";

struct Row {
    name: &'static str,
    build: fn(Limit) -> Box<dyn Subject>,
    /// ns per event with one and eight threads, peak bytes, allocations; as printed in the post.
    published: Option<(u32, u32, u64, u64)>,
}

/// How many rounds the events come in.
const ROUNDS: u64 = 10;

/// A row at work: a structure for one thread, and one for eight.
struct Subjects {
    one: Box<dyn Subject>,
    eight: Box<dyn Subject>,
    /// What that of one thread has allocated.
    used: Used,
    rounds: Vec<Round>,
}

/// (wall, CPU) nanoseconds per event in one round, by one thread and by eight.
struct Round {
    one: (f64, f64),
    eight: (f64, f64),
}

pub fn print(events: u32) {
    let map = |name| KINDS.iter().find(|kind: &&Kind| kind.name == name).expect("one of the kinds").build;
    let rows = [
        Row {
            name: "`pingora-limits` 3×1024",
            build: |limit| estimator(3, 1 << 10, limit),
            published: Some((10, 212, 26_184, 9)),
        },
        Row { name: BASELINE, build: map("Mutex<HashMap>"), published: Some((51, 1_505, 53_477_392, 20)) },
        Row { name: "optimized: `DashMap`", build: map("DashMap"), published: Some((43, 212, 36_211_208, 491)) },
        Row { name: "tidegate 32 KiB", build: |limit| sketch::<MonotoneTable>(32 << 10, limit), published: None },
        Row { name: "tidegate 4 MiB", build: |limit| sketch::<MonotoneTable>(4 << 20, limit), published: None },
    ];
    println!("\n## The table of the pingora-limits post: {KEYS} keys, {events} events in {ROUNDS} rounds");
    println!("CPU: of the thread, ns per event; wall: as the post counts, one thread's time over its events");
    println!("ratio: naive over this, CPU, the median of the rounds (lowest – highest)");
    println!("over-count: estimate less truth, per key; each key came {} times on average\n", events / KEYS);
    let per_round = events / ROUNDS as u32;
    let mut measured: Vec<Subjects> = Vec::new();
    for round in 0..ROUNDS {
        for (place, row) in rows.iter().enumerate() {
            if round == 0 {
                let eight = (row.build)(Limit::Counting);
                let usage = Usage::start();
                let one = (row.build)(Limit::Counting);
                let first = run(&*one, per_round, round);
                // nearly every key has come by now
                let used = usage.end();
                let eight_first = threaded(&*eight, per_round, round);
                measured.push(Subjects { one, eight, used, rounds: vec![Round { one: first, eight: eight_first }] });
                continue;
            }
            let Subjects { one, eight, rounds, .. } = &mut measured[place];
            let (one, eight) = (run(&**one, per_round, round), threaded(&**eight, per_round, round));
            rounds.push(Round { one, eight });
        }
    }
    let mut truth = vec![0_u32; KEYS as usize];
    (0..ROUNDS)
        .for_each(|round| batches(per_round, round, |keys| keys.iter().for_each(|key| truth[*key as usize] += 1)));
    let naive = rows.iter().position(|row| row.name == BASELINE).expect("one of the rows");
    println!(
        "| | 1 thread: CPU | wall | ratio | post | 8 threads: CPU | wall | ratio | post | peak bytes | blocks | post | over-count | p99 |"
    );
    println!("|{}", "---|".repeat(14));
    for (row, own) in rows.iter().zip(&measured) {
        let errors = over_count(&*own.one, &truth);
        let of = |pick: fn(&Round) -> f64| {
            let spread = |values: Vec<f64>| {
                let mut values = values;
                values.sort_by(f64::total_cmp);
                (values[0], values[values.len() / 2], values[values.len() - 1])
            };
            let nanos = spread(own.rounds.iter().map(pick).collect());
            let pairs = own.rounds.iter().zip(&measured[naive].rounds);
            let ratio = spread(pairs.map(|(own, naive)| pick(naive) / pick(own)).collect());
            (nanos.1, format!("{:.2} ({:.2} – {:.2})", ratio.1, ratio.0, ratio.2))
        };
        let (one, one_ratio) = of(|round| round.one.1);
        let (eight, eight_ratio) = of(|round| round.eight.1);
        let (wall_one, wall_eight) = (of(|round| round.one.0).0, of(|round| round.eight.0).0);
        let post = row.published.map(|(one, eight, peak, blocks)| {
            (one.to_string(), eight.to_string(), format!("{}, {blocks}", grouped(peak)))
        });
        let (post_one, post_eight, post_bytes) = post.unwrap_or_default();
        println!(
            "| {} | {one:.1} | {wall_one:.1} | {one_ratio} | {post_one} | {eight:.1} | {wall_eight:.1} | {eight_ratio} | {post_eight} | {} | {} | {post_bytes} | {} | {} |",
            row.name,
            grouped(own.used.peak),
            own.used.blocks,
            shown(errors.0),
            shown(errors.1)
        );
    }
}

/// A small figure with two digits, a large one in groups of three.
fn shown(value: f64) -> String {
    if value.abs() < 100.0 { format!("{value:.2}") } else { grouped(value.round() as u64) }
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let group = |(index, digit): (usize, char)| {
        let comma = (index > 0 && (digits.len() - index).is_multiple_of(3)).then_some(',');
        comma.into_iter().chain([digit])
    };
    digits.char_indices().flat_map(group).collect()
}

fn threaded(subject: &dyn Subject, events: u32, round: u64) -> (f64, f64) {
    let each = |thread: u32| run(subject, events / THREADS, ((1 + round) << 8) | u64::from(thread));
    let each = &each;
    let times: Vec<(f64, f64)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || each(thread))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mean = |pick: fn(&(f64, f64)) -> f64| times.iter().map(pick).sum::<f64>() / f64::from(THREADS);
    (mean(|time| time.0), mean(|time| time.1))
}

fn run(subject: &dyn Subject, events: u32, seed: u64) -> (f64, f64) {
    let (began, wall) = (cpu_nanos(), Instant::now());
    batches(events, seed, |keys| _ = subject.ask(keys, Timestamp::ZERO));
    let (wall, cpu) = (wall.elapsed().as_nanos() as f64, (cpu_nanos() - began) as f64);
    (wall / f64::from(events), cpu / f64::from(events))
}

/// The keys of so many events, in batches of 250.
fn batches(events: u32, seed: u64, mut each: impl FnMut(&[u32])) {
    let mut dice = Dice(seed);
    let mut keys = [0; 250];
    for _ in 0..events / 250 {
        keys.fill_with(|| dice.below(KEYS));
        each(&keys);
    }
}

/// Mean and 99th percentile of estimate less truth, over the keys that were seen at all.
pub fn over_count(subject: &dyn Subject, truth: &[u32]) -> (f64, f64) {
    let seen = truth.iter().enumerate().filter(|(_, count)| **count > 0);
    let mut errors: Vec<f64> = seen.map(|(key, count)| subject.count(key as u32) - f64::from(*count)).collect();
    errors.sort_by(f64::total_cmp);
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    (mean, errors[errors.len() * 99 / 100])
}
