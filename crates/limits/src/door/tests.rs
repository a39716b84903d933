//! Floods against bystanders in virtual time, and the laws of the order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use super::*;
use crate::units::Timestamp;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// A client and how it asks.
#[derive(Clone)]
struct Client {
    path: Path,
    class: Class,
    asks: How,
    /// How long its requests take at the origin.
    takes: u64,
}

#[derive(Clone, Copy)]
enum How {
    /// So many per second, at even intervals with a phase.
    Steady(f64),
    /// So many connections, each asking again as soon as it is answered; after a refusal so much later.
    Connections(u32, u64),
    /// So many at one instant, so many times per second.
    Bursts(u32, f64),
}

/// What became of a client's requests.
#[derive(Default, Clone, Debug)]
struct Fate {
    asked: u32,
    served: u32,
    waits: Vec<u64>,
}

impl Fate {
    fn share(&self) -> f64 {
        f64::from(self.served) / f64::from(self.asked.max(1))
    }

    fn p99(&mut self) -> Duration {
        self.waits.sort_unstable();
        let at = (self.waits.len() * 99 / 100).min(self.waits.len().saturating_sub(1));
        Duration::from_nanos(self.waits.get(at).copied().unwrap_or(0))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ask(usize),
    Expire(u64),
    Done(u64),
    Tick,
}

struct World {
    door: Places,
    clients: Vec<Client>,
    fates: Vec<Fate>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    count: u64,
    /// Requests by their number: client, since.
    waiting: HashMap<Ticket, (u64, usize, u64)>,
    by_number: HashMap<u64, Ticket>,
    held: HashMap<u64, (PlaceId, usize)>,
    number: u64,
    most: u32,
    deadline: u64,
    /// Nothing counts before the flood has begun.
    from: u64,
    /// Nanoseconds of places held, and of places that could have been held, while somebody waited.
    used: (f64, f64),
    last: u64,
}

impl World {
    fn new(max: u32, clients: Vec<Client>) -> World {
        let fates = vec![Fate::default(); clients.len()];
        World {
            door: Places::new(PlacesSpec::new(max)),
            clients,
            fates,
            events: BinaryHeap::new(),
            count: 0,
            waiting: HashMap::new(),
            by_number: HashMap::new(),
            held: HashMap::new(),
            number: 0,
            most: 0,
            deadline: SECOND,
            from: 3 * SECOND,
            used: (0.0, 0.0),
            last: 0,
        }
    }

    fn at(&mut self, when: u64, event: Event) {
        self.count += 1;
        self.events.push(Reverse((when, self.count, event)));
    }

    fn start(&mut self) {
        for client in 0..self.clients.len() {
            let spread = (client as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % 1_000_000;
            match self.clients[client].asks {
                How::Steady(rate) => {
                    self.at((spread as f64 / 1e6 / rate * SECOND as f64) as u64, Event::Ask(client));
                }
                How::Connections(many, _) => {
                    for one in 0..u64::from(many) {
                        self.at(self.from + spread / 1_000 * MS / 100 + one * 1_000, Event::Ask(client));
                    }
                }
                How::Bursts(_, _) => self.at(self.from + SECOND / 2, Event::Ask(client)),
            }
        }
    }

    fn run(&mut self, until: u64) {
        self.start();
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            if now > until {
                break;
            }
            if now >= self.from && self.door.line().waiting() > 0 {
                let places = f64::from(self.door.max()) - f64::from(self.door.reserve().floor());
                self.used.0 += (now - self.last) as f64 * f64::from(self.door.held()).min(places);
                self.used.1 += (now - self.last) as f64 * places;
            }
            self.last = now;
            self.step(now, event);
            self.most = self.most.max(self.door.held());
            assert!(self.door.held() <= self.door.max());
            if let Some(wait) = self.door.next_tick()
                && !matches!(event, Event::Tick)
                && self.count.is_multiple_of(16)
            {
                self.at(now + wait.as_nanos() as u64, Event::Tick);
            }
        }
    }

