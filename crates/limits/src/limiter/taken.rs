//! Places that an admitted request takes and gives back.

use super::Permit;
use super::kinds::KeyPermit;

/// A place of an `inflight` limit; dropping it gives it back.
#[derive(Debug)]
pub enum Taken {
    /// Counted exactly.
    Exact(Permit),
    /// Counted by key.
    Keyed {
        /// The place.
        permit: KeyPermit,
        /// How many places the key has in the class of switched connections.
        most_upgraded: u32,
    },
}

impl Taken {
    /// Moves the place to the class of connections that were switched to another protocol; says whether that had room.
    pub fn upgrade(&mut self) -> bool {
        match self {
            Taken::Exact(permit) => permit.upgrade(),
            Taken::Keyed { permit, most_upgraded } => match permit.upgraded(*most_upgraded) {
                Some(moved) => {
                    *permit = moved;
                    true
                }
                None => false,
            },
        }
    }
}
