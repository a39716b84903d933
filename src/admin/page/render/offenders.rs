//! Whom the limits refuse most, and where they come from.

use super::super::view::View;
use super::markup::{NEEDS_A_TOKEN, bar, cell, name, nothing, row, table, text};
use crate::human::{grouped, percent, span};
use crate::observe::state::{Network, Offender};
use crate::picture::svg::Svg;

/// Clients, then their networks.
pub fn offenders(html: &mut Svg, view: &View) {
    if view.unnamed {
        return nothing(html, NEEDS_A_TOKEN);
    }
    let offenders = &view.offenders;
    if offenders.clients.is_empty() {
        return nothing(html, "No client was refused in the last minutes.");
    }
    let part = |count: u64| count as f64 / offenders.total.max(1) as f64;
    let share = |html: &mut Svg, count: u64| {
        bar(html, "limited", part(count));
        html.text(&percent(count as f64 / offenders.total as f64));
    };
    let columns = ["Client", "Limit", "Of all refusals", "Refusals", "Last"];
    table(html, "Clients that are refused most: recent refusals, halved every minute", &columns, |rows| {
        for Offender { client, limit, count, error, last_seen_seconds_ago: ago, .. } in &offenders.clients {
            row(rows, &format!("{client} {limit}"), |row| {
                name(row, |cell| cell.labelled("code", &[], client));
                text(row, "Limit", limit);
                cell(row, "Of all refusals", |cell| share(cell, *count));
                let sure = if *error == 0 { String::new() } else { format!(", {} of them in doubt", grouped(*error)) };
                text(row, "Refusals", &format!("{}{sure}", grouped(*count)));
                text(row, "Last", &format!("{} ago", span(*ago)));
            });
        }
    });
    if !offenders.networks.is_empty() {
        html.labelled("h3", &[], "Their networks");
        table(
            html,
            "Networks of those clients: recent refusals, halved every minute",
            &["Network", "Of all refusals", "Refusals", "Clients"],
            |rows| {
                for Network { network, count, clients, .. } in &offenders.networks {
                    row(rows, network, |row| {
                        name(row, |cell| cell.labelled("code", &[], network));
                        cell(row, "Of all refusals", |cell| share(cell, *count));
                        text(row, "Refusals", &grouped(*count));
                        text(row, "Clients", &clients.to_string());
                    });
                }
            },
        );
    }
    let (total, bound) = (grouped(offenders.total), grouped(offenders.error_bound));
    html.labelled(
        "p",
        &[("class", &"note")],
        &format!(
            "Recent refusals, halved every minute: {total} in all. Counts are at most {bound} too high; a client with more than that \
             is never missing. Networks add up the clients listed in memory."
        ),
    );
}
