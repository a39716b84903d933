//! What systemd is told: ready when all listen and not before, signs of life, and the end.

use std::process::Stdio;

use crate::harness::systemd::Systemd;
use crate::harness::{Connection, wait_for};

const POLICY: &str = "listeners: { main: { address: \"127.0.0.1:0\" }, other: { address: \"127.0.0.1:0\" } }
routes:
  - { name: page, respond: { status: 200, body: ok } }
telemetry: { metrics: { address: \"127.0.0.1:0\" } }
";

const RUN: &str = "exec \"$0\" \"$@\"";

#[test]
fn readiness_is_told_when_every_listener_answers_and_the_end_when_it_begins() {
    let systemd = Systemd::new();
    let mut gate = systemd.start(&[], RUN, Stdio::null(), POLICY);
    systemd.wait_for("READY=1", 1);
    for listener in ["main", "other"] {
        assert_eq!(Connection::open(gate.address(listener)).ask("GET", "/", "", b"").status, 200);
    }
    let messages = systemd.messages();
    let ready = messages.iter().find(|message| message.contains("READY=1")).unwrap();
    assert!(ready.contains("STATUS=serving 2 listeners"), "{ready}");
    assert!(!messages.iter().any(|message| message.contains("STOPPING=1")), "{messages:?}");
    gate.signal("TERM");
    systemd.wait_for("STOPPING=1", 1);
    assert_eq!(gate.exit_status().code(), Some(0));
}

#[test]
fn a_gate_that_cannot_listen_is_never_ready() {
    let systemd = Systemd::new();
    let (_taken, address) = crate::harness::systemd::port();
    let policy = "routes:\n  - { name: page, respond: { status: 200 } }\n";
    let file = std::env::temp_dir().join(format!("tidegate-never-ready-{}.yaml", std::process::id()));
    std::fs::write(&file, format!("listen: \"{address}\"\n{policy}")).unwrap();
    let ended = crate::harness::gate::end(systemd.command(RUN).args(["run", "-c"]).arg(&file));
    let _ = std::fs::remove_file(&file);
    assert_eq!(ended.code, Some(71), "{}", ended.stderr);
    assert!(systemd.messages().iter().all(|message| !message.contains("READY=1")), "{:?}", systemd.messages());
}

#[test]
fn signs_of_life_come_while_the_process_runs_and_stop_when_it_is_held() {
    let systemd = Systemd::new();
    let gate = systemd.start(&[("WATCHDOG_USEC", "400000")], RUN, Stdio::null(), POLICY);
    systemd.wait_for("WATCHDOG=1", 5);
    gate.signal("STOP");
    // whatever was on its way has come once two looks see the same
    let mut last = usize::MAX;
    wait_for("the signs of life to stop", || {
        std::thread::sleep(crate::harness::systemd::A_WHILE);
        let count = systemd.messages().len();
        std::mem::replace(&mut last, count).eq(&count).then_some(())
    });
    gate.signal("CONT");
    let before = systemd.messages().iter().filter(|message| message.contains("WATCHDOG=1")).count();
    systemd.wait_for("WATCHDOG=1", before + 3);
}

#[test]
fn a_watchdog_of_another_process_is_not_fed() {
    let systemd = Systemd::new();
    let variables = [("WATCHDOG_USEC", "100000"), ("WATCHDOG_PID", "1")];
    let mut gate = systemd.start(&variables, RUN, Stdio::null(), POLICY);
    systemd.wait_for("READY=1", 1);
    gate.signal("TERM");
    gate.exit_status();
    assert!(systemd.messages().iter().all(|message| !message.contains("WATCHDOG=1")));
}

#[test]
fn listening_sockets_are_given_to_the_descriptor_store() {
    let systemd = Systemd::new();
    let _gate = systemd.start(&[], RUN, Stdio::null(), POLICY);
    systemd.wait_for("READY=1", 1);
    let mut stored = systemd.stored();
    stored.sort();
    assert_eq!(stored, ["tidegate.listener.main", "tidegate.listener.other", "tidegate.metrics.metrics"]);
}
