//! Which clients the limits refuse most, in fixed memory and with a stated error: what `GET /api/v1/offenders` tells.
//!
//! Every worker has a [summary](Heaviest) of its own; a reader copies one after the other and merges
//! the copies. Nobody waits to be counted: a worker only tries for its summary, takes another's if a reader is just copying
//! its own, and if it finds none at all counts the refusal as missed, which widens the error that is told.
//!
//! Entries are (limit, key) pairs; a key is shown by the client that was first refused under it. Where a limit has no key, as
//! one for the whole gate, or has no use for it, as `fair_share`, each client counts as one.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::client::{Client, ClientNetwork, ClientRules};
use crate::engine::{Engine, Evaluation, Outcome};
use crate::limiter::Limiter;
use crate::policy::Mode;
use crate::saved::{Fault, Reader, Writer};
use crate::sketch::{Heaviest, KeyHash, KeyHasher, Seed, heaviest};
use crate::units::{Prefix, Timestamp};

/// More summaries than this are not worth their memory, some 300 KiB each: workers beyond share them.
const MOST_PARTS: usize = 16;

/// The refusals under one policy.
#[derive(Debug)]
pub struct MostRefused {
    /// One more than workers, so that one is free while another is being copied.
    parts: Box<[Mutex<Heaviest<Client>>]>,
    missed: AtomicU64,
    seed: Seed,
}

impl MostRefused {
    /// Of nobody yet, for so many workers. `seed` is secret, so that no client can choose where it is counted.
    pub fn new(workers: usize, seed: Seed) -> MostRefused {
        // all at once and at start, so that no refusal pays for it and memory does not grow with the first flood
        let empty = || Mutex::new(Heaviest::with_capacity(Heaviest::<Client>::DEFAULT_CAPACITY));
        let parts = (0..workers.saturating_add(1).min(MOST_PARTS)).map(|_| empty()).collect();
        MostRefused { parts, missed: AtomicU64::new(0), seed }
    }

    /// Another of nobody, for as many workers and under the same seed.
    pub fn empty(&self) -> MostRefused {
        MostRefused::new(self.parts.len().saturating_sub(1), self.seed.clone())
    }

    /// The secret that it counts under.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// Counts a refused request for each limit that it violated.
    pub fn note(&self, engine: &Engine, evaluation: &Evaluation) {
        let decision = &evaluation.decision;
        let Some(client) = decision.client else { return };
        for (slot, reading) in decision.readings.iter().enumerate() {
            if reading.mode != Mode::Enforce || reading.outcome != Outcome::Refused {
                continue;
            }
            let keyed = engine.limiter(reading.rule).is_some_and(Limiter::is_keyed);
            let key = evaluation.key(slot).filter(|_| keyed).unwrap_or_else(|| self.hash_of(&client));
            self.offer(decision.at, u32::try_from(reading.rule).unwrap_or(u32::MAX), key, client);
        }
    }

    fn offer(&self, now: Timestamp, rule: u32, key: KeyHash, client: Client) {
        let own = own_number().checked_rem(self.parts.len()).unwrap_or(0);
        let (before, from) = self.parts.split_at_checked(own).unwrap_or((&self.parts, &[]));
        for part in from.iter().chain(before) {
            if let Some(mut part) = part.try_lock() {
                return part.offer(now, rule, key, client, 1);
            }
        }
        // Relaxed: a number of its own
        self.missed.fetch_add(1, Ordering::Relaxed);
    }

    /// Everything that was counted, as it weighs at `now`.
    fn merged(&self, now: Timestamp) -> Heaviest<Client> {
        // each is held for no longer than its copy takes, and never two at once
        let copy = |part: &Mutex<Heaviest<Client>>| Heaviest::merge(now, &[&part.lock()]);
        let copies: Vec<Heaviest<Client>> = self.parts.iter().map(copy).collect();
        Heaviest::merge(now, &copies.iter().collect::<Vec<_>>())
    }

    /// Writes everything that was counted, for the process that takes this one's place.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn save(&self, to: &mut Writer<'_>, now: Timestamp) -> io::Result<()> {
        to.number(self.missed.load(Ordering::Relaxed))?;
        self.merged(now).save(to, Client::words)
    }

    /// Goes on from what was [saved](MostRefused::save), in the place of what a worker has counted so far.
    ///
    /// # Errors
    /// A damaged stream; nothing changes then.
    pub fn restore(&self, from: &mut Reader<'_>, rules: &ClientRules) -> Result<(), Fault> {
        let missed = from.number()?;
        let mut merged = Heaviest::with_capacity(Heaviest::<Client>::DEFAULT_CAPACITY);
        merged.restore(from, |words| Client::of_words(words, rules))?;
        if let Some(part) = self.parts.first() {
            *part.lock() = merged;
        }
        self.missed.fetch_add(missed, Ordering::Relaxed);
        Ok(())
    }

    /// Who was refused most, as it weighs at `now`, the heaviest first.
    pub fn list(&self, now: Timestamp) -> List {
        let merged = self.merged(now);
        let missed = self.missed.load(Ordering::Relaxed);
        let entries = merged.entries();
        List {
            networks: networks(&entries),
            entries,
            total: merged.total().saturating_add(missed),
            error_bound: merged.error_bound().saturating_add(missed),
        }
    }

    fn hash_of(&self, client: &Client) -> KeyHash {
        hash_of(&self.seed, client)
    }
}

/// A client as a key. Equal for those that are counted as one.
pub(super) fn hash_of(seed: &Seed, client: &Client) -> KeyHash {
    let mut hasher = KeyHasher::new(seed);
    hasher.part(0, client.mark.as_str().as_bytes());
    match client.network {
        ClientNetwork::Prefix(prefix) => {
            let (bytes, used) = prefix.key_bytes();
            hasher.part(1, bytes.get(..used).unwrap_or(&bytes));
        }
        ClientNetwork::Unix => hasher.part(2, &[]),
    }
    hasher.finish()
}

