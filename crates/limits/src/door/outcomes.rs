//! What has become of those who wait, for the tasks that wait.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::line::{Act, Standing, Ticket};
use crate::sync::Mutex;

/// What became of one request. Changed under the door's lock alone, but for its waker.
#[derive(Debug)]
pub(super) struct Outcome<G>(Mutex<Fate<G>>);

#[derive(Debug)]
enum Fate<G> {
    Waits(Option<Waker>),
    Given(G),
    PushedOut(Standing),
}

impl<G: Copy> Outcome<G> {
    pub fn poll(&self, context: &Context<'_>) -> Poll<Result<G, Standing>> {
        match &mut *self.0.lock() {
            Fate::Waits(Some(waker)) => waker.clone_from(context.waker()),
            Fate::Waits(waker) => *waker = Some(context.waker().clone()),
            Fate::Given(grant) => return Poll::Ready(Ok(*grant)),
            Fate::PushedOut(standing) => return Poll::Ready(Err(*standing)),
        }
        Poll::Pending
    }

    /// The answer, if there is one.
    pub fn answer(&self) -> Option<Result<G, Standing>> {
        match &*self.0.lock() {
            Fate::Waits(_) => None,
            Fate::Given(grant) => Some(Ok(*grant)),
            Fate::PushedOut(standing) => Some(Err(*standing)),
        }
    }

    fn set(&self, fate: Fate<G>) -> Option<Waker> {
        match std::mem::replace(&mut *self.0.lock(), fate) {
            Fate::Waits(waker) => waker,
            Fate::Given(_) | Fate::PushedOut(_) => None,
        }
    }
}

/// The outcome of each who waits, by its room in the line.
#[derive(Debug)]
pub(super) struct Outcomes<G> {
    of: Box<[Option<Arc<Outcome<G>>>]>,
    /// What was said of a ticket that is not known yet: of the request that arrives.
    early: Option<Act<G>>,
    wake: Vec<Waker>,
}

impl<G: Copy> Outcomes<G> {
    pub fn new(rooms: usize) -> Outcomes<G> {
        Outcomes { of: vec![None; rooms].into(), early: None, wake: Vec::new() }
    }

    /// So many rooms, if there were fewer.
    pub fn grow(&mut self, rooms: usize) {
        if rooms > self.of.len() {
            let mut of = std::mem::take(&mut self.of).into_vec();
            of.resize(rooms, None);
            self.of = of.into();
        }
    }

    /// Bytes, fixed.
    pub fn memory(&self) -> usize {
        self.of.len() * size_of::<Option<Arc<Outcome<G>>>>()
    }

    /// Somebody was answered.
    pub fn note(&mut self, act: Act<G>) {
        let (ticket, fate) = match act {
            Act::Given(ticket, grant) => (ticket, Fate::Given(grant)),
            Act::PushedOut(ticket, standing) => (ticket, Fate::PushedOut(standing)),
        };
        match self.of.get_mut(ticket.slot as usize).and_then(Option::take) {
            Some(outcome) => self.wake.extend(outcome.set(fate)),
            None => self.early = Some(act),
        }
    }

    /// The request of this ticket waits, unless it has been answered already.
    pub fn begin(&mut self, ticket: Ticket) -> Arc<Outcome<G>> {
        let fate = match self.early.take() {
            Some(Act::Given(_, grant)) => Fate::Given(grant),
            Some(Act::PushedOut(_, standing)) => Fate::PushedOut(standing),
            None => Fate::Waits(None),
        };
        let waits = matches!(fate, Fate::Waits(_));
        let outcome = Arc::new(Outcome(Mutex::new(fate)));
        if let Some(room) = self.of.get_mut(ticket.slot as usize).filter(|_| waits) {
            *room = Some(Arc::clone(&outcome));
        }
        outcome
    }

    /// The request of this ticket waits no longer.
    pub fn forget(&mut self, ticket: Ticket) {
        if let Some(room) = self.of.get_mut(ticket.slot as usize) {
            *room = None;
        }
    }

    /// Those who are to be woken, once the lock is free.
    pub fn woken(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.wake)
    }
}
