//! What more workers bring: CPU time per request and answers a second, from one worker to as many as there are CPUs.
//!
//! Proxy, origin and load share all CPUs, so that answers a second do not grow as they would with a machine for each.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use crate::clients::Load;
use crate::configs::Process;
use crate::plan::Plan;
use crate::process::Layout;
use crate::report::median;
use crate::rows::{Kind, Row, Subject};
use crate::site::{Proxy, Site, Start};

const SLICE: Duration = Duration::from_millis(250);

struct Loaded {
    kind: Kind,
    workers: usize,
    loads: Vec<Load>,
    proxy: Proxy,
    micros: Vec<f64>,
    rates: Vec<f64>,
}

/// Measures, and prints the table.
pub fn run(site: &Site, kinds: &[Kind], rounds: usize) -> io::Result<()> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let counts: Vec<usize> = (0..).map(|power| 1 << power).take_while(|count| *count < cores).chain([cores]).collect();
    let mut all = Vec::new();
    for kind in kinds.iter().filter(|kind| kind.does(Row::Limited)) {
        for workers in &counts {
            let process = Process { workers: *workers, ..Process::ONE };
            let start = Start { layout: Layout::Unpinned, process, under: &[] };
            let Some(proxy) = site.start(Subject { row: Row::Limited, kind: *kind }, start)? else { continue };
            let loads =
                (0..cores).map(|_| site.load(proxy.address, &Plan::kept(100_000))).collect::<io::Result<_>>()?;
            all.push(Loaded { kind: *kind, workers: *workers, loads, proxy, micros: Vec::new(), rates: Vec::new() });
        }
    }
    for round in 0..=rounds {
        all.rotate_left(usize::from(round > 0));
        for one in &mut all {
            let (before, begin) = (one.proxy.running.used()?, Instant::now());
            for load in &mut one.loads {
                load.begin(&format!("for {}", SLICE.as_millis()))?;
            }
            let mut requests = 0;
            for load in &mut one.loads {
                requests += load.end()?.requests();
            }
            let (after, took) = (one.proxy.running.used()?, begin.elapsed());
            if round > 0 {
                one.micros.push(after.nanos_since(&before) as f64 / requests as f64 / 1000.0);
                one.rates.push(requests as f64 / took.as_secs_f64());
            }
        }
    }
    all.sort_by_key(|one| (one.kind, one.workers));
    println!(
        "\n| limited, by workers ({cores} CPUs for all) | workers | CPU µs per request | answers a second |\n|---|---|---|---|"
    );
    for one in &all {
        let (micros, rate) = (median(one.micros.iter().copied()), median(one.rates.iter().copied()));
        println!("| {} | {} | {micros:.1} | {rate:.0} |", one.kind.name(), one.workers);
    }
    Ok(())
}
