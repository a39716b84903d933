//! `type: inflight`: at most N requests at once.
//!
//! Without a `key` the things counted (the limit itself, routes, origins) are fixed by the policy file, and counted exactly in
//! [`slots`](super::slots). With one they are as many as clients please, and counted in a sketch of
//! [`inflight_by_key`](super::inflight_by_key).

use std::sync::Arc;

use super::kind::MIXED;
use super::needs::Owed;
use super::probe::{Probe, Seen};
use super::spec::{most, most_upgraded};
use super::state::State;
use super::taken::Taken;
use super::{Gauges, InflightByKey, Judgement, Kind, Lost, Moved, Place, Refuses, Scope, Slots, Spec, kinds};
use crate::sketch::Seed;
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// The state of one `inflight` limit without a key.
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
        Some(Kind::Inflight(kinds::Inflight { max, upgraded, scope })) => Ok((*max, *upgraded, *scope)),
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

/// The state of one `inflight` limit by key: the places, and the numbers of the limit and its tiers.
#[derive(Debug)]
pub(super) struct KeyedPlaces {
    places: Arc<InflightByKey>,
    upgraded: Arc<InflightByKey>,
    max: Box<[u32]>,
    most_upgraded: Box<[u32]>,
}

impl KeyedPlaces {
    /// An empty limiter with the numbers of the spec's kinds: the limit's own, then those of its tiers.
    ///
    /// # Errors
    /// No kind, another one, or what [`InflightByKey::new`] refuses.
    pub fn new(spec: &Spec<'_>, seed: &Seed) -> Result<KeyedPlaces, OutOfRange> {
        let Some(Kind::Inflight(kinds::Inflight { scope: Scope::Key { memory }, .. })) = spec.kinds.first() else {
            return Err(MIXED);
        };
        let upgraded = Arc::new(InflightByKey::new(u32::MAX, *memory, seed.derive("upgraded"))?);
        let places = InflightByKey::new(u32::MAX, *memory, seed.clone())?.with_upgraded(Arc::clone(&upgraded));
        KeyedPlaces::of(Arc::new(places), upgraded, spec)
    }

    fn of(
        places: Arc<InflightByKey>,
        upgraded: Arc<InflightByKey>,
        spec: &Spec<'_>,
    ) -> Result<KeyedPlaces, OutOfRange> {
        Ok(KeyedPlaces {
            places,
            upgraded,
            max: spec.kinds.iter().map(most).collect::<Result<_, _>>()?,
            most_upgraded: spec.kinds.iter().map(most_upgraded).collect::<Result<_, _>>()?,
        })
    }
}

impl State for KeyedPlaces {
    fn prefetch(&self, at: &Place<'_>) {
        self.places.prefetch(at.key);
    }

    fn probe(&self, at: &Place<'_>, _now: Timestamp, cost: Cost, _held: u32) -> Probe {
        let spot = self.places.spot(at.key);
        let judgement = self.places.probe_at(spot, cost, of_tier(&self.max, at.tier));
        Probe::new(at, cost, judgement, Seen::Places(spot))
    }

    fn commit(&self, probe: &Probe, _now: Timestamp) -> Result<(Judgement, Option<Taken>), Lost> {
        let Place { key, tier, .. } = probe.place;
        let spot = if let Seen::Places(spot) = probe.seen { spot } else { self.places.spot(key) };
        let (judgement, permit) = self.places.admit_at(key, spot, probe.cost, of_tier(&self.max, tier))?;
        Ok((judgement, Some(Taken::Keyed { permit, most_upgraded: of_tier(&self.most_upgraded, tier) })))
    }

    /// The same places under other numbers.
    fn follow(&self, spec: &Spec<'_>, _: &Moved<'_>) -> Result<Box<dyn State>, OutOfRange> {
        let Some(Kind::Inflight(kinds::Inflight { scope: Scope::Key { .. }, .. })) = spec.kinds.first() else {
            return Err(MIXED);
        };
        Ok(Box::new(KeyedPlaces::of(Arc::clone(&self.places), Arc::clone(&self.upgraded), spec)?))
    }

    fn owed(&self, _: &Kind, _: u8, standing: u64, cost: Cost) -> Owed {
        Owed::units(standing.saturating_add(u64::from(cost.get())), 0)
    }

    fn refuses(&self) -> Refuses {
        Refuses::Concurrency
    }

    fn gives_back(&self) -> bool {
        true
    }

    fn gauge(&self, gauges: &mut Gauges) {
        gauges.inflight = Some(self.places.held_total());
        gauges.upgraded = Some(self.upgraded.held_total());
    }

    fn memory(&self) -> Bytes {
        Bytes(self.places.memory().0 + self.upgraded.memory().0)
    }
}

fn of_tier(numbers: &[u32], tier: u8) -> u32 {
    numbers.get(usize::from(tier)).or(numbers.first()).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sketch::{KeyHasher, Seed};

    fn place(route: usize, origin: Option<usize>) -> Place<'static> {
        Place { key: KeyHasher::new(&Seed::from_bytes([0; 16])).finish(), route, origin, ..Place::default() }
    }

    fn limit(max: u32, scope: Scope, routes: usize, origins: usize) -> Inflight {
        let kind = Kind::Inflight(kinds::Inflight { max, upgraded: 1, scope });
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
}
