//! Requests that wait because a limit delays them: how many at most, how long, and what ends a wait early.
//!
//! A wait costs a timer and the memory of its request, so a flood of requests that are all delayed is a flood of memory:
//! there is a cap on how many wait at once, whatever the limits' own `max`. Who would be one too many is refused as if the
//! limit rejected.
//!
//! Not the queue in front of an origin, which [`OriginState`](crate::origins::origin::OriginState) keeps.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::watch;

/// The most requests that wait at once, in the whole process. A waiting request holds 10 to 20 KiB with its connection, so
/// that is 200 MiB at worst, and as many file descriptors as a process mostly has in all.
pub const MOST_WAITING: u32 = 10_000;

/// The waits of a process.
#[derive(Debug)]
pub struct Waits {
    waiting: AtomicU32,
    most: u32,
    stopping: watch::Receiver<bool>,
}

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Waited<G> {
    /// Its time was over.
    Over,
    /// The process is stopping, and waits for nobody who has not begun.
    Stopping,
    /// The client has gone; what it was noticed by.
    Gone(G),
}

impl Waits {
    /// At most `most` at once; all end when `stopping` becomes true.
    pub fn new(most: u32, stopping: watch::Receiver<bool>) -> Waits {
        Waits { waiting: AtomicU32::new(0), most, stopping }
    }

    /// A place among those who wait, until it is dropped; `None` when there are too many.
    pub fn join(&self) -> Option<Waiting<'_>> {
        // Relaxed: only the number itself is of interest, nothing is published by it
        self.waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| (waiting < self.most).then(|| waiting + 1))
            .ok()
            .map(|_| Waiting(self))
    }

    /// Becomes true when the process stops.
    pub fn stopping(&self) -> &watch::Receiver<bool> {
        &self.stopping
    }

    /// How many requests wait at this moment.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// One request's place among those who wait. Dropping it gives the place back.
#[derive(Debug)]
#[must_use = "a place that is dropped at once bounds nothing"]
pub struct Waiting<'a>(&'a Waits);

impl Waiting<'_> {
    /// Waits for so long, or until the process stops, or until `gone` comes true. Never ends early for another reason.
    pub async fn wait<G>(self, time: Duration, gone: impl Future<Output = G>) -> Waited<G> {
        let mut stopping = self.0.stopping.clone();
        tokio::select! {
            // in this order, so that a client that has gone is never forwarded
            biased;
            gone = gone => Waited::Gone(gone),
            // a sender that has vanished means that the process is past stopping
            _ = stopping.wait_for(|stopping| *stopping) => Waited::Stopping,
            () = tokio::time::sleep(time) => Waited::Over,
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // never below zero, as each place was counted once when it was made
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn a_wait_lasts_as_long_as_it_was_told_and_gives_its_place_back() {
        let (_stop, stopping) = watch::channel(false);
        let waits = Waits::new(1, stopping);
        let begun = Instant::now();
        let waiting = waits.join().unwrap();
        assert_eq!(waiting.wait(Duration::from_millis(1500), pending::<()>()).await, Waited::Over);
        assert!(begun.elapsed() >= Duration::from_millis(1500));
        assert_eq!(waits.waiting(), 0);
    }

    #[tokio::test]
    async fn one_more_than_the_cap_does_not_wait() {
        let (_stop, stopping) = watch::channel(false);
        let waits = Waits::new(2, stopping);
        let first = waits.join().unwrap();
        let _second = waits.join().unwrap();
        assert!(waits.join().is_none());
        assert_eq!(waits.waiting(), 2);
        drop(first);
        assert!(waits.join().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_leaves_ends_its_wait_at_once() {
        let (_stop, stopping) = watch::channel(false);
        let waits = Waits::new(1, stopping);
        let begun = Instant::now();
        assert_eq!(waits.join().unwrap().wait(LONG, ready("reset")).await, Waited::Gone("reset"));
        assert_eq!((waits.waiting(), begun.elapsed()), (0, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_ends_the_waits_that_are_and_those_to_come() {
        let (stop, stopping) = watch::channel(false);
        let waits = Waits::new(2, stopping);
        let begun = Instant::now();
        let (ended, ()) = tokio::join!(waits.join().unwrap().wait(LONG, pending::<()>()), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            stop.send(true).unwrap();
        });
        assert_eq!(ended, Waited::Stopping);
        assert_eq!(begun.elapsed(), Duration::from_secs(1));
        assert_eq!(waits.join().unwrap().wait(LONG, pending::<()>()).await, Waited::Stopping);
        drop(stop);
        assert_eq!(waits.join().unwrap().wait(LONG, pending::<()>()).await, Waited::Stopping);
        assert_eq!((waits.waiting(), begun.elapsed()), (0, Duration::from_secs(1)));
    }

    #[tokio::test]
    async fn a_wait_that_is_given_up_leaves_nothing_behind() {
        let (_stop, stopping) = watch::channel(false);
        let waits = Waits::new(1, stopping);
        let wait = waits.join().unwrap().wait(LONG, pending::<()>());
        drop(wait);
        assert_eq!(waits.waiting(), 0);
    }
}
