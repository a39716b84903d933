//! Is it well? A decision table from numbers to the one [`Condition`] that the page, `top` and `status` begin with.
//!
//! The housekeeping measures a [`Sight`] every second. [`judge()`] says which conditions hold, the most urgent first, and [`Watch`]
//! keeps each for [`HOLD`] after it held last, so that a number that wavers does not make the sentence come and go.
//! [`next()`] proposes what to do.
//!
//! The sentence claims only what is counted: "2 % of refusals hit other clients" is a count, "other clients are not affected"
//! would be a guess.

mod judge;
mod next;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::state::{Condition, ConditionKind};
use crate::units::Timestamp;

pub use judge::{Finding, OVERLOADED, OriginSight, Refusals, Sight, is_much_refused, judge};
pub use next::{Next, Step, next};

/// A condition stays for so long after it held last.
pub const HOLD: Duration = Duration::from_secs(30);

/// The pressure has to be high for so long before the process is called overloaded.
pub const OVERLOADED_FOR: Duration = Duration::from_secs(5);

/// The condition, and what is remembered from one look to the next.
#[derive(Debug, Default)]
pub struct Watch {
    shown: ArcSwap<Condition>,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    held: Vec<Held>,
    /// Since when the pressure is high.
    pressed: Option<Timestamp>,
    /// When the condition without findings began, in seconds since 1970.
    quiet: Option<(ConditionKind, u64)>,
}

/// A finding that holds, or held a moment ago.
#[derive(Debug)]
struct Held {
    finding: Finding,
    /// In seconds since 1970.
    since: u64,
    last: Timestamp,
}

impl Watch {
    /// Returns the condition of the last look.
    pub fn condition(&self) -> Arc<Condition> {
        self.shown.load_full()
    }

    /// Judges what is seen at `now`, which is `wall` seconds after 1970. For the housekeeping, about once a second.
    pub fn look(&self, sight: &Sight, now: Timestamp, wall: u64) {
        let mut memory = self.memory.lock();
        let found = judge(sight, memory.is_pressed(sight, now));
        memory.note(found, now, wall);
        self.shown.store(Arc::new(memory.condition(sight, wall)));
    }
}

impl Memory {
    /// Whether the pressure has been high for long enough.
    fn is_pressed(&mut self, sight: &Sight, now: Timestamp) -> bool {
        if sight.overload.as_ref().is_none_or(|overload| overload.pressure < OVERLOADED) {
            self.pressed = None;
            return false;
        }
        let since = *self.pressed.get_or_insert(now);
        now.since(since) >= OVERLOADED_FOR
    }

    /// Takes over what was found, and forgets what did not hold for [`HOLD`].
    fn note(&mut self, found: Vec<Finding>, now: Timestamp, wall: u64) {
        for finding in found {
            match self.held.iter_mut().find(|held| held.finding.is_about(&finding)) {
                Some(held) => (held.finding, held.last) = (finding, now),
                None => self.held.push(Held { finding, since: wall, last: now }),
            }
        }
        self.held.retain(|held| now.since(held.last) < HOLD);
        self.held.sort_by_key(|held| held.finding.kind);
        // whichever of the two holds now; the other is the same refusals in another light
        if let [Some(flood), Some(crowd)] = [ConditionKind::Flood, ConditionKind::Crowd]
            .map(|kind| self.held.iter().position(|held| held.finding.kind == kind))
        {
            self.held.remove(flood.max(crowd));
        }
    }

    fn condition(&mut self, sight: &Sight, wall: u64) -> Condition {
        let mut held = self.held.iter();
        if let Some(Held { finding, since, .. }) = held.next() {
            self.quiet = None;
            let Finding { kind, subject, head, text } = finding.clone();
            // notices have a list of their own
            let others = held.filter(|held| held.finding.kind != ConditionKind::Trouble);
            let also = others.map(|held| held.finding.head.clone()).collect();
            return Condition { kind, subject, head, text, since: *since, also };
        }
        let Finding { kind, head, text, .. } = judge::quiet(sight);
        let since = self.quiet.filter(|(before, _)| *before == kind).map_or(wall, |(_, since)| since);
        self.quiet = Some((kind, since));
        Condition { kind, head, text, since, ..Condition::default() }
    }
}
