//! A heat map: a row per client, time from left to right, darker where it sent more, underlined in red where it was limited.

use super::frame::{Frame, Picture, Setting, full_sheet, text};
use super::scale::Scale;
use super::svg::{At, Svg};
use super::timeline::TimeAxis;

/// The chart. [`Heat::svg`] draws it.
#[derive(Debug, Clone, PartialEq)]
pub struct Heat {
    /// What it shows, in a line.
    pub title: String,
    /// The story in words, for readers that see no picture; not drawn.
    pub description: String,
    /// What a cell counts, such as `requests per 5 minutes`.
    pub heading: String,
    /// The time axis; cells of a row divide it evenly.
    pub time: TimeAxis,
    /// From top to bottom.
    pub rows: Vec<HeatRow>,
}

/// One client.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatRow {
    /// Its name, short: it stands at the left.
    pub label: String,
    /// What is said of it at the right, such as its total.
    pub total: String,
    /// All that is told when one points at the row.
    pub story: String,
    /// Per cell: how many, and of these limited.
    pub cells: Vec<(u64, u64)>,
}

const WIDTH: f64 = 720.0;
const LEFT: f64 = 130.0;
const RIGHT: f64 = WIDTH - 80.0;
const CEILING: f64 = 72.0;
const ROW: f64 = 15.0;
/// Of darkness; each level stands for three times the count of the one before.
const LEVELS: u32 = 6;

impl Picture for Heat {
    fn draw(&self, setting: Setting) -> String {
        let height = CEILING + ROW * self.rows.len() as f64 + 44.0;
        let (title, description) = (&self.title, &self.description);
        let frame = Frame { width: WIDTH, height, left: 20.0, title, description };
        frame.document(setting, &full_sheet(), |svg| self.inside(svg))
    }
}

impl Heat {
    fn inside(&self, svg: &mut Svg) {
        let most = self.rows.iter().flat_map(|row| &row.cells).map(|(count, _)| *count).max().unwrap_or_default();
        text(svg, "heading", "start", 20.0, 43.0, &self.heading);
        self.legend(svg, most);
        for (index, row) in self.rows.iter().enumerate() {
            let y = CEILING + ROW * index as f64;
            svg.element("g", &[], |svg| {
                svg.labelled("title", &[], &row.story);
                text(svg, "", "end", LEFT - 8.0, y + 11.5, &row.label);
                text(svg, "", "start", RIGHT + 8.0, y + 11.5, &row.total);
                block(svg, "lane", None, (LEFT, y), (RIGHT - LEFT, ROW - 2.0));
                self.cells(svg, row, y);
            });
        }
        let floor = CEILING + ROW * self.rows.len() as f64;
        let time = Scale::new(self.time.from, self.time.until, LEFT, RIGHT);
        for (value, label) in time.ticks(6) {
            text(svg, "", "middle", time.place(value), floor + 16.0, &label);
        }
        text(svg, "", "middle", (LEFT + RIGHT) / 2.0, floor + 34.0, &self.time.label);
    }

    /// Runs of equal cells are one block.
    fn cells(&self, svg: &mut Svg, row: &HeatRow, y: f64) {
        let width = (RIGHT - LEFT) / row.cells.len().max(1) as f64;
        let mut start = 0;
        while let Some(first) = row.cells.get(start) {
            let look = |(count, limited): &(u64, u64)| (level(*count), *limited > 0);
            let length = row.cells.iter().skip(start).take_while(|cell| look(cell) == look(first)).count();
            let (level, limited) = look(first);
            let (x, wide) = (LEFT + width * start as f64, width * length as f64);
            if level > 0 {
                block(svg, "heat", Some(level), (x, y), (wide, if limited { ROW - 6.0 } else { ROW - 2.0 }));
            }
            if limited {
                block(svg, "touch", None, (x, y + ROW - 6.0), (wide, 4.0));
            }
            start += length.max(1);
        }
    }

    fn legend(&self, svg: &mut Svg, most: u64) {
        let mut x = 20.0;
        for step in (1..=LEVELS).filter(|step| *step == 1 || least(*step) <= most) {
            block(svg, "heat", Some(step), (x, 52.0), (14.0, 11.0));
            let upper = least(step + 1) - 1;
            let label = match (least(step), upper) {
                (lower, _) if step == LEVELS => format!("{lower} and more"),
                (lower, upper) if lower == upper => lower.to_string(),
                (lower, upper) => format!("{lower}–{upper}"),
            };
            text(svg, "", "start", x + 19.0, 62.0, &label);
            x += 32.0 + 6.6 * label.chars().count() as f64;
        }
        block(svg, "touch", None, (x, 59.0), (14.0, 4.0));
        text(svg, "", "start", x + 19.0, 62.0, "some limited");
    }
}

/// The least count of a level: 1, 3, 9 …
fn least(level: u32) -> u64 {
    3_u64.saturating_pow(level.saturating_sub(1))
}

fn level(count: u64) -> u32 {
    (1..=LEVELS).rev().find(|level| count >= least(*level)).unwrap_or(0)
}

fn block(svg: &mut Svg, class: &str, level: Option<u32>, (x, y): (f64, f64), (width, height): (f64, f64)) {
    let (x, y, width, height) = (At(x), At(y), At(width), At(height));
    let tenths = level.map(|level| At(0.1 + 0.15 * f64::from(level)));
    let mut place: Vec<(&str, &dyn std::fmt::Display)> =
        vec![("class", &class), ("x", &x), ("y", &y), ("width", &width), ("height", &height)];
    if let Some(opacity) = &tenths {
        place.push(("fill-opacity", opacity));
    }
    svg.empty("rect", &place);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_cells_are_one_block_and_limited_ones_are_underlined() {
        let row = HeatRow {
            label: "c1".into(),
            total: "9".into(),
            story: "a<b".into(),
            cells: vec![(3, 0), (3, 0), (0, 0), (3, 1)],
        };
        let (title, description, heading) = Default::default();
        let time = TimeAxis { label: "h".into(), from: 0.0, until: 4.0 };
        let text = Heat { title, description, heading, time, rows: vec![row] }.svg();
        assert!(
            text.contains("<rect class=\"heat\" x=\"130\" y=\"72\" width=\"255\" height=\"13\" fill-opacity=\"0.4\"/>"),
            "{text}"
        );
        assert!(text.contains("<rect class=\"touch\" x=\"512.5\" y=\"81\" width=\"127.5\" height=\"4\"/>"), "{text}");
        assert!(text.contains("<title>a&lt;b</title>"));
    }

    #[test]
    fn each_level_is_three_times_the_one_before() {
        assert_eq!([0, 1, 2, 3, 8, 9, 242, 243, u64::MAX].map(level), [0, 1, 1, 2, 2, 3, 5, 6, 6]);
    }
}
