//! CPU time per request: all proxies of all rows run at once, idle but for the one that is measured, and take turns.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::thread;
use std::time::Duration;

use crate::clients::Load;
use crate::configs::Process;
use crate::load::Seen;
use crate::process::{Layout, Ticks};
use crate::report::{self, Samples};
use crate::rows::{Kind, Row, Subject};
use crate::site::{Proxy, Site, Start};

/// How long a proxy is loaded in one round. Short, so that a round is over before the machine has changed, and there are many.
const SLICE: Duration = Duration::from_millis(60);

/// Not measured: every connection, pool and page is used for the first time.
const WARM_UP: Duration = Duration::from_millis(200);

/// Long enough for what a proxy does after its last answer.
const SETTLE: Duration = Duration::from_millis(4);

/// Where there is a log, its lines too: tidegate gathers them for 50 ms.
const SETTLE_WITH_LOG: Duration = Duration::from_millis(100);

/// What one slice of one proxy gave.
#[derive(Debug, Clone)]
pub struct Sample {
    /// CPU time per request in microseconds, user and system.
    pub micros: f64,
    /// What it consists of, in clock ticks: coarse in one slice, good over all.
    pub ticks: Ticks,
    /// What the clients saw.
    pub seen: Seen,
    /// Resident memory afterwards, in bytes.
    pub resident: u64,
}

struct Loaded {
    // before the proxy, so that no client sees its end
    load: Load,
    proxy: Proxy,
    requests: u64,
}

impl Loaded {
    fn measure(&mut self, row: Row, slice: Duration) -> io::Result<Sample> {
        let before = self.proxy.running.used()?;
        let seen = self.load.ask(slice)?;
        thread::sleep(if row == Row::Full { SETTLE_WITH_LOG } else { SETTLE });
        let after = self.proxy.running.used()?;
        self.requests += seen.requests();
        Ok(Sample {
            micros: after.nanos_since(&before) as f64 / seen.requests() as f64 / 1000.0,
            ticks: after.ticks_since(&before),
            resident: self.proxy.running.resident()?,
            seen,
        })
    }

    /// Lines in the access log for each request that was served.
    fn log_lines(&self) -> f64 {
        let lines = |name: &str| {
            let log = fs::read(self.proxy.directory.join(name)).ok()?;
            Some(log.iter().filter(|byte| **byte == b'\n').count())
        };
        lines("access.log").or_else(|| lines("stdout")).unwrap_or(0) as f64 / self.requests as f64
    }
}

/// Measures these rows, prints their tables, and returns the samples.
pub fn run(site: &Site, layout: Layout, rows: &[Row], kinds: &[Kind], rounds: usize) -> io::Result<Samples> {
    let mut loaded = BTreeMap::new();
    let mut order = Vec::new();
    for row in rows {
        for kind in kinds.iter().filter(|kind| kind.does(*row)) {
            let subject = Subject { row: *row, kind: *kind };
            let start = Start { layout, process: Process::ONE, under: &[] };
            let Some(proxy) = site.start(subject, start)? else { continue };
            let load = site.load(proxy.address, &site.plan(*row))?;
            let mut one = Loaded { load, proxy, requests: 0 };
            one.measure(*row, WARM_UP)?;
            loaded.insert(subject, one);
            order.push(subject);
        }
    }
    println!("{rounds} rounds of {} ms each, closed loops, one worker thread each", SLICE.as_millis());
    let mut samples = Samples::new();
    let mut wrong = BTreeMap::new();
    for round in 0..rounds {
        // every round begins with another one, so that no proxy always runs after the same neighbour
        order.rotate_left(usize::from(round > 0));
        for subject in &order {
            let Some(one) = loaded.get_mut(subject) else { continue };
            let sample = one.measure(subject.row, SLICE)?;
            if !answers_as_its_row(subject.row, &sample.seen) {
                wrong.insert(*subject, sample.seen.statuses.clone());
            }
            samples.entry(*subject).or_default().push(sample);
        }
    }
    for row in rows {
        report::print_row(*row, &samples);
        if *row == Row::Full {
            // nginx was told to write its buffer once a second
            thread::sleep(Duration::from_millis(1200));
            print!("  access-log lines per request:");
            for (subject, one) in loaded.iter().filter(|(subject, _)| subject.row == Row::Full) {
                print!(" {} {:.3};", subject.kind.name(), one.log_lines());
            }
            println!();
        }
    }
    match wrong.iter().next() {
        None => Ok(samples),
        Some((subject, statuses)) => Err(io::Error::other(format!(
            "{}, {}: not only {} but {statuses:?}, so that its figures mean nothing",
            subject.row.word(),
            subject.kind.name(),
            subject.row.status()
        ))),
    }
}

/// Whether the row's status is all there is, but for one in a hundred: nginx cannot be told to admit less than one a minute.
pub fn answers_as_its_row(row: Row, seen: &Seen) -> bool {
    let right = seen.statuses.get(&row.status()).copied().unwrap_or(0);
    (seen.requests() - right) * 100 <= seen.requests()
}
