//! Numbers to pictures and tables.

use super::dates;
use super::ledger::{Ledger, Limit};
use crate::human::{grouped, percent_of, shortened, span};
use crate::picture::{Block, Curve, Curves, Panel, Point, Role, Series, Shape, Table, TimeAxis, Timeline};
use crate::policy::Mode;
use crate::replay::outcome::Then;
use crate::replay::report::instant;

/// Clients in a table.
const TABLE_ROWS: usize = 25;

/// What a report says beside what the requests show.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    /// What was replayed, such as the names of the logs.
    pub source: String,
    /// Which policy judged, such as the name of its file.
    pub policy: String,
    /// Something that must not be overlooked, such as that one client makes most of the log.
    pub alerts: Vec<String>,
    /// Only this limit, by name.
    pub only: Option<String>,
    /// Limits that could not be replayed, by name: nothing is drawn of them.
    pub left_out: Vec<String>,
    /// What was decided when the requests came: of logs of our own.
    pub then: Option<Then>,
    /// What could not be replayed, how exact the stamps are, and so on.
    pub notes: Vec<String>,
}

impl About {
    /// The limits that are drawn.
    pub(super) fn shown<'a>(&'a self, ledger: &'a Ledger) -> impl Iterator<Item = &'a Limit> {
        let asked = |limit: &&Limit| self.only.as_ref().is_none_or(|only| *only == limit.name);
        let known = |limit: &&Limit| limit.judged > 0 && !self.left_out.contains(&limit.name);
        ledger.limits.iter().filter(asked).filter(known)
    }
}

/// The key figures.
pub(super) fn facts(ledger: &Ledger) -> Block {
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let share = percent_of(ledger.limited, ledger.requests);
    Block::Facts(vec![
        fact("requests", grouped(ledger.requests)),
        fact("would be limited", format!("{} ({share})", grouped(ledger.limited))),
        fact("from", stamp(ledger.first.nanos())),
        fact("for", span(ledger.last.since(ledger.first).as_secs())),
    ])
}

/// What was decided then, beside what would be decided now.
pub(super) fn then_and_now(then: &Then) -> Block {
    let head = ["decided then, as the log says", "would be admitted now", "would be refused now"];
    let rows = then.rows().into_iter().map(Vec::from).collect();
    Block::Table(Table { head: head.map(str::to_owned).to_vec(), rows, left: Vec::new() })
}

/// A row per limit.
pub(super) fn overview(ledger: &Ledger, about: &About) -> Block {
    let head = ["limit", "mode", "judged", "would limit", "share", "clients touched", "worst minute (UTC)"];
    let row = |limit: &Limit| {
        if about.left_out.contains(&limit.name) {
            let cells = [limit.name.as_str(), limit.mode.word(), "not replayable", "", "", "", ""];
            return cells.map(str::to_owned).to_vec();
        }
        let worst = match limit.worst.limited {
            0 => "–".to_owned(),
            limited => format!("{} at {}", grouped(limited), stamp(limit.worst.minute * 60 * 1_000_000_000)),
        };
        vec![
            limit.name.clone(),
            limit.mode.word().to_owned(),
            grouped(limit.judged),
            grouped(limit.limited),
            percent_of(limit.limited, limit.judged),
            touched_told(limit),
            worst,
        ]
    };
    Block::Table(Table {
        head: head.map(str::to_owned).to_vec(),
        rows: ledger.limits.iter().map(row).collect(),
        left: vec![1],
    })
}

fn touched_told(limit: &Limit) -> String {
    let touched = limit.touched.len() as u64;
    match &limit.frontier {
        Some((_, _, frontier)) => {
            let clients = frontier.clients() as u64;
            format!("{} of {} ({})", grouped(touched), grouped(clients), percent_of(touched, clients))
        }
        None => grouped(touched),
    }
}

/// What it is called, with its numbers.
pub(super) fn heading(limit: &Limit) -> String {
    let numbers = match &limit.frontier {
        Some((rate, burst, _)) => format!(": {rate}, burst {burst}"),
        None => String::new(),
    };
    let mode = if limit.mode == Mode::Shadow { " (shadow)" } else { "" };
    format!("Limit {}{numbers}{mode}", limit.name)
}

/// All requests over time.
pub(super) fn flow(ledger: &Ledger) -> Timeline {
    let axis = Axis::new(ledger);
    let cells = ledger.flow.dense(axis.bins);
    let points = |of: &dyn Fn(&(u64, u64)) -> u64| {
        let point = |(bin, cell): (usize, &(u64, u64))| (axis.place(bin), of(cell) as f64);
        cells.iter().enumerate().map(point).collect::<Vec<_>>()
    };
    let area = |label: &str, role, points| Series { label: label.into(), role, shape: Shape::Stacked, points };
    let (all, limited) = cells.iter().fold((0, 0), |(all, limited), cell| (all + cell.0, limited + cell.1));
    Timeline {
        description: format!("{} of {} requests limited.", grouped(limited), grouped(all)),
        title: "All requests: passed and limited".to_owned(),
        time: axis.time(),
        panels: vec![Panel {
            heading: format!("requests per {}", ledger.calendar.told()),
            top: None,
            series: vec![
                area("allowed", Role::Admitted, points(&|(all, limited)| all - limited)),
                area("limited", Role::Refused, points(&|(_, limited)| *limited)),
            ],
            lines: Vec::new(),
        }],
    }
}

