//! Clients, one door and one origin in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use tidegate_limits::door::{
    Act, Arrived, Asks, Bucket, Path, PlaceId, Places, PlacesSpec, Ticket, Tokens, TokensSpec,
};
use tidegate_limits::units::{Criticality, Timestamp};

use crate::fate::Fate;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;

/// The world begins an hour after the clock.
pub fn stamp(now: u64) -> Timestamp {
    Timestamp::from_nanos(3_600 * SECOND + now)
}

/// A client and how it asks.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// Its address.
    pub host: u32,
    pub criticality: Criticality,
    pub weight: f32,
    pub asks: How,
    /// How long its requests take at the origin, give or take a fifth.
    pub takes: u64,
    /// It leaves so long after it has asked.
    pub leaves: Option<u64>,
    /// When it begins.
    pub from: u64,
}

/// When a client asks.
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// So many per second, at random.
    Random(f64),
    /// So many connections, each asking again as soon as it is answered; after a refusal so much later.
    Connections(u32, u64),
    /// So many at one instant, once in so long.
    Burst(u32, u64),
}

/// What is before the origin.
pub trait Gate {
    fn arrive(&mut self, number: u64, asks: &Asks, now: u64, acts: &mut Vec<Answer>);
    /// The work of a request that was let in has ended.
    fn done(&mut self, number: u64, now: u64, acts: &mut Vec<Answer>);
    /// A request waits no longer. Says whether it did.
    fn leave(&mut self, number: u64, now: u64, acts: &mut Vec<Answer>) -> bool;
    fn tick(&mut self, _now: u64, _acts: &mut Vec<Answer>) {}
    fn next_tick(&self, _now: u64) -> Option<u64> {
        None
    }
    fn waiting(&self) -> u32;
    /// Places that are in use, and those that could be.
    fn places(&self) -> (u32, f64);
    /// How long a request may wait.
    fn longest(&self) -> u64;
}

/// A request goes on, or is refused.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    Go(u64),
    No(u64),
}

/// The fair door to places.
pub struct Fair {
    pub door: Places,
    tickets: BTreeMap<u64, Ticket>,
    numbers: HashMap<Ticket, u64>,
    held: BTreeMap<u64, PlaceId>,
}

impl Fair {
    pub fn new(spec: PlacesSpec) -> Fair {
        let (tickets, numbers, held) = Default::default();
        Fair { door: Places::new(spec), tickets, numbers, held }
    }

    fn settle(&mut self, acts: &[Act<PlaceId>], answers: &mut Vec<Answer>) {
        for act in acts {
            let (Act::Given(ticket, _) | Act::PushedOut(ticket, _)) = act;
            let number = self.numbers.remove(ticket).expect("a request that waits");
            self.tickets.remove(&number);
            answers.push(match act {
                Act::Given(_, place) => {
                    self.held.insert(number, *place);
                    Answer::Go(number)
                }
                Act::PushedOut(..) => Answer::No(number),
            });
        }
    }
}

impl Gate for Fair {
    fn arrive(&mut self, number: u64, asks: &Asks, now: u64, answers: &mut Vec<Answer>) {
        let mut acts = Vec::new();
        match self.door.arrive(asks, stamp(now), &mut |act| acts.push(act)) {
            Arrived::Given(place) => {
                self.held.insert(number, place);
                answers.push(Answer::Go(number));
            }
            Arrived::Waits(ticket) => {
                self.tickets.insert(number, ticket);
                self.numbers.insert(ticket, number);
            }
            Arrived::NoRoom => answers.push(Answer::No(number)),
        }
        self.settle(&acts, answers);
    }

    fn done(&mut self, number: u64, now: u64, answers: &mut Vec<Answer>) {
        let mut acts = Vec::new();
        let place = self.held.remove(&number).expect("a request that holds a place");
        self.door.give_back(place, stamp(now), &mut |act| acts.push(act));
        self.settle(&acts, answers);
    }

    fn leave(&mut self, number: u64, now: u64, answers: &mut Vec<Answer>) -> bool {
        let Some(ticket) = self.tickets.remove(&number) else { return false };
        let mut acts = Vec::new();
        self.numbers.remove(&ticket);
        self.door.leave(ticket, stamp(now), &mut |act| acts.push(act)).expect("it waited");
        self.settle(&acts, answers);
        true
    }

    fn tick(&mut self, now: u64, answers: &mut Vec<Answer>) {
        let mut acts = Vec::new();
        self.door.tick(stamp(now), &mut |act| acts.push(act));
        self.settle(&acts, answers);
    }

    fn next_tick(&self, now: u64) -> Option<u64> {
        self.door.next_tick().map(|wait| now + wait.as_nanos() as u64)
    }

    fn waiting(&self) -> u32 {
        self.door.line().waiting()
    }

