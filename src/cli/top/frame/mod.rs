//! Draws the frame of any size into terminal cells.
//!
//! Lists stand below each other, or in two columns on a wide terminal. A list that does not fit is cut at its end, and its
//! heading says so. Words and numbers carry the state; colours only repeat it.

mod cells;
mod look;
mod over;
mod table;

use std::borrow::Cow;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use self::cells::{bar, gauge, sparks};
use self::table::{Cell, Table};
use super::data::{Model, NamedDoor};
use super::keys::{Pane, State};
use crate::human::{NOTHING, duration, grouped, percent, rate, shortened, span, width, wrapped};
use crate::observe::state::{Condition, FAILS, Holder, Network, Offender, Sign};

pub use self::look::Look;

/// From this width on there are two columns.
const WIDE: u16 = 150;

/// Between two columns.
const GAP: u16 = 3;

/// How high the frame is that leaves nothing out.
pub fn height(model: &Model, width: u16, look: &Look<'_>) -> u16 {
    let Head { process, sentence, numbers } = head(model, usize::from(width), look);
    let words = process.len() + sentence.len() + numbers.len() + notices(model, width).len();
    let lists = columns(width).into_iter().map(|lists| wanted(&tables(model, look, lists)).iter().sum()).max();
    let all = words + 1 + lists.unwrap_or(0_usize) + usize::from(look.live.is_some());
    u16::try_from(all).unwrap_or(u16::MAX)
}

/// Draws all of it.
pub fn draw(model: &Model, look: &Look<'_>, area: Rect, buffer: &mut Buffer) {
    let head = head(model, usize::from(area.width), look);
    let notices = notices(model, area.width);
    let foot = u16::from(look.live.is_some());
    let (mut rest, bold) = (area, Style::new().add_modifier(Modifier::BOLD));
    let warning = look.color(Color::Yellow);
    rest.height = rest.height.saturating_sub(foot);
    let Head { process, sentence, numbers } = head;
    rest = lines(&process, Style::new(), rest, buffer);
    rest = lines(&sentence, bold.patch(look.color(colour(model))), rest, buffer);
    rest = lines(&numbers, Style::new(), rest, buffer);
    // notices stand below the lists, but are cut last; on a low terminal the first line of each
    let most = usize::from(rest.height / 6).max(1);
    let notices = notices.get(..most.min(notices.len())).unwrap_or(&notices);
    let told = u16::try_from(notices.len()).unwrap_or(u16::MAX).min(rest.height);
    let (mut lists, below) = split(rest, rest.height - told);
    lists.y = lists.y.saturating_add(1);
    lists.height = lists.height.saturating_sub(1);
    let columns = columns(area.width);
    let mut used = 0;
    let width = (area.width - GAP * (columns.len() as u16 - 1).min(area.width)) / columns.len() as u16;
    for (number, names) in columns.into_iter().enumerate() {
        let names = fitting(model, look, names, lists.height);
        let x = lists.x + number as u16 * (width + GAP);
        let column = Rect { x, width, ..lists }.intersection(area);
        used = used.max(stacked(&tables(model, look, &names), look, column, buffer));
    }
    // right below the lists if these are short
    let below = Rect { y: (lists.y + used).min(below.y), ..below };
    lines(notices, warning, below, buffer);
    if let Some(state) = look.live {
        let foot = Rect { y: area.y + area.height.saturating_sub(1), height: area.height.min(1), ..area };
        over::foot(state, look, foot, buffer);
        over::overlay(state, area, buffer);
    }
}

/// The lists of a column that have room: of routes and limits the one without the focus goes first, then networks. The list with the
/// focus stays.
fn fitting(model: &Model, look: &Look<'_>, names: &[List], height: u16) -> Vec<List> {
    let focus = look.live.map(|state| state.focus);
    let mut names = names.to_vec();
    let fits = |names: &[List]| wanted(&tables(model, look, names)).iter().sum::<usize>() <= usize::from(height) + 1;
    let leaving = if focus == Some(Pane::Routes) { List::Limits } else { List::Routes };
    for leaving in [leaving, List::Networks] {
        if !fits(&names) {
            names.retain(|list| *list != leaving);
        }
    }
    names
}

/// The colour of the condition.
fn colour(model: &Model) -> Color {
    match model.condition.kind.sign() {
        Sign::Good => Color::Green,
        Sign::Watch => Color::Yellow,
        Sign::Bad => Color::Red,
        Sign::None => Color::Reset,
    }
}

