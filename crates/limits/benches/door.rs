//! What a place and a unit of a rate cost, while nobody waits and while many do: `cargo bench -p tidegate-limits --bench door`, some ten seconds.
//!
//! Each figure is the least of many short rounds, so that what else runs on the machine has little part in it.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use tidegate_limits::door::{
    Arrived, Asks, Entry, Path, PlaceDoor, Places, PlacesSpec, TokenDoor, TokenEntry, TokensSpec,
};
use tidegate_limits::units::{Criticality, Timestamp};

const ROUNDS: usize = 400;

fn asks(host: u64) -> Asks {
    let hash = |level: u64, part: u64| Some((part | level << 40 | 1 << 60).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let path = Path([hash(1, host), hash(2, host >> 8), hash(3, host >> 16)]);
    Asks { path, weight: 1.0, criticality: Criticality::Default, ..Asks::NOBODY }
}

/// A clock that moves by so many nanoseconds each time.
struct Clock(u64);

impl Clock {
    fn now(&mut self, step: u64) -> Timestamp {
        self.0 += step;
        Timestamp::from_nanos(3_600_000_000_000 + self.0)
    }
}

/// The least time of one turn, in nanoseconds.
fn least(turns: u64, mut turn: impl FnMut(u64)) -> f64 {
    let round = |round: usize, turn: &mut dyn FnMut(u64)| {
        let begun = Instant::now();
        for at in 0..turns {
            turn(round as u64 * turns + at);
        }
        begun.elapsed().as_nanos() as f64 / turns as f64
    };
    (0..ROUNDS).map(|at| round(at, &mut turn)).fold(f64::INFINITY, f64::min)
}

/// Takes a place and gives it back, while nobody waits.
fn open(door: &Arc<PlaceDoor>, first: u64) -> f64 {
    let now = Timestamp::from_nanos(3_600_000_000_000);
    let mut keys: Vec<Asks> = (0..64).map(|host| asks(first + (host << 16))).collect();
    keys.rotate_left((first % 64) as usize);
    least(2_000, |at| {
        let asks = &keys[at as usize % keys.len()];
        match door.arrive(black_box(asks), now) {
            Entry::Given(place) => door.give_back(place, || now),
            Entry::Waits { .. } | Entry::NoRoom => panic!("places are free"),
        }
    })
}

/// Takes a unit and uses it, while nobody waits, from this time on.
fn unit(door: &Arc<TokenDoor>, first: u64, begin: u64) -> f64 {
    let keys: Vec<Asks> = (0..64).map(|host| asks(first + (host << 16))).collect();
    let mut clock = Clock(begin);
    least(2_000, |at| {
        let asks = &keys[at as usize % keys.len()];
        match door.arrive(black_box(asks), clock.now(2_000)) {
            TokenEntry::Given(token) => token.spend(),
            TokenEntry::Waits { .. } | TokenEntry::PushedOut(_) => panic!("units are there"),
        }
    })
}

fn main() {
    // two threads that take each a unit in two microseconds of their clocks, of which one may be seconds ahead of the other's
    let burst = 100_000_000.0;
    let rate = TokenDoor::new(TokensSpec { burst, kept: burst / 2.0, ..TokensSpec::new(10_000_000.0) });
    let alone = unit(&rate, 0, 0);
    // after all that the first round has seen
    let later = 10_000_000_000;
    let together = std::thread::scope(|scope| {
        let other = scope.spawn(|| unit(&rate, 7, later));
        let ours = unit(&rate, 0, later);
        (ours + other.join().unwrap_or(f64::NAN)) / 2.0
    });
    println!("a unit of a rate: {alone:.0} ns, {together:.0} ns with two threads; {} KiB", rate.memory().0 / 1_024);
    for places in [8, 400, 4_000] {
        let door = PlaceDoor::new(PlacesSpec::new(places));
        // the first one finds a door that has not opened yet
        let _ = open(&door, 0);
        let alone = open(&door, 0);
        let together = std::thread::scope(|scope| {
            let other = scope.spawn(|| open(&door, 7));
            let ours = open(&door, 0);
            (ours + other.join().unwrap_or(f64::NAN)) / 2.0
        });
        let memory = door.memory().0 / 1_024;
        println!(
            "{places} places: {alone:.0} ns to take and give back, {together:.0} ns with two threads; {memory} KiB"
        );
    }
    for waiting in [64_u64, 256, 1_024, 4_096] {
        let mut door = Places::new(PlacesSpec { queue: waiting as u32, ..PlacesSpec::new(64) });
        let mut clock = Clock(0);
        let mut held = Vec::new();
        for host in 0..64 + waiting {
            match door.arrive(&asks(host << 16), clock.now(1_000), &mut |_| {}) {
                Arrived::Given(place) => held.push(place),
                Arrived::Waits(_) | Arrived::NoRoom => {}
            }
        }
        let mut given = Vec::new();
        let handed = least(50, |at| {
            let place = held.swap_remove(at as usize % held.len());
            door.give_back(place, clock.now(100_000), &mut |act| given.push(act));
            for act in given.drain(..) {
                if let tidegate_limits::door::Act::Given(_, place) = act {
                    held.push(place);
                }
            }
            // another one joins, so that as many wait
            let _ = door.arrive(&asks((at + 100_000) << 16), clock.now(1_000), &mut |_| {});
        });
        let refused = least(50, |at| {
            let _ = black_box(door.arrive(&asks((at % 50) << 16), clock.now(1_000), &mut |_| {}));
        });
        println!("{waiting} wait: {handed:.0} ns to hand a place over and join, {refused:.0} ns to push one out");
    }
}
