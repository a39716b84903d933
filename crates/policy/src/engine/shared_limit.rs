//! Limits that several gates share through a store: what this gate holds of one, and what became of one for a request.
//!
//! Here is the state. [`shared_call`](super::shared_call) takes a request through it.

use std::sync::Arc;

use super::decision::DecidedBy;
use super::just_refused::JustRefused;
use crate::client::store_names::StoreNames;
use crate::limiter::sharing::{Ends, Leases, Look, Promise, Sharing, StoreError, StoreTier};
use crate::limiter::{Judgement, Place};
use crate::policy::{Kind, KnownBy, Rule, Shared};
use crate::sketch::{KeyHash, NextUnit};
use crate::units::{Cost, OutOfRange, Period, Timestamp};

/// A shared limit as this gate sees it.
#[derive(Debug)]
pub struct SharedLimit {
    shared: Shared,
    leases: Arc<Leases>,
    names: Names,
    /// The names under the previous secret, while some gates still use it.
    previous: Option<Names>,
    /// The windows of a quota.
    period: Option<Period>,
    /// When it is known what becomes of a grant, if not at once.
    known_by: Option<KnownBy>,
    /// Of one of which grants come back.
    refused: JustRefused,
}

/// What became of one shared limit of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SharedOutcome {
    /// The request is paid for.
    Paid {
        /// By a lease or by the store.
        by: DecidedBy,
        /// What is left of the key, as far as is known.
        left: u32,
        /// Whether so little is held that the store should be asked for more in the background.
        low: bool,
        /// Of a lease: when what was taken ends, and how many gates there were, to give it back if another limit refuses.
        lease: Option<(Ends, u32)>,
    },
    /// The request does not fit.
    Refused {
        /// By a lease or by the store.
        by: DecidedBy,
        /// Nanoseconds until it fits; `None` when no wait helps.
        retry_nanos: Option<u64>,
    },
    /// The store did not answer: the limit's `on_store_error` decides.
    Unanswered {
        /// Why.
        store_error: StoreError,
        /// How many gates there are, as far as is known.
        nodes: u32,
    },
}

/// The names by which a store knows a limit's keys and tiers, under one secret.
#[derive(Debug)]
pub(super) struct Names {
    pub keys: StoreNames,
    /// The limit's own numbers, then those of its tiers.
    pub tiers: Arc<[StoreTier]>,
}

impl Names {
    fn new(rule: &Rule, secret: &[u8]) -> Result<Names, OutOfRange> {
        let keys = StoreNames::new(secret, &rule.name);
        let own = promise(&rule.kind).map(|promise| StoreTier { id: 0, promise });
        let tiers = rule.tiers.iter().map(|tier| {
            let id = keys.tier(&tier.when.networks, &tier.when.headers);
            // no store is asked about a tier that exempts
            promise(tier.kind.as_ref().unwrap_or(&rule.kind)).map(|promise| StoreTier { id, promise })
        });
        let tiers = std::iter::once(own).chain(tiers).collect::<Result<_, _>>()?;
        Ok(Names { keys, tiers })
    }

    fn promises(&self) -> impl Iterator<Item = Promise> {
        self.tiers.iter().map(|tier| tier.promise)
    }
}

fn promise(kind: &Kind) -> Result<Promise, OutOfRange> {
    kind.store_promise().ok_or(OutOfRange { allowed: "`rate`, `quota`, `distinct` or `inflight` by key" })
}

impl SharedLimit {
    /// The limit of a rule that a store is asked about; `None` for another rule. It keeps the leases of the limit `before` if that
    /// has the same numbers.
    ///
    /// # Errors
    /// A kind that no store keeps.
    pub(super) fn of(
        rule: &Rule,
        (secret, previous): (&[u8], Option<&[u8]>),
        before: Option<&SharedLimit>,
    ) -> Result<Option<SharedLimit>, OutOfRange> {
        let Some(shared) = rule.shared.filter(|shared| shared.sharing != Sharing::Estimate) else { return Ok(None) };
        let names = Names::new(rule, secret)?;
        let period = rule.kind.windows();
        let leases = match before {
            // what was granted under other numbers says nothing about these
            Some(before) if before.names.promises().eq(names.promises()) && before.period == period => {
                Arc::clone(&before.leases)
            }
            _ => Arc::new(Leases::new(<Leases>::MEMORY)?),
        };
        let previous = previous.map(|previous| Names::new(rule, previous)).transpose()?;
        Ok(Some(SharedLimit {
            shared,
            leases,
            names,
            previous,
            period,
            known_by: KnownBy::of(rule),
            refused: JustRefused::new(),
        }))
    }

