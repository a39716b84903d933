//! On real logs: the table that the method was chosen by, and that what is promised is what the engine does.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::study::outline_policy;
use super::*;
use crate::config::fault::Severity;
use crate::config::{Loaded, load_text};
use crate::engine::Outcome;
use crate::policy::Policy;
use crate::replay::ledger::Wanted;
use crate::replay::simulate::simulate;
use crate::replay::tests::all_of_it;
use crate::replay::{Place, Sources};
use crate::sketch::KeyHash;
use crate::units::{Cost, Rate, Share, Timestamp};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(name)
}

fn loaded(text: &str) -> Loaded {
    load_text("suggested.yaml", text, &|_: &str| None, Path::new("."))
}

fn policy(text: &str) -> Policy {
    let loaded = loaded(text);
    let told: Vec<String> = loaded.diagnostics.iter().map(|fault| format!("{fault:?}")).collect();
    assert!(told.is_empty(), "{text}\n{told:#?}");
    loaded.outcome.unwrap().policy
}

/// Every decision that the engine makes of a log.
fn each(log: &str, policy: Policy, mut visit: impl FnMut(Timestamp, &crate::engine::Evaluation)) {
    let sources = Sources::open(&[Place::File(data(log))], None).unwrap();
    let question = all_of_it(Wanted::default());
    simulate(sources, &question, policy, None, |record, evaluation| {
        visit(Timestamp::from_nanos(record.start), evaluation)
    })
    .unwrap();
}

fn scope(skip_static: bool) -> Scope {
    Scope { key: "client_ip".into(), path: None, method: None, skip_static }
}

fn levels() -> Vec<Level> {
    Level::all(&[0.01, 0.001, 0.0001].map(|share| Share::new(share).unwrap()))
}

fn findings(log: &str, scope: &Scope, levels: Vec<Level>) -> Findings {
    let outline = || policy(&outline_policy(scope));
    let mut study = Study::by_class(scope, &outline(), Frontier::MOST_CLIENTS).unwrap();
    each(log, outline(), |now, evaluation| study.observe(evaluation.decision.route, evaluation.key(0), now));
    let mut findings = Findings::new(&study, scope.clone(), levels);
    each(log, outline(), |now, evaluation| findings.try_on(&study, evaluation.decision.route, evaluation.key(0), now));
    findings
}

/// A log, its clients, and rows of: rate as events per seconds, the peaks that half, 1 % and 0.1 % of clients exceed and
/// the highest, and with the burst of 0.1 % the clients and requests that are limited.
type Row = ((u32, u64), [f64; 4], (u64, u64));

#[test]
fn the_frontier_of_real_logs_is_the_one_that_was_found_by_other_means() {
    let table: [(&str, usize, &[Row]); 3] = [
        (
            "apache-combined-elastic.log.gz",
            1_753,
            &[
                ((1, 2), [1.0, 8.5, 46.5, 78.5], (1, 40)),
                ((1, 1), [1.0, 4.0, 20.0, 49.0], (1, 35)),
                ((2, 1), [1.0, 3.0, 6.0, 12.0], (1, 8)),
            ],
        ),
        (
            "nasa-1995-08-01.clf.gz",
            853,
            &[((1, 10), [3.5, 14.1, 23.4, 23.4], (0, 0)), ((1, 1), [2.0, 6.0, 12.0, 12.0], (0, 0))],
        ),
        ("shop-2019-combined.log.gz", 101, &[((1, 1), [1.0, 26.0, 28.0, 28.0], (0, 0))]),
    ];
    let everything = "listen: \":8080\"\nroutes: [{ origin: \"127.0.0.1:3000\", limit: 1/s }]\n";
    for (log, clients, rows) in table {
        let rate = |(events, seconds): (u32, u64)| Rate::new(events, Duration::from_secs(seconds)).unwrap();
        let rates: Vec<Rate> = rows.iter().map(|row| rate(row.0)).collect();
        let mut frontier = Frontier::new(rates.clone(), 10_000).unwrap();
        let mut requests: Vec<(Timestamp, KeyHash)> = Vec::new();
        each(log, policy(everything), |now, evaluation| requests.push((now, evaluation.key(0).unwrap())));
        for (now, key) in &requests {
            frontier.observe(*key, *now, Cost::ONE);
        }
        assert_eq!(frontier.clients(), clients, "{log}");
        for (place, (_, peaks, (limited, lost))) in rows.iter().enumerate() {
            let column = frontier.column(place).unwrap();
            let positions = [clients / 2, clients / 100, clients / 1_000, 0];
            let tenths = positions.map(|position| (column.peak(position) * 10.0).round() / 10.0);
            assert_eq!(tenths, *peaks, "{log} at {}", column.rate);
            let burst = column.burst(clients / 1_000);
            let mut trial = Trial::new(&frontier, place, column.rate, burst).unwrap();
            for (now, key) in &requests {
                _ = trial.observe(*key, *now, Cost::ONE);
            }
            assert_eq!((trial.clients().len() as u64, trial.refused()), (*limited, *lost), "{log} at {}", column.rate);
        }
    }
}

