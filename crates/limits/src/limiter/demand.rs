//! What is asked for of a limit, whether another limit refuses it or not.
//!
//! A refused request is charged nowhere. So the limit of a client that another limit holds below it is never used up, and alone would
//! never refuse. Its demand says whether it would have: a state with the same numbers and a smaller table of its own, charged with all
//! requests that the limit itself does not refuse, as if there were no other. Nothing is promised by it, and nothing is admitted by it.

use super::kind::MIXED;
use super::state::State;
use super::{Judgement, Kind, Moved, Place, Probe, Spec};
use crate::sketch::Seed;
use crate::sync::{AtomicU64, Ordering};
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// How long a demand is counted after the last refusal elsewhere, in nanoseconds: without refusals nobody asks for it.
const WATCHED_NANOS: u64 = 600_000_000_000;

/// A refusal moves the end of the watch only if it lies so much nearer than it could.
const COARSE_NANOS: u64 = 10_000_000_000;

/// The longest wait that requests add to which find no room, in nanoseconds.
const REMEMBERED_NANOS: u64 = 1_000_000_000;

/// What is asked for of a limit.
#[derive(Debug)]
pub struct Demand {
    state: Box<dyn State>,
    /// Until when requests are counted. Relaxed: one that reads it too early is not counted.
    watched: AtomicU64,
    /// The longest that a request may wait for the limit instead of being refused, in nanoseconds.
    longest_wait: u64,
}

impl Demand {
    /// The demand of the limit that has this seed; nothing has been asked for.
    ///
    /// # Errors
    /// Numbers that the kind does not take.
    pub(super) fn new(spec: &Spec<'_>, seed: &Seed) -> Result<Demand, OutOfRange> {
        let kinds = smaller(spec);
        let state = kinds.first().ok_or(MIXED)?.state(&Spec { kinds: &kinds, ..*spec }, &seed.derive("demand"))?;
        Ok(Demand { state, watched: AtomicU64::new(0), longest_wait: spec.longest_wait })
    }

    /// The same demand under other numbers.
    ///
    /// # Errors
    /// As those of [`State::follow`].
    pub(super) fn followed_by(&self, spec: &Spec<'_>, moved: &Moved<'_>) -> Result<Demand, OutOfRange> {
        let state = self.state.follow(&Spec { kinds: &smaller(spec), ..*spec }, moved)?;
        let watched = AtomicU64::new(self.watched.load(Ordering::Relaxed));
        Ok(Demand { state, watched, longest_wait: spec.longest_wait })
    }

    /// Tells whether another limit has refused requests lately, so that admitted ones have to be counted too.
    #[inline]
    pub fn is_watched(&self, now: Timestamp) -> bool {
        now.nanos() < self.watched.load(Ordering::Relaxed)
    }

    /// Has all requests counted from now on, as another limit refuses some.
    pub fn watch(&self, now: Timestamp) {
        let until = now.nanos().saturating_add(WATCHED_NANOS);
        if self.watched.load(Ordering::Relaxed).saturating_add(COARSE_NANOS) < until {
            self.watched.fetch_max(until, Ordering::Relaxed);
        }
    }

    /// Returns why the limit would refuse this request if there were no other; `None` if it would admit it, at once or after a wait.
    pub fn refusal(&self, at: &Place, now: Timestamp, cost: Cost) -> Option<Judgement> {
        let judgement = self.state.probe(at, now, cost, 0).judgement;
        let waits = judgement.retry_nanos.is_some_and(|wait| wait <= self.longest_wait);
        (!judgement.admitted && !waits).then_some(judgement)
    }

    /// Counts a request that the limit would refuse. Says whether the key is as far over as it can get, of a limit that counts what it
    /// refuses. Of another limit up to a second's worth is remembered: a client that goes on asking for too much stays over its limit, and
    /// not only between two requests that would have fitted.
    pub fn refuse(&self, at: &Place, now: Timestamp, judgement: &Judgement, cost: Cost) -> bool {
        if let Some((_, penalised)) = self.state.count_refusal(at, now, cost) {
            return penalised;
        }
        if judgement.retry_nanos.is_some_and(|wait| wait <= REMEMBERED_NANOS) {
            self.state.charge(at, now, cost);
        }
        false
    }

    /// Charges the request as the limit would if there were no other: after a wait that it allows, or as one that it refuses.
    pub fn charge(&self, at: &Place, now: Timestamp, cost: Cost) {
        let probe = Probe::unasked(at, cost);
        let Err(lost) = self.state.commit(&probe, now) else { return };
        match lost.judgement.retry_nanos {
            Some(wait) if wait <= self.longest_wait => {
                let later = Probe::unasked(&Place { noted: Some(now), ..probe.place }, cost);
                // one that loses a race for that moment is not counted
                let _ = self.state.commit(&later, Timestamp::from_nanos(now.nanos().saturating_add(wait)));
            }
            _ => _ = self.refuse(at, now, &lost.judgement, cost),
        }
    }

    pub(super) fn take_over(&self) {
        self.state.take_over();
    }

    pub(super) fn maintain(&self, now: Timestamp) {
        self.state.maintain(now);
    }

    pub(super) fn memory(&self) -> Bytes {
        self.state.memory()
    }
}

/// The numbers of the limit over an eighth of its table: nothing is promised by it.
fn smaller(spec: &Spec<'_>) -> Vec<Kind> {
    let smaller = |kind: &Kind| {
        let (mut kind, least) = (kind.clone(), kind.form().least_memory);
        if let Some(memory) = kind.memory_mut() {
            *memory = Bytes(memory.0 / 8).max(least);
        }
        kind
    };
    spec.kinds.iter().map(smaller).collect()
}
