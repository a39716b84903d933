//! What an admitted request holds.

use super::{Attempt, KeyPermit, Permit};

/// What an admitted request holds until its answer, or until its end. Gives back what it holds when it is dropped.
#[derive(Debug)]
pub enum Hold {
    /// A place of an `inflight` limit that is counted exactly.
    Slot(Permit),
    /// A place of an `inflight` limit per key.
    Key {
        /// The place.
        permit: KeyPermit,
        /// How many places the key has in the class of switched connections.
        most_upgraded: u32,
    },
    /// An attempt whose charge waits for its answer.
    Attempt(Attempt),
}

/// Whoever keeps what a request holds.
pub trait Keeper {
    /// Takes it, to be dropped when the request is over.
    fn keep(self, hold: Hold);
}

impl Hold {
    /// Whether it is a place, which comes back; an attempt is settled.
    pub fn is_place(&self) -> bool {
        matches!(self, Hold::Slot(_) | Hold::Key { .. })
    }

    /// Moves a place to the class of connections that were switched to another protocol; says whether that had room. What
    /// is no place stays as it is.
    pub fn upgrade(&mut self) -> bool {
        match self {
            Hold::Slot(permit) => permit.upgrade(),
            Hold::Key { permit, most_upgraded } => match permit.upgraded(*most_upgraded) {
                Some(moved) => {
                    *permit = moved;
                    true
                }
                None => false,
            },
            Hold::Attempt(_) => true,
        }
    }
}
