//! What the sections share: cells of tables, bars, sums of points.

use crate::human::{grouped, percent};
use crate::observe::state::Answers;
use crate::picture::svg::{At, Attributes, Svg};

/// Over how many seconds "now" is a mean.
pub const NOW: usize = 10;

/// The mean of the last points.
pub fn lately(points: &[f32], seconds: usize) -> f64 {
    let last = points.get(points.len().saturating_sub(seconds)..).unwrap_or(points);
    if last.is_empty() { 0.0 } else { sum(last) / last.len() as f64 }
}

/// All points together.
pub fn sum(points: &[f32]) -> f64 {
    points.iter().map(|point| f64::from(*point)).sum()
}

/// The highest point, 0 at least.
pub fn peak(points: impl IntoIterator<Item = f32>) -> f64 {
    points.into_iter().fold(0.0, f32::max).into()
}

/// The caption of a table of means, which says their window.
pub fn window(what: &str) -> String {
    format!("{what}: mean of the last {NOW} s; a trend shows up to 10 min")
}

/// The share of each class of answers, `2xx 93 %, 5xx 7 %`; a dash without answers.
pub fn classes(answers: &Answers) -> String {
    let total = answers.total() as f64;
    let counts = Answers::WORDS.into_iter().zip(answers.counts());
    let shares = counts.filter(|(_, count)| *count > 0).map(|(word, count)| {
        let share = percent(count as f64 / total);
        format!("{word} {share}")
    });
    let shares: Vec<String> = shares.collect();
    if shares.is_empty() { "–".to_owned() } else { shares.join(", ") }
}

/// A table. Its caption says the window of its numbers. Roles are written out because narrow screens show rows
/// as cards, and what is no table in the style sheet is none for a screen reader either.
pub fn table(html: &mut Svg, caption: &str, columns: &[&str], rows: impl FnOnce(&mut Svg)) {
    html.element("table", &[("role", &"table")], |table| {
        table.labelled("caption", &[], caption);
        table.element("thead", &[("role", &"rowgroup")], |head| {
            head.element("tr", &[("role", &"row")], |row| {
                for column in columns {
                    row.labelled("th", &[("role", &"columnheader"), ("scope", &"col")], column);
                }
            });
        });
        table.element("tbody", &[("role", &"rowgroup")], rows);
    });
}

/// A row, found again by its name when the next picture of it comes.
pub fn row(html: &mut Svg, name: &str, inside: impl FnOnce(&mut Svg)) {
    html.element("tr", &[("role", &"row"), ("data-name", &name)], inside);
}

/// The cell that names its row.
pub fn name(html: &mut Svg, inside: impl FnOnce(&mut Svg)) {
    html.element("th", &[("role", &"rowheader"), ("scope", &"row")], inside);
}

/// A cell; its column's name stands beside it on narrow screens.
pub fn cell(html: &mut Svg, column: &str, inside: impl FnOnce(&mut Svg)) {
    html.element("td", &[("role", &"cell"), ("data-label", &column)], inside);
}

/// A cell with a text.
pub fn text(html: &mut Svg, column: &str, words: &str) {
    html.labelled("td", &[("role", &"cell"), ("data-label", &column)], words);
}

/// A cell with an exact count, for programs too.
pub fn count(html: &mut Svg, column: &str, class: &str, number: u64) {
    cell(html, column, |cell| exact(cell, class, number));
}

/// An exact count, for programs too.
pub fn exact(html: &mut Svg, class: &str, number: u64) {
    html.labelled("data", &[("class", &class), ("value", &number)], &grouped(number));
}

/// A bar of this part of its length, 0 to 1. Says nothing by itself: the number stands beside it.
pub fn bar(html: &mut Svg, class: &str, part: f64) {
    let place: Attributes<'_> =
        &[("class", &"bar"), ("viewBox", &"0 0 100 6"), ("preserveAspectRatio", &"none"), ("aria-hidden", &"true")];
    html.element("svg", place, |svg| {
        svg.empty("rect", &[("class", &"track"), ("width", &100), ("height", &6)]);
        svg.empty("rect", &[("class", &class), ("width", &At(100.0 * part.clamp(0.0, 1.0))), ("height", &6)]);
    });
}

/// What stands where clients would.
pub const NEEDS_A_TOKEN: &str = "Clients are not shown at an address without a token. Give `admin` a `token`, write \
                                 `open: true`, or ask on the admin socket.";

/// What is said where there is nothing to show.
pub fn nothing(html: &mut Svg, words: &str) {
    html.labelled("p", &[("class", &"nothing")], words);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_answers_are_shares_of_all() {
        let answers = Answers { success: 93, server_error: 6, cut: 1, ..Answers::default() };
        assert_eq!(classes(&answers), "2xx 93 %, 5xx 6 %, cut 1 %");
        assert_eq!(classes(&Answers::default()), "–");
    }
}
