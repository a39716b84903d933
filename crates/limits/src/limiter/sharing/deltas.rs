//! What this gate admitted of each key since it last told the other gates: a bounded table of sums, for `sharing: estimate`.
//!
//! Requests add to it without a lock; one task takes all sums out at a time. **Promise.** Every unit that was counted is
//! taken out exactly once, or is in [`Deltas::take_unreported`]: none is lost, none is told twice. Memory is fixed. What finds no
//! place is not told, and counted: an attacker with many keys can fill the table, but not before the keys that are
//! asked for most have found their places, as all places are free after each taking.
//!
//! Not what the others told: that is charged to the limiter at once, and kept nowhere.
//!
//! **Protocol.** A slot has a word (version, state, tier, units) and a key of two words. A free slot is claimed by an
//! exchange of its word; who claimed it writes the key, and then releases the word with the first units. Who adds
//! reads the word, then the key, and adds by an exchange of that very word; who takes out does the same, and leaves the slot free under
//! the next version. *Why it is safe:* the key changes only between a claim and its release, and these change the word. So
//! if the exchange succeeds the key was the one of that word: had the reader seen a later one, then by the order
//! of exchanges (acquire and release) the word would have been a later one, too. A version comes back after 2²⁰ takings, a day's
//! worth at ten a second; a thread that sleeps for so long between two instructions, and wakes to the same number of units,
//! adds to another key's.

pub mod message;
pub mod peers;

use super::StoreKey;
use crate::sync::{AtomicU64, Ordering};
use crate::units::{Bytes, Cost};

/// What was admitted of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delta {
    /// What all gates call the key.
    pub name: StoreKey,
    /// By which numbers it was judged: 0 those of the limit, `n` those of its n-th tier.
    pub tier: u8,
    /// How much; above zero.
    pub units: u64,
}

/// The sums of one limit; see the module.
#[derive(Debug)]
pub struct Deltas {
    groups: Box<[[Slot; GROUP]]>,
    unreported: AtomicU64,
}

/// A key may be in any slot of its group: three cache lines.
const GROUP: usize = 8;

#[derive(Debug, Default)]
struct Slot {
    word: AtomicU64,
    low: AtomicU64,
    high: AtomicU64,
}

impl Deltas {
    /// How many keys there is room for between two takings, in 96 KiB.
    pub const KEYS: usize = 4_096;

    /// An empty table for [`Deltas::KEYS`] keys.
    pub fn new() -> Deltas {
        Deltas::with_keys(Deltas::KEYS)
    }

    /// The same for so many, rounded up to a power of two of at least eight.
    pub fn with_keys(keys: usize) -> Deltas {
        let groups = keys.div_ceil(GROUP).next_power_of_two();
        Deltas { groups: (0..groups).map(|_| Default::default()).collect(), unreported: AtomicU64::new(0) }
    }

    /// Adds what was admitted of a key. Waits for nobody: an exchange fails only because another's succeeded.
    #[inline]
    pub fn count(&self, name: StoreKey, tier: u8, cost: Cost) {
        let (key, units) = (name.halves(), u64::from(cost.get()));
        let Some(group) = self.groups.get(key[0] as usize & self.groups.len().wrapping_sub(1)) else { return };
        let added = group.iter().any(|slot| slot.add(key, tier, units))
            || group.iter().any(|slot| slot.claim(key, tier, units));
        if !added {
            self.unreported.fetch_add(units, Ordering::Relaxed);
        }
    }

    /// Takes all sums out, in no order; a key may come twice. For one caller at a time: of two, each gets a part.
    pub fn take(&self, mut each: impl FnMut(Delta)) {
        self.groups.iter().flatten().filter_map(Slot::take).for_each(&mut each);
    }

    /// Takes out how many units found no place.
    pub fn take_unreported(&self) -> u64 {
        self.unreported.swap(0, Ordering::Relaxed)
    }

    /// The memory of the table, whatever is in it.
    pub fn memory(&self) -> Bytes {
        Bytes(size_of_val(&*self.groups) as u64)
    }
}

impl Default for Deltas {
    fn default() -> Deltas {
        Deltas::new()
    }
}

/// The word of a slot: from the top 20 bits of version, 2 of state, 8 of tier, 34 of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Word(u64);

const UNITS: u32 = 34;
const MOST_UNITS: u64 = (1 << UNITS) - 1;
const STATE: u32 = UNITS + 8;
const VERSION: u32 = STATE + 2;
const FREE: u64 = 0;
const CLAIMED: u64 = 1;
const LIVE: u64 = 2;

impl Word {
    fn state(self) -> u64 {
        self.0 >> STATE & 3
    }

    fn tier(self) -> u8 {
        (self.0 >> UNITS) as u8
    }

    fn units(self) -> u64 {
        self.0 & MOST_UNITS
    }

    fn with(self, state: u64, tier: u8, units: u64) -> Word {
        Word(self.0 >> VERSION << VERSION | state << STATE | u64::from(tier) << UNITS | units.min(MOST_UNITS))
    }

    /// Free, under the next version.
    fn freed(self) -> Word {
        Word((self.0 >> VERSION).wrapping_add(1) << VERSION)
    }
}

impl Slot {
    fn load(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    fn exchange(&self, from: Word, to: Word) -> Result<(), Word> {
        let result = self.word.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire);
        result.map(|_| ()).map_err(Word)
    }

    fn key(&self) -> [u64; 2] {
        [self.low.load(Ordering::Relaxed), self.high.load(Ordering::Relaxed)]
    }

    /// Adds to what is counted here of this very key, if it is. 2³⁴ units are as many as it can say: so much is not
    /// admitted of any key.
    fn add(&self, key: [u64; 2], tier: u8, units: u64) -> bool {
        let mut word = self.load();
        while word.state() == LIVE && word.tier() == tier && self.key() == key {
            match self.exchange(word, word.with(LIVE, tier, word.units().saturating_add(units))) {
                Ok(()) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Counts this key here from now on, if the slot is free.
    fn claim(&self, [low, high]: [u64; 2], tier: u8, units: u64) -> bool {
        let word = self.load();
        if word.state() != FREE || self.exchange(word, word.with(CLAIMED, 0, 0)).is_err() {
            return false;
        }
        self.low.store(low, Ordering::Relaxed);
        self.high.store(high, Ordering::Relaxed);
        // published with the word
        self.word.store(word.with(LIVE, tier, units).0, Ordering::Release);
        true
    }

    /// What is counted here, if anything is; one that is just being claimed comes next time.
    fn take(&self) -> Option<Delta> {
        let mut word = self.load();
        while word.state() == LIVE {
            let key = self.key();
            match self.exchange(word, word.freed()) {
                Ok(()) => {
                    return Some(Delta { name: StoreKey::from_halves(key), tier: word.tier(), units: word.units() });
                }
                Err(now) => word = now,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
