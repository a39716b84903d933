//! Limits, origins, offenders and the configuration, each for itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};

use super::asked::Asked;
use super::context::Context;
use crate::config::settings::ClientInLog;
use crate::engine::Outcome;
use crate::observe::metrics::Numbers;
use crate::observe::metrics::catalogue as all;
use crate::observe::refused;
use crate::policy::Rule;
use crate::running::generation::Installed;
use crate::small_server::Answer;
use crate::store::{ServerStatus, StoreInUse};
use crate::units::{Prefix, Timestamp};

/// One limit, as it is at the moment.
#[derive(Debug, Serialize)]
pub struct LimitState {
    name: String,
    kind: &'static str,
    mode: &'static str,
    memory_bytes: u64,
    /// Which part of its table's cells holds a debt, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    fill: Option<f64>,
    /// How many keys have a debt, estimated from that.
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<u64>,
    /// The probability that a key which was never seen is refused its first unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exact_keys: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inflight: Option<u64>,
    /// What it said, by verdict, since the process began.
    decisions: BTreeMap<&'static str, u64>,
}

/// All limits.
pub fn limits(installed: &Installed, now: Timestamp, numbers: &Numbers) -> Vec<LimitState> {
    let snapshot = installed.snapshot();
    let limit = |(rule, limiter): (&Arc<Rule>, &Arc<crate::limiter::Limiter>)| {
        let gauges = limiter.gauges();
        let crowding = limiter.crowding(now);
        let said = |outcome: Outcome| {
            let labels = [("limit", rule.name.as_str()), ("verdict", outcome.word())];
            (outcome.word(), numbers.count(&all::DECISIONS, &labels))
        };
        LimitState {
            name: rule.name.clone(),
            kind: rule.kind.word(),
            mode: rule.mode.word(),
            memory_bytes: gauges.memory,
            fill: crowding.map(|crowding| crowding.fill),
            keys: crowding.map(|crowding| crowding.keys),
            error: crowding.map(|crowding| crowding.error),
            exact_keys: gauges.exact_keys,
            inflight: gauges.inflight,
            decisions: Outcome::ALL.map(said).into_iter().collect(),
        }
    };
    snapshot.policy().rules.iter().zip(snapshot.limiters()).map(limit).collect()
}

/// One origin, as it is at the moment.
#[derive(Debug, Serialize)]
pub struct OriginState {
    name: String,
    inflight: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u32>,
    queued: u32,
    shed: u64,
    errors: u64,
    retries: u64,
    healthy: usize,
    endpoints: Vec<Endpoint>,
}

#[derive(Debug, Serialize)]
struct Endpoint {
    address: String,
    healthy: bool,
    ejections: u64,
}

/// All origins.
pub fn origins(installed: &Installed, now: Timestamp, numbers: &Numbers) -> Vec<OriginState> {
    let origin = |origin: &Arc<crate::origins::origin::OriginState>| {
        let name = origin.spec().name.clone();
        let ring = origin.ring();
        let endpoints: Vec<Endpoint> = ring
            .endpoints
            .iter()
            .map(|endpoint| Endpoint {
                address: endpoint.address.to_string(),
                healthy: endpoint.is_usable(now),
                ejections: endpoint.record.ejections(),
            })
            .collect();
        let own = [("origin", name.as_str())];
        OriginState {
            inflight: origin.inflight(),
            limit: origin.limit(),
            queued: origin.waiting(),
            shed: numbers.count(&all::ORIGIN_SHED, &own),
            errors: numbers.count(&all::ORIGIN_ERRORS, &own),
            retries: numbers.count(&all::ORIGIN_RETRIES, &own),
            healthy: endpoints.iter().filter(|endpoint| endpoint.healthy).count(),
            endpoints,
            name,
        }
    };
    installed.origins().iter().map(origin).collect()
}

/// `GET /api/v1/limits`.
pub fn get_limits(context: &Arc<Context>, _: &Asked) -> Answer {
    let installed = context.shared.installed();
    let limits = limits(&installed, context.shared.clock.now(), &installed.metrics().numbers());
    Answer::json(StatusCode::OK, &json!({ "schema": "tidegate.limits/1", "limits": limits }))
}

/// `GET /api/v1/origins`.
pub fn get_origins(context: &Arc<Context>, _: &Asked) -> Answer {
    let installed = context.shared.installed();
    let origins = origins(&installed, context.shared.clock.now(), &installed.metrics().numbers());
    Answer::json(StatusCode::OK, &json!({ "schema": "tidegate.origins/1", "origins": origins }))
}

