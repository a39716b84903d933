//! `type: inflight`, and the in-flight cap of an origin: at most N requests at once, counted exactly.
//!
//! The things counted (the limit itself, routes, origins) are fixed by the policy file, so each has one atomic counter and
//! no sketch is needed. A place is lent as a [`Permit`] and comes back when that is dropped: at the answer's end, on error, on a
//! client's abort, on panic and on shutdown alike. There is no way to take a place without a permit.

use std::sync::Arc;

use super::kind::MIXED;
use super::needs::Owed;
use super::probe::{Probe, Seen};
use super::state::State;
use super::taken::Taken;
use super::{Gauges, Judgement, Kind, Lost, Moved, Place, Refuses, Scope, Spec};
use crate::sync::{AtomicU32, Ordering};
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

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

/// The state of one `inflight` limit.
#[derive(Debug)]
pub struct Inflight {
    scope: Scope,
    slots: Vec<Arc<Slots>>,
}

impl Inflight {
    /// `max` places, and `upgraded` for switched connections, for everything that the scope tells apart.
    ///
    /// # Errors
    /// No kind, or another one.
    pub fn new(spec: &Spec<'_>) -> Result<Inflight, OutOfRange> {
        let (max, upgraded, scope) = numbers(spec)?;
        let count = match scope {
            Scope::Global => 1,
            Scope::Route => spec.routes,
            // the last one stands for routes without an origin
            Scope::Origin => spec.origin_caps.len() + 1,
            // counted by a sketch elsewhere; one place for all is the strict reading of a mistake
            Scope::Key { .. } => 1,
        };
        Ok(Inflight { scope, slots: (0..count).map(|_| Slots::with_upgraded(max, upgraded)).collect() })
    }

    /// How many places are taken, of everything together.
    pub fn held(&self) -> u64 {
        self.slots.iter().map(|slots| u64::from(slots.held())).sum()
    }

    /// How many connections hold a place of the class for switched ones.
    pub fn upgraded(&self) -> u64 {
        self.slots.iter().map(|slots| u64::from(slots.upgraded())).sum()
    }

    fn slots_of(&self, place: &Place<'_>) -> Option<&Arc<Slots>> {
        match self.scope {
            Scope::Global | Scope::Key { .. } => self.slots.first(),
            Scope::Route => self.slots.get(place.route),
            Scope::Origin => place.origin.map_or(self.slots.last(), |origin| self.slots.get(origin)),
        }
    }
}

impl State for Inflight {
    /// A route or origin that the policy does not have is refused.
    fn probe(&self, at: &Place<'_>, _now: Timestamp, cost: Cost, _held: u32) -> Probe {
        let judgement = match self.slots_of(at) {
            Some(slots) => judgement(slots, slots.held(), slots.held() < slots.max()),
            None => Judgement::REFUSED,
        };
        Probe::new(at, cost, judgement, Seen::Nothing)
    }

    fn commit(&self, probe: &Probe, _now: Timestamp) -> Result<(Judgement, Option<Taken>), Lost> {
        let slots = self.slots_of(&probe.place).ok_or(Lost::refused(Judgement::REFUSED))?;
        match slots.take() {
            Some(permit) => Ok((judgement(slots, slots.held().saturating_sub(1), true), Some(Taken::Exact(permit)))),
            None => Err(Lost::refused(judgement(slots, slots.held(), false))),
        }
    }

    /// The same places under other numbers.
    fn follow(&self, spec: &Spec<'_>, moved: &Moved<'_>) -> Result<Box<dyn State>, OutOfRange> {
        let (max, upgraded, _) = numbers(spec)?;
        let under = |place: usize| self.slots.get(place).map(|slots| slots.under(max, upgraded));
        let kept =
            |before: &Option<usize>| before.and_then(under).unwrap_or_else(|| Slots::with_upgraded(max, upgraded));
        let slots = match self.scope {
            Scope::Global | Scope::Key { .. } => vec![kept(&Some(0))],
            Scope::Route => moved.routes.iter().map(kept).collect(),
            Scope::Origin => moved.origins.iter().map(kept).chain([kept(&self.slots.len().checked_sub(1))]).collect(),
        };
        Ok(Box::new(Inflight { scope: self.scope, slots }))
    }

    fn owed(&self, _: &Kind, _: u8, standing: u64, _: Cost) -> Owed {
        Owed::units(standing.saturating_add(1), 0)
    }

    fn refuses(&self) -> Refuses {
        Refuses::Room
    }

