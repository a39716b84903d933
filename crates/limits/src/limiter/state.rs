//! The state of a limit: one per kind, and what all kinds have. [`State`] is the only list of the kinds.

use std::sync::Arc;
use std::time::Duration;

use super::distinct::Distinct;
use super::fair_share::{self, FairShare, Offered};
use super::follows::Follows;
use super::inflight::Inflight;
use super::inflight_by_key::InflightByKey;
use super::judgement::{Judgement, Lost, Place, Refuses};
use super::kind::{Capacity, MIXED, Scope, fixed};
use super::needs::Owed;
use super::pardoned::Pardons;
use super::pending::Pending;
use super::quota::{self, QuotaLimiter};
use super::rate::{self, RateLimiter};
use super::recent_average::RecentAverageLimiter;
use super::sliding_quota::SlidingQuota;
use super::spec::{Spec, most, most_upgraded};
use super::{Kind, kinds};
use crate::sketch::{KeyHash, Meter, NextUnit, OwnHash, Seed};
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// The state of one limit.
#[derive(Debug)]
pub struct Limiter {
    pub(super) state: State,
    /// Of limits whose charge waits for the answer, or did before a reload: what is on its way.
    pub(super) pending: Option<Arc<Pending>>,
    /// Whether it waits.
    pub(super) deferred: bool,
    pub(super) own_hash: OwnHash,
    pub(super) seed: Seed,
    pub(super) unit: u32,
    /// Shared with the limiters that it follows.
    pub(super) pardons: Arc<Pardons>,
}

/// One state per kind: the only list of them, at which the compiler points when a kind is added.
#[derive(Debug)]
pub(super) enum State {
    Rate(RateLimiter),
    Quota(QuotaLimiter),
    SlidingQuota(SlidingQuota),
    RecentAverage(RecentAverageLimiter),
    Distinct(Distinct),
    FairShare {
        share: FairShare,
        follows: Option<Follows>,
        /// What the policy says is shared out, per second; `None` where an origin says it.
        capacity: Option<f64>,
    },
    Inflight(Inflight),
    InflightByKey {
        places: Arc<InflightByKey>,
        upgraded: Arc<InflightByKey>,
        max: Box<[u32]>,
        most_upgraded: Box<[u32]>,
    },
}

impl Limiter {
    /// An empty limiter.
    ///
    /// # Errors
    /// Numbers that the kind does not take; `config` has asked before, so that the operator hears of it.
    pub fn new(spec: &Spec<'_>, seed: &Seed) -> Result<Limiter, OutOfRange> {
        let seed = seed.derive(spec.name);
        let own = seed.derive("levels");
        let own_hash = OwnHash::new(&own);
        let kinds = spec.kinds;
        let state = match kinds.first().ok_or(MIXED)? {
            Kind::Rate(kinds::Rate { memory, .. }) => {
                let limiter = rate::rate(kinds, *memory, &own, spec.indebts)?;
                State::Rate(limiter.with_longest_wait(spec.longest_wait))
            }
            Kind::Quota(kinds::Quota { sliding: false, memory, .. }) => {
                State::Quota(quota::quota(spec, *memory, &own)?)
            }
            Kind::Quota(kinds::Quota { sliding: true, .. }) => {
                State::SlidingQuota(SlidingQuota::new(kinds, spec.unix_nanos_at_origin, own)?)
            }
            Kind::RecentAverage(kinds::RecentAverage { memory, .. }) => {
                let limiter = RecentAverageLimiter::new(kinds, *memory, &own, spec.indebts)?;
                State::RecentAverage(limiter.with_longest_wait(spec.longest_wait))
            }
            Kind::Distinct(kinds::Distinct { window, .. }) => {
                let limiter = Distinct::of(kinds, own)?;
                let phase = quota::phase(*window, spec.unix_nanos_at_origin);
                State::Distinct(limiter.with_offset(phase).with_longest_wait(spec.longest_wait))
            }
            Kind::FairShare(kinds::FairShare { capacity, .. }) => State::FairShare {
                share: FairShare::new(&share_spec(kinds.first().ok_or(MIXED)?)?, &own)?,
                follows: Follows::new(*capacity, spec.origin_caps),
                capacity: fixed(*capacity),
            },
            Kind::Inflight(kinds::Inflight { scope: Scope::Key { memory }, .. }) => {
                let upgraded = Arc::new(InflightByKey::new(u32::MAX, *memory, seed.derive("upgraded"))?);
                State::InflightByKey {
                    places: Arc::new(InflightByKey::new(u32::MAX, *memory, own)?.with_upgraded(Arc::clone(&upgraded))),
                    upgraded,
                    max: kinds.iter().map(most).collect::<Result<_, _>>()?,
                    most_upgraded: kinds.iter().map(most_upgraded).collect::<Result<_, _>>()?,
                }
            }
            Kind::Inflight(kinds::Inflight { max, upgraded, scope }) => {
                State::Inflight(Inflight::new(*max, *upgraded, *scope, spec.routes, spec.origin_caps.len()))
            }
        };
        let pending = match spec.deferred {
            true => Some(pending(&seed)?),
            false => None,
        };
        let (deferred, unit) = (spec.deferred, spec.unit);
        Ok(Limiter { state, pending, deferred, own_hash, seed, unit, pardons: Arc::default() })
    }

