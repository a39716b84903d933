//! The requests that wait at the doors of rates: the live gate's own doors, in virtual time.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::door::{Standing, Token, TokenDoor};
use crate::engine::{NoPlaceReason, RateWait};
use crate::units::Timestamp;

/// The requests `W` that wait for a unit.
#[derive(Debug)]
pub struct Rates<W> {
    waiting: HashMap<u64, (W, RateWait)>,
    /// Doors whose time somebody sees to, by number.
    doors: Vec<Arc<TokenDoor>>,
    numbers: u64,
    answered: Arc<Answered>,
}

/// The numbers of those who were answered.
#[derive(Debug, Default)]
struct Answered(Mutex<VecDeque<u64>>);

/// Notes that the request of this number was answered.
struct Note(u64, Arc<Answered>);

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.1.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(self.0);
    }
}

/// A request whose wait is over: itself, how it waited, and what it was given.
pub type Left<W> = (W, RateWait, Result<Token, (NoPlaceReason, Standing)>);

impl<W> Rates<W> {
    /// Nobody waits.
    pub fn new() -> Rates<W> {
        Rates { waiting: HashMap::new(), doors: Vec::new(), numbers: 0, answered: Arc::default() }
    }

    /// Puts a request into the queue. Returns its number, and that of the door if its time is to be seen to from now on.
    pub fn put(&mut self, waits: W, mut wait: RateWait) -> (u64, Option<usize>) {
        self.numbers += 1;
        let waker = Waker::from(Arc::new(Note(self.numbers, Arc::clone(&self.answered))));
        // who waits has no answer yet, as nobody else asks between
        let _pending = Pin::new(&mut wait.waiting).poll(&mut Context::from_waker(&waker));
        let tick = wait.tick.then(|| self.number(wait.waiting.door()));
        self.waiting.insert(self.numbers, (waits, wait));
        (self.numbers, tick)
    }

    fn number(&mut self, door: &Arc<TokenDoor>) -> usize {
        self.doors.iter().position(|known| Arc::ptr_eq(known, door)).unwrap_or_else(|| {
            self.doors.push(Arc::clone(door));
            self.doors.len() - 1
        })
    }

    /// Time has passed at a door. Says in what time to look again, while somebody waits.
    pub fn tick(&self, door: usize, now: Timestamp) -> Option<Duration> {
        self.doors.get(door)?.tick(now)
    }

    /// The next request that was given a unit, or was pushed out.
    pub fn answered(&mut self) -> Option<Left<W>> {
        while !self.waiting.is_empty() {
            let number = self.answered.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()?;
            let Some((waits, mut wait)) = self.waiting.remove(&number) else { continue };
            if let Poll::Ready(answer) = Pin::new(&mut wait.waiting).poll(&mut Context::from_waker(Waker::noop())) {
                return Some((waits, wait, answer.map_err(|standing| (NoPlaceReason::RatePushedOut, standing))));
            }
        }
        None
    }

    /// Takes a request out of the queue, if it still waits.
    pub fn give_up(&mut self, number: u64, now: Timestamp) -> Option<Left<W>> {
        let (waits, mut wait) = self.waiting.remove(&number)?;
        let answer = wait.give_up(now);
        Some((waits, wait, answer))
    }
}
