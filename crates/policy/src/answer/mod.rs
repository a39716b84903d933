//! Decisions in words: header fields, statuses, bodies and log lines. Begin with [`refuse`]. No clock, no dice, no I/O.
//!
//! * [`headers`]: the fields about limits on each answer, and the wait of a refused client. [`told`]: the same facts as lines for
//!   people.
//! * [`refusal`]: the only table from reasons to statuses. [`body`]: the body in the form that the client accepts.
//! * [`cors`]: what browsers are told about pages of other sites, and the answer to a preflight.
//! * [`redirect`]: the answer that sends a client to TLS.
//! * [`entry`]: the line of the access log.
//! * [`structured`], [`json`]: write text into fields and lines so that it cannot break out.
//!
//! [`refuse`] and [`fault`] make the gate's own answers. To an origin's answer only [`headers::RouteFields::on_answer`] adds
//! something.

pub mod body;
pub mod cors;
pub mod entry;
pub mod headers;
pub mod json;
pub mod redirect;
pub mod refusal;
pub mod structured;
pub mod told;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

pub use body::Form;
pub use entry::Entry;
pub use headers::RouteFields;
pub use redirect::to_https;
pub use refusal::Fault;
pub use told::Told;

use crate::engine::{Decision, Refusal};
use crate::policy::Policy;
use body::{Content, Media};
use refusal::{Meaning, ProxyError};

/// An answer of ours, complete but for what belongs to the connection and the clock (`Connection`, `Date`).
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// All fields, each name at most once, but for those that are lists.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The body; empty for `HEAD`, whose `Content-Length` is nevertheless that of a `GET`.
    pub body: Bytes,
}

/// What an answer is made from.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The policy that decided.
    pub policy: &'a Policy,
    /// What was decided; `None` when the request was too faulty for a decision.
    pub decision: Option<&'a Decision>,
    /// The fields of the decision's route, if it has one.
    pub fields: Option<&'a RouteFields>,
    /// How the client wants to be answered.
    pub form: Form,
    /// The `Origin` of the request; needed only where its route has `cors:`.
    pub origin: Option<&'a HeaderValue>,
    /// Nanoseconds since 1970, for the legacy spelling of the limit fields only.
    pub wall_unix_nanos: u64,
}

/// The answer to a refused request.
pub fn refuse(refusal: Refusal, context: &Context<'_>) -> Answer {
    let Context { policy, decision, .. } = *context;
    let meaning = refusal::meaning(refusal, &policy.responses);
    let wait = decision.and_then(|decision| headers::retry_after_seconds(refusal, decision, policy));
    let violated = decision.map(|decision| headers::violated_names(refusal, decision, policy)).unwrap_or_default();
    let limited = meaning.problem.is_of_a_limit();
    let form = if limited { context.form.with(policy.responses.limited_format) } else { context.form };
    let mut answer = answer(&meaning, wait, &violated, Context { form, ..*context });
    if let (Some(fields), Some(decision)) = (context.fields, decision) {
        answer.headers.extend(fields.on_refusal(refusal, decision, policy, context.wall_unix_nanos));
    }
    answer
}

/// The answer to a request that cannot be served.
pub fn fault(fault: Fault, context: &Context<'_>) -> Answer {
    let Context { policy, decision, .. } = *context;
    let meaning = fault.meaning();
    let dice = decision.map_or(0, |decision| decision.dice);
    let wait =
        (meaning.status == StatusCode::SERVICE_UNAVAILABLE).then(|| headers::soon_seconds(dice, &policy.responses));
    let mut answer = answer(&meaning, wait, &[], *context);
    if fault == Fault::MethodNotAllowed {
        answer.headers.push((ALLOW, HeaderValue::from_static(FORWARDED_METHODS)));
    }
    if let (Some(fields), Some(decision)) = (context.fields, decision) {
        // the budget has been charged although the origin failed, so the client is told
        let none = HeaderMap::new();
        answer.headers.extend(fields.on_answer(decision, policy, meaning.status, &none, context.wall_unix_nanos));
    }
    answer
}

