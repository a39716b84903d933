//! `type: inflight`: at most N requests at once.
//!
//! Without a `key` the things counted (the limit itself, routes, origins) are fixed by the policy file, and counted exactly in
//! [`slots`](crate::limiter::slots). With one they are as many as clients please, and counted in a sketch of
//! [`by_key`].

pub mod by_key;

use std::sync::Arc;

use super::form::{Allowance, Bound, Counts, Form, FromWords, LimitKind, Part, Shareable, compared, numbers, own};
use by_key::InflightByKey;

use super::words::{Takes, Value, Word, Words};
use super::{Kind, MAX as SHARED_MAX};
use crate::limiter::kind::{MIXED, Scope, Sketch};
use crate::limiter::needs::{Needs, Owed};
use crate::limiter::probe::{Probe, Seen};
use crate::limiter::sharing::Promise;
use crate::limiter::{Gauges, HeldElsewhere, Judgement, Lost, Moved, Place, Refuses, Slots, Spec, State, Taken};
use crate::sketch::{Seed, SummingElsewhere};
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// At most `max` requests at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Inflight {
    /// How many, at least one.
    pub max: u32,
    /// How many connections that were switched to another protocol at once; these do not count in `max`.
    pub upgraded: u32,
    /// What is counted together.
    pub scope: Scope,
}

/// Counts in 32 bits, with none to spare.
const MAX: Word = Word { takes: Takes::Number(1..=u32::MAX), ..SHARED_MAX };

const UPGRADED: Word = Word::new(
    "upgraded",
    Takes::Number(0..=u32::MAX),
    "How many connections that were switched to another protocol (WebSocket) at once; these do not count in `max`. Default: `max`. For \
     `inflight`.",
);

impl Inflight {
    /// The kind before it has numbers.
    pub const FORM: Form = Form {
        synonyms: &["concurrency", "connections"],
        words: &[&MAX, &UPGRADED],
        tier_words: &[&MAX],
        common: &["key", "missing", "tiers"],
        gives_back: true,
        warns_of_small_sketch: false,
        // 65,536 columns of eight rows: 10⁻¹⁴ for a thousand busy keys
        memory: Bytes(2 << 20),
        sharing: Shareable::ByAsking,
        no_delay: Some("when a place becomes free is up to others"),
        ..Form::new::<Inflight>("inflight", "at most `max` at once.", "{ type: inflight, key: client_ip, max: 5 }")
    };
}

impl FromWords for Inflight {
    fn from_words(words: &mut Words) -> Option<Inflight> {
        words.require(&[&MAX]);
        let memory = words.sketch(Sketch::PLACES);
        let max = words.number(&MAX);
        let upgraded = words.number(&UPGRADED).or(max).unwrap_or_default();
        Some(Inflight { max: max?, upgraded, scope: words.scope.unwrap_or(Scope::Key { memory }) })
    }
}

impl Inflight {
    /// Tells whether it counts by key, in a sketch.
    pub fn is_keyed(&self) -> bool {
        matches!(self.scope, Scope::Key { .. })
    }
}

impl LimitKind for Inflight {
    fn form(&self) -> &'static Form {
        &Inflight::FORM
    }

    fn state(&self, spec: &Spec<'_>, seed: &Seed) -> Result<Box<dyn State>, OutOfRange> {
        match self.is_keyed() {
            true => Ok(Box::new(KeyedState::new(spec, seed)?)),
            false => Ok(Box::new(ExactState::new(spec)?)),
        }
    }

    fn bound(&self) -> Option<Bound> {
        None
    }

    fn sketch(&self) -> Option<(Sketch, Bytes)> {
        if let Scope::Key { memory } = self.scope { Some((Sketch::PLACES, memory)) } else { None }
    }

    fn memory_mut(&mut self) -> Option<&mut Bytes> {
        if let Scope::Key { memory } = &mut self.scope { Some(memory) } else { None }
    }

    fn settings(&self) -> Vec<(&'static str, Value)> {
        vec![("max", Value::Number(self.max.into())), ("upgraded", Value::Number(self.upgraded.into()))]
    }

    fn needs(&self, owed: Owed) -> Needs {
        Needs { units: owed.parts().0, ..Needs::default() }
    }

    fn standing(&self) -> Vec<Part> {
        vec![Part::Position(self.max), Part::Text(" of "), Part::Amount(self.max), Part::Text(" at once")]
    }

    fn summary(&self) -> String {
        "{max} at once".to_owned()
    }

    fn tier(&self, words: &mut Words) -> Option<Kind> {
        if !self.is_keyed() {
            // reported with the words that have no place beside an exact count
            return None;
        }
        let max = words.number(&MAX)?;
        let upgraded = if words.present.contains(&"upgraded") { self.upgraded } else { max };
        Some(Inflight { max, upgraded, ..self.clone() }.into())
    }

    fn is_no_looser(&self, other: &dyn LimitKind) -> Option<bool> {
        compared(other, |other: &Inflight| self.max <= other.max && self.scope == other.scope)
    }

    fn most(&self) -> Option<(&'static str, u32)> {
        Some(("max", self.max))
    }

    /// How full the gate or an origin is, is not the client's business.
    fn allowance(&self) -> Option<Allowance> {
        self.is_keyed().then_some(Allowance { quota: u64::from(self.max), counts: Counts::Concurrent, window: None })
    }

    fn scope(&self) -> Option<Scope> {
        Some(self.scope)
    }

    fn store_promise(&self) -> Option<Promise> {
        self.is_keyed().then_some(Promise::Places { max: self.max })
    }
}

