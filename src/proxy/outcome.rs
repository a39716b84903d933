//! From a head to its forwarding, or to the gate's own answer: what both ways to an origin begin with.

use pingora::{Error, ErrorType};

use super::admission::{self, Next};
use super::context::RequestContext;
use super::downstream::Downstream;
use super::{forward, judge, reply};
use crate::answer::Answer;
use crate::running::process::Process;

/// Judges a request, unless the edge has, and admits it. Answers it if it is not to be forwarded; returns whether it did.
///
/// # Errors
/// The client has gone.
pub async fn decide(
    process: &Process,
    session: &mut impl Downstream,
    context: &mut RequestContext,
) -> pingora::Result<bool> {
    let redirected = judge::in_session(process, session, context)?;
    judged(process, session, context, redirected).await
}

/// The same for a request that was judged, and whose head is [settled](super::settled). `redirected`: the answer of a listener that
/// redirects, about which nothing was decided.
///
/// # Errors
/// As for [`decide`].
pub async fn judged(
    process: &Process,
    session: &mut impl Downstream,
    context: &mut RequestContext,
    redirected: Option<Box<Answer>>,
) -> pingora::Result<bool> {
    let next = match redirected {
        Some(answer) => Next::Answer(*answer),
        None => admission::admit(process, session, context).await?,
    };
    if process.draining() {
        session.leave();
    }
    if matches!(next, Next::Forward) {
        forward::begin(process, session, context);
        return Ok(false);
    }
    // in a box, so that a request that is forwarded has no room for an answer of ours
    Box::pin(answered(process, session, context, next)).await.map(|()| true)
}

/// Answers a request that is not to be forwarded.
async fn answered(
    process: &Process,
    session: &mut impl Downstream,
    context: &mut RequestContext,
    next: Next,
) -> pingora::Result<()> {
    match next {
        Next::Forward => {
            Err(Error::explain(ErrorType::InternalError, "a request that is forwarded has no answer of ours"))
        }
        Next::Respond => reply::fixed(session, context, &process.clock).await,
        Next::Refuse(refusal) => reply::refusal(session, context, refusal).await,
        Next::Fault(fault) => {
            context.fault = Some(fault);
            reply::fault(session, context, fault).await
        }
        Next::Answer(answer) => reply::send(session, answer).await,
    }
}
