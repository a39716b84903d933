//! The access log: which requests have a line, how a line looks, and where it goes. [`lines`](super::lines) writes it.
//!
//! Lines of refused requests have a budget, so that a flood does not fill the disk. No other line is left out by it. A
//! refused request without a line is counted on the next line of one.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::lines::{LineWriter, Lines, LogState, Plan};
use crate::answer::Entry;
use crate::config::settings::{self, ClientInLog, LineFormat};
use crate::units::dice::mixed;
use crate::units::{Rate, Share, Timestamp};

/// Owns the thread that writes. Dropping it writes out everything that was accepted, within two seconds.
#[derive(Debug)]
pub struct AccessLogWriter {
    log: AccessLog,
    writer: LineWriter,
}

impl AccessLogWriter {
    /// Opens the target and starts the thread.
    ///
    /// # Errors
    /// The file cannot be opened or made, or the system has no more threads.
    pub fn start(settings: &settings::AccessLog) -> io::Result<AccessLogWriter> {
        let writer = LineWriter::start(Plan::access_log(), &settings.to)?;
        let log = AccessLog { lines: writer.lines(), rules: Arc::default() };
        log.follow(settings);
        Ok(AccessLogWriter { log, writer })
    }

    /// What requests write to.
    pub fn log(&self) -> AccessLog {
        self.log.clone()
    }

    /// Takes no more lines and writes out everything that was accepted, as [`LineWriter::end`] does.
    pub fn finish(self, deadline: Duration) -> bool {
        self.writer.end(deadline)
    }
}

/// What requests write to. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AccessLog {
    lines: Lines,
    rules: Arc<Rules>,
}

/// What a reload may change. Relaxed everywhere: each is a value of its own.
#[derive(Debug, Default)]
struct Rules {
    /// Shares of the requests that have lines, as thresholds for dice.
    limited: AtomicU64,
    other: AtomicU64,
    refused: Budget,
    addresses: AtomicBool,
    combined: AtomicBool,
}

/// What the gate said to a request that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Said {
    /// It was over a limit, enforced or not.
    pub limited: bool,
    /// It was refused, by a limit or for anything else.
    pub refused: bool,
}

/// A line that is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// How many refused requests it stands for; `None`: only for its own.
    pub sampled: Option<u64>,
}

impl AccessLog {
    /// Returns whether a request that ended at `now` has a line. Takes its own view of the request's `dice`, so that what else is
    /// rolled with them stays independent.
    #[inline]
    pub fn wants(&self, said: Said, dice: u64, now: Timestamp) -> Option<Wanted> {
        let threshold = if said.limited { &self.rules.limited } else { &self.rules.other };
        let in_share = takes(threshold.load(Ordering::Relaxed), dice);
        if said.refused {
            return self.rules.refused.take(in_share, now).map(|sampled| Wanted { sampled });
        }
        in_share.then_some(Wanted { sampled: None })
    }

    /// Goes by these settings from now on, but for the target.
    pub fn follow(&self, settings: &settings::AccessLog) {
        let rules = &*self.rules;
        rules.limited.store(threshold(settings.sample.limited), Ordering::Relaxed);
        rules.other.store(threshold(settings.sample.other), Ordering::Relaxed);
        rules.refused.limit(settings.sample.refused);
        rules.addresses.store(settings.client == ClientInLog::Address, Ordering::Relaxed);
        rules.combined.store(settings.format == LineFormat::Combined, Ordering::Relaxed);
    }

    /// Returns how clients appear.
    pub fn clients(&self) -> ClientInLog {
        let addresses = self.rules.addresses.load(Ordering::Relaxed);
        if addresses { ClientInLog::Address } else { ClientInLog::Pseudonym }
    }

    /// Writes the line of a request. Never waits; without room the line is dropped and counted.
    pub fn line(&self, entry: &Entry<'_>) {
        let combined = self.rules.combined.load(Ordering::Relaxed);
        self.lines.line(|line| if combined { entry.write_combined(line) } else { entry.write(line) });
    }

    /// Opens the target anew, after a log rotation.
    pub fn reopen(&self) {
        self.lines.reopen();
    }

    /// What was lost so far.
    pub fn state(&self) -> LogState {
        self.lines.state()
    }
}

/// A bound on the lines of refused requests: a token bucket (GCRA) in one word, without a lock. One rate's worth of lines at once,
/// then one line an interval.
#[derive(Debug, Default)]
struct Budget {
    /// Nanoseconds between lines; 0: no bound.
    interval: AtomicU64,
    /// How far [`Budget::due`] may lie ahead.
    tolerance: AtomicU64,
    /// When the next line would be due if lines came evenly.
    due: AtomicU64,
    /// Refused requests since the last line.
    left_out: AtomicU64,
}

impl Budget {
    fn limit(&self, most: Option<Rate>) {
        let interval = most.map_or(0, Rate::interval_nanos);
        let period = most.map_or(0, |rate| u64::try_from(rate.period().as_nanos()).unwrap_or(u64::MAX));
        self.tolerance.store(period.saturating_sub(interval), Ordering::Relaxed);
        self.interval.store(interval, Ordering::Relaxed);
    }

