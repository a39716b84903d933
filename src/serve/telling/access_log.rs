//! The access log's way out: lines go to a buffer of the calling thread, and one thread of our own writes them.
//!
//! A request never waits for the log. It formats its line straight into a shared buffer that nobody else uses at that
//! moment, and that is all: no system call, no wake-up (but for the first line after silence and for a buffer that fills
//! up), no allocation once the buffers have grown. When the target is too slow the buffers fill, and further lines are
//! dropped and counted. Lines appear within [`BATCH`] and the time that a write takes.
//!
//! Lines of one buffer keep their order. A thread keeps to one buffer unless that is full, or another thread or the writer
//! holds it at that instant, so lines near one another in time may be out of order by a batch; every line carries its stamp.
//!
//! What a line says is not known here.

mod target;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, Thread};
use std::time::Duration;

use parking_lot::Mutex;

use super::log::LogState;
use crate::config::settings;
use crate::units::Share;
use crate::units::dice::mixed;
use target::{PAUSE, Target};

/// How long lines are gathered before they are written: long enough for large writes, short enough to watch live.
pub const BATCH: Duration = Duration::from_millis(50);

/// Room for lines in all buffers together: a target that stands still for a second at 20,000 requests per second (400
/// bytes each) loses nothing. Taken only as far as it was ever needed, and once more for the buffer being written.
const CAPACITY: usize = 8 << 20;

/// A buffer with less room than this left is full. A line that is longer and meets too little room is dropped.
const LONG_LINE: usize = 4 << 10;

/// A buffer with this much in it is worth writing before the batch is over.
const WORTH_WRITING: usize = 256 << 10;

/// Owns the thread that writes. Dropping it writes out everything that was accepted, within two seconds.
#[derive(Debug)]
pub struct AccessLogWriter {
    log: AccessLog,
    /// The thread holds the other end and drops it when it is done.
    running: Option<mpsc::Receiver<()>>,
}

impl AccessLogWriter {
    /// Opens the target and starts the thread.
    ///
    /// # Errors
    /// The file cannot be opened or made, or the system has no more threads.
    pub fn start(settings: &settings::AccessLog) -> io::Result<AccessLogWriter> {
        AccessLogWriter::start_with(Target::open(target::of(&settings.to), PAUSE)?, settings, CAPACITY)
    }

    fn start_with(target: Target, settings: &settings::AccessLog, capacity: usize) -> io::Result<AccessLogWriter> {
        // enough that threads seldom meet, and never find all of them held
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let buffers = (2 * threads + 2).clamp(8, 64);
        let shared = Arc::new(Shared {
            buffers: (0..buffers).map(|_| Mutex::default()).collect(),
            room: capacity / buffers,
            asleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            limited: AtomicU64::new(threshold(settings.sample_limited)),
            other: AtomicU64::new(threshold(settings.sample_other)),
        });
        let (done, running) = mpsc::channel::<()>();
        let writer = Writer { shared: shared.clone(), target, spare: Vec::new() };
        let thread = thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            let _done = done;
            writer.run();
        })?;
        let log = AccessLog { shared, writer: thread.thread().clone() };
        Ok(AccessLogWriter { log, running: Some(running) })
    }

    /// What requests write to.
    pub fn log(&self) -> AccessLog {
        self.log.clone()
    }

    /// Takes no more lines and writes out everything that was accepted. `false` when that was not done within `deadline`;
    /// the thread is then left to itself.
    pub fn finish(mut self, deadline: Duration) -> bool {
        self.stop(deadline)
    }

    fn stop(&mut self, deadline: Duration) -> bool {
        let Some(running) = self.running.take() else { return true };
        // read by the writer after it was woken; unparking synchronises with the wake-up
        self.log.shared.stop.store(true, Ordering::Release);
        self.log.writer.unpark();
        running.recv_timeout(deadline) == Err(RecvTimeoutError::Disconnected)
    }
}

impl Drop for AccessLogWriter {
    fn drop(&mut self) {
        self.stop(Duration::from_secs(2));
    }
}

/// What requests write to. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AccessLog {
    shared: Arc<Shared>,
    writer: Thread,
}

impl AccessLog {
    /// Whether this request's line is in the sample. `limited`: a limit refused it or, in shadow, would have. Takes its
    /// own view of the request's `dice`, so that what else is rolled with them stays independent.
    #[inline]
    pub fn wants(&self, limited: bool, dice: u64) -> bool {
        let threshold = if limited { &self.shared.limited } else { &self.shared.other };
        // Relaxed: a number of its own
        takes(threshold.load(Ordering::Relaxed), dice)
    }

    /// From now on these shares of the requests have lines.
    pub fn resample(&self, settings: &settings::AccessLog) {
        self.shared.limited.store(threshold(settings.sample_limited), Ordering::Relaxed);
        self.shared.other.store(threshold(settings.sample_other), Ordering::Relaxed);
    }

