//! What `rate`, `quota` and `recent_average` have in common: a level per key, and a meter for each tier.
//!
//! The levels of all tiers lie in one table. Each tier's meter judges them by its own numbers, so a client that changes its
//! tier takes along what it has spent.

use std::sync::Arc;

use super::{Judgement, Lost, Near, Place, Said};
use crate::sketch::{Admission, Axis, Course, Crowding, Levels, Meter, NextUnit, Pace, Seed};
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// A table of levels and the meters that judge by them.
#[derive(Debug)]
pub struct Leveled<M> {
    own: M,
    tiers: Box<[M]>,
    /// Shared with the limiters that it follows, while there are requests that began under those.
    levels: Arc<Levels>,
    /// Where a moment lies among the levels. All that the meters are told and tell is on this axis.
    course: Course,
    seed: Seed,
    indebts: bool,
    /// How far ahead of now a request may be charged, in nanoseconds, because it waits.
    longest_wait: u64,
    before: Before,
}

/// Of the numbers that the same levels were judged by before.
#[derive(Debug, Clone, Copy)]
struct Before {
    /// The longest span of the axis that any level needs to fade.
    fade: u64,
    /// The slowest that the axis has been.
    pace: Pace,
}

/// How far charges that do not ask may put a key into debt, in quotas, and at the least in time: an hour. A debt beyond
/// that is forgiven; a client that draws an hour's worth of bytes in one answer has other limits to fear.
const MOST_QUOTAS: u32 = 16;
const MOST_NANOS: u64 = 3_600 * 1_000_000_000;

impl<M: Meter> Leveled<M> {
    /// An empty table: every key has its whole budget. `own` judges tier 0, `tiers` the others in their order. `indebts` says
    /// that there will be charges that do not ask first, [`Leveled::charge`]; levels then take longer to fade.
    ///
    /// # Errors
    /// What [`Levels::new`] refuses.
    pub fn new(own: M, tiers: Vec<M>, memory: Bytes, seed: Seed, indebts: bool) -> Result<Leveled<M>, OutOfRange> {
        let levels = Arc::new(Levels::new(memory, &seed)?);
        let before = Before { fade: 0, pace: Pace::EVEN };
        Ok(Leveled {
            own,
            tiers: tiers.into(),
            levels,
            course: Course::first(),
            seed,
            indebts,
            longest_wait: 0,
            before,
        })
    }

    /// The same levels under other numbers, which the meters have in spans of the axis of `course`. What was admitted before stays charged;
    /// requests that go on under the old numbers are charged here as well.
    pub fn followed_by(&self, own: M, tiers: Vec<M>, course: Course, indebts: bool) -> Leveled<M> {
        let before = Before { fade: self.fade(), pace: self.before.pace.slower(course.axis().pace()) };
        let (levels, seed) = (Arc::clone(&self.levels), self.seed.clone());
        Leveled { own, tiers: tiers.into(), levels, course, seed, indebts, longest_wait: 0, before }
    }

    /// The same for requests that may be charged so far ahead of now, because they wait.
    pub fn with_longest_wait(self, nanos: u64) -> Leveled<M> {
        Leveled { longest_wait: nanos, ..self }
    }

    /// The meter of a tier.
    pub fn meter(&self, tier: u8) -> &M {
        usize::from(tier).checked_sub(1).and_then(|index| self.tiers.get(index)).unwrap_or(&self.own)
    }

    /// Where a moment lies among the levels.
    pub fn course(&self) -> &Course {
        &self.course
    }

    /// From now on these numbers are in force.
    pub fn take_over(&self) {
        self.course.take_over();
    }

    /// Whether a request of `cost` fits now, on top of `held` units that others may yet be charged.
    pub fn probe(&self, place: &Place, now: Timestamp, cost: Cost, held: u32) -> Judgement {
        let meter = self.meter(place.tier);
        let level = self.levels.estimate(place.key);
        let whole = cost.saturating_add(held);
        let at = self.course.at(now);
        if let Some(remaining) = meter.leaves(level, at, whole) {
            // when more appears is told by what `admit` says, and costs some meters two logarithms
            fitting(meter, remaining, cost)
        } else {
            // as if all that others hold back were charged now: sooner than that nobody can promise
            let beside = Cost::new(held).map_or(level, |held| meter.charge(level, at, held));
            self.in_time(refused(meter, beside, at, cost), now)
        }
    }

    /// What [`Leveled::probe`] says where nothing is held back, in a word.
    #[inline(never)]
    pub fn said(&self, place: &Place, near: &mut Near, now: Timestamp, cost: Cost) -> Said {
        let meter = self.meter(place.tier);
        let (level, at) = (self.levels.look(&mut near.spot, place.key), self.course.at(now));
        match meter.leaves_charged(level, at, cost) {
            Some(charged) => {
                (near.charged, near.at) = (charged, at);
                Said::Fits(requests(charged.remaining, cost).into())
            }
            None => Said::Over(level),
        }
    }

    /// Charges a request of which was said that it fits, if nothing has moved since. Says whether it did, and puts into `next` when the
    /// next unit comes back.
    #[inline(never)]
    pub fn charge_asked(&self, place: &Place, near: &Near, now: Timestamp, next: &mut NextUnit) -> bool {
        let meter = self.meter(place.tier);
        let (at, charged) = (self.course.at(now), &near.charged);
        if charged.to == 0 || near.at != at || !self.levels.raise_kept(&near.spot, meter, place.key, at, charged) {
            return false;
        }
        *next = meter.next_unit_later(charged, at);
        if !self.course.axis().is_time() {
            *next = converted_next(next, self.course.axis(), now);
        }
        true
    }

