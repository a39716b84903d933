//! What `rate`, `quota` and `recent_average` have in common: a level per key, and the meter that judges it.
//!
//! One [`Leveled`] judges by one set of numbers; [`Tiered`](super::tiered::Tiered) puts those of a limit and its tiers together.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::probe::{Probe, Seen, SeenLevel};
use super::{Judgement, Lost, Place};
use crate::saved::{Fault, Reader, Target, Writer};
use crate::sketch::{
    Admission, Charged, Crowding, KeyHash, Levels, Meter, NextUnit, Ratio, Seed, Spot, TimeScale, Timeline,
};
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// A table of levels and the meter that judges by them.
#[derive(Debug)]
pub struct Leveled<M> {
    meter: M,
    /// Shared with the limiters that it follows, while there are requests that began under those, and with tiers whose levels mean
    /// the same.
    levels: Arc<Levels>,
    /// Where a moment lies among the levels. All that the meter is told and tells is on this axis.
    timeline: Timeline,
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
    ratio: Ratio,
}

/// How far charges that do not ask may put a key into debt, in quotas, and at the least in time: an hour. A debt beyond
/// that is forgiven; a client that draws an hour's worth of bytes in one answer has other limits to fear.
const MOST_QUOTAS: u32 = 16;
const MOST_NANOS: u64 = 3_600 * 1_000_000_000;

const TEN_YEARS: u64 = 3_650 * 86_400 * 1_000_000_000;

impl<M: Meter> Leveled<M> {
    /// An empty table: every key has its whole budget. `indebts` says that there will be charges that do not ask first,
    /// [`Leveled::charge`]; levels then take longer to fade.
    ///
    /// # Errors
    /// What [`Levels::new`] refuses.
    pub fn new(meter: M, memory: Bytes, seed: Seed, indebts: bool) -> Result<Leveled<M>, OutOfRange> {
        let levels = Arc::new(Levels::new(memory, &seed)?);
        let before = Before { fade: 0, ratio: Ratio::EVEN };
        Ok(Leveled { meter, levels, timeline: Timeline::first(), seed, indebts, longest_wait: 0, before })
    }

    /// Another meter over the same table, for numbers by which levels mean the same.
    #[must_use]
    pub fn beside(&self, meter: M) -> Leveled<M> {
        let (levels, timeline, seed) = (Arc::clone(&self.levels), self.timeline.clone(), self.seed.clone());
        let (indebts, longest_wait, before) = (self.indebts, self.longest_wait, self.before);
        Leveled { meter, levels, timeline, seed, indebts, longest_wait, before }
    }

    /// Another meter over a table of its own on an axis of its own, time itself, which begins at `now` with what every key has spent by
    /// this one. A span of this one's axis means by the new meter what it takes at this `ratio`, in nanoseconds; a debt beyond ten
    /// years, which no burst takes to refill, is forgiven, as instants that saturate would lock a key out for ever.
    #[must_use]
    pub fn apart(&self, meter: M, now: Timestamp, ratio: Ratio, indebts: bool) -> Leveled<M> {
        let levels = Arc::new(self.levels.copied(on_time(self.timeline.at(now), now, ratio)));
        let before = Before { fade: ahead(ratio, self.fade()), ratio: Ratio::EVEN };
        Leveled { levels, timeline: Timeline::first(), indebts, longest_wait: 0, before, ..self.beside(meter) }
    }

