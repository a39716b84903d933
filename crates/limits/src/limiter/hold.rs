//! What an admitted request holds.

use std::fmt::Debug;
use std::sync::Arc;

use super::journal::What;
use super::sharing::deltas::Deltas;
use super::{Attempt, Limiter, Place, Taken};
use crate::units::{Cost, Timestamp};

/// What an admitted request holds until its answer, or until its end. Dropping it gives that back.
#[derive(Debug)]
pub enum Hold {
    /// A place of an `inflight` limit.
    Place(Lent),
    /// An attempt whose charge waits for its answer.
    Attempt(Attempt),
    /// Either of them, in the process that has taken this one's place, or in a store.
    Elsewhere(Box<dyn HoldElsewhere>),
}

/// What a request of this process holds in the process that has taken its place, or in a store.
pub trait HoldElsewhere: Debug + Send + Sync {
    /// Whether it is a place; else an attempt.
    fn is_place(&self) -> bool;

    /// What is held back for an attempt.
    fn cost(&self) -> Cost;

    /// See [`Attempt::sent`].
    fn sent(&mut self);

    /// See [`Attempt::failed`].
    fn failed(&mut self);

    /// See [`Attempt::settle`].
    fn settle(self: Box<Self>, now: Timestamp, charge: Option<Cost>);

    /// More is charged, whether it fits or not.
    fn charge(&mut self, _cost: Cost) {}
}

/// A place that a request has of a limit.
#[derive(Debug)]
pub struct Lent {
    taken: Taken,
    limiter: Arc<Limiter>,
    place: Place,
    cost: Cost,
    /// Whether the journal is to know of its return: not of one that was never noted, nor after its connection was switched.
    told: bool,
}

impl Lent {
    pub(super) fn new(taken: Taken, limiter: &Arc<Limiter>, place: &Place, cost: Cost) -> Lent {
        Lent { taken, limiter: Arc::clone(limiter), place: *place, cost, told: true }
    }

    fn upgrade(&mut self) -> bool {
        let moved = self.taken.upgrade();
        if moved {
            self.note_return();
        }
        moved
    }

    fn note_return(&mut self) {
        if std::mem::take(&mut self.told) {
            self.limiter.journal.note(What::Returned, &self.place, Timestamp::ZERO, self.cost);
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.note_return();
    }
}

impl Hold {
    /// Whether it is a place, which comes back; an attempt is settled.
    pub fn is_place(&self) -> bool {
        match self {
            Hold::Place(_) => true,
            Hold::Attempt(_) => false,
            Hold::Elsewhere(hold) => hold.is_place(),
        }
    }

    /// It was taken without a note, so its return is none of the journal's business.
    pub(super) fn untold(&mut self) {
        match self {
            Hold::Place(lent) => lent.told = false,
            Hold::Attempt(attempt) => attempt.untold(),
            Hold::Elsewhere(_) => {}
        }
    }

    /// Of an attempt: the request has been passed on; see [`Attempt::sent`].
    pub fn sent(&mut self) {
        match self {
            Hold::Place(_) => {}
            Hold::Attempt(attempt) => attempt.sent(),
            Hold::Elsewhere(hold) => hold.sent(),
        }
    }

    /// Of an attempt: the request was not served after all; see [`Attempt::failed`].
    pub fn failed(&mut self) {
        match self {
            Hold::Place(_) => {}
            Hold::Attempt(attempt) => attempt.failed(),
            Hold::Elsewhere(hold) => hold.failed(),
        }
    }

    /// Of an attempt of this process: what it is charged in the end is counted here too, for other gates.
    pub fn tell(&mut self, deltas: &Arc<Deltas>) {
        if let Hold::Attempt(attempt) = self {
            attempt.tell(deltas);
        }
    }

    /// More is charged to what is held elsewhere, whether it fits or not.
    pub fn charge(&mut self, cost: Cost) {
        if let Hold::Elsewhere(hold) = self {
            hold.charge(cost);
        }
    }

    /// Of an attempt of this process: it is one of a part of the limit, of which there are so many, and is charged as often as that
    /// whatever `stated` says it costs.
    pub(super) fn of_part(&mut self, stated: Cost, parts: u32) {
        if let Hold::Attempt(attempt) = self {
            attempt.of_part(stated, parts);
        }
    }

    /// What is held back for an attempt; one of a place.
    pub fn cost(&self) -> Cost {
        match self {
            Hold::Place(_) => Cost::ONE,
            Hold::Attempt(attempt) => attempt.stated(),
            Hold::Elsewhere(hold) => hold.cost(),
        }
    }

    /// Ends an attempt; see [`Attempt::settle`]. A place is given back.
    pub fn settle(self, now: Timestamp, charge: Option<Cost>) {
        match self {
            Hold::Place(_) => {}
            Hold::Attempt(attempt) => attempt.settle(now, charge),
            Hold::Elsewhere(hold) => hold.settle(now, charge),
        }
    }

    /// Moves a place to the class of connections that were switched to another protocol; says whether that had room. An attempt, and
    /// a place in another process, stays as it is.
    pub fn upgrade(&mut self) -> bool {
        match self {
            Hold::Place(lent) => lent.upgrade(),
            Hold::Attempt(_) | Hold::Elsewhere(_) => true,
        }
    }
}
