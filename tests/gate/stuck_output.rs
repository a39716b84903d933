//! What the process writes is read by somebody else, who may stop reading: service, metrics, orders and the end go on.

use std::io::{PipeReader, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::harness::gate::{Folder, binary, end};
use crate::harness::origin::refusing;
use crate::harness::ports::own_port;
use crate::harness::{Connection, Gate, Origin, PATIENCE, Reply, wait_for};

/// The reading end of a channel, of a kind that processes have as standard error or output. Nobody reads it.
enum Unread {
    Pipe(#[expect(dead_code, reason = "held open")] PipeReader),
    Socket(#[expect(dead_code, reason = "held open")] UnixStream),
}

/// Whoever waits for a reader waits for ever, so any end will do.
const SOON: Duration = Duration::from_secs(20);

/// A pipe that takes no more bytes.
fn full_pipe() -> (Unread, OwnedFd) {
    let (reader, writer) = std::io::pipe().unwrap();
    (Unread::Pipe(reader), full(writer.into()))
}

/// A connection to a journal that takes no more bytes.
fn full_socket() -> (Unread, OwnedFd) {
    let (reader, writer) = UnixStream::pair().unwrap();
    (Unread::Socket(reader), full(writer.into()))
}

fn full(end: OwnedFd) -> OwnedFd {
    let flags = fcntl_getfl(&end).unwrap();
    fcntl_setfl(&end, flags | OFlags::NONBLOCK).unwrap();
    let mut file = std::fs::File::from(end);
    for size in [4096, 1] {
        while file.write(&vec![b'.'; size]).is_ok() {}
    }
    fcntl_setfl(&file, flags).unwrap();
    file.into()
}

/// A gate whose addresses are known beforehand, as it may not be able to say them.
struct Mute {
    child: std::process::Child,
    folder: Folder,
    main: SocketAddr,
    metrics: SocketAddr,
}

impl Mute {
    fn start(policy: &str, log: &str, stdout: Stdio, stderr: Stdio) -> Mute {
        Mute::start_as(binary(), policy, log, stdout, stderr)
    }

    fn start_as(mut command: Command, policy: &str, log: &str, stdout: Stdio, stderr: Stdio) -> Mute {
        let folder = Folder::new();
        let [main, metrics] = [(); 2].map(|()| SocketAddr::from(([127, 0, 0, 1], own_port())));
        let file = folder.path().join("tidegate.yaml");
        let log = log.replace("FOLDER", &folder.path().display().to_string());
        let policy = format!(
            "listeners: {{ main: {{ address: \"{main}\" }} }}
server: {{ overload: off, threads: 2, drain: {{ delay: 0s, timeout: 5s }} }}
telemetry:
  metrics: {{ address: \"{metrics}\" }}
  access_log: {{ to: {log}, sample: {{ limited: 100%, other: 100%, refused: none }} }}
{policy}"
        );
        std::fs::write(&file, policy).unwrap();
        command.arg("run").arg("-c").arg(&file).env("RUNTIME_DIRECTORY", folder.path()).current_dir(folder.path());
        let child = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn().unwrap();
        let gate = Mute { child, folder, main, metrics };
        wait_for("the gate to serve", || {
            let mut connection = Connection::try_open(metrics).ok()?;
            (connection.ask("GET", "/readyz", "", b"").status == 200).then_some(())
        });
        gate
    }

    fn ask(&self, path: &str) -> u16 {
        Connection::open(self.main).ask("GET", path, "", b"").status
    }

    fn number(&self, metric: &str, labels: &[(&str, &str)]) -> f64 {
        let answer = Connection::open(self.metrics).ask("GET", "/metrics", "Host: localhost\r\n", b"");
        assert_eq!(answer.status, 200);
        crate::harness::Metrics::parse(&answer.text()).sum(metric, labels)
    }

    fn verb(&self, arguments: &[&str]) -> crate::harness::gate::Ended {
        end(binary().args(arguments).arg("--admin").arg(self.folder.path().join("private/admin.sock")))
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("sh").arg("-c").arg(format!("kill -{name} {}", self.child.id())).status();
        assert!(sent.unwrap().success());
    }

    /// Waits for its end; the code, and how long it took.
    fn ended(&mut self) -> (Option<i32>, Duration) {
        let start = Instant::now();
        let status = wait_for("the gate to go", || self.child.try_wait().unwrap());
        (status.code(), start.elapsed())
    }
}

impl Drop for Mute {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Routes whose requests are refused by a fair share, answered, and lost to a dead origin.
fn policy(origin: &Origin, dead: std::net::SocketAddr) -> String {
    format!(
        "limits:
  fair: {{ type: fair_share, capacity: 5/s, burst: 5, wait: 1ms }}
origins:
  app: {{ addresses: [\"{}\"] }}
  dead: {{ addresses: [\"{dead}\"] }}
routes:
  - {{ name: crowded, match: {{ path: /crowded }}, limits: [fair], respond: {{ status: 200, body: ok }} }}
  - {{ name: dead, match: {{ path: /dead }}, origin: dead }}
  - {{ name: site, origin: app }}
",
        origin.address()
    )
}

/// Refusals, errors and malformed requests by the hundred, over some seconds of housekeeping; honest requests all the while.
fn everything_is_served(gate: &Mute) {
    let start = Instant::now();
    let mut refused = 0;
    while refused < 300 || start.elapsed() < Duration::from_secs(3) {
        let statuses = (0..20).map(|_| gate.ask("/crowded"));
        refused += statuses.filter(|status| *status == 503).count();
        assert_eq!(gate.ask("/dead"), 502);
        let mut malformed = Connection::open(gate.main);
        malformed.send(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").unwrap();
        assert_eq!(malformed.answer_to("GET").unwrap().status, 400);
        assert_eq!(gate.ask("/"), 200, "after {refused} refusals");
        assert!(start.elapsed() < PATIENCE, "only {refused} refusals");
    }
    assert_eq!(gate.verb(&["status", "--quiet"]).code, Some(0), "orders are heard");
}

#[test]
fn a_standard_error_that_nobody_reads_stops_nothing_and_what_is_lost_is_counted() {
    let origin = Origin::start(|_| Reply::Ok);
    let (dead, _held) = refusing();
    for (_reader, writer) in [full_pipe(), full_socket()] {
        let mut gate = Mute::start(&policy(&origin, dead), "FOLDER/access.json", Stdio::null(), Stdio::from(writer));
        everything_is_served(&gate);
        // a refused policy file is a line for every fault in it
        let faults: String = (0..1_000).map(|number| format!("  - {{ name: a{number}, bogus: 1 }}\n")).collect();
        std::fs::write(gate.folder.path().join("tidegate.yaml"), format!("routes:\n{faults}")).unwrap();
        let dropped = || gate.number("tidegate_log_dropped_total", &[("stream", "process")]);
        let refused = || gate.number("tidegate_config_reloads_total", &[("result", "failure")]);
        let mut reloads = 0.0;
        while dropped() == 0.0 {
            gate.signal("HUP");
            reloads += 1.0;
            wait_for("the reload", || (refused() == reloads).then_some(()));
            assert!(reloads < 100.0, "nothing is dropped although nobody reads");
        }
        assert_eq!(gate.ask("/"), 200);
        gate.signal("TERM");
        let (code, took) = gate.ended();
        assert_eq!(code, Some(0));
        assert!(took < SOON, "{took:?} for the end");
    }
}

#[test]
fn a_second_signal_ends_it_whatever_nobody_reads() {
    let origin = Origin::start(|_| Reply::ThenStall(b""));
    let (dead, _held) = refusing();
    let ((_out, stdout), (_err, stderr)) = (full_pipe(), full_pipe());
    let mut gate = Mute::start(&policy(&origin, dead), "stdout", Stdio::from(stdout), Stdio::from(stderr));
    let mut held = Connection::open(gate.main);
    held.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    origin.wait_for(1);
    gate.signal("TERM");
    wait_for("it to stop listening", || Connection::try_open(gate.main).is_err().then_some(()));
    gate.signal("TERM");
    let (code, took) = gate.ended();
    assert_eq!(code, Some(1));
    assert!(took < SOON, "{took:?} for the end");
}

#[test]
fn a_standard_output_with_the_access_log_that_nobody_reads_stops_nothing() {
    let origin = Origin::start(|_| Reply::Ok);
    let (dead, _held) = refusing();
    let ((_out, stdout), (_err, stderr)) = (full_pipe(), full_pipe());
    let mut gate = Mute::start(&policy(&origin, dead), "stdout", Stdio::from(stdout), Stdio::from(stderr));
    everything_is_served(&gate);
    gate.signal("TERM");
    let (code, took) = gate.ended();
    assert_eq!(code, Some(0));
    assert!(took < SOON, "{took:?} for the end");
}

#[test]
fn an_access_log_on_a_fifo_waits_for_its_reader_without_the_gate() {
    let folder = Folder::new();
    let fifo = folder.path().join("access.fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let origin = Origin::start(|_| Reply::Ok);
    let (dead, _held) = refusing();
    let log = fifo.display().to_string();
    let mut gate = Mute::start(&policy(&origin, dead), &log, Stdio::null(), Stdio::null());
    assert_eq!(gate.ask("/first"), 200);
    let mut reader = std::fs::File::open(&fifo).unwrap();
    let mut text = Vec::new();
    while !text.ends_with(b"\n") {
        let mut some = [0; 4096];
        let read = reader.read(&mut some).unwrap();
        text.extend_from_slice(&some[..read]);
    }
    assert!(String::from_utf8(text).unwrap().contains("/first"), "what came before the reader waited for it");
    drop(reader);
    assert_eq!(gate.ask("/second"), 200);
    gate.signal("TERM");
    assert_eq!(gate.ended().0, Some(0));
}

#[test]
fn a_service_manager_that_reads_nothing_holds_up_neither_the_start_nor_the_end() {
    let folder = Folder::new();
    let path = folder.path().join("notify");
    let _unread = UnixDatagram::bind(&path).unwrap();
    let filler = UnixDatagram::unbound().unwrap();
    filler.connect(&path).unwrap();
    filler.set_nonblocking(true).unwrap();
    while filler.send(b"STATUS=full").is_ok() {}
    let origin = Origin::start(|_| Reply::Ok);
    let (dead, _held) = refusing();
    let mut command = binary();
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "2000000");
    let policy = policy(&origin, dead);
    let mut gate = Mute::start_as(command, &policy, "FOLDER/access.json", Stdio::null(), Stdio::null());
    everything_is_served(&gate);
    gate.signal("TERM");
    let (code, took) = gate.ended();
    assert_eq!(code, Some(0));
    assert!(took < SOON, "{took:?} for the end");
}

#[test]
fn what_was_said_last_is_read_in_order_from_a_healthy_standard_error() {
    let mut gate = Gate::start("routes:\n  - { name: page, respond: { status: 200, body: ok } }\n");
    gate.signal("TERM");
    assert_eq!(gate.exit_status().code(), Some(0));
    let talk = wait_for("the last line", || Some(gate.talk()).filter(|talk| talk.contains("stopping")));
    let listening = talk.find("listening on").expect("it said so");
    assert!(listening < talk.find("stopping").unwrap(), "{talk}");
}
