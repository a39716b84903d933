//! Admits a judged request: its unit of a `fair_share`, its wait, if a limit delays it, its place at the origin, and the charge.
//!
//! The unit and the place come before the charge: a request that finds none has cost its client nothing, and a unit without a place is given back. Only the limits that delay are
//! charged before it, one after the other, each as of the end of its wait, as it is that charge which keeps its moment free. A
//! waiting request holds nothing else, neither a place nor a budget of other limits, and so keeps no other out; if there is no room at the
//! end of the wait, the answer is a refusal and that one charge stays.
//!
//! A wait ends early when the client leaves and when the process stops, and the waits for a unit and a place when the client leaves. The
//! first is noticed at once, but in a session of Pingora's in HTTP/1, which does not look past a body that is still to be read: there who
//! has left is noticed after the wait. The second is a refusal, as the moment that was charged for will not be served here; so is the wait of one request too many.

use std::sync::Arc;
use std::time::Duration;

use pingora::Error;
use tokio::time::{sleep, timeout};

use super::context::RequestContext;
use super::downstream::{Downstream, connection_info, over_limit};
use super::{judge, room, shared_limits};
use crate::answer::{Answer, Fault};
use crate::door::TokenDoor;
use crate::engine::{Decision, Engine, Evaluation, NoPlace, NoPlaceReason, Outcome, Refusal, Verdict};
use crate::limiter::sharing::StoreError;
use crate::origins::door::{CLIENT_LEFT, OriginPlace};
use crate::policy::{Action, Mode, Route};
use crate::running::generation::Generation;
use crate::running::process::Process;
use crate::running::waits::Waited;
use crate::system::clock::Clock;
use crate::units::Timestamp;

/// What to do with a request whose verdict is final.
pub enum Next {
    /// Forward it to its origin.
    Forward,
    /// Answer with what the route's `respond:` says.
    Respond,
    /// Answer with this refusal.
    Refuse(Refusal),
    /// Answer with this fault.
    Fault(Fault),
    /// Answer with this: a redirect, where the listener serves nothing itself, or what a preflight asks for.
    Answer(Answer),
}

/// Takes what a judged request needs, waiting for it where limits and origin say so, and charges its limits. What it then holds is in
/// the context.
///
/// # Errors
/// The client has gone while it waited.
pub async fn admit(
    process: &Process,
    session: &mut impl Downstream,
    context: &mut RequestContext,
) -> pingora::Result<Next> {
    let Taken { contended, store_error, gone } = take(process, session, context).await;
    let info = connection_info(session).map(AsRef::as_ref);
    judge::conclude(process, context, info, session.head(), (contended, store_error));
    if let Some(evaluation) = &context.evaluation {
        context.counts_bytes = context.generation.engine().counts_bytes(evaluation);
    }
    if let Some(gone) = gone {
        return Err(gone);
    }
    if let Some(refusal) = context.refusal() {
        return Ok(Next::Refuse(refusal));
    }
    if let Some(answer) = judge::preflight(context, connection_info(session).map(AsRef::as_ref), session.head()) {
        return Ok(Next::Answer(answer));
    }
    Ok(match context.route() {
        Some(route) if over_limit(session.head(), route) => Next::Fault(Fault::BodyTooLarge),
        Some(Route { action: Action::Respond(_), .. }) => Next::Respond,
        Some(Route { action: Action::Forward(_), .. }) if room::for_request(session).await => Next::Forward,
        Some(_) => Next::Fault(Fault::BuffersFull),
        // a request without a route is refused
        None => Next::Fault(Fault::Internal),
    })
}

/// What came of taking it, besides the verdict in the decision record.
#[derive(Debug, Default)]
struct Taken {
    /// The place, in the route's order, of a limit that refused only because a race could not be settled.
    contended: Option<usize>,
    /// Why the store of a limit did not answer.
    store_error: Option<StoreError>,
    /// The client has gone while it waited.
    gone: Option<Box<Error>>,
}

