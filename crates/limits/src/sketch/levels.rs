//! The levels of all keys: a re-keyed sketch for every key there could be, and an exact entry for each that is heavy.
//!
//! **Promise.** For every key, under every interleaving, any colliding keys, re-keying and eviction: what is admitted is
//! what an exact limiter of that key alone would admit, or less; [`rekeyed`](super::rekeyed) says for which stamps. And a
//! key that reached half its quota while the sketch let it is judged exactly from then on: what collides with it later
//! cannot get it refused, until its level has faded and its slot is wanted.
//!
//! **Protocol.** A request whose key has an open entry is judged by the entry alone: one exchange of one word. Any other
//! (1) reads the key's cells, (2) *then* looks for an entry: an open one sends it back to the start, a pending one is killed,
//! and it starts again; (3) judges; (4) if the key is heavy now, claims a slot; (5) raises the cells by exchanges from what
//! it read, or frees the claim and starts again; (6) is admitted, and opens the entry at its level unless the claim was
//! killed. Eviction lifts every cell of the key to the entry's level and then exchanges the word away; whoever evicts a key
//! with which he shares his least cells thereby lifts his own, fails at (5), and may then be refused.
//!
//! *Why.* It must hold of any two admitted requests of one key that one was judged by a level which includes the other.
//! Two by cells: the theorem of [`monotone`](super::monotone). Two by one entry: exchanges of one word that never comes back.
//! Let p be the request that opened an entry, and s one by cells. Let m be the cell of p's least level, which p raised.
//!
//! * *s read m after p raised it.* The claim was made before, so s finds it or what became of it. Pending: s kills it,
//!   nothing opens, s starts again. Open: s goes by the entry. Evicted: the cells were lifted before. Either s read a least
//!   cell at that level, and includes all that the entry admitted; or its least cell has moved since, and its exchange fails.
//! * *s read m before p raised it.* Then s's estimate is at most p's, so s's least cell was below p's level, and p read it
//!   at that level or saw it raised. If s's exchanges all succeed, they came before p's reads of those cells (otherwise one
//!   of the two fails), and p, who judged by the least of them, includes s. So does the entry.
//!
//! Two entries of one key, open one after the other: take the later one's p for s. Were both pending at once, one would have
//! read the other's cells after they were raised, and so found its claim.
//!
//! All of this needs one table that both requests used. If re-keying left them none, an overlap lies between them: an
//! earlier claim has long become visible, and an earlier level has faded. An eviction looks at the phase after lifting; if
//! the tables change twice before its exchange, a level that did not move for so long has faded, too.
//!
//! `tests/sketch` explores a model of all this exhaustively, runs this code under loom, and shows that it fails if the entry
//! is looked for before the cells are read, if the slot is claimed after they are raised, if whoever kills a claim frees its
//! slot, and if an entry is closed before its level is written back.

use std::{fmt, io};

use super::exact::{Entry, ExactTable, Found, HIGHEST_LEVEL};
use super::hash::{KeyHash, Seed};
use super::meter::{Charged, Meter};
use super::monotone::{Admission, Crowding, MAX_ATTEMPTS, MonotoneTable, Word};
use super::rekeyed::{Reading, Rekeyed, Spot};
use crate::saved::{Fault, Reader, Target, Writer};
use crate::sync::AtomicU64;
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// The levels of one limit; see the module. It belongs to one meter: levels of another rate mean something else.
pub struct Levels<C: Word = AtomicU64, const ROWS: usize = 4> {
    sketch: Rekeyed<C, ROWS>,
    exact: ExactTable<C>,
}

impl Levels {
    /// Levels around sketch tables of `memory` each; [`Levels::memory`] says what they take altogether: two such tables for
    /// re-keying, and for the exact entries a sixteenth of one (4 MiB: 8,192 entries of 32 bytes).
    ///
    /// # Errors
    /// What [`MonotoneTable::with_memory`] refuses: not a power of two from 4 KiB to 512 MiB.
    pub fn new(memory: Bytes, seed: &Seed) -> Result<Levels, OutOfRange> {
        let columns = MonotoneTable::columns_in(memory)?;
        // four rows of eight bytes a column, a sixteenth of it, in lines of 64 bytes
        Levels::with_shape(columns, columns / 32, seed)
    }
}

