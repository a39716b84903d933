//! Measures how near the process is to what it can serve, and says who is refused when it is too near.
//!
//! * **Delay**: a probe per worker, four at most, is a task that sleeps for 20 ms and notes how late it is woken. The least of them counts: as long as
//!   one worker is free, what is ready is begun.
//! * **Memory**: what the process has written to (`RssAnon`), against `memory_limit` or the least `memory.max` of its control groups.
//! * **Descriptors**: open connections of clients, against those that they may have.
//! * **Accept queue**: connections that the kernel has completed and nobody has accepted, from `TCP_INFO` of the listening socket, after
//!   an accept and at most once in 20 ms. UNIX sockets do not tell it.
//!
//! A thread of its own, outside the runtime that it watches, decides fifty times a second ([`Controller`]). Without pressure a connection and a request pay
//! for one load each.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::clock::{Clock, roll};
use crate::config::settings;
use crate::overload::delay::standing;
use crate::overload::{Bounds, Controller, Pressure, Readings, Refusing, Resource, Shares};
use crate::sketch::Seed;
use crate::units::time::saturating_nanos;
use crate::units::{Bytes, Criticality, OutOfRange, Prefix, Timestamp};

/// From one decision to the next, and how long a probe sleeps.
const TICK: Duration = Duration::from_millis(20);

/// Ticks from one look at the memory to the next, which takes some 20 µs.
const MEMORY_TICKS: u32 = 12;

/// How long the fullest accept queue that was seen counts.
const QUEUE_KEPT: Duration = Duration::from_secs(1);

/// More probes than these would not find a free worker that these do not.
const MOST_PROBES: usize = 4;

/// While clients are refused, a connection that has waited for so many times `delay` is closed: its client has hardly the patience for
/// the rest, and those behind it would wait as long.
const STALE: u32 = 4;

/// After a line in the log that refusing begins, there is no other for so long.
const QUIET: Duration = Duration::from_secs(60);

/// The measurements and what follows from them. Words of it are read and written alone: a decision by the state of a moment ago is as good.
#[derive(Debug)]
pub struct Overload {
    clock: Clock,
    bounds: Bounds,
    memory_limit: Option<u64>,
    connections: Shares<1>,
    requests: Shares<4>,
    probes: Box<[Probe]>,
    /// A probe is overdue: whoever begins work says so in `progress`.
    waiting: AtomicBool,
    progress: AtomicBool,
    /// The fullest accept queue, as `f64`, and when it was seen.
    backlog: AtomicU64,
    backlog_seen: AtomicU64,
    pressure: [AtomicU64; 4],
    delay_nanos: AtomicU64,
    refusing: AtomicBool,
}

/// When a probe is due and how late the last one was, in nanoseconds.
#[derive(Debug, Default)]
struct Probe {
    due: AtomicU64,
    late: AtomicU64,
}

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shown {
    /// The pressure of each resource, in the order of [`Resource::ALL`].
    pub pressure: [f64; 4],
    /// The scheduling delay.
    pub delay: Duration,
    /// Clients are refused if they are heavy enough.
    pub refusing: bool,
}

impl Overload {
    /// Nobody is refused until [`Overload::watch`] is called.
    ///
    /// # Errors
    /// What [`Shares::new`] refuses.
    pub fn new(
        settings: &settings::Overload,
        clock: Clock,
        seed: &Seed,
        workers: usize,
    ) -> Result<Overload, OutOfRange> {
        let bounds = Bounds {
            delay: settings.delay,
            memory: settings.memory.get(),
            descriptors: settings.descriptors.get(),
            backlog: settings.backlog.get(),
        };
        Ok(Overload {
            clock,
            bounds,
            memory_limit: settings.memory_limit.map(|Bytes(limit)| limit).or_else(group_limit),
            connections: Shares::new(&seed.derive("connections"))?,
            requests: Shares::new(&seed.derive("requests"))?,
            probes: (0..workers.clamp(1, MOST_PROBES)).map(|_| Probe::default()).collect(),
            waiting: AtomicBool::new(false),
            progress: AtomicBool::new(false),
            backlog: AtomicU64::new(0),
            backlog_seen: AtomicU64::new(0),
            pressure: Default::default(),
            delay_nanos: AtomicU64::new(0),
            refusing: AtomicBool::new(false),
        })
    }

    /// Returns whether a new connection of `client` may stay.
    #[inline]
    pub fn admits_connection(&self, client: Prefix) -> bool {
        self.connections.admit(client, 0, || (self.clock.now(), roll()))
    }

    /// Returns whether a request of `client` may be served.
    #[inline]
    pub fn admits_request(&self, client: Prefix, criticality: Criticality, now: Timestamp) -> bool {
        self.begun();
        self.requests.admit(client, criticality.importance(), || (now, roll()))
    }

