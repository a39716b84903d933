//! A gate's own access log, replayed under the same policy: every decision is the same, limit by limit.
//!
//! What makes that hard is what is tested: stamps to the nanosecond, windows whose phase hangs on the wall clock, lines that are
//! written in the order in which requests ended, keys of several parts, tiers, exceptions and limits that only watch. Every
//! client asks from one thread, so that no two requests of one key race: of two that do, a log cannot tell which came first.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::harness::gate::{binary, end};
use crate::harness::{Connection, Gate};

const POLICY: &str = "
telemetry:
  metrics: { address: \"127.0.0.1:0\" }
  access_log: { to: ACCESS_LOG, client: address, sample: { limited: 100%, other: 100%, refused: none } }
trusted_proxies: [127.0.0.0/8]
limits:
  per_client:
    key: client_ip
    rate: 1/m
    burst: 3
    tiers:
      - { when: { cidr: [198.51.100.0/28] }, rate: 1/5s, burst: 15 }
      - { when: { cidr: [198.51.100.240/28] }, exempt: true }
  per_path: { key: [client_ip, path], rate: 1/h, burst: 1, mode: shadow }
  calls: { type: quota, key: [client_ip, method], max: 4, window: 1h, exempt: [203.0.113.0/29] }
  pages: { type: distinct, key: client_ip, of: path, max: 4, window: 10m }
  average: { type: recent_average, key: client_ip, rate: 4/m, half_life: 1m, count: all, max_penalty: 5m }
  gently: { key: client_ip, rate: 1/h, burst: 1, enforce: 50% }
  by_method: { type: quota, key: client_ip, max: 4, window: 1h, sliding: true, cost: { POST: 3 } }
  all: { type: quota, key: global, max: 25, window: 1h }
  blink: { type: quota, key: [client_ip, route], max: 2, window: 1s }
routes:
  - name: shop
    match: { path: /shop }
    respond: { status: 200, body: ok }
    limits: [per_client, per_path, calls, pages, average]
  - name: api
    match: { path: /api }
    respond: { status: 200, body: ok }
    limits: [gently, by_method, average, blink]
  - name: whole
    match: { path: /all }
    respond: { status: 200, body: ok }
    limits: [all]
";

/// Clients of every kind that the policy tells apart, of both families, none of which two threads share.
fn client(thread: u64, kind: u64, number: u64) -> String {
    let few = thread * 4 + number % 4;
    match kind {
        0 => format!("198.51.100.{few}"),
        1 => format!("198.51.100.{}", 240 + few),
        2 => format!("203.0.113.{few}"),
        3 => format!("2001:db8:{:x}::{number:x}", thread * 16 + number % 16),
        _ => format!("192.0.2.{}", thread * 60 + number % 60),
    }
}

/// A sequence without randomness that looks like one (Marsaglia 2003).
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn ask(connection: &mut Connection, client: &str, dice: u64) {
    let method = if dice.is_multiple_of(5) { "POST" } else { "GET" };
    let path = match dice >> 8 & 3 {
        0 => format!("/api/{}", dice >> 12 & 3),
        _ => format!("/shop/{}", dice >> 12 & 7),
    };
    let lines = format!("X-Forwarded-For: {client}\r\n");
    let answer = connection.ask(method, &path, &lines, b"");
    assert!(matches!(answer.status, 200 | 429), "{answer:?}");
}

/// What was decided, by id: verdict, reason, and of every limit name, mode, tier, outcome and what was left.
fn decisions(text: &str) -> BTreeMap<String, String> {
    let line = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|fault| panic!("{fault}: {line}"));
        let limits = value["limits"].as_array().expect("limits").iter().map(|limit| {
            let tier = limit["tier"].as_u64().unwrap_or(0);
            let [name, mode, outcome, left] = ["name", "mode", "outcome", "remaining"].map(|name| &limit[name]);
            format!("{name} {mode} {tier} {outcome} {left}")
        });
        let decided = format!("{} {} {}", value["verdict"], value["reason"], limits.collect::<Vec<_>>().join(", "));
        (value["id"].as_str().expect("an id").to_owned(), decided)
    };
    text.lines().map(line).collect()
}

