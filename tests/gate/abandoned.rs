//! Clients that ask and leave: however many do, no more requests are at work at the origin than its limits allow, and the
//! places come back when the work is over.
//!
//! The origin is what application servers mostly are: it goes on when its client closes, and notices at the end.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use h2::Reason;

use crate::harness::talker::{Talker, request, talk};
use crate::harness::tls::{Authority, Client, Files};
use crate::harness::{Connection, Gate, PATIENCE, wait_for};

/// An origin that counts what it works at.
#[derive(Default)]
struct Busy {
    come: AtomicUsize,
    at_work: AtomicUsize,
    peak: AtomicUsize,
    /// Work ends only when this is set.
    done: AtomicBool,
    /// Connections on which nobody is at the other end any more when the answer is to be written.
    cut: AtomicUsize,
    /// Bytes of endless answers that found somebody.
    written: Mutex<u64>,
}

impl Busy {
    fn start() -> (SocketAddr, Arc<Busy>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let busy = Arc::new(Busy::default());
        let shared = Arc::clone(&busy);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        (address, busy)
    }

    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let (mut unread, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            while !unread.windows(4).any(|end| end == b"\r\n\r\n") {
                let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
                unread.extend_from_slice(&buffer[..count]);
            }
            let target = String::from_utf8_lossy(&unread).split(' ').nth(1).unwrap_or_default().to_owned();
            unread.clear();
            self.come.fetch_add(1, SeqCst);
            let now = self.at_work.fetch_add(1, SeqCst) + 1;
            self.peak.fetch_max(now, SeqCst);
            match target.as_str() {
                "/fine" => {}
                "/second" => std::thread::sleep(Duration::from_secs(1)),
                _ => {
                    let since = Instant::now();
                    while !self.done.load(SeqCst) && since.elapsed() < 4 * PATIENCE {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                }
            }
            self.at_work.fetch_sub(1, SeqCst);
            if target == "/endless" {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n").ok()?;
                while stream.write_all(&[b'x'; 16 * 1024]).is_ok() {
                    *self.written.lock().unwrap() += 16 * 1024;
                }
                self.cut.fetch_add(1, SeqCst);
                return None;
            }
            stream.set_nonblocking(true).ok()?;
            let gone = matches!(stream.read(&mut buffer), Ok(0));
            stream.set_nonblocking(false).ok()?;
            self.cut.fetch_add(usize::from(gone), SeqCst);
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").ok()?;
        }
    }

    fn come(&self) -> usize {
        self.come.load(SeqCst)
    }
}

