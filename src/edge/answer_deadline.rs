//! The time until the answer to a request begins.
//!
//! Pingora bounds each read from an origin but not the whole head of its answer, so an origin that drips it byte by byte would
//! hold a request, and its place, for ever. While an answer is awaited Pingora polls the client's connection for news; when
//! the time is over, the news is [`LateAnswer`], and the gate answers in the origin's place.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use crate::system::timer::Alarm;

/// The deadline for the answer to one connection's present request.
#[derive(Debug)]
pub struct AnswerDeadline {
    epoch: Instant,
    /// Nanoseconds after the epoch; zero means none. Atomic because Pingora lends a connection only to look at; one task
    /// owns it, so nothing needs to be ordered.
    nanos: AtomicU64,
    alarm: Alarm,
}

impl Default for AnswerDeadline {
    /// No deadline.
    fn default() -> AnswerDeadline {
        AnswerDeadline { epoch: Instant::now(), nanos: AtomicU64::new(0), alarm: Alarm::default() }
    }
}

impl AnswerDeadline {
    /// Sets the deadline, from now.
    pub fn set(&self, after: Duration) {
        let nanos = self.epoch.elapsed().saturating_add(after).as_nanos();
        self.nanos.store(u64::try_from(nanos).unwrap_or(u64::MAX).max(1), Ordering::Relaxed);
    }

    /// Removes the deadline.
    pub fn clear(&self) {
        self.nanos.store(0, Ordering::Relaxed);
    }

    /// The deadline, if there is one.
    pub fn at(&self) -> Option<Instant> {
        let nanos = self.nanos.load(Ordering::Relaxed);
        // a year is as good as never, and keeps the sum within what the clock can say
        (nanos > 0).then(|| self.epoch + Duration::from_nanos(nanos).min(YEAR))
    }

    /// Becomes ready at the deadline, and wakes the task then. Pending for ever without one.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.at() else { return Poll::Pending };
        self.alarm.poll(deadline, cx)
    }
}

const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// The error of an answer that did not begin in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no answer in time")]
pub struct LateAnswer;

impl LateAnswer {
    /// Returns whether this error ended the proxying.
    pub fn caused(error: &pingora::Error) -> bool {
        let cause = error.root_cause().downcast_ref::<io::Error>();
        cause.and_then(io::Error::get_ref).is_some_and(|inner| inner.is::<LateAnswer>())
    }
}

impl From<LateAnswer> for io::Error {
    fn from(late: LateAnswer) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, late)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::{advance, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rings_at_its_time_and_again_at_the_next_requests() {
        let mut deadline = AnswerDeadline::default();
        assert!(timeout(Duration::from_secs(3600), poll_fn(|cx| deadline.poll(cx))).await.is_err(), "no deadline");
        for _ in 0..3 {
            deadline.set(Duration::from_secs(5));
            assert!(timeout(Duration::from_secs(4), poll_fn(|cx| deadline.poll(cx))).await.is_err());
            advance(Duration::from_millis(999)).await;
            assert!(timeout(Duration::from_secs(1), poll_fn(|cx| deadline.poll(cx))).await.is_ok());
            deadline.clear();
            assert!(timeout(Duration::from_secs(60), poll_fn(|cx| deadline.poll(cx))).await.is_err());
        }
        // a nearer deadline than the one before moves the timer forward
        deadline.set(Duration::from_secs(100));
        assert!(timeout(Duration::from_secs(1), poll_fn(|cx| deadline.poll(cx))).await.is_err());
        deadline.set(Duration::from_secs(2));
        assert!(timeout(Duration::from_secs(3), poll_fn(|cx| deadline.poll(cx))).await.is_ok());
    }

    #[test]
    fn is_found_again_inside_a_proxy_error() {
        use pingora::{Error, ErrorType};
        let inner = Error::because(ErrorType::ReadError, "reading", io::Error::from(LateAnswer));
        assert!(LateAnswer::caused(&Error::because(ErrorType::InternalError, "around it", inner)));
        assert!(!LateAnswer::caused(&Error::because(ErrorType::ReadError, "reading", io::Error::other("reset"))));
    }
}
