//! Each origin: how much is with it, how long it takes, which of its addresses are in use.

use super::super::view::{MOST_ROWS, View};
use super::chart;
use super::markup::{NOW, classes, exact, lately, nothing, peak};
use crate::human::{NOTHING, duration, grouped, percent, rate};
use crate::observe::history::OriginPast;
use crate::observe::state::{Address, FAILS, Origin};
use crate::picture::svg::Svg;

/// One card each.
pub fn origins(html: &mut Svg, view: &View) {
    let origins = &view.state.origins;
    if origins.is_empty() {
        return nothing(html, "The policy has no origins: all routes answer by themselves.");
    }
    let words = format!("Answers, times and rates: mean of the last {NOW} s. In flight, waiting, addresses: now.");
    html.labelled("p", &[("class", &"note")], &words);
    html.element("div", &[("class", &"cards")], |cards| {
        let none = OriginPast::default();
        for origin in origins.iter().take(MOST_ROWS) {
            let past = view.past.origins.get(&origin.name).unwrap_or(&none);
            card(cards, origin, past, view.last_second());
        }
    });
    let more = origins.len().saturating_sub(MOST_ROWS);
    if more > 0 {
        html.labelled("p", &[("class", &"note")], &format!("{more} more origins are in the metrics."));
    }
}

fn card(cards: &mut Svg, origin: &Origin, past: &OriginPast, last: u64) {
    cards.element("article", &[("class", &"card"), ("data-name", &origin.name)], |card| {
        let failing = origin.recent.answers.error_share().filter(|share| *share >= FAILS);
        card.element("h3", &[("class", &"name")], |heading| {
            heading.text(&origin.name);
            if let Some(share) = failing {
                let words = format!("✕ fails {}", percent(share));
                heading.labelled("span", &[("class", &"badge urgent")], &words);
            }
        });
        let of = origin.limit.map_or(String::new(), |cap| format!(" of {}", grouped(cap)));
        card.element("div", &[("class", &"figure")], |figure| {
            let words = format!(
                "In flight over the time shown: {}{of} now, {:.0} at most, {:.0} waiting at most",
                origin.inflight,
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
                exact(dd, "inflight-now", origin.inflight);
                dd.text(&of);
            });
            pair("waiting", &|dd| exact(dd, "queue-now", origin.queued));
            let now = |points: &[f32]| f64::from(points.last().copied().unwrap_or(0.0));
            for (term, points) in [("p50", &past.p50), ("p95", &past.p95), ("p99", &past.p99)] {
                pair(term, &|dd| {
                    dd.text(&Some(now(points)).filter(|seconds| *seconds > 0.0).map_or(NOTHING.to_owned(), duration))
                });
            }
            let answers = origin.recent.answers;
            pair("answers/s", &|dd| dd.text(&rate(origin.recent.per_second(answers.total()))));
            pair("by class", &|dd| dd.text(&classes(&answers)));
            pair("failed attempts/s", &|dd| dd.text(&rate(lately(&past.errors, NOW))));
            pair("no place/s", &|dd| dd.text(&rate(lately(&past.shed, NOW))));
        });
        card.element("ul", &[("class", &"endpoints"), ("aria-label", &"Addresses")], |list| {
            for Address { address, healthy, .. } in &origin.addresses {
                let (class, mark, words) = match *healthy {
                    p if p >= 1.0 && failing.is_some() => ("partly", "◐", "in use; its origin fails".to_owned()),
                    p if p >= 1.0 => ("up", "●", "in use".to_owned()),
                    p if p <= 0.0 => ("down", "✕", "out".to_owned()),
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
