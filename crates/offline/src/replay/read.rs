//! Reads logs: one thread reads, unzips and takes lines apart; the caller's sees the requests in the order in which they began.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use memchr::memchr_iter;

use super::channel::{BATCH, Sender, channel};
use super::fault::Fault;
use super::formats::Parser;
use super::line::{Line, Parsed};
use super::order::{Batch, Calendar};
use super::record::Record;
use super::source::{Lines, Piece, Sources, cut};
use crate::units::time::saturating_nanos;

/// How logs are read.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// Lines may come so much later than others that began after them and still be put in order: 60 s.
    pub reorder: Duration,
    /// Told how far it has come, for whoever shows that.
    pub progress: Option<&'a Progress>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options { reorder: Duration::from_secs(60), progress: None }
    }
}

/// How far reading has come.
#[derive(Debug, Default)]
pub struct Progress {
    /// Lines that have been taken apart.
    pub lines: AtomicU64,
    /// Bytes of them, after unzipping.
    pub bytes: AtomicU64,
}

/// What was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// All lines.
    pub lines: u64,
    /// Requests among them: what was given.
    pub requests: u64,
    /// Lines that are none and were none to be: empty ones, comments, those of another log in the same file.
    pub other: u64,
    /// Lines of connections on which no request was understood.
    pub no_request: u64,
    /// Lines that the format does not fit.
    pub unreadable: u64,
    /// The first three of them.
    pub shown: Vec<Shown>,
    /// Requests that came too late to be put in order, and were given the time of what was given last.
    pub late: u64,
    /// The window was cut short because too much stood in it.
    pub shortened: bool,
    /// The earliest beginning of a request, in nanoseconds since 1970; 0 without one.
    pub first: u64,
    /// The latest beginning.
    pub last: u64,
    /// Bytes read, after unzipping.
    pub bytes: u64,
}

/// A line that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The log's name.
    pub log: String,
    /// Its number, from 1.
    pub line: u64,
    /// The text, cut.
    pub text: String,
}

impl Tally {
    /// Whether more than one line in twenty could not be read, so that the rest says nothing.
    pub fn is_unreadable(&self) -> bool {
        self.unreadable * 20 > self.lines
    }
}

