//! What a decision costs, what it costs others, and whether the budgets are met: `cargo bench --bench limiter`.
//!
//! Nanoseconds are CPU time of the measuring threads while they ran undisturbed, in interleaved rounds; trust ratios rather
//! than absolutes, and least of all what a tilde marks: there, other work on the machine never left the threads alone. The kinds
//! of limit are measured while the thread has its core to itself, which [`neighbours`] tells.
//! Every row also prints its bytes and the error that they buy: speed without the error beside it says nothing.
//! `-- --quick` runs everything in a few seconds, to see that it runs; its numbers mean nothing.
//! `-- --kinds` measures the kinds of limit through the engine and nothing else, `-- --post` the table of the post alone.

mod allocations;
mod innocents;
mod kinds;
mod layout;
mod measure;
mod neighbours;
mod post;
mod subjects;
mod tail;

use std::time::Instant;

use innocents::Pace;
use layout::TwoLines;
use measure::{Dice, Figure, Traffic, nanos_per_decision};
use subjects::{BIG_RATE, ESTIMATOR, KEYS, KINDS, Kind, Limit, OURS, RATE, SMALL, Subject};
use tidegate::sketch::MonotoneTable;
use tidegate::units::{Bytes, Timestamp};

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

const MIB: u64 = 1 << 20;

/// The slices of a round that only warm the caches.
const WARM_UP: u32 = 5;

/// How much of everything.
struct Effort {
    rounds: u64,
    slices: u32,
    events: u32,
    flood: u32,
    probes: u32,
    timed: usize,
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let effort = if quick {
        Effort { rounds: 1, slices: WARM_UP + 2, events: 1_000_000, flood: 500_000, probes: 100_000, timed: 100_000 }
    } else {
        Effort {
            rounds: 5,
            slices: WARM_UP + 20,
            events: 100_000_000,
            flood: 10_000_000,
            probes: 10_000_000,
            timed: 3_000_000,
        }
    };
    let began = Instant::now();
    let mut budgets = Budgets::default();
    let asked = |word: &str| std::env::args().any(|argument| argument == word);
    let (kinds, post) = (asked("--kinds"), asked("--post"));
    if !kinds && !post {
        let table = decisions(&effort, &mut budgets);
        layouts(&effort, &table, &mut budgets);
        tails(&effort, &mut budgets);
        contention();
    }
    if !kinds {
        post::print(effort.events);
    }
    if !post {
        kinds::print(&effort, &mut budgets);
    }
    budgets.print();
    println!(
        "\n{:.0} s{}",
        began.elapsed().as_secs_f64(),
        if quick { ", quick: these numbers mean nothing" } else { "" }
    );
}

/// A column of the table of decisions.
struct Column {
    title: &'static str,
    limit: Limit,
    traffic: Traffic,
    threads: usize,
}

const COLUMNS: [Column; 10] = [
    Column { title: "admit 1T", limit: Limit::High, traffic: Traffic::Uniform, threads: 1 },
    Column { title: "2T", limit: Limit::High, traffic: Traffic::Uniform, threads: 2 },
    Column { title: "crowded 1T", limit: Limit::Crowded, traffic: Traffic::Uniform, threads: 1 },
    Column { title: "2T", limit: Limit::Crowded, traffic: Traffic::Uniform, threads: 2 },
    Column { title: "refuse 1T", limit: Limit::Spent, traffic: Traffic::Uniform, threads: 1 },
    Column { title: "2T", limit: Limit::Spent, traffic: Traffic::Uniform, threads: 2 },
    Column { title: "hot refuse 1T", limit: Limit::Spent, traffic: Traffic::Hot, threads: 1 },
    Column { title: "2T", limit: Limit::Spent, traffic: Traffic::Hot, threads: 2 },
    Column { title: "hot admit 1T", limit: Limit::High, traffic: Traffic::Hot, threads: 1 },
    Column { title: "2T", limit: Limit::High, traffic: Traffic::Hot, threads: 2 },
];

