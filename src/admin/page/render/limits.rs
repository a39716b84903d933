//! Limits, and what each fair share has left.

use super::super::view::{MOST_ROWS, View};
use super::chart::{self, Figure};
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
    let columns = [
        ("Limit", ""),
        ("Picture", "l pic"),
        ("Judged/s", "wide"),
        ("Refused/s", ""),
        ("Share", ""),
        ("Refused elsewhere", "wide"),
        ("Table", "wide"),
    ];
    table(html, &window("Decisions"), &columns, |rows| {
        let none = LimitPast::default();
        for (place, limit) in limits.iter().enumerate().take(MOST_ROWS) {
            let past = view.past.limits.get(&limit.name).unwrap_or(&none);
            one(rows, place, limit, past, view.last_second());
        }
    });
    if limits.iter().any(Limit::is_shadow) {
        html.labelled("p", &[("class", &"soft")], "Thin stripes: would be refused (shadow and tagging limits).");
    }
    let more = limits.len().saturating_sub(MOST_ROWS);
    if more > 0 {
        html.labelled("p", &[("class", &"soft")], &format!("{more} more limits are in the metrics."));
    }
    shares(html, view);
}

fn one(rows: &mut Svg, place: usize, limit: &Limit, past: &LimitPast, last: u64) {
    let enforced = !limit.is_shadow();
    let areas: [chart::Area<'_>; 4] = [
        ("allowed", &past.allowed),
        ("elsewhere", &past.elsewhere),
        ("limited", &past.limited),
        ("would", &past.shadow),
    ];
    let [admitted, elsewhere, limited, shadow] = areas.map(|(_, points)| lately(points, NOW));
    let all = admitted + limited + elsewhere + shadow;
    row(rows, &limit.name, "", |row| {
        name(row, |cell| {
            cell.labelled("code", &[], &limit.name);
            cell.labelled("span", &[("class", &"tag wide")], &limit.kind);
            if let Some((_, sharing)) = limit.shared {
                cell.labelled("span", &[("class", &"tag wide")], &format!("shared, {sharing}"));
            }
            if !enforced {
                cell.labelled("span", &[("class", &"tag shadow")], "shadow");
            }
        });
        cell(row, "l pic", |cell| {
            let [admitted, elsewhere, limited, shadow] = areas.map(|(_, points)| grouped(sum(points).round() as u64));
            let words = format!(
                "Decisions over the time shown: {admitted} admitted, {limited} refused, {elsewhere} refused elsewhere, {shadow} \
                 would be refused"
            );
            let id = format!("c-l{place}");
            let figure = Figure { class: "spark", id: &id, words: &words };
            chart::stacked(cell, figure, &areas, last, chart::width(&past.allowed, 40));
        });
        text(row, "wide", &rate(all));
        let would = !enforced || shadow > 0.0;
        cell(row, "nw", |cell| {
            if enforced {
                cell.text(&rate(limited));
            }
            if would {
                cell.labelled("span", &[("class", &"soft")], &format!(" would: {}", rate(shadow)));
            }
        });
        text(row, "", &percent(if enforced { limited } else { shadow } / all));
        text(row, "wide", &rate(elsewhere));
        cell(row, "wide", |cell| crowding(cell, limit));
    });
}

fn crowding(cell: &mut Svg, limit: &Limit) {
    match (limit.fill.zip(limit.error), limit.inflight) {
        (Some((fill, error)), _) => {
            cell.text(&format!("{} full", percent(fill)));
            if error >= 1e-6 {
                cell.text(&format!(", error {}", percent(error)));
            }
        }
        (None, Some(inflight)) => cell.text(&format!("{inflight} under way")),
        (None, None) => cell.text("–"),
    }
}

/// The capacities that are shared out: what is there, what is kept for light clients, and who waits.
fn shares(html: &mut Svg, view: &View) {
    let shares: Vec<&Limit> =
        view.state.limits.iter().filter(|limit| limit.gauges.tokens.is_some()).take(MOST_ROWS).collect();
    if shares.is_empty() {
        return;
    }
    let columns =
        [("Fair share", ""), ("To share", ""), ("May go at once", ""), ("Kept for light", "wide"), ("Waiting", "")];
    table(html, "Fair shares: requests at this moment", &columns, |rows| {
        for Limit { name: limit, gauges, .. } in shares {
            let [capacity, tokens, kept] = [gauges.capacity, gauges.tokens, gauges.kept].map(Option::unwrap_or_default);
            let waiting = gauges.waiting.unwrap_or(0);
            row(rows, limit, "", |row| {
                name(row, |cell| cell.labelled("code", &[], limit));
                text(row, "", &format!("{}/s", rate(capacity)));
                cell(row, "share", |cell| {
                    cell.element("span", &[], |span| {
                        let class = if waiting > 0 { "hot" } else { "allowed" };
                        bar(span, class, tokens / (2.0 * kept).max(tokens).max(1.0));
                        span.text(&rate(tokens));
                    });
                });
                text(row, "wide", &rate(kept.min(tokens)));
                text(row, "", &waiting.to_string());
            });
        }
    });
}
