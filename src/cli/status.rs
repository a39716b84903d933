//! `tidegate status`: the running process on one screen.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::global::Global;
use super::output::print;
use super::{exit, running};
use crate::admin::client;
use crate::human::{NOTHING, columns, duration, percent, span};
use crate::observe::notices::notice::Notice;
use crate::observe::state::{FAILS, Holder, Listener, Origin, Recent, Snapshots, State};
use crate::store::{BreakerState, StoreState};
use crate::units::Bytes;

/// Show the running process on one screen
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tidegate status --format json\n\n\
    With --quiet nothing is printed: the exit code says it.\n\n\
    Exit codes: 0 it takes requests, 1 it is starting or stopping, 69 no server answers.")]
pub struct Arguments {
    /// Output format
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
    let (body, state): (_, State) = match running::told(global, |socket| client::get(socket, "/api/v1/status")) {
        Ok(told) => told,
        Err(code) => return code,
    };
    if !global.quiet {
        print(&match arguments.format {
            Format::Text => text(&state),
            Format::Json => format!("{}\n", body.trim_end()),
        });
    }
    if state.state == "ready" { ExitCode::SUCCESS } else { ExitCode::from(exit::NO) }
}

/// Where the state of limits is saved, and what became of it at the start.
fn snapshot_line(snapshots: &Snapshots) -> String {
    let Snapshots { directory, age_seconds, bytes, errors, kept, rerated, reset, .. } = snapshots;
    let latest = match age_seconds {
        Some(age) => format!("{} {} ago", Bytes(*bytes), duration(*age)),
        None => "no snapshot yet".to_owned(),
    };
    let errors = if *errors > 0 { format!(", {errors} failed") } else { String::new() };
    let mut line = format!(
        "state    {directory}: {latest}{errors}; at the start {kept} kept, {rerated} re-rated, {} reset",
        reset.len()
    );
    reset.iter().for_each(|reset| line.push_str(&format!("\n         {reset}")));
    line
}

fn text(state: &State) -> String {
    let State { version, instance, process, config, requests, .. } = state;
    let file = config.file.as_ref().map_or("from the command line".into(), |file| file.to_string_lossy());
    let up = span(state.uptime_seconds);
    let mut screen = format!(
        "tidegate {version} {instance}   process {process}   {}   up {up}\nconfig   {} ({}), {file}\nrequests {} ended, {} refused, {} malformed\n",
        state.state,
        config.fingerprint,
        span(config.age_seconds),
        requests.ended,
        requests.refused,
        requests.malformed,
    );
    if let Some(overload) = &state.overload {
        let _ = writeln!(screen, "{}", overload.line());
    }
    if let Some(snapshots) = &state.snapshots {
        let _ = writeln!(screen, "{}", snapshot_line(snapshots));
    }
    recent(&mut screen, state);
    let _ = writeln!(screen, "\nNow, and counted since the start {up} ago:");
    let head = ["LISTENER", "address", "connections", "accepted", "refused"];
    table(&mut screen, head, &state.listeners, |Listener { name, address, connections, accepted, refused }| {
        [name.clone(), address.clone(), connections.to_string(), accepted.to_string(), refused.to_string()]
    });
    let head = ["ORIGIN", "in flight", "queue", "addresses", "failed attempts", "no place"];
    table(&mut screen, head, &state.origins, |origin| {
        let Origin { name, inflight, queued, healthy, errors, shed, .. } = origin;
        let inflight = origin.limit.map_or(inflight.to_string(), |limit| format!("{inflight}/{limit}"));
        let healthy = format!("{healthy} of {}", origin.endpoints.len());
        [name.clone(), inflight, queued.to_string(), healthy, errors.to_string(), shed.to_string()]
    });
    let doors = state.contended_doors();
    let rows: Vec<(&str, &str, &Holder)> =
        doors.iter().flat_map(|(name, door)| door.rows().map(|(what, holder)| (*name, what, holder))).collect();
    let head = ["WHO HOLDS AND WAITS", "of", "class", "holds", "waits", "used lately"];
    table(&mut screen, head, &rows, |(of, what, holder)| {
        let Holder { name, criticality, held, waiting, used } = holder;
        let (name, used) = (format!("{what} {name}"), format!("{used:.1}"));
        [name, (*of).to_owned(), criticality.to_string(), held.to_string(), waiting.to_string(), used]
    });
    let head = ["LIMIT", "keys~", "fill", "admitted", "refused", "refused elsewhere", "shadow"];
    table(&mut screen, head, &state.limits, |limit| {
        let shadow = if limit.is_shadow() { " (shadow)" } else { "" };
        let fill = limit.fill.map(percent);
        let [admitted, limited, elsewhere, shadowed] =
            [limit.admitted(), limit.limited(), limit.refused_elsewhere, limit.shadowed()]
                .map(|count| count.to_string());
        [limit.name.clone() + shadow, or_nothing(limit.keys), or_nothing(fill), admitted, limited, elsewhere, shadowed]
    });
    let head = ["STORE", "state", "breaker", "gates", "questions", "without it", "knows others"];
    table(&mut screen, head, &state.stores, |store| {
        let known = store.staleness_seconds.map(|seconds| format!("as of {} ago", duration(seconds)));
        let (word, breaker) = (StoreWord::of(store).text().to_owned(), store.breaker.word().to_owned());
        let [nodes, questions, fallbacks] =
            [store.nodes.into(), store.questions, store.fallbacks].map(|n: u64| n.to_string());
        [store.name.clone(), word, breaker, nodes, questions, fallbacks, or_nothing(known)]
    });
    screen.extend(state.stores.iter().filter_map(store_line));
    if state.pardons > 0 {
        let _ = writeln!(screen, "\n{} pardoned: see `tidegate pardon --list`", state.pardons);
    }
    if state.bans > 0 {
        let _ = writeln!(screen, "\n{} banned: see `tidegate bans`", state.bans);
    }
    for waiting in &state.waiting_for_upgrade {
        let _ = writeln!(screen, "! waits for `tidegate upgrade`: {waiting}");
    }
    for Notice { text, hint, .. } in &state.notices {
        let _ = writeln!(screen, "! {text}\n    {hint}");
    }
    screen
}

