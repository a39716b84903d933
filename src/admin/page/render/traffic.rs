//! Who speaks, what is the matter, and how many requests there are.

use super::super::view::View;
use super::chart::{self, Area};
use super::markup::{NOW, cell, classes, exact, lately, name, nothing, row, sum, table, text, window};
use crate::human::{duration, grouped, percent, rate, span};
use crate::observe::history::RoutePast;
use crate::observe::state::{Config, Route, State};
use crate::picture::svg::Svg;

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
    let lately = areas(&view.flow).map(|(_, points)| lately(points, NOW));
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
        for ((word, _), number) in areas(&view.flow).into_iter().zip(lately) {
            tile(word, &format!("{word}/s"), rate(number), percent(number / all));
        }
        if let Some(overload) = &view.state.overload {
            let class = if overload.refusing { "shed" } else { "" };
            let note = if overload.refusing { "refusing: " } else { "" };
            tile(class, "pressure", percent(overload.pressure), format!("{note}{}", overload.resource));
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

fn areas(past: &RoutePast) -> [Area<'_>; 5] {
    [
        ("allowed", &past.allowed),
        ("delayed", &past.delayed),
        ("failed", &past.failed),
        ("limited", &past.limited),
        ("shed", &past.shed),
    ]
}

/// What a chart of requests shows, in words.
fn said(what: &str, past: &RoutePast) -> String {
    let counts = areas(past).map(|(word, points)| format!("{} {word}", grouped(sum(points).round() as u64)));
    format!("{what} over the time shown: {}", counts.join(", "))
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
            ("failed", "failed: the origin answered 5xx, or not as a whole"),
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
    let columns = ["Route", "Trend", "Requests/s", "Limited", "Shed", "Failed", "Origin's answers", "p50", "p99"];
    table(html, &window("Requests by route"), &columns, |rows| {
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
        note.text("Requests that no route took, since the process started: ");
        exact(note, "unmatched", view.state.requests.unmatched);
    });
}

fn one(rows: &mut Svg, route: &Route, past: &RoutePast, last: u64) {
    let now = areas(past).map(|(_, points)| lately(points, NOW));
    let [_, _, failed, limited, shed] = now;
    let all: f64 = now.iter().sum();
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
        text(row, "Requests/s", &rate(all));
        text(row, "Limited", &percent(limited / all));
        text(row, "Shed", &percent(shed / all));
        text(row, "Failed", &percent(failed / all));
        text(row, "Origin's answers", &classes(&route.recent.answers));
        text(row, "p50", &route.recent.p50_seconds.map_or("–".to_owned(), duration));
        text(row, "p99", &route.recent.p99_seconds.map_or("–".to_owned(), duration));
    });
}
