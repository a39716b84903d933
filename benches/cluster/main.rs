//! What it costs to share a limit: `cargo bench --bench cluster`, some four minutes. The gate with a limit of its own, with one
//! that it shares by leases or by asking about every request, and a pingora server that asks Redis by a script as others do.
//!
//! CPU time is each process's own, from the scheduler's accounting of its threads: the server's, and Redis'. Servers take turns
//! in short slices, and ratios are taken within a round of turns. One CPU carries server, Redis and load; with 64 connections one of
//! them always has something to do, and no wake-up from another CPU gets into the cost. All servers answer by themselves, without
//! an origin. Trust ratios rather than absolutes.
//!
//! After `--`: `--quick` runs everything in half a minute, to see that it runs; `--rounds N`; `--cpu N`, 0 by default.

#[path = "../proxy/clients.rs"]
mod clients;
#[expect(dead_code, reason = "what reaches an origin is looked at elsewhere")]
#[path = "../proxy/load.rs"]
mod load;
#[expect(dead_code, reason = "the load reads heads as the origin does, and there is none here")]
#[path = "../proxy/origin.rs"]
mod origin;
#[path = "../proxy/parent.rs"]
mod parent;
#[path = "../proxy/plan.rs"]
mod plan;
#[expect(dead_code, reason = "its memory and its ticks are told elsewhere")]
#[path = "../proxy/process.rs"]
mod process;
mod report;
mod rows;
mod script;
mod stand;

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use plan::Plan;
use process::Layout;
use report::Samples;
use rows::{ROWS, SCENES};
use stand::{Served, Stand};

// as in tidegate's binary
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long a server is measured in one round.
const SLICE: Duration = Duration::from_millis(700);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["load", server, ref plan @ ..] => drive(server, plan),
        _ if script::serve(&arguments).is_some() => Ok(()),
        _ => match Options::parse(&arguments) {
            Ok(Some(options)) => run(&options),
            // cargo runs benchmarks as tests too; this one shows nothing in a moment
            Ok(None) => {
                println!("measures only under `cargo bench --bench cluster`");
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

fn drive(server: &str, plan: &[&str]) -> io::Result<()> {
    load::drive(server.parse().map_err(io::Error::other)?, &Plan::read(plan)?)
}

struct Options {
    rounds: usize,
    cpu: u32,
}

impl Options {
    /// `None` if cargo does not say that this is a benchmark.
    fn parse(arguments: &[String]) -> Result<Option<Options>, String> {
        let mut options = Options { rounds: 7, cpu: 0 };
        let mut bench = false;
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().ok_or_else(|| format!("{argument}: needs a value"));
            let number = |text: &String| text.parse().map_err(|_| format!("{argument}: needs a number"));
            match argument.as_str() {
                "--bench" => bench = true,
                "--quick" => options.rounds = 1,
                "--rounds" => options.rounds = number(value()?)? as usize,
                "--cpu" => options.cpu = number(value()?)?,
                _ => return Err(format!("{argument}: unknown; there are --quick, --rounds N, --cpu N")),
            }
        }
        Ok(bench.then_some(options))
    }
}

fn run(options: &Options) -> io::Result<()> {
    let layout = Layout::find(options.cpu);
    let stand = Stand::new(layout)?;
    match layout {
        Layout::OneCpu(cpu) => println!("server, Redis and load on CPU {cpu}"),
        Layout::Unpinned => {
            println!("no `taskset` here: nothing is pinned, so wake-ups between CPUs are in the figures")
        }
    }
    println!(
        "{} rounds of {} ms each, 64 keep-alive connections, closed loop, one worker thread; load average {}",
        options.rounds,
        SLICE.as_millis(),
        load_average()
    );
    for scene in &SCENES {
        let here = (0..ROWS.len()).filter(|row| scene.has(&ROWS[*row]));
        let mut servers: Vec<Served> = here.map(|row| stand.start(scene, row)).collect::<io::Result<_>>()?;
        let mut samples = Samples::new();
        for served in &mut servers {
            // every connection, table and page is used for the first time
            stand.measure(served, SLICE / 2)?;
        }
        for _ in 0..options.rounds.max(1) {
            for served in &mut servers {
                samples.entry(served.row).or_default().push(stand.measure(served, SLICE)?);
            }
            // so that none always runs after the same neighbour
            servers.rotate_left(1);
        }
        report::print(scene, &samples);
    }
    println!("\nload average at the end {}", load_average());
    Ok(())
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}