/// The lines above the lists.
struct Head {
    process: Vec<String>,
    sentence: Vec<String>,
    numbers: Vec<String>,
}

/// The first lines: which process, the sentence, the numbers; on a wide terminal what to do.
fn head(model: &Model, room: usize, look: &Look<'_>) -> Head {
    let first = format!("tidegate {}  {}", model.version, model.instance);
    let mut first = vec![
        first,
        format!("up {}", span(model.uptime_seconds)),
        format!("policy {}, {} old", model.config.fingerprint, span(model.config.age_seconds)),
    ];
    if let Some(state) = look.live {
        first.push(if state.frozen { "FROZEN".to_owned() } else { "live".to_owned() });
        if !state.filter.is_empty() {
            first.push(format!("only `{}`", state.filter));
        }
    }
    first.extend(look.trouble.map(|trouble| format!("! {trouble}")));
    let Condition { kind, head, text, .. } = &model.condition;
    let head = if head.is_empty() { "Nothing is known yet" } else { head };
    let sentence = format!("{} {}", kind.sign().symbol(), head.replace('`', "").to_uppercase());
    let sentence = wrapped(&format!("{sentence}. {}", text.replace('`', "")), room.max(20));
    let sentence = sentence.lines().take(2).map(|line| line.trim_end().to_owned()).collect();
    let mut numbers = Vec::new();
    if let Some(overload) = &model.overload {
        numbers.push(format!("pressure {} {:.2}", gauge(overload.pressure), overload.pressure));
    }
    numbers.extend([
        format!("passed {}/s", rate(model.passed_per_second)),
        format!("429 {}/s", rate(model.limited_per_second)),
        format!("503 {}/s", rate(model.shed_per_second)),
        format!("failed {}/s", rate(model.failed_per_second)),
    ]);
    let mut lines = together(numbers, room);
    if room >= usize::from(WIDE) {
        lines.push(String::new());
        let name = |place: usize| if place == 0 { "NOW" } else { "   " };
        for (place, step) in model.next.steps.iter().enumerate() {
            let line = format!("{}  {}   {}", name(place), step.command, step.why.replace('`', ""));
            lines.push(shortened(&line, room));
        }
        if !model.next.otherwise.is_empty() {
            let line = format!("     if you do nothing: {}", model.next.otherwise.replace('`', ""));
            lines.push(shortened(&line, room));
        }
    }
    Head { process: together(first, room), sentence, numbers: lines }
}

/// Parts in lines, as many in each as fit.
fn together(parts: Vec<String>, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if width(line) + 2 + width(&part) <= room => {
                line.push_str("  ");
                line.push_str(&part);
            }
            _ => lines.push(part),
        }
    }
    lines
}

fn notices(model: &Model, width: u16) -> Vec<String> {
    let mut lines = Vec::new();
    for notice in &model.notices {
        let text = wrapped(&notice.text, usize::from(width).saturating_sub(2).max(20));
        for (number, line) in text.lines().enumerate() {
            lines.push(format!("{} {line}", if number == 0 { '!' } else { ' ' }));
        }
    }
    lines
}

/// Writes lines from the top; gives what is left below.
fn lines(lines: &[String], style: Style, area: Rect, buffer: &mut Buffer) -> Rect {
    let mut rest = area;
    for line in lines {
        if rest.height == 0 {
            break;
        }
        buffer.set_stringn(rest.x, rest.y, line, usize::from(rest.width), style);
        (_, rest) = split(rest, 1);
    }
    rest
}

/// Its first lines, and the others.
fn split(area: Rect, lines: u16) -> (Rect, Rect) {
    let lines = lines.min(area.height);
    (Rect { height: lines, ..area }, Rect { y: area.y + lines, height: area.height - lines, ..area })
}

/// Which list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Limits,
    Origins,
    Doors,
    Routes,
    Clients,
    Networks,
}

/// Which lists stand in which column, in the page's order.
fn columns(width: u16) -> Vec<&'static [List]> {
    use List::{Clients, Doors, Limits, Networks, Origins, Routes};
    if width >= WIDE {
        vec![&[Clients, Networks, Origins], &[Limits, Routes, Doors]]
    } else {
        vec![&[Clients, Networks, Limits, Routes, Origins, Doors]]
    }
}

