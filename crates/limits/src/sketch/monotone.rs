//! The monotone sketch: a level for every key there could be, in fixed memory, without locks.
//!
//! A count-min table (Cormode and Muthukrishnan 2005) with conservative update (Estan and Varghese 2002) whose cells hold
//! the levels of a [`Meter`] and **only ever grow**. A key has one cell in each row; its estimate is the least of them.
//! Time passing makes old levels harmless, so nothing is rotated, reset or taken back: there is no window to turn, no
//! bulk clear to stall a request, and no eviction through which a flood of other keys could buy a client a fresh budget.
//!
//! **Promise.** For every key, under every interleaving of threads, any colliding keys and any stamps: what is admitted
//! is what an exact limiter of that key alone would admit, or less. For [`Bucket`](super::Bucket): at most
//! `burst + rate·τ` in every interval of length τ.
//!
//! *Why.* Cells strictly grow, so a successful exchange proves that the cell did not move since the snapshot. Take two
//! admitted requests a, b of one key that left the levels α, β. Each raised the cell in which it had read its own
//! least value. Unless a's estimate already included β, b read a's least cell after a raised it; unless b's included α, a
//! read b's after b raised it. Reads come before raises, so both at once is a circle. Hence of any two, one was charged
//! on top of the other: the levels of one key are pairwise a full charge apart, and the largest, which was admitted, is at
//! least the sum of all. The model checker confirms it (`models`), and refutes the usual shortcuts.
//!
//! A charge that is not asked for but told ([`charge`]) is under the same theorem: of two charges, or a charge and an
//! admission, one is on top of the other.
//!
//! **Columns** come from the key's hash by secret multipliers of the table's own: row r takes the top bits of
//! `a·low + b·high` modulo 2⁶⁴, a odd (the multiply-shift hash of Dietzfelbinger, Hagerup, Katajainen and Penttonen 1997,
//! in Thorup's form for vectors, 2015). So a table can be given other collisions without hashing any key anew. Being
//! universal is enough: the input is a keyed hash already, whose value nobody outside ever sees.
//!
//! **Error**, one-sided. With `s` keys at their limit a key that is not is refused with probability (1 − e^(−s/w))^d:
//! at the default size (4 rows of 131,072 columns) 3·10⁻⁹ for 1,000 such keys, 3·10⁻⁵ for 10,000.

// Why four independent rows: accuracy decides, as a decision is a thousandth of a request. The rival puts a key's four
// cells into two cache lines, two in each, which halves the cache misses; but two keys that meet in a line share one of
// only 28 pairs. `benches/limiter` measures both (CPU ns, SipHash included; innocents refused at 4 MiB):
//
//              admit/refuse 256 KiB   4 MiB     flood of 10 M one-shot keys   beside 1,000 / 10,000 abusers, of 10 M
//   four rows        37 / 24         128 / 79               0 %                          0 /   321
//   two lines        38 / 26          91 / 51               0 %                         13 / 2,167

mod crowding;

use std::fmt;

use super::hash::{KeyHash, KeyHasher, Seed};
use super::meter::Meter;
use crate::saved::{Fault, Reader, Target, Writer, restore_cells, save_cells};
use crate::sync::{AtomicU64, Ordering, zeros};
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};
pub use crowding::Crowding;

/// What became of a request that a table was asked to admit.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Charged: the key's level is now at least `level`.
    Admitted {
        /// The level this request was charged up to.
        level: u64,
    },
    /// The meter does not admit it. Nothing was written, unless this request lost a race first: then some of its cells
    /// may already be raised, which counts too high and never too low.
    Refused {
        /// The estimate that was judged.
        level: u64,
    },
    /// Refused because other threads moved the key's cells every time: the safe way out of a bounded loop. To be
    /// counted; it takes 64 lost races in a row.
    Contended {
        /// The last estimate.
        level: u64,
    },
}

