//! Shared limits of one request, settled before it is admitted: from what this gate holds, or by asking a store.
//!
//! A request waits at most its store's `timeout`, however many of its limits the store is asked about; a limit whose store is silent is
//! decided by its `on_store_error`. Questions run as tasks of their own. If the client leaves, the answer
//! still arrives: other requests of the key spend it, and none of them asks meanwhile.

use std::sync::Arc;
use std::time::Duration;

use pingora::proxy::Session;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::downstream::request_view;
use crate::engine::{Brought, DecidedBy, Errand, Evaluation, Step};
use crate::limiter::sharing::{Answer, StoreError};
use crate::policy::Rule;
use crate::request::Request;
use crate::running::generation::Generation;
use crate::running::process::Process;
use crate::running::wakers::Wakers;
use crate::store::StoreInUse;
use crate::system::clock::Clock;

/// Asks stores for budget that a key will need soon: when the pause of a refused request ends, or right after one that had to wait.
/// No request waits for the answer.
pub fn refill(process: &Process, generation: &Generation, evaluation: &Evaluation, request: &Request<'_>) {
    let readings = &evaluation.decision.readings;
    let (engine, Some(client)) = (generation.engine(), &evaluation.decision.client) else { return };
    if !engine.refills(evaluation) {
        return;
    }
    for (slot, reading) in readings.iter().enumerate().filter(|(_, reading)| reading.by == DecidedBy::Lease) {
        let Some(rule) = engine.policy().rules.get(reading.rule) else { continue };
        let Some(store) = rule.shared.and_then(|shared| generation.stores().get(shared.store)) else { continue };
        if let Some(errand) = engine.refill(evaluation, slot, (request, client), store.nodes(), process.clock.now()) {
            drop(send(process, store, rule, errand));
        }
    }
}

/// Settles every shared limit of a request that is admitted so far, in the order of
/// [`Engine::to_settle`](crate::engine::Engine::to_settle), until one is against it. Gives what the last
/// store that did not answer met it with.
pub async fn settle(
    process: &Process,
    session: &mut Session,
    generation: &Generation,
    evaluation: &mut Evaluation,
) -> Option<StoreError> {
    let engine = generation.engine();
    let slots = engine.to_settle(evaluation);
    if slots.is_empty() {
        return None;
    }
    let began = Instant::now();
    let mut store_error = None;
    for slot in slots {
        store_error = settle_one(process, session, generation, evaluation, slot, began).await.or(store_error);
        if engine.is_against(evaluation, slot) {
            break;
        }
    }
    refill(process, generation, evaluation, &request_view(session).request());
    for (store, direction) in engine.fallbacks(evaluation) {
        if let Some(store) = generation.stores().get(store) {
            store.fell_back(direction);
        }
    }
    store_error
}

/// Settles one; gives what its store met it with, if that was no answer.
async fn settle_one(
    process: &Process,
    session: &mut Session,
    generation: &Generation,
    evaluation: &mut Evaluation,
    slot: usize,
    began: Instant,
) -> Option<StoreError> {
    let engine = generation.engine();
    let rule = engine.policy().rules.get(evaluation.decision.readings.get(slot)?.rule)?;
    let store = rule.shared.and_then(|shared| generation.stores().get(shared.store));
    let (Some(store), Some(client)) = (store, evaluation.decision.client) else {
        engine.silent(evaluation, slot, StoreError::Faulty, 1);
        return Some(StoreError::Faulty);
    };
    let due = began + store.spec().timeout;
    let mut wait = Wait { store, counts: false };
    // whether another request's errand was waited for, but not so long that it must have been sent
    let (mut heard_bell, mut seen) = (false, None);
    loop {
        let step = {
            let view = request_view(session);
            let (asker, now) = ((&view.request(), &client), process.clock.now());
            match engine.step(evaluation, slot, asker, store.nodes(), now) {
                Step::Wait(key) => {
                    engine.alone(evaluation, slot, asker, &mut seen, now).map_or(Step::Wait(key), Step::Ask)
                }
                step => step,
            }
        };
        match step {
            // what it was waited for has come
            Step::Settled => {
                wait.counts |= heard_bell;
                return None;
            }
            Step::Refill(errand) => {
                wait.counts |= heard_bell;
                drop(send(process, store, rule, errand));
                return None;
            }
            Step::Ask(errand) => {
                let waited = wait.counts;
                // a limit before this one may have taken all the time there was
                wait.counts |= Instant::now() < due;
                let store_error = match timeout_at(due, send(process, store, rule, errand)).await {
                    Ok(Ok(Home { brought, sent, store_error })) => {
                        wait.counts = waited || sent;
                        engine.brought(evaluation, slot, brought);
                        return store_error;
                    }
                    Ok(Err(_)) => StoreError::Faulty,
                    Err(_) => StoreError::TimedOut,
                };
                engine.silent(evaluation, slot, store_error, store.nodes());
                return Some(store_error);
            }
            Step::Again => {}
            Step::Wait(key) => {
                let bell = process.bells.of(key)?;
                // a bell that rang between the step and now is not heard, so nobody sleeps longer than this on it
                let pause = due.min(Instant::now() + LONGEST_SLEEP);
                match timeout_at(pause, bell.notified()).await {
                    Ok(()) => heard_bell = true,
                    Err(_) => wait.counts = true,
                }
            }
        }
        if Instant::now() >= due {
            wait.counts |= heard_bell;
            engine.silent(evaluation, slot, StoreError::TimedOut, store.nodes());
            return Some(StoreError::TimedOut);
        }
    }
}

/// A request at one of its limits; counted at its end, however that comes, if it waited for the store.
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

/// After so long a request that waits for another looks for itself.
const LONGEST_SLEEP: Duration = Duration::from_millis(1);

/// An errand at its end.
struct Home {
    brought: Brought,
    /// Whether any of its questions was sent.
    sent: bool,
    /// What the store met it with, if that was no answer.
    store_error: Option<StoreError>,
}

/// Sends somebody to ask, who comes home whether or not anybody waits for it.
fn send(process: &Process, store: &Arc<StoreInUse>, rule: &Arc<Rule>, errand: Errand) -> JoinHandle<Home> {
    tokio::spawn(run(Arc::clone(store), Arc::clone(rule), errand, process.clock, Arc::clone(&process.bells)))
}

/// Asks, and takes in what was said.
async fn run(store: Arc<StoreInUse>, rule: Arc<Rule>, mut errand: Errand, clock: Clock, bells: Arc<Wakers>) -> Home {
    let (began, key) = (clock.now(), errand.key);
    let (said, sent) = ask(&store, &rule, &mut errand).await;
    let store_error = said.as_ref().err().copied();
    let brought = errand.done(said, store.nodes(), began, clock.now());
    if let Some(bell) = bells.of(key) {
        bell.notify_waiters();
    }
    Home { brought, sent, store_error }
}

/// Asks one question after the other. A request waits for all of them together as long as for one.
async fn ask(store: &StoreInUse, rule: &Rule, errand: &mut Errand) -> (Result<Answer, StoreError>, bool) {
    let mut sent = false;
    loop {
        let (said, out) = store.ask(&errand.question, &rule.name).await;
        sent |= out;
        let answer = match said {
            Ok(answer) => answer,
            Err(store_error) => return (Err(store_error), sent),
        };
        if let Some(all) = errand.heard(answer) {
            return (Ok(all), sent);
        }
    }
}
