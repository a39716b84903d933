//! Which (key, value) pairs were counted not long ago: a set of fingerprints in fixed memory, without locks.
//!
//! A set-associative table: the pair's hash names a bucket of one cache line, whose sixteen entries are a fingerprint of
//! 27 bits and a *generation* of 5. It forgets when a bucket is full. It is not a Bloom filter, because a filter that
//! is too full takes new values for old ones and so lets everything pass; this errs the other way. For its counting it
//! relies on a caller: a pair belongs in here only after it was charged.
//!
//! The generation is that of the count and is **not refreshed** by later look-ups: a value in steady use is counted
//! again once per period, or a client could collect its limit's worth of new values every period and keep them all.
//!
//! **Error.** A pair never counted is taken for a counted one with probability ≤ 16·2⁻²⁷ = 1.2·10⁻⁷ for each look-up, by the
//! union bound, in a table that is full to the last entry; half of that at the load it is sized for. The other error is
//! harmless: a live pair is displaced and counted a second time. Of the live entries that is, with Poisson arrivals and
//! 16 ways, the share E\[(X−16)⁺\]/E\[X\]: 8.6·10⁻⁵ at load 0.4, 8·10⁻⁴ at 0.5, 0.4 % at 0.6, 1.3 % at 0.7. Hence the sizing: **8 bytes
//! per live pair**. [`SeenSet::DEFAULT_MEMORY`] holds 262,144 of them at load 0.5.
//!
//! **Generations do not wrap onto each other**, whether or not anybody calls [`SeenSet::sweep`]. Five bits tell 31
//! generations apart, so an entry left alone for 31 would come back to life. Against that each region of sixteen buckets has a
//! mark: *as of this generation its dead entries are gone*. A look-up trusts entries only up to 24 generations past the
//! mark; an insertion that finds the mark more than 12 behind sweeps the region first (256 loads). An entry
//! older than its region's mark by more than three generations cannot exist (below), so every trusted entry is at most 27
//! generations old, and its age is exact. A timer that is late, or absent, costs a request a sweep of one kilobyte now and
//! then. Nothing else.
//!
//! *Why no older entry exists.* A sweep announces its generation, then reads the entries; an insertion stores its entry,
//! then reads what was announced, and takes the entry back if that is more than three generations on. With a sequentially
//! consistent fence in the middle of each, at least one of them sees the other. What is left: a thread that
//! sleeps for 31 generations between its last look at the time and its exchange shows an old entry until its next instruction.
//!
//! **The clock** is the newest generation at which anything was stored or swept: an older stamp counts as no time passing.
//!
//! **Not re-keyed**, unlike the tables of levels ([`rekeyed`](super::rekeyed)), as whoever knew the collisions would gain next
//! to nothing. There are two kinds. *A full bucket*: sixteen new values in the bucket of another's pair push it out, and its
//! next use costs its owner one unit. Each of the sixteen costs the attacker a unit of his own quota, every period anew,
//! as entries die with it; and which bucket is another's he cannot see: what is told to him (his own remaining units) shows
//! only which of his own values push each other out. *An equal fingerprint* in the same bucket: a new value passes
//! uncounted. It is found by trying only, at 1.2·10⁻⁷ a try, each of which is refused or costs a unit; and it is of use until the
//! other entry dies, a period at most, which is no longer than a change of keys would leave it. A change, on the other
//! hand, would have to look every pair up under both keys for a whole period, up to 31 days.
//!
//! Source: the buckets and fingerprints are those of a cuckoo filter (Fan, Andersen, Kaminsky and Mitzenmacher 2014) without its
//! second bucket; what it replaces is the Bloom filter per key of Exim's `per_addr` (Finch).

use std::time::Duration;
use std::{fmt, io};

use super::hash::KeyHash;
use crate::saved::{Fault, Reader, Writer, restore_cells, save_cells};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use crate::units::time::saturating_nanos;
use crate::units::{Bytes, Divisor, OutOfRange, Timestamp};

/// For how long a pair counts as seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// Nanoseconds of one generation.
    span: Divisor,
    /// For how many generations an entry lives, its own included.
    generations: u64,
}

