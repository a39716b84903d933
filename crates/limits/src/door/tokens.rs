//! The units of a rate, shared fairly by those who ask at once.
//!
//! **Promise.** In every interval of length τ at most `rate·τ + burst` requests go on. While what is offered stays within
//! `rate·τ + burst − kept` in every interval, nobody waits and nobody is refused; where units are [reserved](Reserved) for more important
//! requests, and those are more than `kept`, they stand in its place.

use std::cell::Cell;
use std::time::Duration;

use super::bucket::Bucket;
use super::line::{Act, Asks, Line, Next, Standing, Ticket};
use super::nodes::{LEVELS, Path};
use super::places::{Arrived, PlacesSpec};
use super::reserved::Reserved;
use crate::units::{Bytes, Criticality, Timestamp};

/// What a door to a rate is made by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokensSpec {
    /// Units per second.
    pub rate: f64,
    /// The most units at one instant.
    pub burst: f64,
    /// Units that the heaviest leave to lighter ones: less than `burst`.
    pub kept: f64,
    /// How many requests may wait.
    pub queue: u32,
    /// How many single clients a key, its network and the network around that stand for.
    pub shares: [f32; LEVELS],
    /// The parts of `burst` for important requests.
    pub reserved: Reserved,
}

impl TokensSpec {
    /// How many at one instant where nothing is said about it: those of a quarter of a second, 40 at least.
    pub fn usual_burst(rate: f64) -> f64 {
        (rate / 4.0).max(40.0)
    }

    /// How many wait where nothing is said about it: those of a second, 64 to 4,096.
    pub fn usual_queue(rate: f64) -> u32 {
        (rate as u32).clamp(64, 4_096)
    }

    /// A door to so many units per second, and everything else as usual.
    pub fn new(rate: f64) -> TokensSpec {
        let burst = TokensSpec::usual_burst(rate);
        let queue = TokensSpec::usual_queue(rate);
        let reserved = Reserved::default();
        TokensSpec { rate, burst, kept: burst / 2.0, queue, shares: PlacesSpec::SHARES, reserved }
    }

    /// How many units a request leaves: those that are kept for lighter ones, or for more important ones, whichever is more.
    fn leaves(&self, part: f32, criticality: Criticality) -> f64 {
        (self.kept * f64::from(part)).max(self.burst * self.reserved.part_before(criticality))
    }

    /// The units, all there.
    pub fn bucket(&self) -> Bucket {
        Bucket::new(self.rate, self.burst, self.kept)
    }
}

/// Those who wait for the units of one rate. The units themselves are in a [`Bucket`] beside it, of which some take without asking here.
#[derive(Debug)]
pub struct Tokens {
    spec: TokensSpec,
    line: Line,
    /// The heaviest score lately, which fades.
    top: f32,
    half_life: f64,
    passed: Timestamp,
    /// When somebody last went without.
    short: Option<Timestamp>,
    /// When each class last asked while there was not enough for all.
    asked: [Option<Timestamp>; 4],
}

const ROUNDS: f64 = 4.0;
const SHORTEST_HALF_LIFE: f64 = 1.0;
const LONGEST_HALF_LIFE: f64 = 60.0;
/// For so long after somebody went without, all that is taken is counted.
const SHORT: Duration = Duration::from_secs(1);
/// For so long after a class asked, less important ones leave it what is kept. Its next request may come in seconds, at a small rate.
const LATELY: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(1);

/// A unit that was given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// When it was counted as used, by the clock of uses; `None` if it was not, as there was enough for all.
    counted: Option<f64>,
}

impl Unit {
    /// One of many, which counts for nothing.
    pub(super) const OF_MANY: Unit = Unit { counted: None };
}

impl Tokens {
    /// A door at which nobody waits.
    pub fn new(spec: TokensSpec) -> Tokens {
        Tokens {
            line: Line::new(spec.queue, 0, spec.shares),
            top: 0.0,
            half_life: SHORTEST_HALF_LIFE,
            passed: Timestamp::ZERO,
            short: None,
            asked: [None; 4],
            spec,
        }
    }

    /// What it was made by.
    pub fn spec(&self) -> &TokensSpec {
        &self.spec
    }

    /// The memory that it holds, the same from its first request to its last.
    pub fn memory(&self) -> Bytes {
        Bytes(self.line.memory() as u64)
    }

    /// Who waits.
    pub fn line(&self) -> &Line {
        &self.line
    }

