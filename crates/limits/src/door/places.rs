//! The places of an origin.
//!
//! **Promise.** No more places are given than there are ([`Places::set_max`]). While somebody waits, a free place is one of the
//! [reserve](Reserve), and all that wait are heavier than half of the heaviest. After each hand-over nobody of that class who was allowed
//! to take the place has a smaller score than the one who got it.

use std::time::Duration;

use super::class::Reserved;
use super::line::{Act, Asks, Left, Line, Ticket};
use super::nodes::{Active, LEVELS, Path};
use super::reserve::{Learned, Reserve};
use crate::units::{Bytes, Timestamp};

/// What a door to places is made by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlacesSpec {
    /// The most places that there can be.
    pub most: u32,
    /// How many requests may wait.
    pub queue: u32,
    /// How many single clients a key, its network and the network around that stand for.
    pub shares: [f32; LEVELS],
    /// Places for light requests.
    pub reserve: Reserve,
    /// Places for important requests.
    pub reserved: Reserved,
}

impl PlacesSpec {
    /// The shares of a host, of its /24 or /48, of its /16 or /32.
    pub const SHARES: [f32; LEVELS] = [1.0, 16.0, 64.0];

    /// A door with as many places, and twice as many that wait.
    pub fn new(most: u32) -> PlacesSpec {
        let queue = most.saturating_mul(2).clamp(32, 4_096);
        PlacesSpec { most, queue, shares: Self::SHARES, reserve: Reserve::Learned, reserved: Reserved::default() }
    }
}

/// A place that is held. It is given back once.
#[derive(Debug, PartialEq, Eq, Hash, Clone, Copy)]
pub struct PlaceId {
    slot: u32,
    serial: u64,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    serial: u64,
    nodes: Active,
    since: Timestamp,
    light: bool,
}

/// The places of one origin, and those who wait for them.
#[derive(Debug)]
pub struct Places {
    spec: PlacesSpec,
    max: u32,
    line: Line,
    held: Box<[Option<Held>]>,
    free: Vec<u32>,
    reserve: Learned,
    /// The mean duration of all requests, in seconds.
    seconds: f32,
    last: Timestamp,
    serial: u64,
}

/// Memory lasts for so many rounds, so that nobody is forgotten before his turn.
const ROUNDS: f32 = 4.0;
const SHORTEST_HALF_LIFE: f32 = 1.0;
const LONGEST_HALF_LIFE: f32 = 60.0;

/// What a request is taken to last before one was seen.
const FIRST: f32 = 0.05;

/// Passes over all nodes are no more frequent than this.
const STEP: Duration = Duration::from_millis(1);

/// While places are left to lighter ones, the door looks again so often.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

impl Places {
    /// An empty door.
    pub fn new(spec: PlacesSpec) -> Places {
        Places {
            spec,
            max: spec.most,
            line: Line::new(spec.queue, spec.most, spec.shares),
            held: vec![None; spec.most as usize].into(),
            free: (0..spec.most).rev().collect(),
            reserve: Learned::new(spec.reserve),
            seconds: FIRST,
            last: Timestamp::ZERO,
            serial: 0,
        }
    }

    /// What it was made by.
    pub fn spec(&self) -> &PlacesSpec {
        &self.spec
    }

    /// The memory that it holds, the same from its first request to its last.
    pub fn memory(&self) -> Bytes {
        Bytes((self.line.memory() + self.held.len() * (size_of::<Option<Held>>() + 4)) as u64)
    }

    /// Places that are held.
    pub fn held(&self) -> u32 {
        (self.held.len() - self.free.len()) as u32
    }

    /// How many places there are at this moment.
    pub fn max(&self) -> u32 {
        self.max
    }

    /// Who waits.
    pub fn line(&self) -> &Line {
        &self.line
    }

    /// How many places the heaviest leave to lighter ones at this moment.
    pub fn reserve(&self) -> f32 {
        self.reserve.places(self.max)
    }

    /// The mean duration of light requests, by which waits are judged.
    pub fn light_duration(&self) -> Duration {
        Duration::from_secs_f32(self.reserve.light_seconds())
    }

    /// How long one round of all that are here takes.
    pub fn round(&self) -> Duration {
        Duration::from_secs_f32(self.round_seconds().min(LONGEST_HALF_LIFE))
    }

    /// A request has come. It goes on at once, waits, or is pushed out, and may push out another.
    pub fn arrive(&mut self, asks: &Asks, now: Timestamp, acts: &mut impl FnMut(Act<PlaceId>)) -> Option<Ticket> {
        self.advance(now);
        let ticket = self.line.join(asks, now)?;
        self.hand_over(now, acts);
        if self.line.waiting() > self.spec.queue
            && let Some(last) = self.line.last()
        {
            let top = self.line.top();
            if let Some(left) = self.line.leave(last) {
                self.lost(&left, top, now);
                acts(Act::PushedOut(last));
            }
        }
        Some(ticket)
    }

