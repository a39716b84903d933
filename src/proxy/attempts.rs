//! A request's attempts at its origin: how long each may take, whether there is another, and what each tells of its address.
//!
//! What is tried again is safe to be: nothing was sent yet (no connection came to stand), or the method is idempotent, no
//! answer has begun, and all that came of the body is still at hand (RFC 9110 section 9.2.2). Beyond that the policy decides: for
//! which reasons, how often, and within which budget.

use pingora::{Error, ErrorSource, ErrorType};

use super::abandoned;
use super::context::RequestContext;
use super::downstream::{Downstream, is_gone};
use super::observe;
use super::request_view::RequestHead as _;
use crate::edge::answer_deadline::LateAnswer;
use crate::observe::log::TRAFFIC;
use crate::system::cause::cause_of;
use crate::system::clock::Clock;
use crate::system::descriptors::NoDescriptor;
use crate::units::Timestamp;
use tidegate_http::fault::{AnswerFault, BodyFault};

/// Returns whether an answer with this status means that its address does not serve.
pub fn is_failure(status: u16) -> bool {
    matches!(status, 502..=504)
}

/// No connection was made; returns whether another attempt is made. Nothing was sent, so it is safe for every request.
pub fn not_connected(context: &mut RequestContext, session: &impl Downstream, error: &Error, clock: &Clock) -> bool {
    observe::origin_failed(context, error);
    if NoDescriptor::caused(error) {
        // ours to mend, and another attempt would find none either
        tracing::warn!(target: TRAFFIC, "no file descriptor is left for a connection to an origin: raise `LimitNOFILE=` or `ulimit -Hn`");
        context.attempt = None;
        return false;
    }
    let now = clock.now();
    failed(context, now);
    let Some(origin) = context.origin().filter(|_| !is_gone(session)) else { return false };
    let retries = &origin.spec().retries;
    let wanted = retries.on_connect_error && context.attempts <= retries.max && context.time_left(now);
    wanted && is_granted(context, now)
}

/// An attempt broke off after a connection stood; returns whether another one is made.
pub fn broke_off(context: &mut RequestContext, session: &mut impl Downstream, error: &Error, clock: &Clock) -> bool {
    // The origin may have closed the connection while nobody used it. One that was spoilt before anything was sent on it is as good
    // as closed.
    let stale = error.retry() || cause_of::<AnswerFault>(error) == Some(AnswerFault::Unasked);
    let late = LateAnswer::caused(error);
    if *error.esource() != ErrorSource::Upstream && !late {
        return false;
    }
    let waits_for_client = !session.is_read();
    if late && waits_for_client {
        return false;
    }
    observe::origin_failed(context, error);
    let now = clock.now();
    // An origin that waits for what the client does not send gives up some time, and a connection that speaks another protocol
    // ends as its two sides like: neither says anything of the address, or clients could have it left out. A connection
    // that was closed while nobody used it is no fault of it either, but one that is closed on every request looks the
    // same, and a success in between sets the first right.
    if !waits_for_client && !session.was_upgraded() {
        failed(context, now);
    }
    // nobody is there for the answer of another attempt
    let Some(origin) = context.origin().filter(|_| !is_gone(session)) else { return false };
    let retries = &origin.spec().retries;
    let safe = session.head().method().is_idempotent() && session.can_be_repeated() && session.written().is_none();
    let wanted = match reason_of(error) {
        // once even where the policy wants no retries: the client must not pay for our having kept the connection
        _ if stale => context.attempts <= retries.max.max(1),
        Some(Reason::Timeout) => retries.on_timeout && context.attempts <= retries.max,
        Some(Reason::Reset) => retries.on_reset_before_answer && context.attempts <= retries.max,
        None => false,
    };
    safe && wanted && context.time_left(now) && is_granted(context, now)
}

/// The head of the final answer has come.
pub fn answered(context: &mut RequestContext, status: u16) {
    context.answered_with = Some(status);
    let Some((origin, attempt)) = context.origin().zip(context.attempt.as_ref()) else { return };
    if let Some(ended) = context.answered {
        origin.completed(attempt.began, ended, is_failure(status));
        abandoned::note_duration(context, attempt.began, ended);
    }
}

/// The request has ended and its last attempt has not failed. To be called before the place is given back.
pub fn ended(context: &mut RequestContext, clock: &Clock) {
    // without an answer the client has left, which says nothing of the address
    let Some(status) = context.answered_with else { return };
    if let Some((origin, attempt)) = context.origin().zip(context.attempt.as_ref())
        && origin.spec().ejection.is_some()
    {
        origin.note(attempt, is_failure(status), clock.now());
    }
}

/// The attempt under way is over, and its address is to blame.
fn failed(context: &mut RequestContext, now: Timestamp) {
    let Some(attempt) = context.attempt.take() else { return };
    let answered = context.answered_with.is_some();
    let Some(origin) = context.origin() else { return };
    if !answered {
        origin.completed(attempt.began, now, true);
    }
    origin.note(&attempt, true, now);
}

/// Takes what one more attempt costs; counts it if there is nothing left.
fn is_granted(context: &RequestContext, now: Timestamp) -> bool {
    let granted = context.origin().is_some_and(|origin| origin.may_retry(|| now));
    if !granted && let Some(origin) = context.origin_index() {
        context.generation.metrics().origin_retry_refused(origin);
    }
    granted
}

enum Reason {
    Timeout,
    Reset,
}

/// The reason in the words of `retries.on`; `None` for answers that came and could not be used.
fn reason_of(error: &Error) -> Option<Reason> {
    use ErrorType::{ConnectionClosed, ReadError, ReadTimedout, WriteError, WriteTimedout};
    if LateAnswer::caused(error) {
        return Some(Reason::Timeout);
    }
    if cause_of::<BodyFault>(error).is_some() {
        return None;
    }
    match error.etype() {
        ReadTimedout | WriteTimedout => Some(Reason::Timeout),
        ReadError | WriteError | ConnectionClosed => Some(Reason::Reset),
        _ => None,
    }
}
