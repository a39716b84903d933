//! Places while one process takes another's place: never more than there are, and none is lost.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;

use super::*;
use crate::door::Waiting;
use crate::policy::InflightCap;

/// What happens next.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A request comes to the old process, or to the new one.
    Arrive(bool, u8),
    /// One of its requests ends.
    End(bool, u8),
    /// A client of one that waits leaves.
    Leave(bool, u8),
    /// The old process looks, and tells how many it keeps.
    Tell,
    /// The new one hears the next word.
    Hear,
}

/// One process: its door, what it gave and who waits.
struct Side {
    door: Arc<OriginDoor>,
    held: Vec<Place>,
    waiting: Vec<Waiting>,
}

impl Side {
    fn new(cap: &InflightCap) -> Side {
        Side { door: OriginDoor::new(Some(cap), cap.max, Clock::start()), held: Vec::new(), waiting: Vec::new() }
    }

    fn now(&self) -> Timestamp {
        self.door.clock.now()
    }

    fn arrive(&mut self, host: u8) {
        let asks = Asks { path: Path([Some(u64::from(host) + 1), None, None]), ..Asks::NOBODY };
        match self.door.places.arrive(&asks, self.now()) {
            Entry::Given(place) => self.held.push(place),
            Entry::Waits { waiting, .. } => self.waiting.push(waiting),
            Entry::NoRoom => {}
        }
    }

    fn end(&mut self, at: u8) {
        if !self.held.is_empty() {
            let place = self.held.swap_remove(usize::from(at) % self.held.len());
            let now = self.now();
            self.door.places.give_back(place, || now);
        }
    }

    fn leave(&mut self, at: u8) {
        if !self.waiting.is_empty() {
            drop(self.waiting.swap_remove(usize::from(at) % self.waiting.len()));
        }
    }

    /// Takes what those who wait were given.
    fn look(&mut self) {
        let held = &mut self.held;
        self.waiting.retain_mut(|waiting| {
            match Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => return true,
                Poll::Ready(Ok(place)) => held.push(place),
                Poll::Ready(Err(_)) => {}
            }
            false
        });
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (any::<bool>(), 0..6_u8).prop_map(|(new, host)| Step::Arrive(new, host)),
        5 => (any::<bool>(), any::<u8>()).prop_map(|(new, at)| Step::End(new, at)),
        1 => (any::<bool>(), any::<u8>()).prop_map(|(new, at)| Step::Leave(new, at)),
        3 => Just(Step::Tell),
        3 => Just(Step::Hear),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_upgrade_neither_exceeds_the_cap_nor_loses_a_place(max in 1..12_u32, before in 0..20_u8, spare in 0..4_u32, steps in steps()) {
        let cap = InflightCap { reserve: crate::door::Reserve::None, ..InflightCap::of(max) };
        let (mut old, mut new) = (Side::new(&cap), Side::new(&cap));
        (0..before).for_each(|host| old.arrive(host));
        new.door.set_elsewhere(Count::ALL);
        let (mut words, mut told) = (VecDeque::new(), 0);
        for step in steps {
            match step {
                Step::Arrive(true, host) => new.arrive(host),
                // its listeners are closed, and it keeps no place for whoever comes later on an open connection
                Step::Arrive(false, _) if told > spare => {}
                Step::Arrive(false, host) => old.arrive(host),
                Step::End(true, at) => new.end(at),
                Step::End(false, at) => old.end(at),
                Step::Leave(true, at) => new.leave(at),
                Step::Leave(false, at) => old.leave(at),
                Step::Tell => {
                    words.push_back(old.door.keep_used(told < spare));
                    told += 1;
                }
                Step::Hear => words.pop_front().into_iter().for_each(|kept| new.door.set_elsewhere(kept)),
            }
            old.look();
            new.look();
            let held = (old.held.len() + new.held.len()) as u32;
            prop_assert!(held <= max, "{held} of {max} after {step:?}");
            prop_assert_eq!([old.door.held(), new.door.held()].map(|held| held as usize), [old.held.len(), new.held.len()]);
        }
        // the old one ends: its requests do, and nobody comes any more
        for _ in 0..200 {
            old.end(0);
            old.look();
        }
        prop_assert!(old.held.is_empty() && old.waiting.is_empty(), "each that waits with the old process is served by it");
        new.door.set_elsewhere(Count::default());
        new.look();
        prop_assert_eq!(new.door.max(), max);
        // all places are there: as many as there are can be held at once
        while !new.held.is_empty() {
            new.end(0);
            new.look();
        }
        prop_assert!(new.waiting.is_empty(), "who waits is given a place");
        (0..max as u8).for_each(|host| new.arrive(host));
        new.look();
        prop_assert_eq!(new.held.len() as u32, max);
        // given back, as a place that is dropped is lost
        while !new.held.is_empty() {
            new.end(0);
        }
    }
}
