//! A trade-off: how many are touched (by its logarithm, with a place for none) against a number on a logarithmic axis.

use super::frame::{Frame, Picture, Setting, axes, full_sheet, rung, text};
use super::scale::Counts;
use super::svg::{At, Attributes, Path, Svg};

/// The chart. [`Curves::svg`] draws it.
#[derive(Debug, Clone, PartialEq)]
pub struct Curves {
    /// What it shows, in a line.
    pub title: String,
    /// The story in words, for readers that see no picture; not drawn.
    pub description: String,
    /// What the heights are.
    pub heading: String,
    /// What the axis at the bottom is.
    pub label: String,
    /// Where the bottom axis has labels: values above 0 in rising order. The first and the last are its ends.
    pub ticks: Vec<(f64, String)>,
    /// At most six, told apart by colour and dashes.
    pub lines: Vec<Curve>,
    /// Points of interest, with their names.
    pub points: Vec<Point>,
}

/// One line of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Its name in the legend.
    pub label: String,
    /// (value, count), the values above 0 and rising.
    pub points: Vec<(f64, f64)>,
}

/// One point that is named.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Its name beside it.
    pub label: String,
    /// Its value along the bottom, above 0.
    pub value: f64,
    /// Its height.
    pub count: f64,
}

const WIDTH: f64 = 720.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = WIDTH - 20.0;
const CEILING: f64 = 74.0;
const FLOOR: f64 = 324.0;
const HEIGHT: f64 = FLOOR + 46.0;
/// As many kinds of line as the style sheet has.
const KINDS: usize = 6;

impl Picture for Curves {
    fn draw(&self, setting: Setting) -> String {
        let (title, description) = (&self.title, &self.description);
        let frame = Frame { width: WIDTH, height: HEIGHT, left: LEFT, title, description };
        frame.document(setting, &full_sheet(), |svg| self.inside(svg))
    }
}

impl Curves {
    fn inside(&self, svg: &mut Svg) {
        text(svg, "heading", "start", LEFT, 43.0, &self.heading);
        let mut x = LEFT;
        let room = (RIGHT - LEFT) / self.lines.len().clamp(1, KINDS) as f64;
        for (kind, line) in self.lines.iter().take(KINDS).enumerate() {
            let mut swatch = Path::default();
            swatch.start(x, 57.0);
            swatch.across(x + 24.0);
            svg.empty("path", &[("class", &class(kind)), ("d", &swatch)]);
            text(svg, "", "start", x + 30.0, 61.0, &line.label);
            x += room.min(110.0);
        }
        let most = self.lines.iter().flat_map(|line| &line.points).map(|(_, count)| *count);
        let most = most.chain(self.points.iter().map(|point| point.count)).fold(1.0, f64::max);
        let counts = Counts::new(most, FLOOR, CEILING);
        for (count, label) in counts.ticks() {
            rung(svg, counts.place(count), LEFT, RIGHT, &label);
        }
        let ends = (self.ticks.first().map_or(1.0, |tick| tick.0), self.ticks.last().map_or(10.0, |tick| tick.0));
        let across = |value: f64| across(value, ends);
        let mut free = LEFT - 20.0;
        for (value, label) in &self.ticks {
            let x = across(*value);
            let mut tick = Path::default();
            tick.start(x, FLOOR);
            tick.along(FLOOR + 4.0);
            svg.empty("path", &[("class", &"axis"), ("d", &tick)]);
            // labels that would run into each other are left out
            let half = label.chars().count() as f64 * 3.3;
            if x - half >= free {
                text(svg, "", "middle", x, FLOOR + 17.0, label);
                free = x + half + 6.0;
            }
        }
        text(svg, "", "middle", (LEFT + RIGHT) / 2.0, FLOOR + 36.0, &self.label);
        for (kind, line) in self.lines.iter().take(KINDS).enumerate() {
            let mut path = Path::default();
            for (index, (value, count)) in line.points.iter().enumerate() {
                let (x, y) = (across(*value), counts.place(*count));
                if index == 0 { path.start(x, y) } else { path.to(x, y) }
            }
            if !path.is_empty() {
                svg.empty("path", &[("class", &class(kind)), ("d", &path)]);
            }
        }
        axes(svg, LEFT, RIGHT, CEILING, FLOOR);
        for point in &self.points {
            let (x, y) = (across(point.value), counts.place(point.count));
            let place: Attributes<'_> = &[("class", &"point"), ("cx", &At(x)), ("cy", &At(y)), ("r", &5)];
            svg.empty("circle", place);
            // on the side where there is room
            let (anchor, beside) = if x > (LEFT + RIGHT) / 2.0 { ("end", x - 10.0) } else { ("start", x + 10.0) };
            text(svg, "said", anchor, beside, (y - 9.0).max(CEILING + 10.0), &point.label);
        }
    }
}

fn class(kind: usize) -> String {
    format!("curve c{kind}")
}

fn across(value: f64, (from, until): (f64, f64)) -> f64 {
    let part = (value / from).ln() / (until / from).ln();
    LEFT + (RIGHT - LEFT) * if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_lies_on_the_line_that_it_belongs_to() {
        let chart = Curves {
            title: "<t>".into(),
            description: String::new(),
            heading: "clients".into(),
            label: "rate".into(),
            ticks: vec![(0.01, "a".into()), (1.0, "b".into()), (100.0, "c".into())],
            lines: vec![Curve { label: "burst 1".into(), points: vec![(0.01, 100.0), (1.0, 10.0), (100.0, 0.0)] }],
            points: vec![Point { label: "now".into(), value: 1.0, count: 10.0 }],
        };
        let text = chart.svg();
        assert!(text.contains("<path class=\"curve c0\" d=\"M60 74L380 157.3L700 324\"/>"), "{text}");
        assert!(text.contains("<circle class=\"point\" cx=\"380\" cy=\"157.3\" r=\"5\"/>"), "{text}");
        assert!(text.contains("&lt;t&gt;") && text.contains("<style>"));
        assert!(!chart.draw(Setting::Inline).contains("<style>"));
    }

    #[test]
    fn a_chart_of_nothing_is_drawn() {
        let (title, description, heading, label) = Default::default();
        let chart = Curves { title, description, heading, label, ticks: vec![], lines: vec![], points: vec![] };
        assert!(chart.svg().ends_with("</svg>\n"));
    }
}
