//! [`Tokens`] between threads.
//!
//! While nobody waits and there is enough for all, a unit is taken by an exchange of one word, and nothing is counted. Else a request comes
//! to the lock, and waits. One that waits is answered under the lock and woken when the lock is free again. One that is dropped looks what
//! became of it first: a unit that was given to it meanwhile is given back.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::bucket::Bucket;
use super::line::{Asks, Standing, Ticket};
use super::nodes::Path;
use super::outcomes::{Outcome, Outcomes};
use super::places::Arrived;
use super::reserved::Reserved;
use super::tokens::{Tokens, TokensSpec, Unit};
use crate::saved::{Fault, Reader, Writer};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use crate::units::{Bytes, Timestamp};

/// How many nodes are read at once to be saved.
const PART: usize = 1_024;

/// The door to a rate.
#[derive(Debug)]
pub struct TokenDoor {
    /// Whether somebody waits, or went without lately. Written under the lock alone. Relaxed: who reads it too early takes a unit only
    /// where there is enough for all.
    contended: AtomicBool,
    /// The parts that each class leaves, as [`Reserved::word`] writes them. Relaxed: it says nothing of what else is in memory.
    reserved: AtomicU64,
    bucket: Bucket,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    tokens: Tokens,
    outcomes: Outcomes<Unit>,
    /// Whether somebody sees to [`TokenDoor::tick`].
    ticking: bool,
    /// The latest time that was told.
    now: Timestamp,
}

/// What became of a request on its arrival.
#[derive(Debug)]
pub enum TokenEntry {
    /// It may go on.
    Given(Token),
    /// It waits. `tick`: from now on the caller is to see to [`TokenDoor::tick`].
    Waits {
        /// To be awaited.
        waiting: TokenWaiting,
        /// Whether nobody else sees to the time.
        tick: bool,
    },
    /// All others that wait used less, and the line is full.
    PushedOut(Standing),
}

impl TokenDoor {
    /// A door at which nobody waits; all units are there.
    pub fn new(spec: TokensSpec) -> Arc<TokenDoor> {
        Arc::new(TokenDoor {
            contended: AtomicBool::new(false),
            reserved: AtomicU64::new(spec.reserved.word()),
            bucket: spec.bucket(),
            inner: Mutex::new(Inner {
                outcomes: Outcomes::new(spec.queue as usize + 1),
                tokens: Tokens::new(spec),
                ticking: false,
                now: Timestamp::ZERO,
            }),
        })
    }

    /// The memory that it holds, the same from its first request to its last.
    pub fn memory(&self) -> Bytes {
        let inner = self.inner.lock();
        Bytes(inner.tokens.memory().0 + inner.outcomes.memory() as u64)
    }

    /// How many units there are.
    pub fn units(&self, now: Timestamp) -> f64 {
        self.bucket.units(now)
    }

    /// Reads the numbers of those who wait.
    pub fn look<R>(&self, look: impl FnOnce(&Tokens) -> R) -> R {
        look(&self.inner.lock().tokens)
    }

    /// A unit, if nobody waits and there is enough for all.
    #[inline]
    pub fn take(self: &Arc<Self>, asks: &Asks, now: Timestamp) -> Option<Token> {
        if self.contended.load(Ordering::Relaxed) {
            return None;
        }
        let part = match self.reserved.load(Ordering::Relaxed) {
            0 => 0.0,
            word => Reserved::from_word(word).part_before(asks.criticality),
        };
        self.bucket.take_of_many(part, now).then(|| self.token(Unit::OF_MANY, &asks.path))
    }

    fn token(self: &Arc<Self>, unit: Unit, path: &Path) -> Token {
        Token { door: Arc::clone(self), unit, path: *path, spent: false }
    }

