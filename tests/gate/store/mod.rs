//! Limits that gates share, asked of real stores: what is answered, and what happens when nothing is.
//!
//! Unlike the other files here these drive the library: [`tidegate::store`] by itself, without a gate around it.

mod answers;
mod cluster;
mod credentials;
mod mirror;
mod outages;
mod peer_sync;
mod sentinel;
mod together;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::limiter::sharing::{Answer, Promise, Question, StoreError, StoreKey, StoreTier};
use tidegate::policy::{Breaker, Store, StoreMode};
use tidegate::store::{Access, StoreClient};
use tidegate::units::Rate;
use tokio::task::JoinHandle;

use crate::harness::PATIENCE;
use crate::harness::redis::Server;

/// What clients ask by, in tests that are not about how long that takes: two slow cores are shared by many.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A client that is tended until it is dropped.
struct Asking {
    client: Arc<StoreClient>,
    tending: JoinHandle<()>,
}

impl std::ops::Deref for Asking {
    type Target = StoreClient;

    fn deref(&self) -> &StoreClient {
        &self.client
    }
}

impl Asking {
    async fn ask(&self, question: &Question, limit: &str) -> Result<Answer, StoreError> {
        self.ask_stamped(question, limit).await.map(|(answer, _)| answer)
    }

    /// With the store's time.
    async fn ask_stamped(&self, question: &Question, limit: &str) -> Result<(Answer, u64), StoreError> {
        self.client.ask(question, limit).await.0
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.tending.abort();
    }
}

fn tended(store: &Store, access: &Access) -> Asking {
    let client = Arc::new(StoreClient::new(store, access).unwrap());
    let tending = tokio::spawn({
        let client = client.clone();
        async move { client.tend().await }
    });
    Asking { client, tending }
}

async fn connected(store: &Store) -> Asking {
    let asking = tended(store, &Access::default());
    until("a connection", || asking.status().connected).await;
    asking
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Asks until there is an answer.
async fn answered(asking: &Asking, question: &Question) -> Answer {
    let start = Instant::now();
    loop {
        match asking.ask(question, "limit").await {
            Ok(answer) => return answer,
            Err(store_error) => assert!(start.elapsed() < PATIENCE, "still {store_error:?}: {:?}", asking.status()),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn single(server: &Server) -> Store {
    store(StoreMode::Single, vec![server.port])
}

fn store(mode: StoreMode, ports: Vec<u16>) -> Store {
    Store {
        name: "shared".to_owned(),
        mode,
        servers: ports.into_iter().map(|port| ("127.0.0.1".to_owned(), port)).collect(),
        tls: false,
        ca: None,
        database: 0,
        username: None,
        timeout: TIMEOUT,
        ready_within: TIMEOUT,
        prefix: "tg:".to_owned(),
        share_bans: false,
        breaker: Breaker { open_after: 5, half_open_every: Duration::from_millis(100) },
    }
}

fn question(key: u8, promise: Promise, wanted: u32, least: u32) -> Question {
    let tiers = [StoreTier { id: 0, promise }].into();
    Question {
        rule: 0,
        key: StoreKey([key; 16]),
        tiers,
        tier: 0,
        begins: None,
        value: None,
        wanted,
        least,
        told: false,
    }
}

fn rate(events: u32, period: Duration, burst: u32) -> Promise {
    Promise::Rate { rate: Rate::new(events, period).unwrap(), burst }
}

/// So slow that nothing comes back during a test.
fn slow(burst: u32) -> Promise {
    rate(1, Duration::from_secs(3_600), burst)
}

/// One unit of a slow rate of 100.
fn one(key: u8) -> Question {
    question(key, slow(100), 1, 1)
}