    /// Writes one line: `write` appends it, the line break included. Never waits; without room the line is dropped and
    /// counted. A line that `write` leaves unfinished by panicking is not written.
    pub fn line(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let shared = &*self.shared;
        let (before_home, from_home) = shared.buffers.split_at(HOME.get() % shared.buffers.len());
        for buffer in from_home.iter().chain(before_home) {
            let Some(mut buffer) = buffer.try_lock() else { continue };
            if buffer.closed || buffer.whole + LONG_LINE > shared.room {
                continue;
            }
            let before = buffer.whole;
            let accepted = buffer.append(shared.room, write);
            let after = buffer.whole;
            drop(buffer);
            if !accepted {
                break;
            }
            // Relaxed: the writer says so before it looks into the buffers for the last time, so if it missed our line,
            // our lock came after its own and we see what it said.
            let asleep = shared.asleep.load(Ordering::Relaxed);
            let worth_writing = WORTH_WRITING.min(shared.room / 2);
            if asleep || (before < worth_writing && worth_writing <= after) {
                self.wake();
            }
            return;
        }
        shared.dropped.fetch_add(1, Ordering::Relaxed);
    }

    #[cold]
    fn wake(&self) {
        self.shared.asleep.store(false, Ordering::Relaxed);
        self.writer.unpark();
    }

    /// What was lost so far.
    pub fn state(&self) -> LogState {
        let errors = self.shared.errors.load(Ordering::Relaxed);
        LogState { dropped: self.shared.dropped.load(Ordering::Relaxed), errors: Some(errors) }
    }
}

thread_local! {
    /// Which buffer a thread tries first.
    static HOME: Cell<usize> = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Cell::new(NEXT.fetch_add(1, Ordering::Relaxed))
    };
}

#[derive(Debug)]
struct Shared {
    buffers: Vec<Mutex<Buffer>>,
    /// Bytes that one buffer takes.
    room: usize,
    /// The writer waits without end for the next line.
    asleep: AtomicBool,
    stop: AtomicBool,
    /// Counts only; nothing is published by them.
    dropped: AtomicU64,
    errors: AtomicU64,
    /// Which requests have lines, as thresholds for dice.
    limited: AtomicU64,
    other: AtomicU64,
}

#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// How much of `bytes` is whole lines; more is there only while a line is written, or after one panicked.
    whole: usize,
    closed: bool,
}

impl Buffer {
    fn append(&mut self, room: usize, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.bytes.truncate(self.whole);
        write(&mut self.bytes);
        let fits = self.bytes.len() <= room;
        if fits {
            self.whole = self.bytes.len();
        }
        fits
    }
}

/// The thread's side.
struct Writer {
    shared: Arc<Shared>,
    target: Target,
    spare: Vec<u8>,
}

impl Writer {
    fn run(mut self) {
        loop {
            // before the buffers are looked into, so that nothing accepted before the stop is missed
            let stopping = self.shared.stop.load(Ordering::Acquire);
            let wrote = self.write_all(stopping);
            if stopping {
                return;
            }
            if wrote {
                thread::park_timeout(BATCH);
            } else {
                self.sleep();
            }
        }
    }

    /// Waits for a line, then for more of its batch.
    fn sleep(&mut self) {
        self.shared.asleep.store(true, Ordering::Relaxed);
        // whatever came before that was said is seen here, whatever comes after sees it and wakes us
        let empty = self.shared.buffers.iter().all(|buffer| buffer.lock().whole == 0);
        if empty && !self.shared.stop.load(Ordering::Acquire) {
            thread::park();
        }
        self.shared.asleep.store(false, Ordering::Relaxed);
        if !self.shared.stop.load(Ordering::Acquire) {
            thread::park_timeout(BATCH);
        }
    }

    /// Takes and writes every buffer's lines; `false` when there were none.
    fn write_all(&mut self, close: bool) -> bool {
        let mut wrote = false;
        for buffer in &self.shared.buffers {
            {
                // held for a swap; requests that come just now take another buffer
                let mut buffer = buffer.lock();
                buffer.closed = close;
                if buffer.whole == 0 {
                    continue;
                }
                let whole = std::mem::take(&mut buffer.whole);
                std::mem::swap(&mut buffer.bytes, &mut self.spare);
                self.spare.truncate(whole);
            }
            wrote = true;
            let lost = self.target.write(&self.spare, &self.shared.errors, &self.shared.stop);
            let lines = lost.iter().filter(|byte| **byte == b'\n').count();
            self.shared.dropped.fetch_add(lines as u64, Ordering::Relaxed);
            self.spare.clear();
        }
        wrote
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