    /// A request has come: it takes a unit at once if nobody waits and there is enough for all.
    pub fn arrive(self: &Arc<Self>, asks: &Asks, now: Timestamp) -> TokenEntry {
        match self.take(asks, now) {
            Some(token) => TokenEntry::Given(token),
            None => self.queue(asks, now),
        }
    }

    fn queue(self: &Arc<Self>, asks: &Asks, now: Timestamp) -> TokenEntry {
        let entered = self.locked(now, |inner, bucket, now| {
            let outcomes = &mut inner.outcomes;
            match inner.tokens.arrive(bucket, asks, now, &mut |act| outcomes.note(act)) {
                Arrived::Given(unit) => Err(Ok(unit)),
                Arrived::NoRoom => Err(Err(Standing::default())),
                Arrived::Waits(ticket) => {
                    let outcome = outcomes.begin(ticket);
                    match outcome.answer() {
                        Some(answer) => Err(answer),
                        None => Ok((ticket, outcome, !std::mem::replace(&mut inner.ticking, true))),
                    }
                }
            }
        });
        match entered {
            Err(Ok(unit)) => TokenEntry::Given(self.token(unit, &asks.path)),
            Err(Err(standing)) => TokenEntry::PushedOut(standing),
            Ok((ticket, outcome, tick)) => {
                let (door, path) = (Arc::clone(self), asks.path);
                TokenEntry::Waits { waiting: TokenWaiting { door, path, ticket, outcome, over: false }, tick }
            }
        }
    }

    /// A request has come that never waits: it takes a unit at once, in the order of those who would.
    ///
    /// # Errors
    /// How it stands: it would have to wait.
    pub fn observe(self: &Arc<Self>, asks: &Asks, now: Timestamp) -> Result<Token, Standing> {
        if let Some(token) = self.take(asks, now) {
            return Ok(token);
        }
        let observed = self.locked(now, |inner, bucket, now| inner.tokens.observe(bucket, asks, now));
        observed.map(|unit| self.token(unit, &asks.path))
    }

    /// Time has passed. Says when to look again; `None` when nobody waits, after which the caller need see to nothing.
    pub fn tick(&self, now: Timestamp) -> Option<Duration> {
        self.locked(now, |inner, bucket, now| {
            let outcomes = &mut inner.outcomes;
            inner.tokens.tick(bucket, now, &mut |act| outcomes.note(act));
            let next = inner.tokens.next_tick(bucket, now);
            inner.ticking = next.is_some();
            next
        })
    }

    /// Other words from now on. Those who wait stay, what was used is remembered, and as many units are there as before.
    pub fn follow(&self, spec: TokensSpec, now: Timestamp) {
        self.locked(now, |inner, bucket, now| {
            inner.outcomes.grow(spec.queue as usize + 1);
            self.reserved.store(spec.reserved.word(), Ordering::Relaxed);
            let outcomes = &mut inner.outcomes;
            inner.tokens.follow(bucket, spec, now, &mut |act| outcomes.note(act));
        });
    }

    /// Takes a unit for a request of another process, which cannot wait here, if one is there.
    pub fn take_one(&self, now: Timestamp) -> bool {
        self.bucket.take(0.0, now)
    }

    /// Takes a unit whether it is there or not: it is missing later.
    pub fn take_anyway(&self, now: Timestamp) {
        self.bucket.take_anyway(now);
    }

