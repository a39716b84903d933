//! The time of a case, and what happens in it: requests arrive, wait, find a place, are answered, and give their places back.
//!
//! One queue holds what is to happen, in the order of time; at one instant what ends comes before what begins, so that a
//! place that is given back is free for who comes just then.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tidegate_http::path::EscapedSlash;

use super::capacity::{Asked, Places};
use super::message::Messages;
use super::outcome::Outcome;
use super::seen::Seen;
use super::tally::Tally;
use super::{clock, fitted, told};
use crate::answer::{self, Context, Fault, Form, RouteFields};
use crate::config::case::{Case, Step};
use crate::engine::{Arrival, DecisionId, Holds, Judged, Refusal, Snapshot, Verdict};
use crate::explain::Book;
use crate::policy::{Action, Policy, Route};
use crate::sketch::Seed;
use crate::units::{Dice, Timestamp};

/// Under what keys are hashed: any, and always the same.
const SEED: Seed = Seed::from_bytes(*b"tidegate testing");

/// Where the dice begin; likewise.
const DICE: Dice = Dice(0x7469_6465_6761_7465);

/// A body passes in pieces of this size, as through the gate's own buffers.
const PIECE: u64 = 64 << 10;

/// What the live gate holds a piece back for at a time.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A case, ready to happen.
pub struct Stage<'a> {
    snapshot: Snapshot,
    book: &'a Book,
    fields: Vec<RouteFields>,
    case: &'a Case,
    messages: Vec<Messages<'a>>,
    places: Vec<Places>,
    tallies: Vec<Tally<'a>>,
    whole: Tally<'a>,
    dice: Dice,
    begun: Timestamp,
    now: Timestamp,
    maintained: Timestamp,
    /// From one housekeeping to the next: a second as in the live gate, and longer in a long case. Late ones do no harm.
    upkeep: Duration,
    queue: BinaryHeap<Reverse<Event>>,
    under_way: HashMap<u64, Exchange>,
    events: u64,
    sent: u64,
}

/// One thing that is to happen. Compared from the first field on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: Timestamp,
    what: What,
    /// Of two alike, the one that was thought of first; of arrivals, the order in the file.
    order: u64,
}

/// In the order in which they happen at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// The next piece of a body passes.
    Passes(u64),
    /// The origin's answer begins.
    Answers(u64),
    /// It gets the place of one that is over.
    Placed(u64),
    /// A wait is over.
    GoesOn(u64),
    /// It has waited for a place for too long.
    GivesUp(u64),
    /// A request comes: its step, its position there.
    Arrives(usize, u32),
}

/// A request under way.
struct Exchange {
    step: usize,
    nth: u32,
    arrived: Timestamp,
    judged: Judged,
    holds: Holds,
    /// The origin whose place it has.
    place: Option<usize>,
    /// Bytes of the request's body, then of the answer's, that are still to pass.
    left: u64,
    answered: bool,
}

