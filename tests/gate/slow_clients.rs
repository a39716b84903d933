//! Clients that hold connections by being slow, two thousand at once: they are closed in time, whoever is honest hardly notices,
//! and the memory is bounded.
//!
//! The deadlines are short, so that the tests are; they are the operator's words. How soon is measured from each connection's own
//! start, with room for two busy cores.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};

use crate::harness::{Connection, Gate, Origin, Reply, wait_for};
use crate::skips::skip;

/// What the listener allows.
const DEADLINE: Duration = Duration::from_secs(3);
/// What a busy machine may need on top.
const ROOM: Duration = Duration::from_secs(30);
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);

/// As many as the files allow that this process may have open, which is raised as far as it goes: each attack takes up to two for
/// a client here and two there.
fn attackers() -> usize {
    let wanted = std::env::var("TIDEGATE_TEST_SLOW").map_or(2_000, |number| number.parse().expect("a number"));
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
    let count = wanted.min(files.map_or(wanted, |files| files.saturating_sub(200) / 3));
    if count < wanted {
        skip("slow clients", format!("{count} of {wanted}, as more files cannot be open (`ulimit -Hn`)"));
    }
    count
}

/// A slow client.
struct Slow {
    stream: TcpStream,
    since: Instant,
    /// When the gate closed it.
    closed: Option<Duration>,
}

impl Slow {
    fn open(address: SocketAddr, first: &[u8], receive_bytes: Option<usize>) -> Slow {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket; raise `ulimit -n`");
        if let Some(bytes) = receive_bytes {
            socket.set_recv_buffer_size(bytes).unwrap();
            // on loopback a segment is 64 KiB, and the kernel would take a whole answer off the gate's hands
            socket.set_tcp_mss(536).unwrap();
        }
        socket.bind(&SocketAddr::from((ATTACKER, 0)).into()).unwrap();
        let since = Instant::now();
        socket.connect_timeout(&address.into(), Duration::from_secs(30)).expect("the gate accepts");
        let mut stream: TcpStream = socket.into();
        stream.write_all(first).unwrap();
        stream.set_nonblocking(true).unwrap();
        Slow { stream, since, closed: None }
    }

    /// One more byte, if this kind of client sends any, and a look whether the gate has closed. `reads`: what has come is taken.
    fn turn(&mut self, drip: Option<u8>, reads: bool) {
        if self.closed.is_some() {
            return;
        }
        // of whoever takes nothing the kernel hears no end: what it was sent lies in the way
        if !reads {
            return;
        }
        let gone = |kind: ErrorKind| !matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted);
        let sent = drip.map_or(Ok(1), |byte| self.stream.write(&[byte]));
        let ended = match sent {
            Err(fault) if gone(fault.kind()) => true,
            _ => loop {
                match self.stream.read(&mut [0; 1024]) {
                    Ok(0) => break true,
                    Ok(_) => {}
                    Err(fault) => break gone(fault.kind()),
                }
            },
        };
        if ended {
            self.closed = Some(self.since.elapsed());
        }
    }
}

/// A kind of attack.
struct Attack {
    name: &'static str,
    /// Where it goes.
    listener: &'static str,
    /// Sent at once.
    first: &'static [u8],
    /// Then this, byte by byte.
    drip: Option<u8>,
    /// Whether it takes what comes.
    reads: bool,
    /// What one of them may make the gate hold, in KiB.
    most_kib: u64,
}

