//! The table of the post that presented `pingora-limits`, measured again, with the error that each row buys beside it.
//!
//! As there: a million keys, uniform; a 3x1024 sketch, a map behind a mutex, a sharded map; one thread and eight. With ten
//! events per key instead of a hundred, which changes the counts but not the tables.

use std::time::Instant;

use tidegate::sketch::MonotoneTable;
use tidegate::units::Timestamp;

use super::allocations::{Usage, Used};
use super::measure::{Dice, cpu_nanos};
use super::subjects::{KEYS, KINDS, Kind, Limit, Subject, estimator, sketch};

struct Row {
    name: &'static str,
    build: fn(Limit) -> Box<dyn Subject>,
    /// ns per event with one and eight threads, peak bytes, allocations, allocated bytes; as printed in the post.
    published: Option<(u32, u32, u64, u64, u64)>,
}

pub fn print(events: u32) {
    let map = |name| KINDS.iter().find(|kind: &&Kind| kind.name == name).expect("one of the kinds").build;
    let rows = [
        Row {
            name: "pingora-limits 3x1024",
            build: |limit| estimator(3, 1 << 10, limit),
            published: Some((10, 212, 26_184, 9, 26_184)),
        },
        Row {
            name: "naive: Mutex<HashMap>",
            build: map("Mutex<HashMap>"),
            published: Some((51, 1_505, 53_477_392, 20, 71_303_260)),
        },
        Row {
            name: "optimized: DashMap",
            build: map("DashMap"),
            published: Some((43, 212, 36_211_208, 491, 71_307_722)),
        },
        Row { name: "tidegate 32 KiB", build: |limit| sketch::<MonotoneTable>(32 << 10, limit), published: None },
        Row { name: "tidegate 4 MiB", build: |limit| sketch::<MonotoneTable>(4 << 20, limit), published: None },
    ];
    println!("\n## The table of the pingora-limits post: {KEYS} keys, {events} events");
    println!("wall: as the post counts, one thread's time over its events (here 8 threads share the machine's cores)");
    println!("over-count: estimate less truth per key, where the truth is {} on average\n", events / KEYS);
    println!(
        "{:<24}{:>9}{:>9}{:>10}{:>10}{:>10}{:>13}{:>8}{:>13}{:>12}{:>9}",
        "",
        "wall 1T",
        "cpu 1T",
        "wall 8T",
        "cpu 8T",
        "post",
        "peak bytes",
        "blocks",
        "total bytes",
        "over-count",
        "p99"
    );
    for row in rows {
        let (one, used, errors) = single(&row, events);
        let eight = threaded(&row, events, 8);
        let post = row.published.map_or("".into(), |(one, eight, ..)| format!("{one}/{eight}"));
        println!(
            "{:<24}{:>9.1}{:>9.1}{:>10.1}{:>10.1}{:>10}{:>13}{:>8}{:>13}{:>12.1}{:>9.0}",
            row.name, one.0, one.1, eight.0, eight.1, post, used.peak, used.blocks, used.total, errors.0, errors.1
        );
        if let Some((_, _, peak, blocks, total)) = row.published {
            println!("{:<24}{:>48}{:>13}{:>8}{:>13}", "", "post:", peak, blocks, total);
        }
    }
}

/// (wall, CPU) nanoseconds per event, what was allocated, and the mean and 99th percentile of the over-count.
fn single(row: &Row, events: u32) -> ((f64, f64), Used, (f64, f64)) {
    let mut truth = vec![0_u32; KEYS as usize];
    let mut dice = Dice(11);
    (0..events / 250 * 250).for_each(|_| truth[dice.below(KEYS) as usize] += 1);
    let usage = Usage::start();
    let subject = (row.build)(Limit::Counting);
    let times = run(&*subject, events, 11);
    let used = usage.end();
    (times, used, over_count(&*subject, &truth))
}

fn threaded(row: &Row, events: u32, threads: u32) -> (f64, f64) {
    let subject = (row.build)(Limit::Counting);
    let subject = &*subject;
    let times: Vec<(f64, f64)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || run(subject, events / threads, 100 + u64::from(thread))))
            .collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mean = |pick: fn(&(f64, f64)) -> f64| times.iter().map(pick).sum::<f64>() / f64::from(threads);
    (mean(|time| time.0), mean(|time| time.1))
}

fn run(subject: &dyn Subject, events: u32, seed: u64) -> (f64, f64) {
    let mut dice = Dice(seed);
    let mut keys = [0; 250];
    let (began, wall) = (cpu_nanos(), Instant::now());
    for _ in 0..events / 250 {
        keys.fill_with(|| dice.below(KEYS));
        subject.ask(&keys, Timestamp::ZERO);
    }
    let (wall, cpu) = (wall.elapsed().as_nanos() as f64, (cpu_nanos() - began) as f64);
    (wall / f64::from(events), cpu / f64::from(events))
}

/// Mean and 99th percentile of estimate less truth, over the keys that were seen at all.
pub fn over_count(subject: &dyn Subject, truth: &[u32]) -> (f64, f64) {
    let seen = truth.iter().enumerate().filter(|(_, count)| **count > 0);
    let mut errors: Vec<f64> = seen.map(|(key, count)| subject.count(key as u32) - f64::from(*count)).collect();
    errors.sort_by(f64::total_cmp);
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    (mean, errors[errors.len() * 99 / 100])
}
