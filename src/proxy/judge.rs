//! Judges requests: the one place where a head meets the policy.
//!
//! Every head is judged once. One in HTTP/1 without a body comes [from the edge](at_edge), before Pingora sees it, at the start
//! of a connection and after a refusal: a refusal then costs a read, a decision and a write, and refusals are what a flood
//! consists of. All others come [in Pingora's session](in_session). An admitted request takes its decision along.

use std::mem;

use http::header;

use super::context::RequestContext;
use super::downstream::{Downstream, connection_info};
use super::observe::{self, Ended};
use super::request_view::{EdgeHead, RequestHead, RequestView, peer_of};
use super::serialize::{self, Written};
use super::{redirect, settled, shared_limits};
use crate::answer::{self, Answer};
use crate::client::{ClientNetwork, Source};
use crate::edge::common::HeadVerdict;
use crate::edge::connection_info::ConnectionInfo;
use crate::engine::{Arrival, Decision, DecisionId, Evaluation, Refusal, Verdict};
use crate::limiter::sharing::StoreError;
use crate::running::process::Process;
use crate::system::clock::roll;
use tidegate_http::head::Head;

/// What came of a request that was judged by its head alone.
pub enum AtHead {
    /// Not judged: somebody else must read it.
    Unread,
    /// To be forwarded, or answered by its route: its decision is in the context.
    Forward,
    /// It is answered with this, which says `Connection: close` unless the connection is to stay.
    Answer { answer: Written, stay: bool },
}

/// Judges the request whose head stands at the front of `bytes`, for a session of Pingora's, and answers it if it is not to be
/// forwarded.
pub fn at_edge(process: &Process, info: &ConnectionInfo, head: &Head, bytes: &[u8], stay: bool) -> HeadVerdict {
    let mut context = RequestContext::boxed(process.generation());
    let names = context.generation.engine().fields().all();
    let Some(mut head) = EdgeHead::read(head, bytes, names) else { return HeadVerdict::Forward(None) };
    match at_head(process, info, &mut head, &mut context, (stay, &mut Vec::new())) {
        AtHead::Unread => HeadVerdict::Forward(None),
        AtHead::Forward => HeadVerdict::Forward(Some(context)),
        AtHead::Answer { answer, stay } => HeadVerdict::Answer { bytes: answer.parts().concat(), stay },
    }
}

/// Judges the request with this head, in a fresh context, and answers it if it is not to be forwarded. `memory`: for the answer, which
/// takes it along.
pub fn at_head(
    process: &Process,
    info: &ConnectionInfo,
    head: &mut impl RequestHead,
    context: &mut RequestContext,
    (stay, memory): (bool, &mut Vec<u8>),
) -> AtHead {
    let Ok(redirected) = judge(process, Some(info), head, context) else { return AtHead::Unread };
    let (head, context) = (&*head, &*context);
    let stay = stay && !process.draining() && !context.closes();
    let answer = match (redirected, context.refusal()) {
        (Some(answer), _) => serialize::written(&answer, stay, mem::take(memory)),
        (None, None) => {
            // one that some limit counts is charged in its session
            let free = context.evaluation.as_ref().is_some_and(Evaluation::is_free);
            let Some(answer) = preflight(context, Some(info), head).filter(|_| free) else {
                return AtHead::Forward;
            };
            conclude(process, context, Some(info), head, (None, None));
            serialize::written(&answer, stay, mem::take(memory))
        }
        (None, Some(refusal)) => {
            conclude(process, context, Some(info), head, (None, None));
            let mut answer = Written::new(stay, mem::take(memory));
            write_refusal(context, refusal, head, &mut answer);
            answer
        }
    };
    observe::done(
        process,
        context,
        &Ended {
            protocol: "h1",
            method: head.method().as_str(),
            host: head.fields().get(header::HOST).map_or(b"".as_slice(), |host| host.as_bytes()),
            path: head.path().as_bytes(),
            status: answer.status.as_u16(),
            bytes_out: answer.length as u64,
            head_fault: None,
        },
    );
    AtHead::Answer { answer, stay }
}

/// Judges the request of a session, unless the edge has; its head is only [settled](settled::settle) then. Returns the answer where
/// the listener redirects.
///
/// # Errors
/// As [`settled::settle`].
pub fn in_session(
    process: &Process,
    session: &mut impl Downstream,
    context: &mut RequestContext,
) -> pingora::Result<Option<Box<Answer>>> {
    if !session.wants_upgrade() {
        // Pingora takes the field alone for the wish
        session.head_mut().remove(&header::UPGRADE);
    }
    let info = connection_info(session).cloned();
    let (info, head) = (info.as_deref(), session.head_mut());
    if context.evaluation.is_some() {
        settled::settle(head, context.generation.engine(), info)?;
        return Ok(None);
    }
    judge(process, info, head, context)
}

