//! `type: quota`: at most `max` per key and aligned window.
//!
//! Windows begin at whole multiples of their length since 1970, so that those of an hour or a day end with it; the phase
//! is taken from the wall clock once, when the limiter is made, and counted on by the monotonic clock, so that a stepped
//! wall clock never opens a window again. State survives a restart not at all: who had spent the quota has it again.
//!
//! **Promise.** At most `max` per window; across one boundary, in any time however short, up to twice that. `sliding_quota`
//! smooths the boundary.

use std::time::Duration;

use super::Kind;
use super::leveled::Leveled;
use crate::sketch::{Seed, Window};
use crate::units::{Bytes, OutOfRange};

/// The state of one `quota` limit without `sliding`.
pub type QuotaLimiter = Leveled<Window>;

/// An empty limiter with the numbers of `kinds`: the limit's own, then those of its tiers.
///
/// # Errors
/// No kind, one that is not `quota`, or numbers that [`Window::new`] or the table refuse.
pub fn quota(
    kinds: &[Kind],
    unix_nanos_at_origin: u64,
    memory: Bytes,
    seed: Seed,
    indebts: bool,
) -> Result<QuotaLimiter, OutOfRange> {
    let window = |kind: &Kind| match kind {
        Kind::Quota { max, window, .. } => Window::new(*max, *window, phase(*window, unix_nanos_at_origin)),
        _ => Err(super::MIXED),
    };
    let (own, tiers) = kinds.split_first().ok_or(super::MIXED)?;
    Leveled::new(window(own)?, tiers.iter().map(window).collect::<Result<_, _>>()?, memory, seed, indebts)
}

/// How far into a window the origin of all stamps lies.
pub fn phase(window: Duration, unix_nanos_at_origin: u64) -> Duration {
    let length = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX).max(1);
    Duration::from_nanos(unix_nanos_at_origin % length)
}