impl<'a> Stage<'a> {
    /// Everything at its beginning.
    ///
    /// # Errors
    /// A limit whose numbers its limiter refuses.
    pub fn set(
        policy: &Policy,
        book: &'a Book,
        case: &'a Case,
        escaped_slash: EscapedSlash,
    ) -> Result<Stage<'a>, String> {
        let begun = clock::beginning(policy);
        let fields = policy.routes.iter().map(|route| RouteFields::new(policy, route)).collect();
        let places = policy.origins.iter().map(|origin| Places::new(origin.inflight)).collect();
        let fitted = fitted::policy(policy, case);
        let snapshot = Snapshot::new(fitted, &SEED, 0).map_err(|(name, fault)| format!("{name}: {fault}"))?;
        let messages = case.steps.iter().map(|step| Messages::new(step, escaped_slash)).collect();
        let mut stage = Stage {
            snapshot,
            book,
            fields,
            case,
            messages,
            places,
            tallies: case.steps.iter().map(|step| Tally::new(&step.expected)).collect(),
            whole: Tally::new(&case.expected),
            dice: DICE,
            begun,
            now: begun,
            maintained: begun,
            upkeep: Duration::from_secs(1).max(clock::length(case) / 256),
            queue: BinaryHeap::new(),
            under_way: HashMap::new(),
            events: 0,
            sent: 0,
        };
        for (index, step) in case.steps.iter().enumerate() {
            stage.await_arrival(index, 0, step);
        }
        Ok(stage)
    }

    /// Lets it happen.
    pub fn play(mut self) -> Outcome {
        while let Some(Reverse(event)) = self.queue.pop() {
            self.now = event.at;
            if event.at.since(self.maintained) >= self.upkeep {
                self.snapshot.maintain(event.at);
                self.maintained = event.at;
            }
            match event.what {
                What::Arrives(step, nth) => self.arrive(step, nth),
                What::Placed(number) => self.admit(number),
                What::GoesOn(number) => self.pass_limits_that_delay(number),
                What::GivesUp(number) => self.give_up(number),
                What::Answers(number) => self.answer(number),
                What::Passes(number) => self.pass(number),
            }
        }
        self.outcome()
    }

    fn outcome(self) -> Outcome {
        let mut differences = Vec::new();
        let mut account: Option<((u64, usize, u32), String)> = None;
        let steps = self.tallies.iter().enumerate().map(|(index, tally)| (Some(index + 1), tally));
        for (step, tally) in std::iter::once((None, &self.whole)).chain(steps) {
            differences.extend(tally.differences(step));
            if let Some((order, text)) = tally.first()
                && account.as_ref().is_none_or(|(known, _)| order < *known)
            {
                account = Some((order, text.to_owned()));
            }
        }
        let account = account.map(|(_, text)| text).filter(|_| !differences.is_empty());
        Outcome { sent: self.sent, lasted: self.now.since(self.begun), differences, account }
    }

    fn await_arrival(&mut self, step: usize, nth: u32, of: &Step) {
        let at = self.begun.after(of.begins).after(of.every.saturating_mul(nth));
        let order = (step as u64) << 32 | u64::from(nth);
        self.queue.push(Reverse(Event { at, what: What::Arrives(step, nth), order }));
    }

    fn await_event(&mut self, at: Timestamp, what: What) {
        self.events += 1;
        self.queue.push(Reverse(Event { at, what, order: self.events }));
    }

    fn arrive(&mut self, step: usize, nth: u32) {
        let Some(of) = self.case.steps.get(step) else { return };
        if nth + 1 < of.count {
            self.await_arrival(step, nth + 1, of);
        }
        self.sent += 1;
        let arrival = Arrival { id: DecisionId(self.dice.roll()), at: self.now, dice: self.dice.roll() };
        let Some(messages) = self.messages.get(step) else { return };
        let head = messages.head(nth);
        let Some(request) = messages.request(nth, &head) else {
            let fault = Fault::BadRequest;
            let headers = HeaderMap::new();
            let about = About { step, nth, arrived: self.now };
            self.see(&about, None, Some(fault), fault.meaning().status, None, &headers);
            return;
        };
        let judged = self.snapshot.judge(&request, arrival);
        let number = self.sent;
        let exchange = Exchange {
            step,
            nth,
            arrived: self.now,
            judged,
            holds: Holds::new(),
            place: None,
            left: of.body,
            answered: false,
        };
        self.under_way.insert(number, exchange);
        self.pass_limits_that_delay(number);
    }

    /// Charges the limits that delay until one makes it wait; then again.
    fn pass_limits_that_delay(&mut self, number: u64) {
        let Some(Exchange { judged, .. }) = self.under_way.get_mut(&number) else { return };
        self.snapshot.reserve(judged, self.now);
        let goes_on = judged.decision.goes_on();
        match judged.decision.verdict {
            Verdict::Admitted if goes_on > self.now => self.await_event(goes_on, What::GoesOn(number)),
            Verdict::Admitted => self.seek_place(number),
            _ => self.refuse(number),
        }
    }

    /// Asks for a place at the origin, where the request goes to one.
    fn seek_place(&mut self, number: u64) {
        let Some(exchange) = self.under_way.get_mut(&number) else { return };
        let route = exchange.judged.decision.route.and_then(|route| self.snapshot.policy().routes.route(route));
        let Some(Route { action: Action::Forward(origin), .. }) = route else { return self.admit(number) };
        let origin = *origin;
        match self.places.get_mut(origin).map_or(Asked::Taken, |places| places.ask(number)) {
            Asked::Taken => {
                exchange.place = Some(origin);
                self.admit(number);
            }
            Asked::Queued(longest) => self.await_event(self.now.after(longest), What::GivesUp(number)),
            Asked::Full => {
                exchange.judged.decision.verdict = Verdict::Refused(Refusal::OriginFull);
                self.refuse(number);
            }
        }
    }

    fn give_up(&mut self, number: u64) {
        if self.places.iter_mut().any(|places| places.give_up(number))
            && let Some(exchange) = self.under_way.get_mut(&number)
        {
            exchange.judged.decision.verdict = Verdict::Refused(Refusal::OriginFull);
            self.refuse(number);
        }
    }

    /// Charges all limits, and sends the request on.
    fn admit(&mut self, number: u64) {
        let now = self.now;
        let Some(exchange) = self.under_way.get_mut(&number) else { return };
        let (holds, _) = self.snapshot.admit(&mut exchange.judged, now);
        exchange.holds = holds;
        if exchange.judged.decision.verdict != Verdict::Admitted {
            return self.refuse(number);
        }
        let policy = self.snapshot.policy();
        let Some(route) = exchange.judged.decision.route.and_then(|route| policy.routes.route(route)) else { return };
        let Some(step) = self.case.steps.get(exchange.step) else { return };
        if route.body_limit.is_some_and(|limit| step.body > limit.0) {
            return self.fault(number, Fault::BodyTooLarge);
        }
        if !self.snapshot.counts_bytes(&exchange.judged) {
            exchange.left = 0;
        }
        if let Action::Forward(_) = route.action {
            self.snapshot.sent(&mut exchange.holds);
        }
        self.pass(number);
    }

    /// The next pieces of the body that is under way, up to one that is held back.
    fn pass(&mut self, number: u64) {
        let Some(exchange) = self.under_way.get_mut(&number) else { return };
        while exchange.left > 0 {
            let piece = exchange.left.min(PIECE);
            exchange.left -= piece;
            let pause = self.snapshot.carried(&mut exchange.judged, piece, self.now);
            if pause > 0 {
                let until = self.now.after(Duration::from_nanos(pause).min(LONGEST_PAUSE));
                return self.await_event(until, What::Passes(number));
            }
        }
        if exchange.answered {
            return self.end(number);
        }
        let takes = self.case.steps.get(exchange.step).map_or(Duration::ZERO, |step| step.reply.takes);
        let policy = self.snapshot.policy();
        let route = exchange.judged.decision.route.and_then(|route| policy.routes.route(route));
        let takes =
            if route.is_some_and(|route| matches!(route.action, Action::Forward(_))) { takes } else { Duration::ZERO };
        if takes.is_zero() {
            return self.answer(number);
        }
        self.await_event(self.now.after(takes), What::Answers(number));
    }

    /// The answer begins, the origin's or the route's own.
    fn answer(&mut self, number: u64) {
        let Some(exchange) = self.under_way.get_mut(&number) else { return };
        let Some(step) = self.case.steps.get(exchange.step) else { return };
        let policy = self.snapshot.policy();
        let Some(route) = exchange.judged.decision.route.and_then(|route| policy.routes.route(route)) else { return };
        let (status, headers, body) = match &route.action {
            Action::Forward(_) => (step.reply.status, &step.reply.headers, step.reply.body),
            Action::Respond(fixed) => (fixed.status, &fixed.headers, fixed.body.len() as u64),
        };
        let about = About { step: exchange.step, nth: exchange.nth, arrived: exchange.arrived };
        self.snapshot.answered(&exchange.judged, &mut exchange.holds, status, headers, self.now);
        if let (Action::Forward(origin), Some(most)) =
            (&route.action, exchange.place.and_then(|place| self.places.get(place)?.most()))
        {
            self.snapshot.completed(*origin, self.now.since(exchange.judged.decision.goes_on()), most);
        }
        exchange.answered = true;
        exchange.left = if self.snapshot.counts_bytes(&exchange.judged) { body } else { 0 };
        let told = wants_headers(self.case, &about);
        let decision = &exchange.judged.decision;
        let fields = if told {
            let own = decision.route.and_then(|route| self.fields.get(route));
            told::fields(headers, status, (decision, route), own, policy, self.now.nanos())
        } else {
            HeaderMap::new()
        };
        if let Some(exchange) = self.under_way.remove(&number) {
            self.see(&about, Some(&exchange.judged), None, status, None, &fields);
            self.under_way.insert(number, exchange);
        }
        self.pass(number);
    }

    /// The last byte has passed: everything returns.
    fn end(&mut self, number: u64) {
        let Some(exchange) = self.under_way.remove(&number) else { return };
        let place = exchange.place;
        drop(exchange);
        self.free(place);
    }

    fn free(&mut self, place: Option<usize>) {
        let next = place.and_then(|place| Some((place, self.places.get_mut(place)?.give_back()?)));
        if let Some((place, number)) = next {
            if let Some(waiting) = self.under_way.get_mut(&number) {
                waiting.place = Some(place);
            }
            self.await_event(self.now, What::Placed(number));
        }
    }

    fn refuse(&mut self, number: u64) {
        let Some(exchange) = self.under_way.remove(&number) else { return };
        let Verdict::Refused(refusal) = exchange.judged.decision.verdict else { return };
        let answer = answer::refuse(refusal, &self.context(&exchange));
        self.close(exchange, &answer, None);
    }

    fn fault(&mut self, number: u64, fault: Fault) {
        let Some(exchange) = self.under_way.remove(&number) else { return };
        let answer = answer::fault(fault, &self.context(&exchange));
        self.close(exchange, &answer, Some(fault));
    }

    /// Answers in the origin's place.
    fn close(&mut self, exchange: Exchange, answer: &answer::Answer, fault: Option<Fault>) {
        let mut fields = HeaderMap::new();
        for (name, value) in &answer.headers {
            fields.append(name.clone(), value.clone());
        }
        let wait = fields.get(http::header::RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.parse().ok());
        let Exchange { step, nth, arrived, judged, holds, place, .. } = exchange;
        let about = About { step, nth, arrived };
        self.see(&about, Some(&judged), fault, answer.status, wait, &fields);
        drop(holds);
        self.free(place);
    }

    fn context<'c>(&'c self, exchange: &'c Exchange) -> Context<'c> {
        let decision = &exchange.judged.decision;
        let none = HeaderMap::new();
        let head = self.messages.get(exchange.step).map(|messages| messages.head(exchange.nth));
        let method = self.case.steps.get(exchange.step).map_or(&http::Method::GET, |step| &step.method);
        Context {
            policy: self.snapshot.policy(),
            decision: Some(decision),
            fields: decision.route.and_then(|route| self.fields.get(route)),
            form: Form::of(method, head.as_ref().map_or(&none, |head| head.headers())),
            wall_unix_nanos: self.now.nanos(),
        }
    }

    /// Counts a request whose answer is known.
    fn see(
        &mut self,
        about: &About,
        judged: Option<&Judged>,
        fault: Option<Fault>,
        status: StatusCode,
        retry_after: Option<u64>,
        headers: &HeaderMap,
    ) {
        let Some(messages) = self.messages.get(about.step) else { return };
        let count = self.case.steps.get(about.step).map_or(0, |step| step.count);
        let seen = Seen {
            snapshot: &self.snapshot,
            book: self.book,
            messages,
            step: about.step,
            nth: about.nth,
            of: count,
            steps: self.case.steps.len(),
            at: about.arrived.since(self.begun),
            answered: self.now,
            order: (about.arrived.nanos(), about.step, about.nth),
            judged,
            fault,
            status: status.as_u16(),
            retry_after: retry_after.map(Duration::from_secs),
            headers,
        };
        self.whole.see(&seen, about.step + 1 == self.case.steps.len());
        if let Some(tally) = self.tallies.get_mut(about.step) {
            tally.see(&seen, true);
        }
    }
}

/// Which request.
struct About {
    step: usize,
    nth: u32,
    arrived: Timestamp,
}

/// Whether anybody asks for the fields of this answer: those of the last of a step.
fn wants_headers(case: &Case, about: &About) -> bool {
    let Some(step) = case.steps.get(about.step) else { return false };
    let asked = !step.expected.headers.is_empty() || !case.expected.headers.is_empty();
    asked && about.nth + 1 == step.count
}
