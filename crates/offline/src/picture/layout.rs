//! Where everything of a chart over time goes.

use super::frame::{Frame, Picture, Setting, text};
use super::scale::Scale;
use super::style::STYLE;
use super::svg::{At, Attributes, Path, Svg};
use super::timeline::{Panel, Role, Series, Shape, Timeline};

/// Of the whole drawing.
const WIDTH: f64 = 720.0;
/// Room for the value axis, and to the right end.
const LEFT: f64 = 60.0;
const RIGHT: f64 = WIDTH - 20.0;
/// Room for the title, and for the time axis.
const HEAD: f64 = 30.0;
const FOOT: f64 = 42.0;
/// Of one panel: its plot, the lines of its heading and legend, the gap below.
const PLOT: f64 = 130.0;
const ROW: f64 = 18.0;
const GAP: f64 = 18.0;
/// What a character of a label takes, about; letters differ, so it is on the wide side.
const CHARACTER: f64 = 6.6;
/// A legend's swatch with its distance to the text, and the distance to the next.
const SWATCH: f64 = 20.0;
const BETWEEN: f64 = 16.0;

impl Picture for Timeline {
    /// An empty or reversed time axis, no panels, no points: drawn as far as there is something to draw, never a panic.
    fn draw(&self, setting: Setting) -> String {
        let blocks: Vec<Block<'_>> = self.panels.iter().map(Block::new).collect();
        let height = HEAD + blocks.iter().map(Block::height).sum::<f64>() + FOOT;
        let (title, description) = (&self.title, &self.description);
        Frame { width: WIDTH, height, left: LEFT, title, description }.document(setting, STYLE, |svg| {
            let time = Scale::new(self.time.from, self.time.until, LEFT, RIGHT);
            let mut top = HEAD;
            for block in &blocks {
                block.draw(svg, top, &time);
                top += block.height();
            }
            let bottom = top - GAP;
            let round = if self.time.ticks.is_empty() { time.ticks(8) } else { Vec::new() };
            for (value, label) in self.time.ticks.iter().chain(&round) {
                text(svg, "", "middle", time.place(*value), bottom + 16.0, label);
            }
            text(svg, "", "middle", (LEFT + RIGHT) / 2.0, bottom + 34.0, &self.time.label);
        })
    }
}

/// A panel and its legend's rows.
struct Block<'a> {
    panel: &'a Panel,
    legend: Vec<Vec<Entry<'a>>>,
}

/// One name in a legend.
struct Entry<'a> {
    label: &'a str,
    mark: Mark,
}

#[derive(Clone, Copy)]
enum Mark {
    Area(Role),
    Step(Role),
    Line(usize),
}

impl Entry<'_> {
    fn width(&self) -> f64 {
        SWATCH + self.label.chars().count() as f64 * CHARACTER + BETWEEN
    }
}

