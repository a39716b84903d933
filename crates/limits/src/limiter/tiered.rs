//! The numbers of a limit and of its tiers: each judges by levels of its own, and all take note of every charge.
//!
//! **Promise.** What is admitted by the numbers of one tier is what those numbers allow, whatever the key spends by the others. A
//! key that changes its tier takes along the units that it has spent lately, up to the whole quota of the tier it comes to: so a
//! change never brings a fresh budget, and no tier can lock a key out of another for longer than that one takes to refill. A request
//! that waits by the numbers of one tier is noted by the others as of its arrival.
//!
//! *Why not one level for all.* A level of a bucket is an instant. A request at 6/h moves it by ten minutes, which at 10/s are
//! six thousand requests.
//!
//! Aligned windows count units, so all tiers of a `quota` share one table, and so do tiers of equal numbers. Else a limit takes its
//! memory once for each tier.

use std::io;

use super::kind::MIXED;
use super::leveled::Leveled;
use super::probe::Probe;
use super::{Judgement, Kind, Lost, Place};
use crate::saved::{Fault, Reader, Writer};
use crate::sketch::{Crowding, KeyHash, Levels, Meter, Seed};
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// The limit's own numbers and those of its tiers.
#[derive(Debug)]
pub struct Tiered<M> {
    own: Leveled<M>,
    tiers: Box<[Leveled<M>]>,
}

impl<M: Meter> Tiered<M> {
    /// The first of the meters judges tier 0, the others the tiers in their order. Those by which levels mean the same (`alike`) share
    /// one of the tables that `table` makes.
    ///
    /// # Errors
    /// No meter, one that is a fault, or what `table` refuses.
    pub fn empty(
        meters: impl Iterator<Item = Result<M, OutOfRange>>,
        alike: impl Fn(&M, &M) -> bool,
        table: impl Fn(M) -> Result<Leveled<M>, OutOfRange>,
    ) -> Result<Tiered<M>, OutOfRange> {
        let mut all: Vec<Leveled<M>> = Vec::new();
        for meter in meters {
            let meter = meter?;
            all.push(match all.iter().find(|other| alike(other.meter(), &meter)) {
                Some(other) => other.beside(meter),
                None => table(meter)?,
            });
        }
        Tiered::of(all)
    }

    /// What follows these under other numbers. For each of `kinds`, `was` says which tier it was before; one that was none begins with
    /// what its keys have spent by the limit's own numbers. `follow` goes on with the table, `None` if its axis cannot. `apart` copies the
    /// levels into a table of its own: where the axis cannot go on, and for a tier whose levels would mean something else than those of
    /// another in the same table.
    ///
    /// A request that began before and is charged after goes on in the tables of before: one that was made apart does not hear of it.
    ///
    /// # Errors
    /// No kind, or what `follow` and `apart` refuse.
    pub fn follow(
        &self,
        (kinds, was): (&[Kind], &[Option<u8>]),
        alike: impl Fn(&M, &M) -> bool,
        follow: impl Fn(&Leveled<M>, &Kind) -> Result<Option<Leveled<M>>, OutOfRange>,
        apart: impl Fn(&Leveled<M>, &Kind) -> Result<Leveled<M>, OutOfRange>,
    ) -> Result<Tiered<M>, OutOfRange>
    where
        M: Clone,
    {
        let mut all: Vec<Leveled<M>> = Vec::new();
        let before = |at: usize| self.at(was.get(at).copied().flatten().unwrap_or(0));
        for (at, kind) in kinds.iter().enumerate() {
            // one of the same numbers that shared its table goes on to share it
            let twin = kinds
                .iter()
                .zip(&all)
                .enumerate()
                .find(|(other, (numbers, _))| *numbers == kind && before(*other).shares_table_with(before(at)));
            if let Some((_, (_, twin))) = twin {
                let twin = twin.beside(twin.meter().clone());
                all.push(twin);
                continue;
            }
            let differs = |after: &Leveled<M>| {
                let same = |other: &Leveled<M>| {
                    other.timeline().time_scale() == after.timeline().time_scale()
                        && alike(other.meter(), after.meter())
                };
                all.iter().any(|other| other.shares_table_with(after) && !same(other))
            };
            let after = follow(before(at), kind)?.filter(|after| !differs(after));
            all.push(after.map_or_else(|| apart(before(at), kind), Ok)?);
        }
        Tiered::of(all)
    }

    fn of(mut all: Vec<Leveled<M>>) -> Result<Tiered<M>, OutOfRange> {
        if all.is_empty() {
            return Err(MIXED);
        }
        let tiers = all.split_off(1).into();
        Ok(Tiered { own: all.pop().ok_or(MIXED)?, tiers })
    }

    /// Allows charges up to this many nanoseconds ahead of now, for requests that wait.
    #[must_use]
    pub fn with_longest_wait(self, nanos: u64) -> Tiered<M> {
        let tiers = self.tiers.into_iter().map(|tier| tier.with_longest_wait(nanos)).collect();
        Tiered { own: self.own.with_longest_wait(nanos), tiers }
    }

    /// What judges a tier.
    #[inline]
    pub fn at(&self, tier: u8) -> &Leveled<M> {
        usize::from(tier).checked_sub(1).and_then(|index| self.tiers.get(index)).unwrap_or(&self.own)
    }

    /// From now on these numbers are in force.
    pub fn take_over(&self) {
        for each in self.all() {
            each.timeline().take_over();
            if let Some(windows) = each.meter().windows() {
                windows.take_over();
            }
        }
    }

    /// [`Leveled::probe`] by the numbers of the place's tier.
    pub(super) fn probe(&self, place: &Place, now: Timestamp, cost: Cost, held: u32) -> Probe {
        self.at(place.tier).probe(place, now, cost, held)
    }

