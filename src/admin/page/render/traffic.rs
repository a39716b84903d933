//! Who speaks, what is the matter, and how many requests there are.

use super::super::view::View;
use super::chart::{self, Area};
use super::markup::{cell, exact, lately, name, nothing, row, sum, table};
use crate::human::{grouped, percent, rate, span};
use crate::observe::history::RoutePast;
use crate::observe::state::{Config, Route, State};
use crate::picture::svg::Svg;

/// Over how many seconds "now" is a mean.
pub const NOW: usize = 10;

/// Which process this is, since when, and how much it does.
pub fn header(html: &mut Svg, view: &View) {
    let State { instance, process, version, uptime_seconds: up, .. } = &view.state;
    let Config { fingerprint, generation, in_force_seconds, .. } = &view.state.config;
    html.element("p", &[("class", &"who")], |line| {
        line.labelled("strong", &[], if instance.is_empty() { "this machine" } else { instance });
        line.text(&format!("process {process}, version {version}, "));
        let duration = format_args!("PT{up}S").to_string();
        line.labelled("time", &[("datetime", &duration)], &format!("up {}", span(*up)));
        if view.draining {
            line.labelled("strong", &[("class", &"badge urgent")], "draining");
        }
    });
    html.element("p", &[("class", &"who")], |line| {
        line.text("policy ");
        line.labelled("code", &[], fingerprint);
        line.text(&format!(" number {generation}, in force for {}", span(*in_force_seconds)));
    });
    let RoutePast { allowed, delayed, limited, shed } = &view.flow;
    let lately = [allowed, delayed, limited, shed].map(|points| lately(points, NOW));
    let all: f64 = lately.iter().sum();
    html.element("dl", &[("class", &"tiles")], |tiles| {
        let mut tile = |class: &str, term: &str, number: String, note: String| {
            tiles.element("div", &[("class", &class)], |tile| {
                tile.labelled("dt", &[], term);
                tile.labelled("dd", &[], &number);
                tile.labelled("dd", &[("class", &"note")], &note);
            });
        };
        tile("", "requests/s", rate(all), format!("mean of {NOW} s"));
        let words = ["allowed", "delayed", "limited", "shed"];
        for (word, number) in words.into_iter().zip(lately) {
            tile(word, &format!("{word}/s"), rate(number), percent(number / all));
        }
    });
}

/// What the operator should know.
pub fn notices(html: &mut Svg, view: &View) {
    for notice in &view.state.notices {
        let class = if notice.urgent { "notice urgent" } else { "notice" };
        html.element("div", &[("class", &class)], |html| {
            html.element("p", &[], |line| {
                line.labelled("strong", &[], if notice.urgent { "Wrong: " } else { "Note: " });
                line.text(&notice.text);
            });
            html.labelled("p", &[("class", &"hint")], &notice.hint);
            if !notice.details.is_empty() {
                html.labelled("pre", &[("tabindex", &0)], &notice.details);
            }
        });
    }
}

fn areas(past: &RoutePast) -> [Area<'_>; 4] {
    [("allowed", &past.allowed), ("delayed", &past.delayed), ("limited", &past.limited), ("shed", &past.shed)]
}

/// What a chart of requests shows, in words.
fn said(what: &str, past: &RoutePast) -> String {
    let [allowed, delayed, limited, shed] = areas(past).map(|(_, points)| sum(points).round() as u64).map(grouped);
    format!("{what} over the time shown: {allowed} allowed, {delayed} delayed, {limited} limited, {shed} shed")
}

/// All requests, second by second.
pub fn flow(html: &mut Svg, view: &View) {
    html.element("div", &[("class", &"figure")], |html| {
        let mut picture = Svg::default();
        let words = said("All routes", &view.flow);
        let top = chart::stacked(
            &mut picture,
            "chart tall",
            &words,
            &areas(&view.flow),
            view.last_second(),
            chart::width(&view.flow.allowed, 300),
        );
        html.labelled("span", &[("class", &"top"), ("aria-hidden", &"true")], &format!("{} requests/s", rate(top)));
        html.append(picture);
        chart::time_axis(html, view.flow.allowed.len());
    });
    html.element("ul", &[("class", &"legend")], |list| {
        for (class, words) in [
            ("allowed", "allowed"),
            ("delayed", "delayed, then allowed"),
            ("limited", "limited: turned away by a limit"),
            ("shed", "shed: no room"),
        ] {
            list.element("li", &[], |item| {
                item.labelled("span", &[("class", &format_args!("swatch {class}")), ("aria-hidden", &"true")], "");
                item.text(words);
            });
        }
    });
}

/// Each route.
pub fn routes(html: &mut Svg, view: &View) {
    let routes = &view.state.routes;
    if routes.is_empty() {
        return nothing(html, "The policy has no routes.");
    }
    let columns = ["Route", "Trend", "Requests/s", "Limited", "Shed", "Ended in all", "Limited in all", "Shed in all"];
    table(html, "Requests by route", &columns, |rows| {
        let none = RoutePast::default();
        for route in routes {
            let past = view.past.routes.get(&route.name).unwrap_or(&none);
            one(rows, route, past, view.last_second());
        }
    });
    html.element("p", &[("class", &"note")], |note| {
        if view.routes_in_all > routes.len() {
            let (shown, all) = (routes.len(), view.routes_in_all);
            note.text(&format!("The {shown} busiest of {all} routes; the others are in the metrics. "));
        }
        note.text("Requests that no route took: ");
        exact(note, "unmatched", view.state.requests.unmatched);
    });
}

fn one(rows: &mut Svg, route: &Route, past: &RoutePast, last: u64) {
    let now = areas(past).map(|(_, points)| lately(points, NOW));
    let [allowed, delayed, limited, shed] = areas(past).map(|(_, points)| sum(points));
    let all = allowed + delayed + limited + shed;
    row(rows, &route.name, |row| {
        name(row, |cell| cell.labelled("span", &[("class", &"name")], &route.name));
        cell(row, "Trend", |cell| {
            chart::stacked(
                cell,
                "spark",
                &said("Requests", past),
                &areas(past),
                last,
                chart::width(&past.allowed, 120),
            );
        });
        cell(row, "Requests/s", |cell| cell.text(&rate(now.iter().sum())));
        cell(row, "Limited", |cell| cell.text(&percent(limited / all)));
        cell(row, "Shed", |cell| cell.text(&percent(shed / all)));
        cell(row, "Ended in all", |cell| exact(cell, "ended", route.ended));
        cell(row, "Limited in all", |cell| exact(cell, "limited-total", route.limited));
        cell(row, "Shed in all", |cell| exact(cell, "shed-total", route.shed));
    });
}
