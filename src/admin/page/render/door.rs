//! Who holds what is scarce, and who waits for it, while somebody waits.

use super::super::view::View;
use super::markup::{name, row, table, text};
use crate::human::grouped;
use crate::observe::state::{Door, Holder};
use crate::picture::svg::Svg;

/// A table for each origin and each `fair_share` at which somebody waits.
pub fn doors(html: &mut Svg, view: &View) {
    for (of, door) in view.state.contended_doors() {
        html.labelled("h3", &[], &format!("Who holds and waits: {of}"));
        html.labelled("p", &[("class", &"soft")], &summary(door));
        if view.unnamed || door.rows().next().is_none() {
            continue;
        }
        let caption = format!(
            "Clients and networks that hold or wait at {of}, now; what they used lately counts half after {:.0} s",
            door.half_life_seconds
        );
        table(
            html,
            &caption,
            &[("Who", ""), ("Class", "l"), ("Holds", ""), ("Waits", ""), ("Used lately", "")],
            |rows| {
                for (what, Holder { name: who, criticality, held, waiting, used }) in door.rows() {
                    row(rows, &format!("{of} {what} {who}"), "", |row| {
                        name(row, |cell| {
                            cell.text(&format!("{what} "));
                            cell.labelled("code", &[], who);
                        });
                        text(row, "l", criticality);
                        text(row, "", &grouped(*held));
                        text(row, "", &grouped(*waiting));
                        text(row, "", &format!("{used:.1}"));
                    });
                }
            },
        );
    }
}

/// The numbers by class, in a sentence.
fn summary(door: &Door) -> String {
    let of = |verb: &str, counts: &std::collections::BTreeMap<_, u64>| {
        let some = counts.iter().filter(|(_, count)| **count > 0);
        let parts: Vec<String> = some.map(|(class, count)| format!("{} {class}", grouped(*count))).collect();
        if parts.is_empty() { String::new() } else { format!("{verb} {}. ", parts.join(", ")) }
    };
    let reserve =
        if door.reserve >= 1.0 { format!("Left to light clients: {:.0}.", door.reserve) } else { String::new() };
    format!("{}{}{reserve}", of("Hold:", &door.held), of("Wait:", &door.waiting)).trim_end().to_owned()
}