    fn step(&mut self, now: u64, event: Event) {
        let stamp = Timestamp::from_nanos(now);
        let mut acts = Vec::new();
        match event {
            Event::Ask(client) => {
                let many = match self.clients[client].asks {
                    How::Steady(rate) => {
                        self.at(now + (SECOND as f64 / rate) as u64, Event::Ask(client));
                        1
                    }
                    How::Connections(..) => 1,
                    How::Bursts(many, rate) => {
                        self.at(now + (SECOND as f64 / rate) as u64, Event::Ask(client));
                        many
                    }
                };
                for _ in 0..many {
                    self.ask(client, now, &mut acts);
                }
            }
            Event::Expire(number) => {
                if let Some(ticket) = self.by_number.get(&number).copied()
                    && self.door.leave(ticket, stamp, &mut |act| acts.push(act))
                {
                    self.refused(ticket, now);
                }
            }
            Event::Done(number) => {
                let (place, client) = self.held.remove(&number).expect("held");
                self.door.give_back(place, stamp, &mut |act| acts.push(act));
                if let How::Connections(..) = self.clients[client].asks {
                    self.at(now + 1_000, Event::Ask(client));
                }
            }
            Event::Tick => self.door.tick(stamp, &mut |act| acts.push(act)),
        }
        self.settle(acts, now);
    }

    fn ask(&mut self, client: usize, now: u64, acts: &mut Vec<Act<PlaceId>>) {
        let Client { path, class, .. } = self.clients[client].clone();
        self.number += 1;
        if now >= self.from {
            self.fates[client].asked += 1;
        }
        let mut own = Vec::new();
        let asks = Asks { path, weight: 1.0, class };
        let ticket = self.door.arrive(&asks, Timestamp::from_nanos(now), &mut |act| own.push(act)).expect("room");
        self.waiting.insert(ticket, (self.number, client, now));
        self.by_number.insert(self.number, ticket);
        self.at(now + self.deadline, Event::Expire(self.number));
        self.settle(own, now);
        let _ = acts;
    }

    fn settle(&mut self, acts: Vec<Act<PlaceId>>, now: u64) {
        for act in acts {
            match act {
                Act::Given(ticket, place) => {
                    let (number, client, since) = self.waiting.remove(&ticket).expect("it waited");
                    self.by_number.remove(&number);
                    if since >= self.from {
                        self.fates[client].served += 1;
                        self.fates[client].waits.push(now - since);
                    }
                    self.held.insert(number, (place, client));
                    let takes = self.clients[client].takes;
                    self.at(now + takes, Event::Done(number));
                }
                Act::PushedOut(ticket) => self.refused(ticket, now),
            }
        }
    }

