//! What a kind of limit keeps, and what it does with it.

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use super::held::HeldElsewhere;
use super::judgement::Refuses;
use super::needs::Owed;
use super::probe::Probe;
use super::succession::Moved;
use super::taken::Taken;
use super::{Gauges, Judgement, Kind, Lost, Place, Spec};
use crate::door::TokenDoor;
use crate::saved::{Fault, Reader, Writer};
use crate::sketch::Crowding;
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// The state of one kind of limit. Pardons and attempts that wait for an answer are not its business: [`Limiter`](super::Limiter)
/// adds them.
pub trait State: fmt::Debug + Send + Sync {
    /// Loads what a probe of this place will read into the cache.
    fn prefetch(&self, _at: &Place) {}

    /// Reads whether `cost` fits now, on top of `held` units that others may yet be charged.
    fn probe(&self, at: &Place, now: Timestamp, cost: Cost, held: u32) -> Probe;

    /// Charges what was probed; reads again if the cells moved since.
    ///
    /// # Errors
    /// It does not fit any more; nothing was charged.
    fn commit(&self, probe: &Probe, now: Timestamp) -> Result<(Judgement, Option<Taken>), Lost>;

    /// Charges `cost` whether it fits or not. A kind whose charges come back, or are estimated, takes none.
    fn charge(&self, _at: &Place, _now: Timestamp, _cost: Cost) {}

    /// Counts a refused request, if the kind counts those: the judgement after it, and whether the key is as far over as it can get.
    fn count_refusal(&self, _at: &Place, _now: Timestamp, _cost: Cost) -> Option<(Judgement, bool)> {
        None
    }

    /// Whether the request costs nothing, whatever its answer: a value of `distinct` that was counted before.
    fn is_free(&self, _at: &Place, _now: Timestamp) -> bool {
        false
    }

    /// The same state under other numbers. Both go on: each charges the state and judges by its own numbers.
    ///
    /// # Errors
    /// Another kind, numbers that it does not take, or ones under which the state means something else.
    fn follow(&self, spec: &Spec<'_>, moved: &Moved<'_>) -> Result<Box<dyn State>, OutOfRange>;

    /// Puts these numbers in force for what is one for them and the numbers before.
    fn take_over(&self) {}

    /// Writes what is to be known of it after a restart. Requests go on: what was charged before the call is in it.
    ///
    /// # Errors
    /// What the target refuses.
    fn save(&self, _to: &mut Writer<'_>, _now: Timestamp) -> io::Result<()> {
        Ok(())
    }

    /// Takes what was saved over into a state that nobody uses yet, as [`State::follow`] does with one in force: what was charged stays
    /// charged, under these numbers.
    ///
    /// # Errors
    /// Damaged bytes, and ones that do not fit. The state is of no use then.
    fn restore(&mut self, _from: &mut Reader<'_>, _spec: &Spec<'_>, _moved: &Moved<'_>) -> Result<(), Fault> {
        Ok(())
    }

    /// What requests hold of it, as cells; empty of kinds whose charges stay.
    fn held(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Counts cells that another process holds as well; `None` if they are not of a state like this one.
    fn hold_elsewhere(&self, _cells: &[u32]) -> Option<Box<dyn HeldElsewhere>> {
        None
    }

    /// Raises what `to` was charged to at least what `from` was.
    fn carry(&self, _from: &Place, _to: &Place, _now: Timestamp) {}

    /// Nanoseconds after which any charge of a key has faded; `None` where no charge stays.
    fn fade_nanos(&self) -> Option<u64> {
        None
    }

    /// Drops what is over. For a timer.
    fn maintain(&self, _now: Timestamp) {}

    /// Where requests wait that come when there is too little for all, and for how long at most; `None` of kinds that refuse at once.
    fn rate_door(&self) -> Option<(&Arc<TokenDoor>, Duration)> {
        None
    }

    /// The most that can be charged at once under the numbers of a tier; `None` of kinds that are not charged for answers.
    fn whole(&self, _tier: u8) -> Option<u32> {
        None
    }

    /// What a refusal with this [`Judgement::standing`] is short of; `kind` has the numbers of the tier. Reads no state.
    fn owed(&self, kind: &Kind, tier: u8, standing: u64, cost: Cost) -> Owed;

    /// What its refusal means.
    fn refuses(&self) -> Refuses {
        Refuses::Quota
    }

    /// Whether what a request takes comes back at its end.
    fn gives_back(&self) -> bool {
        false
    }

    /// Whether it tells requests apart by keys.
    fn is_keyed(&self) -> bool {
        true
    }

    /// Whether it counts by windows: a charge ahead of now then takes a part of a later window.
    fn has_windows(&self) -> bool {
        false
    }

    /// Of a quota by the calendar: the beginnings of the window before that of `now`, of its own, and of the two after, in seconds
    /// since 1970.
    fn windows_begin(&self, _now: Timestamp) -> Option<[u32; 4]> {
        None
    }

    /// Whether what is counted for the place's key is exact at this moment.
    fn is_exact(&self, _at: &Place) -> bool {
        false
    }

    /// How crowded its table is at `now`; `None` of kinds without a table of levels.
    fn crowding(&self, _now: Timestamp) -> Option<Crowding> {
        None
    }

    /// Fills in what it can tell of itself.
    fn gauge(&self, _gauges: &mut Gauges, _now: Timestamp) {}

    /// The memory that it holds, the same from its first request to its last.
    fn memory(&self) -> Bytes;
}
