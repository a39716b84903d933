//! Minutes as a picture: areas on top of each other, and how long answers took.
//!
//! Step functions over bins that begin at round seconds, so that a picture that moves on by a second is the same picture but for its last
//! bin. A series is cut out of a filled rectangle in shares of the box, so that its pattern keeps its shape at every width.

use crate::observe::history::{COLUMNS, Column, ROWS};
use crate::picture::svg::{At, Attributes, Path, Svg};

/// Heights are drawn in so many parts.
const HEIGHT: f64 = 100.0;

/// A series of a chart and the class that gives it its colour.
pub type Area<'a> = (&'static str, &'a [f32]);

/// What a picture is: its class, an `id` that no other picture of the page has, and what it says to whoever does not see it.
#[derive(Debug, Clone, Copy)]
pub struct Figure<'a> {
    /// Its class.
    pub class: &'a str,
    /// Its id.
    pub id: &'a str,
    /// What it says.
    pub words: &'a str,
}

/// Means over bins of `width` seconds that begin at its multiples, the oldest first, of points of which the last is that of
/// the second `last`. The last bin may not be full yet.
pub fn bins(points: &[f32], last: u64, width: usize) -> Vec<f32> {
    let in_last = (last % width as u64) as usize + 1;
    let (whole, rest) = points.split_at_checked(points.len().saturating_sub(in_last)).unwrap_or((&[], points));
    let skipped = whole.len() % width;
    let whole = whole.get(skipped..).unwrap_or_default();
    let mean = |bin: &[f32]| bin.iter().sum::<f32>() / bin.len().max(1) as f32;
    let mut bins: Vec<f32> = whole.chunks(width).map(mean).collect();
    bins.push(mean(rest));
    bins
}

/// How many seconds a bin has to have if there shall be so many bins, or fewer.
pub fn width(points: &[f32], bins: usize) -> usize {
    points.len().div_ceil(bins.max(1)).max(1)
}

/// The pattern of a class; what was turned away or failed has one, so that it is not told by its colour alone.
fn pattern(class: &str) -> Option<&'static str> {
    match class {
        "delayed" => Some("url(#p-delayed)"),
        "limited" => Some("url(#p-limited)"),
        "shed" => Some("url(#p-shed)"),
        "failed" => Some("url(#p-failed)"),
        "would" => Some("url(#p-would)"),
        _ => None,
    }
}

/// A rectangle over the whole box, or over its first part where `part` is below 1, in the colour or pattern of the class.
pub fn fill(svg: &mut Svg, class: &str, part: f64) {
    let width = format!("{}%", At(100.0 * part.clamp(0.0, 1.0)));
    let place: Attributes<'_> = &[("class", &class), ("width", &width), ("height", &"100%")];
    match pattern(class) {
        Some(pattern) => svg.empty("rect", &[place, &[("fill", &pattern)]].concat()),
        None => svg.empty("rect", place),
    }
}

/// Areas on top of each other in their order, as one picture; returns what its top stands for.
pub fn stacked(svg: &mut Svg, figure: Figure<'_>, areas: &[Area<'_>], last: u64, width: usize) -> f64 {
    let binned: Vec<(&str, Vec<f32>)> =
        areas.iter().map(|(class, points)| (*class, bins(points, last, width))).collect();
    let length = binned.iter().map(|(_, bins)| bins.len()).max().unwrap_or(0);
    let total = |index: usize| binned.iter().filter_map(|(_, bins)| bins.get(index)).sum::<f32>();
    let top = round_up((0..length).map(total).fold(0.0, f32::max).into());
    frame(svg, figure, |svg| {
        let mut floor = vec![0.0; length];
        for (class, bins) in &binned {
            let ceiling: Vec<f64> = floor.iter().zip(bins).map(|(below, bin)| below + f64::from(*bin)).collect();
            if bins.iter().any(|bin| *bin > 0.0) {
                let id = format!("{}-{class}", figure.id);
                cut(svg, class, &id, length, &area(&floor, &ceiling, top));
            }
            floor = ceiling;
        }
    });
    top
}

