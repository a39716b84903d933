//! What was decided lately, each with its whole explanation.

use super::super::view::{DecisionView, View};
use super::markup::{NEEDS_A_TOKEN, nothing};
use crate::picture::svg::Svg;

/// A line each, which opens.
pub fn decisions(html: &mut Svg, view: &View) {
    if view.unnamed {
        return nothing(html, NEEDS_A_TOKEN);
    }
    if view.decisions.is_empty() {
        return nothing(html, "Nothing was refused yet, and no admitted request was sampled.");
    }
    for DecisionView { id, summary, explanation } in &view.decisions {
        html.element("details", &[("data-name", id)], |html| {
            html.labelled("summary", &[], summary);
            html.element("p", &[("class", &"note")], |note| {
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
