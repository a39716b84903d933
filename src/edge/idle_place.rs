//! Requests that keep their origin waiting for their client, and what they owe to those who wait for a place.
//!
//! A place is for the origin's work. Who sends a request slowly, or takes an answer slowly, holds one without any; with a few bytes a second
//! one client could hold them all. So a request whose client was waited for longer than `PATIENCE` gives its place away as soon as
//! somebody is owed it, and ends. Bytes that move earn the wait back at `STEADY`: a transfer that is bounded by its client's line is idle
//! only where that is slower. Of an answer those count that the client has acknowledged: the kernel takes more only once a good part of its
//! buffer has gone. Of a stream of HTTP/2 they are not known, so it may take `BLIND` longer. After `LONG` the place goes to anybody who
//! holds nothing.
//!
//! Our own way polls for that itself. Through the framework no phase runs while the client is waited for: its layer below does it, with a
//! place that was [lent](Lent) to it.

use std::fmt::Debug;
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use pingora::protocols::l4::ext::get_tcp_info;
use pingora::{Error, ErrorType};
use tokio::time::Instant;

use crate::system::cause::cause_of;
use crate::system::timer::Alarm;

/// Long enough for pauses of the network.
const PATIENCE: Duration = Duration::from_secs(1);

/// Of waiting in all: from then on the place is owed to everybody who has none.
const LONG: Duration = Duration::from_secs(10);

/// How much longer an answer may wait of which nobody knows how fast it goes.
const BLIND: Duration = Duration::from_secs(4);

/// Bytes a second of a transfer that is not idle.
const STEADY: u64 = 32 << 10;

/// The time that so many bytes may take.
fn time_of(bytes: u64) -> Duration {
    Duration::from_nanos(bytes.saturating_mul(1_000_000_000 / STEADY))
}

/// What of its client a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaits {
    /// More of its body.
    Upload,
    /// Room for its answer, on this connection of its own, if it has one.
    Room(Option<RawFd>),
}

impl Awaits {
    /// How many bytes the client has acknowledged so far, where that is known.
    fn acknowledged(self) -> Option<u64> {
        match self {
            Awaits::Room(Some(connection)) => get_tcp_info(connection).ok().map(|info| info.tcpi_bytes_acked),
            Awaits::Upload | Awaits::Room(None) => None,
        }
    }
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
    /// Of this wait: what was acknowledged when it was last looked at, and what that has earned.
    acknowledged: Option<u64>,
    earned: Duration,
    /// When it looks again.
    next: Option<Instant>,
    gave_way: bool,
    alarm: Alarm,
}

impl IdlePlace {
    /// Forgets the request before.
    pub fn begin(&mut self) {
        let alarm = std::mem::take(&mut self.alarm);
        *self = IdlePlace { alarm, ..IdlePlace::default() };
    }

    /// It is not the client that is waited for; so many bytes of the client's have moved.
    pub fn moved(&mut self, bytes: usize) {
        if let Some(since) = self.since.take() {
            self.before = (self.before + since.elapsed()).saturating_sub(self.earned);
            // what was acknowledged meanwhile is among these bytes, or was before them
            self.earned = Duration::ZERO;
        }
        if !self.before.is_zero() {
            self.before = self.before.saturating_sub(time_of(bytes as u64));
        }
    }

