//! The promise of leases in a small world, by exhaustive search: two gates, a store of four tokens, and every order of sending,
//! charging, answering, losing, spending and passing of time.
//!
//! The bound holds for *every* interval: counting begins at any moment of any history. A sum of two leases takes
//! either end that the real code may choose. And three shortcuts are seen to break it.

use std::collections::HashSet;

/// How the real code does it, or one way in which it could be wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Protocol {
    Real,
    /// The life of a lease begins when the answer arrives.
    LivesFromArrival,
    /// A sum takes the end of the younger lease.
    SumsToTheLaterEnd,
    /// A lease lives longer although gates can hold more than comes back in δ.
    LivesLongerWhateverItHolds,
}

const GATES: usize = 2;
const BURST: u8 = 4;

/// Intervals up to this many ticks; the bound grows with time as fast as the store does, so longer ones tell nothing new.
const LONGEST: u8 = 4;

/// A question, in its age since it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Flight {
    #[default]
    None,
    Sent {
        age: u8,
        wanted: u8,
    },
    Charged {
        age: u8,
        granted: u8,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Gate {
    held: u8,
    /// Ticks until what is held ends; it may be spent in the last of them, as it may just before its end where time flows.
    life: u8,
    flight: Flight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct World {
    stored: u8,
    gates: [Gate; GATES],
    /// What was spent in how many ticks, since counting began.
    counted: Option<(u8, u8)>,
}

struct Model {
    protocol: Protocol,
    /// How long a lease lives, in ticks. One token comes back per tick.
    life: u8,
    /// δ: the same, but where a lease lives longer because that makes no difference.
    told: u8,
    /// q.
    size: u8,
}

impl Model {
    /// The most that may be spent in an interval of so many ticks.
    fn bound(&self, ticks: u8) -> u8 {
        BURST + ticks + (GATES as u8 * self.size).min(self.told)
    }

    /// Every world that can follow.
    fn steps(&self, world: World) -> Vec<World> {
        let mut next = vec![self.tick(world)];
        if world.counted.is_none() {
            next.push(World { counted: Some((0, 0)), ..world });
        }
        for number in 0..GATES {
            let gate = world.gates[number];
            let mut push = |gate: Gate, stored: u8, spent: u8| {
                let mut after = world;
                after.stored = stored;
                after.gates[number] = gate;
                after.counted = after.counted.map(|(ticks, sum)| (ticks, sum + spent));
                next.push(after);
            };
            if gate.held > 0 {
                push(Gate { held: gate.held - 1, ..gate }, world.stored, 1);
            }
            match gate.flight {
                Flight::None => {
                    if gate.held < self.size {
                        let flight = Flight::Sent { age: 0, wanted: self.size - gate.held };
                        push(Gate { flight, ..gate }, world.stored, 0);
                    }
                }
                Flight::Sent { age, wanted } => {
                    let granted = wanted.min(world.stored);
                    push(Gate { flight: Flight::Charged { age, granted }, ..gate }, world.stored - granted, 0);
                    push(Gate { flight: Flight::None, ..gate }, world.stored, 0);
                }
                Flight::Charged { age, granted } => {
                    push(Gate { flight: Flight::None, ..gate }, world.stored, 0);
                    for mut kept in self.kept(gate, age, granted) {
                        kept.flight = Flight::None;
                        push(kept, world.stored, 0);
                    }
                }
            }
        }
        next
    }

    /// What a gate may hold after an answer: the sum with the older end, or the younger lease alone.
    fn kept(&self, gate: Gate, age: u8, granted: u8) -> Vec<Gate> {
        let age = if self.protocol == Protocol::LivesFromArrival { 0 } else { age };
        let life = (self.life + 1).saturating_sub(age);
        if life == 0 || granted == 0 {
            return vec![gate];
        }
        let fresh = Gate { held: granted, life, ..gate };
        if gate.held == 0 {
            return vec![fresh];
        }
        let held = gate.held + granted;
        let summed = match self.protocol {
            Protocol::SumsToTheLaterEnd => gate.life.max(life),
            _ => gate.life.min(life),
        };
        vec![fresh, Gate { held, life: summed, ..gate }]
    }

    fn tick(&self, mut world: World) -> World {
        world.stored = (world.stored + 1).min(BURST);
        world.counted = world.counted.map(|(ticks, sum)| (ticks + 1, sum));
        for gate in &mut world.gates {
            gate.life = gate.life.saturating_sub(1);
            if gate.life == 0 {
                gate.held = 0;
            }
            // an answer older than a life is as good as one as old as that
            match &mut gate.flight {
                Flight::Sent { age, .. } | Flight::Charged { age, .. } => *age = (*age + 1).min(self.life + 1),
                Flight::None => {}
            }
        }
        world
    }

    /// The number of worlds, and how much was left of the bound at least; or a world in which more was spent.
    fn explore(&self) -> Result<(usize, u8), World> {
        let start = World { stored: BURST, ..World::default() };
        let mut known = HashSet::from([start]);
        let mut frontier = vec![start];
        let mut slack = u8::MAX;
        while let Some(world) = frontier.pop() {
            if let Some((ticks, spent)) = world.counted {
                if ticks > LONGEST {
                    continue;
                }
                slack = slack.min(self.bound(ticks).checked_sub(spent).ok_or(world)?);
            }
            frontier.extend(self.steps(world).into_iter().filter(|next| known.insert(*next)));
        }
        Ok((known.len(), slack))
    }
}

fn explore(protocol: Protocol, (life, told): (u8, u8), size: u8) -> Result<(usize, u8), World> {
    let found = Model { protocol, life, told, size }.explore();
    println!("{protocol:?}, for {life} ticks, δ = {told}, q = {size}: worlds and slack {found:?}");
    found
}

#[test]
fn no_order_of_steps_spends_more_than_the_promise() {
    for (life, told, size) in [(2, 2, 1), (2, 2, 2), (3, 3, 1), (4, 2, 1)] {
        let (_, slack) = explore(Protocol::Real, (life, told), size).unwrap();
        assert_eq!(slack, 0, "the promise is not the tightest: {life} ticks, δ = {told}, q = {size}");
    }
}

#[test]
fn every_shortcut_is_seen_to_break_the_promise() {
    for (protocol, life, told, size) in [
        (Protocol::LivesFromArrival, 2, 2, 2),
        (Protocol::SumsToTheLaterEnd, 2, 2, 2),
        (Protocol::LivesLongerWhateverItHolds, 4, 2, 2),
    ] {
        assert!(explore(protocol, (life, told), size).is_err(), "{protocol:?} is not refuted");
    }
}
