//! What a request holds of a limit in a store, until its answer or its end: a task beside the request, which then tells the store.
//!
//! A [`StoreHold`] lies with all else that the request holds. Dropped, wherever that is, it wakes its task: so what was granted to a client
//! that has left, or to a request that another limit refused, comes back at once. The task has places lent anew for as long as the request
//! lives, and charges bytes as they pass. What could not be sent, as the store is left alone, is told again for ten seconds; what was sent
//! is never repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use crate::engine::StoreGrant;
use crate::limiter::HoldElsewhere;
use crate::limiter::sharing::places::{Lend, RENEWED};
use crate::limiter::sharing::{Amendment, Answer};
use crate::policy::{KnownBy, Rule};
use crate::store::StoreInUse;
use crate::units::{Cost, Timestamp};

/// How often bytes that have passed are charged.
const BYTES_CHARGED: Duration = Duration::from_millis(100);

/// How long the store is told again what could not be sent.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long it is left alone in between.
const PAUSE: Duration = Duration::from_millis(250);

/// What a request holds in a store.
#[derive(Debug)]
pub struct StoreHold {
    known_by: KnownBy,
    cost: Cost,
    sent: bool,
    /// Wakes the task, with what was charged in the end.
    end: Option<oneshot::Sender<u32>>,
    /// What was charged as bytes passed.
    carried: Arc<AtomicU64>,
}

impl StoreHold {
    /// Keeps what was granted, in a runtime.
    pub fn begin(store: &Arc<StoreInUse>, rule: &Arc<Rule>, grant: StoreGrant) -> StoreHold {
        let (end, ended) = oneshot::channel();
        let (known_by, cost, carried) = (grant.known_by(), grant.cost(), Arc::<AtomicU64>::default());
        let task = Task { store: Arc::clone(store), rule: Arc::clone(rule), grant, carried: Arc::clone(&carried) };
        drop(tokio::spawn(task.run(ended)));
        StoreHold { known_by, cost, sent: false, end: Some(end), carried }
    }

    fn finish(&mut self, charged: u32) {
        if let Some(end) = self.end.take() {
            // a task that has gone was ended with its runtime
            let _ = end.send(charged);
        }
    }
}

impl HoldElsewhere for StoreHold {
    fn is_place(&self) -> bool {
        self.known_by != KnownBy::Answer
    }

    fn cost(&self) -> Cost {
        self.cost
    }

    fn sent(&mut self) {
        self.sent = true;
    }

    fn failed(&mut self) {
        self.sent = false;
    }

    fn settle(mut self: Box<Self>, _now: Timestamp, charge: Option<Cost>) {
        self.finish(charge.map_or(0, Cost::get));
    }

    fn charge(&mut self, cost: Cost) {
        // Relaxed: a sum, and nothing else is read by it
        self.carried.fetch_add(cost.get().into(), Ordering::Relaxed);
    }
}

impl Drop for StoreHold {
    fn drop(&mut self) {
        let charged = match self.known_by {
            KnownBy::Place => 0,
            KnownBy::Bytes | KnownBy::Answer => self.cost.get() * u32::from(self.sent),
        };
        self.finish(charged);
    }
}

/// The task beside a request.
struct Task {
    store: Arc<StoreInUse>,
    rule: Arc<Rule>,
    grant: StoreGrant,
    carried: Arc<AtomicU64>,
}

impl Task {
    async fn run(mut self, mut ended: oneshot::Receiver<u32>) {
        let charged = match self.grant.known_by() {
            KnownBy::Answer => ended.await,
            KnownBy::Place => loop {
                match timeout(RENEWED, &mut ended).await {
                    Ok(charged) => break charged,
                    Err(_) => self.renew().await,
                }
            },
            KnownBy::Bytes => loop {
                let charged = timeout(BYTES_CHARGED, &mut ended).await;
                self.charge_carried().await;
                if let Ok(charged) = charged {
                    break charged;
                }
            },
        };
        // a hold always says what was charged
        let charged = charged.unwrap_or(self.grant.cost().get());
        match self.grant.known_by() {
            KnownBy::Place => {
                for (_, amendment) in self.grant.places(Lend::Nothing) {
                    self.tell(&amendment, PATIENCE).await;
                }
            }
            KnownBy::Answer | KnownBy::Bytes => {
                let amendments: Vec<_> = self.grant.charged(charged).collect();
                for amendment in &amendments {
                    self.tell(amendment, PATIENCE).await;
                }
            }
        }
        self.grant.freed();
    }

    /// Has the place lent anew. One of which nobody knows whether it was ends by itself, and another is lent the next time.
    async fn renew(&mut self) {
        for (at, amendment) in self.grant.places(Lend::Anew) {
            let (answer, sent) = self.store.tell(&amendment, &self.rule.name).await;
            if sent {
                self.grant.renewed(at, answer.ok());
            }
        }
    }

    async fn charge_carried(&self) {
        let units = self.carried.swap(0, Ordering::Relaxed);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        if units > 0 {
            let amendments: Vec<_> = self.grant.more(units).collect();
            for amendment in &amendments {
                self.tell(amendment, PATIENCE).await;
            }
        }
    }

    /// Tells it once, and again if it was not sent.
    async fn tell(&self, amendment: &Amendment, patience: Duration) -> Option<(Answer, u64)> {
        let until = Instant::now() + patience;
        loop {
            match self.store.tell(amendment, &self.rule.name).await {
                (Ok(answer), _) => return Some(answer),
                (Err(_), true) => return None,
                (Err(_), false) if Instant::now() >= until => return None,
                (Err(_), false) => sleep(PAUSE).await,
            }
        }
    }
}
