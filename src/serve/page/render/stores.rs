//! Each store that limits are shared through: whether it answers, and how much is decided without it.

use super::super::view::{StoreView, View};
use super::markup::{count, name, nothing, row, span, table, text};
use crate::picture::svg::Svg;

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
