//! The summing sketch: counts that can be given back, for every key there could be, in fixed memory and without locks.
//!
//! A count-min table (Cormode and Muthukrishnan 2005) of plain sums: a key has one cell in each row, adds its cost to all
//! of them and takes it out again; its count is the least of them, at least the truth and mostly exactly it. For what
//! is *held* (requests in flight, attempts whose answer is pending), where nothing fades and everything comes back. Budgets
//! that refill with time belong in [`monotone`](super::monotone): conservative update, which makes that one so much
//! more exact, is not linear and cannot be undone.
//!
//! **Promise.** At every instant the cost that was [reserved](SummingTable::reserve) for a key under `cap` and not yet
//! released is at most `cap`, under every interleaving of threads and any colliding keys.
//!
//! *Protocol: reserve, re-read, undo.* Add to all rows, the last one last; take the sum that the last row's own addition
//! left, and read the other rows again; if the least of these is over the cap, take the cost out of all rows.
//!
//! *Why.* Suppose the reservations held at an instant sum to more than the cap. Take the one that was added to the last
//! row after all the others. Its own sum there includes them all, for none was released yet. Its addition also
//! acquired what theirs released, namely their additions to the other rows, so that its re-reads include these. The least
//! was over the cap: it was not admitted. The two shortcuts fail, and the model checker shows how (`models`): to
//! decide on what adding returned in *every* row (two requests that pass each other see one another in one row
//! each, and both get on), and to do all of it relaxed.
//!
//! *None too few.* Racers for the last place may refuse each other if the last row's cell is shared with a busy key, for
//! then they are judged by the re-reads alone. So whoever takes his cost out looks again, and is refused only by a look that
//! wrote nothing. Whom such a look counts beside itself holds a place or has a look of his own to come; the last of all
//! looks, while nothing is given back, sees only places held. Hence racers get exactly what there is, unless one of them
//! loses 64 times in a row.
//!
//! **Error**, one-sided. A key's count is too high with probability (1 − e^(−n/w))^d beside n other busy keys: at the
//! default size (8 rows of 65,536 columns, 2 MiB) 3·10⁻¹⁵ for 1,000 of them, 1.6·10⁻⁷ for 10,000, 0.14 for 100,000. A
//! request about to be refused is in the table for some nanoseconds, and a place given back meanwhile may stay free because
//! of it: at a key that was at its cap a moment ago.

//!
//! **Not re-keyed**, unlike the tables of levels ([`rekeyed`](super::rekeyed)), for two reasons. *Collisions can hardly be learned
//! here.* An excess shows only where all eight rows are covered at once, by keys each of which holds as many places as the
//! victim's cap at that very moment; and the victim's refusals are not shown to the attacker. With 20,000 keys that hold cap
//! places each, one key in 43,000 is covered; so he would have to hold 20,000 times the cap, draw other keys that often, and
//! know of each draw whether the victim was refused. A level costs a request that is over at once, and covers four cells.
//! *And it would not be cheap.* Nothing fades here: two tables would have to serve until the last place of the old one
//! is given back, so that whoever holds one connection open for ever also keeps the collisions that he knows.

use std::fmt;

use super::columns::Columns;
use super::hash::{KeyHash, Seed};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::units::{Bytes, OutOfRange};

/// One cell: a sum shared by threads.
///
/// Starts at zero. For the table's promise an implementation must be *acquire* on all three operations and *release* on
/// those that write, and no operation but these may ever write: who reads a sum then also sees everything that its writers
/// had done before, in this row and in others.
pub trait CountCell: Default {
    /// The sum now.
    fn load(&self) -> u32;

    /// Adds, and returns the sum after that; `None`, and nothing is changed, if it would not fit.
    fn add(&self, cost: u32) -> Option<u32>;

    /// Subtracts; false if there was less, and then nothing is left.
    fn subtract(&self, cost: u32) -> bool;

    /// Waits a little, longer for more `turns`; at most 48 count.
    fn pause(turns: u32);
}

impl CountCell for AtomicU32 {
    // Acquire and release throughout, although the proof of `reserve` needs them in the last row only: who holds a permit
    // after another gave it up also sees what the other did under it, whichever row decided. x86 has no cheaper kind.
    #[inline]
    fn load(&self) -> u32 {
        AtomicU32::load(self, Ordering::Acquire)
    }

