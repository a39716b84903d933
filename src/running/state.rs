//! Gathers the [`State`] of the process: the one place that reads counters, limiters, origins and stores for those that show them.
//!
//! [`counts`] takes some microseconds for each name and is read once a second for the history. [`state`] adds what takes longer: how
//! crowded each table is (up to a tenth of a millisecond), each endpoint, the stores.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::generation::Generation;
use super::process::Process;
use crate::client::Client;
use crate::config::settings::{ClientInLog, LogTarget};
use crate::door::{self, Line};
use crate::limiter::Limiter;
use crate::limiter::sharing::Sharing;
use crate::observe::access_log::AccessLog;
use crate::observe::condition::{OriginSight, Refusals, Sight, is_much_refused};
use crate::observe::log;
use crate::observe::notices::sample::ONE_IN;
use crate::observe::notices::seen::Look;
use crate::observe::offenders;
use crate::observe::state::{
    Address, Certificate, Condition, Config, Door, Endpoint, Holder, Limit, Network, Offender, Offenders, Overload,
    State, Word,
};
use crate::origins::origin::OriginState;
use crate::overload::Resource;
use crate::policy::OriginAddress;
use crate::sketch::heaviest;
use crate::store::{BreakerState, StoreState};
use crate::system::clock::wall_nanos;
use crate::units::{Criticality, Prefix, Timestamp};

/// The condition of the whole is judged by so many seconds.
const CONDITION_SECONDS: usize = 10;

/// Returns the counters of the policy in force, and what its origins carry.
pub fn counts(generation: &Generation) -> State {
    let mut state = generation.metrics().state();
    for (limit, rule) in state.limits.iter_mut().zip(&generation.engine().policy().rules) {
        limit.kind = rule.kind.word().into();
        limit.shared = rule.shared.map(|shared| (shared.store.0, shared.sharing.word()));
    }
    for (shown, origin) in state.origins.iter_mut().zip(generation.origins()) {
        shown.inflight = u64::from(origin.inflight());
        shown.limit = origin.limit().map(u64::from);
        shown.queued_by_class = origin.waiting_by_class().map(u64::from);
        shown.queued = shown.queued_by_class.iter().sum();
    }
    state
}

/// Returns the whole state of the process, but for what only its admin socket knows.
pub fn state(process: &Process) -> State {
    let (generation, now) = (process.generation(), process.clock.now());
    let mut state = described(process, &generation);
    limits(&generation, &mut state, now, |_, _| true);
    origins(&generation, &mut state, now);
    doors(process, &generation, &mut state);
    state.stores = stores(&generation);
    state.certificates = certificates(process);
    let access_log = process.access_log.as_ref().map(|log| ("access", log.state()));
    state.logs = access_log.into_iter().chain([("process", log::state())]).collect();
    state.panics = log::panics();
    state.snapshots = process.snapshots.state(now);
    state
}

/// Returns the counters under the name of the process and of its configuration.
pub fn described(process: &Process, generation: &Generation) -> State {
    let source = generation.source();
    let seconds = |nanos: u64| nanos / 1_000_000_000;
    let mut counts = counts(generation);
    process.history.fill_recent(&mut counts);
    State {
        version: env!("CARGO_PKG_VERSION").into(),
        instance: instance(),
        process: std::process::id(),
        uptime_seconds: process.clock.uptime().as_secs(),
        config: Config {
            file: process.file.clone(),
            loaded_at: seconds(source.loaded),
            age_seconds: seconds(wall_nanos().saturating_sub(source.loaded)),
            fingerprint: source.fingerprint.clone(),
            ..counts.config
        },
        overload: overload(process),
        bans: generation.engine().bans().list(process.clock.now()).len(),
        condition: Condition::clone(&process.condition.condition()),
        loads: process.loads.list(),
        access_log: process.settings.access_log.as_ref().and_then(|log| match &log.to {
            LogTarget::File(path) => Some(path.display().to_string()),
            LogTarget::Stdout | LogTarget::Stderr => None,
        }),
        bans_given: {
            let given = generation.engine().bans().given();
            [given.ordered, given.automatic, given.elsewhere]
        },
        waiting_for_upgrade: generation.waiting().to_vec(),
        notices: process.notices.list().to_vec(),
        ..counts
    }
}

