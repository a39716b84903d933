//! The kinds that keep one level per key, `rate`, `quota` and `recent_average`: what they have in common.

use std::fmt::Debug;
use std::io;

use super::needs::Owed;
use super::probe::Probe;
use super::state::State;
use super::succession::Moved;
use super::taken::Taken;
use super::tiered::Tiered;
use super::{Gauges, Judgement, Kind, Lost, Place, Spec};
use crate::saved::{Fault, Reader, Writer};
use crate::sketch::{Crowding, Meter};
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// A kind that keeps one level per key: its meter, and what it does in a way of its own.
pub(super) trait ByLevel: Debug + Send + Sync + Sized + 'static {
    /// What judges its levels.
    type Meter: Meter + Debug + Send + Sync;

    /// Its levels, by the numbers of all tiers.
    fn tiered(&self) -> &Tiered<Self::Meter>;

    /// See [`State::follow`].
    fn follow(&self, spec: &Spec<'_>, moved: &Moved<'_>) -> Result<Self, OutOfRange>;

    /// Its levels, before anybody uses them.
    fn tiered_mut(&mut self) -> &mut Tiered<Self::Meter>;

    /// See [`State::save`].
    ///
    /// # Errors
    /// What the target refuses.
    fn save(&self, to: &mut Writer<'_>, now: Timestamp) -> io::Result<()> {
        self.tiered().save(to, now)
    }

    /// See [`State::restore`].
    ///
    /// # Errors
    /// As there.
    fn restore(&mut self, from: &mut Reader<'_>, _spec: &Spec<'_>, moved: &Moved<'_>) -> Result<(), Fault> {
        self.tiered_mut().restore(from, (moved.tiers, moved.now), (1, 1))
    }

    /// See [`State::owed`].
    fn owed(&self, kind: &Kind, tier: u8, standing: u64, cost: Cost) -> Owed;

    /// See [`State::count_refusal`].
    fn count_refusal(&self, _at: &Place, _now: Timestamp, _cost: Cost) -> Option<(Judgement, bool)> {
        None
    }

    /// See [`State::has_windows`].
    const HAS_WINDOWS: bool = false;

    /// See [`State::windows_begin`].
    fn windows_begin(&self, _now: Timestamp) -> Option<[u32; 4]> {
        None
    }
}

impl<K: ByLevel> State for K {
    fn prefetch(&self, at: &Place) {
        self.tiered().levels(at.tier).prefetch(at.key);
    }

    fn probe(&self, at: &Place, now: Timestamp, cost: Cost, held: u32) -> Probe {
        self.tiered().probe(at, now, cost, held)
    }

    fn commit(&self, probe: &Probe, now: Timestamp) -> Result<(Judgement, Option<Taken>), Lost> {
        Ok((self.tiered().commit(probe, now)?, None))
    }

    fn charge(&self, at: &Place, now: Timestamp, cost: Cost) {
        self.tiered().charge(at, now, cost);
    }

    fn count_refusal(&self, at: &Place, now: Timestamp, cost: Cost) -> Option<(Judgement, bool)> {
        ByLevel::count_refusal(self, at, now, cost)
    }

    fn follow(&self, spec: &Spec<'_>, moved: &Moved<'_>) -> Result<Box<dyn State>, OutOfRange> {
        Ok(Box::new(ByLevel::follow(self, spec, moved)?))
    }

    fn take_over(&self) {
        self.tiered().take_over();
    }

    fn save(&self, to: &mut Writer<'_>, now: Timestamp) -> io::Result<()> {
        ByLevel::save(self, to, now)
    }

    fn restore(&mut self, from: &mut Reader<'_>, spec: &Spec<'_>, moved: &Moved<'_>) -> Result<(), Fault> {
        ByLevel::restore(self, from, spec, moved)
    }

    fn carry(&self, from: &Place, to: &Place, now: Timestamp) {
        self.tiered().carry(from.key, to.key, now);
    }

    fn fade_nanos(&self) -> Option<u64> {
        Some(self.tiered().fade_nanos())
    }

    fn maintain(&self, now: Timestamp) {
        self.tiered().maintain(now);
    }

    fn whole(&self, tier: u8) -> Option<u32> {
        Some(self.tiered().at(tier).meter().quota())
    }

    fn owed(&self, kind: &Kind, tier: u8, standing: u64, cost: Cost) -> Owed {
        ByLevel::owed(self, kind, tier, standing, cost)
    }

    fn has_windows(&self) -> bool {
        K::HAS_WINDOWS
    }

    fn windows_begin(&self, now: Timestamp) -> Option<[u32; 4]> {
        ByLevel::windows_begin(self, now)
    }

    fn is_exact(&self, at: &Place) -> bool {
        self.tiered().levels(at.tier).is_exact(at.key)
    }

    fn crowding(&self, now: Timestamp) -> Option<Crowding> {
        Some(self.tiered().crowding(now))
    }

    fn gauge(&self, gauges: &mut Gauges, _now: Timestamp) {
        gauges.exact_keys = Some(self.tiered().exact_entries());
    }

    fn memory(&self) -> Bytes {
        self.tiered().memory()
    }
}
