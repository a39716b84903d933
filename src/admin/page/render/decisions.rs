//! What was refused, or would have been, equal decisions as one line; each opens to the explanation of its newest.

use super::super::view::{DecisionView, View};
use super::markup::{NEEDS_A_TOKEN, nothing, ticked};
use crate::human::grouped;
use crate::picture::svg::Svg;

/// A line each, which opens.
pub fn decisions(html: &mut Svg, view: &View) {
    if view.unnamed {
        return nothing(html, NEEDS_A_TOKEN);
    }
    if view.decisions.is_empty() {
        return nothing(html, "No request was refused in the last 10 min.");
    }
    html.labelled("p", &[("class", &"soft")], "The last 10 min. A line opens to the newest of its decisions.");
    for decision in &view.decisions {
        let DecisionView { count, at_least, outcome, routes, newest, id, explanation } = decision;
        let name = format!("{outcome} {routes}");
        html.element("details", &[("class", &"row"), ("data-name", &name)], |html| {
            html.element("summary", &[], |line| {
                let more = if *at_least { "≥ " } else { "" };
                line.labelled("b", &[], &format!("× {more}{}", grouped(*count)));
                ticked(line, &format!(" {outcome} "));
                line.element("span", &[("class", &"soft")], |soft| {
                    soft.text(routes);
                    soft.labelled("span", &[("class", &"wide")], &format!(" newest {newest}"));
                });
            });
            html.element("p", &[("class", &"soft")], |note| {
                note.text("Decision ");
                note.labelled("code", &[], id);
            });
            html.labelled(
                "pre",
                &[("tabindex", &0), ("aria-label", &format_args!("Explanation of {id}"))],
                explanation,
            );
        });
    }
}
