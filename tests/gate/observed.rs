//! What the operator sees: metrics that do not grow with traffic, and a log that names no one.

use crate::harness::{Connection, Gate, Origin, Reply, wait_for};

/// A policy with one of everything that makes series.
fn busy(origin: &Origin) -> Gate {
    Gate::start(&format!(
        "trusted_proxies: [127.0.0.0/8]
limits:
  per_client: {{ key: client_ip, rate: 100/s, burst: 3 }}
  per_key: {{ key: \"header:x-api-key\", missing: allow, rate: 100/s, burst: 3, mode: shadow }}
routes:
  - {{ name: api, match: {{ path: /api }}, limits: [per_client, per_key], respond: {{ status: 200, body: ok }} }}
  - {{ name: site, match: {{ path: /site }}, limits: [per_client], origin: \"{}\" }}
",
        origin.address()
    ))
}

#[test]
fn the_number_of_series_does_not_depend_on_what_clients_send() {
    let origin = Origin::that(Reply::Ok);
    let gate = busy(&origin);
    let methods = ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW", "M-SEARCH", "X1", "PROPFIND"];
    let ask = |range: std::ops::Range<usize>| {
        let mut connections: Vec<_> = (0..32).map(|_| gate.connect()).collect();
        for first in range.step_by(32) {
            for (number, connection) in (first..first + 32).zip(&mut connections) {
                let method = if number % 11 == 0 { "ODD" } else { methods[number % methods.len()] };
                let place = ["/api", "/site", "/nowhere"][number % 3];
                let request = format!(
                    "{method} {place}/{number}?q={number} HTTP/1.1\r\nHost: h{number}.example\r\nX-Api-Key: key-{number}\r\n\
                     X-Forwarded-For: 10.{}.{}.{}\r\nContent-Length: 0\r\n\r\n",
                    number >> 16,
                    number >> 8 & 255,
                    number & 255
                );
                connection.send(request.as_bytes()).unwrap();
            }
            for connection in &mut connections {
                let answer = connection.answer_to("GET").expect("an answer comes");
                if !answer.keeps_connection() {
                    *connection = gate.connect();
                }
            }
        }
    };
    ask(0..640);
    let (before, size) = (gate.metrics(), 10_016);
    ask(640..640 + size);
    let after = gate.metrics();
    assert_eq!(before.names(), after.names());
    assert!(after.count() < 500, "{} series", after.count());
    gate.counts("tidegate_requests_total", &[], (640 + size) as f64);
    for name in after.names() {
        assert!(!name.contains("10.") || name.contains("le=") || name.contains("version"), "{name}");
        assert!(!name.contains("BREW") && !name.contains("h7") && !name.contains("key-"), "{name}");
    }
}

#[test]
fn the_access_log_holds_pseudonyms_and_no_address() {
    let origin = Origin::that(Reply::Ok);
    let gate = busy(&origin);
    let mut connection = gate.connect();
    let clients = ["203.0.113.77", "2001:db8:99:1::5", "198.51.100.23"];
    for client in clients.iter().cycle().take(9) {
        let status = connection.ask("GET", "/site", &format!("X-Forwarded-For: {client}\r\n"), b"").status;
        assert_eq!(status, 200);
    }
    let log = gate.log_of(9);
    let text = gate.log_text();
    for address in ["203.0.113", "2001:db8", "198.51.100"] {
        assert!(!text.contains(address), "{address} is in the log: {text}");
    }
    for (place, entry) in log.iter().enumerate() {
        assert!(!entry.client.is_empty());
        assert_eq!(entry.client, log[place % 3].client, "one client has one pseudonym");
        assert_eq!((entry.status, entry.verdict.as_str(), entry.route.as_str()), (200, "admitted", "site"));
    }
    assert!(log[0].client != log[1].client && log[1].client != log[2].client && log[0].client != log[2].client);
    let talk = gate.talk();
    assert!(clients.iter().all(|client| !talk.contains(client)), "nor in the process's own log: {talk}");
}

#[test]
fn the_access_log_holds_addresses_where_the_operator_wants_them() {
    let gate = Gate::start(
        "trusted_proxies: [127.0.0.0/8]
routes:
  - { name: page, respond: { status: 200, body: ok } }
telemetry:
  metrics: { address: \"127.0.0.1:0\" }
  access_log: { to: ACCESS_LOG, client: address, sample: { limited: 100%, other: 100%, refused: none } }
",
    );
    assert_eq!(gate.fetch("/", "X-Forwarded-For: 203.0.113.77\r\n").status, 200);
    assert_eq!(gate.log_of(1)[0].client, "203.0.113.77");
}

#[test]
fn a_hostile_request_cannot_forge_a_line_of_the_log() {
    let origin = Origin::that(Reply::Ok);
    let gate = busy(&origin);
    let mut connection = gate.connect();
    let lines = "User-Agent: \"},{\"status\":500,\"x\":\"\r\nReferer: \\\"\\\\ \u{1F980}\r\n";
    assert_eq!(connection.ask("GET", "/site/%22%7D%7B%22verdict%22:%22refused?%0A}{%22", lines, b"").status, 200);
    let log = gate.log_of(1);
    assert_eq!((log[0].status, log[0].verdict.as_str()), (200, "admitted"));
}

#[test]
fn every_outcome_is_one_line_in_the_log() {
    let origin = Origin::start(|arrival| match arrival.target.as_str() {
        "/site/closes" => Reply::ThenClose(b""),
        _ => Reply::Ok,
    });
    let gate = busy(&origin);
    let mut connection = gate.connect();
    let mut ask = |path: &str| connection.ask("GET", path, "X-Forwarded-For: 192.0.2.1\r\n", b"");
    assert_eq!(ask("/nowhere").status, 404);
    assert_eq!(ask("/site").status, 200);
    let failed = ask("/site/closes");
    assert_eq!(failed.status, 502);
    if !failed.keeps_connection() {
        connection = gate.connect();
    }
    let statuses: Vec<u16> =
        (0..5).map(|_| connection.ask("GET", "/api", "X-Forwarded-For: 192.0.2.2\r\n", b"").status).collect();
    assert!(statuses.contains(&200));
    let log = gate.log_of(8);
    let seen: Vec<u64> = log.iter().map(|entry| entry.status).collect();
    let sent: Vec<u64> = [404, 200, 502].into_iter().chain(statuses).map(u64::from).collect();
    assert_eq!(seen, sent);
    assert!(log.iter().all(|entry| (entry.verdict == "refused") == matches!(entry.status, 404 | 429)), "{log:?}");
}

#[test]
fn the_metrics_page_is_not_on_the_public_listener() {
    let origin = Origin::that(Reply::Ok);
    let gate = busy(&origin);
    assert_eq!(gate.fetch("/metrics", "").status, 404);
    assert_eq!(gate.metrics().sum("tidegate_policy_generation", &[]), 1.0);
}

#[test]
fn readiness_ends_with_the_first_signal_and_requests_are_taken_until_the_delay_is_over() {
    let gate = Gate::start(
        "routes:
  - { name: page, respond: { status: 200, body: ok } }
server:
  overload: off
  drain: { delay: 60s, timeout: 1s }
",
    );
    let page =
        |path: &str| Connection::open(gate.metrics_address()).ask("GET", path, "Host: localhost\r\n", b"").status;
    wait_for("readiness", || (page("/readyz") == 200).then_some(()));
    assert_eq!((page("/healthz"), page("/nothing")), (200, 404));
    gate.signal("TERM");
    wait_for("readiness to end", || (page("/readyz") == 503).then_some(()));
    assert_eq!(page("/healthz"), 200);
    let answer = gate.fetch("/", "");
    assert_eq!(answer.status, 200);
    assert!(!answer.keeps_connection(), "clients are sent elsewhere: {answer:?}");
}
