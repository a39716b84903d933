//! A monotone sketch whose collisions change every ten minutes, without anybody gaining a fresh budget by it.
//!
//! Whoever watches his own refusals learns in time which of his keys share cells with which. So two tables take turns,
//! each with columns of its own (ALGORITHMS 3). Most of the time one serves. Then the other is cleared, draws new columns
//! and serves **beside** it: every estimate is the greater of the two least cells, every admission raises both. After as
//! long as a level needs to fade the first is dropped: what only it knew is worth nothing by then.
//!
//! **Promise.** That of [`MonotoneTable`], through every change. A request that is judged more than a second after its
//! stamp, as its thread slept, counts in this promise as stamped when it was judged. While both tables serve, an innocent
//! is refused with up to twice the probability and a decision costs twice the cells.
//!
//! *Why.* One word, the **phase**, says which tables serve: (generation, overlapping), one step at a time and never back.
//! A request reads the phase, then its cells, raises them by exchanges from what it read, and **reads the phase again**: if
//! it moved, nothing was admitted and it starts again (its raises stay, which counts too high). So the whole request lies
//! in one phase. Take two admitted requests of one key.
//!
//! * *Their phases share a table.* Each judged by at least its least cell there, and saw to it that no cell there is below
//!   the level it left. That is all that the theorem of [`monotone`](super::monotone) uses: one is on top of the other.
//! * *They share none.* Then the whole of an overlap lies between them, which is longer than the level of the earlier one
//!   needs to fade, as the overlap is timed by a stamp taken *after* it was published. To the later one the earlier one
//!   is as if it had never been.
//!
//! *Clearing.* A table is cleared and drawn anew only when it does not serve, so whoever still reads or raises it read the
//! phase before. He may see any mixture of levels and columns, and leave raises in cells of strangers, which count too high;
//! but the phase has moved, so he admits nothing by what he saw. Nobody who was admitted counts on the cleared levels:
//! those requests either raised the other table, too, or are an overlap ago. Raises that clearing destroys belong
//! to requests that start again.

use std::{fmt, io};

use super::hash::{KeyHash, Seed};
use super::meter::Meter;
use super::monotone::{Admission, MAX_ATTEMPTS, MonotoneTable, Snapshot, Word, lift};
use crate::saved::{Fault, Reader, Target, Writer};
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// How long one table serves alone before the next is opened beside it: ten minutes. To learn who collides with whom takes
/// thousands of observed refusals, which the limits themselves spread over longer than that.
pub const PERIOD_NANOS: u64 = 600 * 1_000_000_000;

/// What an overlap lasts beyond the fading of levels: a second, in which a thread may sleep between reading the clock and
/// being judged, and in which every store has long become visible everywhere.
const SLACK_NANOS: u64 = 1_000_000_000;

/// The maintenance that follows takes its time as the start of the phase.
const NOT_YET: u64 = u64::MAX;

/// Two tables that take turns; see the module.
pub struct Rekeyed<C: Word = AtomicU64, const ROWS: usize = 4> {
    /// Generation g is served by table g mod 2, and while it overlaps by the other one, too.
    tables: [MonotoneTable<C, ROWS>; 2],
    /// Generation · 2, and one more while the next one serves as well. Storing it publishes the clearing and the columns
    /// of the table that joins.
    phase: C,
    seed: Seed,
    /// When the phase began, by the first maintenance that was called after it was published.
    since: AtomicU64,
    /// Set while one thread maintains: another then leaves it to that one.
    maintained: AtomicBool,
}

impl<C: Word, const ROWS: usize> Rekeyed<C, ROWS> {
    /// Two tables of `columns` cells in each row. Both are there from the start, so that memory never grows.
    ///
    /// # Errors
    /// What [`MonotoneTable::with_shape`] refuses.
    pub fn with_shape(columns: usize, seed: &Seed) -> Result<Self, OutOfRange> {
        let (serving, standby) = (MonotoneTable::with_shape(columns)?, MonotoneTable::with_shape(columns)?);
        serving.draw(seed, 0);
        Ok(Rekeyed {
            tables: [serving, standby],
            phase: C::default(),
            seed: seed.clone(),
            since: AtomicU64::new(NOT_YET),
            maintained: AtomicBool::new(false),
        })
    }