#[test]
fn a_replay_of_its_own_log_decides_every_request_as_the_gate_did() {
    const THREADS: u64 = 4;
    const EACH: u64 = 600;
    let gate = Gate::start(POLICY);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let gate = &gate;
            scope.spawn(move || {
                let (mut dice, mut connection) = (0x9e37_79b9_7f4a_7c15 ^ thread, gate.connect());
                for _ in 0..EACH {
                    let rolled = next(&mut dice);
                    // some ask all the time, most now and then
                    let number = if rolled.is_multiple_of(4) { rolled >> 4 & 1 } else { rolled >> 20 & 63 };
                    ask(&mut connection, &client(thread, rolled % 6, number), rolled >> 8);
                }
            });
        }
    });
    let mut connection = gate.connect();
    for _ in 0..200 {
        connection.ask("GET", "/all", "X-Forwarded-For: 192.0.2.251\r\n", b"");
    }
    let total = (THREADS * EACH + 200) as usize;
    gate.log_of(total);
    let log = gate.log_text();
    let folder = gate.folder().to_owned();
    let (policy, own, out) = (folder.join("tidegate.yaml"), folder.join("access.json"), folder.join("decisions.json"));
    let mut replay = binary();
    replay.args(["replay", "--format", "json", "-q", "-c"]).arg(&policy).arg("--decisions").arg(&out).arg(&own);
    // more than a pipe holds
    let ended = replay.output().expect("the binary runs");
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let (lived, replayed) = (decisions(&log), decisions(&std::fs::read_to_string(&out).expect("decisions")));
    let differ: Vec<_> = lived.iter().filter(|(id, decided)| replayed.get(*id) != Some(decided)).collect();
    for (id, decided) in differ.iter().take(5) {
        println!("{id}\n  lived    {decided}\n  replayed {:?}", replayed.get(*id));
    }
    assert_eq!((lived.len(), replayed.len()), (total, total));
    assert_eq!(differ.len(), 0, "of {total}");
    // and the limits were no scenery
    let result: Value = serde_json::from_slice(&ended.stdout).expect("one document");
    for limit in result["limits"].as_array().expect("limits") {
        if limit["name"] == "blink" {
            // there for its windows; whether a client is that fast is the machine's affair
            continue;
        }
        assert!(limit["limited"].as_u64() > Some(0), "{} limited nobody", limit["name"]);
        assert!(limit["limited"].as_u64() < limit["judged"].as_u64(), "{} limited everybody", limit["name"]);
    }
    // what was decided then is decided again
    let refused = result["refused"].as_u64().expect("a number");
    let then = serde_json::json!({
        "admitted": { "admitted_now": total as u64 - refused, "refused_now": 0 },
        "refused": { "admitted_now": 0, "refused_now": refused },
        "refused_unfit": { "admitted_now": 0, "refused_now": 0 },
        "refused_without_line": 0,
    });
    assert_eq!(result["then"], then);
    assert!(lived.values().any(|decided| decided.contains("\"exempt\"")));
    assert!(lived.values().any(|decided| decided.contains("\"per_client\" \"enforce\" 1")));
}

/// A folder with a policy and a log of this text; the arguments are put between `replay -c FILE` and the log.
fn replay(policy: &str, log: &[u8], arguments: &[&str]) -> crate::harness::gate::Ended {
    let folder = crate::harness::gate::Folder::new();
    let (file, own) = (folder.path().join("tidegate.yaml"), folder.path().join("access.log"));
    std::fs::write(&file, policy).expect("the policy is written");
    std::fs::write(&own, log).expect("the log is written");
    let ended = end(binary().arg("replay").arg("-c").arg(&file).args(arguments).arg(&own).current_dir(folder.path()));
    drop(folder);
    ended
}

const TIGHT: &str = "
listen: \"127.0.0.1:0\"
limits:
  per_client: { key: client_ip, rate: 1/s, burst: 5 }
  by_key: { key: header:x-api-key, missing: allow, rate: 1/s }
  tenants: { type: inflight, key: client_ip, max: 2 }
routes:
  - { name: all, origin: 127.0.0.1:1, limits: [per_client, by_key, tenants] }
";

