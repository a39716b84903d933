//! The first strip: one sentence, then is it well, who is it, what now.

use super::super::view::View;
use super::markup::{NEEDS_A_TOKEN, NOW, act, bar, lately, nothing, ticked};
use crate::human::{estimated, grouped, percent, rate, span};
use crate::observe::condition::{Next, OVERLOADED, next};
use crate::observe::state::{Answers, Condition, ConditionKind, Offender, Origin, Sign};
use crate::picture::svg::Svg;

/// The shapes of the signs; each also has a colour and a word.
fn shape(sign: Sign) -> (&'static str, &'static str, &'static str) {
    match sign {
        Sign::Good => (
            "good",
            "well",
            "M12 2a10 10 0 1 0 0 20 10 10 0 0 0 0-20zm-1.4 14.6L6.5 12.4l1.6-1.6 2.5 2.5 5.3-5.4 1.6 1.6z",
        ),
        Sign::Watch => ("watch", "to be watched", "M12 2 1 21h22zm-1 7h2v6h-2zm0 7.5h2v2h-2z"),
        Sign::Bad => ("bad", "bad", "M8 2 2 8v8l6 6h8l6-6V8l-6-6zm3 5h2v7h-2zm0 8.5h2v2h-2z"),
        Sign::None => (
            "none",
            "nothing to say",
            "M12 2a10 10 0 1 0 0 20 10 10 0 0 0 0-20zm0 2.2a7.8 7.8 0 1 1 0 15.6 7.8 7.8 0 0 1 0-15.6z",
        ),
    }
}

/// All of it.
pub fn strip(html: &mut Svg, view: &View) {
    let Condition { kind, head, text, since, also, .. } = &view.state.condition;
    let (class, word, path) = shape(kind.sign());
    html.element("div", &[("class", &format_args!("strip {class}"))], |strip| {
        strip.element("div", &[("class", &"head"), ("role", &"status")], |line| {
            let label = format!("State: {word}");
            line.element(
                "svg",
                &[("class", &"sign"), ("viewBox", &"0 0 24 24"), ("role", &"img"), ("aria-label", &label)],
                |svg| svg.empty("path", &[("d", &path), ("fill-rule", &"evenodd")]),
            );
            line.element("div", &[], |words| {
                words.element("strong", &[], |strong| ticked(strong, head));
                ticked(words, text);
                if !matches!(kind, ConditionKind::Well | ConditionKind::NoRequest) {
                    words.labelled(
                        "span",
                        &[("class", &"soft")],
                        &format!(" For {}.", span(view.now.saturating_sub(*since))),
                    );
                }
                for head in also {
                    words.element("p", &[], |line| ticked(line, &format!("Also: {head}.")));
                }
            });
        });
        strip.element("div", &[("class", &"three")], |three| {
            three.element("section", &[("aria-labelledby", &"q-well")], |part| {
                part.labelled("h2", &[("id", &"q-well")], "Is it well?");
                well(part, view);
            });
            three.element("section", &[("aria-labelledby", &"q-who")], |part| {
                part.labelled("h2", &[("id", &"q-who")], "Who is it?");
                who(part, view);
            });
            three.element("section", &[("aria-labelledby", &"q-now")], |part| {
                part.labelled("h2", &[("id", &"q-now")], "What now?");
                now(part, view);
            });
        });
    });
}

/// What the operator should know beside it.
pub fn notices(html: &mut Svg, view: &View) {
    for notice in &view.state.notices {
        let class = if notice.urgent { "notice urgent" } else { "notice" };
        html.element("div", &[("class", &class)], |html| {
            html.element("p", &[], |line| ticked(line, &format!("{}. ", notice.text)));
            html.element("p", &[("class", &"soft")], |line| ticked(line, &notice.hint));
            if !notice.details.is_empty() {
                html.labelled("pre", &[("tabindex", &0)], &notice.details);
            }
        });
    }
}

/// A bar with its name and its number.
fn meter(html: &mut Svg, name: &str, class: &str, part: f64, number: &str) {
    html.element("div", &[("class", &"meter")], |meter| {
        meter.element("span", &[], |words| ticked(words, name));
        bar(meter, class, part);
        meter.labelled("b", &[], number);
    });
}

