//! What is remembered of a request from its head to its log line: Pingora's `CTX`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayVec;
use http::{HeaderValue, StatusCode};

use crate::answer::{self, Fault, Form, RouteFields};
use crate::engine::{Evaluation, Holds, Outcome, Refusal, Verdict};
use crate::origins::door::{GAVE_WAY, OriginPlace};
use crate::origins::origin::{Attempt, OriginState};
use crate::policy::{Action, FieldStyle, Route};
use crate::running::generation::Generation;
use crate::sketch::KeyHash;
use crate::system::clock::{Clock, wall_nanos};
use crate::units::Timestamp;
use tidegate_http::lines::Lookup;

/// The most attempts that a policy can ask for: one, and five more.
const MOST_ATTEMPTS: usize = 6;

/// What a request's phases have in common. Dropping it gives back all places, so that neither an abort nor a panic nor a forced
/// stop leaks one.
pub struct RequestContext {
    /// The policy that serves this request from start to end, whatever is installed meanwhile.
    pub generation: Arc<Generation>,
    /// When the head was complete.
    pub started: Timestamp,
    /// Position of the listener in the settings.
    pub listener: usize,
    /// Whether a PROXY header named the connection's other end.
    pub conveyed: bool,
    /// The decision record; `None` if the request never got that far.
    pub evaluation: Option<Evaluation>,
    /// Places of `inflight` limits, and attempts whose charge waits for the answer.
    pub holds: Holds,
    /// The place at the origin.
    pub place: Option<OriginPlace>,
    /// The attempt under way.
    pub attempt: Option<Attempt>,
    /// The address of the last attempt as the log shows it.
    pub address: Option<Arc<str>>,
    /// The addresses of all attempts, so that the next one goes elsewhere.
    pub tried: ArrayVec<SocketAddr, MOST_ATTEMPTS>,
    /// How many attempts there were.
    pub attempts: u32,
    /// The key of `balance: hash`.
    pub balance_key: KeyHash,
    /// Bytes of the request's body seen so far in this attempt.
    pub body_bytes: u64,
    /// Whether a limit of the request counts the bytes of bodies.
    pub counts_bytes: bool,
    /// Bytes of the request's body that limits have been charged for, so that what is sent again is not charged again.
    charged_bytes: u64,
    /// A limit had no room for the protocol that the origin has switched to.
    pub switch_refused: bool,
    /// What went wrong on our way to the origin and back, for the answer and the log.
    pub fault: Option<Fault>,
    /// The origin may be at work on it.
    pub at_work: bool,
    /// When the request was handed to the origin.
    pub forwarded: Option<Timestamp>,
    /// When the origin's answer began.
    pub answered: Option<Timestamp>,
    /// The status of the origin's answer.
    pub answered_with: Option<u16>,
    /// When the answer's body must have ended.
    pub body_due: Option<Timestamp>,
    /// All of the answer has gone to the client.
    pub answered_in_full: bool,
}

impl RequestContext {
    /// Returns the context of a request whose head has just arrived.
    pub fn new(generation: Arc<Generation>, started: Timestamp) -> RequestContext {
        RequestContext {
            generation,
            started,
            listener: 0,
            conveyed: false,
            evaluation: None,
            holds: Holds::new(),
            place: None,
            attempt: None,
            address: None,
            tried: ArrayVec::new(),
            attempts: 0,
            balance_key: KeyHash::default(),
            body_bytes: 0,
            counts_bytes: false,
            charged_bytes: 0,
            switch_refused: false,
            fault: None,
            at_work: false,
            forwarded: None,
            answered: None,
            answered_with: None,
            body_due: None,
            answered_in_full: false,
        }
    }

    /// Returns the context of a request that nobody has judged, written where it stays: `Box::new` would copy its ten kilobytes there, a
    /// tenth of what a request costs.
    pub fn boxed(generation: Arc<Generation>) -> Box<RequestContext> {
        Box::write(Box::new_uninit(), RequestContext::new(generation, Timestamp::ZERO))
    }

    /// The route that took the request.
    pub fn route(&self) -> Option<&Route> {
        let index = self.evaluation.as_ref()?.decision.route?;
        self.generation.engine().policy().routes.route(index)
    }

    /// Position in the policy of the origin that the route forwards to.
    pub fn origin_index(&self) -> Option<usize> {
        match self.route()?.action {
            Action::Forward(origin) => Some(origin),
            Action::Respond(_) => None,
        }
    }

    /// The origin that the route forwards to.
    pub fn origin(&self) -> Option<&Arc<OriginState>> {
        self.generation.origin(self.origin_index()?)
    }

    /// The time that is left for the answer to begin; all of it where the time is not measured.
    pub fn left(&self, now: Timestamp) -> Duration {
        let time = self.route().map_or(Duration::ZERO, |route| route.timeouts.request);
        time.saturating_sub(self.forwarded.map_or(Duration::ZERO, |from| now.since(from)))
    }

    /// Returns whether another attempt could still be answered in time.
    pub fn time_left(&self, now: Timestamp) -> bool {
        !self.left(now).is_zero()
    }

    /// Why it is refused; `None` if it is admitted, or not judged.
    pub fn refusal(&self) -> Option<Refusal> {
        match self.evaluation.as_ref()?.decision.verdict {
            Verdict::Refused(refusal) => Some(refusal),
            Verdict::Admitted => None,
        }
    }

