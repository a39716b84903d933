//! Minutes as a picture: areas on top of each other, or one against its cap.
//!
//! Step functions as in the charts of reports, over bins that begin at round seconds, so that a picture that moves on by a
//! second is the same picture but for its last bin. It is stretched to whatever room there is; words stand beside it.

use crate::picture::svg::{At, Attributes, Path, Svg};

/// Heights are drawn in so many parts.
const HEIGHT: f64 = 100.0;

/// A series of a chart and the class that gives it its colour.
pub type Area<'a> = (&'static str, &'a [f32]);

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

/// Areas on top of each other in their order, as one picture that says `words` to whoever does not see it; returns what its
/// top stands for.
pub fn stacked(svg: &mut Svg, class: &str, words: &str, areas: &[Area<'_>], last: u64, width: usize) -> f64 {
    let binned: Vec<(&str, Vec<f32>)> =
        areas.iter().map(|(class, points)| (*class, bins(points, last, width))).collect();
    let length = binned.iter().map(|(_, bins)| bins.len()).max().unwrap_or(0);
    let total = |index: usize| binned.iter().filter_map(|(_, bins)| bins.get(index)).sum::<f32>();
    let top = round_up((0..length).map(total).fold(0.0, f32::max).into());
    frame(svg, class, words, length, |svg| {
        let mut floor = vec![0.0; length];
        for (class, bins) in &binned {
            let ceiling: Vec<f64> = floor.iter().zip(bins).map(|(below, bin)| below + f64::from(*bin)).collect();
            if bins.iter().any(|bin| *bin > 0.0) {
                let pattern = if *class == "failed" { "url(#dots)" } else { "url(#hatch)" };
                let place: Attributes<'_> =
                    &[("class", class), ("d", &area(&floor, &ceiling, top)), ("fill", &pattern)];
                // what was turned away or failed has a pattern too, so that it is not told by its colour alone
                let hatched = matches!(*class, "limited" | "failed");
                svg.empty("path", if hatched { place } else { place.get(..2).unwrap_or(place) });
            }
            floor = ceiling;
        }
    });
    top
}

/// An area against a cap that may move.
pub fn banded(svg: &mut Svg, words: &str, value: &[f32], cap: &[f32], last: u64, width: usize) -> f64 {
    let (value, cap) = (bins(value, last, width), bins(cap, last, width));
    let top = round_up(value.iter().chain(&cap).copied().fold(0.0, f32::max).into());
    frame(svg, "chart", words, value.len(), |svg| {
        let value: Vec<f64> = value.iter().map(|bin| f64::from(*bin)).collect();
        let band: Vec<f64> = cap.iter().map(|bin| f64::from(*bin)).collect();
        let floor = vec![0.0; value.len()];
        if band.iter().any(|bin| *bin > 0.0) {
            svg.empty("path", &[("class", &"band"), ("d", &area(&floor, &band, top))]);
            let line: Attributes<'_> = &[("class", &"cap"), ("d", &line(&band, top))];
            svg.empty("path", line);
        }
        svg.empty("path", &[("class", &"inflight"), ("d", &area(&floor, &value, top))]);
    });
    top
}

/// The picture's frame: as many parts wide as it has bins.
fn frame(svg: &mut Svg, class: &str, words: &str, length: usize, inside: impl FnOnce(&mut Svg)) {
    let place: Attributes<'_> = &[
        ("class", &class),
        ("viewBox", &format_args!("0 0 {} {HEIGHT}", length.max(1))),
        ("preserveAspectRatio", &"none"),
        ("role", &"img"),
        ("aria-label", &words),
    ];
    svg.element("svg", place, inside);
}

/// The outline of what lies between two step functions. Runs of equal height are one line.
fn area(floor: &[f64], ceiling: &[f64], top: f64) -> Path {
    let height = |value: f64| HEIGHT - HEIGHT * value / top;
    let mut path = Path::default();
    path.start(0.0, height(floor.first().copied().unwrap_or(0.0)));
    steps(&mut path, ceiling.iter().copied().enumerate(), height, ceiling.len());
    let back = floor.iter().copied().enumerate().rev();
    let mut last = None;
    for (index, value) in back {
        let at = At(height(value)).to_string();
        if last.as_ref() != Some(&at) {
            path.across(index as f64 + 1.0);
            path.along(height(value));
            last = Some(at);
        }
    }
    path.across(0.0);
    path.close();
    path
}

fn line(values: &[f64], top: f64) -> Path {
    let height = |value: f64| HEIGHT - HEIGHT * value / top;
    let mut path = Path::default();
    path.start(0.0, height(values.first().copied().unwrap_or(0.0)));
    steps(&mut path, values.iter().copied().enumerate(), height, values.len());
    path
}

fn steps(path: &mut Path, values: impl Iterator<Item = (usize, f64)>, height: impl Fn(f64) -> f64, length: usize) {
    let mut last = None;
    for (index, value) in values {
        let at = At(height(value)).to_string();
        if last.as_ref() != Some(&at) {
            path.across(index as f64);
            path.along(height(value));
            last = Some(at);
        }
    }
    path.across(length as f64);
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

/// The words below a chart of so many seconds, which are whole minutes.
pub fn time_axis(html: &mut Svg, seconds: usize) {
    html.element("div", &[("class", &"axis"), ("aria-hidden", &"true")], |axis| {
        for ago in [seconds, seconds / 2] {
            let words = match (ago / 60, ago % 60) {
                (minutes, 0) => format!("{minutes} min ago"),
                (0, seconds) => format!("{seconds} s ago"),
                (minutes, _) => format!("{minutes}½ min ago"),
            };
            axis.labelled("span", &[], &words);
        }
        axis.labelled("span", &[], "now");
    });
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let top = stacked(&mut svg, "chart", "w", &[("a", &[1.0, 1.0]), ("b", &[0.0, 0.0]), ("c", &[0.0, 1.0])], 1, 1);
        let text = svg.into_text();
        assert_eq!(top, 2.0);
        assert!(text.contains("<path class=\"a\" d=\"M0 100H0V50H2H2V100H0Z\"/>"), "{text}");
        assert!(text.contains("<path class=\"c\" d=\"M0 50H0V50H1V0H2H2V50H0Z\"/>"), "{text}");
        assert!(!text.contains("class=\"b\""), "{text}");
    }

    #[test]
    fn the_top_is_round_and_never_nothing() {
        assert_eq!([0.0, 0.3, 1.0, 1.1, 9.0, 12.0, 830.0].map(round_up), [1.0, 1.0, 1.0, 2.0, 10.0, 20.0, 1_000.0]);
        assert!(round_up(f64::INFINITY).is_infinite());
    }
}