    /// Has what a request would be judged by brought near, and changes nothing: for a caller with several limits to ask, whose
    /// cache misses then overlap each other and all that is done meanwhile.
    #[inline]
    pub fn prefetch(&self, place: &Place) {
        let key = place.key;
        match &self.state {
            State::Rate(limiter) => limiter.levels(place.tier).prefetch(key),
            State::Quota(limiter) => limiter.levels(place.tier).prefetch(key),
            State::RecentAverage(limiter) => limiter.tiered().levels(place.tier).prefetch(key),
            State::Distinct(limiter) => limiter.prefetch(place),
            State::InflightByKey { places, .. } => places.prefetch(key),
            // few cells, or keys of their own
            State::SlidingQuota(_) | State::FairShare { .. } | State::Inflight(_) => {}
        }
    }

    /// Whether it counts by windows: then a charge ahead of now takes a part of a later window, and nothing of the time until then.
    pub fn has_windows(&self) -> bool {
        matches!(self.state, State::Quota(_) | State::SlidingQuota(_))
    }

    /// Of `fair_share`: has what a key of the rule's node at this position will be judged by brought near.
    #[inline]
    pub fn prefetch_node(&self, key: KeyHash, node: usize) {
        if let State::FairShare { share, .. } = &self.state {
            share.prefetch(key, node);
        }
    }

    /// Of `fair_share`: counts a request as offered and judges it; charges nothing. The keys are those of the rule's nodes.
    pub fn offer(&self, keys: &[Option<KeyHash>], now: Timestamp, dice: u64) -> Option<Offered> {
        match &self.state {
            State::FairShare { share, .. } => Some(share.offer(keys, now, dice)),
            _ => None,
        }
    }

    /// Of `fair_share`: charges what was offered.
    ///
    /// # Errors
    /// Others took the last of the capacity since.
    pub fn take(&self, keys: &[Option<KeyHash>], offered: &Offered, now: Timestamp) -> Result<Judgement, Lost> {
        match &self.state {
            State::FairShare { share, .. } => share.admit(keys, offered, now),
            _ => Err(Lost { judgement: UNASKED, contended: false }),
        }
    }

    pub(super) fn count_refusal_at(&self, place: &Place, now: Timestamp, cost: Cost) -> Option<(Judgement, bool)> {
        match &self.state {
            State::RecentAverage(limiter) => limiter.count_refusal(place, now, cost),
            State::Distinct(limiter) => limiter.count_refusal(place, now),
            _ => None,
        }
    }

    pub(super) fn charge_at(&self, place: &Place, now: Timestamp, cost: Cost) {
        match &self.state {
            State::Rate(limiter) => limiter.charge(place, now, cost),
            State::Quota(limiter) => limiter.charge(place, now, cost),
            State::RecentAverage(limiter) => limiter.tiered().charge(place, now, cost),
            State::Distinct(limiter) => limiter.confirm(place.tier, place.key, place.value, now),
            // what they count is given back or estimated, or `config` does not let it wait for an answer
            State::SlidingQuota(_) | State::FairShare { .. } | State::Inflight(_) | State::InflightByKey { .. } => {}
        }
    }

    /// Nanoseconds after which whatever a key was charged has faded; `None` where nothing is charged that stays.
    pub(super) fn fade_nanos(&self) -> Option<u64> {
        match &self.state {
            State::Rate(limiter) => Some(limiter.fade_nanos()),
            State::Quota(limiter) => Some(limiter.fade_nanos()),
            State::SlidingQuota(limiter) => Some(limiter.fade_nanos()),
            State::RecentAverage(limiter) => Some(limiter.tiered().fade_nanos()),
            State::Distinct(limiter) => Some(limiter.fade_nanos()),
            State::FairShare { .. } | State::Inflight(_) | State::InflightByKey { .. } => None,
        }
    }

