//! Each store that limits are shared through: whether it answers, and how much is decided without it.

use super::super::view::{StoreView, View};
use super::markup::{count, name, nothing, row, span, table, text};
use crate::picture::svg::Svg;

/// So many servers of a cluster that are not asked are named.
const NAMED: usize = 3;

/// One row each.
pub fn stores(html: &mut Svg, view: &View) {
    if view.stores.is_empty() {
        return nothing(html, "The policy shares no limit with other gates.");
    }
    let columns = [
        "Store",
        "State",
        "Gates",
        "Limits",
        "Questions in all",
        "Answered in all",
        "Waited in all",
        "Without it in all",
    ];
    table(html, "The stores that limits are shared through", &columns, |rows| {
        view.stores.iter().for_each(|store| one(rows, store));
    });
    let words = "A request waits when this gate can neither admit nor refuse it by what it knows. What is decided without a store, \
                 each limit's on_store_error says.";
    html.labelled("p", &[("class", &"note")], words);
}

fn one(rows: &mut Svg, store: &StoreView) {
    row(rows, &store.name, |row| {
        name(row, |cell| cell.labelled("span", &[("class", &"name")], &store.name));
        text(row, "State", &state(store));
        count(row, "Gates", "nodes-now", u64::from(store.nodes));
        text(row, "Limits", &store.limits.join(", "));
        count(row, "Questions in all", "questions-total", store.questions);
        count(row, "Answered in all", "answers-total", store.answers);
        count(row, "Waited in all", "waits-total", store.waits);
        count(row, "Without it in all", "fallbacks-total", store.fallbacks);
    });
}

fn state(store: &StoreView) -> String {
    let now = match (store.connected, store.breaker) {
        (true, _) if (1..store.servers).contains(&store.not_asked.len()) => {
            let away = store.not_asked.len();
            let named = store.not_asked.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
            format!("◐ {away} of {} servers not asked: {named}", store.servers)
        }
        (false, _) => "✕ not connected".to_owned(),
        (true, "closed") => "● connected".to_owned(),
        (true, breaker) => format!("◐ left alone (breaker {breaker})"),
    };
    let now = match store.staleness_millis {
        Some(millis) => format!("{now}; knows other gates as of {:.1} s ago", millis as f64 / 1e3),
        None => now,
    };
    match &store.last_fault {
        Some((fault, ago)) => format!("{now}; {} ago: {fault}", span(*ago)),
        None => now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_cluster_the_servers_that_are_not_asked_are_named() {
        let server = |port: u16| format!("10.0.0.1:{port}");
        let mut store = StoreView {
            name: "s".to_owned(),
            connected: true,
            breaker: "open",
            servers: 6,
            not_asked: vec![server(1)],
            nodes: 1,
            limits: Vec::new(),
            questions: 0,
            answers: 0,
            waits: 0,
            fallbacks: 0,
            staleness_millis: None,
            last_fault: None,
        };
        assert_eq!(state(&store), "◐ 1 of 6 servers not asked: 10.0.0.1:1");
        store.not_asked = (1..6).map(server).collect();
        assert_eq!(state(&store), "◐ 5 of 6 servers not asked: 10.0.0.1:1, 10.0.0.1:2, 10.0.0.1:3");
        store.not_asked = (1..7).map(server).collect();
        assert_eq!(state(&store), "◐ left alone (breaker open)");
    }
}