    #[inline]
    fn add(&self, cost: u32) -> Option<u32> {
        // the relaxed load is only a guess for the exchange; the exchange is what counts
        self.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |sum| sum.checked_add(cost))
            .map(|before| before.wrapping_add(cost))
            .ok()
    }

    #[inline]
    fn subtract(&self, cost: u32) -> bool {
        self.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |sum| Some(sum.saturating_sub(cost)))
            .is_ok_and(|before| before >= cost)
    }

    fn pause(turns: u32) {
        // eight spins are some 30 to 100 nanoseconds, the time in which the other takes its cost out
        for _ in 0..8 * turns.min(48) {
            std::hint::spin_loop();
        }
    }
}

/// A lost race means that another request did the same at the same time, so it takes a crowd to lose this often.
const MAX_ATTEMPTS: u32 = 64;

/// The table: `ROWS` rows of one power of two of columns. Fixed memory, whatever the number of keys.
///
/// It lends nothing by itself: whoever adds must release the same cost of the same key, once. The limiters above lend
/// permits that do so when they are dropped.
pub struct SummingTable<C: CountCell = AtomicU32, const ROWS: usize = 8> {
    rows: [Box<[C]>; ROWS],
    columns: Columns<ROWS>,
    /// Subtractions that found less than they were to take.
    faults: AtomicU64,
    /// Stands in for a cell outside its row, which the columns' range makes impossible. Could only count too high.
    spare: C,
}

impl SummingTable {
    /// The memory of a table unless the operator says otherwise: beside 1,000 busy keys a count is too high with
    /// probability 3·10⁻¹⁵, beside 10,000 with 1.6·10⁻⁷.
    pub const DEFAULT_MEMORY: Bytes = Bytes(2 << 20);

    /// A table of eight rows that fills exactly `memory`; its columns are drawn from `seed`.
    ///
    /// # Errors
    /// Not a power of two from 4 KiB (128 columns) to 512 MiB (2²⁴ columns).
    pub fn with_memory(memory: Bytes, seed: &Seed) -> Result<SummingTable, OutOfRange> {
        const ALLOWED: OutOfRange = OutOfRange { allowed: "a power of two from 4KiB to 512MiB" };
        if !memory.0.is_power_of_two() || !(4 << 10..=512 << 20).contains(&memory.0) {
            return Err(ALLOWED);
        }
        let columns = usize::try_from(memory.0 / 32).map_err(|_| ALLOWED)?;
        Self::with_shape(columns, seed)
    }
}

/// What another process holds of a table, which this one counts as well.
#[derive(Debug)]
pub struct SummingElsewhere {
    /// Row after row.
    cells: Box<[u32]>,
}

impl SummingTable {
    /// All sums, row after row.
    pub fn cells_held(&self) -> Vec<u32> {
        self.rows.iter().flat_map(|row| row.iter().map(CountCell::load)).collect()
    }

    /// Adds the sums of another process's table; `None`, and nothing is added, if that has another shape.
    pub fn hold_elsewhere(&self, held: &[u32]) -> Option<SummingElsewhere> {
        let mut cells: Box<[u32]> = held.into();
        if cells.len() != self.rows.iter().map(|row| row.len()).sum::<usize>() {
            return None;
        }
        for (cell, held) in self.rows.iter().flatten().zip(&mut cells) {
            if *held > 0 && cell.add(*held).is_none() {
                // not counted here, so not to be taken out
                *held = 0;
            }
        }
        Some(SummingElsewhere { cells })
    }

    /// The other process has taken more.
    pub fn add_elsewhere(&self, elsewhere: &mut SummingElsewhere, key: KeyHash, cost: u32) {
        self.of_key(elsewhere, key, |cell, held| {
            if let Some(sum) = held.checked_add(cost).filter(|_| cell.add(cost).is_some()) {
                *held = sum;
            }
        });
    }

    /// The other process has given some back: of what it holds, and no more.
    pub fn release_elsewhere(&self, elsewhere: &mut SummingElsewhere, key: KeyHash, cost: u32) {
        self.of_key(elsewhere, key, |cell, held| {
            let given = cost.min(*held);
            *held -= given;
            cell.subtract(given);
        });
    }

    /// The other process has ended, and holds nothing.
    pub fn end_elsewhere(&self, elsewhere: &mut SummingElsewhere) {
        for (cell, held) in self.rows.iter().flatten().zip(&mut elsewhere.cells) {
            if *held > 0 {
                cell.subtract(std::mem::take(held));
            }
        }
    }