    /// Writes how many units there are, and what was used lately by keys and networks. Requests go on.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn save(&self, to: &mut Writer<'_>, now: Timestamp) -> io::Result<()> {
        // no request waits longer than for a part; of two numbers of a node the later counts
        let (mut uses, mut part, mut next) = (BTreeMap::new(), Vec::with_capacity(PART), Some(0));
        while let Some(from) = next {
            next = self.inner.lock().tokens.line().uses(from, PART, &mut part);
            to.looked_at(PART * size_of::<[u64; 3]>());
            uses.extend(part.drain(..));
        }
        to.number(self.units(now).to_bits())?;
        to.number(uses.len() as u64)?;
        for (hash, used) in uses {
            to.number(hash)?;
            to.number(u64::from(used.to_bits()))?;
        }
        Ok(())
    }

    /// Takes over what was saved at `saved`, into a door that nobody uses yet. Units that came since are there.
    ///
    /// # Errors
    /// Damaged bytes.
    pub fn restore(&self, from: &mut Reader<'_>, saved: Timestamp) -> Result<(), Fault> {
        self.bucket.fill(f64::from_bits(from.number()?), saved);
        let mut inner = self.inner.lock();
        for _ in 0..from.number()? {
            let (hash, used) = (from.number()?, from.number_up_to(u32::MAX.into())?);
            inner.tokens.learn(hash, f32::from_bits(used as u32));
        }
        Ok(())
    }

    fn give_back(&self, unit: Unit, path: &Path) {
        let give_back = |inner: &mut Inner, bucket: &Bucket, now| {
            let outcomes = &mut inner.outcomes;
            inner.tokens.give_back(bucket, unit, path, now, &mut |act| outcomes.note(act));
        };
        self.locked(Timestamp::ZERO, give_back);
    }

    /// Does something under the lock, then tells whether somebody waits and wakes those who were answered. The time is the latest that was
    /// told.
    fn locked<R>(&self, now: Timestamp, work: impl FnOnce(&mut Inner, &Bucket, Timestamp) -> R) -> R {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        inner.now = inner.now.max(now);
        let result = work(inner, &self.bucket, inner.now);
        self.contended.store(inner.tokens.is_contended(inner.now), Ordering::Relaxed);
        let woken = inner.outcomes.woken();
        drop(guard);
        woken.into_iter().for_each(std::task::Waker::wake);
        result
    }
}

/// A unit of a rate. Dropped before it is [spent](Token::spend), it is given back.
#[derive(Debug)]
#[must_use = "a unit that is dropped at once was not used"]
pub struct Token {
    door: Arc<TokenDoor>,
    unit: Unit,
    path: Path,
    spent: bool,
}

impl Token {
    /// The request goes on.
    pub fn spend(mut self) {
        self.spent = true;
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if !self.spent {
            self.door.give_back(self.unit, &self.path);
        }
    }
}

/// A request that waits for a unit. Dropping it takes it out of the line.
#[derive(Debug)]
#[must_use = "who does not wait is dropped out of the line"]
pub struct TokenWaiting {
    door: Arc<TokenDoor>,
    path: Path,
    ticket: Ticket,
    outcome: Arc<Outcome<Unit>>,
    over: bool,
}

impl Future for TokenWaiting {
    type Output = Result<Token, Standing>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = self.outcome.poll(context);
        self.over = outcome.is_ready();
        outcome.map_ok(|unit| self.door.token(unit, &self.path))
    }
}

impl TokenWaiting {
    /// The door at which it waits.
    pub fn door(&self) -> &Arc<TokenDoor> {
        &self.door
    }

    /// Its time is over.
    ///
    /// # Errors
    /// How it stood, unless it was given a unit meanwhile.
    pub fn give_up(&mut self, now: Timestamp) -> Result<Token, Standing> {
        let (ticket, outcome) = (self.ticket, Arc::clone(&self.outcome));
        self.over = true;
        let answer = self.door.locked(now, |inner, bucket, now| {
            if let Some(answer) = outcome.answer() {
                return answer;
            }
            let outcomes = &mut inner.outcomes;
            outcomes.forget(ticket);
            Err(inner.tokens.leave(bucket, ticket, now, &mut |act| outcomes.note(act)).unwrap_or_default())
        });
        answer.map(|unit| self.door.token(unit, &self.path))
    }
}

impl Drop for TokenWaiting {
    fn drop(&mut self) {
        if !self.over {
            // a unit that was given meanwhile is given back
            drop(self.give_up(Timestamp::ZERO));
        }
    }
}
