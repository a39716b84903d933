//! Takes the origin's answer to the client, and answers in its place when there is none.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use http::{HeaderMap, StatusCode, Version, header};
use pingora::http::ResponseHeader;
use pingora::{Error, ErrorType};

use super::blame::{counts_as_an_attempt, fault_of};
use super::context::RequestContext;
use super::downstream::{self, Downstream, connection_info, is_gone};
use super::fields::AnswerHead;
use super::observe::{self, Ended};
use super::request_view::{RequestHead as _, WholeHead as _};
use super::{abandoned, attempts, edits, reply, room, timing};
use crate::answer::Fault;
use crate::edge::idle_place::GaveWay;
use crate::origins::http2;
use crate::running::process::Process;
use tidegate_http::fault::AnswerFault;
use tidegate_http::lines::Lookup as _;

/// Judges the head of an answer in HTTP/2, as that of HTTP/1 was when it was read.
///
/// # Errors
/// It cannot be passed on.
pub fn judge_http2(upstream: &ResponseHeader) -> pingora::Result<()> {
    http2::judge(upstream).map_err(refused)
}

/// Whether the client has asked for the protocols of this change (RFC 9110 section 7.8).
fn is_asked_for(session: &impl Downstream, switch: &impl AnswerHead) -> bool {
    let elements = |line: &'_ [u8]| -> Vec<Vec<u8>> {
        line.split(|byte| *byte == b',').map(|element| element.trim_ascii().to_ascii_lowercase()).collect()
    };
    let asked: Vec<_> = session.head().fields().lines(&header::UPGRADE).flat_map(elements).collect();
    let mut protocols = switch.fields().lines(&header::UPGRADE).flat_map(elements).peekable();
    protocols.peek().is_some() && protocols.all(|protocol| !protocol.is_empty() && asked.contains(&protocol))
}

/// Takes the head of an answer: charges what waited for it, and makes it what the client gets. `memory` is for values of fields.
///
/// # Errors
/// The answer cannot be passed on.
pub async fn head(
    process: &Process,
    session: &mut impl Downstream,
    upstream: &mut impl AnswerHead,
    context: &mut RequestContext,
    memory: &mut BytesMut,
) -> pingora::Result<()> {
    let status = upstream.status();
    if status == StatusCode::SWITCHING_PROTOCOLS && !(session.wants_upgrade() && is_asked_for(session, upstream)) {
        // what follows it would be passed on as something that nobody asked for
        return Err(Error::explain(ErrorType::InvalidHTTPHeader, "an unasked change of protocol").into_up());
    }
    let switches = status == StatusCode::SWITCHING_PROTOCOLS;
    if status.is_informational() && !switches {
        return Ok(());
    }
    if !room::for_response(session, upstream).await {
        return Err(room::full(context));
    }
    context.answered = timing::stamp(process, context);
    attempts::answered(context, status.as_u16());
    context.settle(status, upstream.fields(), &process.clock);
    if switches {
        if context.switch() {
            return Ok(());
        }
        // `fail_to_proxy` answers; the connection to the origin speaks another protocol by now and is dropped
        return Err(Error::explain(ErrorType::InternalError, "no room for another switched connection").into_in());
    }
    let longest = context.route().and_then(|route| route.timeouts.body);
    context.body_due = longest.map(|longest| process.clock.now().after(longest));
    upstream.speak_http11();
    edits::drop_hop_by_hop(upstream);
    if session.head().version() == Version::HTTP_10 && upstream.fields().has(&header::TRANSFER_ENCODING) {
        // it knows no chunks: the end of the connection ends the body (RFC 9112 section 6.1)
        upstream.remove(&header::TRANSFER_ENCODING);
        session.close();
    }
    edits::towards_client(upstream, || session.head().origin(), context, memory)
}

/// Counts a piece of the answer's body, by its length. Returns how long to hold it back.
///
/// # Errors
/// The body takes too long, or there is no room for it.
pub fn body(
    process: &Process,
    session: &impl Downstream,
    length: u64,
    context: &mut RequestContext,
) -> pingora::Result<Option<Duration>> {
    room::for_answer(session, context, length)?;
    // an origin that drips a byte before every deadline for a read would hold its place for ever
    if context.body_due.is_some_and(|due| process.clock.now() > due) {
        return Err(Error::explain(ErrorType::ReadTimedout, "the answer's body takes too long").into_up());
    }
    Ok(context.carried(length, &process.clock))
}

/// Checks the trailers of an answer.
///
/// # Errors
/// They cannot be passed on.
pub fn trailers(trailers: &mut HeaderMap) -> pingora::Result<()> {
    http2::judge_trailers(trailers).map_err(refused)
}

/// Answers a request that went wrong, where that is still possible. Returns the status that it ended with.
pub async fn failed(
    process: &Process,
    session: &mut impl Downstream,
    e: &Error,
    context: &mut RequestContext,
) -> StatusCode {
    if context.switch_refused
        && let Some(refusal) = context.refusal()
    {
        let info = connection_info(session).map(AsRef::as_ref);
        observe::decided(process, context, info, session.head(), None);
        context.release();
        session.close();
        let _ = reply::refusal(session, context, refusal).await;
        return session.written().unwrap_or_else(|| Fault::ClientGone.meaning().status);
    }
    if GaveWay::caused(e) {
        context.gave_way();
    }
    let mut fault = context.fault.unwrap_or_else(|| fault_of(e));
    if fault == Fault::OriginTimeout && !session.is_read() {
        // the origin waits for what the client does not send
        fault = Fault::ClientTimeout;
    }
    context.fault = Some(fault).filter(|fault| *fault != Fault::ClientGone || !downstream::has_switched(session));
    if !counts_as_an_attempt(fault) {
        context.origin_failed();
    }
    abandoned::keep_places(session, context, e, &process.clock);
    // the attempt is over; whoever reads our answer and asks again at once must find the place free
    context.release();
    let begun = downstream::answered_with(session).is_some();
    // an error after this point closes the connection anyway; saying so spares the client a lost request on it
    session.close();
    let is_cut = begun && !context.answered_in_full && fault != Fault::ClientGone;
    if is_cut && session.head().version() == Version::HTTP_10 {
        // the end of its connection is the end of its answer
        session.client().inspect(|client| client.cut());
    } else if fault != Fault::ClientGone && !begun {
        let _ = reply::fault(session, context, fault).await;
    }
    fault.meaning().status
}

/// Gives back what the request held, and reports it.
pub fn ended(process: &Process, session: &impl Downstream, context: &mut RequestContext) {
    if is_gone(session) {
        context.fault.get_or_insert(Fault::ClientGone);
    }
    attempts::ended(context, &process.clock);
    context.release();
    if let Some(share) = downstream::share(session) {
        share.clear();
    }
    observe::done(process, context, &Ended::of(session));
}

/// An answer that is not passed on.
fn refused(fault: AnswerFault) -> Box<Error> {
    Error::because(ErrorType::InvalidHTTPHeader, "the origin's answer", io::Error::from(fault)).into_up()
}
