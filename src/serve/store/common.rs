//! What all servers of one store have in common: who they are, what is known of the store, what is counted and logged.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;
use redis::RedisResult;
use tokio::sync::Notify;

use super::breaker::BreakerState;
use super::client::Access;
use super::counters::{Counters, ServerStanding, ServerStatus};
use super::dialer::Dialer;
use super::fault::said;
use super::lines::{Kind, Lines, Met};
use super::members::{self, Company};
use super::script;
use super::shard::Shard;
use super::slots::{Slots, slot};
use super::wire::Address;
use crate::limiter::cluster::Silence;
use crate::policy::{Store, StoreMode};
use crate::units::time::saturating_nanos;

/// What the servers of a store have in common.
pub struct Common {
    /// The policy's part.
    pub store: Store,
    /// How servers are reached.
    pub dialer: Dialer,
    /// This gate's name among the gates.
    pub name: String,
    /// What is counted.
    pub counters: Counters,
    shards: ArcSwap<Shards>,
    /// Told when another server may have a key.
    look: Notify,
    company: Mutex<Company>,
    nodes: AtomicU32,
    /// The slot of the key of the stamps.
    gates: u16,
    started: Instant,
    lines: Lines,
    last_fault: ArcSwapOption<(String, Instant)>,
}

/// The servers that keys are on.
pub struct Shards {
    /// Of a cluster, in the order of `list`; `None`: the only one has all.
    pub slots: Option<Slots>,
    /// Each once.
    pub list: Vec<Arc<Shard>>,
    /// What is said where there is none.
    pub instead: Silence,
}

impl Shards {
    /// The server that has this key.
    ///
    /// # Errors
    /// None is known to.
    pub fn of(&self, key: &str) -> Result<Arc<Shard>, Silence> {
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

impl Common {
    /// No server is connected to yet; of a cluster none is known.
    ///
    /// # Errors
    /// What is wrong with these settings.
    pub fn new(store: &Store, access: &Access) -> RedisResult<Common> {
        let shards = match store.mode {
            StoreMode::Cluster => {
                Shards { slots: Some(Slots::default()), list: Vec::new(), instead: Silence::Unreachable }
            }
            StoreMode::Single | StoreMode::Sentinel { .. } => {
                let only = Arc::new(Shard::new(store.breaker, None));
                Shards { slots: None, list: vec![only], instead: Silence::Unreachable }
            }
        };
        Ok(Common {
            dialer: Dialer::new(store, access)?,
            name: members::name(),
            counters: Counters::default(),
            shards: ArcSwap::from_pointee(shards),
            look: Notify::new(),
            company: Mutex::new(Company::new()),
            nodes: AtomicU32::new(1),
            gates: slot(&script::members_key(&store.prefix)),
            started: Instant::now(),
            lines: Lines::new(),
            last_fault: ArcSwapOption::empty(),
            store: store.clone(),
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

    /// Another server may have a key: looks soon.
    pub fn look(&self) {
        self.look.notify_one();
    }

    /// Waits until another server may have a key.
    pub async fn is_to_look(&self) {
        self.look.notified().await;
    }

    /// How many gates there are, as last heard.
    pub fn nodes(&self) -> u32 {
        self.nodes.load(Ordering::Relaxed)
    }

    /// The store counted so many gates.
    pub fn counted(&self, gates: u32) {
        self.nodes.store(self.company.lock().counted(gates, self.now()), Ordering::Relaxed);
    }

    /// The store did not count the gates.
    pub fn unheard(&self) {
        self.company.lock().unheard();
    }

    /// A question was answered.
    pub fn answered(&self) {
        self.lines.answered(self.now());
    }

    /// A server has answered a stamp, the first over its connection or a later one: says so if it was said that one is away, and
    /// none is any more.
    pub fn say_that_it_is_well(&self, first: bool) {
        if !self.shards.load().list.iter().all(|shard| shard.is_up()) {
            return;
        }
        if first && self.lines.connected() {
            tracing::info!(store = self.store.name, "connected to the store");
        } else if self.lines.well(self.now()) {
            tracing::info!(store = self.store.name, "the store answers again");
        }
    }

    /// Keeps what went wrong, and logs it unless the last line of this kind is young. The only way in for a store's texts.
    pub fn note(&self, kind: impl Into<Kind>, met: Met, server: Option<&Address>, text: &dyn Display) {
        let text = match server {
            Some((host, port)) => said(format_args!("{host}:{port}: {text}")),
            None => said(text),
        };
        if self.lines.fault(kind.into(), met, self.now()) {
            tracing::warn!(store = self.store.name, "store: {text}");
        }
        self.last_fault.store(Some(Arc::new((text, Instant::now()))));
    }

    /// What went wrong last, and how long ago.
    pub fn last_fault(&self) -> Option<(String, Duration)> {
        self.last_fault.load_full().map(|fault| (fault.0.clone(), fault.1.elapsed()))
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

    /// The servers of a cluster; none otherwise.
    pub fn servers(&self) -> Vec<ServerStatus> {
        let server = |shard: &Arc<Shard>| {
            let (host, port) = shard.address()?;
            let (connected, breaker) = (shard.is_up(), shard.breaker(self));
            Some(ServerStatus { address: format!("{host}:{port}"), connected, breaker })
        };
        self.shards.load().list.iter().filter_map(server).collect()
    }

    /// How many servers stand how, in the order of [`ServerStanding::ALL`].
    pub fn standings(&self) -> [(ServerStanding, u64); ServerStanding::ALL.len()] {
        let mut counts = ServerStanding::ALL.map(|standing| (standing, 0));
        for shard in &self.shards.load().list {
            let standing = match (shard.is_up(), shard.breaker(self)) {
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
        let states = states.list.iter().map(|shard| shard.breaker(self));
        states.max_by_key(|state| state.number()).unwrap_or(BreakerState::Closed)
    }

    /// Nanoseconds of the breakers and the log.
    pub fn now(&self) -> u64 {
        saturating_nanos(self.started.elapsed())
    }
}