    /// Remembers what a key or network used lately.
    pub fn learn(&mut self, hash: u64, used: f32) {
        self.line.nodes.learn(hash, used);
    }

    /// In this time a use counts half.
    pub fn half_life(&self) -> Duration {
        Duration::from_secs_f64(self.half_life)
    }

    /// In this time all that wait now have their turn.
    pub fn round(&self) -> Duration {
        Duration::from_secs_f64((f64::from(self.line.waiting()) / self.spec.rate).min(LONGEST_HALF_LIFE))
    }

    /// A request has come. Where nobody waits or went without lately, and there is enough for all, it goes on and nothing is counted.
    pub fn arrive(
        &mut self,
        bucket: &Bucket,
        asks: &Asks,
        now: Timestamp,
        acts: &mut impl FnMut(Act<Unit>),
    ) -> Arrived<Unit> {
        self.advance(now);
        if !self.is_contended(now) && bucket.take_of_many(self.spec.reserved.part_before(asks.criticality), now) {
            return Arrived::Given(Unit::OF_MANY);
        }
        self.note(asks.criticality, now);
        let Some(ticket) = self.line.join(asks, now) else { return Arrived::NoRoom };
        self.serve(bucket, now, acts);
        self.push_out(Some(ticket), now, acts);
        Arrived::Waits(ticket)
    }

    /// A request has come that does not wait: it takes a unit at once, in the order of those who would.
    ///
    /// # Errors
    /// How it stands: it would have to wait.
    pub fn observe(&mut self, bucket: &Bucket, asks: &Asks, now: Timestamp) -> Result<Unit, Standing> {
        self.advance(now);
        if !self.is_contended(now) && bucket.take_of_many(self.spec.reserved.part_before(asks.criticality), now) {
            return Ok(Unit::OF_MANY);
        }
        let (nodes, standing) = self.line.look(asks);
        self.top = self.top.max(standing.score);
        self.note(asks.criticality, now);
        let part = self.classes(now).part(asks.criticality, false, standing.score, self.top);
        let leaves = self.spec.leaves(part, asks.criticality);
        let taken = bucket.take(leaves, now);
        if taken {
            self.line.nodes.spend(&nodes, 1.0);
        }
        self.line.nodes.quit(&nodes);
        if !taken {
            self.short = Some(now);
            return Err(standing);
        }
        Ok(Unit { counted: Some(self.line.nodes.clock()) })
    }

    /// Whether somebody waits, or went without lately: then all that is taken is counted.
    pub fn is_contended(&self, now: Timestamp) -> bool {
        self.line.waiting() > 0 || self.short.is_some_and(|short| now.since(short) < SHORT)
    }

    /// A unit was not used: it is there again, and its use is forgotten.
    pub fn give_back(
        &mut self,
        bucket: &Bucket,
        unit: Unit,
        path: &Path,
        now: Timestamp,
        acts: &mut impl FnMut(Act<Unit>),
    ) {
        self.advance(now);
        bucket.put_back();
        if let Some(clock) = unit.counted {
            let nodes = self.line.nodes.enter(path);
            // as much as is left of it
            self.line.nodes.spend(&nodes, -(clock - self.line.nodes.clock()).exp2() as f32);
            self.line.nodes.quit(&nodes);
        }
        self.serve(bucket, now, acts);
    }

    /// Other words from now on. Those who wait stay, but for the greatest claims of a line that is too long now. What was used is
    /// remembered, by the same keys, and as many units are there as before.
    pub fn follow(&mut self, bucket: &Bucket, spec: TokensSpec, now: Timestamp, acts: &mut impl FnMut(Act<Unit>)) {
        self.advance(now);
        if spec != self.spec {
            self.line = self.line.rebuilt(spec.queue, 0, spec.shares, std::iter::empty());
            self.spec = spec;
            bucket.change(spec.rate, spec.burst, spec.kept, now);
        }
        self.serve(bucket, now, acts);
        self.push_out(None, now, acts);
    }

    /// A request stops waiting, because its client left or its time is over. Says how it stood, if it still waited.
    pub fn leave(
        &mut self,
        bucket: &Bucket,
        ticket: Ticket,
        now: Timestamp,
        acts: &mut impl FnMut(Act<Unit>),
    ) -> Option<Standing> {
        self.advance(now);
        let (left, _) = self.line.give_up(ticket)?;
        self.line.nodes.quit(&left.nodes);
        self.short = Some(now);
        self.serve(bucket, now, acts);
        Some(left.standing)
    }

