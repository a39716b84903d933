//! `tidegate status`: the running process on one screen.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::global::Global;
use super::output::print;
use super::{exit, running};
use crate::admin::client;

/// Show the running process on one screen: configuration, listeners, origins, limits, what waits
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidegate status --format json\n\n\
    With --quiet nothing is printed: the exit code says it.\n\n\
    Exit codes: 0 it takes requests, 1 it is starting or stopping, 69 no server answers.")]
pub struct Arguments {
    /// How to write it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// How to write what the process says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// One JSON object
    Json,
}

/// Asks, and prints the answer.
pub fn run(arguments: &Arguments, global: &Global) -> ExitCode {
    let (body, status) = match running::told(global, |socket| client::get(socket, "/api/v1/status")) {
        Ok(told) => told,
        Err(code) => return code,
    };
    if !global.quiet {
        print(&match arguments.format {
            Format::Text => text(&status),
            Format::Json => format!("{}\n", body.trim_end()),
        });
    }
    if status.get("state").is_some_and(|state| state == "ready") { ExitCode::SUCCESS } else { ExitCode::from(exit::NO) }
}

fn text(status: &Value) -> String {
    let at = |path: &str| status.pointer(path).unwrap_or(&Value::Null);
    let seconds = |path: &str| at(path).as_u64().unwrap_or(0);
    let mut screen = format!(
        "tidegate {} {}   process {}   {}   up {}\nconfig   {} ({}), {}\nrequests {} ended, {} refused, {} malformed\n",
        word(at("/version")),
        word(at("/instance")),
        word(at("/process")),
        word(at("/state")),
        span(seconds("/uptime_seconds")),
        word(at("/config/hash")),
        span(seconds("/config/age_seconds")),
        at("/config/file").as_str().unwrap_or("from the command line"),
        word(at("/requests/ended")),
        word(at("/requests/refused")),
        word(at("/requests/malformed")),
    );
    let rows = |path: &str| at(path).as_array().map(Vec::as_slice).unwrap_or_default();
    table(&mut screen, ["LISTENER", "address", "connections", "accepted", "refused"], rows("/listeners"), |row| {
        ["/name", "/address", "/connections", "/accepted", "/refused"].map(row)
    });
    table(&mut screen, ["ORIGIN", "in flight", "queue", "healthy", "errors"], rows("/origins"), |row| {
        let inflight = match row("/limit").as_str() {
            NOTHING => row("/inflight"),
            limit => format!("{}/{limit}", row("/inflight")),
        };
        [row("/name"), inflight, row("/queued"), row("/healthy"), row("/errors")]
    });
    table(&mut screen, ["LIMIT", "keys~", "fill", "allowed", "limited"], rows("/limits"), |row| {
        let shadow = if row("/mode") == "shadow" { " (shadow)" } else { "" };
        let fill = row("/fill").parse().map_or(NOTHING.to_owned(), |fill: f64| format!("{:.0}%", fill * 100.0));
        [row("/name") + shadow, row("/keys"), fill, row("/decisions/allowed"), row("/decisions/limited")]
    });
    table(
        &mut screen,
        ["STORE", "state", "breaker", "gates", "questions", "without it", "knows others"],
        rows("/stores"),
        |row| {
            let known = row("/staleness_seconds").parse();
            let known = known.map_or(NOTHING.to_owned(), |seconds: f64| format!("as of {seconds:.1}s ago"));
            let (state, breaker) = (StoreWord::of(row).text().to_owned(), row("/breaker"));
            [row("/name"), state, breaker, row("/nodes"), row("/questions"), row("/fallbacks"), known]
        },
    );
    for store in rows("/stores") {
        screen.extend(store_line(store));
    }
    if let Some(pardons) = at("/pardons").as_u64().filter(|pardons| *pardons > 0) {
        let _ = writeln!(screen, "\n{pardons} pardoned: see `tidegate pardon --list`");
    }
    for waiting in rows("/waiting_for_upgrade") {
        let _ = writeln!(screen, "! waits for `tidegate upgrade`: {}", word(waiting));
    }
    for notice in rows("/notices") {
        let told = |field: &str| word(notice.get(field).unwrap_or(&Value::Null));
        let _ = writeln!(screen, "! {}\n    {}", told("text"), told("hint"));
    }
    screen
}

