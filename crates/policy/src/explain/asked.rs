//! The account of a request that is at hand: nothing of it has to be remembered first.

use super::record::Beside;
use super::{Book, Explanation, Known, Record, RequestPart};
use crate::client;
use crate::engine::{Engine, Evaluation};
use crate::request::Request;

/// What a request was answered, as far as limits have a word in it.
#[derive(Debug, Clone, Default)]
pub struct Answered {
    /// The status, where the gate gave it itself.
    pub status: Option<u16>,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// The fields that tell about limits, as they read.
    pub sent: Vec<String>,
}

impl Explanation {
    /// Why `engine` judged this request so, of which everything is known: with its target, and the client's way hop by hop.
    pub fn of_request(
        engine: &Engine,
        evaluation: &Evaluation,
        request: &Request<'_>,
        answered: Answered,
        book: &Book,
    ) -> Explanation {
        let policy = engine.policy();
        let headers = engine.as_sent_on(request);
        let judged_as = Request { headers: headers.as_ref().unwrap_or(request.headers), ..*request };
        let beside = Beside {
            client: [0; 16],
            method: request.method,
            taken: policy.routes.taken(&judged_as, evaluation.decision.client.as_ref()),
            book: 0,
            retry_after: answered.retry_after.unwrap_or(0),
            store_error: None,
        };
        let trace = client::trace(&policy.clients, request.peer, request.headers);
        let known = Known {
            request: RequestPart {
                method: Some(request.method.to_string()),
                host: Some(request.host.to_owned()),
                path: Some(request.path.to_owned()),
            },
            trace: Some(&trace),
            status: answered.status,
            sent: answered.sent,
            ..Known::default()
        };
        let mut explanation = Explanation::new(&Record::of(engine, evaluation, &beside), book, known);
        explanation.notes.extend(about_preflight(engine, evaluation, &judged_as).map(str::to_owned));
        explanation
    }
}

/// What a CORS preflight is to the limits of its route; `None` for any other request.
fn about_preflight(engine: &Engine, evaluation: &Evaluation, request: &Request<'_>) -> Option<&'static str> {
    let route = engine.policy().routes.route(evaluation.decision.route?)?;
    request.preflight()?;
    let rules = || route.rules.iter().filter_map(|rule| engine.policy().rules.get(*rule));
    if evaluation.decision.answers_preflight {
        return Some(
            "a CORS preflight: the gate answers it by the route's `cors`; only limits with `preflights: count` are asked",
        );
    }
    rules().any(|rule| rule.counts_apart(request)).then_some(
        "a CORS preflight that goes to the origin: limits by client count it apart from requests, by the same numbers",
    )
}
