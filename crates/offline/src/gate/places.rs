//! The places at one origin: the live gate's own door, and the requests that wait before it.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::door::{Act, Arrived, Asks, PlaceId, Places as Door, Standing, Ticket};
use crate::policy::InflightCap;
use crate::units::Timestamp;

/// The places at an origin, and the requests `W` that wait for one.
#[derive(Debug)]
pub struct Places<W> {
    /// None means that the origin takes any number.
    capped: Option<Capped>,
    waiting: HashMap<Ticket, W>,
    /// What the door said last, of those who wait.
    acts: VecDeque<Act<PlaceId>>,
    /// Whether somebody sees to the time.
    pub ticks: bool,
}

#[derive(Debug)]
struct Capped {
    door: Door,
    longest: Duration,
}

/// The result of asking for a place.
#[derive(Debug)]
pub enum Asked {
    /// The origin has no cap.
    Uncapped,
    /// A place, to be given back.
    Taken(PlaceId),
    /// No place is free; the request waits for so long at most.
    Queue(Ticket, Duration),
    /// No place is free, and no room to wait.
    Full,
}

impl<W> Places<W> {
    /// All places of an origin, free.
    pub fn new(cap: Option<&InflightCap>) -> Places<W> {
        let capped = cap.map(|cap| Capped { door: Door::new(cap.places()), longest: cap.queue_timeout });
        Places { capped, waiting: HashMap::new(), acts: VecDeque::new(), ticks: false }
    }

    /// Asks for a place. One that is to wait is [put](Places::put) into the queue then.
    pub fn ask(&mut self, asks: Option<&Asks>, now: Timestamp) -> Asked {
        let (Some(capped), Some(asks)) = (&mut self.capped, asks) else { return Asked::Uncapped };
        let mut own = VecDeque::new();
        let ticket = match capped.door.arrive(asks, now, &mut |act| own.push_back(act)) {
            Arrived::Given(place) => return Asked::Taken(place),
            Arrived::NoRoom => return Asked::Full,
            Arrived::Waits(ticket) => ticket,
        };
        let mut asked = Asked::Queue(ticket, capped.longest);
        own.retain(|act| match act {
            Act::Given(whose, place) if *whose == ticket => {
                asked = Asked::Taken(*place);
                false
            }
            Act::PushedOut(whose, _) if *whose == ticket => {
                asked = Asked::Full;
                false
            }
            _ => true,
        });
        self.acts.append(&mut own);
        asked
    }

    /// Puts a request into the queue.
    pub fn put(&mut self, ticket: Ticket, waiting: W) {
        self.waiting.insert(ticket, waiting);
    }

    /// The next request that was given a place, or was pushed out.
    pub fn answered(&mut self) -> Option<(W, Result<PlaceId, Standing>)> {
        let (ticket, answer) = match self.acts.pop_front()? {
            Act::Given(ticket, place) => (ticket, Ok(place)),
            Act::PushedOut(ticket, standing) => (ticket, Err(standing)),
        };
        self.waiting.remove(&ticket).map(|waiting| (waiting, answer))
    }

    /// Gives a place back.
    pub fn give_back(&mut self, place: PlaceId, now: Timestamp) {
        let Places { capped: Some(capped), acts, .. } = self else { return };
        capped.door.give_back(place, now, &mut |act| acts.push_back(act));
    }

    /// Takes a request out of the queue, if it still waits.
    pub fn give_up(&mut self, ticket: Ticket, now: Timestamp) -> Option<W> {
        let Places { capped: Some(capped), acts, waiting, .. } = self else { return None };
        let waiting = waiting.remove(&ticket)?;
        capped.door.leave(ticket, now, &mut |act| acts.push_back(act));
        Some(waiting)
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Timestamp) {
        let Places { capped: Some(capped), acts, .. } = self else { return };
        capped.door.tick(now, &mut |act| acts.push_back(act));
    }

    /// In what time to [`tick`](Places::tick), if it matters and nobody sees to it.
    pub fn next_tick(&self) -> Option<Duration> {
        if self.ticks { None } else { self.capped.as_ref()?.door.next_tick() }
    }
}