/// Writes what became of the requests that were forwarded, by origin and by route, over the last seconds.
fn recent(screen: &mut String, state: &State) {
    let origins = state.origins.iter().map(|origin| (format!("origin {}", origin.name), &origin.recent));
    let forwards = state.routes.iter().filter(|route| route.recent.answers.total() > 0);
    let routes = forwards.map(|route| (format!("route {}", route.name), &route.recent));
    let rows: Vec<(String, &Recent)> = origins.chain(routes).collect();
    let Some(seconds) = rows.iter().map(|(_, recent)| recent.seconds).max() else { return };
    let _ = writeln!(screen, "\nWhat origins answered in the last {seconds} s:");
    let head = ["ANSWERS", "1xx", "2xx", "3xx", "4xx", "5xx", "failed", "cut", "p50", "p99", ""];
    table(screen, head, &rows, |(name, recent)| {
        let [one, two, three, four, five, failed, cut] = recent.answers.counts().map(|count| count.to_string());
        let time = |seconds: Option<f64>| or_nothing(seconds.map(duration));
        let fails = recent.answers.error_share().filter(|share| *share >= FAILS);
        let mark = fails.map_or(String::new(), |share| format!("FAILS {}", percent(share)));
        let (p50, p99) = (time(recent.p50_seconds), time(recent.p99_seconds));
        [name.clone(), one, two, three, four, five, failed, cut, p50, p99, mark]
    });
}

/// How a store stands, at a glance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoreWord {
    /// It answers, as far as is known.
    Answers,
    /// It is connected, and failed a moment ago.
    Fails,
    /// It has failed so often that it is not asked for a while.
    LeftAlone,
    /// Some servers of a cluster are asked, and others are not.
    Partly,
    /// It is not connected.
    Gone,
}

impl StoreWord {
    /// A fault that is younger than this, in seconds, may go on: a store that is left alone is tried again every ten seconds at least.
    const LATELY: u64 = 15;

