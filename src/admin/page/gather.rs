//! Where the page's numbers come from: counters, limits, origins and lists of the process, read one after the other.

use std::sync::OnceLock;

use super::view::{
    DecisionView, Header, LimitView, Offender, Offenders, OriginView, RouteView, ShareView, StoreView, View,
};
use crate::client::Client;
use crate::config::settings::ClientInLog;
use crate::explain::Explanation;
use crate::observe::decisions::Surroundings;
use crate::observe::flood::shown_client;
use crate::observe::history::{OriginTotals, RouteTotals, Totals};
use crate::observe::refused;
use crate::policy::Mode;
use crate::running::generation::Installed;
use crate::running::process::Shared;
use crate::sketch::heaviest;
use crate::system::clock::wall_nanos;
use crate::units::Timestamp;

/// No section shows more rows: a page is for people.
const MOST_ROWS: usize = 50;

/// As many offenders are shown, and networks.
const MOST_OFFENDERS: usize = 20;

/// Everything as of now; without clients and configuration unless `names`.
pub fn view(shared: &Shared, names: bool) -> View {
    let view = whole(shared);
    if names {
        return view;
    }
    // addresses stand in the configuration, and notices tell of both
    let origins = view.origins.into_iter().map(|origin| OriginView { endpoints: Vec::new(), ..origin }).collect();
    let (notices, offenders, decisions) = Default::default();
    View { unnamed: true, notices, offenders, decisions, origins, ..view }
}

fn whole(shared: &Shared) -> View {
    let installed = shared.installed();
    // a process that is young has whole minutes on its page, not ten that are nearly empty
    let seconds = shared.history.seconds().div_ceil(60).max(1) * 60;
    let Totals { routes, limits, origins, unmatched } = installed.metrics().totals();
    View {
        header: header(shared, &installed),
        notices: shared.notices.list(),
        routes_in_all: routes.len(),
        routes: busiest(shared, routes, seconds),
        unmatched,
        flow: shared.history.flow().shortened(seconds),
        limits_in_all: limits.len(),
        shares: shares(&installed),
        stores: stores(&installed),
        limits: limits
            .into_iter()
            .enumerate()
            .take(MOST_ROWS)
            .filter_map(|(rule, totals)| {
                let snapshot = installed.snapshot();
                let (spec, limiter) = (snapshot.policy().rules.get(rule)?, snapshot.limiter(rule)?);
                Some(LimitView {
                    kind: spec.kind.word(),
                    enforced: spec.mode == Mode::Enforce,
                    sharing: spec.shared.map(|shared| shared.sharing.word()),
                    past: shared.history.limit(&totals.name).unwrap_or_default().shortened(seconds),
                    totals,
                    crowding: limiter.crowding(shared.clock.now()).map(|crowding| (crowding.fill, crowding.error)),
                    inflight: limiter.gauges().inflight,
                })
            })
            .collect(),
        origins_in_all: origins.len(),
        origins: origins
            .into_iter()
            .take(MOST_ROWS)
            .map(|totals| origin(shared, &installed, totals, seconds))
            .collect(),
        offenders: offenders(shared, &installed),
        decisions: decisions(shared, &installed),
        last_second: shared.history.last_second().unwrap_or(0),
        unnamed: false,
    }
}

fn header(shared: &Shared, installed: &Installed) -> Header {
    static INSTANCE: OnceLock<String> = OnceLock::new();
    let instance = INSTANCE.get_or_init(|| {
        // the machine's name does not change under a process that serves
        std::fs::read_to_string("/proc/sys/kernel/hostname")
            .map_or_else(|_| "this machine".into(), |name| name.trim().into())
    });
    let now = wall_nanos() / 1_000_000_000;
    let (generation, since) = installed.metrics().in_force();
    Header {
        instance: instance.clone(),
        process: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started: now.saturating_sub(shared.clock.uptime().as_secs()),
        now,
        fingerprint: installed.snapshot().policy().fingerprint.clone(),
        generation,
        installed: since,
        draining: shared.draining(),
    }
}

fn busiest(shared: &Shared, routes: Vec<RouteTotals>, seconds: usize) -> Vec<RouteView> {
    let busy = |route: &RouteTotals| route.ended + route.limited + route.shed;
    let mut routes: Vec<(usize, RouteTotals)> = routes.into_iter().enumerate().collect();
    if routes.len() > MOST_ROWS {
        routes.sort_by_key(|(_, route)| std::cmp::Reverse(busy(route)));
        routes.truncate(MOST_ROWS);
        // rows that change places every second cannot be read
        routes.sort_by_key(|(place, _)| *place);
    }
    let view = |(_, totals): (usize, RouteTotals)| RouteView {
        past: shared.history.route(&totals.name).unwrap_or_default().shortened(seconds),
        totals,
    };
    routes.into_iter().map(view).collect()
}

