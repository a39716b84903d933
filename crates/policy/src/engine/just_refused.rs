//! Keys that a store has just refused, of limits of which it grants some again at any moment, as answers and the ends of requests free it.
//!
//! For [`PAUSE`] such a key is refused without asking, so that a flood on it asks at most fifty times a second, whatever time the store
//! named. In fixed memory: of two keys in one place the later one counts, and the other is asked about.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::sketch::KeyHash;
use crate::units::Timestamp;

/// How long a refusal is believed.
pub const PAUSE: u64 = 20_000_000;

/// How many keys there is room for.
const ROOM: usize = 4_096;

/// Nanoseconds in a tick.
const TICK: u64 = 1 << 20;

/// 32 bits of a key's hash, and 32 of the tick until which it is refused.
#[derive(Debug)]
pub struct JustRefused(Box<[AtomicU64]>);

impl JustRefused {
    /// No key.
    pub fn new() -> JustRefused {
        JustRefused((0..ROOM).map(|_| AtomicU64::new(0)).collect())
    }

    /// The store has refused the key.
    pub fn note(&self, key: KeyHash, now: Timestamp) {
        let (place, tag) = self.place(key);
        // Relaxed: a hint, and nothing else is read by it
        place.into_iter().for_each(|place| place.store(tag | tick(now.nanos() + PAUSE), Ordering::Relaxed));
    }

    /// Whether the store has just refused the key.
    pub fn has(&self, key: KeyHash, now: Timestamp) -> bool {
        let (place, tag) = self.place(key);
        let word = place.map_or(0, |place| place.load(Ordering::Relaxed));
        // ticks go round in 52 days
        let rest = ((word & MASK) as u32).wrapping_sub(tick(now.nanos()) as u32);
        word & !MASK == tag && (1..=(PAUSE / TICK + 1) as u32).contains(&rest)
    }

    /// The store may grant some of the key again.
    pub fn forget(&self, key: KeyHash) {
        let (place, tag) = self.place(key);
        if let Some(place) = place.filter(|place| place.load(Ordering::Relaxed) & !MASK == tag) {
            place.store(0, Ordering::Relaxed);
        }
    }

    fn place(&self, key: KeyHash) -> (Option<&AtomicU64>, u64) {
        let [low, high] = key.halves();
        (self.0.get(low as usize % ROOM), high & !MASK)
    }
}

const MASK: u64 = u32::MAX as u64;

fn tick(nanos: u64) -> u64 {
    (nanos / TICK) & MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_refused_for_a_moment_and_until_some_of_it_is_free() {
        let (refused, key, other) =
            (JustRefused::new(), KeyHash::from_halves([1, 7 << 32]), KeyHash::from_halves([1, 9 << 32]));
        let at = |millis: u64| Timestamp::from_nanos(millis * 1_000_000);
        assert!(!refused.has(key, at(0)));
        refused.note(key, at(1_000));
        assert!(refused.has(key, at(1_000)) && refused.has(key, at(1_018)) && !refused.has(other, at(1_000)));
        assert!(!refused.has(key, at(1_022)) && !refused.has(key, at(900_000)));
        refused.forget(other);
        assert!(refused.has(key, at(1_000)));
        refused.forget(key);
        assert!(!refused.has(key, at(1_000)));
    }
}
