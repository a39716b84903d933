//! Standard error of a serving process. Its own thread writes it, so no request waits for a slow reader.
//!
//! A stopped terminal, a hanging journal or a full pipe takes nothing, and a write to it never ends. So a serving process writes
//! through [`say`], or through the [log](super::log) on [`Writer`]:
//! up to 256 KiB wait, the rest is dropped and counted. Lines keep their order. The last ones are
//! written by [`end`], before the process goes.
//!
//! What the standard library itself says when it aborts the process (no memory, a stack that overflows, a panic within a
//! panic) goes there directly.

use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::lines::{LineWriter, LogState, Plan};
use crate::config::settings::LogTarget;

/// What may wait to be written: thousands of lines.
const ROOM: usize = 256 << 10;

/// How long the last lines may take, if standard error goes on taking them.
const LAST_LINES: Duration = Duration::from_secs(1);

/// `None` inside: the system has no thread or descriptor for it.
static WRITER: OnceLock<Option<LineWriter>> = OnceLock::new();

fn writer() -> Option<&'static LineWriter> {
    let start = || LineWriter::start(Plan::in_order("standard-error", ROOM), &LogTarget::Stderr).ok();
    WRITER.get_or_init(start).as_ref()
}

/// Writes text, line by line, behind all that was said before. A text that is longer than the room waits for some, for a
/// second at most: not for workers.
pub fn say(text: &str) {
    let Some(writer) = writer() else {
        // without a thread no gate can start, and this says so
        let _ = io::stderr().lock().write_all(text.as_bytes());
        return;
    };
    let lines = writer.lines();
    let patience = Instant::now() + LAST_LINES;
    for line in text.split_inclusive('\n') {
        lines.wait_for_room(line.len(), patience);
        lines.line(|out| {
            out.extend_from_slice(line.as_bytes());
            if !line.ends_with('\n') {
                out.push(b'\n');
            }
        });
    }
}

/// What was lost so far.
pub fn state() -> LogState {
    let started = WRITER.get().and_then(Option::as_ref);
    started.map_or(LogState { dropped: 0, errors: Some(0) }, |writer| writer.lines().state())
}

/// Writes out what was said, within a second, and not even that long if standard error takes nothing. Nothing can be said after it.
pub fn end() {
    if let Some(writer) = WRITER.get().and_then(Option::as_ref) {
        writer.end(LAST_LINES);
    }
}

/// Calls [`end`] when it is dropped, also by a panic.
#[derive(Debug)]
#[must_use = "what was said last is written when this is dropped"]
pub struct UntilEnd;

impl Drop for UntilEnd {
    fn drop(&mut self) {
        end();
    }
}

/// [`say`] as a writer, for whole lines.
#[derive(Debug, Clone, Copy)]
pub struct Writer;

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match writer() {
            Some(writer) => writer.lines().line(|out| out.extend_from_slice(bytes)),
            None => io::stderr().lock().write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