/// A gate in front of it: `origin` are words of the origin, `route` of the route.
fn gate_before(address: SocketAddr, listener: &str, origin: &str, limits: &str, route: &str) -> Gate {
    Gate::start(&format!(
        "telemetry:
  metrics: {{ address: \"127.0.0.1:0\" }}
  access_log: {{ to: ACCESS_LOG, sample: {{ refused: none }} }}
listeners:
  main: {{ address: \"127.0.0.1:0\"{listener} }}
{limits}origins:
  app:
    addresses: [\"{address}\"]
    timeouts: {{ connect: 2s, read: 60s, write: 60s, request: 60s }}
{origin}routes:
  - name: site
{route}    origin: app
"
    ))
}

const CAP: usize = 3;
const PLACES: &str = "    inflight: { max: 3 }\n";

/// How a client goes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Leaving {
    Close,
    Reset,
}

/// Asks for something that takes long and leaves: as soon as the origin has it, or the gate has refused it.
fn ask_and_leave(gate: &Gate, busy: &Busy, path: &str, secure: Option<&Client>, leaving: Leaving) {
    let come = busy.come();
    let mut connection = match secure {
        Some(client) => client.connect(gate.address("main"), "a.test"),
        None => gate.connect(),
    };
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    if come < CAP {
        wait_for("the request at the origin", || (busy.come() > come).then_some(()));
    } else {
        assert!(matches!(connection.answer_to("GET").expect("a refusal").status, 429 | 503));
    }
    match leaving {
        Leaving::Close => drop(connection),
        Leaving::Reset => connection.reset(),
    }
}

/// The places are held by requests that nobody waits for.
fn holds_abandoned(gate: &Gate, count: usize) {
    gate.counts("tidegate_origin_abandoned_requests", &[("origin", "app")], count as f64);
}

fn all_places_are_free(gate: &mut Gate) {
    gate.comes_to_rest();
    holds_abandoned(gate, 0);
    for _ in 0..2 * CAP {
        assert_eq!(gate.fetch("/fine", "").status, 200);
        gate.comes_to_rest();
    }
}

#[test]
fn clients_that_leave_get_no_more_requests_at_work_than_the_origin_takes() {
    let adaptive = "    inflight: { max: 3 }\n    adaptive: { min: 3 }\n";
    for origin in [PLACES, adaptive] {
        for leaving in [Leaving::Close, Leaving::Reset] {
            let (address, busy) = Busy::start();
            let mut gate = gate_before(address, "", origin, "", "");
            for _ in 0..20 {
                ask_and_leave(&gate, &busy, "/work", None, leaving);
                holds_abandoned(&gate, busy.come());
            }
            assert_eq!((busy.come(), gate.fetch("/fine", "").status), (CAP, 503));
            busy.done.store(true, SeqCst);
            all_places_are_free(&mut gate);
            assert_eq!((busy.peak.load(SeqCst), busy.cut.load(SeqCst)), (CAP, 0), "{leaving:?}");
            // 20 that left, one that did not
            gate.counts("tidegate_requests_total", &[("code", "aborted")], CAP as f64);
        }
    }
}

#[test]
fn so_do_limits_in_flight_of_a_client_of_a_route_and_of_all() {
    let scopes = ["key: client_ip, ", "key: route, ", ""];
    for scope in scopes {
        let (address, busy) = Busy::start();
        let limits = format!("limits:\n  few: {{ type: inflight, {scope}max: 3 }}\n");
        let mut gate = gate_before(address, "", "", &limits, "    limits: [few]\n");
        for _ in 0..12 {
            ask_and_leave(&gate, &busy, "/work", None, Leaving::Close);
        }
        assert_eq!((busy.come(), busy.peak.load(SeqCst)), (CAP, CAP), "{scope}");
        holds_abandoned(&gate, CAP);
        busy.done.store(true, SeqCst);
        all_places_are_free(&mut gate);
    }
}

#[test]
fn the_same_over_tls() {
    let (authority, files) = (Authority::new("of the site"), Files::new());
    let pair = files.put_pair("a", &authority.sign(&["a.test"]));
    for leaving in [Leaving::Close, Leaving::Reset] {
        let (address, busy) = Busy::start();
        let listener = format!(", tls: {{ certificates: {pair} }}");
        let gate = gate_before(address, &listener, PLACES, "", "");
        for _ in 0..12 {
            ask_and_leave(&gate, &busy, "/work", Some(&authority.client()), leaving);
        }
        holds_abandoned(&gate, CAP);
        assert_eq!((busy.come(), busy.peak.load(SeqCst)), (CAP, CAP));
        busy.done.store(true, SeqCst);
        holds_abandoned(&gate, 0);
    }
}

#[test]
fn a_stream_that_is_reset_holds_its_place_and_so_do_those_of_a_connection_that_is_cut() {
    for cut in [false, true] {
        let (address, busy) = Busy::start();
        let gate = gate_before(address, ", protocols: [h2, http/1.1]", PLACES, "", "");
        talk(async {
            for _ in 0..4 {
                let (mut talker, connection) = Talker::open(gate.address("main")).await;
                for _ in 0..3 {
                    let come = busy.come();
                    let (answer, mut sending) = talker.begin(request("GET", "/work", &[]), true).await;
                    if come < CAP {
                        until(|| busy.come() > come).await;
                    } else {
                        assert_eq!(answer.await.expect("a refusal").status(), 503);
                    }
                    if !cut {
                        sending.send_reset(Reason::CANCEL);
                    }
                }
                if cut {
                    connection.abort();
                }
            }
        });
        holds_abandoned(&gate, CAP);
        assert_eq!((busy.come(), busy.peak.load(SeqCst)), (CAP, CAP), "cut: {cut}");
        gate.counts("tidegate_requests_total", &[("code", "5xx")], 9.0);
        busy.done.store(true, SeqCst);
        holds_abandoned(&gate, 0);
        gate.counts("tidegate_requests_total", &[("code", "aborted")], CAP as f64);
        assert_eq!(busy.cut.load(SeqCst), 0, "each answer was awaited");
    }
}

#[test]
fn the_log_says_that_the_client_went_and_how_long_the_work_took() {
    let (address, busy) = Busy::start();
    let gate = gate_before(address, "", PLACES, "", "");
    ask_and_leave(&gate, &busy, "/work", None, Leaving::Close);
    holds_abandoned(&gate, 1);
    let noticed = Instant::now();
    assert_eq!(gate.log_text(), "");
    std::thread::sleep(Duration::from_millis(50));
    let waited = noticed.elapsed();
    busy.done.store(true, SeqCst);
    gate.log_of(1);
    let line: serde_json::Value = serde_json::from_str(gate.log_text().trim()).unwrap();
    assert_eq!((line["status"].as_u64(), line["error"].as_str()), (Some(499), Some("client_gone")), "{line}");
    assert_eq!(line["bytes_out"].as_u64().unwrap_or(0), 0, "{line}");
    assert!(u128::from(line["duration_ns"].as_u64().unwrap()) >= waited.as_nanos(), "{line}");
}

#[test]
fn the_connection_of_a_client_that_left_counts_no_more() {
    let (address, busy) = Busy::start();
    let gate = gate_before(address, ", connections: { per_client: 1 }", PLACES, "", "");
    for leaving in [Leaving::Close, Leaving::Reset] {
        ask_and_leave(&gate, &busy, "/work", None, leaving);
        holds_abandoned(&gate, busy.come());
    }
    assert_eq!(gate.metrics().sum("tidegate_connections_refused_total", &[("reason", "per_client")]), 0.0);
    busy.done.store(true, SeqCst);
}

#[test]
fn a_closed_connection_to_the_origin_keeps_its_place_for_as_long_as_the_origin_usually_takes() {
    let (address, busy) = Busy::start();
    let origin = format!("{PLACES}    on_client_abort: close\n");
    let mut gate = gate_before(address, "", &origin, "", "");
    // one that takes a second makes the usual duration
    assert_eq!(gate.fetch("/second", "").status, 200);
    for round in 1..3 {
        let come = busy.come();
        let mut connection = gate.connect();
        connection.send(b"GET /work HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        wait_for("the request at the origin", || (busy.come() > come).then_some(()));
        let left = Instant::now();
        drop(connection);
        gate.counts("tidegate_requests_total", &[("code", "aborted")], f64::from(round));
        gate.comes_to_rest();
        // far less than the 60 s before anything was measured
        assert!(left.elapsed() >= Duration::from_secs(1), "{:?}", left.elapsed());
        assert_eq!(busy.at_work.load(SeqCst), round as usize, "nobody waited for the work itself");
    }
    busy.done.store(true, SeqCst);
    wait_for("the origin to find its connections closed", || (busy.cut.load(SeqCst) == 2).then_some(()));
    all_places_are_free(&mut gate);
}

#[test]
fn before_anything_was_measured_a_place_is_kept_for_as_long_as_an_answer_may_take() {
    let (address, busy) = Busy::start();
    let origin = format!("{PLACES}    on_client_abort: close\n");
    let gate = gate_before(address, "", &origin, "", "");
    for _ in 0..12 {
        ask_and_leave(&gate, &busy, "/work", None, Leaving::Close);
        holds_abandoned(&gate, busy.come());
    }
    // the work is over, and nobody can know it
    busy.done.store(true, SeqCst);
    wait_for("the origin to find its connections closed", || (busy.cut.load(SeqCst) == CAP).then_some(()));
    holds_abandoned(&gate, CAP);
    assert_eq!((gate.fetch("/fine", "").status, busy.peak.load(SeqCst)), (503, CAP));
}

#[test]
fn an_upload_that_breaks_off_keeps_its_place_and_ends_the_request() {
    let (address, busy) = Busy::start();
    let gate = gate_before(address, "", PLACES, "", "");
    for leaving in [Leaving::Close, Leaving::Reset, Leaving::Close] {
        let come = busy.come();
        let mut connection = gate.connect();
        connection.send(b"POST /work HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf").unwrap();
        wait_for("the request at the origin", || (busy.come() > come).then_some(()));
        match leaving {
            Leaving::Close => drop(connection),
            Leaving::Reset => connection.reset(),
        }
        holds_abandoned(&gate, come + 1);
    }
    assert_eq!(gate.fetch("/fine", "").status, 503);
    busy.done.store(true, SeqCst);
}

#[test]
fn after_fast_traffic_uploads_that_break_off_and_closed_requests_hold_their_places() {
    for (word, head) in [("await", "POST"), ("close", "GET"), ("close", "POST")] {
        let (address, busy) = Busy::start();
        let origin = format!("{PLACES}    on_client_abort: {word}\n");
        let gate = gate_before(address, "", &origin, "", "");
        let mut fast = gate.connect();
        for _ in 0..150 {
            assert_eq!(fast.ask("GET", "/fine", "", b"").status, 200);
        }
        let rest = if head == "POST" { "Content-Length: 100\r\n\r\nhalf" } else { "\r\n" };
        for _ in 0..40 {
            let mut connection = gate.connect();
            connection.send(format!("{head} /second HTTP/1.1\r\nHost: a\r\n{rest}").as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(15));
        }
        assert_eq!(busy.peak.load(SeqCst), CAP, "{word} {head}");
    }
}

#[test]
fn where_the_policy_says_release_clients_that_leave_get_as_many_as_they_like() {
    let (address, busy) = Busy::start();
    let origin = format!("{PLACES}    on_client_abort: release\n");
    let mut gate = gate_before(address, "", &origin, "", "");
    for round in 0..3 * CAP {
        let mut connection = gate.connect();
        connection.send(b"GET /work HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        wait_for("the request at the origin", || (busy.come() > round).then_some(()));
        drop(connection);
        gate.comes_to_rest();
    }
    assert_eq!(busy.peak.load(SeqCst), 3 * CAP);
    busy.done.store(true, SeqCst);
}

#[test]
fn a_request_that_holds_no_place_ends_with_its_client() {
    let (address, busy) = Busy::start();
    let gate = gate_before(address, "", "", "", "");
    let mut connection = gate.connect();
    connection.send(b"GET /work HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    wait_for("the request at the origin", || (busy.come() == 1).then_some(()));
    drop(connection);
    gate.counts("tidegate_requests_total", &[("code", "aborted")], 1.0);
    busy.done.store(true, SeqCst);
}

#[test]
fn no_more_than_a_mebibyte_of_an_answer_is_thrown_away() {
    for h2 in [false, true] {
        let (address, busy) = Busy::start();
        let listener = if h2 { ", protocols: [h2, http/1.1]" } else { "" };
        let mut gate = gate_before(address, listener, PLACES, "", "");
        if h2 {
            talk(async {
                let (mut talker, _) = Talker::open(gate.address("main")).await;
                let (_, mut sending) = talker.begin(request("GET", "/endless", &[]), true).await;
                until(|| busy.come() == 1).await;
                sending.send_reset(Reason::CANCEL);
                until(|| gate.metrics().sum("tidegate_origin_abandoned_requests", &[]) == 1.0).await;
            });
        } else {
            ask_and_leave(&gate, &busy, "/endless", None, Leaving::Close);
            holds_abandoned(&gate, 1);
        }
        busy.done.store(true, SeqCst);
        wait_for("the origin to be cut off", || (busy.cut.load(SeqCst) == 1).then_some(()));
        // and what fits into the buffers on the way
        let written = *busy.written.lock().unwrap();
        assert!((1 << 20..32 << 20).contains(&written), "{written}");
        all_places_are_free(&mut gate);
    }
}

#[test]
fn an_origin_that_never_answers_keeps_its_places_until_the_requests_time_is_over() {
    let (address, busy) = Busy::start();
    let mut gate = Gate::start(&format!(
        "origins:
  app:
    addresses: [\"{address}\"]
    timeouts: {{ request: 1s }}
    inflight: {{ max: 3 }}
routes:
  - {{ name: site, origin: app }}
"
    ));
    for _ in 0..CAP {
        ask_and_leave(&gate, &busy, "/work", None, Leaving::Close);
    }
    gate.comes_to_rest();
    assert_eq!(busy.at_work.load(SeqCst), CAP, "only the time can have ended these requests");
    gate.counts("tidegate_requests_total", &[("code", "aborted")], CAP as f64);
    busy.done.store(true, SeqCst);
}

#[test]
fn requests_of_clients_that_left_do_not_keep_the_process_from_ending() {
    let (address, busy) = Busy::start();
    let mut gate = Gate::start(&format!(
        "server: {{ overload: off, drain: {{ delay: 0s, timeout: 1s }} }}
origins:
  app:
    addresses: [\"{address}\"]
    inflight: {{ max: 3 }}
routes:
  - {{ name: site, origin: app }}
"
    ));
    ask_and_leave(&gate, &busy, "/work", None, Leaving::Close);
    holds_abandoned(&gate, 1);
    gate.signal("TERM");
    gate.exit_status();
    assert_eq!(busy.at_work.load(SeqCst), 1);
    busy.done.store(true, SeqCst);
}

/// Waits without keeping the conversation's own task from running.
async fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A client that only ends its own side is taken to have left, as by most servers.
#[test]
fn a_client_that_half_closes_is_one_that_left() {
    let (address, busy) = Busy::start();
    let mut gate = gate_before(address, "", PLACES, "", "");
    let mut connection: Connection = gate.connect();
    connection.send(b"GET /work HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    wait_for("the request at the origin", || (busy.come() == 1).then_some(()));
    connection.finish_sending();
    holds_abandoned(&gate, 1);
    assert!(connection.rest().unwrap_or_default().is_empty());
    busy.done.store(true, SeqCst);
    all_places_are_free(&mut gate);
}
