//! Measures how long the origin takes.

use super::context::RequestContext;
use crate::answer::Fault;
use crate::running::process::Process;
use crate::units::Timestamp;

/// Reads the clock, if metrics, log or a limit need to know how long the origin takes.
pub fn stamp(shared: &Process, context: &RequestContext) -> Option<Timestamp> {
    let needed = || context.installed.times_origins().then(|| shared.clock.now());
    shared.now_if_watched().or_else(needed)
}

/// Tells the limits that share out an origin's capacity how long it took to answer.
pub fn tell_duration(shared: &Process, context: &RequestContext) {
    // an origin that says nothing in time has taken at least that long; one that never answers would otherwise keep the
    // capacity of its better days
    let silent = context.fault == Some(Fault::OriginTimeout);
    let until = context.answered.or_else(|| silent.then(|| shared.clock.now()));
    if context.installed.follows_origins()
        && let (Some(origin), Some(from), Some(to)) = (context.origin_index(), context.forwarded, until)
        && let Some(cap) = context.origin().and_then(|origin| origin.limit())
    {
        context.installed.snapshot().completed(origin, to.since(from), cap);
    }
}
