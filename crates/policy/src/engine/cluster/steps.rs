//! The steps by which a request comes to know what its shared limits say.

use std::sync::Arc;

use arrayvec::ArrayVec;

use super::names::Names;
use super::{Brought, Cluster, End, Errand, Step, refused};
use crate::client::Client;
use crate::client::key::Keys;
use crate::engine::by::By;
use crate::engine::decision::{Outcome, Verdict};
use crate::engine::judged::Judged;
use crate::engine::keys::keys_into;
use crate::engine::snapshot::Snapshot;
use crate::limiter::cluster::{Asking, Begin, Look, OnStoreError, Question, Rotation, Sharing, Silence};
use crate::limiter::{Judgement, Lost, Probe};
use crate::policy::{Mode, OnLimit, Route};
use crate::request::Request;
use crate::units::Timestamp;

impl Snapshot {
    /// The positions of the readings whose limits are shared, if the request is to be admitted at all; in the order in which they
    /// are to be settled. Those first of which this gate can take back what it took if another refuses; then, since what the store
    /// was asked for exactly stays charged, the one that allows least, which is the likeliest to refuse.
    pub fn to_settle(&self, judged: &Judged) -> ArrayVec<usize, { Route::MAX_RULES }> {
        if judged.shared_slots == 0 || judged.decision.verdict != Verdict::Admitted {
            return ArrayVec::new();
        }
        let mut slots: ArrayVec<usize, { Route::MAX_RULES }> = (0..Route::MAX_RULES)
            .filter(|slot| judged.shared_slots >> slot & 1 == 1)
            .filter(|slot| judged.decision.readings.get(*slot).is_some_and(|read| read.outcome == Outcome::Admitted))
            .collect();
        slots.sort_unstable_by_key(|slot| {
            let exact =
                self.shared_at(judged, *slot).filter(|(_, cluster, _)| cluster.shared.sharing == Sharing::Exact);
            (exact.map(|(_, cluster, ask)| cluster.promise(ask.place.tier).most()), *slot)
        });
        slots
    }

    /// Gives back what was taken of leases for a request that another limit has refused.
    pub(in crate::engine) fn give_back(&self, judged: &Judged, now: Timestamp) {
        for (slot, Brought { end, back, .. }) in &judged.settled {
            if let (End::Paid { .. }, Some((ends, nodes)), Some((_, cluster, ask))) =
                (end, *back, self.shared_at(judged, *slot))
            {
                let (key, promise) = cluster.held_by(&ask.place);
                cluster.leases.give_back(key, ask.cost, ends, &promise, nodes, now);
            }
        }
    }

