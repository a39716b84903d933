//! The gate without sockets: a policy's limits under a clock of their own, from a request's arrival to its last byte.
//!
//! [`OfflineGate::submit`] judges a request at its moment and takes it along the path of the live gate's admission: a unit of its
//! `fair_share`, the limits that delay, a place at the origin, the charge. [`OfflineGate::advance`] lets time pass. Both report every step of every request to the
//! caller.
//!
//! One queue holds all that is due later, in the order of time. At one instant ends come before beginnings, so that a place that is
//! given back is free for a request that arrives just then. The seed is fixed, and dice come with each request: the same requests
//! have the same outcome every time.
//!
//! Not simulated: connections, TLS, PROXY headers, slow clients, retries, health checks and adaptive caps.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use http::{HeaderMap, StatusCode};

use crate::client::Client;
use crate::door::{PlaceId, Ticket};
use crate::engine::{Arrival, Engine, Evaluation, Holds, RateWait, Refusal, Verdict};
use crate::policy::{Action, Policy, Route};
use crate::request::Request;
use crate::sketch::Seed;
use crate::units::{OutOfRange, Timestamp};

mod course;
mod event;
mod places;
mod rates;
#[cfg(test)]
mod tests;

pub use course::{Course, PlaceAt};
use event::{Due, Event};
use places::{Asked, Places};
use rates::{Left, Rates};

/// Keys are hashed under a known seed, so that the same requests have the same outcome.
pub const SEED: Seed = Seed::from_bytes(*b"tidegate replays");

/// The least distance of a first request from zero, so that a level of zero means "long ago", as with the live clock.
pub const HEAD_START: Duration = Duration::from_secs(400 * 86_400);

/// Bodies pass in pieces of this size, as through the live gate's buffers.
const PIECE: u64 = 64 << 10;

/// The longest pause of a body between two pieces, as in the live gate.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A policy and the state of its limits, and the requests under way. Each request carries a `T` of the caller's.
#[derive(Debug)]
pub struct OfflineGate<'r, T> {
    engine: Engine,
    /// By origin of the policy.
    places: Vec<Places<Box<Exchange<'r, T>>>>,
    rates: Rates<Box<Exchange<'r, T>>>,
    now: Timestamp,
    upkeep: Duration,
    maintained: u128,
    queue: BinaryHeap<Reverse<Event<Exchange<'r, T>>>>,
    events: u64,
}

/// A request to be judged.
#[derive(Debug)]
pub struct Submission<'a, 'r, T> {
    /// The head.
    pub request: &'a Request<'a>,
    /// The client, if it is known; none means that it is found by the policy.
    pub client: Option<Client>,
    /// When it arrives, not before an earlier one; and its dice.
    pub arrival: Arrival,
    /// What follows its admission.
    pub course: Course<'r>,
    /// The caller's own.
    pub of: T,
}

/// A step of a request.
#[derive(Debug)]
pub struct Step<'s, T> {
    /// The gate's engine.
    pub engine: &'s Engine,
    /// The request, as submitted by the caller.
    pub of: &'s T,
    /// Its decision so far.
    pub evaluation: &'s Evaluation,
    /// The moment.
    pub at: Timestamp,
    /// The kind of step.
    pub what: What<'s>,
}

/// The kind of a step.
#[derive(Debug)]
pub enum What<'s> {
    /// A limit makes it wait.
    Waits,
    /// It is refused.
    Refused,
    /// It is admitted and charged.
    Admitted,
    /// It is admitted, and its body is larger than its route takes.
    BodyTooLarge,
    /// It is admitted, and the gate answers it itself, as it is a CORS preflight.
    Preflight,
    /// The answer begins, with this status and these fields.
    Answered(StatusCode, &'s HeaderMap),
}

/// A request under way.
#[derive(Debug)]
struct Exchange<'r, T> {
    of: T,
    course: Course<'r>,
    evaluation: Evaluation,
    holds: Holds,
    /// The origin, and the place there.
    place: Option<(usize, PlaceId)>,
    /// Bytes of the request's body, then of the answer's, that are still to pass.
    left: u64,
    answered: bool,
}

/// What is next for a request.
enum Next {
    Over,
    At(Timestamp, Due),
    Queue(usize, Ticket, Duration),
    Rate(RateWait),
}

