//! The places of an origin.
//!
//! **Promise.** No more places are given than there are ([`Places::set_max`]). While somebody waits, a free place is one of the
//! [reserve](Reserve), and all that wait are heavier than half of the heaviest, or it is [kept](Reserved) for more important ones than all
//! that wait. After each hand-over nobody of that class who was allowed
//! to take the place has a smaller score than the one who got it.

use std::time::Duration;

use super::line::{Act, Asks, Left, Line, Next, Standing, Ticket};
use super::nodes::{Active, LEVELS};
use super::reserve::{Learned, Reserve};
use super::reserved::Reserved;
use crate::units::{Bytes, Criticality, Timestamp};

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
    /// No cap: requests are counted, and none waits.
    pub const UNCAPPED: u32 = u32::MAX >> 1;

    /// The shares of a host, of its /24 or /48, of its /16 or /32.
    pub const SHARES: [f32; LEVELS] = [1.0, 16.0, 64.0];

    /// How many wait where nothing is said about it: twice as many as there are places, 32 to 4,096.
    pub fn usual_queue(most: u32) -> u32 {
        most.saturating_mul(2).clamp(32, 4_096)
    }

    /// A door with as many places, and everything else as usual.
    pub fn new(most: u32) -> PlacesSpec {
        PlacesSpec {
            most,
            queue: PlacesSpec::usual_queue(most),
            shares: PlacesSpec::SHARES,
            reserve: Reserve::Learned,
            reserved: Reserved::default(),
        }
    }

    /// A door that only counts.
    pub fn uncapped() -> PlacesSpec {
        PlacesSpec { queue: 0, reserve: Reserve::None, ..PlacesSpec::new(PlacesSpec::UNCAPPED) }
    }

    /// How many places are held in somebody's name at most. Those beyond are held all the same, in nobody's.
    fn named(&self) -> u32 {
        if self.most >= PlacesSpec::UNCAPPED { 0 } else { self.most.min(MOST_NAMED) }
    }
}

/// Places beyond so many are held in nobody's name, so that memory stays within some 30 MiB.
const MOST_NAMED: u32 = 32_768;

/// A place that is held. It is given back once.
#[derive(Debug, PartialEq, Eq, Hash, Clone, Copy)]
pub struct PlaceId {
    slot: u32,
    serial: u64,
}

impl PlaceId {
    /// A place in nobody's name.
    pub(super) const NOBODYS: PlaceId = PlaceId { slot: u32::MAX, serial: 0 };
}

#[derive(Debug, Clone, Copy)]
struct Held {
    serial: u64,
    nodes: Active,
    since: Timestamp,
    light: bool,
    weight: f32,
    criticality: Criticality,
}

/// The places of one origin, and those who wait for them.
#[derive(Debug)]
pub struct Places {
    spec: PlacesSpec,
    max: u32,
    line: Line,
    held: u32,
    held_by_class: [u32; 4],
    named: Box<[Option<Held>]>,
    free: Vec<u32>,
    reserve: Learned,
    /// The mean duration of all requests, in seconds.
    seconds: f32,
    half_life: f32,
    last: Timestamp,
    /// When the line was last found empty, or not.
    waited: Timestamp,
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

impl Places {
    /// While places are left to lighter ones, the door is to look again so often.
    pub const LOOK_AGAIN: Duration = Duration::from_millis(50);

    /// An empty door.
    pub fn new(spec: PlacesSpec) -> Places {
        let named = spec.named();
        Places {
            spec,
            max: spec.most,
            line: Line::new(spec.queue, named, spec.shares),
            held: 0,
            held_by_class: [0; 4],
            named: vec![None; named as usize].into(),
            free: (0..named).rev().collect(),
            reserve: Learned::new(spec.reserve),
            seconds: FIRST,
            half_life: SHORTEST_HALF_LIFE,
            last: Timestamp::ZERO,
            waited: Timestamp::ZERO,
            serial: 0,
        }
    }

    /// What it was made by.
    pub fn spec(&self) -> &PlacesSpec {
        &self.spec
    }

    /// The memory that it holds, the same from its first request to its last.
    pub fn memory(&self) -> Bytes {
        Bytes((self.line.memory() + self.named.len() * (size_of::<Option<Held>>() + 4)) as u64)
    }

    /// How many places are taken.
    pub fn held(&self) -> u32 {
        self.held
    }

    /// How many places are held in somebody's name by requests of each class, in the order of [`Criticality::ALL`].
    pub fn held_by_class(&self) -> [u32; 4] {
        self.held_by_class
    }

    /// How many places there are.
    pub fn max(&self) -> u32 {
        self.max
    }

    /// Who waits.
    pub fn line(&self) -> &Line {
        &self.line
    }

    /// When somebody was last seen to wait.
    pub fn waited(&self) -> Timestamp {
        self.waited
    }

    /// How many places the heaviest leave to lighter ones, now.
    pub fn reserve(&self) -> f32 {
        self.reserve.places(self.max)
    }

    /// How long one round of all that are here takes.
    pub fn round(&self) -> Duration {
        Duration::from_secs_f32(self.round_seconds().min(LONGEST_HALF_LIFE))
    }

