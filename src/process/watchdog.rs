//! Proof of life for systemd's watchdog (`WatchdogSec=`).
//!
//! A thread outside the runtime looks at the runtime and says `WATCHDOG=1` only while all of it moves: a task that beats,
//! which shows that tasks are scheduled and timers run, and every worker thread, which is parked or has done work since it
//! was last seen moving. A worker that hangs in one task is seen that way although its siblings go on.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::RuntimeMetrics;

use super::notify::Notifier;

/// How long systemd waits for a sign of life from this process; `None`: it does not.
pub fn interval() -> Option<Duration> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>());
    let interval = number("WATCHDOG_USEC")?.ok().filter(|interval| *interval > 0)?;
    let ours = number("WATCHDOG_PID").is_none_or(|pid| pid == Ok(u64::from(std::process::id())));
    ours.then(|| Duration::from_micros(interval))
}

/// The watching thread. Ends when this is dropped.
#[derive(Debug)]
pub struct Watchdog {
    _alive: mpsc::Sender<()>,
}

impl Watchdog {
    /// Begins to watch the runtime that this is called in.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn start(interval: Duration, notifier: Arc<Notifier>) -> io::Result<Watchdog> {
        // systemd asks for a sign twice per interval; looking four times leaves room for a late one
        let step = interval / 4;
        let beats = Arc::new(AtomicU64::new(0));
        let heart = Arc::clone(&beats);
        tokio::spawn(async move {
            loop {
                heart.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(step / 2).await;
            }
        });
        let metrics = tokio::runtime::Handle::current().metrics();
        let (alive, ended) = mpsc::channel::<()>();
        thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
            let mut pulse = Pulse::new(interval / 2, Instant::now());
            let mut silent = false;
            loop {
                let fresh = pulse.is_fresh(&signs(&metrics, beats.load(Ordering::Relaxed)), Instant::now());
                if fresh {
                    notifier.say("WATCHDOG=1");
                } else if !silent {
                    tracing::error!("a worker thread hangs: systemd gets no sign of life until it moves again");
                }
                silent = !fresh;
                if ended.recv_timeout(step) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        })?;
        Ok(Watchdog { _alive: alive })
    }
}

/// What is seen of one part of the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sign {
    /// Changes whenever it does something.
    progress: u64,
    /// Waiting for work is as good as moving.
    waits: bool,
}

fn signs(metrics: &RuntimeMetrics, beats: u64) -> Vec<Sign> {
    let workers = (0..metrics.num_workers()).map(|worker| {
        // odd while parked (tokio's own words); a busy worker adds to its time in every round of its loop
        let turns = metrics.worker_park_unpark_count(worker);
        let busy = metrics.worker_total_busy_duration(worker).as_nanos() as u64;
        Sign { progress: turns.wrapping_add(busy), waits: turns % 2 == 1 }
    });
    std::iter::once(Sign { progress: beats, waits: false }).chain(workers).collect()
}

/// Who moved when.
struct Pulse {
    patience: Duration,
    started: Instant,
    seen: Vec<(Sign, Instant)>,
}

impl Pulse {
    /// Nothing may stand still for longer than `patience`.
    fn new(patience: Duration, started: Instant) -> Pulse {
        Pulse { patience, started, seen: Vec::new() }
    }

    /// Whether everything has moved recently enough.
    fn is_fresh(&mut self, signs: &[Sign], now: Instant) -> bool {
        let before = |part: usize| self.seen.get(part).copied();
        let moved = |(part, sign): (usize, &Sign)| match before(part) {
            Some((last, at)) if last == *sign && !sign.waits => (*sign, at),
            Some(_) => (*sign, now),
            None => (*sign, self.started),
        };
        self.seen = signs.iter().enumerate().map(moved).collect();
        self.seen.iter().all(|(_, at)| now.saturating_duration_since(*at) <= self.patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn busy(progress: u64) -> Sign {
        Sign { progress, waits: false }
    }

    #[test]
    fn a_worker_that_stands_still_is_seen_although_the_others_move() {
        let start = Instant::now();
        let mut pulse = Pulse::new(2 * SECOND, start);
        assert!(pulse.is_fresh(&[busy(1), busy(7)], start));
        assert!(pulse.is_fresh(&[busy(2), busy(7)], start + SECOND));
        assert!(pulse.is_fresh(&[busy(3), busy(7)], start + 2 * SECOND));
        assert!(!pulse.is_fresh(&[busy(4), busy(7)], start + 3 * SECOND));
        assert!(pulse.is_fresh(&[busy(5), busy(8)], start + 4 * SECOND), "it moves again");
    }

    #[test]
    fn a_worker_without_work_is_alive() {
        let start = Instant::now();
        let mut pulse = Pulse::new(SECOND, start);
        let parked = Sign { progress: 4, waits: true };
        for second in 0..10 {
            assert!(pulse.is_fresh(&[parked], start + second * SECOND));
        }
    }

    #[test]
    fn a_runtime_that_never_beat_is_not_alive() {
        let start = Instant::now();
        let mut pulse = Pulse::new(SECOND, start);
        assert!(pulse.is_fresh(&[busy(0)], start + SECOND));
        assert!(!pulse.is_fresh(&[busy(0)], start + 2 * SECOND));
    }

    #[test]
    fn a_worker_that_hangs_in_a_task_shows_in_a_real_runtime_and_an_idle_one_does_not() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let metrics = runtime.handle().metrics();
        let (go_on, wait) = mpsc::channel::<()>();
        runtime.spawn(async move {
            let _ = wait.recv();
        });
        let mut beats = 0;
        let mut pulse = Pulse::new(Duration::from_millis(50), Instant::now());
        let mut until = |wanted: bool| {
            let start = Instant::now();
            while {
                beats += 1;
                pulse.is_fresh(&signs(&metrics, beats), Instant::now()) != wanted
            } {
                assert!(start.elapsed() < Duration::from_secs(30), "never fresh: {wanted}");
                thread::sleep(Duration::from_millis(1));
            }
        };
        until(false);
        drop(go_on);
        until(true);
    }
}
