//! What all servers of one store have in common: how they are reached, what is known of the store, what is counted and logged.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use redis::RedisResult;
use tokio::sync::Notify;

use super::counters::Counters;
use super::dialer::{Access, Dialer};
use super::fault::said;
use super::gate_count::{self, GateCount};
use super::store_log::{Kind, Lines, Met};
use super::wire::Address;
use crate::policy::Store;
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
    /// Told when another server may have a key.
    look: Notify,
    gates: Mutex<GateCount>,
    nodes: AtomicU32,
    started: Instant,
    lines: Lines,
    last_fault: ArcSwapOption<(String, Instant)>,
}

impl Common {
    /// Nothing is known yet.
    ///
    /// # Errors
    /// What is wrong with these settings.
    pub fn new(store: &Store, access: &Access) -> RedisResult<Common> {
        Ok(Common {
            dialer: Dialer::new(store, access)?,
            name: gate_count::name(),
            counters: Counters::default(),
            look: Notify::new(),
            gates: Mutex::new(GateCount::new()),
            nodes: AtomicU32::new(1),
            started: Instant::now(),
            lines: Lines::new(),
            last_fault: ArcSwapOption::empty(),
            store: store.clone(),
        })
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
        self.nodes.store(self.gates.lock().counted(gates, self.now()), Ordering::Relaxed);
    }

    /// The store did not count the gates.
    pub fn unheard(&self) {
        self.gates.lock().unanswered();
    }

    /// A question was answered.
    pub fn answered(&self) {
        self.lines.answered(self.now());
    }

    /// A server has answered a stamp, the first over its connection or a later one, and none is away: says so if it was said that one
    /// is.
    pub fn say_that_it_is_well(&self, first: bool) {
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

    /// Nanoseconds of the breakers and the log.
    pub fn now(&self) -> u64 {
        saturating_nanos(self.started.elapsed())
    }
}
