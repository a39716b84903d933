//! The gate's own overload, made real by a bound on memory that the process has passed when it starts: no clock decides here.

use std::net::Ipv4Addr;

use crate::harness::gate::{Folder, binary, end};
use crate::harness::{Connection, Gate, Origin, Reply, wait_for};

/// Less than the program takes before its first connection.
const TINY: &str = "{ memory_limit: 1MiB, memory: 50% }";

/// A gate with a proxy that it trusts, an admin socket in its folder, and this for `server.overload`.
fn gate(origin: &Origin, overload: &str) -> Gate {
    let folder = Folder::new();
    let mut command = binary();
    command.env("RUNTIME_DIRECTORY", folder.path());
    let policy = format!(
        "trusted_proxies: [127.0.0.2]
server: {{ threads: 2, drain: {{ timeout: 5s }}, overload: {overload} }}
origins:
  app: {{ addresses: [\"{}\"] }}
routes:
  - {{ name: site, origin: app }}
",
        origin.address()
    );
    Gate::start_in(folder, std::process::Stdio::null(), command, &policy)
}

/// What a request got that a trusted proxy brings for this client; `None`: its connection was closed.
fn brought(gate: &Gate, client: &str) -> Option<crate::harness::Answer> {
    let mut proxy = Connection::open_from(Ipv4Addr::new(127, 0, 0, 2), gate.address("main"));
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n\r\n");
    proxy.send(request.as_bytes()).ok()?;
    proxy.answer_to("GET").ok()
}

/// Whether a connection of a client without a proxy was let in.
fn let_in(gate: &Gate, source: u8) -> bool {
    let mut client = Connection::open_from(Ipv4Addr::new(127, 0, 0, source), gate.address("main"));
    let sent = client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    sent.is_ok() && client.answer_to("GET").is_ok_and(|answer| answer.status == 200)
}

#[test]
fn without_memory_clients_are_closed_at_accept_and_those_behind_proxies_get_503() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate(&origin, TINY);
    wait_for("the gate to refuse", || (gate.metrics().sum("tidegate_overload_refusing", &[]) == 1.0).then_some(()));
    let before = origin.count();
    assert!(!let_in(&gate, 9) && !let_in(&gate, 10), "strangers are closed before a byte is read");
    let refused = || gate.metrics().sum("tidegate_connections_refused_total", &[("reason", "overload")]);
    wait_for("them to be counted", || (refused() >= 2.0).then_some(()));
    // of a proxy's connection nobody knows whom it carries: its requests are judged one by one
    let answer = brought(&gate, "203.0.113.5").expect("a proxy is let in");
    assert_eq!(answer.status, 503, "{answer:?}");
    // a second or two, by jitter
    assert!(matches!(answer.field("retry-after").as_deref(), Some("1" | "2")), "{answer:?}");
    assert_eq!(origin.count(), before, "nothing reached the origin");
    assert_eq!(gate.metrics().sum("tidegate_refused_requests_total", &[("reason", "overload")]), 1.0);
    assert_eq!(gate.metrics().sum("tidegate_pressure_ratio", &[("resource", "memory")]), 1.0);
    assert!(gate.talk().contains("the heaviest are refused"), "{}", gate.talk());
    let status = end(binary().args(["status", "--admin"]).arg(gate.admin_socket()));
    assert!(status.stdout.contains("pressure 100 % (memory, REFUSING)"), "{}", status.stdout);
}

#[test]
fn a_gate_that_has_room_refuses_nobody_and_says_how_much_it_has() {
    let origin = Origin::that(Reply::Ok);
    // a machine that runs all these tests at once is late by more than the default
    let gate = gate(&origin, "{ memory_limit: 1TiB, delay: 10s }");
    for source in 0..20 {
        assert!(let_in(&gate, 3 + source));
        assert_eq!(brought(&gate, "203.0.113.5").map(|answer| answer.status), Some(200));
    }
    let pressure = gate.metrics().sum("tidegate_pressure_ratio", &[]);
    assert!((0.0..0.5).contains(&pressure), "{pressure}");
    assert_eq!(gate.metrics().sum("tidegate_overload_refusing", &[]), 0.0);
    assert!(gate.metrics().sum("tidegate_scheduling_delay_seconds", &[]) < 10.0);
}

#[test]
fn off_is_off() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate(&origin, "off");
    assert!(let_in(&gate, 9));
    let page = Connection::open(gate.metrics_address()).ask("GET", "/metrics", "Host: localhost\r\n", b"").text();
    assert!(!page.contains("tidegate_pressure_ratio") && !page.contains("tidegate_overload_refusing"));
    let status = end(binary().args(["status", "--admin"]).arg(gate.admin_socket()));
    assert!(!status.stdout.contains("pressure"), "{}", status.stdout);
}
