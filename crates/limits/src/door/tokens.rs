//! The units of a rate, shared fairly by those who ask at once.
//!
//! **Promise.** In every interval of length τ at most `rate·τ + burst` requests go on. While what is offered stays within
//! `rate·τ + burst − kept` in every interval, nobody waits and nobody is refused.

use std::time::Duration;

use super::line::{Act, Asks, Line, Ticket};
use super::nodes::LEVELS;
use crate::units::{Bytes, Timestamp};

/// What a door to a rate is made by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokensSpec {
    /// Units per second.
    pub rate: f64,
    /// The most units at one instant.
    pub burst: f64,
    /// Units that the heaviest leave to lighter ones.
    pub kept: f64,
    /// How many requests may wait.
    pub queue: u32,
    /// How many single clients a key, its network and the network around that stand for.
    pub shares: [f32; LEVELS],
}

impl TokensSpec {
    /// A door to so many units per second: a quarter of a second's at once, or 40, and half of them kept for the light.
    pub fn new(rate: f64) -> TokensSpec {
        let burst = (rate / 4.0).max(40.0);
        let queue = (rate as u32).clamp(64, 4_096);
        TokensSpec { rate, burst, kept: burst / 2.0, queue, shares: super::PlacesSpec::SHARES }
    }
}

/// A unit that was given: it can be given back as long as nothing was done with it.
pub type Unit = ();

/// The units of one rate, and those who wait for them.
#[derive(Debug)]
pub struct Tokens {
    spec: TokensSpec,
    tokens: f64,
    last: Timestamp,
    line: Line,
    /// The heaviest score lately, which fades.
    top: f32,
    passed: Timestamp,
}

const ROUNDS: f64 = 4.0;
const SHORTEST_HALF_LIFE: f64 = 1.0;
const LONGEST_HALF_LIFE: f64 = 60.0;
const STEP: Duration = Duration::from_millis(1);

impl Tokens {
    /// A door with all its units.
    pub fn new(spec: TokensSpec) -> Tokens {
        Tokens {
            tokens: spec.burst,
            last: Timestamp::ZERO,
            line: Line::new(spec.queue, 0, spec.shares),
            top: 0.0,
            passed: Timestamp::ZERO,
            spec,
        }
    }

    /// The memory that it holds, the same from its first request to its last.
    pub fn memory(&self) -> Bytes {
        Bytes(self.line.memory() as u64)
    }

    /// Who waits.
    pub fn line(&self) -> &Line {
        &self.line
    }

    /// A request has come. It goes on at once, waits, or is pushed out, and may push out another. `None`: it goes on, and nothing was
    /// counted, because nobody waits and there is enough for all.
    pub fn arrive(&mut self, asks: &Asks, now: Timestamp, acts: &mut impl FnMut(Act<Unit>)) -> Option<Ticket> {
        self.advance(now);
        if self.line.waiting() == 0 && self.tokens >= 1.0 + self.spec.kept {
            self.tokens -= 1.0;
            return None;
        }
        let ticket = self.line.join(asks, now)?;
        self.serve(now, acts);
        if self.line.waiting() > self.spec.queue
            && let Some(last) = self.line.last()
            && let Some(left) = self.line.leave(last)
        {
            self.line.nodes.quit(&left.nodes);
            acts(Act::PushedOut(last));
        }
        Some(ticket)
    }

    /// A request stops waiting, because its client left or its time is over. Says whether it still waited.
    pub fn leave(&mut self, ticket: Ticket, now: Timestamp, acts: &mut impl FnMut(Act<Unit>)) -> bool {
        self.advance(now);
        let Some(left) = self.line.leave(ticket) else { return false };
        self.line.nodes.quit(&left.nodes);
        self.serve(now, acts);
        true
    }

    /// A unit was not used after all.
    pub fn give_back(&mut self, now: Timestamp, acts: &mut impl FnMut(Act<Unit>)) {
        self.advance(now);
        self.tokens = (self.tokens + 1.0).min(self.spec.burst);
        self.serve(now, acts);
    }

    /// Time has passed: units have come.
    pub fn tick(&mut self, now: Timestamp, acts: &mut impl FnMut(Act<Unit>)) {
        self.advance(now);
        self.serve(now, acts);
    }

    /// When to [`tick`](Tokens::tick) next: at the next unit, while somebody waits.
    pub fn next_tick(&self) -> Option<Duration> {
        let to_next = (1.0 - self.tokens.fract()) / self.spec.rate;
        (self.line.waiting() > 0).then(|| Duration::from_secs_f64(to_next.max(0.001)))
    }

    fn advance(&mut self, now: Timestamp) {
        let seconds = now.since(self.last).as_secs_f64();
        if now > self.last {
            self.tokens = (self.tokens + seconds * self.spec.rate).min(self.spec.burst);
            self.last = now;
        }
        let passed = now.since(self.passed);
        if passed < STEP {
            return;
        }
        let round = f64::from(self.line.waiting()) / self.spec.rate;
        let half_life = (ROUNDS * round).clamp(SHORTEST_HALF_LIFE, LONGEST_HALF_LIFE);
        self.line.nodes.pass(passed.as_secs_f64() / half_life, 0.0);
        self.top *= (-passed.as_secs_f32()).exp2();
        self.passed = now;
    }

    fn serve(&mut self, _now: Timestamp, acts: &mut impl FnMut(Act<Unit>)) {
        while self.tokens >= 1.0 && self.line.waiting() > 0 {
            let Some(next) = self.line.next() else { return };
            self.top = self.top.max(next.top);
            if self.tokens < 1.0 + self.spec.kept * f64::from(Line::part(next.score, self.top)) {
                return;
            }
            let Some(left) = self.line.oldest(&next).and_then(|ticket| self.line.leave(ticket)) else { return };
            self.tokens -= 1.0;
            self.line.nodes.spend(&left.nodes, 1.0);
            self.line.nodes.quit(&left.nodes);
            acts(Act::Given(left.ticket, ()));
        }
    }
}
