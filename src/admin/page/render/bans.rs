//! Who is banned, by whom and until when.

use super::super::view::View;
use super::markup::{NEEDS_A_TOKEN, name, nothing, row, table, text};
use crate::human::{count, grouped, span};
use crate::observe::state::BanState;
use crate::picture::svg::Svg;

/// The bans that refused most.
pub fn bans(html: &mut Svg, view: &View) {
    if view.unnamed {
        return nothing(html, NEEDS_A_TOKEN);
    }
    if view.bans.is_empty() {
        return nothing(html, "No client is banned.");
    }
    let columns = ["Banned", "Refused", "Ends in", "By", "Reason"];
    table(html, "Bans in force at this moment, and what each has refused", &columns, |rows| {
        for BanState { number, target, by, why, ends_in_seconds, refused, .. } in &view.bans {
            row(rows, &number.to_string(), |row| {
                name(row, |cell| cell.labelled("code", &[], target));
                text(row, "Refused", &grouped(*refused));
                text(row, "Ends in", &span(*ends_in_seconds));
                text(row, "By", by);
                text(row, "Reason", why);
            });
        }
    });
    let left_out = view.state.bans.saturating_sub(view.bans.len());
    if left_out > 0 {
        html.labelled(
            "p",
            &[("class", &"note")],
            &format!("{} left out: `tidegate bans` has all.", count(left_out as u64, "ban")),
        );
    }
}