/// One cell: a `u64` that only grows, shared by threads.
///
/// Starts at zero. For the table's promise an implementation must be *acquire* on [`Cell::load`] and *release* and
/// *acquire* on a successful [`Cell::raise`]: whoever reads a raised level also sees what its writer had read and
/// raised before, which is what rules the circle of the proof out.
pub trait Cell: Default {
    /// So many cells at zero.
    fn row(count: usize) -> Box<[Self]> {
        (0..count).map(|_| Self::default()).collect()
    }

    /// The level now.
    fn load(&self) -> u64;

    /// Replaces `from` by the greater `to`, unless the cell no longer holds `from`; says whether it did.
    fn raise(&self, from: u64, to: u64) -> bool;

    /// Waits a little after `attempt` lost races, the first being 1.
    fn pause(attempt: u32);
}

/// A [`Cell`] that can also be moved anywhere: what the words around a table need (phases, slots), and clearing one.
pub trait Word: Cell {
    /// Replaces `from` by any `to`, unless the word no longer holds `from`; says whether it did. Orders like a raise.
    fn exchange(&self, from: u64, to: u64) -> bool;

    /// Sets the word, with *release*: whoever reads it with [`Cell::load`] sees all that was written before.
    fn store(&self, to: u64);
}

impl Word for AtomicU64 {
    #[inline]
    fn exchange(&self, from: u64, to: u64) -> bool {
        self.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn store(&self, to: u64) {
        AtomicU64::store(self, to, Ordering::Release);
    }
}

impl Cell for AtomicU64 {
    fn row(count: usize) -> Box<[AtomicU64]> {
        zeros(count)
    }

    #[inline]
    fn load(&self) -> u64 {
        AtomicU64::load(self, Ordering::Acquire)
    }