/// Judges a head as its origin would get it, and [settles](settled::settle) it. The decision is in the context then. Returns the answer where the listener
/// redirects: nothing is decided about such a request.
///
/// # Errors
/// As [`settled::settle`].
pub fn judge(
    process: &Process,
    info: Option<&ConnectionInfo>,
    head: &mut impl RequestHead,
    context: &mut RequestContext,
) -> pingora::Result<Option<Box<Answer>>> {
    context.started = process.clock.now();
    context.listener = info.map_or(0, |info| info.listener);
    context.conveyed = info.is_some_and(|info| info.conveyed);
    let engine = context.generation.engine();
    // the client is found in the fields as they came
    let client = engine.client(peer_of(info), head.fields());
    settled::settle(head, engine, info)?;
    let view = RequestView::of(info, head);
    let request = view.request();
    let denied = client.filter(|client| context.generation.denies(context.listener, client));
    if denied.is_none()
        && let Some(answer) = redirect::answer(process, context, &request, || head.form())
    {
        return Ok(Some(Box::new(answer)));
    }
    let arrival = Arrival { id: DecisionId(roll()), at: context.started, dice: roll() };
    let evaluation = context.evaluation.insert(Evaluation::new(arrival));
    match denied {
        Some(client) => engine.deny_into(&request, client, evaluation),
        None => engine.judge_into(&request, client, evaluation),
    }
    if evaluation.decision.verdict == Verdict::Admitted && !has_room(process, info, &evaluation.decision) {
        evaluation.decision.verdict = Verdict::Refused(Refusal::Overload);
    }
    if evaluation.decision.verdict != Verdict::Admitted {
        shared_limits::refill(process, &context.generation, evaluation, &request);
    }
    Ok(None)
}

/// Returns whether the process can serve a request that its limits admit. The first one of a connection that was let in for its own client
/// is: its handshake is paid, and would be for nothing. Peers on UNIX sockets are no network, so there is nothing to tell one from another.
fn has_room(process: &Process, info: Option<&ConnectionInfo>, decision: &Decision) -> bool {
    let (Some(overload), Some(client)) = (process.overload.get(), &decision.client) else { return true };
    let ClientNetwork::Prefix(network) = client.network else { return true };
    if client.source == Source::Peer && !client.peer_trusted && info.is_some_and(ConnectionInfo::is_first_request) {
        overload.begun();
        return true;
    }
    overload.admits_request(network, decision.class.criticality, decision.at)
}

/// Counts a decision that is final, and remembers it, before the client can read the answer and ask why. `contended`: the place, in
/// the route's order, of a limit that refused because a race could not be settled. `store_error`: why the store of a
/// limit did not answer.
pub fn conclude(
    process: &Process,
    context: &RequestContext,
    info: Option<&ConnectionInfo>,
    head: &impl RequestHead,
    (contended, store_error): (Option<usize>, Option<StoreError>),
) {
    if let Some(evaluation) = &context.evaluation {
        context.generation.metrics().decision_over(&evaluation.decision, contended, context.conveyed);
    }
    observe::decided(process, context, info, head, store_error);
}

/// Puts a refusal into words, and counts it for the list of clients that are refused most.
pub fn refuse(context: &RequestContext, refusal: Refusal, head: &impl RequestHead) -> Answer {
    context.note_refusal();
    let origin = if context.reads_origin() { head.origin() } else { None };
    answer::refuse(refusal, &context.words(head.form(), origin.as_ref()))
}

/// As [`refuse`], straight to the answer's bytes.
fn write_refusal(context: &RequestContext, refusal: Refusal, head: &impl RequestHead, to: &mut Written) {
    context.note_refusal();
    let origin = if context.reads_origin() { head.origin() } else { None };
    answer::write_refusal(refusal, &context.words(head.form(), origin.as_ref()), to);
}

/// Answers an admitted preflight that its route answers itself; `None` for any other request.
pub fn preflight(context: &RequestContext, info: Option<&ConnectionInfo>, head: &impl RequestHead) -> Option<Answer> {
    context.evaluation.as_ref().filter(|evaluation| evaluation.decision.answers_preflight)?;
    let view = RequestView::of(info, head);
    Some(answer::preflight(context.fields()?.cors()?, &view.request().preflight()?))
}
