//! What it costs to keep the state of limits: CPU time and latencies with snapshots, and without, at the same rates of requests.
//!
//! CPU time is taken at the full rate; the longest latencies also at a low one, at which requests wait for each other and for origin and load
//! less than for the writer.
//!
//! The writer of snapshots runs on the proxy's one CPU, too, so that it is in every request's way. It takes at most one hundredth of a core, so
//! of a table that takes long to read there is less than one snapshot a second: how many there were is printed. Only one proxy runs at a time, as
//! the other would write its last snapshot beside it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::configs::Process;
use crate::latency::{Histogram, RATE};
use crate::plan::Plan;
use crate::process::Layout;
use crate::report::print_bar;
use crate::rows::{OURS, Row, Subject};
use crate::site::{Site, Start};

/// The table of the limit.
const MEBIBYTES: usize = 128;

/// Clients that have a count in it before anything is measured: four in each of its pages of 4 KiB.
const CLIENTS: usize = 400_000;

/// Slices of each proxy in each round, at each rate.
const SLICES: usize = 8;

/// Requests a second for the longest latencies.
const LOW: u64 = RATE / 10;

#[derive(Default)]
struct Measured {
    /// CPU time and the time that it took.
    used: Duration,
    took: Duration,
    /// At the full rate, and at the low one.
    full: Histogram,
    low: Histogram,
    /// Files that were seen: of snapshots.
    files: BTreeSet<(u64, i64, i64)>,
}

impl Measured {
    /// CPU time in percent of a core.
    fn share(&self) -> f64 {
        100.0 * self.used.as_secs_f64() / self.took.as_secs_f64()
    }
}

/// Measures, and prints the table.
pub fn run(site: &Site, layout: Layout, rounds: usize) -> io::Result<()> {
    let [mut without, mut with] = [Measured::default(), Measured::default()];
    for _ in 0..rounds {
        for (is_kept, measured) in [(false, &mut without), (true, &mut with)] {
            let process = Process { table: Some((MEBIBYTES, is_kept)), ..Process::ONE };
            let start = Start { layout, process, under: &[] };
            let Some(proxy) = site.start(Subject { row: Row::Limited, kind: OURS }, start)? else { return Ok(()) };
            let mut fill = site.load(proxy.address, &Plan::kept(CLIENTS))?;
            fill.begin(&format!("requests {CLIENTS}"))?;
            fill.end()?;
            drop(fill);
            for _ in 0..SLICES {
                let (before, begin) = (proxy.running.used()?, Instant::now());
                let slice = Histogram::of(site, proxy.address, RATE)?;
                measured.took += begin.elapsed();
                measured.used += Duration::from_nanos(proxy.running.used()?.nanos_since(&before));
                measured.full.add(&slice);
                measured.low.add(&Histogram::of(site, proxy.address, LOW)?);
                if is_kept {
                    note_files(&proxy.directory.join("state"), &mut measured.files)?;
                }
            }
        }
    }
    println!(
        "\n| {MEBIBYTES} MiB of state | CPU at {RATE}/s, % of a core | p50, µs | at {LOW}/s: p50 | p99 | p99.9 | longest |\n|---|---|---|---|---|---|---|"
    );
    for (name, measured) in [("without", &without), ("with snapshots", &with)] {
        let at = |share| measured.low.quantile(share);
        let (share, middle) = (measured.share(), measured.full.quantile(0.5));
        println!(
            "| {name} | {share:.2} | {middle:.0} | {:.0} | {:.0} | {:.0} | {:.0} |",
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0)
        );
    }
    println!("\nat least {} snapshots in {:.0} s at {RATE}/s\n", with.files.len(), with.took.as_secs_f64());
    print_bar("snapshots: CPU, % of a core", 1.0, with.share() - without.share(), 2);
    for (name, share) in [("p99", 0.99), ("p99.9", 0.999)] {
        let longer = with.low.quantile(share) - without.low.quantile(share);
        print_bar(&format!("snapshots: {name} at {LOW}/s longer by, ms"), 1.0, longer / 1000.0, 2);
    }
    Ok(())
}

/// Notes the files that are there now, by number and time.
fn note_files(directory: &Path, seen: &mut BTreeSet<(u64, i64, i64)>) -> io::Result<()> {
    for file in fs::read_dir(directory)? {
        // one that is being written may be gone again
        let Ok(about) = file?.metadata() else { continue };
        seen.insert((about.ino(), about.mtime(), about.mtime_nsec()));
    }
    Ok(())
}