    /// Reads the key's cells in all tables that serve: the first half of an admission.
    #[inline]
    pub fn read(&self, key: KeyHash) -> Reading<'_, C, ROWS> {
        let seen = self.phase.load();
        let (serving, joining) = self.serving(seen);
        Reading {
            phase: &self.phase,
            seen,
            serving: Snapshot::take(serving.cells(key)),
            joining: joining.map(|table| Snapshot::take(table.cells(key))),
        }
    }

    /// The level of the key. Puts where its cells are, and what they hold, into `spot`.
    #[inline]
    pub fn look(&self, key: KeyHash, spot: &mut Spot<ROWS>) -> u64 {
        let seen = self.phase.load();
        let (serving, other) = self.pair(seen);
        spot.phase = seen;
        spot.columns = columns_in(serving, key);
        let snapshot = Snapshot::take(serving.cells_in(spot.columns));
        spot.held = snapshot.seen();
        if seen & OVERLAPPING == 0 {
            return snapshot.level();
        }
        spot.joining.columns = columns_in(other, key);
        let joining = Snapshot::take(other.cells_in(spot.joining.columns));
        spot.joining.held = joining.seen();
        snapshot.level().max(joining.level())
    }

    /// [`Rekeyed::read`] while one table serves; `None` while two do.
    #[inline]
    pub fn read_alone(&self, key: KeyHash) -> Option<Reading<'_, C, ROWS>> {
        let seen = self.phase.load();
        if seen & OVERLAPPING != 0 {
            return None;
        }
        let serving = Snapshot::take(self.pair(seen).0.cells(key));
        Some(Reading { phase: &self.phase, seen, serving, joining: None })
    }

    /// [`Reading::raise`] from what the key's cells held when they were looked at; false also if the spot is none any more.
    #[inline]
    pub fn raise_seen(&self, spot: &Spot<ROWS>, level: u64) -> bool {
        self.reading_of(spot).is_some_and(|reading| reading.raise(level))
    }

    /// What the key's cells held when they were looked at, as a reading: its raises fail wherever a cell has moved since. `None` if the
    /// spot is none any more.
    #[inline(always)]
    pub fn reading_of(&self, spot: &Spot<ROWS>) -> Option<Reading<'_, C, ROWS>> {
        let seen = self.phase.load();
        if seen != spot.phase {
            return None;
        }
        let (serving, other) = self.pair(seen);
        let joining =
            (seen & OVERLAPPING != 0).then(|| Snapshot::taken(other.cells_in(spot.joining.columns), spot.joining.held));
        let serving = Snapshot::taken(serving.cells_in(spot.columns), spot.held);
        Some(Reading { phase: &self.phase, seen, serving, joining })
    }

    /// At least the level of the key; what the first look of [`Rekeyed::read`] would say.
    #[inline(never)]
    pub fn estimate(&self, key: KeyHash) -> u64 {
        self.read(key).level()
    }

    /// [`MonotoneTable::prefetch`], in all tables that serve.
    #[inline]
    pub fn prefetch(&self, key: KeyHash) {
        let (serving, joining) = self.serving(self.phase.load());
        serving.prefetch(key);
        if let Some(table) = joining {
            table.prefetch(key);
        }
    }

    /// Asks to admit one request of `key`: [`MonotoneTable::admit`], through every change. At a key's limit this only reads.
    #[inline]
    pub fn admit<M: Meter>(&self, meter: &M, key: KeyHash, now: Timestamp, cost: Cost) -> Admission {
        let mut attempt = 0;
        loop {
            let reading = self.read(key);
            let level = reading.level();
            let Some(charged) = meter.admit(level, now, cost) else { return Admission::Refused { level } };
            if reading.raise(charged.to) {
                return Admission::Admitted { level: charged.to };
            }
            attempt += 1;
            if attempt == MAX_ATTEMPTS {
                return Admission::Contended { level };
            }
            C::pause(attempt);
        }
    }

    /// Raises every cell of the key to `level` at least, in all tables that serve when it returns.
    pub fn lift(&self, key: KeyHash, level: u64) {
        loop {
            let seen = self.phase.load();
            let (serving, joining) = self.serving(seen);
            lift(serving.cells(key), level);
            if let Some(table) = joining {
                lift(table.cells(key), level);
            }
            if self.phase.load() == seen {
                return;
            }
        }
    }

    /// Tables of their own with the levels of these, each put through `as_there`, which keeps their order and 0. What is charged here
    /// during the call may be in them or not.
    pub fn copied(&self, as_there: impl Fn(u64) -> u64) -> Self {
        let tables = self.tables.each_ref().map(MonotoneTable::sibling);
        loop {
            let phase = self.phase.load();
            for (table, from) in tables.iter().zip(&self.tables) {
                table.take_from(from, &as_there);
            }
            if self.phase.load() == phase {
                let word = C::default();
                word.store(phase);
                // the phase lasts as long again, which is never too short
                let (since, maintained) = (AtomicU64::new(NOT_YET), AtomicBool::new(false));
                return Rekeyed { tables, phase: word, seed: self.seed.clone(), since, maintained };
            }
        }
    }

    /// Writes the tables that serve, each cell put through `as_saved`, which keeps their order and 0. Nobody waits for it but
    /// [`Rekeyed::maintain`], which does nothing meanwhile.
    ///
    /// *Cells are read as they are, one after the other, beside requests that raise them.* A request that was admitted before the call has
    /// raised all of its cells, and they only grow: its key is saved with at least its level. One that is admitted during the call may
    /// be in it or not, like one that is admitted after it.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn save(&self, to: &mut Writer<'_>, as_saved: impl Fn(u64) -> u64) -> io::Result<()> {
        // the phase stands still, or a table would be cleared as it is read
        while self.maintained.swap(true, Ordering::Acquire) {
            C::pause(6);
        }
        let saved = self.save_phase(to, &as_saved);
        self.maintained.store(false, Ordering::Release);
        saved
    }

    fn save_phase(&self, to: &mut Writer<'_>, as_saved: &impl Fn(u64) -> u64) -> io::Result<()> {
        let phase = self.phase.load();
        to.number(self.table().columns() as u64)?;
        to.number(phase)?;
        let (serving, joining) = self.serving(phase);
        serving.save(to, as_saved)?;
        joining.map_or(Ok(()), |table| table.save(to, as_saved))
    }

    /// Goes on with saved tables in each of these pairs, which nobody uses yet; levels are put through the function beside it. The pairs were
    /// drawn by the seed of the saved one. A phase lasts as long again.
    ///
    /// # Errors
    /// Damaged bytes, a pair of another size, and one that has levels of another phase.
    pub fn restore(from: &mut Reader<'_>, into: &[Target<'_, Self>]) -> Result<(), Fault> {
        let columns = usize::try_from(from.number_up_to(1 << KeyHash::SLICE_BITS)?).map_err(|_| Fault::Corrupt)?;
        // a phase is counted in steps of seconds at least
        let phase = from.number_up_to(NOWHERE / 2)?;
        for (pair, _) in into {
            if pair.table().columns() != columns {
                return Err(Fault::Unfit("a table has another size"));
            }
            pair.begin_at(phase)?;
        }
        let tables = |number: u64| -> Vec<Target<'_, MonotoneTable<C, ROWS>>> {
            into.iter().map(|(pair, as_there)| (pair.pair(number << 1).0, *as_there)).collect()
        };
        MonotoneTable::restore(from, columns, &tables(phase >> 1))?;
        if phase & OVERLAPPING != 0 {
            MonotoneTable::restore(from, columns, &tables((phase >> 1).wrapping_add(1)))?;
        }
        Ok(())
    }

    /// Moves a pair that nobody uses yet to a phase.
    fn begin_at(&self, phase: u64) -> Result<(), Fault> {
        let loaded = self.phase.load();
        if loaded != 0 && loaded != phase {
            return Err(Fault::Unfit("tiers that would share a table were re-keyed apart"));
        }
        let generation = phase >> 1;
        self.pair(phase).0.draw(&self.seed, generation);
        if phase & OVERLAPPING != 0 {
            self.pair(phase).1.draw(&self.seed, generation.wrapping_add(1));
        }
        self.phase.store(phase);
        Ok(())
    }

    /// Moves on to the next phase if it is time: for a timer, about every second; never on the path of a request, as it
    /// may clear a whole table. `fade` is the longest that any level needs to fade that was admitted or charged, in
    /// nanoseconds: [`Meter::fade_nanos`], or more if levels are charged beyond the quota.
    pub fn maintain(&self, now: Timestamp, fade: u64) {
        // acquire and release: whoever maintains sees what was maintained before
        if self.maintained.swap(true, Ordering::Acquire) {
            return;
        }
        self.step(now.nanos(), fade);
        self.maintained.store(false, Ordering::Release);
    }

    fn step(&self, now: u64, fade: u64) {
        let since = self.since.load(Ordering::Relaxed);
        if since == NOT_YET {
            // the stamp is later than the publication, and so than that of any request that still saw the phase before
            self.since.store(now.min(NOT_YET - 1), Ordering::Relaxed);
            return;
        }
        let phase = self.phase.load();
        let lasted = now.saturating_sub(since);
        let over =
            if phase & OVERLAPPING == 0 { lasted >= PERIOD_NANOS } else { lasted >= fade.saturating_add(SLACK_NANOS) };
        if !over {
            return;
        }
        if phase & OVERLAPPING == 0 {
            let (_, standby) = self.pair(phase);
            standby.clear();
            standby.draw(&self.seed, (phase >> 1).wrapping_add(1));
        }
        // from not overlapping to overlapping, and from there to the next generation: one more either way
        self.phase.store(phase.wrapping_add(1));
        self.since.store(NOT_YET, Ordering::Relaxed);
    }

    /// How often the columns were changed so far.
    pub fn generation(&self) -> u64 {
        self.phase.load() >> 1
    }

    /// Whether two tables serve at the moment.
    pub fn is_overlapping(&self) -> bool {
        self.phase.load() & OVERLAPPING != 0
    }

    /// One of the two tables, for its size and its error.
    pub fn table(&self) -> &MonotoneTable<C, ROWS> {
        let [table, _] = &self.tables;
        table
    }

    /// The table that serves; while two do, the older one, which knows more.
    pub fn serving_table(&self) -> &MonotoneTable<C, ROWS> {
        self.pair(self.phase.load()).0
    }

    /// The memory of both tables.
    pub fn memory(&self) -> Bytes {
        Bytes(self.tables.iter().map(|table| table.memory().0).sum())
    }

    #[inline]
    fn serving(&self, phase: u64) -> (&MonotoneTable<C, ROWS>, Option<&MonotoneTable<C, ROWS>>) {
        let (serving, other) = self.pair(phase);
        (serving, (phase & OVERLAPPING != 0).then_some(other))
    }

    /// The table of the phase's generation, and the other one.
    #[inline]
    fn pair(&self, phase: u64) -> (&MonotoneTable<C, ROWS>, &MonotoneTable<C, ROWS>) {
        let [even, odd] = &self.tables;
        if (phase >> 1) & 1 == 0 { (even, odd) } else { (odd, even) }
    }
}

