//! The door to places: the exchange of one word while nobody waits, the lock while somebody does, and the change between them.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Notify;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use tidegate_limits::door::{Asks, Entry, Path, Place, PlaceDoor, PlacesSpec, Reserve, Standing, Waiting};
use tidegate_limits::units::{Criticality, Timestamp};

use crate::explore;

/// Two preemptions find each of the faults that were planted; three take minutes.
const PREEMPTIONS: usize = 2;

struct Bell(Notify);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

/// Waits for an answer. Loom says so if nobody is left who could wake it.
fn wait(mut waiting: Waiting) -> Result<Place, Standing> {
    let bell = Arc::new(Bell(Notify::new()));
    let waker = Waker::from(Arc::clone(&bell));
    loop {
        match std::pin::Pin::new(&mut waiting).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => bell.0.wait(),
        }
    }
}

fn asks(host: u64) -> Asks {
    Asks { path: Path([Some(host), None, None]), weight: 1.0, criticality: Criticality::Default, ..Asks::NOBODY }
}

fn now(ms: u64) -> Timestamp {
    Timestamp::from_nanos((3_600_000 + ms) * 1_000_000)
}

/// A door that is open.
fn open(max: u32) -> Arc<PlaceDoor> {
    let door = PlaceDoor::new(PlacesSpec { queue: 2, reserve: Reserve::None, ..PlacesSpec::new(max) });
    let Entry::Given(place) = door.arrive(&asks(9), now(0)) else { panic!("nobody is there") };
    door.give_back(place, || now(0));
    door
}

/// Goes in, is counted, and comes out.
fn pass(door: &Arc<PlaceDoor>, inside: &AtomicU32, host: u64, max: u32) {
    let place = match door.arrive(&asks(host), now(1)) {
        Entry::Given(place) => Ok(place),
        Entry::Waits { waiting, .. } => wait(waiting),
        Entry::NoRoom => return,
    };
    let Ok(place) = place else { return };
    assert!(inside.fetch_add(1, Ordering::SeqCst) < max, "never more than there are");
    inside.fetch_sub(1, Ordering::SeqCst);
    door.give_back(place, || now(2));
}

fn all_came_back(door: &Arc<PlaceDoor>) {
    assert_eq!(door.held(), 0, "each place came back, once");
    assert_eq!(door.look(|places| places.line().waiting()), 0, "nobody waits beside a free place");
    assert_eq!(door.look(|places| places.line().holding()), 0, "nothing is left on a node");
}

#[test]
fn two_that_want_one_place_have_it_one_after_the_other() {
    explore(PREEMPTIONS, None, || {
        let (door, inside) = (open(1), Arc::new(AtomicU32::new(0)));
        let other = thread::spawn({
            let (door, inside) = (Arc::clone(&door), Arc::clone(&inside));
            move || pass(&door, &inside, 1, 1)
        });
        pass(&door, &inside, 2, 1);
        other.join().unwrap();
        all_came_back(&door);
    });
}

#[test]
fn three_that_want_two_places() {
    explore(PREEMPTIONS, Some(20_000), || {
        let (door, inside) = (open(2), Arc::new(AtomicU32::new(0)));
        let others: Vec<_> = (1..3)
            .map(|host| {
                let (door, inside) = (Arc::clone(&door), Arc::clone(&inside));
                thread::spawn(move || pass(&door, &inside, host, 2))
            })
            .collect();
        pass(&door, &inside, 3, 2);
        others.into_iter().for_each(|other| other.join().unwrap());
        all_came_back(&door);
    });
}

#[test]
fn who_gives_up_or_leaves_loses_no_place() {
    for leaves in [false, true] {
        explore(PREEMPTIONS, None, move || {
            let (door, inside) = (open(1), Arc::new(AtomicU32::new(0)));
            let Entry::Given(place) = door.arrive(&asks(7), now(0)) else { panic!("it is free") };
            let other = thread::spawn({
                let door = Arc::clone(&door);
                move || match door.arrive(&asks(1), now(1)) {
                    Entry::Given(place) => door.give_back(place, || now(1)),
                    Entry::Waits { waiting, .. } if leaves => drop(waiting),
                    Entry::Waits { mut waiting, .. } => {
                        if let Ok(place) = waiting.give_up(now(2)) {
                            door.give_back(place, || now(2));
                        }
                    }
                    Entry::NoRoom => panic!("there is room"),
                }
            });
            let third = thread::spawn({
                let (door, inside) = (Arc::clone(&door), Arc::clone(&inside));
                move || pass(&door, &inside, 2, 1)
            });
            door.give_back(place, || now(1));
            other.join().unwrap();
            third.join().unwrap();
            all_came_back(&door);
        });
    }
}

#[test]
fn another_number_of_places_while_somebody_takes_one() {
    explore(PREEMPTIONS, None, || {
        let (door, inside) = (open(2), Arc::new(AtomicU32::new(0)));
        let other = thread::spawn({
            let (door, inside) = (Arc::clone(&door), Arc::clone(&inside));
            move || pass(&door, &inside, 1, 2)
        });
        door.set_max(1, now(1));
        pass(&door, &inside, 2, 2);
        other.join().unwrap();
        assert_eq!(door.max(), 1);
        all_came_back(&door);
    });
}
