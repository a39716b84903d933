//! Settles the shared limits of one request before it is admitted: from what this gate holds, or by asking a store.
//!
//! A request waits at most for its store's `timeout`, however many of its limits the store is asked about. A limit whose store does
//! not answer is decided by its `on_store_error`. Calls run as tasks of their own, so that the call of a client that leaves still
//! ends: other requests spend what it brings, and meanwhile no request asks about the key again.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::downstream::{Downstream, request_view};
use super::store_holds::StoreHold;
use crate::engine::{Evaluation, SharedCall, SharedOutcome, SharedStep, StoreGrant};
use crate::limiter::sharing::StoreError;
use crate::policy::Rule;
use crate::request::Request;
use crate::running::generation::Generation;
use crate::running::process::Process;
use crate::store::StoreInUse;

/// A request that waits for another's call looks for itself after so long: a wake-up between its look and its wait is lost.
const LONGEST_SLEEP: Duration = Duration::from_millis(1);

/// Asks stores for budget that a key will need soon: when the pause of a refused request ends, when a lease runs low, or right after
/// a request that had to wait. No request waits for the answer.
pub fn refill(process: &Process, generation: &Generation, evaluation: &mut Evaluation, request: &Request<'_>) {
    let engine = generation.engine();
    for slot in engine.refills(evaluation) {
        let Some((store, rule)) = store_at(generation, evaluation, slot) else { continue };
        if let Some(call) = engine.refill(evaluation, slot, request, (store.nodes(), process.clock.now())) {
            drop(send(process, store, rule, call));
        }
    }
}

/// Settles each shared limit of a request that is admitted so far, in the order of
/// [`Engine::to_settle`](crate::engine::Engine::to_settle), until one refuses. Returns why the last store that did not answer did not.
pub async fn settle(
    process: &Process,
    session: &mut impl Downstream,
    generation: &Generation,
    evaluation: &mut Evaluation,
) -> Option<StoreError> {
    let engine = generation.engine();
    let slots = engine.to_settle(evaluation);
    if slots.is_empty() {
        return None;
    }
    let began = Instant::now();
    for slot in slots {
        let (outcome, hold) = match store_at(generation, evaluation, slot) {
            Some(asked) => Box::pin(ask(process, session, generation, (evaluation, slot), asked, began)).await,
            None => (SharedOutcome::Unanswered { store_error: StoreError::Faulty, nodes: 1 }, None),
        };
        engine.settle(evaluation, slot, outcome);
        if let Some(hold) = hold {
            evaluation.keep(slot, Box::new(hold));
        }
        refill(process, generation, evaluation, &request_view(session).request());
        if engine.refuses(evaluation, slot) {
            break;
        }
    }
    let mut last = None;
    for (store, store_error, direction) in engine.fallbacks(evaluation) {
        if let Some(store) = generation.store(store) {
            store.fell_back(direction);
        }
        last = Some(store_error);
    }
    last
}

/// Takes the shared limit at `slot` to its outcome, and to what the request holds in the store then.
async fn ask(
    process: &Process,
    session: &mut impl Downstream,
    generation: &Generation,
    (evaluation, slot): (&Evaluation, usize),
    (store, rule): (&Arc<StoreInUse>, &Arc<Rule>),
    began: Instant,
) -> (SharedOutcome, Option<StoreHold>) {
    let engine = generation.engine();
    let due = began + store.spec().timeout;
    let mut wait = Wait { store, counts: false };
    // the question that it has waited for, and whether a waker rang before it must have been sent
    let (mut waited_for, mut woken) = (None, false);
    let store_error = loop {
        let (view, now) = (request_view(session), process.clock.now());
        match engine.step(evaluation, slot, &view.request(), waited_for, (store.nodes(), now)) {
            SharedStep::Done(outcome) => {
                wait.counts |= woken;
                return (outcome, None);
            }
            SharedStep::Ask(call) => {
                let counted = wait.counts;
                // a limit before this one may have taken all the time there was
                wait.counts |= Instant::now() < due;
                break match timeout_at(due, send(process, store, rule, call)).await {
                    Ok(Ok((outcome, sent, hold))) => {
                        wait.counts = counted || sent;
                        return (outcome, hold);
                    }
                    Ok(Err(_)) => StoreError::Faulty,
                    Err(_) => StoreError::TimedOut,
                };
            }
            SharedStep::Wait { key, question } => {
                waited_for = waited_for.or(Some(question));
                let pause = due.min(Instant::now() + LONGEST_SLEEP);
                match timeout_at(pause, process.wakers.wait(key)).await {
                    Ok(()) => woken = true,
                    Err(_) => wait.counts = true,
                }
            }
        }
        if Instant::now() >= due {
            wait.counts |= woken;
            break StoreError::TimedOut;
        }
    };
    (SharedOutcome::Unanswered { store_error, nodes: store.nodes() }, None)
}

/// Returns the store and the rule of the shared limit at `slot`.
fn store_at<'g>(
    generation: &'g Generation,
    evaluation: &Evaluation,
    slot: usize,
) -> Option<(&'g Arc<StoreInUse>, &'g Arc<Rule>)> {
    let rule = generation.engine().policy().rules.get(evaluation.decision.readings.get(slot)?.rule)?;
    Some((generation.store(rule.shared?.store)?, rule))
}

/// Starts a call, which goes on whether or not a request waits for it. Returns its outcome, whether a question was sent, and what is held in the
/// store then: if no request waits for it any more, that is given back.
fn send(
    process: &Process,
    store: &Arc<StoreInUse>,
    rule: &Arc<Rule>,
    call: SharedCall,
) -> JoinHandle<(SharedOutcome, bool, Option<StoreHold>)> {
    let (store, rule, clock) = (Arc::clone(store), Arc::clone(rule), process.clock);
    let (wakers, key) = (Arc::clone(&process.wakers), call.key);
    tokio::spawn(async move {
        let mut grant = call.grant();
        let (mut call, mut sent) = (call, false);
        loop {
            let (answer, out) = store.ask(&call.question, &rule.name).await;
            sent |= out;
            if let (Some(grant), Ok(answer)) = (&mut grant, answer) {
                grant.answered(&call.question, answer);
            }
            match call.answered(answer.map(|(answer, _)| answer), store.nodes(), clock.now()) {
                ControlFlow::Continue(next) => call = next,
                ControlFlow::Break(outcome) => {
                    wakers.wake(key);
                    // of one name that granted while the other did not, too
                    let hold = grant.filter(StoreGrant::is_any).map(|grant| StoreHold::begin(&store, &rule, grant));
                    let hold = hold.filter(|_| matches!(outcome, SharedOutcome::Paid { .. }));
                    return (outcome, sent, hold);
                }
            }
        }
    })
}

/// A request at one of its limits. Counted at its end, also if the client leaves, if it waited for the store.
struct Wait<'a> {
    store: &'a StoreInUse,
    counts: bool,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if self.counts {
            self.store.waited();
        }
    }
}
