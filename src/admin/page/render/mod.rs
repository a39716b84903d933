//! Writes the page: from a [`View`] to HTML, without I/O.
//!
//! The page is a list of sections. At first it holds all of them; later only sections that changed are sent, and the script
//! replaces them.

mod chart;
mod decisions;
mod door;
mod limits;
mod markup;
mod origins;
mod policy;
mod stores;
mod strip;
mod traffic;
mod who;

use super::view::View;
use crate::picture::svg::Svg;

/// The page around its sections, each standing as `{{NAME}}`.
const TEMPLATE: &str = include_str!("../page.html");

/// Draws a section.
type Draw = fn(&mut Svg, &View);

/// All sections by the `id` of the element that holds them, in the page's order.
const SECTIONS: [(&str, Draw); 11] = [
    ("header", traffic::header),
    ("strip", strip::strip),
    ("notices", strip::notices),
    ("flow", traffic::flow),
    ("who", who::who),
    ("limits", limits::limits),
    ("routes", traffic::routes),
    ("origins", origins::origins),
    ("stores", stores::stores),
    ("decisions", decisions::decisions),
    ("policy", policy::policy),
];

/// The names of the sections and their HTML.
pub fn sections(view: &View) -> impl Iterator<Item = (&'static str, String)> {
    SECTIONS.iter().map(|(name, draw)| {
        let mut html = Svg::default();
        draw(&mut html, view);
        (*name, html.into_text())
    })
}

/// The whole page.
pub fn page(view: &View) -> String {
    let mut page = TEMPLATE.to_owned();
    for (name, html) in sections(view) {
        page = page.replacen(&format!("{{{{{name}}}}}"), &html, 1);
    }
    page
}

#[cfg(test)]
mod tests;
