//! Judges requests: the one place where a head meets the policy.
//!
//! Every head is judged once. One in HTTP/1 without a body comes [from the edge](at_edge), before Pingora sees it, at the start
//! of a connection and after a refusal: a refusal then costs a read, a decision and a write, and refusals are what a flood
//! consists of. All others come [in Pingora's session](in_session). An admitted request takes its decision along.

use http::header;
use pingora::proxy::Session;

use super::context::RequestContext;
use super::downstream::connection_info;
use super::observe::{self, Ended};
use super::request_view::{EdgeHead, RequestHead, RequestView, peer_of};
use super::{redirect, serialize, settled, shared_limits};
use crate::answer::{self, Answer, Form};
use crate::edge::common::HeadVerdict;
use crate::edge::connection_info::ConnectionInfo;
use crate::engine::{Arrival, DecisionId, Judged, Refusal, Verdict};
use crate::limiter::cluster::Silence;
use crate::running::process::Process;
use crate::system::clock::roll;
use crate::units::Timestamp;
use tidegate_http::head::Head;

/// Judges the request whose head stands at the front of `bytes`, and answers it if it is not to be forwarded.
pub fn at_edge(shared: &Process, info: &ConnectionInfo, head: &Head, bytes: &[u8], stay: bool) -> HeadVerdict {
    let mut context = RequestContext::new(shared.installed(), Timestamp::ZERO);
    let names = context.installed.snapshot().fields().all();
    let Some(mut head) = EdgeHead::read(head, bytes, names) else { return HeadVerdict::Forward(None) };
    let Ok(redirected) = judge(shared, Some(info), &mut head, &mut context) else { return HeadVerdict::Forward(None) };
    let answer = match (redirected, context.refusal()) {
        (Some(answer), _) => answer,
        (None, None) => return HeadVerdict::Forward(Some(Box::new(context))),
        (None, Some(refusal)) => {
            conclude(shared, &context, Some(info), &head, (None, None));
            refuse(&context, refusal, head.form())
        }
    };
    let stay = stay && !shared.draining() && !context.closes();
    observe::done(
        shared,
        &context,
        &Ended {
            protocol: "h1",
            method: head.method().as_str(),
            host: head.fields().get(header::HOST).map_or(b"".as_slice(), |host| host.as_bytes()),
            path: head.path().as_bytes(),
            status: answer.status.as_u16(),
            bytes_out: answer.body.len() as u64,
            head_fault: None,
        },
    );
    HeadVerdict::Answer { bytes: serialize::bytes(&answer, stay), stay }
}

/// Judges the request of a session, unless the edge has; its head is only [settled](settled::settle) then. Returns the answer where
/// the listener redirects.
///
/// # Errors
/// As [`settled::settle`].
pub fn in_session(
    shared: &Process,
    session: &mut Session,
    context: &mut RequestContext,
) -> pingora::Result<Option<Answer>> {
    let info = connection_info(session).cloned();
    let (info, head) = (info.as_deref(), session.req_header_mut());
    if context.judged.is_some() {
        settled::settle(head, context.installed.snapshot(), info)?;
        return Ok(None);
    }
    judge(shared, info, head, context)
}

/// Judges a head as its origin would get it. The decision is in the context then. Returns the answer where the listener
/// redirects: nothing is decided about such a request.
fn judge(
    shared: &Process,
    info: Option<&ConnectionInfo>,
    head: &mut impl RequestHead,
    context: &mut RequestContext,
) -> pingora::Result<Option<Answer>> {
    context.started = shared.clock.now();
    context.listener = info.map_or(0, |info| info.listener);
    context.conveyed = info.is_some_and(|info| info.conveyed);
    let snapshot = context.installed.snapshot();
    // the client is found in the fields as they came
    let client = snapshot.client(peer_of(info), head.fields());
    settled::settle(head, snapshot, info)?;
    let view = RequestView::of(info, head);
    let request = view.request();
    if let Some(answer) = redirect::answer(shared, context, &request, || head.form()) {
        return Ok(Some(answer));
    }
    let arrival = Arrival { id: DecisionId(roll()), at: context.started, dice: roll() };
    let judged = context.judged.insert(Judged::new(arrival));
    snapshot.judge_into(&request, client, judged);
    if judged.decision.verdict != Verdict::Admitted {
        shared_limits::refill(shared, &context.installed, judged, &request);
    }
    Ok(None)
}

/// Counts a decision that is final, and remembers it, before the client can read the answer and ask why. `contended`: the place, in
/// the route's order, of a limit that refused because a race could not be settled. `silence`: why the store of a
/// limit did not answer.
pub fn conclude(
    shared: &Process,
    context: &RequestContext,
    info: Option<&ConnectionInfo>,
    head: &impl RequestHead,
    (contended, silence): (Option<usize>, Option<Silence>),
) {
    if let Some(judged) = &context.judged {
        context.installed.metrics().decision_over(&judged.decision, contended, context.conveyed);
    }
    observe::decided(shared, context, info, head, silence);
}

/// Puts a refusal into words, and counts it for the list of clients that are refused most.
pub fn refuse(context: &RequestContext, refusal: Refusal, form: Form) -> Answer {
    context.note_refusal();
    answer::refuse(refusal, &context.words(form))
}