    /// In this time a use counts half.
    pub fn half_life(&self) -> Duration {
        Duration::from_secs_f32(self.half_life)
    }

    /// Whether a place may be taken without a look at who asks, but for its class: nobody waits, and nothing is kept for light ones.
    pub fn is_quiet(&self) -> bool {
        self.line.waiting() == 0 && self.reserve() < 1.0
    }

    /// Whether a request of this class may go on at once: nobody waits, nothing is kept for light ones, and a place is free.
    fn is_open(&self, criticality: Criticality) -> bool {
        let leaves = self.spec.reserved.before(criticality, self.max);
        self.line.waiting() == 0 && self.reserve() < 1.0 && self.held.saturating_add(leaves) < self.max
    }

    /// A request has come.
    pub fn arrive(&mut self, asks: &Asks, now: Timestamp, acts: &mut impl FnMut(Act<PlaceId>)) -> Arrived {
        self.advance(now);
        if self.is_open(asks.criticality) {
            let nodes = self.line.nodes.enter_named(&asks.path, asks.label, asks.criticality);
            return Arrived::Given(self.hold(nodes, now, false, (asks.weight, asks.criticality)));
        }
        let Some(ticket) = self.line.join(asks, now) else { return Arrived::NoRoom };
        self.hand_over(now, acts);
        if self.line.waiting() > self.spec.queue
            && let Some((left, top)) = self.line.push_out(Some(ticket), now)
        {
            self.lost(&left, top, now);
            acts(Act::PushedOut(left.ticket, left.standing));
            // the reserve may have learned that it is too large
            self.hand_over(now, acts);
        }
        Arrived::Waits(ticket)
    }

    /// A place is given back, after the end of the origin's work.
    pub fn give_back(&mut self, place: PlaceId, now: Timestamp, acts: &mut impl FnMut(Act<PlaceId>)) {
        if place != PlaceId::NOBODYS {
            let Some(named) = self.named.get_mut(place.slot as usize) else { return };
            if named.is_none_or(|held| held.serial != place.serial) {
                return;
            }
            let Some(held) = named.take() else { return };
            self.advance(now);
            self.free.push(place.slot);
            self.line.nodes.hold(&held.nodes, -1.0);
            self.line.nodes.quit(&held.nodes);
            if let Some(of_class) = self.held_by_class.get_mut(held.criticality.position()) {
                *of_class = of_class.saturating_sub(1);
            }
            let lasted = now.since(held.since);
            self.seconds += (lasted.as_secs_f32() - self.seconds) / 64.0;
            if held.light {
                self.reserve.given_back(lasted);
            }
        }
        self.held = self.held.saturating_sub(1);
        self.tick(now, acts);
    }

    /// Returns whether a holder who keeps the origin waiting owes this place to the one who is next: a request that matters more, one whose
    /// key would hold no more with it than the holder's key without, each for what its weight stands for, or one that holds nothing and of
    /// which the same is true by one of its networks; after a `long` time one that holds nothing.
    pub fn gives_way(&self, place: PlaceId, long: bool) -> bool {
        let held = self.named.get(place.slot as usize).copied().flatten().filter(|held| held.serial == place.serial);
        // of more places than there are now, those that are given back first go to nobody
        let Some(held) = held.filter(|_| self.held >= self.max) else { return false };
        let next = self.line.owed_by(&held.nodes, (held.weight, long), held.criticality);
        next.is_some_and(|next| self.leaves().by(&next) == 0)
    }

    /// A request stops waiting, because its client left or its time is over. Says how it stood, if it still waited.
    pub fn leave(&mut self, ticket: Ticket, now: Timestamp, acts: &mut impl FnMut(Act<PlaceId>)) -> Option<Standing> {
        self.advance(now);
        let (left, top) = self.line.give_up(ticket)?;
        self.lost(&left, top, now);
        self.hand_over(now, acts);
        Some(left.standing)
    }

    /// Time has passed: places that were left to lighter ones may be given now.
    pub fn tick(&mut self, now: Timestamp, acts: &mut impl FnMut(Act<PlaceId>)) {
        self.advance(now);
        self.hand_over(now, acts);
    }

    /// When to [`tick`](Places::tick) next, unless something else happens before: only while places are free and somebody waits.
    pub fn next_tick(&self) -> Option<Duration> {
        (self.held < self.max && self.line.waiting() > 0).then_some(Places::LOOK_AGAIN)
    }

    /// Another number of places. Requests that hold more go on to their end.
    pub fn set_max(&mut self, max: u32, now: Timestamp, acts: &mut impl FnMut(Act<PlaceId>)) {
        self.advance(now);
        self.max = max;
        self.hand_over(now, acts);
    }

