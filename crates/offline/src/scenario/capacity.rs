//! The places at an origin: its cap, and the queue before it. The live gate keeps the same promises with atomics; here one
//! thing happens after the other.

use std::collections::VecDeque;
use std::time::Duration;

use crate::policy::InflightCap;

/// The places at one origin.
#[derive(Debug)]
pub struct Places {
    cap: Option<InflightCap>,
    taken: u32,
    waiting: VecDeque<u64>,
}

/// What came of asking for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Taken.
    Taken,
    /// To be waited for, so long at most.
    Queued(Duration),
    /// There is none.
    Full,
}

impl Places {
    /// All free.
    pub fn new(cap: Option<InflightCap>) -> Places {
        Places { cap, taken: 0, waiting: VecDeque::new() }
    }

    /// Asks for a place, for the request of this number.
    pub fn ask(&mut self, number: u64) -> Asked {
        let Some(cap) = self.cap else { return Asked::Taken };
        if self.taken < cap.max {
            self.taken += 1;
            return Asked::Taken;
        }
        if u64::from(cap.queue) > self.waiting.len() as u64 {
            self.waiting.push_back(number);
            return Asked::Queued(cap.queue_timeout);
        }
        Asked::Full
    }

    /// Gives a place back; the number of the request that has it now.
    pub fn give_back(&mut self) -> Option<u64> {
        self.cap?;
        let next = self.waiting.pop_front();
        if next.is_none() {
            self.taken = self.taken.saturating_sub(1);
        }
        next
    }

    /// The request of this number waits no longer; says whether it still did.
    pub fn give_up(&mut self, number: u64) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| *waiting != number);
        self.waiting.len() < before
    }

    /// The most that may be there at once; none means no cap.
    pub fn most(&self) -> Option<u32> {
        self.cap.map(|cap| cap.max)
    }
}
