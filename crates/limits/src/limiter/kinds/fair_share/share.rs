//! `type: fair_share`: over the capacity, the heaviest give way first, at the narrowest level that explains them.
//!
//! rakelimit's hierarchical heavy hitters (Otten 2020) for HTTP. Requests are grouped by a list of *nodes*, from the
//! most specific to the most general: client and route, client, /24, /16. For each the **offered** rate is estimated,
//! refused requests included. Level by level, the heaviest node r/m is held against a base share α; the first above it
//! is the one that explains the load. Its requests are thinned at random, in proportion to their numbers, then capped.
//! In the wider networks they then count apart from the traffic of their neighbours, which stay clean ([`Parents`]).
//!
//! What is different from the source, and why:
//!
//! * **a total** that is always charged and exact; α is no fixed limit but steered so that the total fits, and without
//!   pressure nothing is refused;
//! * **multipliers by level**: one limit at all levels makes the well-behaved clients of a network share what one
//!   client may take. Two hundred sources of a /24 that sent more each got more in sum: 5,008/s at 100/s each, 33/s at
//!   20/s each;
//! * **limited traffic is seen by its networks**, in a lane of its own. Where it is not, as in the source, there are
//!   two shares at which the total fits: once α has fallen below what each of a network's many hosts sends, they are
//!   limited one by one, the network is never seen, and α must stay far below what honest clients ask (a /16 of 5,000
//!   hosts: 8 % of theirs passed, now all);
//! * **thinning, then a cap**: a bucket alone starves the meek members of a shared node (1 % of theirs pass, instead of
//!   24 %), thinning alone lets a flood through while its rate is being learned.
//!
//! **Promise.** In every interval of length τ at most `C·(τ + ¼ s)` are admitted (or C·τ + 8, if that is more). What a
//! node limits passes at most at `max(α)·m·(τ + ½ s)` (or max(α)·m·τ + 2), once for each of its two lanes. Everything
//! else is statistics: which node is found heavy hangs on estimates that collisions can only raise, and whom thinning
//! hits on the dice.
//!
//! **Re-keying.** Collisions last ten minutes ([`rekeyed`](crate::sketch::rekeyed)), if [`FairShare::maintain`] is called. Rates
//! and caps go on in the new tables where they were: a flood that is held down stays held down, and nobody gains a budget.
//!
//! *A refused request* costs the reads and raises of the levels up to the one that refused it. *Nothing is told to the
//! client*: how near the total is to its end is not his business, and a retry time only where it is known.

use std::sync::Arc;

use arrayvec::ArrayVec;

use super::caps::Caps;
use super::controller::Controller;
use super::root::{Full, Total};
pub use super::spec::{Capacity, DEFAULT_HALF_LIFE, DEFAULT_MEMORY, FairShareSpec, NodeSpec, Parents};
use crate::limiter::{Judgement, Lost, MAX_NODES};
use crate::sketch::offered::{KeyRate, OneMore};
use crate::sketch::{Admission, KeyHash, OfferedRates, Seed};
use crate::sync::AtomicU64;
use crate::units::{Bytes, Dice, OutOfRange, Timestamp};

/// The state of one fair share.
#[derive(Debug)]
pub struct FairShare {
    nodes: Vec<Node>,
    /// Shared with those that it follows.
    rates: Arc<OfferedRates>,
    caps: Option<Arc<Caps>>,
    steered: Arc<Steered>,
    parents: Parents,
}

/// What is one for all nodes.
#[derive(Debug)]
struct Steered {
    total: Total<AtomicU64>,
    controller: Controller<AtomicU64>,
}

#[derive(Debug)]
struct Node {
    level: u8,
    multiplier: f64,
    /// Whether the next node, if any, belongs to another level.
    closes_level: bool,
}

/// What became of a request that was offered.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Offered {
    /// Why it may not pass; `None` if it may.
    pub refusal: Option<Refusal>,
    /// The node whose share it exceeds: the one that refused it, or the most specific that thinned it and let it
    /// through. `None` if it exceeds none, if the total refused it, and for requests that no node applies to.
    pub node: Option<usize>,
    /// That node's level.
    pub level: Option<u8>,
    /// The rate per second at which that node's key is offered, or the heaviest of the last level looked at. An
    /// estimate, never too low on one thread.
    pub rate: f64,
    /// The base share α by which it was judged; times its multiplier it is the share of a node.
    pub share: f64,
    /// Nanoseconds until the total has room; zero if it did not refuse.
    retry_nanos: u64,
    /// The places (see [`Heaviest`]) whose caps it uses up if admitted, as bits.
    limited: u32,
}

