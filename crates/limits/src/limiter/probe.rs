//! What one look at a limit found.

use std::fmt;

use super::{Judgement, Place};
use crate::sketch::{Charged, Spot};
use crate::units::{Cost, Timestamp};

/// What one look at a limit found: the judgement, and what a commit starts from.
///
/// A probe belongs to the limiter that made it, and grows stale at no moment: a commit compares what was seen with what is there.
#[derive(Clone, Copy)]
pub struct Probe {
    /// Where the request counts.
    pub place: Place,
    /// What it costs.
    pub cost: Cost,
    /// What the limit said.
    pub judgement: Judgement,
    pub(super) seen: Seen,
}

/// What was seen of the cells.
#[derive(Clone, Copy)]
pub(super) enum Seen {
    /// Nothing that a commit could start from: it reads first.
    Nothing,
    /// A level, and what the request would raise it to.
    Level(SeenLevel),
    /// Of `distinct`: the value was counted already, as of this moment.
    Value(Timestamp),
    /// Of `inflight` by key: where its places are counted.
    Places([u32; 8]),
}

/// The level of a key as it was read.
#[derive(Clone, Copy)]
pub(super) struct SeenLevel {
    pub spot: Spot,
    pub charged: Charged,
    /// The moment among the levels.
    pub at: Timestamp,
}

impl Probe {
    /// A request that no limit was asked about: a commit of it reads first.
    pub fn unasked(place: &Place, cost: Cost) -> Probe {
        Probe::new(place, cost, Judgement::REFUSED, Seen::Nothing)
    }

    pub(super) fn new(place: &Place, cost: Cost, judgement: Judgement, seen: Seen) -> Probe {
        Probe { place: *place, cost, judgement, seen }
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // what was seen tells where keys lie, which is secret
        f.debug_struct("Probe").field("place", &self.place).field("judgement", &self.judgement).finish_non_exhaustive()
    }
}
