//! The access log's way out: which requests have a line, and where it goes. [`lines`](super::lines) writes it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::lines::{LineWriter, Lines, LogState, Plan};
use crate::config::settings;
use crate::units::Share;
use crate::units::dice::mixed;

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
        let sample = Sample { limited: AtomicU64::new(0), other: AtomicU64::new(0) };
        let log = AccessLog { lines: writer.lines(), sample: Arc::new(sample) };
        log.resample(settings);
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
    sample: Arc<Sample>,
}

/// Which requests have lines, as thresholds for dice.
#[derive(Debug)]
struct Sample {
    limited: AtomicU64,
    other: AtomicU64,
}

impl AccessLog {
    /// Whether this request's line is in the sample. `limited`: a limit refused it or, in shadow, would have. Takes its
    /// own view of the request's `dice`, so that what else is rolled with them stays independent.
    #[inline]
    pub fn wants(&self, limited: bool, dice: u64) -> bool {
        let threshold = if limited { &self.sample.limited } else { &self.sample.other };
        // Relaxed: a number of its own
        takes(threshold.load(Ordering::Relaxed), dice)
    }

    /// From now on these shares of the requests have lines.
    pub fn resample(&self, settings: &settings::AccessLog) {
        self.sample.limited.store(threshold(settings.sample.limited), Ordering::Relaxed);
        self.sample.other.store(threshold(settings.sample.other), Ordering::Relaxed);
    }

    /// Writes one line: `write` appends it, the line break included. Never waits; without room the line is dropped and
    /// counted.
    pub fn line(&self, write: impl FnOnce(&mut Vec<u8>)) {
        self.lines.line(write);
    }

    /// What was lost so far.
    pub fn state(&self) -> LogState {
        self.lines.state()
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
    use crate::config::settings::{ClientInLog, LogTarget};

    fn settings(to: LogTarget, limited: f64, other: f64) -> settings::AccessLog {
        settings::AccessLog {
            to,
            client: ClientInLog::Pseudonym,
            sample: settings::Sample { limited: Share::new(limited).unwrap(), other: Share::new(other).unwrap() },
        }
    }

    #[test]
    fn dropping_the_writer_leaves_a_complete_file() {
        let path: PathBuf = std::env::temp_dir().join(format!("tidegate-access-{}.log", std::process::id()));
        std::fs::write(&path, "before\n").unwrap();
        let to = LogTarget::File(path.clone());
        let writer = AccessLogWriter::start(&settings(to, 1.0, 1.0)).unwrap();
        let line = |number: u32| writer.log().line(|line| line.extend_from_slice(format!("{number}\n").as_bytes()));
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
        assert!(writer.log().wants(true, u64::MAX) && writer.log().wants(false, u64::MAX));
    }
}