impl Lifetime {
    /// Until the end of the aligned period in which it was counted: periods begin at multiples of `period` since the
    /// origin of time.
    ///
    /// # Errors
    /// A period outside 1 s to 31 days.
    pub fn aligned(period: Duration) -> Result<Lifetime, OutOfRange> {
        Ok(Lifetime { span: Divisor::new(checked(period)?), generations: 1 })
    }

    /// For ¾ of `period` at least and all of it at most: for what is left of the quarter in which it was counted, and
    /// the three quarters after it.
    ///
    /// # Errors
    /// A period outside 1 s to 31 days.
    pub fn smooth(period: Duration) -> Result<Lifetime, OutOfRange> {
        Ok(Lifetime { span: Divisor::new(checked(period)? / MOST_LIVE), generations: MOST_LIVE })
    }

    fn generation(&self, now: Timestamp) -> u64 {
        self.span.divide(now.nanos()).0
    }

    /// A bit for each tag that is alive at `generation`. The bit of [`EMPTY`] is never set.
    #[inline]
    fn live_tags(&self, generation: u64) -> u32 {
        let oldest = generation.saturating_sub(self.generations.saturating_sub(1));
        (oldest..=generation).fold(0, |live, born| live | 1 << tag(born))
    }
}

fn checked(period: Duration) -> Result<u64, OutOfRange> {
    if (Duration::from_secs(1)..=Duration::from_secs(31 * 86_400)).contains(&period) {
        Ok(saturating_nanos(period))
    } else {
        Err(OutOfRange { allowed: "1s to 31d" })
    }
}

/// What became of a pair that was to be remembered.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    /// In an entry that nobody used.
    Empty,
    /// Over an entry that was dead.
    Stale,
    /// Over a live entry, as the bucket was full: the other pair will be counted again.
    Displaced,
    /// It was there already, and keeps its generation.
    Present,
    /// Not remembered: another thread took the entry first, or so much time went by that the pair is dead. It will be
    /// counted again.
    Missed,
}

/// The entry. It publishes nothing but itself, so it needs no order; what was swept before a mark was read comes with the mark.
#[inline]
fn read(entry: &AtomicU32) -> u32 {
    entry.load(Ordering::Relaxed)
}

