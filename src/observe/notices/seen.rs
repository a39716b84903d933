//! Reads the numbers that notices are judged by, and remembers those of the look before.

use std::sync::Arc;
use std::time::Duration;

use super::sample::{Lacking, RangeSeen, Sample};
use crate::client::{Client, ClientAddress, ClientNetwork, Source};
use crate::config::preset::{BUILT_IN, networks_of};
use crate::config::settings::{ClientInLog, Settings};
use crate::engine::Engine;
use crate::observe::history::{Endings, History};
use crate::observe::lines::LogState;
use crate::observe::metrics::Metrics;
use crate::origins::origin::OriginState;
use crate::policy::Mode;
use crate::system::clock::wall_nanos;
use crate::units::{Bytes, Prefix, Timestamp};

/// From one look to the next.
const INTERVAL: Duration = Duration::from_secs(2);

/// Shares are told from no fewer sampled requests lately: that is some 500 requests in two minutes.
pub const ENOUGH_SAMPLED: f64 = 32.0;

/// A count weighs half after this long, in seconds.
const HALF_LIFE: f64 = 60.0;

/// So many sketches are looked through at one look: a large one takes a tenth of a millisecond.
const SKETCHES_AT_ONCE: usize = 32;

/// So many requests of an origin are enough to tell its share of errors.
pub const ENOUGH_ANSWERS: f64 = 20.0;

/// The windows in which there may be as many, in seconds, the first that has them.
const ANSWERS_WITHIN: [usize; 2] = [10, 60];

/// A log that did not fail for this long is written again.
const LOG_MENDED: Duration = Duration::from_secs(30);

/// The policy in force with everything that is measured under it.
pub struct Look<'a> {
    /// The process's settings.
    pub settings: &'a Settings,
    /// How clients are named outside the process.
    pub clients_in_log: ClientInLog,
    /// The policy and the state of its limits.
    pub engine: &'a Engine,
    /// Its origins.
    pub origins: &'a [Arc<OriginState>],
    /// A sample of its requests.
    pub sample: &'a Arc<Sample>,
    /// Its counters.
    pub metrics: &'a Metrics,
    /// Its last minutes.
    pub history: &'a History,
    /// The access log, if there is one.
    pub access_log: Option<LogState>,
}

/// Everything that `judge` needs.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Whether nothing was measured before this look, because the policy is another.
    pub fresh: bool,
    /// What was wrong with the policy file; `None`: the last reload succeeded.
    pub refusal: Option<String>,
    /// Names of origins of which no address is in use.
    pub origins_down: Vec<String>,
    /// By origin.
    pub answers: Vec<Endings>,
    /// The access log, if an attempt to write it failed lately.
    pub log_failing: Option<LogState>,
    pub clients: ClientsSeen,
    /// By limit with a key that requests may lack.
    pub lacking: Vec<LackingSeen>,
    /// By limit with a sketch, as far as it was looked at.
    pub crowded: Vec<CrowdedSeen>,
    /// Names of limits in shadow, and for how many days.
    pub shadows: Vec<(String, i64)>,
    pub ranges: Vec<RangeSeen>,
    /// The process's clock, in seconds.
    pub now: u64,
    /// Sampled requests that weigh now: whether anybody asks at all.
    pub sampled: f64,
    /// The most metric series that the policy can make.
    pub series: usize,
}

/// Who asks.
#[derive(Debug, Clone, Default)]
pub struct ClientsSeen {
    /// All requests lately, and those whose forwarding header was not believed.
    pub asked: f64,
    pub ignored: f64,
    /// Sampled requests lately.
    pub sampled: f64,
    /// The share of the heaviest client, at least; `None` when too few were sampled.
    pub top_share: Option<f64>,
    /// The heaviest clients whose address is the connection's, the heaviest first.
    pub peers: Vec<PeerSeen>,
}

/// A client that is a connection's other end.
#[derive(Debug, Clone, PartialEq)]
pub struct PeerSeen {
    /// Its network as `trusted_proxies` would name it; wider than a client where clients are not to be named.
    pub network: String,
    /// The preset that lists it.
    pub preset: Option<&'static str>,
    /// Its share of the sampled requests, at least.
    pub share: f64,
    /// Whether it sent a forwarding header, which was not believed.
    pub ignored_header: bool,
}

/// A limit's key.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LackingSeen {
    pub limit: String,
    /// What it counts by, as it is written.
    pub key: String,
    /// Sampled requests lately.
    pub asked: f64,
    pub lacking: f64,
}

