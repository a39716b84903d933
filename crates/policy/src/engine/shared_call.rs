//! Settles the shared limits of a request, without I/O.
//!
//! Between [`judge`](Engine::judge) and [`admit`](Engine::admit) a face takes each limit of [`Engine::to_settle`] through this loop:
//!
//! 1. [`Engine::step`] says what to do. [`SharedStep::Done`]: this gate knows the [`SharedOutcome`]. [`SharedStep::Wait`]: another
//!    call about the key is on its way; wait for it, then take another step. [`SharedStep::Ask`]: carry the question of the
//!    [`SharedCall`] to the store.
//! 2. [`SharedCall::answered`] takes in the answer, or why there is none. It gives the outcome, or one more question.
//! 3. [`Engine::settle`] notes the outcome. [`Engine::refill`] may have a call for the background.
//!
//! Then `admit` charges the limit like any other. A face without stores (replay, tests of a policy) has no shared limits: one gate
//! alone is all gates.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrayvec::ArrayVec;

use super::core::Engine;
use super::decision::{DecidedBy, Outcome, Verdict};
use super::evaluation::{Evaluation, Holds};
use super::keys::keys_into;
use super::shared_limit::{Names, SharedLimit, SharedOutcome, refused};
use super::store_grant::StoreGrant;
use crate::client::key::Keys;
use crate::client::store_names::StoreName;
use crate::limiter::sharing::{
    Answer, Asking, Begin, Look, Named, OnStoreError, Promise, Question, SecretRotation, StoreError, Watch,
};
use crate::limiter::{Hold, Judgement, Lost, Probe};
use crate::policy::{KnownBy, Mode, OnLimit, Route, StoreId};
use crate::request::Request;
use crate::sketch::KeyHash;
use crate::units::{Cost, Timestamp};

/// What a request does about one of its shared limits.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most steps are done, and a box would be one more allocation for each question"
)]
pub enum SharedStep {
    /// Nothing: this is known.
    Done(SharedOutcome),
    /// It asks the store.
    Ask(SharedCall),
    /// It waits until another call about the key is through.
    Wait {
        /// The [key](SharedCall::key) of that call.
        key: KeyHash,
        /// Identifies its question.
        question: u64,
    },
}

/// A question on its way to the store, and what its answer is for.
#[derive(Debug)]
pub struct SharedCall {
    /// What to ask now.
    pub question: Question,
    /// What other requests of the key wait by.
    pub key: KeyHash,
    limit: Arc<SharedLimit>,
    /// Before the first question was sent.
    began: Timestamp,
    watch: Watch,
    asking: Option<Asking>,
    /// While the key has two names.
    rotation: Option<SecretRotation>,
}

/// How often a request looks again at a key for which others bring budget at this moment.
const ATTEMPTS: u32 = 16;

/// A shared limit that cannot be asked about: a fault of ours, which opens nothing.
const FAULT: SharedOutcome = SharedOutcome::Unanswered { store_error: StoreError::Faulty, nodes: 1 };

impl SharedCall {
    /// What is to be kept of the grant, as the store is to be told more of it; `None` where all is known at once. It takes in the answers
    /// to the questions of this call, too.
    pub fn grant(&self) -> Option<StoreGrant> {
        let cost = Cost::new(self.question.least).ok()?;
        Some(StoreGrant::new(self.limit.known_by()?, cost, Arc::clone(&self.limit), self.key))
    }