    fn places(&self) -> (u32, f64) {
        (self.door.held(), f64::from(self.door.max()) - f64::from(self.door.reserve().floor()))
    }

    fn longest(&self) -> u64 {
        SECOND
    }
}

/// The fair door to a rate.
pub struct Rate {
    pub door: Tokens,
    pub bucket: Bucket,
    tickets: BTreeMap<u64, Ticket>,
    numbers: HashMap<Ticket, u64>,
}

impl Rate {
    pub fn new(spec: TokensSpec) -> Rate {
        let (tickets, numbers) = Default::default();
        Rate { door: Tokens::new(spec), bucket: spec.bucket(), tickets, numbers }
    }

    fn settle(&mut self, acts: Vec<(Ticket, bool)>, answers: &mut Vec<Answer>) {
        for (ticket, given) in acts {
            let number = self.numbers.remove(&ticket).expect("a request that waits");
            self.tickets.remove(&number);
            answers.push(if given { Answer::Go(number) } else { Answer::No(number) });
        }
    }
}

fn fates<G>(acts: &mut Vec<(Ticket, bool)>) -> impl FnMut(Act<G>) {
    |act| {
        acts.push(match act {
            Act::Given(ticket, _) => (ticket, true),
            Act::PushedOut(ticket, _) => (ticket, false),
        });
    }
}

impl Gate for Rate {
    fn arrive(&mut self, number: u64, asks: &Asks, now: u64, answers: &mut Vec<Answer>) {
        let mut acts = Vec::new();
        match self.door.arrive(&self.bucket, asks, stamp(now), &mut fates(&mut acts)) {
            Arrived::Given(_) => answers.push(Answer::Go(number)),
            Arrived::Waits(ticket) => {
                self.tickets.insert(number, ticket);
                self.numbers.insert(ticket, number);
            }
            Arrived::NoRoom => answers.push(Answer::No(number)),
        }
        self.settle(acts, answers);
    }

    fn done(&mut self, _number: u64, _now: u64, _answers: &mut Vec<Answer>) {}

    fn leave(&mut self, number: u64, now: u64, answers: &mut Vec<Answer>) -> bool {
        let Some(ticket) = self.tickets.remove(&number) else { return false };
        self.numbers.remove(&ticket);
        let mut acts = Vec::new();
        let now = stamp(now);
        self.door.leave(&self.bucket, ticket, now, &mut fates(&mut acts)).expect("it waited");
        self.settle(acts, answers);
        true
    }

    fn tick(&mut self, now: u64, answers: &mut Vec<Answer>) {
        let mut acts = Vec::new();
        self.door.tick(&self.bucket, stamp(now), &mut fates(&mut acts));
        self.settle(acts, answers);
    }

    fn next_tick(&self, now: u64) -> Option<u64> {
        let wait = self.door.next_tick(&self.bucket, stamp(now));
        wait.map(|wait| now + wait.as_nanos() as u64)
    }

    fn waiting(&self) -> u32 {
        self.door.line().waiting()
    }

    fn places(&self) -> (u32, f64) {
        (0, 0.0)
    }

    fn longest(&self) -> u64 {
        SECOND / 2
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ask(usize),
    Expire(u64),
    Leave(u64),
    Done(u64),
    Tick,
}

/// A request on its way.
struct Request {
    client: usize,
    since: u64,
    inside: bool,
}

/// The clients, the door, and what has become of whom.
pub struct World<G> {
    pub gate: G,
    clients: Vec<Client>,
    pub fates: Vec<Fate>,
    /// The most that were at the origin at once.
    pub most: u32,
    /// Places in use while somebody waited, and those that could be; each times nanoseconds.
    pub used: (f64, f64),
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    requests: BTreeMap<u64, Request>,
    number: u64,
    count: u64,
    inside: u32,
    tick: Option<u64>,
    dice: u64,
    /// Nothing counts before.
    from: u64,
}

impl<G: Gate> World<G> {
    pub fn new(gate: G, clients: Vec<Client>, from: u64, seed: u64) -> World<G> {
        World {
            gate,
            fates: vec![Fate::default(); clients.len()],
            clients,
            most: 0,
            used: (0.0, 0.0),
            events: BinaryHeap::new(),
            requests: BTreeMap::new(),
            number: 0,
            count: 0,
            inside: 0,
            tick: None,
            dice: seed,
            from,
        }
    }

