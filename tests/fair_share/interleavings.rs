//! The total and the controller under a model checker: loom runs every interleaving that C11 allows, up to a bound on
//! preemptions, of the very code that serves.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use tidegate::limiter::fair_share::controller::Controller;
use tidegate::limiter::fair_share::root::Total;
use tidegate::limiter::fair_share::word::Word;
use tidegate::units::Timestamp;

use crate::simulation::{SECOND, START};

/// A word whose interleavings loom explores, with the orderings of the real one.
#[derive(Default)]
struct Modelled(AtomicU64);

impl Word for Modelled {
    fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn exchange(&self, from: u64, to: u64) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn store(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct World {
    controller: Controller<Modelled>,
    total: Total<Modelled>,
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

    /// One request, as [`FairShare`](tidegate::limiter::FairShare) makes it: tick, probe, charge.
    fn ask(&self, nanos: u64) -> bool {
        self.controller.tick(&self.total, at(nanos));
        self.controller.reached();
        self.total.probe(at(nanos)).is_ok() && self.total.charge(at(nanos)).is_ok()
    }
}

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(START + nanos)
}

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn two_threads_share_the_last_place_exactly() {
    explore(3, || {
        let world = Arc::new(World::new(7));
        let other = world.clone();
        let thread = loom::thread::spawn(move || other.ask(1));
        let passed = u32::from(world.ask(1)) + u32::from(thread.join().unwrap());
        assert_eq!(passed, 1);
    });
}

#[test]
fn two_threads_at_a_tick_make_one_step() {
    // what one thread alone makes of it, with and without the other's request in its count
    let alone = |requests: u32| {
        let alpha = Arc::new(std::sync::Mutex::new(0.0));
        let seen = alpha.clone();
        explore(1, move || {
            let world = World::pressed();
            (0..requests).for_each(|_| world.controller.reached());
            world.controller.tick(&world.total, at(SECOND - 1));
            *seen.lock().unwrap() = world.controller.alpha();
        });
        *alpha.lock().unwrap()
    };
    let steps = [alone(0), alone(1), alone(2)];
    explore(2, move || {
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
fn a_capacity_adopted_in_the_middle_of_a_charge_is_off_by_that_charge_at_most() {
    explore(2, || {
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
