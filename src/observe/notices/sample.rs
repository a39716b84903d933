//! One request in sixteen, looked at more closely: who asks, whether it has the keys that limits count by, and which trusted
//! networks it came through.
//!
//! Fixed memory, given by the policy: a summary of `HEAVIEST` clients, two counters per limit and one stamp per entry of
//! `trusted_proxies`. Nobody waits: a worker that finds the summary taken leaves it, which happens to all clients alike.
//!
//! **Error.** A share told from n sampled requests is off by √(s·(1 − s)/n), so with the least that is judged by, 32 of
//! them, by 7 percent points where 80 % are asked for; the summary adds 1/64 of the whole at most, and that is taken off.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::client::key::KeyPart;
use crate::client::trace::trace;
use crate::client::trust::ProxySet;
use crate::client::{Client, ClientAddress};
use crate::config::places::Trusted;
use crate::engine::{Engine, Evaluation};
use crate::observe::offenders::hash_of;
use crate::policy::{Policy, Rule};
use crate::request::{Peer, Request};
use crate::sketch::{Heaviest, Seed, heaviest};
use crate::units::Timestamp;
use crate::units::dice::mixed;

/// One request in so many.
pub const ONE_IN: u64 = 16;

/// Counters of the summary: whoever makes more than a 64th of the requests is in it.
const HEAVIEST: usize = 64;

/// What was seen of the requests under one policy.
#[derive(Debug)]
pub struct Sample {
    clients: Mutex<Heaviest<Client>>,
    /// By position in the policy.
    limits: Box<[Keyed]>,
    trusted: Box<[Range]>,
    seed: Seed,
}

/// Of a limit whose key a request may lack.
#[derive(Debug)]
struct Keyed {
    can_lack: bool,
    asked: AtomicU64,
    lacking: AtomicU64,
}

/// An entry of `trusted_proxies`, with all networks that it stands for.
#[derive(Debug)]
struct Range {
    written: Arc<str>,
    set: ProxySet,
    /// When it was first in force, in seconds of the process's clock.
    since: u64,
    /// When a request came through it, the same; zero: never.
    seen: AtomicU64,
}

/// An entry of `trusted_proxies` and when it was of use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeSeen {
    /// As it is written: `10.0.0.0/8`, `preset cloudflare`.
    pub written: Arc<str>,
    /// When it was first in force, in seconds of the process's clock.
    pub since: u64,
    /// When a sampled request last came through it; `None`: never.
    pub seen: Option<u64>,
}

/// How a limit's key was met, since the policy is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lacking {
    /// Sampled requests that it was asked about.
    pub asked: u64,
    /// Those that lacked the key.
    pub lacking: u64,
}

/// Who asked most lately.
#[derive(Debug, Default)]
pub struct Clients {
    /// The heaviest first.
    pub entries: Vec<heaviest::Entry<Client>>,
    /// All sampled requests, as they weigh now: half after the turn of a minute.
    pub total: u64,
}

impl Sample {
    /// Of a policy that is in force from `now` on, which trusts these networks. Entries that `before` had too go on from what was known of
    /// them.
    pub fn new(policy: &Policy, trusted: &[Trusted], seed: Seed, now: Timestamp, before: Option<&Sample>) -> Sample {
        let mut written: Vec<Arc<str>> = Vec::new();
        for entry in trusted {
            if !written.contains(&entry.written) {
                written.push(Arc::clone(&entry.written));
            }
        }
        let range = |written: Arc<str>| {
            let networks = trusted.iter().filter(|entry| entry.written == written).map(|entry| entry.network);
            let set = ProxySet::new(networks, false);
            let known = before.and_then(|before| before.trusted.iter().find(|range| range.written == written));
            let since = known.map_or(now.nanos() / 1_000_000_000, |known| known.since);
            let seen = AtomicU64::new(known.map_or(0, |known| known.seen.load(Ordering::Relaxed)));
            Range { written, set, since, seen }
        };
        let limit =
            |rule: &Arc<Rule>| Keyed { can_lack: can_lack(rule), asked: AtomicU64::new(0), lacking: AtomicU64::new(0) };
        Sample {
            clients: Mutex::new(Heaviest::with_capacity(HEAVIEST)),
            limits: policy.rules.iter().map(limit).collect(),
            trusted: written.into_iter().map(range).collect(),
            seed,
        }
    }

