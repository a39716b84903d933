//! A client that leaves before its answer is complete, while the origin's work is to be awaited.
//!
//! Most origins go on with a request whose connection closes. If the gate gave the places of the request back then, a client
//! that asks and leaves could have any number of requests at work. So the request goes on without its client: the layer
//! between the client and the framework takes the answer and throws it away, the framework sees nothing of it, and the places
//! come back when the answer has ended. Three bounds end it earlier: the deadline of the answer's head, and the time and the
//! bytes of the rest.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use crate::system::timer::Alarm;

/// How many abandoned requests of one origin are at work at most; each holds 10 to 20 KiB.
const MOST_AT_WORK: u32 = 10_000;

/// The abandoned requests of one origin that are still at work.
#[derive(Debug, Default)]
pub struct Abandoned(AtomicU32);

impl Abandoned {
    /// One more, until the result is dropped; `None` when there are too many.
    pub fn join(self: &Arc<Self>) -> Option<AtWork> {
        // Relaxed: only the number itself is of interest, nothing is published by it
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < MOST_AT_WORK).then(|| count + 1))
            .ok()
            .map(|_| AtWork(Arc::clone(self)))
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One abandoned request, counted until it is dropped.
#[derive(Debug)]
pub struct AtWork(Arc<Abandoned>);

impl Drop for AtWork {
    fn drop(&mut self) {
        // never below zero, as each was counted once when it was made
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How much of an answer is awaited once its client has gone.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Bytes that are thrown away at most.
    pub bytes: u64,
    /// From the answer's head, or from the leaving if that came later, to the end.
    pub time: Duration,
    /// Who counts it.
    pub abandoned: Arc<Abandoned>,
}

/// What the gate and the client's side tell each other about one request. Atomic for the reason that [`AnswerDeadline`](super::answer_deadline::AnswerDeadline)
/// gives.
#[derive(Debug, Default)]
pub struct Absence {
    terms: OnceLock<Terms>,
    gone: AtomicBool,
    unanswered: AtomicBool,
    discarded: AtomicU64,
}

impl Absence {
    /// From now on the answer is awaited when the client leaves. Said once for a request.
    pub fn await_answer(&self, terms: Terms) {
        // a second attempt says the same
        let _ = self.terms.set(terms);
    }

    /// Whether the client has gone and its answer is awaited.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// Whether it left before its answer had begun.
    pub fn left_unanswered(&self) -> bool {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Bytes of the answer that were thrown away.
    pub fn discarded(&self) -> u64 {
        self.discarded.load(Ordering::Relaxed)
    }
}

/// The leaving of one client, kept by the side that notices it.
#[derive(Debug, Default)]
pub struct Departure {
    at_work: Option<AtWork>,
    /// By when the rest of the answer must have come; none before its head.
    ends: Option<Instant>,
    alarm: Alarm,
}

impl Departure {
    /// The client has left; `begun` says whether its answer had begun. Returns whether the request goes on: if not, whoever
    /// asks is to be told of the leaving.
    pub fn note(&mut self, absence: &Absence, begun: bool) -> bool {
        if absence.is_gone() {
            return true;
        }
        let Some(terms) = absence.terms.get() else { return false };
        self.at_work = terms.abandoned.join();
        if self.at_work.is_none() {
            return false;
        }
        absence.gone.store(true, Ordering::Relaxed);
        absence.unanswered.store(!begun, Ordering::Relaxed);
        if begun {
            self.begin(absence);
        }
        true
    }

    /// The answer that is thrown away has begun.
    pub fn begin(&mut self, absence: &Absence) {
        self.ends = absence.terms.get().map(|terms| Instant::now() + terms.time);
    }

    /// `Ready` when the rest of the answer took too long.
    pub fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.ends.map_or(Poll::Pending, |ends| self.alarm.poll(ends, cx))
    }

    /// Throws so many bytes of the answer away; says whether more may come.
    pub fn discard(&mut self, absence: &Absence, bytes: usize) -> bool {
        let so_far = absence.discarded.fetch_add(bytes as u64, Ordering::Relaxed).saturating_add(bytes as u64);
        let in_time = self.ends.is_none_or(|ends| Instant::now() < ends);
        in_time && absence.terms.get().is_some_and(|terms| so_far <= terms.bytes)
    }
}
