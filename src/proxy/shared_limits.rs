//! Shared limits of one request, settled before it is admitted: from what this gate holds, or by asking a store.
//!
//! A request waits at most its store's `timeout`, however many of its limits the store is asked about; a limit whose store is silent is
//! decided by its `on_store_error`. Errands run as tasks of their own, so that one whose client leaves still comes
//! home: what it brings is spent by others, and nobody else asks about the key meanwhile.

use std::sync::Arc;
use std::time::Duration;

use pingora::proxy::Session;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::downstream::request_view;
use crate::engine::{Brought, By, Errand, Judged, Step};
use crate::limiter::cluster::{Answer, Silence};
use crate::policy::Rule;
use crate::request::Request;
use crate::running::generation::Generation;
use crate::running::process::Process;
use crate::running::wakers::Bells;
use crate::store::StoreInUse;
use crate::system::clock::Clock;

/// Asks stores for budget that a key will need soon: when the pause of a refused request ends, or right after one that had to wait.
/// No request waits for the answer.
pub fn refill(shared: &Process, installed: &Generation, judged: &Judged, request: &Request<'_>) {
    let readings = &judged.decision.readings;
    let (snapshot, Some(client)) = (installed.snapshot(), &judged.decision.client) else { return };
    if !snapshot.refills(judged) {
        return;
    }
    for (slot, reading) in readings.iter().enumerate().filter(|(_, reading)| reading.by == By::Lease) {
        let Some(rule) = snapshot.policy().rules.get(reading.rule) else { continue };
        let Some(store) = rule.shared.and_then(|shared| installed.stores().get(shared.store)) else { continue };
        if let Some(errand) = snapshot.refill(judged, slot, (request, client), store.nodes(), shared.clock.now()) {
            drop(send(shared, store, rule, errand));
        }
    }
}

/// Settles every shared limit of a request that is admitted so far, in the order of
/// [`Snapshot::to_settle`](crate::engine::Snapshot::to_settle), until one is against it. Gives what the last
/// store that did not answer met it with.
pub async fn settle(
    shared: &Process,
    session: &mut Session,
    installed: &Generation,
    judged: &mut Judged,
) -> Option<Silence> {
    let snapshot = installed.snapshot();
    let slots = snapshot.to_settle(judged);
    if slots.is_empty() {
        return None;
    }
    let began = Instant::now();
    let mut silence = None;
    for slot in slots {
        silence = settle_one(shared, session, installed, judged, slot, began).await.or(silence);
        if snapshot.is_against(judged, slot) {
            break;
        }
    }
    refill(shared, installed, judged, &request_view(session).request());
    for (store, direction) in snapshot.fallbacks(judged) {
        if let Some(store) = installed.stores().get(store) {
            store.fell_back(direction);
        }
    }
    silence
}

/// Settles one; gives what its store met it with, if that was no answer.
async fn settle_one(
    shared: &Process,
    session: &mut Session,
    installed: &Generation,
    judged: &mut Judged,
    slot: usize,
    began: Instant,
) -> Option<Silence> {
    let snapshot = installed.snapshot();
    let rule = snapshot.policy().rules.get(judged.decision.readings.get(slot)?.rule)?;
    let store = rule.shared.and_then(|shared| installed.stores().get(shared.store));
    let (Some(store), Some(client)) = (store, judged.decision.client) else {
        snapshot.silent(judged, slot, Silence::Faulty, 1);
        return Some(Silence::Faulty);
    };
    let due = began + store.spec().timeout;
    let mut wait = Wait { store, counts: false };
    // whether another request's errand was waited for, but not so long that it must have been sent
    let (mut heard_bell, mut seen) = (false, None);
    loop {
        let step = {
            let view = request_view(session);
            let (asker, now) = ((&view.request(), &client), shared.clock.now());
            match snapshot.step(judged, slot, asker, store.nodes(), now) {
                Step::Wait(key) => {
                    snapshot.alone(judged, slot, asker, &mut seen, now).map_or(Step::Wait(key), Step::Ask)
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
                drop(send(shared, store, rule, errand));
                return None;
            }
            Step::Ask(errand) => {
                let waited = wait.counts;
                // a limit before this one may have taken all the time there was
                wait.counts |= Instant::now() < due;
                let silence = match timeout_at(due, send(shared, store, rule, errand)).await {
                    Ok(Ok(Home { brought, sent, silence })) => {
                        wait.counts = waited || sent;
                        snapshot.brought(judged, slot, brought);
                        return silence;
                    }
                    Ok(Err(_)) => Silence::Faulty,
                    Err(_) => Silence::TimedOut,
                };
                snapshot.silent(judged, slot, silence, store.nodes());
                return Some(silence);
            }
            Step::Again => {}
            Step::Wait(key) => {
                let bell = shared.bells.of(key)?;
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
            snapshot.silent(judged, slot, Silence::TimedOut, store.nodes());
            return Some(Silence::TimedOut);
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
    silence: Option<Silence>,
}

/// Sends somebody to ask, who comes home whether or not anybody waits for it.
fn send(shared: &Process, store: &Arc<StoreInUse>, rule: &Arc<Rule>, errand: Errand) -> JoinHandle<Home> {
    tokio::spawn(run(Arc::clone(store), Arc::clone(rule), errand, shared.clock, Arc::clone(&shared.bells)))
}

/// Asks, and takes in what was said.
async fn run(store: Arc<StoreInUse>, rule: Arc<Rule>, mut errand: Errand, clock: Clock, bells: Arc<Bells>) -> Home {
    let (began, key) = (clock.now(), errand.key);
    let (said, sent) = ask(&store, &rule, &mut errand).await;
    let silence = said.as_ref().err().copied();
    let brought = errand.done(said, store.nodes(), began, clock.now());
    if let Some(bell) = bells.of(key) {
        bell.notify_waiters();
    }
    Home { brought, sent, silence }
}

/// Asks one question after the other. A request waits for all of them together as long as for one.
async fn ask(store: &StoreInUse, rule: &Rule, errand: &mut Errand) -> (Result<Answer, Silence>, bool) {
    let mut sent = false;
    loop {
        let (said, out) = store.ask(&errand.question, &rule.name).await;
        sent |= out;
        let answer = match said {
            Ok(answer) => answer,
            Err(silence) => return (Err(silence), sent),
        };
        if let Some(all) = errand.heard(answer) {
            return (Ok(all), sent);
        }
    }
}