    /// Writes the levels as instants of time itself, with the span by which other numbers can take them over, and how long they need to
    /// fade. Requests go on: [`Levels::save`] says what is in it.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn save(&self, to: &mut Writer<'_>, now: Timestamp) -> io::Result<()> {
        let (at, scale) = (self.timeline.at(now), self.timeline.time_scale());
        to.number(scale.ratio().real_in(self.meter.measure_nanos()))?;
        to.number(self.fade_nanos())?;
        let in_time = on_time(at, now, scale.ratio());
        let is_over = |level| self.meter.is_over(level, at);
        match scale.is_time() {
            true => self.levels.save(to, |level| if is_over(level) { 0 } else { level }),
            false => self.levels.save(to, |level| if is_over(level) { 0 } else { in_time(level) }),
        }
    }

    /// In what a span of saved levels passes by these numbers, for one unit of which `units.0` were written for every `units.1` of these.
    fn pace_of(&self, saved: &SavedLevels, (before, now): (u32, u32)) -> Ratio {
        match (self.meter.measure_nanos(), saved.measure) {
            (0, _) | (_, 0) => Ratio::EVEN,
            (own, saved) => {
                Ratio::new(u128::from(own) * u128::from(before.max(1)), u128::from(saved) * u128::from(now.max(1)))
            }
        }
    }

    /// Raises the levels of tables that nobody uses yet to saved ones: what was spent stays spent, to the unit, and comes back by these
    /// numbers from `now` on. `units`: bytes per unit as they were and as they are.
    ///
    /// # Errors
    /// Damaged bytes, and what [`Levels::restore`] refuses.
    pub(super) fn restore(
        from: &mut Reader<'_>,
        into: &mut [&mut Leveled<M>],
        now: Timestamp,
        units: (u32, u32),
    ) -> Result<(), Fault> {
        let saved = SavedLevels { measure: from.number()?, fade: from.number()? };
        let paces: Vec<Ratio> = into.iter().map(|leveled| leveled.pace_of(&saved, units)).collect();
        let as_there: Vec<Box<dyn Fn(u64) -> u64>> = paces.iter().map(|pace| as_here(*pace, now)).collect();
        for (leveled, pace) in into.iter_mut().zip(&paces) {
            leveled.before.fade = leveled.before.fade.max(ahead(*pace, saved.fade));
        }
        // those that share a table have one meaning of its levels
        let mut tables: Vec<Target<'_, Levels>> = Vec::new();
        for (leveled, as_there) in into.iter().zip(&as_there) {
            if !tables.iter().any(|(levels, _)| std::ptr::eq(*levels, &*leveled.levels)) {
                tables.push((&leveled.levels, &**as_there));
            }
        }
        Levels::restore(from, &tables)
    }

    /// Replaces the meter of a table that nobody uses yet.
    ///
    /// # Errors
    /// What `with` refuses.
    pub(super) fn change_meter(&mut self, with: impl FnOnce(&M) -> Result<M, OutOfRange>) -> Result<(), OutOfRange> {
        self.meter = with(&self.meter)?;
        Ok(())
    }

    /// Whether both judge by one table.
    pub fn shares_table_with(&self, other: &Leveled<M>) -> bool {
        Arc::ptr_eq(&self.levels, &other.levels)
    }

    /// The same levels under other numbers, which the meter has in spans of the axis of `timeline`. What was admitted before stays charged;
    /// requests that go on under the old numbers are charged here as well.
    #[must_use]
    pub fn followed_by(&self, meter: M, timeline: Timeline, indebts: bool) -> Leveled<M> {
        let before = Before { fade: self.fade(), ratio: self.before.ratio.slower(timeline.time_scale().ratio()) };
        let (levels, seed) = (Arc::clone(&self.levels), self.seed.clone());
        Leveled { meter, levels, timeline, seed, indebts, longest_wait: 0, before }
    }

    /// Allows charges up to this many nanoseconds ahead of now, for requests that wait.
    #[must_use]
    pub fn with_longest_wait(self, nanos: u64) -> Leveled<M> {
        Leveled { longest_wait: nanos, ..self }
    }

    /// How far ahead of now a request may be charged, in nanoseconds.
    pub fn longest_wait(&self) -> u64 {
        self.longest_wait
    }

    /// The meter.
    pub fn meter(&self) -> &M {
        &self.meter
    }

    /// Where a moment lies among the levels.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Reads whether a request of `cost` fits now, on top of `held` units that others may yet be charged.
    #[inline]
    pub(super) fn probe(&self, place: &Place, now: Timestamp, cost: Cost, held: u32) -> Probe {
        let (meter, at) = (&self.meter, self.timeline.at(now));
        let mut spot = Spot::default();
        let level = self.levels.look(self.key_at(place.key, at), &mut spot);
        let (judgement, seen) = match meter.admit(level, at, cost.saturating_add(held)) {
            // when more appears is told by the commit, as it costs some meters two logarithms
            Some(charged) => {
                let seen = if held == 0 { Seen::Level(SeenLevel { spot, charged, at }) } else { Seen::Nothing };
                (fitting(meter, charged.remaining, cost), seen)
            }
            None => {
                // as if all that others hold back were charged now: sooner than that nobody can promise
                let beside = Cost::new(held).map_or(level, |held| meter.charge(level, at, held));
                (self.refusal(place, beside, now, cost), Seen::Nothing)
            }
        };
        Probe::new(place, cost, judgement, seen)
    }

    /// Charges what was probed, from what the probe saw if that still stands.
    ///
    /// # Errors
    /// It does not fit any more.
    #[inline]
    pub(super) fn commit(&self, probe: &Probe, now: Timestamp) -> Result<Judgement, Lost> {
        let (meter, cost, at) = (&self.meter, probe.cost, self.timeline.at(now));
        let key = self.key_at(probe.place.key, at);
        if let Seen::Level(seen) = &probe.seen
            && seen.at == at
            && self.levels.raise_seen(&seen.spot, meter, key, at, &seen.charged)
        {
            let Charged { remaining, next_unit, .. } = seen.charged;
            return Ok(self.in_time(Judgement { next_unit, ..fitting(meter, remaining, cost) }, now));
        }
        let (level, contended) = match self.levels.admit(meter, key, at, cost) {
            Admission::Admitted { level } => {
                let (remaining, next_unit) = meter.outlook(level, at);
                return Ok(self.in_time(Judgement { next_unit, ..fitting(meter, remaining, cost) }, now));
            }
            Admission::Refused { level } => (level, false),
            Admission::Contended { level } => (level, true),
        };
        Err(Lost { judgement: self.refusal(&probe.place, level, now, cost), contended })
    }

    /// Charges `cost` whether it fits or not, up to sixteen quotas' worth of debt, or an hour's if that is more.
    pub fn charge(&self, place: &Place, now: Timestamp, cost: Cost) {
        let meter = &self.meter;
        let most = Cost::new(meter.quota().saturating_mul(MOST_QUOTAS)).unwrap_or(Cost::ONE);
        let at = self.timeline.at(now);
        let hour = if M::IS_LINEAR {
            at.nanos().saturating_add(self.timeline.time_scale().ratio().places_in(MOST_NANOS))
        } else {
            0
        };
        self.levels.charge(meter, self.key_at(place.key, at), at, cost, meter.charge(0, at, most).max(hour));
    }

    /// Takes note of `cost` that was charged by other numbers, up to the whole quota of these: a key that changes its tier takes
    /// along the units that it has spent, and owes none beyond a quota.
    pub fn take_note(&self, key: KeyHash, now: Timestamp, cost: Cost) {
        let (meter, at) = (&self.meter, self.timeline.at(now));
        let spent = Cost::new(meter.quota()).unwrap_or(Cost::ONE);
        self.levels.charge(meter, self.key_at(key, at), at, cost, meter.charge(0, at, spent));
    }

    /// Charges `cost` whether it fits or not, up to the level `ceiling`; says where the level is then.
    pub fn charge_up_to(&self, place: &Place, now: Timestamp, cost: Cost, ceiling: u64) -> u64 {
        self.levels.charge(&self.meter, place.key, self.timeline.at(now), cost, ceiling)
    }

    /// The level of a key, or more.
    pub fn level(&self, place: &Place) -> u64 {
        self.levels.estimate(place.key)
    }

    /// The refusal of a key at this level.
    #[inline(never)]
    pub fn refusal(&self, place: &Place, level: u64, now: Timestamp, cost: Cost) -> Judgement {
        let judgement = self.in_time(refused(&self.meter, level, self.timeline.at(now), cost), now);
        match judgement.retry_nanos {
            Some(wait) if self.longest_wait > 0 && self.timeline.time_scale().is_time() => {
                Judgement { retry_nanos: self.first_that_fits(place.key, now, wait, cost), ..judgement }
            }
            _ => judgement,
        }
    }

    /// How long until `cost` fits, if not in `wait` nanoseconds because others wait for that moment already. They wait for at most
    /// [`Leveled::with_longest_wait`], which ends the search.
    fn first_that_fits(&self, key: KeyHash, now: Timestamp, mut wait: u64, cost: Cost) -> Option<u64> {
        let meter = &self.meter;
        loop {
            let at = now.after(Duration::from_nanos(wait));
            let then = self.key_at(key, at);
            if then == key || wait > self.longest_wait {
                return Some(wait);
            }
            match meter.retry_nanos(self.levels.estimate(then), at, cost)? {
                0 => return Some(wait),
                more => wait = wait.checked_add(more)?,
            }
        }
    }

    /// Raises what `to` was charged to at least what `from` was, in every window that may have been charged ahead of time as well.
    pub fn carry(&self, from: KeyHash, to: KeyHash, now: Timestamp) {
        let (meter, end) = (&self.meter, now.nanos().saturating_add(self.longest_wait));
        self.levels.carry(from, to);
        let mut at = now;
        loop {
            let at_its_key = self.key_at(from, at);
            if at_its_key != from {
                self.levels.carry(at_its_key, self.key_at(to, at));
            }
            match meter
                .windows()
                .and_then(|windows| windows.key_changes_nanos(at))
                .and_then(|nanos| at.nanos().checked_add(nanos))
            {
                Some(next) if next <= end => at = Timestamp::from_nanos(next),
                _ => return,
            }
        }
    }

    /// Re-keys the table when it is due; `fade` is the longest that a level of it needs to fade, by whatever meter.
    pub fn maintain(&self, now: Timestamp, fade: u64) {
        self.levels.maintain(now, fade);
    }

    /// Nanoseconds after which whatever a key was charged has faded: ahead of now, or without being asked for; by whatever
    /// numbers, and however slow the axis was meanwhile.
    pub fn fade_nanos(&self) -> u64 {
        self.before.ratio.real_in(self.fade())
    }

    /// The longest span of the axis that any level needs to fade, whatever numbers it was charged by.
    fn fade(&self) -> u64 {
        let longest = self.meter.fade_nanos();
        let span = |nanos| self.timeline.time_scale().ratio().places_in_at_least(nanos);
        let debt = if self.indebts { longest.saturating_mul(u64::from(MOST_QUOTAS)).max(span(MOST_NANOS)) } else { 0 };
        longest.saturating_add(debt).saturating_add(span(self.longest_wait)).max(self.before.fade)
    }

    /// The key under which `key` is counted at `at`.
    #[inline]
    fn key_at(&self, key: KeyHash, at: Timestamp) -> KeyHash {
        self.meter.windows().map_or(key, |windows| windows.key_at(key, at))
    }

    /// What a meter says, in spans of time.
    #[inline]
    fn in_time(&self, judgement: Judgement, now: Timestamp) -> Judgement {
        if self.timeline.time_scale().is_time() {
            judgement
        } else {
            converted(judgement, self.timeline.time_scale(), now)
        }
    }

    /// The table.
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// How crowded the table is at `now`, by the limit's own numbers.
    pub fn crowding(&self, now: Timestamp) -> Crowding {
        self.levels.crowding(&self.meter, self.timeline.at(now))
    }

    /// The seed that keys are hashed under.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }
}