/// How a store stands, at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoreWord {
    /// It answers, as far as is known.
    Answers,
    /// There is a connection, and what came over it a moment ago was a fault.
    Fails,
    /// It has failed so often that nobody asks it for a while.
    LeftAlone,
    /// Of a cluster some servers are asked, and others are not.
    Partly,
    /// There is no connection.
    Gone,
}

impl StoreWord {
    /// A fault that is younger than this, in seconds, may go on: a store that is left alone is tried again every ten seconds at least.
    const LATELY: u64 = 15;

    fn of(row: &dyn Fn(&str) -> String) -> StoreWord {
        let (away, servers) = not_asked(row);
        if (1..servers).contains(&away.len()) {
            return StoreWord::Partly;
        }
        match (row("/connected").as_str(), row("/breaker").as_str(), row("/last_fault_seconds_ago").parse::<u64>()) {
            ("true", "closed", Ok(ago)) if ago < StoreWord::LATELY => StoreWord::Fails,
            ("true", "closed", _) => StoreWord::Answers,
            ("true", _, _) => StoreWord::LeftAlone,
            _ => StoreWord::Gone,
        }
    }

    fn text(self) -> &'static str {
        match self {
            StoreWord::Answers => "answers",
            StoreWord::Fails => "FAILS",
            StoreWord::LeftAlone => "LEFT ALONE",
            StoreWord::Partly => "PARTLY",
            StoreWord::Gone => "NOT CONNECTED",
        }
    }
}

/// So many servers that are not asked are named.
const NAMED: usize = 3;

/// The servers of a cluster that are not asked just now, and how many it has.
fn not_asked(row: &dyn Fn(&str) -> String) -> (Vec<String>, usize) {
    let server = |place: usize| {
        let field = |field: &str| row(&format!("/servers/{place}/{field}"));
        let address = field("address");
        let asked = field("connected") == "true" && field("breaker") == "closed";
        (address != NOTHING).then_some((address, asked))
    };
    let servers: Vec<_> = (0..).map_while(server).collect();
    let away = servers.iter().filter(|(_, asked)| !asked).map(|(address, _)| address.clone());
    (away.collect(), servers.len())
}

/// What went wrong with a store last, and what becomes of requests while it does; nothing of one that never had a fault.
fn store_line(store: &Value) -> Option<String> {
    let row = |path: &str| store.pointer(path).map_or(NOTHING.to_owned(), word);
    let fault = store.get("last_fault").and_then(Value::as_str);
    let ago = store.get("last_fault_seconds_ago").and_then(Value::as_u64).map(span);
    let told = fault.map(|fault| format!("last fault {} ago: {fault}", ago.as_deref().unwrap_or(NOTHING)));
    let name = row("/name");
    let state = match StoreWord::of(&row) {
        StoreWord::Answers => return told.map(|told| format!("  {name}: {told}\n")),
        StoreWord::Fails => "fails",
        StoreWord::LeftAlone => "is left alone after failures",
        StoreWord::Gone => "is not connected",
        StoreWord::Partly => {
            let (away, servers) = not_asked(&row);
            let (named, count) =
                (away.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", "), away.len());
            let told = told.map(|told| format!("\n    {told}")).unwrap_or_default();
            let without = row("/fallbacks");
            return Some(format!(
                "! store {name}: {count} of {servers} servers not asked ({named}): limits go by their on_store_error for the keys \
                 of these alone, {without} decisions so far{told}\n"
            ));
        }
    };
    let told = told.map(|told| format!("\n    {told}")).unwrap_or_default();
    let without = row("/fallbacks");
    Some(format!("! store {name} {state}: its limits go by their on_store_error, {without} decisions so far{told}\n"))
}