    fn refused(&mut self, ticket: Ticket, now: u64) {
        let (number, client, since) = self.waiting.remove(&ticket).expect("it waited");
        self.by_number.remove(&number);
        if since < self.from {
            return;
        }
        if let How::Connections(_, again) = self.clients[client].asks {
            self.at(now + again, Event::Ask(client));
        }
    }
}

/// A host by its address.
fn host(address: u32) -> Path {
    let hash = |level: u64, part: u32| {
        let mut hash = (level << 40 | u64::from(part)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 29;
        Some(hash.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ hash >> 32)
    };
    Path([hash(1, address), hash(2, address >> 8), hash(3, address >> 16)])
}

/// Eight bystanders that ask for a fifth of the places, and a heavy one that asks for three tenths; each in a network of its own.
fn bystanders(max: u32, light: u32, takes: u64) -> Vec<Client> {
    let capacity = f64::from(max) / (takes as f64 / SECOND as f64);
    let one = |at: u32, rate: f64| Client {
        path: host((at + 1) << 16 | 0x0101),
        class: Class::Default,
        asks: How::Steady(rate),
        takes,
    };
    let mut clients: Vec<_> = (0..light).map(|at| one(at, 0.2 * capacity / f64::from(light))).collect();
    clients.push(one(light, 0.3 * capacity));
    clients
}

fn play(max: u32, light: u32, hostile: Vec<Client>, seconds: u64) -> (f64, f64, Duration, World) {
    let mut clients = bystanders(max, light, 100 * MS);
    clients.extend(hostile);
    let mut world = World::new(max, clients);
    world.run((3 + seconds) * SECOND);
    let mut all = Fate::default();
    for fate in &world.fates[..light as usize] {
        all.asked += fate.asked;
        all.served += fate.served;
        all.waits.extend(&fate.waits);
    }
    let heavy = world.fates[light as usize].share();
    (all.share(), heavy, all.p99(), world)
}

fn connections(at: impl Iterator<Item = u32>, many: u32, takes: u64) -> Vec<Client> {
    let one = |address| Client {
        path: host(address),
        class: Class::Default,
        asks: How::Connections(many, 5 * MS),
        takes,
    };
    at.map(one).collect()
}

#[test]
fn one_hostile_host_leaves_the_bystanders_theirs() {
    for (max, light) in [(8, 8), (20, 8), (400, 50)] {
        for many in [24, 100] {
            let (light, heavy, p99, world) = play(max, light, connections(0xc000_0001..=0xc000_0001, many * (max / 100).max(1), 100 * MS), 20);
            println!("1 host × {many} at {max}: light {light:.3} heavy {heavy:.3} p99 {p99:?} used {:.3} reserve {:.2}", world.used.0 / world.used.1, world.door.reserve());
            assert!(light >= 0.99, "{max} places, {many} streams: light {light}");
            assert!(heavy >= 0.95, "{max} places, {many} streams: heavy {heavy}");
            assert!(p99 <= Duration::from_millis(200), "{p99:?}");
            assert_eq!(world.most, max);
        }
    }
}

#[test]
fn many_hostile_hosts_leave_the_bystanders_theirs() {
    for max in [8, 20] {
        for (name, hosts) in [
            ("8 hosts in 8 /16s", (0..8).map(|n| 0xc000_0001 + (n << 16)).collect::<Vec<u32>>()),
            ("200 hosts in a /24", (0..200).map(|n| 0xc000_0001 + n).collect()),
        ] {
            let (light, heavy, p99, world) = play(max, 8, connections(hosts.into_iter(), 24, 100 * MS), 20);
            println!("{name} at {max}: light {light:.3} heavy {heavy:.3} p99 {p99:?} used {:.3}", world.used.0 / world.used.1);
            assert!(light >= 0.98, "{name} at {max}: light {light}");
        }
    }
}

#[test]
fn slow_requests_of_a_flood_leave_the_bystanders_theirs() {
    for max in [8, 20] {
        let (light, heavy, p99, world) = play(max, 8, connections(0xc000_0001..=0xc000_0001, 24, 2 * SECOND), 40);
        println!("slow at {max}: light {light:.3} heavy {heavy:.3} p99 {p99:?} used {:.3} reserve {:.2}", world.used.0 / world.used.1, world.door.reserve());
        assert!(light >= 0.97, "light {light}");
        assert!(heavy >= 0.90, "heavy {heavy}");
    }
}

#[test]
fn critical_requests_are_served_beside_any_background() {
    let mut flood = connections((0..8).map(|n| 0xc000_0001 + (n << 16)), 100, 100 * MS);
    for client in &mut flood {
        client.class = Class::Background;
    }
    let mut clients = bystanders(20, 8, 100 * MS);
    for client in &mut clients {
        client.class = Class::Critical;
    }
    clients.extend(flood);
    let mut world = World::new(20, clients);
    world.run(23 * SECOND);
    for fate in &world.fates[..9] {
        assert!(fate.share() >= 0.999, "{:?}", fate.share());
    }
    assert!(world.fates[9..].iter().all(|fate| fate.served > 0), "nobody starves");
}