/// Who was refused most.
#[derive(Debug)]
pub struct List {
    /// The heaviest first.
    pub entries: Vec<heaviest::Entry<Client>>,
    /// The networks of those entries, the heaviest first.
    pub networks: Vec<Network>,
    /// All refusals, as they weigh now.
    pub total: u64,
    /// Whoever is not in the list weighs no more.
    pub error_bound: u64,
}

/// A network of which more than one client was refused: an IPv4 /24 or IPv6 /48.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// The network.
    pub prefix: Prefix,
    /// How many entries are of it.
    pub entries: u64,
    /// What they weigh together.
    pub count: u64,
    /// By how much that may be too high.
    pub error: u64,
}

impl List {
    /// Returns the share of the refusals that each network caused at least, 0 to 1, the greatest first. Clients that are alone in theirs
    /// are networks here, too.
    pub fn shares(&self) -> Vec<f64> {
        let mut sums: BTreeMap<Option<Prefix>, u64> = BTreeMap::new();
        for entry in &self.entries {
            let network = match entry.payload.network_for(Some(24), Some(48)) {
                ClientNetwork::Prefix(prefix) => Some(prefix),
                ClientNetwork::Unix => None,
            };
            *sums.entry(network).or_default() += entry.count.saturating_sub(entry.error);
        }
        let mut shares: Vec<f64> =
            sums.into_values().map(|sum| (sum as f64 / self.total.max(1) as f64).min(1.0)).collect();
        shares.sort_by(|one, other| other.total_cmp(one));
        shares
    }
}

/// The network of a client that lists add up by, an IPv4 /24 or IPv6 /48; `None` of a client that is counted by such a network itself,
/// or by a wider one.
pub fn network_of(client: &Client) -> Option<Prefix> {
    match (client.network_for(Some(24), Some(48)), client.network) {
        (ClientNetwork::Prefix(prefix), ClientNetwork::Prefix(own)) if prefix.length() < own.length() => Some(prefix),
        _ => None,
    }
}

/// Adds up by network.
fn networks(entries: &[heaviest::Entry<Client>]) -> Vec<Network> {
    let mut sums: BTreeMap<Prefix, Network> = BTreeMap::new();
    for entry in entries {
        if let Some(prefix) = network_of(&entry.payload) {
            let sum = sums.entry(prefix).or_insert(Network { prefix, entries: 0, count: 0, error: 0 });
            sum.entries += 1;
            sum.count = sum.count.saturating_add(entry.count);
            sum.error = sum.error.saturating_add(entry.error);
        }
    }
    let mut networks: Vec<Network> = sums.into_values().filter(|network| network.entries > 1).collect();
    networks.sort_by_key(|network| std::cmp::Reverse(network.count));
    networks
}

/// A number that no other thread has.
fn own_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    OWN.with(|own| *own)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::client::resolve;
    use crate::request::Peer;

    fn client(address: &str) -> Client {
        resolve(&ClientRules::default(), Peer::Ip(address.parse().unwrap()), &HeaderMap::new()).unwrap()
    }

    fn refused() -> MostRefused {
        MostRefused::new(2, Seed::from_bytes([5; 16]))
    }

    const NOW: Timestamp = Timestamp::from_nanos(1_000_000_000);

    #[test]
    fn refusals_of_all_threads_are_listed_together() {
        let refused = refused();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let refused = &refused;
                scope.spawn(move || {
                    for n in 0..100 {
                        let other = client(&format!("198.51.100.{thread}"));
                        for seen in [client("192.0.2.1"), other].into_iter().take(1 + n % 2) {
                            refused.offer(NOW, 0, refused.hash_of(&seen), seen);
                        }
                    }
                });
            }
        });
        let missed = refused.missed.load(Ordering::Relaxed);
        let merged = refused.merged(NOW);
        assert_eq!(merged.total() + missed, 600);
        let entries = merged.entries();
        assert_eq!(entries.len(), 5);
        assert_eq!(entries[0].payload, client("192.0.2.1"));
        assert!(entries[0].count + missed >= 400, "{entries:?}");
    }

    #[test]
    fn networks_add_up_their_clients() {
        let refused = refused();
        let times =
            [("192.0.2.1", 3), ("192.0.2.9", 2), ("198.51.100.1", 9), ("2001:db8:0:1::1", 1), ("2001:db8:0:2::1", 1)];
        for (address, times) in times {
            for _ in 0..times {
                refused.offer(NOW, 0, refused.hash_of(&client(address)), client(address));
            }
        }
        let networks = refused.list(NOW).networks;
        let told: Vec<_> = networks.iter().map(|n| (n.prefix.to_string(), n.count, n.entries)).collect();
        assert_eq!(told, [("192.0.2.0/24".to_owned(), 5, 2), ("2001:db8::/48".to_owned(), 2, 2)]);
        assert_eq!(
            refused.list(NOW).shares(),
            [9.0 / 16.0, 5.0 / 16.0, 2.0 / 16.0],
            "one client alone is a network, too"
        );
    }

    #[test]
    fn while_all_summaries_are_being_read_refusals_widen_the_error() {
        let refused = refused();
        let reading: Vec<_> = refused.parts.iter().map(Mutex::lock).collect();
        let seen = client("192.0.2.1");
        refused.offer(NOW, 0, refused.hash_of(&seen), seen);
        drop(reading);
        let list = refused.list(NOW);
        assert_eq!((list.entries.len(), list.total, list.error_bound), (0, 1, 1));
    }
}
