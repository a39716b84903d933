//! One server that a store keeps its keys on: its connection and its breaker; `tending` is the task that keeps both. Of `single` and
//! `sentinel` there is one, of a cluster one for each server that has slots. What happens to one says nothing of the others.

mod tending;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::breaker::{Breaker, BreakerState, Pass};
use super::common::Common;
use super::store_log::{Kind, Met};
use super::wire::{Address, Wire};
use crate::limiter::sharing::StoreError;
use crate::policy;
use crate::system::clock;

/// The connection in use, or why there is none.
enum LinkState {
    Up(Live),
    /// What is said instead of an answer: [`StoreError::Faulty`] where the server refused us when it was tried last.
    Down(StoreError),
}

/// A connection.
#[derive(Clone)]
pub struct Live {
    /// The connection itself.
    pub wire: Wire,
    /// Which of all that there were.
    pub number: u64,
}

/// One server; see the module.
pub struct Shard {
    /// Of a cluster.
    address: Option<Address>,
    link: ArcSwap<LinkState>,
    /// Told when the connection in `link` is given up.
    given_up: Notify,
    /// Held for some nanoseconds, by questions that go over the network anyway.
    breaker: Mutex<Breaker>,
    /// It has been connected to, or could not be.
    tried: AtomicBool,
    /// It has answered.
    heard: AtomicBool,
}

impl Shard {
    /// One that is not connected yet. `address` is that of a server of a cluster; another is found as the store's mode says.
    pub fn new(settings: policy::Breaker, address: Option<Address>) -> Shard {
        Shard {
            address,
            link: ArcSwap::from_pointee(LinkState::Down(StoreError::Unreachable)),
            given_up: Notify::new(),
            breaker: Mutex::new(Breaker::new(settings)),
            tried: AtomicBool::new(false),
            heard: AtomicBool::new(false),
        }
    }

    /// Where it is, of a cluster.
    pub fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    /// The connection, or what is said instead of an answer.
    pub fn live(&self) -> Result<Live, StoreError> {
        match &**self.link.load() {
            LinkState::Up(live) => Ok(live.clone()),
            LinkState::Down(store_error) => Err(*store_error),
        }
    }

    /// Whether there is a connection.
    pub fn is_up(&self) -> bool {
        matches!(**self.link.load(), LinkState::Up(_))
    }

    /// Whether it has been connected to, or could not be.
    pub fn was_tried(&self) -> bool {
        self.tried.load(Ordering::Relaxed)
    }

    /// Whether it has ever answered.
    pub fn was_heard(&self) -> bool {
        self.heard.load(Ordering::Relaxed)
    }

    /// Where its breaker stands.
    pub fn breaker(&self, common: &Common) -> BreakerState {
        self.breaker.lock().state(common.now())
    }

    /// Leave to ask it one thing.
    ///
    /// # Errors
    /// It is left alone.
    pub fn admit<'a>(&'a self, common: &'a Common) -> Result<Permit<'a>, StoreError> {
        let pass = self.breaker.lock().admit(common.now());
        pass.map(|pass| Permit { shard: self, common, pass: Some(pass) }).ok_or(StoreError::Breaker)
    }

    fn is_live(&self, number: u64) -> bool {
        matches!(&**self.link.load(), LinkState::Up(live) if live.number == number)
    }

    /// Offers this connection to nobody any more, and says that instead.
    pub fn give_up(&self, number: u64, store_error: StoreError) {
        let before = self.link.rcu(|link| match &**link {
            LinkState::Up(live) if live.number == number => Arc::new(LinkState::Down(store_error)),
            _ => Arc::clone(link),
        });
        if matches!(&*before, LinkState::Up(live) if live.number == number) {
            self.given_up.notify_one();
        }
    }
}

/// Leave to ask one thing; a caller that stops waiting drops it.
pub struct Permit<'a> {
    shard: &'a Shard,
    common: &'a Common,
    pass: Option<Pass>,
}

impl Permit<'_> {
    /// It answered.
    pub fn succeeded(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.shard.breaker.lock().succeeded(pass, self.common.now());
        }
    }

    /// It is there, but slower than requests wait for it.
    pub fn succeeded_late(&mut self) {
        if self.pass.as_ref().is_some_and(Pass::is_probe) {
            self.succeeded();
        }
    }

    /// Gives up the connection if the breaker opened: a paused or replaced server leaves its connections hanging.
    pub fn failed(&mut self, live: &Live) {
        let Some(pass) = self.pass.take() else { return };
        let opened = self.shard.breaker.lock().failed(pass, self.common.now(), clock::roll());
        if opened {
            self.common.counters.breaker_opened.fetch_add(1, Ordering::Relaxed);
            self.shard.give_up(live.number, StoreError::Unreachable);
            let text = "silent, and left alone for a while";
            self.common.note(Kind::away(text), Met::Asking, self.shard.address(), &text);
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.shard.breaker.lock().unheard(pass);
        }
    }
}