/// The state of one `inflight` limit without a key.
#[derive(Debug)]
struct ExactState {
    scope: Scope,
    slots: Vec<Arc<Slots>>,
}

impl ExactState {
    /// `max` places, and `upgraded` for switched connections, for everything that the scope tells apart.
    ///
    /// # Errors
    /// No kind, or another one.
    pub fn new(spec: &Spec<'_>) -> Result<ExactState, OutOfRange> {
        let Inflight { max, upgraded, scope } = *own(spec)?;
        let count = match scope {
            Scope::Global => 1,
            Scope::Route => spec.routes,
            // the last one stands for routes without an origin
            Scope::Origin => spec.origins + 1,
            // counted by a sketch elsewhere; one place for all is the strict reading of a mistake
            Scope::Key { .. } => 1,
        };
        Ok(ExactState { scope, slots: (0..count).map(|_| Slots::with_upgraded(max, upgraded)).collect() })
    }

    /// How many places are taken, of everything together.
    pub fn held(&self) -> u64 {
        self.slots.iter().map(|slots| u64::from(slots.held())).sum()
    }

    /// How many connections hold a place of the class for switched ones.
    pub fn upgraded(&self) -> u64 {
        self.slots.iter().map(|slots| u64::from(slots.upgraded())).sum()
    }

    fn slots_of(&self, place: &Place) -> Option<&Arc<Slots>> {
        self.slots.get(position(self.scope, self.slots.len(), place))
    }
}

/// Where the place's slots are.
fn position(scope: Scope, slots: usize, place: &Place) -> usize {
    match scope {
        Scope::Global | Scope::Key { .. } => 0,
        Scope::Route => place.route,
        Scope::Origin => place.origin.unwrap_or(slots.saturating_sub(1)),
    }
}

/// Places of all slots that another process holds.
#[derive(Debug)]
struct ExactElsewhere {
    scope: Scope,
    /// With how many.
    slots: Vec<(Arc<Slots>, u32)>,
}

impl ExactElsewhere {
    fn of(&mut self, place: &Place) -> Option<&mut (Arc<Slots>, u32)> {
        let at = position(self.scope, self.slots.len(), place);
        self.slots.get_mut(at)
    }
}

impl HeldElsewhere for ExactElsewhere {
    fn take(&mut self, place: &Place, _cost: Cost) {
        if let Some((slots, held)) = self.of(place) {
            slots.hold_elsewhere(1);
            *held += 1;
        }
    }

    fn give_back(&mut self, place: &Place, _cost: Cost) {
        if let Some((slots, held)) = self.of(place).filter(|(_, held)| *held > 0) {
            slots.release_elsewhere(1);
            *held -= 1;
        }
    }
}

impl Drop for ExactElsewhere {
    fn drop(&mut self) {
        self.slots.iter().for_each(|(slots, held)| slots.release_elsewhere(*held));
    }
}

impl State for ExactState {
    /// A route or origin that the policy does not have is refused.
    fn probe(&self, at: &Place, _now: Timestamp, cost: Cost, _held: u32) -> Probe {
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
        let Inflight { max, upgraded, .. } = *own(spec)?;
        let under = |place: usize| self.slots.get(place).map(|slots| slots.under(max, upgraded));
        let kept =
            |before: &Option<usize>| before.and_then(under).unwrap_or_else(|| Slots::with_upgraded(max, upgraded));
        let slots = match self.scope {
            Scope::Global | Scope::Key { .. } => vec![kept(&Some(0))],
            Scope::Route => moved.routes.iter().map(kept).collect(),
            Scope::Origin => moved.origins.iter().map(kept).chain([kept(&self.slots.len().checked_sub(1))]).collect(),
        };
        Ok(Box::new(ExactState { scope: self.scope, slots }))
    }