    fn of(store: &StoreState) -> StoreWord {
        if (1..store.servers.len()).contains(&store.not_asked().len()) {
            return StoreWord::Partly;
        }
        match (store.connected, store.breaker, store.last_fault_seconds_ago) {
            (true, BreakerState::Closed, Some(ago)) if ago < StoreWord::LATELY => StoreWord::Fails,
            (true, BreakerState::Closed, _) => StoreWord::Answers,
            (true, _, _) => StoreWord::LeftAlone,
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

/// Servers named at most of those that are not asked.
const NAMED: usize = 3;

/// Says the last fault of a store, and what becomes of requests while it lasts; nothing of a store that never had a fault.
fn store_line(store: &StoreState) -> Option<String> {
    let StoreState { name, fallbacks, .. } = store;
    let ago = or_nothing(store.last_fault_seconds_ago.map(span));
    let told = store.last_fault.as_ref().map(|fault| format!("last fault {ago} ago: {fault}"));
    let below = told.as_ref().map(|told| format!("\n    {told}")).unwrap_or_default();
    let state = match StoreWord::of(store) {
        StoreWord::Answers => return told.map(|told| format!("  {name}: {told}\n")),
        StoreWord::Fails => "fails",
        StoreWord::LeftAlone => "is left alone after failures",
        StoreWord::Gone => "is not connected",
        StoreWord::Partly => {
            let away = store.not_asked();
            let named = away.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
            return Some(format!(
                "! store {name}: {} of {} servers not asked ({named}): limits go by their on_store_error for the keys \
                 of these alone, {fallbacks} decisions so far{below}\n",
                away.len(),
                store.servers.len()
            ));
        }
    };
    Some(format!(
        "! store {name} {state}: its limits go by their on_store_error, {fallbacks} decisions so far{below}\n"
    ))
}

/// Writes columns as wide as they need to be: names to the left, all else to the right. Without rows nothing.
fn table<const N: usize, T>(screen: &mut String, head: [&str; N], rows: &[T], cells: impl Fn(&T) -> [String; N]) {
    if rows.is_empty() {
        return;
    }
    let lines: Vec<[String; N]> = std::iter::once(head.map(str::to_owned)).chain(rows.iter().map(cells)).collect();
    screen.push('\n');
    screen.push_str(&columns(&lines, 3, &[0]));
}

fn or_nothing(value: Option<impl ToString>) -> String {
    value.map_or(NOTHING.to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::state::{Answers, Route};
    use crate::store::ServerState;

    #[test]
    fn an_origin_that_answers_500_to_everything_does_not_look_well() {
        let answers = Answers { success: 3, server_error: 27, ..Answers::default() };
        let recent = Recent { seconds: 10, answers, p50_seconds: Some(0.004), p99_seconds: Some(1.9) };
        let origin = Origin { name: "shop".to_owned(), healthy: 1, recent: recent.clone(), ..Origin::default() };
        let route = |name: &str, recent: Recent| Route { name: name.to_owned(), recent, ..Route::default() };
        let routes = vec![route("api", recent), route("quiet", Recent::default())];
        let screen = text(&State { origins: vec![origin], routes, ..State::default() });
        let expected = "What origins answered in the last 10 s:\n\n\
            ANSWERS       1xx   2xx   3xx   4xx   5xx   failed   cut    p50     p99\n\
            origin shop     0     3     0     0    27        0     0   4 ms   1.9 s   FAILS 90 %\n\
            route api       0     3     0     0    27        0     0   4 ms   1.9 s   FAILS 90 %\n";
        assert!(screen.contains(expected), "{screen}");
        assert!(!screen.contains("quiet"), "{screen}");
    }

    #[test]
    fn a_store_that_is_silent_does_not_look_well() {
        let well = StoreState {
            name: "s".to_owned(),
            connected: true,
            nodes: 3,
            questions: 12,
            fallbacks: 60,
            ..StoreState::default()
        };
        let store = |store: StoreState| text(&State { stores: vec![store], ..State::default() });
        let fault = |ago: u64| StoreState {
            last_fault: Some("cannot connect: refused".to_owned()),
            last_fault_seconds_ago: Some(ago),
            ..well.clone()
        };
        let mended = store(fault(67));
        assert!(mended.contains("  s: last fault 1 min 7 s ago: cannot connect: refused\n"), "{mended}");
        assert!(mended.contains("answers") && !mended.contains('!'), "{mended}");
        let failing = store(fault(2));
        assert!(failing.contains("FAILS") && failing.contains("! store s fails: "), "{failing}");
        let left = store(StoreState { breaker: BreakerState::Open, ..well.clone() });
        assert!(left.contains("LEFT ALONE") && left.contains("on_store_error, 60 decisions so far\n"), "{left}");
        let server = |port: u16, connected| ServerState {
            address: format!("10.0.0.1:{port}"),
            connected,
            breaker: BreakerState::Closed,
        };
        let servers = vec![server(1, true), server(2, false)];
        let partly = store(StoreState { breaker: BreakerState::Open, servers, ..well.clone() });
        assert!(
            partly.contains("PARTLY") && partly.contains("! store s: 1 of 2 servers not asked (10.0.0.1:2): "),
            "{partly}"
        );
        let gone = store(StoreState { connected: false, ..fault(1) });
        assert!(gone.contains("NOT CONNECTED"), "{gone}");
        let line = "! store s is not connected: its limits go by their on_store_error, 60 decisions so far\n    last \
                    fault 1 s ago: cannot connect: refused\n";
        assert!(gone.contains(line), "{gone}");
        let well = store(well);
        assert!(well.contains("\ns       answers    closed       3"), "{well}");
        assert!(!well.contains("fault") && !well.contains('!'), "{well}");
    }

    #[test]
    fn numbers_stand_below_each_other() {
        let mut screen = String::new();
        table(&mut screen, ["NAME", "x", "y", "z", "u"], &["a", "longer"], |name| {
            [(*name).to_owned(), "1".into(), "22".into(), or_nothing(None::<u64>), String::new()]
        });
        assert_eq!(screen, "\nNAME     x    y   z   u\na        1   22   –\nlonger   1   22   –\n");
    }
}