#[test]
fn a_real_log_is_judged_and_what_it_cannot_tell_is_said() {
    let log = include_bytes!("../data/logs/attack-dos-bypass-cache.log");
    let ended = replay(TIGHT, log, &["--format", "json", "--exact"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let result: Value = serde_json::from_str(&ended.stdout).expect("one document");
    assert_eq!(result["schema"], "tidegate.replay/1");
    assert_eq!((&result["judged"], &result["log"]["unreadable"]), (&Value::from(356), &Value::from(0)));
    let [client, key, tenants] = [0, 1, 2].map(|index| &result["limits"][index]);
    assert!(client["limited"].as_u64() > Some(100), "{client}");
    assert_eq!(client["error"]["wrongly_limited"], 0, "few keys do not meet in the sketch");
    assert_eq!(client["error"]["most"], 0);
    assert_eq!(key["not_replayable"], "needs header x-api-key; this log does not have it");
    assert_eq!(tenants["not_replayable"], "needs request durations; this log does not have them");
}

#[test]
fn a_condition_that_holds_is_the_answer_no_and_says_what_it_found() {
    let log = include_bytes!("../data/logs/attack-dos-bypass-cache.log");
    let ended = replay(TIGHT, log, &["--fail-if", "per_client.limited > 100"]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("tidegate: per_client.limited > 100: found "), "{}", ended.stderr);
    assert_eq!(replay(TIGHT, log, &["--fail-if", "per_client.limited > 1000"]).code, Some(0));
    let ended = replay(TIGHT, log, &["--fail-if", "per_klient.limited > 1"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("did you mean `per_client`?"), "{}", ended.stderr);
    assert_eq!(replay(TIGHT, b"no log\nat all\n", &[]).code, Some(71));
    assert_eq!(replay("listen: 1\n", log, &[]).code, Some(78));
}

#[test]
fn a_log_of_our_own_says_what_was_decided_then_beside_what_would_be_now() {
    let line = |(microsecond, more): (usize, &str)| {
        format!(
            r#"{{"schema":"tidegate.access/1","time":"2026-11-21T08:35:10.{microsecond:06}000Z","id":"000000000001A","client":"203.0.113.7","method":"GET","path":"/","route":"all","status":200,{more}"limits":[],"attempts":0,"duration_ns":1}}"#
        )
    };
    let (yes, no) = ("\"verdict\":\"admitted\",", "\"verdict\":\"refused\",\"reason\":\"limit\",");
    let full = "\"verdict\":\"refused\",\"reason\":\"overload\",";
    // of ten within ten microseconds five have room: the burst
    let log: Vec<String> = [no, full, yes, yes, yes, yes, yes, no, no, no].into_iter().enumerate().map(line).collect();
    let ended = replay(TIGHT, log.join("\n").as_bytes(), &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let lines = ended.stdout.lines().skip_while(|line| !line.starts_with("Decided then, as the log says"));
    let rows: Vec<&str> = lines.skip(1).take(3).map(str::trim_end).collect();
    let cells: Vec<Vec<&str>> =
        rows.iter().map(|row| row.split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect()).collect();
    assert_eq!(
        cells,
        [
            vec!["admitted then", "3", "2"],
            vec!["refused then", "1", "3"],
            vec!["refused then by overload, a full origin or a silent store", "1", "0"],
        ]
    );
    assert!(!ended.stdout.contains("had its say already"), "the table says more");
}

#[test]
fn two_policies_are_compared_by_requests_and_clients() {
    let log = include_bytes!("../data/logs/attack-dos-bypass-cache.log");
    let folder = crate::harness::gate::Folder::new();
    let old = folder.path().join("old.yaml");
    std::fs::write(&old, TIGHT.replace("rate: 1/s, burst: 5", "rate: 1/s, burst: 50")).expect("the policy is written");
    let against = old.display().to_string();
    let ended = replay(TIGHT, log, &["--against", &against, "--format", "json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let result: Value = serde_json::from_str(&ended.stdout).expect("one document");
    let newly = result["against"]["newly_limited"].as_u64();
    assert!(newly > Some(0), "{}", result["against"]);
    assert_eq!(result["against"]["freed"], 0);
    assert_eq!(result["refused"].as_u64(), newly.map(|newly| newly + result["against"]["refused"].as_u64().unwrap()));
}

#[test]
fn a_report_fits_a_wide_window_and_a_phone_in_light_and_dark() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = crate::harness::gate::Folder::new();
    let (file, report) = (folder.path().join("tidegate.yaml"), folder.path().join("report.html"));
    std::fs::write(&file, TIGHT).expect("the policy is written");
    let log = root.join("tests/data/shop-2019-combined.log.gz");
    let ended = end(binary().arg("replay").arg("-c").arg(&file).arg("--html").arg(&report).arg(log));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let axe = root.join("target/tools/axe/axe.min.js");
    let axe = axe.exists().then_some(axe);
    if axe.is_none() {
        crate::skips::skip("a report by axe-core's rules", "no target/tools/axe, which `./dev setup` fetches with npm");
    }
    let mut browser = std::process::Command::new("/usr/bin/python3");
    browser.arg(root.join("tests/gate/clients/report_browser.py")).arg(&report).args(&axe);
    let ended = end(&mut browser);
    let seen: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stderr));
    for (look, widest) in [("wide", 1_280.0), ("dark", 1_280.0), ("phone", 390.0)] {
        let told = &seen[look];
        if axe.is_some() {
            assert_eq!(told["violations"], Value::Array(Vec::new()), "{look}: axe-core says");
        }
        assert_eq!(told["too_wide"], 0, "{look}: one would have to scroll sideways");
        assert!(told["contrast"][0].as_f64() >= Some(4.5), "{look}: {}", told["contrast"]);
        assert_eq!(told["complaints"], Value::Array(Vec::new()), "{look}");
        let width = told["width"].as_f64().expect("a width");
        assert!((0.85 * widest..=widest).contains(&width), "{look}: {width} of {widest}");
        // real moments stand along the axis
        assert!(told["text"].as_str().expect("text").contains("UTC, 2019-"), "{look}: {}", told["text"]);
    }
}
