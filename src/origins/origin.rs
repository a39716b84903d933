//! One origin at run time: its free places, the queue before them, and which of its addresses takes the next request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use tokio::sync::watch;

use super::budget::RetryBudget;
use super::door::{OriginDoor, OriginPlace};
use super::ejection::most_out;
use super::endpoint::Endpoint;
use super::kept::Kept;
use super::ring::Ring;
use super::tls::TlsFault;
use super::way::Way;
use crate::door::Asks;
use crate::edge::absence::Abandoned;
use crate::engine::NoPlace;
use crate::limiter::adaptive::Sample;
use crate::limiter::{Adaptive, Permit};
use crate::policy::{Balance, Origin};
use crate::sketch::KeyHash;
use crate::system::clock::Clock;
use crate::units::Timestamp;

/// One origin's state. Its numbers come from the policy; its addresses change when names are looked up again.
#[derive(Debug)]
pub struct OriginState {
    spec: Arc<Origin>,
    door: Arc<OriginDoor>,
    abandoned: Arc<Abandoned>,
    ring: ArcSwap<Ring>,
    cursor: AtomicUsize,
    /// Held while an address is being ejected; only ever tried.
    ejecting: parking_lot::Mutex<()>,
    /// Requests that were sent although no address was in use.
    despite: AtomicU64,
    budget: Option<Arc<RetryBudget>>,
    adaptive: Option<Arc<Adaptive>>,
    way: Arc<Way>,
    /// How many places there are once it takes over from another, if that is another number.
    places: Option<u32>,
    /// Set when another takes its place, or the policy has it no more.
    retired: watch::Sender<bool>,
}

impl OriginState {
    /// The origin without any address yet; [`OriginState::install`] gives it some.
    ///
    /// # Errors
    /// The files of its TLS cannot be used.
    pub fn new(spec: Arc<Origin>, clock: Clock) -> Result<Arc<OriginState>, TlsFault> {
        let way = Way::open(&spec)?;
        Ok(Arc::new(OriginState {
            door: OriginDoor::new(spec.inflight.as_ref(), first_cap(&spec), clock),
            abandoned: Arc::default(),
            ring: ArcSwap::from_pointee(Ring::default()),
            cursor: AtomicUsize::new(0),
            ejecting: parking_lot::Mutex::new(()),
            despite: AtomicU64::new(0),
            budget: spec.retries.budget.map(|share| Arc::new(RetryBudget::new(share))),
            adaptive: spec.adaptive.as_ref().map(|spec| Arc::new(Adaptive::new(spec))),
            spec,
            way,
            places: None,
            retired: watch::Sender::new(false),
        }))
    }

    /// The origin as a new policy has it, in the place of this one, which requests under way go on to use. Both have the same
    /// places and one queue; from [`OriginState::take_over`] on there are as many places as the new policy says, also for whoever waits
    /// already. Addresses keep what is known of them; an adaptive cap that is to learn as before goes on
    /// from where it is. Connections are not shared: they were made by other words.
    ///
    /// # Errors
    /// As [`OriginState::new`].
    pub fn followed_by(&self, spec: Arc<Origin>) -> Result<Arc<OriginState>, TlsFault> {
        let way = Way::open(&spec)?;
        let learns_on = spec.adaptive == self.spec.adaptive && most(&spec) == most(&self.spec);
        let adaptive = spec.adaptive.as_ref().map(|spec| match &self.adaptive {
            Some(before) if learns_on => Arc::clone(before),
            _ => Arc::new(Adaptive::new(spec)),
        });
        let budget = spec.retries.budget.map(|share| match &self.budget {
            Some(before) if self.spec.retries.budget == Some(share) => Arc::clone(before),
            _ => Arc::new(RetryBudget::new(share)),
        });
        Ok(Arc::new(OriginState {
            door: Arc::clone(&self.door),
            abandoned: Arc::clone(&self.abandoned),
            ring: ArcSwap::new(self.ring.load_full()),
            cursor: AtomicUsize::new(0),
            ejecting: parking_lot::Mutex::new(()),
            despite: AtomicU64::new(self.despite()),
            budget,
            adaptive,
            places: (!learns_on).then(|| first_cap(&spec)),
            spec,
            way,
            retired: watch::Sender::new(false),
        }))
    }