/// Nanoseconds by row and column.
struct Table(Vec<(&'static str, [Figure; COLUMNS.len()])>);

impl Table {
    fn figure(&self, name: &str, column: usize) -> Figure {
        let row = self.0.iter().find(|(row, _)| *row == name).expect("a row of the table");
        row.1[column]
    }
}

fn decisions(effort: &Effort, budgets: &mut Budgets) -> Table {
    println!("## Decisions: CPU ns each, {KEYS} clients (ratio to {OURS})");
    println!(
        "`tidegate` includes SipHash-1-3 of the key; its time is an argument, which the gate reads once per request,"
    );
    println!("while Rate and governor read a clock themselves: see the row with a clock read");
    println!("over-count: estimate less truth, in requests, where each client made 4 on average");
    println!(
        "crowded: admitted in a table so full of fresh levels that little needs raising; the same as admit for others"
    );
    let mut built = Vec::new();
    for kind in KINDS {
        let usage = allocations::Usage::start();
        let high = (kind.build)(Limit::High);
        built.push((kind, usage.end().live, high, (kind.build)(Limit::Crowded), (kind.build)(Limit::Spent)));
    }
    let mut nanos = vec![vec![Vec::new(); COLUMNS.len()]; built.len()];
    for round in 0..effort.rounds {
        for (c, column) in COLUMNS.iter().enumerate() {
            for (row, (.., high, crowded, spent)) in built.iter().enumerate() {
                let subject: &dyn Subject = match column.limit {
                    Limit::Crowded => &**crowded,
                    Limit::Spent => &**spent,
                    _ => &**high,
                };
                let admits = column.limit != Limit::Spent;
                let slices =
                    nanos_per_decision(subject, column.traffic, admits, column.threads, effort.slices, WARM_UP, round);
                nanos[row][c].extend(slices);
            }
        }
    }
    let rows = built.iter().zip(nanos);
    let table =
        Table(rows.map(|((kind, ..), row)| (kind.name, std::array::from_fn(|c| Figure::of(&row[c], 0.0)))).collect());
    print!("\n{:<30}{:>12}{:>11}{:>8}", "", "bytes", "over-count", "p99");
    COLUMNS.iter().for_each(|column| print!("{:>16}", column.title));
    println!();
    for (kind, bytes, ..) in &built {
        let (mean, p99) = over_count(kind, effort);
        print!("{:<30}{bytes:>12}{mean:>11.1}{p99:>8.0}", kind.name);
        for c in 0..COLUMNS.len() {
            let (figure, ours) = (table.figure(kind.name, c), table.figure(OURS, c));
            print!("{:>16}", format!("{figure} ({:.1})", figure.nanos / ours.nanos));
        }
        println!();
    }
    for (what, ours, column, other, must) in [
        ("admit, one thread, 256 KiB, against Rate::observe", SMALL, 0, RATE, 2.0),
        ("admit, two threads, 256 KiB, against Rate::observe", SMALL, 1, RATE, 1.8),
        ("admit in a crowd, one thread, 256 KiB, against Rate::observe", SMALL, 2, RATE, 2.0),
        ("admit in a crowd, two threads, 256 KiB, against Rate::observe", SMALL, 3, RATE, 1.8),
        ("admit, one thread, 4 MiB, against Rate::observe in 4 MiB", OURS, 0, BIG_RATE, 2.0),
        ("admit, two threads, 4 MiB, against Rate::observe in 4 MiB", OURS, 1, BIG_RATE, 1.8),
        ("refuse a hot key, two threads, against Estimator incr + decr", OURS, 7, ESTIMATOR, 10.0),
    ] {
        let (ours, other) = (table.figure(ours, column), table.figure(other, column));
        budgets.at_least(what, other.nanos / ours.nanos, must, ours.rough || other.rough);
    }
    table
}

/// Mean and 99th percentile of the over-count after four requests per client on average.
fn over_count(kind: &Kind, effort: &Effort) -> (f64, f64) {
    let subject = (kind.build)(Limit::Counting);
    let mut truth = vec![0_u32; KEYS as usize];
    let mut dice = Dice(21);
    let mut keys = [0; 250];
    for _ in 0..effort.events.min(4 * KEYS) / 250 {
        keys.fill_with(|| dice.below(KEYS));
        keys.iter().for_each(|key| truth[*key as usize] += 1);
        subject.ask(&keys, Timestamp::ZERO);
    }
    if kind.name == "governor" { (0.0, 0.0) } else { post::over_count(&*subject, &truth) }
}

fn layouts(effort: &Effort, table: &Table, budgets: &mut Budgets) {
    println!("\n## Two layouts at 4 MiB: four independent rows, or two cache lines with two cells each");
    println!(
        "flood: share of the requests of 1,000 innocents (50 each, 100 allowed per period) refused while {} keys",
        effort.flood
    );
    println!(
        "ask once each, spread over the period or at one instant; abusers: fresh keys refused of {}\n",
        effort.probes
    );
    let size = 4 * MIB;
    let (rows_flood, used) = innocents::flooded::<MonotoneTable>(size, effort.flood, Pace::OverThePeriod);
    let rows = [
        rows_flood,
        innocents::flooded::<MonotoneTable>(size, effort.flood, Pace::AtOnce).0,
        f64::from(innocents::beside_abusers::<MonotoneTable>(size, 1_000, effort.probes)),
        f64::from(innocents::beside_abusers::<MonotoneTable>(size, 10_000, effort.probes)),
    ];
    let lines = [
        innocents::flooded::<TwoLines>(size, effort.flood, Pace::OverThePeriod).0,
        innocents::flooded::<TwoLines>(size, effort.flood, Pace::AtOnce).0,
        f64::from(innocents::beside_abusers::<TwoLines>(size, 1_000, effort.probes)),
        f64::from(innocents::beside_abusers::<TwoLines>(size, 10_000, effort.probes)),
    ];
    println!(
        "{:<30}{:>12}{:>9}{:>13}{:>9}{:>12}{:>12}{:>15}{:>15}",
        "", "admit 1T/2T", "", "refuse 1T/2T", "", "flood", "at once", "1,000 abusers", "10,000 abusers"
    );
    for (name, harm) in [(OURS, rows), ("two lines 4 MiB", lines)] {
        println!(
            "{name:<30}{:>12}{:>9}{:>13}{:>9}{:>11.4}%{:>11.4}%{:>15}{:>15}",
            table.figure(name, 0),
            table.figure(name, 1),
            table.figure(name, 4),
            table.figure(name, 5),
            harm[0] * 100.0,
            harm[1] * 100.0,
            harm[2],
            harm[3]
        );
    }
    let estimator = innocents::flooded_estimator(size, effort.flood);
    println!("{:<74}{:>23.4}%", "Estimator 4x131072, incr and decr if over, never reset", estimator * 100.0);
    let stated = MonotoneTable::with_memory(Bytes(size)).expect("a valid size");
    println!("stated for the rows: {:.0e} and {:.0e}", stated.false_refusal(1_000), stated.false_refusal(10_000));

    let probes = f64::from(effort.probes);
    budgets.at_most("innocents refused in a flood of one-shot keys, 4 MiB", rows[0] * 100.0, 0.01, "%");
    budgets.at_most("the same if the whole flood comes at one instant", rows[1] * 100.0, 0.01, "%");
    budgets.at_most("innocents refused beside 1,000 abusers, 4 MiB (measured)", rows[2] / probes, 1e-6, "");
    budgets.at_most("innocents refused beside 1,000 abusers, 4 MiB (formula)", stated.false_refusal(1_000), 1e-6, "");
    budgets.at_most("bytes allocated in the flood", used.total as f64, 0.0, " B");
}

fn tails(effort: &Effort, budgets: &mut Budgets) {
    println!("\n## The longest single decision, ns, two clock reads included (uniform keys, one thread)\n");
    println!("{:<30}{:>10}{:>10}{:>12}", "", "median", "p99.99", "longest");
    let (plain, ours) = (tail::of_plain_memory(4 * MIB, effort.timed), tail::of_ours(4 * MIB, effort.timed));
    // where plain memory takes longer than the budget, no table can be judged by it
    let met = (ours.p9999 <= 1_000 || plain.p9999 <= 1_000).then_some(ours.p9999 <= 1_000);
    let measured = format!("{} ns, must be at most 1000 ns; plain memory: {} ns", ours.p9999, plain.p9999);
    budgets.0.push(("longest decision at p99.99, 4 MiB, clock reads included", measured, met));
    for (name, tail) in [
        ("nothing but the clock", tail::of_the_clock(effort.timed)),
        ("four cells of a plain 4 MiB", plain),
        ("tidegate 4 MiB", ours),
        ("tidegate 64 MiB", tail::of_ours(64 * MIB, effort.timed)),
        ("Rate in 4 MiB", tail::of_rate(4 * MIB, effort.timed)),
        ("Rate in 64 MiB", tail::of_rate(64 * MIB, effort.timed)),
    ] {
        println!("{name:<30}{:>10}{:>10}{:>12}", tail.median, tail.p9999, tail.longest);
    }
}

fn contention() {
    println!("\n## One hot key, limit 200,000: how much of it threads that do nothing else are granted\n");
    for threads in [1, 2, 4] {
        let (share, contended) = tail::granted(threads, 200_000);
        let estimator = tail::granted_by_estimator(threads, 200_000);
        println!(
            "{threads} threads: tidegate {share:.6}, {contended} refused after 64 lost races; incr + decr {estimator:.6}"
        );
    }
}

/// What the design promises and this run measured; `None` where the machine was too busy to tell.
#[derive(Default)]
struct Budgets(Vec<(&'static str, String, Option<bool>)>);

impl Budgets {
    fn at_least(&mut self, what: &'static str, measured: f64, must: f64, rough: bool) {
        let met = (!rough).then_some(measured >= must);
        self.0.push((what, format!("{measured:.2}×, must be at least {must}×"), met));
    }

    fn at_most(&mut self, what: &'static str, measured: f64, must: f64, unit: &str) {
        self.0.push((what, format!("{measured:.1e}{unit}, must be at most {must:.0e}{unit}"), Some(measured <= must)));
    }

    fn nanos_at_most(&mut self, what: &'static str, measured: Figure, must: f64, ratio: f64) {
        let met = (!measured.rough).then_some(measured.nanos <= must);
        let text = format!("{measured} ns ({ratio:.1}× a single rate), must be at most {must} ns");
        self.0.push((what, text, met));
    }

    fn print(&self) {
        println!("\n## Budgets (unsure: the machine was too busy to tell)\n");
        for (what, measured, met) in &self.0 {
            println!("{:<8}{what}: {measured}", met.map_or("unsure", |met| if met { "pass" } else { "FAIL" }));
        }
    }
}
