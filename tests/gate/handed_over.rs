//! What requests that are under way in an upgrade cost, and hold: one count for both processes.

use std::process::Stdio;

use crate::harness::client::request;
use crate::harness::systemd::Systemd;
use crate::harness::{Connection, Gate, Latch, Origin, Reply, wait_for};

const RUN: &str = "exec \"$0\" \"$@\"";

fn start(systemd: &Systemd, origin: &Origin, limits: &str, routes: &str) -> Gate {
    let policy = format!(
        "listeners: {{ main: {{ address: \"127.0.0.1:0\" }} }}
origins: {{ app: {{ addresses: [\"{}\"], timeouts: {{ read: 60s, request: 60s }} }} }}
limits:
{limits}
routes:
{routes}
server: {{ overload: off, drain: {{ delay: 0s, timeout: 60s }} }}
telemetry: {{ metrics: {{ address: \"127.0.0.1:0\" }} }}
",
        origin.address()
    );
    let gate = systemd.start(&[], RUN, Stdio::null(), &policy);
    systemd.wait_for("READY=1", 1);
    gate
}

fn upgrade(gate: &mut Gate) -> u32 {
    let old = gate.id();
    let ended = gate.upgrade();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("connections waited for"), "{}", ended.stdout);
    old
}

fn line(key: &str) -> String {
    format!("Host: a\r\nx-key: {key}\r\n")
}

/// One more request of the key, on a connection of its own.
fn ask(gate: &Gate, path: &str, key: &str) -> u16 {
    gate.fetch(path, &format!("{}Connection: close\r\n", line(key))).status
}

fn gone(id: u32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{id}/status")) else { return true };
    status.lines().any(|line| line.starts_with("State:") && line.contains('Z'))
}

/// What the attacker of logins would do: open many connections, wait for an upgrade, and ask once on each.
#[test]
fn connections_that_the_old_process_has_open_get_no_budget_of_their_own() {
    const OPEN: usize = 40;
    const MAX: usize = 50;
    let systemd = Systemd::new();
    let origin = Origin::that(Reply::Ok);
    let limits = format!(
        "  rate: {{ key: header:x-key, missing: deny, rate: {MAX}/d, burst: {MAX} }}
  quota: {{ type: quota, key: header:x-key, missing: deny, max: {MAX}, window: 744h }}
  sliding: {{ type: quota, sliding: true, key: header:x-key, missing: deny, max: {MAX}, window: 744h }}"
    );
    let routes = "  - { match: { path: /rate }, limits: [rate], origin: app }
  - { match: { path: /quota }, limits: [quota], origin: app }
  - { match: { path: /sliding }, limits: [sliding], respond: { status: 200 } }";
    let mut gate = start(&systemd, &origin, &limits, routes);
    for path in ["/rate", "/quota", "/sliding"] {
        let mut open: Vec<Connection> = (0..OPEN).map(|_| gate.connect()).collect();
        let mut admitted = 0;
        let mut each = |open: &mut Vec<Connection>| {
            for connection in open {
                connection.send(&request("GET", path, &line("one"), b"")).unwrap();
                let answer = connection.answer_to("GET").unwrap();
                assert!(matches!(answer.status, 200 | 429), "{}", answer.status);
                admitted += usize::from(answer.status == 200);
            }
        };
        each(&mut open);
        upgrade(&mut gate);
        // the new one has ten left, and gives five away before the old one's connections ask
        let new = (0..5).filter(|_| ask(&gate, path, "one") == 200).count();
        each(&mut open);
        drop(open);
        let rest = (0..20).filter(|_| ask(&gate, path, "one") == 200).count();
        assert_eq!((admitted + new + rest, rest), (MAX, 0), "{path}: {admitted} there, {new} and {rest} here");
    }
}

/// Guesses that wait for their answers in the old process count in the new one, and cost there what the answers say.
#[test]
fn a_failure_under_way_in_the_old_process_is_charged_in_the_new_one() {
    let systemd = Systemd::new();
    let latch = Latch::default();
    let held = latch.clone();
    let origin = Origin::start(move |arrival| match arrival.target.as_str() {
        "/held" => Reply::Held(held.clone()),
        "/slow" => Reply::ThenStall(b""),
        _ => Reply::Bytes(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"),
    });
    let limits = "  login: { key: header:x-key, missing: deny, rate: 4/d, burst: 4, count: \"responses 200,401\" }";
    let mut gate = start(&systemd, &origin, limits, "  - { limits: [login], origin: app }");
    let send = |gate: &Gate| {
        let mut connection = gate.connect();
        connection.send(&request("GET", "/held", &line("guess"), b"")).unwrap();
        connection
    };
    let mut under_way: Vec<Connection> = (0..3).map(|_| send(&gate)).collect();
    origin.wait_for(3);
    // a kept connection, by which one more comes to the old process
    let mut kept = gate.connect();
    kept.send(&request("GET", "/nothing", "Host: a\r\nx-key: other\r\n", b"")).unwrap();
    assert_eq!(kept.answer_to("GET").unwrap().status, 401);
    let old = upgrade(&mut gate);
    // three are held back and one is left, which the old process takes by asking the new one
    kept.send(&request("GET", "/held", &line("guess"), b"")).unwrap();
    origin.wait_for(5);
    assert_eq!(ask(&gate, "/any", "guess"), 429, "all four are held back");
    assert_eq!(ask(&gate, "/any", "someone"), 401);
    latch.open();
    for connection in under_way.iter_mut().chain([&mut kept]) {
        assert_eq!(connection.answer_to("GET").unwrap().status, 200);
    }
    wait_for("the old process to go", || gone(old).then_some(()));
    // charged, not only held back
    assert_eq!(ask(&gate, "/any", "guess"), 429);
}

#[test]
fn places_that_the_old_process_holds_count_in_the_new_one_until_they_are_given_back() {
    let systemd = Systemd::new();
    let latches: [Latch; 6] = std::array::from_fn(|_| Latch::default());
    let of = latches.clone();
    let origin =
        Origin::start(move |arrival| match arrival.lines("x-latch").first().and_then(|at| at.parse::<usize>().ok()) {
            Some(at) => Reply::Held(of[at].clone()),
            None => Reply::Ok,
        });
    let limits = "  keyed: { type: inflight, key: header:x-key, missing: deny, max: 3 }
  all: { type: inflight, max: 3 }";
    let routes = "  - { match: { path: /keyed }, limits: [keyed], origin: app }
  - { match: { path: /all }, limits: [all], origin: app }";
    let mut gate = start(&systemd, &origin, limits, routes);
    for (round, (path, full)) in [("/keyed", 429), ("/all", 503)].into_iter().enumerate() {
        let before = origin.count();
        let mut hold = |at: usize| {
            let mut connection = gate.connect();
            let lines = format!("{}x-latch: {at}\r\n", line("one"));
            connection.send(&request("GET", path, &lines, b"")).unwrap();
            connection
        };
        let first = 3 * round;
        let mut held: Vec<Connection> = (first..first + 2).map(&mut hold).collect();
        let mut kept = gate.connect();
        kept.send(&request("GET", path, &line("other"), b"")).unwrap();
        assert_eq!(kept.answer_to("GET").unwrap().status, 200);
        origin.wait_for(before + 3);
        let old = upgrade(&mut gate);
        assert_eq!(ask(&gate, path, "one"), 200, "two of three are held");
        // the third, in the old process by asking the new one
        kept.send(&request("GET", path, &format!("{}x-latch: {}\r\n", line("one"), first + 2), b"")).unwrap();
        origin.wait_for(before + 5);
        assert_eq!(ask(&gate, path, "one"), full);
        latches[first].open();
        assert_eq!(held[0].answer_to("GET").unwrap().status, 200);
        wait_for("the place to come back", || (ask(&gate, path, "one") == 200).then_some(()));
        latches[first + 2].open();
        assert_eq!(kept.answer_to("GET").unwrap().status, 200);
        latches[first + 1].open();
        assert_eq!(held[1].answer_to("GET").unwrap().status, 200);
        wait_for("the old process to go", || gone(old).then_some(()));
        wait_for("all places to be free", || {
            (gate.metrics().sum("tidegate_limit_inflight_requests", &[]) == 0.0).then_some(())
        });
    }
}

#[test]
fn the_units_of_a_fair_share_are_not_there_again() {
    let systemd = Systemd::new();
    let origin = Origin::that(Reply::Ok);
    let limits =
        "  share: { type: fair_share, key: header:x-key, capacity: 1/m, burst: 8, reserve: 0%, queue: 1, wait: 1ms }";
    let mut gate = start(&systemd, &origin, limits, "  - { limits: [share], origin: app }");
    let admitted = |gate: &Gate, requests: usize| (0..requests).filter(|_| ask(gate, "/", "one") == 200).count();
    assert_eq!(admitted(&gate, 5), 5);
    upgrade(&mut gate);
    let after = admitted(&gate, 12);
    // a unit comes each minute
    assert!((3..=5).contains(&after), "{after} of 3");
    upgrade(&mut gate);
    assert!(admitted(&gate, 12) <= 2);
}
