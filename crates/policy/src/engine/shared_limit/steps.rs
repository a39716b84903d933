//! The steps by which a request comes to know what its shared limits say.

use std::sync::Arc;

use arrayvec::ArrayVec;

use super::names::Names;
use super::{Brought, End, Errand, SharedLimit, Step, refused};
use crate::client::Client;
use crate::client::key::Keys;
use crate::engine::core::Engine;
use crate::engine::decided_by::DecidedBy;
use crate::engine::decision::{Outcome, Verdict};
use crate::engine::evaluation::Evaluation;
use crate::engine::keys::keys_into;
use crate::limiter::sharing::{Asking, Begin, Look, OnStoreError, Question, SecretRotation, Sharing, StoreError};
use crate::limiter::{Judgement, Lost, Probe};
use crate::policy::{Mode, OnLimit, Route};
use crate::request::Request;
use crate::units::Timestamp;

impl Engine {
    /// The positions of the readings whose limits are shared, if the request is to be admitted at all; in the order in which they
    /// are to be settled. Those first of which this gate can take back what it took if another refuses; then, since what the store
    /// was asked for exactly stays charged, the one that allows least, which is the likeliest to refuse.
    pub fn to_settle(&self, evaluation: &Evaluation) -> ArrayVec<usize, { Route::MAX_RULES }> {
        if evaluation.shared_slots == 0 || evaluation.decision.verdict != Verdict::Admitted {
            return ArrayVec::new();
        }
        let mut slots: ArrayVec<usize, { Route::MAX_RULES }> = (0..Route::MAX_RULES)
            .filter(|slot| evaluation.shared_slots >> slot & 1 == 1)
            .filter(|slot| {
                evaluation.decision.readings.get(*slot).is_some_and(|read| read.outcome == Outcome::Admitted)
            })
            .collect();
        slots.sort_unstable_by_key(|slot| {
            let exact = self
                .shared_at(evaluation, *slot)
                .filter(|(_, shared_limit, _)| shared_limit.shared.sharing == Sharing::Exact);
            (exact.map(|(_, shared_limit, ask)| shared_limit.promise(ask.place.tier).most()), *slot)
        });
        slots
    }

    /// Gives back what was taken of leases for a request that another limit has refused.
    pub(in crate::engine) fn give_back(&self, evaluation: &Evaluation, now: Timestamp) {
        for (slot, Brought { end, back, .. }) in &evaluation.settled {
            if let (End::Paid { .. }, Some((ends, nodes)), Some((_, shared_limit, ask))) =
                (end, *back, self.shared_at(evaluation, *slot))
            {
                let (key, promise) = shared_limit.held_by(&ask.place);
                shared_limit.leases.give_back(key, ask.cost, ends, &promise, nodes, now);
            }
        }
    }

