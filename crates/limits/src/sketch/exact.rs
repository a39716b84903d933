//! A bounded table that keeps the levels of heavy keys exactly, one word each, beside a sketch that keeps all others.
//!
//! A key near its quota is moved here, so that colliding keys can no longer get it refused and contending threads meet on
//! one word. It is not a second account: as long as a key has an **open** entry, the entry alone decides; before and after,
//! the sketch alone. This file holds the slots and their transitions; [`levels`](super::levels) the protocol of both.
//!
//! Source: ALGORITHMS 2.7. Its pending mark with a nonce is replaced by two rules that need neither nonce nor version:
//!
//! * **Only who claimed a slot opens or frees it.** Others may kill the claim, which forbids its opening, and no more.
//! * **The levels that a slot ever holds strictly grow**, through all keys that it serves. A slot that is free remembers
//!   the last of them, and takes no key whose level is not above. So an exchange on an open word proves that slot, key and
//!   level are what they were when the word was read: a word never comes back.
//!
//! ```text
//!            claim                     open(t), t > h                    admission: t → f(t)
//!  free(h) ─────────▶ pending(h) ─────────────────────▶ open(t) ─────────┐      ▲
//!     ▲                 │     │ another request            │ │   ▲       │      │
//!     │  abandoned      │     ▼ of the key                 │ │   └───────┘      │
//!     ├─────────────────┘   killed(h)                      │ └─▶ pending(t), for another key (evicted and claimed at once)
//!     ├──────────────────────┘                             │
//!     └────────────────────────────────────────────────────┘  evicted: h = t; the sketch was lifted to t before
//! ```

use super::hash::KeyHash;
use super::monotone::Word;
use crate::sync::{AtomicU64, Ordering};
use crate::units::Bytes;

/// The highest level that an entry can hold, as two bits of its word say what it is: instants up to 146 years after the
/// origin. A key above is left to the sketch.
pub(super) const HIGHEST_LEVEL: u64 = (1 << 62) - 1;

const FREE: u64 = 0 << 62;
const OPEN: u64 = 1 << 62;
const PENDING: u64 = 2 << 62;
const KILLED: u64 = 3 << 62;

fn state(word: u64) -> u64 {
    word & !HIGHEST_LEVEL
}

fn level(word: u64) -> u64 {
    word & HIGHEST_LEVEL
}

/// The slots of all keys: `lines` cache lines of two.
pub(super) struct ExactTable<C> {
    lines: Box<[Line<C>]>,
    /// A bit for each line in which a slot has ever been claimed, set before the claim: of most keys it is known by these few words
    /// that they have no entry, and their lines are not waited for.
    touched: Box<[C]>,
    /// Stands in for a line out of range, which masking makes impossible. Keys are compared whole, so it would do no harm.
    spare: Line<C>,
    open: AtomicU64,
}

/// Two slots in one cache line. Which line a key has follows from its hash and never changes; whoever knows of two heavy
/// keys of his own in the line of another can keep that one out, who then is where all keys were without this table.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Line<C>([Slot<C>; 2]);

#[derive(Default)]
#[repr(align(32))]
struct Slot<C> {
    /// What the slot is, and the level: every exchange of it acquires and releases, so whoever reads a word sees the key
    /// that was stored before it, and the lifting of the sketch before an eviction.
    word: C,
    /// The key's hash, stored with release by whoever claimed the slot and before he raises any cell of the key.
    low: C,
    high: C,
}

impl<C: Word> ExactTable<C> {
    /// `lines` is a power of two.
    pub fn new(lines: usize) -> ExactTable<C> {
        let lines: Box<[Line<C>]> = (0..lines.next_power_of_two()).map(|_| Line::default()).collect();
        let touched = (0..lines.len().div_ceil(64)).map(|_| C::default()).collect();
        ExactTable { lines, touched, spare: Line::default(), open: AtomicU64::new(0) }
    }

    /// An empty table of this one's size.
    pub fn sibling(&self) -> ExactTable<C> {
        ExactTable::new(self.lines.len())
    }

    /// The line in which the key has its entry, if it has one.
    #[inline]
    pub fn line(&self, key: KeyHash) -> &Line<C> {
        self.lines.get(self.number(key)).unwrap_or(&self.spare)
    }

    /// Whether the key's line has ever been claimed in. If not, it has no entry and no claim: whoever sees what a request did after its
    /// claim sees this bit, too, as it was set before.
    #[inline]
    pub fn is_touched(&self, key: KeyHash) -> bool {
        let number = self.number(key);
        self.touched.get(number / 64).is_none_or(|bits| bits.load() >> (number % 64) & 1 == 1)
    }

    fn touch(&self, key: KeyHash) {
        let number = self.number(key);
        let Some(word) = self.touched.get(number / 64) else { return };
        let mut bits = word.load();
        // every failure is another's bit, of which there are 63
        while bits >> (number % 64) & 1 == 0 && !word.exchange(bits, bits | 1 << (number % 64)) {
            bits = word.load();
        }
    }

    #[inline]
    fn number(&self, key: KeyHash) -> usize {
        let [low, _] = key.halves();
        low as usize & self.lines.len().wrapping_sub(1)
    }

    /// Of the entries; the bits of the lines are 1/512 of it.
    pub fn memory(&self) -> Bytes {
        Bytes(size_of_val(&*self.lines) as u64)
    }

    pub fn capacity(&self) -> u64 {
        2 * self.lines.len() as u64
    }

    /// Open entries, counted apart from their opening: an estimate.
    pub fn in_use(&self) -> u64 {
        // a count of its own that publishes nothing; opening and evicting may be seen in either order
        self.open.load(Ordering::Relaxed).min(self.capacity())
    }

