//! Sends the gate's own answers in Pingora's session.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use pingora::http::ResponseHeader;
use pingora::proxy::Session;

use super::context::RequestContext;
use super::downstream::{edge_stream, leave};
use super::judge;
use super::request_view::RequestHead as _;
use crate::answer::{self, Answer, Fault, cors};
use crate::engine::Refusal;
use crate::policy::Action;
use crate::system::clock::Clock;

/// An unread body up to this size is read and thrown away, so that the client keeps its connection; behind a larger one
/// the connection closes.
const WORTH_DRAINING: u64 = 64 * 1024;

/// Answers a refused request.
///
/// # Errors
/// The client is gone.
pub async fn refusal(session: &mut Session, context: &RequestContext, refusal: Refusal) -> pingora::Result<()> {
    if context.closes() {
        leave(session);
    }
    if let Some(stream) = edge_stream(session) {
        stream.note_refusal();
    }
    let answer = judge::refuse(context, refusal, session.req_header());
    send(session, answer).await
}

/// Answers a request that went wrong.
///
/// # Errors
/// The client is gone.
pub async fn fault(session: &mut Session, context: &RequestContext, fault: Fault) -> pingora::Result<()> {
    let head = session.req_header();
    let answer = answer::fault(fault, &context.words(head.form(), cors::origin(&head.headers)));
    send(session, answer).await
}

/// Answers with what the route's `respond:` says.
///
/// # Errors
/// The client is gone.
pub async fn fixed(session: &mut Session, context: &mut RequestContext, clock: &Clock) -> pingora::Result<()> {
    let generation = Arc::clone(&context.generation);
    let route = context.evaluation.as_ref().and_then(|evaluation| evaluation.decision.route);
    let route = route.and_then(|index| generation.engine().policy().routes.route(index));
    let Some(Action::Respond(fixed)) = route.map(|route| &route.action) else { return Ok(()) };
    let bodiless = matches!(fixed.status.as_u16(), 204 | 304);
    let mut head = ResponseHeader::build(fixed.status, Some(fixed.headers.len() + 4))?;
    for (name, value) in &fixed.headers {
        head.append_header(name.clone(), value.clone())?;
    }
    if !bodiless {
        head.insert_header(header::CONTENT_LENGTH, fixed.body.len())?;
    }
    super::edits::towards_client(&mut head, &session.req_header().headers, context)?;
    let body =
        if bodiless || session.req_header().method == http::Method::HEAD { Bytes::new() } else { fixed.body.clone() };
    context.settle(fixed.status, &fixed.headers, clock);
    if let Some(pause) = context.carried(body.len() as u64, clock) {
        tokio::time::sleep(pause).await;
    }
    write(session, head, body).await
}

/// Sends an answer of ours.
///
/// # Errors
/// The client is gone.
pub async fn send(session: &mut Session, answer: Answer) -> pingora::Result<()> {
    let mut head = ResponseHeader::build(answer.status, Some(answer.headers.len() + 2))?;
    for (name, value) in answer.headers {
        append(&mut head, name, value)?;
    }
    write(session, head, answer.body).await
}

fn append(head: &mut ResponseHeader, name: HeaderName, value: HeaderValue) -> pingora::Result<()> {
    head.append_header(name, value).map(drop)
}

async fn write(session: &mut Session, head: ResponseHeader, body: Bytes) -> pingora::Result<()> {
    if leaves_a_small_body(session) {
        session.set_close_on_response_before_downstream_finish(false);
        session.set_total_drain_timeout(Some(std::time::Duration::from_secs(2)));
    }
    let ends = body.is_empty();
    session.write_response_header(Box::new(head), ends).await?;
    if !ends {
        session.write_response_body(Some(body), true).await?;
    }
    Ok(())
}

/// Whether what the client is still sending is so little that reading it is cheaper than a new connection. Not for a
/// client that waits for `100 Continue`: it will not send the body after a final answer (RFC 9110 section 10.1.1).
fn leaves_a_small_body(session: &mut Session) -> bool {
    if session.as_downstream_mut().is_body_done() {
        return false;
    }
    let fields = &session.req_header().headers;
    let declared = fields.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    declared.is_some_and(|length| length <= WORTH_DRAINING) && !fields.contains_key(header::EXPECT)
}