/// A limit's sketch.
#[derive(Debug, Clone, PartialEq)]
pub struct CrowdedSeen {
    pub limit: String,
    pub error: f64,
    pub memory: Bytes,
}

/// What is kept from one look to the next: some numbers per limit of the policy.
#[derive(Default)]
pub struct Memory {
    looked: Option<Timestamp>,
    /// Failed attempts to write the access log, and when there was one more.
    log_errors: Option<u64>,
    log_failed: Option<Timestamp>,
    /// Of which policy all below is.
    sample: Option<Arc<Sample>>,
    asked: Recent,
    ignored: Recent,
    lacking: Vec<(Recent, Recent)>,
    errors: Vec<Option<f64>>,
    next_sketch: usize,
    series: usize,
    presets: Vec<(&'static str, Vec<Prefix>)>,
}

/// A counter's growth, forgotten by `HALF_LIFE`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recent {
    last: Option<u64>,
    weight: f64,
}

impl Recent {
    /// The counter stands at `count`, so many seconds after the last look; gives the growth as it weighs now. The first look finds none.
    pub fn look(&mut self, count: u64, seconds: f64) -> f64 {
        let grown = count.saturating_sub(self.last.unwrap_or(count));
        self.last = Some(count);
        self.weight = self.weight * (-seconds / HALF_LIFE).exp2() + grown as f64;
        self.weight
    }

    /// One of a counter that begins with this look's policy.
    fn from_zero() -> Recent {
        Recent { last: Some(0), weight: 0.0 }
    }
}

impl Memory {
    /// Whether it is time to look again.
    pub fn is_due(&self, now: Timestamp) -> bool {
        // a round comes about every second: rather a little early than a whole round late
        self.looked.is_none_or(|looked| now.since(looked) + INTERVAL / 4 >= INTERVAL)
    }

    /// Reads everything. `refusal` is what was wrong with the policy file.
    pub fn gather(&mut self, look: &Look<'_>, refusal: &str, now: Timestamp) -> Seen {
        let fresh = self.follow(look);
        let seconds = self.looked.map_or(0.0, |looked| now.since(looked).as_secs_f64());
        self.looked = Some(now);
        let refused = !look.metrics.last_reload_succeeded();
        let out = |origin: &&Arc<_>| is_out(origin, now);
        let origins_down = look.origins.iter().filter(out).map(|origin| origin.spec().name.clone()).collect();
        let today = i64::try_from(wall_nanos() / 1_000_000_000 / 86_400).unwrap_or(i64::MAX);
        let rules = &look.engine.policy().rules;
        let shadows = rules.iter().filter(|rule| rule.mode == Mode::Shadow).filter_map(|rule| {
            let since = rule.since?;
            Some((rule.name.clone(), today.saturating_sub(since)))
        });
        let clients = self.clients(look, now, seconds);
        Seen {
            fresh,
            refusal: refused.then(|| refusal.to_owned()),
            origins_down,
            answers: answers(look),
            log_failing: self.log_failing(look, now),
            sampled: clients.sampled,
            clients,
            lacking: self.lacking(look, seconds),
            crowded: self.crowded(look, now),
            shadows: shadows.collect(),
            ranges: look.sample.ranges(),
            now: now.nanos() / 1_000_000_000,
            series: self.series,
        }
    }

    /// Forgets what was measured under another policy; says whether it is another.
    fn follow(&mut self, look: &Look<'_>) -> bool {
        if self.sample.as_ref().is_some_and(|sample| Arc::ptr_eq(sample, look.sample)) {
            return false;
        }
        let policy = look.engine.policy();
        let presets = if self.presets.is_empty() {
            BUILT_IN.iter().map(|(name, text)| (*name, networks_of(text))).collect()
        } else {
            std::mem::take(&mut self.presets)
        };
        *self = Memory {
            looked: self.looked,
            log_errors: self.log_errors,
            log_failed: self.log_failed,
            sample: Some(Arc::clone(look.sample)),
            // these are the process's, and what came before this look does not count
            asked: Recent::default(),
            ignored: Recent::default(),
            lacking: vec![(Recent::from_zero(), Recent::from_zero()); policy.rules.len()],
            errors: vec![None; policy.rules.len()],
            next_sketch: 0,
            series: Metrics::series_bound(policy, look.settings),
            presets,
        };
        true
    }

