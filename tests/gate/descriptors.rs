//! Descriptors run out for clients first: origins, metrics, orders and files still get theirs.

use std::net::SocketAddr;
use std::time::Duration;

use crate::harness::gate::{Folder, binary, end, shell};
use crate::harness::origin::{Arrival, Latch};
use crate::harness::talker::{Talker, request, talk};
use crate::harness::{Connection, Gate, Origin, Reply, wait_for};

/// A gate that may have this many files open, soft and hard, with an admin socket in its folder.
fn gate_with(files: &str, policy: &str) -> Gate {
    let folder = Folder::new();
    let mut command = shell(&format!("ulimit -n {files} && exec \"$0\" \"$@\""));
    command.env("RUNTIME_DIRECTORY", folder.path());
    Gate::start_in(folder, std::process::Stdio::null(), command, policy)
}

fn before(origin: &Origin, more: &str) -> String {
    format!(
        "origins:
  app: {{ addresses: [\"{}\"] }}
routes:
  - {{ name: site, origin: app }}
{more}",
        origin.address()
    )
}

/// Connections that send nothing, as many as are asked for: those beyond the gate's own wait in the kernel's queue.
fn crowd(address: SocketAddr, count: usize) -> Vec<Connection> {
    (0..count).map(|_| Connection::open(address)).collect()
}

fn open_files(gate: &Gate) -> f64 {
    gate.metrics().sum("process_open_fds", &[])
}

#[test]
fn a_crowd_of_idle_connections_leaves_descriptors_for_origins_metrics_and_orders() {
    let latch = Latch::default();
    let held = latch.clone();
    let origin = Origin::start(move |arrival| match arrival.target.as_str() {
        "/held" => Reply::Held(held.clone()),
        _ => Reply::Ok,
    });
    let gate = gate_with("160", &before(&origin, ""));
    let mut established: Vec<Connection> = (0..10).map(|_| gate.connect()).collect();
    assert!(established.iter_mut().all(|connection| connection.ask("GET", "/", "", b"").status == 200));
    let crowd = crowd(gate.address("main"), 300);
    let pauses = || gate.metrics().sum("tidegate_accept_pauses_total", &[("listener", "main")]);
    wait_for("accepting to stop", || (pauses() > 0.0).then_some(()));
    let stopped =
        wait_for("the line", || gate.talk().lines().find(|line| line.contains("accepting stops:")).map(str::to_owned));
    assert!(stopped.contains("160"), "{stopped}");
    // each of them takes a new connection to the origin, all at once, and keeps it
    for connection in &mut established {
        connection.send(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    }
    wait_for("all of them at the origin", || (origin.count() >= 20).then_some(()));
    for _ in 0..20 {
        let status = end(binary().args(["status", "--quiet", "--admin"]).arg(gate.admin_socket()));
        assert_eq!(status.code, Some(0), "{}", status.stderr);
        assert!(open_files(&gate) < 160.0);
    }
    let reload = end(binary().args(["reload", "--admin"]).arg(gate.admin_socket()));
    assert_eq!(reload.code, Some(0), "files can be read: {}", reload.stderr);
    latch.open();
    for connection in &mut established {
        assert_eq!(connection.answer_to("GET").unwrap().status, 200);
    }
    assert_eq!(gate.metrics().sum("tidegate_connections_refused_total", &[]), 0.0, "nobody was turned away");
    assert_eq!(gate.metrics().sum("tidegate_origin_errors_total", &[]), 0.0);
    drop(crowd);
    wait_for("new connections to be served", || (gate.fetch("/", "").status == 200).then_some(()));
    wait_for("the line", || gate.talk().contains("accepting goes on").then_some(()));
    assert_eq!(gate.talk().matches("accepting stops:").count(), 1, "{}", gate.talk());
}

#[test]
fn connections_that_wait_are_served_when_others_leave() {
    let origin = Origin::start(|_| Reply::Ok);
    let gate = gate_with("128", &before(&origin, ""));
    let mut crowd = crowd(gate.address("main"), 100);
    let pauses = || gate.metrics().sum("tidegate_accept_pauses_total", &[]);
    wait_for("accepting to stop", || (pauses() > 0.0).then_some(()));
    let mut last: Vec<Connection> = crowd.split_off(40);
    for connection in &mut last {
        connection.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    }
    drop(crowd);
    for connection in &mut last {
        assert_eq!(connection.answer_to("GET").unwrap().status, 200);
    }
    gate.counts("tidegate_connections", &[], 0.0);
}

#[test]
fn clients_with_many_requests_at_once_use_up_neither_orders_nor_the_good_name_of_the_origin() {
    let latch = Latch::default();
    let held = latch.clone();
    let script = move |arrival: &Arrival| match arrival.target.as_str() {
        "/held" => Reply::Held(held.clone()),
        _ => Reply::Ok,
    };
    let origins = [Origin::start(script.clone()), Origin::start(script)];
    let [one, other] = origins.each_ref().map(Origin::address);
    let policy = format!(
        "listeners: {{ main: {{ address: \"127.0.0.1:0\", protocols: [h2, http/1.1] }} }}
origins:
  app: {{ addresses: [\"{one}\", \"{other}\"], ejection: {{ consecutive_failures: 1 }} }}
routes:
  - {{ name: site, origin: app }}
"
    );
    let mut gate = gate_with("160", &policy);
    talk(async {
        let mut sent = Vec::new();
        for _ in 0..3 {
            let (mut talker, _) = Talker::open(gate.address("main")).await;
            for _ in 0..60 {
                sent.push(talker.send(request("GET", "/held", &[])).await.expect("it takes requests"));
            }
        }
        let refused = || gate.metrics().sum("tidegate_origin_errors_total", &[("reason", "connect")]);
        while refused() == 0.0 {
            // the connections are driven meanwhile
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        for _ in 0..5 {
            let status = end(binary().args(["status", "--quiet", "--admin"]).arg(gate.admin_socket()));
            assert_eq!(status.code, Some(0), "{}", status.stderr);
        }
        assert_eq!(gate.metrics().sum("tidegate_origin_endpoint_ejections_total", &[]), 0.0, "no fault of the origin");
        latch.open();
        let mut statuses = [0, 0];
        for answer in sent {
            match answer.await.expect("an answer").status().as_u16() {
                200 => statuses[0] += 1,
                502 => statuses[1] += 1,
                other => panic!("{other}"),
            }
        }
        println!("{} served, {} without a descriptor", statuses[0], statuses[1]);
        assert!(statuses[0] >= 40 && statuses[1] > 0, "{statuses:?}");
    });
    wait_for("the line", || gate.talk().contains("no file descriptor is left").then_some(()));
    assert_eq!(gate.fetch("/", "").status, 200);
    gate.comes_to_rest();
}

#[test]
fn a_gate_that_is_full_ends_in_its_time() {
    let origin = Origin::start(|_| Reply::Ok);
    let mut gate = gate_with("128", &before(&origin, ""));
    let crowd = crowd(gate.address("main"), 200);
    let pauses = || gate.metrics().sum("tidegate_accept_pauses_total", &[]);
    wait_for("accepting to stop", || (pauses() > 0.0).then_some(()));
    gate.signal("TERM");
    assert_eq!(gate.exit_within(Duration::from_secs(15)).code(), Some(0));
    drop(crowd);
}

#[test]
fn the_soft_limit_is_raised_to_the_hard_one_and_what_does_not_fit_is_said_with_numbers() {
    let origin = Origin::start(|_| Reply::Ok);
    // a shell's `-S` lowers the soft limit alone
    let gate = gate_with(
        "2000 && ulimit -S -n 100",
        &before(&origin, "listeners: { main: { address: \"127.0.0.1:0\", connections: { max: 500 } } }\n"),
    );
    assert_eq!(gate.metrics().sum("process_max_fds", &[]), 2000.0);
    let line =
        wait_for("the line", || gate.talk().lines().find(|line| line.contains("file descriptors")).map(str::to_owned));
    assert!(line.contains("2000") && line.contains("100"), "{line}");
    assert!(!gate.talk().contains("raise the limit"), "500 connections fit");
    let crowd = crowd(gate.address("main"), 400);
    gate.counts("tidegate_connections", &[("listener", "main")], 400.0);
    drop(crowd);
    let gate = gate_with(
        "1000",
        &before(&origin, "listeners: { main: { address: \"127.0.0.1:0\", connections: { max: 500 } } }\n"),
    );
    let line = wait_for("the line", || {
        gate.talk().lines().find(|line| line.contains("raise the limit to")).map(str::to_owned)
    });
    let number = |after: &str| -> u64 {
        let rest = line.split_once(after).unwrap_or_else(|| panic!("{after}: {line}")).1;
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
    };
    assert!(number("accepting stops at some ") < 500, "{line}");
    // and with what it asks for they fit
    let enough = number("raise the limit to ");
    let gate = gate_with(
        &enough.to_string(),
        &before(&origin, "listeners: { main: { address: \"127.0.0.1:0\", connections: { max: 500 } } }\n"),
    );
    wait_for("the line", || gate.talk().contains("file descriptors").then_some(()));
    assert!(!gate.talk().contains("raise the limit"), "{}", gate.talk());
    let crowd = crowd_of(&gate, 500);
    gate.counts("tidegate_connections", &[("listener", "main")], 500.0);
    assert_eq!(gate.metrics().sum("tidegate_accept_pauses_total", &[]), 0.0);
    drop(crowd);
}

fn crowd_of(gate: &Gate, count: usize) -> Vec<Connection> {
    crowd(gate.address("main"), count)
}

#[test]
fn a_crash_leaves_no_core_with_secrets() {
    let gate = gate_with(
        "1000 && ulimit -c unlimited 2>/dev/null; true",
        "routes:\n  - { name: page, respond: { status: 200, body: ok } }\n",
    );
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", gate.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(line.split_whitespace().nth(4), Some("0"), "{line}");
}