    fn gives_back(&self) -> bool {
        true
    }

    fn is_keyed(&self) -> bool {
        false
    }

    fn is_exact(&self, _: &Place<'_>) -> bool {
        true
    }

    fn gauge(&self, gauges: &mut Gauges) {
        gauges.inflight = Some(self.held());
        gauges.upgraded = Some(self.upgraded());
    }

    /// What the counters take.
    fn memory(&self) -> Bytes {
        Bytes((2 * self.slots.len() * size_of::<Slots>()) as u64)
    }
}

fn numbers(spec: &Spec<'_>) -> Result<(u32, u32, Scope), OutOfRange> {
    match spec.kinds.first() {
        Some(Kind::Inflight { max, upgraded, scope }) => Ok((*max, *upgraded, *scope)),
        _ => Err(MIXED),
    }
}

/// `others`: places held without counting this request.
fn judgement(slots: &Slots, others: u32, admitted: bool) -> Judgement {
    let quota = slots.max();
    let free = quota.saturating_sub(others);
    // a place comes back when another request ends, which nobody can promise
    match admitted {
        true => Judgement::admitted(free.saturating_sub(1), quota),
        false => Judgement { remaining: free, quota, standing: u64::from(others), ..Judgement::REFUSED },
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::sketch::{KeyHasher, Seed};

    fn place(route: usize, origin: Option<usize>) -> Place<'static> {
        Place { key: KeyHasher::new(&Seed::from_bytes([0; 16])).finish(), route, origin, ..Place::default() }
    }

    fn limit(max: u32, scope: Scope, routes: usize, origins: usize) -> Inflight {
        let kind = Kind::Inflight { max, upgraded: 1, scope };
        let caps = vec![None; origins];
        let spec = Spec { routes, origin_caps: &caps, ..Spec::new("tested", std::slice::from_ref(&kind)) };
        Inflight::new(&spec).unwrap()
    }

    fn fits(limit: &Inflight, place: Place<'_>) -> bool {
        limit.probe(&place, Timestamp::ZERO, Cost::ONE, 0).judgement.admitted
    }

    fn take(limit: &Inflight, place: Place<'_>) -> Option<(Judgement, Taken)> {
        let (judgement, taken) = limit.commit(&Probe::unasked(&place, Cost::ONE), Timestamp::ZERO).ok()?;
        Some((judgement, taken?))
    }

    #[test]
    fn the_cap_holds_and_a_dropped_permit_is_a_free_place() {
        let limit = limit(2, Scope::Global, 1, 1);
        let (first, a) = take(&limit, place(0, None)).unwrap();
        let (second, b) = take(&limit, place(0, None)).unwrap();
        assert_eq!((first.remaining, second.remaining), (1, 0));
        assert!(!fits(&limit, place(0, None)));
        assert!(take(&limit, place(0, None)).is_none());
        drop(a);
        assert!(take(&limit, place(0, None)).is_some());
        drop(b);
        assert_eq!(limit.held(), 0);
    }

    #[test]
    fn scopes_keep_routes_and_origins_apart() {
        let by_route = limit(1, Scope::Route, 2, 0);
        let _held = take(&by_route, place(0, None)).unwrap();
        assert!(!fits(&by_route, place(0, None)));
        assert!(fits(&by_route, place(1, None)));
        let by_origin = limit(1, Scope::Origin, 1, 2);
        let _held = take(&by_origin, place(0, Some(1))).unwrap();
        assert!(!fits(&by_origin, place(0, Some(1))));
        assert!(fits(&by_origin, place(0, Some(0))));
        assert!(fits(&by_origin, place(0, None)));
        assert!(!fits(&by_origin, place(0, Some(7))), "an origin that does not exist has no places");
    }

    #[test]
    fn a_switched_connection_leaves_its_place_to_others() {
        let limit = limit(1, Scope::Global, 1, 1);
        let (_, mut stream) = take(&limit, place(0, None)).unwrap();
        assert!(take(&limit, place(0, None)).is_none());
        assert!(stream.upgrade());
        assert_eq!((limit.held(), limit.upgraded()), (0, 1));
        let (_, mut second) = take(&limit, place(0, None)).unwrap();
        assert!(!second.upgrade(), "the class has its own bound");
        assert_eq!((limit.held(), limit.upgraded()), (1, 1));
        drop((stream, second));
        assert_eq!((limit.held(), limit.upgraded()), (0, 0));
    }

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
