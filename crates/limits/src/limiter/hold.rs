//! What an admitted request holds.

use super::{Attempt, Taken};

/// What an admitted request holds until its answer, or until its end. Dropping it gives that back.
#[derive(Debug)]
pub enum Hold {
    /// A place of an `inflight` limit.
    Place(Taken),
    /// An attempt whose charge waits for its answer.
    Attempt(Attempt),
}

impl Hold {
    /// Whether it is a place, which comes back; an attempt is settled.
    pub fn is_place(&self) -> bool {
        matches!(self, Hold::Place(_))
    }

    /// Moves a place to the class of connections that were switched to another protocol; says whether that had room. An attempt
    /// stays as it is.
    pub fn upgrade(&mut self) -> bool {
        match self {
            Hold::Place(taken) => taken.upgrade(),
            Hold::Attempt(_) => true,
        }
    }
}