/// Replaces `from` by `to` unless the entry has changed; says whether it did. In no order, as [`read`].
#[inline]
fn exchange(entry: &AtomicU32, from: u32, to: u32) -> bool {
    entry.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// The mark: who reads it also sees the entries as they were swept before.
#[inline]
fn as_of(mark: &AtomicU64) -> u64 {
    mark.load(Ordering::Acquire)
}

/// Raises the mark, and publishes what was swept before. A lower number changes nothing.
#[inline]
fn advance(mark: &AtomicU64, to: u64) {
    mark.fetch_max(to, Ordering::Release);
}

/// The set: buckets of `WAYS` entries. Fixed memory, whatever the number of pairs.
pub struct SeenSet<const WAYS: usize = 16> {
    lines: Box<[Line<WAYS>]>,
    /// For each region of lines: the generation as of which it holds no dead entry.
    swept: Box<[AtomicU64]>,
    /// The newest generation at which anything was stored or swept.
    newest: AtomicU64,
    lifetime: Lifetime,
    tally: Tally,
}

/// One bucket, in one cache line.
#[repr(align(64))]
struct Line<const WAYS: usize>([AtomicU32; WAYS]);

/// Counted on every insertion, and so kept off the cache line that every look-up reads.
#[derive(Default)]
#[repr(align(128))]
struct Tally {
    live: AtomicU64,
    displaced: AtomicU64,
}

impl SeenSet {
    /// The memory of a set unless the operator says otherwise: 262,144 live pairs at load 0.5, at which one
    /// in 1,250 is counted twice.
    pub const DEFAULT_MEMORY: Bytes = Bytes(2 << 20);

    /// An empty set whose entries fill exactly `memory`; the marks of its regions add 1/128 of it.
    ///
    /// # Errors
    /// `memory` is not a power of two from 4 KiB to 512 MiB.
    pub fn with_memory(memory: Bytes, lifetime: Lifetime) -> Result<SeenSet, OutOfRange> {
        const ALLOWED: OutOfRange = OutOfRange { allowed: "a power of two from 4KiB to 512MiB" };
        if !memory.0.is_power_of_two() || !(4 << 10..=512 << 20).contains(&memory.0) {
            return Err(ALLOWED);
        }
        let lines = usize::try_from(memory.0 / 64).map_err(|_| ALLOWED)?;
        Self::with_shape(lines, lifetime)
    }
}

impl<const WAYS: usize> SeenSet<WAYS> {
    /// A set of any shape, for tests and models: `lines` buckets of 1 to 16 entries.
    ///
    /// # Errors
    /// `lines` is not a power of two from 1 to 2²⁴.
    pub fn with_shape(lines: usize, lifetime: Lifetime) -> Result<Self, OutOfRange> {
        const { assert!(WAYS >= 1 && WAYS <= 16, "four bits of the hash choose an entry") }
        if !lines.is_power_of_two() || lines > 1 << KeyHash::SLICE_BITS {
            return Err(OutOfRange { allowed: "a power of two from 1 to 16777216" });
        }
        let line = |_| Line(std::array::from_fn(|_| AtomicU32::new(0)));
        Ok(SeenSet {
            lines: (0..lines).map(line).collect(),
            swept: (0..lines.div_ceil(REGION)).map(|_| AtomicU64::new(0)).collect(),
            newest: AtomicU64::default(),
            lifetime,
            tally: Tally::default(),
        })
    }

    /// `now`, or the start of the newest generation if `now` lags behind it. What a request does to other state
    /// belongs at this moment, so that a value is never counted in one period and remembered in a later one.
    #[inline]
    pub fn moment(&self, now: Timestamp) -> Timestamp {
        let start = as_of(&self.newest).saturating_mul(self.lifetime.span.get());
        now.max(Timestamp::from_nanos(start))
    }

    /// Whether the pair was counted and is still alive. Read only; one cache line beside the region's mark.
    #[inline]
    pub fn contains(&self, pair: KeyHash, now: Timestamp) -> bool {
        let generation = self.lifetime.generation(now).max(as_of(&self.newest));
        let home = self.home(pair);
        // the mark before the entries: what a sweep cleared is then seen cleared
        let Some(swept) = self.swept.get(home / REGION) else { return false };
        if generation.saturating_sub(as_of(swept)) > TRUSTED {
            return false;
        }
        let Some(Line(entries)) = self.lines.get(home) else { return false };
        let fingerprint = fingerprint(pair);
        if self.lifetime.generations == 1 {
            // one word is what it looks for, and to compare it with all sixteen is sooner done than to guess where the search ends
            let alive = fingerprint << TAG_BITS | tag(generation);
            return entries.iter().fold(false, |found, entry| found | (read(entry) == alive));
        }
        let live = self.lifetime.live_tags(generation);
        entries.iter().any(|entry| {
            let word = read(entry);
            word >> TAG_BITS == fingerprint && is_live(word, live)
        })
    }

    /// Has the pair's bucket brought near; see [`MonotoneTable::prefetch`](super::MonotoneTable::prefetch).
    #[inline]
    pub fn prefetch(&self, pair: KeyHash) {
        self.line(self.home(pair)).first().into_iter().for_each(super::bring_near);
    }

    /// Remembers that the pair was counted at `now`: the [`moment`](SeenSet::moment) of the charge, not a later one.
    /// One try; losing a race means that the pair is counted again.
    pub fn insert(&self, pair: KeyHash, now: Timestamp) -> Inserted {
        let generation = self.lifetime.generation(now);
        if self.is_overtaken(generation) {
            return Inserted::Missed;
        }
        self.announce(generation);
        let home = self.home(pair);
        if self.swept.get(home / REGION).is_some_and(|swept| generation.saturating_sub(as_of(swept)) > TIDY_AFTER) {
            self.sweep_region(home / REGION, generation);
        }
        let word = fingerprint(pair) << TAG_BITS | tag(generation);
        let Some((entry, found, inserted)) = self.entry_for(pair, home, generation) else { return Inserted::Present };
        if !exchange(entry, found, word) {
            return Inserted::Missed;
        }
        // the entry before the time: a sweep that did not see the entry is then seen here
        fence(Ordering::SeqCst);
        if self.is_overtaken(generation) {
            // if this fails, another pair has the entry, which is as good
            exchange(entry, word, EMPTY);
            return Inserted::Missed;
        }
        // counters for the operator: nothing is decided by them
        if inserted == Inserted::Displaced {
            self.tally.displaced.fetch_add(1, Ordering::Relaxed);
        } else {
            self.tally.live.fetch_add(1, Ordering::Relaxed);
        }
        inserted
    }

    /// Clears every dead entry. Made for a timer, once per generation: it keeps [`SeenSet::load`] true and
    /// spares requests the sweeping of their regions. Safe beside requests and other sweeps; no promise rests on it.
    pub fn sweep(&self, now: Timestamp) {
        let generation = self.lifetime.generation(now).max(as_of(&self.newest));
        self.announce(generation);
        let live = (0..self.swept.len()).map(|region| self.sweep_region(region, generation)).sum();
        self.tally.live.store(live, Ordering::Relaxed);
    }

    /// Writes the live pairs. Requests go on: a pair that is inserted during the call may be in it or not. Save the set before the counts that
    /// its pairs were charged to: then each pair in it is in those.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn save(&self, to: &mut Writer<'_>, now: Timestamp) -> io::Result<()> {
        let newest = as_of(&self.newest);
        let generation = self.lifetime.generation(now).max(newest);
        let live = self.lifetime.live_tags(generation);
        to.number(self.capacity() as u64)?;
        to.number(generation)?;
        let regions = self.lines.chunks(REGION).zip(&self.swept).flat_map(|(lines, swept)| {
            // the mark before the entries, as in `contains`: too long ago to tell the generations apart, none is alive
            let trusted = generation.saturating_sub(as_of(swept)) <= TRUSTED;
            lines.iter().flat_map(|line| &line.0).map(move |entry| (read(entry), trusted))
        });
        let alive = |(word, trusted): (u32, bool)| if trusted && is_live(word, live) { u64::from(word) } else { 0 };
        save_cells(to, regions.map(alive))
    }

    /// Takes saved pairs over. For a set that nobody uses yet, of the lifetime and on the axis of the saved one.
    ///
    /// # Errors
    /// Damaged bytes, and a set of another size.
    pub fn restore(&self, from: &mut Reader<'_>) -> Result<(), Fault> {
        if from.number()? != self.capacity() as u64 {
            return Err(Fault::Unfit("a set has another size"));
        }
        let generation = from.number()?;
        let mut live = 0;
        restore_cells(from, self.capacity(), |at, word| {
            let entry = self.lines.get(at / WAYS).and_then(|line| line.0.get(at % WAYS));
            if let (Some(entry), Ok(word)) = (entry, u32::try_from(word)) {
                // all that is decided by it is decided after the marks below
                exchange(entry, EMPTY, word);
                live += 1;
            }
        })?;
        self.tally.live.store(live, Ordering::Relaxed);
        // what was not alive then is not there
        self.swept.iter().for_each(|swept| advance(swept, generation));
        self.announce(generation);
        Ok(())
    }

    /// Live entries over all entries, 0 to 1: what the last sweep left and what was stored since. Above 0.5 the set is
    /// smaller than its traffic asks for, and repeats begin to be counted again.
    pub fn load(&self) -> f64 {
        (self.tally.live.load(Ordering::Relaxed) as f64 / self.capacity() as f64).min(1.0)
    }

    /// Live entries that gave way to others, since the start.
    pub fn displaced(&self) -> u64 {
        self.tally.displaced.load(Ordering::Relaxed)
    }

    /// Entries in all.
    pub fn capacity(&self) -> usize {
        self.lines.len() * WAYS
    }

    /// The memory of the entries and of the marks.
    pub fn memory(&self) -> Bytes {
        Bytes((size_of_val(&*self.lines) + size_of_val(&*self.swept)) as u64)
    }

    /// For how long a pair is alive.
    pub fn lifetime(&self) -> Lifetime {
        self.lifetime
    }

    /// Where the pair may be stored, what is there now, and what storing it means: empty, else dead, else its victim.
    /// `None` if the pair is there already. Starts at an entry of the pair's own, so that newcomers do not all race
    /// for the first.
    fn entry_for(&self, pair: KeyHash, home: usize, generation: u64) -> Option<(&AtomicU32, u32, Inserted)> {
        let live = self.lifetime.live_tags(generation);
        let fingerprint = fingerprint(pair);
        let start = (pair.upper() & 15) as usize % WAYS;
        let (mut empty, mut stale, mut victim) = (None, None, None);
        let (last, first) = self.line(home).split_at_checked(start)?;
        for entry in first.iter().chain(last) {
            let word = read(entry);
            if word == EMPTY {
                empty = empty.or(Some((entry, word, Inserted::Empty)));
            } else if !is_live(word, live) {
                stale = stale.or(Some((entry, word, Inserted::Stale)));
            } else if word >> TAG_BITS == fingerprint {
                return None;
            } else {
                victim = victim.or(Some((entry, word, Inserted::Displaced)));
            }
        }
        empty.or(stale).or(victim)
    }

    /// Clears the dead entries of one region and moves its mark on; says how many are alive. The generation has been
    /// announced.
    fn sweep_region(&self, region: usize, generation: u64) -> u64 {
        let Some(swept) = self.swept.get(region) else { return 0 };
        // the announcement before the entries: an insertion that is not seen here then sees the announcement
        fence(Ordering::SeqCst);
        // too long ago to tell the generations apart: then nothing that was stored can be alive
        let trusted = generation.saturating_sub(as_of(swept)) <= TRUSTED;
        let live = if trusted { self.lifetime.live_tags(generation) } else { 0 };
        let mut alive = 0;
        for entry in self.lines.iter().skip(region * REGION).take(REGION).flat_map(|line| &line.0) {
            let word = read(entry);
            if is_live(word, live) {
                alive += 1;
            } else if word != EMPTY {
                // if this fails, it is no longer the dead one
                exchange(entry, word, EMPTY);
            }
        }
        advance(swept, generation);
        alive
    }

    fn announce(&self, generation: u64) {
        if as_of(&self.newest) < generation {
            advance(&self.newest, generation);
        }
    }

    fn is_overtaken(&self, generation: u64) -> bool {
        as_of(&self.newest).saturating_sub(generation) > LATE
    }

    #[inline]
    fn home(&self, pair: KeyHash) -> usize {
        pair.slice(0) as usize & self.lines.len().wrapping_sub(1)
    }

    #[inline]
    fn line(&self, home: usize) -> &[AtomicU32] {
        self.lines.get(home).map_or(&[], |line| &line.0)
    }
}

