//! One limit of a policy: the state of its kind, and what all kinds have.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::demand::Demand;
use super::held::HeldCells;
use super::journal::{Broken, Event, Journal, What};
use super::kind::MIXED;
use super::needs::Owed;
use super::pardoned::Pardons;
use super::pending::Pending;
use super::state::State;
use super::{Form, Gauges, Kind, Moved, Place, Refuses, Spec};
use crate::door::TokenDoor;
use crate::saved::{Fault, Reader, Writer};
use crate::sketch::{Crowding, OwnHash, Seed};
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// The state of one limit.
#[derive(Debug)]
pub struct Limiter {
    form: &'static Form,
    pub(super) state: Box<dyn State>,
    /// Of limits whose charge waits for the answer, or did before a reload: attempts on their way.
    pub(super) pending: Option<Arc<Pending>>,
    /// Whether it waits.
    pub(super) deferred: bool,
    pub(super) own_hash: OwnHash,
    seed: Seed,
    /// Shared with the limiters that it follows.
    pub(super) pardons: Arc<Pardons>,
    /// What is asked for of it, where another limit may hold its clients below it.
    pub(super) demand: Option<Demand>,
    /// Shared with the limiters that it follows.
    pub(super) journal: Arc<Journal>,
}

/// The kind of a limit and its tiers.
fn form(spec: &Spec<'_>) -> Result<&'static Form, OutOfRange> {
    let (own, tiers) = spec.kinds.split_first().ok_or(MIXED)?;
    if tiers.iter().all(|tier| tier.word() == own.word()) { Ok(own.form()) } else { Err(MIXED) }
}

impl Limiter {
    /// An empty limiter.
    ///
    /// # Errors
    /// Numbers that the kind does not take.
    pub fn new(spec: &Spec<'_>, seed: &Seed) -> Result<Limiter, OutOfRange> {
        let seed = seed.derive(spec.name);
        let own = seed.derive("levels");
        let own_hash = OwnHash::new(&own);
        let form = form(spec)?;
        let state = spec.kinds.first().ok_or(MIXED)?.state(spec, &own)?;
        let pending = if spec.deferred { Some(pending(&seed)?) } else { None };
        let demand = if spec.demand { Some(Demand::new(spec, &seed)?) } else { None };
        Ok(Limiter {
            form,
            state,
            pending,
            deferred: spec.deferred,
            own_hash,
            seed,
            pardons: Arc::default(),
            demand,
            journal: Arc::default(),
        })
    }

    /// The same state under other numbers. This limiter stays as it is and may go on being asked: both charge one state, and each
    /// judges by its own numbers. Nothing changes before the first question to the new one and [`Limiter::take_over`].
    ///
    /// # Errors
    /// As [`Limiter::new`], and a state that means something else under the new numbers.
    pub fn followed_by(&self, spec: &Spec<'_>, moved: &Moved<'_>) -> Result<Limiter, OutOfRange> {
        if form(spec)?.word != self.form.word {
            return Err(MIXED);
        }
        let state = self.state.follow(spec, moved)?;
        let held_back = match (&self.pending, spec.deferred) {
            (Some(before), _) => Some(Arc::clone(before)),
            (None, true) => Some(pending(&self.seed)?),
            (None, false) => None,
        };
        let demand = match (&self.demand, spec.demand) {
            (Some(before), true) => Some(before.followed_by(spec, moved)?),
            (None, true) => Some(Demand::new(spec, &self.seed)?),
            (_, false) => None,
        };
        Ok(Limiter {
            form: self.form,
            state,
            pending: held_back,
            deferred: spec.deferred,
            own_hash: self.own_hash.clone(),
            seed: self.seed.clone(),
            pardons: Arc::clone(&self.pardons),
            demand,
            journal: Arc::clone(&self.journal),
        })
    }

    /// Puts this limiter's numbers in force for what is one for it and the limiter before.
    pub fn take_over(&self) {
        self.state.take_over();
        self.demand.iter().for_each(Demand::take_over);
    }

    /// Writes its pardons and the state of its kind into a section that has begun. Requests go on: each that was admitted before the call is in
    /// it, one that is admitted during the call may be in it or not. Attempts that wait for their answers are not.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn save(&self, to: &mut Writer<'_>, now: Timestamp) -> io::Result<()> {
        self.pardons.save(to, now)?;
        self.state.save(to, now)
    }

    /// Begins to note what happens to it, for another process that goes on from its state: call it before [`Limiter::save`]. Tells what
    /// requests hold of it.
    pub fn begin_journal(&self) -> HeldCells {
        self.journal.begin(|| HeldCells {
            places: self.state.held(),
            attempts: self.pending.as_ref().map(|pending| pending.held()).unwrap_or_default(),
        })
    }

    /// Takes what was noted since it was asked last.
    ///
    /// # Errors
    /// Some of it is missing.
    pub fn take_journal(&self) -> Result<Vec<Event>, Broken> {
        self.journal.take()
    }

    /// Notes a unit that was taken at the [door](Limiter::rate_door), as of an admission.
    pub fn note_unit(&self, now: Timestamp) {
        let _ = self.journal.note_admitted(What::Charged, &Place::default(), now, Cost::ONE);
    }

    /// Notes no admissions any more: they are asked of the other process.
    pub fn move_admissions(&self) {
        self.journal.moved();
    }

    /// Notes a charge for a moment to come, which admissions that have moved do not include.
    pub fn note_reserved(&self, at: &Place, when: Timestamp, cost: Cost) {
        if self.journal.has_moved() {
            self.journal.note(What::Charged, at, when, cost);
        }
    }

    /// Ends the journal.
    pub fn end_journal(&self) {
        self.journal.end();
    }

    /// A limiter that goes on from a saved one: as [`Limiter::followed_by`], over a restart. `seed` and the name of the spec are those that
    /// the saved one was [made](Limiter::new) with, which lead to the same hashes of keys; [`Moved::now`] is on the axis of stamps that the
    /// saved one had, and not earlier than when it was saved.
    ///
    /// # Errors
    /// Numbers that the kind does not take; damaged bytes, and ones of something else.
    pub fn restore(
        spec: &Spec<'_>,
        seed: &Seed,
        from: &mut Reader<'_>,
        moved: &Moved<'_>,
    ) -> Result<Result<Limiter, Fault>, OutOfRange> {
        let mut limiter = Limiter::new(spec, seed)?;
        let restored = limiter.pardons.restore(from).and_then(|()| limiter.state.restore(from, spec, moved));
        Ok(restored.map(|()| limiter))
    }

    /// Loads what a probe of this place will read into the cache, so that the cache misses of several limits overlap.
    #[inline]
    pub fn prefetch(&self, at: &Place) {
        self.state.prefetch(at);
    }

    /// Turns hashes of keys that all limits share into this limit's own, which [`Place`] holds.
    pub fn own_hash(&self) -> &OwnHash {
        &self.own_hash
    }

    /// The seed that all of its tables are drawn by.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// Where requests wait that come when there is too little for all, and for how long at most; `None` of kinds that refuse at once.
    pub fn rate_door(&self) -> Option<(&Arc<TokenDoor>, Duration)> {
        self.state.rate_door()
    }

    /// Drops what is over. For a timer.
    pub fn maintain(&self, now: Timestamp) {
        self.pardons.maintain(now);
        self.state.maintain(now);
        self.demand.iter().for_each(|demand| demand.maintain(now));
    }

    /// The most that can be charged at once under the numbers of a tier; `None` of kinds that do not wait for answers that tell a
    /// cost.
    pub fn whole(&self, tier: u8) -> Option<u32> {
        self.state.whole(tier)
    }

    /// Whether it counts by windows: a charge ahead of now then takes a part of a later window.
    pub fn has_windows(&self) -> bool {
        self.state.has_windows()
    }

    /// Of a quota by the calendar: the beginnings of the window before that of `now`, of its own, and of the two after, in seconds
    /// since 1970.
    pub fn windows_begin(&self, now: Timestamp) -> Option<[u32; 4]> {
        self.state.windows_begin(now)
    }

    /// What a refusal with this [`Judgement::standing`](super::Judgement::standing) is short of; `kind` has the numbers of the tier.
    /// Reads no state.
    pub fn owed(&self, kind: &Kind, tier: u8, standing: u64, cost: Cost) -> Owed {
        self.state.owed(kind, tier, standing, cost)
    }

    /// Whether what is counted for the place's key is exact at this moment, rather than a sketch's, which may be too high.
    pub fn is_exact(&self, at: &Place) -> bool {
        self.state.is_exact(at)
    }

    /// What its refusal means.
    pub fn refusal(&self) -> Refuses {
        self.state.refuses()
    }

    /// Whether what a request takes comes back at its end, so that charging it first risks nothing.
    pub fn gives_back(&self) -> bool {
        self.deferred || self.state.gives_back()
    }

    /// Whether it counts by keys; an exact `inflight` limit has no use for one.
    pub fn is_keyed(&self) -> bool {
        self.state.is_keyed()
    }

    /// Whether what is asked for of it has to be counted now, as another limit refuses requests.
    #[inline]
    pub fn is_demand_watched(&self, now: Timestamp) -> bool {
        self.demand.as_ref().is_some_and(|demand| demand.is_watched(now))
    }

    /// The memory it holds, the same from its first request to its last.
    pub fn memory(&self) -> Bytes {
        let pending = self.pending.as_ref().map_or(0, |pending| pending.memory().0);
        Bytes(self.state.memory().0 + pending + self.demand.as_ref().map_or(0, |demand| demand.memory().0))
    }

    /// What it can tell of its state.
    pub fn gauges(&self, now: Timestamp) -> Gauges {
        let pending = self.pending.as_ref().map(|pending| pending.total());
        let mut gauges = Gauges { memory: self.memory().0, pending, ..Gauges::default() };
        self.state.gauge(&mut gauges, now);
        gauges
    }

    /// How crowded its table is at `now`, of `rate`, aligned `quota` and `recent_average`: the others have no such table.
    pub fn crowding(&self, now: Timestamp) -> Option<Crowding> {
        self.state.crowding(now)
    }
}

/// Nothing held back; `seed` is the limit's.
fn pending(seed: &Seed) -> Result<Arc<Pending>, OutOfRange> {
    Pending::new(Pending::DEFAULT_MEMORY, &seed.derive("pending")).map(Arc::new)
}
