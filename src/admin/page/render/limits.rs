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

/// Offered load against the capacity that is shared out.
pub fn shares(html: &mut Svg, view: &View) {
    let shares: Vec<&Limit> =
        view.state.limits.iter().filter(|limit| limit.gauges.share.is_some()).take(MOST_ROWS).collect();
    if shares.is_empty() {
        return nothing(html, "The policy has no limit of type fair_share.");
    }
    table(
        html,
        "Fair shares: requests per second at this moment",
        &["Limit", "Offered", "Shared out", "One client may take"],
        |rows| {
            for Limit { name: limit, gauges, .. } in shares {
                let (capacity, offered) = (gauges.capacity, gauges.offered.unwrap_or(0.0));
                // without pressure a client's share is far above all that there is
                let share = gauges.share.unwrap_or(f64::INFINITY).min(capacity.unwrap_or(f64::INFINITY));
                row(rows, limit, |row| {
                    name(row, |cell| cell.labelled("span", &[("class", &"name")], limit));
                    let most = capacity.unwrap_or(0.0).max(offered).max(1e-9);
                    cell(row, "Offered", |cell| {
                        let class =
                            if capacity.is_some_and(|capacity| offered > capacity) { "over" } else { "allowed" };
                        bar(cell, class, offered / most);
                        cell.text(&format!("{}/s", rate(offered)));
                    });
                    cell(row, "Shared out", |cell| match capacity {
                        Some(capacity) => {
                            bar(cell, "fill", capacity / most);
                            cell.text(&format!("{}/s", rate(capacity)));
                        }
                        None => cell.text("not known yet"),
                    });
                    let words = if share.is_finite() { format!("{}/s", rate(share)) } else { "no limit".to_owned() };
                    text(row, "One client may take", &words);
                });
            }
        },
    );
}