/// How often a charge starts again after a whole round of lost races, each of which let another on. To give up would
/// punish its key, and nobody waits for it but the request itself.
const CHARGE_ROUNDS: u32 = 256;

impl<C: Word, const ROWS: usize> Levels<C, ROWS> {
    /// Levels of any shape, for tests and models: tables of 1 to 4 rows of `columns` cells, and `lines` times two entries
    /// (rounded up to a power of two).
    ///
    /// # Errors
    /// `columns` is not a power of two from 1 to 2²⁴.
    pub fn with_shape(columns: usize, lines: usize, seed: &Seed) -> Result<Self, OutOfRange> {
        Ok(Levels { sketch: Rekeyed::with_shape(columns, seed)?, exact: ExactTable::new(lines) })
    }

    /// The level that a request of this key would be judged by now: of its entry, or else at least its own by the sketch.
    /// Read only.
    #[inline]
    pub fn estimate(&self, key: KeyHash) -> u64 {
        match self.exact.line(key).open(key) {
            None => self.sketch.estimate(key),
            Some(_) => self.estimate_exact(key),
        }
    }

    /// [`Levels::estimate`]; puts what was seen into `spot`, for [`Levels::raise_seen`].
    #[inline]
    pub fn look(&self, key: KeyHash, spot: &mut Spot<ROWS>) -> u64 {
        let level = self.sketch.look(key, spot);
        // in this order, as it may be charged by: cells first, then the entry
        if !self.exact.is_touched(key) || matches!(self.exact.line(key).find(key), Found::Absent) {
            return level;
        }
        spot.forget();
        self.estimate_anew(key)
    }

    /// The level of a key whose snapshot is out of date.
    #[inline(never)]
    fn estimate_anew(&self, key: KeyHash) -> u64 {
        self.estimate(key)
    }

    /// The level of a key that had an entry a moment ago.
    #[inline(never)]
    fn estimate_exact(&self, key: KeyHash) -> u64 {
        let line = self.exact.line(key);
        for _ in 0..MAX_ATTEMPTS {
            match line.open(key) {
                Some(entry) if entry.is_current() => return entry.level(),
                Some(_) => {}
                None => break,
            }
        }
        self.sketch.estimate(key)
    }

    /// Whether the key has an entry of its own at this moment, so that nothing that collides with it counts against it.
    pub fn is_exact(&self, key: KeyHash) -> bool {
        self.exact.line(key).open(key).is_some()
    }

    /// Has all that a request of this key would be judged by brought near; see [`MonotoneTable::prefetch`].
    #[inline]
    pub fn prefetch(&self, key: KeyHash) {
        if self.exact.is_touched(key) {
            super::bring_near(self.exact.line(key));
        }
        self.sketch.prefetch(key);
    }

    /// Asks to admit one request of `key`. At a key's limit this only reads.
    #[inline]
    pub fn admit<M: Meter>(&self, meter: &M, key: KeyHash, now: Timestamp, cost: Cost) -> Admission {
        let admitted = |level| meter.admit(level, now, cost).map(|charged| charged.to);
        admission(self.settle(|| self.sketch.read_alone(key), meter, key, now, admitted))
    }

    /// Admits a request that was judged by what [`Levels::look`] saw: raises the key's level from there to what the meter said at `now`
    /// that it is charged. Says whether it did; if not, nothing may be concluded, and [`Levels::admit`] starts again.
    ///
    /// Steps 4 to 6 of the protocol, after the look was steps 1 to 3: however long ago it was, the exchanges succeed only where no
    /// cell has moved since.
    #[inline]
    pub fn raise_seen<M: Meter>(
        &self,
        spot: &Spot<ROWS>,
        meter: &M,
        key: KeyHash,
        now: Timestamp,
        charged: &Charged,
    ) -> bool {
        if is_heavy(meter, charged.to, now) {
            return self.promote_seen(spot, meter, key, now, charged.to);
        }
        self.sketch.raise_seen(spot, charged.to)
    }