impl<'a> Block<'a> {
    fn new(panel: &'a Panel) -> Block<'a> {
        let series = panel.series.iter().map(|series| {
            let mark = match series.shape {
                Shape::Stacked => Mark::Area(series.role),
                Shape::Step => Mark::Step(series.role),
            };
            Entry { label: &series.label, mark }
        });
        let lines =
            panel.lines.iter().enumerate().map(|(index, line)| Entry { label: &line.label, mark: Mark::Line(index) });
        let mut legend: Vec<Vec<Entry<'a>>> = Vec::new();
        let mut left = 0.0;
        for entry in series.chain(lines) {
            match legend.last_mut() {
                Some(row) if entry.width() <= left => {
                    left -= entry.width();
                    row.push(entry);
                }
                _ => {
                    left = RIGHT - LEFT - entry.width();
                    legend.push(vec![entry]);
                }
            }
        }
        Block { panel, legend }
    }

    fn head(&self) -> f64 {
        ROW * (1.0 + self.legend.len() as f64)
    }

    fn height(&self) -> f64 {
        self.head() + PLOT + GAP
    }

    fn draw(&self, svg: &mut Svg, top: f64, time: &Scale) {
        text(svg, "heading", "start", LEFT, top + 13.0, &self.panel.heading);
        for (row, entries) in (1_u32..).zip(&self.legend) {
            let y = top + ROW * f64::from(row) + 13.0;
            let mut x = LEFT;
            for entry in entries {
                swatch(svg, entry.mark, x, y);
                text(svg, "", "start", x + SWATCH, y, entry.label);
                x += entry.width();
            }
        }
        let (ceiling, floor) = (top + self.head() + 4.0, top + self.head() + PLOT);
        let value = Scale::new(0.0, highest(self.panel), floor, ceiling);
        let mut grid = Path::default();
        for (at, label) in value.ticks(4) {
            text(svg, "", "end", LEFT - 6.0, value.place(at) + 4.0, &label);
            grid.start(LEFT, value.place(at));
            grid.across(RIGHT);
        }
        svg.empty("path", &[("class", &"grid"), ("d", &grid)]);
        areas(svg, self.panel, time, &value);
        for series in self.panel.series.iter().filter(|series| series.shape == Shape::Step) {
            let path = steps(&times(&[series], time), |at| series.at(at), time, &value);
            svg.empty("path", &[("class", &series.role.class()), ("d", &path)]);
        }
        for (index, line) in self.panel.lines.iter().enumerate() {
            let mut path = Path::default();
            path.start(LEFT, value.place(line.value));
            path.across(RIGHT);
            svg.empty("path", &[("class", &line_class(index)), ("d", &path)]);
        }
        let mut axis = Path::default();
        axis.start(LEFT, ceiling);
        axis.along(floor);
        axis.across(RIGHT);
        svg.empty("path", &[("class", &"axis"), ("d", &axis)]);
    }
}

fn line_class(index: usize) -> &'static str {
    if index == 0 { "line" } else { "line second" }
}

fn swatch(svg: &mut Svg, mark: Mark, x: f64, baseline: f64) {
    let class = match mark {
        Mark::Area(role) => {
            let (x, y) = (At(x), At(baseline - 10.0));
            let area: Attributes<'_> =
                &[("class", &role.class()), ("x", &x), ("y", &y), ("width", &14), ("height", &11)];
            return svg.empty("rect", area);
        }
        Mark::Step(role) => role.class(),
        Mark::Line(index) => line_class(index),
    };
    let mut path = Path::default();
    path.start(x, baseline - 4.0);
    path.across(x + 15.0);
    svg.empty("path", &[("class", &class), ("d", &path)]);
}

/// The stacked series, each on top of the sum of those before it.
fn areas(svg: &mut Svg, panel: &Panel, time: &Scale, value: &Scale) {
    let stacked: Vec<&Series> = panel.series.iter().filter(|series| series.shape == Shape::Stacked).collect();
    let times = times(&stacked, time);
    // the last first: what lies below covers the rest, so every area may reach down to the floor without seams
    for (index, series) in stacked.iter().enumerate().rev() {
        let sum = |at: f64| stacked.iter().take(index + 1).map(|series| series.at(at)).sum();
        let path = area(&times, |at| (series.at(at) > 0.0).then(|| sum(at)), time, value);
        if !path.is_empty() {
            svg.empty("path", &[("class", &series.role.class()), ("d", &path)]);
        }
    }
}

/// Down to the floor from wherever a step function has a value.
fn area(times: &[f64], of: impl Fn(f64) -> Option<f64>, time: &Scale, value: &Scale) -> Path {
    let floor = value.place(0.0);
    let mut path = Path::default();
    let mut height: Option<String> = None;
    for at in times {
        let x = time.place(*at);
        let Some(now) = of(*at).map(|now| value.place(now)) else {
            if height.take().is_some() {
                path.across(x);
                path.along(floor);
                path.close();
            }
            continue;
        };
        let text = At(now).to_string();
        match &height {
            // equal heights make one step, which keeps the text short
            Some(before) if *before == text => continue,
            Some(_) => path.across(x),
            None => path.start(x, floor),
        }
        path.along(now);
        height = Some(text);
    }
    if height.is_some() {
        path.across(RIGHT);
        path.along(floor);
        path.close();
    }
    path
}

/// The instants at which any of the series may change, with the axis's left end before them.
fn times(series: &[&Series], time: &Scale) -> Vec<f64> {
    let points = series.iter().flat_map(|series| &series.points).map(|(at, _)| *at);
    let mut times: Vec<f64> = points.filter(|at| *at > time.from && *at < time.until).collect();
    times.push(time.from);
    times.sort_by(f64::total_cmp);
    times.dedup();
    times
}