/// `GET /api/v1/config?path=PATH`: what is in force, or a part of it such as `limits.login`, with secrets masked. Every scalar
/// of the JSON is a text, as in the file.
pub fn get_config(context: &Arc<Context>, asked: &Asked) -> Answer {
    let installed = context.shared.installed();
    let source = installed.source();
    let path = asked.query("path").unwrap_or_default();
    let Some(part) = source.shown.at(&path) else {
        return Answer::error(StatusCode::NOT_FOUND, source.shown.missing(&path));
    };
    let told = json!({
        "schema": "tidegate.config/1",
        "hash": source.hash,
        "config": part.to_json(),
        "yaml": part.to_yaml(),
    });
    Answer::json(StatusCode::OK, &told)
}

#[derive(Debug, Serialize)]
struct Offender {
    client: String,
    limit: String,
    count: u64,
    error: u64,
    share: f64,
    last_seen_seconds_ago: u64,
}

#[derive(Debug, Serialize)]
struct Network {
    network: String,
    clients: u64,
    count: u64,
    error: u64,
    share: f64,
}

/// `GET /api/v1/offenders`: whom the limits refused most lately, clients first, then networks (/24 and /48). A count may be
/// at most `error` too high, and whoever is missing was refused at most `error_bound` times. Networks have pseudonyms of their own
/// where clients have.
pub fn get_offenders(context: &Arc<Context>, _: &Asked) -> Answer {
    let shared = &context.shared;
    let installed = shared.installed();
    let now = shared.clock.now();
    let found = installed.refused().list(now);
    let rules = &installed.snapshot().policy().rules;
    let share = |count: u64| if found.total == 0 { 0.0 } else { count as f64 / found.total as f64 };
    let mut offenders = Vec::with_capacity(found.entries.len());
    for entry in &found.entries {
        offenders.push(Offender {
            client: context.name_of(&entry.payload),
            limit: rules.get(entry.rule as usize).map_or_else(String::new, |rule| rule.name.clone()),
            count: entry.count,
            error: entry.error,
            share: share(entry.count),
            last_seen_seconds_ago: now.since(entry.last_seen).as_secs(),
        });
    }
    let named = shared.clients_in_log() == ClientInLog::Address;
    let network = |network: &refused::Network| Network {
        network: if named { network.prefix.to_string() } else { network_name(context, network.prefix) },
        clients: network.entries,
        count: network.count,
        error: network.error,
        share: share(network.count),
    };
    let networks: Vec<Network> = found.networks.iter().map(network).collect();
    let told: Value = json!({
        "schema": "tidegate.offenders/1",
        "total": found.total,
        "error_bound": found.error_bound,
        "offenders": offenders,
        "networks": networks,
    });
    Answer::json(StatusCode::OK, &told)
}

/// The pseudonym of a client that is the whole network.
fn network_name(context: &Context, network: Prefix) -> String {
    context.shared.pseudonyms.of_network(network).to_string()
}

/// One store, as it is at the moment.
#[derive(Debug, Serialize)]
pub struct StoreState {
    name: String,
    connected: bool,
    /// `closed`, `open` or `half_open`; of a cluster the one that is furthest from closed.
    breaker: &'static str,
    /// Of a cluster: each server with slots, and how it stands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers: Vec<ServerState>,
    /// How many gates share it, as far as is known.
    nodes: u32,
    questions: u64,
    answers: u64,
    /// Requests that waited for it.
    waits: u64,
    /// Decisions of its limits that were made without it.
    fallbacks: u64,
    /// Of limits with `sharing: estimate`: how old the oldest is that is known of another gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    staleness_seconds: Option<f64>,
    /// What went wrong last.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_fault: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_fault_seconds_ago: Option<u64>,
}

/// One server of a cluster.
#[derive(Debug, Serialize)]
struct ServerState {
    address: String,
    connected: bool,
    /// `closed`, `open` or `half_open`.
    breaker: &'static str,
}

/// All stores.
pub fn stores(installed: &Installed) -> Vec<StoreState> {
    let server = |server: ServerStatus| {
        let ServerStatus { address, connected, breaker } = server;
        ServerState { address, connected, breaker: breaker.word() }
    };
    let store = |store: &Arc<StoreInUse>| {
        let status = store.status();
        let (fault, ago) = status.last_fault.unzip();
        StoreState {
            name: status.name,
            connected: status.connected,
            breaker: status.breaker.word(),
            servers: status.servers.into_iter().map(server).collect(),
            nodes: status.nodes,
            questions: status.asked,
            answers: status.answered,
            waits: store.waits(),
            fallbacks: store.fallbacks().map(|(_, count)| count).sum(),
            staleness_seconds: store.exchange().map(|exchange| exchange.staleness_seconds),
            last_fault: fault,
            last_fault_seconds_ago: ago.map(|ago| ago.as_secs()),
        }
    };
    installed.stores().iter().map(store).collect()
}
