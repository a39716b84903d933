//! What a request costs: tidegate, nginx, HAProxy and bare Pingora doing the same work. `cargo bench --bench proxy`, some ten minutes.
//!
//! | part | what it measures |
//! |---|---|
//! | `ratios` | CPU time per request of each process, user and system, as a multiple of nginx's, for each row |
//! | `instructions` | user-mode instructions and allocations per request, by callgrind |
//! | `latency` | latency at a constant 10,000 a second |
//! | `memory` | resident memory: at start, of idle connections, by limits, after a crowd |
//! | `workers` | what more workers bring |
//! | `snapshots` | what it costs to keep the state of limits, and what requests notice of it |
//!
//! CPU time is each process's own, from the scheduler's accounting of all its threads, so that neither origin nor load nor
//! neighbours are in it. A neighbour still costs everybody caches and bandwidth: the proxies take turns in short slices,
//! and ratios are taken within a round of turns. Trust ratios rather than absolutes, and a quiet machine more than a busy one.
//! One CPU carries proxy, origin and load, and all connections always have a request under way: no wake-up from another CPU
//! gets into the cost.
//!
//! After `--`: words for parts and rows (`plain`, `limited`, `full`, `refused`, `refused_each`, `tls`, `http2`, `body_64k`, `body_1m`) measure
//! only these; `--only TEXT` only the proxies whose name holds it, and nginx; `--rounds N`; `--quick` runs everything in a minute, to see that
//! it runs; `--cpu N`, 0 by default; `--picture FILE` draws the latencies; `--dumps FOLDER` keeps what callgrind counted, for
//! `callgrind_annotate`. The environment's `TIDEGATE` is another program to measure than the one that was built with this.

mod bare;
mod certificate;
mod clients;
mod configs;
mod instructions;
mod latency;
mod load;
mod memory;
mod origin;
mod parent;
mod picture;
mod plan;
mod process;
mod ratios;
mod report;
mod rows;
mod site;
mod snapshots;
mod workers;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use plan::Plan;
use process::Layout;
use rows::{Kind, Row};
use site::Site;

// as in tidegate's binary
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["origin"] => origin::serve(),
        ["load", proxy, ref plan @ ..] => {
            proxy.parse().map_err(io::Error::other).and_then(|proxy| load::drive(proxy, &Plan::read(plan)?))
        }
        ["pace", server, rate] => match (server.parse(), rate.parse()) {
            (Ok(server), Ok(rate)) => latency::pace(server, rate),
            _ => Err(io::Error::other("pace ADDRESS RATE")),
        },
        _ if bare::serve(&words).is_some() => Ok(()),
        _ => match Options::parse(&words) {
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

const PARTS: [&str; 6] = ["ratios", "instructions", "latency", "memory", "workers", "snapshots"];

struct Options {
    rounds: usize,
    quick: bool,
    cpu: u32,
    only: Option<String>,
    parts: Vec<&'static str>,
    rows: Vec<Row>,
    picture: Option<PathBuf>,
    dumps: Option<PathBuf>,
}

impl Options {
    /// `None` if cargo does not say that this is a benchmark.
    fn parse(arguments: &[&str]) -> Result<Option<Options>, String> {
        let (parts, rows) = (Vec::new(), Vec::new());
        let mut options =
            Options { rounds: 45, quick: false, cpu: 0, only: None, parts, rows, picture: None, dumps: None };
        let mut bench = false;
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().copied().ok_or_else(|| format!("{argument}: needs a value"));
            match *argument {
                "--bench" => bench = true,
                "--quick" => (options.quick, options.rounds) = (true, 4),
                "--rounds" => options.rounds = value()?.parse().map_err(|_| format!("{argument}: needs a number"))?,
                "--cpu" => options.cpu = value()?.parse().map_err(|_| format!("{argument}: needs a number"))?,
                "--only" => options.only = Some(value()?.to_owned()),
                "--picture" => options.picture = Some(value()?.into()),
                "--dumps" => options.dumps = Some(value()?.into()),
                word => {
                    match (PARTS.iter().find(|part| **part == word), Row::ALL.iter().find(|row| row.word() == word)) {
                        (Some(part), _) => options.parts.push(part),
                        (_, Some(row)) => options.rows.push(*row),
                        _ => {
                            let rows = Row::ALL.map(Row::word).join(", ");
                            return Err(format!(
                                "{word}: unknown; there are {}, {rows}, --rounds N, --quick, --cpu N, --only TEXT, --picture FILE, --dumps FOLDER",
                                PARTS.join(", ")
                            ));
                        }
                    }
                }
            }
        }
        if options.parts.is_empty() {
            // rows without a part: their ratios
            options.parts = if options.rows.is_empty() { PARTS.to_vec() } else { vec!["ratios"] };
        }
        if options.rows.is_empty() {
            options.rows = Row::ALL.to_vec();
        }
        Ok(bench.then_some(options))
    }

    fn kinds(&self) -> Vec<Kind> {
        let wanted = |kind: &Kind| {
            *kind == Kind::Nginx || self.only.as_ref().is_none_or(|text| kind.name().contains(text.as_str()))
        };
        Kind::ALL.into_iter().filter(wanted).collect()
    }
}

fn run(options: &Options) -> io::Result<()> {
    let (kinds, rows) = (options.kinds(), &options.rows);
    let layout = Layout::find(options.cpu);
    let site = Site::new(layout)?;
    match layout {
        Layout::OneCpu(cpu) => println!("proxy, origin and load on CPU {cpu}, but for latency, snapshots and workers"),
        Layout::Unpinned => {
            println!("no `taskset` here: nothing is pinned, so wake-ups between CPUs are in the figures")
        }
    }
    for (name, package) in [("nginx", "nginx-light"), ("haproxy", "haproxy")] {
        if site::find(name).is_none() {
            println!("{name} is not installed: without it (apt-get install {package})");
        }
    }
    println!("load average at the start {}", load_average());
    let wants = |part: &str| options.parts.contains(&part);
    if wants("ratios") {
        let samples = ratios::run(&site, layout, rows, &kinds, options.rounds)?;
        report::print_summary(rows, &samples);
        report::print_bars(rows, &samples);
    }
    if wants("instructions") {
        instructions::run(&site, layout, rows, &kinds, options.dumps.as_deref())?;
    }
    for part in ["latency", "snapshots"].into_iter().filter(|part| wants(part)) {
        let other = Layout::find(options.cpu + 1);
        if layout == Layout::Unpinned || other == Layout::Unpinned {
            println!("\n{part}: skipped, as it needs two CPUs and `taskset`");
            continue;
        }
        let rounds = if options.quick { 1 } else { 6 };
        let apart = Site::new(other)?;
        match part {
            "latency" => latency::run(&apart, layout, &kinds, rounds, options.picture.as_deref())?,
            _ if kinds.contains(&rows::OURS) => snapshots::run(&apart, layout, rounds.div_ceil(3))?,
            _ => {}
        }
    }
    if wants("memory") {
        memory::run(&site, layout, &kinds, options.quick.then_some(1_000))?;
    }
    if wants("workers") {
        workers::run(&site, &kinds, if options.quick { 1 } else { 7 })?;
    }
    println!("\nload average at the end {}", load_average());
    Ok(())
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}
