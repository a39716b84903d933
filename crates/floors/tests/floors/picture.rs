//! The picture of `docs/architecture.md`: every folder a box as wide as its lines, on its floor, with arrows to what it uses.
//!
//! `UPDATE_EXPECTED=1 cargo test --test floors -- picture` draws it again. A box keeps its drawn width while its lines stay within a
//! quarter of it, so that ordinary edits leave the picture alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;

use super::{FLOORS, SOURCES, below, first_name, floor_of, place, product, root, top_level_names};

const FILE: &str = "docs/architecture.svg";

/// Columns of the lower house, from left to right: a crate's folder, its name and its colour. The program stands on top of them all.
const COLUMNS: [(&str, &str, &str); 5] = [
    ("crates/http/src", "tidegate-http", "#5b8def"),
    ("crates/limits/src", "tidegate-limits", "#1f9d8a"),
    ("crates/policy/src", "tidegate-policy", "#c98a1b"),
    ("crates/offline/src", "tidegate-offline", "#9b6bd3"),
    ("src", "tidegate, the program", "#d9534f"),
];

const ROW: f64 = 74.0;
const HEIGHT: f64 = 40.0;
const WIDTH: f64 = 1240.0;
const MARGIN: f64 = 30.0;

/// One folder, or file, that stands on a floor of its own.
#[derive(Default, Clone)]
struct Module {
    column: usize,
    lines: usize,
    uses: BTreeSet<String>,
}

type Modules = BTreeMap<String, Module>;

/// What stands in the code.
fn read() -> Modules {
    let root = root();
    let mut modules = Modules::new();
    for (column, (folder, ..)) in COLUMNS.iter().enumerate() {
        assert!(SOURCES.contains(folder), "{folder}");
        for file in below(folder) {
            let (name, _) = place(&file);
            if ["lib", "main"].contains(&name.as_str()) {
                continue;
            }
            let module = modules.entry(name.clone()).or_default();
            module.column = column;
            let inside = file.strip_prefix(root).unwrap().to_str().unwrap();
            if inside.split(['/', '.']).any(|part| part == "tests") {
                continue;
            }
            module.lines += fs::read_to_string(&file).unwrap().lines().count();
            for (_, statement) in product(&file) {
                module.uses.extend(named(&statement).into_iter().filter(|other| *other != name));
            }
        }
    }
    for (name, module) in &mut modules {
        // a look upwards is for `no_folder_looks_up_or_sideways` to refuse
        module.uses.retain(|other| floor_of(other).is_some_and(|other| Some(other) < floor_of(name)));
    }
    modules
}

/// The modules of the plan that a statement names, in this crate or another.
fn named(statement: &str) -> Vec<String> {
    let mut found = Vec::new();
    for root in ["crate::", "tidegate_limits::", "tidegate_policy::", "tidegate_offline::"] {
        for (at, _) in statement.match_indices(root) {
            let rest = &statement[at + root.len()..];
            found.extend(rest.strip_prefix('{').map_or_else(|| vec![first_name(rest)], top_level_names));
        }
    }
    if statement.contains("tidegate_http::") {
        found.push("tidegate_http".to_owned());
    }
    found
}

/// What each uses directly and not also by way of another: the arrows from which the rest follows.
fn arrows(modules: &Modules) -> BTreeMap<&str, Vec<&str>> {
    fn reaches(modules: &Modules, from: &str, to: &str) -> bool {
        modules[from].uses.iter().any(|next| next == to || reaches(modules, next, to))
    }
    let direct = |module: &Module, other: &String| {
        module.uses.iter().all(|next| next == other || !reaches(modules, next, other))
    };
    modules
        .iter()
        .map(|(name, module)| {
            let kept = module.uses.iter().filter(|other| direct(module, other));
            (name.as_str(), kept.map(String::as_str).collect())
        })
        .collect()
}