    /// One step towards an answer about the shared limit of the reading at this position, for a request of this client;
    /// `nodes` is how many gates there are.
    pub fn step(
        &self,
        evaluation: &mut Evaluation,
        slot: usize,
        (request, client): (&Request<'_>, &Client),
        nodes: u32,
        now: Timestamp,
    ) -> Step {
        let Some((rule, shared_limit, ask)) = self.shared_at(evaluation, slot) else { return Step::Settled };
        let (shared_limit, cost) = (Arc::clone(shared_limit), ask.cost);
        let (key, promise) = shared_limit.held_by(&ask.place);
        let route = evaluation.decision.route;
        let errand = |asking: Option<Asking>, wanted, least| {
            let numbers = (wanted, least);
            self.errand((rule, &shared_limit, &ask), (request, client, route), asking, numbers, now)
        };
        if shared_limit.shared.sharing == Sharing::Exact {
            return errand(None, cost.get(), cost.get()).map_or(Step::Settled, Step::Ask);
        }
        if evaluation.noted >> slot & 1 == 0 {
            evaluation.noted |= 1 << slot;
            shared_limit.leases.note(key, cost, now);
        }
        let settled = |end| (slot, Brought { by: DecidedBy::Lease, end, low: false, back: None });
        let (look, ends) = shared_limit.leases.take_until(key, cost, &promise, now);
        match look {
            Look::Holds { left, low } => {
                let (left, back) = (shared_limit.left(&ask.place, left), Some((ends, nodes)));
                evaluation
                    .settled
                    .push((slot, Brought { by: DecidedBy::Lease, end: End::Paid { left }, low: false, back }));
                if low && let Begin::Ask(asking) = shared_limit.leases.refill(key, &promise, nodes, now) {
                    let (wanted, least) = (asking.wanted(), asking.least());
                    return errand(Some(asking), wanted, least).map_or(Step::Settled, Step::Refill);
                }
                Step::Settled
            }
            Look::Refused { retry_nanos, .. } => {
                evaluation.settled.push(settled(End::Refused { retry_nanos }));
                Step::Settled
            }
            Look::Unknown => match shared_limit.leases.begin(key, cost, &promise, nodes, now) {
                Begin::Ask(asking) => {
                    let (wanted, least) = (asking.wanted(), asking.least());
                    errand(Some(asking), wanted, least).map_or(Step::Settled, Step::Ask)
                }
                Begin::Busy => Step::Wait(key),
                Begin::Known(Look::Refused { retry_nanos, .. }) => {
                    evaluation.settled.push(settled(End::Refused { retry_nanos }));
                    Step::Settled
                }
                // somebody brought some this very moment
                Begin::Known(_) => Step::Again,
            },
        }
    }

    pub(super) fn errand(
        &self,
        (rule, shared_limit, ask): (usize, &Arc<SharedLimit>, &Probe),
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
        let (key, tiers) = name(&shared_limit.names)?;
        let mut question = Question { rule, key, tiers, tier: ask.place.tier, begins, wanted, least };
        let previous = shared_limit.previous.as_ref().and_then(name);
        let rotation = previous.map(|previous| SecretRotation::begin(&mut question, previous));
        Some(Errand {
            question,
            key: ask.place.key.of_tier(ask.place.tier),
            watch: shared_limit.leases.watch(ask.place.key, ask.place.tier),
            shared_limit: Arc::clone(shared_limit),
            asking,
            rotation,
        })
    }

    /// Tells what an errand brought to the request that waited for it. Then [`Engine::refill`] may have another to run.
    pub fn brought(&self, evaluation: &mut Evaluation, slot: usize, brought: Brought) {
        evaluation.refills |= u8::from(brought.low) << slot;
        evaluation.settled.push((slot, brought));
    }

    /// Whether what the limit at this position came to ends the request, so that no other need be asked.
    pub fn is_against(&self, evaluation: &Evaluation, slot: usize) -> bool {
        let Some(reading) = evaluation.decision.readings.get(slot) else { return false };
        let obeyed = self.rule(reading.rule).is_some_and(|(rule, _)| !matches!(rule.action, OnLimit::Tag { .. }));
        let refused = matches!(settled(evaluation, slot), Some(Brought { end: End::Refused { .. }, .. }));
        reading.mode == Mode::Enforce && obeyed && (refused || self.refuses_in_the_dark(evaluation, slot))
    }

    /// Tells that the request has waited long enough for a limit of which nobody brought anything.
    pub fn silent(&self, evaluation: &mut Evaluation, slot: usize, store_error: StoreError, nodes: u32) {
        evaluation.settled.push((
            slot,
            Brought { by: DecidedBy::Fallback, end: End::Silent { store_error, nodes }, low: false, back: None },
        ));
    }

    pub(super) fn shared_at(&self, evaluation: &Evaluation, slot: usize) -> Option<(usize, &Arc<SharedLimit>, Probe)> {
        let rule = evaluation.decision.readings.get(slot)?.rule;
        Some((rule, self.shared_limit(rule)?, evaluation.probes.get(slot).copied().flatten()?))
    }

    /// Charges a shared limit by what is settled; the second value is whose word that was.
    pub(in crate::engine) fn charge_shared(
        &self,
        evaluation: &Evaluation,
        slot: usize,
        now: Timestamp,
    ) -> (Result<Judgement, Lost>, DecidedBy) {
        let lost = |judgement| Err(Lost::refused(judgement));
        let Some((rule, shared_limit, ask)) = self.shared_at(evaluation, slot) else {
            return (lost(refused(0, None)), DecidedBy::Gate);
        };
        let most = shared_limit.promise(ask.place.tier).most();
        // one that nobody settled is as good as one of which nothing was heard
        let end = End::Silent { store_error: StoreError::TimedOut, nodes: 1 };
        let silent = Brought { by: DecidedBy::Fallback, end, low: false, back: None };
        let Brought { by, end, .. } = settled(evaluation, slot).unwrap_or(silent);
        let said = match end {
            // in requests like this one, as of a limit of the gate itself
            End::Paid { left } => Ok(Judgement::admitted(left / ask.cost.get(), most / ask.cost.get())),
            End::Refused { retry_nanos } => lost(refused(most, retry_nanos)),
            End::Silent { store_error, nodes } => match direction(shared_limit, store_error) {
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
    pub(in crate::engine) fn refuses_in_the_dark(&self, evaluation: &Evaluation, slot: usize) -> bool {
        match (settled(evaluation, slot).map(|settled| settled.end), self.shared_at(evaluation, slot)) {
            (Some(End::Silent { store_error, .. }), Some((_, shared_limit, _))) => {
                direction(shared_limit, store_error) == OnStoreError::Closed
            }
            _ => false,
        }
    }

    /// Which shared limits were decided without the store, and in which direction.
    pub fn fallbacks<'a>(&'a self, evaluation: &'a Evaluation) -> impl Iterator<Item = (usize, OnStoreError)> + 'a {
        evaluation.settled.iter().filter_map(|(slot, settled)| match settled.end {
            End::Silent { store_error, .. } => {
                let (_, shared_limit, _) = self.shared_at(evaluation, *slot)?;
                Some((shared_limit.shared.store, direction(shared_limit, store_error)))
            }
            _ => None,
        })
    }
}

/// What became of the limit at this position.
fn settled(evaluation: &Evaluation, slot: usize) -> Option<Brought> {
    evaluation.settled.iter().find(|(known, _)| *known == slot).map(|(_, brought)| *brought)
}

/// A fault of ours, or of the store's configuration, opens nothing.
fn direction(shared_limit: &SharedLimit, store_error: StoreError) -> OnStoreError {
    if store_error == StoreError::Faulty { OnStoreError::Closed } else { shared_limit.shared.on_store_error }
}