    /// Raises what `to` was charged to at least what `from` was.
    pub(super) fn carry(&self, from: &Place, to: &Place, now: Timestamp) {
        match &self.state {
            State::Rate(limiter) => limiter.carry(from.key, to.key, now),
            State::Quota(limiter) => limiter.carry(from.key, to.key, now),
            State::SlidingQuota(limiter) => limiter.carry(from.key, to.key),
            State::RecentAverage(limiter) => limiter.tiered().carry(from.key, to.key, now),
            State::Distinct(limiter) => limiter.carry(from.key, (to.key, to.value), now),
            State::FairShare { .. } | State::Inflight(_) | State::InflightByKey { .. } => {}
        }
    }

    /// The origin at this position took so long to answer, and may have so many requests at once now.
    pub fn completed(&self, origin: usize, took: Duration, cap: u32) {
        if let State::FairShare { share, follows: Some(follows), .. } = &self.state
            && let Some(capacity) = follows.completed(origin, took, cap)
        {
            share.set_capacity(capacity);
        }
    }

    /// Drops what is over. For a timer.
    pub fn maintain(&self, now: Timestamp) {
        self.pardons.maintain(now);
        match &self.state {
            State::Rate(limiter) => limiter.maintain(now),
            State::Quota(limiter) => limiter.maintain(now),
            State::RecentAverage(limiter) => limiter.tiered().maintain(now),
            State::Distinct(limiter) => {
                limiter.sweep(now);
                limiter.maintain(now);
            }
            State::FairShare { share, .. } => share.maintain(now),
            State::SlidingQuota(limiter) => limiter.maintain(now),
            State::Inflight(_) | State::InflightByKey { .. } => {}
        }
    }

    /// The most that can be charged at once under the numbers of a tier; `None` of kinds that do not wait for answers that tell a
    /// cost.
    pub fn whole(&self, tier: u8) -> Option<u32> {
        match &self.state {
            State::Rate(limiter) => Some(limiter.at(tier).meter().quota()),
            State::Quota(limiter) => Some(limiter.at(tier).meter().quota()),
            State::RecentAverage(limiter) => Some(limiter.tiered().at(tier).meter().quota()),
            _ => None,
        }
    }

    /// Of a quota by the calendar: when the window before that of `now` began, that one, the next and the one after begin, in seconds
    /// since 1970.
    pub fn windows_begin(&self, now: Timestamp) -> Option<[u32; 4]> {
        match &self.state {
            State::Quota(limiter) => limiter.at(0).meter().windows().begins_around(now),
            _ => None,
        }
    }

    /// What a refusal with this [`Judgement::standing`] is short of; `kind` has the numbers of the tier.
    /// Reads no state.
    pub fn owed(&self, kind: &Kind, tier: u8, standing: u64, cost: Cost) -> Owed {
        let with_cost = standing.saturating_add(u64::from(cost.get()));
        match &self.state {
            State::Rate(limiter) => Owed::of_rate(limiter.at(tier).meter(), kind.refill(), standing, cost),
            State::RecentAverage(_) => Owed::sum(f64::from_bits(standing) + f64::from(cost.get())),
            State::Distinct(limiter) => limiter.owed(kind, tier, standing),
            State::FairShare { .. } => Owed::shares(standing),
            // whatever their number, a straggler does not fit it: that is more than 32 bits hold
            State::Quota(_) | State::SlidingQuota(_) | State::InflightByKey { .. } => Owed::units(with_cost, 0),
            State::Inflight(_) => Owed::units(standing.saturating_add(1), 0),
        }
    }

    /// Whether what is counted for the place's key is exact at this moment, rather than a sketch's, which may be too high.
    pub fn is_exact(&self, place: &Place) -> bool {
        match &self.state {
            State::Rate(limiter) => limiter.levels(place.tier).is_exact(place.key),
            State::Quota(limiter) => limiter.levels(place.tier).is_exact(place.key),
            State::RecentAverage(limiter) => limiter.tiered().levels(place.tier).is_exact(place.key),
            State::Distinct(limiter) => limiter.is_exact(place.tier, place.key),
            State::Inflight(_) => true,
            State::SlidingQuota(_) | State::FairShare { .. } | State::InflightByKey { .. } => false,
        }
    }

    /// What its refusal means.
    pub fn refusal(&self) -> Refuses {
        match &self.state {
            State::Rate(_)
            | State::Quota(_)
            | State::SlidingQuota(_)
            | State::RecentAverage(_)
            | State::Distinct(_) => Refuses::Quota,
            State::InflightByKey { .. } => Refuses::Concurrency,
            State::Inflight(_) => Refuses::Room,
            State::FairShare { .. } => Refuses::Share,
        }
    }

