//! Gathers what the page shows.

use std::cmp::Reverse;

use super::view::{DecisionView, MOST_ROWS, View};
use crate::explain::Explanation;
use crate::limiter::FORMS;
use crate::observe::decisions::Surroundings;
use crate::observe::fair_share_log::shown_client;
use crate::observe::history::Named;
use crate::observe::state::{BanState, Limit, Route};
use crate::running::bans;
use crate::running::generation::Generation;
use crate::running::process::Process;
use crate::running::state;
use crate::units::Timestamp;

/// Offenders, networks and decisions shown at most.
const MOST_OFFENDERS: usize = 20;

/// Returns everything as of now; without clients and configuration unless `names`.
pub fn view(process: &Process, names: bool) -> View {
    let view = whole(process);
    if names { view } else { view.without_names() }
}

fn whole(process: &Process) -> View {
    let (generation, now) = (process.generation(), process.clock.now());
    // a young process shows whole minutes, not ten that are nearly empty
    let seconds = process.history.seconds().div_ceil(60).max(1) * 60;
    let mut state = state::described(process, &generation);
    state::limits(&generation, &mut state, now, |place, limit| place < MOST_ROWS || shares_out(limit));
    state::origins(&generation, &mut state, now);
    state.stores = state::stores(&generation);
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
        draining: process.draining(),
        past,
        flow: process.history.flow(seconds),
        offenders: state::offenders(process, MOST_OFFENDERS, |client| {
            shown_client(client, clients, &process.pseudonyms).as_str().to_owned()
        }),
        bans: bans(process),
        decisions: decisions(process, &generation),
        unnamed: false,
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
    let mut bans = bans::all(process);
    bans.sort_by_key(|ban| Reverse(ban.refused));
    bans.truncate(MOST_ROWS);
    bans
}

/// Returns whether the section of fair shares shows the limit.
fn shares_out(limit: &Limit) -> bool {
    FORMS.iter().any(|form| form.word == limit.kind && form.takes("networks"))
}

/// Clients are pseudonyms, as nothing else is remembered of them.
fn decisions(process: &Process, generation: &Generation) -> Vec<DecisionView> {
    let bans = generation.engine().bans().table();
    let around = Surroundings {
        policy: generation.engine().policy(),
        fields: &|route| generation.fields(route),
        unix_nanos_at_origin: process.unix_nanos_at_origin(),
        bans: &bans,
    };
    let latest = process.decisions.latest(None, Timestamp::ZERO, MOST_OFFENDERS, &around);
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
