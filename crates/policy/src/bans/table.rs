//! The bans as requests read them: made whole by each order, never changed.

use std::net::IpAddr;
use std::sync::Arc;

use super::ban::{Ban, KeySecret, Target};
use crate::client::key::{KeySpec, Keys};
use crate::client::networks::NetworkMap;
use crate::client::{Client, ClientNetwork, Mark};
use crate::request::Request;
use crate::sketch::{KeyHash, KeyHasher, Seed};
use crate::units::Timestamp;

/// The bans in force. Positions of bans grow with the time at which they end, so the ban that holds longest is found first.
#[derive(Debug)]
pub struct BanTable {
    /// What keys are hashed under, and their seeds: this process's own, then those of banned keys that were hashed elsewhere.
    secrets: Box<[(KeySecret, Seed)]>,
    bans: Box<[Arc<Ban>]>,
    networks: NetworkMap<u32>,
    /// Those of IPv6 that somebody ordered. What a penalty bans is a client, and one whose address a translator made of an IPv4 one is
    /// counted by that.
    ordered: NetworkMap<u32>,
    /// Clients whose address is not their own, sorted.
    clients: Box<[(Counted, u32)]>,
    /// Sorted.
    keys: Box<[(KeyHash, u32)]>,
    /// The limits of those keys: few, so a walk finds one.
    limits: Box<[Box<str>]>,
}

/// A client as it is counted, in an order.
type Counted = (u8, Option<crate::units::Prefix>);

impl BanTable {
    pub(super) fn new(own: KeySecret, mut bans: Vec<Arc<Ban>>) -> BanTable {
        bans.sort_by_key(|ban| (ban.until, ban.number));
        let mut secrets = vec![own];
        let (mut networks, mut ordered, mut clients, mut keys) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut limits: Vec<Box<str>> = Vec::new();
        for (at, ban) in (0_u32..).zip(&bans) {
            match &ban.target {
                Target::Network(network) => {
                    networks.push((*network, at));
                    if !ban.automatic && network.address().is_ipv6() {
                        ordered.push((*network, at));
                    }
                }
                Target::Client { network, mark } => clients.push((counted(*network, *mark), at)),
                Target::Key { limit, secret, hash } => {
                    keys.push((*hash, at));
                    if !secrets.contains(secret) {
                        secrets.push(*secret);
                    }
                    if !limits.iter().any(|known| **known == **limit) {
                        limits.push(limit.as_str().into());
                    }
                }
            }
        }
        clients.sort_unstable();
        keys.sort_unstable();
        BanTable {
            secrets: secrets.into_iter().map(|secret| (secret, Seed::from_bytes(secret.0))).collect(),
            bans: bans.into(),
            networks: NetworkMap::new(networks),
            ordered: NetworkMap::new(ordered),
            clients: clients.into(),
            keys: keys.into(),
            limits: limits.into(),
        }
    }

    /// Returns whether there is no ban.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bans.is_empty()
    }

    /// All bans, those that have ended among them until they are cleared away; the one that ends first comes first.
    pub fn bans(&self) -> &[Arc<Ban>] {
        &self.bans
    }

    /// The ban that the client is under at `now`, of several the one that ends last.
    pub fn of_client(&self, client: &Client, now: Timestamp) -> Option<&Ban> {
        // an IPv4 address that a translator wrote into an IPv6 one can be banned as either
        let [address, keyed] = client.addresses();
        let in_networks = |address: IpAddr| self.networks.get(address);
        let by_address = match (address, keyed) {
            (Some(address), Some(keyed)) => self.ordered.get(address).max(in_networks(keyed)),
            (address, keyed) => address.or(keyed).and_then(in_networks),
        };
        let counted = counted(client.network, client.mark);
        let by_count = self.clients.binary_search_by(|(known, _)| known.cmp(&counted)).ok();
        let by_count = by_count.and_then(|at| self.clients.get(at)).map(|(_, at)| *at);
        self.in_force(by_address.max(by_count)?, now)
    }

    /// Returns whether some key of some limit is banned.
    #[inline]
    pub fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Returns whether some key of the limit of this name is banned.
    #[inline]
    pub fn has_keys_of(&self, limit: &str) -> bool {
        self.limits.iter().any(|known| **known == *limit)
    }

    /// The ban that the request is under at `now` by a key of the limit of this name. Hashes the key, so ask
    /// [`BanTable::has_keys_of`] first. A request with several keys is banned with the first that is.
    pub fn of_key(
        &self,
        (limit, key): (&str, &KeySpec),
        request: &Request<'_>,
        client: &Client,
        route: &str,
        now: Timestamp,
    ) -> Option<&Ban> {
        let found = self.secrets.iter().filter_map(|(_, seed)| hashes(seed, (limit, key), request, client, route));
        let found = found.flatten().filter_map(|hash| {
            let at = self.keys.binary_search_by(|(known, _)| known.cmp(&hash)).ok()?;
            self.keys.get(at).map(|(_, at)| *at)
        });
        self.in_force(found.max()?, now)
    }

    /// The keys of a request under the limit of this name, as this process hashes them, and under what; `None` if it has none, or too many.
    pub fn hashes(
        &self,
        limit: (&str, &KeySpec),
        request: &Request<'_>,
        client: &Client,
        route: &str,
    ) -> Option<(KeySecret, Keys<KeyHash>)> {
        let (secret, seed) = self.secrets.first()?;
        Some((*secret, hashes(seed, limit, request, client, route)?))
    }

    /// Counts a request that a ban refuses, and returns the ban's number.
    pub fn refuse(ban: &Ban) -> u32 {
        ban.count();
        ban.number
    }

    fn in_force(&self, at: u32, now: Timestamp) -> Option<&Ban> {
        self.bans.get(at as usize).map(Arc::as_ref).filter(|ban| ban.until > now)
    }
}

fn hashes(
    seed: &Seed,
    (limit, key): (&str, &KeySpec),
    request: &Request<'_>,
    client: &Client,
    route: &str,
) -> Option<Keys<KeyHash>> {
    /// A kind of part that keys have none of.
    const LIMIT: u8 = 255;
    let mut hasher = KeyHasher::new(seed);
    hasher.part(LIMIT, limit.as_bytes());
    let mut keys = Keys::from_iter([hasher]);
    key.add_to(&mut keys, request, client, route).ok()?;
    Some(keys.into_iter().map(KeyHasher::finish).collect())
}

fn counted(network: ClientNetwork, mark: Mark) -> Counted {
    let mark = match mark {
        Mark::Verified => 0,
        Mark::Degraded => 1,
        Mark::Short => 2,
        Mark::AllTrusted => 3,
    };
    match network {
        ClientNetwork::Prefix(prefix) => (mark, Some(prefix)),
        ClientNetwork::Unix => (mark, None),
    }
}
