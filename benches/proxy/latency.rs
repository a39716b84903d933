//! Latency at a constant rate, from the moment that a request was due: the proxy alone on one CPU, origin and load on another.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::LocalSet;

use crate::configs::Process;
use crate::load::{HOST, read_answer};
use crate::picture;
use crate::process::Layout;
use crate::report::print_bar;
use crate::rows::{Kind, OURS, Row, Subject};
use crate::site::{Site, Start};

/// Requests a second.
pub const RATE: u64 = 10_000;
const SLICE: Duration = Duration::from_millis(1_500);
const CONNECTIONS: usize = 64;
/// Not counted: the requests of the beginning of each slice, 200 ms.
fn settling(rate: u64) -> usize {
    rate as usize / 5
}

/// Latencies by steps of an eighth of an octave, from a microsecond on.
#[derive(Debug, Clone, Default)]
pub struct Histogram(pub BTreeMap<u32, u64>);

impl Histogram {
    /// Steps in an octave.
    pub const STEPS: f64 = 8.0;

    fn note(&mut self, micros: f64) {
        *self.0.entry((micros.max(1.0).log2() * Histogram::STEPS) as u32).or_default() += 1;
    }

    /// Adds those of another.
    pub fn add(&mut self, other: &Histogram) {
        for (step, count) in &other.0 {
            *self.0.entry(*step).or_default() += count;
        }
    }

    /// The middle of a step, in microseconds.
    pub fn micros(step: f64) -> f64 {
        ((step + 0.5) / Histogram::STEPS).exp2()
    }

    /// All latencies.
    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// Below this are so many of all, in microseconds.
    pub fn quantile(&self, share: f64) -> f64 {
        let wanted = self.count() as f64 * share;
        let mut below = 0.0;
        for (step, count) in &self.0 {
            let count = *count as f64;
            if below + count >= wanted {
                return ((f64::from(*step) + (wanted - below) / count) / Histogram::STEPS).exp2();
            }
            below += count;
        }
        0.0
    }

    /// Of one slice at this server, at this many requests a second.
    pub fn of(site: &Site, server: SocketAddr, rate: u64) -> io::Result<Histogram> {
        let output =
            site.ours().args(["pace", &server.to_string(), &rate.to_string()]).stderr(Stdio::inherit()).output()?;
        let slice = Histogram::parse(&String::from_utf8_lossy(&output.stdout));
        slice.filter(|slice| slice.count() > 0).ok_or_else(|| io::Error::other("no latencies"))
    }

    fn line(&self) -> String {
        self.0.iter().map(|(step, count)| format!("{step}={count}")).collect::<Vec<_>>().join(" ")
    }

    fn parse(line: &str) -> Option<Histogram> {
        let pair = |word: &str| {
            let (step, count) = word.split_once('=')?;
            Some((step.parse().ok()?, count.parse().ok()?))
        };
        line.split_whitespace().map(pair).collect::<Option<_>>().map(Histogram)
    }
}

/// Asks at the rate for one slice, and prints the histogram.
pub fn pace(server: SocketAddr, rate: u64) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let histogram = LocalSet::new().block_on(&runtime, paced(server, rate))?;
    println!("{}", histogram.line());
    Ok(())
}

