//! Sockets that systemd passes: from socket units, and out of its descriptor store after a restart.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use crate::harness::gate::{Ended, Folder, end_with, run_to_end};
use crate::harness::load::Load;
use crate::harness::systemd::{Systemd, passing, port};
use crate::harness::{Connection, wait_for};

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

/// Starts, stops and starts again under load; `next` gives the socket and its name for each start.
fn restart_under_load(systemd: &Systemd, first: OwnedFd, name: &str, policy: &str, next: impl Fn() -> OwnedFd) {
    const RESTARTS: usize = 20;
    let mut gate = systemd.start_with_socket(name, first, policy);
    let load = Load::on(gate.address("main"));
    for _ in 0..RESTARTS {
        load.goes_on(40);
        let socket = next();
        gate.signal("TERM");
        assert_eq!(gate.exit_status().code(), Some(0));
        gate = systemd.start_with_socket(name, socket, policy);
    }
    load.goes_on(40);
    let answered = load.answered();
    assert_eq!(load.stop(), Vec::<String>::new());
    println!("{RESTARTS} restarts, {answered} requests, none failed");
}

#[test]
fn twenty_restarts_with_a_socket_unit_fail_no_request() {
    let (socket, _) = port();
    let hold = socket.try_clone().unwrap();
    let next = || OwnedFd::from(hold.try_clone().unwrap());
    restart_under_load(&Systemd::new(), socket.into(), "web", &activated(), next);
}

#[test]
fn twenty_restarts_with_the_descriptor_store_fail_no_request() {
    const NAME: &str = "tidegate.listener.main";
    let systemd = Systemd::new();
    let policy = format!("listeners: {{ main: {{ address: \"127.0.0.1:0\" }} }}\n{ROUTES}");
    let first = systemd.start(&[], "exec \"$0\" \"$@\"", Stdio::null(), &policy);
    let address = first.address("main");
    wait_for("the socket to be stored", || systemd.stored().contains(&NAME.to_owned()).then_some(()));
    // killed, not stopped: the socket outlives even that
    drop(first);
    let again = systemd.out_of_store(NAME);
    assert_eq!(TcpListener::from(again.try_clone().unwrap()).local_addr().unwrap(), address);
    restart_under_load(&systemd, again, NAME, &policy, || systemd.out_of_store(NAME));
    let stores = systemd.messages().iter().filter(|message| message.contains("FDSTORE=1")).count();
    assert_eq!(stores, 1, "what is stored is not stored again");
}

#[test]
fn a_stored_socket_that_is_not_wanted_any_more_is_released_before_its_address_is_bound() {
    let systemd = Systemd::new();
    let (socket, address) = port();
    let wildcard = format!("listeners: {{ main: {{ address: \"0.0.0.0:{}\" }} }}\n{ROUTES}", address.port());
    let gate = systemd.start_with_socket("tidegate.listener.main", socket.into(), &wildcard);
    assert_eq!(gate.address("main"), format!("0.0.0.0:{}", address.port()).parse().unwrap());
    let messages = systemd.messages();
    let place = |text: &str| messages.iter().position(|message| message.contains(text));
    assert!(place("FDSTOREREMOVE=1").unwrap() < place("BARRIER=1").unwrap(), "{messages:?}");
    systemd.wait_for("FDSTORE=1", 1);
    assert_eq!(systemd.stored(), ["tidegate.listener.main"]);
}