/// Gives every request of the logs to `visit`, in the order in which they began. Logs that overlap in time are woven
/// together. What could not be read is in the tally; whether it was too much is the caller's to say.
///
/// # Errors
/// A log cannot be read to its end.
pub fn read(sources: Sources, options: &Options<'_>, mut visit: impl FnMut(&Record<'_>)) -> Result<Tally, Fault> {
    thread::scope(|scope| {
        let (sender, batches) = channel();
        let reader = scope.spawn(move || Reader::new(options, sender).run(sources));
        while let Some(batch) = batches.next() {
            batch.requests().for_each(|record| visit(&record));
            batches.give_back(batch);
        }
        // a panic of the reader has been printed already
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

struct Reader<'a> {
    options: &'a Options<'a>,
    sender: Sender,
    calendar: Calendar,
    batch: Batch,
    tally: Tally,
    /// Where the lines of a piece end.
    ends: Vec<usize>,
}

/// A log that is being read.
struct Open {
    name: String,
    parser: Parser,
    lines: Option<Lines>,
    log: Option<super::source::Log>,
    /// The latest stamp so far.
    reached: u64,
    line: u64,
    ended: bool,
}

impl<'a> Reader<'a> {
    fn new(options: &'a Options<'a>, sender: Sender) -> Reader<'a> {
        let calendar = Calendar::new(saturating_nanos(options.reorder));
        Reader { options, sender, calendar, batch: Batch::default(), tally: Tally::default(), ends: Vec::new() }
    }

    fn run(mut self, sources: Sources) -> Result<Tally, Fault> {
        let mut logs: Vec<Open> = sources
            .logs
            .into_iter()
            .map(|log| Open {
                name: log.place.to_string(),
                parser: log.parser.clone(),
                lines: None,
                reached: log.first,
                log: Some(log),
                line: 0,
                ended: false,
            })
            .collect();
        // always on with the one that is furthest behind; one after the other when they do not overlap
        while let Some(log) = logs.iter_mut().filter(|log| !log.ended).min_by_key(|log| log.reached) {
            let fault = |error| Fault::Read(log.name.clone(), error);
            if let Some(mut unopened) = log.log.take() {
                log.lines = Some(unopened.lines().map_err(fault)?);
            }
            let mut piece = self.sender.piece();
            match log.lines.as_mut().map_or(Ok(false), |lines| lines.next(&mut piece.text)).map_err(fault)? {
                true => {
                    self.take_apart(&mut piece, log);
                    self.calendar.add(piece);
                }
                false => (log.ended, log.lines) = (true, None),
            }
            let reached = logs.iter().filter(|log| !log.ended).map(|log| log.reached).min().unwrap_or(u64::MAX);
            if !self.settle(reached) {
                break;
            }
        }
        self.settle(u64::MAX);
        let _ = self.flush();
        (self.tally.late, self.tally.shortened) = (self.calendar.late, self.calendar.shortened);
        Ok(self.tally)
    }

    /// Hands on what is settled; `false` when the caller has gone.
    fn settle(&mut self, reached: u64) -> bool {
        while self.calendar.settle(reached, &mut self.batch) {
            if self.batch.order.len() >= BATCH && !self.flush() {
                return false;
            }
        }
        true
    }

    fn flush(&mut self) -> bool {
        let next = self.sender.batch();
        self.sender.send(std::mem::replace(&mut self.batch, next))
    }

    fn take_apart(&mut self, piece: &mut Piece, log: &mut Open) {
        let Piece { text, requests, fields, names } = piece;
        let (mut from, before) = (0, log.line);
        let mut ends = std::mem::take(&mut self.ends);
        ends.extend(memchr_iter(b'\n', text).chain((text.last() != Some(&b'\n')).then_some(text.len())));
        for end in ends.drain(..) {
            log.line += 1;
            let Some(line) = text.get_mut(from..end) else { break };
            let line = match line {
                [line @ .., b'\r'] => line,
                line => line,
            };
            // taken apart where it stays
            let first = fields.len();
            requests.push(Parsed::default());
            let Some(parsed) = requests.last_mut() else { break };
            match log.parser.parse(line, fields, parsed) {
                Line::Request => {
                    log.reached = log.reached.max(parsed.stamp);
                    note(&mut self.tally, parsed);
                    for field in fields.get_mut(first..).unwrap_or_default() {
                        *field = field.moved(from);
                    }
                    parsed.fields = (first as u32, fields.len() as u32);
                    parsed.move_by(from);
                }
                other => {
                    requests.pop();
                    fields.truncate(first);
                    match other {
                        Line::Other => self.tally.other += 1,
                        Line::NoRequest => self.tally.no_request += 1,
                        Line::Request | Line::Unreadable => self.refuse(log, line),
                    }
                }
            }
            from = end + 1;
        }
        self.ends = ends;
        self.tally.lines += log.line - before;
        self.tally.bytes += text.len() as u64;
        if let Some(progress) = self.options.progress {
            progress.lines.store(self.tally.lines, Ordering::Relaxed);
            progress.bytes.store(self.tally.bytes, Ordering::Relaxed);
        }
        *names = log.parser.names();
    }

    fn refuse(&mut self, log: &Open, line: &[u8]) {
        self.tally.unreadable += 1;
        if self.tally.shown.len() < 3 {
            self.tally.shown.push(Shown { log: log.name.clone(), line: log.line, text: cut(line) });
        }
    }
}

#[inline]
fn note(tally: &mut Tally, parsed: &Parsed) {
    tally.first = if tally.requests == 0 { parsed.start } else { tally.first.min(parsed.start) };
    tally.last = tally.last.max(parsed.start);
    tally.requests += 1;
}

#[cfg(test)]
mod tests;
