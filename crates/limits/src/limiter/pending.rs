//! Attempts whose outcome is not known yet, for limits that count only some answers: `count: responses 401,403`, or a
//! cost that the answer tells.
//!
//! A limit that charges at the answer alone is open while answers are under way: two hundred parallel guesses against
//! `5/m` would all find nothing charged and all reach the origin. So an attempt is held here from its entry to its answer,
//! and counts against the limit as if it would match.
//!
//! **Promise.** For a limit L on the confirmed level of a key, at every instant: of the attempts sent on, those
//! that have matched (and still count in the level) and those that may yet match cost L together, or less.
//!
//! *Order*, which is all there is to it:
//!
//! 1. at entry: add to pending, **then** read the confirmed level; send on if level and pending sum, this attempt
//!    included, are within the limit, else leave;
//! 2. at the answer: if it matches, charge the level **first**, unconditionally, then leave.
//!
//! *Why.* Suppose that the attempts sent on, which match sooner or later, cost more than L. Take the one that was added to the
//! table's last row after all the others. Each other had then been added to every row. If this one's pending sum does not
//! include it, it read a cell that the other had already taken its cost out of; the other had charged the level before that, and
//! whoever reads the cell sees what its writer had done: the level, read afterwards, includes it. So each is in the sum
//! or in the level, the two were over L, and this one was not sent on. The model checker confirms it, and refutes both orders
//! turned around (`models`).
//!
//! *What errs.* Between the charge and the leave an attempt counts twice, and a refused one is in the table for some nanoseconds;
//! both only refuse, and [`Pending::attempt`] looks again while the sum falls. Of attempts that race each other while
//! no answer comes exactly L are sent on: whoever takes himself out looks again, for the reason that the summing sketch gives.
//!
//! An attempt that ends without an answer (the client hung up, the origin failed) must be judged by the caller: if it was
//! sent, it may have been a guess, and who is never charged for hanging up can guess for ever. The `charge` of
//! [`Attempt::answered`] is for that, too.

use std::fmt;
use std::sync::Arc;

use super::{HeldElsewhere, Place};
use crate::sketch::{CountCell, KeyHash, Seed, SummingElsewhere, SummingTable};
use crate::sync::AtomicU32;
use crate::units::{Bytes, Cost, OutOfRange};

/// The attempts of all keys whose answers are pending, in fixed memory.
pub struct Pending<C: CountCell = AtomicU32, const ROWS: usize = 8> {
    table: SummingTable<C, ROWS>,
}

impl Pending {
    /// The memory of the table unless the operator says otherwise.
    pub const DEFAULT_MEMORY: Bytes = SummingTable::DEFAULT_MEMORY;

    /// Nothing pending. `seed` draws the table's columns; keys may be hashed under the same.
    ///
    /// # Errors
    /// What [`SummingTable::with_memory`] refuses.
    pub fn new(memory: Bytes, seed: &Seed) -> Result<Pending, OutOfRange> {
        SummingTable::with_memory(memory, seed).map(Pending::over)
    }
}

impl Pending {
    /// What is pending, as cells.
    pub(super) fn held(&self) -> Vec<u32> {
        self.table.cells_held()
    }

    /// Counts what is pending in another process as well.
    pub(super) fn hold_elsewhere(self: &Arc<Self>, cells: &[u32]) -> Option<Box<dyn HeldElsewhere>> {
        let cells = self.table.hold_elsewhere(cells)?;
        Some(Box::new(PendingElsewhere { pending: Arc::clone(self), cells }))
    }
}

/// What is pending in another process.
#[derive(Debug)]
struct PendingElsewhere {
    pending: Arc<Pending>,
    cells: SummingElsewhere,
}

impl HeldElsewhere for PendingElsewhere {
    fn take(&mut self, place: &Place, cost: Cost) {
        self.pending.table.add_elsewhere(&mut self.cells, place.key, cost.get());
    }

    fn give_back(&mut self, place: &Place, cost: Cost) {
        self.pending.table.release_elsewhere(&mut self.cells, place.key, cost.get());
    }
}

impl Drop for PendingElsewhere {
    fn drop(&mut self) {
        self.pending.table.end_elsewhere(&mut self.cells);
    }
}

impl<C: CountCell, const ROWS: usize> Pending<C, ROWS> {
    /// Pending attempts in a table of any shape, for tests and models.
    pub fn over(table: SummingTable<C, ROWS>) -> Self {
        Pending { table }
    }