/// Who refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The dice, in proportion to how much the node is over its share.
    Thinned,
    /// The cap of a node that is over its share.
    Capped,
    /// The total: no node is to blame, and there is no room.
    Total,
}

impl Offered {
    /// Whether it may pass.
    pub fn admitted(&self) -> bool {
        self.refusal.is_none()
    }

    /// The judgement, of a fair share with so many nodes. It never tells a quota or what is left of it, and a wait only for the
    /// total: when a thinned request would pass cannot be promised.
    pub fn judgement(&self, nodes: usize) -> Judgement {
        let Some(refusal) = self.refusal else { return Judgement::admitted(0, 0) };
        let total = refusal == Refusal::Total;
        let node = if total { Some(nodes) } else { self.node };
        Judgement {
            retry_nanos: total.then_some(self.retry_nanos),
            // both numbers are estimates, and half their digits tell as much
            standing: u64::from((self.rate as f32).to_bits()) << 32 | u64::from((self.share as f32).to_bits()),
            node: node.and_then(|node| u8::try_from(node).ok()),
            ..Judgement::REFUSED
        }
    }
}

impl FairShare {
    /// A fair share under no pressure. `seed` draws the columns of its tables; keys are hashed under another.
    ///
    /// # Errors
    /// What [`FairShareSpec::validate`] refuses.
    pub fn new(spec: &FairShareSpec, seed: &Seed) -> Result<FairShare, OutOfRange> {
        spec.validate()?;
        let rates = OfferedRates::new(Bytes(spec.memory.0 / 2), spec.half_life, &seed.derive("rates"))?;
        let caps = match spec.caps {
            true => Some(Arc::new(Caps::new(Bytes(spec.memory.0 / 4), &seed.derive("caps"))?)),
            false => None,
        };
        let controller = Controller::new(spec.alpha_fixed, rates.per_event());
        if let Capacity::Rate(rate) = spec.capacity {
            controller.set_capacity(rate.per_second());
        }
        Ok(FairShare {
            nodes: nodes(spec),
            rates: Arc::new(rates),
            caps,
            steered: Arc::new(Steered { total: Total::default(), controller }),
            parents: spec.parents,
        })
    }

    /// The same rates and caps with other multipliers or levels, or another answer to where limited traffic counts. The capacity stays what it
    /// is until [`FairShare::set_capacity`] is called; there must be as many nodes as before, of the same keys.
    ///
    /// # Errors
    /// What [`FairShareSpec::validate`] refuses.
    pub fn followed_by(&self, spec: &FairShareSpec) -> Result<FairShare, OutOfRange> {
        spec.validate()?;
        Ok(FairShare {
            nodes: nodes(spec),
            rates: Arc::clone(&self.rates),
            caps: self.caps.clone(),
            steered: Arc::clone(&self.steered),
            parents: spec.parents,
        })
    }

