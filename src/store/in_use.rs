//! The stores of the policy in force: each a client that is tended for as long as a policy names it, and what requests
//! made of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::AbortHandle;

use super::ban_sync::{BanSync, SharedBans};
use super::client::StoreClient;
use super::dialer::Access;
use super::peer_sync::PeerExchange;
use super::state::StoreState;
use crate::bans::Bans;
use crate::client::Trust;
use crate::config::settings::Secret;
use crate::engine::PeerSync;
use crate::limiter::sharing::{Amendment, Answer, OnStoreError, Question, StoreError};
use crate::policy::Store;
use crate::system::clock::Clock;

/// A store that limits of the policy in force are shared through.
pub struct StoreInUse {
    spec: Arc<Store>,
    access: Access,
    client: Arc<StoreClient>,
    waits: AtomicU64,
    fallbacks: [AtomicU64; OnStoreError::ALL.len()],
    /// Goes on when the same store is reached in another way.
    peers: Arc<PeerExchange>,
    /// As above.
    bans: Arc<BanSync>,
    clock: Clock,
    tending: OnceLock<[AbortHandle; 3]>,
}

impl StoreInUse {
    /// The stores of a policy, with their passwords in the same order. One that is what it was `before` goes on: its
    /// connection, its breaker and what it knows of other gates. `clock` is the one that requests are judged by.
    ///
    /// # Errors
    /// A store that cannot be reached like that, by name, and why.
    pub fn all(
        specs: &[Arc<Store>],
        passwords: &[Option<Secret>],
        before: &[Arc<StoreInUse>],
        clock: Clock,
    ) -> Result<Vec<Arc<StoreInUse>>, (String, String)> {
        let open = |(index, spec): (usize, &Arc<Store>)| {
            let fault = |fault: String| (spec.name.clone(), fault);
            let authorities = match &spec.ca {
                Some(file) => Some(std::fs::read(file).map_err(|error| fault(format!("{}: {error}", file.display())))?),
                None => None,
            };
            let password = passwords.get(index).cloned().flatten().map(|secret| secret.0);
            let access = Access { password, authorities };
            if let Some(same) = before.iter().find(|was| was.spec == *spec && was.access == access) {
                return Ok(Arc::clone(same));
            }
            let client = StoreClient::new(spec, &access).map_err(|error| fault(error.to_string()))?;
            let place = |spec: &Store| (spec.name.clone(), spec.prefix.clone(), spec.database);
            let there = before.iter().find(|was| place(&was.spec) == place(spec));
            let (peers, bans) = there.map(|was| (Arc::clone(&was.peers), Arc::clone(&was.bans))).unzip();
            Ok(Arc::new(StoreInUse {
                spec: Arc::clone(spec),
                access,
                client: Arc::new(client),
                waits: AtomicU64::new(0),
                fallbacks: Default::default(),
                peers: peers.unwrap_or_else(|| Arc::new(PeerExchange::new(clock.now()))),
                bans: bans.unwrap_or_else(|| Arc::new(BanSync::new(clock.now()))),
                clock,
                tending: OnceLock::new(),
            }))
        };
        specs.iter().enumerate().map(open).collect()
    }

    /// Keeps it connected from now on, until it is dropped. In a runtime only; a second time does nothing.
    pub fn tend(&self) {
        self.tending.get_or_init(|| {
            let [client, asking, sharing] = std::array::from_fn(|_| Arc::clone(&self.client));
            let (peers, bans, clock) = (Arc::clone(&self.peers), Arc::clone(&self.bans), self.clock);
            let tending = tokio::spawn(async move { client.tend().await });
            let publishing = tokio::spawn(async move { peers.tend(&asking, clock).await });
            let sharing = tokio::spawn(async move { bans.tend(&sharing, clock).await });
            [tending.abort_handle(), publishing.abort_handle(), sharing.abort_handle()]
        });
    }

    /// Publishes what these limits admit to the gates that share the store, from now on.
    pub fn publish(&self, limits: Vec<Arc<PeerSync>>) {
        self.peers.publish(limits);
    }

    /// Shares these bans with the gates that share the store, from now on, if the policy says so and there is a secret.
    pub fn share_bans(&self, bans: &Arc<Bans>, trust: &Trust, secrets: Option<(&[u8], Option<&[u8]>)>) {
        let secrets = secrets.filter(|_| self.spec.share_bans);
        self.bans.share(secrets.map(|secrets| SharedBans::new(Arc::clone(bans), trust.clone(), secrets, &self.spec)));
    }

    /// Has the bans shared at once, and waits for nobody.
    pub fn has_new_bans(&self) {
        self.bans.wake();
    }

    /// Waits until the store has the bans as they are now, for so long at most. Returns whether it has, or shares none.
    pub async fn has_bans_within(&self, patience: Duration) -> bool {
        self.bans.shared_within(patience).await
    }

    /// What the policy says of it.
    pub fn spec(&self) -> &Store {
        &self.spec
    }

    /// How many gates share it; at least one.
    pub fn nodes(&self) -> u32 {
        self.client.nodes()
    }

    /// Waits until each of these has answered, or for the time that the policy gives it. Says of each whether it has.
    pub async fn first_answers(stores: &[Arc<StoreInUse>]) -> Vec<(Arc<StoreInUse>, bool)> {
        let ready = stores.iter().map(|store| async {
            let answered = store.client.answers_within(store.spec.ready_within).await;
            (Arc::clone(store), answered)
        });
        join_all(ready).await
    }

    /// Asks it for a limit of this name, as [`StoreClient::ask`] does.
    pub async fn ask(&self, question: &Question, limit: &str) -> (Result<(Answer, u64), StoreError>, bool) {
        self.client.ask(question, limit).await
    }

    /// Tells it what became of a grant, as [`StoreClient::tell`] does.
    pub async fn tell(&self, amendment: &Amendment, limit: &str) -> (Result<(Answer, u64), StoreError>, bool) {
        self.client.tell(amendment, limit).await
    }

    /// Counts a request that waited for it.
    pub fn waited(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a decision that was made without it.
    pub fn fell_back(&self, direction: OnStoreError) {
        let place = OnStoreError::ALL.iter().position(|known| *known == direction);
        if let Some(count) = place.and_then(|place| self.fallbacks.get(place)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns how it stands.
    pub fn state(&self) -> StoreState {
        let counts = OnStoreError::ALL.into_iter().zip(&self.fallbacks);
        let fallbacks: Vec<_> = counts.map(|(to, count)| (to.word(), count.load(Ordering::Relaxed))).collect();
        let exchange = self.peers.state(self.clock.now());
        StoreState {
            waits: self.waits.load(Ordering::Relaxed),
            fallbacks: fallbacks.iter().map(|(_, count)| count).sum(),
            fallbacks_by_direction: fallbacks,
            staleness_seconds: exchange.as_ref().map(|exchange| exchange.staleness_seconds),
            exchange,
            bans_age_seconds: self.bans.age(self.clock.now()),
            ..self.client.status()
        }
    }
}

impl Drop for StoreInUse {
    fn drop(&mut self) {
        if let Some(tending) = self.tending.get() {
            tending.iter().for_each(AbortHandle::abort);
        }
    }
}
