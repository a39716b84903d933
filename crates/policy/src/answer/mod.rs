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
//! [`refuse`], [`fault`] and [`preflight`] make the gate's own answers; a flood's are [written](write_refusal) straight to their bytes. To an origin's answer only [`headers::RouteFields::on_answer`] adds
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

use arrayvec::{ArrayString, ArrayVec};
use bytes::{Bytes, BytesMut};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, VARY};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

pub use body::Form;
pub use entry::Entry;
pub use headers::RouteFields;
pub use redirect::to_https;
pub use refusal::Fault;
pub use told::Told;

use crate::engine::{Decision, Refusal};
use crate::policy::{BodyFormat, Policy, Route};
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

/// What an answer of ours is written to: its body, as a field tells its length, then its status, then its fields.
pub trait Sink {
    /// The end of this text becomes the body. Called once, before all else.
    fn body(&mut self) -> &mut Vec<u8>;
    /// Takes the status.
    fn status(&mut self, status: StatusCode);
    /// Takes a field, which is a line of its own.
    fn field(&mut self, name: &HeaderName, value: Value<'_>);
    /// The answer is complete, with its body or, for `HEAD`, without.
    fn end(&mut self, with_body: bool);
}

/// The value of a field.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// A text that is always the same.
    Static(&'static str),
    /// A number.
    Number(u64),
    /// Visible ASCII.
    Text(&'a [u8]),
    /// A value that stands already.
    Line(&'a HeaderValue),
}

/// An answer that is being made.
struct Making {
    answer: Answer,
    body: Vec<u8>,
}

impl Making {
    fn new() -> Making {
        let answer = Answer { status: StatusCode::OK, headers: Vec::with_capacity(16), body: Bytes::new() };
        Making { answer, body: Vec::new() }
    }
}

impl Sink for Making {
    fn body(&mut self) -> &mut Vec<u8> {
        &mut self.body
    }

    fn status(&mut self, status: StatusCode) {
        self.answer.status = status;
    }

    fn field(&mut self, name: &HeaderName, value: Value<'_>) {
        let value = match value {
            Value::Static(text) => HeaderValue::from_static(text),
            Value::Number(number) => HeaderValue::from(number),
            Value::Line(line) => line.clone(),
            Value::Text(text) => match HeaderValue::from_bytes(text) {
                Ok(value) => value,
                Err(_) => return,
            },
        };
        self.answer.headers.push((name.clone(), value));
    }

    fn end(&mut self, with_body: bool) {
        if with_body {
            self.answer.body = Bytes::from(std::mem::take(&mut self.body));
        }
    }
}

/// The answer to a refused request.
pub fn refuse(refusal: Refusal, context: &Context<'_>) -> Answer {
    let mut making = Making::new();
    write_refusal(refusal, context, &mut making);
    making.answer
}

/// Writes the answer to a refused request.
pub fn write_refusal(refusal: Refusal, context: &Context<'_>, to: &mut impl Sink) {
    let Context { policy, decision, .. } = *context;
    let own = Own::of(refusal, decision, policy);
    let meaning = refusal::meaning(refusal, &own);
    let behind = decision.map(|decision| headers::behind(refusal, decision, policy)).unwrap_or_default();
    let wait = decision.and_then(|decision| headers::retry_after_for(refusal, behind.first(), decision, policy));
    let violated: ArrayVec<&str, { Route::MAX_RULES }> = behind.iter().map(|line| line.name).collect();
    write(&meaning, wait, &violated, &own, context, to, |to| {
        if let (Some(fields), Some(decision)) = (context.fields, decision) {
            let told = fields.on_refusal_for(&behind, decision, policy, context.wall_unix_nanos);
            told.iter().for_each(|(name, value)| to.field(name, Value::Line(value)));
        }
    });
}

/// The answer to a request that cannot be served.
pub fn fault(fault: Fault, context: &Context<'_>) -> Answer {
    let Context { policy, decision, .. } = *context;
    let meaning = fault.meaning();
    let dice = decision.map_or(0, |decision| decision.dice);
    let wait =
        (meaning.status == StatusCode::SERVICE_UNAVAILABLE).then(|| headers::soon_seconds(dice, &policy.responses));
    let mut making = Making::new();
    write(&meaning, wait, &[], &Own::default(), context, &mut making, |to| {
        if fault == Fault::MethodNotAllowed {
            to.field(&ALLOW, Value::Static(FORWARDED_METHODS));
        }
        if let (Some(fields), Some(decision)) = (context.fields, decision) {
            // the budget has been charged although the origin failed, so the client is told
            let around = (context.wall_unix_nanos, &mut BytesMut::new());
            let told = fields.on_answer(decision, policy, meaning.status, &HeaderMap::new(), around);
            told.iter().for_each(|(name, value)| to.field(name, Value::Line(value)));
        }
    });
    making.answer
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

/// Writes an answer; `more` adds fields of its own behind all others.
fn write<S: Sink>(
    meaning: &Meaning,
    wait: Option<u64>,
    violated: &[&str],
    own: &Own<'_>,
    context: &Context<'_>,
    to: &mut S,
    more: impl FnOnce(&mut S),
) {
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
    let body = to.body();
    let before = body.len();
    match media.written(bodies) {
        None => Content { meaning, detail: &detail, wait, id, violated }.write(media, body),
        Some(own) => written::body(own, &values(meaning, (&detail, wait), violated, context), body),
    }
    let length = (body.len() - before) as u64;

    to.status(if grpc.is_some() { StatusCode::OK } else { meaning.status });
    to.field(&CONTENT_TYPE, Value::Static(media.content_type()));
    to.field(&CONTENT_LENGTH, Value::Number(length));
    // not only where caches would be allowed to keep it: the next policy may answer otherwise
    to.field(&CACHE_CONTROL, Value::Static("no-store"));
    if format == BodyFormat::Auto && grpc.is_none() {
        to.field(&VARY, Value::Static("Accept"));
    }
    own.headers().iter().for_each(|(name, value)| to.field(name, Value::Line(value)));
    if let Some(seconds) = wait {
        to.field(&RETRY_AFTER, Value::Number(seconds));
    }
    if let Some(grpc) = grpc {
        to.field(&GRPC_STATUS, Value::Number(u64::from(grpc)));
        to.field(&GRPC_MESSAGE, Value::Text(detail.as_bytes()));
    }
    let proxy_status = responses.proxy_name.as_deref().and_then(|name| proxy_status(name, meaning));
    if let Some(value) = &proxy_status {
        to.field(&PROXY_STATUS, Value::Line(value));
    }
    if let (Some(id), true) = (id, responses.decision_id) {
        to.field(&DECISION, Value::Text(&id.text()));
    }
    if let Some(cors) = context.fields.and_then(RouteFields::cors) {
        let add = |name, value| {
            to.field(&name, Value::Line(&value));
            Ok(())
        };
        let _: Result<(), std::convert::Infallible> = cors.on_answer(context.origin, add);
    }
    more(to);
    to.end(!context.form.is_head());
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

/// The longest sentence of ours, and the longest wait.
const MOST_DETAIL: usize = 192;

/// What happened and when to come back. ASCII without `%`, so that it needs no encoding as a `grpc-message`.
fn detail(meaning: &Meaning, wait: Option<u64>) -> ArrayString<MOST_DETAIL> {
    let mut said = ArrayString::new();
    // what has no room is none of ours
    let mut put = |text: &str| said.try_push_str(text).unwrap_or_default();
    put(meaning.detail);
    match (wait, meaning.problem) {
        (Some(1), _) => put(" Try again in 1 second."),
        (Some(seconds), _) => {
            put(" Try again in ");
            put(itoa::Buffer::new().format(seconds));
            put(" seconds.");
        }
        (None, problem) if problem.is_of_a_limit() => put(" Waiting does not help."),
        (None, _) => {}
    }
    said
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
    list.finish(&mut BytesMut::new())
}

#[cfg(test)]
mod sample;
#[cfg(test)]
mod sample_kinds;
#[cfg(test)]
mod tests;
