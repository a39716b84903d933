//! The chart of the goodput curves.

use std::fmt::Write as _;

use crate::Curve;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 180.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 48.0;
const COLOURS: [&str; 5] = ["#0b6e4f", "#8fb996", "#c44536", "#3d5a80", "#b08900"];

/// Goodput over what was offered, both in peaks of the same proxy.
pub fn draw(curves: &[Curve]) -> String {
    let x = |level: f64| LEFT + level / 5.0 * (WIDTH - LEFT - RIGHT);
    let y = |share: f64| TOP + (1.1 - share) / 1.1 * (HEIGHT - TOP - BOTTOM);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\" fill=\"#222\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">Answers within 1 s, by load offered (1 = what the proxy can serve)</text>\n"
    );
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let at = y(share);
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.0} %</text>",
            x(5.0),
            LEFT - 8.0,
            at + 4.0,
            100.0 * share
        );
    }
    for level in 0..=5 {
        let at = x(f64::from(level));
        let _ = writeln!(
            out,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{level}×</text>",
            HEIGHT - BOTTOM + 20.0
        );
    }
    let mut labels: Vec<(f64, usize)> = Vec::new();
    for (curve, colour) in curves.iter().zip(COLOURS) {
        let points: Vec<String> =
            curve.points.iter().map(|(level, share)| format!("{:.1},{:.1}", x(*level), y(*share))).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\"/>",
            points.join(" ")
        );
        labels.push((curve.points.last().map_or(0.0, |(_, share)| y(*share)), labels.len()));
    }
    // names beside the ends of their lines, none over another
    labels.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut last = 0.0_f64;
    for (at, index) in labels {
        last = at.max(last + 16.0);
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"{}\">{}</text>",
            x(5.0) + 8.0,
            last + 4.0,
            COLOURS[index],
            curves[index].name
        );
    }
    out.push_str("</svg>\n");
    out
}