/// Takes what an admitted request needs, or turns its verdict into a refusal.
async fn take(process: &Process, session: &mut impl Downstream, context: &mut RequestContext) -> Taken {
    let taken = take_all(process, session, context).await;
    if let Some(evaluation) = &mut context.evaluation
        && (taken.gone.is_some() || evaluation.decision.verdict != Verdict::Admitted)
    {
        // it was not used
        evaluation.token = None;
    }
    taken
}

async fn take_all(process: &Process, session: &mut impl Downstream, context: &mut RequestContext) -> Taken {
    let mut taken = Taken::default();
    let generation = Arc::clone(&context.generation);
    // the record stays where it is, as it is some kilobytes
    let RequestContext { evaluation: Some(evaluation), holds, place, started, .. } = context else { return taken };
    if evaluation.decision.verdict != Verdict::Admitted {
        return taken;
    }
    let engine = generation.engine();
    let mut waiting = None;
    if evaluation.decision.delay_nanos > 0 {
        waiting = process.waits.join();
        if waiting.is_none() {
            refuse_wait(engine, &mut evaluation.decision, *started);
            return taken;
        }
    }
    let mut now = evaluation.decision.at;
    match take_unit(process, session, engine, evaluation, now).await {
        Unit::Yes { waited: true } => now = process.clock.now().max(now),
        Unit::Yes { waited: false } => {}
        Unit::No => return taken,
        Unit::Gone(error) => {
            taken.gone = Some(error);
            return taken;
        }
    }
    loop {
        taken.contended = engine.reserve(evaluation, now);
        if evaluation.decision.verdict != Verdict::Admitted {
            return taken;
        }
        if evaluation.decision.goes_on() <= now {
            break;
        }
        // others may have come first since the limits were read, so that it must wait although it was not to, or longer
        let ended = match waiting.take().or_else(|| process.waits.join()) {
            Some(waiting) => Box::pin(waiting.wait(rest_of(&evaluation.decision, process), session.gone())).await,
            // one too many, which is refused like the others
            None => Waited::Stopping,
        };
        match ended {
            Waited::Over => now = process.clock.now().max(evaluation.decision.goes_on()),
            Waited::Stopping => {
                refuse_wait(engine, &mut evaluation.decision, process.clock.now());
                return taken;
            }
            Waited::Gone(error) => {
                taken.gone = Some(error);
                return taken;
            }
        }
    }
    let queued = match take_place(session, &generation, place, evaluation, now).await {
        Placed::Yes { queued } => queued,
        Placed::No => return taken,
        Placed::Gone(error) => {
            taken.gone = Some(error);
            return taken;
        }
    };
    // a stamp from before the wait would be judged behind everything that came meanwhile
    let waits = evaluation.decision.delay_nanos > 0;
    let now =
        if waits || queued { process.clock.now().max(evaluation.decision.goes_on()) } else { evaluation.decision.at };
    taken.store_error = shared_limits::settle(process, session, &generation, evaluation).await;
    holds.clear();
    let contended = engine.admit_into(evaluation, now, holds);
    taken.contended = taken.contended.or(contended);
    // behind the charge, so that one that came before the hand-over is in what was handed over
    if evaluation.decision.verdict == Verdict::Admitted
        && let Some(successor) = process.successor()
    {
        Box::pin(successor.admit(engine, evaluation, holds, now)).await;
    }
    if evaluation.decision.verdict != Verdict::Admitted {
        *place = None;
    }
    taken
}

/// The rest of the wait.
fn rest_of(decision: &Decision, process: &Process) -> Duration {
    let until = decision.at.after(Duration::from_nanos(decision.delay_nanos));
    until.since(process.clock.now())
}

/// The outcome of asking for a unit of the route's `fair_share`.
enum Unit {
    /// The request may go on. `waited`: it may have waited for that.
    Yes { waited: bool },
    /// There is none: the verdict is a refusal now.
    No,
    /// The client has left while it waited.
    Gone(Box<Error>),
}

