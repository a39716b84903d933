//! What every picture begins with: the document, alone or inline, its words for those who see none, its texts.

use super::style;
use super::svg::{At, Attributes, Path, Svg};

/// Whether a picture is a document of its own, or a part of a page that has the style sheet and the hatching already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Setting {
    /// With all that it needs.
    Alone,
    /// Without what the page has.
    Inline,
}

/// Something that can be drawn.
pub trait Picture {
    /// As it stands in this setting: the same text for the same picture on every machine.
    fn draw(&self, setting: Setting) -> String;

    /// As a document of its own.
    fn svg(&self) -> String {
        self.draw(Setting::Alone)
    }

    /// As a part of a page.
    fn inline(&self) -> Figure {
        Figure { svg: self.draw(Setting::Inline) }
    }
}

/// A picture that was drawn inline.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    svg: String,
}

impl Figure {
    /// What was drawn; only pictures of this module are.
    pub(super) fn svg(&self) -> &str {
        &self.svg
    }
}

/// A picture of this size, with its title drawn at the top.
pub struct Frame<'a> {
    pub width: f64,
    pub height: f64,
    /// Where the title begins.
    pub left: f64,
    pub title: &'a str,
    pub description: &'a str,
}

impl Frame<'_> {
    /// The document around whatever `inside` draws. `sheet` is the style sheet of a picture that stands alone.
    pub fn document(&self, setting: Setting, sheet: &str, inside: impl FnOnce(&mut Svg)) -> String {
        let (width, height) = (At(self.width), At(self.height));
        let root: Attributes<'_> = &[
            ("xmlns", &"http://www.w3.org/2000/svg"),
            ("viewBox", &format_args!("0 0 {width} {height}")),
            ("width", &width),
            ("height", &height),
            ("role", &"img"),
        ];
        let mut svg = Svg::default();
        svg.element("svg", root, |svg| {
            svg.labelled("title", &[], self.title);
            svg.labelled("desc", &[], self.description);
            if setting == Setting::Alone {
                svg.labelled("style", &[], sheet);
                hatch(svg);
            }
            svg.empty("rect", &[("class", &"paper"), ("width", &width), ("height", &height)]);
            text(svg, "title", "start", self.left, 20.0, self.title);
            inside(svg);
        });
        svg.into_text()
    }
}

/// The sheet of pictures that are more than a timeline.
pub fn full_sheet() -> String {
    format!("{}{}", style::STYLE, style::MORE)
}

/// What was refused is hatched, so that it is not told by its colour alone.
pub fn hatch(svg: &mut Svg) {
    let pattern: Attributes<'_> = &[
        ("id", &"refused"),
        ("width", &6),
        ("height", &6),
        ("patternUnits", &"userSpaceOnUse"),
        ("patternTransform", &"rotate(45)"),
    ];
    svg.element("pattern", pattern, |svg| {
        svg.empty("rect", &[("class", &"under"), ("width", &6), ("height", &6)]);
        svg.empty("path", &[("class", &"hatch"), ("d", &"M0 0V6")]);
    });
}

/// Words at a place; no class if it is empty.
pub fn text(svg: &mut Svg, class: &str, anchor: &str, x: f64, y: f64, words: &str) {
    let place: Attributes<'_> = &[("class", &class), ("text-anchor", &anchor), ("x", &At(x)), ("y", &At(y))];
    // no class, no attribute
    svg.labelled("text", if class.is_empty() { place.get(1..).unwrap_or(place) } else { place }, words);
}

/// A grid line across, with its label at the left.
pub fn rung(svg: &mut Svg, y: f64, left: f64, right: f64, label: &str) {
    text(svg, "", "end", left - 6.0, y + 4.0, label);
    let mut path = Path::default();
    path.start(left, y);
    path.across(right);
    svg.empty("path", &[("class", &"grid"), ("d", &path)]);
}

/// The axes at the left and at the bottom.
pub fn axes(svg: &mut Svg, left: f64, right: f64, ceiling: f64, floor: f64) {
    let mut axis = Path::default();
    axis.start(left, ceiling);
    axis.along(floor);
    axis.across(right);
    svg.empty("path", &[("class", &"axis"), ("d", &axis)]);
}
