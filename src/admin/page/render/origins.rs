//! Each origin: how much is with it, how long it takes, which of its addresses are in use.

use super::super::view::{OriginView, View};
use super::chart;
use super::markup::{duration, exact, grouped, lately, nothing, peak, rate};
use super::traffic::NOW;
use crate::picture::svg::Svg;

/// One card each.
pub fn origins(html: &mut Svg, view: &View) {
    if view.origins.is_empty() {
        return nothing(html, "The policy has no origins: all routes answer by themselves.");
    }
    html.element("div", &[("class", &"cards")], |cards| {
        view.origins.iter().for_each(|origin| card(cards, origin, view.last_second));
    });
    let more = view.origins_in_all.saturating_sub(view.origins.len());
    if more > 0 {
        html.labelled("p", &[("class", &"note")], &format!("{more} more origins are in the metrics."));
    }
}

fn card(cards: &mut Svg, origin: &OriginView, last: u64) {
    let (totals, past) = (&origin.totals, &origin.past);
    cards.element("article", &[("class", &"card"), ("data-name", &totals.name)], |card| {
        card.labelled("h3", &[("class", &"name")], &totals.name);
        let of = totals.cap.map_or(String::new(), |cap| format!(" of {}", grouped(cap)));
        card.element("div", &[("class", &"figure")], |figure| {
            let words = format!(
                "In flight over the time shown: {}{of} now, {:.0} at most, {:.0} waiting at most",
                totals.inflight,
                peak(past.inflight.iter().copied()),
                peak(past.queue.iter().copied()),
            );
            let mut picture = Svg::default();
            let top =
                chart::banded(&mut picture, &words, &past.inflight, &past.cap, last, chart::width(&past.cap, 150));
            let top = format!("{} in flight", grouped(top as u64));
            figure.labelled("span", &[("class", &"top"), ("aria-hidden", &"true")], &top);
            figure.append(picture);
            chart::time_axis(figure, past.inflight.len());
        });
        card.element("dl", &[("class", &"numbers")], |list| {
            let mut pair = |term: &str, inside: &dyn Fn(&mut Svg)| {
                list.element("div", &[], |pair| {
                    pair.labelled("dt", &[], term);
                    pair.element("dd", &[], inside);
                });
            };
            pair("in flight", &|dd| {
                exact(dd, "inflight-now", totals.inflight);
                dd.text(&of);
            });
            pair("waiting", &|dd| exact(dd, "queue-now", totals.queue));
            let now = |points: &[f32]| f64::from(points.last().copied().unwrap_or(0.0));
            for (term, points) in [("p50", &past.p50), ("p95", &past.p95), ("p99", &past.p99)] {
                pair(term, &|dd| dd.text(&duration(now(points))));
            }
            pair("errors/s", &|dd| dd.text(&rate(lately(&past.errors, NOW))));
            pair("errors in all", &|dd| exact(dd, "errors-total", totals.errors));
            pair("shed in all", &|dd| exact(dd, "shed-total", totals.shed));
        });
        card.element("ul", &[("class", &"endpoints"), ("aria-label", &"Addresses")], |list| {
            for (address, part) in &origin.endpoints {
                let (class, mark, words) = match part {
                    p if *p >= 1.0 => ("up", "●", "in use".to_owned()),
                    p if *p <= 0.0 => ("down", "✕", "out".to_owned()),
                    p => ("partly", "◐", format!("{:.0} % in use", 100.0 * p)),
                };
                list.element("li", &[], |item| {
                    item.labelled("span", &[("class", &class), ("aria-hidden", &"true")], mark);
                    item.labelled("code", &[], address);
                    item.text(&words);
                });
            }
        });
    });
}
