//! Sends the gate's own answers.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header;

use super::context::RequestContext;
use super::downstream::Downstream;
use super::fields::{AnswerHead as _, Fields as _, Name};
use super::judge;
use super::request_view::RequestHead as _;
use crate::answer::{self, Answer, Fault};
use crate::engine::Refusal;
use crate::policy::Action;
use crate::system::clock::Clock;

/// Answers a refused request.
///
/// # Errors
/// The client is gone.
pub async fn refusal(session: &mut impl Downstream, context: &RequestContext, refusal: Refusal) -> pingora::Result<()> {
    if context.closes() {
        session.leave();
    }
    session.note_refusal();
    let answer = judge::refuse(context, refusal, session.head());
    send(session, answer).await
}

/// Answers a request that went wrong.
///
/// # Errors
/// The client is gone.
pub async fn fault(session: &mut impl Downstream, context: &RequestContext, fault: Fault) -> pingora::Result<()> {
    let head = session.head();
    let origin = if context.reads_origin() { head.origin() } else { None };
    let answer = answer::fault(fault, &context.words(head.form(), origin.as_ref()));
    send(session, answer).await
}

/// Answers with what the route's `respond:` says.
///
/// # Errors
/// The client is gone.
pub async fn fixed<D: Downstream>(session: &mut D, context: &mut RequestContext, clock: &Clock) -> pingora::Result<()> {
    let generation = Arc::clone(&context.generation);
    let route = context.evaluation.as_ref().and_then(|evaluation| evaluation.decision.route);
    let route = route.and_then(|index| generation.engine().policy().routes.route(index));
    let Some(Action::Respond(fixed)) = route.map(|route| &route.action) else { return Ok(()) };
    let bodiless = matches!(fixed.status.as_u16(), 204 | 304);
    let mut head = D::Answer::of(fixed.status, fixed.headers.len() + 4)?;
    for (name, value) in &fixed.headers {
        head.add(Name::Of(name), value.clone())?;
    }
    if !bodiless {
        head.set(Name::Of(&header::CONTENT_LENGTH), fixed.body.len().into())?;
    }
    super::edits::towards_client(&mut head, || session.head().origin(), context, &mut BytesMut::new())?;
    let body =
        if bodiless || session.head().method() == http::Method::HEAD { Bytes::new() } else { fixed.body.clone() };
    context.settle(fixed.status, &fixed.headers, clock);
    if let Some(pause) = context.carried(body.len() as u64, clock) {
        tokio::select! {
            biased;
            gone = session.gone() => return Err(gone),
            () = tokio::time::sleep(pause) => {}
        }
    }
    session.reply(head, body).await
}

/// Sends an answer of ours.
///
/// # Errors
/// The client is gone.
pub async fn send<D: Downstream>(session: &mut D, answer: Answer) -> pingora::Result<()> {
    let mut head = D::Answer::of(answer.status, answer.headers.len() + 2)?;
    for (name, value) in answer.headers {
        head.add(Name::Of(&name), value)?;
    }
    session.reply(head, answer.body).await
}
