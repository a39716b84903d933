//! An attempt whose charge is known only when its answer comes.
//!
//! A limit that counts failures, or whose cost the origin tells, holds every attempt as [`Pending`](super::Pending) from its
//! entry to its answer, so that a thousand that come at once find no more room than a thousand that come in turn. At the
//! answer the charge is made first and the pending part released after it: whoever looks in between counts it twice, never
//! not at all.

use std::sync::Arc;

use super::journal::What;
use super::sharing::StoreKey;
use super::sharing::deltas::Deltas;
use super::{Limiter, Place, pending};
use crate::units::{Cost, Timestamp};

/// One attempt under way. Settled exactly once: by [`Attempt::settle`], or when it is dropped.
///
/// Dropped unsettled, it is charged as if its answer had matched if it had been [sent](Attempt::sent) on, since nobody can
/// tell what the answer would have been; otherwise it is released as if it had never come.
#[derive(Debug)]
#[must_use = "an attempt that is dropped at once is pending for no time"]
pub struct Attempt {
    limiter: Arc<Limiter>,
    held: Option<pending::Attempt>,
    /// The same attempt under another hash of its key.
    also: Option<pending::Attempt>,
    place: Place,
    /// What is held back.
    cost: Cost,
    /// What the request is held to cost, of which each of so many parts of the limit is charged as much.
    stated: Cost,
    parts: u32,
    at: Timestamp,
    sent: bool,
    /// Whether the journal is to know of its end.
    told: bool,
    /// Where its charge is counted for other gates.
    deltas: Option<Arc<Deltas>>,
}

impl Attempt {
    pub(super) fn new(
        limiter: Arc<Limiter>,
        held: pending::Attempt,
        place: Place,
        cost: Cost,
        at: Timestamp,
    ) -> Attempt {
        Attempt {
            limiter,
            held: Some(held),
            also: None,
            place,
            cost,
            stated: cost,
            parts: 1,
            at,
            sent: false,
            told: true,
            deltas: None,
        }
    }

    /// Takes over what the same attempt holds under another hash of its key; it is charged once, where both would be.
    pub(super) fn join(&mut self, other: Option<pending::Attempt>) {
        self.also = other;
    }

    /// It was held back without a note.
    pub(super) fn untold(&mut self) {
        self.told = false;
    }

    /// Its charge is counted here too, for other gates, under the name that is the place's value.
    pub(super) fn tell(&mut self, deltas: &Arc<Deltas>) {
        self.deltas = Some(Arc::clone(deltas));
    }

    /// What it holds, which is then somebody else's to release.
    pub(super) fn into_held(mut self) -> Option<pending::Attempt> {
        self.held.take()
    }

    /// It is one of a part of the limit, of which there are so many; it is held to cost `stated`.
    pub(super) fn of_part(&mut self, stated: Cost, parts: u32) {
        (self.stated, self.parts) = (stated, parts.max(1));
    }

    /// What it is held to cost.
    pub fn stated(&self) -> Cost {
        self.stated
    }

    /// The request has been passed on: what becomes of it is out of our hands.
    pub fn sent(&mut self) {
        self.sent = true;
    }

    /// The request was not served by its origin after all: nothing will be charged unless it is sent again.
    pub fn failed(&mut self) {
        self.sent = false;
    }

    /// The answer has come at `now`: `charge` is what it costs, `None` nothing.
    pub fn settle(mut self, now: Timestamp, charge: Option<Cost>) {
        self.finish(now, charge);
    }

    fn finish(&mut self, now: Timestamp, charge: Option<Cost>) {
        let Some(held) = self.held.take() else { return };
        // released after the charge, as the other
        let _also = self.also.take();
        let charge = charge.map(|cost| Cost::new(cost.get().saturating_mul(self.parts)).unwrap_or(cost));
        match charge {
            Some(cost) => held.answered(|| self.limiter.charge(&self.place, now, cost)),
            None => drop(held),
        }
        // told after the charge, as no more is told than stands charged
        if let (Some(cost), Some(deltas)) = (charge, &self.deltas) {
            deltas.count(StoreKey::from_halves(self.place.value.halves()), self.place.tier, cost);
        }
        if self.told {
            self.limiter.journal.note(What::LetGo, &self.place, now, self.cost);
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let charge = self.sent.then_some(self.stated);
        self.finish(self.at, charge);
    }
}
