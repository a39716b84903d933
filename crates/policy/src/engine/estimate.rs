//! Limits with `sharing: estimate`: this gate decides alone, by the whole limit, and charges what other gates publish as admitted.
//!
//! No request waits or asks. A key is counted by the hash of its name, the one that leaves the process, so that this gate can charge
//! what another published of a name without knowing the key. A face with stores takes out what was admitted here since the last
//! time ([`PeerSync::take`]), publishes it to the other gates, and charges what they published ([`PeerSync::charge`]): added, not the
//! greater of both, and as of now, which is later and so stricter than as of then.
//!
//! **Promise.** With N gates, and what this gate knows of the others no older than Δ: all of them together admit of one key
//! in every interval of length τ at most
//!
//! > burst + rate·τ + (N − 1)·(burst + rate·Δ)
//!
//! *Proof.* Look at the last admission, on gate j. It had charged everything that was admitted anywhere in the interval, by its own
//! limiter, but for the others' last Δ: this is burst + rate·τ at most. What each other admitted in its last Δ is bounded by its own
//! limiter: burst + rate·Δ. So the first Δ of an attack may have N bursts: this finds floods and sheds them early, and
//! is never an exact limit. What the others exceed it by is owed: until it has come back, nothing more passes anywhere.
//!
//! **Charges after the verdict.** Where the answer decides what is charged (`count: responses …`, `cost: response:…`), or bytes are as they
//! pass, the sums count the charge when it is made. Until then the attempt is held back at its own gate alone. With answers that take
//! D at most, what is charged in every interval of length τ is at most
//!
//! > burst + rate·τ + (N − 1)·(burst + rate·(Δ + D))
//!
//! and what answers cost beyond what was held back for them, and bodies under way, at each gate as at a gate alone. *Proof.* Look at the
//! last admission among the requests that were charged, on gate j. What its own limiter had charged or held back then, and what it knew
//! of the others, was burst + rate·τ at most. Each other has charged since then, and in the Δ before, what its own limiter allows in a
//! time of Δ + D.
//!
//! **What a gate publishes after an outage.** Units that were admitted during an outage fade meanwhile, at the limit's rate. Published
//! and charged whole, they would keep out a client that never came near its limit. So of each key no more is published than what
//! stands charged of it here, and what comes back of the limit in [`LONGEST_PERIOD`]. *This keeps the promise:* of k units in a
//! time D of which w stand charged at its end, at least k − w came back, which is rate·D at most. After a period that was no longer
//! than it should be nothing is left out.

use std::sync::Arc;
use std::time::Duration;

use super::keys::{Unkeyed, keys_into, only};
use crate::client::Client;
use crate::client::key::Keys;
use crate::client::store_names::StoreNames;
use crate::limiter::sharing::deltas::message::{LimitId, Section};
use crate::limiter::sharing::deltas::{Delta, Deltas};
use crate::limiter::sharing::{Sharing, StoreKey};
use crate::limiter::{Hold, Kind, Limiter, Place};
use crate::policy::{CostRule, Policy, Route, Rule, Shared};
use crate::request::Request;
use crate::sketch::{KeyHash, KeyHasher, Seed};
use crate::units::{Cost, OutOfRange, Timestamp};

/// The longest time between two messages of a gate, while it reaches the store.
pub const LONGEST_PERIOD: Duration = Duration::from_millis(250);

const ALLOWED: OutOfRange = OutOfRange { allowed: "`rate`, `recent_average` or `quota`" };

/// A limit whose admissions gates publish to each other.
#[derive(Debug)]
pub struct PeerSync {
    shared: Shared,
    secret: u64,
    id: LimitId,
    names: StoreNames,
    /// What names are hashed under: a reader of the store must not know which keys collide here.
    seed: Seed,
    limiter: Arc<Limiter>,
    deltas: Arc<Deltas>,
    /// Bytes per unit of a limit of bytes.
    unit: Option<u32>,
    /// The limit's own numbers, then those of its tiers.
    tiers: Box<[Numbers]>,
}

#[derive(Debug)]
struct Numbers {
    kind: Kind,
    /// What comes back in the longest period.
    fades: u64,
}

impl Numbers {
    fn of(kind: &Kind) -> Numbers {
        Numbers { kind: kind.clone(), fades: fades(kind) }
    }
}

impl PeerSync {
    /// The limit of a rule with `sharing: estimate`; `None` for another rule. It keeps the sums of the limit `before`.
    ///
    /// # Errors
    /// A kind that cannot be estimated.
    pub(super) fn of(
        rule: &Rule,
        limiter: &Arc<Limiter>,
        secret: &[u8],
        seed: &Seed,
        before: Option<&PeerSync>,
    ) -> Result<Option<PeerSync>, OutOfRange> {
        let Some(shared) = rule.shared.filter(|shared| shared.sharing == Sharing::Estimate) else { return Ok(None) };
        let names = StoreNames::new(secret, &rule.name);
        let tiers = rule.tiers.iter().map(|tier| tier.kind.as_ref().unwrap_or(&rule.kind));
        let tiers = std::iter::once(&rule.kind).chain(tiers).map(Numbers::of).collect();
        let unit = match rule.cost {
            CostRule::Bytes { unit } => Some(unit),
            _ => None,
        };
        let shape = rule.kind.unit_shape().ok_or(ALLOWED)?;
        // sums in other units mean something else
        let before = before.filter(|before| before.unit == unit);
        Ok(Some(PeerSync {
            shared,
            // no limit is called nothing
            secret: StoreNames::new(secret, "").limit(),
            id: LimitId { name: names.limit(), shape: shape_of(shape, unit) },
            seed: seed.derive("names in stores"),
            names,
            limiter: Arc::clone(limiter),
            deltas: before.map_or_else(Arc::default, |before| Arc::clone(&before.deltas)),
            unit,
            tiers,
        }))
    }

