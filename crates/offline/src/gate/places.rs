//! The places at one origin: the live gate's own counter, and the queue before it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::limiter::{Permit, Slots};
use crate::policy::InflightCap;

/// The places at an origin, and the requests `W` that wait for one: first come, first served.
#[derive(Debug)]
pub struct Places<W> {
    /// None means that the origin takes any number.
    capped: Option<(InflightCap, Arc<Slots>)>,
    waiting: VecDeque<(u64, W)>,
}

/// The result of asking for a place.
#[derive(Debug)]
pub enum Asked {
    /// The origin has no cap.
    Uncapped,
    /// A place, held until it is dropped.
    Taken(Permit),
    /// No place is free; the request may wait for so long.
    Queue(Duration),
    /// No place is free, and the queue is full.
    Full,
}

impl<W> Places<W> {
    /// All places of an origin, free.
    pub fn new(cap: Option<InflightCap>) -> Places<W> {
        Places { capped: cap.map(|cap| (cap, Slots::new(cap.max))), waiting: VecDeque::new() }
    }

    /// Asks for a place.
    pub fn ask(&self) -> Asked {
        let Some((cap, slots)) = &self.capped else { return Asked::Uncapped };
        if self.waiting.is_empty()
            && let Some(permit) = slots.take()
        {
            return Asked::Taken(permit);
        }
        if self.waiting.len() < cap.queue as usize { Asked::Queue(cap.queue_timeout) } else { Asked::Full }
    }

    /// Puts a request into the queue.
    pub fn queue(&mut self, number: u64, waiting: W) {
        self.waiting.push_back((number, waiting));
    }

    /// Gives a free place to the request that has waited longest.
    pub fn next(&mut self) -> Option<(Permit, W)> {
        let (_, slots) = self.capped.as_ref().filter(|_| !self.waiting.is_empty())?;
        let permit = slots.take()?;
        self.waiting.pop_front().map(|(_, waiting)| (permit, waiting))
    }

    /// Takes a request out of the queue, if it still waits.
    pub fn give_up(&mut self, number: u64) -> Option<W> {
        let at = self.waiting.iter().position(|(waiting, _)| *waiting == number)?;
        self.waiting.remove(at).map(|(_, waiting)| waiting)
    }

    /// The cap; none means no cap.
    pub fn most(&self) -> Option<u32> {
        self.capped.as_ref().map(|(cap, _)| cap.max)
    }
}