    /// Counts a refused request. Returns how many its line stands for, or `None` if it has none.
    fn take(&self, in_share: bool, now: Timestamp) -> Option<Option<u64>> {
        if !in_share || !self.has_room(now.nanos()) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        // a request is counted on one line only, whichever thread takes it
        let left_out = match self.left_out.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.left_out.swap(0, Ordering::Relaxed),
        };
        Some((left_out > 0).then(|| left_out.saturating_add(1)))
    }

    fn has_room(&self, now: u64) -> bool {
        let interval = self.interval.load(Ordering::Relaxed);
        if interval == 0 {
            return true;
        }
        let latest = now.saturating_add(self.tolerance.load(Ordering::Relaxed));
        let next = |due: u64| (due <= latest).then(|| due.max(now).saturating_add(interval));
        self.due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

/// A share as a number that dice are compared with.
fn threshold(share: Share) -> u64 {
    // 2⁶⁴ itself does not fit, and no lower share comes to the greatest number
    if share.get() >= 1.0 { u64::MAX } else { (share.get() * 2f64.powi(64)) as u64 }
}

fn takes(threshold: u64, dice: u64) -> bool {
    threshold == u64::MAX || mixed(dice) < threshold
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::config::settings::LogTarget;

    fn settings(to: LogTarget, limited: f64, other: f64) -> settings::AccessLog {
        settings::AccessLog {
            to,
            format: LineFormat::Json,
            client: ClientInLog::Pseudonym,
            sample: settings::Sample {
                limited: Share::new(limited).unwrap(),
                other: Share::new(other).unwrap(),
                refused: Rate::new(100, Duration::from_secs(1)).ok(),
            },
        }
    }

    #[test]
    fn dropping_the_writer_leaves_a_complete_file() {
        let path: PathBuf = std::env::temp_dir().join(format!("tidegate-access-{}.log", std::process::id()));
        std::fs::write(&path, "before\n").unwrap();
        let to = LogTarget::File(path.clone());
        let writer = AccessLogWriter::start(&settings(to, 1.0, 1.0)).unwrap();
        let line =
            |number: u32| writer.log().lines.line(|line| line.extend_from_slice(format!("{number}\n").as_bytes()));
        (0..100).for_each(line);
        drop(writer);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut numbers: Vec<u32> =
            text.strip_prefix("before\n").unwrap().lines().map(|line| line.parse().unwrap()).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..100), "{text}");
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_said_at_once() {
        let to = LogTarget::File("/nonexistent/folder/access.log".into());
        let error = AccessLogWriter::start(&settings(to, 1.0, 1.0)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn shares_are_kept_and_apart_for_limited_requests() {
        let sample = |limited, other| {
            let (limited, other) = (threshold(Share::new(limited).unwrap()), threshold(Share::new(other).unwrap()));
            // dice as poor as a counter must do
            (0..100_000)
                .fold((0, 0), |(l, o), dice| (l + u64::from(takes(limited, dice)), o + u64::from(takes(other, dice))))
        };
        assert_eq!(sample(1.0, 0.0), (100_000, 0));
        let (quarter, tenth) = sample(0.25, 0.1);
        assert!((24_500..25_500).contains(&quarter), "{quarter}");
        assert!((9_600..10_400).contains(&tenth), "{tenth}");
        let writer = AccessLogWriter::start(&settings(LogTarget::Stdout, 1.0, 1.0)).unwrap();
        let now = Timestamp::from_nanos(1);
        for (limited, refused) in [(false, false), (false, true), (true, false), (true, true)] {
            let wanted = writer.log().wants(Said { limited, refused }, u64::MAX, now);
            assert_eq!(wanted, Some(Wanted { sampled: None }));
        }
    }

    /// Lines and what they stand for, of this many refused requests in this many seconds.
    fn flood(budget: &Budget, from: u64, seconds: u64, requests: u64) -> (u64, u64) {
        let step = seconds * 1_000_000_000 / requests;
        let times = (0..requests).map(|number| Timestamp::from_nanos(from * 1_000_000_000 + number * step));
        let lines = times.filter_map(|now| budget.take(true, now));
        lines.fold((0, 0), |(lines, stand_for), sampled| (lines + 1, stand_for + sampled.unwrap_or(1)))
    }

    #[test]
    fn a_flood_has_the_lines_of_its_rate_and_they_stand_for_all_of_it() {
        let budget = Budget::default();
        budget.limit(Rate::new(100, Duration::from_secs(1)).ok());
        let (lines, stand_for) = flood(&budget, 1_000, 10, 50_000);
        assert!((1_090..=1_100).contains(&lines), "100 at once and 100 a second: {lines}");
        let left_out = budget.left_out.load(Ordering::Relaxed);
        assert!(left_out < 60, "those since the last line: {left_out}");
        assert_eq!(stand_for + left_out, 50_000);
        // below the rate every request has a line; the first also has what was left
        assert_eq!(flood(&budget, 2_000, 10, 900), (900, 900 + left_out));
        budget.limit(None);
        assert_eq!(flood(&budget, 3_000, 1, 50_000), (50_000, 50_000));
    }

    #[test]
    fn no_refused_request_is_counted_twice_or_lost_between_threads() {
        let budget = Budget::default();
        budget.limit(Rate::new(100, Duration::from_secs(1)).ok());
        let count = |at: u64| {
            let lines = (0..20_000).filter_map(|_| budget.take(true, Timestamp::from_nanos(at)));
            lines.map(|sampled| sampled.unwrap_or(1)).sum::<u64>()
        };
        let stand_for: u64 = std::thread::scope(|scope| {
            let count = &count;
            let threads: Vec<_> = (1..=4).map(|at| scope.spawn(move || count(at * 1_000_000_000))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(stand_for + budget.left_out.load(Ordering::Relaxed), 80_000);
    }

    #[test]
    fn what_the_share_leaves_out_is_counted_on_the_next_line_too() {
        let budget = Budget::default();
        let now = Timestamp::from_nanos(1);
        assert_eq!((0..9).filter_map(|_| budget.take(false, now)).count(), 0);
        assert_eq!(budget.take(true, now), Some(Some(10)));
        assert_eq!(budget.take(true, now), Some(None));
    }
}