/// What stands beside saved levels.
struct SavedLevels {
    /// [`Meter::measure_nanos`], in nanoseconds of time.
    measure: u64,
    /// The longest that any of them needs to fade.
    fade: u64,
}

/// What becomes of a span at this ratio. A debt beyond ten years, which no burst takes to refill, is forgiven.
fn ahead(ratio: Ratio, span: u64) -> u64 {
    ratio.real_in(span).min(TEN_YEARS)
}

/// Puts levels of an axis that is `at` this place into time itself, which is `now`.
fn on_time(at: Timestamp, now: Timestamp, ratio: Ratio) -> impl Fn(u64) -> u64 {
    move |level| match level.checked_sub(at.nanos()) {
        Some(span) => now.nanos().saturating_add(ahead(ratio, span)),
        None if level == 0 => 0,
        // rounded against the client as well: not further into the past than it was
        None => now.nanos().saturating_sub(ratio.real_in(at.nanos() - level).saturating_sub(1)),
    }
}

/// What saved levels are by numbers of this pace, from `now` on.
fn as_here(pace: Ratio, now: Timestamp) -> Box<dyn Fn(u64) -> u64> {
    if pace == Ratio::EVEN { Box::new(|level| level) } else { Box::new(on_time(now, now, pace)) }
}

