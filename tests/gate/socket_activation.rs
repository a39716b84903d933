//! Sockets that systemd passes: from socket units, and out of its descriptor store after a restart.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use crate::harness::gate::{Ended, Folder, end_with, run_to_end};
use crate::harness::load::Ground;
use crate::harness::systemd::{Systemd, lasting_port, passing, port};
use crate::harness::{Connection, Gate, wait_for};

const ROUTES: &str = "routes:\n  - { name: page, respond: { status: 200, body: ok } }\ntelemetry: {}\n";

fn activated() -> String {
    format!("listeners: {{ main: {{ address: \"systemd:web\" }} }}\n{ROUTES}")
}

/// What becomes of a start with this descriptor, passed as often as there are redirections, under these names.
fn start(socket: impl Into<OwnedFd>, redirections: &str, names: &str, policy: &str) -> Ended {
    let folder = Folder::new();
    let file = folder.path().join("tidegate.yaml");
    std::fs::write(&file, policy).unwrap();
    let mut command = Systemd::new().command(&passing(redirections));
    command.env("LISTEN_FDNAMES", names).args(["run", "-c"]).arg(&file);
    end_with(Stdio::from(socket.into()), &mut command)
}

#[test]
fn a_socket_unit_is_served_at_its_own_address() {
    let systemd = Systemd::new();
    let (socket, address) = port();
    let gate = systemd.start_with_socket("web", socket.into(), &activated());
    assert_eq!(gate.address("main"), address);
    assert_eq!(gate.fetch("/", "").text(), "ok");
    systemd.wait_for("READY=1", 1);
    assert!(systemd.stored().is_empty(), "systemd has it already");
}

#[test]
fn a_connection_made_before_the_start_is_served() {
    let systemd = Systemd::new();
    let (socket, address) = port();
    let mut early = Connection::open(address);
    early.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let _gate = systemd.start_with_socket("web", socket.into(), &activated());
    assert_eq!(early.answer_to("GET").unwrap().status, 200);
}

#[test]
fn a_missing_socket_is_told_with_a_way_out_and_ends_with_71() {
    let (socket, _) = port();
    let two = "listeners: { main: { address: \"systemd:web\" }, second: { address: \"systemd:other\" } }\n";
    for ended in [
        run_to_end(&["run", "-c", "tidegate.yaml"], &activated()),
        start(socket, "3<&0", "other", &format!("{two}{ROUTES}")),
    ] {
        assert_eq!(ended.code, Some(71), "{}", ended.stderr);
        let said = &ended.stderr;
        assert!(said.contains("systemd:web") && said.contains("FileDescriptorName=web"), "{said}");
    }
}

#[test]
fn a_socket_that_no_listener_takes_is_told() {
    let (socket, address) = port();
    let ended = start(socket, "3<&0", "spare", &format!("listen: \"127.0.0.1:0\"\n{ROUTES}"));
    assert_eq!(ended.code, Some(71), "{}", ended.stderr);
    assert!(ended.stderr.contains("systemd:spare") && ended.stderr.contains(&address.to_string()), "{}", ended.stderr);
}

#[test]
fn two_sockets_of_one_name_are_told() {
    let (socket, _) = port();
    let ended = start(socket, "3<&0 4<&0", "web:web", &activated());
    assert_eq!(ended.code, Some(71), "{}", ended.stderr);
    assert!(ended.stderr.contains("two sockets called web"), "{}", ended.stderr);
}

#[test]
fn a_descriptor_that_does_not_listen_is_told() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let ended = start(socket, "3<&0", "web", &activated());
    assert_eq!(ended.code, Some(71), "{}", ended.stderr);
    assert!(ended.stderr.contains("web") && ended.stderr.contains("ListenStream="), "{}", ended.stderr);
}