const OVERLAPPING: u64 = 1;

/// The phase of spots that are none: the last that could be.
const NOWHERE: u64 = u64::MAX;

/// Where one key has its cells in one phase, in the tables that it was asked of, and what they held when they were looked at. As
/// a phase never comes back, one that is out of date is known for that.
#[derive(Clone, Copy)]
pub struct Spot<const ROWS: usize = 4> {
    phase: u64,
    columns: [u32; ROWS],
    held: [u64; ROWS],
    /// The same in the table that joins, while one does.
    joining: Joining<ROWS>,
}

#[derive(Clone, Copy)]
struct Joining<const ROWS: usize> {
    columns: [u32; ROWS],
    held: [u64; ROWS],
}

#[inline]
fn columns_in<C: Word, const ROWS: usize>(table: &MonotoneTable<C, ROWS>, key: KeyHash) -> [u32; ROWS] {
    // they fit in 24 bits
    table.columns_of(key).map(|column| column as u32)
}

impl<const ROWS: usize> Spot<ROWS> {
    /// Makes it the spot of no key.
    #[inline]
    pub(super) fn forget(&mut self) {
        self.phase = NOWHERE;
    }
}

impl<const ROWS: usize> Default for Spot<ROWS> {
    /// Of no key.
    fn default() -> Spot<ROWS> {
        let joining = Joining { columns: [0; ROWS], held: [0; ROWS] };
        Spot { phase: NOWHERE, columns: [0; ROWS], held: [0; ROWS], joining }
    }
}