static DECISION: HeaderName = HeaderName::from_static("x-tidegate-decision");
static PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
static GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// RFC 9110 §15.5.6 wants a list with every 405. Others than these are forwarded too.
const FORWARDED_METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

fn answer(meaning: &Meaning, wait: Option<u64>, violated: &[&str], context: Context<'_>) -> Answer {
    let responses = &context.policy.responses;
    let id = context.decision.map(|decision| decision.id);
    // gRPC reads a status of 200 as "look at grpc-status"; without one of those, it makes its own from ours
    let (media, grpc) = match (context.form.media(), meaning.grpc) {
        (Media::Grpc, Some(grpc)) => (Media::Grpc, Some(grpc)),
        (Media::Grpc, None) => (Media::Problem, None),
        (media, _) => (media, None),
    };
    let detail = detail(meaning, wait);
    let body = Content { meaning, detail: &detail, id, violated }.write(media);

    let mut headers = Vec::with_capacity(12);
    headers.push((CONTENT_TYPE, HeaderValue::from_static(media.content_type())));
    headers.push((CONTENT_LENGTH, HeaderValue::from(body.len())));
    // not only where caches would be allowed to keep it: the next policy may answer otherwise
    headers.push((CACHE_CONTROL, HeaderValue::from_static("no-store")));
    headers.extend(wait.map(|seconds| (RETRY_AFTER, HeaderValue::from(seconds))));
    if let Some(grpc) = grpc {
        headers.push((GRPC_STATUS.clone(), HeaderValue::from(u16::from(grpc))));
        headers.extend(HeaderValue::from_str(&detail).ok().map(|detail| (GRPC_MESSAGE.clone(), detail)));
    }
    let proxy_status = responses.proxy_name.as_deref().and_then(|name| proxy_status(name, meaning));
    headers.extend(proxy_status.map(|value| (PROXY_STATUS.clone(), value)));
    if let (Some(id), true) = (id, responses.decision_id) {
        headers.extend(HeaderValue::from_bytes(&id.text()).ok().map(|id| (DECISION.clone(), id)));
    }
    if let Some(cors) = context.fields.and_then(RouteFields::cors) {
        let add = |name, value| {
            headers.push((name, value));
            Ok(())
        };
        let _: Result<(), std::convert::Infallible> = cors.on_answer(context.origin, add);
    }
    let status = if grpc.is_some() { StatusCode::OK } else { meaning.status };
    let body = if context.form.is_head() { Bytes::new() } else { Bytes::from(body) };
    Answer { status, headers, body }
}

/// What happened and when to come back. ASCII without `%`, so that it needs no encoding as a `grpc-message`.
fn detail(meaning: &Meaning, wait: Option<u64>) -> String {
    let said = meaning.detail;
    match (wait, meaning.problem) {
        (Some(1), _) => format!("{said} Try again in 1 second."),
        (Some(seconds), _) => format!("{said} Try again in {seconds} seconds."),
        (None, problem) if problem.is_of_a_limit() => format!("{said} Waiting does not help."),
        (None, _) => said.to_owned(),
    }
}

/// `"edge-7";error=http_request_error;status-code=429` (RFC 9209 §2).
fn proxy_status(name: &str, meaning: &Meaning) -> Option<HeaderValue> {
    let ProxyError { token, with_status } = meaning.proxy_error;
    let mut list = structured::List::new();
    list.string("", name).ok()?;
    list.token("error", token).ok()?;
    if with_status {
        list.integer("status-code", u64::from(meaning.status.as_u16())).ok()?;
    }
    list.finish()
}

#[cfg(test)]
mod sample;
#[cfg(test)]
mod sample_kinds;
#[cfg(test)]
mod tests;