#[cold]
fn converted_next(next: &NextUnit, time_scale: &TimeScale, now: Timestamp) -> NextUnit {
    NextUnit::Known(in_time(time_scale, now, next.nanos()))
}

fn in_time(time_scale: &TimeScale, now: Timestamp, nanos: Option<u64>) -> Option<u64> {
    nanos.and_then(|nanos| if nanos == 0 { Some(0) } else { time_scale.wait(now, nanos) })
}

#[cold]
fn converted(judgement: Judgement, time_scale: &TimeScale, now: Timestamp) -> Judgement {
    Judgement {
        retry_nanos: in_time(time_scale, now, judgement.retry_nanos),
        next_unit: converted_next(&judgement.next_unit, time_scale, now),
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
    Judgement::admitted(requests(remaining, cost), requests(meter.quota(), cost))
}

fn refused<M: Meter>(meter: &M, level: u64, now: Timestamp, cost: Cost) -> Judgement {
    // a race that could not be settled is refused although it fits: "at once" is what a client may try next
    let retry_nanos = meter.retry_nanos(level, now, cost);
    let (remaining, next) = meter.outlook(level, now);
    Judgement {
        remaining: remaining / cost.get(),
        quota: meter.quota() / cost.get(),
        retry_nanos,
        next_unit: NextUnit::Known(retry_nanos.or_else(|| next.nanos())),
        standing: meter.standing(level, now),
        ..Judgement::REFUSED
    }
}