    /// What answers of its route tell, if a route took it.
    pub fn fields(&self) -> Option<&RouteFields> {
        self.generation.fields(self.evaluation.as_ref()?.decision.route?)
    }

    /// Returns whether its route says something to pages of other sites, by the `Origin` of the request.
    pub fn reads_origin(&self) -> bool {
        self.fields().is_some_and(|fields| fields.cors().is_some())
    }

    /// What an answer of the gate to it is made from. `origin`: its `Origin`, which is needed only where
    /// [`RequestContext::reads_origin`].
    pub fn words<'a>(&'a self, form: Form, origin: Option<&'a HeaderValue>) -> answer::Context<'a> {
        let policy = self.generation.engine().policy();
        let decision = self.evaluation.as_ref().map(|evaluation| &evaluation.decision);
        answer::Context { policy, decision, fields: self.fields(), form, origin, wall_unix_nanos: self.wall_nanos() }
    }

    /// The wall clock for fields that name points in time, which only the legacy spelling does; zero otherwise.
    pub fn wall_nanos(&self) -> u64 {
        let legacy = self.generation.engine().policy().responses.fields == FieldStyle::Legacy;
        if legacy { wall_nanos() } else { 0 }
    }

    /// Returns whether its refusal closes the connection.
    pub fn closes(&self) -> bool {
        self.evaluation.as_ref().is_some_and(|evaluation| self.generation.engine().closes(&evaluation.decision))
    }

    /// Counts its refusal for the list of clients that are refused most.
    pub fn note_refusal(&self) {
        if let Some(evaluation) = &self.evaluation {
            self.generation.refused().note(self.generation.engine(), evaluation);
        }
    }

    /// Notes that the request goes to the origin, which may act on it from now on.
    pub fn sent(&mut self) {
        self.at_work = true;
        self.generation.engine().sent(&mut self.holds);
    }

    /// Notes that the origin gave no answer, which is not the client's doing.
    pub fn origin_failed(&mut self) {
        self.generation.engine().failed(&mut self.holds);
    }

    /// Charges what waited for the head of the answer, the origin's or the route's own, as it was before edits. Call it before the
    /// client can read the answer, who may come again at once.
    pub fn settle(&mut self, status: StatusCode, headers: &impl Lookup, clock: &Clock) {
        if let Some(evaluation) = &self.evaluation
            && !self.holds.is_empty()
        {
            self.generation.engine().answered(evaluation, &mut self.holds, status, headers, clock.now());
        }
    }

    /// Charges the body of the request as far as it came in this attempt. Returns how long it should pause.
    pub fn uploaded(&mut self, clock: &Clock) -> Option<Duration> {
        let fresh = self.body_bytes.saturating_sub(self.charged_bytes);
        self.charged_bytes += fresh;
        self.carried(fresh, clock)
    }

    /// Charges bytes of a body, or of a protocol that was switched to. Returns how long they should pause.
    pub fn carried(&mut self, bytes: u64, clock: &Clock) -> Option<Duration> {
        if !self.counts_bytes || bytes == 0 {
            return None;
        }
        let pause = self.generation.engine().carried(self.evaluation.as_mut()?, bytes, clock.now());
        (pause > 0).then(|| Duration::from_nanos(pause))
    }

    /// Makes the places that the request holds places of switched connections. Returns whether there was room; if not, the verdict
    /// is a refusal now.
    pub fn switch(&mut self) -> bool {
        let engine = self.generation.engine();
        let Some(evaluation) = &mut self.evaluation else { return true };
        let Err(rule) = engine.upgraded(evaluation, &mut self.holds) else {
            if self.place.as_mut().is_none_or(OriginPlace::upgrade) {
                return true;
            }
            evaluation.decision.verdict = Verdict::Refused(Refusal::OriginFull);
            self.switch_refused = true;
            return false;
        };
        let decision = &mut evaluation.decision;
        for reading in decision.readings.iter_mut().filter(|reading| reading.rule == rule) {
            reading.outcome = Outcome::Refused;
            // a place comes back when another connection ends, which nobody can promise
            reading.retry_nanos = None;
        }
        if let Some(limiter) = engine.limiter(rule) {
            decision.verdict = Verdict::Refused(limiter.refusal().into());
        }
        self.switch_refused = true;
        false
    }

    /// It ends for the sake of another that has its place now.
    pub fn gave_way(&mut self) {
        // nothing is kept for what the origin may still do: it waits for the client
        self.at_work = false;
        self.place = None;
        if let (Some(origin), Some(evaluation)) = (self.origin_index(), &self.evaluation) {
            self.generation.metrics().origin_shed(origin, GAVE_WAY, evaluation.decision.class.criticality);
        }
    }

    /// The answer is complete although the request is not: gives back what it held while the origin worked.
    pub fn answered_whole(&mut self) {
        self.answered_in_full = true;
        self.place = None;
        self.holds.clear();
    }

    /// Gives everything back. Pingora keeps the context for a while after the request's end, reading what is left of a
    /// body; places must not wait for that.
    pub fn release(&mut self) {
        self.attempt = None;
        self.place = None;
        self.holds.clear();
    }
}