/// Whom each limit of a policy limits when a log is replayed through the engine, and how many requests they lose.
fn replayed(log: &str, text: &str) -> Vec<(String, BTreeSet<KeyHash>, u64)> {
    let names: Vec<String> = policy(text).rules.iter().map(|rule| rule.name.clone()).collect();
    let mut limited: Vec<_> = names.into_iter().map(|name| (name, BTreeSet::new(), 0)).collect();
    each(log, policy(text), |_, evaluation| {
        for reading in evaluation.decision.readings.iter().filter(|reading| reading.outcome == Outcome::Refused) {
            let client = evaluation.decision.client.unwrap().network.to_string();
            let (_, clients, lost) = &mut limited[reading.rule];
            clients.insert(name_key(&client));
            *lost += 1;
        }
    });
    limited
}

fn name_key(name: &str) -> KeyHash {
    let mut hasher = crate::sketch::KeyHasher::new(&crate::sketch::Seed::from_bytes([9; 16]));
    hasher.part(0, name.as_bytes());
    hasher.finish()
}

#[test]
fn every_proposal_touches_exactly_whom_it_promised_when_it_is_replayed() {
    let logs = [
        "apache-combined-elastic.log.gz",
        "nasa-1995-08-01.clf.gz",
        "shop-2019-combined.log.gz",
        "logs/attack-login-bruteforce.log",
        "logs/traefik-json-scan.log",
    ];
    let generous = Level::all(&[0.2, 0.05, 0.01].map(|share| Share::new(share).unwrap()));
    let mut proposals = 0;
    for log in logs {
        let all = [(true, levels()), (false, generous.clone())];
        for (skip_static, level) in all.iter().flat_map(|(skip, levels)| levels.iter().map(|level| (*skip, *level))) {
            let scope = scope(skip_static);
            let found = findings(log, &scope, vec![level]);
            // by the names that the engine gives to clients: the study knows their keys only
            let text = plan::policy(&scope, &found.limits(), &found.without());
            let replayed = replayed(log, &text);
            let promised: Vec<_> = found
                .groups
                .iter()
                .filter(|group| !found.is_idle(group))
                .flat_map(|group| group.proposals.iter().zip(&group.trials))
                .collect();
            assert_eq!(promised.len(), replayed.len(), "{log}");
            for ((proposal, trial), (name, clients, lost)) in promised.into_iter().zip(replayed) {
                assert_eq!(clients.len(), proposal.touched, "{log}: {name}");
                assert_eq!(lost, trial.refused(), "{log}: {name}");
                assert!(proposal.touched <= proposal.exact_touched && proposal.exact_touched <= proposal.allowed);
                proposals += 1;
            }
        }
    }
    assert!(proposals > 30, "{proposals}");
}

#[test]
fn the_exact_burst_touches_exactly_so_many_by_name_when_it_is_replayed() {
    let log = "apache-combined-elastic.log.gz";
    let scope = scope(true);
    let outline = || policy(&outline_policy(&scope));
    let mut study = Study::by_class(&scope, &outline(), Frontier::MOST_CLIENTS).unwrap();
    let mut names = std::collections::HashMap::new();
    each(log, outline(), |now, evaluation| {
        study.observe(evaluation.decision.route, evaluation.key(0), now);
        if let Some(key) = evaluation.key(0) {
            names.insert(key, name_key(&evaluation.decision.client.unwrap().network.to_string()));
        }
    });
    for level in levels() {
        let found = Findings::new(&study, scope.clone(), vec![level]);
        let proposal = &found.groups[0].proposals[0];
        let mut limits = found.limits();
        limits[0].burst = proposal.exact_burst;
        let replayed = &replayed(log, &plan::policy(&scope, &limits, &found.without()))[0];
        let promised: BTreeSet<KeyHash> = study.groups()[0]
            .frontier
            .touched(proposal.column, proposal.exact_burst)
            .iter()
            .map(|key| names[key])
            .collect();
        assert_eq!(promised.len(), proposal.exact_touched);
        assert_eq!(replayed.1, promised, "{}", replayed.0);
    }
}