    /// It is in force from now on.
    pub fn take_over(&self) {
        self.door.follow(self.spec.inflight.as_ref(), self.places);
    }

    /// Another is in its place from now on, or none: what keeps it fresh ends, requests under way do not.
    pub fn retire(&self) {
        self.retired.send_replace(true);
    }

    /// Returns when it was retired.
    pub async fn retirement(&self) {
        // the sender lives as long as this does
        let _ = self.retired.subscribe().wait_for(|retired| *retired).await;
    }

    /// How connections to it are made.
    pub fn way(&self) -> &Arc<Way> {
        &self.way
    }

    /// What the policy says of it.
    pub fn spec(&self) -> &Origin {
        &self.spec
    }

    /// Requests under way at this moment.
    pub fn inflight(&self) -> u32 {
        self.door.held()
    }

    /// Requests waiting for a place at this moment, by class.
    pub fn waiting_by_class(&self) -> [u32; 4] {
        self.door.look(|places| places.line().waiting_by_class())
    }

    /// Its places, and who waits for them.
    pub fn door(&self) -> &OriginDoor {
        &self.door
    }

    /// Its requests whose clients have left.
    pub fn abandoned(&self) -> &Arc<Abandoned> {
        &self.abandoned
    }

    /// How many requests may be with it at this moment; `None` without a cap.
    pub fn limit(&self) -> Option<u32> {
        self.spec.inflight.as_ref().map(|_| self.door.max())
    }

    /// A place, at once if one is free and nobody waits, else after the queue if the policy has one. `asks`: who it is, where the origin has
    /// a cap.
    ///
    /// # Errors
    /// No place, now or within the queue's deadline. Nothing is held then.
    pub async fn place(&self, asks: Option<&Asks>, now: Timestamp) -> Result<OriginPlace, NoPlace> {
        let longest = self.spec.inflight.as_ref().map_or(Duration::ZERO, |cap| cap.queue_timeout);
        self.door.place(asks.unwrap_or(&Asks::NOBODY), now, longest).await
    }

    /// Puts a new address list in force. Addresses that stay keep their counts and what is known of them.
    pub fn install(&self, addresses: &[Located]) {
        let old = self.ring.load_full();
        let endpoints = addresses
            .iter()
            .map(|&Located { address, weight, entry }| {
                let same =
                    |known: &&Arc<Endpoint>| known.address == address && known.weight == weight && known.entry == entry;
                let moved = || old.endpoints.iter().find(|known| known.address == address);
                old.endpoints.iter().find(same).cloned().unwrap_or_else(|| match moved() {
                    Some(known) => known.moved(weight, entry, self.spec.health.is_some()),
                    None => Endpoint::new(address, &self.way.name_of(address), weight, entry),
                })
            })
            .collect();
        self.ring.store(Arc::new(Ring::new(endpoints)));
    }

    /// Closes kept connections that have waited long enough, or whose origin has closed them or said something. Call it about once a
    /// second.
    pub fn sweep(&self) {
        self.ring.load().endpoints.iter().for_each(|endpoint| endpoint.kept.sweep(self.way.key()));
    }

    /// All addresses with what is known of them.
    pub fn ring(&self) -> Guard<Arc<Ring>> {
        self.ring.load()
    }

    /// Whether addresses can be out at all, so that it matters what time it is.
    pub fn watches(&self) -> bool {
        self.spec.health.is_some() || self.spec.ejection.is_some()
    }

    /// The address for the next attempt, and a mark that it carries one more request. `key` is used by `hash` alone;
    /// `tried` are avoided where others are to be had. Addresses that are out get nothing, unless all are: a check that is
    /// wrong everywhere must not stop what may still work.
    pub fn choose(&self, key: KeyHash, tried: &[SocketAddr], now: Timestamp) -> Option<Attempt> {
        let ring = self.ring.load();
        let turn = self.cursor.fetch_add(1, Ordering::Relaxed);
        let whole = |_: &Endpoint| 1.0;
        let endpoint = if self.watches() {
            let chosen = self.pick(&ring, turn, key, tried, |endpoint| endpoint.part(&self.spec, now));
            chosen.or_else(|| {
                self.despite.fetch_add(1, Ordering::Relaxed);
                self.pick(&ring, turn, key, tried, whole)
            })
        } else {
            self.pick(&ring, turn, key, tried, whole)
        }?;
        let inflight = endpoint.inflight.take();
        Some(Attempt { address: endpoint.address, began: now, endpoint: Arc::clone(endpoint), inflight })
    }

