//! `tidegate top`: the same numbers as everywhere else, as text, as JSON and in a terminal with somebody at its keys.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::admin::{OPEN, ask, gate, request, verb};
use crate::harness::gate::{binary, end};
use crate::harness::{Gate, wait_for};

/// Any Python 3: only its standard library is used.
const PYTHON: &str = "/usr/bin/python3";

const ABUSER: &str = "203.0.113.7";

/// A gate that has refused one client often and another once, and counted all of it.
fn after_refusals() -> Gate {
    let gate = gate(OPEN, "");
    for _ in 0..9 {
        request(&gate, ABUSER);
    }
    for _ in 0..3 {
        request(&gate, "198.51.100.9");
    }
    request(&gate, "192.0.2.1");
    gate.counts("tidegate_requests_total", &[], 13.0);
    gate
}

fn as_json(gate: &Gate) -> Value {
    let ended = verb(gate, &["top", "--once", "--format", "json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).expect("it is JSON")
}

/// The member of a list with this name.
fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name}: {list}"))
}

#[test]
fn one_look_says_what_metrics_and_endpoints_say() {
    let gate = after_refusals();
    // the history has the refusals when their second is over, and keeps them for minutes
    let told = wait_for("the refusals to be in the past", || {
        let told = as_json(&gate);
        let points = named(&told["limits"], "per_client")["ten_minutes"].as_array().unwrap().clone();
        assert_eq!(points.len(), 20);
        points.iter().any(|point| point.as_f64().unwrap() > 0.0).then_some(told)
    });
    assert_eq!((&told["schema"], &told["process"]), (&json!("tidegate.top/1"), &json!(gate.id())));
    let metrics = gate.metrics();
    assert_eq!(told["requests"]["ended"], json!(metrics.sum("tidegate_requests_total", &[]) as u64));
    assert_eq!(told["requests"]["refused"], json!(8));
    let limit = named(&told["limits"], "per_client");
    for verdict in ["allowed", "limited"] {
        let counted = metrics.sum("tidegate_limit_decisions_total", &[("limit", "per_client"), ("verdict", verdict)]);
        assert_eq!(limit["decisions"][verdict], json!(counted as u64), "{verdict}");
    }
    let same = |path: &str, list: &str, name: &str, members: &[&str]| {
        let (_, endpoint) = ask(&gate, "GET", path, &Value::Null);
        let (own, other) = (named(&told[list], name), named(&endpoint[list], name));
        members.iter().for_each(|member| assert_eq!(own[member], other[member], "{name} {member}"));
    };
    same("/api/v1/limits", "limits", "per_client", &["kind", "mode", "keys", "decisions"]);
    same("/api/v1/origins", "origins", "app", &["inflight", "limit", "queued", "shed", "errors", "healthy"]);
    // older refusals weigh less: a later look never says more than an earlier one
    let (_, later) = ask(&gate, "GET", "/api/v1/offenders", &Value::Null);
    let (own, other) = (&told["offenders"]["clients"], &later["offenders"]);
    assert_eq!(own.as_array().map(Vec::len), Some(2), "{own}");
    for (own, other) in own.as_array().unwrap().iter().zip(other.as_array().unwrap()) {
        assert_eq!((&own["client"], &own["limit"]), (&other["client"], &other["limit"]));
        let count = own["count"].as_u64().unwrap();
        assert!(count >= other["count"].as_u64().unwrap() && (1..=7).contains(&count), "{own} {other}");
    }

    let ended = verb(&gate, &["top", "--once", "--width", "90"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    println!("{}", ended.stdout);
    for words in ["LIMITS", "per_client", "ORIGINS", "0/7", "WHO", own[0]["client"].as_str().unwrap()] {
        assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
    }
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 90), "{}", ended.stdout);
    assert!(!ended.stdout.contains('\u{1b}') && !ended.stdout.contains(ABUSER), "{}", ended.stdout);
}

#[test]
fn without_a_terminal_or_a_server_it_says_what_to_do() {
    let no_terminal = end(binary().arg("top"));
    assert_eq!(no_terminal.code, Some(2));
    assert!(no_terminal.stderr.contains("`tidegate top --once`"), "{}", no_terminal.stderr);
    let nobody = end(binary().args(["top", "--once", "--admin", "/nonexistent/admin.sock"]));
    assert_eq!((nobody.code, nobody.stdout.as_str()), (Some(69), ""), "{}", nobody.stderr);
}

/// Runs `top` in a terminal of 100 by 30 with somebody who does these things; what the terminal showed.
fn in_terminal(gate: &Gate, steps: &Value) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gate/clients/terminal.py");
    let mut python = Command::new(PYTHON);
    python.arg(script).args(["100", "30", &steps.to_string()]).arg(env!("CARGO_BIN_EXE_tidegate"));
    python.args(["top", "--interval", "100ms", "--admin"]).arg(gate.admin_socket());
    let ended = end(&mut python);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let told: Value = serde_json::from_str(&ended.stdout).expect("what it showed is JSON");
    for what in ["restored", "main", "cursor"] {
        assert_eq!(told[what], true, "the terminal is as it was: {what}: {told}");
    }
    assert_eq!(told["status"], 0, "{told}");
    told
}

#[test]
fn somebody_at_the_keys_explains_and_pardons_a_client() {
    let gate = after_refusals();
    assert_eq!(request(&gate, ABUSER), 429);
    let steps = json!([
        { "until": "q quit" }, { "press": "?" }, { "until": "ctrl-c      quit" }, { "press": " " },
        { "press": "\r" }, { "until": "limited by `per_client`" }, { "press": " " },
        { "press": "p" }, { "until": "sudo tidegate pardon" }, { "press": "\r" }, { "until": "counts reset in per_client" },
        { "press": " " }, { "press": "q" },
    ]);
    let told = in_terminal(&gate, &steps);
    let first = told["screens"][0].as_str().unwrap();
    println!("{first}");
    // the line at the foot is drawn last
    assert!(first.starts_with("tidegate ") && first.contains("WHO, recently"), "{first}");
    assert_eq!(request(&gate, ABUSER), 200, "the most refused client was the chosen one");
}

#[test]
fn a_signal_ends_it_and_restores_the_terminal() {
    let gate = gate(OPEN, "");
    for signal in ["TERM", "INT", "HUP"] {
        in_terminal(&gate, &json!([{ "until": "no client was refused lately" }, { "signal": signal }]));
    }
    // what else were a signal is a key in a raw terminal
    in_terminal(&gate, &json!([{ "until": "WHO, recently" }, { "press": "\u{3}" }]));
}