fn gate(honest: &Origin, silent: SocketAddr) -> Gate {
    // more than any kernel buffers for a client that takes nothing
    let large = "x".repeat(1 << 20);
    Gate::start(&format!(
        "trusted_proxies: [{ATTACKER}]
listeners:
  named: {{ address: \"127.0.0.1:0\", proxy_protocol: required, request_head: {{ timeout: 3s }} }}
  main:
    address: \"127.0.0.1:0\"
    connections: {{ max: 10_000, per_client: none, idle: 3s, linger: 500ms }}
    request_head: {{ timeout: 3s }}
    request_body: {{ least_rate: 500B/s, grace: 3s }}
    response: {{ least_rate: 500B/s, grace: 3s }}
origins:
  honest: {{ addresses: [\"{}\"] }}
  silent: {{ addresses: [\"{silent}\"] }}
routes:
  - {{ name: site, origin: honest }}
  - {{ name: upload, match: {{ path: /upload }}, origin: silent }}
  - {{ name: large, match: {{ path: /large }}, respond: {{ status: 200, body: {large} }} }}
telemetry:
  metrics: {{ address: \"127.0.0.1:0\" }}
",
        honest.address()
    ))
}

/// Takes connections and never says a word.
fn silent() -> (SocketAddr, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let holding = std::thread::spawn(move || {
        let mut held = Vec::new();
        held.extend(listener.incoming().map_while(Result::ok));
    });
    (address, holding)
}

fn withstands(attack: &Attack) {
    let (honest, (silent, _holding)) = (Origin::that(Reply::Ok), silent());
    let gate = gate(&honest, silent);
    assert_eq!(gate.fetch("/", "").status, 200);
    let (count, before, address) = (attackers(), gate.resident_kib(), gate.address("main"));
    let (over, asked, answered) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let mut slow = Vec::with_capacity(count);
    let mut peak = 0;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    asked.fetch_add(1, Ordering::Relaxed);
                    let fine = Connection::try_open(address).is_ok_and(|mut connection| {
                        connection.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").is_ok()
                            && connection.answer_to("GET").is_ok_and(|answer| answer.status == 200 && answer.complete)
                    });
                    answered.fetch_add(usize::from(fine), Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
        }
        let receive = (!attack.reads).then_some(4096);
        let attacked = gate.address(attack.listener);
        for _ in 0..count {
            slow.push(Slow::open(attacked, attack.first, receive));
        }
        let start = Instant::now();
        while slow.iter().any(|client| client.closed.is_none()) && start.elapsed() < DEADLINE + ROOM {
            slow.iter_mut().for_each(|client| client.turn(attack.drip, attack.reads));
            // the two honest ones may be among them
            if !attack.reads && gate.metrics().sum("tidegate_connections", &[]) <= 2.0 {
                slow.iter_mut().for_each(|client| client.closed = Some(client.since.elapsed()));
            }
            peak = peak.max(gate.resident_kib());
            std::thread::sleep(Duration::from_millis(150));
        }
        over.store(true, Ordering::Relaxed);
    });
    let mut closed: Vec<Duration> = slow.iter().filter_map(|client| client.closed).collect();
    closed.sort_unstable();
    let (asked, answered) = (asked.into_inner(), answered.into_inner());
    let grown = peak.saturating_sub(before);
    let (first, last) = (closed.first().copied().unwrap_or_default(), closed.last().copied().unwrap_or_default());
    println!(
        "{}: {} of {count} closed, after {first:.1?} to {last:.1?}; honest {answered} of {asked}; {before} KiB before, \
         {peak} KiB at most: {:.1} KiB each",
        attack.name,
        closed.len(),
        grown as f64 / count.max(1) as f64
    );
    assert_eq!(closed.len(), count, "{}: all of them are closed", attack.name);
    assert!(last <= DEADLINE + ROOM, "{}: {last:?}", attack.name);
    assert!(asked >= 20 && answered * 100 >= asked * 99, "{}: {answered} of {asked}", attack.name);
    assert!(grown <= count as u64 * attack.most_kib + 16 * 1024, "{}: {grown} KiB", attack.name);
    drop(slow);
    gate.counts("tidegate_connections", &[], 0.0);
    wait_for("nothing in flight", || {
        (gate.metrics().sum("tidegate_origin_inflight_requests", &[]) == 0.0).then_some(())
    });
    assert_eq!(gate.metrics().sum("tidegate_panics_total", &[]), 0.0);
}

#[test]
fn two_thousand_heads_that_never_end() {
    withstands(&Attack {
        name: "slow head",
        listener: "main",
        first: b"GET / HTTP/1.1\r\nHost: a\r\nX: ",
        drip: Some(b'a'),
        reads: true,
        most_kib: 16,
    });
}

#[test]
fn two_thousand_proxy_headers_that_never_end() {
    let first = b"PROXY UNKNOWN ";
    withstands(&Attack { name: "slow PROXY", listener: "named", first, drip: Some(b'a'), reads: true, most_kib: 16 });
}

#[test]
fn two_thousand_bodies_that_hardly_come() {
    let first = b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";
    withstands(&Attack { name: "slow body", listener: "main", first, drip: Some(b'a'), reads: true, most_kib: 160 });
}

#[test]
fn two_thousand_answers_that_nobody_takes() {
    let first = b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n";
    withstands(&Attack { name: "slow read", listener: "main", first, drip: None, reads: false, most_kib: 48 });
}

#[test]
fn two_thousand_connections_that_ask_once_and_stay() {
    withstands(&Attack {
        name: "idle",
        listener: "main",
        first: b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        drip: None,
        reads: true,
        // where many ask at once, each leaves a connection to the origin that is kept, too
        most_kib: 48,
    });
}

#[test]
fn two_thousand_connections_that_say_nothing() {
    withstands(&Attack { name: "silent", listener: "main", first: b"", drip: None, reads: true, most_kib: 24 });
}

#[test]
fn a_body_that_keeps_the_rate_still_ends_with_its_time() {
    let origin = Origin::that(Reply::Ok);
    let gate = Gate::start(&format!(
        "listeners:
  main: {{ address: \"127.0.0.1:0\", request_body: {{ timeout: 500ms, grace: 400ms }}, connections: {{ linger: 100ms }} }}
origins:
  app: {{ addresses: [\"{}\"] }}
routes:
  - {{ name: site, origin: app }}
",
        origin.address()
    ));
    let mut connection = gate.connect();
    connection.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n").unwrap();
    let start = Instant::now();
    // far above the least rate
    while connection.send(&[b'x'; 1024]).is_ok() {
        assert!(start.elapsed() < Duration::from_secs(20), "it goes on for ever");
        std::thread::sleep(Duration::from_millis(5));
    }
    gate.counts("tidegate_malformed_requests_total", &[("reason", "late_upload")], 1.0);
    gate.counts("tidegate_connections", &[], 0.0);
}
