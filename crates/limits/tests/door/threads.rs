//! The door between threads.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tidegate_limits::door::{Asks, Entry, Place, PlaceDoor, PlacesSpec, Reserve, Reserved, Standing, Waiting};
use tidegate_limits::units::{Criticality, Timestamp};

use crate::world::{MS, path};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for an answer; a thread that is never woken stays here.
fn wait(waiting: Waiting) -> Result<Place, Standing> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut waiting = pin!(waiting);
    loop {
        match waiting.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

fn asks(host: u32) -> Asks {
    Asks { path: path(host), weight: 1.0, criticality: Criticality::Default, ..Asks::NOBODY }
}

fn waits(door: &Arc<PlaceDoor>, asks: &Asks, seconds: u64) -> Waiting {
    match door.arrive(asks, at(seconds)) {
        Entry::Waits { waiting, .. } => waiting,
        other => panic!("{other:?}"),
    }
}

fn given(door: &Arc<PlaceDoor>, asks: &Asks, seconds: u64) -> Place {
    match door.arrive(asks, at(seconds)) {
        Entry::Given(place) => place,
        other => panic!("{other:?}"),
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(seconds * 1_000 * MS)
}

#[test]
fn who_keeps_a_place_idle_gives_it_to_who_would_hold_no_more() {
    let door = PlaceDoor::new(PlacesSpec { reserve: Reserve::None, ..PlacesSpec::new(3) });
    let mut held: Vec<Place> = (0..3).map(|_| given(&door, &asks(1 << 16), 0)).collect();
    let owes = |held: &mut Vec<Place>, seconds| {
        let place = held.pop().unwrap();
        door.give_way(place, false, || at(seconds)).map_err(|place| held.push(place)).is_ok()
    };
    assert!(!owes(&mut held, 0), "nobody waits");
    let mut others = Vec::new();
    for host in [2, 3] {
        let waiting = waits(&door, &asks(host << 16), u64::from(host));
        assert!(owes(&mut held, u64::from(host)), "{host} would hold one place, and the other more");
        others.push(wait(waiting).expect("it has the place"));
    }
    let own = waits(&door, &asks(4 << 16), 9);
    assert!(!owes(&mut held, 9), "the last place is anybody's own");
    let background = waits(&door, &Asks { criticality: Criticality::Background, ..asks(5 << 16) }, 9);
    assert!(!owes(&mut held, 9));
    let critical = waits(&door, &Asks { criticality: Criticality::Critical, ..asks(6 << 16) }, 9);
    assert!(owes(&mut held, 9), "it matters more");
    others.push(wait(critical).expect("it has the place"));
    drop((own, background));
    others.drain(..).for_each(|place| door.give_back(place, || at(10)));
    assert_eq!(door.held(), 0);
}

#[test]
fn of_more_places_than_there_are_now_those_kept_idle_go_first() {
    let door = PlaceDoor::new(PlacesSpec { reserve: Reserve::None, ..PlacesSpec::new(4) });
    let mut held: Vec<Place> = (0..4).map(|_| given(&door, &asks(1 << 16), 0)).collect();
    door.set_max(2, at(1));
    let waiting = waits(&door, &asks(2 << 16), 2);
    for left in [3, 2] {
        assert!(door.give_way(held.pop().unwrap(), false, || at(3)).is_ok(), "still {left} for two places");
        assert_eq!(door.held(), left);
    }
    assert!(door.give_way(held.pop().unwrap(), false, || at(4)).is_ok());
    held.push(wait(waiting).expect("one of two is free"));
    held.drain(..).for_each(|place| door.give_back(place, || at(5)));
    assert_eq!(door.held(), 0);
}

#[test]
fn a_network_that_keeps_many_places_idle_owes_them_to_who_has_none() {
    let door = PlaceDoor::new(PlacesSpec { reserve: Reserve::None, ..PlacesSpec::new(4) });
    let one_network = |host: u32| asks(1 << 16 | host);
    let mut held: Vec<Place> = (1..5).map(|host| given(&door, &one_network(host), 0)).collect();
    let own = waits(&door, &one_network(9), 1);
    let place = held.pop().unwrap();
    held.push(door.give_way(place, false, || at(1)).expect_err("the same network would hold as many"));
    let place = held.pop().unwrap();
    assert!(door.give_way(place, true, || at(1)).is_ok(), "idle for long: to anybody who has none");
    held.push(wait(own).expect("it has the place"));
    let other = waits(&door, &asks(2 << 16), 2);
    assert!(door.give_way(held.pop().unwrap(), false, || at(2)).is_ok(), "three for one network, one for the other");
    held.push(wait(other).expect("it has the place"));
    let more = waits(&door, &asks(2 << 16), 3);
    let place = held.swap_remove(0);
    held.push(door.give_way(place, false, || at(3)).expect_err("its client has a place already"));
    drop(more);
    held.drain(..).for_each(|place| door.give_back(place, || at(4)));
    assert_eq!(door.held(), 0);
}

#[test]
fn places_that_a_reload_adds_are_held_in_a_name() {
    let spec = |most| PlacesSpec { reserve: Reserve::None, ..PlacesSpec::new(most) };
    let door = PlaceDoor::new(spec(1));
    door.follow(spec(4), 4, at(0));
    let mut held: Vec<Place> = (0..4).map(|_| given(&door, &asks(1 << 16), 0)).collect();
    for turn in 1..=2_u32 {
        let waiting = waits(&door, &asks((turn + 1) << 16), turn.into());
        assert!(door.give_way(held.remove(0), false, || at(turn.into())).is_ok(), "{turn}");
        held.push(wait(waiting).expect("it has the place"));
    }
    held.drain(..).for_each(|place| door.give_back(place, || at(9)));
    assert_eq!(door.held(), 0);
}

#[test]
fn places_are_owed_by_weight_and_only_those_that_would_be_given() {
    let door = PlaceDoor::new(PlacesSpec { reserve: Reserve::None, ..PlacesSpec::new(4) });
    let tenant = Asks { weight: 4.0, ..asks(1 << 16) };
    let mut held: Vec<Place> = (0..4).map(|_| given(&door, &tenant, 0)).collect();
    let waiting = waits(&door, &asks(2 << 16), 1);
    let place = held.pop().unwrap();
    held.push(door.give_way(place, false, || at(1)).expect_err("three for four are less than one for one"));
    drop(waiting);
    held.drain(..).for_each(|place| door.give_back(place, || at(2)));
    // one place is kept for what matters more, so nobody gets what is let go
    let reserved = Reserved::new([0.3, 0.0, 0.0, 0.0]);
    let door = PlaceDoor::new(PlacesSpec { reserve: Reserve::None, reserved, ..PlacesSpec::new(3) });
    let mut held: Vec<Place> = (0..2).map(|_| given(&door, &asks(1 << 16), 0)).collect();
    let waiting = waits(&door, &asks(2 << 16), 1);
    let place = held.pop().unwrap();
    held.push(door.give_way(place, false, || at(1)).expect_err("a place is free, and kept"));
    drop(waiting);
    held.drain(..).for_each(|place| door.give_back(place, || at(2)));
}

#[test]
fn no_place_is_lost_and_nobody_sleeps_beside_one() {
    for (max, queue, threads) in [(1, 8, 4), (3, 8, 6), (2, 1, 6), (8, 8, 4)] {
        let door = PlaceDoor::new(PlacesSpec { queue, reserve: Reserve::None, ..PlacesSpec::new(max) });
        let clock = AtomicU64::new(1);
        let (inside, peak, served) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        // half a second each time, so that the door opens between
        let now = || Timestamp::from_nanos(clock.fetch_add(500 * MS, Ordering::Relaxed));
        thread::scope(|scope| {
            for host in 0..threads {
                let (door, now) = (&door, &now);
                let (inside, peak, served) = (&inside, &peak, &served);
                scope.spawn(move || {
                    for turn in 0..5_000_u32 {
                        let entered = match door.arrive(&asks(host << 16), now()) {
                            Entry::Given(place) => Ok(place),
                            Entry::Waits { mut waiting, .. } if turn % 7 == 3 => waiting.give_up(now()),
                            Entry::Waits { waiting, .. } if turn % 11 == 5 => {
                                drop(waiting);
                                continue;
                            }
                            Entry::Waits { waiting, .. } => wait(waiting),
                            Entry::NoRoom => continue,
                        };
                        let Ok(place) = entered else { continue };
                        peak.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        served.fetch_add(1, Ordering::SeqCst);
                        if turn % 3 == 0 {
                            thread::yield_now();
                        }
                        inside.fetch_sub(1, Ordering::SeqCst);
                        door.give_back(place, now);
                        if turn % 500 == 0 && host == 0 {
                            door.set_max(max - turn / 500 % 2 * (max / 2), now());
                        }
                    }
                });
            }
        });
        assert!(peak.load(Ordering::SeqCst) <= max, "{} of {max}", peak.load(Ordering::SeqCst));
        assert_eq!(door.held(), 0, "all places came back");
        assert_eq!(door.look(|places| places.line().waiting()), 0);
        assert!(served.load(Ordering::SeqCst) > 500);
    }
}

#[test]
fn those_who_took_a_place_while_nobody_waited_count_for_it_as_soon_as_somebody_does() {
    let door = PlaceDoor::new(PlacesSpec { reserve: Reserve::None, ..PlacesSpec::new(4) });
    let now = |ms: u64| Timestamp::from_nanos(3_600_000 * MS + ms * MS);
    let place = |entry| match entry {
        Entry::Given(place) => place,
        other => panic!("{other:?}"),
    };
    let _ = place(door.arrive(&asks(9), now(0)));
    // the first has taken four, one after the other
    let first: Vec<_> = (0..3).map(|_| place(door.arrive(&asks(1), now(1_000)))).collect();
    let waits = |host| match door.arrive(&asks(host), now(2_000)) {
        Entry::Waits { waiting, .. } => waiting,
        other => panic!("{other:?}"),
    };
    let mut again = waits(1);
    let mut second = waits(2 << 16);
    for place in first.into_iter().take(1) {
        door.give_back(place, || now(3_000));
    }
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(&mut again).poll(&mut context).is_pending(), "it holds two, and came first");
    assert!(pin!(&mut second).poll(&mut context).is_ready(), "it holds none");
}

#[test]
fn other_words_keep_who_holds_and_who_waits() {
    let door = PlaceDoor::new(PlacesSpec { queue: 4, ..PlacesSpec::new(1) });
    let now = |ms: u64| Timestamp::from_nanos(3_600_000 * MS + ms * MS);
    let Entry::Given(place) = door.arrive(&asks(1), now(0)) else { panic!("it is free") };
    let mut waiting: Vec<_> = (0..4)
        .map(|host| match door.arrive(&asks((host % 2) << 20), now(1)) {
            Entry::Waits { waiting, .. } => waiting,
            other => panic!("{other:?}"),
        })
        .collect();
    door.follow(PlacesSpec { queue: 3, shares: [1.0, 4.0, 4.0], ..PlacesSpec::new(6) }, 2, now(2));
    let mut context = Context::from_waker(Waker::noop());
    let mut answers = |waiting: &mut Vec<Waiting>| {
        let mut given = Vec::new();
        waiting.retain_mut(|waiting| match pin!(waiting).poll(&mut context) {
            Poll::Ready(answer) => {
                given.push(answer);
                false
            }
            Poll::Pending => true,
        });
        given
    };
    let given = answers(&mut waiting);
    assert_eq!(given.iter().filter(|answer| answer.is_ok()).count(), 1, "one more place: {given:?}");
    assert_eq!((door.held(), door.look(|places| places.line().waiting())), (2, 3));
    door.give_back(place, || now(3));
    for answer in given.into_iter().flatten() {
        door.give_back(answer, || now(4));
    }
    assert_eq!(answers(&mut waiting).into_iter().flatten().map(|place| door.give_back(place, || now(5))).count(), 2);
    assert_eq!(answers(&mut waiting).into_iter().flatten().map(|place| door.give_back(place, || now(6))).count(), 1);
    assert_eq!((door.held(), waiting.len()), (0, 0));
}
