//! What the origin sees of the client, and the client of the origin: the gate's own fields and the operator's edits.

use std::fmt::Write;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::{Error, ErrorType};

use super::context::RequestContext;
use crate::answer::{RouteFields, cors};
use crate::client::{Field, Proto, onward};
use crate::edge::connection_info::ConnectionInfo;
use crate::policy::edit::Placeholder;
use crate::policy::{CRITICALITY_FIELD, HeaderEdits};
use crate::request::Peer;
use crate::units::Criticality;
use tidegate_http::hearsay;

/// Takes out the fields of which this is true.
fn remove_all(upstream: &mut RequestHeader, unwanted: impl Fn(&HeaderName) -> bool) {
    if !upstream.headers.keys().any(&unwanted) {
        return;
    }
    let names: Vec<HeaderName> = upstream.headers.keys().filter(|name| unwanted(name)).cloned().collect();
    for name in names {
        upstream.remove_header(&name);
    }
}

/// The request as the origin gets it: who the client is, then the operator's edits. What the peer may not tell has been taken out
/// before the request was judged ([`settled`](super::settled)).
///
/// # Errors
/// A value that no header may hold, which neither our fields nor a checked template produce.
pub fn towards_origin(
    info: Option<&ConnectionInfo>,
    received: &HeaderMap,
    upstream: &mut RequestHeader,
    context: &RequestContext,
) -> pingora::Result<()> {
    if let Some(evaluation) = &context.evaluation
        && let Some(client) = &evaluation.decision.client
    {
        let rules = &context.generation.engine().policy().clients;
        let peer = info.map_or(Peer::Unix, |info| info.peer);
        let onward = onward(rules, peer, client, received, info.map_or(Proto::Http, ConnectionInfo::proto));
        if let Some(name) = onward.remove {
            upstream.remove_header(name);
        }
        // as static text: a `HeaderName` would be turned back into text, twice, on every request
        put(upstream, "X-Forwarded-For", onward.x_forwarded_for)?;
        put(upstream, "Forwarded", onward.forwarded)?;
    }
    let read = context.generation.engine().fields();
    remove_all(upstream, |name| read.is_imitation(name));
    let tags = context.generation.tag_fields();
    if !tags.is_empty() {
        remove_all(upstream, |field| tags.iter().any(|name| field == name || is_twin(field, name)));
    }
    if let Some(route) = context.route()
        && !route.request_headers.is_empty()
    {
        // what the gate says of itself, or wants unsaid, no client may say in another spelling
        let edits = &route.request_headers;
        let edited = || edits.remove.iter().chain(edits.set.iter().chain(&edits.add).map(|(name, _)| name));
        remove_all(upstream, |field| edited().any(|name| is_twin(field, name)));
        apply(edits, context, upstream)?;
    }
    put_criticality(upstream, context)?;
    if tags.is_empty() { Ok(()) } else { put_tags(upstream, context) }
}

/// Tells the origin how much the request matters, in the gate's own field. The field of trusted peers has said what it had to say.
fn put_criticality(upstream: &mut RequestHeader, context: &RequestContext) -> pingora::Result<()> {
    let Some(evaluation) = &context.evaluation else { return Ok(()) };
    if let Some(field) = &context.generation.engine().policy().clients.criticality {
        upstream.remove_header(&field.name);
    }
    let criticality = evaluation.decision.class.criticality;
    if criticality != Criticality::Default {
        upstream.insert_header(CRITICALITY_FIELD, HeaderValue::from_static(criticality.word()))?;
    }
    Ok(())
}

/// Whether CGI and its descendants take the field for the one of this name.
fn is_twin(field: &HeaderName, name: &HeaderName) -> bool {
    hearsay::is_twin_of(field.as_str(), name.as_str())
}

/// Tells the origin which limits the request is over: one line per field, their names separated by commas. No edit can
/// forge them, as they come last.
fn put_tags(upstream: &mut RequestHeader, context: &RequestContext) -> pingora::Result<()> {
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
            upstream.insert_header(field.clone(), value)?;
        }
    }
    Ok(())
}

