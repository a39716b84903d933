//! Sends the requests of a case through the offline gate, and counts what becomes of them.

use std::time::Duration;

use http::{HeaderMap, StatusCode};

use super::counts::Counts;
use super::message::Messages;
use super::outcome::Outcome;
use super::seen::Seen;
use super::{case_policy, clock, text};
use crate::answer::{self, Answer, Context, Fault, Form, RouteFields, cors};
use crate::config::case::Case;
use crate::engine::{Arrival, DecisionId, Engine, Evaluation, Verdict};
use crate::explain::Book;
use crate::gate::{Course, OfflineGate, Step, Submission, What};
use crate::policy::Policy;
use crate::request::Request;
use crate::units::{Dice, Timestamp};

/// Where the dice begin: anywhere, and always there.
const DICE: Dice = Dice(0x7469_6465_6761_7465);

/// A case, ready to be run.
pub struct Runner<'a> {
    gate: OfflineGate<'a, Sent>,
    observer: Observer<'a>,
    dice: Dice,
}

/// One request of a case.
#[derive(Debug, Clone, Copy)]
struct Sent {
    step: usize,
    nth: u32,
    at: Timestamp,
}

/// Looks at what becomes of the requests of a case.
struct Observer<'a> {
    case: &'a Case,
    book: &'a Book,
    fields: Vec<RouteFields>,
    messages: &'a [Messages<'a>],
    by_step: Vec<Counts<'a>>,
    whole: Counts<'a>,
    begun: Timestamp,
}

/// What a client was answered.
struct Answered<'s> {
    evaluation: Option<&'s Evaluation>,
    fault: Option<Fault>,
    status: StatusCode,
    retry_after: Option<u64>,
    headers: &'s HeaderMap,
}

impl<'a> Runner<'a> {
    /// A case before its first request.
    ///
    /// # Errors
    /// A limit whose numbers its limiter refuses.
    pub fn new(
        policy: &Policy,
        book: &'a Book,
        case: &'a Case,
        messages: &'a [Messages<'a>],
    ) -> Result<Runner<'a>, String> {
        // a second as in the live gate, and longer in a long case
        let upkeep = Duration::from_secs(1).max(clock::length(case) / 256);
        let gate = OfflineGate::new(case_policy::smaller(policy, case), 0, upkeep);
        let observer = Observer {
            case,
            book,
            fields: policy.routes.iter().map(|route| RouteFields::new(policy, route)).collect(),
            messages,
            by_step: case.steps.iter().map(|step| Counts::new(&step.expected)).collect(),
            whole: Counts::new(&case.expected),
            begun: clock::beginning(policy),
        };
        Ok(Runner { gate: gate.map_err(|(name, fault)| format!("{name}: {fault}"))?, observer, dice: DICE })
    }

    /// Runs the case.
    pub fn run(mut self) -> Outcome {
        let mut next: Vec<u32> = vec![0; self.observer.case.steps.len()];
        let (mut sent, mut last) = (0, self.observer.begun);
        while let Some(request) = self.observer.earliest(&next) {
            if let Some(nth) = next.get_mut(request.step) {
                *nth += 1;
            }
            sent += 1;
            last = request.at;
            self.send(request);
        }
        let Runner { mut gate, mut observer, .. } = self;
        gate.advance(Timestamp::from_nanos(u64::MAX), &mut |step| observer.see_step(&step));
        observer.outcome(sent, last.max(gate.now()))
    }

    fn send(&mut self, sent: Sent) {
        let Runner { gate, observer, dice } = self;
        let id = DecisionId(dice.roll());
        let arrival = Arrival { id, at: sent.at, dice: dice.roll() };
        let (case, messages) = (observer.case, observer.messages);
        let (Some(step), Some(messages)) = (case.steps.get(sent.step), messages.get(sent.step)) else { return };
        gate.advance(sent.at, &mut |step| observer.see_step(&step));
        let head = messages.head(sent.nth);
        let Some(request) = messages.request(sent.nth, &head) else {
            let (fault, headers) = (Fault::BadRequest, HeaderMap::new());
            let status = fault.meaning().status;
            let answered =
                Answered { evaluation: None, fault: Some(fault), status, retry_after: None, headers: &headers };
            return observer.see(gate.engine(), &sent, sent.at, &answered);
        };
        let course = Course::Played { body: step.body, reply: &step.reply };
        let submission = Submission { request: &request, client: None, arrival, course, of: sent };
        gate.submit(submission, &mut |step| observer.see_step(&step));
    }
}