    /// A place is given back, after the end of the origin's work.
    pub fn give_back(&mut self, place: PlaceId, now: Timestamp, acts: &mut impl FnMut(Act<PlaceId>)) {
        let Some(slot) = self.held.get_mut(place.slot as usize) else { return };
        if slot.is_none_or(|held| held.serial != place.serial) {
            return;
        }
        let Some(held) = slot.take() else { return };
        self.advance(now);
        self.free.push(place.slot);
        self.line.nodes.hold(&held.nodes, -1.0);
        self.line.nodes.quit(&held.nodes);
        let lasted = now.since(held.since);
        self.seconds += (lasted.as_secs_f32() - self.seconds) / 64.0;
        if held.light {
            self.reserve.given_back(lasted);
        }
        self.hand_over(now, acts);
    }

    /// A request stops waiting, because its client left or its time is over. Says whether it still waited.
    pub fn leave(&mut self, ticket: Ticket, now: Timestamp, acts: &mut impl FnMut(Act<PlaceId>)) -> bool {
        self.advance(now);
        let top = self.line.top();
        let Some(left) = self.line.leave(ticket) else { return false };
        self.lost(&left, top, now);
        self.hand_over(now, acts);
        true
    }

    /// Time has passed: places that were left to lighter ones may be given now.
    pub fn tick(&mut self, now: Timestamp, acts: &mut impl FnMut(Act<PlaceId>)) {
        self.advance(now);
        self.hand_over(now, acts);
    }

    /// When to [`tick`](Places::tick) next, unless something else happens before: only while places are free and somebody waits.
    pub fn next_tick(&self) -> Option<Duration> {
        (self.held() < self.max && self.line.waiting() > 0).then_some(LOOK_AGAIN)
    }

    /// Another number of places, up to the most that there can be. Requests that hold more go on to their end.
    pub fn set_max(&mut self, max: u32, now: Timestamp, acts: &mut impl FnMut(Act<PlaceId>)) {
        self.advance(now);
        self.max = max.min(self.spec.most);
        self.hand_over(now, acts);
    }

    /// A place is held that was taken while nobody waited, so that it counts for its key from now on; `None` if there is none.
    pub fn adopt(&mut self, path: &Path, since: Timestamp, now: Timestamp) -> Option<PlaceId> {
        self.advance(now);
        let nodes = self.line.nodes.enter(path);
        self.hold(nodes, since, false)
    }

    fn hold(&mut self, nodes: Active, since: Timestamp, light: bool) -> Option<PlaceId> {
        let slot = self.free.pop()?;
        self.serial += 1;
        self.line.nodes.hold(&nodes, 1.0);
        if light {
            self.reserve.taken();
        }
        if let Some(held) = self.held.get_mut(slot as usize) {
            *held = Some(Held { serial: self.serial, nodes, since, light });
        }
        Some(PlaceId { slot, serial: self.serial })
    }

    fn round_seconds(&self) -> f32 {
        (self.held() + self.line.waiting()) as f32 * self.seconds / self.max.max(1) as f32
    }

    fn advance(&mut self, now: Timestamp) {
        let half_life = (ROUNDS * self.round_seconds()).clamp(SHORTEST_HALF_LIFE, LONGEST_HALF_LIFE);
        self.line.held_counts = 1.0 - (-self.seconds / half_life).exp2();
        let passed = now.since(self.last);
        if passed < STEP {
            return;
        }
        let seconds = passed.as_secs_f64();
        let half_lives = seconds / f64::from(half_life);
        // what is used while nobody waits is taken from nobody
        let contended = if self.line.waiting() > 0 { half_lives } else { 0.0 };
        self.line.nodes.pass(half_lives, contended);
        self.reserve.pass(seconds as f32, now);
        self.last = now;
    }

    fn hand_over(&mut self, now: Timestamp, acts: &mut impl FnMut(Act<PlaceId>)) {
        while self.held() < self.max && self.line.waiting() > 0 {
            let free = self.max - self.held();
            let Some(next) = self.line.next() else { return };
            let leaves = (self.reserve.places(self.max) * Line::part(next.score, next.top)).floor() as u32;
            if free <= leaves.max(self.spec.reserved.before(next.class)) {
                return;
            }
            let Some(left) = self.line.oldest(&next).and_then(|ticket| self.line.leave(ticket)) else { return };
            let light = next.score <= next.top / 2.0;
            if light {
                self.reserve.learn(now.since(left.since), self.max, now);
            }
            let Some(place) = self.hold(left.nodes, now, light) else { return };
            acts(Act::Given(left.ticket, place));
        }
    }

    /// A request went without a place: the reserve learns from it if it was light.
    fn lost(&mut self, left: &Left, top: f32, now: Timestamp) {
        if left.score <= top / 2.0 {
            self.reserve.learn(now.since(left.since), self.max, now);
        }
        self.line.nodes.quit(&left.nodes);
    }
}

