//! The gate is ready when its stores have answered, or when the time is over that the policy gives them: no first request is
//! decided without a store that is only far away.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::harness::gate::{Folder, binary, end};
use crate::harness::redis::Server;
use crate::harness::relay::Relay;
use crate::harness::{Connection, Gate, undisturbed, wait_for};

fn policy(port: u16, ready_within: &str) -> String {
    format!(
        "secrets: {{ client_hmac: \"one secret of all the gates\" }}
trusted_proxies: [127.0.0.0/8]
stores:
  shared: {{ url: \"redis://127.0.0.1:{port}\", timeout: 1s, ready_within: {ready_within} }}
limits:
  all: {{ rate: 50/s, burst: 100, store: shared, sharing: exact, on_store_error: closed }}
routes:
  - {{ name: page, limits: [all], respond: {{ status: 200, body: ok }} }}
listeners: {{ main: {{ address: \"127.0.0.1:0\" }} }}
telemetry:
  metrics: {{ address: \"127.0.0.1:0\" }}
  access_log: {{ to: ACCESS_LOG, sample: {{ refused: none }} }}
server: {{ overload: off, threads: 2, drain: {{ delay: 0s, timeout: 5s }} }}
"
    )
}

fn start(policy: &str) -> Gate {
    let folder = Folder::new();
    let mut command = binary();
    command.env("RUNTIME_DIRECTORY", folder.path());
    Gate::start_in(folder, Stdio::null(), command, policy)
}

/// The statuses of so many requests at once, each by a client of its own.
fn statuses(gate: &Gate, requests: usize) -> Vec<u16> {
    std::thread::scope(|scope| {
        let ask = |client| move || gate.fetch("/", &format!("X-Forwarded-For: 203.0.113.{client}\r\n")).status;
        let asked: Vec<_> = (0..requests).map(|client| scope.spawn(ask(client))).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    })
}

/// How many questions the store did not answer within the second that a policy allows it at most.
fn late(gate: &Gate) -> f64 {
    gate.metrics().sum("tidegate_store_errors_total", &[("reason", "timeout")])
}

/// Whether so many requests at once pass; `false` if questions were sent that the store answered too late, on a machine
/// that has too much to do. No other refusal is allowed.
fn pass(gate: &Gate, requests: usize, which: &str) -> bool {
    let before = late(gate);
    let statuses = statuses(gate, requests);
    let passed = statuses.iter().all(|status| *status == 200);
    assert!(passed || late(gate) > before, "{which}: {statuses:?}");
    passed
}

fn ready(gate: &Gate) -> u16 {
    Connection::open(gate.metrics_address()).ask("GET", "/readyz", "", b"").status
}

/// A store at 0.3 seconds.
fn far() -> (Server, Relay) {
    let store = Server::start(&[]);
    let relay = Relay::to(store.port);
    relay.delay(Duration::from_millis(150));
    (store, relay)
}

#[test]
fn no_request_of_a_start_or_an_upgrade_is_refused_for_a_store_that_is_far_away() {
    let (_store, relay) = far();
    undisturbed("a store that is far away", || {
        // so long that a machine with too much to do is not taken for a store that is silent
        let mut gate = start(&policy(relay.port, "15s"));
        if !pass(&gate, 40, "the first requests") {
            return None;
        }
        let upgraded = gate.upgrade();
        assert_eq!(upgraded.code, Some(0), "{}", upgraded.stderr);
        pass(&gate, 40, "the first requests of its successor").then_some(())
    });
}

#[test]
fn a_gate_is_not_ready_before_its_store_has_answered() {
    let store = Server::start(&[]);
    store.pause();
    let gate = start(&policy(store.port, "15s"));
    for _ in 0..20 {
        assert_eq!(ready(&gate), 503);
        std::thread::sleep(Duration::from_millis(10));
    }
    store.resume();
    wait_for("readiness", || (ready(&gate) == 200).then_some(()));
    undisturbed("the store", || pass(&gate, 10, "of a gate that is ready").then_some(()));
}

#[test]
fn a_store_that_says_nothing_holds_a_start_up_for_its_time_and_no_longer() {
    let mut store = Server::start(&[]);
    store.kill();
    let began = Instant::now();
    let gate = start(&policy(store.port, "300ms"));
    wait_for("readiness", || (ready(&gate) == 200).then_some(()));
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert_eq!(gate.fetch("/", "").status, 503, "closed");
    let line = "has not answered within 300ms: ready without it";
    wait_for(line, || gate.talk().contains(line).then_some(()));
}

#[test]
fn a_signal_ends_a_start_that_waits_for_a_store() {
    let mut store = Server::start(&[]);
    store.kill();
    let mut gate = start(&policy(store.port, "15s"));
    assert_eq!(ready(&gate), 503);
    let began = Instant::now();
    gate.signal("TERM");
    assert!(gate.exit_status().success());
    assert!(began.elapsed() < Duration::from_secs(15), "it waits for nobody");
}

#[test]
fn a_reload_to_another_store_is_in_force_when_that_has_answered() {
    let near = Server::start(&[]);
    let (_store, relay) = far();
    undisturbed("a reload to another store", || reloaded_to_another(&near, &relay));
}

/// `None` if a store was late.
fn reloaded_to_another(near: &Server, far: &Relay) -> Option<()> {
    let gate = start(&policy(near.port, "15s"));
    if !pass(&gate, 10, "by the store before") {
        return None;
    }
    let write = |text: &str| {
        let log = gate.folder().join("access.json").display().to_string();
        std::fs::write(gate.folder().join("tidegate.yaml"), text.replace("ACCESS_LOG", &log)).unwrap();
    };
    let reload = || end(binary().arg("reload").arg("--admin").arg(gate.admin_socket()));
    write(&policy(far.port, "15s"));
    let before = late(&gate);
    let (reloaded, during) = std::thread::scope(|scope| {
        let reloading = scope.spawn(reload);
        let mut during = Vec::new();
        while !reloading.is_finished() {
            during.push(gate.fetch("/", "X-Forwarded-For: 203.0.113.200\r\n").status);
            std::thread::sleep(Duration::from_millis(20));
        }
        (reloading.join().unwrap(), during)
    });
    assert_eq!(reloaded.code, Some(0), "{}", reloaded.stderr);
    assert!(reloaded.stdout.contains("  store      shared answered\n"), "{}", reloaded.stdout);
    if during.iter().any(|status| *status != 200) {
        assert!(late(&gate) > before, "by the store before: {during:?}");
        return None;
    }
    if !pass(&gate, 20, "by the new one") {
        return None;
    }

    let mut gone = Server::start(&[]);
    gone.kill();
    write(&policy(gone.port, "200ms"));
    let reloaded = reload();
    assert_eq!(reloaded.code, Some(0), "{}", reloaded.stderr);
    let told = "  store      shared has not answered within 200ms: its limits go by their on_store_error\n";
    assert!(reloaded.stdout.contains(told), "{}", reloaded.stdout);
    assert_eq!(gate.fetch("/", "").status, 503, "closed");
    Some(())
}
