//! Requests whose client leaves while the origin works for them, and what becomes of the places they hold.
//!
//! Origins mostly go on with such a request. A place that came back at once would be taken by the next, so that clients that ask
//! and leave could have any number of requests at work at an origin with a cap of ten. The policy says which of two ways
//! keeps the cap true (`on_client_abort`): the answer is awaited and thrown away, or the connection to the origin is closed and
//! the places stay taken for as long as the origin usually needs, and two seconds at least. The second is also what becomes of a
//! request that had not come whole, as the origin cannot answer it, and of an answer that is longer than is awaited.

use std::time::Duration;

use pingora::{Error, ErrorSource};

use super::context::RequestContext;
use super::downstream::{Downstream, absence};
use crate::edge::absence::Terms;
use crate::edge::answer_deadline::LateAnswer;
use crate::engine::{Held, Holds};
use crate::policy::OnClientAbort;
use crate::running::generation::USUAL_UNIT;
use crate::system::clock::Clock;
use crate::units::Timestamp;

/// Bytes of an answer that are thrown away at most. Reading a large one to its end would cost the origin more than a closed
/// connection, and us its bandwidth.
const MOST_BYTES: u64 = 1 << 20;
/// For the rest of an answer whose head has come: an endless one holds its place no longer than this.
const REST: Duration = Duration::from_secs(10);
/// A place whose work cannot be seen to end stays taken for so long at least: fast requests of a route say little of its
/// slow ones, which are those that are worth leaving.
const LEAST: Duration = Duration::from_secs(2);

/// The request is about to be sent: says what is to be done should its client leave. Where it holds no place it ends with
/// its client, as nothing would be kept true by going on.
pub fn expect(session: &impl Downstream, context: &RequestContext) {
    let Some(origin) = context.origin() else { return };
    if origin.spec().on_client_abort == OnClientAbort::Await
        && holds_places(context)
        && let Some(absence) = absence(session)
    {
        absence.await_answer(Terms { bytes: MOST_BYTES, time: REST, abandoned: origin.abandoned().clone() });
    }
}

/// The request failed with this error. If its client is the reason and the origin may be at work on it, its places stay
/// taken for as long as the origin usually needs, and two seconds at least; before anything was measured, for as long as it may
/// take to answer, if the request had come whole.
pub fn keep_places(session: &mut impl Downstream, context: &mut RequestContext, error: &Error, clock: &Clock) {
    let by_client = *error.esource() == ErrorSource::Downstream && !LateAnswer::caused(error);
    let Some(origin) = context.origin().cloned() else { return };
    if !by_client
        || !context.at_work
        || session.was_upgraded()
        || origin.spec().on_client_abort == OnClientAbort::Release
        || !holds_places(context)
    {
        return;
    }
    let whole = session.is_read();
    let bound = context.route().map_or(Duration::ZERO, |route| route.timeouts.read.min(route.timeouts.request));
    let route = context.evaluation.as_ref().and_then(|evaluation| evaluation.decision.route);
    let usual = route.and_then(|route| context.generation.usual(route)?.get(clock.now()));
    // one that had not come whole is not at work for all of that
    let unknown = if whole { bound } else { bound.min(LEAST) };
    let time = usual.map_or(unknown, |usual| (USUAL_UNIT * usual).max(LEAST).min(bound));
    let places = (context.place.take(), context.attempt.take(), places_of(&mut context.holds));
    let counted = origin.abandoned().join();
    tokio::spawn(async move {
        tokio::time::sleep(time).await;
        drop((places, counted));
    });
}

/// An answer of the origin has begun.
pub fn note_duration(context: &RequestContext, began: Timestamp, answered: Timestamp) {
    let Some(route) = context.evaluation.as_ref().and_then(|evaluation| evaluation.decision.route) else { return };
    let Some(usual) = context.generation.usual(route) else { return };
    let units = answered.since(began).as_nanos().div_ceil(USUAL_UNIT.as_nanos());
    usual.see(u32::try_from(units).unwrap_or(u32::MAX), answered);
}

fn holds_places(context: &RequestContext) -> bool {
    let capped = context.origin().is_some_and(|origin| origin.limit().is_some());
    capped || context.holds.iter().any(Held::is_place)
}

/// Takes the places out. What remains are charges that wait for the answer.
fn places_of(holds: &mut Holds) -> Vec<Held> {
    let (places, charges): (Vec<_>, Vec<_>) = holds.drain(..).partition(Held::is_place);
    holds.extend(charges);
    places
}