    /// Counts a request as offered and judges it; charges nothing. `keys` has the hash of its value of every node, in
    /// their order, or `None` where a node does not apply to it; missing ones at the end count as `None`. Hashes of
    /// different nodes may be equal. All requests without any key count as one client. `dice` is uniform over all of
    /// `u64`.
    ///
    /// To be called once per request, whatever other limits say of it: what they refuse was offered nevertheless.
    pub fn offer(&self, keys: &[Option<KeyHash>], now: Timestamp, dice: u64) -> Offered {
        self.steered.controller.tick(&self.steered.total, now);
        let share = self.steered.controller.share(&self.steered.total, now);
        let mut offered =
            Offered { refusal: None, node: None, level: None, rate: 0.0, share, retry_nanos: 0, limited: 0 };
        // all of them before the first is raised, so that the cache misses and the logarithms of one request overlap
        let mut seen: ArrayVec<Option<(KeyRate, OneMore)>, MAX_NODES> = ArrayVec::new();
        for (index, key) in keys.iter().take(self.nodes.len()).enumerate() {
            // there are at most as many nodes
            let _ = seen.try_push(key.map(|key| (KeyRate::of(key, index), OneMore::default())));
            // read where it stays
            if let Some(Some((seen, _))) = seen.last_mut() {
                self.rates.look(seen);
            }
        }
        for (seen, more) in seen.iter_mut().flatten() {
            *more = self.rates.one_more(seen, now);
        }
        let mut peak = 0.0_f64;
        let mut heaviest: Option<Heaviest> = None;
        let mut known = false;
        for (index, node) in self.nodes.iter().enumerate() {
            if let Some(Some((seen, more))) = seen.get(index) {
                let apart = offered.limited != 0 && self.parents == Parents::Apart;
                let candidate = match apart {
                    true => {
                        let seen = self.rates.read(seen.key(), index + APART);
                        let more = self.rates.one_more(&seen, now);
                        self.weigh(&seen, &more, index + APART, node.multiplier)
                    }
                    false => self.weigh(seen, more, index, node.multiplier),
                };
                known = true;
                if heaviest.is_none_or(|other| candidate.weight > other.weight) {
                    heaviest = Some(candidate);
                }
            }
            if !node.closes_level {
                continue;
            }
            let unknown = || (!known && index + 1 == self.nodes.len()).then(|| self.weigh_unknown(now));
            let Some(heaviest) = heaviest.take().or_else(unknown) else { continue };
            peak = peak.max(heaviest.weight);
            if offered.node.is_none() {
                offered.rate = heaviest.rate;
            }
            if heaviest.weight <= share {
                continue;
            }
            let heavy_node = self.nodes.get(heaviest.place % APART);
            offered.refusal = self.limit(heaviest, node_share(share, heavy_node), now, dice);
            if offered.node.is_none() || offered.refusal.is_some() {
                offered.node = heavy_node.map(|_| heaviest.place % APART);
                offered.level = heavy_node.map(|node| node.level);
                offered.rate = heaviest.rate;
            }
            offered.limited |= 1 << heaviest.place;
            if offered.refusal.is_some() || self.parents == Parents::Spared {
                break;
            }
        }
        self.steered.controller.weighed(peak);
        if offered.refusal.is_none()
            && let Err(full) = self.steered.total.probe(now)
        {
            // the demand that the total turns away is what α is steered by
            self.steered.controller.reached();
            (offered.refusal, offered.node, offered.level) = (Some(Refusal::Total), None, None);
            offered.retry_nanos = full.retry_nanos;
        }
        offered
    }

    /// Has what a key of this node will be judged by brought near, for who is about to offer it.
    #[inline]
    pub fn prefetch(&self, key: KeyHash, node: usize) {
        self.rates.prefetch(key, node);
    }

    /// Charges a request that [`FairShare::offer`] would let pass, with the same keys: the total first, then the caps
    /// of the nodes whose shares it exceeds.
    ///
    /// # Errors
    /// Others were faster, or it was refused before. A cap that is lost to others leaves the total charged: counted too high, never too low.
    pub fn admit(&self, keys: &[Option<KeyHash>], offered: &Offered, now: Timestamp) -> Result<Judgement, Lost> {
        if !offered.admitted() {
            return Err(Lost::refused(offered.judgement(self.nodes.len())));
        }
        self.steered.controller.reached();
        self.steered.total.charge(now).map_err(|Full { retry_nanos, contended }| {
            let refused = Offered { refusal: Some(Refusal::Total), retry_nanos, ..*offered };
            Lost { judgement: refused.judgement(self.nodes.len()), contended }
        })?;
        if let Some(caps) = &self.caps
            && offered.limited != 0
        {
            self.charge_caps(caps, keys, offered, now)?;
        }
        Ok(offered.judgement(self.nodes.len()))
    }

    /// Sets the capacity of [`Capacity::Follows`] (or overrides the number of [`Capacity::Rate`]), in requests per
    /// second; in force within a tenth of a second. Held within 1e-5 to 1e7. What is no positive number is ignored: the
    /// last value stands, and before the first there is no limit.
    pub fn set_capacity(&self, per_second: f64) {
        if per_second > 0.0 {
            self.steered.controller.set_capacity(per_second.clamp(1e-5, 1e7));
        }
    }

    /// The base share α per second; infinite while no capacity is known.
    pub fn alpha(&self) -> f64 {
        self.steered.controller.alpha()
    }

    /// The capacity per second, `None` while it is not known.
    pub fn capacity(&self) -> Option<f64> {
        self.steered.controller.capacity()
    }