#[test]
fn what_is_proposed_is_a_policy_without_a_fault_or_a_warning() {
    for log in ["apache-combined-elastic.log.gz", "nasa-1995-08-01.clf.gz", "shop-2019-combined.log.gz"] {
        let found = findings(log, &scope(true), levels());
        let text = super::text::yaml(&found, &text::Log::default());
        let loaded = loaded(&text);
        let faults: Vec<_> = loaded.diagnostics.iter().filter(|fault| fault.severity() >= Severity::Warning).collect();
        assert!(loaded.outcome.is_ok() && faults.is_empty(), "{text}\n{faults:?}");
        let shadows = loaded.outcome.unwrap().policy.rules.iter().all(|rule| rule.mode == crate::policy::Mode::Shadow);
        assert!(shadows, "{text}");
        assert_eq!(text.matches(", mode: shadow }").count(), 1, "one limit is recommended: {text}");
        assert!(text.contains("  site: { rate: ") && !text.contains("/m,"), "{text}");
    }
}

#[test]
fn a_share_below_one_client_is_told_as_no_measurement() {
    let found = findings("nasa-1995-08-01.clf.gz", &scope(false), levels());
    let text = super::text::text(&found, &text::Log::default());
    assert!(text.contains("0.1% or 0.01% of 853 clients is less than one"), "{text}");
    assert!(text.contains("use --touch 0.2% or a longer log"), "{text}");
}

#[test]
fn static_files_are_left_out_and_it_is_told() {
    let found = findings("nasa-1995-08-01.clf.gz", &scope(true), levels());
    assert!(found.uncounted.static_files > 4_000);
    assert!(found.notes().iter().any(|note| note.contains("requests for static files are left out")));
    let all = findings("nasa-1995-08-01.clf.gz", &scope(false), levels());
    // of 9,999; two have paths that a gate refuses
    assert_eq!((all.uncounted.static_files, all.groups[0].requests), (0, 9_997));
}

#[test]
fn one_client_that_is_all_is_an_alarm() {
    let scope = scope(false);
    let mut study = Study::by_class(&scope, &policy(&outline_policy(&scope)), 10).unwrap();
    let key = |name: &str| Some(name_key(name));
    for second in 0..100 {
        let client = if second % 10 == 0 { format!("client {second}") } else { "proxy".into() };
        study.observe(Some(3), key(&client), Timestamp::from_nanos(second * 1_000_000_000));
    }
    let found = Findings::new(&study, scope, levels());
    let alarm = found.alarm().unwrap();
    assert!(alarm.starts_with("one client makes 90 % of the requests: is a proxy missing"), "{alarm}");
    assert!(text::text(&found, &text::Log::default()).contains("WARNING: one client makes"));
}

#[test]
fn logins_that_a_log_shows_have_proposals_of_their_own() {
    let scope = scope(true);
    let (login, pages) = (Some(0), Some(3));
    let mut study = Study::by_class(&scope, &policy(&outline_policy(&scope)), 1_000).unwrap();
    for second in 0..1_200_u64 {
        let now = Timestamp::from_nanos(second * 1_000_000_000);
        let key = Some(name_key(&format!("client {}", second % 40)));
        (0..5).for_each(|_| study.observe(pages, key, now));
        if second % 40 == second / 40 {
            study.observe(login, Some(name_key(&format!("another client {second}"))), now);
        }
    }
    let found = Findings::new(&study, scope.clone(), levels());
    let names: Vec<&str> = found.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!((names, found.without()), (vec!["site", "login", "pages"], vec![Class::Api]));
    let policy = policy(&plan::policy(&scope, &found.limits(), &found.without()));
    let limits = |route: usize| {
        let route = policy.routes.route(route).unwrap();
        (route.name.as_str(), route.rules.len())
    };
    assert_eq!([limits(0), limits(1), limits(2)], [("login", 2), ("static", 0), ("pages", 1)]);
    assert!(found.is_idle(&found.groups[2]), "no client has more pages than requests");
    assert!(found.reason(&found.groups[1]).starts_with("too small to tell: 30 clients, fewer than 100"));
    let login = &found.groups[1].proposals[0];
    assert_eq!((login.exact_burst, login.exact_touched), (1, 0), "nobody logs in twice at once");
}

#[test]
fn a_header_as_the_key_and_one_path_make_a_policy_of_their_own() {
    let scope = Scope {
        key: "header:x-api-key".into(),
        path: Some("/api/it's".into()),
        method: Some("POST".into()),
        skip_static: true,
    };
    let policy = policy(&outline_policy(&scope));
    let names: Vec<&str> = policy.routes.iter().map(|route| route.name.as_str()).collect();
    assert_eq!(names, ["static", "chosen", "rest"]);
    let limited: Vec<usize> = policy.routes.iter().map(|route| route.rules.len()).collect();
    assert_eq!(limited, [0, 1, 0]);
}
