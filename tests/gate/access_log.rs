//! The access log as its readers have it: bounded in a flood, in a format that other tools read, rotated, changed by a reload.

use std::time::{Duration, Instant};

use regex::Regex;
use serde_json::Value;

use crate::harness::gate::{binary, end, on_the_way_asked_for};
use crate::harness::{Connection, Gate, wait_for};

const ROUTES: &str = "trusted_proxies: [127.0.0.0/8]
limits:
  per_client: { key: client_ip, rate: 1/h, burst: 3 }
routes:
  - { name: free, match: { path: /free }, respond: { status: 200, body: ok } }
  - { name: page, limits: [per_client], respond: { status: 200, body: ok } }
";

/// A gate whose access log says this.
fn start(access_log: &str) -> Gate {
    Gate::start(&policy(access_log))
}

fn policy(access_log: &str) -> String {
    format!(
        "{ROUTES}telemetry:\n  metrics: {{ address: \"127.0.0.1:0\" }}\n  access_log: {{ to: ACCESS_LOG{access_log} }}\n"
    )
}

fn ask(connection: &mut Connection, gate: &Gate, path: &str, client: &str) -> u16 {
    let answer = connection.ask("GET", path, &format!("X-Forwarded-For: {client}\r\n"), b"");
    if !answer.keeps_connection() {
        *connection = gate.connect();
    }
    answer.status
}

#[test]
fn a_flood_has_few_lines_that_say_how_many_refusals_they_stand_for_and_every_admitted_request_has_one() {
    let gate = start("");
    let mut connection = gate.connect();
    let (mut refused, mut admitted) = (0_u64, 0);
    let start = Instant::now();
    for number in 0..3_000 {
        let path = if number % 30 == 0 { "/free" } else { "/page" };
        match ask(&mut connection, &gate, path, "203.0.113.7") {
            200 => admitted += 1,
            429 => refused += 1,
            other => panic!("{other}"),
        }
    }
    let seconds = start.elapsed().as_secs() + 1;
    // after a second there is room again for a line, which stands for the rest
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(ask(&mut connection, &gate, "/page", "203.0.113.7"), 429);
    refused += 1;
    let lines: Vec<Value> = wait_for("the last refusal in the log", || {
        let text = gate.log_text();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let stand_for = |line: &Value| line["sampled"].as_u64().unwrap_or(1);
        let sum: u64 = lines.iter().filter(|line| line["verdict"] == "refused").map(stand_for).sum();
        (text.ends_with('\n') && sum >= refused).then_some(lines)
    });
    let of = |verdict: &str| lines.iter().filter(|line| line["verdict"] == verdict).collect::<Vec<_>>();
    let sampled: Vec<u64> = of("refused").iter().map(|line| line["sampled"].as_u64().unwrap_or(1)).collect();
    println!("{refused} refusals in {seconds} s, {} lines of {} bytes", sampled.len(), gate.log_text().len());
    assert_eq!(sampled.iter().sum::<u64>(), refused, "the lines stand for all refusals, no more");
    assert!(sampled.len() as u64 <= 100 + 100 * seconds + 1, "{} lines in {seconds} s", sampled.len());
    assert_eq!(of("admitted").len(), admitted);
    assert!(of("admitted").iter().all(|line| line["sampled"].is_null()));
    // who reads the log is told what it lacks
    let ended = end(binary().current_dir(gate.folder()).args(["replay", "-c", "tidegate.yaml"]).arg("access.json"));
    let left_out = refused - sampled.len() as u64;
    assert!(
        ended.stdout.contains(&format!("{left_out} refused requests have no line")),
        "{}{}",
        ended.stdout,
        ended.stderr
    );
    let limited = [("limit", "per_client"), ("verdict", "limited")];
    gate.counts("tidegate_limit_decisions_total", &limited, refused as f64);
}

#[test]
fn without_a_bound_every_refusal_has_its_line() {
    let gate = start(", sample: { refused: none }");
    let mut connection = gate.connect();
    let refused = (0..400).filter(|_| ask(&mut connection, &gate, "/page", "203.0.113.7") == 429).count();
    assert_eq!(refused, 397);
    assert_eq!(gate.log_of(400).len(), 400);
    assert!(!gate.log_text().contains("\"sampled\""));
}

