//! Limits, and the fair share of one client.

use super::super::view::{MOST_ROWS, View};
use super::chart;
use super::markup::{NOW, bar, cell, lately, name, nothing, row, sum, table, text, window};
use crate::human::{grouped, percent, rate};
use crate::observe::history::LimitPast;
use crate::observe::state::Limit;
use crate::picture::svg::Svg;

/// One row each.
pub fn limits(html: &mut Svg, view: &View) {
    let limits = &view.state.limits;
    if limits.is_empty() {
        return nothing(html, "The policy has no limits.");
    }
    let columns =
        ["Limit", "Trend", "Judged/s", "Admitted", "Refused", "Refused elsewhere", "Would be refused", "Table"];
    table(html, &window("What each limit decides"), &columns, |rows| {
        let none = LimitPast::default();
        for limit in limits.iter().take(MOST_ROWS) {
            let past = view.past.limits.get(&limit.name).unwrap_or(&none);
            one(rows, limit, past, view.last_second());
        }
    });
    let words = "Admitted: fitted here and everywhere else. Refused elsewhere: fitted here, and another limit or a full origin refused \
                 it; charged nowhere. Hatched: refused. Violet: refused elsewhere. Amber: would be refused (shadow or tagging limits).";
    html.labelled("p", &[("class", &"note")], words);
    let more = limits.len().saturating_sub(MOST_ROWS);
    if more > 0 {
        html.labelled("p", &[("class", &"note")], &format!("{more} more limits are in the metrics."));
    }
}

fn one(rows: &mut Svg, limit: &Limit, past: &LimitPast, last: u64) {
    let enforced = !limit.is_shadow();
    let areas: [chart::Area<'_>; 4] =
        [("allowed", &past.allowed), ("limited", &past.limited), ("shed", &past.elsewhere), ("would", &past.shadow)];
    let [admitted, limited, elsewhere, shadow] = areas.map(|(_, points)| lately(points, NOW));
    let all = admitted + limited + elsewhere + shadow;
    row(rows, &limit.name, |row| {
        name(row, |cell| {
            cell.labelled("span", &[("class", &"name")], &limit.name);
            cell.labelled("span", &[("class", &"badge")], &limit.kind);
            if let Some((_, sharing)) = limit.shared {
                cell.labelled("span", &[("class", &"badge")], &format!("shared, {sharing}"));
            }
            if !enforced {
                cell.labelled("span", &[("class", &"badge shadow")], "shadow");
            }
        });
        cell(row, "Trend", |cell| {
            let [admitted, limited, elsewhere, shadow] = areas.map(|(_, points)| grouped(sum(points).round() as u64));
            let words = format!(
                "Decisions over the time shown: {admitted} admitted, {limited} refused, {elsewhere} refused elsewhere, {shadow} \
                 would be refused"
            );
            chart::stacked(cell, "spark", &words, &areas, last, chart::width(&past.allowed, 120));
        });
        let would = !enforced || past.shadow.iter().any(|point| *point > 0.0);
        text(row, "Judged/s", &rate(all));
        text(row, "Admitted", &percent(admitted / all));
        text(row, "Refused", &if enforced { percent(limited / all) } else { "–".to_owned() });
        text(row, "Refused elsewhere", &percent(elsewhere / all));
        text(row, "Would be refused", &if would { percent(shadow / all) } else { "–".to_owned() });
        cell(row, "Table", |cell| crowding(cell, limit));
    });
}

fn crowding(cell: &mut Svg, limit: &Limit) {
    match (limit.fill.zip(limit.error), limit.inflight) {
        (Some((fill, error)), _) => {
            bar(cell, "fill", fill);
            cell.text(&format!("{} full, ", percent(fill)));
            let error = if error < 1e-6 { "error < 1 ppm".to_owned() } else { format!("error {}", percent(error)) };
            cell.text(&error);
        }
        (None, Some(inflight)) => cell.text(&format!("{inflight} under way")),
        (None, None) => cell.text("–"),
    }
}

/// The capacities that are shared out: what is there, what is kept for light clients, and who waits.
pub fn shares(html: &mut Svg, view: &View) {
    let shares: Vec<&Limit> =
        view.state.limits.iter().filter(|limit| limit.gauges.tokens.is_some()).take(MOST_ROWS).collect();
    if shares.is_empty() {
        return nothing(html, "The policy has no limit of type fair_share.");
    }
    table(
        html,
        "Fair shares: requests at this moment",
        &["Limit", "Shared out", "May go at once", "Of these for light clients", "Waiting"],
        |rows| {
            for Limit { name: limit, gauges, .. } in shares {
                let [capacity, tokens, kept] =
                    [gauges.capacity, gauges.tokens, gauges.kept].map(Option::unwrap_or_default);
                let waiting = gauges.waiting.unwrap_or(0);
                row(rows, limit, |row| {
                    name(row, |cell| cell.labelled("span", &[("class", &"name")], limit));
                    text(row, "Shared out", &format!("{}/s", rate(capacity)));
                    cell(row, "May go at once", |cell| {
                        bar(
                            cell,
                            if waiting > 0 { "over" } else { "allowed" },
                            tokens / (2.0 * kept).max(tokens).max(1.0),
                        );
                        cell.text(&rate(tokens));
                    });
                    text(row, "Of these for light clients", &rate(kept.min(tokens)));
                    text(row, "Waiting", &waiting.to_string());
                });
            }
        },
    );
}