    /// The secret that clients are counted under.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// Whether this request is one of the sample.
    pub fn takes(evaluation: &Evaluation) -> bool {
        // a view of the dice that nothing else has
        mixed(evaluation.decision.dice ^ 0x6e6f_7469_6365_2131).is_multiple_of(ONE_IN)
    }

    /// Looks at a request of the sample.
    pub fn note(&self, engine: &Engine, evaluation: &Evaluation, request: &Request<'_>) {
        let decision = &evaluation.decision;
        let Some(client) = decision.client else { return };
        if let Some(mut clients) = self.clients.try_lock() {
            clients.offer(decision.at, 0, hash_of(&self.seed, &client), client, 1);
        }
        let policy = engine.policy();
        self.note_ranges(policy, &client, request, decision.at);
        let Some(route) = decision.route.and_then(|route| policy.routes.route(route)) else { return };
        for index in &route.rules {
            let (Some(limit), Some(rule)) = (self.limits.get(*index), policy.rules.get(*index)) else { continue };
            if !limit.can_lack || rule.exempt.iter().any(|condition| condition.holds(request, &client)) {
                continue;
            }
            let lacks = [Some(&rule.key), rule.of.as_ref()]
                .into_iter()
                .flatten()
                .any(|key| key.hash(request, &client, &route.name, &self.seed).is_err());
            // Relaxed: numbers of their own
            limit.asked.fetch_add(1, Ordering::Relaxed);
            limit.lacking.fetch_add(u64::from(lacks), Ordering::Relaxed);
        }
    }

    /// A stamp per second and entry is enough; an entry that was just seen costs a load.
    fn note_ranges(&self, policy: &Policy, client: &Client, request: &Request<'_>, now: Timestamp) {
        let now = (now.nanos() / 1_000_000_000).max(1);
        let stale = |range: &&Range| range.seen.load(Ordering::Relaxed) < now;
        if !self.trusted.iter().any(|range| stale(&range)) {
            return;
        }
        let mark = |address: IpAddr| {
            for range in self.trusted.iter().filter(stale) {
                if range.set.contains(Peer::Ip(address)) {
                    range.seen.store(now, Ordering::Relaxed);
                }
            }
        };
        if let Peer::Ip(address) = request.peer {
            mark(address);
        }
        // whoever is further away than the peer came through hops between
        if client.hops > 1 {
            for hop in trace(&policy.clients, request.peer, request.headers).hops {
                if let Some(ClientAddress::Ip(address)) = hop.address {
                    mark(address);
                }
            }
        }
    }

    /// Who asked most lately. Copies the summary.
    pub fn clients(&self, now: Timestamp) -> Clients {
        let copy = Heaviest::merge(now, &[&self.clients.lock()]);
        Clients { entries: copy.entries(), total: copy.total() }
    }

    /// How the keys of the limits were met, by position in the policy; `None` of one that no request can lack.
    pub fn lacking(&self) -> Vec<Option<Lacking>> {
        let read = |limit: &Keyed| {
            let [lacking, asked] = [&limit.lacking, &limit.asked].map(|count| count.load(Ordering::Relaxed));
            limit.can_lack.then_some(Lacking { asked, lacking })
        };
        self.limits.iter().map(read).collect()
    }

    /// The entries of `trusted_proxies` that are networks.
    pub fn ranges(&self) -> Vec<RangeSeen> {
        let read = |range: &Range| {
            let seen = range.seen.load(Ordering::Relaxed);
            RangeSeen { written: Arc::clone(&range.written), since: range.since, seen: (seen > 0).then_some(seen) }
        };
        self.trusted.iter().map(read).collect()
    }
}

/// Whether a request may lack what the limit counts by.
fn can_lack(rule: &Rule) -> bool {
    let keys = [Some(&rule.key), rule.of.as_ref()];
    keys.into_iter().flatten().any(|key| key.parts().iter().any(KeyPart::can_be_missing))
}
