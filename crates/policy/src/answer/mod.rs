//! Decisions in words: header fields, statuses, bodies and log lines. Begin with [`refuse`]. No clock, no dice, no I/O.
//!
//! * [`headers`]: the fields about limits on each answer, and the wait of a refused client. [`told`]: the same facts as lines for
//!   people.
//! * [`own`]: what the operator says of an answer; [`written`]: the bodies of his own; [`page`]: the page that people get otherwise.
//! * [`refusal`]: the only table from reasons to statuses. [`body`]: the body in the form that the client accepts.
//! * [`cors`]: what browsers are told about pages of other sites, and the answer to a preflight.
//! * [`redirect`]: the answer that sends a client to TLS.
//! * [`entry`]: the line of the access log.
//! * [`structured`], [`json`]: write text into fields and lines so that it cannot break out.
//!
//! [`refuse`], [`fault`] and [`preflight`] make the gate's own answers. To an origin's answer only [`headers::RouteFields::on_answer`] adds
//! something.

pub mod body;
pub mod cors;
pub mod entry;
pub mod headers;
pub mod json;
pub mod own;
pub mod page;
pub mod redirect;
pub mod refusal;
pub mod structured;
pub mod told;
pub mod written;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, VARY};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

pub use body::Form;
pub use entry::Entry;
pub use headers::RouteFields;
pub use redirect::to_https;
pub use refusal::Fault;
pub use told::Told;

use crate::engine::{Decision, Refusal};
use crate::policy::{BodyFormat, Policy};
use crate::request::Preflight;
use body::{Content, Media};
use cors::CorsFields;
use own::Own;
use refusal::{Meaning, ProxyError};
use written::Values;

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
    let own = Own::of(refusal, decision, policy);
    let meaning = refusal::meaning(refusal, &own);
    let wait = decision.and_then(|decision| headers::retry_after_seconds(refusal, decision, policy));
    let violated = decision.map(|decision| headers::violated_names(refusal, decision, policy)).unwrap_or_default();
    let mut answer = answer(&meaning, wait, &violated, &own, context);
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
    let mut answer = answer(&meaning, wait, &[], &Own::default(), context);
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

/// The answer to a preflight on a route with `cors:`.
pub fn preflight(cors: &CorsFields, asked: &Preflight<'_>) -> Answer {
    Answer { status: StatusCode::NO_CONTENT, headers: cors.on_preflight(asked), body: Bytes::new() }
}

static DECISION: HeaderName = HeaderName::from_static("x-tidegate-decision");
static PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
static GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// RFC 9110 §15.5.6 wants a list with every 405. Others than these are forwarded too.
const FORWARDED_METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

fn answer(meaning: &Meaning, wait: Option<u64>, violated: &[&str], own: &Own<'_>, context: &Context<'_>) -> Answer {
    let responses = &context.policy.responses;
    let id = context.decision.map(|decision| decision.id);
    // gRPC reads a status of 200 as "look at grpc-status"; without one of those, it makes its own from ours
    let (format, bodies) = (own.format(), own.bodies());
    let (media, grpc) = match (context.form.media(format, bodies), meaning.grpc) {
        (Media::Grpc, Some(grpc)) => (Media::Grpc, Some(grpc)),
        (Media::Grpc, None) => (Media::Problem, None),
        (media, _) => (media, None),
    };
    let detail = detail(meaning, wait);
    let body = match media.written(bodies) {
        None => Content { meaning, detail: &detail, wait, id, violated }.write(media),
        Some(body) => written::body(body, &values(meaning, (&detail, wait), violated, context)),
    };

    let mut headers = Vec::with_capacity(16);
    headers.push((CONTENT_TYPE, HeaderValue::from_static(media.content_type())));
    headers.push((CONTENT_LENGTH, HeaderValue::from(body.len())));
    // not only where caches would be allowed to keep it: the next policy may answer otherwise
    headers.push((CACHE_CONTROL, HeaderValue::from_static("no-store")));
    if format == BodyFormat::Auto && grpc.is_none() {
        headers.push((VARY, HeaderValue::from_static("Accept")));
    }
    headers.extend(own.headers().iter().cloned());
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

/// What placeholders stand for in the operator's bodies.
fn values<'a>(
    meaning: &Meaning,
    (detail, retry_after): (&'a str, Option<u64>),
    violated: &[&'a str],
    context: &Context<'a>,
) -> Values<'a> {
    let decision = context.decision;
    let refusing = || decision?.violated().next().and_then(|reading| context.policy.rules.get(reading.rule));
    let route = decision.and_then(|decision| context.policy.routes.route(decision.route?));
    Values {
        status: meaning.status.as_u16(),
        title: meaning.phrase(),
        detail,
        retry_after,
        limit: violated.first().copied().or_else(|| refusing().map(|rule| rule.name.as_str())),
        id: decision.map(|decision| decision.id),
        route: route.map(|route| route.name.as_str()),
    }
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
