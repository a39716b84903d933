//! The door to a rate: the exchange of the bucket's word, the lock while somebody waits, and other numbers meanwhile.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Notify;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use tidegate_limits::door::{Asks, Path, Standing, Token, TokenDoor, TokenEntry, TokenWaiting, TokensSpec};
use tidegate_limits::units::{Criticality, Timestamp};

use crate::explore;

/// Two preemptions find each of the faults that were planted.
const PREEMPTIONS: usize = 2;

struct Bell(Notify);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }
}

/// Waits for an answer. Loom says so if nobody is left who could wake it.
fn wait(mut waiting: TokenWaiting) -> Result<Token, Standing> {
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

/// One per second, so many at one instant, and nothing kept.
fn door(burst: f64) -> Arc<TokenDoor> {
    TokenDoor::new(TokensSpec { rate: 1.0, burst, kept: 0.0, queue: 2, shares: [1.0; 3], ..TokensSpec::new(1.0) })
}

/// Takes a unit, waiting for it, and uses it.
fn pass(door: &Arc<TokenDoor>, passed: &AtomicU32, host: u64) {
    let token = match door.arrive(&asks(host), now(0)) {
        TokenEntry::Given(token) => Ok(token),
        TokenEntry::Waits { waiting, .. } => wait(waiting),
        TokenEntry::PushedOut(standing) => Err(standing),
    };
    if let Ok(token) = token {
        token.spend();
        passed.fetch_add(1, Ordering::SeqCst);
    }
}

fn nobody_is_left(door: &Arc<TokenDoor>) {
    assert_eq!(door.look(|tokens| (tokens.line().waiting(), tokens.line().holding())), (0, 0));
}

#[test]
pub fn two_that_want_one_unit_have_it_one_after_the_other() {
    explore(PREEMPTIONS, None, || {
        let (door, passed) = (door(1.0), Arc::new(AtomicU32::new(0)));
        let threads: Vec<_> = (1..3)
            .map(|host| {
                let (door, passed) = (Arc::clone(&door), Arc::clone(&passed));
                thread::spawn(move || pass(&door, &passed, host))
            })
            .collect();
        // time passes: whoever waits by then is served, and who comes later finds a unit
        assert!(passed.load(Ordering::SeqCst) <= 1);
        door.tick(now(1_000));
        let mut waits = true;
        while waits {
            waits = door.tick(now(1_000)).is_some();
            if !waits && passed.load(Ordering::SeqCst) < 2 {
                waits = true;
                thread::yield_now();
            }
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(door.units(now(1_000)) < 1.0);
        nobody_is_left(&door);
    });
}

#[test]
pub fn a_unit_that_was_not_used_wakes_who_waits() {
    explore(PREEMPTIONS, None, || {
        let (door, passed) = (door(1.0), Arc::new(AtomicU32::new(0)));
        let TokenEntry::Given(token) = door.arrive(&asks(7), now(0)) else { panic!("it is there") };
        let other = thread::spawn({
            let (door, passed) = (Arc::clone(&door), Arc::clone(&passed));
            move || pass(&door, &passed, 1)
        });
        drop(token);
        other.join().unwrap();
        assert_eq!(passed.load(Ordering::SeqCst), 1, "it has the unit that came back");
        assert!(door.units(now(0)) < 1.0, "and there was only that one");
        nobody_is_left(&door);
    });
}

#[test]
pub fn who_leaves_or_gives_up_loses_no_unit() {
    for leaves in [false, true] {
        explore(PREEMPTIONS, None, move || {
            let (door, passed) = (door(1.0), Arc::new(AtomicU32::new(0)));
            let TokenEntry::Given(token) = door.arrive(&asks(7), now(0)) else { panic!("it is there") };
            let other = thread::spawn({
                let door = Arc::clone(&door);
                move || match door.arrive(&asks(1), now(0)) {
                    TokenEntry::Given(token) => drop(token),
                    TokenEntry::Waits { waiting, .. } if leaves => drop(waiting),
                    TokenEntry::Waits { mut waiting, .. } => drop(waiting.give_up(now(0))),
                    TokenEntry::PushedOut(_) => panic!("there is room"),
                }
            });
            let third = thread::spawn({
                let (door, passed) = (Arc::clone(&door), Arc::clone(&passed));
                move || pass(&door, &passed, 2)
            });
            drop(token);
            other.join().unwrap();
            third.join().unwrap();
            assert_eq!(passed.load(Ordering::SeqCst), 1);
            nobody_is_left(&door);
        });
    }
}

#[test]
pub fn other_numbers_lose_and_find_no_unit() {
    explore(PREEMPTIONS, None, || {
        let (door, passed) = (door(2.0), Arc::new(AtomicU32::new(0)));
        let take = |door: &Arc<TokenDoor>, passed: &AtomicU32| {
            if let Some(token) = door.take(&asks(0), now(0)) {
                token.spend();
                passed.fetch_add(1, Ordering::SeqCst);
            }
        };
        let other = thread::spawn({
            let (door, passed) = (Arc::clone(&door), Arc::clone(&passed));
            move || {
                take(&door, &passed);
                take(&door, &passed);
            }
        });
        // by the numbers of another change a moment would be a whole bucket, or none
        for rate in [1_000.0, 500.0] {
            door.follow(
                TokensSpec { rate, burst: 50.0, kept: 0.0, queue: 2, shares: [1.0; 3], ..TokensSpec::new(1.0) },
                now(0),
            );
        }
        take(&door, &passed);
        other.join().unwrap();
        while let Some(token) = door.take(&asks(0), now(0)) {
            token.spend();
            passed.fetch_add(1, Ordering::SeqCst);
        }
        assert_eq!(passed.load(Ordering::SeqCst), 2);
    });
}
