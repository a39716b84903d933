//! The policies that were loaded, or refused, since the start.

use super::super::view::View;
use super::markup::{cell, name, nothing, row, table, ticked};
use crate::human::span;
use crate::observe::state::Load;
use crate::picture::svg::Svg;

/// A row each, the newest first.
pub fn policy(html: &mut Svg, view: &View) {
    if view.state.loads.is_empty() {
        return nothing(html, "No policy was loaded.");
    }
    let columns = [("When", ""), ("Policy", "l"), ("State", "l"), ("What changed", "l wide")];
    table(html, "Loads since the process started", &columns, |rows| {
        for (place, Load { at, fingerprint, state, text: words }) in view.state.loads.iter().enumerate() {
            row(rows, &format!("{at} {place}"), "", |row| {
                name(row, |cell| cell.text(&format!("{} ago", span(view.now.saturating_sub(*at)))));
                let short: String = fingerprint.chars().take(7).collect();
                cell(row, "l", |cell| cell.labelled("code", &[("title", fingerprint)], &short));
                cell(row, "l", |cell| match state.as_ref() {
                    "refused" => {
                        cell.labelled("b", &[("class", &"down")], "refused");
                        cell.element("span", &[("class", &"narrow")], |cell| ticked(cell, words));
                    }
                    "in_force" => cell.text("in force"),
                    other => cell.text(other),
                });
                cell(row, "l wide", |cell| ticked(cell, words));
            });
        }
    });
    for waiting in &view.state.waiting_for_upgrade {
        html.element("p", &[], |line| ticked(line, &format!("Waits for `tidegate upgrade`: {waiting}.")));
    }
}