fn overload(process: &Process) -> Option<Overload> {
    process.overload.get().map(|overload| {
        let shown = overload.shown();
        let parts = Resource::ALL.map(Resource::word).into_iter().zip(shown.pressure);
        Overload::of(parts, shown.delay, shown.refusing)
    })
}

/// Returns the machine's name, which tells one process of many from another.
fn instance() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Fills in what the limiters say of themselves, of those that are `wanted` by position and [`Limit`].
pub fn limits(
    generation: &Generation,
    state: &mut State,
    now: Timestamp,
    mut wanted: impl FnMut(usize, &Limit) -> bool,
) {
    let engine = generation.engine();
    for (rule, (limit, limiter)) in state.limits.iter_mut().zip(engine.limiters()).enumerate() {
        if !wanted(rule, limit) {
            continue;
        }
        fill(limit, limiter, now);
        let shared_limit =
            engine.shared_limit(rule).filter(|shared_limit| shared_limit.shared().sharing == Sharing::Lease);
        limit.leased = shared_limit.map(|shared_limit| shared_limit.leases().outstanding(now));
    }
}

fn fill(limit: &mut Limit, limiter: &Limiter, now: Timestamp) {
    let (gauges, crowding) = (limiter.gauges(now), limiter.crowding(now));
    limit.memory_bytes = gauges.memory;
    limit.fill = crowding.map(|crowding| crowding.fill);
    limit.keys = crowding.map(|crowding| crowding.keys);
    limit.error = crowding.map(|crowding| crowding.error);
    limit.exact_keys = gauges.exact_keys;
    limit.inflight = gauges.inflight;
    limit.keyed = limiter.is_keyed();
    limit.gauges = gauges;
}

/// Fills in the origins' endpoints, and the requests that are with them against the rule.
pub fn origins(generation: &Generation, state: &mut State, now: Timestamp) {
    for (shown, origin) in state.origins.iter_mut().zip(generation.origins()) {
        shown.endpoints = endpoints(origin, now);
        shown.healthy = shown.endpoints.iter().filter(|endpoint| endpoint.healthy).count();
        shown.addresses = addresses(origin, now);
        shown.abandoned = u64::from(origin.abandoned().count());
        shown.despite = origin.watches().then(|| origin.despite());
    }
}

/// Fills in who holds the places of origins and the units of fair shares, and who waits for them.
pub fn doors(process: &Process, generation: &Generation, state: &mut State) {
    for (shown, origin) in state.origins.iter_mut().zip(generation.origins()) {
        let capped = origin.limit().is_some();
        shown.door = capped.then(|| {
            origin.door().look_at_all(|places| Door {
                held: by_class(places.held_by_class()),
                reserve: places.reserve().into(),
                ..door(process, places.line(), places.half_life())
            })
        });
    }
    for (shown, limiter) in state.limits.iter_mut().zip(generation.engine().limiters()) {
        shown.door = limiter.rate_door().map(|(units, _)| {
            units
                .look(|tokens| Door { reserve: tokens.spec().kept, ..door(process, tokens.line(), tokens.half_life()) })
        });
    }
}

fn by_class(counts: [u32; 4]) -> BTreeMap<Word, u64> {
    Criticality::ALL.into_iter().zip(counts).map(|(class, count)| (class.word().into(), count.into())).collect()
}