    /// Holds an attempt if it fits: the whole entry, in its right order.
    ///
    /// `fits` is told a pending sum that includes this attempt, must then read the confirmed level, and says whether both
    /// together are within the limit. It is first asked with a sum that was only read, so that a refused attempt of a key at
    /// its limit writes nothing; and at most 128 times in all. Returns what the other attempts of the key cost.
    ///
    /// # Errors
    /// It does not fit, and so much was pending beside it.
    pub fn attempt(
        self: &Arc<Self>,
        key: KeyHash,
        cost: Cost,
        mut fits: impl FnMut(u32) -> bool,
    ) -> Result<(u32, Attempt<C, ROWS>), u32> {
        let mut others = self.estimate(key);
        for look in 1..=MAX_LOOKS {
            if others.checked_add(cost.get()).is_some_and(&mut fits) {
                let sum = self.enter(key, cost.get()).ok_or(others)?;
                // made before `fits` is asked, so that even its panic would leave nothing behind
                let attempt = Attempt { pending: Arc::clone(self), key, cost };
                if fits(sum) {
                    return Ok((sum.saturating_sub(cost.get()), attempt));
                }
                // two that refused each other: both look again, at different times
                drop(attempt);
                C::pause(look.min(6) << (sum.wrapping_add(look) & 3));
                others = self.estimate(key);
            } else {
                // What stands in the way may have been charged already and be about to leave. If nothing is pending, it is
                // the level alone.
                if others > 0 {
                    C::pause(2);
                }
                let again = self.estimate(key);
                if again >= others {
                    break;
                }
                others = again;
            }
        }
        Err(others)
    }

    /// Holds an attempt whether it fits or not; `None` if there is no counting so many.
    pub fn hold(self: &Arc<Self>, key: KeyHash, cost: Cost) -> Option<Attempt<C, ROWS>> {
        self.enter(key, cost.get())?;
        Some(Attempt { pending: Arc::clone(self), key, cost })
    }

    /// Adds an attempt and returns the pending sum, this attempt included; the confirmed level is to be read after it.
    /// `None` if a cell would pass 2³² − 1: nothing was added, and the attempt is to be refused.
    pub fn enter(&self, key: KeyHash, cost: u32) -> Option<u32> {
        self.table.add(key, cost)
    }

    /// Takes an attempt out, once for each [`Pending::enter`]; after the level was charged, if it is to be charged.
    pub fn leave(&self, key: KeyHash, cost: u32) {
        self.table.release(key, cost);
    }

    /// At least what is pending of the key.
    pub fn estimate(&self, key: KeyHash) -> u32 {
        self.table.estimate(key)
    }

    /// What is pending of all keys together, for a gauge. Reads one row of the table.
    pub fn total(&self) -> u64 {
        self.table.total()
    }

    /// How often more left than had entered: always zero, unless the gate is at fault.
    pub fn faults(&self) -> u64 {
        self.table.faults()
    }

    /// The size of the table.
    pub fn memory(&self) -> Bytes {
        self.table.memory()
    }
}

/// Each further look follows a race that was lost or a fall of the sum, so it takes a crowd to be refused for them.
const MAX_LOOKS: u32 = 64;

impl<C: CountCell, const ROWS: usize> fmt::Debug for Pending<C, ROWS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pending").field(&self.table).finish()
    }
}

/// One attempt under way; dropping it takes it out uncharged.
#[must_use = "an attempt that is dropped at once holds nothing"]
pub struct Attempt<C: CountCell = AtomicU32, const ROWS: usize = 8> {
    pending: Arc<Pending<C, ROWS>>,
    key: KeyHash,
    cost: Cost,
}

impl<C: CountCell, const ROWS: usize> Attempt<C, ROWS> {
    /// The answer is there and matches, or never came: charges the level by `charge`, which must not be able to refuse, and
    /// then takes the attempt out. For an answer that does not match, drop the attempt.
    pub fn answered<R>(self, charge: impl FnOnce() -> R) -> R {
        let result = charge();
        drop(self);
        result
    }
}

impl<C: CountCell, const ROWS: usize> Drop for Attempt<C, ROWS> {
    fn drop(&mut self) {
        self.pending.leave(self.key, self.cost.get());
    }
}

impl<C: CountCell, const ROWS: usize> fmt::Debug for Attempt<C, ROWS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("cost", &self.cost).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