    /// Whether what a request takes comes back at its end, so that charging it first risks nothing.
    pub fn gives_back(&self) -> bool {
        self.deferred || matches!(self.state, State::Inflight(_) | State::InflightByKey { .. })
    }

    /// Whether it counts by keys; an exact `inflight` limit has no use for one.
    pub fn is_keyed(&self) -> bool {
        !matches!(self.state, State::Inflight(_))
    }

    /// Turns hashes of keys that all limits share into this limit's own, which [`Place`] holds.
    pub fn own_hash(&self) -> &OwnHash {
        &self.own_hash
    }

    /// The memory it holds, the same from its first request to its last.
    pub fn memory(&self) -> Bytes {
        let own = match &self.state {
            State::Rate(limiter) => limiter.memory(),
            State::Quota(limiter) => limiter.memory(),
            State::SlidingQuota(limiter) => limiter.memory(),
            State::RecentAverage(limiter) => limiter.tiered().memory(),
            State::Distinct(limiter) => limiter.memory(),
            State::FairShare { share, .. } => share.memory(),
            State::Inflight(limiter) => limiter.memory(),
            State::InflightByKey { places, upgraded, .. } => Bytes(places.memory().0 + upgraded.memory().0),
        };
        Bytes(own.0 + self.pending.as_ref().map_or(0, |pending| pending.memory().0))
    }

    /// What attempts of the key that are on their way hold back.
    pub(super) fn held_back(&self, place: &Place) -> u32 {
        self.pending.as_ref().map_or(0, |pending| pending.estimate(place.key))
    }

    /// The question with so many units more in front of the request's own.
    pub(super) fn probe_beside(&self, place: &Place, now: Timestamp, cost: Cost, held: u32) -> Judgement {
        match &self.state {
            State::Rate(limiter) => limiter.probe(place, now, cost, held),
            State::Quota(limiter) => limiter.probe(place, now, cost, held),
            State::SlidingQuota(limiter) => limiter.probe(place, now, cost),
            State::RecentAverage(limiter) => limiter.tiered().probe(place, now, cost, held),
            State::Distinct(limiter) => limiter.probe_beside(place.tier, place.key, place.value, now, held),
            State::FairShare { .. } => UNASKED,
            State::Inflight(limiter) => limiter.probe(*place),
            State::InflightByKey { places, max, .. } => places.probe(place.key, cost, most_of(max, place.tier)),
        }
    }

    /// Of `distinct`: whether the value was seen before, so that it costs nothing whatever the answer.
    pub(super) fn is_repeat(&self, place: &Place, now: Timestamp) -> bool {
        matches!(&self.state, State::Distinct(limiter) if limiter.is_repeat(place.value, now))
    }
}

pub(super) fn share_spec(kind: &Kind) -> Result<fair_share::FairShareSpec, OutOfRange> {
    let Kind::FairShare(kinds::FairShare { capacity, multipliers, levels, charge_parents, memory }) = kind else {
        return Err(MIXED);
    };
    let capacity = match capacity {
        Capacity::Rate(rate) => fair_share::Capacity::Rate(*rate),
        Capacity::Origin(_) => fair_share::Capacity::Follows,
    };
    let node =
        |(level, multiplier): (&u8, &u32)| fair_share::NodeSpec { level: *level, multiplier: f64::from(*multiplier) };
    Ok(fair_share::FairShareSpec {
        nodes: levels.iter().zip(multipliers).map(node).collect(),
        memory: *memory,
        parents: if *charge_parents { fair_share::Parents::Charged } else { fair_share::Parents::Apart },
        ..fair_share::FairShareSpec::new(capacity)
    })
}

/// Nothing held back; `seed` is the limit's.
pub(super) fn pending(seed: &Seed) -> Result<Arc<Pending>, OutOfRange> {
    Pending::new(Pending::DEFAULT_MEMORY, &seed.derive("pending")).map(Arc::new)
}

pub(super) fn most_of(max: &[u32], tier: u8) -> u32 {
    max.get(usize::from(tier)).or(max.first()).copied().unwrap_or(0)
}

/// The answer to a question that does not belong to the kind: refuses, so that a mistake opens nothing.
pub(super) const UNASKED: Judgement = Judgement {
    admitted: false,
    remaining: 0,
    quota: 0,
    retry_nanos: None,
    next_unit: NextUnit::Known(None),
    standing: 0,
};
