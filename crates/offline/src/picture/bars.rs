//! A histogram: a bar per class, its height a count by its logarithm, so that one client stands out beside thousands.

use super::frame::{Frame, Picture, Setting, axes, full_sheet, rung, text};
use super::scale::Counts;
use super::svg::{At, Attributes, Path, Svg};
use super::timeline::Role;

/// The chart. [`Bars::svg`] draws it.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// What it shows, in a line.
    pub title: String,
    /// The story in words, for readers that see no picture; not drawn.
    pub description: String,
    /// What the heights are.
    pub heading: String,
    /// What the bars' names are.
    pub label: String,
    /// From left to right.
    pub bars: Vec<Bar>,
    /// A line before the bar of this position, with its name.
    pub line: Option<(usize, String)>,
}

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Its name below it.
    pub label: String,
    /// Its height, 0 and above.
    pub count: f64,
    /// What it means.
    pub role: Role,
}

const WIDTH: f64 = 720.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = WIDTH - 20.0;
const CEILING: f64 = 66.0;
const FLOOR: f64 = 246.0;
const HEIGHT: f64 = FLOOR + 46.0;

impl Picture for Bars {
    fn draw(&self, setting: Setting) -> String {
        let (title, description) = (&self.title, &self.description);
        let frame = Frame { width: WIDTH, height: HEIGHT, left: LEFT, title, description };
        frame.document(setting, &full_sheet(), |svg| self.inside(svg))
    }
}

impl Bars {
    fn inside(&self, svg: &mut Svg) {
        text(svg, "heading", "start", LEFT, 43.0, &self.heading);
        let counts = Counts::new(self.bars.iter().map(|bar| bar.count).fold(1.0, f64::max), FLOOR, CEILING);
        for (count, label) in counts.ticks() {
            rung(svg, counts.place(count), LEFT, RIGHT, &label);
        }
        let width = (RIGHT - LEFT) / self.bars.len().max(1) as f64;
        let mut free = LEFT - 20.0;
        for (index, bar) in self.bars.iter().enumerate() {
            let x = LEFT + width * index as f64;
            if bar.count > 0.0 {
                let y = counts.place(bar.count);
                let area: Attributes<'_> = &[
                    ("class", &bar.role.class()),
                    ("x", &At(x + 1.0)),
                    ("y", &At(y)),
                    ("width", &At((width - 2.0).max(1.0))),
                    ("height", &At(FLOOR - y)),
                ];
                svg.empty("rect", area);
                let room = width > 6.6 * bar.count.to_string().len() as f64;
                if room {
                    text(svg, "", "middle", x + width / 2.0, y - 4.0, &bar.count.to_string());
                }
            }
            let (middle, half) = (x + width / 2.0, bar.label.chars().count() as f64 * 3.3);
            if middle - half >= free {
                text(svg, "", "middle", middle, FLOOR + 16.0, &bar.label);
                free = middle + half + 6.0;
            }
        }
        text(svg, "", "middle", (LEFT + RIGHT) / 2.0, FLOOR + 35.0, &self.label);
        axes(svg, LEFT, RIGHT, CEILING, FLOOR);
        if let Some((before, label)) = &self.line {
            let x = LEFT + width * *before as f64;
            let mut line = Path::default();
            line.start(x, CEILING - 10.0);
            line.along(FLOOR);
            svg.empty("path", &[("class", &"line"), ("d", &line)]);
            let (anchor, beside) = if x > (LEFT + RIGHT) / 2.0 { ("end", x - 6.0) } else { ("start", x + 6.0) };
            text(svg, "said", anchor, beside, CEILING - 6.0, label);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_stands_between_two_bars() {
        let bar = |label: &str, count, role| Bar { label: label.into(), count, role };
        let bars = vec![bar("1/m", 100.0, Role::Admitted), bar("1/s", 1.0, Role::Refused)];
        let (title, description, heading, label) = Default::default();
        let chart = Bars { title, description, heading, label, bars, line: Some((1, "limit".into())) };
        let text = chart.svg();
        assert!(text.contains("<rect class=\"admitted\" x=\"61\" y=\"66\" width=\"318\" height=\"180\"/>"), "{text}");
        assert!(text.contains("<rect class=\"refused\" x=\"381\" y=\"186\" width=\"318\" height=\"60\"/>"), "{text}");
        assert!(text.contains("<path class=\"line\" d=\"M380 56V246\"/>"), "{text}");
    }
}
