//! The attack table: floods of every form against bystanders, light and heavy, at small and large origins. Each row holds the bars.
//!
//! Light ones together ask for a fifth of what there is, one heavy one for three tenths; all requests take 100 ms but those of slow
//! attacks. **Due** is the heavy one's max-min share. `cargo bench -p tidegate-limits --bench attacks` prints all rows, beside a queue in
//! the order of arrival; the tests run those of 8 and 20 places.

use std::time::Duration;

use tidegate_limits::door::{Asks, Path, PlacesSpec, Reserve};
use tidegate_limits::units::Criticality;

use crate::world::{Answer, Client, Fair, Gate, How, MS, SECOND, World};

/// When the hostile ones begin, and from when on requests count.
const BEGIN: u64 = 3 * SECOND;

/// How long a request takes.
const TAKES: u64 = 100 * MS;

/// Who is refused asks again so much later.
const LATER: u64 = 100 * MS;

/// What the hostile ones do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// As many connections as are useful, each asking again at once.
    Connections,
    /// One connection each, with 100 streams.
    Streams,
    /// Requests of two seconds.
    Slow,
    /// Requests that their clients leave after 20 ms, and that the origin finishes.
    Abandoned,
    /// All their requests at one instant, once a second.
    Bursts,
    /// Connections, beside twenty light ones that come together at one instant, once a second.
    Together,
}

impl Attack {
    pub const ALL: [Attack; 6] =
        [Attack::Connections, Attack::Streams, Attack::Slow, Attack::Abandoned, Attack::Bursts, Attack::Together];
}

/// How many hosts attack.
pub const HOSTS: [u32; 3] = [1, 8, 200];

/// How many places there are.
pub const PLACES: [u32; 3] = [8, 20, 400];

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub attack: Attack,
    pub hosts: u32,
    pub max: u32,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The part of the light ones' requests that was served.
    pub light: f64,
    /// How long they waited.
    pub p99: Duration,
    /// The part of what is due to the heavy one.
    pub heavy: f64,
    /// Places that were used while somebody waited, of those outside of the reserve.
    pub used: f64,
    /// The most that were at the origin at once.
    pub most: u32,
}

/// What a row has to reach.
#[derive(Clone, Copy, Debug)]
struct Bars {
    light: f64,
    heavy: f64,
    p99: Duration,
    used: f64,
}

/// Attack, hosts and places; the parts of the light and the heavy; milliseconds.
type Known = ((Attack, u32, u32), [f64; 2], u64);

/// Rows that miss a bar, with the parts of the light and of what is due to the heavy one that they reach, and the milliseconds that the
/// light wait. Eight places come back one by one, and nobody who holds one for two seconds is interrupted; of twenty that come together
/// at eight places the last wait for two rounds.
const KNOWN: [Known; 13] = [
    ((Attack::Connections, 8, 8), [0.99, 0.90], 200),
    ((Attack::Streams, 8, 8), [0.99, 0.75], 250),
    ((Attack::Slow, 1, 8), [0.97, 0.90], 250),
    ((Attack::Slow, 8, 8), [0.95, 0.75], 900),
    ((Attack::Slow, 200, 8), [0.95, 0.85], 1_000),
    ((Attack::Abandoned, 8, 8), [0.99, 0.90], 200),
    ((Attack::Bursts, 200, 8), [0.99, 0.95], 420),
    ((Attack::Together, 1, 8), [0.99, 0.95], 300),
    ((Attack::Together, 8, 8), [0.99, 0.84], 300),
    ((Attack::Together, 200, 8), [0.99, 0.76], 300),
    ((Attack::Slow, 8, 20), [0.97, 0.83], 700),
    ((Attack::Slow, 200, 20), [0.97, 0.70], 800),
    ((Attack::Slow, 200, 400), [0.97, 0.95], 320),
];

impl Row {
    /// All rows with so many places.
    pub fn all(max: u32) -> impl Iterator<Item = Row> {
        Attack::ALL.into_iter().flat_map(move |attack| HOSTS.map(|hosts| Row { attack, hosts, max }))
    }

    /// How many light ones there are.
    fn light(&self) -> u32 {
        match (self.attack, self.max) {
            (Attack::Together, _) => 20,
            (_, 400) => 50,
            _ => 8,
        }
    }

    fn seconds(&self) -> u64 {
        if self.attack == Attack::Slow { 40 } else { 30 }
    }

    /// For how many clients the hostile ones stand: those of a /24 for sixteen.
    fn stand_for(&self) -> f64 {
        f64::from(if self.hosts == 200 { 16 } else { self.hosts })
    }

    /// What the heavy one asks for, and its max-min share of it.
    fn due(&self) -> f64 {
        let rest = 1.0 - self.asked_by_light();
        (rest / (1.0 + self.stand_for()) / 0.3).min(1.0)
    }

    /// The part of all that there is that the light ones ask for.
    fn asked_by_light(&self) -> f64 {
        if self.attack == Attack::Together { 20.0 / (10.0 * f64::from(self.max)) } else { 0.2 }
    }