    /// [`Levels::raise_seen`] of a heavy key.
    #[cold]
    fn promote_seen<M: Meter>(&self, spot: &Spot<ROWS>, meter: &M, key: KeyHash, now: Timestamp, to: u64) -> bool {
        let reading = self.sketch.reading_of(spot);
        reading.is_some_and(|reading| self.promote(meter, key, now, &reading, to))
    }

    /// Charges one request whether it fits or not, up to `ceiling`, and says what level the key has now: at least what it
    /// was judged by, charged, or the ceiling. A key at or above the ceiling is only read.
    ///
    /// No charge is lost: of two that race, one is on top of the other. A charge that loses 16,384 races in a row raises the key
    /// to the ceiling, which counts too high; so give a ceiling that fades, and tell [`Levels::maintain`] how slowly.
    pub fn charge<M: Meter>(&self, meter: &M, key: KeyHash, now: Timestamp, cost: Cost, ceiling: u64) -> u64 {
        let charged = |level| Some(meter.charge(level, now, cost).min(ceiling)).filter(|charged| *charged > level);
        for _ in 0..CHARGE_ROUNDS {
            if let Settled::Raised { level } | Settled::Kept { level } =
                self.settle(|| self.sketch.read_alone(key), meter, key, now, charged)
            {
                return level;
            }
        }
        self.raise_to_ceiling(key, ceiling)
    }

    /// Raises the level of `to` to at least that of `from`. No charge of others is lost.
    pub fn carry(&self, from: KeyHash, to: KeyHash) {
        let level = self.estimate(from);
        if self.estimate(to) < level {
            self.raise_to_ceiling(to, level);
        }
    }

    /// A table of its own with the levels of this one, each put through `as_there`, which keeps their order and 0. What is charged here
    /// during the call may be in it or not.
    pub fn copied(&self, as_there: impl Fn(u64) -> u64) -> Self {
        // Entries first: one that is evicted meanwhile was written to the cells before, and one that is opened meanwhile has
        // raised them before.
        let entries: Vec<(KeyHash, u64)> = self.exact.entries().collect();
        let sketch = self.sketch.copied(&as_there);
        entries.into_iter().for_each(|(key, level)| sketch.lift(key, as_there(level)));
        Levels { sketch, exact: self.exact.sibling() }
    }