    /// Charges `cost`.
    ///
    /// # Errors
    /// It does not fit any more.
    pub fn admit(&self, place: &Place, now: Timestamp, cost: Cost) -> Result<Judgement, Lost> {
        let meter = self.meter(place.tier);
        let at = self.course.at(now);
        let (level, contended) = match self.levels.admit(meter, place.key, at, cost) {
            Admission::Admitted { level } => {
                let (remaining, next_unit) = meter.outlook_later(level, at);
                return Ok(self.in_time(Judgement { next_unit, ..fitting(meter, remaining, cost) }, now));
            }
            Admission::Refused { level } => (level, false),
            Admission::Contended { level } => (level, true),
        };
        Err(Lost { judgement: self.told(place, level, now, cost), contended })
    }

    /// Charges `cost` whether it fits or not, up to sixteen quotas' worth of debt, or an hour's if that is more.
    pub fn charge(&self, place: &Place, now: Timestamp, cost: Cost) {
        let meter = self.meter(place.tier);
        let most = Cost::new(meter.quota().saturating_mul(MOST_QUOTAS)).unwrap_or(Cost::ONE);
        let at = self.course.at(now);
        let hour = if meter.is_linear() {
            at.nanos().saturating_add(self.course.axis().pace().places_in(MOST_NANOS))
        } else {
            0
        };
        self.levels.charge(meter, place.key, at, cost, meter.charge(0, at, most).max(hour));
    }

    /// Charges `cost` whether it fits or not, up to the level `ceiling`; says where the level is then.
    pub fn charge_up_to(&self, place: &Place, now: Timestamp, cost: Cost, ceiling: u64) -> u64 {
        self.levels.charge(self.meter(place.tier), place.key, self.course.at(now), cost, ceiling)
    }

    /// The level of a key, or more.
    pub fn level(&self, place: &Place) -> u64 {
        self.levels.estimate(place.key)
    }

    /// What the key would be told at this level.
    #[inline(never)]
    pub fn told(&self, place: &Place, level: u64, now: Timestamp, cost: Cost) -> Judgement {
        self.in_time(refused(self.meter(place.tier), level, self.course.at(now), cost), now)
    }

    /// Re-keys the table when it is due.
    pub fn maintain(&self, now: Timestamp) {
        self.levels.maintain(now, self.fade_nanos());
    }

    /// Nanoseconds after which whatever a key was charged has faded: by any tier, ahead of now, or without being asked for; by
    /// whatever numbers, and however slow the axis was meanwhile.
    pub fn fade_nanos(&self) -> u64 {
        self.before.pace.real_in(self.fade())
    }

    /// The longest span of the axis that any level needs to fade, whatever numbers it was charged by.
    fn fade(&self) -> u64 {
        let longest = self.tiers.iter().map(Meter::fade_nanos).fold(self.own.fade_nanos(), u64::max);
        let span = |nanos| self.course.axis().pace().places_in_at_least(nanos);
        let debt = if self.indebts { longest.saturating_mul(u64::from(MOST_QUOTAS)).max(span(MOST_NANOS)) } else { 0 };
        longest.saturating_add(debt).saturating_add(span(self.longest_wait)).max(self.before.fade)
    }

    /// What a meter says, in spans of time.
    #[inline]
    fn in_time(&self, judgement: Judgement, now: Timestamp) -> Judgement {
        if self.course.axis().is_time() { judgement } else { converted(judgement, self.course.axis(), now) }
    }

    /// The table.
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// How crowded the table is at `now`, by the limit's own numbers.
    pub fn crowding(&self, now: Timestamp) -> Crowding {
        self.levels.crowding(&self.own, self.course.at(now))
    }

    /// The seed that keys are hashed under.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }
}

#[cold]
fn converted_next(next: &NextUnit, axis: &Axis, now: Timestamp) -> NextUnit {
    NextUnit::Known(in_time(axis, now, next.nanos()))
}

fn in_time(axis: &Axis, now: Timestamp, nanos: Option<u64>) -> Option<u64> {
    nanos.and_then(|nanos| if nanos == 0 { Some(0) } else { axis.wait(now, nanos) })
}

#[cold]
fn converted(judgement: Judgement, axis: &Axis, now: Timestamp) -> Judgement {
    Judgement {
        retry_nanos: in_time(axis, now, judgement.retry_nanos),
        next_unit: converted_next(&judgement.next_unit, axis, now),
        ..judgement
    }
}

/// How many requests of this cost so many units are.
#[inline]
fn requests(units: u32, cost: Cost) -> u32 {
    // most cost one, and a division takes as long as all else here
    if cost == Cost::ONE { units } else { units / cost.get() }
}

#[inline]
fn fitting<M: Meter>(meter: &M, remaining: u32, cost: Cost) -> Judgement {
    Judgement {
        admitted: true,
        remaining: requests(remaining, cost),
        quota: requests(meter.quota(), cost),
        retry_nanos: Some(0),
        next_unit: NextUnit::Known(None),
        standing: 0,
    }
}

fn refused<M: Meter>(meter: &M, level: u64, now: Timestamp, cost: Cost) -> Judgement {
    // a race that could not be settled is refused although it fits: "at once" is what a client may try next
    let retry_nanos = meter.retry_nanos(level, now, cost);
    Judgement {
        admitted: false,
        remaining: meter.remaining(level, now) / cost.get(),
        quota: meter.quota() / cost.get(),
        retry_nanos,
        next_unit: NextUnit::Known(retry_nanos.or_else(|| meter.next_unit_nanos(level, now))),
        standing: meter.standing(level, now),
    }
}
