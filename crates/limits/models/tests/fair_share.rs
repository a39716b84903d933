//! The total of a fair share, and what steers it.

use std::sync::Arc;

use tidegate_limits::limiter::kinds::fair_share::controller::Controller;
use tidegate_limits::limiter::kinds::fair_share::root::Total;
use tidegate_limits::sync::{AtomicU64, stepwise};
use tidegate_limits::units::Timestamp;

use crate::explore;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_000 * SECOND;

struct World {
    controller: Controller<AtomicU64>,
    total: Total<AtomicU64>,
}

impl World {
    /// A capacity of one per second in force, of whose burst of eight `spent` are gone.
    fn new(spent: usize) -> World {
        let world = World { controller: Controller::new(None, 1.0), total: Total::default() };
        world.controller.set_capacity(1.0);
        world.controller.tick(&world.total, at(0));
        assert_eq!((0..spent).filter(|_| world.ask(0)).count(), spent);
        world
    }

    /// The same after a second in which a hundred more came.
    fn pressed() -> World {
        let world = World::new(8);
        (0..100).for_each(|_| world.controller.reached());
        world.controller.weighed(20.0);
        world
    }

    /// One request, as [`FairShare`](tidegate_limits::limiter::kinds::fair_share::share::FairShare) makes it: tick, probe, charge.
    fn ask(&self, nanos: u64) -> bool {
        self.controller.tick(&self.total, at(nanos));
        self.controller.reached();
        self.total.probe(at(nanos)).is_ok() && self.total.charge(at(nanos)).is_ok()
    }
}

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(START + nanos)
}

#[test]
pub fn two_threads_share_the_last_place_exactly() {
    explore(3, None, || {
        let world = Arc::new(World::new(7));
        let other = world.clone();
        let thread = loom::thread::spawn(move || other.ask(1));
        let passed = u32::from(world.ask(1)) + u32::from(thread.join().unwrap());
        assert_eq!(passed, 1);
    });
}

#[test]
pub fn two_threads_at_a_tick_make_one_step() {
    // what one thread alone makes of it, with and without the other's request in its count
    let alone = |requests: u32| {
        let alpha = Arc::new(std::sync::Mutex::new(0.0));
        let seen = alpha.clone();
        explore(1, None, move || {
            let world = World::pressed();
            (0..requests).for_each(|_| world.controller.reached());
            world.controller.tick(&world.total, at(SECOND - 1));
            *seen.lock().unwrap() = world.controller.alpha();
        });
        *alpha.lock().unwrap()
    };
    let steps = [alone(0), alone(1), alone(2)];
    explore(2, None, move || {
        let world = Arc::new(World::pressed());
        let before = world.controller.alpha();
        let other = world.clone();
        let thread = loom::thread::spawn(move || other.ask(SECOND - 1));
        let passed = [world.ask(SECOND - 1), thread.join().unwrap()];
        assert_eq!(passed, [false, false], "the bucket is empty");
        let once = world.controller.alpha();
        assert!(once < before && steps.contains(&once), "{before} became {once}, not one of {steps:?}");
        world.controller.tick(&world.total, at(SECOND + 99_999_998));
        assert_eq!(world.controller.alpha(), once, "not due");
        world.controller.tick(&world.total, at(SECOND + 99_999_999));
        assert_ne!(world.controller.alpha(), once, "the tick was not given back");
    });
}

#[test]
pub fn a_capacity_adopted_in_the_middle_of_a_charge_is_off_by_that_charge_at_most() {
    explore(2, None, || {
        let world = Arc::new(World::new(4));
        world.controller.set_capacity(2.0);
        let other = world.clone();
        // this one's tick adopts the new capacity while the other charges
        let thread = loom::thread::spawn(move || other.ask(100_000_000));
        let mut passed = u32::from(world.ask(99_999_999)) + u32::from(thread.join().unwrap());
        passed += (0..20).filter(|_| world.ask(100_000_000)).count() as u32;
        assert!((3..=5).contains(&passed), "{passed} of the four that were left");
    });
}

#[test]
pub fn a_tick_goes_on_from_where_the_one_before_it_ended() {
    const TICK: u64 = 100_000_000;
    let (first, second) = (SECOND - 1, SECOND - 1 + TICK);
    // what one thread makes of either alone, and of both
    let alone = |ticks: Vec<u64>| {
        let alpha = Arc::new(std::sync::Mutex::new((0.0, 0.0)));
        let seen = alpha.clone();
        explore(1, None, move || {
            let world = World::pressed();
            ticks.iter().for_each(|now| world.controller.tick(&world.total, at(*now)));
            *seen.lock().unwrap() = (world.controller.alpha(), world.controller.demand());
        });
        *alpha.lock().unwrap()
    };
    let ends = [alone(vec![first, second]), alone(vec![second])];
    assert_ne!(ends[0], ends[1]);
    let ticks = move || {
        let world = Arc::new(World::pressed());
        let other = world.clone();
        let thread = loom::thread::spawn(move || other.controller.tick(&other.total, at(first)));
        world.controller.tick(&world.total, at(second));
        thread.join().unwrap();
        // the second may have met the first at its work, and left it at that
        world.controller.tick(&world.total, at(second));
        let end = (world.controller.alpha(), world.controller.demand());
        assert!(ends.contains(&end), "{end:?} is none of {ends:?}");
    };
    // in small steps: who ticks reads the words before it writes them
    explore(2, None, move || stepwise(&ticks));
}