    /// Takes in the answer to [`SharedCall::question`]: gives the outcome for the request that asked, or the call with its next
    /// question while a secret is being replaced. `nodes` is how many gates there are.
    pub fn answered(
        mut self,
        answer: Result<Answer, StoreError>,
        nodes: u32,
        now: Timestamp,
    ) -> ControlFlow<SharedOutcome, SharedCall> {
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(store_error) => {
                if let Some(asking) = self.asking {
                    self.limit.leases().unanswered(asking);
                }
                return ControlFlow::Break(SharedOutcome::Unanswered { store_error, nodes });
            }
        };
        if answer.granted > 0 {
            self.limit.leases().granted(&mut self.watch, self.limit.names().0.tiers.len());
        }
        if let Some(rotation) = &mut self.rotation {
            match rotation.answered(&mut self.question, answer) {
                Some(all) => answer = all,
                None => return ControlFlow::Continue(self),
            }
        }
        ControlFlow::Break(self.outcome(&answer, nodes, now))
    }

    fn outcome(self, answer: &Answer, nodes: u32, now: Timestamp) -> SharedOutcome {
        let SharedCall { question, key, limit, began, watch, asking, .. } = self;
        let (leases, promise) = (limit.leases(), question.promise());
        let by = DecidedBy::Store;
        let refuse = |retry_nanos| {
            leases.unless_overtaken(&watch);
            SharedOutcome::Refused { by, retry_nanos }
        };
        if let Some(asking) = asking {
            return match leases.answered(asking, answer, began, now) {
                Look::Holds { left, low, ends } => {
                    let left = limit.known_left(&promise, left, answer.left);
                    SharedOutcome::Paid { by, left, low, lease: Some((ends, nodes)) }
                }
                Look::Refused { retry_nanos, .. } => refuse(retry_nanos),
                // it came too late to be used
                Look::Unknown => SharedOutcome::Unanswered { store_error: StoreError::TimedOut, nodes },
            };
        }
        if answer.granted > 0 {
            limit.refused().forget(key);
            return SharedOutcome::Paid { by, left: answer.left, low: false, lease: None };
        }
        if let Ok(cost) = Cost::new(question.least) {
            // another call may have brought some meanwhile
            if let Look::Holds { left, low, ends } = leases.take(key, cost, &promise, now) {
                let left = limit.known_left(&promise, left, 0);
                return SharedOutcome::Paid { by, left, low, lease: Some((ends, nodes)) };
            }
            if limit.known_by().is_some() {
                limit.refused().note(key, now);
            }
            if let Some(retry_nanos) = answer.retry_nanos {
                leases.remember(key, cost, &promise, retry_nanos, (began, now));
            }
        }
        refuse(answer.retry_nanos)
    }
}