    /// Some work was begun.
    #[inline]
    pub fn begun(&self) {
        if self.waiting.load(Ordering::Relaxed) {
            self.progress.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether a connection that waited for so long before it was looked at is given up.
    pub fn is_stale(&self, waited: Duration) -> bool {
        waited > self.bounds.delay * STALE && self.refusing.load(Ordering::Relaxed)
    }

    /// Notes how full an accept queue is, 0 to 1.
    pub fn note_backlog(&self, share: f64) {
        let now = self.clock.now().nanos();
        let old = now.saturating_sub(self.backlog_seen.load(Ordering::Relaxed)) > saturating_nanos(QUEUE_KEPT);
        if old || share >= f64::from_bits(self.backlog.load(Ordering::Relaxed)) {
            self.backlog.store(share.to_bits(), Ordering::Relaxed);
            self.backlog_seen.store(now, Ordering::Relaxed);
        }
    }

    /// What was measured and decided last.
    pub fn shown(&self) -> Shown {
        Shown {
            pressure: self.pressure.each_ref().map(|part| f64::from_bits(part.load(Ordering::Relaxed))),
            delay: Duration::from_nanos(self.delay_nanos.load(Ordering::Relaxed)),
            refusing: self.refusing.load(Ordering::Relaxed),
        }
    }

    /// Begins to measure the runtime that this is called in. `descriptors` tells which share of those for clients is in use.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn watch(self: &Arc<Self>, descriptors: impl Fn() -> f64 + Send + 'static) -> io::Result<Watch> {
        for probe in 0..self.probes.len() {
            tokio::spawn(probing(Arc::clone(self), probe));
        }
        let (alive, end) = mpsc::channel::<()>();
        let overload = Arc::clone(self);
        thread::Builder::new().name("overload".to_owned()).spawn(move || {
            let mut round = Round::new(&overload);
            while end.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                round.go(&overload, descriptors());
            }
            overload.connections.count(None);
            overload.requests.count(None);
        })?;
        Ok(Watch { _alive: alive })
    }

    /// The least delay of all probes.
    fn delay(&self, now: Timestamp) -> Duration {
        let overdue =
            |probe: &Probe| Duration::from_nanos(now.nanos().saturating_sub(probe.due.load(Ordering::Relaxed)));
        let waiting = self.probes.iter().map(overdue).max().is_some_and(|longest| longest > Duration::from_millis(2));
        if !waiting {
            self.progress.store(false, Ordering::Relaxed);
        }
        self.waiting.store(waiting, Ordering::Relaxed);
        let progress = self.progress.load(Ordering::Relaxed);
        let delay = |probe: &Probe| {
            // one that never slept yet has no due time
            let overdue = if probe.due.load(Ordering::Relaxed) == 0 { Duration::ZERO } else { overdue(probe) };
            standing(Duration::from_nanos(probe.late.load(Ordering::Relaxed)), overdue, progress)
        };
        self.probes.iter().map(delay).min().unwrap_or_default()
    }

    fn backlog_lately(&self, now: Timestamp) -> f64 {
        let seen = self.backlog_seen.load(Ordering::Relaxed);
        if now.nanos().saturating_sub(seen) > saturating_nanos(QUEUE_KEPT) {
            return 0.0;
        }
        f64::from_bits(self.backlog.load(Ordering::Relaxed))
    }

    fn show(&self, pressure: &Pressure, delay: Duration, refusing: bool) {
        for (word, resource) in self.pressure.iter().zip(Resource::ALL) {
            word.store(pressure.part(resource).to_bits(), Ordering::Relaxed);
        }
        self.delay_nanos.store(saturating_nanos(delay), Ordering::Relaxed);
        self.refusing.store(refusing, Ordering::Relaxed);
    }
}

/// Sleeps and notes how late it wakes, for ever.
async fn probing(overload: Arc<Overload>, probe: usize) {
    let Some(probe) = overload.probes.get(probe) else { return };
    loop {
        let due = overload.clock.now().after(TICK);
        probe.due.store(due.nanos(), Ordering::Relaxed);
        tokio::time::sleep(TICK).await;
        probe.late.store(saturating_nanos(overload.clock.now().since(due)), Ordering::Relaxed);
    }
}

/// Ends the measuring when it is dropped.
#[derive(Debug)]
#[must_use = "the measuring ends when this is dropped"]
pub struct Watch {
    /// Nothing is ever sent.
    _alive: mpsc::Sender<()>,
}

/// What the thread knows.
struct Round {
    controller: Controller,
    memory: f64,
    ticks: u32,
    last: Refusing,
    told: Option<Timestamp>,
    /// A line that refusing began is in the log, and none that it ended.
    open: bool,
}

impl Round {
    fn new(overload: &Overload) -> Round {
        let controller = Controller::new(overload.bounds);
        Round { controller, memory: 0.0, ticks: 0, last: Refusing::default(), told: None, open: false }
    }

    fn go(&mut self, overload: &Overload, descriptors: f64) {
        let now = overload.clock.now();
        if self.ticks.is_multiple_of(MEMORY_TICKS) {
            self.memory = overload.memory_limit.zip(resident()).map_or(0.0, |(limit, used)| used as f64 / limit as f64);
        }
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks.is_multiple_of(50) {
            overload.connections.maintain(now);
            overload.requests.maintain(now);
        }
        let (delay, backlog) = (overload.delay(now), overload.backlog_lately(now));
        let readings = Readings { delay, memory: self.memory, descriptors, backlog };
        let decided = self.controller.tick(now, &readings, &overload.connections, &overload.requests);
        overload.show(&decided.pressure, delay, decided.refusing);
        if decided.refusing != self.last.refusing {
            self.tell(now, &decided);
        }
        self.last = decided;
    }

