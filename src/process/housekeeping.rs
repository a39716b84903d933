//! What the limits need to have done about once a second, on a thread of its own.
//!
//! Clearing a table may take a millisecond, which no request should wait for, so it is not for the workers that serve them.
//! The thread sleeps otherwise, ends as soon as the process stops, and is not waited for: it holds nothing that would
//! have to be written.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// From one round to the next.
const INTERVAL: Duration = Duration::from_secs(1);

/// Keeps the rounds going until it is dropped.
#[derive(Debug)]
#[must_use = "the rounds end when this is dropped"]
pub struct Housekeeping {
    /// Nothing is ever sent: the thread wakes when this end goes.
    _alive: mpsc::Sender<()>,
}

impl Housekeeping {
    /// Calls `round` every second from now on. A round that panics is reported by the panic hook, and the next one comes all
    /// the same.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(round: impl Fn() + Send + 'static) -> io::Result<Housekeeping> {
        Housekeeping::every(INTERVAL, round)
    }

    /// The same at another interval.
    ///
    /// # Errors
    /// As [`Housekeeping::start`].
    pub fn every(interval: Duration, round: impl Fn() + Send + 'static) -> io::Result<Housekeeping> {
        let (alive, end) = mpsc::channel::<()>();
        thread::Builder::new().name("housekeeping".to_owned()).spawn(move || {
            while end.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                // limiters are made of atomics: one that was left in the middle of its round is still a valid one
                let _ = catch_unwind(AssertUnwindSafe(&round));
            }
        })?;
        Ok(Housekeeping { _alive: alive })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn rounds_come_until_it_is_dropped_and_then_the_thread_lets_go() {
        let (tell, told) = mpsc::channel();
        let kept = Housekeeping::every(Duration::from_millis(1), move || tell.send(()).unwrap()).unwrap();
        for _ in 0..3 {
            told.recv_timeout(LONG).unwrap();
        }
        drop(kept);
        // the sender goes with the thread; what it had still to tell comes before that
        while let Ok(()) = told.recv_timeout(LONG) {}
        assert_eq!(told.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn an_end_does_not_wait_for_the_next_round() {
        let (tell, told) = mpsc::channel::<()>();
        let kept = Housekeeping::every(Duration::from_secs(3600), move || tell.send(()).unwrap()).unwrap();
        drop(kept);
        assert_eq!(told.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn a_round_that_panics_is_not_the_last() {
        let (tell, told) = mpsc::channel();
        let _kept = Housekeeping::every(Duration::from_millis(1), move || {
            tell.send(()).unwrap();
            std::panic::resume_unwind(Box::new("in a round"));
        })
        .unwrap();
        for _ in 0..3 {
            told.recv_timeout(LONG).unwrap();
        }
    }
}