    /// Writes all levels, each put through `as_saved`, which keeps their order and 0. Requests go on: [`Rekeyed::save`] says what is in it.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn save(&self, to: &mut Writer<'_>, as_saved: impl Fn(u64) -> u64) -> io::Result<()> {
        // Entries first, as in `copied`. An entry is cut to size where it is saved: as many as are open at the moment.
        let mut entries: Vec<(KeyHash, u64)> = Vec::new();
        for entry in self.exact.places() {
            to.looked_at(size_of_val(&entry));
            entries.extend(entry.map(|(key, level)| (key, as_saved(level))).filter(|(_, level)| *level > 0));
        }
        to.number(entries.len() as u64)?;
        for (key, level) in entries {
            let [low, high] = key.halves();
            to.number(low)?;
            to.number(high)?;
            to.number(level)?;
        }
        self.sketch.save(to, as_saved)
    }

    /// Raises levels that nobody uses yet to saved ones, put through the function beside them.
    ///
    /// # Errors
    /// Damaged bytes, and what [`Rekeyed::restore`] refuses.
    pub fn restore(from: &mut Reader<'_>, into: &[Target<'_, Self>]) -> Result<(), Fault> {
        let most = into.iter().map(|(levels, _)| levels.exact_capacity()).max().unwrap_or(u64::MAX);
        let count = from.number_up_to(most)?;
        // they are put where they belong once the columns are known
        let mut entries = Vec::new();
        for _ in 0..count {
            let (low, high, level) = (from.number()?, from.number()?, from.number()?);
            if !into.is_empty() {
                entries.push((KeyHash::from_halves([low, high]), level));
            }
        }
        let pairs: Vec<Target<'_, Rekeyed<C, ROWS>>> =
            into.iter().map(|(levels, as_there)| (&levels.sketch, *as_there)).collect();
        Rekeyed::restore(from, &pairs)?;
        for (levels, as_there) in into {
            entries.iter().for_each(|(key, level)| levels.put(*key, as_there(*level)));
        }
        Ok(())
    }

    /// Opens an entry at this level for a key that nobody uses yet, or raises its cells if there is no room for one.
    fn put(&self, key: KeyHash, level: u64) {
        let has_room = level <= HIGHEST_LEVEL && matches!(self.exact.line(key).find(key), Found::Absent);
        let claim = if has_room { self.exact.claim(key, level, |_| false, |_, _| {}) } else { None };
        match claim {
            Some(claim) => self.exact.open(claim, level),
            None => {
                self.raise_to_ceiling(key, level);
            }
        }
    }

    /// For a timer, about every second; never on the path of a request. Changes the columns every ten minutes, beside the
    /// old ones for `fade` nanoseconds and a second: the longest that any level needs to fade that was admitted or charged,
    /// so [`Meter::fade_nanos`], or more if charges go beyond the quota.
    pub fn maintain(&self, now: Timestamp, fade: u64) {
        self.sketch.maintain(now, fade);
    }

    /// All of the memory: both tables of the sketch and the exact entries.
    pub fn memory(&self) -> Bytes {
        Bytes(self.sketch.memory().0 + self.exact.memory().0)
    }

    /// The probability that a key below half its limit is refused while `keys_at_limit` others, none of which found an
    /// exact entry, are at theirs; see [`MonotoneTable::false_refusal`]. Up to twice that while two tables overlap.
    pub fn false_refusal(&self, keys_at_limit: u64) -> f64 {
        self.sketch.table().false_refusal(keys_at_limit)
    }

    /// How crowded the sketch is at `now`, by its meter. Keys with an exact entry are not troubled by it.
    pub fn crowding<M: Meter>(&self, meter: &M, now: Timestamp) -> Crowding {
        self.sketch.serving_table().crowding(meter, now)
    }

    /// Cells per row of a table.
    pub fn columns(&self) -> usize {
        self.sketch.table().columns()
    }

    /// Exact entries in use, as an estimate. An entry stays until another key wants its slot.
    pub fn exact_entries(&self) -> u64 {
        self.exact.in_use()
    }

    /// How many exact entries there can be.
    pub fn exact_capacity(&self) -> u64 {
        self.exact.capacity()
    }

    /// How often the columns were changed.
    pub fn rekeyings(&self) -> u64 {
        self.sketch.generation()
    }

    /// Moves the key's level on to what `after` makes of it, unless that is nothing.
    ///
    /// Most keys have no entry and nobody else is at them, and most of the time one table serves: that way is gone here, without
    /// a loop. All others go the whole way. `read` reads the key's cells, if one table serves.
    #[inline]
    fn settle<'a, M: Meter>(
        &'a self,
        read: impl FnOnce() -> Option<Reading<'a, C, ROWS>>,
        meter: &M,
        key: KeyHash,
        now: Timestamp,
        after: impl Fn(u64) -> Option<u64>,
    ) -> Settled {
        let line = self.exact.line(key);
        let mut lost = 0;
        if line.open(key).is_none()
            && let Some(reading) = read()
        {
            let level = reading.level();
            // in this order: cells first, then the entry
            if matches!(line.find(key), Found::Absent) {
                let Some(to) = after(level) else { return Settled::Kept { level } };
                let heavy = is_heavy(meter, to, now);
                let raised = if heavy { self.promote(meter, key, now, &reading, to) } else { reading.raise(to) };
                if raised {
                    return Settled::Raised { level: to };
                }
            }
            lost = 1;
        }
        self.settle_beside(meter, key, now, after, lost)
    }

    /// Settles a key with an entry, under contention, and while two tables serve. `lost` tries have failed already.
    #[inline(never)]
    fn settle_beside<M: Meter>(
        &self,
        meter: &M,
        key: KeyHash,
        now: Timestamp,
        after: impl Fn(u64) -> Option<u64>,
        lost: u32,
    ) -> Settled {
        let line = self.exact.line(key);
        let mut attempt = lost;
        if lost > 0 {
            C::pause(lost);
        }
        loop {
            let level = if let Some(entry) = line.open(key) {
                let level = entry.level();
                match after(level) {
                    Some(to) if to > HIGHEST_LEVEL => self.evict(key, &entry),
                    Some(to) if entry.raise(to) => return Settled::Raised { level: to },
                    None if entry.is_current() => return Settled::Kept { level },
                    _ => {}
                }
                level
            } else {
                let reading = self.sketch.read(key);
                let level = reading.level();
                // in this order: cells first, then the entry
                match line.find(key) {
                    Found::Absent => {
                        let Some(to) = after(level) else { return Settled::Kept { level } };
                        let raised = if is_heavy(meter, to, now) {
                            self.promote(meter, key, now, &reading, to)
                        } else {
                            reading.raise(to)
                        };
                        if raised {
                            return Settled::Raised { level: to };
                        }
                    }
                    // its opening takes moments, and killing it costs the key its entry
                    Found::Pending(mark) if attempt >= PATIENCE => mark.kill(),
                    // to be met again, or on to the entry
                    Found::Pending(_) | Found::Open(_) => {}
                }
                level
            };
            attempt += 1;
            if attempt == MAX_ATTEMPTS {
                return Settled::Lost { level };
            }
            C::pause(attempt);
        }
    }

    /// Raises the cells of a heavy key, and opens an entry for it if there is a slot.
    #[cold]
    fn promote<M: Meter>(
        &self,
        meter: &M,
        key: KeyHash,
        now: Timestamp,
        reading: &Reading<'_, C, ROWS>,
        to: u64,
    ) -> bool {
        let may_be_evicted = |level| has_faded(meter, level, now);
        let write_back = |victim, level| self.sketch.lift(victim, level);
        let claim = self.exact.claim(key, to, may_be_evicted, write_back);
        let raised = reading.raise(to);
        match claim {
            Some(claim) if raised => self.exact.open(claim, to),
            Some(claim) => claim.abandon(),
            None => {}
        }
        raised
    }

    fn evict(&self, key: KeyHash, entry: &Entry<'_, C>) {
        self.sketch.lift(key, entry.level());
        self.exact.evict(entry);
    }

    /// Every round that fails brings an entry of the key nearer to the ceiling, or takes it or a claim away.
    #[cold]
    fn raise_to_ceiling(&self, key: KeyHash, ceiling: u64) -> u64 {
        let line = self.exact.line(key);
        loop {
            self.sketch.lift(key, ceiling);
            match line.find(key) {
                Found::Absent => return ceiling,
                Found::Pending(mark) => mark.kill(),
                Found::Open(entry) if ceiling > HIGHEST_LEVEL => self.evict(key, &entry),
                Found::Open(entry) if entry.level() < ceiling => {
                    if entry.raise(ceiling) {
                        return ceiling;
                    }
                }
                Found::Open(entry) => {
                    if entry.is_current() {
                        return ceiling;
                    }
                }
            }
        }
    }
}