impl Engine {
    /// Returns the positions of the readings to settle, in that order; none if the request is not admitted so far. First come
    /// limits of which this gate can give back what it took. Then, as what the store was asked for exactly stays charged, the one
    /// that allows least, which is the likeliest to refuse.
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
            let at = self.shared_at(evaluation, *slot);
            let exact = at.filter(|(_, limit, _)| limit.asks_each());
            (exact.map(|(_, limit, probe)| limit.held_by(&probe.place).1.most()), *slot)
        });
        slots
    }

    /// Returns what the request does about the shared limit of the reading at `slot`. `waited_for` is the question that it has
    /// waited for, the first if there were several; `nodes` is how many gates there are.
    ///
    /// A request that has seen another's question answered with too little for it asks for itself, so that it waits for two questions at
    /// most, one after the other: one that waited on would end as if the store were silent, and be admitted beside the promise. All that
    /// wait at that moment ask at once; once one is refused that is remembered, and no request of the spent key asks.
    pub fn step(
        &self,
        evaluation: &Evaluation,
        slot: usize,
        request: &Request<'_>,
        waited_for: Option<u64>,
        (nodes, now): (u32, Timestamp),
    ) -> SharedStep {
        let Some(at @ (_, limit, probe)) = self.shared_at(evaluation, slot) else { return SharedStep::Done(FAULT) };
        let (leases, cost, (key, promise)) = (limit.leases(), probe.cost, limit.held_by(&probe.place));
        let ask = |asking| {
            let call = self.call(evaluation, at, request, asking, now);
            call.map_or(SharedStep::Done(FAULT), SharedStep::Ask)
        };
        if limit.asks_each() {
            return ask(None);
        }
        if waited_for.is_none() {
            leases.note(key, cost, now);
        }
        let by = DecidedBy::Lease;
        for _ in 0..ATTEMPTS {
            match leases.take(key, cost, &promise, now) {
                Look::Holds { left, low, ends } => {
                    let left = limit.left(&probe.place, left);
                    return SharedStep::Done(SharedOutcome::Paid { by, left, low, lease: Some((ends, nodes)) });
                }
                Look::Refused { retry_nanos, .. } => {
                    return SharedStep::Done(SharedOutcome::Refused { by, retry_nanos });
                }
                Look::Unknown => {}
            }
            match leases.begin(key, cost, &promise, nodes, now) {
                Begin::Ask(asking) => return ask(Some(asking)),
                // another call has brought some since
                Begin::Known(_) => {}
                Begin::Busy { question } => {
                    let is_second = waited_for.is_some_and(|first| first != question);
                    return if is_second { ask(None) } else { SharedStep::Wait { key, question } };
                }
            }
        }
        ask(None)
    }

    /// Notes what became of the shared limit of the reading at `slot`.
    pub fn settle(&self, evaluation: &mut Evaluation, slot: usize, outcome: SharedOutcome) {
        evaluation.refills |= u8::from(matches!(outcome, SharedOutcome::Paid { low: true, .. })) << slot;
        evaluation.settled.push((slot, outcome));
    }

    /// Returns the positions of the readings that [`Engine::refill`] may have a call for.
    pub fn refills(&self, evaluation: &Evaluation) -> impl Iterator<Item = usize> + use<> {
        let refills = evaluation.refills;
        (0..Route::MAX_RULES).filter(move |slot| refills >> slot & 1 == 1)
    }

    /// Returns the call to make in the background for the limit of the reading at `slot`, once: its lease runs low, or its budget
    /// has come back. `None` if another call is on its way.
    pub fn refill(
        &self,
        evaluation: &mut Evaluation,
        slot: usize,
        request: &Request<'_>,
        (nodes, now): (u32, Timestamp),
    ) -> Option<SharedCall> {
        evaluation.refills &= !(1 << slot);
        let at @ (_, limit, probe) = self.shared_at(evaluation, slot)?;
        let (key, promise) = limit.held_by(&probe.place);
        let Begin::Ask(asking) = limit.leases().refill(key, &promise, nodes, now) else { return None };
        self.call(evaluation, at, request, Some(asking), now)
    }

    /// Makes a call: for what `asking` says, or exactly for what the request costs.
    fn call(
        &self,
        evaluation: &Evaluation,
        (rule, limit, probe): (usize, &Arc<SharedLimit>, &Probe),
        request: &Request<'_>,
        asking: Option<Asking>,
        now: Timestamp,
    ) -> Option<SharedCall> {
        let (client, place) = (evaluation.decision.client?, &probe.place);
        let route = self.policy().routes.route(evaluation.decision.route?)?;
        let own = self.policy().rules.get(rule)?;
        // a request that has several keys or values is refused before it comes here
        let begun = |name: StoreName| {
            let mut keys = Keys::from_iter([name]);
            keys_into(&mut keys, own, self.policy(), (request, &client, route)).ok()?;
            Some(keys)
        };
        let name = |names: &Names| -> Option<Named> {
            let key = begun(names.keys.begin())?.pop()?.finish();
            let value = match &own.of {
                Some(of) => {
                    let mut values = begun(names.keys.begin_value())?;
                    of.add_to(&mut values, request, &client, &route.name).ok()?;
                    Some(values.pop()?.finish())
                }
                None => None,
            };
            Some((key, value, Arc::clone(&names.tiers)))
        };
        let (present, previous) = limit.names();
        let (key, value, tiers) = name(present)?;
        let cost = probe.cost.get();
        let (wanted, least) = asking.as_ref().map_or((cost, cost), |asking| (asking.wanted(), asking.least()));
        let begins = self.limiter(rule).and_then(|limiter| limiter.windows_begin(now));
        let told = limit.known_by().is_some();
        let mut question = Question { rule, key, tiers, tier: place.tier, begins, value, wanted, least, told };
        let rotation = previous.and_then(name).map(|previous| SecretRotation::begin(&mut question, previous));
        Some(SharedCall {
            question,
            key: limit.held_by(place).0,
            watch: limit.leases().watch(limit.counted_by(place), place.tier),
            limit: Arc::clone(limit),
            began: now,
            asking,
            rotation,
        })
    }

    /// Returns the position of the rule at `slot`, its shared limit, and where the request counts.
    fn shared_at<'e>(
        &'e self,
        evaluation: &'e Evaluation,
        slot: usize,
    ) -> Option<(usize, &'e Arc<SharedLimit>, &'e Probe)> {
        let rule = evaluation.decision.readings.get(slot)?.rule;
        Some((rule, self.shared_limit(rule)?, evaluation.probes.get(slot)?.as_ref()?))
    }

    /// Returns whether what became of the limit at `slot` ends the request, so that no other need be settled.
    pub fn refuses(&self, evaluation: &Evaluation, slot: usize) -> bool {
        let Some(reading) = evaluation.decision.readings.get(slot) else { return false };
        let obeyed = self.rule(reading.rule).is_some_and(|(rule, _)| !matches!(rule.action, OnLimit::Tag { .. }));
        let refused = matches!(settled(evaluation, slot), Some(SharedOutcome::Refused { .. }));
        reading.mode == Mode::Enforce && obeyed && (refused || self.refuses_on_store_error(evaluation, slot))
    }

    /// Returns whether the limit at `slot` refuses because its store did not answer, and not because of what the client did.
    pub(super) fn refuses_on_store_error(&self, evaluation: &Evaluation, slot: usize) -> bool {
        match (settled(evaluation, slot), self.shared_at(evaluation, slot)) {
            (Some(SharedOutcome::Unanswered { store_error, .. }), Some((_, limit, _))) => {
                direction(limit, store_error) == OnStoreError::Closed
            }
            _ => false,
        }
    }

    /// Returns the shared limits that were decided without their store: which store, why, and in which direction.
    pub fn fallbacks<'e>(
        &'e self,
        evaluation: &'e Evaluation,
    ) -> impl Iterator<Item = (StoreId, StoreError, OnStoreError)> + 'e {
        evaluation.settled.iter().filter_map(|(slot, outcome)| {
            let SharedOutcome::Unanswered { store_error, .. } = *outcome else { return None };
            let (_, limit, _) = self.shared_at(evaluation, *slot)?;
            Some((limit.shared().store, store_error, direction(limit, store_error)))
        })
    }

    /// Charges the shared limit at `slot` by its outcome; the second value says who decided.
    pub(super) fn charge_shared(
        &self,
        evaluation: &Evaluation,
        slot: usize,
        now: Timestamp,
    ) -> (Result<(Judgement, Option<Hold>), Lost>, DecidedBy) {
        let lost = |judgement| Err(Lost::refused(judgement));
        let Some((rule, limit, probe)) = self.shared_at(evaluation, slot) else {
            return (lost(refused(0, None)), DecidedBy::Gate);
        };
        let most = limit.held_by(&probe.place).1.most();
        let unsettled = SharedOutcome::Unanswered { store_error: StoreError::TimedOut, nodes: 1 };
        match settled(evaluation, slot).unwrap_or(unsettled) {
            // in requests like this one, as of a limit of the gate itself
            SharedOutcome::Paid { by, left, .. } => {
                (Ok((Judgement::admitted(left / probe.cost.get(), most / probe.cost.get()), None)), by)
            }
            SharedOutcome::Refused { by, retry_nanos } => (lost(refused(most, retry_nanos)), by),
            SharedOutcome::Unanswered { store_error, nodes } => {
                let charged = match (direction(limit, store_error), self.limiters().get(rule)) {
                    (OnStoreError::Open, _) => Ok((Judgement::admitted(0, most), None)),
                    (OnStoreError::Local, Some(limiter)) => {
                        limiter.admit_part(&probe.place, now, probe.cost, (nodes, most))
                    }
                    (OnStoreError::Closed, _) | (OnStoreError::Local, None) => lost(refused(most, None)),
                };
                (charged, DecidedBy::Fallback)
            }
        }
    }

    /// Puts what stores granted to an admitted request with all that it holds, but for what counts bytes, which are charged as they pass.
    /// Of another request it is given back.
    pub(super) fn keep_grants(&self, evaluation: &mut Evaluation, holds: &mut Holds) {
        let granted = std::mem::take(&mut evaluation.at_stores);
        if evaluation.decision.verdict != Verdict::Admitted {
            return;
        }
        for mut held in granted {
            let known_by = self.shared_at(evaluation, held.slot).and_then(|(_, limit, _)| limit.known_by());
            match known_by {
                Some(KnownBy::Bytes) => {
                    // its first unit is charged from here on
                    held.hold.sent();
                    evaluation.at_stores.push(held);
                }
                // there are as many places as keys
                _ => drop(holds.try_push(held)),
            }
        }
    }

    /// Gives back what was taken of leases for a request that another limit has refused.
    pub(super) fn give_back(&self, evaluation: &Evaluation, now: Timestamp) {
        for (slot, outcome) in &evaluation.settled {
            if let (SharedOutcome::Paid { lease: Some((ends, nodes)), .. }, Some((_, limit, probe))) =
                (*outcome, self.shared_at(evaluation, *slot))
            {
                let (key, promise) = limit.held_by(&probe.place);
                // a value counts, whatever becomes of the request
                if matches!(promise, Promise::Values { .. }) {
                    continue;
                }
                limit.leases().give_back(key, probe.cost, ends, &promise, nodes, now);
            }
        }
    }
}

/// What became of the limit at `slot`.
fn settled(evaluation: &Evaluation, slot: usize) -> Option<SharedOutcome> {
    evaluation.settled.iter().find(|(known, _)| *known == slot).map(|(_, outcome)| *outcome)
}

/// The direction of a limit whose store did not answer. A fault of ours, or of the store's configuration, opens nothing.
fn direction(limit: &SharedLimit, store_error: StoreError) -> OnStoreError {
    if store_error == StoreError::Faulty { OnStoreError::Closed } else { limit.shared().on_store_error }
}
