//! `GET /api/v1/status`: the process and its parts on one screen.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::StatusCode;
use serde::Serialize;

use super::asked::Asked;
use super::context::Context;
use super::parts::{LimitState, OriginState, StoreState, limits, origins, stores};
use crate::observe::metrics::Numbers;
use crate::observe::metrics::catalogue as all;
use crate::observe::notices::Notice;
use crate::observe::scrape;
use crate::small_server::Answer;
use crate::system::clock;

/// `GET /healthz`: whether the process can answer at all.
pub fn healthz(_: &Arc<Context>, _: &Asked) -> Answer {
    scrape::alive()
}

/// `GET /readyz`: whether requests are welcome.
pub fn readyz(context: &Arc<Context>, _: &Asked) -> Answer {
    scrape::ready(&context.ready)
}

#[derive(Debug, Serialize)]
struct Status {
    schema: &'static str,
    version: &'static str,
    instance: String,
    process: u32,
    /// `starting`, `ready` or `stopping`.
    state: &'static str,
    uptime_seconds: u64,
    config: Config,
    requests: Requests,
    listeners: Vec<Listener>,
    origins: Vec<OriginState>,
    limits: Vec<LimitState>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stores: Vec<StoreState>,
    pardons: usize,
    /// What differs from the file and needs a new process.
    waiting_for_upgrade: Vec<String>,
    notices: Vec<Notice>,
}

#[derive(Debug, Serialize)]
struct Config {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    hash: String,
    /// In seconds since 1970.
    loaded_at: u64,
    age_seconds: u64,
}

#[derive(Debug, Serialize)]
struct Requests {
    ended: u64,
    refused: u64,
    malformed: u64,
}

#[derive(Debug, Serialize)]
struct Listener {
    name: String,
    address: String,
    connections: u64,
    accepted: u64,
    refused: u64,
}

/// One screen of it.
pub fn status(context: &Arc<Context>, _: &Asked) -> Answer {
    let shared = &context.shared;
    let installed = shared.installed();
    let source = installed.source();
    let numbers = installed.metrics().numbers();
    let now = clock::wall_nanos();
    let seconds = |nanos: u64| nanos / 1_000_000_000;
    let state = match (shared.draining(), context.ready.load(Ordering::Relaxed)) {
        (true, _) => "stopping",
        (false, true) => "ready",
        (false, false) => "starting",
    };
    let status = Status {
        schema: "tidegate.status/1",
        version: env!("CARGO_PKG_VERSION"),
        instance: instance(),
        process: std::process::id(),
        state,
        uptime_seconds: shared.clock.uptime().as_secs(),
        config: Config {
            file: shared.file.clone(),
            hash: source.hash.clone(),
            loaded_at: seconds(source.loaded),
            age_seconds: seconds(now.saturating_sub(source.loaded)),
        },
        requests: Requests {
            ended: numbers.count(&all::REQUESTS, &[]),
            refused: numbers.count(&all::REFUSED, &[]),
            malformed: numbers.count(&all::MALFORMED, &[]),
        },
        listeners: listeners(context, &numbers),
        origins: origins(&installed, shared.clock.now(), &numbers),
        limits: limits(&installed, shared.clock.now(), &numbers),
        stores: stores(&installed),
        pardons: context.pardons.len(shared.clock.now()),
        waiting_for_upgrade: installed.waiting().to_vec(),
        notices: shared.notices.list().to_vec(),
    };
    Answer::json(StatusCode::OK, &status)
}

fn listeners(context: &Context, numbers: &Numbers) -> Vec<Listener> {
    let listener = |(name, address): &(String, String)| {
        let own = [("listener", name.as_str())];
        Listener {
            name: name.clone(),
            address: address.clone(),
            connections: numbers.count(&all::CONNECTIONS, &own),
            accepted: numbers.count(&all::CONNECTIONS_ACCEPTED, &own),
            refused: numbers.count(&all::CONNECTIONS_REFUSED, &own),
        }
    };
    context.listeners.iter().map(listener).collect()
}

/// The machine's name, which tells one process of many from another.
fn instance() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
