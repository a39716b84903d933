//! Which process this is, and how many requests there are.

use super::super::view::View;
use super::chart::{self, Area, Figure};
use super::markup::{NOW, cell, exact, lately, name, nothing, row, sum, table, text, window};
use crate::human::{duration, grouped, percent, rate, span};
use crate::observe::history::RoutePast;
use crate::observe::state::{Config, FAILS, Route, State};
use crate::picture::svg::Svg;

/// Which process this is, and since when.
pub fn header(html: &mut Svg, view: &View) {
    let State { instance, process, version, uptime_seconds: up, .. } = &view.state;
    let Config { fingerprint, in_force_seconds, .. } = &view.state.config;
    html.element("p", &[], |line| {
        line.labelled("strong", &[], if instance.is_empty() { "this machine" } else { instance });
        line.labelled("span", &[("class", &"wide")], &format!(" {version}, process {process} ·"));
        let duration = format_args!("PT{up}S").to_string();
        line.text(" ");
        line.labelled("time", &[("datetime", &duration)], &format!("up {}", span(*up)));
        line.text(" · policy ");
        let short: String = fingerprint.chars().take(7).collect();
        line.labelled("code", &[("title", fingerprint)], &short);
        line.text(&format!(", {} old", span(*in_force_seconds)));
    });
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
    let now = areas(&view.flow).map(|(_, points)| lately(points, NOW));
    let all: f64 = now.iter().sum();
    html.element("p", &[("class", &"soft")], |line| {
        line.text(&format!("Mean of the last {NOW} s: "));
        line.labelled("b", &[], &format!("{} requests/s", rate(all)));
    });
    html.element("div", &[("class", &"figure")], |html| {
        let mut picture = Svg::default();
        let words = said("All routes", &view.flow);
        let figure = Figure { class: "chart tall", id: "c-flow", words: &words };
        let width = chart::width(&view.flow.allowed, 60);
        let top = chart::stacked(&mut picture, figure, &areas(&view.flow), view.last_second(), width);
        html.labelled("span", &[("class", &"top"), ("aria-hidden", &"true")], &format!("{} requests/s", rate(top)));
        html.append(picture);
        chart::time_axis(html, view.flow.allowed.len(), None);
    });
    let words = ["allowed", "delayed, then allowed", "failed (5xx, or no answer)", "limited (429)", "no room (503)"];
    html.element("ul", &[("class", &"legend")], |list| {
        for (((class, points), number), words) in areas(&view.flow).into_iter().zip(now).zip(words) {
            // on a phone only what there was
            let seen = if points.iter().any(|point| *point > 0.0) { "" } else { "wide" };
            list.element("li", &[("class", &seen)], |item| {
                item.element("svg", &[("aria-hidden", &"true")], |svg| chart::fill(svg, class, 1.0));
                item.labelled("b", &[], &format!("{}/s", rate(number)));
                item.text(&format!(" {words}"));
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
    let columns = [
        ("Route", ""),
        ("Picture", "l pic"),
        ("Requests/s", ""),
        ("429", ""),
        ("503", ""),
        ("Failed", ""),
        ("p50", "wide"),
        ("p99", "wide"),
    ];
    table(html, &window("Requests"), &columns, |rows| {
        let none = RoutePast::default();
        for (place, route) in routes.iter().enumerate() {
            let past = view.past.routes.get(&route.name).unwrap_or(&none);
            one(rows, place, route, past, view);
        }
    });
    html.element("p", &[("class", &"soft")], |note| {
        if view.routes_in_all > routes.len() {
            let (shown, all) = (routes.len(), view.routes_in_all);
            note.text(&format!("The {shown} busiest of {all} routes; the others are in the metrics. "));
        }
        if view.state.requests.unmatched > 0 {
            note.text("Requests that no route took, since the start: ");
            exact(note, "unmatched", view.state.requests.unmatched);
        }
    });
}

fn one(rows: &mut Svg, place: usize, route: &Route, past: &RoutePast, view: &View) {
    let now = areas(past).map(|(_, points)| lately(points, NOW));
    let [_, _, failed, limited, shed] = now;
    let all: f64 = now.iter().sum();
    row(rows, &route.name, "", |row| {
        name(row, |cell| {
            cell.labelled("code", &[], &route.name);
            let origin = route.origin.and_then(|origin| view.state.origins.get(origin));
            if let Some(origin) = origin {
                cell.labelled("span", &[("class", &"tag wide long")], &format!("→ {}", origin.name));
            }
        });
        cell(row, "l pic", |cell| {
            let (words, id) = (said("Requests", past), format!("c-r{place}"));
            let figure = Figure { class: "spark", id: &id, words: &words };
            chart::stacked(cell, figure, &areas(past), view.last_second(), chart::width(&past.allowed, 40));
        });
        text(row, "", &rate(all));
        text(row, "", &percent(limited / all));
        text(row, "", &percent(shed / all));
        cell(row, "", |cell| match route.recent.answers.error_share() {
            Some(share) if share >= FAILS => {
                cell.labelled("b", &[("class", &"down")], &format!("✕ {}", percent(share)))
            }
            _ => cell.text(&percent(failed / all)),
        });
        text(row, "wide", &route.recent.p50_seconds.map_or("–".to_owned(), duration));
        text(row, "wide", &route.recent.p99_seconds.map_or("–".to_owned(), duration));
    });
}
