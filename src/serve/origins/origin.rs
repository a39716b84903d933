//! One origin at run time: its free places, the queue before them, and which of its addresses takes the next request.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use super::tls::TlsFault;
use super::way::Way;
use crate::limiter::{Permit, Slots};
use crate::policy::{Balance, Origin};
use crate::sketch::{KeyHash, KeyHasher, Seed};

/// One origin's state. Its numbers come from the policy; its addresses change when names are looked up again.
#[derive(Debug)]
pub struct OriginState {
    spec: Arc<Origin>,
    slots: Arc<Slots>,
    waiting: AtomicU32,
    freed: Notify,
    ring: ArcSwap<Ring>,
    cursor: AtomicUsize,
    way: Arc<Way>,
}

/// Why no place was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPlace {
    /// The cap is reached and there is no queue.
    Full,
    /// The cap is reached and the queue is full too.
    QueueFull,
    /// Waited in the queue for as long as the policy allows.
    QueueTimeout,
}

impl NoPlace {
    /// The word in metrics and log.
    pub fn word(self) -> &'static str {
        match self {
            NoPlace::Full => "full",
            NoPlace::QueueFull => "queue_full",
            NoPlace::QueueTimeout => "queue_timeout",
        }
    }
}

/// A place at an origin, held until the request's last byte. Dropping it wakes the next in the queue.
#[derive(Debug)]
#[must_use = "a place that is dropped at once limits nothing"]
pub struct OriginPlace {
    permit: Option<Permit>,
    origin: Arc<OriginState>,
}

impl Drop for OriginPlace {
    fn drop(&mut self) {
        self.permit = None;
        // SeqCst, after the place was freed: see `Slots::take`
        if self.origin.waiting.load(Ordering::SeqCst) > 0 {
            self.origin.freed.notify_one();
        }
    }
}

impl OriginState {
    /// The origin without any address yet; [`OriginState::install`] gives it some.
    ///
    /// # Errors
    /// The files of its TLS cannot be used.
    pub fn new(spec: Arc<Origin>) -> Result<Arc<OriginState>, TlsFault> {
        let max = spec.inflight.map_or(u32::MAX, |cap| cap.max);
        let way = Way::open(&spec)?;
        Ok(Arc::new(OriginState {
            spec,
            slots: Slots::new(max),
            waiting: AtomicU32::new(0),
            freed: Notify::new(),
            ring: ArcSwap::from_pointee(Ring::default()),
            cursor: AtomicUsize::new(0),
            way,
        }))
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
        self.slots.held()
    }

    /// Requests waiting for a place at this moment.
    pub fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The places, for the gauge of what is held.
    pub fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }

    /// A place, at once if one is free and nobody is waiting, else after the queue if the policy has one.
    ///
    /// # Errors
    /// No place, now or within the queue's deadline. Nothing is held then.
    pub async fn place(self: &Arc<Self>) -> Result<OriginPlace, NoPlace> {
        if self.waiting.load(Ordering::SeqCst) == 0
            && let Some(place) = self.take()
        {
            return Ok(place);
        }
        let cap = self.spec.inflight.filter(|cap| cap.queue > 0).ok_or(NoPlace::Full)?;
        let _waiting = Waiting::join(&self.waiting, cap.queue).ok_or(NoPlace::QueueFull)?;
        let wait = async {
            loop {
                // listening before looking: a place freed in between leaves its notification behind
                let freed = self.freed.notified();
                if let Some(place) = self.take() {
                    return place;
                }
                freed.await;
            }
        };
        tokio::time::timeout(cap.queue_timeout, wait).await.map_err(|_| NoPlace::QueueTimeout)
    }

    /// Puts a new address list in force. Addresses that stay keep their counts.
    pub fn install(&self, addresses: &[(SocketAddr, u32)]) {
        let old = self.ring.load_full();
        let endpoints = addresses
            .iter()
            .map(|&(address, weight)| {
                let known =
                    old.endpoints.iter().find(|endpoint| endpoint.address == address && endpoint.weight == weight);
                known.cloned().unwrap_or_else(|| Endpoint::new(address, weight))
            })
            .collect();
        self.ring.store(Arc::new(Ring::new(endpoints)));
    }

    /// Whether there is any address to send to.
    pub fn has_address(&self) -> bool {
        !self.ring.load().endpoints.is_empty()
    }

    /// The address for the next attempt, and a mark that it carries one more request. `key` is used by `hash` alone;
    /// `tried` is avoided where another is to be had.
    pub fn choose(&self, key: KeyHash, tried: Option<SocketAddr>) -> Option<Attempt> {
        let ring = self.ring.load();
        let turn = self.cursor.fetch_add(1, Ordering::Relaxed);
        let endpoint = match self.spec.balance {
            Balance::RoundRobin => ring.in_turn(turn, tried),
            Balance::LeastInflight => ring.least_loaded(turn, tried),
            Balance::Hash(_) => ring.by_hash(key, tried),
        }?;
        let inflight = endpoint.inflight.take();
        Some(Attempt { address: endpoint.address, inflight })
    }

    fn take(self: &Arc<Self>) -> Option<OriginPlace> {
        self.slots.take().map(|permit| OriginPlace { permit: Some(permit), origin: Arc::clone(self) })
    }
}

