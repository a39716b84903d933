//! All servers of one store: which has a key, and how they stand together.

use std::sync::Arc;

use arc_swap::ArcSwap;
use redis::RedisResult;

use super::breaker::BreakerState;
use super::common::Common;
use super::dialer::Access;
use super::script;
use super::shard::Shard;
use super::slots::{Slots, slot};
use super::state::{ServerStanding, ServerState};
use super::wire::Address;
use crate::limiter::sharing::StoreError;
use crate::policy::{Store, StoreMode};

/// The servers of a store, as they are known now.
pub struct Servers {
    /// What they have in common.
    pub common: Common,
    shards: ArcSwap<Shards>,
    /// The slot of the key of the stamps.
    gates: u16,
}

/// The servers that keys are on.
pub struct Shards {
    /// Of a cluster, in the order of `list`; `None`: the only one has all.
    pub slots: Option<Slots>,
    /// Each once.
    pub list: Vec<Arc<Shard>>,
    /// What is said where there is none.
    pub instead: StoreError,
}

impl Shards {
    /// The server that has this key.
    ///
    /// # Errors
    /// None is known to.
    pub fn of(&self, key: &str) -> Result<Arc<Shard>, StoreError> {
        let place = match &self.slots {
            Some(slots) => slots.server(slot(key)),
            None => Some(0),
        };
        place.and_then(|place| self.list.get(place)).map(Arc::clone).ok_or(self.instead)
    }

    /// The server of this address.
    pub fn at(&self, address: &Address) -> Option<Arc<Shard>> {
        let place = self.slots.as_ref()?.servers.binary_search(address).ok()?;
        self.list.get(place).map(Arc::clone)
    }
}

impl Servers {
    /// No server is connected to yet; of a cluster none is known.
    ///
    /// # Errors
    /// What is wrong with these settings.
    pub fn new(store: &Store, access: &Access) -> RedisResult<Servers> {
        let shards = match store.mode {
            StoreMode::Cluster => {
                Shards { slots: Some(Slots::default()), list: Vec::new(), instead: StoreError::Unreachable }
            }
            StoreMode::Single | StoreMode::Sentinel { .. } => {
                let only = Arc::new(Shard::new(store.breaker, None));
                Shards { slots: None, list: vec![only], instead: StoreError::Unreachable }
            }
        };
        Ok(Servers {
            common: Common::new(store, access)?,
            shards: ArcSwap::from_pointee(shards),
            gates: slot(&script::members_key(&store.prefix)),
        })
    }

    /// The servers as they are known now.
    pub fn shards(&self) -> Arc<Shards> {
        self.shards.load_full()
    }

    /// From now on these have the keys.
    pub fn set_shards(&self, shards: Shards) {
        self.shards.store(Arc::new(shards));
    }

    /// Whether the key of the stamps is this server's.
    pub fn is_home(&self, shard: &Shard) -> bool {
        let shards = self.shards.load();
        let Some(slots) = &shards.slots else { return true };
        let home = slots.server(self.gates).and_then(|place| slots.servers.get(place));
        home.is_some() && home == shard.address()
    }

    /// One has answered a stamp, the first over its connection or a later one: says so if it was said that one is away, and none is
    /// any more.
    pub fn say_that_it_is_well(&self, first: bool) {
        if self.shards.load().list.iter().all(|shard| shard.is_up()) {
            self.common.say_that_it_is_well(first);
        }
    }

    /// Whether all servers have answered.
    pub fn was_heard(&self) -> bool {
        let shards = self.shards.load();
        !shards.list.is_empty() && shards.list.iter().all(|shard| shard.was_heard())
    }

    /// Whether there is a connection: of a cluster, to any server, once each has been tried.
    pub fn is_connected(&self) -> bool {
        let shards = self.shards.load();
        shards.list.iter().any(|shard| shard.is_up()) && shards.list.iter().all(|shard| shard.was_tried())
    }

    /// How each server of a cluster stands; none otherwise.
    pub fn statuses(&self) -> Vec<ServerState> {
        let server = |shard: &Arc<Shard>| {
            let (host, port) = shard.address()?;
            let (connected, breaker) = (shard.is_up(), shard.breaker(&self.common));
            Some(ServerState { address: format!("{host}:{port}"), connected, breaker })
        };
        self.shards.load().list.iter().filter_map(server).collect()
    }

    /// How many servers stand how, in the order of [`ServerStanding::ALL`].
    pub fn standings(&self) -> Vec<(ServerStanding, u64)> {
        let mut counts: Vec<_> = ServerStanding::ALL.iter().map(|standing| (*standing, 0)).collect();
        for shard in &self.shards.load().list {
            let standing = match (shard.is_up(), shard.breaker(&self.common)) {
                (false, _) => ServerStanding::NotConnected,
                (true, BreakerState::Closed) => ServerStanding::Asked,
                (true, BreakerState::Open | BreakerState::HalfOpen) => ServerStanding::LeftAlone,
            };
            counts.iter_mut().filter(|(known, _)| *known == standing).for_each(|(_, count)| *count += 1);
        }
        counts
    }

    /// Where the breaker stands that is furthest from closed.
    pub fn breaker(&self) -> BreakerState {
        let states = self.shards.load_full();
        let states = states.list.iter().map(|shard| shard.breaker(&self.common));
        states.max_by_key(|state| state.number()).unwrap_or(BreakerState::Closed)
    }
}
