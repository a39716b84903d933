//! What the origin sees of the client, and the client of the origin: the gate's own fields and the operator's edits.

use std::fmt::Write;

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use pingora::{Error, ErrorType};

use super::context::RequestContext;
use super::fields::{AnswerHead, Fields, Name};
use crate::answer::{RouteFields, cors};
use crate::client::trust::X_FORWARDED_FOR;
use crate::client::{Field, Proto, onward};
use crate::edge::connection_info::ConnectionInfo;
use crate::policy::edit::Placeholder;
use crate::policy::{CRITICALITY_FIELD, HeaderEdits};
use crate::request::Peer;
use crate::units::Criticality;
use tidegate_http::hearsay;
use tidegate_http::lines::Lookup;

/// The request as the origin gets it: who the client is, then the operator's edits. What the peer may not tell has been taken out
/// before the request was judged ([`settled`](super::settled)). `memory` is for values.
///
/// # Errors
/// A value that no header may hold, which neither our fields nor a checked template produce.
pub fn towards_origin(
    info: Option<&ConnectionInfo>,
    received: &HeaderMap,
    upstream: &mut impl Fields,
    context: &RequestContext,
    memory: &mut BytesMut,
) -> pingora::Result<()> {
    if let Some(evaluation) = &context.evaluation
        && let Some(client) = &evaluation.decision.client
    {
        let rules = &context.generation.engine().policy().clients;
        let peer = info.map_or(Peer::Unix, |info| info.peer);
        let proto = info.map_or(Proto::Http, ConnectionInfo::proto);
        let onward = onward(rules, peer, client, received, proto, memory);
        if let Some(name) = onward.remove {
            upstream.remove(name);
        }
        put(upstream, (&X_FORWARDED_FOR, "X-Forwarded-For"), onward.x_forwarded_for)?;
        put(upstream, (&header::FORWARDED, "Forwarded"), onward.forwarded)?;
    }
    let read = context.generation.engine().fields();
    if read.has_imitations() {
        upstream.remove_where(|name| read.may_be_imitation(name), |name| read.is_imitation(name));
    }
    let tags = context.generation.tag_fields();
    if !tags.is_empty() {
        let is_forged = |field: &str| tags.iter().any(|name| name == field || is_twin(field, name));
        upstream.remove_where(|field| tags.iter().any(|name| is_as_long(field, name)), is_forged);
    }
    if let Some(route) = context.route()
        && !route.request_headers.is_empty()
    {
        // what the gate says of itself, or wants unsaid, no client may say in another spelling
        let edits = &route.request_headers;
        let edited = || edits.remove.iter().chain(edits.set.iter().chain(&edits.add).map(|(name, _)| name));
        let is_other_spelling = |field: &str| edited().any(|name| is_twin(field, name));
        upstream.remove_where(|field| edited().any(|name| is_as_long(field, name)), is_other_spelling);
        apply(edits, context, upstream)?;
    }
    put_criticality(upstream, context)?;
    if tags.is_empty() { Ok(()) } else { put_tags(upstream, context) }
}

/// Tells the origin how much the request matters, in the gate's own field. The field of trusted peers has said what it had to say.
fn put_criticality(upstream: &mut impl Fields, context: &RequestContext) -> pingora::Result<()> {
    let Some(evaluation) = &context.evaluation else { return Ok(()) };
    if let Some(field) = &context.generation.engine().policy().clients.criticality {
        upstream.remove(&field.name);
    }
    let criticality = evaluation.decision.class.criticality;
    if criticality != Criticality::Default {
        upstream.set(Name::Of(&CRITICALITY_FIELD), HeaderValue::from_static(criticality.word()))?;
    }
    Ok(())
}

/// Whether the field can be one of this name, or its [twin](is_twin).
fn is_as_long(field: &[u8], name: &HeaderName) -> bool {
    field.len() == name.as_str().len()
}

/// Whether CGI and its descendants take the field for the one of this name.
fn is_twin(field: &str, name: &HeaderName) -> bool {
    hearsay::is_twin_of(field, name.as_str())
}

/// Tells the origin which limits the request is over: one line per field, their names separated by commas. No edit can
/// forge them, as they come last.
fn put_tags(upstream: &mut impl Fields, context: &RequestContext) -> pingora::Result<()> {
    let Some(decision) = context.evaluation.as_ref().map(|evaluation| &evaluation.decision) else { return Ok(()) };
    let engine = context.generation.engine();
    for field in context.generation.tag_fields() {
        let mut value = String::new();
        for (_, limit) in engine.tags(decision).filter(|(name, _)| *name == field) {
            if !value.is_empty() {
                value.push_str(", ");
            }
            value.push_str(limit);
        }
        if !value.is_empty() {
            let value = HeaderValue::from_str(&value)
                .map_err(|_| Error::explain(ErrorType::InternalError, "a limit's name that no field can hold"))?;
            upstream.set(Name::Of(field), value)?;
        }
    }
    Ok(())
}