/// One attempt's address; counts as in flight there until dropped.
#[derive(Debug)]
pub struct Attempt {
    /// Where to connect.
    pub address: SocketAddr,
    // `None` only if four billion requests were under way, in which case one is not counted
    #[expect(dead_code, reason = "held for its drop")]
    inflight: Option<Permit>,
}

/// The seed for `balance: hash`: fixed, so that every gate and every start sends a key to the same address.
pub fn affinity_seed() -> Seed {
    Seed::from_bytes(*b"tidegate-balance")
}

struct Waiting<'a>(&'a AtomicU32);

impl<'a> Waiting<'a> {
    fn join(waiting: &'a AtomicU32, most: u32) -> Option<Waiting<'a>> {
        // SeqCst: announced before the counter of places is looked at, see `Slots::take`
        waiting
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| (count < most).then(|| count + 1))
            .ok()
            .map(|_| Waiting(waiting))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Debug)]
struct Endpoint {
    address: SocketAddr,
    weight: u32,
    inflight: Arc<Slots>,
}

impl Endpoint {
    fn new(address: SocketAddr, weight: u32) -> Arc<Endpoint> {
        Arc::new(Endpoint { address, weight, inflight: Slots::new(u32::MAX) })
    }
}

/// An address list with the order in which round robin visits it.
#[derive(Debug, Default)]
struct Ring {
    endpoints: Vec<Arc<Endpoint>>,
    schedule: Vec<u16>,
}

impl Ring {
    /// Longer schedules are cut short: their weights then hold to one part in ten thousand.
    const LONGEST: u64 = 10_000;

    fn new(endpoints: Vec<Arc<Endpoint>>) -> Ring {
        let schedule = schedule(&endpoints.iter().map(|endpoint| u64::from(endpoint.weight)).collect::<Vec<_>>());
        Ring { endpoints, schedule }
    }

    fn in_turn(&self, turn: usize, tried: Option<SocketAddr>) -> Option<&Arc<Endpoint>> {
        let length = self.schedule.len();
        let at = |turn: usize| {
            let position = turn.checked_rem(length)?;
            self.endpoints.get(usize::from(*self.schedule.get(position)?))
        };
        let first = at(turn)?;
        if tried != Some(first.address) {
            return Some(first);
        }
        (1..length)
            .filter_map(|step| at(turn.wrapping_add(step)))
            .find(|other| tried != Some(other.address))
            .or(Some(first))
    }

    fn least_loaded(&self, turn: usize, tried: Option<SocketAddr>) -> Option<&Arc<Endpoint>> {
        let count = self.endpoints.len();
        (0..count)
            .filter_map(|step| self.endpoints.get(turn.wrapping_add(step).checked_rem(count)?))
            // an address that has just failed comes last; of equals the one whose turn it is comes first
            .min_by_key(|endpoint| {
                let load = u64::from(endpoint.inflight.held()) * 1_000_000 / u64::from(endpoint.weight.max(1));
                (tried == Some(endpoint.address), load)
            })
    }

