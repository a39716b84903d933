//! The door to a rate, between threads and in virtual time.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tidegate_limits::door::{Asks, Standing, Token, TokenDoor, TokenEntry, TokenWaiting, TokensSpec};
use tidegate_limits::units::{Criticality, Timestamp};

use crate::world::{MS, path};

fn now(ms: u64) -> Timestamp {
    Timestamp::from_nanos(3_600_000 * MS + ms * MS)
}

fn asks(host: u32) -> Asks {
    Asks { path: path(host), weight: 1.0, criticality: Criticality::Default, ..Asks::NOBODY }
}

/// Ten per second, `burst` at one instant, and a half of that kept.
fn door(burst: f64, queue: u32) -> Arc<TokenDoor> {
    TokenDoor::new(TokensSpec { burst, kept: burst / 2.0, queue, ..TokensSpec::new(10.0) })
}

/// Takes as many as are to be had by everybody.
fn spend(door: &Arc<TokenDoor>, host: u32, at: u64) -> u32 {
    let mut given = 0;
    while let Some(token) = door.take(&asks(host), now(at)) {
        token.spend();
        given += 1;
    }
    given
}

fn waits(entry: TokenEntry) -> TokenWaiting {
    match entry {
        TokenEntry::Waits { waiting, .. } => waiting,
        other => panic!("{other:?}"),
    }
}