/// Rows from the ground up: the program's above those of the crates, one for each floor that has something on it.
fn rows(modules: &Modules) -> BTreeMap<&str, usize> {
    let floor = |name: &str| FLOORS.iter().find(|(known, _)| *known == name).unwrap().1;
    let stack = |program: bool| {
        let names = modules.iter().filter(move |(_, module)| (module.column == 4) == program).map(|(name, _)| name);
        let floors: BTreeSet<u32> = names.clone().map(|name| floor(name)).collect();
        names.map(move |name| (name.as_str(), floors.iter().position(|one| *one == floor(name)).unwrap()))
    };
    let lower: BTreeMap<&str, usize> = stack(false).collect();
    let height = lower.values().max().unwrap() + 1;
    lower.into_iter().chain(stack(true).map(|(name, row)| (name, row + height))).collect()
}

fn draw(modules: &Modules) -> String {
    let rows = rows(modules);
    let top = *rows.values().max().unwrap();
    let height = MARGIN * 2.0 + ROW * (top + 1) as f64 + 44.0;
    let y_of = |row: usize| {
        MARGIN + 24.0 + ROW * (top - row) as f64 + if row >= first_row(modules, &rows, 4) { 0.0 } else { 30.0 }
    };
    let width_of = |name: &str, module: &Module| {
        // thirty lines a pixel, and wide enough for its name
        (module.lines as f64 / 30.0).clamp(least(name), 420.0)
    };
    // boxes of a row in a column share its width
    let columns = [(30.0, 150.0), (190.0, 290.0), (490.0, 420.0), (920.0, 290.0), (30.0, 1180.0)];
    let mut boxes: BTreeMap<&str, (f64, f64, f64)> = BTreeMap::new();
    for (column, (left, room)) in columns.into_iter().enumerate() {
        let own = |row: usize| rows.iter().filter(move |(name, at)| **at == row && modules[**name].column == column);
        for row in 0..=top {
            let names: Vec<&str> = own(row).map(|(name, _)| *name).collect();
            let gaps = 16.0 * (names.len() as f64 + 1.0);
            let wanted: f64 = names.iter().map(|name| width_of(name, &modules[*name])).sum();
            let needed: f64 = names.iter().map(|name| least(name)).sum();
            let scale = if wanted > needed { ((room - gaps - needed) / (wanted - needed)).min(1.0) } else { 1.0 };
            let width = |name: &str| least(name) + (width_of(name, &modules[name]) - least(name)) * scale;
            let whole: f64 = names.iter().map(|name| width(name)).sum();
            // a lone box of the program stands left or right of the middle in turn, so that the arrows past it are seen
            let lean = if column == 4 && names.len() == 1 { if row % 2 == 0 { -270.0 } else { 270.0 } } else { 0.0 };
            let mut x = left + lean + (room - whole - 16.0 * (names.len() as f64 - 1.0)) / 2.0;
            for name in names {
                let width = width(name);
                boxes.insert(name, (x, y_of(row), width));
                x += width + 16.0;
            }
        }
    }
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" font-family=\"system-ui, sans-serif\">\n\
         <title>The crates and folders of tidegate: each uses only what stands below it</title>\n\
         <rect width=\"{WIDTH:.0}\" height=\"{height:.0}\" fill=\"#fbfaf7\"/>"
    );
    for (column, (left, room)) in columns.into_iter().enumerate() {
        let (_, name, colour) = COLUMNS[column];
        let own = rows.iter().filter(|(module, _)| modules[**module].column == column).map(|(_, row)| *row);
        let (low, high) = (own.clone().min().unwrap(), own.max().unwrap());
        let (y, bottom) = (y_of(high) - 30.0, y_of(low) + HEIGHT + 12.0);
        let _ = writeln!(
            svg,
            "<rect x=\"{left:.0}\" y=\"{y:.0}\" width=\"{room:.0}\" height=\"{:.0}\" rx=\"10\" fill=\"{colour}\" fill-opacity=\"0.09\"/>\n\
             <text x=\"{:.0}\" y=\"{:.0}\" font-size=\"13\" font-weight=\"600\" fill=\"{colour}\">{name}</text>",
            bottom - y,
            left + 12.0,
            y + 19.0
        );
    }
    for (from, targets) in arrows(modules) {
        let (x, y, width) = boxes[from];
        let colour = COLUMNS[modules[from].column].2;
        for (nth, to) in targets.iter().enumerate() {
            let (to_x, to_y, to_width) = boxes[to];
            let start = x + width * (nth as f64 + 1.0) / (targets.len() as f64 + 1.0);
            let (end, y) = (to_x + to_width / 2.0, y + HEIGHT);
            let bend = (to_y - y) / 2.0;
            let _ = writeln!(
                svg,
                "<path d=\"M{start:.0} {y:.0} C{start:.0} {:.0} {end:.0} {:.0} {end:.0} {:.0}\" fill=\"none\" stroke=\"{colour}\" \
                 stroke-opacity=\"0.55\" stroke-width=\"1.4\"/><circle cx=\"{end:.0}\" cy=\"{to_y:.0}\" r=\"2.6\" fill=\"{colour}\"/>",
                y + bend,
                to_y - bend,
                to_y - 2.0
            );
        }
    }
    for (name, (x, y, width)) in &boxes {
        let module = &modules[*name];
        let _ = writeln!(
            svg,
            "<g data-module=\"{name}\" data-lines=\"{}\"><rect x=\"{x:.0}\" y=\"{y:.0}\" width=\"{width:.0}\" height=\"{HEIGHT:.0}\" rx=\"6\" \
             fill=\"{}\"/><text x=\"{:.0}\" y=\"{:.0}\" font-size=\"15\" fill=\"#fff\" text-anchor=\"middle\">{}</text></g>",
            module.lines,
            COLUMNS[module.column].2,
            x + width / 2.0,
            y + 25.0,
            label(name)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn first_row(modules: &Modules, rows: &BTreeMap<&str, usize>, column: usize) -> usize {
    rows.iter().filter(|(name, _)| modules[**name].column == column).map(|(_, row)| *row).min().unwrap()
}

/// The width that a name needs.
fn least(name: &str) -> f64 {
    8.5 * label(name).len() as f64 + 20.0
}

fn label(name: &str) -> &str {
    name.strip_prefix("tidegate_").unwrap_or(name)
}

/// The lines that a box was drawn with.
fn drawn_lines(svg: &str, name: &str) -> Option<usize> {
    let (_, rest) = svg.split_once(&format!("data-module=\"{name}\" data-lines=\""))?;
    rest.split('"').next()?.parse().ok()
}

#[test]
fn the_picture_shows_the_house_as_it_stands() {
    let path = root().join(FILE);
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let mut modules = read();
    let update = std::env::var_os("UPDATE_EXPECTED").is_some();
    for (name, module) in &mut modules {
        if let Some(drawn) =
            drawn_lines(&committed, name).filter(|drawn| !update && drawn.abs_diff(module.lines) * 4 <= *drawn)
        {
            module.lines = drawn;
        }
    }
    let drawn = draw(&modules);
    if update {
        fs::write(&path, drawn).unwrap();
    } else {
        assert!(drawn == committed, "{FILE} is stale: UPDATE_EXPECTED=1 cargo test --test floors -- picture");
    }
}

#[test]
fn an_arrow_is_left_out_where_others_lead_there() {
    let module =
        |uses: &[&str]| Module { uses: uses.iter().map(|name| (*name).to_owned()).collect(), ..Module::default() };
    let modules = Modules::from([
        ("proxy".to_owned(), module(&["engine", "units"])),
        ("engine".to_owned(), module(&["units"])),
        ("units".to_owned(), module(&[])),
    ]);
    assert_eq!(
        arrows(&modules),
        BTreeMap::from([("proxy", vec!["engine"]), ("engine", vec!["units"]), ("units", vec![])])
    );
    assert_eq!(named("use tidegate_limits::{limiter::Kind, units};"), ["limiter", "units"]);
}

/// The page links into the code: every target stands, and so does the heading or file that it names.
#[test]
fn the_page_links_to_what_is_there() {
    let root = root();
    let page = fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let links: Vec<&str> = page.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(links.len() > 20, "{links:?}");
    let lost = links.iter().filter(|link| !root.join("docs").join(link.split('#').next().unwrap_or(link)).exists());
    let lost: Vec<&&str> = lost.collect();
    assert!(lost.is_empty(), "{lost:?}");
}
