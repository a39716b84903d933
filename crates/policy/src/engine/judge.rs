//! Asks every limit, and charges none: [`charge`](super::charge) does that once all have agreed.

use http::{HeaderMap, HeaderValue};

use super::core::Engine;
use super::decision::{Decision, Refusal, Verdict};
use super::evaluation::{Arrival, Evaluation, Holds, Read};
use super::keys::Hashed;
use crate::client::trust::X_FORWARDED_PROTO;
use crate::client::{self, Client};
use crate::policy::route::KeyRoom;
use crate::policy::{FieldFault, Route, Undecided};
use crate::request::{Peer, Request};

impl Engine {
    /// Finds the client and the route, and reads every limit of it. Charges nothing, but for what a limit counts of its
    /// own refusals (`recent_average` with `count: all`).
    pub fn judge(&self, request: &Request, arrival: Arrival) -> Evaluation {
        let mut evaluation = Evaluation::new(arrival);
        let client = self.client(request.peer, request.headers);
        match self.as_sent_on(request) {
            None => self.judge_into(request, client, &mut evaluation),
            Some(headers) => self.judge_into(&Request { headers: &headers, ..*request }, client, &mut evaluation),
        }
        evaluation
    }

    /// Whose request it is; `None` for one that the policy refuses to serve because its address cannot be told.
    pub fn client(&self, peer: Peer, headers: &HeaderMap) -> Option<Client> {
        client::resolve(&self.policy().clients, peer, headers).ok()
    }

    /// The fields of a request as its origin gets them, and so as it is judged; `None`: as they are. What only the live gate knows,
    /// as the certificate of a client, is not in it.
    pub fn as_sent_on(&self, request: &Request) -> Option<HeaderMap> {
        let edits = self.fields().edits(&self.policy().clients, request.peer, request.headers);
        let by_tls = request.tls_sni.is_some() && self.fields().all().contains(&X_FORWARDED_PROTO);
        if edits.is_empty() && !by_tls {
            return None;
        }
        let mut headers = request.headers.clone();
        for (name, line) in edits {
            match line {
                Some(line) => drop(headers.insert(name, line)),
                None => drop(headers.remove(name)),
            }
        }
        if by_tls {
            headers.entry(X_FORWARDED_PROTO).or_insert(HeaderValue::from_static("https"));
        }
        Some(headers)
    }

    /// Judges a request whose client and fields [as sent on](Engine::as_sent_on) are known, in a new record: it is large, and
    /// need not be moved then.
    pub fn judge_into(&self, request: &Request, client: Option<Client>, evaluation: &mut Evaluation) {
        let found = self.policy().routes.find(request, client.as_ref());
        let found = match (self.fields().check(request.headers), found) {
            (Ok(()), Ok(found)) => Ok(found),
            (Err(FieldFault::Nominated), _) => Err(Refusal::NominatedField),
            (Err(FieldFault::Repeated), _) => Err(Refusal::RepeatedField),
            (Ok(()), Err(Undecided::Ambiguous)) => Err(Refusal::AmbiguousValue),
            (Ok(()), Err(Undecided::ValueTooLong)) => Err(Refusal::ValueTooLong),
        };
        evaluation.decision.route = found.ok().flatten().map(|(index, _)| index);
        let Some(client) = client else {
            evaluation.decision.verdict = Verdict::Refused(Refusal::ClientUnresolved);
            return;
        };
        evaluation.decision.client = Some(client);
        if self.bans_client(&client, &mut evaluation.decision) {
            return;
        }
        match found {
            Ok(Some((index, route))) => {
                evaluation.decision.class = self.policy().class(request, &client, route);
                if self.bars(request, &client, route, &mut evaluation.decision) {
                    return;
                }
                evaluation.decision.answers_preflight = route.answers_preflight(request);
                evaluation.decision.verdict = self.read_limits(evaluation, request, &client, (index, route));
            }
            Ok(None) => {}
            Err(refusal) => evaluation.decision.verdict = Verdict::Refused(refusal),
        }
    }

    /// All steps at once, for requests that need no place at an origin and whose wait passes in no time: what waits for
    /// its end is charged as of then, and who would wait at the door of a rate is refused.
    pub fn decide(&self, request: &Request, arrival: Arrival) -> (Decision, Holds) {
        let mut evaluation = self.judge(request, arrival);
        self.enter_rate_at_once(&mut evaluation, arrival.at);
        self.reserve_all(&mut evaluation);
        let goes_on = evaluation.decision.goes_on();
        let (holds, _) = self.admit(&mut evaluation, goes_on);
        (evaluation.decision, holds)
    }

    fn read_limits(
        &self,
        evaluation: &mut Evaluation,
        request: &Request,
        client: &Client,
        (index, route): (usize, &Route),
    ) -> Verdict {
        let mut room = KeyRoom::new();
        let request = &route.counted(request, &mut room);
        let about = Read { request, client, route, index, at: evaluation.decision.at };
        let ahead = route.rules.len() > 1;
        let (mut worst, mut hashed) = (None, Hashed::default());
        // all are found before the first is asked: otherwise each would wait for main memory by itself, as nothing is loaded
        // ahead of the atomic exchanges of the one before it
        for &rule in &route.rules {
            if let Some(refusal) = self.find(rule, &about, ahead, evaluation, &mut hashed) {
                worst = strictest(worst, refusal);
            }
        }
        for slot in 0..evaluation.decision.readings.len() {
            if let Some(refusal) = self.ask(slot, &about, evaluation) {
                worst = strictest(worst, refusal);
            }
        }
        if !evaluation.more.is_empty()
            && let Some(refusal) = self.ask_more(&about, evaluation)
        {
            worst = strictest(worst, refusal);
        }
        if worst.is_none() {
            worst = self.find_rate(evaluation, &about, &mut hashed);
        }
        if worst.is_some() {
            evaluation.decision.delay_nanos = 0;
        } else {
            evaluation.door = self.at_the_door(&about, evaluation.decision.class, &mut hashed);
        }
        worst.map_or(Verdict::Admitted, Verdict::Refused)
    }
}

/// Of two reasons the one that says most to the client: a malformed request before its own budget before our capacity.
pub(super) fn strictest(a: Option<Refusal>, b: Refusal) -> Option<Refusal> {
    let rank = |refusal: Refusal| match refusal {
        Refusal::KeyMissing | Refusal::AmbiguousValue => 0,
        Refusal::Penalty => 1,
        Refusal::Limit => 2,
        Refusal::Concurrency => 3,
        _ => 4,
    };
    Some(a.map_or(b, |a| if rank(b) < rank(a) { b } else { a }))
}