/// A class's colour in the shape of a path that is `length` wide and [`HEIGHT`] high.
fn cut(svg: &mut Svg, class: &str, id: &str, length: usize, path: &Path) {
    let scale = format!("scale({:.5} .01)", 1.0 / length.max(1) as f64);
    svg.element("clipPath", &[("id", &id), ("clipPathUnits", &"objectBoundingBox")], |clip| {
        clip.empty("path", &[("transform", &scale), ("d", path)]);
    });
    let by = format!("url(#{id})");
    let place: Attributes<'_> = &[("class", &class), ("width", &"100%"), ("height", &"100%"), ("clip-path", &by)];
    match pattern(class) {
        Some(pattern) => svg.empty("rect", &[place, &[("fill", &pattern)]].concat()),
        None => svg.empty("rect", place),
    }
}

fn frame(svg: &mut Svg, figure: Figure<'_>, inside: impl FnOnce(&mut Svg)) {
    let Figure { class, words, .. } = figure;
    svg.element("svg", &[("class", &class), ("role", &"img"), ("aria-label", &words)], inside);
}

/// The outline of what lies between two step functions. Runs of equal height are one line.
fn area(floor: &[f64], ceiling: &[f64], top: f64) -> Path {
    let height = |value: f64| HEIGHT - HEIGHT * value / top;
    let mut path = Path::default();
    path.start(0.0, height(floor.first().copied().unwrap_or(0.0)));
    let mut last = None;
    for (index, value) in ceiling.iter().enumerate() {
        let at = At(height(*value)).to_string();
        if last.as_ref() != Some(&at) {
            path.across(index as f64);
            path.along(height(*value));
            last = Some(at);
        }
    }
    path.across(ceiling.len() as f64);
    let mut last = None;
    for (index, value) in floor.iter().enumerate().rev() {
        let at = At(height(*value)).to_string();
        if last.as_ref() != Some(&at) {
            path.across(index as f64 + 1.0);
            path.along(height(*value));
            last = Some(at);
        }
    }
    path.across(0.0);
    path.close();
    path
}

/// Opacities of a heat strip, and the share of a column's answers from which each is used.
const HEATS: [(f64, &str); 4] = [(0.01, "h1"), (0.07, "h2"), (0.2, "h3"), (0.4, "h4")];

/// How long answers took: a row for each range of times, the longest on top; a column for every ten seconds. The stronger a cell, the more
/// of its column's answers it has.
pub fn heat(svg: &mut Svg, figure: Figure<'_>, columns: &[Column]) {
    let rows = ROWS.len() + 1;
    let mut paths = HEATS.map(|_| Path::default());
    let first = COLUMNS.saturating_sub(columns.len());
    let strength = |column: &Column, row: usize| {
        let all: f64 = column.iter().copied().map(f64::from).sum();
        let share = column.get(row).copied().map_or(0.0, f64::from) / all.max(1.0);
        HEATS.iter().rposition(|(from, _)| share >= *from)
    };
    let height = HEIGHT / rows as f64;
    for row in 0..rows {
        let top = (rows - 1 - row) as f64 * height;
        let mut begun = 0;
        // neighbours of the same strength are one
        for (index, column) in columns.iter().enumerate() {
            let own = strength(column, row);
            if columns.get(index + 1).is_some_and(|next| strength(next, row) == own) {
                continue;
            }
            let (left, right) = ((first + begun) as f64, (first + index + 1) as f64);
            begun = index + 1;
            if let Some(path) = own.and_then(|own| paths.get_mut(own)) {
                path.start(left, top);
                path.across(right);
                path.along(top + height);
                path.across(left);
                path.close();
            }
        }
    }
    frame(svg, figure, |svg| {
        for ((_, class), path) in HEATS.iter().zip(&paths).filter(|(_, path)| !path.is_empty()) {
            cut(svg, class, &format!("{}-{class}", figure.id), COLUMNS, path);
        }
    });
}