/// The answer as the client gets it: the operator's edits, then the fields of `cors:` and of limits, which no edit can forge. `asked`: the
/// fields of the request.
///
/// # Errors
/// As for [`towards_origin`].
pub fn towards_client(answer: &mut ResponseHeader, asked: &HeaderMap, context: &RequestContext) -> pingora::Result<()> {
    if let Some(route) = context.route()
        && !route.response_headers.is_empty()
    {
        apply(&route.response_headers, context, answer)?;
    }
    if let Some(fields) = context.fields().and_then(RouteFields::cors) {
        for name in &cors::OWN {
            answer.remove_header(name);
        }
        fields.on_answer(cors::origin(asked), |name, value| answer.append_header(name, value).map(drop))?;
    }
    rate_limit_fields(answer, context)
}

/// Adds what the client is told about its limits to an answer of the route.
fn rate_limit_fields(head: &mut ResponseHeader, context: &RequestContext) -> pingora::Result<()> {
    let Some(decision) = context.evaluation.as_ref().map(|evaluation| &evaluation.decision) else { return Ok(()) };
    if decision.readings.is_empty() {
        return Ok(());
    }
    let Some(fields) = decision.route.and_then(|route| context.generation.fields(route)) else { return Ok(()) };
    let policy = context.generation.engine().policy();
    for (name, value) in fields.on_answer(decision, policy, head.status, &head.headers, context.wall_nanos()) {
        // as static text where it is ours: a `HeaderName` would be turned back into text, twice, on every answer
        match name.as_str() {
            "ratelimit" => head.append_header("RateLimit", value)?,
            "ratelimit-policy" => head.append_header("RateLimit-Policy", value)?,
            _ => head.append_header(name, value)?,
        };
    }
    Ok(())
}

/// Takes away what concerns the origin's connection only: what its `Connection` names and what never travels further
/// (RFC 9110 section 7.6.1). Not for a switch of protocols, which is about the connection.
pub fn drop_hop_by_hop(answer: &mut ResponseHeader) {
    let named =
        answer.headers.get_all(header::CONNECTION).iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let names: Vec<HeaderName> = named.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok()).collect();
    for name in names {
        // the framing of the body is never up to this field
        if name != header::CONTENT_LENGTH && name != header::TRANSFER_ENCODING {
            answer.remove_header(&name);
        }
    }
    for name in ["keep-alive", "proxy-connection"] {
        answer.remove_header(name);
    }
}

/// A head whose fields can be changed; requests and answers have no common type for it.
trait Fields {
    fn replace(&mut self, name: HeaderName, value: HeaderValue) -> pingora::Result<()>;
    fn append(&mut self, name: HeaderName, value: HeaderValue) -> pingora::Result<()>;
    fn remove(&mut self, name: &HeaderName);
}

impl Fields for RequestHeader {
    fn replace(&mut self, name: HeaderName, value: HeaderValue) -> pingora::Result<()> {
        self.insert_header(name, value)
    }

    fn append(&mut self, name: HeaderName, value: HeaderValue) -> pingora::Result<()> {
        self.append_header(name, value).map(drop)
    }

    fn remove(&mut self, name: &HeaderName) {
        self.remove_header(name);
    }
}

impl Fields for ResponseHeader {
    fn replace(&mut self, name: HeaderName, value: HeaderValue) -> pingora::Result<()> {
        self.insert_header(name, value)
    }

    fn append(&mut self, name: HeaderName, value: HeaderValue) -> pingora::Result<()> {
        self.append_header(name, value).map(drop)
    }

    fn remove(&mut self, name: &HeaderName) {
        self.remove_header(name);
    }
}

fn apply(edits: &HeaderEdits, context: &RequestContext, head: &mut impl Fields) -> pingora::Result<()> {
    let unwritable = || Error::explain(ErrorType::InternalError, "an unwritable header value");
    for name in &edits.remove {
        head.remove(name);
    }
    for (name, template) in &edits.set {
        let value = template.render(|placeholder, out| fill(placeholder, context, out)).ok_or_else(unwritable)?;
        head.replace(name.clone(), value)?;
    }
    for (name, template) in &edits.add {
        let value = template.render(|placeholder, out| fill(placeholder, context, out)).ok_or_else(unwritable)?;
        head.append(name.clone(), value)?;
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

fn put(upstream: &mut RequestHeader, name: &'static str, field: Field) -> pingora::Result<()> {
    match field {
        Field::Set(value) => upstream.insert_header(name, value),
        Field::Remove => {
            upstream.remove_header(name);
            Ok(())
        }
    }
}
