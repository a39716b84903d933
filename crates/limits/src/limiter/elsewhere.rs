//! A limiter that goes on from the state of another process, which still has requests under way.

use std::sync::Arc;

use super::Limiter;
use super::held::{HeldCells, HeldElsewhere};
use super::journal::{Event, What};

/// What another process, whose place this one takes, still does to a limiter.
#[derive(Debug)]
pub struct Elsewhere {
    limiter: Arc<Limiter>,
    places: Option<Box<dyn HeldElsewhere>>,
    attempts: Option<Box<dyn HeldElsewhere>>,
}

impl Elsewhere {
    /// Counts what the requests of another process hold. Cells of tables of another shape are left out.
    pub fn new(limiter: Arc<Limiter>, held: &HeldCells) -> Elsewhere {
        let places = limiter.state.hold_elsewhere(&held.places);
        let attempts = limiter.pending.as_ref().and_then(|pending| pending.hold_elsewhere(&held.attempts));
        Elsewhere { limiter, places, attempts }
    }

    /// Makes what happened there happen here, whether it fits or not.
    pub fn apply(&mut self, event: &Event) {
        let Event { what, place, at, cost } = event;
        match what {
            What::Charged => self.limiter.charge(place, *at, *cost),
            What::Refused => {
                // a kind that does not count refusals notes none
                let _ = self.limiter.count_refusal(place, *at, *cost);
            }
            What::Taken => self.places.iter_mut().for_each(|places| places.take(place, *cost)),
            What::Returned => self.places.iter_mut().for_each(|places| places.give_back(place, *cost)),
            What::HeldBack => self.attempts.iter_mut().for_each(|attempts| attempts.take(place, *cost)),
            What::LetGo => self.attempts.iter_mut().for_each(|attempts| attempts.give_back(place, *cost)),
        }
    }
}