/// Columns as wide as they need to be: names to the left, all else to the right. `cells` is given what finds a part of its row.
fn table<const N: usize>(
    screen: &mut String,
    head: [&str; N],
    rows: &[Value],
    cells: impl Fn(&dyn Fn(&str) -> String) -> [String; N],
) {
    if rows.is_empty() {
        return;
    }
    let row = |row: &Value| cells(&|path| row.pointer(path).map_or(NOTHING.to_owned(), word));
    let lines: Vec<[String; N]> = std::iter::once(head.map(str::to_owned)).chain(rows.iter().map(row)).collect();
    let mut widths = [0; N];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    screen.push('\n');
    for line in &lines {
        let mut written = String::new();
        for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
            let _ = match column {
                0 => write!(written, "{cell:<width$}"),
                _ => write!(written, "   {cell:>width$}"),
            };
        }
        screen.push_str(written.trim_end());
        screen.push('\n');
    }
}

/// In the place of what there is not.
const NOTHING: &str = "–";

fn word(value: &Value) -> String {
    match value {
        Value::Null => NOTHING.to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `3d 4h`, `5m 7s`: the two greatest units.
pub fn span(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m {}s", seconds % 60),
        (0, hours, minutes) => format!("{hours}h {minutes}m"),
        (days, hours, _) => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spans_have_their_two_greatest_units() {
        assert_eq!([7, 67, 3_700, 273_600].map(span), ["7s", "1m 7s", "1h 1m", "3d 4h"]);
    }

    #[test]
    fn a_store_that_is_silent_does_not_look_well() {
        let store = |more: Value| {
            let mut store = json!({
                "name": "s", "connected": true, "breaker": "closed", "nodes": 3, "questions": 12, "fallbacks": 60
            });
            store.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            text(&json!({ "stores": [store] }))
        };
        let fault = |ago: u64| json!({ "last_fault": "cannot connect: refused", "last_fault_seconds_ago": ago });
        let well = store(json!({}));
        assert!(well.contains("\ns       answers    closed       3"), "{well}");
        assert!(!well.contains("fault") && !well.contains('!'), "{well}");
        let mended = store(fault(67));
        assert!(mended.contains("  s: last fault 1m 7s ago: cannot connect: refused\n"), "{mended}");
        assert!(mended.contains("answers") && !mended.contains('!'), "{mended}");
        let failing = store(fault(2));
        assert!(failing.contains("FAILS") && failing.contains("! store s fails: "), "{failing}");
        let left = store(json!({ "breaker": "open" }));
        assert!(left.contains("LEFT ALONE") && left.contains("on_store_error, 60 decisions so far\n"), "{left}");
        let server = |port: u16, connected: bool| json!({ "address": format!("10.0.0.1:{port}"), "connected": connected, "breaker": "closed" });
        let partly = store(json!({ "breaker": "open", "servers": [server(1, true), server(2, false)] }));
        assert!(
            partly.contains("PARTLY") && partly.contains("! store s: 1 of 2 servers not asked (10.0.0.1:2): "),
            "{partly}"
        );
        let gone = store(json!({
            "connected": false, "last_fault": "cannot connect: refused", "last_fault_seconds_ago": 1
        }));
        assert!(gone.contains("NOT CONNECTED"), "{gone}");
        let line = "! store s is not connected: its limits go by their on_store_error, 60 decisions so far\n    last \
                    fault 1s ago: cannot connect: refused\n";
        assert!(gone.contains(line), "{gone}");
    }

    #[test]
    fn numbers_stand_below_each_other() {
        let mut screen = String::new();
        let rows = [json!({"n": "a"}), json!({"n": "longer"})];
        table(&mut screen, ["NAME", "x", "y", "z", "u"], &rows, |row| {
            [row("/n"), "1".into(), "22".into(), row("/none"), String::new()]
        });
        assert_eq!(screen, "\nNAME     x    y   z   u\na        1   22   –\nlonger   1   22   –\n");
    }
}