/// Takes a unit of the route's `fair_share`, if it has one.
async fn take_unit(
    process: &Process,
    session: &mut impl Downstream,
    engine: &Engine,
    evaluation: &mut Evaluation,
    now: Timestamp,
) -> Unit {
    let wait = engine.enter_rate(evaluation, now);
    let waited = wait.is_some();
    if let Some(mut wait) = wait {
        if wait.tick {
            tokio::spawn(keep_time(Arc::clone(wait.waiting.door()), process.clock));
        }
        let longest = wait.longest;
        let answered = Box::pin(async {
            tokio::select! {
                biased;
                answered = timeout(longest, &mut wait.waiting) => Ok(answered),
                error = session.gone() => Err(error),
            }
        });
        let answered = match answered.await {
            Ok(answered) => answered,
            Err(error) => return Unit::Gone(error),
        };
        let now = process.clock.now().max(now);
        let answer = match answered {
            Ok(answer) => answer.map_err(|standing| (NoPlaceReason::RatePushedOut, standing)),
            Err(_) => wait.give_up(now),
        };
        engine.leave_rate(evaluation, &wait, answer, now);
    }
    if evaluation.decision.verdict == Verdict::Admitted { Unit::Yes { waited } } else { Unit::No }
}

/// Has the door of a rate look again while somebody waits at it.
async fn keep_time(door: Arc<TokenDoor>, clock: Clock) {
    while let Some(wait) = door.tick(clock.now()) {
        sleep(wait).await;
    }
}

/// The outcome of asking for a place at the origin.
enum Placed {
    /// The request may go on. `queued`: it may have waited for that.
    Yes { queued: bool },
    /// There is none: the verdict is a refusal now.
    No,
    /// The client has left while it waited.
    Gone(Box<Error>),
}

/// Takes a place at the origin, if the request has one and needs it.
async fn take_place(
    session: &mut impl Downstream,
    generation: &Generation,
    taken: &mut Option<OriginPlace>,
    evaluation: &mut Evaluation,
    now: Timestamp,
) -> Placed {
    let Evaluation { decision, door, .. } = evaluation;
    if decision.answers_preflight {
        return Placed::Yes { queued: false };
    }
    let route = decision.route.and_then(|route| generation.engine().policy().routes.route(route));
    let Some(Action::Forward(index)) = route.map(|route| &route.action) else { return Placed::Yes { queued: false } };
    let Some(origin) = generation.origin(*index) else { return Placed::Yes { queued: false } };
    let place = tokio::select! {
        // in this order, so that who need not wait is not looked at
        biased;
        place = origin.place(door.as_ref(), now) => place,
        error = session.gone() => {
            generation.metrics().origin_shed(*index, CLIENT_LEFT, decision.class.criticality);
            return Placed::Gone(error);
        }
    };
    match place {
        Ok(place) => {
            *taken = Some(place);
            Placed::Yes { queued: origin.spec().inflight.as_ref().is_some_and(|cap| cap.queue > 0) }
        }
        Err(no_place) => {
            generation.metrics().origin_shed(*index, no_place.reason.word(), decision.class.criticality);
            decision.no_place = Some(NoPlace { tier: decision.class.tier, ..no_place });
            decision.verdict = Verdict::Refused(Refusal::OriginFull);
            Placed::No
        }
    }
}

/// Turns a wait into the refusal that its limits would have given without `action: delay`.
fn refuse_wait(engine: &Engine, decision: &mut Decision, now: Timestamp) {
    let until = decision.at.after(Duration::from_nanos(decision.delay_nanos));
    let rest = u64::try_from(until.since(now).as_nanos()).unwrap_or(u64::MAX);
    let mut why = Refusal::Limit;
    for reading in &mut decision.readings {
        if reading.outcome == Outcome::Delayed && reading.mode == Mode::Enforce {
            reading.outcome = Outcome::Refused;
            reading.retry_nanos = Some(rest.max(1));
            why = engine.limiter(reading.rule).map_or(why, |limiter| limiter.refusal().into());
        }
    }
    decision.delay_nanos = 0;
    decision.verdict = Verdict::Refused(why);
}