impl<'r, T> OfflineGate<'r, T> {
    /// A gate whose limits are empty. `zero`: the wall clock at the origin of stamps, in nanoseconds since 1970. `upkeep`: the time
    /// from one housekeeping to the next, a second in the live gate; longer does no harm.
    ///
    /// # Errors
    /// The name of a limit whose numbers its limiter refuses; a loaded policy has none.
    pub fn new(policy: Policy, zero: u64, upkeep: Duration) -> Result<OfflineGate<'r, T>, (String, OutOfRange)> {
        let places = policy.origins.iter().map(|origin| Places::new(origin.inflight.as_ref())).collect();
        Ok(OfflineGate {
            engine: Engine::new(policy, &SEED, zero)?,
            places,
            rates: Rates::new(),
            now: Timestamp::ZERO,
            upkeep,
            maintained: 0,
            queue: BinaryHeap::new(),
            events: 0,
        })
    }

    /// The policy and its limiters.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The moment of the last event.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Judges a request, after all that is due before it.
    #[inline]
    pub fn submit(&mut self, submission: Submission<'_, 'r, T>, report: &mut impl FnMut(Step<'_, T>)) {
        let Submission { request, client, arrival, course, of } = submission;
        self.advance(arrival.at, report);
        self.reach(arrival.at);
        let evaluation = match client {
            None => self.engine.judge(request, arrival),
            Some(_) => {
                let mut evaluation = Evaluation::new(arrival);
                self.engine.judge_into(request, client, &mut evaluation);
                evaluation
            }
        };
        let left = if let Course::Played { body, .. } = course { body } else { 0 };
        let mut exchange = Exchange { of, course, evaluation, holds: Holds::new(), place: None, left, answered: false };
        match self.take(&mut exchange, Due::GoesOn, report) {
            Next::Over => self.end(exchange, report),
            next => self.put(Box::new(exchange), next, report),
        }
        self.settle_rates(report);
    }

    /// Lets everything happen that is due until `until`.
    pub fn advance(&mut self, until: Timestamp, report: &mut impl FnMut(Step<'_, T>)) {
        while self.queue.peek().is_some_and(|Reverse(event)| event.at <= until)
            && let Some(Reverse(event)) = self.queue.pop()
        {
            self.reach(event.at);
            if let Due::GiveUp(origin, ticket) = event.what {
                let now = self.now;
                if let Some(mut exchange) = self.places.get_mut(origin).and_then(|places| places.give_up(ticket, now)) {
                    self.refuse(&mut exchange, report);
                }
                self.settle(origin, report);
                continue;
            }
            if let Due::Tick(door) = event.what {
                self.tick(door);
                self.settle_rates(report);
                continue;
            }
            if let Due::Late(number) = event.what {
                if let Some(left) = self.rates.give_up(number, self.now) {
                    self.leave_rate(left, report);
                }
                self.settle_rates(report);
                continue;
            }
            if let Due::Look(origin) = event.what {
                if let Some(places) = self.places.get_mut(origin) {
                    places.ticks = false;
                    places.tick(self.now);
                }
                self.settle(origin, report);
                continue;
            }
            let Some(mut exchange) = event.exchange else { continue };
            match self.take(&mut exchange, event.what, report) {
                Next::Over => self.end(*exchange, report),
                next => self.put(exchange, next, report),
            }
            self.settle_rates(report);
        }
    }

    /// Moves the clock, and does the housekeeping that is due.
    #[inline]
    fn reach(&mut self, at: Timestamp) {
        self.now = at;
        let maintained = u128::from(at.nanos()) / self.upkeep.as_nanos().max(1);
        if maintained != self.maintained {
            self.maintained = maintained;
            self.engine.maintain(at);
            self.engine.settle_bans(at);
        }
    }

    /// Takes a request as far as it comes now.
    #[inline]
    fn take(&mut self, exchange: &mut Exchange<'r, T>, due: Due, report: &mut impl FnMut(Step<'_, T>)) -> Next {
        match due {
            Due::GoesOn => self.pass_limits_that_delay(exchange, report),
            Due::Placed => self.admit(exchange, report),
            Due::Answer => self.answer(exchange, report),
            Due::Piece => self.pass(exchange, report),
            Due::GiveUp(..) | Due::Look(_) | Due::Tick(_) | Due::Late(_) => Next::Over,
        }
    }

    fn put(&mut self, exchange: Box<Exchange<'r, T>>, next: Next, report: &mut impl FnMut(Step<'_, T>)) {
        match next {
            Next::Over => {}
            Next::At(at, what) => self.schedule(at, what, Some(exchange)),
            Next::Queue(origin, ticket, longest) => {
                if let Some(places) = self.places.get_mut(origin) {
                    places.put(ticket, exchange);
                }
                self.schedule(self.now.after(longest), Due::GiveUp(origin, ticket), None);
                self.settle(origin, report);
            }
            Next::Rate(wait) => {
                let longest = wait.longest;
                let (number, tick) = self.rates.put(exchange, wait);
                self.schedule(self.now.after(longest), Due::Late(number), None);
                if let Some(door) = tick {
                    self.tick(door);
                }
            }
        }
    }

    /// Looks at a door whose time nobody else sees to, now and while somebody waits.
    fn tick(&mut self, door: usize) {
        if let Some(wait) = self.rates.tick(door, self.now) {
            self.schedule(self.now.after(wait), Due::Tick(door), None);
        }
    }

    /// Sends those on who were given a unit of their `fair_share`, and refuses those who were pushed out of its queue.
    #[inline]
    fn settle_rates(&mut self, report: &mut impl FnMut(Step<'_, T>)) {
        while let Some(left) = self.rates.answered() {
            self.leave_rate(left, report);
        }
    }

    fn leave_rate(
        &mut self,
        (mut exchange, wait, answer): Left<Box<Exchange<'r, T>>>,
        report: &mut impl FnMut(Step<'_, T>),
    ) {
        self.engine.leave_rate(&mut exchange.evaluation, &wait, answer, self.now);
        match exchange.evaluation.decision.verdict {
            Verdict::Admitted => self.schedule(self.now, Due::GoesOn, Some(exchange)),
            Verdict::Refused(_) => report(self.step(&exchange, What::Refused)),
        }
    }

    fn schedule(&mut self, at: Timestamp, what: Due, exchange: Option<Box<Exchange<'r, T>>>) {
        self.events += 1;
        self.queue.push(Reverse(Event { at, what, order: self.events, exchange }));
    }

    /// Sends those on who were given a place at an origin, and refuses those who were pushed out of its queue.
    fn settle(&mut self, origin: usize, report: &mut impl FnMut(Step<'_, T>)) {
        while let Some((mut exchange, answer)) = self.places.get_mut(origin).and_then(Places::answered) {
            match answer {
                Ok(place) => {
                    exchange.place = Some((origin, place));
                    self.schedule(self.now, Due::Placed, Some(exchange));
                }
                Err(_) => self.refuse(&mut exchange, report),
            }
        }
        if let Some(places) = self.places.get_mut(origin)
            && let Some(wait) = places.next_tick()
        {
            places.ticks = true;
            self.schedule(self.now.after(wait), Due::Look(origin), None);
        }
    }

    /// Gives back all that a request holds.
    #[inline]
    fn end(&mut self, exchange: Exchange<'r, T>, report: &mut impl FnMut(Step<'_, T>)) {
        let Exchange { holds, place, .. } = exchange;
        drop(holds);
        let Some((origin, place)) = place else { return };
        if let Some(places) = self.places.get_mut(origin) {
            places.give_back(place, self.now);
        }
        self.settle(origin, report);
    }

    /// Takes a unit of its `fair_share`, where the route has one, and charges the limits that delay until one makes the request wait.
    #[inline]
    fn pass_limits_that_delay(&mut self, exchange: &mut Exchange<'r, T>, report: &mut impl FnMut(Step<'_, T>)) -> Next {
        if let Some(wait) = self.engine.enter_rate(&mut exchange.evaluation, self.now) {
            return Next::Rate(wait);
        }
        self.engine.reserve(&mut exchange.evaluation, self.now);
        let goes_on = exchange.evaluation.decision.goes_on();
        match exchange.evaluation.decision.verdict {
            Verdict::Admitted if goes_on > self.now => {
                report(self.step(exchange, What::Waits));
                Next::At(goes_on, Due::GoesOn)
            }
            Verdict::Admitted => self.find_place(exchange, report),
            Verdict::Refused(_) => {
                report(self.step(exchange, What::Refused));
                Next::Over
            }
        }
    }

    /// Asks for a place at the origin, where the request goes to one.
    #[inline]
    fn find_place(&mut self, exchange: &mut Exchange<'r, T>, report: &mut impl FnMut(Step<'_, T>)) -> Next {
        let asked = match exchange.course {
            _ if exchange.evaluation.decision.answers_preflight => Asked::Uncapped,
            Course::Known { place: PlaceAt::Found, .. } => Asked::Uncapped,
            Course::Known { place: PlaceAt::NotFound, .. } => Asked::Full,
            Course::Known { .. } | Course::Played { .. } => match self.route(exchange).map(|route| &route.action) {
                Some(Action::Forward(origin)) => {
                    let (origin, now, asks) = (*origin, self.now, exchange.evaluation.door);
                    match self.places.get_mut(origin).map_or(Asked::Uncapped, |places| places.ask(asks.as_ref(), now)) {
                        Asked::Taken(place) => {
                            exchange.place = Some((origin, place));
                            Asked::Uncapped
                        }
                        Asked::Queue(ticket, longest) => return Next::Queue(origin, ticket, longest),
                        asked => asked,
                    }
                }
                Some(Action::Respond(_)) | None => Asked::Uncapped,
            },
        };
        match asked {
            Asked::Full => {
                self.refuse(exchange, report);
                Next::Over
            }
            _ => self.admit(exchange, report),
        }
    }

    /// Refuses a request that the origin has no place for.
    fn refuse(&self, exchange: &mut Exchange<'r, T>, report: &mut impl FnMut(Step<'_, T>)) {
        exchange.evaluation.decision.verdict = Verdict::Refused(Refusal::OriginFull);
        exchange.evaluation.token = None;
        report(self.step(exchange, What::Refused));
    }

    /// Charges all limits, and sends the request on.
    #[inline]
    fn admit(&mut self, exchange: &mut Exchange<'r, T>, report: &mut impl FnMut(Step<'_, T>)) -> Next {
        self.engine.admit_into(&mut exchange.evaluation, self.now, &mut exchange.holds);
        if exchange.evaluation.decision.verdict != Verdict::Admitted {
            report(self.step(exchange, What::Refused));
            return Next::Over;
        }
        report(self.step(exchange, What::Admitted));
        if exchange.evaluation.decision.answers_preflight {
            report(self.step(exchange, What::Preflight));
            return Next::Over;
        }
        match exchange.course {
            Course::Known { takes, .. } => {
                let holds_nothing = exchange.holds.is_empty() && exchange.place.is_none();
                if holds_nothing && !self.engine.counts_bytes(&exchange.evaluation) {
                    return Next::Over;
                }
                self.engine.sent(&mut exchange.holds);
                self.answer_after(exchange, takes, report)
            }
            Course::Played { body, .. } => {
                let Some(route) = self.route(exchange) else { return Next::Over };
                if route.body_limit.is_some_and(|limit| body > limit.0) {
                    report(self.step(exchange, What::BodyTooLarge));
                    return Next::Over;
                }
                if matches!(route.action, Action::Forward(_)) {
                    self.engine.sent(&mut exchange.holds);
                }
                if !self.engine.counts_bytes(&exchange.evaluation) {
                    exchange.left = 0;
                }
                self.pass(exchange, report)
            }
        }
    }

    fn answer_after(
        &mut self,
        exchange: &mut Exchange<'r, T>,
        takes: Duration,
        report: &mut impl FnMut(Step<'_, T>),
    ) -> Next {
        if takes.is_zero() { self.answer(exchange, report) } else { Next::At(self.now.after(takes), Due::Answer) }
    }

    /// Lets the pieces of a body pass, up to one that is held back.
    fn pass(&mut self, exchange: &mut Exchange<'r, T>, report: &mut impl FnMut(Step<'_, T>)) -> Next {
        while exchange.left > 0 {
            let piece = exchange.left.min(PIECE);
            exchange.left -= piece;
            let pause = self.engine.carried(&mut exchange.evaluation, piece, self.now);
            if pause > 0 {
                let pause = Duration::from_nanos(pause).min(LONGEST_PAUSE);
                return Next::At(self.now.after(pause), Due::Piece);
            }
        }
        let Course::Played { reply, .. } = exchange.course else { return Next::Over };
        if exchange.answered {
            return Next::Over;
        }
        let forwards = self.route(exchange).is_some_and(|route| matches!(route.action, Action::Forward(_)));
        self.answer_after(exchange, if forwards { reply.takes } else { Duration::ZERO }, report)
    }

    /// Begins the answer, the origin's or the route's own.
    fn answer(&mut self, exchange: &mut Exchange<'r, T>, report: &mut impl FnMut(Step<'_, T>)) -> Next {
        let now = self.now;
        let reply = match exchange.course {
            Course::Known { status, bytes, .. } => {
                let Exchange { evaluation, holds, .. } = exchange;
                if let Some(status) = status {
                    self.engine.answered(evaluation, holds, status, &HeaderMap::new(), now);
                }
                self.engine.carried(evaluation, bytes, now);
                return Next::Over;
            }
            Course::Played { reply, .. } => reply,
        };
        let Some(route) = self.route(exchange) else { return Next::Over };
        let (status, headers, body) = match &route.action {
            Action::Forward(_) => (reply.status, &reply.headers, reply.body),
            Action::Respond(fixed) => (fixed.status, &fixed.headers, fixed.body.len() as u64),
        };
        self.engine.answered(&exchange.evaluation, &mut exchange.holds, status, headers, now);
        exchange.answered = true;
        exchange.left = if self.engine.counts_bytes(&exchange.evaluation) { body } else { 0 };
        report(self.step(exchange, What::Answered(status, headers)));
        self.pass(exchange, report)
    }

    fn route(&self, exchange: &Exchange<'r, T>) -> Option<&Route> {
        exchange.evaluation.decision.route.and_then(|route| self.engine.policy().routes.route(route))
    }

    fn step<'s>(&'s self, exchange: &'s Exchange<'r, T>, what: What<'s>) -> Step<'s, T> {
        Step { engine: &self.engine, of: &exchange.of, evaluation: &exchange.evaluation, at: self.now, what }
    }
}