/// The answer as the client gets it: the operator's edits, then the fields of `cors:` and of limits, which no edit can forge. `origin`:
/// the `Origin` of the request, which is asked for only where the route has `cors:`. `memory` is for values.
///
/// # Errors
/// As for [`towards_origin`].
pub fn towards_client(
    answer: &mut impl AnswerHead,
    origin: impl FnOnce() -> Option<HeaderValue>,
    context: &RequestContext,
    memory: &mut BytesMut,
) -> pingora::Result<()> {
    if let Some(route) = context.route()
        && !route.response_headers.is_empty()
    {
        apply(&route.response_headers, context, answer)?;
    }
    if let Some(fields) = context.fields().and_then(RouteFields::cors) {
        for name in &cors::OWN {
            answer.remove(name);
        }
        fields.on_answer(origin().as_ref(), |name, value| answer.add(Name::Of(&name), value))?;
    }
    rate_limit_fields(answer, context, memory)
}

/// Adds what the client is told about its limits to an answer of the route.
fn rate_limit_fields(
    head: &mut impl AnswerHead,
    context: &RequestContext,
    memory: &mut BytesMut,
) -> pingora::Result<()> {
    let Some(decision) = context.evaluation.as_ref().map(|evaluation| &evaluation.decision) else { return Ok(()) };
    if decision.readings.is_empty() {
        return Ok(());
    }
    let Some(fields) = decision.route.and_then(|route| context.generation.fields(route)) else { return Ok(()) };
    let policy = context.generation.engine().policy();
    let around = (context.wall_nanos(), memory);
    for (name, value) in fields.on_answer(decision, policy, head.status(), head.fields(), around) {
        let name = match name.as_str() {
            "ratelimit" => Name::Spelled("RateLimit"),
            "ratelimit-policy" => Name::Spelled("RateLimit-Policy"),
            _ => Name::Of(&name),
        };
        head.add(name, value)?;
    }
    Ok(())
}

/// Takes away what concerns the origin's connection only: what its `Connection` names and what never travels further
/// (RFC 9110 section 7.6.1). Not for a switch of protocols, which is about the connection.
pub fn drop_hop_by_hop(answer: &mut impl Fields) {
    let is_named = |name: &[u8]| !name.eq_ignore_ascii_case(b"keep-alive");
    // what nearly all say is one option, and names nothing that would stay
    let lines = answer.fields().lines(&header::CONNECTION).filter(|line| is_named(line));
    // the framing of the body is never up to this field, and most that is named goes anyway
    let named =
        lines.flat_map(|line| line.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii).filter(|name| is_named(name));
    let names: Vec<HeaderName> = named.filter_map(|name| HeaderName::from_bytes(name).ok()).collect();
    for name in names {
        if name != header::CONTENT_LENGTH && name != header::TRANSFER_ENCODING {
            answer.remove(&name);
        }
    }
    for name in &OF_ONE_CONNECTION {
        answer.remove(name);
    }
}

/// Fields about one connection, whether `Connection` names them or not: two are from before it did.
const OF_ONE_CONNECTION: [HeaderName; 4] =
    [HeaderName::from_static("keep-alive"), HeaderName::from_static("proxy-connection"), header::TE, header::UPGRADE];

fn apply(edits: &HeaderEdits, context: &RequestContext, head: &mut impl Fields) -> pingora::Result<()> {
    let unwritable = || Error::explain(ErrorType::InternalError, "an unwritable header value");
    for name in &edits.remove {
        head.remove(name);
    }
    for (name, template) in &edits.set {
        let value = template.render(|placeholder, out| fill(placeholder, context, out)).ok_or_else(unwritable)?;
        head.set(Name::Of(name), value)?;
    }
    for (name, template) in &edits.add {
        let value = template.render(|placeholder, out| fill(placeholder, context, out)).ok_or_else(unwritable)?;
        head.add(Name::Of(name), value)?;
    }
    Ok(())
}

/// The gate's own facts; nothing of the request's text gets into a template.
fn fill(placeholder: Placeholder, context: &RequestContext, out: &mut String) {
    let decision = context.evaluation.as_ref().map(|evaluation| &evaluation.decision);
    let client = decision.and_then(|decision| decision.client);
    let written = match placeholder {
        Placeholder::ClientIp => client.map(|client| write!(out, "{}", client.address)),
        Placeholder::ClientPrefix => client.map(|client| write!(out, "{}", client.network)),
        Placeholder::RequestId => decision.map(|decision| write!(out, "{}", decision.id)),
        Placeholder::Route => context.route().map(|route| out.write_str(&route.name)),
    };
    // writing to a string cannot fail
    debug_assert!(written.is_none_or(|result| result.is_ok()));
}

fn put(upstream: &mut impl Fields, (name, spelling): (&HeaderName, &'static str), field: Field) -> pingora::Result<()> {
    match field {
        Field::Set(value) => upstream.set(Name::Spelled(spelling), value),
        Field::Remove => {
            upstream.remove(name);
            Ok(())
        }
    }
}