    fn pick<'r>(
        &self,
        ring: &'r Ring,
        turn: usize,
        key: KeyHash,
        tried: &[SocketAddr],
        part: impl Fn(&Endpoint) -> f64,
    ) -> Option<&'r Arc<Endpoint>> {
        match self.spec.balance {
            Balance::RoundRobin => ring.in_turn(turn, tried, part),
            Balance::LeastInflight => ring.least_loaded(turn, tried, part),
            Balance::Hash(_) => ring.by_hash(key, tried, part),
        }
    }

    /// Requests that were sent although every address was out.
    pub fn despite(&self) -> u64 {
        self.despite.load(Ordering::Relaxed)
    }

    /// An attempt has ended at `now`, well or because its address failed it. May leave the address out for a while.
    pub fn note(&self, attempt: &Attempt, failed: bool, now: Timestamp) {
        let endpoint = &attempt.endpoint;
        let Some(spec) = &self.spec.ejection else { return };
        let Some(cause) = endpoint.record.note(spec, failed, attempt.began, now) else { return };
        // somebody else is at it, and the next failure will ask again
        let Some(_alone) = self.ejecting.try_lock() else { return };
        let ring = self.ring.load();
        let others = ring.endpoints.iter().filter(|other| !Arc::ptr_eq(other, endpoint));
        // the last one in use stays, whatever it does
        if !others.clone().any(|other| other.is_usable(now)) {
            return;
        }
        let out = others.filter(|other| other.record.is_out(now)).count();
        if let Some(length) = endpoint.record.eject(spec, out, most_out(spec, ring.endpoints.len()), now) {
            tracing::warn!(
                origin = self.spec.name,
                address = %endpoint.address,
                cause = cause.word(),
                seconds = length.as_secs_f64(),
                "requests to this address fail: it is left out for a while"
            );
        }
    }

    /// A request that was sent has ended: may move the in-flight cap, if that is adaptive.
    pub fn completed(&self, began: Timestamp, ended: Timestamp, failed: bool) {
        let Some(adaptive) = &self.adaptive else { return };
        // its successor moves the cap now
        if *self.retired.borrow() {
            return;
        }
        let sample = Sample { began, ended, inflight: self.door.held(), failed };
        adaptive.completed(&sample, || self.door.all(), |places| self.door.set_max(places));
    }

    /// A request that may be tried again later has begun.
    pub fn begun(&self) {
        if let Some(budget) = &self.budget {
            budget.request();
        }
    }

    /// Takes what another try costs; `false` when the budget is spent.
    #[must_use = "what was not taken must not be tried again"]
    pub fn may_retry(&self, now: impl FnOnce() -> Timestamp) -> bool {
        self.budget.as_ref().is_none_or(|budget| budget.retry(now()))
    }
}

/// How many places an origin may have.
fn most(spec: &Origin) -> Option<u32> {
    spec.inflight.as_ref().map(|cap| cap.max)
}

/// How many places an origin begins with.
fn first_cap(spec: &Origin) -> u32 {
    let max = most(spec).unwrap_or(u32::MAX);
    spec.adaptive.map_or(max, |adaptive| adaptive.min.min(max))
}

/// An address as the policy or a name server gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Located {
    /// Where to connect.
    pub address: SocketAddr,
    /// Its part of the traffic relative to its siblings.
    pub weight: u32,
    /// Position among the policy's addresses of the one that it was found by.
    pub entry: usize,
}

/// One attempt's address; counts as in flight there until dropped.
#[derive(Debug)]
pub struct Attempt {
    /// Where to connect.
    pub address: SocketAddr,
    /// When it was chosen.
    pub began: Timestamp,
    endpoint: Arc<Endpoint>,
    // `None` only if four billion requests were under way, in which case one is not counted
    #[expect(dead_code, reason = "held for its drop")]
    inflight: Option<Permit>,
}

impl Attempt {
    /// Connections to the address that wait for another request.
    pub fn kept(&self) -> &Arc<Kept> {
        &self.endpoint.kept
    }

    /// The address as the access log shows it.
    pub fn name(&self) -> Arc<str> {
        Arc::clone(&self.endpoint.name)
    }
}

#[cfg(test)]
mod tests;
