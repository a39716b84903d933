//! What `rate`, `quota` and `recent_average` have in common: a level per key, and a meter for each tier.
//!
//! The levels of all tiers lie in one table. Each tier's meter judges them by its own numbers, so a client that changes its
//! tier takes along what it has spent.

use super::{Judgement, Lost, Place};
use crate::sketch::{Admission, Crowding, Levels, Meter, NextUnit, Seed};
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// A table of levels and the meters that judge by them.
#[derive(Debug)]
pub struct Leveled<M> {
    own: M,
    tiers: Box<[M]>,
    levels: Levels,
    seed: Seed,
    indebts: bool,
    /// How far ahead of now a request may be charged, in nanoseconds, because it waits.
    longest_wait: u64,
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
        Ok(Leveled { own, tiers: tiers.into(), levels: Levels::new(memory, &seed)?, seed, indebts, longest_wait: 0 })
    }

    /// The same for requests that may be charged so far ahead of now, because they wait.
    pub fn with_longest_wait(self, nanos: u64) -> Leveled<M> {
        Leveled { longest_wait: nanos, ..self }
    }

    /// The meter of a tier.
    pub fn meter(&self, tier: u8) -> &M {
        usize::from(tier).checked_sub(1).and_then(|index| self.tiers.get(index)).unwrap_or(&self.own)
    }

    /// Whether a request of `cost` fits now, on top of `held` units that others may yet be charged.
    pub fn probe(&self, place: &Place, now: Timestamp, cost: Cost, held: u32) -> Judgement {
        let meter = self.meter(place.tier);
        let level = self.levels.estimate(place.key);
        let whole = cost.saturating_add(held);
        if let Some(remaining) = meter.leaves(level, now, whole) {
            // when more appears is told by what `admit` says, and costs some meters two logarithms
            fitting(meter, remaining, cost)
        } else {
            // as if all that others hold back were charged now: sooner than that nobody can promise
            let beside = Cost::new(held).map_or(level, |held| meter.charge(level, now, held));
            refused(meter, beside, now, cost)
        }
    }

    /// Charges `cost`.
    ///
    /// # Errors
    /// It does not fit any more.
    pub fn admit(&self, place: &Place, now: Timestamp, cost: Cost) -> Result<Judgement, Lost> {
        let meter = self.meter(place.tier);
        let (level, contended) = match self.levels.admit(meter, place.key, now, cost) {
            Admission::Admitted { level } => {
                let (remaining, next_unit) = meter.outlook_later(level, now);
                return Ok(Judgement { next_unit, ..fitting(meter, remaining, cost) });
            }
            Admission::Refused { level } => (level, false),
            Admission::Contended { level } => (level, true),
        };
        Err(Lost { judgement: refused(meter, level, now, cost), contended })
    }

    /// Charges `cost` whether it fits or not, up to sixteen quotas' worth of debt, or an hour's if that is more.
    pub fn charge(&self, place: &Place, now: Timestamp, cost: Cost) {
        let meter = self.meter(place.tier);
        let most = Cost::new(meter.quota().saturating_mul(MOST_QUOTAS)).unwrap_or(Cost::ONE);
        let hour = if meter.is_linear() { now.nanos().saturating_add(MOST_NANOS) } else { 0 };
        self.levels.charge(meter, place.key, now, cost, meter.charge(0, now, most).max(hour));
    }

    /// Charges `cost` whether it fits or not, up to `ceiling`; says where the level is then.
    pub fn charge_up_to(&self, place: &Place, now: Timestamp, cost: Cost, ceiling: u64) -> u64 {
        self.levels.charge(self.meter(place.tier), place.key, now, cost, ceiling)
    }

    /// The level of a key, or more.
    pub fn level(&self, place: &Place) -> u64 {
        self.levels.estimate(place.key)
    }

    /// What the key would be told at this level.
    pub fn told(&self, place: &Place, level: u64, now: Timestamp, cost: Cost) -> Judgement {
        refused(self.meter(place.tier), level, now, cost)
    }

    /// Re-keys the table when it is due.
    pub fn maintain(&self, now: Timestamp) {
        let longest = self.tiers.iter().map(Meter::fade_nanos).fold(self.own.fade_nanos(), u64::max);
        let debt = if self.indebts { longest.saturating_mul(u64::from(MOST_QUOTAS)).max(MOST_NANOS) } else { 0 };
        self.levels.maintain(now, longest.saturating_add(debt).saturating_add(self.longest_wait));
    }

    /// The table.
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// How crowded the table is at `now`, by the limit's own numbers.
    pub fn crowding(&self, now: Timestamp) -> Crowding {
        self.levels.crowding(&self.own, now)
    }

    /// The seed that keys are hashed under.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }
}

fn fitting<M: Meter>(meter: &M, remaining: u32, cost: Cost) -> Judgement {
    Judgement {
        admitted: true,
        remaining: remaining / cost.get(),
        quota: meter.quota() / cost.get(),
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