    /// Weighted rendezvous hashing (Thaler and Ravishankar 1996; Schindelhauer and Schomaker 2005 for weights): when an
    /// address goes, only its keys move.
    fn by_hash(&self, key: KeyHash, tried: Option<SocketAddr>) -> Option<&Arc<Endpoint>> {
        let score = |endpoint: &Endpoint| {
            let mut hasher = KeyHasher::new(&affinity_seed());
            for row in 0..4 {
                hasher.part(0, &key.slice(row).to_le_bytes());
            }
            match endpoint.address.ip() {
                IpAddr::V4(v4) => hasher.part(4, &v4.octets()),
                IpAddr::V6(v6) => hasher.part(6, &v6.octets()),
            }
            hasher.part(1, &endpoint.address.port().to_le_bytes());
            let hash = hasher.finish();
            let bits = u64::from(hash.slice(0)) << 24 | u64::from(hash.slice(1));
            let uniform = (bits as f64 + 0.5) / (1_u64 << 48) as f64;
            -f64::from(endpoint.weight) / uniform.ln()
        };
        self.endpoints
            .iter()
            .map(|endpoint| ((tried != Some(endpoint.address), score(endpoint)), endpoint))
            .max_by(|(a, _), (b, _)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)))
            .map(|(_, endpoint)| endpoint)
    }
}