impl<const ROWS: usize> fmt::Debug for Spot<ROWS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spot(secret)")
    }
}

impl<C: Word, const ROWS: usize> fmt::Debug for Rekeyed<C, ROWS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rekeyed").field("table", self.table()).field("generation", &self.generation()).finish()
    }
}

/// The cells of one key in all tables of one phase, as they were read.
#[derive(Debug)]
pub struct Reading<'a, C, const ROWS: usize> {
    phase: &'a C,
    seen: u64,
    serving: Snapshot<'a, C, ROWS>,
    joining: Option<Snapshot<'a, C, ROWS>>,
}

impl<C: Word, const ROWS: usize> Reading<'_, C, ROWS> {
    /// At least the level of the key.
    #[inline]
    pub fn level(&self) -> u64 {
        let joining = self.joining.as_ref().map_or(0, Snapshot::level);
        self.serving.level().max(joining)
    }

    /// The generation in which the cells were read; see [`Rekeyed::generation`].
    pub fn generation(&self) -> u64 {
        self.seen >> 1
    }

    /// Whether the phase is still that of the reading. If not, the cells may be from tables that were cleared meanwhile: for
    /// whoever concludes something from a look alone. A raise asks this itself.
    #[inline]
    pub fn is_current(&self) -> bool {
        self.phase.load() == self.seen
    }

    /// Raises every cell below `level`, and says whether the request counts as charged: all cells still held what was
    /// read, and the phase is the same. If not, nothing may be concluded from this reading.
    #[inline]
    pub fn raise(&self, level: u64) -> bool {
        self.serving.raise(level)
            && self.joining.as_ref().is_none_or(|joining| joining.raise(level))
            && self.is_current()
    }
}
