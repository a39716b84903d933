//! A policy file is input: whatever is in it, loading ends soon, in bounded memory, without a panic.

use std::fs;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tidegate::config::render::{Format, render};
use tidegate::config::{Loaded, load, load_text};

use crate::{codes, environment, path, text};

/// Far above what any of these takes, far below what an attack would reach.
const SOON: Duration = Duration::from_secs(20);

#[track_caller]
fn refused_soon(policy: &str, code: &str) {
    let start = Instant::now();
    let loaded = text(policy);
    let told = render(&loaded, Format::Text, false);
    assert!(start.elapsed() < SOON, "took {:?}", start.elapsed());
    assert!(loaded.outcome.is_err());
    let codes: Vec<&str> = loaded.diagnostics.iter().map(|fault| fault.code.text()).collect();
    assert!(codes.contains(&code), "{codes:?}");
    assert!(told.len() < 1 << 20, "{} bytes of text", told.len());
}

#[test]
fn an_alias_bomb_is_stopped() {
    let mut bomb = "x-a: &a [a, a, a, a, a, a, a, a, a, a]\n".to_owned();
    for (from, to) in ["a", "b", "c", "d", "e", "f", "g", "h"].iter().zip(["b", "c", "d", "e", "f", "g", "h", "i"]) {
        bomb += &format!("x-{to}: &{to} [{}]\n", [format!("*{from}").as_str(); 10].join(", "));
    }
    refused_soon(&bomb, "E0007");
    let long = format!("x-a: &a {}\nx-b: [{}]\n", "a".repeat(1 << 20), ["*a"; 1_000].join(", "));
    refused_soon(&long, "E0007");
}

