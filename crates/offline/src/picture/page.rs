//! A page of pictures, tables and words: one file, no script, nothing from elsewhere; in light and dark, and on paper.
//!
//! Whatever came out of a log is text here and stays text: the writer escapes it, and there is no way around the writer
//! but for pictures, which it wrote as well.
//!
//! Source: HTML Living Standard §13.1 (the syntax), §4.2.6 (`style`).

use super::frame::{Figure, full_sheet, hatch};
use super::svg::{Attributes, Svg};

/// A page. [`Page::html`] writes it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Page {
    /// In the window's title and at the top.
    pub title: String,
    /// Below that.
    pub subtitle: String,
    /// From top to bottom.
    pub blocks: Vec<Block>,
}

/// A part of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A heading.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A warning that must not be overlooked.
    Alert(String),
    /// A list of remarks.
    Notes(Vec<String>),
    /// A few figures side by side: what they are, and their values.
    Facts(Vec<(String, String)>),
    /// A table.
    Table(Table),
    /// Text that keeps its lines, such as a policy.
    Code(String),
    /// A picture.
    Figure(Figure),
}

/// A table; its first column is text, the others are numbers unless `left` says otherwise.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// The names of the columns.
    pub head: Vec<String>,
    /// Cells by row.
    pub rows: Vec<Vec<String>>,
    /// Positions of further columns of text.
    pub left: Vec<usize>,
}

const SHEET: &str = "\
:root{color-scheme:light dark}\
body{margin:0 auto;max-width:1180px;padding:16px 20px 48px;background:#fff;color:#1f2328;\
font:14px/1.5 system-ui,sans-serif}\
h1{font-size:22px;margin:8px 0 0}\
h2{font-size:17px;margin:36px 0 8px;padding-top:12px;border-top:1px solid #d0d7de}\
p,ul{max-width:80ch}\
p{margin:6px 0}\
.subtitle{color:#57606a;overflow-wrap:anywhere}\
.alert{border-left:4px solid #c2413b;background:#fbeae8;padding:8px 12px;margin:12px 0}\
ul{padding-left:20px;margin:6px 0}\
li{margin:3px 0}\
dl{display:flex;flex-wrap:wrap;gap:6px 28px;margin:12px 0}\
dl div{min-width:88px}\
dt{color:#57606a;font-size:12px}\
dd{margin:0;font-size:17px;font-weight:600}\
.wide{overflow-x:auto}\
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}\
th,td{padding:4px 8px;border-bottom:1px solid #d0d7de;text-align:right;vertical-align:top;white-space:nowrap}\
th{color:#57606a;font-weight:600}\
thead th{white-space:normal}\
.name{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:11em}\
pre{background:#f6f8fa;padding:10px 12px;overflow-x:auto;font-size:12.5px;line-height:1.45}\
figure{margin:16px 0;overflow-x:auto}\
figure svg{display:block;width:100%;min-width:600px;max-width:960px;height:auto}\
.patterns{position:absolute}\
@media(prefers-color-scheme:dark){\
body{background:#0d1117;color:#e6edf3}\
h2{border-color:#30363d}\
.subtitle,dt,th{color:#9ea7b1}\
.alert{background:#3a1715;border-color:#ff8a80}\
th,td{border-color:#30363d}\
pre{background:#161b22}}\
@media(max-width:640px){\
body{padding:8px 12px 32px}\
th,td{padding:4px 6px}\
.name{min-width:9em}}\
@media print{\
figure svg{min-width:0}\
body{max-width:none;padding:0}\
h2,figure,tr{break-inside:avoid}\
h2{break-after:avoid}}";

/// The hatching of pictures inline, once in a page: an SVG element that takes no room.
const PATTERNS: Attributes<'_> = &[("width", &0), ("height", &0), ("aria-hidden", &"true"), ("class", &"patterns")];

/// Around a table.
const WIDE: Attributes<'_> = &[("class", &"wide"), ("tabindex", &0), ("role", &"group"), ("aria-label", &"table")];

/// The style sheet of a page and of the pictures in it. It holds no character that HTML would read.
fn sheet() -> String {
    format!("{SHEET}{}", full_sheet())
}