    fn of_key(&self, elsewhere: &mut SummingElsewhere, key: KeyHash, mut act: impl FnMut(&AtomicU32, &mut u32)) {
        let (columns, spot) = (self.columns(), self.spot(key));
        for ((row, column), cells) in self.rows.iter().zip(spot).zip(elsewhere.cells.chunks_mut(columns)) {
            if let (Some(cell), Some(held)) = (row.get(column as usize), cells.get_mut(column as usize)) {
                act(cell, held);
            }
        }
    }
}

impl<C: CountCell, const ROWS: usize> SummingTable<C, ROWS> {
    /// A table of any shape, for tests and models: one row or more of `columns` cells.
    ///
    /// # Errors
    /// `columns` is not a power of two from 1 to 2²⁴.
    pub fn with_shape(columns: usize, seed: &Seed) -> Result<Self, OutOfRange> {
        const { assert!(ROWS >= 1, "a table has a row") }
        let drawn = Columns::new(seed, 0, columns)?;
        let row = |_| (0..columns).map(|_| C::default()).collect();
        let rows = std::array::from_fn(row);
        Ok(SummingTable { rows, columns: drawn, faults: AtomicU64::new(0), spare: C::default() })
    }

    /// Reserves `cost` for the key if what is held of it stays within `cap`. Returns what the others hold: how much was
    /// counted beside this request. At a key's cap this only reads.
    ///
    /// # Errors
    /// It does not fit, the table is as it was, and so much was counted beside this request. Also if a cell would pass
    /// 2³² − 1, whatever the cap, and after 64 lost races in a row.
    #[inline]
    pub fn reserve(&self, key: KeyHash, cost: u32, cap: u32) -> Result<u32, u32> {
        self.reserve_at(self.spot(key), cost, cap)
    }

    /// Where the key has its cells, for whoever comes back to them: the column in each row.
    #[inline]
    pub fn spot(&self, key: KeyHash) -> [u32; ROWS] {
        // columns fit in 24 bits
        self.columns.of(key).map(|column| column as u32)
    }

    /// [`SummingTable::reserve`] for the key whose spot it is.
    ///
    /// # Errors
    /// As [`SummingTable::reserve`].
    #[inline]
    pub fn reserve_at(&self, spot: [u32; ROWS], cost: u32, cap: u32) -> Result<u32, u32> {
        let cells = self.cells_at(spot);
        let mut before = least(cells);
        for attempt in 1..=MAX_ATTEMPTS {
            if before.checked_add(cost).is_none_or(|sum| sum > cap) {
                return Err(before);
            }
            let (sum, last) = self.add_to(cells, cost).ok_or(before)?;
            if sum <= cap {
                return Ok(sum.saturating_sub(cost));
            }
            self.give_way(cells, cost, last, attempt);
            before = least(cells);
        }
        Err(before)
    }

    /// Adds `cost`, whatever the count, and returns the count with it: at least all that was added before and is not yet
    /// released, this included. `None` if a cell would pass 2³² − 1; then nothing was added.
    ///
    /// Of several that are added and not released, the one that comes last in the table's last row sees them all.
    #[inline]
    pub fn add(&self, key: KeyHash, cost: u32) -> Option<u32> {
        self.add_to(self.cells(key), cost).map(|(sum, _)| sum)
    }

    /// The count with `cost`, and the last row's sum with it, which no other request finds.
    #[inline]
    fn add_to(&self, cells: [&C; ROWS], cost: u32) -> Option<(u32, u32)> {
        let mut own = 0;
        // the last row last, for all requests alike: its order is the order of the proof
        for (row, cell) in cells.iter().enumerate() {
            let Some(sum) = cell.add(cost) else { return self.add_no_more(cells, row, cost) };
            own = sum;
        }
        // The last row's own sum, but the others as they are now: what adding to them returned may be from before another
        // request's addition that this row's sum already includes.
        let (_, others) = cells.split_last()?;
        Some((others.iter().fold(own, |least, cell| least.min(cell.load())), own))
    }

    /// Takes the cost out of the rows that it was added to already.
    #[cold]
    fn add_no_more(&self, cells: [&C; ROWS], added: usize, cost: u32) -> Option<(u32, u32)> {
        self.subtract(cells.into_iter().take(added), cost);
        None
    }