fn door(process: &Process, line: &Line, half_life: Duration) -> Door {
    let mut holders: Vec<door::Holder> = line.holders().collect();
    let weight = |holder: &door::Holder| holder.held as f32 + holder.used;
    holders.sort_by(|one, other| weight(other).total_cmp(&weight(one)).then(other.waiting.cmp(&one.waiting)));
    let named = |holder: &door::Holder| {
        let (mark, network) = Client::of_label(&holder.label, holder.level)?;
        Some(Holder {
            name: process.name_of(mark, network, holder.level),
            criticality: holder.criticality.word().into(),
            held: holder.held.into(),
            waiting: holder.waiting.into(),
            used: holder.used.into(),
        })
    };
    let of = |keys: bool| {
        let holders = holders.iter().filter(|holder| (holder.level == 0) == keys);
        holders.filter_map(named).take(Door::SHOWN).collect()
    };
    Door {
        waiting: by_class(line.waiting_by_class()),
        half_life_seconds: half_life.as_secs_f64(),
        clients: of(true),
        networks: of(false),
        ..Door::default()
    }
}

fn endpoints(origin: &OriginState, now: Timestamp) -> Vec<Endpoint> {
    let ring = origin.ring();
    let endpoints = ring.endpoints.iter().map(|endpoint| Endpoint {
        address: SocketAddr::to_string(&endpoint.address),
        healthy: endpoint.is_usable(now),
        ejections: endpoint.record.ejections(),
    });
    endpoints.collect()
}

/// A name has as many endpoints as its name server says.
fn addresses(origin: &OriginState, now: Timestamp) -> Vec<Address> {
    let ring = origin.ring();
    let of_entry = |(entry, address): (usize, &OriginAddress)| {
        let mine = || ring.endpoints.iter().filter(move |endpoint| endpoint.entry == entry);
        let (all, usable) = (mine().count(), mine().filter(|endpoint| endpoint.is_usable(now)).count());
        Address {
            address: address.authority(),
            healthy: if all == 0 { 0.0 } else { usable as f64 / all as f64 },
            ejections: mine().map(|endpoint| endpoint.record.ejections()).sum(),
        }
    };
    origin.spec().addresses.iter().enumerate().map(of_entry).collect()
}

/// Returns how the stores stand.
pub fn stores(generation: &Generation) -> Vec<StoreState> {
    generation.stores().iter().map(|store| store.state()).collect()
}

fn certificates(process: &Process) -> Vec<Certificate> {
    let states = process.certificates.get().map(|watch| watch.states()).unwrap_or_default();
    let certificates = states.iter().map(|state| Certificate {
        listener: state.listener.clone(),
        certificate: state.certificate.clone(),
        expires: state.expires(),
        current: state.is_current(),
    });
    certificates.collect()
}

/// A share is told from so many sampled requests on.
const ENOUGH_SAMPLED: u64 = 32;

/// Returns the clients and networks that the limits refuse most, `most` of each, with clients named by `name`.
pub fn offenders(process: &Process, most: usize, networks: ClientInLog, name: impl Fn(&Client) -> String) -> Offenders {
    let generation = process.generation();
    let now = process.clock.now();
    let found = generation.refused().list(now);
    let asked = generation.sample().clients(now).entries;
    let rules = &generation.engine().policy().rules;
    // counts of several entries together may be too high
    let share = |count: u64| (count as f64 / found.total.max(1) as f64).min(1.0);
    // the sample knows the heaviest clients alone, each with its count at most so much too high
    let passed = |refused: u64, is_it: &dyn Fn(&Client) -> bool| {
        let theirs = asked.iter().filter(|entry| is_it(&entry.payload));
        let sampled: u64 = theirs.map(|entry| entry.count - entry.error.min(entry.count)).sum();
        (sampled >= ENOUGH_SAMPLED).then(|| (1.0 - refused as f64 / (sampled * ONE_IN) as f64).clamp(0.0, 1.0))
    };
    let client = |entry: &heaviest::Entry<Client>| {
        let client = entry.payload;
        let is_it = |other: &Client| (other.network, other.mark) == (client.network, client.mark);
        // by whichever limits: what another one refused did not pass
        let refused = found.entries.iter().filter(|entry| is_it(&entry.payload)).map(|entry| entry.count).sum();
        Offender {
            client: name(&client),
            network: offenders::network_of(&client).map(|prefix| network_name(process, prefix)).unwrap_or_default(),
            limit: rules.get(entry.rule as usize).map_or_else(String::new, |rule| rule.name.clone()),
            passed_share: passed(refused, &is_it),
            count: entry.count,
            error: entry.error,
            share: share(entry.count),
            last_seen_seconds_ago: now.since(entry.last_seen).as_secs(),
        }
    };
    let network = |network: &offenders::Network| Network {
        network: match networks {
            ClientInLog::Pseudonym => process.pseudonyms.of_network(network.prefix).to_string(),
            ClientInLog::Address => network.prefix.to_string(),
        },
        clients: network.entries,
        passed_share: passed(network.count, &|client| offenders::network_of(client) == Some(network.prefix)),
        count: network.count,
        error: network.error,
        share: share(network.count),
    };
    Offenders {
        total: found.total,
        error_bound: found.error_bound,
        clients: found.entries.iter().take(most).map(client).collect(),
        networks: found.networks.iter().take(most).map(network).collect(),
    }
}

