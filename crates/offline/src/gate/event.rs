//! What is due later, in the order of time.

use crate::door::Ticket;
use crate::units::Timestamp;

/// Something that is due, of a request `E`.
#[derive(Debug)]
pub struct Event<E> {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: Due,
    /// Among equals, the order in which they were thought of.
    pub order: u64,
    /// None for a request that is in the queue of an origin or of a rate.
    pub exchange: Option<Box<E>>,
}

/// What is due, in the order in which it happens at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// The next piece of a body passes.
    Piece,
    /// The answer begins.
    Answer,
    /// The request has the place of one that is over.
    Placed,
    /// A wait is over, or the request has a unit of its `fair_share`.
    GoesOn,
    /// The units of the `fair_share` with this door are to be looked at.
    Tick(usize),
    /// The wait for a unit ends, of the request with this number.
    Late(u64),
    /// The wait for a place at this origin ends, of the request with this ticket.
    GiveUp(usize, Ticket),
    /// This origin's queue is to be looked at.
    Look(usize),
}

impl<E> Event<E> {
    fn rank(&self) -> (Timestamp, Due, u64) {
        (self.at, self.what, self.order)
    }
}

impl<E> PartialEq for Event<E> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl<E> Eq for Event<E> {}

impl<E> PartialOrd for Event<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Event<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}