impl<const WAYS: usize> fmt::Debug for SeenSet<WAYS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeenSet").field("capacity", &self.capacity()).field("lifetime", &self.lifetime).finish()
    }
}

const EMPTY: u32 = 0;
const TAG_BITS: u32 = 5;
/// How many generations the tag tells apart, one of its 32 values being [`EMPTY`].
const CYCLE: u64 = 31;
/// The most generations for which an entry lives.
const MOST_LIVE: u64 = 4;
/// Lines under one mark: 1 KiB of entries, swept in about a hundred nanoseconds.
const REGION: usize = 16;
/// By how many generations an insertion may lag behind the newest and still be remembered.
const LATE: u64 = 3;
/// An insertion sweeps its region when the mark is further behind than this.
const TIDY_AFTER: u64 = 12;
/// A look-up believes nothing when the mark is further behind than this.
const TRUSTED: u64 = 24;

const _: () = assert!(TRUSTED + LATE < CYCLE && LATE < MOST_LIVE, "the age of a trusted entry is exact");
const _: () = assert!(TIDY_AFTER + LATE + MOST_LIVE <= TRUSTED, "a region that is not trusted holds nothing alive");

#[inline]
fn tag(generation: u64) -> u32 {
    (generation % CYCLE) as u32 + 1
}

#[inline]
fn is_live(word: u32, live_tags: u32) -> bool {
    live_tags >> (word & ((1 << TAG_BITS) - 1)) & 1 == 1
}

/// The 27 bits of the hash above the four that choose an entry, and the one left over: none of them chose the bucket.
#[inline]
fn fingerprint(pair: KeyHash) -> u32 {
    pair.upper() >> TAG_BITS
}