    #[inline]
    fn raise(&self, from: u64, to: u64) -> bool {
        // a failed exchange decides nothing: the cell is read again, with acquire, before it is used
        self.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn pause(attempt: u32) {
        // up to 64 spins, a few hundred nanoseconds: the winner needs four exchanges
        for _ in 0..1_u32 << attempt.min(6) {
            std::hint::spin_loop();
        }
    }
}

/// The cells of one key, and what they held when they were read: the first half of the protocol.
#[derive(Debug)]
pub struct Snapshot<'a, C, const CELLS: usize> {
    cells: [&'a C; CELLS],
    seen: [u64; CELLS],
}

impl<'a, C: Cell, const CELLS: usize> Snapshot<'a, C, CELLS> {
    /// Reads the cells, in the order given.
    #[inline]
    pub fn take(cells: [&'a C; CELLS]) -> Self {
        Snapshot { cells, seen: cells.map(C::load) }
    }

    /// The cells as they were read by whoever kept what he saw, in the same order.
    #[inline]
    pub(super) fn taken(cells: [&'a C; CELLS], seen: [u64; CELLS]) -> Self {
        Snapshot { cells, seen }
    }

    /// What was seen.
    #[inline]
    pub(super) fn seen(&self) -> [u64; CELLS] {
        self.seen
    }

    /// The least level seen: the estimate.
    #[inline]
    pub fn level(&self) -> u64 {
        least(self.seen)
    }

    /// Raises every cell that was below `level`, in the order given, and says whether all of them still held what was
    /// seen. If not, some may be raised already: that counts too high, never too low.
    #[inline]
    pub fn raise(&self, level: u64) -> bool {
        // a cell at or above the new level needs no raise, and will never fall below it
        self.cells.iter().zip(self.seen).all(|(cell, seen)| seen >= level || cell.raise(seen, level))
    }
}

/// Raises every cell to `level` at least, whatever others do meanwhile. Loses no raise of theirs, proves nothing about
/// them either: it is for levels that were charged already, or that are charged too high on purpose.
pub fn lift<C: Cell, const CELLS: usize>(cells: [&C; CELLS], level: u64) {
    for cell in cells {
        let mut seen = cell.load();
        // every failure is another's raise, so this ends as soon as theirs reach the level
        while seen < level && !cell.raise(seen, level) {
            seen = cell.load();
        }
    }
}

/// Asks to admit one request, given the cells of its key: the whole protocol.
///
/// Cells are exchanged in the order given, which must be the same for every request of the key. Of the requests that
/// race for one level, the one that raises the last cell is then admitted and the others start again on top of it: none
/// is admitted too many, and among equal stamps none too few.
#[inline]
pub fn admit<C: Cell, M: Meter, const CELLS: usize>(
    cells: [&C; CELLS],
    meter: &M,
    now: Timestamp,
    cost: Cost,
) -> Admission {
    let mut attempt = 0;
    loop {
        let snapshot = Snapshot::take(cells);
        let level = snapshot.level();
        let Some(charged) = meter.admit(level, now, cost) else { return Admission::Refused { level } };
        if snapshot.raise(charged.to) {
            return Admission::Admitted { level: charged.to };
        }
        attempt += 1;
        if attempt == MAX_ATTEMPTS {
            return Admission::Contended { level };
        }
        C::pause(attempt);
    }
}

/// Charges one request whether it fits or not, up to `ceiling`, and says what level the key has now: at least its
/// estimate charged, or the ceiling. A key at or above the ceiling is only read.
///
/// Of two charges that race, one is on top of the other. A charge that loses 64 races in a row raises the key to the
/// ceiling, which counts too high rather than lose it; so give a ceiling that fades.
pub fn charge<C: Cell, M: Meter, const CELLS: usize>(
    cells: [&C; CELLS],
    meter: &M,
    now: Timestamp,
    cost: Cost,
    ceiling: u64,
) -> u64 {
    for attempt in 1..=MAX_ATTEMPTS {
        let snapshot = Snapshot::take(cells);
        let level = snapshot.level();
        let charged = meter.charge(level, now, cost).min(ceiling);
        if charged <= level {
            return level;
        }
        if snapshot.raise(charged) {
            return charged;
        }
        C::pause(attempt);
    }
    lift(cells, ceiling);
    ceiling
}

/// A lost race means that another request got on, so it takes a crowd to lose this often; the bound is there so that the
/// longest decision is bounded too.
pub(super) const MAX_ATTEMPTS: u32 = 64;

#[inline]
fn least<const CELLS: usize>(levels: [u64; CELLS]) -> u64 {
    levels.into_iter().fold(u64::MAX, u64::min)
}

/// The table: `ROWS` independent rows of one power of two of columns. Fixed memory, whatever the number of keys.
///
/// One table belongs to one meter and one [`Seed`]: levels of another rate mean something else.
pub struct MonotoneTable<C: Cell = AtomicU64, const ROWS: usize = 4> {
    /// Per row: what the halves of a hash are multiplied by. Read relaxed: whoever changes them publishes that otherwise.
    multipliers: [[AtomicU64; 2]; ROWS],
    rows: [Box<[C]>; ROWS],
    /// 63 less the binary logarithm of the columns; one more shift is made apart, so that 64 is never shifted.
    shift: u32,
    /// Stands in for a cell outside its row, which the shift makes impossible. Being shared, it could only count too high.
    spare: C,
}

impl MonotoneTable {
    /// The memory of a table unless the operator says otherwise: an innocent beside 1,000 abusers held at their limit
    /// is wrongly refused with probability 3·10⁻⁹.
    pub const DEFAULT_MEMORY: Bytes = Bytes(4 << 20);

    /// A table of four rows that fills exactly `memory`.
    ///
    /// # Errors
    /// Not a power of two from 4 KiB (128 columns) to 512 MiB (2²⁴ columns, which is what the hash can address).
    pub fn with_memory(memory: Bytes) -> Result<MonotoneTable, OutOfRange> {
        Self::with_shape(Self::columns_in(memory)?)
    }

    /// The columns of a table of four rows that fills exactly `memory`.
    pub(super) fn columns_in(memory: Bytes) -> Result<usize, OutOfRange> {
        const ALLOWED: OutOfRange = OutOfRange { allowed: "a power of two from 4KiB to 512MiB" };
        if !memory.0.is_power_of_two() || !(4 << 10..=512 << 20).contains(&memory.0) {
            return Err(ALLOWED);
        }
        usize::try_from(memory.0 / 32).map_err(|_| ALLOWED)
    }
}

impl<C: Cell, const ROWS: usize> MonotoneTable<C, ROWS> {
    /// A table of any shape, for tests and models: 1 to 4 rows of `columns` cells.
    ///
    /// # Errors
    /// `columns` is not a power of two from 1 to 2²⁴.
    pub fn with_shape(columns: usize) -> Result<Self, OutOfRange> {
        const { assert!(ROWS >= 1 && ROWS <= 4, "one to four rows") }
        if !columns.is_power_of_two() || columns > 1 << KeyHash::SLICE_BITS {
            return Err(OutOfRange { allowed: "a power of two from 1 to 16777216" });
        }
        // memory that the allocator got zeroed, which the kernel hands out page by page as keys come: a policy of 100 limits starts with
        // 64 MiB, where zeros that are written take 870; each page costs one request one fault, some 0.5 µs, once
        let rows = std::array::from_fn(|_| C::row(columns));
        let multipliers = std::array::from_fn(|_| [AtomicU64::new(0), AtomicU64::new(0)]);
        let table = MonotoneTable { multipliers, rows, shift: 63 - columns.trailing_zeros(), spare: C::default() };
        // known to everybody, which is harmless: the hash that they multiply is not
        table.draw(&Seed::from_bytes([0; 16]), 0);
        Ok(table)
    }

    /// An empty table of this one's shape.
    pub(super) fn sibling(&self) -> Self {
        let rows = self.rows.each_ref().map(|row| C::row(row.len()));
        let multipliers = std::array::from_fn(|_| [AtomicU64::new(0), AtomicU64::new(0)]);
        MonotoneTable { multipliers, rows, shift: self.shift, spare: C::default() }
    }

    /// Gives the table the columns number `generation` under `seed`, unrelated to those of any other number or seed.
    /// Levels stay where they are: it is for a table that is empty.
    pub(super) fn draw(&self, seed: &Seed, generation: u64) {
        // derived, so that no key hashed under the seed itself can have the multipliers for its hash
        let secret = seed.derive("columns");
        for (row, [first, second]) in self.multipliers.iter().enumerate() {
            let mut hasher = KeyHasher::new(&secret);
            hasher.part(0, &generation.to_le_bytes());
            hasher.part(1, &(row as u64).to_le_bytes());
            let [low, high] = hasher.finish().halves();
            first.store(low | 1, Ordering::Relaxed);
            second.store(high, Ordering::Relaxed);
        }
    }

    /// At least the level of the key, and never less than an earlier estimate. Read only.
    #[inline]
    pub fn estimate(&self, key: KeyHash) -> u64 {
        least(self.cells(key).map(C::load))
    }

    /// Has the key's cells brought near, so that they are when it is judged. Waits for nothing and tells nothing.
    #[inline]
    pub fn prefetch(&self, key: KeyHash) {
        self.cells(key).into_iter().for_each(super::bring_near);
    }

    /// Asks to admit one request of `key`. At a key's limit this only reads.
    #[inline]
    pub fn admit<M: Meter>(&self, meter: &M, key: KeyHash, now: Timestamp, cost: Cost) -> Admission {
        admit(self.cells(key), meter, now, cost)
    }

    /// Charges one request of `key` whether it fits or not; see [`charge`].
    pub fn charge<M: Meter>(&self, meter: &M, key: KeyHash, now: Timestamp, cost: Cost, ceiling: u64) -> u64 {
        charge(self.cells(key), meter, now, cost, ceiling)
    }

    /// The memory of the cells.
    pub fn memory(&self) -> Bytes {
        Bytes((ROWS * self.columns() * size_of::<C>()) as u64)
    }

    /// Cells per row.
    pub fn columns(&self) -> usize {
        self.rows.first().map_or(0, |row| row.len())
    }

    /// The probability that a key below its limit is refused while `keys_at_limit` others are at theirs:
    /// (1 − e^(−s/w))^d, by Poisson's approximation of s keys thrown into w columns, in d independent rows.
    pub fn false_refusal(&self, keys_at_limit: u64) -> f64 {
        let per_column = keys_at_limit as f64 / self.columns() as f64;
        (-(-per_column).exp_m1()).powi(ROWS as i32)
    }

    /// The key's column in every row.
    #[inline]
    pub fn columns_of(&self, key: KeyHash) -> [usize; ROWS] {
        let [low, high] = key.halves();
        self.multipliers.each_ref().map(|[a, b]| {
            let mixed = a.load(Ordering::Relaxed).wrapping_mul(low);
            let mixed = mixed.wrapping_add(b.load(Ordering::Relaxed).wrapping_mul(high));
            (mixed >> 1 >> self.shift) as usize
        })
    }

    /// The key's cell in every row. All four addresses are known at once, so that cache misses overlap.
    #[inline]
    pub(super) fn cells(&self, key: KeyHash) -> [&C; ROWS] {
        let mut columns = self.columns_of(key).into_iter();
        self.rows.each_ref().map(|cells| columns.next().and_then(|column| cells.get(column)).unwrap_or(&self.spare))
    }

    /// The cells in known columns.
    #[inline]
    pub(super) fn cells_in(&self, columns: [u32; ROWS]) -> [&C; ROWS] {
        let mut columns = columns.into_iter();
        self.rows
            .each_ref()
            .map(|cells| columns.next().and_then(|column| cells.get(column as usize)).unwrap_or(&self.spare))
    }
}

impl<C: Word, const ROWS: usize> MonotoneTable<C, ROWS> {
    /// Takes over columns and levels of a table of the same shape, each put through `as_here`. For a table that serves nobody yet.
    pub(super) fn take_from(&self, other: &Self, as_here: impl Fn(u64) -> u64) {
        for ([first, second], [from_first, from_second]) in self.multipliers.iter().zip(&other.multipliers) {
            first.store(from_first.load(Ordering::Relaxed), Ordering::Relaxed);
            second.store(from_second.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        for (cell, from) in self.rows.iter().flatten().zip(other.rows.iter().flatten()) {
            cell.store(as_here(from.load()));
        }
    }

    /// Writes the cells as they are, each put through `as_saved`.
    ///
    /// # Errors
    /// What the target refuses.
    pub(super) fn save(&self, to: &mut Writer<'_>, as_saved: impl Fn(u64) -> u64) -> std::io::Result<()> {
        save_cells(to, self.rows.iter().flatten().map(|cell| as_saved(cell.load())))
    }

    /// Raises cells to saved ones, each put through `as_here` of the table that it goes to. For tables that serve nobody yet, all of
    /// the size of the saved one.
    ///
    /// # Errors
    /// Damaged bytes, or another size.
    pub(super) fn restore(from: &mut Reader<'_>, columns: usize, into: &[Target<'_, Self>]) -> Result<(), Fault> {
        restore_cells(from, ROWS * columns, |at, level| {
            for (table, as_here) in into {
                let cell = table.rows.get(at / columns.max(1)).and_then(|row| row.get(at % columns.max(1)));
                if let Some(cell) = cell {
                    cell.store(cell.load().max(as_here(level)));
                }
            }
        })
    }

    /// Sets every cell to zero, one after the other. For a table that nobody counts on; whoever still raises cells of it
    /// meanwhile leaves them too high.
    pub(super) fn clear(&self) {
        self.rows.iter().flatten().for_each(|cell| cell.store(0));
    }
}

impl<C: Cell, const ROWS: usize> fmt::Debug for MonotoneTable<C, ROWS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MonotoneTable").field("rows", &ROWS).field("columns", &self.columns()).finish()
    }
}

#[cfg(test)]
mod tests;
