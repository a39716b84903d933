//! Resident memory: at the start, by limits, of idle connections, and after a crowd has come and gone.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};

use crate::configs::Process;
use crate::plan::Plan;
use crate::process::Layout;
use crate::report::print_bar;
use crate::rows::{Kind, OURS, Row, Subject};
use crate::site::{Proxy, Site, Start};

const CROWD: usize = 10_000;

/// Until memory is given back that is going to be.
const PATIENCE: Duration = Duration::from_secs(20);

const MIB: f64 = (1 << 20) as f64;

/// Measures, and prints the table.
pub fn run(site: &Site, layout: Layout, kinds: &[Kind], crowd: Option<usize>) -> io::Result<()> {
    // of the descriptors that it may have, tidegate keeps half for origins
    let descriptors = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX) / 2;
    let fit = usize::try_from(descriptors).unwrap_or(usize::MAX).saturating_sub(1_000);
    let crowd = crowd.unwrap_or(CROWD).min(fit);
    if crowd == 0 {
        println!("\nmemory: skipped, as it needs more than 2,000 descriptors (`ulimit -Hn`)");
        return Ok(());
    }
    println!("\n| memory | at start, MiB | each of {crowd} idle connections, KB | after they have gone, MiB |");
    println!("|---|---|---|---|");
    let mut ours = None;
    for kind in kinds {
        let Some(proxy) = start(site, layout, *kind, None)? else { continue };
        let at_start = settled(&proxy)?;
        let mut load = site.load(proxy.address, &Plan { connections: crowd, ..Plan::kept(crowd) })?;
        load.begin("once")?;
        load.end()?;
        let each = (settled(&proxy)? - at_start) / crowd as f64;
        drop(load);
        let after = gone(&proxy, at_start)?;
        println!("| {} | {:.1} | {:.2} | {:.1} |", kind.name(), at_start / MIB, each / 1000.0, after / MIB);
        if *kind == OURS {
            ours = Some(each / 1000.0);
        }
    }
    println!("\n| tidegate, limits of type `rate` | at start, MiB |\n|---|---|");
    for limits in [0, 1, 100, 1_000] {
        let Some(proxy) = start(site, layout, OURS, Some(limits))? else { continue };
        println!("| {limits} | {:.1} |", settled(&proxy)? / MIB);
    }
    println!();
    if let Some(each) = ours {
        print_bar("memory of an idle connection, KB", 4.0, each, 2);
    }
    Ok(())
}

fn start(site: &Site, layout: Layout, kind: Kind, limits: Option<usize>) -> io::Result<Option<Proxy>> {
    let process = Process { limits, ..Process::ONE };
    site.start(Subject { row: Row::Plain, kind }, Start { layout, process, under: &[] })
}

/// What is resident once it has done what it had to.
fn settled(proxy: &Proxy) -> io::Result<f64> {
    thread::sleep(Duration::from_millis(500));
    Ok(proxy.running.resident()? as f64)
}

/// The least that is resident within [`PATIENCE`].
fn gone(proxy: &Proxy, at_start: f64) -> io::Result<f64> {
    let end = Instant::now() + PATIENCE;
    let mut least = settled(proxy)?;
    while Instant::now() < end && least > at_start * 1.05 {
        least = least.min(settled(proxy)?);
    }
    Ok(least)
}