    /// The client is waited for. `Ready` once the place was given away.
    pub fn poll(&mut self, awaits: Awaits, mut give_way: impl FnMut(bool) -> bool, cx: &mut Context<'_>) -> Poll<()> {
        let since = match self.since {
            Some(since) => since,
            None => {
                self.acknowledged = awaits.acknowledged();
                *self.since.insert(Instant::now())
            }
        };
        let blind = if awaits == Awaits::Upload || self.acknowledged.is_some() { Duration::ZERO } else { BLIND };
        loop {
            let (before, more) = (self.before, blind + self.earned);
            let after = |patience: Duration| since + (patience + more).saturating_sub(before);
            let first = after(PATIENCE);
            let due = self.next.map_or(first, |next| next.max(first));
            if self.alarm.poll(due, cx).is_pending() {
                return Poll::Pending;
            }
            if let (Some(before), Some(now)) = (self.acknowledged, awaits.acknowledged())
                && now > before
            {
                self.acknowledged = Some(now);
                // what was waited for at most: a burst earns nothing for the time after it
                self.earned = (self.earned + time_of(now - before)).min(since.elapsed() + self.before);
                continue;
            }
            if give_way(Instant::now() >= after(LONG)) {
                self.gave_way = true;
                return Poll::Ready(());
            }
            self.next = Some(Instant::now() + LOOK);
        }
    }

    /// [Polls](IdlePlace::poll) with the place that was lent, if one was.
    pub fn poll_lent(&mut self, lent: &Lent, awaits: Awaits, cx: &mut Context<'_>) -> Poll<()> {
        lent.0.get().map_or(Poll::Pending, |place| self.poll(awaits, |long| place.give_way(long), cx))
    }

    /// Whether the place was given away, so that the origin's answer is not awaited.
    pub fn gave_way(&self) -> bool {
        self.gave_way
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::{advance, timeout};

    use super::*;

    fn paused() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
    }

    /// Waits for the client up to `longest`. After how long the place was given away, if it was, and whether to anybody.
    async fn waited(idle: &mut IdlePlace, awaits: Awaits, longest: Duration) -> Option<(Duration, bool)> {
        let begun = Instant::now();
        let mut to_anybody = false;
        let give_way = |long| {
            to_anybody = long;
            true
        };
        let mut give_way = give_way;
        timeout(longest, poll_fn(|cx| idle.poll(awaits, &mut give_way, cx))).await.ok()?;
        Some((begun.elapsed(), to_anybody))
    }

    #[test]
    fn a_client_that_sends_nothing_gives_way_after_a_second_and_an_answer_of_which_nothing_is_known_after_five() {
        paused().block_on(async {
            for (awaits, seconds) in [(Awaits::Upload, 1), (Awaits::Room(None), 5)] {
                let (after, to_anybody) =
                    waited(&mut IdlePlace::default(), awaits, Duration::from_secs(60)).await.unwrap();
                assert_eq!((after.as_secs(), to_anybody), (seconds, false), "{awaits:?}");
            }
        });
    }

    /// Sends so many bytes each 100 ms. After how many seconds the place was given away.
    async fn sending(bytes: usize) -> Option<u32> {
        let mut idle = IdlePlace::default();
        for turn in 0..600 {
            if waited(&mut idle, Awaits::Upload, Duration::from_millis(100)).await.is_some() {
                return Some(turn / 10);
            }
            idle.moved(bytes);
        }
        None
    }

    #[test]
    fn a_transfer_is_idle_below_the_steady_rate_only() {
        paused().block_on(async {
            assert_eq!(sending(60).await, Some(1), "600 bytes a second");
            assert_eq!(sending(2_400).await, Some(3), "three quarters of the rate");
            assert_eq!(sending(3_300).await, None, "33,000 bytes a second");
        });
    }

    #[test]
    fn after_ten_seconds_anybody_may_have_the_place_and_the_origins_time_is_not_the_clients() {
        paused().block_on(async {
            let mut idle = IdlePlace::default();
            assert_eq!(waited(&mut idle, Awaits::Upload, Duration::from_millis(900)).await, None);
            idle.moved(0);
            advance(Duration::from_secs(60)).await;
            let (after, to_anybody) = waited(&mut idle, Awaits::Upload, Duration::from_secs(60)).await.unwrap();
            assert!(after < Duration::from_millis(200) && !to_anybody, "{after:?}");
            let begun = Instant::now();
            let mut idle = IdlePlace::default();
            let give_way = |long: bool| long;
            poll_fn(|cx| idle.poll(Awaits::Upload, give_way, cx)).await;
            assert!((10..11).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        });
    }
}
