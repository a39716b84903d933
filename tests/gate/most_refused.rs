//! `GET /api/v1/offenders`: whom the limits refuse most, by pseudonyms unless the log has addresses.

use serde_json::Value;

use crate::admin::ask;
use crate::explain::start;
use crate::harness::{Connection, Gate, wait_for};

const ABUSER: &str = "198.51.100.66";
const MANY: usize = 2_000;

fn gate(client: &str) -> Gate {
    start(&format!(
        "trusted_proxies: [127.0.0.0/8]
limits:
  per_client: {{ key: client_ip, rate: 1/h, burst: 1 }}
  spare: {{ key: client_ip, rate: 1000000/s, burst: 1000000 }}
routes:
  - {{ name: page, limits: [per_client, spare], respond: {{ status: 200, body: ok }} }}
telemetry:
  metrics: {{ address: \"127.0.0.1:0\" }}
  access_log: {{ to: ACCESS_LOG, client: {client}, sample: {{ limited: 100%, other: 100%, refused: none }} }}
"
    ))
}

fn page(gate: &Gate) -> (String, Value) {
    wait_for("the admin socket", || std::os::unix::net::UnixStream::connect(gate.admin_socket()).ok());
    let (status, page) = ask(gate, "GET", "/api/v1/offenders", &Value::Null);
    assert_eq!(status, 200, "{page}");
    (page.to_string(), page)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Two requests of each of many clients, the second refused, and in between one client without end. How often it was
/// refused.
fn abuse(gate: &Gate) -> u64 {
    let mut connection = gate.connect();
    let mut ask = |client: &str| {
        let answer = connection.ask("GET", "/", &format!("X-Forwarded-For: {client}\r\n"), b"");
        assert!(matches!(answer.status, 200 | 429), "{answer:?}");
        if !answer.keeps_connection() {
            connection = gate.connect();
        }
        u64::from(answer.status == 429)
    };
    let mut refused = 0;
    for n in 0..MANY {
        let client = match n % 2 {
            0 => format!("10.{}.{}.7", n / 250, n % 250),
            _ => format!("2a00:{n:x}:7::9"),
        };
        ask(&client);
        ask(&client);
        refused += ask(ABUSER) + ask(ABUSER);
    }
    refused
}

#[test]
fn an_abuser_among_many_is_the_first_and_nobody_is_named() {
    let gate = gate("pseudonym");
    let (_, empty) = page(&gate);
    assert_eq!((&empty["schema"], &empty["total"]), (&"tidegate.offenders/1".into(), &0.into()));
    assert_eq!(empty["offenders"].as_array().map(Vec::len), Some(0));

    let refused = abuse(&gate);
    assert_eq!(refused, 2 * MANY as u64 - 1);
    let (text, page) = page(&gate);
    let entries = page["offenders"].as_array().expect("a list");
    println!(
        "{} entries; total {}, error bound {}; first {}",
        entries.len(),
        page["total"],
        page["error_bound"],
        entries[0]
    );
    let first = &entries[0];
    let (count, error, bound) = (number(&first["count"]), number(&first["error"]), number(&page["error_bound"]));
    assert_eq!(first["limit"], "per_client");
    assert!(number(&first["last_seen_seconds_ago"]) < 60);
    // Counts fade by half with every minute, which may turn over once or twice while this runs; the share does not, as
    // everybody was refused all the time: the abuser has two thirds of all refusals.
    let total = number(&page["total"]);
    assert!(total <= 3 * MANY as u64, "{total}");
    assert!(error <= bound, "{first}");
    assert!(count - error <= refused, "never more than there were: {first}");
    assert!(count as f64 >= 0.5 * total as f64, "{first} of {total}");
    for (place, pair) in entries.windows(2).enumerate() {
        assert!(number(&pair[0]["count"]) >= number(&pair[1]["count"]), "in order at {place}");
    }
    // the same name as in the log, and no other
    let log = gate.log_of(4 * MANY);
    let pseudonym = first["client"].as_str().expect("a pseudonym");
    let lines = log.iter().filter(|entry| entry.client == pseudonym).count();
    assert_eq!(lines, 2 * MANY, "the first is the abuser, by the pseudonym that the log has for it");
    for raw in [ABUSER, "198.51.100", "10.", "2a00:"] {
        assert!(!text.contains(&format!("\"{raw}")), "{raw} is told: {text}");
    }
}

#[test]
fn addresses_are_told_where_the_log_tells_them() {
    let gate = gate("address");
    let mut connection = gate.connect();
    for client in [ABUSER, "2001:db8:9:8::77"] {
        for _ in 0..5 {
            connection.ask("GET", "/", &format!("X-Forwarded-For: {client}\r\n"), b"");
        }
    }
    let told = wait_for("both clients", || {
        let (_, page) = page(&gate);
        let entries = page["offenders"].as_array()?.clone();
        (entries.len() == 2).then_some(entries)
    });
    let mut clients: Vec<&str> = told.iter().filter_map(|entry| entry["client"].as_str()).collect();
    clients.sort_unstable();
    assert_eq!(clients, ["198.51.100.66", "2001:db8:9:8::/64"]);
}

#[test]
fn the_list_is_neither_on_the_public_listener_nor_at_the_metrics_address() {
    let gate = gate("address");
    let mut connection = gate.connect();
    for _ in 0..3 {
        connection.ask("GET", "/", &format!("X-Forwarded-For: {ABUSER}\r\n"), b"");
    }
    gate.counts("tidegate_requests_total", &[], 3.0);
    let asked = |path: &str| Connection::open(gate.metrics_address()).ask("GET", path, "Host: localhost\r\n", b"");
    // it serves a moment before it says so
    wait_for("readiness", || (asked("/readyz").status == 200).then_some(()));
    let answer = gate.fetch("/api/v1/offenders", "");
    assert_eq!((answer.status, answer.text().as_str()), (200, "ok"), "a path like any other there");
    for path in ["/most_refused", "/api/v1/offenders", "/api/v1/decisions", "/metrics", "/", "/healthz", "/readyz"] {
        let answer = asked(path);
        let known = matches!(path, "/metrics" | "/healthz" | "/readyz");
        assert_eq!(answer.status, if known { 200 } else { 404 }, "{path}");
        assert!(!answer.text().contains("198.51.100"), "{path} names a client: {}", answer.text());
    }
}
