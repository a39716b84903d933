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
use super::tiered::Tiered;
use crate::sketch::{Pace, Seed, Window};
use crate::units::{Bytes, OutOfRange, Timestamp};

/// The state of one `quota` limit without `sliding`.
pub type QuotaLimiter = Tiered<Window>;

/// An empty limiter with the numbers of `kinds`: the limit's own, then those of its tiers.
///
/// # Errors
/// No kind, one that is not `quota`, or numbers that [`Window::new`] or the table refuse.
pub fn quota(
    kinds: &[Kind],
    unix_nanos_at_origin: u64,
    memory: Bytes,
    seed: &Seed,
    indebts: bool,
) -> Result<QuotaLimiter, OutOfRange> {
    let meters = kinds.iter().map(|kind| windows(kind, unix_nanos_at_origin));
    Tiered::empty(meters, Window::has_windows_of, |meter| Leveled::new(meter, memory, seed.clone(), indebts))
}

/// The same counts under other numbers; `None` when the windows are others, so that counts mean something else.
///
/// # Errors
/// As [`quota`].
pub fn followed_by(
    before: &QuotaLimiter,
    (kinds, was): (&[Kind], &[Option<u8>]),
    unix_nanos_at_origin: u64,
    indebts: bool,
) -> Result<Option<QuotaLimiter>, OutOfRange> {
    let follow = |before: &Leveled<Window>, kind: &Kind| {
        let window = windows(kind, unix_nanos_at_origin)?;
        let same = window.has_windows_of(before.meter());
        // counts need no axis but time
        let course = same.then(|| before.course().followed_by(Timestamp::ZERO, Pace::EVEN)).flatten();
        Ok(course.map(|course| before.followed_by(window, course, indebts)))
    };
    // counts of the same windows mean the same, so none is ever apart
    let apart = |_: &Leveled<Window>, _: &Kind| Err(super::MIXED);
    before.follow((kinds, was), Window::has_windows_of, follow, apart)
}

fn windows(kind: &Kind, unix_nanos_at_origin: u64) -> Result<Window, OutOfRange> {
    match kind {
        Kind::Quota { max, window, .. } => Window::new(*max, *window, phase(*window, unix_nanos_at_origin)),
        _ => Err(super::MIXED),
    }
}

/// How far into a window the origin of all stamps lies.
pub fn phase(window: Duration, unix_nanos_at_origin: u64) -> Duration {
    let length = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX).max(1);
    Duration::from_nanos(unix_nanos_at_origin % length)
}
