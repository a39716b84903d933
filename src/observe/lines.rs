//! Lines on their way out of the process: they go to a buffer of the calling thread, and one thread of our own writes them.
//!
//! The caller never waits for the reader. It formats its line straight into a shared buffer, and that is all: no
//! system call, no wake-up (but for the first line after silence and for a buffer that fills up), no allocation once the
//! buffers have grown. When the target is too slow the buffers fill, and further lines are dropped and counted. Lines
//! appear within the batch of their [`Plan`] and the time that a write takes.
//!
//! The access log has [many buffers](Plan::access_log): a thread keeps to one unless that is full, or another thread or the
//! writer holds it at that instant, so lines near one another in time may be out of order by a batch. Standard error
//! [has one](Plan::in_order), in which lines keep their order; a thread waits for another one's copying there, never for a write.
//!
//! What a line says is not known here.

mod target;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::config::settings::LogTarget;
use target::{Counts, PAUSE, Target};

/// How lines are gathered.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Of the thread.
    name: &'static str,
    buffers: usize,
    /// Room for lines in all buffers together. Taken only as far as it was ever needed, and once more for the buffer that
    /// is being written.
    capacity: usize,
    /// How long lines are gathered before they are written.
    batch: Duration,
}

impl Plan {
    /// Room for what a target that stands still for a second misses at 20,000 requests per second (400 bytes each), and
    /// enough buffers that threads seldom meet, and never find all of them held.
    pub fn access_log() -> Plan {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        Plan { name: "access-log", buffers: (2 * threads + 2).clamp(8, 64), capacity: 8 << 20, batch: BATCH }
    }

    /// One buffer of this size, written as soon as there is something in it.
    pub fn in_order(name: &'static str, capacity: usize) -> Plan {
        Plan { name, buffers: 1, capacity, batch: Duration::ZERO }
    }
}

/// How long lines of the access log are gathered: long enough for large writes, short enough to watch live.
const BATCH: Duration = Duration::from_millis(50);

/// A target that has taken nothing for so long while the process ends is given up.
const STALLED: Duration = Duration::from_millis(500);

/// A buffer with less room than this left is full. A line that is longer and meets too little room is dropped.
const LONG_LINE: usize = 4 << 10;

/// A buffer with this much in it is worth writing before the batch is over.
const WORTH_WRITING: usize = 256 << 10;

/// What became of a log's lines, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogState {
    /// Lines not written.
    pub dropped: u64,
    /// Failed attempts to open or write; `None` where they cannot be seen.
    pub errors: Option<u64>,
}

/// Owns the thread that writes. Dropping it writes out everything that was accepted, within two seconds.
#[derive(Debug)]
pub struct LineWriter {
    lines: Lines,
    /// The thread holds the other end and drops it when it is done.
    running: Mutex<Option<mpsc::Receiver<()>>>,
}

impl LineWriter {
    /// Opens the target and starts the thread.
    ///
    /// # Errors
    /// The file cannot be opened or made, or the system has no more threads.
    pub fn start(plan: Plan, to: &LogTarget) -> io::Result<LineWriter> {
        LineWriter::start_with(plan, Target::open(target::of(to), PAUSE)?)
    }

    fn start_with(plan: Plan, target: Target) -> io::Result<LineWriter> {
        let shared = Arc::new(Shared {
            buffers: (0..plan.buffers).map(|_| Mutex::default()).collect(),
            room: plan.capacity / plan.buffers.max(1),
            batch: plan.batch,
            asleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            reopen: AtomicBool::new(false),
            counts: Counts::default(),
        });
        let (done, running) = mpsc::channel::<()>();
        let writer = Writer { shared: shared.clone(), target, spare: Vec::new() };
        let thread = thread::Builder::new().name(plan.name.to_owned()).spawn(move || {
            let _done = done;
            writer.run();
        })?;
        let lines = Lines { shared, writer: thread.thread().clone() };
        Ok(LineWriter { lines, running: Mutex::new(Some(running)) })
    }

    /// Where lines are put.
    pub fn lines(&self) -> Lines {
        self.lines.clone()
    }

    /// Takes no more lines and writes out everything that was accepted. `false` when that was not done within `deadline`, or the
    /// target took nothing for half a second; the thread is then left to itself. Only the first call does anything.
    pub fn end(&self, deadline: Duration) -> bool {
        let Some(running) = self.running.lock().take() else { return true };
        // read by the writer after it was woken; unparking synchronises with the wake-up
        self.lines.shared.stop.store(true, Ordering::Release);
        self.lines.writer.unpark();
        let end = Instant::now() + deadline;
        let mut taken = self.lines.shared.counts.writes.load(Ordering::Relaxed);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if running.recv_timeout(left.min(STALLED)) == Err(RecvTimeoutError::Disconnected) {
                return true;
            }
            let now = self.lines.shared.counts.writes.load(Ordering::Relaxed);
            if now == taken || left.is_zero() {
                return false;
            }
            taken = now;
        }
    }
}

impl Drop for LineWriter {
    fn drop(&mut self) {
        self.end(Duration::from_secs(2));
    }
}

/// Where lines are put. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Lines {
    shared: Arc<Shared>,
    writer: Thread,
}

impl Lines {
    /// Writes one line: `write` appends it, the line break included. Never waits for the target; without room the line is
    /// dropped and counted. A line that `write` leaves unfinished by panicking is not written.
    pub fn line(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let shared = &*self.shared;
        let (before_home, from_home) = shared.buffers.split_at(HOME.get() % shared.buffers.len());
        for buffer in from_home.iter().chain(before_home) {
            let alone = shared.buffers.len() == 1;
            let Some(mut buffer) = alone.then(|| buffer.lock()).or_else(|| buffer.try_lock()) else { continue };
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
        shared.counts.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until a line of this many bytes has room in the first buffer, but not beyond `end`.
    pub fn wait_for_room(&self, bytes: usize, end: Instant) {
        let fits = |buffer: &Buffer| buffer.closed || buffer.whole + bytes.max(LONG_LINE) <= self.shared.room;
        while self.shared.buffers.first().is_some_and(|buffer| !fits(&buffer.lock())) && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Has the writer open its target anew, which it does at once.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Release);
        self.writer.unpark();
    }

    #[cold]
    fn wake(&self) {
        self.shared.asleep.store(false, Ordering::Relaxed);
        self.writer.unpark();
    }

    /// What was lost so far.
    pub fn state(&self) -> LogState {
        let errors = self.shared.counts.errors.load(Ordering::Relaxed);
        LogState { dropped: self.shared.counts.dropped.load(Ordering::Relaxed), errors: Some(errors) }
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
    batch: Duration,
    /// The writer waits without end for the next line.
    asleep: AtomicBool,
    stop: AtomicBool,
    /// The target is to be opened anew.
    reopen: AtomicBool,
    counts: Counts,
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
            if self.shared.reopen.swap(false, Ordering::Acquire) {
                self.target.reopen(&self.shared.counts);
            }
            let wrote = self.write_all(stopping);
            if stopping {
                return;
            }
            if wrote {
                thread::park_timeout(self.shared.batch);
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
            thread::park_timeout(self.shared.batch);
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
            let lost = self.target.write(&self.spare, &self.shared.counts, &self.shared.stop);
            let lines = lost.iter().filter(|byte| **byte == b'\n').count();
            self.shared.counts.dropped.fetch_add(lines as u64, Ordering::Relaxed);
            self.spare.clear();
        }
        wrote
    }
}
