//! Gathers what the page shows.

use std::cmp::Reverse;
use std::sync::Arc;

use super::view::{DecisionView, MOST_ROWS, Reader, ShareView, View};
use crate::client::{Client, ClientNetwork, KeyPart};
use crate::explain::Explanation;
use crate::limiter::FORMS;
use crate::observe::decisions::{Fold, Surroundings};
use crate::observe::fair_share_log::shown_client;
use crate::observe::history::{Named, Past, SECONDS};
use crate::observe::state::{BanState, Limit, Route};
use crate::policy::{Policy, Rule};
use crate::running::bans;
use crate::running::generation::Generation;
use crate::running::process::Process;
use crate::running::state;
use crate::system::clock::wall_nanos;
use crate::units::Timestamp;

/// Offenders and networks shown at most.
const MOST_OFFENDERS: usize = 20;

/// Groups of equal decisions shown at most.
const MOST_DECISIONS: usize = 12;

/// Clients of a picture of refusals at most; the others are one part of it.
const MOST_OF_A_SHARE: usize = 200;

/// Routes of a group of decisions that are named.
const MOST_ROUTES: usize = 3;

/// Returns everything as of now; without clients and configuration unless `names`.
pub fn view(process: &Process, listeners: &[(String, String)], reader: Reader) -> View {
    let view = View { orders: reader.orders, ..whole(process, listeners) };
    if reader.names { view } else { view.without_names() }
}

fn whole(process: &Process, listeners: &[(String, String)]) -> View {
    let (generation, now) = (process.generation(), process.clock.now());
    // a young process shows whole minutes, not ten that are nearly empty
    let seconds = process.history.seconds().div_ceil(60).max(1) * 60;
    let mut state = state::described(process, &generation);
    state::limits(&generation, &mut state, now, |place, limit| place < MOST_ROWS || shares_out(limit));
    state::origins(&generation, &mut state, now);
    state::doors(process, &generation, &mut state);
    state.stores = state::stores(&generation);
    for (listener, (_, address)) in state.listeners.iter_mut().zip(listeners) {
        listener.address.clone_from(address);
    }
    let routes_in_all = state.routes.len();
    state.routes = busiest(state.routes);
    let past = process.history.select(seconds, |what, name| match what {
        Named::Route => state.routes.iter().any(|route| route.name == name),
        Named::Limit => state.limits.iter().take(MOST_ROWS).any(|limit| limit.name == name),
        Named::Origin => state.origins.iter().take(MOST_ROWS).any(|origin| origin.name == name),
    });
    let clients = process.clients_in_log();
    View {
        state,
        routes_in_all,
        now: wall_nanos() / 1_000_000_000,
        past,
        flow: process.history.flow(seconds),
        offenders: state::offenders(process, MOST_OFFENDERS, clients, |client| {
            shown_client(client, clients, &process.pseudonyms).as_str().to_owned()
        }),
        shares: shares(process, &generation, now),
        bans: bans(process),
        decisions: decisions(process, &generation, now),
        unnamed: false,
        orders: false,
    }
}

/// Keeps the routes with most requests, in the policy's order: rows that change places every second cannot be read.
fn busiest(routes: Vec<Route>) -> Vec<Route> {
    let mut routes: Vec<(usize, Route)> = routes.into_iter().enumerate().collect();
    if routes.len() > MOST_ROWS {
        routes.sort_by_key(|(_, route)| Reverse(route.ended + route.limited + route.shed));
        routes.truncate(MOST_ROWS);
        routes.sort_by_key(|(place, _)| *place);
    }
    routes.into_iter().map(|(_, route)| route).collect()
}

/// Keeps the bans that refused most.
fn bans(process: &Process) -> Vec<BanState> {
    let mut bans = bans::all(process, process.clients_in_log());
    bans.sort_by_key(|ban| Reverse(ban.refused));
    bans.truncate(MOST_ROWS);
    bans
}

/// Returns whether the limit shares out a capacity.
fn shares_out(limit: &Limit) -> bool {
    FORMS.iter().any(|form| form.word == limit.kind && form.takes("networks"))
}