/// What `fail2ban` makes of a line, by a filter as its manual has it: `<HOST>` stands for an address.
fn banned(log: &str) -> Vec<String> {
    let failregex = r#"^<HOST> -.*"(?:GET|POST|HEAD) [^"]*" 429 "#;
    let host = r"(?P<host>(?:[0-9]{1,3}\.){3}[0-9]{1,3}|[0-9a-fA-F:]+:[0-9a-fA-F:]*)";
    let filter = Regex::new(&failregex.replace("<HOST>", host)).unwrap();
    log.lines().filter_map(|line| Some(filter.captures(line)?["host"].to_owned())).collect()
}

#[test]
fn the_combined_format_is_read_by_other_tools() {
    let gate = start(", format: combined, client: address");
    let mut connection = gate.connect();
    for client in ["203.0.113.7", "203.0.113.7", "203.0.113.7", "203.0.113.7", "2001:db8::5"] {
        ask(&mut connection, &gate, "/page/%22%20429%20%22?q=1", client);
    }
    assert_eq!(gate.connect().ask("GET", "/free", "X-Forwarded-For: 192.0.2.1\r\n", b"").status, 200);
    // a head that is refused has a line without a client
    let mut faulty = gate.connect();
    faulty.send(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").unwrap();
    assert_eq!(faulty.answer_to("GET").unwrap().status, 400);
    let text = wait_for("seven lines", || Some(gate.log_text()).filter(|text| text.lines().count() == 7));
    let line = r#"(?m)^203\.0\.113\.7 - - \[\d\d/[A-Z][a-z]{2}/20\d\d(:\d\d){3} \+0000\] "GET /page/\S+ HTTP/1\.1" 200 2 "-" "-"$"#;
    assert_eq!(Regex::new(line).unwrap().find_iter(&text).count(), 3, "{text}");
    assert!(!text.contains("q=1"), "no line holds a query: {text}");
    assert_eq!(banned(&text), ["203.0.113.7"], "{text}");
    // the reader of nginx's and Apache's logs
    let ended = end(binary()
        .current_dir(gate.folder())
        .args(["replay", "-c", "tidegate.yaml", "--format", "json", "--log-format", "combined"])
        .arg(gate.folder().join("access.json")));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let log = &report["log"];
    assert_eq!(
        (&log["format"], &log["lines"], &log["requests"]),
        (&"nginx/Apache combined".into(), &7.into(), &7.into())
    );
    assert_eq!(report["refused"], 1, "as when it served: {report:#}");
}

#[test]
fn a_reload_turns_pseudonyms_into_addresses_and_back() {
    let gate = start("");
    let fetch = || assert_eq!(gate.fetch("/free", "X-Forwarded-For: 203.0.113.7\r\n").status, 200);
    let reload = |word: &str, number: f64| {
        let log = gate.folder().join("access.json").display().to_string();
        let text = policy(&format!(", client: {word}")).replace("ACCESS_LOG", &log);
        let rest = "listeners: { main: { address: \"127.0.0.1:0\" } }\nserver: { threads: 2, drain: { delay: 0s, timeout: 5s }, overload: off }\n";
        std::fs::write(gate.folder().join("tidegate.yaml"), on_the_way_asked_for(&(text + rest))).unwrap();
        gate.signal("HUP");
        gate.counts("tidegate_policy_generation", &[], number);
    };
    fetch();
    reload("address", 2.0);
    fetch();
    reload("pseudonym", 3.0);
    fetch();
    let clients: Vec<String> = gate.log_of(3).into_iter().map(|entry| entry.client).collect();
    assert_eq!(clients[1], "203.0.113.7");
    assert_eq!(clients[0], clients[2]);
    assert_eq!(clients[0].len(), 22, "{clients:?}");
    assert!(!gate.talk().contains("tidegate upgrade"), "nothing waits: {}", gate.talk());
}

#[test]
fn a_rotated_log_is_left_at_the_next_line_or_at_once_on_a_signal() {
    let gate = start("");
    let path = |name: &str| gate.folder().join(name);
    let lines = |name: &str| std::fs::read_to_string(path(name)).map_or(0, |text| text.lines().count());
    gate.fetch("/free", "");
    wait_for("a line", || (lines("access.json") == 1).then_some(()));
    std::fs::rename(path("access.json"), path("access.1")).unwrap();
    // whether it was moved is looked at once a second
    wait_for("lines in the new file", || {
        gate.fetch("/free", "");
        (lines("access.json") > 0).then_some(())
    });
    std::fs::rename(path("access.json"), path("access.2")).unwrap();
    gate.signal("HUP");
    wait_for("a new file without a request", || path("access.json").exists().then_some(()));
    let before = lines("access.2");
    gate.fetch("/free", "");
    wait_for("a line in the new file", || (lines("access.json") == 1).then_some(()));
    assert_eq!(lines("access.2"), before);
}