#[test]
fn descriptors_of_another_process_are_left_alone() {
    let (socket, _) = port();
    let systemd = Systemd::new();
    let script = "export LISTEN_PID=1 LISTEN_FDS=1; exec \"$0\" \"$@\" 3<&0 </dev/null";
    let policy = format!("listeners: {{ main: {{ address: \"127.0.0.1:0\" }} }}\n{ROUTES}");
    let gate = systemd.start(&[("LISTEN_FDNAMES", "spare")], script, Stdio::from(OwnedFd::from(socket)), &policy);
    assert_eq!(gate.fetch("/", "").status, 200);
}

const RESTARTS: usize = 20;

/// Stops and starts again under load of every kind; `next` starts the gate of a generation.
fn restart_under_load(ground: &Ground, first: Gate, next: impl Fn(usize) -> Gate) {
    const EACH: usize = 20;
    let mut gate = first;
    let load = ground.load(&gate);
    for generation in 0..RESTARTS {
        load.is_served_by(generation, EACH);
        gate.signal("TERM");
        assert_eq!(gate.exit_status().code(), Some(0));
        assert!(!gate.talk().contains("cut off"), "{}", gate.talk());
        gate = next(generation + 1);
    }
    load.is_served_by(RESTARTS, EACH);
    let met = load.stop();
    println!("{RESTARTS} restarts:\n{}", met.by_each_of(0, RESTARTS).at_least((RESTARTS + 1) * EACH));
}

#[test]
fn twenty_restarts_with_socket_units_fail_no_request() {
    let (systemd, ground) = (Systemd::new(), Ground::new());
    let (clear, secure) = (port().0, port().0);
    let start = |generation| {
        let hold = |socket: &TcpListener| OwnedFd::from(socket.try_clone().unwrap());
        let sockets = [("web", hold(&clear)), ("webs", hold(&secure))];
        systemd.start_with_sockets(sockets, &ground.policy(generation, "systemd:web", "systemd:webs"))
    };
    restart_under_load(&ground, start(0), start);
}

#[test]
fn twenty_restarts_with_the_descriptor_store_fail_no_request() {
    const NAMES: [&str; 2] = ["tidegate.listener.main", "tidegate.listener.secure"];
    let (systemd, ground) = (Systemd::new(), Ground::new());
    let policy = |generation| ground.policy(generation, "127.0.0.1:0", "127.0.0.1:0");
    let first = systemd.start(&[], "exec \"$0\" \"$@\"", Stdio::null(), &policy(0));
    let address = first.address("main");
    wait_for("the sockets to be stored", || {
        let stored = systemd.stored();
        NAMES.iter().all(|name| stored.contains(&(*name).to_owned())).then_some(())
    });
    // killed, not stopped: the sockets outlive even that
    drop(first);
    let start = |generation| {
        let sockets = NAMES.map(|name| (name, systemd.out_of_store(name)));
        systemd.start_with_sockets(sockets, &policy(generation))
    };
    let again = start(0);
    assert_eq!(again.address("main"), address);
    restart_under_load(&ground, again, start);
    let stores = |name: &str| {
        let of_it = |message: &&String| message.contains("FDSTORE=1") && message.contains(name);
        systemd.messages().iter().filter(of_it).count()
    };
    assert_eq!(NAMES.map(stores), [1, 1], "what is stored is not stored again");
}

#[test]
fn a_stored_socket_that_is_not_wanted_any_more_is_released_before_its_address_is_bound() {
    let systemd = Systemd::new();
    let (socket, address) = lasting_port();
    let wildcard = format!("listeners: {{ main: {{ address: \"0.0.0.0:{}\" }} }}\n{ROUTES}", address.port());
    let gate = systemd.start_with_socket("tidegate.listener.main", socket.into(), &wildcard);
    assert_eq!(gate.address("main"), format!("0.0.0.0:{}", address.port()).parse().unwrap());
    let messages = systemd.messages();
    let place = |text: &str| messages.iter().position(|message| message.contains(text));
    assert!(place("FDSTOREREMOVE=1").unwrap() < place("BARRIER=1").unwrap(), "{messages:?}");
    systemd.wait_for("FDSTORE=1", 1);
    assert_eq!(systemd.stored(), ["tidegate.listener.main"]);
}