    /// Takes `cost` out again. To be called once for each [`SummingTable::add`] and successful [`SummingTable::reserve`].
    #[inline]
    pub fn release(&self, key: KeyHash, cost: u32) {
        self.release_at(self.spot(key), cost);
    }

    /// [`SummingTable::release`] for the key whose spot it is.
    #[inline]
    pub fn release_at(&self, spot: [u32; ROWS], cost: u32) {
        self.subtract(self.cells_at(spot).into_iter(), cost);
    }

    /// Has the key's cells brought near; see [`MonotoneTable::prefetch`](super::MonotoneTable::prefetch).
    #[inline]
    pub fn prefetch(&self, key: KeyHash) {
        self.prefetch_at(self.spot(key));
    }

    /// [`SummingTable::prefetch`] for the key whose spot it is.
    #[inline]
    pub fn prefetch_at(&self, spot: [u32; ROWS]) {
        self.cells_at(spot).into_iter().for_each(super::bring_near);
    }

    /// At least what is held of the key. Read only.
    #[inline]
    pub fn estimate(&self, key: KeyHash) -> u32 {
        self.estimate_at(self.spot(key))
    }

    /// [`SummingTable::estimate`] of the key whose spot it is.
    #[inline]
    pub fn estimate_at(&self, spot: [u32; ROWS]) -> u32 {
        least(self.cells_at(spot))
    }

    /// The key's sum in each row, of which the estimate is the least: to see where it collides.
    pub fn counts(&self, key: KeyHash) -> [u32; ROWS] {
        self.cells(key).map(C::load)
    }

    /// What is held of all keys together. Every cost is in every row once, so it reads one row from end to end: a gauge for
    /// now and then, which costs the requests nothing.
    pub fn total(&self) -> u64 {
        self.rows.first().map_or(0, |row| row.iter().map(|cell| u64::from(cell.load())).sum())
    }

    /// How many subtractions found less than they were to take. Always zero: anything else is a fault in the gate, which
    /// may since count too low.
    pub fn faults(&self) -> u64 {
        // a plain counter that publishes nothing
        self.faults.load(Ordering::Relaxed)
    }

    /// The memory of the cells.
    pub fn memory(&self) -> Bytes {
        Bytes((ROWS * self.columns() * size_of::<C>()) as u64)
    }

    /// Cells per row.
    pub fn columns(&self) -> usize {
        self.rows.first().map_or(0, |row| row.len())
    }

    /// The probability that a key's count is too high beside `busy_keys` others: (1 − e^(−n/w))^d, by Poisson's
    /// approximation of n keys thrown into w columns, in d rows. It matters only if those others are near their caps.
    pub fn over_count_probability(&self, busy_keys: u64) -> f64 {
        let per_column = busy_keys as f64 / self.columns() as f64;
        (-(-per_column).exp_m1()).powi(ROWS as i32)
    }

    /// The probability that two given keys share all their cells, w^(−d). Not the error of a count: see
    /// [`SummingTable::over_count_probability`].
    pub fn pair_collision_probability(&self) -> f64 {
        (self.columns() as f64).powi(-(ROWS as i32))
    }

    /// Takes `cost` out after it was added and found not to fit, and waits a little, as another look must follow.
    #[cold]
    fn give_way(&self, cells: [&C; ROWS], cost: u32, last: u32, attempt: u32) {
        self.subtract(cells.into_iter(), cost);
        // Two that refused each other must not meet again and again. Their sums of the last row differ, so with this their waits
        // do, three times in four at each attempt.
        let drawn =
            last.wrapping_mul(0x9E37_79B9).wrapping_add(attempt.wrapping_mul(0x85EB_CA6B)).wrapping_mul(0xC2B2_AE35);
        C::pause(attempt.min(6) << (drawn >> 30));
    }

