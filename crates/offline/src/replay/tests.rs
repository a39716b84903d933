//! Policies over logs of our own, whose stamps are to the nanosecond: what a live gate keeps between requests is kept here.

use std::path::{Path, PathBuf};

use tidegate_http::path::EscapedSlash;

use super::ledger::Wanted;
use super::*;
use crate::answer::entry::SCHEMA;
use crate::config::load_text;
use crate::policy::Policy;

const SECOND: u64 = 1_000_000_000;
/// Of the first process, and of the one after it.
const ZERO: u64 = 1_795_255_200 * SECOND;
const LATER: u64 = ZERO + 3_600 * SECOND;

/// A request of a log: when it began by its process's stamps, how long it took, and what it was answered.
#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    zero: u64,
    at: u64,
    takes: u64,
    client: &'a str,
    status: u16,
}

const LINE: Line<'static> = Line { zero: ZERO, at: 0, takes: 1, client: "203.0.113.7", status: 200 };

impl Line<'_> {
    fn text(&self) -> String {
        format!(
            r#"{{"schema":"{SCHEMA}","at":{},"at_zero":{},"id":"000000000001A","client":"{}","client_mark":"verified","method":"GET","host":"a","path":"/","status":{},"verdict":"admitted","limits":[],"duration_ns":{},"bytes_out":5}}"#,
            self.at, self.zero, self.client, self.status, self.takes
        )
    }
}

fn policy(limits: &str, names: &str) -> Policy {
    let text = format!(
        "listen: \":8080\"\nclient_ip: {{ ipv6_prefix: 48 }}\nlimits: {{ {limits} }}\n\
         routes: [{{ origin: \"127.0.0.1:3000\", limits: [{names}] }}]\n"
    );
    let loaded = load_text("test.yaml", &text, &|_| None, Path::new("."));
    let told = crate::config::render::render(&loaded, crate::config::render::Format::Short, false);
    loaded.outcome.unwrap_or_else(|_| panic!("{told}")).policy
}

/// Everything in a log, with its paths and hosts as they are.
pub(super) fn all_of_it(wanted: Wanted) -> Question<'static> {
    Question {
        options: Options::default(),
        host: None,
        since: 0,
        until: u64::MAX,
        wanted,
        escaped_slash: EscapedSlash::Keep,
        name: &|_, client| client.network.to_string(),
    }
}