async fn paced(server: SocketAddr, rate: u64) -> io::Result<Histogram> {
    let mut idle = VecDeque::new();
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        idle.push_back(stream);
    }
    let (idle, histogram) = (Rc::new(RefCell::new(idle)), Rc::new(RefCell::new(Histogram::default())));
    let interval = Duration::from_secs(1) / rate as u32;
    let begin = Instant::now();
    let all = (SLICE.as_nanos() / interval.as_nanos()) as usize;
    let mut tasks = Vec::with_capacity(all);
    let mut asked = 0;
    let (mut ticks, ticking) = UnixStream::pair()?;
    let ticking = ticking.into_std()?;
    ticking.set_nonblocking(false)?;
    std::thread::spawn(move || tick(ticking, begin, interval, all));
    // a request for which no connection is free stays due
    while asked < all {
        if ticks.read(&mut [0; 256]).await? == 0 {
            return Err(io::Error::other("the load could not keep up"));
        }
        while asked < all && begin + interval * asked as u32 <= Instant::now() {
            let Some(mut stream) = idle.borrow_mut().pop_front() else { break };
            let (due, number) = (begin + interval * asked as u32, asked);
            asked += 1;
            let (idle, histogram) = (Rc::clone(&idle), Rc::clone(&histogram));
            tasks.push(tokio::task::spawn_local(async move {
                let request = format!(
                    "GET /bench HTTP/1.1\r\nHost: {HOST}\r\nUser-Agent: bench\r\nAccept: */*\r\nX-Forwarded-For: 32.0.{}.{}\r\n\r\n",
                    number >> 8 & 255,
                    number & 255
                );
                stream.write_all(request.as_bytes()).await?;
                let answer = read_answer(&mut stream, &mut [0; 4096]).await?;
                if answer.status != 200 {
                    return Err(io::Error::other("an answer other than 200"));
                }
                if number >= settling(rate) {
                    histogram.borrow_mut().note(due.elapsed().as_nanos() as f64 / 1000.0);
                }
                idle.borrow_mut().push_back(stream);
                Ok(())
            }));
        }
    }
    for task in tasks {
        task.await.map_err(io::Error::other)??;
    }
    Ok(histogram.take())
}

/// Writes a byte at each of so many points in time, and some more so that what was late is asked for. tokio's own timers are good to a
/// millisecond.
fn tick(mut to: std::os::unix::net::UnixStream, begin: Instant, interval: Duration, all: usize) {
    // without it each sleep takes 50 µs more
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    for number in 0..2 * all {
        let due = begin + interval * number as u32;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        // the other end has enough
        if to.write_all(&[0]).is_err() {
            return;
        }
    }
}

/// Measures, prints the table, and draws the picture.
pub fn run(site: &Site, proxies: Layout, kinds: &[Kind], rounds: usize, picture: Option<&Path>) -> io::Result<()> {
    let row = Row::Limited;
    let mut servers = vec![("no proxy".to_owned(), site.origin, None)];
    let mut running = Vec::new();
    for kind in kinds {
        let row = if kind.does(row) { row } else { Row::Plain };
        let start = Start { layout: proxies, process: Process::ONE, under: &[] };
        let Some(proxy) = site.start(Subject { row, kind: *kind }, start)? else { continue };
        servers.push((kind.name().to_owned(), proxy.address, Some(*kind)));
        running.push(proxy);
    }
    let mut found: Vec<Histogram> = vec![Histogram::default(); servers.len()];
    for round in 0..=rounds {
        for (histogram, (name, address, _)) in found.iter_mut().zip(&servers) {
            let slice =
                Histogram::of(site, *address, RATE).map_err(|error| io::Error::other(format!("{name}: {error}")))?;
            // the first is to warm up
            if round > 0 {
                histogram.add(&slice);
            }
        }
    }
    println!(
        "\n| latency at {RATE}/s, µs, limited (bare Pingora: plain) | p50 | p90 | p99 | p99.9 |\n|---|---|---|---|---|"
    );
    let mut middles = BTreeMap::new();
    for (histogram, (name, _, kind)) in found.iter().zip(&servers) {
        let at = |share| histogram.quantile(share);
        println!("| {name} | {:.0} | {:.0} | {:.0} | {:.0} |", at(0.5), at(0.9), at(0.99), at(0.999));
        kind.map(|kind| middles.insert(kind, at(0.5)));
    }
    println!();
    if let (Some(ours), Some(nginx)) = (middles.get(&OURS), middles.get(&Kind::Nginx)) {
        print_bar("latency, p50 ÷ nginx", 1.0, ours / nginx, 2);
    }
    if let Some(path) = picture {
        let curves: Vec<_> = servers.iter().map(|(name, _, _)| name.as_str()).zip(&found).collect();
        std::fs::write(path, picture::draw(&curves))?;
        println!("written to {}", path.display());
    }
    Ok(())
}