    /// Time has passed.
    pub fn tick(&mut self, bucket: &Bucket, now: Timestamp, acts: &mut impl FnMut(Act<Unit>)) {
        self.advance(now);
        self.serve(bucket, now, acts);
    }

    /// When to [`tick`](Tokens::tick) next, while somebody waits: at the next unit.
    pub fn next_tick(&self, bucket: &Bucket, now: Timestamp) -> Option<Duration> {
        let whole = bucket.units(now).floor();
        let until = Duration::from_nanos(bucket.until(whole, now));
        (self.line.waiting() > 0).then(|| until.clamp(STEP, Duration::from_secs(1)))
    }

    fn push_out(&mut self, last: Option<Ticket>, now: Timestamp, acts: &mut impl FnMut(Act<Unit>)) {
        while self.line.waiting() > self.spec.queue
            && let Some((left, _)) = self.line.push_out(last, now)
        {
            self.line.nodes.quit(&left.nodes);
            self.short = Some(now);
            acts(Act::PushedOut(left.ticket, left.standing));
        }
    }

    /// A class asks while there is not enough for all.
    fn note(&mut self, criticality: Criticality, now: Timestamp) {
        if let Some(asked) = self.asked.get_mut(criticality.position()) {
            *asked = Some(now);
        }
    }

    /// The classes that compete now.
    fn classes(&self, now: Timestamp) -> Classes {
        let lately = |asked: &Option<Timestamp>| asked.is_some_and(|asked| now.since(asked) < LATELY);
        let most = self.asked.iter().position(lately).and_then(|at| Criticality::ALL.get(at)).copied();
        Classes { most: most.unwrap_or_default(), least: self.line.least_important() }
    }

    fn advance(&mut self, now: Timestamp) {
        let passed = now.since(self.passed);
        if passed < STEP {
            return;
        }
        let round = f64::from(self.line.waiting()) / self.spec.rate;
        self.half_life = (ROUNDS * round).clamp(SHORTEST_HALF_LIFE, LONGEST_HALF_LIFE);
        self.line.nodes.pass(passed.as_secs_f64() / self.half_life, 0.0);
        self.top *= (-passed.as_secs_f32()).exp2();
        self.passed = now;
    }

    fn serve(&mut self, bucket: &Bucket, now: Timestamp, acts: &mut impl FnMut(Act<Unit>)) {
        while self.line.waiting() > 0 && bucket.units(now) >= 1.0 {
            let (units, seen) = (bucket.units(now), Cell::new(self.top));
            let (classes, spec) = (self.classes(now), self.spec);
            let leaves = |next: &Next, top: f32| {
                spec.leaves(classes.part(next.criticality, next.is_turn, next.score, top), next.criticality)
            };
            let next = self.line.next_of(|next| {
                seen.set(seen.get().max(next.top));
                units >= 1.0 + leaves(next, seen.get())
            });
            self.top = seen.get();
            let Some(next) = next else { return };
            // another may have taken some since
            if !bucket.take(leaves(&next, self.top), now) {
                return;
            }
            let Some(left) = self.line.oldest(&next).and_then(|ticket| self.line.leave(ticket)) else { return };
            self.line.nodes.spend(&left.nodes, 1.0);
            self.line.nodes.quit(&left.nodes);
            acts(Act::Given(left.ticket, Unit { counted: Some(self.line.nodes.clock()) }));
        }
    }
}

/// The most important class that asked lately, and the least important one that waits.
#[derive(Debug, Clone, Copy)]
struct Classes {
    most: Criticality,
    least: Criticality,
}

impl Classes {
    /// Which part of the kept units a request must leave: all of it where more important ones come, but in the turn of the least important,
    /// so that nobody starves; none where less important ones wait, which alone would have it; else [by its weight](part).
    fn part(self, criticality: Criticality, is_turn: bool, score: f32, top: f32) -> f32 {
        match criticality {
            _ if criticality > self.most => f32::from(u8::from(!is_turn)),
            _ if criticality < self.least => 0.0,
            _ => part(score, top),
        }
    }
}

/// Which part of the kept units a request must leave: none up to two thirds of the heaviest, all from five sixths on. A client that asks for
/// three tenths of the rate beside one flood stays below the first, and those that weigh about as much as the heaviest stay above the second.
fn part(score: f32, top: f32) -> f32 {
    if top <= 0.0 { 0.0 } else { (6.0 * score / top - 4.0).clamp(0.0, 1.0) }
}
