//! Measures how long the origin takes.

use super::context::RequestContext;
use crate::answer::Fault;
use crate::running::process::Process;
use crate::units::Timestamp;

/// Reads the clock, if metrics, log or a limit need to know how long the origin takes.
pub fn stamp(process: &Process, context: &RequestContext) -> Option<Timestamp> {
    let needed = || context.generation.times_origins().then(|| process.clock.now());
    process.now_if_watched().or_else(needed)
}

/// Tells the limits that share out an origin's capacity how long it took to answer.
pub fn tell_duration(process: &Process, context: &RequestContext) {
    // an origin that says nothing in time has taken at least that long; one that never answers would otherwise keep the
    // capacity of its better days
    let silent = context.fault == Some(Fault::OriginTimeout);
    let until = context.answered.or_else(|| silent.then(|| process.clock.now()));
    if context.generation.follows_origins()
        && let (Some(origin), Some(from), Some(to)) = (context.origin_index(), context.forwarded, until)
        && let Some(cap) = context.origin().and_then(|origin| origin.limit())
    {
        context.generation.engine().completed(origin, to.since(from), cap);
    }
}
