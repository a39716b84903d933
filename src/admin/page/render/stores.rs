//! Each store that limits are shared through: whether it answers, and how much is decided without it.

use super::super::view::{MOST_ROWS, View};
use super::markup::{exact, nothing};
use crate::human::span;
use crate::picture::svg::Svg;
use crate::store::{BreakerState, StoreState};

/// So many servers of a cluster that are not asked are named.
const NAMED: usize = 3;

/// One line each.
pub fn stores(html: &mut Svg, view: &View) {
    let stores = &view.state.stores;
    if stores.is_empty() {
        return nothing(html, "The policy shares no limit with other gates.");
    }
    html.labelled("p", &[("class", &"soft")], "Counts since the start of this process.");
    for (place, store) in stores.iter().take(MOST_ROWS).enumerate() {
        let limits = view.state.limits.iter().filter(|limit| limit.shared.is_some_and(|(store, _)| store == place));
        let limits: Vec<&str> = limits.map(|limit| limit.name.as_str()).collect();
        html.element("p", &[("data-name", &store.name)], |line| {
            line.labelled("code", &[], &store.name);
            line.text(&format!(" {}. Gates: ", state(store)));
            exact(line, "nodes-now", u64::from(store.nodes));
            line.text(&format!(". Limits: {}. Questions: ", limits.join(", ")));
            exact(line, "questions-total", store.questions);
            line.text(", answered ");
            exact(line, "answers-total", store.answers);
            line.text(". Requests that waited for it: ");
            exact(line, "waits-total", store.waits);
            line.text(". Decided without it: ");
            line.element("b", &[], |number| exact(number, "fallbacks-total", store.fallbacks));
            line.text(".");
        });
    }
}

fn state(store: &StoreState) -> String {
    let away = store.not_asked();
    let now = match (store.connected, store.breaker) {
        (true, _) if (1..store.servers.len()).contains(&away.len()) => {
            let named = away.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
            format!("◐ {} of {} servers not asked: {named}", away.len(), store.servers.len())
        }
        (false, _) => "✕ not connected".to_owned(),
        (true, BreakerState::Closed) => "● connected".to_owned(),
        (true, breaker) => format!("◐ left alone (breaker {})", breaker.word()),
    };
    let now = match store.staleness_seconds {
        Some(seconds) => format!("{now}; knows other gates as of {:.1} s ago", (seconds * 1e3).trunc() / 1e3),
        None => now,
    };
    match (&store.last_fault, store.last_fault_seconds_ago) {
        (Some(fault), Some(ago)) => format!("{now}; {} ago: {fault}", span(ago)),
        _ => now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ServerState;

    #[test]
    fn of_a_cluster_the_servers_that_are_not_asked_are_named() {
        let cluster = |away: u16| {
            let server = |port: u16| ServerState {
                address: format!("10.0.0.1:{port}"),
                connected: port > away,
                breaker: BreakerState::Closed,
            };
            let servers = (1..=6).map(server).collect();
            state(&StoreState { connected: true, breaker: BreakerState::Open, servers, ..StoreState::default() })
        };
        assert_eq!(cluster(1), "◐ 1 of 6 servers not asked: 10.0.0.1:1");
        assert_eq!(cluster(5), "◐ 5 of 6 servers not asked: 10.0.0.1:1, 10.0.0.1:2, 10.0.0.1:3");
        assert_eq!(cluster(6), "◐ left alone (breaker open)");
    }
}