    /// Requests per second that reach the total after thinning, whether it has room for them or not; a mean of about
    /// 0.2 s, as of the last tick.
    pub fn offered_rate(&self) -> f64 {
        self.steered.controller.demand()
    }

    /// Housekeeping, to be called about once a second and never on the path of a request: re-keys both pairs of tables
    /// when that is due, ten minutes after the last time.
    pub fn maintain(&self, now: Timestamp) {
        self.rates.maintain(now);
        if let Some(caps) = &self.caps {
            caps.maintain(now);
        }
    }

    /// How often all of the tables were re-keyed so far.
    pub fn rekeyings(&self) -> u64 {
        self.caps.as_ref().map_or(u64::MAX, |caps| caps.rekeyings()).min(self.rates.rekeyings())
    }

    /// How many nodes it has.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The memory of all tables, the same from the first request to the last.
    pub fn memory(&self) -> Bytes {
        Bytes(self.rates.memory().0 + self.caps.as_ref().map_or(0, |caps| caps.memory().0))
    }

    #[inline]
    fn weigh(&self, seen: &KeyRate, more: &OneMore, place: usize, multiplier: f64) -> Heaviest {
        self.rates.raise(seen, more);
        Heaviest { place, key: seen.key(), rate: more.rate, weight: more.rate / multiplier }
    }

    /// All requests to which no node applies are one client.
    fn weigh_unknown(&self, now: Timestamp) -> Heaviest {
        let seen = self.rates.read(KeyHash::default(), UNKNOWN);
        let more = self.rates.one_more(&seen, now);
        self.weigh(&seen, &more, UNKNOWN, 1.0)
    }

    /// Thins, then asks the cap.
    fn limit(&self, heaviest: Heaviest, node_share: f64, now: Timestamp, dice: u64) -> Option<Refusal> {
        if uniform(dice, heaviest.place) * heaviest.rate > node_share {
            return Some(Refusal::Thinned);
        }
        let fits = |caps: &Arc<Caps>| caps.probe(heaviest.key, heaviest.place, node_share, now);
        if self.caps.as_ref().is_none_or(fits) { None } else { Some(Refusal::Capped) }
    }

    fn charge_caps(
        &self,
        caps: &Caps,
        keys: &[Option<KeyHash>],
        offered: &Offered,
        now: Timestamp,
    ) -> Result<(), Lost> {
        let mut rest = offered.limited;
        while rest != 0 {
            let place = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let index = place % APART;
            let known = keys.get(index).copied().flatten();
            let Some(key) = known.or((place == UNKNOWN).then(KeyHash::default)) else { continue };
            let admission = caps.admit(key, place, node_share(offered.share, self.nodes.get(index)), now);
            if !matches!(admission, Admission::Admitted { .. }) {
                let refused = Offered { refusal: Some(Refusal::Capped), ..*offered };
                let contended = matches!(admission, Admission::Contended { .. });
                return Err(Lost { judgement: refused.judgement(self.nodes.len()), contended });
            }
        }
        Ok(())
    }
}

fn nodes(spec: &FairShareSpec) -> Vec<Node> {
    let node = |(index, node): (usize, &NodeSpec)| Node {
        level: node.level,
        multiplier: node.multiplier,
        closes_level: spec.nodes.get(index + 1).is_none_or(|next| next.level != node.level),
    };
    spec.nodes.iter().enumerate().map(node).collect()
}

/// The heaviest node of a level.
#[derive(Clone, Copy)]
struct Heaviest {
    /// Where it is counted: the number of the node, or [`APART`] above it, or [`UNKNOWN`].
    place: usize,
    key: KeyHash,
    rate: f64,
    /// Rate over multiplier.
    weight: f64,
}

/// Traffic that a more specific node has limited is counted so far above the others of a node ([`Parents::Apart`]).
const APART: usize = 16;

/// Where requests are counted to which no node applies.
const UNKNOWN: usize = APART - 1;

const _: () = assert!(MAX_NODES <= UNKNOWN, "places of nodes and lanes must not meet");

#[inline]
fn node_share(share: f64, node: Option<&Node>) -> f64 {
    node.map_or(share, |node| share * node.multiplier)
}

/// A number in 0 to 1, 1 excluded, for this node: each level draws anew.
#[inline]
fn uniform(dice: u64, node: usize) -> f64 {
    // a stream of its own for every decision, of which each node takes another number
    Dice(dice).skip(node as u64).unit()
}
