//! Each origin: its places and who waits for one, how long answers take, which of its addresses are in use.

use super::super::view::{MOST_ROWS, View};
use super::chart::{self, Figure};
use super::door::doors;
use super::markup::{NOW, bar, classes, exact, lately, nothing, peak};
use crate::human::{NOTHING, duration, grouped, percent, rate};
use crate::observe::history::{OriginPast, ROWS};
use crate::observe::state::{Address, FAILS, Origin};
use crate::picture::svg::Svg;
use crate::units::Criticality;

/// One card each.
pub fn origins(html: &mut Svg, view: &View) {
    let origins = &view.state.origins;
    if origins.is_empty() {
        return nothing(html, "The policy has no origins: all routes answer by themselves.");
    }
    let words =
        format!("Answers and times: the last {NOW} s. Places, waiting, addresses: now. Pictures: up to 10 min.");
    html.labelled("p", &[("class", &"soft")], &words);
    html.element("div", &[("class", &"cards")], |cards| {
        let none = OriginPast::default();
        for (place, origin) in origins.iter().enumerate().take(MOST_ROWS) {
            let past = view.past.origins.get(&origin.name).unwrap_or(&none);
            card(cards, place, origin, past, view.last_second());
        }
    });
    let more = origins.len().saturating_sub(MOST_ROWS);
    if more > 0 {
        html.labelled("p", &[("class", &"soft")], &format!("{more} more origins are in the metrics."));
    }
    doors(html, view);
}

/// Whether nothing about it asks for a look: a card that is well is small on a phone.
fn is_well(origin: &Origin) -> bool {
    let fails = origin.recent.answers.error_share().is_some_and(|share| share >= FAILS);
    let busy = origin.limit.is_some_and(|limit| 2 * origin.inflight >= limit) || origin.queued > 0;
    !fails && !busy && origin.addresses.iter().all(|address| address.healthy >= 1.0)
}

fn card(cards: &mut Svg, place: usize, origin: &Origin, past: &OriginPast, last: u64) {
    let failing = origin.recent.answers.error_share().filter(|share| *share >= FAILS);
    let class = if is_well(origin) { "card well" } else { "card" };
    cards.element("article", &[("class", &class), ("data-name", &origin.name)], |card| {
        card.element("h3", &[], |heading| {
            heading.labelled("code", &[], &origin.name);
            if let Some(share) = failing {
                heading.labelled("span", &[("class", &"tag bad")], &format!("✕ fails {}", percent(share)));
            }
            heading.labelled("span", &[("class", &"soft")], &format!(" {}", classes(&origin.recent.answers)));
        });
        door(card, place, origin, past, last);
        card.element("p", &[], |line| {
            let now = |points: &[f32]| f64::from(points.last().copied().unwrap_or(0.0));
            for (term, points) in [("p50", &past.p50), ("p95", &past.p95), ("p99", &past.p99)] {
                let time = Some(now(points)).filter(|seconds| *seconds > 0.0).map_or(NOTHING.to_owned(), duration);
                line.text(&format!("{term} "));
                line.labelled("b", &[], &time);
                line.text(" · ");
            }
            line.text(&format!("{} answers/s", rate(origin.recent.per_second(origin.recent.answers.total()))));
        });
        times(card, place, origin, past);
        card.element("ul", &[("class", &"ends calm"), ("aria-label", &"Addresses")], |list| {
            for Address { address, healthy, .. } in &origin.addresses {
                let (class, mark, words) = match *healthy {
                    p if p >= 1.0 && failing.is_some() => ("half", "◐", "in use; its origin fails".to_owned()),
                    p if p >= 1.0 => ("up", "●", "in use".to_owned()),
                    p if p <= 0.0 => ("down", "✕", "out of use".to_owned()),
                    p => ("half", "◐", format!("{:.0} % in use", 100.0 * p)),
                };
                list.element("li", &[], |item| {
                    item.labelled("span", &[("class", &class), ("aria-hidden", &"true")], mark);
                    item.text(" ");
                    item.labelled("code", &[], address);
                    item.text(&format!(" {words}"));
                });
            }
        });
    });
}