/// How often a request waits for another's claim of its key before it kills it.
const PATIENCE: u32 = 1;

enum Settled {
    /// The key's level was moved on to this.
    Raised { level: u64 },
    /// Nothing was to be done at this level.
    Kept { level: u64 },
    /// Every race was lost, the last at this level.
    Lost { level: u64 },
}

fn admission(settled: Settled) -> Admission {
    match settled {
        Settled::Raised { level } => Admission::Admitted { level },
        Settled::Kept { level } => Admission::Refused { level },
        Settled::Lost { level } => Admission::Contended { level },
    }
}

/// Whether the key is to have an entry at this level: half its quota or more is spent.
#[inline]
fn is_heavy<M: Meter>(meter: &M, level: u64, now: Timestamp) -> bool {
    let beyond_half = Cost::new(meter.quota() / 2 + 1).unwrap_or(Cost::ONE);
    level <= HIGHEST_LEVEL && meter.admit(level, now, beyond_half).is_none()
}

/// Whether three quarters of the quota are free again: far enough from [`is_heavy`] that keys do not take turns in a slot.
fn has_faded<M: Meter>(meter: &M, level: u64, now: Timestamp) -> bool {
    let three_quarters = Cost::new(meter.quota() - meter.quota() / 4).unwrap_or(Cost::ONE);
    meter.admit(level, now, three_quarters).is_some()
}

impl<C: Word, const ROWS: usize> fmt::Debug for Levels<C, ROWS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Levels").field("sketch", &self.sketch).field("exact_entries", &self.exact_entries()).finish()
    }
}
