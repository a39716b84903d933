//! `type: quota`: at most `max` per key and aligned window.
//!
//! Windows of a length begin at whole multiples of it since 1970, so that those of an hour or a day end with it; others are the days,
//! weeks or months of a time zone. The phase is taken from the wall clock once, when the limiter is made, and counted on by the
//! monotonic clock, so that a stepped wall clock never opens a window again. State survives a restart not at all: who had spent the
//! quota has it again.
//!
//! A reload may change the windows: what a key spent in the one that is open counts in the one that is open then.
//!
//! **Promise.** At most `max` per window; across one boundary, in any time however short, up to twice that. `sliding_quota`
//! smooths the boundary.

use std::time::Duration;

use super::by_level::ByLevel;
use super::kind::MIXED;
use super::leveled::Leveled;
use super::needs::Owed;
use super::tiered::Tiered;
use super::{Kind, Moved, Spec, kinds};
use crate::sketch::{Ratio, Seed, Window, Windows};
use crate::units::{Cost, OutOfRange, Period, Timestamp};

/// The state of one `quota` limit without `sliding`.
#[derive(Debug)]
pub(super) struct Quota(Tiered<Window>);

impl Quota {
    /// An empty limiter with the numbers of the spec's kinds: the limit's own, then those of its tiers.
    ///
    /// # Errors
    /// No kind, one that is not `quota`, or numbers that [`Window::on`] or the table refuse.
    pub fn new(spec: &Spec<'_>, seed: &Seed) -> Result<Quota, OutOfRange> {
        let Some(Kind::Quota(kinds::Quota { memory, .. })) = spec.kinds.first() else { return Err(MIXED) };
        let windows = Windows::of(period(spec.kinds)?, spec.unix_nanos_at_origin)?;
        let windows = if spec.longest_wait > 0 { windows.apart() } else { windows };
        let meters = spec.kinds.iter().map(|kind| Window::on(max(kind)?, windows.clone()));
        let table = |meter| Leveled::new(meter, *memory, seed.clone(), spec.indebts);
        Ok(Quota(Tiered::empty(meters, Window::has_windows_of, table)?.with_longest_wait(spec.longest_wait)))
    }
}

impl ByLevel for Quota {
    type Meter = Window;

    fn tiered(&self) -> &Tiered<Window> {
        &self.0
    }

    fn follow(&self, spec: &Spec<'_>, moved: &Moved<'_>) -> Result<Quota, OutOfRange> {
        if !matches!(spec.kinds.first(), Some(Kind::Quota(kinds::Quota { sliding: false, .. }))) {
            return Err(MIXED);
        }
        let own = self.0.at(0);
        let ahead = own.longest_wait().max(spec.longest_wait);
        let windows = own.meter().windows().followed_by(
            (period(spec.kinds)?, spec.unix_nanos_at_origin),
            (moved.now, ahead),
            spec.longest_wait > 0,
        )?;
        let follow = |before: &Leveled<Window>, kind: &Kind| {
            let window = Window::on(max(kind)?, windows.clone())?;
            // counts need no axis but time
            let timeline = before.timeline().followed_by(Timestamp::ZERO, Ratio::EVEN);
            Ok(timeline.map(|timeline| before.followed_by(window, timeline, spec.indebts)))
        };
        // counts of the same windows mean the same, so none is ever apart
        let apart = |_: &Leveled<Window>, _: &Kind| Err(MIXED);
        let after = self.0.follow((spec.kinds, moved.tiers), Window::has_windows_of, follow, apart)?;
        Ok(Quota(after.with_longest_wait(spec.longest_wait)))
    }

    /// A straggler does not fit any number: that is more than 32 bits hold.
    fn owed(&self, _: &Kind, _: u8, standing: u64, cost: Cost) -> Owed {
        Owed::units(standing.saturating_add(u64::from(cost.get())), 0)
    }

    const HAS_WINDOWS: bool = true;

    fn windows_begin(&self, now: Timestamp) -> Option<[u32; 4]> {
        self.0.at(0).meter().windows().begins_around(now)
    }
}

/// The period of all kinds of a limit.
fn period(kinds: &[Kind]) -> Result<&Period, OutOfRange> {
    match kinds.first() {
        Some(Kind::Quota(kinds::Quota { window, .. })) => Ok(window),
        _ => Err(MIXED),
    }
}

fn max(kind: &Kind) -> Result<u32, OutOfRange> {
    if let Kind::Quota(kinds::Quota { max, .. }) = kind { Ok(*max) } else { Err(MIXED) }
}

/// How far into a window the origin of all stamps lies.
pub fn phase(window: Duration, unix_nanos_at_origin: u64) -> Duration {
    let length = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX).max(1);
    Duration::from_nanos(unix_nanos_at_origin % length)
}