/// The least of 1, 2, 3, 5 and 8 times a power of ten that is at least this, and 1 at least.
fn round_up(value: f64) -> f64 {
    let mut power = 1.0;
    // a number of requests per second; ends after a few turns
    while power * 10.0 < value && power < 1e12 {
        power *= 10.0;
    }
    [1.0, 2.0, 3.0, 5.0, 8.0, 10.0].map(|digit| digit * power).into_iter().find(|step| *step >= value).unwrap_or(value)
}

/// The words below a chart of so many seconds, which are whole minutes; `middle` in the place of its middle.
pub fn time_axis(html: &mut Svg, seconds: usize, middle: Option<&str>) {
    html.element("div", &[("class", &"axis"), ("aria-hidden", &"true")], |axis| {
        let ago = |ago: usize| match (ago / 60, ago % 60) {
            (minutes, 0) => format!("{minutes} min ago"),
            (0, seconds) => format!("{seconds} s ago"),
            (minutes, _) => format!("{minutes}½ min ago"),
        };
        axis.labelled("span", &[], &ago(seconds));
        axis.labelled("span", &[], &middle.map_or_else(|| ago(seconds / 2), str::to_owned));
        axis.labelled("span", &[], "now");
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURE: Figure<'static> = Figure { class: "chart", id: "i", words: "w" };

    #[test]
    fn bins_begin_at_round_seconds() {
        let points: Vec<f32> = (0..10_u8).map(f32::from).collect();
        // seconds 4 to 13 in bins of 5: 5 to 9 and 10 to 13; second 4 belongs to one that is no longer whole
        assert_eq!(bins(&points, 13, 5), [3.0, 7.5]);
        assert_eq!(bins(&points, 14, 5), [2.0, 7.0]);
        assert_eq!(bins(&[], 14, 5).len(), 1);
    }

    #[test]
    fn areas_lie_on_each_other_and_a_quiet_one_is_not_drawn() {
        let mut svg = Svg::default();
        let areas: [Area<'_>; 3] = [("a", &[1.0, 1.0]), ("shed", &[0.0, 0.0]), ("limited", &[0.0, 1.0])];
        let top = stacked(&mut svg, FIGURE, &areas, 1, 1);
        let text = svg.into_text();
        assert_eq!(top, 2.0);
        assert!(text.contains("<path transform=\"scale(0.50000 .01)\" d=\"M0 100H0V50H2H2V100H0Z\"/>"), "{text}");
        assert!(text.contains("d=\"M0 50H0V50H1V0H2H2V50H0Z\"/>"), "{text}");
        assert!(text.contains("<rect class=\"limited\" width=\"100%\" height=\"100%\" clip-path=\"url(#i-limited)\" fill=\"url(#p-limited)\"/>"), "{text}");
        assert!(!text.contains("class=\"shed\""), "{text}");
    }

    #[test]
    fn a_heat_strip_has_the_longest_times_on_top_and_the_newest_on_the_right() {
        let mut svg = Svg::default();
        heat(&mut svg, FIGURE, &[[0, 0, 0, 0, 0, 0], [98, 0, 0, 0, 0, 2]]);
        let text = svg.into_text();
        assert!(text.contains("d=\"M59 83.3H60V100H59Z\""), "{text}");
        assert!(text.contains("<rect class=\"h4\"") && text.contains("<rect class=\"h1\""), "{text}");
        assert!(text.contains("d=\"M59 0H60V16.7H59Z\""), "{text}");
        assert!(!text.contains("class=\"h2\""), "{text}");
    }

    #[test]
    fn the_top_is_round_and_never_nothing() {
        assert_eq!([0.0, 0.3, 1.0, 1.1, 9.0, 12.0, 830.0].map(round_up), [1.0, 1.0, 1.0, 2.0, 10.0, 20.0, 1_000.0]);
        assert!(round_up(f64::INFINITY).is_infinite());
    }
}