/// Clients touched by other rates and bursts; none for a limit that has none of these.
pub(super) fn trade_off(limit: &Limit) -> Option<Curves> {
    let (rate, burst, frontier) = limit.frontier.as_ref()?;
    let mut bursts: Vec<u32> =
        [burst / 4, burst / 2, *burst, burst.saturating_mul(2), burst.saturating_mul(4)].to_vec();
    bursts.retain(|burst| *burst > 0);
    bursts.dedup();
    let mut lines: Vec<Curve> =
        bursts.iter().map(|burst| Curve { label: format!("burst {burst}"), points: Vec::new() }).collect();
    let mut now = 0;
    let mut ticks = Vec::new();
    for column in (0..frontier.rates().len()).filter_map(|place| frontier.column(place)) {
        ticks.push((column.rate.per_second(), column.rate.to_string()));
        for (line, burst) in lines.iter_mut().zip(&bursts) {
            line.points.push((column.rate.per_second(), column.touched(*burst) as f64));
        }
        if column.rate.interval_nanos() == rate.interval_nanos() {
            now = column.touched(*burst);
        }
    }
    let clients = frontier.clients();
    let point = Point {
        label: format!("now: {rate} burst {burst}, {} of {}", grouped(now as u64), grouped(clients as u64)),
        value: rate.per_second(),
        count: now as f64,
    };
    Some(Curves {
        title: format!("{}: what other numbers would do", limit.name),
        description: format!("At {rate} with a burst of {burst}, {now} of {clients} clients are touched."),
        heading: "clients touched (exact; logarithmic)".into(),
        label: "rate".into(),
        ticks,
        lines,
        points: vec![point],
    })
}

/// Whom a limit touches, those that lose most first.
pub(super) fn touched(limit: &Limit) -> Option<Block> {
    let mut all: Vec<_> = limit.touched.iter().collect();
    all.sort_by_key(|(key, touched)| (std::cmp::Reverse(touched.limited), **key));
    let row = |touched: &super::ledger::Touched| {
        let wide = touched.last.since(touched.first).as_secs();
        vec![
            touched.name.clone(),
            grouped(touched.limited),
            percent_of(touched.limited, limit.limited),
            stamp(touched.first.nanos()),
            span(wide),
            shortened(&touched.path, 160),
        ]
    };
    let mut rows: Vec<Vec<String>> = all.iter().take(TABLE_ROWS).map(|(_, touched)| row(touched)).collect();
    let rest: u64 = all.iter().skip(TABLE_ROWS).map(|(_, touched)| touched.limited).sum();
    if all.len() > TABLE_ROWS {
        let more = format!("{} more", grouped((all.len() - TABLE_ROWS) as u64));
        rows.push(vec![
            more,
            grouped(rest),
            percent_of(rest, limit.limited),
            String::new(),
            String::new(),
            String::new(),
        ]);
    }
    let head = ["client", "would lose", "share", "first (UTC)", "for", "asking mostly for"];
    let head = head.map(str::to_owned).to_vec();
    (!rows.is_empty()).then_some(Block::Table(Table { head, rows, left: vec![5] }))
}

/// The time axis of all pictures, in seconds from the first bin.
struct Axis {
    start: u64,
    bins: usize,
    seconds: u64,
}

impl Axis {
    /// More labels than that would touch.
    const LABELS: u64 = 8;

    fn new(ledger: &Ledger) -> Axis {
        let seconds = ledger.calendar.seconds();
        let start = ledger.calendar.start();
        let bins = (ledger.last.nanos() / 1_000_000_000).saturating_sub(start) / seconds + 1;
        // a bin per column is more than any picture shows
        let bins = usize::try_from(bins).unwrap_or(usize::MAX).min(super::bins::Calendar::MOST as usize);
        Axis { start, bins, seconds }
    }

    fn place(&self, bin: usize) -> f64 {
        bin as f64 * self.seconds as f64
    }

    fn time(&self) -> TimeAxis {
        let until = self.place(self.bins);
        let end = self.start.saturating_add(until as u64);
        let [from, to] = [self.start, end].map(|second| stamp(second.saturating_mul(1_000_000_000)));
        let labels = dates::labels(self.start, end, Axis::LABELS);
        TimeAxis {
            label: format!("UTC, {from} to {to}"),
            from: 0.0,
            until,
            ticks: labels.into_iter().map(|(second, label)| ((second - self.start) as f64, label)).collect(),
        }
    }
}

/// An instant, in nanoseconds since 1970, as `2026-11-21 10:15`.
fn stamp(nanos: u64) -> String {
    let text = instant(nanos / 1_000_000_000);
    text.get(..16).unwrap_or(&text).replace('T', " ")
}