fn origin(shared: &Shared, installed: &Installed, totals: OriginTotals, seconds: usize) -> OriginView {
    let endpoints = installed.metrics().endpoints(&totals.name);
    OriginView {
        past: shared.history.origin(&totals.name).unwrap_or_default().shortened(seconds),
        endpoints: endpoints.into_iter().map(|endpoint| (endpoint.endpoint, endpoint.healthy)).collect(),
        totals,
    }
}

fn shares(installed: &Installed) -> Vec<ShareView> {
    let snapshot = installed.snapshot();
    let shares = snapshot.policy().rules.iter().zip(snapshot.limiters());
    shares
        .filter(|(rule, _)| rule.kind.has_nodes())
        .take(MOST_ROWS)
        .map(|(rule, limiter)| {
            let gauges = limiter.gauges();
            ShareView {
                name: rule.name.clone(),
                capacity: gauges.capacity,
                offered: gauges.offered.unwrap_or(0.0),
                share: gauges.share.unwrap_or(f64::INFINITY),
            }
        })
        .collect()
}

fn stores(installed: &Installed) -> Vec<StoreView> {
    let rules = &installed.snapshot().policy().rules;
    let stores = installed.stores().iter().enumerate().take(MOST_ROWS);
    stores
        .map(|(place, store)| {
            let status = store.status();
            let shared = rules.iter().filter(|rule| rule.shared.is_some_and(|shared| shared.store == place));
            StoreView {
                limits: shared.map(|rule| rule.name.clone()).collect(),
                connected: status.connected,
                breaker: status.breaker.word(),
                servers: status.servers.len(),
                not_asked: status
                    .servers
                    .iter()
                    .filter(|server| !server.is_asked())
                    .map(|server| server.address.clone())
                    .collect(),
                nodes: status.nodes,
                questions: status.asked,
                answers: status.answered,
                waits: store.waits(),
                fallbacks: store.fallbacks().map(|(_, count)| count).sum(),
                staleness_millis: store.exchange().map(|exchange| (exchange.staleness_seconds * 1e3) as u64),
                last_fault: status.last_fault.map(|(fault, ago)| (fault, ago.as_secs())),
                name: status.name,
            }
        })
        .collect()
}

/// Clients are pseudonyms: that is all that is remembered of them.
fn decisions(shared: &Shared, installed: &Installed) -> Vec<DecisionView> {
    let around = Surroundings {
        policy: installed.snapshot().policy(),
        fields: &|route| installed.fields(route),
        unix_nanos_at_origin: shared.unix_nanos_at_origin(),
    };
    let latest = shared.decisions.latest(None, Timestamp::ZERO, MOST_OFFENDERS, &around);
    let view = |explanation: Explanation| {
        let text = explanation.to_text();
        DecisionView {
            id: explanation.id.unwrap_or_default(),
            summary: text.lines().next().unwrap_or_default().to_owned(),
            explanation: text,
        }
    };
    latest.into_iter().map(view).collect()
}

/// Clients and networks appear as in the access log; as pseudonyms if there is none.
fn offenders(shared: &Shared, installed: &Installed) -> Offenders {
    let as_what = shared.clients_in_log();
    let rules = &installed.snapshot().policy().rules;
    let now = shared.clock.now();
    let list = installed.refused().list(now);
    let network = |network: refused::Network| {
        let name = match as_what {
            ClientInLog::Pseudonym => shared.pseudonyms.of_network(network.prefix).to_string(),
            ClientInLog::Address => network.prefix.to_string(),
        };
        (name, network.count, network.entries)
    };
    let client = |entry: &heaviest::Entry<Client>| Offender {
        client: shown_client(&entry.payload, as_what, &shared.pseudonyms).as_str().to_owned(),
        limit: rules.get(entry.rule as usize).map_or_else(String::new, |rule| rule.name.clone()),
        count: entry.count,
        error: entry.error,
        ago: now.since(entry.last_seen).as_secs(),
    };
    Offenders {
        networks: list.networks.into_iter().take(MOST_OFFENDERS).map(network).collect(),
        total: list.total,
        error_bound: list.error_bound,
        clients: list.entries.iter().take(MOST_OFFENDERS).map(client).collect(),
    }
}
