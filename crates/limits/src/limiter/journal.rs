//! What happens to a limiter while its state goes to another process.
//!
//! A copy of state is some milliseconds old when it is in use elsewhere. From before the copy on each charge is noted here as well, and the
//! other process makes it again ([`Elsewhere::apply`](super::Elsewhere::apply)). **Promise.** A charge is in the copy, or is noted, or both:
//! a charge of the moment of the copy may count twice, none is missing. Of what requests hold, a taking may be counted twice, a return may
//! be missing until the process ends: each errs against the client, by what ends within the copy of one limit.
//!
//! Off, a journal costs the read of one word. On, a note takes a lock for some nanoseconds; that is while a process is replaced.

use super::Place;
use crate::sync::{AtomicU32, Mutex, Ordering};
use crate::units::{Cost, Timestamp};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A charge.
    Charged,
    /// A refused request was counted.
    Refused,
    /// A place was taken.
    Taken,
    /// A place was given back.
    Returned,
    /// An attempt was held back until its answer.
    HeldBack,
    /// An attempt ended; its charge, if there is one, was noted before.
    LetGo,
}

/// Something that happened to a limiter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// What.
    pub what: What,
    /// Where.
    pub place: Place,
    /// When, as the limiter was told.
    pub at: Timestamp,
    /// How much.
    pub cost: Cost,
}

/// The most notes that wait to be read: with more, the journal is [broken](Broken).
pub const MOST_EVENTS: usize = 1 << 16;

/// More was noted than there is room for: the copy is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

const OFF: u32 = 0;
/// What requests hold is being copied: what is given back meanwhile is in the copy or was held too long, but never given back twice.
const COPYING: u32 = 1;
const ON: u32 = 2;
/// Admissions are the other process's business; all else is noted.
const MOVED: u32 = 3;

/// The notes of one limiter, and of those that follow it.
#[derive(Debug)]
pub struct Journal {
    phase: AtomicU32,
    events: Mutex<Vec<Event>>,
}

impl Default for Journal {
    fn default() -> Journal {
        Journal { phase: AtomicU32::new(OFF), events: Mutex::new(Vec::new()) }
    }
}

impl Journal {
    /// Begins before the state is copied, and copies what requests hold by `held`.
    pub(super) fn begin<T>(&self, held: impl FnOnce() -> T) -> T {
        self.events.lock().clear();
        // SeqCst: whoever does not see this yet has changed its cell before, which the copy then sees
        self.phase.store(COPYING, Ordering::SeqCst);
        let held = held();
        self.phase.store(ON, Ordering::SeqCst);
        held
    }

    /// From now on admissions are asked of the other process, and not noted.
    pub(super) fn moved(&self) {
        self.phase.store(MOVED, Ordering::SeqCst);
    }

    /// Whether admissions are asked of the other process.
    pub(super) fn has_moved(&self) -> bool {
        self.phase.load(Ordering::SeqCst) == MOVED
    }

    /// Notes nothing any more.
    pub(super) fn end(&self) {
        self.phase.store(OFF, Ordering::SeqCst);
        *self.events.lock() = Vec::new();
    }

    /// Notes a charge that was not asked for, or a return.
    #[inline]
    pub(super) fn note(&self, what: What, place: &Place, at: Timestamp, cost: Cost) {
        // SeqCst: see `begin`
        match self.phase.load(Ordering::SeqCst) {
            OFF => {}
            COPYING if matches!(what, What::Returned | What::LetGo) => {}
            _ => self.write(Event { what, place: *place, at, cost }),
        }
    }

    /// Notes an admission. Returns whether it will be known elsewhere: not if admissions are asked of the other process.
    #[inline]
    pub(super) fn note_admitted(&self, what: What, place: &Place, at: Timestamp, cost: Cost) -> bool {
        match self.phase.load(Ordering::SeqCst) {
            OFF => true,
            COPYING | ON => {
                self.write(Event { what, place: *place, at, cost });
                true
            }
            _ => false,
        }
    }

    #[cold]
    fn write(&self, event: Event) {
        let mut events = self.events.lock();
        // one more says that some are missing
        if events.len() <= MOST_EVENTS {
            events.push(event);
        }
    }

    /// Takes the notes.
    ///
    /// # Errors
    /// Some are missing.
    pub(super) fn take(&self) -> Result<Vec<Event>, Broken> {
        let events = std::mem::take(&mut *self.events.lock());
        if events.len() > MOST_EVENTS { Err(Broken) } else { Ok(events) }
    }
}
