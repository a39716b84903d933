//! Listeners on UNIX sockets: who may connect, what becomes of their file, and who their clients are.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::harness::gate::{Folder, run_to_end};
use crate::harness::{Gate, Origin, Reply, wait_for};

fn listening(path: &Path, more: &str) -> String {
    format!(
        "listeners:
  main: {{ address: \"127.0.0.1:0\" }}
  local: {{ address: \"unix:{}\"{more} }}
routes:
  - {{ name: page, limit: 2/h burst 2, respond: {{ status: 200, body: ok }} }}
",
        path.display()
    )
}

/// One exchange on a connection of its own.
fn ask(path: &Path) -> String {
    let mut stream = UnixStream::connect(path).expect("somebody listens");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn place(folder: &Folder) -> PathBuf {
    folder.path().join("http.sock")
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn clients_of_the_machine_are_served_and_the_file_goes_with_the_gate() {
    let folder = Folder::new();
    let path = place(&folder);
    let mut gate = Gate::start(&listening(&path, ""));
    wait_for("the socket", || path.exists().then_some(()));
    assert_eq!(mode(&path), 0o660);
    assert!(ask(&path).starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(ask(&path).starts_with("HTTP/1.1 200 OK\r\n"));
    // all of them are one client, and not the one that comes over TCP
    assert!(ask(&path).starts_with("HTTP/1.1 429 "));
    assert_eq!(gate.fetch("/", "").status, 200);
    gate.counts("tidegate_requests_total", &[("listener", "local")], 3.0);
    gate.signal("TERM");
    assert_eq!(gate.exit_status().code(), Some(0));
    assert!(!path.exists(), "the file goes with the gate");
}

#[test]
fn permissions_are_those_of_the_policy_file_whatever_the_umask() {
    let folder = Folder::new();
    let path = place(&folder);
    let _gate = Gate::start(&listening(&path, ", permissions: \"0622\""));
    wait_for("the socket", || path.exists().then_some(()));
    assert_eq!(mode(&path), 0o622);
}

#[test]
fn the_file_of_a_gate_that_was_killed_is_replaced() {
    let folder = Folder::new();
    let path = place(&folder);
    drop(Gate::start(&listening(&path, "")));
    assert!(path.exists(), "a killed process cannot clean up");
    let _gate = Gate::start(&listening(&path, ""));
    assert!(ask(&path).starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn a_socket_that_somebody_serves_and_a_file_that_is_none_are_left_alone() {
    let folder = Folder::new();
    let path = place(&folder);
    let other = UnixListener::bind(&path).unwrap();
    let ended = run_to_end(&["run", "-c", "tidegate.yaml"], &listening(&path, ""));
    assert_eq!(ended.code, Some(71), "{}", ended.stderr);
    assert!(ended.stderr.contains("another process listens there"), "{}", ended.stderr);
    drop(UnixStream::connect(&path).expect("the other is not disturbed"));
    drop(other);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    let ended = run_to_end(&["run", "-c", "tidegate.yaml"], &listening(&path, ""));
    assert_eq!(ended.code, Some(71), "{}", ended.stderr);
    assert!(ended.stderr.contains("it is no socket"), "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_trusted_peer_on_a_unix_socket_says_who_the_client_is() {
    let folder = Folder::new();
    let path = place(&folder);
    let origin = Origin::that(Reply::Ok);
    let _gate = Gate::start(&format!(
        "listeners: {{ main: {{ address: \"127.0.0.1:0\" }}, local: {{ address: \"unix:{}\" }} }}
trusted_proxies: [unix]
routes:
  - {{ name: site, origin: \"{}\", limit: 1/h burst 1 }}
",
        path.display(),
        origin.address()
    ));
    let ask_as = |client: &str| {
        let mut stream = UnixStream::connect(&path).unwrap();
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.get(9..12).unwrap_or_default().to_owned()
    };
    assert_eq!(ask_as("192.0.2.1"), "200");
    assert_eq!(ask_as("192.0.2.1"), "429");
    assert_eq!(ask_as("192.0.2.2"), "200");
}