#[test]
fn deep_nesting_is_stopped() {
    refused_soon(&format!("x-a: {}", "[".repeat(100_000)), "E0007");
    refused_soon(&format!("x-a: {}", "{a: ".repeat(100_000)), "E0007");
    let steps: String = (0..1_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    refused_soon(&steps, "E0007");
}

#[test]
fn five_mebibytes_are_too_large() {
    refused_soon(&"# comment\n".repeat(1 << 19), "E0002");
    let file = std::env::temp_dir().join(format!("tidegate-large-{}.yaml", std::process::id()));
    fs::write(&file, "x".repeat(5 << 20)).unwrap();
    let loaded = load(&file, &environment);
    fs::remove_file(&file).unwrap();
    assert_eq!(loaded.diagnostics[0].code.text(), "E0002");
}

#[test]
fn a_file_of_nothing_but_faults_costs_no_more_than_its_length() {
    let file = |faults: usize| -> String { (0..faults).map(|nth| format!("fault_{nth:06}: 1\n")).collect() };
    let (short, long) = (file(10_000), file(100_000));
    let work = |policy: &str, left_out: usize| {
        let begun = processor_nanos();
        let loaded = text(policy);
        let told = render(&loaded, Format::Text, false);
        let worked = processor_nanos() - begun;
        assert!(loaded.outcome.is_err() && loaded.diagnostics.iter().any(|fault| fault.code.text() == "E0102"));
        assert!(loaded.diagnostics.len() <= 500 && loaded.left_out >= left_out, "{}", loaded.left_out);
        assert!(told.len() < 1 << 20, "{} bytes of text", told.len());
        worked
    };
    // ten times the faults are ten times the work, and would be a hundred times if every one looked at all others; one in
    // proportion is proof, as nothing makes less work of it
    let mut grown = Vec::new();
    while grown.len() < 8 && grown.last().is_none_or(|times| *times > 30.0) {
        let short = work(&short, 9_000);
        grown.push(work(&long, 99_000) as f64 / short.max(1) as f64);
    }
    assert!(grown.last().is_some_and(|times| *times <= 30.0), "ten times the faults are {grown:?} times the work");
}

/// The processor time of this thread. Not a time of day: neither a slow machine nor a busy one changes what it is compared with.
fn processor_nanos() -> u64 {
    let told = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    told.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_thousand_routes_are_checked_soon() {
    let routes: String = (0..1_000)
        .map(|nth| format!("  - {{ name: route_a{nth}, match: {{ path: /{nth} }}, origin: \"127.0.0.1:3000\", limits: [per_client] }}\n"))
        .collect();
    let policy = format!("listen: \":8080\"\nlimits: {{ per_client: {{ rate: 10/s }} }}\nroutes:\n{routes}");
    let start = Instant::now();
    assert!(text(&policy).outcome.is_ok());
    assert!(start.elapsed() < SOON, "took {:?}", start.elapsed());
}

#[test]
fn what_is_no_text_is_told_with_its_place() {
    let file = std::env::temp_dir().join(format!("tidegate-bytes-{}.yaml", std::process::id()));
    fs::write(&file, b"listen: \":8080\"\nroutes: \xff\n").unwrap();
    let loaded = load(&file, &environment);
    fs::remove_file(&file).unwrap();
    assert_eq!(loaded.diagnostics[0].code.text(), "E0003");
    assert_eq!(loaded.sources.position(loaded.diagnostics[0].at).line, 2);
    assert_eq!(codes("listen: \"\u{0}\"\n")[0], "E0004");
}

#[test]
fn line_breaks_of_other_systems_change_nothing() {
    let unix = "listen: \":8080\"\nroutes:\n  - origin: 127.0.0.1:3000\n    limit: 10/sec\n";
    let told = |policy: &str| render(&text(policy), Format::Text, false);
    assert_eq!(told(&unix.replace('\n', "\r\n")), told(unix));
    assert_eq!(told(&format!("\u{feff}{unix}")), told(unix));
}

fn complete() -> String {
    fs::read_to_string(path("conf/complete.yaml")).unwrap()
}

/// What every load must give, whatever it was given.
fn coherent(loaded: &Loaded) {
    let errors = loaded.diagnostics.iter().any(|fault| fault.code.text().starts_with('E'));
    assert_eq!(loaded.outcome.is_err(), errors);
    for format in [Format::Text, Format::Short, Format::Json, Format::Github] {
        render(loaded, format, true);
    }
}

/// One change of a text: a line doubled, removed or moved, a piece replaced by another.
fn mutated(text: &str, changes: &[(u8, usize, usize, String)]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (kind, one, other, piece) in changes {
        let (one, other) = (one % lines.len(), other % lines.len());
        match kind % 5 {
            0 => lines.swap(one, other),
            1 => lines[one] = lines[other].clone(),
            2 => lines[one] = piece.clone(),
            3 => {
                let cut = lines[one].char_indices().nth(other % 30).map_or(0, |(at, _)| at);
                lines[one].insert_str(cut, piece);
            }
            _ => {
                let cut = lines[one].char_indices().nth(other % 30).map_or(0, |(at, _)| at);
                lines[one].truncate(cut);
            }
        }
    }
    lines.join("\n")
}

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("${HIDDEN}".to_owned()),
        Just("*a".to_owned()),
        Just("- ".to_owned()),
        Just("<<: ".to_owned()),
        Just("\t".to_owned()),
        Just("99999999999999999999".to_owned()),
        Just("ü".to_owned()),
        Just("{".to_owned()),
        Just("]".to_owned()),
        Just(": ".to_owned()),
        Just("\"".to_owned()),
        "\\PC{0,12}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_change_of_the_complete_example_panics(
        changes in proptest::collection::vec((any::<u8>(), any::<usize>(), any::<usize>(), piece()), 1..6)
    ) {
        let loaded = load_text("mutated.yaml", &mutated(&complete(), &changes), &environment, &path("conf"));
        coherent(&loaded);
        if let Ok(config) = &loaded.outcome {
            let again = load_text("shown.yaml", &config.effective.to_yaml(), &environment, &path("conf"));
            let fingerprint = again.outcome.map(|again| again.fingerprint);
            prop_assert_eq!(fingerprint.ok(), Some(config.fingerprint.clone()));
        }
    }

    #[test]
    fn no_text_panics(policy in "[-a-z0-9:{}\\[\\]\"'*&!|>%#,~?$ \n\t]{0,200}") {
        coherent(&load_text("random.yaml", &policy, &environment, &path("conf")));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Otherwise a route that loads without a word would never take a request.
    #[test]
    fn a_path_that_is_accepted_is_one_that_requests_can_have(path in "/([a-c./;%\\[\\\\é]|%2[5eEfF]|%5[cC]|%3[bB]|%4[1b]){0,8}") {
        let policy = serde_json::json!({
            "listen": ":8080",
            "routes": [{ "match": { "path": { "exact": path } }, "origin": "127.0.0.1:3000" }]
        });
        if text(&policy.to_string()).outcome.is_ok() {
            let canonical = tidegate_http::path::canonical_path(path.as_bytes()).ok();
            prop_assert_eq!(canonical.as_deref(), Some(path.as_str()));
        }
    }
}