/// A step function from the axis's left end to its right one.
fn steps(times: &[f64], of: impl Fn(f64) -> f64, time: &Scale, value: &Scale) -> Path {
    let mut path = Path::default();
    let mut height = None;
    for at in times {
        let now = At(value.place(of(*at))).to_string();
        match &height {
            None => path.start(LEFT, value.place(of(*at))),
            Some(before) if *before == now => continue,
            Some(_) => {
                path.across(time.place(*at));
                path.along(value.place(of(*at)));
            }
        }
        height = Some(now);
    }
    path.across(RIGHT);
    path
}

/// What the value axis must reach: what the panel says, or the highest sum, step or line; never nothing.
fn highest(panel: &Panel) -> f64 {
    let stacked: Vec<&Series> = panel.series.iter().filter(|series| series.shape == Shape::Stacked).collect();
    let starts = panel.series.iter().flat_map(|series| &series.points).map(|(at, _)| *at);
    let sums = starts.map(|at| stacked.iter().map(|series| series.at(at)).sum::<f64>());
    let steps = panel.series.iter().filter(|series| series.shape == Shape::Step);
    let steps = steps.flat_map(|series| &series.points).map(|(_, value)| *value);
    let lines = panel.lines.iter().map(|line| line.value);
    let most = sums.chain(steps).chain(lines).filter(|value| value.is_finite()).fold(0.0, f64::max);
    let top = panel.top.unwrap_or(most * 1.05);
    if top > 0.0 && top.is_finite() { top } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::super::timeline::{Line, TimeAxis};
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> Timeline {
        let series = |role, shape| Series { label: "a <b>".into(), role, shape, points: points.clone() };
        Timeline {
            title: "T & t".into(),
            description: "d".into(),
            time: TimeAxis { label: "seconds".into(), from: 0.0, until: 10.0, ticks: Vec::new() },
            panels: vec![Panel {
                heading: "h".into(),
                top: None,
                series: vec![
                    series(Role::Admitted, Shape::Stacked),
                    series(Role::Refused, Shape::Stacked),
                    series(Role::Offered, Shape::Step),
                ],
                lines: vec![Line { label: "promise".into(), value: 20.0 }],
            }],
        }
    }

    #[test]
    fn areas_stack_and_end_where_the_axis_ends() {
        let text = chart(vec![(0.0, 0.0), (5.0, 10.0)]).svg();
        // the floor lies at 196 and the axis reaches 21 at 70
        assert!(text.contains("<path class=\"refused\" d=\"M380 196V76H700V196Z\"/>"), "{text}");
        assert!(text.contains("<path class=\"admitted\" d=\"M380 196V136H700V196Z\"/>"), "{text}");
        assert!(text.contains("<path class=\"offered\" d=\"M60 196H380V136H700\"/>"), "{text}");
        assert!(text.contains("<path class=\"line\" d=\"M60 76H700\"/>"), "{text}");
    }

    #[test]
    fn is_said_to_those_who_cannot_see_it() {
        let text = chart(Vec::new()).svg();
        assert!(text.contains("<title>T &amp; t</title>\n<desc>d</desc>"), "{text}");
        assert!(text.contains("role=\"img\"") && text.contains("prefers-color-scheme:dark"), "{text}");
    }

    #[test]
    fn every_role_has_its_style() {
        for role in Role::ALL {
            assert!(STYLE.matches(&format!(".{}{{", role.class())).count() >= 1, "{role:?}");
        }
        // the style stands in the text of an element, where these would be escaped
        assert!(!STYLE.contains(['<', '>', '&', '"']));
    }

    #[test]
    fn whatever_is_drawn_stays_on_the_paper() {
        for points in [
            vec![(f64::NAN, 1.0)],
            vec![(1.0, f64::NAN), (2.0, f64::INFINITY), (3.0, -5.0)],
            vec![(-5.0, 3.0), (50.0, 7.0)],
        ] {
            let mut odd = chart(points);
            assert!(!odd.svg().contains("NaN") && !odd.svg().contains("inf"), "{}", odd.svg());
            odd.time.until = f64::NAN;
            odd.panels.iter_mut().for_each(|panel| panel.top = Some(0.0));
            assert!(odd.svg().ends_with("</svg>\n"));
            odd.panels.clear();
            assert!(odd.svg().ends_with("</svg>\n"));
        }
    }
}