    /// By position, which routes and origins may have another one of in another policy.
    fn held(&self) -> Vec<u32> {
        self.slots.iter().map(|slots| slots.held()).collect()
    }

    fn hold_elsewhere(&self, cells: &[u32]) -> Option<Box<dyn HeldElsewhere>> {
        if cells.len() != self.slots.len() {
            return None;
        }
        let slots = self.slots.iter().zip(cells);
        slots.clone().for_each(|(slots, held)| slots.hold_elsewhere(*held));
        let slots = slots.map(|(slots, held)| (Arc::clone(slots), *held)).collect();
        Some(Box::new(ExactElsewhere { scope: self.scope, slots }))
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

    fn is_exact(&self, _: &Place) -> bool {
        true
    }

    fn gauge(&self, gauges: &mut Gauges, _now: Timestamp) {
        gauges.inflight = Some(self.held());
        gauges.upgraded = Some(self.upgraded());
    }

    /// What the counters take.
    fn memory(&self) -> Bytes {
        Bytes((2 * self.slots.len() * size_of::<Slots>()) as u64)
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
struct KeyedState {
    places: Arc<InflightByKey>,
    upgraded: Arc<InflightByKey>,
    max: Box<[u32]>,
    most_upgraded: Box<[u32]>,
}

impl KeyedState {
    /// An empty limiter with the numbers of the spec's kinds: the limit's own, then those of its tiers.
    ///
    /// # Errors
    /// No kind, another one, or what [`InflightByKey::new`] refuses.
    pub fn new(spec: &Spec<'_>, seed: &Seed) -> Result<KeyedState, OutOfRange> {
        let Inflight { scope: Scope::Key { memory }, .. } = own(spec)? else { return Err(MIXED) };
        let upgraded = Arc::new(InflightByKey::new(u32::MAX, *memory, seed.derive("upgraded"))?);
        let places = InflightByKey::new(u32::MAX, *memory, seed.clone())?.with_upgraded(Arc::clone(&upgraded));
        KeyedState::of(Arc::new(places), upgraded, spec)
    }

    fn of(places: Arc<InflightByKey>, upgraded: Arc<InflightByKey>, spec: &Spec<'_>) -> Result<KeyedState, OutOfRange> {
        let each = |number: fn(&Inflight) -> u32| spec.kinds.iter().map(|kind| numbers(kind).map(number)).collect();
        let each = |number| -> Result<Box<[u32]>, OutOfRange> { each(number) };
        Ok(KeyedState {
            places,
            upgraded,
            max: each(|numbers| numbers.max)?,
            most_upgraded: each(|numbers| numbers.upgraded)?,
        })
    }
}

impl State for KeyedState {
    fn prefetch(&self, at: &Place) {
        self.places.prefetch(at.key);
    }

    fn probe(&self, at: &Place, _now: Timestamp, cost: Cost, _held: u32) -> Probe {
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
        let Inflight { scope: Scope::Key { .. }, .. } = own(spec)? else { return Err(MIXED) };
        Ok(Box::new(KeyedState::of(Arc::clone(&self.places), Arc::clone(&self.upgraded), spec)?))
    }

    fn held(&self) -> Vec<u32> {
        self.places.table().cells_held()
    }

    fn hold_elsewhere(&self, cells: &[u32]) -> Option<Box<dyn HeldElsewhere>> {
        let cells = self.places.table().hold_elsewhere(cells)?;
        Some(Box::new(KeyedElsewhere { places: Arc::clone(&self.places), cells }))
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

    fn gauge(&self, gauges: &mut Gauges, _now: Timestamp) {
        gauges.inflight = Some(self.places.held_total());
        gauges.upgraded = Some(self.upgraded.held_total());
    }

    fn memory(&self) -> Bytes {
        Bytes(self.places.memory().0 + self.upgraded.memory().0)
    }
}

/// Places by key that another process holds.
#[derive(Debug)]
struct KeyedElsewhere {
    places: Arc<InflightByKey>,
    cells: SummingElsewhere,
}

impl HeldElsewhere for KeyedElsewhere {
    fn take(&mut self, place: &Place, cost: Cost) {
        self.places.table().add_elsewhere(&mut self.cells, place.key, cost.get());
    }

    fn give_back(&mut self, place: &Place, cost: Cost) {
        self.places.table().release_elsewhere(&mut self.cells, place.key, cost.get());
    }
}

impl Drop for KeyedElsewhere {
    fn drop(&mut self) {
        self.places.table().end_elsewhere(&mut self.cells);
    }
}

fn of_tier(numbers: &[u32], tier: u8) -> u32 {
    numbers.get(usize::from(tier)).or(numbers.first()).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests;