    fn clients(&mut self, look: &Look<'_>, now: Timestamp, seconds: f64) -> ClientsSeen {
        let (ignored, asked) = look.metrics.headers_ignored();
        let clients = look.sample.clients(now);
        let total = clients.total as f64;
        let share = |count: u64, error: u64| count.saturating_sub(error) as f64 / total.max(1.0);
        let enough = total >= ENOUGH_SAMPLED;
        let top = clients.entries.first().filter(|_| enough);
        let of_peers = clients.entries.iter().filter(|entry| entry.payload.source == Source::Peer);
        let peer = |client: &Client, share| {
            let ClientAddress::Ip(address) = client.address else { return None };
            let preset =
                self.presets.iter().find(|(_, networks)| networks.iter().any(|network| network.contains(address)));
            let preset = preset.map(|(name, _)| *name);
            let exact = preset.is_some() || look.clients_in_log == ClientInLog::Address;
            let network = match client.network_for(exact.then_some(32).or(Some(24)), exact.then_some(64).or(Some(48))) {
                ClientNetwork::Prefix(prefix) => format!("{}/{}", prefix.address(), prefix.length()),
                ClientNetwork::Unix => return None,
            };
            Some(PeerSeen { network, preset, share, ignored_header: client.ignored_header })
        };
        ClientsSeen {
            asked: self.asked.look(asked, seconds),
            ignored: self.ignored.look(ignored, seconds),
            sampled: total,
            top_share: top.map(|entry| share(entry.count, entry.error)),
            peers: of_peers.filter_map(|entry| peer(&entry.payload, share(entry.count, entry.error))).collect(),
        }
    }

    /// Attempts are made again and again while lines wait, so silence means that one succeeded.
    fn log_failing(&mut self, look: &Look<'_>, now: Timestamp) -> Option<LogState> {
        let log = look.access_log?;
        let errors = log.errors?;
        if errors > *self.log_errors.get_or_insert(errors) {
            self.log_failed = Some(now);
        }
        self.log_errors = Some(errors);
        let lately = self.log_failed.is_some_and(|failed| now.since(failed) < LOG_MENDED);
        lately.then_some(log)
    }

    fn lacking(&mut self, look: &Look<'_>, seconds: f64) -> Vec<LackingSeen> {
        let rules = &look.engine.policy().rules;
        let counts = look.sample.lacking();
        let mut seen = Vec::new();
        for ((rule, count), (asked, lacking)) in rules.iter().zip(counts).zip(&mut self.lacking) {
            let Some(Lacking { asked: all, lacking: without }) = count else { continue };
            let keys = [Some(&rule.key), rule.of.as_ref()];
            let parts = keys.into_iter().flatten().flat_map(|key| key.parts());
            let missable = parts.filter(|part| part.can_be_missing()).map(ToString::to_string);
            seen.push(LackingSeen {
                limit: rule.name.clone(),
                key: missable.collect::<Vec<_>>().join(", "),
                asked: asked.look(all, seconds),
                lacking: lacking.look(without, seconds),
            });
        }
        seen
    }

    /// Some of them at each look; of the others what the last look found.
    fn crowded(&mut self, look: &Look<'_>, now: Timestamp) -> Vec<CrowdedSeen> {
        let limiters = look.engine.limiters();
        for _ in 0..SKETCHES_AT_ONCE.min(limiters.len()) {
            self.next_sketch = (self.next_sketch + 1) % limiters.len().max(1);
            let limiter = limiters.get(self.next_sketch);
            if let (Some(limiter), Some(error)) = (limiter, self.errors.get_mut(self.next_sketch)) {
                *error = limiter.crowding(now).map(|crowding| crowding.error);
            }
        }
        let rules = &look.engine.policy().rules;
        let told = rules.iter().zip(limiters).zip(&self.errors);
        told.filter_map(|((rule, limiter), error)| {
            Some(CrowdedSeen { limit: rule.name.clone(), error: (*error)?, memory: limiter.memory() })
        })
        .collect()
    }
}

/// Returns what each origin answered, in the shortest window that has enough.
fn answers(look: &Look<'_>) -> Vec<Endings> {
    let mut seen: Vec<Endings> = Vec::new();
    for found in ANSWERS_WITHIN.into_iter().flat_map(|seconds| look.history.endings(seconds)) {
        match seen.iter_mut().find(|seen| seen.origin == found.origin) {
            None => seen.push(found),
            Some(seen) if seen.ended + seen.shed < ENOUGH_ANSWERS => *seen = found,
            Some(_) => {}
        }
    }
    seen
}

/// Whether no address of the origin is in use, as all of them fail or its names lead nowhere.
fn is_out(origin: &OriginState, now: Timestamp) -> bool {
    !origin.ring().endpoints.iter().any(|endpoint| endpoint.is_usable(now))
}
