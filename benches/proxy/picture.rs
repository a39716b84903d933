//! The chart of latencies.

use std::fmt::Write as _;

use crate::latency::Histogram;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 48.0;
const COLOURS: [&str; 6] = ["#999", "#0b6e4f", "#8fb996", "#c44536", "#3d5a80", "#b08900"];

/// The least and the greatest latency that is shown, in microseconds.
const SHOWN: (f64, f64) = (32.0, 16_384.0);

/// Shares of all requests by latency, a line for each server.
pub fn draw(curves: &[(&str, &Histogram)]) -> String {
    let octaves = |micros: f64| micros.log2() - SHOWN.0.log2();
    let x = |micros: f64| LEFT + octaves(micros) / octaves(SHOWN.1) * (WIDTH - LEFT - RIGHT);
    let share = |histogram: &Histogram, step: u32| {
        *histogram.0.get(&step).unwrap_or(&0) as f64 / histogram.count().max(1) as f64
    };
    let steps = || (0..128_u32).filter(|step| (SHOWN.0..SHOWN.1).contains(&Histogram::micros(f64::from(*step))));
    let highest = curves.iter().flat_map(|(_, histogram)| steps().map(|step| share(histogram, step)));
    let highest = highest.fold(0.05_f64, f64::max);
    let y = |share: f64| HEIGHT - BOTTOM - share / highest * (HEIGHT - TOP - BOTTOM);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\" fill=\"#222\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">Requests by latency at 10,000 a second, in steps of an eighth of an octave</text>\n"
    );
    for part in 0..=4 {
        let level = highest * f64::from(part) / 4.0;
        let at = y(level);
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{:.0} %</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            at + 4.0,
            100.0 * level
        );
    }
    for (micros, text) in
        [(50.0, "50 µs"), (100.0, "100 µs"), (200.0, "200 µs"), (500.0, "500 µs"), (1_000.0, "1 ms"), (5_000.0, "5 ms")]
    {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
            x(micros),
            HEIGHT - BOTTOM + 20.0
        );
    }
    for (at, ((name, histogram), colour)) in curves.iter().zip(COLOURS).enumerate() {
        let points: Vec<String> = steps()
            .map(|step| format!("{:.1},{:.1}", x(Histogram::micros(f64::from(step))), y(share(histogram, step))))
            .collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\" text-anchor=\"end\">{name}</text>",
            points.join(" "),
            WIDTH - RIGHT,
            TOP + 16.0 * at as f64 + 12.0
        );
    }
    out.push_str("</svg>\n");
    out
}