    /// Returns the store it is shared through.
    pub fn shared(&self) -> Shared {
        self.shared
    }

    /// Identifies the secret that its names are made by, without revealing it.
    pub fn secret(&self) -> u64 {
        self.secret
    }

    /// Returns what all gates know it by.
    pub fn id(&self) -> LimitId {
        self.id
    }

    /// Returns the name of a request's key. Tiers have no names of their own: a client that changes its tier takes along what it spent.
    ///
    /// # Errors
    /// The request has no one key.
    pub(super) fn name(
        &self,
        rule: &Rule,
        policy: &Policy,
        about: (&Request<'_>, &Client, &Route),
    ) -> Result<KeyHash, Unkeyed> {
        let mut names = Keys::from_iter([self.names.begin()]);
        keys_into(&mut names, rule, policy, about)?;
        only(names, |name| KeyHash::from_halves(name.finish().halves()))
    }

    /// Returns the name of a key that no route and no origin is part of.
    pub(super) fn name_of_client(&self, rule: &Rule, request: &Request<'_>, client: &Client) -> Option<StoreKey> {
        let mut names = Keys::from_iter([self.names.begin()]);
        rule.key.add_to(&mut names, request, client, "").ok()?;
        Some(names.pop()?.finish())
    }

    /// Returns the hash under which the limiter counts a key of this name.
    pub(super) fn key(&self, StoreKey(name): StoreKey) -> KeyHash {
        let mut hasher = KeyHasher::new(&self.seed);
        hasher.part(0, &name);
        self.limiter.own_hash().of(hasher.finish())
    }

    /// Counts a request that was admitted at this place: now, or, where it holds an attempt, what its answer costs, then.
    #[inline]
    pub(super) fn admitted(&self, place: &Place, cost: Cost, hold: &mut Option<Hold>) {
        match hold {
            Some(hold) => hold.tell(&self.deltas),
            None => self.count(place, cost),
        }
    }

    /// Counts what was charged at this place, whose value is the name of its key.
    #[inline]
    pub(super) fn count(&self, place: &Place, cost: Cost) {
        self.deltas.count(StoreKey::from_halves(place.value.halves()), place.tier, cost);
    }

    /// Takes out what was admitted since the last time, to publish it; see the module for what is left out after an outage.
    pub fn take(&self, now: Timestamp) -> Section {
        let mut deltas = Vec::new();
        self.deltas.take(|delta| {
            let units = delta.units.min(self.standing(&delta, now));
            if units > 0 {
                deltas.push(Delta { units, ..delta });
            }
        });
        Section { limit: self.id, deltas }
    }

    /// Takes out how many units found no room since the last time and are not published.
    pub fn take_unreported(&self) -> u64 {
        self.deltas.take_unreported()
    }

    /// Charges what another gate published. The caller sees to it that each message is charged once.
    pub fn charge(&self, section: &Section, now: Timestamp) {
        for delta in &section.deltas {
            let units = u32::try_from(delta.units).unwrap_or(u32::MAX);
            if let Ok(cost) = Cost::new(units) {
                self.limiter.charge(&self.place(delta), now, cost);
            }
        }
    }

    /// Returns how much stands charged of a key, plus what comes back in the longest period.
    fn standing(&self, delta: &Delta, now: Timestamp) -> u64 {
        let judgement = self.limiter.probe(&self.place(delta), now, Cost::ONE).judgement;
        // a probe says what is left after one more
        let left = u64::from(judgement.remaining) + u64::from(judgement.admitted);
        let Some(Numbers { kind, fades }) = self.tiers.get(usize::from(delta.tier)).or(self.tiers.first()) else {
            return 0;
        };
        // answers and bodies are charged beyond the limit: then it is what it would take to admit one more, but for that one
        let owed = match judgement.admitted {
            true => 0,
            false => {
                let owed = self.limiter.owed(kind, delta.tier, judgement.standing, Cost::ONE);
                kind.needs(owed).units.map_or(0, |units| u64::from(units).saturating_sub(1))
            }
        };
        // a part of a unit counts as one
        u64::from(judgement.quota).saturating_sub(left).max(owed).saturating_add(*fades)
    }

    fn place(&self, delta: &Delta) -> Place {
        Place { key: self.key(delta.name), tier: delta.tier, ..Place::default() }
    }
}

/// What units mean to other gates, where a unit may be so many bytes.
fn shape_of(shape: u64, bytes: Option<u32>) -> u64 {
    bytes.map_or(shape, |bytes| shape | u64::from(bytes) << 8)
}

/// Returns what comes back in the longest period, rounded up. Of a quota nothing does: its window ends as a whole.
fn fades(kind: &Kind) -> u64 {
    kind.refill().map_or(0, |rate| (rate.per_second() * LONGEST_PERIOD.as_secs_f64()).ceil() as u64 + 1)
}