    fn clients(&self) -> Vec<Client> {
        let one = |host, asks| Client {
            host,
            criticality: Criticality::Default,
            weight: 1.0,
            asks,
            takes: TAKES,
            leaves: None,
            from: 0,
        };
        let per_second = f64::from(self.max) * 10.0;
        let light = self.light();
        let host = |at: u32| (0x0a00 + at) << 16 | 0x0101;
        let asks = match self.attack {
            Attack::Together => How::Burst(1, SECOND),
            _ => How::Random(0.2 * per_second / f64::from(light)),
        };
        let mut clients: Vec<_> = (0..light).map(|at| one(host(at), asks)).collect();
        clients.push(one(host(light), How::Random(0.3 * per_second)));
        // three times the places, and not less than a browser opens
        let each = (3 * self.max / self.hosts).max(6);
        let asks = match self.attack {
            Attack::Streams => How::Connections(each.max(100), LATER),
            Attack::Bursts => How::Burst(2 * each, SECOND),
            _ => How::Connections(each, LATER),
        };
        let hostile = (0..self.hosts).map(|at| match self.hosts {
            200 => 0xc000_0001 + at,
            _ => 0xc000_0001 + (at << 16),
        });
        clients.extend(hostile.map(|host| Client {
            from: BEGIN,
            takes: if self.attack == Attack::Slow { 2 * SECOND } else { TAKES },
            leaves: (self.attack == Attack::Abandoned).then_some(20 * MS),
            ..one(host, asks)
        }));
        clients
    }

    fn outcome<G: Gate>(&self, gate: G) -> Outcome {
        let mut world = World::new(gate, self.clients(), BEGIN, 7);
        world.run(BEGIN + self.seconds() * SECOND);
        let light = self.light() as usize;
        let (of_light, of_heavy) = (world.fate(0..light), world.fate(light..light + 1));
        Outcome {
            light: of_light.share(),
            p99: of_light.p99(),
            heavy: of_heavy.share() / self.due(),
            used: world.used(),
            most: world.most,
        }
    }

    /// At the fair door.
    pub fn fair(&self) -> Outcome {
        self.with(Reserve::Learned)
    }

    /// At the fair door with so much left to light clients.
    pub fn with(&self, reserve: Reserve) -> Outcome {
        self.outcome(Fair::new(PlacesSpec { reserve, ..PlacesSpec::new(self.max) }))
    }

    /// At a queue in the order of arrival.
    pub fn by_arrival(&self) -> Outcome {
        self.outcome(Arrival(Fair::new(PlacesSpec { reserve: Reserve::None, ..PlacesSpec::new(self.max) })))
    }

    /// The bars of every row.
    fn bars(&self) -> Bars {
        let slow = self.attack == Attack::Slow;
        Bars {
            light: if slow { 0.97 } else { 0.99 },
            heavy: if slow && self.max < 400 { 0.90 } else { 0.95 },
            p99: 2 * Duration::from_nanos(TAKES),
            used: 0.98,
        }
    }

    /// What it is held to where it is known to miss a bar.
    fn known(&self) -> Option<Bars> {
        let Row { attack, hosts, max } = *self;
        let known = KNOWN.iter().find(|(row, ..)| *row == (attack, hosts, max))?;
        let (_, [light, heavy], p99) = *known;
        Some(Bars { light, heavy, p99: Duration::from_millis(p99), ..self.bars() })
    }

    /// Whether it is known to miss a bar.
    pub fn is_known(&self) -> bool {
        self.known().is_some()
    }

    /// What it misses.
    pub fn misses(&self, outcome: &Outcome) -> Vec<String> {
        let bars = self.known().unwrap_or_else(|| self.bars());
        let mut misses = Vec::new();
        let mut miss = |what: &str, is: f64, bar: f64| misses.push(format!("{what} {is:.3}, not {bar:.3}"));
        if outcome.light < bars.light {
            miss("light", outcome.light, bars.light);
        }
        if outcome.heavy < bars.heavy {
            miss("heavy", outcome.heavy, bars.heavy);
        }
        if outcome.p99 > bars.p99 {
            miss("p99", outcome.p99.as_secs_f64(), bars.p99.as_secs_f64());
        }
        if outcome.used < bars.used {
            miss("used", outcome.used, bars.used);
        }
        if outcome.most > self.max {
            miss("most", f64::from(outcome.most), f64::from(self.max));
        }
        misses
    }
}

/// A queue in which nobody is anybody.
struct Arrival(Fair);

impl Gate for Arrival {
    fn arrive(&mut self, number: u64, asks: &Asks, now: u64, answers: &mut Vec<Answer>) {
        self.0.arrive(number, &Asks { path: Path::default(), ..*asks }, now, answers);
    }

    fn done(&mut self, number: u64, now: u64, answers: &mut Vec<Answer>) {
        self.0.done(number, now, answers);
    }

    fn leave(&mut self, number: u64, now: u64, answers: &mut Vec<Answer>) -> bool {
        self.0.leave(number, now, answers)
    }

    fn tick(&mut self, now: u64, answers: &mut Vec<Answer>) {
        self.0.tick(now, answers);
    }

    fn next_tick(&self, now: u64) -> Option<u64> {
        self.0.next_tick(now)
    }

    fn waiting(&self) -> u32 {
        self.0.waiting()
    }

    fn places(&self) -> (u32, f64) {
        self.0.places()
    }

    fn longest(&self) -> u64 {
        self.0.longest()
    }
}