    /// Returns where and how the limit is shared.
    pub fn shared(&self) -> Shared {
        self.shared
    }

    /// Returns when it is known what becomes of what the store grants to a request; `None`: at once.
    pub(super) fn known_by(&self) -> Option<KnownBy> {
        self.known_by
    }

    /// Returns whether the store is asked about each request that it has not just refused. So it is where grants may come back: what was taken in
    /// advance of answers that do not count would be lost.
    pub(super) fn asks_each(&self) -> bool {
        self.shared.sharing == Sharing::Exact || self.known_by.is_some()
    }

    /// Returns the keys that the store has just refused.
    pub(super) fn refused(&self) -> &JustRefused {
        &self.refused
    }

    /// Returns what this gate holds of the limit.
    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Returns the present names, and those under the previous secret.
    pub(super) fn names(&self) -> (&Names, Option<&Names>) {
        (&self.names, self.previous.as_ref())
    }

    /// Returns what is left of a key of which this gate holds `held`, as far as is known.
    pub(super) fn left(&self, place: &Place, held: u32) -> u32 {
        let (key, promise) = self.held_by(place);
        self.known_left(&promise, held, self.leases.left_in_store(key))
    }

    /// Returns what is left of a key of which this gate holds `held`, and the store has so much.
    pub(super) fn known_left(&self, promise: &Promise, held: u32, in_store: u32) -> u32 {
        match promise {
            // what is held is one value, which has been counted
            Promise::Values { .. } => in_store,
            promise => held.saturating_add(in_store).min(promise.most()),
        }
    }

    /// Returns the hash by which the limit counts in this gate: of the key, or where values are counted of the key with its value.
    pub(super) fn counted_by(&self, place: &Place) -> KeyHash {
        match self.names.tiers.first() {
            Some(StoreTier { promise: Promise::Values { .. }, .. }) => place.value,
            _ => place.key,
        }
    }

    /// Returns the hash by which leases of this key are found, and the promise of its tier.
    pub(super) fn held_by(&self, place: &Place) -> (KeyHash, Promise) {
        let tiers = &self.names.tiers;
        let tier = tiers.get(usize::from(place.tier)).or(tiers.first());
        (self.counted_by(place).of_tier(place.tier), tier.map_or(Promise::NOTHING, |tier| tier.promise))
    }

    /// Returns what is known without the store, and whether the store should be asked in the background all the same. A request
    /// that nothing is known about fits so far.
    pub(super) fn look(&self, place: &Place, now: Timestamp, cost: Cost) -> (Judgement, bool) {
        let (key, promise) = self.held_by(place);
        let most = promise.most();
        if cost.get() > most {
            return (refused(most, None), false);
        }
        if self.known_by.is_some() && !self.refused.has(key, now) {
            return (Judgement::admitted(most, most), false);
        }
        let known = self.leases.look(key, cost, &promise, now);
        if self.asks_each() {
            return match known {
                Look::Refused { retry_nanos, .. } => {
                    (refused(most, retry_nanos.map(|nanos| nanos.saturating_add(<Leases>::SLACK_NANOS))), false)
                }
                // when a place comes back is up to others
                _ if self.known_by == Some(KnownBy::Place) => (refused(most, None), false),
                _ => (Judgement::admitted(most, most), false),
            };
        }
        match known {
            // a low lease is refilled when the request takes from it
            Look::Holds { left, .. } => (Judgement::admitted(self.left(place, left), most), false),
            Look::Refused { retry_nanos, due } => (refused(most, retry_nanos), due),
            Look::Unknown => (Judgement::admitted(0, most), false),
        }
    }
}

/// A refusal by a limit of `quota` units.
pub(super) fn refused(quota: u32, retry_nanos: Option<u64>) -> Judgement {
    Judgement { quota, retry_nanos, next_unit: NextUnit::Known(retry_nanos), ..Judgement::REFUSED }
}