impl Observer<'_> {
    /// The next request, of those that each step has not sent yet: the first in time, then in the file.
    fn earliest(&self, next: &[u32]) -> Option<Sent> {
        let of_step = |(step, (of, nth)): (usize, (&crate::config::case::Step, &u32))| {
            let at = self.begun.after(of.begins).after(of.every.saturating_mul(*nth));
            (*nth < of.count).then_some(Sent { step, nth: *nth, at })
        };
        let open = self.case.steps.iter().zip(next).enumerate().filter_map(of_step);
        open.min_by_key(|sent| (sent.at, sent.step))
    }

    /// Counts a request whose answer is known by this step.
    fn see_step(&mut self, step: &Step<'_, Sent>) {
        match step.what {
            What::Waits | What::Admitted => {}
            What::Refused => {
                if let Verdict::Refused(refusal) = step.evaluation.decision.verdict {
                    let answer = self.context(step, |context| answer::refuse(refusal, context));
                    self.see_own_answer(step, &answer, None);
                }
            }
            What::BodyTooLarge => {
                let fault = Fault::BodyTooLarge;
                let answer = self.context(step, |context| answer::fault(fault, context));
                self.see_own_answer(step, &answer, Some(fault));
            }
            What::Preflight => {
                let Some(messages) = self.messages.get(step.of.step) else { return };
                let head = messages.head(step.of.nth);
                let request = messages.request(step.of.nth, &head);
                let fields = step.evaluation.decision.route.and_then(|route| self.fields.get(route));
                let asked = request.as_ref().and_then(Request::preflight);
                let answer =
                    fields.and_then(RouteFields::cors).zip(asked).map(|(cors, asked)| answer::preflight(cors, &asked));
                if let Some(answer) = answer {
                    self.see_own_answer(step, &answer, None);
                }
            }
            What::Answered(status, headers) => {
                let (policy, decision, none) = (step.engine.policy(), &step.evaluation.decision, HeaderMap::new());
                let route =
                    decision.route.and_then(|index| Some((policy.routes.route(index)?, self.fields.get(index))));
                let headers = match route.filter(|_| self.wants_headers(step.of)) {
                    Some((route, own)) => {
                        let head = self.messages.get(step.of.step).map(|messages| messages.head(step.of.nth));
                        let asked = head.as_ref().map_or(&none, |head| head.headers());
                        text::fields(headers, status, (decision, route), own, asked, policy, step.at.nanos())
                    }
                    None => HeaderMap::new(),
                };
                let evaluation = Some(step.evaluation);
                let answered = Answered { evaluation, fault: None, status, retry_after: None, headers: &headers };
                self.see(step.engine, step.of, step.at, &answered);
            }
        }
    }

    /// Counts an answer that the gate gave in the origin's place.
    fn see_own_answer(&mut self, step: &Step<'_, Sent>, answer: &Answer, fault: Option<Fault>) {
        let mut headers = HeaderMap::new();
        for (name, value) in &answer.headers {
            headers.append(name.clone(), value.clone());
        }
        let retry_after = headers.get(http::header::RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.parse().ok());
        let evaluation = Some(step.evaluation);
        let answered = Answered { evaluation, fault, status: answer.status, retry_after, headers: &headers };
        self.see(step.engine, step.of, step.at, &answered);
    }

    fn context(&self, step: &Step<'_, Sent>, answer: impl FnOnce(&Context<'_>) -> Answer) -> Answer {
        let (decision, none) = (&step.evaluation.decision, HeaderMap::new());
        let head = self.messages.get(step.of.step).map(|messages| messages.head(step.of.nth));
        let method = self.case.steps.get(step.of.step).map_or(&http::Method::GET, |step| &step.method);
        answer(&Context {
            policy: step.engine.policy(),
            decision: Some(decision),
            fields: decision.route.and_then(|route| self.fields.get(route)),
            form: Form::of(method, head.as_ref().map_or(&none, |head| head.headers())),
            origin: cors::origin(head.as_ref().map_or(&none, |head| head.headers())),
            wall_unix_nanos: step.at.nanos(),
        })
    }

    /// Counts a request whose answer is known.
    fn see(&mut self, engine: &Engine, sent: &Sent, at: Timestamp, answered: &Answered<'_>) {
        let Some(messages) = self.messages.get(sent.step) else { return };
        let seen = Seen {
            engine,
            book: self.book,
            messages,
            step: sent.step,
            nth: sent.nth,
            of: self.case.steps.get(sent.step).map_or(0, |step| step.count),
            steps: self.case.steps.len(),
            at: sent.at.since(self.begun),
            answered: at,
            order: (sent.at.nanos(), sent.step, sent.nth),
            evaluation: answered.evaluation,
            fault: answered.fault,
            status: answered.status.as_u16(),
            retry_after: answered.retry_after.map(Duration::from_secs),
            headers: answered.headers,
        };
        self.whole.see(&seen, sent.step + 1 == self.case.steps.len());
        if let Some(counts) = self.by_step.get_mut(sent.step) {
            counts.see(&seen, true);
        }
    }

    /// Whether the case expects fields of this answer: those of the last of a step.
    fn wants_headers(&self, sent: &Sent) -> bool {
        let Some(step) = self.case.steps.get(sent.step) else { return false };
        let asked = !step.expected.headers.is_empty() || !self.case.expected.headers.is_empty();
        asked && sent.nth + 1 == step.count
    }

    fn outcome(self, sent: u64, ended: Timestamp) -> Outcome {
        let mut differences = Vec::new();
        let mut account: Option<((u64, usize, u32), String)> = None;
        let steps = self.by_step.iter().enumerate().map(|(index, counts)| (Some(index + 1), counts));
        for (step, counts) in std::iter::once((None, &self.whole)).chain(steps) {
            differences.extend(counts.differences(step));
            if let Some((order, text)) = counts.first()
                && account.as_ref().is_none_or(|(known, _)| order < *known)
            {
                account = Some((order, text.to_owned()));
            }
        }
        let account = account.map(|(_, text)| text).filter(|_| !differences.is_empty());
        Outcome { sent, lasted: ended.since(self.begun), differences, account }
    }
}