fn tables<'a>(model: &'a Model, look: &Look<'a>, lists: &[List]) -> Vec<Table<'a>> {
    let everything = State::default();
    let state = look.live.unwrap_or(&everything);
    let table = |list: &List| match list {
        List::Limits => Some(limits(model, state, look)),
        List::Origins => (!model.origins.is_empty()).then(|| origins(model, state, look)),
        List::Doors => doors(model, state),
        List::Routes => (!model.routes.is_empty()).then(|| routes(model, state, look)),
        List::Clients => Some(clients(model, state, look)),
        List::Networks => networks(model, state),
    };
    lists.iter().filter_map(table).collect()
}

/// How many lines each wants: a heading, its rows, and one that parts it from the next.
fn wanted(tables: &[Table<'_>]) -> Vec<usize> {
    tables.iter().map(|table| table.height() + 1).collect()
}

/// Draws tables below each other; gives how many lines they took.
fn stacked(tables: &[Table<'_>], look: &Look<'_>, area: Rect, buffer: &mut Buffer) -> u16 {
    let shares = table::shares(&wanted(tables), usize::from(area.height));
    let mut rest = area;
    for (table, share) in tables.iter().zip(shares) {
        let (own, below) = split(rest, u16::try_from(share).unwrap_or(u16::MAX));
        let (own, _) = split(own, own.height.saturating_sub(1));
        table.draw(look.color(Color::Cyan), own, buffer);
        rest = below;
    }
    area.height - rest.height
}

fn chosen(model: &Model, look: &Look<'_>, pane: Pane) -> Option<usize> {
    look.live.filter(|state| state.focus == pane)?.chosen(pane, model)
}

fn limits<'a>(model: &'a Model, state: &State, look: &Look<'_>) -> Table<'a> {
    let row = |limit: &&'a super::data::Limit| {
        let shadow = limit.mode == "shadow";
        let name = if shadow { Cow::from(format!("{} (shadow)", limit.name)) } else { Cow::from(&limit.name) };
        // a shadow limit refuses nothing; one that tags, or is enforced in part, may do both
        let refused = match (limit.limited_per_second, limit.shadow_per_second) {
            (limited, 0.0) if !shadow => rate(limited),
            (0.0, would) => format!("{}*", rate(would)),
            (limited, would) => format!("{}+{}*", rate(limited), rate(would)),
        };
        let hot = if limit.limited_per_second > 0.0 { look.color(Color::Red) } else { Style::new() };
        let refusals = if shadow { limit.shadow_per_second } else { limit.limited_per_second };
        let judged = limit.allowed_per_second + limit.limited_per_second + limit.shadow_per_second;
        let share = if judged > 0.0 { percent(refusals / judged) } else { NOTHING.to_owned() };
        vec![
            Cell::from(name),
            rate(judged).into(),
            Cell::from(refused).styled(hot),
            share.into(),
            sparks(&limit.ten_minutes).into(),
        ]
    };
    Table {
        head: &["LIMITS, 10 s", "judged/s", "refused/s", "share", "refused, 10 min"],
        left: &[0, 4],
        rows: state.limits(model).iter().map(row).collect(),
        chosen: chosen(model, look, Pane::Limits),
        empty: "none",
    }
}

fn origins<'a>(model: &'a Model, state: &State, look: &Look<'_>) -> Table<'a> {
    let row = |origin: &&'a super::data::Origin| {
        let sick = |is_sick| if is_sick { look.color(Color::Red) } else { Style::new() };
        let time = |seconds: Option<f64>| seconds.map_or(NOTHING.to_owned(), duration);
        vec![
            Cell::from(Cow::from(&origin.name)),
            bar(origin.inflight, origin.limit).into(),
            origin.queued.to_string().into(),
            time(origin.p95_seconds).into(),
            failed(origin.failed_share, look),
            rate(origin.shed_per_second).into(),
            Cell::from(format!("{} of {}", origin.healthy, origin.endpoints))
                .styled(sick(origin.healthy < origin.endpoints)),
        ]
    };
    Table {
        head: &["ORIGINS, 10 s", "places", "waiting", "p95", "failed", "503/s", "addresses"],
        left: &[0, 1],
        rows: state.origins(model).iter().map(row).collect(),
        chosen: chosen(model, look, Pane::Origins),
        empty: "none",
    }
}

