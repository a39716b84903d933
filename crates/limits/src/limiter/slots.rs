//! Places that are counted exactly: of `type: inflight` without a key, and of an origin's in-flight cap.
//!
//! One atomic counter, no sketch. A place is lent as a [`Permit`] and comes back when that is dropped: at the answer's end, on
//! error, on a client's abort, on panic and on shutdown alike. There is no way to take a place without a permit.

use std::sync::Arc;

use crate::sync::{AtomicU32, Ordering};

/// Places that requests hold while they are under way.
#[derive(Debug)]
pub struct Slots {
    /// Shared with those that count the same under other numbers.
    held: Arc<AtomicU32>,
    /// Moves where the cap is adaptive. Read and written Relaxed: nothing is published by it, and a request that still goes by
    /// the number before is one that came a moment earlier.
    max: AtomicU32,
    /// Where a place moves when its connection is switched to another protocol.
    upgraded: Option<Arc<Slots>>,
}

impl Slots {
    /// `max` free places.
    pub fn new(max: u32) -> Arc<Slots> {
        Arc::new(Slots { held: Arc::default(), max: AtomicU32::new(max), upgraded: None })
    }

    /// `max` free places, and `upgraded` more for connections that are switched to another protocol: those live for hours, and
    /// would use up the places of ordinary requests.
    pub fn with_upgraded(max: u32, upgraded: u32) -> Arc<Slots> {
        Arc::new(Slots { held: Arc::default(), max: AtomicU32::new(max), upgraded: Some(Slots::new(upgraded)) })
    }

    /// The same places under other numbers: what is taken of these is taken of those, and comes back to both.
    pub fn under(&self, max: u32, upgraded: u32) -> Arc<Slots> {
        let same = |slots: &Arc<Slots>| slots.under(upgraded, upgraded);
        let held = Arc::clone(&self.held);
        Arc::new(Slots { held, max: AtomicU32::new(max), upgraded: self.upgraded.as_ref().map(same) })
    }

    /// Takes one place if one is free. On failure nothing was changed.
    pub fn take(self: &Arc<Slots>) -> Option<Permit> {
        // SeqCst: a waiter announces itself, then looks here; a releaser frees a place, then looks for waiters. In one
        // order of all four steps at least one of the two sees the other, so no waiter sleeps beside a free place.
        self.held
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |held| (held < self.max()).then(|| held + 1))
            .ok()
            .map(|_| Permit { slots: Arc::clone(self) })
    }

    /// How many places are taken at this moment.
    pub fn held(&self) -> u32 {
        self.held.load(Ordering::SeqCst)
    }

    /// How many places there are.
    pub fn max(&self) -> u32 {
        self.max.load(Ordering::Relaxed)
    }

    /// From now on there are `max` places. Those above it that are taken stay so until they are given back; none is taken
    /// meanwhile. Whoever waits for a place must be told by the caller if there are more than before.
    pub fn set_max(&self, max: u32) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Counts places that another process holds, whether they are free or not.
    pub fn hold_elsewhere(&self, places: u32) {
        self.held.fetch_add(places, Ordering::SeqCst);
    }

    /// Takes such places out again.
    pub fn release_elsewhere(&self, places: u32) {
        self.held.fetch_sub(places, Ordering::SeqCst);
    }

    /// How many connections hold a place of the class for switched ones.
    pub fn upgraded(&self) -> u32 {
        self.upgraded.as_ref().map_or(0, |upgraded| upgraded.held())
    }
}

/// One taken place; dropping it gives the place back.
#[derive(Debug)]
#[must_use = "a permit that is dropped at once limits nothing"]
pub struct Permit {
    slots: Arc<Slots>,
}

impl Permit {
    /// Whose place it is.
    pub fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }

    /// Exchanges the place for one of the class for switched connections, if that has room; says whether it did. Where there
    /// is no such class, the place stays what it is.
    pub fn upgrade(&mut self) -> bool {
        let Some(upgraded) = &self.slots.upgraded else { return true };
        match upgraded.take() {
            Some(moved) => {
                *self = moved;
                true
            }
            None => false,
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // SeqCst: see `Slots::take`. Never below zero, as each permit was counted once when it was made.
        self.slots.held.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn fewer_places_wait_for_those_that_are_taken() {
        let slots = Slots::new(2);
        let (first, _second) = (slots.take().unwrap(), slots.take().unwrap());
        slots.set_max(1);
        drop(first);
        assert!(slots.take().is_none(), "one is held, and one is all there is");
        slots.set_max(3);
        assert!(slots.take().is_some());
        assert_eq!(slots.held(), 1);
    }

    #[test]
    fn a_panic_gives_the_place_back() {
        let slots = Slots::new(1);
        let result = catch_unwind(AssertUnwindSafe(|| {
            let _permit = slots.take().unwrap();
            std::panic::resume_unwind(Box::new("in a hook"));
        }));
        assert!(result.is_err());
        assert_eq!(slots.held(), 0);
    }

    #[test]
    fn never_more_than_the_cap_under_contention() {
        let slots = Slots::new(3);
        let peak = AtomicU32::new(0);
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        if let Some(permit) = slots.take() {
                            let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                            peak.fetch_max(now, Ordering::SeqCst);
                            inside.fetch_sub(1, Ordering::SeqCst);
                            drop(permit);
                        }
                    }
                });
            }
        });
        assert!(peak.load(Ordering::SeqCst) <= 3);
        assert_eq!(slots.held(), 0);
    }
}
