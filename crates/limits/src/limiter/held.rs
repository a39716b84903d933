//! What requests of one process hold of the limits of another.

use std::fmt::Debug;

use super::Place;
use crate::units::Cost;

/// What requests of another process hold of a limiter. Dropped, all of it is given back: that process has ended.
pub trait HeldElsewhere: Debug + Send {
    /// It has taken more.
    fn take(&mut self, place: &Place, cost: Cost);

    /// It has given some back.
    fn give_back(&mut self, place: &Place, cost: Cost);
}

/// What requests hold of a limiter at one moment, as cells of its tables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeldCells {
    /// Places.
    pub places: Vec<u32>,
    /// Attempts that wait for their answers.
    pub attempts: Vec<u32>,
}
