//! What it costs to keep the state of limits: CPU time and latencies with a snapshot every second, and without, at the same rate of requests.
//!
//! The writer of snapshots runs on the proxy's one CPU, too, so that it is in every request's way.

use std::io;
use std::time::Instant;

use crate::configs::Process;
use crate::latency::{Histogram, RATE};
use crate::process::Layout;
use crate::report::{median, print_bar};
use crate::rows::{OURS, Row, Subject};
use crate::site::{Proxy, Site, Start};

/// The table of the limit.
const MEBIBYTES: usize = 128;

struct Measured {
    name: &'static str,
    proxy: Proxy,
    /// CPU time in each slice, as a share of the time that it took.
    shares: Vec<f64>,
    histogram: Histogram,
}

/// Measures, and prints the table.
pub fn run(site: &Site, layout: Layout, rounds: usize) -> io::Result<()> {
    let mut all = Vec::new();
    for (name, is_kept) in [("without", false), ("with a snapshot every second", true)] {
        let process = Process { table: Some((MEBIBYTES, is_kept)), ..Process::ONE };
        let start = Start { layout, process, under: &[] };
        let Some(proxy) = site.start(Subject { row: Row::Limited, kind: OURS }, start)? else { return Ok(()) };
        all.push(Measured { name, proxy, shares: Vec::new(), histogram: Histogram::default() });
    }
    for round in 0..=2 * rounds {
        all.rotate_left(1);
        for one in &mut all {
            let (before, begin) = (one.proxy.running.used()?, Instant::now());
            let slice = Histogram::of(site, one.proxy.address)?;
            let (after, took) = (one.proxy.running.used()?, begin.elapsed());
            // the first is to warm up
            if round > 0 {
                one.histogram.add(&slice);
                one.shares.push(after.nanos_since(&before) as f64 / took.as_nanos() as f64);
            }
        }
    }
    all.sort_by_key(|one| one.name.len());
    println!(
        "\n| {MEBIBYTES} MiB of state, {RATE}/s | CPU, % of a core | p50, µs | p99.9 | longest |\n|---|---|---|---|---|"
    );
    for Measured { name, shares, histogram, .. } in &all {
        let at = |share| histogram.quantile(share);
        let share = 100.0 * median(shares.iter().copied());
        println!("| {name} | {share:.2} | {:.0} | {:.0} | {:.0} |", at(0.5), at(0.999), at(1.0));
    }
    println!();
    if let [without, with] = &all[..] {
        let share = |one: &Measured| 100.0 * median(one.shares.iter().copied());
        print_bar("snapshots: CPU, % of a core", 1.0, share(with) - share(without), 2);
        let longer = with.histogram.quantile(0.999) - without.histogram.quantile(0.999);
        print_bar("snapshots: p99.9 longer by, ms", 1.0, longer / 1000.0, 2);
    }
    Ok(())
}