/// Who is refused by each `fair_share` that refused somebody lately, by the networks that it weighs.
fn shares(process: &Process, generation: &Generation, now: Timestamp) -> Vec<ShareView> {
    let rules = &generation.engine().policy().rules;
    if !rules.iter().any(|rule| rule.kind.has_nodes()) {
        return Vec::new();
    }
    let entries = generation.refused().list(now).entries;
    let in_log = process.clients_in_log();
    let view = |(place, rule): (usize, &Arc<Rule>)| {
        let lengths = lengths(rule);
        let name = |client: &Client| {
            let networks = lengths.iter().map(|length| match client.network_for(Some(*length), Some(2 * *length)) {
                ClientNetwork::Prefix(prefix) => state::network_name(process, prefix),
                ClientNetwork::Unix => "unix".to_owned(),
            });
            let own = shown_client(client, in_log, &process.pseudonyms).as_str().to_owned();
            networks.chain([own]).collect::<Vec<String>>()
        };
        let of_rule = || entries.iter().filter(|entry| entry.rule as usize == place);
        let total: u64 = of_rule().map(|entry| entry.count).sum();
        (total > 0).then(|| ShareView {
            limit: rule.name.clone(),
            levels: lengths.iter().map(|length| format!("/{length}")).chain(["client".to_owned()]).collect(),
            clients: of_rule().take(MOST_OF_A_SHARE).map(|entry| (name(&entry.payload), entry.count)).collect(),
            total,
        })
    };
    rules.iter().enumerate().filter(|(_, rule)| rule.kind.has_nodes()).filter_map(view).collect()
}

/// The networks that a `fair_share` weighs, by the length of their IPv4 prefix, the widest first.
fn lengths(rule: &Rule) -> Vec<u8> {
    let length = |part: &KeyPart| match part {
        KeyPart::ClientIp { ipv4_prefix, .. } => *ipv4_prefix,
        _ => None,
    };
    let mut lengths: Vec<u8> =
        rule.nodes.iter().skip(1).filter_map(|node| node.parts().iter().find_map(length)).collect();
    lengths.sort_unstable();
    lengths
}

/// Clients are pseudonyms, as nothing else is remembered of them.
fn decisions(process: &Process, generation: &Generation, now: Timestamp) -> Vec<DecisionView> {
    let policy = generation.engine().policy();
    let bans = generation.engine().bans().table();
    let around = Surroundings {
        policy,
        fields: &|route| generation.fields(route),
        unix_nanos_at_origin: process.unix_nanos_at_origin(),
        bans: &bans,
        name: &|mark, network, level| process.name_of(mark, network, level),
    };
    let since = Timestamp::from_nanos(now.nanos().saturating_sub(SECONDS as u64 * 1_000_000_000));
    let past = process.history.lately(SECONDS);
    let view = |(fold, explanation): (Fold, Explanation)| {
        let text = explanation.to_text();
        let summary = text.lines().next().unwrap_or_default();
        let (head, outcome) = summary.split_once("→").unwrap_or(("", summary));
        let counted = fold.is_current.then(|| counted(&past, &fold, policy)).flatten().unwrap_or(0);
        let mut routes: Vec<&str> =
            fold.routes.iter().filter_map(|route| Some(policy.routes.route(*route)?.name.as_str())).collect();
        let more = routes.len().saturating_sub(MOST_ROUTES);
        routes.truncate(MOST_ROUTES);
        let routes = match more {
            _ if !fold.is_current => String::new(),
            0 => routes.join(", "),
            more => format!("{} and {more} more", routes.join(", ")),
        };
        DecisionView {
            count: counted.max(fold.kept),
            at_least: counted == 0,
            outcome: outcome.trim().to_owned(),
            routes,
            newest: head.get(11..19).unwrap_or_default().to_owned(),
            id: explanation.id.unwrap_or_default(),
            explanation: text,
        }
    };
    let mut told: Vec<DecisionView> =
        process.decisions.folded(since, MOST_DECISIONS, &around).into_iter().map(view).collect();
    told.sort_by_key(|decision| Reverse(decision.count));
    told
}

/// How many such decisions the history has; `None` of those that it does not count.
fn counted(past: &Past, fold: &Fold, policy: &Policy) -> Option<u64> {
    let sum = |points: &[f32]| points.iter().copied().map(f64::from).sum::<f64>().round() as u64;
    if let Some(rule) = fold.limit {
        let limit = past.limits.get(&policy.rules.get(rule)?.name)?;
        return Some(if fold.would { sum(&limit.shadow) } else { sum(&limit.limited) });
    }
    let [route] = fold.routes.as_slice() else { return None };
    let route = policy.routes.route(*route)?;
    fold.no_place.then(|| past.routes.get(&route.name).map(|route| sum(&route.shed)))?
}
