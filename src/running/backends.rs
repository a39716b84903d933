//! The origins and stores of a policy: opened before it is in force, heard of before it decides, tended while it does.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::fault::Fault;
use crate::config::Config;
use crate::engine::Engine;
use crate::origins::origin::OriginState;
use crate::origins::{health, resolve};
use crate::policy::{Origin, StoreId};
use crate::store::StoreInUse;
use crate::system::clock::Clock;

/// How long the first look-up of origins' names may hold up a start or a reload. Names that take longer arrive later, and their
/// origin answers 503 until then.
const FIRST_LOOKUP: Duration = Duration::from_secs(2);

/// The origins and stores of a policy, in its order.
pub struct Backends {
    origins: Vec<Arc<OriginState>>,
    stores: Vec<Arc<StoreInUse>>,
    /// Those that begin with this policy, or take the place of one.
    new_origins: Vec<Arc<OriginState>>,
    new_stores: Vec<Arc<StoreInUse>>,
}

impl Backends {
    /// Opens the origins and stores of a configuration. One that is what it was before goes on; one whose words changed takes along
    /// what is known of it. Touches nothing that is in force.
    ///
    /// # Errors
    /// An origin's TLS, or a store.
    pub fn open(config: &Config, before: Option<&Backends>, clock: Clock) -> Result<Backends, Fault> {
        let (origins_before, stores_before) =
            before.map_or((&[][..], &[][..]), |before| (&before.origins, &before.stores));
        let origin = |spec: &Arc<Origin>| {
            let before = origins_before.iter().find(|before| before.spec().name == spec.name);
            let opened = match before {
                Some(before) if before.spec() == &**spec => Ok(Arc::clone(before)),
                Some(before) => {
                    before.followed_by(Arc::clone(spec)).inspect(|after| resolve::carry_over(after, before))
                }
                None => OriginState::new(Arc::clone(spec), clock),
            };
            opened.map_err(|fault| Fault::Origin(spec.name.clone(), fault))
        };
        let (policy, passwords) = (&config.policy, &config.settings.store_passwords);
        let origins = policy.origins.iter().map(origin).collect::<Result<Vec<_>, _>>()?;
        let stores = StoreInUse::all(&policy.stores, passwords, stores_before, clock)
            .map_err(|(name, fault)| Fault::Store(name, fault))?;
        let (new_origins, new_stores) = (missing(&origins, origins_before), missing(&stores, stores_before));
        Ok(Backends { origins, stores, new_origins, new_stores })
    }

    /// Looks up the names of new origins and waits for the first answers of new stores, both for a limited time. Says of each new
    /// store whether it answered. Needs a runtime.
    pub async fn first_contact(&self) -> Vec<(Arc<StoreInUse>, bool)> {
        self.new_stores.iter().for_each(|store| store.tend());
        let lookups = async {
            for origin in &self.new_origins {
                resolve::resolve_once(origin).await;
            }
        };
        tokio::join!(timeout(FIRST_LOOKUP, lookups), StoreInUse::first_answers(&self.new_stores)).1
    }

    /// Has each store publish what the limits of this engine with `sharing: estimate` admit, and its bans.
    pub(super) fn publish(&self, engine: &Engine, secrets: Option<(&[u8], Option<&[u8]>)>) {
        for (index, store) in self.stores.iter().enumerate() {
            store.share_bans(engine.bans(), &engine.policy().clients.trust, secrets);
            let own = engine.peer_syncs().iter().flatten().filter(|limit| limit.shared().store == StoreId(index));
            store.publish(own.cloned().collect());
        }
    }

    /// Puts new origins in force and tends them; ends the tending of origins `before` that are gone. Needs a runtime.
    pub(super) fn take_over(&self, before: &Backends, clock: Clock, stopping: &watch::Receiver<bool>) {
        missing(&before.origins, &self.origins).iter().for_each(|origin| origin.retire());
        for origin in &self.new_origins {
            tend(Arc::clone(origin), clock, stopping.clone());
            origin.take_over();
        }
    }

    /// All origins, in the policy's order.
    pub fn origins(&self) -> &[Arc<OriginState>] {
        &self.origins
    }

    /// The stores that limits are shared through, in the policy's order.
    pub fn stores(&self) -> &[Arc<StoreInUse>] {
        &self.stores
    }
}

/// Those of `these` that are not among `others`.
fn missing<T>(these: &[Arc<T>], others: &[Arc<T>]) -> Vec<Arc<T>> {
    these.iter().filter(|one| !others.iter().any(|other| Arc::ptr_eq(one, other))).cloned().collect()
}

/// Keeps the addresses, the files and the health of an origin fresh until it is retired or the process stops.
fn tend(origin: Arc<OriginState>, clock: Clock, stopping: watch::Receiver<bool>) {
    tokio::spawn(async move {
        let way = Arc::clone(origin.way());
        let fresh = async {
            tokio::join!(
                resolve::keep_fresh(Arc::clone(&origin), stopping.clone()),
                health::keep_checking(Arc::clone(&origin), clock, stopping.clone()),
                way.keep_fresh(stopping.clone()),
            )
        };
        tokio::select! {
            _ = fresh => {}
            () = origin.retirement() => {}
        }
    });
}