    fn subtract<'a>(&self, cells: impl Iterator<Item = &'a C>, cost: u32)
    where
        C: 'a,
    {
        for cell in cells {
            if !cell.subtract(cost) {
                // a plain counter that publishes nothing
                self.faults.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The key's cell in every row. All addresses are known at once, so that cache misses overlap.
    #[inline]
    fn cells(&self, key: KeyHash) -> [&C; ROWS] {
        self.cells_at(self.spot(key))
    }

    /// The cells at a known spot.
    #[inline]
    fn cells_at(&self, spot: [u32; ROWS]) -> [&C; ROWS] {
        let mut columns = spot.into_iter();
        self.rows
            .each_ref()
            .map(|cells| columns.next().and_then(|column| cells.get(column as usize)).unwrap_or(&self.spare))
    }
}

#[inline]
fn least<C: CountCell, const ROWS: usize>(cells: [&C; ROWS]) -> u32 {
    cells.into_iter().map(C::load).fold(u32::MAX, u32::min)
}

impl<C: CountCell, const ROWS: usize> fmt::Debug for SummingTable<C, ROWS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SummingTable").field("rows", &ROWS).field("columns", &self.columns()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::KeyHasher;
    use super::*;

    const SEED: Seed = Seed::from_bytes([1; 16]);

    fn key(number: u64) -> KeyHash {
        let mut hasher = KeyHasher::new(&SEED);
        hasher.part(0, &number.to_le_bytes());
        hasher.finish()
    }

    fn small() -> SummingTable {
        SummingTable::with_memory(Bytes(4 << 10), &SEED).unwrap()
    }

    #[test]
    fn reserves_up_to_the_cap_and_what_is_released_can_be_had_again() {
        let table = small();
        assert_eq!(table.reserve(key(1), 2, 5), Ok(0));
        assert_eq!(table.reserve(key(1), 3, 5), Ok(2));
        assert_eq!(table.reserve(key(1), 1, 5), Err(5));
        assert_eq!(table.estimate(key(2)), 0);
        table.release(key(1), 2);
        assert_eq!(table.reserve(key(1), 3, 5), Err(3));
        assert_eq!(table.reserve(key(1), 2, 5), Ok(3));
        table.release(key(1), 2);
        table.release(key(1), 3);
        assert_eq!((table.total(), table.faults()), (0, 0));
    }

    #[test]
    fn a_refusal_leaves_no_trace() {
        let table = small();
        assert_eq!(table.reserve(key(1), 6, 5), Err(0));
        assert_eq!(table.reserve(key(1), 1, 0), Err(0));
        assert_eq!(table.total(), 0);
    }

    #[test]
    fn a_sum_that_would_not_fit_its_cell_is_refused_and_undone() {
        let table = small();
        assert_eq!(table.reserve(key(1), u32::MAX, u32::MAX), Ok(0));
        assert_eq!(table.reserve(key(1), 1, u32::MAX), Err(u32::MAX));
        assert_eq!(table.add(key(1), 1), None);
        assert_eq!(table.counts(key(1)), [u32::MAX; 8]);
        table.release(key(1), u32::MAX);
        assert_eq!((table.counts(key(1)), table.faults()), ([0; 8], 0));
    }

    #[test]
    fn only_one_full_cell_is_enough_to_refuse_and_the_other_rows_are_given_back() {
        let table = SummingTable::<AtomicU32, 2>::with_shape(2, &SEED).unwrap();
        let [first, second] = table.columns.of(key(0));
        let other = (1..100).map(key).find(|other| table.columns.of(*other) == [1 - first, second]).unwrap();
        table.add(other, u32::MAX).unwrap();
        assert_eq!(table.add(key(0), 1), None);
        assert_eq!(table.reserve(key(0), 1, 5), Err(0));
        assert_eq!(table.counts(key(0)), [0, u32::MAX]);
    }

    #[test]
    fn taking_out_more_than_was_put_in_is_counted_and_stops_at_nothing() {
        let table = small();
        table.add(key(1), 2).unwrap();
        table.release(key(1), 3);
        assert_eq!((table.counts(key(1)), table.faults()), ([0; 8], 8));
    }

    #[test]
    fn memory_is_what_was_asked_for_or_an_error() {
        let table = SummingTable::with_memory(SummingTable::DEFAULT_MEMORY, &SEED).unwrap();
        assert_eq!((table.memory(), table.columns()), (Bytes(2 << 20), 65_536));
        for bytes in [0, 1 << 11, (4 << 20) + 1, 5 << 20, 1 << 30, u64::MAX] {
            assert!(SummingTable::with_memory(Bytes(bytes), &SEED).is_err(), "{bytes}");
        }
        assert!(SummingTable::<AtomicU32, 2>::with_shape(3, &SEED).is_err());
    }
}