/// Returns a network as the access log has it.
pub fn network_name(process: &Process, network: Prefix) -> String {
    match process.clients_in_log() {
        ClientInLog::Pseudonym => process.pseudonyms.of_network(network).to_string(),
        ClientInLog::Address => network.to_string(),
    }
}

/// Notes the counters in the history. For the housekeeping, once a second.
pub fn note_history(process: &Process) {
    process.history.note(process.clock.now(), &counts(&process.generation()));
}

/// Looks for notices. For the housekeeping, once a second.
pub fn look_for_notices(process: &Process) {
    let generation = process.generation();
    let look = Look {
        settings: &process.settings,
        clients_in_log: process.clients_in_log(),
        engine: generation.engine(),
        origins: generation.origins(),
        sample: generation.sample(),
        metrics: generation.metrics(),
        history: &process.history,
        access_log: process.access_log.as_ref().map(AccessLog::state),
    };
    process.notices.look(&look, process.clock.now());
}

/// Looks how the process is as a whole. For the housekeeping, once a second, after the notices.
pub fn look_for_condition(process: &Process) {
    let generation = process.generation();
    let now = process.clock.now();
    let flow = process.history.flow(CONDITION_SECONDS);
    let mean = |points: &[f32]| points.iter().copied().map(f64::from).sum::<f64>() / CONDITION_SECONDS as f64;
    let refused = mean(&flow.limited) + mean(&flow.shed);
    let requests = refused + mean(&flow.allowed) + mean(&flow.delayed) + mean(&flow.failed);
    let counts = generation.metrics().state();
    let mut sight = Sight {
        stopping: process.draining(),
        overload: overload(process),
        requests,
        refused,
        notices: process.notices.list().to_vec(),
        any_request: counts.requests.ended + counts.requests.refused > 0,
        ..Sight::default()
    };
    // the summaries of all workers are merged for it
    if is_much_refused(requests, refused) {
        sight.refusals = Some(Refusals { networks: generation.refused().list(now).shares() });
    }
    let endings = process.history.endings(CONDITION_SECONDS);
    sight.origins.extend(generation.origins().iter().map(|origin| {
        let ring = origin.ring();
        let name = &origin.spec().name;
        let ended = endings.iter().find(|endings| endings.origin == *name).cloned().unwrap_or_default();
        OriginSight {
            name: name.clone(),
            // a name that no server knows is an address out of use
            addresses: ring.endpoints.len().max(origin.spec().addresses.len()),
            usable: ring.endpoints.iter().filter(|endpoint| endpoint.is_usable(now)).count(),
            ended: ended.ended,
            server_errors: ended.server_errors,
            unanswered: ended.unanswered,
        }
    }));
    let silent =
        stores(&generation).into_iter().filter(|store| !store.connected || store.breaker != BreakerState::Closed);
    sight.silent_stores.extend(silent.map(|store| store.name));
    process.condition.look(&sight, now, wall_nanos() / 1_000_000_000);
}