/// The places that are held, and who waits for one at the door.
fn door(card: &mut Svg, place: usize, origin: &Origin, past: &OriginPast, last: u64) {
    let held = origin.inflight;
    card.element("div", &[("class", &"meter")], |meter| {
        meter.labelled("span", &[], if origin.limit.is_some() { "Places held" } else { "In flight" });
        let part = origin.limit.map_or(0.0, |limit| held as f64 / limit.max(1) as f64);
        bar(meter, if origin.limit.is_some_and(|limit| held >= limit) { "hot" } else { "allowed" }, part);
        meter.element("b", &[], |number| {
            exact(number, "inflight-now", held);
            if let Some(limit) = origin.limit {
                number.text(&format!(" of {}", grouped(limit)));
            }
        });
    });
    if origin.limit.is_none() {
        return;
    }
    card.element("p", &[("class", &"calm")], |line| {
        line.text("Waiting at the door: ");
        line.element("b", &[], |number| exact(number, "queue-now", origin.queued));
        let classes = Criticality::ALL.into_iter().zip(origin.queued_by_class).filter(|(_, waiting)| *waiting > 0);
        let classes: Vec<String> = classes.map(|(class, waiting)| format!("{} {waiting}", class.word())).collect();
        if !classes.is_empty() {
            line.text(&format!(" ({})", classes.join(", ")));
        }
        line.text(&format!(" · turned away for lack of a place: {}/s", rate(lately(&past.shed, NOW))));
    });
    card.element("div", &[("class", &"figure calm")], |figure| {
        let words = format!(
            "Places held and requests waiting over the time shown: {held} held now, {:.0} at most; {:.0} waiting at most",
            peak(past.inflight.iter().copied()),
            peak(past.queue.iter().copied()),
        );
        let id = format!("c-o{place}");
        let mut picture = Svg::default();
        let shown = Figure { class: "chart", id: &id, words: &words };
        let areas: [chart::Area<'_>; 2] = [("allowed", &past.inflight), ("delayed", &past.queue)];
        let top = chart::stacked(&mut picture, shown, &areas, last, chart::width(&past.inflight, 60));
        let top = format!("{} held, dotted: waiting", grouped(top as u64));
        figure.labelled("span", &[("class", &"top"), ("aria-hidden", &"true")], &top);
        figure.append(picture);
    });
}

/// How long answers took over ten minutes.
fn times(card: &mut Svg, place: usize, origin: &Origin, past: &OriginPast) {
    if past.heat.iter().flatten().all(|count| *count == 0) {
        return;
    }
    card.element("div", &[("class", &"heat calm")], |heat| {
        heat.element("ol", &[("aria-hidden", &"true")], |list| {
            list.labelled("li", &[], &format!("> {}", duration(ROWS.last().copied().unwrap_or_default())));
            for end in ROWS.iter().rev() {
                list.labelled("li", &[], &duration(*end));
            }
        });
        let all: u64 = past.heat.iter().flatten().map(|count| u64::from(*count)).sum();
        let of = |row: usize| {
            past.heat.iter().filter_map(|column| column.get(row)).map(|count| u64::from(*count)).sum::<u64>()
        };
        let parts: Vec<String> = ROWS
            .iter()
            .enumerate()
            .map(|(row, end)| format!("{} within {}", percent(of(row) as f64 / all as f64), duration(*end)))
            .collect();
        let words = format!("Time to answer of {} over ten minutes: {}", origin.name, parts.join(", "));
        let id = format!("c-h{place}");
        chart::heat(heat, Figure { class: "", id: &id, words: &words }, &past.heat);
    });
    card.element("div", &[("class", &"calm")], |axis| {
        chart::time_axis(axis, 600, Some("stronger: more of the answers"));
    });
}