    /// One step towards an answer about the shared limit of the reading at this position, for a request of this client;
    /// `nodes` is how many gates there are.
    pub fn step(
        &self,
        judged: &mut Judged,
        slot: usize,
        (request, client): (&Request<'_>, &Client),
        nodes: u32,
        now: Timestamp,
    ) -> Step {
        let Some((rule, cluster, ask)) = self.shared_at(judged, slot) else { return Step::Settled };
        let (cluster, cost) = (Arc::clone(cluster), ask.cost);
        let (key, promise) = cluster.held_by(&ask.place);
        let route = judged.decision.route;
        let errand = |asking: Option<Asking>, wanted, least| {
            let numbers = (wanted, least);
            self.errand((rule, &cluster, &ask), (request, client, route), asking, numbers, now)
        };
        if cluster.shared.sharing == Sharing::Exact {
            return errand(None, cost.get(), cost.get()).map_or(Step::Settled, Step::Ask);
        }
        if judged.noted >> slot & 1 == 0 {
            judged.noted |= 1 << slot;
            cluster.leases.note(key, cost, now);
        }
        let settled = |end| (slot, Brought { by: By::Lease, end, low: false, back: None });
        let (look, ends) = cluster.leases.take_until(key, cost, &promise, now);
        match look {
            Look::Holds { left, low } => {
                let (left, back) = (cluster.left(&ask.place, left), Some((ends, nodes)));
                judged.settled.push((slot, Brought { by: By::Lease, end: End::Paid { left }, low: false, back }));
                if low && let Begin::Ask(asking) = cluster.leases.refill(key, &promise, nodes, now) {
                    let (wanted, least) = (asking.wanted(), asking.least());
                    return errand(Some(asking), wanted, least).map_or(Step::Settled, Step::Refill);
                }
                Step::Settled
            }
            Look::Refused { retry_nanos, .. } => {
                judged.settled.push(settled(End::Refused { retry_nanos }));
                Step::Settled
            }
            Look::Unknown => match cluster.leases.begin(key, cost, &promise, nodes, now) {
                Begin::Ask(asking) => {
                    let (wanted, least) = (asking.wanted(), asking.least());
                    errand(Some(asking), wanted, least).map_or(Step::Settled, Step::Ask)
                }
                Begin::Busy => Step::Wait(key),
                Begin::Known(Look::Refused { retry_nanos, .. }) => {
                    judged.settled.push(settled(End::Refused { retry_nanos }));
                    Step::Settled
                }
                // somebody brought some this very moment
                Begin::Known(_) => Step::Again,
            },
        }
    }

    pub(super) fn errand(
        &self,
        (rule, cluster, ask): (usize, &Arc<Cluster>, &Probe),
        (request, client, route): (&Request<'_>, &Client, Option<usize>),
        asking: Option<Asking>,
        (wanted, least): (u32, u32),
        now: Timestamp,
    ) -> Option<Errand> {
        let (limit, _) = self.rule(rule)?;
        let route = route.and_then(|route| self.policy().routes.route(route))?;
        let name = |names: &Names| {
            let mut keys = Keys::from_iter([names.keys.begin()]);
            keys_into(&mut keys, limit, self.policy(), (request, client, route)).ok()?;
            // a request that has several is refused before anybody asks
            Some((keys.pop()?.finish(), Arc::clone(&names.tiers)))
        };
        let begins = self.limiters().get(rule).and_then(|limiter| limiter.windows_begin(now));
        let (key, tiers) = name(&cluster.names)?;
        let mut question = Question { rule, key, tiers, tier: ask.place.tier, begins, wanted, least };
        let previous = cluster.previous.as_ref().and_then(name);
        let rotation = previous.map(|previous| Rotation::begin(&mut question, previous));
        Some(Errand {
            question,
            key: ask.place.key.of_tier(ask.place.tier),
            watch: cluster.leases.watch(ask.place.key, ask.place.tier),
            cluster: Arc::clone(cluster),
            asking,
            rotation,
        })
    }

    /// Tells what an errand brought to the request that waited for it. Then [`Snapshot::refill`] may have another to run.
    pub fn brought(&self, judged: &mut Judged, slot: usize, brought: Brought) {
        judged.refills |= u8::from(brought.low) << slot;
        judged.settled.push((slot, brought));
    }

    /// Whether what the limit at this position came to ends the request, so that no other need be asked.
    pub fn is_against(&self, judged: &Judged, slot: usize) -> bool {
        let Some(reading) = judged.decision.readings.get(slot) else { return false };
        let obeyed = self.rule(reading.rule).is_some_and(|(rule, _)| !matches!(rule.action, OnLimit::Tag { .. }));
        let refused = matches!(settled(judged, slot), Some(Brought { end: End::Refused { .. }, .. }));
        reading.mode == Mode::Enforce && obeyed && (refused || self.refuses_in_the_dark(judged, slot))
    }

    /// Tells that the request has waited long enough for a limit of which nobody brought anything.
    pub fn silent(&self, judged: &mut Judged, slot: usize, silence: Silence, nodes: u32) {
        judged
            .settled
            .push((slot, Brought { by: By::Fallback, end: End::Silent { silence, nodes }, low: false, back: None }));
    }

    pub(super) fn shared_at(&self, judged: &Judged, slot: usize) -> Option<(usize, &Arc<Cluster>, Probe)> {
        let rule = judged.decision.readings.get(slot)?.rule;
        Some((rule, self.cluster(rule)?, judged.probes.get(slot).copied().flatten()?))
    }

    /// Charges a shared limit by what is settled; the second value is whose word that was.
    pub(in crate::engine) fn charge_shared(
        &self,
        judged: &Judged,
        slot: usize,
        now: Timestamp,
    ) -> (Result<Judgement, Lost>, By) {
        let lost = |judgement| Err(Lost::refused(judgement));
        let Some((rule, cluster, ask)) = self.shared_at(judged, slot) else {
            return (lost(refused(0, None)), By::Gate);
        };
        let most = cluster.promise(ask.place.tier).most();
        // one that nobody settled is as good as one of which nothing was heard
        let end = End::Silent { silence: Silence::TimedOut, nodes: 1 };
        let silent = Brought { by: By::Fallback, end, low: false, back: None };
        let Brought { by, end, .. } = settled(judged, slot).unwrap_or(silent);
        let said = match end {
            // in requests like this one, as of a limit of the gate itself
            End::Paid { left } => Ok(Judgement::admitted(left / ask.cost.get(), most / ask.cost.get())),
            End::Refused { retry_nanos } => lost(refused(most, retry_nanos)),
            End::Silent { silence, nodes } => match direction(cluster, silence) {
                OnStoreError::Open => Ok(Judgement::admitted(0, most)),
                OnStoreError::Closed => lost(refused(most, None)),
                OnStoreError::Local => match self.limiters().get(rule) {
                    Some(limiter) => limiter.admit_part(&ask.place, now, ask.cost, nodes),
                    None => lost(refused(most, None)),
                },
            },
        };
        (said, by)
    }

    /// Whether the limit refuses because nobody knows, and not because of what the client did.
    pub(in crate::engine) fn refuses_in_the_dark(&self, judged: &Judged, slot: usize) -> bool {
        match (settled(judged, slot).map(|settled| settled.end), self.shared_at(judged, slot)) {
            (Some(End::Silent { silence, .. }), Some((_, cluster, _))) => {
                direction(cluster, silence) == OnStoreError::Closed
            }
            _ => false,
        }
    }

    /// Which shared limits were decided without the store, and in which direction.
    pub fn fallbacks<'a>(&'a self, judged: &'a Judged) -> impl Iterator<Item = (usize, OnStoreError)> + 'a {
        judged.settled.iter().filter_map(|(slot, settled)| match settled.end {
            End::Silent { silence, .. } => {
                let (_, cluster, _) = self.shared_at(judged, *slot)?;
                Some((cluster.shared.store, direction(cluster, silence)))
            }
            _ => None,
        })
    }
}

/// What became of the limit at this position.
fn settled(judged: &Judged, slot: usize) -> Option<Brought> {
    judged.settled.iter().find(|(known, _)| *known == slot).map(|(_, brought)| *brought)
}

/// A fault of ours, or of the store's configuration, opens nothing.
fn direction(cluster: &Cluster, silence: Silence) -> OnStoreError {
    if silence == Silence::Faulty { OnStoreError::Closed } else { cluster.shared.on_store_error }
}
