//! A timer that is cheap to move: most deadlines of a connection are never reached, and each lies later than the one before.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::time::{Instant, Sleep, sleep_until};

/// Wakes its task when a deadline is reached that may differ at every poll.
#[derive(Debug, Default)]
pub struct Alarm {
    /// Made at the first wait, since many connections never wait.
    timer: Option<Pin<Box<Sleep>>>,
    /// Whom the timer wakes.
    wakes: Option<Waker>,
}

impl Alarm {
    /// `Ready` once `deadline` is over; otherwise the task is woken then, or earlier without need.
    pub fn poll(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        } else if !timer.is_elapsed() && self.wakes.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            // it knows already whom to wake: to tell it again would be most of what a wait costs
            return Poll::Pending;
        }
        loop {
            // an earlier deadline left standing costs one needless wake-up; moving it every time would cost more
            if timer.as_mut().poll(cx).is_pending() {
                self.wakes.get_or_insert_with(|| cx.waker().clone()).clone_from(cx.waker());
                return Poll::Pending;
            }
            self.wakes = None;
            if timer.deadline() >= deadline {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
    }
}