    /// Other words from now on. Those who hold and who wait stay; of a smaller line those with the greatest claim are pushed out. What was
    /// used is remembered, by the same keys.
    pub fn follow(&mut self, spec: PlacesSpec, max: u32, now: Timestamp, acts: &mut impl FnMut(Act<PlaceId>)) {
        self.advance(now);
        let named = self.named.len().max(spec.named() as usize);
        if spec != self.spec {
            self.free.extend((self.named.len()..named).rev().map(|slot| slot as u32));
            let mut places = std::mem::take(&mut self.named).into_vec();
            places.resize(named, None);
            self.line = self.line.rebuilt(
                spec.queue,
                named as u32,
                spec.shares,
                places.iter_mut().flatten().map(|held| &mut held.nodes),
            );
            self.named = places.into();
            self.reserve.follow(spec.reserve);
            self.spec = spec;
        }
        self.set_max(max, now, acts);
        while self.line.waiting() > self.spec.queue
            && let Some((left, top)) = self.line.push_out(None, now)
        {
            self.lost(&left, top, now);
            acts(Act::PushedOut(left.ticket, left.standing));
        }
    }

    /// So many places are held in nobody's name, beside those that this door gave.
    pub fn set_held(&mut self, held: u32) {
        self.held = held;
    }

    /// One of the places in nobody's name is held by a request that asked so, and counts for it from now on.
    pub fn adopt(&mut self, asks: &Asks, since: Timestamp, now: Timestamp) -> PlaceId {
        self.advance(now);
        let nodes = self.line.nodes.enter_named(&asks.path, asks.label, asks.criticality);
        self.held = self.held.saturating_sub(1);
        self.hold(nodes, since, false, (asks.weight, asks.criticality))
    }

    fn hold(
        &mut self,
        nodes: Active,
        since: Timestamp,
        light: bool,
        (weight, criticality): (f32, Criticality),
    ) -> PlaceId {
        self.held += 1;
        let Some(slot) = self.free.pop() else {
            self.line.nodes.quit(&nodes);
            return PlaceId::NOBODYS;
        };
        self.serial += 1;
        self.line.nodes.hold(&nodes, 1.0);
        if light {
            self.reserve.taken();
        }
        if let Some(of_class) = self.held_by_class.get_mut(criticality.position()) {
            *of_class += 1;
        }
        if let Some(named) = self.named.get_mut(slot as usize) {
            *named = Some(Held { serial: self.serial, nodes, since, light, weight, criticality });
        }
        PlaceId { slot, serial: self.serial }
    }

    fn round_seconds(&self) -> f32 {
        self.held.saturating_add(self.line.waiting()) as f32 * self.seconds / self.max.max(1) as f32
    }

    fn advance(&mut self, now: Timestamp) {
        let half_life = (ROUNDS * self.round_seconds()).clamp(SHORTEST_HALF_LIFE, LONGEST_HALF_LIFE);
        self.half_life = half_life;
        self.line.held_counts = 1.0 - (-self.seconds / half_life).exp2();
        let contended = self.line.waiting() > 0;
        if contended {
            self.waited = self.waited.max(now);
        }
        let passed = now.since(self.last);
        if passed < STEP {
            return;
        }
        let seconds = passed.as_secs_f64();
        let half_lives = seconds / f64::from(half_life);
        // what is used while nobody waits is taken from nobody
        self.line.nodes.pass(half_lives, if contended { half_lives } else { 0.0 });
        self.reserve.pass(seconds as f32, now);
        self.last = now;
    }

    fn leaves(&self) -> Leaves {
        let (reserve, least) = (self.reserve.places(self.max), self.line.least_important());
        Leaves { reserve, reserved: self.spec.reserved, max: self.max, least }
    }

    fn hand_over(&mut self, now: Timestamp, acts: &mut impl FnMut(Act<PlaceId>)) {
        while self.held < self.max && self.line.waiting() > 0 {
            let free = self.max - self.held;
            let leaves = self.leaves();
            let Some(next) = self.line.next_of(|next| free > leaves.by(next)) else { return };
            let Some(left) = self.line.oldest(&next).and_then(|ticket| self.line.leave(ticket)) else { return };
            let light = next.score <= next.top / 2.0;
            if light {
                self.reserve.learn(now.since(left.since), self.max, now);
            }
            let place = self.hold(left.nodes, now, light, (left.weight, next.criticality));
            acts(Act::Given(left.ticket, place));
        }
    }

    /// A request went without a place: the reserve learns from it if it was light.
    fn lost(&mut self, left: &Left, top: f32, now: Timestamp) {
        if left.standing.score <= top / 2.0 {
            self.reserve.learn(now.since(left.since), self.max, now);
        }
        self.line.nodes.quit(&left.nodes);
    }
}

/// What is kept of free places for others than the next one.
struct Leaves {
    reserve: f32,
    reserved: Reserved,
    max: u32,
    least: Criticality,
}

impl Leaves {
    /// How many places this one leaves free.
    fn by(&self, next: &Next) -> u32 {
        let part = if next.criticality < self.least { 0.0 } else { Line::part(next.score, next.top) };
        let lighter = (self.reserve * part).floor() as u32;
        lighter.max(self.reserved.before(next.criticality, self.max))
    }
}

/// What became of a request on its arrival.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrived<G = PlaceId> {
    /// It may go on.
    Given(G),
    /// It waits, or it was answered by the acts of this call.
    Waits(Ticket),
    /// The line has no room for it.
    NoRoom,
}