/// The share that an origin failed, marked where it is no accident.
fn failed(share: Option<f64>, look: &Look<'_>) -> Cell<'static> {
    let Some(share) = share else { return NOTHING.to_owned().into() };
    match share >= FAILS {
        true => Cell::from(format!("✕ {}", percent(share))).styled(look.color(Color::Red)),
        false => percent(share).into(),
    }
}

fn routes<'a>(model: &'a Model, state: &State, look: &Look<'_>) -> Table<'a> {
    let row = |route: &&'a super::data::Route| {
        let all = route.requests_per_second;
        let time = |seconds: Option<f64>| seconds.map_or(NOTHING.to_owned(), duration);
        let share = |part: f64| if all > 0.0 { percent(part / all) } else { NOTHING.to_owned() };
        vec![
            Cell::from(Cow::from(&route.name)),
            rate(all).into(),
            share(route.refused_per_second).into(),
            failed(route.answers.error_share(), look),
            time(route.p50_seconds).into(),
            time(route.p99_seconds).into(),
            sparks(&route.ten_minutes).into(),
        ]
    };
    Table {
        head: &["ROUTES, 10 s", "req/s", "refused", "failed", "p50", "p99", "refused, 10 min"],
        left: &[0, 6],
        rows: state.routes(model).iter().map(row).collect(),
        chosen: chosen(model, look, Pane::Routes),
        empty: "none",
    }
}

fn clients<'a>(model: &'a Model, state: &State, look: &Look<'_>) -> Table<'a> {
    let row = |one: &&'a Offender| {
        vec![
            Cell::from(Cow::from(&one.client)),
            brief(&one.network).into(),
            Cow::from(&one.limit).into(),
            grouped(one.count).into(),
            percent(one.share.min(1.0)).into(),
            brief_span(one.last_seen_seconds_ago).into(),
        ]
    };
    Table {
        head: &["WHO, recently", "network", "limit", "refused", "share", "last"],
        left: &[0, 1, 2],
        rows: state.clients(model).iter().map(row).collect(),
        chosen: chosen(model, look, Pane::Clients),
        empty: "no client was refused lately",
    }
}

/// `None` where nobody waits.
fn doors<'a>(model: &'a Model, state: &State) -> Option<Table<'a>> {
    let all = model.doors.iter().flat_map(|one| one.door.rows().map(move |(what, holder)| (one, what, holder)));
    let shown = all.filter(|(one, _, holder)| state.shows(&[&one.name, &holder.name]));
    let row = |(one, what, holder): (&'a NamedDoor, &'static str, &'a Holder)| {
        vec![
            Cell::from(format!("{what} {}", holder.name)),
            Cow::from(&one.name).into(),
            Cow::from(holder.criticality.as_ref()).into(),
            grouped(holder.held).into(),
            grouped(holder.waiting).into(),
            format!("{:.1}", holder.used).into(),
        ]
    };
    let rows: Vec<Vec<Cell<'a>>> = shown.map(row).collect();
    let head = &["HOLDS AND WAITS, now", "of", "class", "holds", "waits", "used"];
    (!rows.is_empty()).then_some(Table { head, left: &[0, 1, 2], rows, chosen: None, empty: "none" })
}

/// The first characters of a pseudonym; an address as it is.
fn brief(name: &str) -> String {
    match name.contains(['.', ':']) {
        true => name.to_owned(),
        false => shortened(name, 9),
    }
}

/// A time in its largest unit: `7 s`, `3 min`.
fn brief_span(seconds: u64) -> String {
    if seconds < 60 { span(seconds) } else { span(seconds / 60 * 60) }
}

/// `None` where there is none, which is the usual thing.
fn networks<'a>(model: &'a Model, state: &State) -> Option<Table<'a>> {
    let shown = model.offenders.networks.iter().filter(|one| state.shows(&[&one.network]));
    let row = |one: &'a Network| {
        vec![
            Cell::from(Cow::from(&one.network)),
            one.clients.to_string().into(),
            grouped(one.count).into(),
            percent(one.share.min(1.0)).into(),
        ]
    };
    let rows: Vec<Vec<Cell<'a>>> = shown.map(row).collect();
    let head = &["NETWORKS, recently", "clients", "refused", "share"];
    (!rows.is_empty()).then_some(Table { head, left: &[0], rows, chosen: None, empty: "none" })
}

#[cfg(test)]
mod tests;