fn well(html: &mut Svg, view: &View) {
    if let Some(overload) = &view.state.overload {
        let class = if overload.pressure >= OVERLOADED { "hot" } else { "allowed" };
        let word = match overload.pressure {
            p if p >= OVERLOADED => "high",
            p if p >= 0.5 => "raised",
            _ => "low",
        };
        meter(html, "Pressure", class, overload.pressure, &format!("{word}, {:.2}", overload.pressure));
        let parts: Vec<String> =
            overload.resources.iter().map(|(word, part)| format!("{word} {}", percent(*part))).collect();
        html.labelled("p", &[("class", &"soft")], &parts.join(", "));
    }
    let use_of = |origin: &Origin| origin.limit.map_or(0.0, |limit| origin.inflight as f64 / limit.max(1) as f64);
    let busiest = view.state.origins.iter().max_by(|one, other| use_of(one).total_cmp(&use_of(other)));
    if let Some((origin, limit)) = busiest.and_then(|origin| Some((origin, origin.limit?))) {
        let class = if origin.inflight >= limit { "hot" } else { "allowed" };
        let number = format!("{} of {}", grouped(origin.inflight), grouped(limit));
        meter(html, &format!("Origin `{}`", origin.name), class, use_of(origin), &number);
    }
    let flow = &view.flow;
    let [allowed, delayed, failed, limited, shed] =
        [&flow.allowed, &flow.delayed, &flow.failed, &flow.limited, &flow.shed].map(|points| lately(points, NOW));
    let all = allowed + delayed + failed + limited + shed;
    let share = |part: f64| if all > 0.0 { part / all } else { 0.0 };
    meter(html, "Refused", "limited", share(limited + shed), &percent(share(limited + shed)));
    meter(html, "Failed", "failed", share(failed), &percent(share(failed)));
    // of all routes, by who gave the answer
    let answers = view.state.routes.iter().fold(Answers::default(), |mut sum, route| {
        sum += route.recent.answers;
        sum
    });
    let seconds = view.state.routes.iter().map(|route| route.recent.seconds).max().unwrap_or(0).max(1) as f64;
    let of = |count: u64| count as f64 / seconds;
    let forwarded = of(answers.total());
    let tiles = [
        ("ok", "2xx, 3xx of origins", of(answers.informational + answers.success + answers.redirection)),
        ("ok", "4xx of origins", of(answers.client_error)),
        ("failed", "5xx of origins", of(answers.server_error)),
        ("limited", "429 by limits", limited),
        ("shed", "503: no room", shed),
        ("failed", "502, 504: no answer", of(answers.unanswered())),
        ("ok", "the gate's own answers", (allowed + delayed + failed - forwarded).max(0.0)),
    ];
    html.labelled("p", &[("class", &"soft")], &format!("Answers a second, mean of {NOW} s:"));
    html.element("dl", &[("class", &"answers")], |list| {
        for (class, term, number) in tiles {
            let own = term.starts_with("the gate");
            if own && number < 0.05 * all {
                continue;
            }
            list.element("div", &[("class", if number > 0.0 { &class } else { &"" })], |tile| {
                tile.labelled("dt", &[], term);
                tile.labelled("dd", &[], &rate(number));
            });
        }
    });
}

fn who(html: &mut Svg, view: &View) {
    if view.unnamed {
        return nothing(html, NEEDS_A_TOKEN);
    }
    let offenders = &view.offenders;
    let Some(worst) = offenders.clients.first() else {
        return nothing(html, "No client was refused in the last minutes.");
    };
    if view.state.condition.kind != ConditionKind::Flood {
        let origin = match view.state.condition.kind {
            ConditionKind::OriginFails => "No client causes this: the fault is at the origin. ",
            _ => "No client stands out. ",
        };
        let words = format!("{origin}The most refused one has {} of the recent refusals.", percent(worst.share));
        return nothing(html, &words);
    }
    let Offender { client, network, limit, share, last_seen_seconds_ago: ago, passed_share, .. } = worst;
    html.element("dl", &[("class", &"facts")], |facts| {
        let mut fact = |term: &str, inside: &dyn Fn(&mut Svg)| {
            facts.labelled("dt", &[], term);
            facts.element("dd", &[], inside);
        };
        fact("client", &|dd| dd.labelled("code", &[], client));
        if !network.is_empty() {
            let known = offenders.networks.iter().find(|known| known.network == *network);
            fact("network", &|dd| {
                dd.labelled("code", &[], network);
                let words = match known {
                    Some(known) => format!(" {} clients, {} of the refusals", known.clients, percent(known.share)),
                    None => " only this client of it".to_owned(),
                };
                dd.labelled("span", &[("class", &"soft")], &words);
            });
        }
        fact("refused by", &|dd| dd.labelled("a", &[("href", &"#s-limits")], limit));
        fact("share", &|dd| dd.text(&format!("{} of the recent refusals", percent(*share))));
        if let Some(passed) = passed_share {
            fact("passed", &|dd| dd.text(&format!("{} of its requests", estimated(*passed))));
        }
        fact("last seen", &|dd| dd.text(&format!("{} ago", span(*ago))));
    });
}

fn now(html: &mut Svg, view: &View) {
    let Next { steps, otherwise } = next(&view.state, &view.offenders);
    html.element("ul", &[("class", &"do")], |list| {
        for step in &steps {
            list.element("li", &[("data-name", &step.command)], |item| {
                item.element("span", &[], |why| ticked(why, &step.why));
                item.labelled("code", &[], &step.command);
                act(item, view, &step.command, ("Copy", "Do it"), "");
            });
        }
    });
    if !otherwise.is_empty() {
        html.element("p", &[], |line| ticked(line, &format!("If you do nothing: {otherwise}.")));
    }
}