    /// Says in the log that refusing begins and ends, at most one pair a minute.
    fn tell(&mut self, now: Timestamp, decided: &Refusing) {
        if decided.refusing && self.told.is_none_or(|told| now.since(told) >= QUIET) {
            (self.told, self.open) = (Some(now), true);
            tracing::warn!(
                resource = decided.pressure.resource().word(),
                pressure = (decided.pressure.value() * 100.0).round() / 100.0,
                "overload: the least important and the heaviest are refused; docs/overload.md says what to do"
            );
        } else if !decided.refusing && self.open {
            self.open = false;
            tracing::info!("overload is over: nobody is refused for it any more");
        }
    }
}

/// What the process has written to, in bytes: pages of files could be dropped.
fn resident() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// The least that a control group of this process may have (version 2); `None` without a bound.
fn group_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    least_limit(Path::new("/sys/fs/cgroup"), Path::new(own))
}

fn least_limit(root: &Path, own: &Path) -> Option<u64> {
    let limit = |group: &Path| fs::read_to_string(root.join(group).join("memory.max")).ok()?.trim().parse::<u64>().ok();
    own.ancestors().filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: Seed = Seed::from_bytes([3; 16]);

    fn overload(memory_limit: Option<u64>) -> Overload {
        let settings = settings::Overload { memory_limit: memory_limit.map(Bytes), ..settings::Overload::default() };
        Overload::new(&settings, Clock::start(), &SEED, 2).unwrap()
    }

    fn client() -> Prefix {
        Prefix::around(std::net::Ipv4Addr::new(198, 51, 100, 7).into(), 32, 64)
    }

    #[test]
    fn memory_that_is_used_up_closes_new_connections_and_requests_of_all_but_the_critical() {
        // this test program alone has written to more than that
        let overload = overload(Some(1 << 16));
        let mut round = Round::new(&overload);
        assert!(overload.admits_connection(client()));
        for _ in 0..8 {
            round.go(&overload, 0.0);
            thread::sleep(TICK);
        }
        let shown = overload.shown();
        assert_eq!((shown.refusing, shown.pressure[Resource::Memory as usize]), (true, 1.0));
        assert!(!overload.admits_connection(client()));
        let now = overload.clock.now();
        assert!(!overload.admits_request(client(), Criticality::Background, now));
        assert!(!overload.admits_request(client(), Criticality::Default, now));
        assert!(overload.admits_request(client(), Criticality::Critical, now));
    }

    #[test]
    fn a_probe_that_is_late_is_pressure_only_while_work_is_begun() {
        let overload = overload(None);
        let due = overload.clock.now().nanos().saturating_sub(80_000_000);
        overload.probes.iter().for_each(|probe| probe.due.store(due, Ordering::Relaxed));
        assert_eq!(overload.delay(overload.clock.now()), Duration::ZERO, "nothing is served: the machine stands");
        overload.begun();
        assert!(overload.delay(overload.clock.now()) >= Duration::from_millis(80));
        // one free worker is enough
        overload.probes[1].due.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(overload.delay(overload.clock.now()), Duration::ZERO);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn an_idle_runtime_has_no_pressure() {
        let overload = Arc::new(overload(None));
        let watch = overload.watch(|| 0.25).unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let shown = overload.shown();
        assert!(shown.pressure[Resource::Descriptors as usize] > 0.1, "it never looked: {shown:?}");
        assert!(!shown.refusing && overload.admits_connection(client()));
        drop(watch);
    }

    #[test]
    fn a_full_accept_queue_counts_for_a_second() {
        let overload = overload(None);
        overload.note_backlog(0.9);
        overload.note_backlog(0.1);
        let now = overload.clock.now();
        assert_eq!(overload.backlog_lately(now), 0.9);
        assert_eq!(overload.backlog_lately(now.after(Duration::from_secs(2))), 0.0);
    }

    #[test]
    fn the_narrowest_control_group_bounds_the_memory() {
        let root = std::env::temp_dir().join(format!("tidegate-groups-{}", std::process::id()));
        let own = root.join("a/b");
        fs::create_dir_all(&own).unwrap();
        assert_eq!(least_limit(&root, Path::new("a/b")), None);
        fs::write(own.join("memory.max"), "max\n").unwrap();
        fs::write(root.join("a/memory.max"), "1073741824\n").unwrap();
        assert_eq!(least_limit(&root, Path::new("a/b")), Some(1 << 30));
        fs::write(own.join("memory.max"), "4096\n").unwrap();
        assert_eq!(least_limit(&root, Path::new("a/b")), Some(4096));
        fs::remove_dir_all(&root).unwrap();
        assert!(resident().unwrap() > 1 << 16);
    }
}
