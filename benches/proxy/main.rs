//! CPU time per request of tidegate, bare pingora, nginx and haproxy: `cargo bench --bench proxy`, some three minutes.
//!
//! The time is each process's own, from the scheduler's accounting of all its threads, so that neither origin nor load nor
//! neighbours are in it. A neighbour still costs everybody caches and bandwidth: the proxies take turns in short slices,
//! and ratios are taken within a round of turns. Trust ratios rather than absolutes, and a quiet machine more than a busy one.
//!
//! One CPU carries proxy, origin and load, and 64 connections always have a request under way: no wake-up from another CPU
//! gets into the cost.
//!
//! After `--`: `--quick` runs everything in some 20 seconds, to see that it runs; `--rounds N`; `--cpu N`, 0 by default;
//! `--only TEXT` for the proxies whose name holds it, beside the baselines.

mod bare;
mod clients;
mod configs;
mod load;
mod origin;
mod parent;
mod process;
mod report;
mod rows;
mod sibling;
mod stand;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use load::Seen;
use process::Layout;
use report::Samples;
use rows::{Allocator, Kind, Row, Subject};
use stand::Stand;

// as in tidegate's binary
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["origin"] => origin::serve(),
        ["load", proxy, clients] => drive(proxy, clients),
        _ if bare::serve(&arguments).is_some() => Ok(()),
        _ => match Options::parse(&arguments) {
            Ok(Some(options)) => run(&options),
            // cargo runs benchmarks as tests too; this one shows nothing in a moment
            Ok(None) => {
                println!("measures only under `cargo bench --bench proxy`");
                Ok(())
            }
            Err(message) => Err(io::Error::other(message)),
        },
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn drive(proxy: &str, clients: &str) -> io::Result<()> {
    load::drive(proxy.parse().map_err(io::Error::other)?, clients.parse().map_err(io::Error::other)?)
}

struct Options {
    rounds: usize,
    cpu: u32,
    only: Option<String>,
}

/// How long a proxy is loaded in one round. Short, so that a round is over before the machine has changed, and there are many.
const SLICE: Duration = Duration::from_millis(60);

/// Not measured: every connection, pool and page is used for the first time.
const WARM_UP: Duration = Duration::from_millis(200);

impl Options {
    /// `None` if cargo does not say that this is a benchmark.
    fn parse(arguments: &[String]) -> Result<Option<Options>, String> {
        let mut options = Options { rounds: 90, cpu: 0, only: None };
        let mut bench = false;
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().ok_or_else(|| format!("{argument}: needs a value"));
            match argument.as_str() {
                "--bench" => bench = true,
                "--quick" => options.rounds = 8,
                "--rounds" => options.rounds = value()?.parse().map_err(|_| format!("{argument}: needs a number"))?,
                "--cpu" => options.cpu = value()?.parse().map_err(|_| format!("{argument}: needs a number"))?,
                "--only" => options.only = Some(value()?.clone()),
                _ => return Err(format!("{argument}: unknown; there are --quick, --rounds N, --cpu N, --only TEXT")),
            }
        }
        Ok(bench.then_some(options))
    }

    fn wants(&self, subject: Subject) -> bool {
        let baseline = matches!(subject.kind, Kind::Bare | Kind::Filter { .. });
        baseline || self.only.as_ref().is_none_or(|text| subject.name().contains(text.as_str()))
    }
}

fn run(options: &Options) -> io::Result<()> {
    let layout = Layout::find(options.cpu);
    let mut stand = Stand::new(layout)?;
    let wanted = Row::ALL.into_iter().flat_map(Subject::all).filter(|subject| options.wants(*subject));
    let mut subjects = Vec::new();
    let mut absent = BTreeSet::new();
    for subject in wanted {
        if stand.start(subject)? {
            subjects.push(subject);
        } else {
            absent.insert((subject.kind, subject.allocator));
        }
    }
    print_head(options, layout, &absent);
    for subject in &subjects {
        stand.measure(*subject, WARM_UP)?;
    }
    let mut samples = Samples::new();
    let mut wrong = BTreeMap::new();
    for round in 0..options.rounds {
        // every round begins with another one, so that no proxy always runs after the same neighbour
        subjects.rotate_left(usize::from(round > 0));
        for subject in &subjects {
            let sample = stand.measure(*subject, SLICE)?;
            if !answers_as_its_row(*subject, &sample.seen) {
                wrong.insert(*subject, sample.seen.statuses.clone());
            }
            samples.entry(*subject).or_default().push(sample);
        }
    }
    for row in Row::ALL {
        report::print_row(row, &samples);
        if row == Row::Full {
            print_logs(&stand, &subjects);
        }
    }
    report::print_budgets(&samples);
    println!("\nload average at the end {}", load_average());
    for (subject, statuses) in &wrong {
        eprintln!("{:?}, {}: not only {} but {statuses:?}", subject.row, subject.name(), subject.row.status());
    }
    if wrong.is_empty() { Ok(()) } else { Err(io::Error::other("so the figures of those rows mean nothing")) }
}

/// Whether the row's status is all there is, but for one in a thousand: nginx cannot be told to admit less than one a minute.
fn answers_as_its_row(subject: Subject, seen: &Seen) -> bool {
    let right = seen.statuses.get(&subject.row.status()).copied().unwrap_or(0);
    (seen.requests() - right) * 1000 <= seen.requests()
}

fn print_head(options: &Options, layout: Layout, absent: &BTreeSet<(Kind, Allocator)>) {
    match layout {
        Layout::OneCpu(cpu) => println!("proxy, origin and load on CPU {cpu}"),
        Layout::Unpinned => {
            println!("no `taskset` here: nothing is pinned, so wake-ups between CPUs are in the figures")
        }
    }
    println!(
        "{} rounds of {} ms each, 64 keep-alive connections, closed loop, one worker thread each",
        options.rounds,
        SLICE.as_millis()
    );
    println!("load average at the start {}", load_average());
    for (kind, allocator) in absent {
        match kind {
            Kind::Nginx => println!("nginx is not installed: without its rows (apt-get install nginx-light)"),
            Kind::Haproxy => println!("haproxy is not installed: without its rows (apt-get install haproxy)"),
            _ => println!("{kind:?} with the {allocator:?} allocator could not be built: without its rows"),
        }
    }
}

/// That the row with logs had logs.
fn print_logs(stand: &Stand, subjects: &[Subject]) {
    // nginx was told to write its buffer once a second
    thread::sleep(Duration::from_millis(1200));
    print!("  access-log lines per request:");
    for subject in subjects.iter().filter(|subject| subject.row == Row::Full) {
        let lines = stand.log_lines_per_request(*subject).unwrap_or_default();
        print!(" {} {lines:.3}", subject.name());
    }
    println!();
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}
