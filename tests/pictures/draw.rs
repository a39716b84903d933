//! Tallies as charts, and charts as committed files.

use std::fs;

use tidegate::picture::{Line, Panel, Picture, Role, Series, Shape, TimeAxis, Timeline};

use crate::crowd::Tally;
use crate::path;

/// What a page loads of one picture, at most.
const LARGEST: usize = 30 * 1024;

/// Admitted and refused per bin, as so many per `unit` seconds.
pub fn panel(heading: &str, tally: &Tally, unit: f64) -> Panel {
    let points = |counts: &[u32]| {
        let point = |(index, count): (usize, &u32)| (index as f64 * tally.bin, f64::from(*count) * unit / tally.bin);
        counts.iter().enumerate().map(point).collect()
    };
    let area =
        |label: &str, role, counts| Series { label: label.into(), role, shape: Shape::Stacked, points: points(counts) };
    Panel {
        heading: heading.into(),
        top: None,
        series: vec![area("admitted", Role::Admitted, &tally.admitted), area("refused", Role::Refused, &tally.refused)],
        lines: Vec::new(),
    }
}

/// Draws the clients that cause no load.
pub fn bystanders(heading: &str, tally: &Tally, unit: f64) -> Panel {
    let mut panel = panel(heading, tally, unit);
    panel.series[0].role = Role::Bystander;
    panel
}

/// The panel with a line in it.
pub fn with_line(mut panel: Panel, label: &str, value: f64) -> Panel {
    panel.lines.push(Line { label: label.into(), value });
    panel
}

/// A chart over so many seconds.
pub fn seconds(title: &str, story: &str, length: f64, panels: Vec<Panel>) -> Timeline {
    let time = TimeAxis { label: "seconds".into(), from: 0.0, until: length, ticks: Vec::new() };
    Timeline { title: title.into(), description: story.into(), time, panels }
}

/// The same chart with its axis in minutes.
pub fn in_minutes(mut chart: Timeline) -> Timeline {
    chart.time.label = "minutes".into();
    chart.time.from /= 60.0;
    chart.time.until /= 60.0;
    let points = chart.panels.iter_mut().flat_map(|panel| &mut panel.series).flat_map(|series| &mut series.points);
    points.for_each(|(at, _)| *at /= 60.0);
    chart
}

/// Compares a chart with `docs/limits/NAME.svg`, or writes it there.
#[track_caller]
pub fn expect(name: &str, chart: &Timeline) {
    let text = chart.svg();
    assert!(text.len() < LARGEST, "{name} has {} bytes", text.len());
    let file = path("docs/limits").join(format!("{name}.svg"));
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&file, &text).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(committed == text, "{} is not what the engine does now; see the head of this test", file.display());
}