    /// The open entries and their levels, each as it was at some moment of the call.
    pub fn entries(&self) -> impl Iterator<Item = (KeyHash, u64)> {
        self.places().flatten()
    }

    /// What [`ExactEntries::entries`] gives, and `None` for each slot that is not open.
    pub fn places(&self) -> impl Iterator<Item = Option<(KeyHash, u64)>> {
        self.lines.iter().flat_map(|Line(slots)| slots).map(|slot| {
            let word = slot.word.load();
            let key = slot.key();
            // a word never comes back, so the key was its key all the time
            (state(word) == OPEN && slot.word.load() == word).then(|| (key, level(word)))
        })
    }

    /// Claims a slot of the key's line to be opened at `to`: a free one, or else the open one furthest in the past of those
    /// that may be `evicted`, after its level was `written_back`.
    pub fn claim<'a>(
        &'a self,
        key: KeyHash,
        to: u64,
        may_be_evicted: impl Fn(u64) -> bool,
        write_back: impl Fn(KeyHash, u64),
    ) -> Option<Claim<'a, C>> {
        let Line(slots) = self.line(key);
        let (slot, word) = slots
            .iter()
            .map(|slot| (slot, slot.word.load()))
            // a state above `OPEN` is somebody's claim; a free slot sorts before any open one
            .filter(|(_, word)| state(*word) <= OPEN && level(*word) < to)
            .min_by_key(|(_, word)| *word)?;
        self.touch(key);
        let evicting = state(word) == OPEN;
        if evicting {
            if !may_be_evicted(level(word)) {
                return None;
            }
            // if this is not the key of that word any more, a stranger is lifted and the exchange fails
            write_back(slot.key(), level(word));
        }
        if !slot.word.exchange(word, PENDING | level(word)) {
            return None;
        }
        if evicting {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
        let [low, high] = key.halves();
        slot.low.store(low);
        slot.high.store(high);
        Some(Claim { slot, floor: level(word) })
    }

    /// Opens a claimed slot at `to`, or frees it if the claim was killed.
    pub fn open(&self, claim: Claim<'_, C>, to: u64) {
        if claim.slot.word.exchange(PENDING | claim.floor, OPEN | to) {
            self.open.fetch_add(1, Ordering::Relaxed);
        } else {
            claim.abandon();
        }
    }

    /// Frees the slot of an entry whose level was written back; says whether the entry still held it.
    pub fn evict(&self, entry: &Entry<'_, C>) -> bool {
        let evicted = entry.slot.word.exchange(entry.word, FREE | entry.level());
        if evicted {
            self.open.fetch_sub(1, Ordering::Relaxed);
        }
        evicted
    }
}

impl<C: Word> Line<C> {
    /// The key's open entry, or else a claim for it. Every slot is looked at once: with a look for each of the two, a claim
    /// could be opened in between and be missed by both.
    #[inline]
    pub fn find(&self, key: KeyHash) -> Found<'_, C> {
        let mut found = Found::Absent;
        for slot in &self.0 {
            let Some(word) = slot.word_of(key) else { continue };
            match state(word) {
                OPEN => return Found::Open(Entry { slot, word }),
                PENDING => found = Found::Pending(Mark { slot, word }),
                _ => {}
            }
        }
        found
    }

    /// The key's open entry. That there is none is proof of nothing: see [`Line::find`].
    #[inline]
    pub fn open(&self, key: KeyHash) -> Option<Entry<'_, C>> {
        match self.find(key) {
            Found::Open(entry) => Some(entry),
            Found::Pending(_) | Found::Absent => None,
        }
    }
}

/// What there is of a key in its line.
pub(super) enum Found<'a, C> {
    Open(Entry<'a, C>),
    Pending(Mark<'a, C>),
    Absent,
}

impl<C: Word> Slot<C> {
    fn key(&self) -> KeyHash {
        KeyHash::from_halves([self.low.load(), self.high.load()])
    }

    /// The word, if the slot has this key. The key is read after the word, so an exchange of the word proves it. A quick
    /// look at half of the key comes first: it spares a stranger the rest.
    #[inline]
    fn word_of(&self, key: KeyHash) -> Option<u64> {
        let [low, _] = key.halves();
        if self.low.load() != low {
            return None;
        }
        let word = self.word.load();
        (self.key() == key).then_some(word)
    }
}

/// An open entry, as it was read.
pub(super) struct Entry<'a, C> {
    slot: &'a Slot<C>,
    word: u64,
}

impl<C: Word> Entry<'_, C> {
    #[inline]
    pub fn level(&self) -> u64 {
        level(self.word)
    }

    /// Whether the entry is still what was read, and so was the key's when it was read.
    #[inline]
    pub fn is_current(&self) -> bool {
        self.slot.word.load() == self.word
    }

    /// Raises the level to the higher `to`, unless the entry is not what was read any more; says whether it was.
    #[inline]
    pub fn raise(&self, to: u64) -> bool {
        self.slot.word.exchange(self.word, OPEN | to)
    }
}

/// A claim seen by another request of the key.
pub(super) struct Mark<'a, C> {
    slot: &'a Slot<C>,
    word: u64,
}

impl<C: Word> Mark<'_, C> {
    /// Forbids the opening. A later claim that looks the same may be hit instead, which only costs it the entry.
    pub fn kill(&self) {
        let _ = self.slot.word.exchange(self.word, KILLED | level(self.word));
    }
}

/// A slot that is ours until it is opened or abandoned.
pub(super) struct Claim<'a, C> {
    slot: &'a Slot<C>,
    floor: u64,
}

impl<C: Word> Claim<'_, C> {
    /// Frees the slot. Nobody but a killer can have changed the word, and whether he did is no matter any more.
    pub fn abandon(self) {
        self.slot.word.store(FREE | self.floor);
    }
}