fn poll(waiting: &mut TokenWaiting) -> Poll<Result<Token, Standing>> {
    pin!(waiting).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn who_leaves_gives_a_unit_that_was_given_meanwhile_to_the_next() {
    let door = door(2.0, 8);
    assert_eq!(spend(&door, 1, 0), 1);
    // the one that is kept, as nobody weighs less
    door.observe(&asks(1), now(0)).unwrap().spend();
    let mut early = waits(door.arrive(&asks(1), now(1)));
    let mut late = waits(door.arrive(&asks(1), now(2)));
    door.tick(now(190));
    assert!(poll(&mut early).is_pending(), "it weighs most, and leaves one to others");
    assert!(door.tick(now(205)).is_some());
    assert!(poll(&mut late).is_pending(), "the unit is the first one's");
    drop(early);
    assert!(matches!(poll(&mut late), Poll::Ready(Ok(_))));
    drop(late);
    assert_eq!(door.look(|tokens| (tokens.line().waiting(), tokens.line().holding())), (0, 0));
}

#[test]
fn a_unit_that_was_not_used_is_there_again_and_does_not_weigh() {
    let door = door(4.0, 8);
    assert_eq!(spend(&door, 1, 0), 2);
    let asked = |host| door.observe(&asks(host), now(0)).map(drop).map_err(|standing| standing.used);
    // those that are kept go to whoever has used nothing; given back, they go to the same one again and again
    for _ in 0..10 {
        assert_eq!(asked(2), Ok(()));
    }
    assert_eq!(door.units(now(0)), 2.0);
    let held: Vec<Token> = (3..5).map(|host| door.observe(&asks(host << 16), now(0)).unwrap()).collect();
    assert!(asked(5 << 16).is_err(), "none is left");
    drop(held);
    assert_eq!(asked(2), Ok(()));
}

#[test]
fn who_has_waited_too_long_is_told_how_it_stood() {
    let door = door(2.0, 8);
    assert_eq!(spend(&door, 1, 0), 1);
    door.observe(&asks(1), now(0)).unwrap().spend();
    let mut waiting = waits(door.arrive(&asks(1), now(0)));
    let standing = waiting.give_up(now(40)).unwrap_err();
    assert_eq!((standing.waiting, standing.line), (1.0, 1));
    assert!(standing.used > 0.9, "{standing:?}");
    assert_eq!(door.look(|tokens| tokens.line().waiting()), 0);
    assert_eq!(door.tick(now(50)), None, "nobody need see to the time");
}

#[test]
fn other_numbers_keep_the_units_and_who_waits() {
    let door = door(40.0, 8);
    assert_eq!(spend(&door, 1, 0), 20);
    let mut others = 100..;
    let drained = others.by_ref().take_while(|host| door.observe(&asks(host << 16), now(0)).map(Token::spend).is_ok());
    assert_eq!(drained.count(), 20, "of what is kept, one for each that has used nothing");
    let mut waiting: Vec<_> = others.take(8).map(|host| waits(door.arrive(&asks(host << 16), now(1)))).collect();
    let before = door.units(now(1));
    door.follow(TokensSpec { queue: 4, ..TokensSpec::new(1_000.0) }, now(1));
    assert!(door.units(now(1)) <= before + 1e-6, "no client gains by a change");
    let mut answers = || {
        let mut answers = (0, 0);
        waiting.retain_mut(|one| match poll(one) {
            Poll::Ready(Ok(token)) => {
                token.spend();
                answers.0 += 1;
                false
            }
            Poll::Ready(Err(_)) => {
                answers.1 += 1;
                false
            }
            Poll::Pending => true,
        });
        answers
    };
    assert_eq!(answers(), (0, 4), "the new line has room for four");
    door.tick(now(2));
    assert_eq!(answers(), (1, 0), "a thousand per second from now on");
    door.tick(now(300));
    assert_eq!(answers(), (3, 0));
}

#[test]
fn observing_keeps_to_the_capacity_and_spares_the_light() {
    let door = door(40.0, 64);
    let (mut heavy, mut light) = (0, (0, 0));
    for ms in 0..20_000_u64 {
        // two hundred per second beside one in a second
        if ms % 5 == 0 {
            heavy += u32::from(door.observe(&asks(1), now(ms)).map(Token::spend).is_ok());
        }
        if ms % 1_000 == 500 {
            light.0 += u32::from(door.observe(&asks(9 << 16), now(ms)).map(Token::spend).is_ok());
            light.1 += 1;
        }
    }
    assert_eq!(light.0, light.1, "the light pass");
    assert!(heavy + light.0 <= 200 + 40, "{heavy} and {} in 20 s at 10/s", light.0);
    assert!(heavy >= 170, "{heavy}: what the light leave is the heavy one's");
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for an answer; a thread that is never woken stays here.
fn wait(waiting: TokenWaiting) -> Result<Token, Standing> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut waiting = pin!(waiting);
    loop {
        match waiting.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn threads_take_no_more_than_was_promised_and_nobody_is_forgotten() {
    for threads in [2, 4] {
        let door = door(8.0, 3);
        let clock = AtomicU64::new(0);
        // a millisecond for each look, of which a unit takes a hundred
        let tick = || now(clock.fetch_add(1, Ordering::Relaxed));
        let served = AtomicU64::new(0);
        let working = AtomicU64::new(threads);
        thread::scope(|scope| {
            for host in 0..threads {
                let (door, tick, served, working) = (&door, &tick, &served, &working);
                scope.spawn(move || {
                    for turn in 0..400_u32 {
                        let answer = match door.arrive(&asks((host as u32) << 16), tick()) {
                            TokenEntry::Given(token) => Ok(token),
                            TokenEntry::Waits { mut waiting, .. } if turn % 7 == 3 => waiting.give_up(tick()),
                            TokenEntry::Waits { waiting, .. } if turn % 11 == 5 => {
                                drop(waiting);
                                continue;
                            }
                            TokenEntry::Waits { waiting, .. } => wait(waiting),
                            TokenEntry::PushedOut(standing) => Err(standing),
                        };
                        match answer {
                            Ok(token) if turn % 5 == 0 => drop(token),
                            Ok(token) => {
                                token.spend();
                                served.fetch_add(1, Ordering::SeqCst);
                            }
                            Err(_) => {}
                        }
                    }
                    working.fetch_sub(1, Ordering::SeqCst);
                });
            }
            scope.spawn(|| {
                while working.load(Ordering::SeqCst) > 0 {
                    door.tick(tick());
                    thread::yield_now();
                }
            });
        });
        let (served, passed) = (served.load(Ordering::SeqCst), clock.load(Ordering::SeqCst));
        assert!(served as f64 <= passed as f64 / 100.0 + 8.0, "{served} in {passed} ms");
        assert!(served > 50);
        assert_eq!(door.look(|tokens| (tokens.line().waiting(), tokens.line().holding())), (0, 0));
    }
}