    /// [`Leveled::commit`] by the numbers of the probe's tier; the others take note.
    ///
    /// # Errors
    /// It does not fit any more.
    pub(super) fn commit(&self, probe: &Probe, now: Timestamp) -> Result<Judgement, Lost> {
        let place = &probe.place;
        let judgement = self.at(place.tier).commit(probe, now)?;
        self.note_elsewhere(place.tier, place.key, place.noted.unwrap_or(now), probe.cost);
        Ok(judgement)
    }

    /// [`Leveled::charge`] by the numbers of the place's tier; the others take note.
    pub fn charge(&self, place: &Place, now: Timestamp, cost: Cost) {
        self.at(place.tier).charge(place, now, cost);
        self.note_elsewhere(place.tier, place.key, now, cost);
    }

    /// Notes in the other tables what was charged by the numbers of a tier.
    #[inline]
    pub fn note_elsewhere(&self, tier: u8, key: KeyHash, now: Timestamp, cost: Cost) {
        // most limits have none
        if !self.tiers.is_empty() {
            self.note_in_tiers(tier, key, now, cost);
        }
    }

    fn note_in_tiers(&self, tier: u8, key: KeyHash, now: Timestamp, cost: Cost) {
        let judged = self.at(tier);
        for other in self.tables().filter(|other| !other.shares_table_with(judged)) {
            other.take_note(key, now, cost);
        }
    }

    /// Raises what `to` was charged to at least what `from` was.
    pub fn carry(&self, from: KeyHash, to: KeyHash, now: Timestamp) {
        self.tables().for_each(|each| each.carry(from, to, now));
    }

    /// Re-keys the tables when that is due.
    pub fn maintain(&self, now: Timestamp) {
        for each in self.tables() {
            let sharing = self.all().filter(|other| other.shares_table_with(each));
            each.maintain(now, sharing.map(Leveled::fade_nanos).fold(0, u64::max));
        }
    }

    /// Writes the levels of all tables, and which tier is judged by which.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn save(&self, to: &mut Writer<'_>, now: Timestamp) -> io::Result<()> {
        to.number(self.all().count() as u64)?;
        for each in self.all() {
            let table = self.tables().position(|table| table.shares_table_with(each));
            to.number(table.unwrap_or(0) as u64)?;
        }
        to.number(self.tables().count() as u64)?;
        self.tables().try_for_each(|table| table.save(to, now))
    }

    /// Raises levels that nobody uses yet to saved ones. For each tier `was` says which it was when they were saved; one that was none
    /// begins with what its keys had spent by the limit's own numbers. `units`: bytes per unit, then and now.
    ///
    /// # Errors
    /// Damaged bytes, and what [`Levels::restore`] refuses.
    pub fn restore(
        &mut self,
        from: &mut Reader<'_>,
        (was, now): (&[Option<u8>], Timestamp),
        units: (u32, u32),
    ) -> Result<(), Fault> {
        // as many as a byte can number
        let tiers = from.number_up_to(256)?;
        let table_of = (0..tiers).map(|_| from.number_up_to(tiers)).collect::<Result<Vec<u64>, Fault>>()?;
        for table in 0..from.number_up_to(tiers)? {
            let before = |at: usize| usize::from(was.get(at).copied().flatten().unwrap_or(0));
            let all = std::iter::once(&mut self.own).chain(&mut self.tiers).enumerate();
            let from_it = all.filter(|(at, _)| table_of.get(before(*at)).or(table_of.first()) == Some(&table));
            let mut into: Vec<&mut Leveled<M>> = from_it.map(|(_, leveled)| leveled).collect();
            Leveled::restore(from, &mut into, now, units)?;
        }
        Ok(())
    }

    /// Replaces the meters of tables that nobody uses yet.
    ///
    /// # Errors
    /// What `with` refuses.
    pub fn change_meters(&mut self, with: impl Fn(&M) -> Result<M, OutOfRange>) -> Result<(), OutOfRange> {
        std::iter::once(&mut self.own).chain(&mut self.tiers).try_for_each(|each| each.change_meter(&with))
    }

    /// Nanoseconds after which whatever a key was charged has faded, by the numbers of any tier.
    pub fn fade_nanos(&self) -> u64 {
        self.all().map(Leveled::fade_nanos).fold(0, u64::max)
    }

    /// The greatest quota of any tier.
    pub fn greatest_quota(&self) -> u32 {
        self.all().map(|each| each.meter().quota()).fold(0, u32::max)
    }

    /// The table that a tier is judged by.
    #[inline]
    pub fn levels(&self, tier: u8) -> &Levels {
        self.at(tier).levels()
    }

    /// The memory of all tables.
    pub fn memory(&self) -> Bytes {
        Bytes(self.tables().map(|each| each.levels().memory().0).sum())
    }

    /// Keys with an entry of their own, in all tables.
    pub fn exact_entries(&self) -> u64 {
        self.tables().map(|each| each.levels().exact_entries()).sum()
    }

    /// How crowded the limit's own table is.
    pub fn crowding(&self, now: Timestamp) -> Crowding {
        self.own.crowding(now)
    }

    /// The seed that keys are hashed under.
    pub fn seed(&self) -> &Seed {
        self.own.seed()
    }

    fn all(&self) -> impl Iterator<Item = &Leveled<M>> + Clone {
        std::iter::once(&self.own).chain(&self.tiers)
    }

    /// The first of those that share a table, for each table.
    fn tables(&self) -> impl Iterator<Item = &Leveled<M>> {
        let is_first = |at: usize, each: &Leveled<M>| !self.all().take(at).any(|other| other.shares_table_with(each));
        self.all().enumerate().filter(move |(at, each)| is_first(*at, each)).map(|(_, each)| each)
    }
}
