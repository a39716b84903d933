//! Measures how long the origin takes.

use super::context::RequestContext;
use crate::running::process::Process;
use crate::units::Timestamp;

/// Reads the clock, if metrics, log or what is learnt of origins need to know how long the origin takes.
pub fn stamp(process: &Process, context: &RequestContext) -> Option<Timestamp> {
    let needed = || context.generation.times_origins().then(|| process.clock.now());
    process.now_if_watched().or_else(needed)
}