    /// Lets time pass until then.
    pub fn run(&mut self, until: u64) {
        for at in 0..self.clients.len() {
            let client = self.clients[at];
            match client.asks {
                How::Random(rate) => {
                    let first = client.from + self.pause(rate);
                    self.at(first, Event::Ask(at));
                }
                How::Connections(many, _) => {
                    for _ in 0..many {
                        let first = client.from + self.random() % (10 * MS);
                        self.at(first, Event::Ask(at));
                    }
                }
                How::Burst(..) => self.at(client.from + SECOND / 2, Event::Ask(at)),
            }
        }
        let mut last = 0;
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            if now > until {
                break;
            }
            if now >= self.from && self.gate.waiting() > 0 {
                let (held, places) = self.gate.places();
                self.used.0 += (now - last) as f64 * f64::from(held).min(places);
                self.used.1 += (now - last) as f64 * places;
            }
            last = now;
            let mut answers = Vec::new();
            self.step(event, now, &mut answers);
            for answer in answers {
                self.answer(answer, now);
            }
            self.most = self.most.max(self.inside);
            if self.tick.is_none()
                && let Some(next) = self.gate.next_tick(now)
            {
                self.tick = Some(next);
                self.at(next, Event::Tick);
            }
        }
    }

    /// The part of the places that was in use while somebody waited.
    pub fn used(&self) -> f64 {
        if self.used.1 > 0.0 { self.used.0 / self.used.1 } else { 1.0 }
    }

    /// What became of the requests of these clients together.
    pub fn fate(&self, clients: std::ops::Range<usize>) -> Fate {
        self.fates[clients].iter().fold(Fate::default(), Fate::and)
    }

    fn at(&mut self, when: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((when, self.count, event)));
    }

    fn random(&mut self) -> u64 {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.dice ^ self.dice >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 1
    }

    fn unit(&mut self) -> f64 {
        self.random() as f64 / (1_u64 << 63) as f64
    }

    fn pause(&mut self, rate: f64) -> u64 {
        (-(1.0 - self.unit()).ln() / rate * SECOND as f64) as u64
    }

    fn step(&mut self, event: Event, now: u64, answers: &mut Vec<Answer>) {
        match event {
            Event::Ask(at) => {
                let many = match self.clients[at].asks {
                    How::Random(rate) => {
                        let next = now + self.pause(rate);
                        self.at(next, Event::Ask(at));
                        1
                    }
                    How::Connections(..) => 1,
                    How::Burst(many, period) => {
                        self.at(now + period, Event::Ask(at));
                        many
                    }
                };
                for _ in 0..many {
                    self.ask(at, now);
                }
            }
            Event::Expire(number) | Event::Leave(number) => {
                if self.gate.leave(number, now, answers) {
                    answers.push(Answer::No(number));
                }
            }
            Event::Done(number) => {
                self.inside -= 1;
                self.gate.done(number, now, answers);
                let client = self.requests.remove(&number).map(|request| request.client);
                // who left asked again then
                if let Some(at) = client.filter(|at| self.clients[*at].leaves.is_none()) {
                    self.again(at, now + 1_000);
                }
            }
            Event::Tick => {
                self.tick = None;
                self.gate.tick(now, answers);
            }
        }
    }

    fn ask(&mut self, at: usize, now: u64) {
        let client = self.clients[at];
        self.number += 1;
        let number = self.number;
        self.requests.insert(number, Request { client: at, since: now, inside: false });
        if now >= self.from {
            self.fates[at].asked += 1;
        }
        let asks =
            Asks { path: path(client.host), weight: client.weight, criticality: client.criticality, ..Asks::NOBODY };
        let mut answers = Vec::new();
        self.gate.arrive(number, &asks, now, &mut answers);
        self.at(now + self.gate.longest(), Event::Expire(number));
        if let Some(after) = client.leaves {
            self.at(now + after, Event::Leave(number));
            self.again(at, now + after + 1_000);
        }
        for answer in answers {
            self.answer(answer, now);
        }
    }

    fn again(&mut self, at: usize, when: u64) {
        if let How::Connections(..) = self.clients[at].asks {
            self.at(when, Event::Ask(at));
        }
    }

    fn answer(&mut self, answer: Answer, now: u64) {
        match answer {
            Answer::Go(number) => {
                let spread = 0.8 + 0.4 * self.unit();
                let Some(request) = self.requests.get_mut(&number) else { return };
                request.inside = true;
                let (at, since) = (request.client, request.since);
                self.inside += 1;
                if since >= self.from {
                    self.fates[at].served += 1;
                    self.fates[at].waits.push(now - since);
                }
                let takes = (self.clients[at].takes as f64 * spread) as u64;
                self.at(now + takes, Event::Done(number));
            }
            Answer::No(number) => {
                let Some(request) = self.requests.remove(&number) else { return };
                assert!(!request.inside, "a request that was let in is not refused");
                if let (How::Connections(_, later), None) =
                    (self.clients[request.client].asks, self.clients[request.client].leaves)
                {
                    self.again(request.client, now + later);
                }
            }
        }
    }
}

/// A host, its /24 and its /16.
pub fn path(host: u32) -> Path {
    let hash = |level: u64, part: u32| {
        let mixed = (level << 40 | u64::from(part)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Some(mixed ^ mixed >> 32)
    };
    Path([hash(1, host), hash(2, host >> 8), hash(3, host >> 16)])
}
