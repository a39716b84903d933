//! Requests that keep their origin waiting for their client, and what they owe to those who wait for a place.
//!
//! A place is for the origin's work. Who sends a request slowly, or takes an answer slowly, holds one without any; with a few bytes a second
//! one client could hold them all. So a request whose client was waited for longer than [`PATIENCE`] gives its place away as soon as
//! somebody is owed it, and ends. Bytes that move earn the wait back at [`STEADY`]: a transfer that is bounded by its client's line is idle
//! only where that is slower. After [`LONG`] it gives its place to anybody who holds nothing.
//!
//! Our own way polls for that itself. Through the framework no phase runs while the client is waited for: its layer below does it, with a
//! place that was [lent](Lent) to it.

use std::fmt::Debug;
use std::io;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use pingora::{Error, ErrorType};
use tokio::time::Instant;

use crate::system::cause::cause_of;
use crate::system::timer::Alarm;

/// Long enough for pauses of the network.
const PATIENCE: Duration = Duration::from_secs(1);

/// Of waiting in all: from then on the place is owed to everybody who has none.
const LONG: Duration = Duration::from_secs(10);

/// Bytes a second of a transfer that is not idle.
const STEADY: u64 = 32 << 10;

/// The time that so many bytes may take.
fn time_of(bytes: usize) -> Duration {
    Duration::from_nanos((bytes as u64).saturating_mul(1_000_000_000 / STEADY))
}

/// How often it looks from then on whether somebody waits.
const LOOK: Duration = Duration::from_millis(250);

/// The error of a request that ended for another's sake. It travels inside an `io::Error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("others wait for the place that its client leaves idle")]
pub struct GaveWay;

impl GaveWay {
    /// As the error of a request.
    pub fn error() -> Box<Error> {
        Error::because(ErrorType::ReadTimedout, "awaiting the client", io::Error::from(GaveWay)).into_down()
    }

    /// Returns whether this error ended the proxying.
    pub fn caused(error: &Error) -> bool {
        cause_of::<GaveWay>(error).is_some()
    }
}

impl From<GaveWay> for io::Error {
    fn from(gave_way: GaveWay) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, gave_way)
    }
}

/// A place that can be given to somebody who waits.
pub trait GivesWay: Debug + Send + Sync {
    /// Gives it to somebody who is owed it; `long`: everybody is who has none. Returns whether it did.
    fn give_way(&self, long: bool) -> bool;
}

/// The place of a request that goes through the framework.
#[derive(Debug, Default)]
pub struct Lent(OnceLock<Arc<dyn GivesWay>>);

impl Lent {
    /// Lends this one for the rest of the request.
    pub fn lend(&self, place: Arc<dyn GivesWay>) {
        // a second attempt keeps the place of the first
        let _ = self.0.set(place);
    }
}

/// How long a request's client was waited for.
#[derive(Debug, Default)]
pub struct IdlePlace {
    /// Since when it is waited for.
    since: Option<Instant>,
    /// Before that, less what bytes have earned.
    before: Duration,
    /// When it looks again.
    next: Option<Instant>,
    gave_way: bool,
    alarm: Alarm,
}

impl IdlePlace {
    /// Forgets the request before.
    pub fn begin(&mut self) {
        (self.since, self.before, self.next, self.gave_way) = (None, Duration::ZERO, None, false);
    }

    /// It is not the client that is waited for; so many bytes of the client's have moved.
    pub fn moved(&mut self, bytes: usize) {
        if let Some(since) = self.since.take() {
            self.before += since.elapsed();
        }
        if !self.before.is_zero() {
            self.before = self.before.saturating_sub(time_of(bytes));
        }
    }

    /// The client is waited for, which so many bytes may be on their way to. `Ready` once the place was given away.
    pub fn poll(&mut self, ahead: usize, mut give_way: impl FnMut(bool) -> bool, cx: &mut Context<'_>) -> Poll<()> {
        let since = *self.since.get_or_insert_with(Instant::now);
        let (before, ahead) = (self.before, time_of(ahead));
        let after = |patience: Duration| since + (patience + ahead).saturating_sub(before);
        let first = after(PATIENCE);
        loop {
            let due = self.next.map_or(first, |next| next.max(first));
            if self.alarm.poll(due, cx).is_pending() {
                return Poll::Pending;
            }
            if give_way(Instant::now() >= after(LONG)) {
                self.gave_way = true;
                return Poll::Ready(());
            }
            self.next = Some(Instant::now() + LOOK);
        }
    }

    /// [Polls](IdlePlace::poll) with the place that was lent, if one was.
    pub fn poll_lent(&mut self, lent: &Lent, cx: &mut Context<'_>) -> Poll<()> {
        lent.0.get().map_or(Poll::Pending, |place| self.poll(0, |long| place.give_way(long), cx))
    }

    /// Whether the place was given away, so that the origin's answer is not awaited.
    pub fn gave_way(&self) -> bool {
        self.gave_way
    }
}