/// Smooth weighted round robin (as nginx does it), worked out once: every stretch of it is as even as whole numbers allow.
fn schedule(weights: &[u64]) -> Vec<u16> {
    let divisor = weights.iter().copied().fold(0, gcd).max(1);
    let mut weights: Vec<u64> = weights.iter().map(|weight| weight / divisor).collect();
    let sum: u64 = weights.iter().sum();
    if sum > Ring::LONGEST {
        weights = weights.iter().map(|weight| (weight * Ring::LONGEST / sum).max(1)).collect();
    }
    let sum: u64 = weights.iter().sum();
    let mut credit = vec![0_i64; weights.len()];
    let mut order = Vec::new();
    for _ in 0..sum {
        for (credit, weight) in credit.iter_mut().zip(&weights) {
            *credit += *weight as i64;
        }
        // the first of equals, so that the order does not depend on how ties are broken elsewhere
        let best = credit.iter().enumerate().rev().max_by_key(|(_, credit)| **credit).map_or(0, |(index, _)| index);
        if let Some(credit) = credit.get_mut(best) {
            *credit -= sum as i64;
        }
        order.push(u16::try_from(best).unwrap_or(0));
    }
    order
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::client::key::{KeyPart, KeySpec};
    use crate::policy::{InflightCap, Protocol, Timeouts};

    fn origin(balance: Balance, inflight: Option<InflightCap>, weights: &[u32]) -> Arc<OriginState> {
        let spec = Origin {
            name: "shop".into(),
            addresses: Vec::new(),
            balance,
            inflight,
            timeouts: Timeouts::default(),
            retries: 1,
            protocol: Protocol::Http1,
            tls: None,
        };
        let state = OriginState::new(Arc::new(spec)).unwrap();
        let addresses: Vec<_> = weights.iter().enumerate().map(|(n, weight)| (address(n), *weight)).collect();
        state.install(&addresses);
        state
    }

    fn address(n: usize) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 9000 + n as u16))
    }

    fn by_client() -> Balance {
        let client_ip = KeyPart::ClientIp { ipv4_prefix: None, ipv6_prefix: None };
        Balance::Hash(KeySpec::new([client_ip], None).unwrap())
    }

    fn key(n: usize) -> KeyHash {
        let mut hasher = KeyHasher::new(&affinity_seed());
        hasher.part(9, &n.to_le_bytes());
        hasher.finish()
    }

    #[test]
    fn round_robin_follows_the_weights_evenly() {
        assert_eq!(schedule(&[5, 1, 1]), [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(schedule(&[2, 2]), [0, 1]);
        assert_eq!(schedule(&[]), [0_u16; 0]);
        assert!(schedule(&[999, 1000, 997, 991, 983, 1000, 997, 991, 983, 977, 971, 967]).len() <= 10_012);
        let state = origin(Balance::RoundRobin, None, &[2, 1]);
        let chosen: Vec<_> = (0..6).map(|_| state.choose(key(0), None).unwrap().address.port() - 9000).collect();
        assert_eq!(chosen.iter().filter(|port| **port == 0).count(), 4);
        assert_eq!(chosen[..3], chosen[3..]);
    }

    #[test]
    fn a_second_attempt_goes_elsewhere_if_there_is_an_elsewhere() {
        for balance in [Balance::RoundRobin, Balance::LeastInflight, by_client()] {
            let two = origin(balance.clone(), None, &[1, 1]);
            for n in 0..20 {
                let first = two.choose(key(n), None).unwrap().address;
                assert_ne!(two.choose(key(n), Some(first)).unwrap().address, first);
            }
            let one = origin(balance, None, &[1]);
            assert_eq!(one.choose(key(1), Some(address(0))).unwrap().address, address(0));
        }
    }

    #[test]
    fn least_inflight_counts_what_is_under_way_per_weight() {
        let state = origin(Balance::LeastInflight, None, &[1, 3]);
        let held: Vec<_> = (0..8).map(|n| state.choose(key(n), None).unwrap()).collect();
        assert_eq!(held.iter().filter(|attempt| attempt.address == address(0)).count(), 2);
        drop(held);
        assert!(state.ring.load().endpoints.iter().all(|endpoint| endpoint.inflight.held() == 0));
    }

    #[test]
    fn by_hash_only_the_keys_of_a_lost_address_move() {
        let state = origin(by_client(), None, &[1, 1, 2]);
        let before: Vec<_> = (0..400).map(|n| state.choose(key(n), None).unwrap().address).collect();
        let to_last = before.iter().filter(|chosen| **chosen == address(2)).count();
        assert!((150..250).contains(&to_last), "weight 2 of 4 got {to_last} of 400");
        state.install(&[(address(0), 1), (address(2), 2)]);
        for (n, old) in before.iter().enumerate() {
            let new = state.choose(key(n), None).unwrap().address;
            assert!(new == *old || *old == address(1), "key {n} moved without need");
        }
    }

    #[test]
    fn no_address_is_no_attempt() {
        let state = origin(Balance::RoundRobin, None, &[]);
        assert!(!state.has_address());
        assert!(state.choose(key(0), None).is_none());
    }

    #[test]
    fn addresses_that_stay_keep_their_counts() {
        let state = origin(Balance::LeastInflight, None, &[1]);
        let _held = state.choose(key(0), None).unwrap();
        state.install(&[(address(1), 1), (address(0), 1)]);
        for n in 0..4 {
            assert_eq!(state.choose(key(n), None).unwrap().address, address(1), "address 0 still carries one");
        }
    }

    const CAP: InflightCap = InflightCap { max: 1, queue: 1, queue_timeout: Duration::from_millis(50) };

    #[tokio::test(start_paused = true)]
    async fn the_queue_is_bounded_and_has_a_deadline() {
        let state = origin(Balance::RoundRobin, Some(CAP), &[1]);
        let held = state.place().await.unwrap();
        let waiter = tokio::spawn({
            let state = Arc::clone(&state);
            async move { state.place().await.map(drop) }
        });
        tokio::task::yield_now().await;
        assert_eq!(state.waiting(), 1);
        assert_eq!(state.place().await.map(drop), Err(NoPlace::QueueFull));
        assert_eq!(waiter.await.unwrap(), Err(NoPlace::QueueTimeout));
        assert_eq!((state.inflight(), state.waiting()), (1, 0));
        drop(held);
        assert_eq!(state.inflight(), 0);
    }

    #[tokio::test]
    async fn a_freed_place_goes_to_the_queue() {
        let state =
            origin(Balance::RoundRobin, Some(InflightCap { queue_timeout: Duration::from_secs(60), ..CAP }), &[1]);
        for _ in 0..200 {
            let held = state.place().await.unwrap();
            let waiter = tokio::spawn({
                let state = Arc::clone(&state);
                async move { state.place().await.map(drop) }
            });
            tokio::task::yield_now().await;
            drop(held);
            assert_eq!(waiter.await.unwrap(), Ok(()));
            assert_eq!((state.inflight(), state.waiting()), (0, 0));
        }
    }

    #[tokio::test]
    async fn a_waiter_that_gives_up_leaves_nothing_behind() {
        let state =
            origin(Balance::RoundRobin, Some(InflightCap { queue_timeout: Duration::from_secs(60), ..CAP }), &[1]);
        let held = state.place().await.unwrap();
        let waiter = tokio::spawn({
            let state = Arc::clone(&state);
            async move { state.place().await.map(drop) }
        });
        tokio::task::yield_now().await;
        waiter.abort();
        assert!(waiter.await.unwrap_err().is_cancelled());
        assert_eq!(state.waiting(), 0);
        drop(held);
        assert!(state.place().await.is_ok());
        assert_eq!(state.inflight(), 0);
    }
}