impl Page {
    /// The whole document: the same text for the same page on every machine.
    pub fn html(&self) -> String {
        let mut html = Svg::default();
        html.element("html", &[("lang", &"en")], |html| {
            html.element("head", &[], |html| {
                html.void("meta", &[("charset", &"utf-8")]);
                let viewport: Attributes<'_> =
                    &[("name", &"viewport"), ("content", &"width=device-width, initial-scale=1")];
                html.void("meta", viewport);
                // nothing may be fetched, whatever a browser makes of the page
                let policy: Attributes<'_> = &[
                    ("http-equiv", &"Content-Security-Policy"),
                    ("content", &"default-src 'none'; style-src 'unsafe-inline'"),
                ];
                html.void("meta", policy);
                html.labelled("title", &[], &self.title);
                html.labelled("style", &[], &sheet());
            });
            html.element("body", &[], |html| {
                html.element("svg", PATTERNS, hatch);
                html.element("main", &[], |html| {
                    html.labelled("h1", &[], &self.title);
                    html.labelled("p", &[("class", &"subtitle")], &self.subtitle);
                    for block in &self.blocks {
                        block.write(html);
                    }
                });
            });
        });
        format!("<!DOCTYPE html>\n{}", html.into_text())
    }
}

impl Block {
    fn write(&self, html: &mut Svg) {
        match self {
            Block::Heading(text) => html.labelled("h2", &[], text),
            Block::Text(text) => html.labelled("p", &[], text),
            Block::Alert(text) => html.labelled("p", &[("class", &"alert")], text),
            Block::Code(text) => html.labelled("pre", &[], text),
            Block::Notes(notes) => html.element("ul", &[], |html| {
                notes.iter().for_each(|note| html.labelled("li", &[], note));
            }),
            Block::Facts(facts) => html.element("dl", &[], |html| {
                for (name, value) in facts {
                    html.element("div", &[], |html| {
                        html.labelled("dt", &[], name);
                        html.labelled("dd", &[], value);
                    });
                }
            }),
            // both can be wider than a phone: a keyboard scrolls them too
            Block::Table(table) => html.element("div", WIDE, |html| table.write(html)),
            Block::Figure(figure) => html.element("figure", &[("tabindex", &0)], |html| html.trusted(figure.svg())),
        }
    }
}

impl Table {
    fn write(&self, html: &mut Svg) {
        let cell = |html: &mut Svg, name: &str, column: usize, text: &str| {
            let left: Attributes<'_> = &[("class", &"name")];
            let is_left = column == 0 || self.left.contains(&column);
            html.labelled(name, if is_left { left } else { &[] }, text);
        };
        html.element("table", &[], |html| {
            html.element("thead", &[], |html| {
                html.element("tr", &[], |html| {
                    self.head.iter().enumerate().for_each(|(column, text)| cell(html, "th", column, text));
                });
            });
            html.element("tbody", &[], |html| {
                for row in &self.rows {
                    html.element("tr", &[], |html| {
                        row.iter().enumerate().for_each(|(column, text)| cell(html, "td", column, text));
                    });
                }
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stranger_wrote_stays_text_wherever_it_stands() {
        let hostile = "</title></style></pre><script>alert(1)</script><img src=x onerror=\"alert(1)\">'&\0";
        let text = || hostile.to_owned();
        let table = Table { head: vec![text()], rows: vec![vec![text(), text()]], left: vec![1] };
        let blocks = vec![
            Block::Heading(text()),
            Block::Text(text()),
            Block::Alert(text()),
            Block::Notes(vec![text()]),
            Block::Facts(vec![(text(), text())]),
            Block::Table(table),
            Block::Code(text()),
        ];
        let html = Page { title: text(), subtitle: text(), blocks }.html();
        assert!(!html.contains("<script") && !html.contains("<img"), "{html}");
        assert_eq!(html.matches("</style>").count(), 1);
        assert_eq!(html.matches("&lt;script&gt;").count(), 13, "every one of them is there, as text");
    }

    #[test]
    fn the_style_sheet_holds_nothing_that_would_be_escaped() {
        assert!(!sheet().contains(['<', '>', '&', '"']));
    }

    #[test]
    fn nothing_is_fetched_and_nothing_runs() {
        let html = Page::default().html();
        for word in ["<script", "<link", "http://", "https://", "src=", "url(http", "@import", "javascript:"] {
            assert!(!html.contains(word), "{word}");
        }
    }
}