/// What the limits, by their names, make of the lines, which are put into the order in which a gate writes them.
fn replayed(name: &str, limits: &str, names: &str, lines: &[Line<'_>]) -> Outcome {
    let mut lines = lines.to_vec();
    lines.sort_by_key(|line| line.zero + line.at + line.takes);
    let text: String = lines.iter().map(|line| line.text() + "\n").collect();
    let file: PathBuf = std::env::temp_dir().join(format!("tidegate-replay-{name}-{}.log", std::process::id()));
    std::fs::write(&file, text).unwrap();
    let sources = Sources::open(&[Place::File(file.clone())], None).unwrap();
    let question = all_of_it(Wanted { route: None, exact: true });
    let outcome = simulate(sources, &question, policy(limits, names), None, |_, _| {}).unwrap().outcome;
    std::fs::remove_file(file).unwrap();
    assert_eq!((outcome.judged, outcome.tally.unreadable), (lines.len() as u64, 0));
    outcome
}

const HOURLY: &str = "hourly: { rate: 2/h, burst: 2 }";

#[test]
fn a_process_that_was_restarted_began_with_empty_limits() {
    let lines: Vec<Line<'_>> = [ZERO, LATER]
        .into_iter()
        .flat_map(|zero| (1..=3).map(move |second| Line { zero, at: second * SECOND, ..LINE }))
        .collect();
    let outcome = replayed("restart", HOURLY, "hourly", &lines);
    // with the state of the first, the second would have let one through in that hour
    assert_eq!(outcome.limits[0].limited, 2, "{outcome:#?}");
    assert!(outcome.notes.iter().any(|note| note.starts_with("2 processes wrote this")), "{:?}", outcome.notes);
    let error = outcome.limits[0].error.unwrap();
    assert_eq!((error.asked, error.wrongly_limited, error.most), (6, 0, 0));
    let one = replayed("alone", HOURLY, "hourly", &lines[..3]);
    assert!(one.notes.is_empty(), "{:?}", one.notes);
}

#[test]
fn processes_side_by_side_are_judged_each_by_its_own_limits() {
    // machines whose clocks began apart: stamps of the same moments
    let lines: Vec<Line<'_>> = (1..=3)
        .flat_map(|second| (0..3).map(move |machine| (second, machine)))
        .map(|(second, machine)| Line { zero: ZERO + machine * 7, at: second * SECOND - machine * 7, ..LINE })
        .collect();
    let outcome = replayed("beside", HOURLY, "hourly", &lines);
    assert_eq!(outcome.limits[0].limited, 3, "the third at each");
    assert_eq!(outcome.limits[0].error.map(|error| (error.asked, error.most)), Some((9, 0)));
}

const BY_ADDRESS: &str = "plain: { rate: 2/h, burst: 2 }, \
     nets: { key: \"client_ip:ipv4_prefix=24\", rate: 2/h, burst: 2 }, \
     partners: { rate: 2/h, burst: 2, exempt: [198.51.100.0/24] }, \
     tiers: { rate: 2/h, burst: 2, tiers: [{ when: { cidr: [198.51.100.0/24] }, rate: 4/h, burst: 4 }] }, \
     crowd: { type: fair_share, capacity: 1000/s, networks: { 24: 9 } }";

#[test]
fn limits_that_need_addresses_are_not_judged_on_pseudonyms() {
    let lines = [1, 2, 3].map(|second| Line { at: second * SECOND, client: "WFKv2W3eBYaKQPNsNYUHoA", ..LINE });
    let outcome = replayed("pseudonyms", BY_ADDRESS, "plain, nets, partners, tiers, crowd", &lines);
    let [plain, others @ ..] = outcome.limits.as_slice() else { panic!("no limits") };
    assert_eq!((plain.missing.as_deref(), plain.judged, plain.limited), (None, 3, 1));
    for limit in others {
        assert_eq!(limit.missing.as_deref(), Some("needs client addresses; this log has pseudonyms"), "{}", limit.name);
        assert_eq!((limit.judged, limit.limited), (0, 0), "{}", limit.name);
    }
    let lines = lines.map(|line| Line { client: "198.51.100.1", ..line });
    let outcome = replayed("addresses", BY_ADDRESS, "plain, nets, partners, tiers, crowd", &lines);
    let limited: Vec<_> = outcome.limits.iter().map(|limit| (limit.missing.as_deref(), limit.limited)).collect();
    assert_eq!(limited, [(None, 1), (None, 1), (None, 0), (None, 0), (None, 0)]);
}

#[test]
fn pseudonyms_are_told_apart_however_wide_the_clients_are_counted() {
    let names: Vec<String> = (0..3_000).map(|number| format!("pseudonym-of-many-{number:04}")).collect();
    let lines: Vec<Line<'_>> = names.iter().map(|client| Line { at: SECOND, client, ..LINE }).collect();
    let outcome = replayed("many", HOURLY, "hourly", &lines);
    assert_eq!((outcome.clients, outcome.limits[0].limited), (3_000, 0));
}

#[test]
fn who_is_held_back_is_charged_before_the_wait() {
    let slow = "slow: { rate: 1/s, burst: 1, action: { delay: { max: 3s } } }";
    let at_once = [LINE; 6].map(|line| Line { at: SECOND, ..line });
    let outcome = replayed("delay", slow, "slow", &at_once);
    let limit = &outcome.limits[0];
    assert_eq!((limit.judged, limit.delayed, limit.limited), (6, 3, 2));
    // whoever comes while they wait finds their charges, and after that the refill
    let mut later = at_once.to_vec();
    later.extend([2, 3].map(|second| Line { at: second * SECOND + SECOND / 2, ..LINE }));
    let outcome = replayed("delays", slow, "slow", &later);
    assert_eq!((outcome.limits[0].delayed, outcome.limits[0].limited), (5, 2));
}

#[test]
fn places_are_held_from_the_beginning_of_a_request_to_its_end() {
    let two = "two: { type: inflight, key: client_ip, max: 2 }";
    let line = |at: u64, takes: u64| Line { at: at * SECOND, takes: takes * SECOND, ..LINE };
    // the first two take ten seconds; the third comes between, the fourth when one place is free again
    let outcome = replayed("places", two, "two", &[line(1, 10), line(2, 10), line(3, 1), line(11, 5), line(11, 5)]);
    let limit = &outcome.limits[0];
    assert_eq!((limit.judged, limit.limited), (5, 2));
    let one_by_one: Vec<Line<'_>> = (0..9).map(|nth| line(nth, 1)).collect();
    assert_eq!(replayed("apart", two, "two", &one_by_one).limits[0].limited, 0);
}

#[test]
fn attempts_are_held_back_until_their_answers_and_charged_by_them() {
    let login = "login: { rate: 5/h, burst: 5, count: \"responses 401\" }";
    let lines = |status: u16, every: u64, takes: u64| -> Vec<Line<'static>> {
        (1..=9).map(|nth| Line { at: SECOND + nth * every, takes: takes * SECOND, status, ..LINE }).collect()
    };
    let limited = |name: &str, lines: &[Line<'_>]| replayed(name, login, "login", lines).limits[0].limited;
    assert_eq!(limited("wrong", &lines(401, 5 * SECOND, 1)), 4, "five wrong ones are charged");
    assert_eq!(limited("right", &lines(200, 5 * SECOND, 1)), 0, "right ones are free");
    assert_eq!(limited("open", &lines(200, 1_000, 5)), 4, "nobody knows yet whether they are right");
}
