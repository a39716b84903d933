//! What the sections share: tables, bars, commands to copy, sums of points.

use serde_json::json;

use super::super::view::View;
use super::chart;
use crate::config::parse_duration;
use crate::human::{grouped, percent};
use crate::observe::state::Answers;
use crate::picture::svg::{Attributes, Svg};

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
    format!("{what}: mean of the last {NOW} s; pictures: up to 10 min")
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

/// A column of a table: its name, and where it stands and is shown: `l` to the left, `wide` not on a phone.
pub type Head = (&'static str, &'static str);

/// A table. Its caption says the window of its numbers.
pub fn table(html: &mut Svg, caption: &str, columns: &[Head], rows: impl FnOnce(&mut Svg)) {
    html.element("table", &[], |table| {
        table.labelled("caption", &[], caption);
        table.element("thead", &[], |head| {
            head.element("tr", &[], |row| {
                for (name, class) in columns {
                    row.labelled("th", &[("scope", &"col"), ("class", class)], name);
                }
            });
        });
        table.element("tbody", &[], rows);
    });
}

/// A row, found again by its name when the next picture of it comes.
pub fn row(html: &mut Svg, name: &str, class: &str, inside: impl FnOnce(&mut Svg)) {
    html.element("tr", &[("data-name", &name), ("class", &class)], inside);
}

/// The cell that names its row.
pub fn name(html: &mut Svg, inside: impl FnOnce(&mut Svg)) {
    html.element("th", &[("scope", &"row")], inside);
}

/// A cell.
pub fn cell(html: &mut Svg, class: &str, inside: impl FnOnce(&mut Svg)) {
    html.element("td", &[("class", &class)], inside);
}

/// A cell with a text.
pub fn text(html: &mut Svg, class: &str, words: &str) {
    html.labelled("td", &[("class", &class)], words);
}

/// An exact count, for programs too.
pub fn exact(html: &mut Svg, class: &str, number: u64) {
    html.labelled("data", &[("class", &class), ("value", &number)], &grouped(number));
}

/// A bar of this part of its length, 0 to 1. Says nothing by itself: the number stands beside it.
pub fn bar(html: &mut Svg, class: &str, part: f64) {
    let place: Attributes<'_> = &[("class", &"bar"), ("aria-hidden", &"true")];
    html.element("svg", place, |svg| chart::fill(svg, class, part));
}

/// A name that is too long for a column, by its first characters; the whole is in its title.
pub fn short(html: &mut Svg, name: &str) {
    let first: String = name.chars().take(8).collect();
    let is_whole = name.chars().count() <= 18 && name.contains(['.', ':']);
    let shown = if is_whole || first.len() == name.len() { name.to_owned() } else { format!("{first}…") };
    html.labelled("code", &[("title", &name)], &shown);
}

/// A button that copies a command. It is shown where there are scripts.
pub fn copy(html: &mut Svg, command: &str, word: &str, class: &str) {
    let class = format!("copy {class}");
    let label = format!("{word}: copy {command}");
    html.labelled("button", &[("class", &class.trim_end()), ("data-copy", &command), ("aria-label", &label)], word);
}

/// A button of a row for a verb about what the row is of: the script knows the command and the order, which would be long in each row. It
/// does it where the reader may; otherwise it copies the command.
pub fn deed(html: &mut Svg, view: &View, verb: &str, class: &str) {
    let class = format!("copy {class}");
    let acts: Attributes<'_> = &[("class", &class.trim_end()), ("data-verb", &verb), ("data-acts", &"")];
    let acting = view.orders && verb != "explain";
    let attributes = if acting { acts } else { acts.split_last().map_or(acts, |(_, copies)| copies) };
    html.labelled("button", attributes, if acting && verb == "ban" { "ban for 1 h" } else { verb });
}

/// A button that does what a command says, if it is an order that the page can give and its reader may; otherwise one that copies it.
pub fn act(html: &mut Svg, view: &View, command: &str, words: (&str, &str), class: &str) {
    let (copying, acting) = words;
    let Some((path, body)) = order(command).filter(|_| view.orders) else { return copy(html, command, copying, class) };
    let class = format!("copy {class}");
    let label = format!("{acting}: {command}");
    html.labelled(
        "button",
        &[
            ("type", &"button"),
            ("class", &class.trim_end()),
            ("data-order", &path),
            ("data-body", &body),
            ("data-command", &command),
            ("aria-label", &label),
        ],
        acting,
    );
}

/// Where an order goes that is written as a command of ours, and what is sent there.
fn order(command: &str) -> Option<(&'static str, String)> {
    let words: Vec<&str> = command.split(' ').collect();
    match words[..] {
        ["sudo", "tidegate", "ban", target, "--for", length, "--why", why] => {
            let seconds = parse_duration(length).ok()?.as_secs();
            let body = json!({ "target": target, "for_seconds": seconds, "why": why, "by": "page" });
            Some(("api/v1/ban", body.to_string()))
        }
        _ => None,
    }
}

/// Words with `names` in backticks.
pub fn ticked(html: &mut Svg, words: &str) {
    for (index, part) in words.split('`').enumerate() {
        match index % 2 {
            0 => html.text(part),
            _ => html.labelled("code", &[], part),
        }
    }
}

/// What stands where clients would.
pub const NEEDS_A_TOKEN: &str = "Clients are not shown at an address without a token. Give `admin` a `token`, write \
                                 `open: true`, or ask on the admin socket.";

/// What is said where there is nothing to show.
pub fn nothing(html: &mut Svg, words: &str) {
    html.element("p", &[("class", &"soft")], |html| ticked(html, words));
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

    #[test]
    fn a_pseudonym_is_shortened_and_an_address_is_not() {
        let shown = |name: &str| {
            let mut html = Svg::default();
            short(&mut html, name);
            html.into_text()
        };
        assert_eq!(shown("mB3q_Xc0VZ1jz8zK2hHw4A"), "<code title=\"mB3q_Xc0VZ1jz8zK2hHw4A\">mB3q_Xc0…</code>\n");
        assert_eq!(shown("198.51.100.0/24"), "<code title=\"198.51.100.0/24\">198.51.100.0/24</code>\n");
    }

    #[test]
    fn backticks_make_code_and_nothing_else_is_markup() {
        let mut html = Svg::default();
        ticked(&mut html, "Origin `<b>` fails");
        assert_eq!(html.into_text(), "Origin <code>&lt;b&gt;</code>\n fails");
    }
}
