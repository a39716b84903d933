//! The requests of two real logs through real sockets, and the decisions recomputed from the access log.
//!
//! What is real: clients, methods, targets and their order. What is not: the time between requests, which are sent as
//! fast as they go, so that limits bite. Clients arrive by `X-Forwarded-For` from the loopback peer, which is trusted.
//! Host names of the older log become addresses of their own, every second one an IPv6 network from which each request
//! comes with another interface identifier, as from a home with many devices.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::harness::client::request;
use crate::harness::{Connection, Gate, Origin, Reply};
use crate::promise::{Judged, Promise, Wrong, over_promise, wrongly_refused};

#[test]
fn nobody_in_the_apache_log_gets_more_than_its_promise_or_less() {
    let lines = read_log(include_bytes!("../data/apache-combined-elastic.log.gz"));
    assert!(lines.len() > 9_900, "nearly every line of the log is a request: {}", lines.len());
    let tally = replay("apache", &lines, "2/s", Promise::new(2, 1, 5));
    assert_eq!(tally.clients, 1_753);
    assert!(tally.admitted * 5 > lines.len() && tally.refused * 5 > lines.len(), "the limit bites and is no wall");
}

#[test]
fn nobody_in_the_nasa_log_gets_more_than_its_promise_or_less() {
    let lines = read_log(include_bytes!("../data/nasa-1995-08-01.clf.gz"));
    assert!(lines.len() > 9_900, "nearly every line of the log is a request: {}", lines.len());
    let tally = replay("nasa", &lines, "30/m", Promise::new(30, 60, 8));
    assert_eq!(tally.clients, 853);
    assert!(tally.admitted * 5 > lines.len() && tally.refused * 5 > lines.len(), "the limit bites and is no wall");
}

#[test]
fn one_client_on_many_connections_gets_its_promise_and_no_more() {
    let line = |_| Logged { client: 0, address: "192.0.2.1".into(), method: "GET".into(), target: "/".into() };
    let lines: Vec<Logged> = (0..20_000).map(line).collect();
    let tally = replay("one client", &lines, "100/s", Promise::new(100, 1, 20));
    assert!(tally.admitted > 20 && tally.refused > 1_000, "the limit bites and is no wall");
}

/// What became of the requests of a log.
struct Tally {
    clients: usize,
    admitted: usize,
    refused: usize,
}

/// A line of a log, ready to be sent.
struct Logged {
    /// Which client of the log, by the network that a limit counts.
    client: usize,
    address: String,
    method: String,
    target: String,
}

/// What came of it.
struct Sent {
    line: usize,
    id: String,
    status: u16,
    sent: u64,
    answered: u64,
}

/// Sends all lines through a gate with this limit per client and holds what it did against the promise.
fn replay(name: &str, lines: &[Logged], rate: &str, promise: Promise) -> Tally {
    let origin = Origin::that(Reply::Ok);
    let gate = Gate::start(&format!(
        "trusted_proxies: [127.0.0.0/8]
limits:
  per_client: {{ key: client_ip, rate: {rate}, burst: {} }}
routes:
  - name: site
    origin: {}
    limits: [per_client]
    request_headers: {{ set: {{ x-request-id: \"{{request.id}}\" }} }}
    response_headers: {{ set: {{ x-request-id: \"{{request.id}}\" }} }}
",
        promise.burst,
        origin.address()
    ));
    let outcomes = send_all(&gate, lines);

    // a handful of requests in real logs have targets that the gate does not take from anybody: never judged, never sent
    let (turned_away, outcomes): (Vec<Sent>, Vec<Sent>) =
        outcomes.into_iter().partition(|outcome| outcome.status == 400);
    assert!(turned_away.len() * 500 < lines.len(), "{} requests were turned away unjudged", turned_away.len());

    // the access log names every request once, and says what its client saw
    let mut log = gate.log_of(lines.len());
    log.retain(|entry| entry.status != 400);
    assert_eq!(log.len(), outcomes.len(), "those that were turned away are told as such");
    let by_id: HashMap<&str, _> = log.iter().map(|entry| (entry.id.as_str(), entry)).collect();
    assert_eq!(by_id.len(), outcomes.len(), "no identifier is given twice");
    let mut clients: HashMap<usize, Vec<Judged>> = HashMap::new();
    let mut pseudonyms: HashMap<&str, usize> = HashMap::new();
    let mut admitted = HashSet::new();
    for outcome in &outcomes {
        let entry = by_id.get(outcome.id.as_str()).unwrap_or_else(|| panic!("{} is not in the log", outcome.id));
        let client = lines[outcome.line].client;
        let (verdict, status) = (entry.verdict.as_str(), outcome.status);
        assert!(matches!((verdict, status), ("admitted", 200) | ("refused", 429)), "{verdict} and {status}");
        assert_eq!(entry.status, u64::from(status));
        assert_eq!(entry.route, "site");
        assert_eq!(*pseudonyms.entry(&entry.client).or_insert(client), client, "a pseudonym stands for one client");
        if status == 200 {
            admitted.insert(outcome.line.to_string());
        }
        let Sent { sent, answered, .. } = *outcome;
        clients.entry(client).or_default().push(Judged { at: entry.at, admitted: status == 200, sent, answered });
    }
    let text = gate.log_text();
    for line in lines.iter().step_by(lines.len() / 25 + 1) {
        assert!(!text.contains(&line.address), "the access log holds the address {}", line.address);
    }

    // every admitted request reached the origin exactly once, every refused one never
    let arrivals: Vec<String> = origin.arrivals().iter().map(|arrival| arrival.lines("x-line").join(",")).collect();
    let arrived: HashSet<String> = arrivals.iter().cloned().collect();
    assert_eq!(arrivals.len(), arrived.len(), "no request reached the origin twice");
    assert_eq!(arrived, admitted);

    // the promise, over all intervals, by the stamps that the limit was judged by
    let mut wrong = Wrong::default();
    for requests in clients.values() {
        assert_eq!(over_promise(promise, requests), 0, "no client is ever admitted more than its promise");
        let of_client = wrongly_refused(promise, requests);
        wrong.certain += of_client.certain;
        wrong.explained += of_client.explained;
    }
    assert!(wrong.certain * 10_000 < lines.len(), "{wrong:?} of {} requests", lines.len());

    let metrics = gate.metrics();
    assert_eq!(metrics.sum("tidegate_log_dropped_total", &[]), 0.0);
    let decisions = |verdict| {
        let labels = [("route", "site"), ("limit", "per_client"), ("mode", "enforce"), ("verdict", verdict)];
        metrics.sum("tidegate_limit_decisions_total", &labels)
    };
    let refused = outcomes.len() - admitted.len();
    assert_eq!((decisions("allowed"), decisions("limited")), (admitted.len() as f64, refused as f64));
    let tally = Tally { clients: clients.len(), admitted: admitted.len(), refused };
    println!(
        "{name}: {} requests of {} clients, {} unjudged, {} admitted, {refused} refused, {} of them wrongly, {} more \
         explained by requests at the same time",
        lines.len(),
        tally.clients,
        turned_away.len(),
        tally.admitted,
        wrong.certain,
        wrong.explained,
    );
    tally
}

/// Sends everything over 32 kept connections in four threads. Each thread takes the next eight lines of the log and
/// sends them at once, so that the runs of one client that real logs are full of meet at the limiter.
fn send_all(gate: &Gate, lines: &[Logged]) -> Vec<Sent> {
    const THREADS: usize = 4;
    const AT_ONCE: usize = 8;
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::with_capacity(lines.len()));
    let start = Instant::now();
    let now = || start.elapsed().as_nanos() as u64;
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut connections: Vec<Connection> = (0..AT_ONCE).map(|_| gate.connect()).collect();
                let mut mine = Vec::new();
                loop {
                    let first = next.fetch_add(AT_ONCE, Ordering::Relaxed);
                    let wave = first.min(lines.len())..(first + AT_ONCE).min(lines.len());
                    if wave.is_empty() {
                        break;
                    }
                    let sent: Vec<u64> = wave
                        .clone()
                        .zip(&mut connections)
                        .map(|(line, connection)| {
                            let sent = now();
                            connection.send(&lines[line].request(line)).expect("a request is sent");
                            sent
                        })
                        .collect();
                    for ((line, connection), sent) in wave.zip(&mut connections).zip(sent) {
                        let answer = connection.answer_to(&lines[line].method).expect("an answer comes");
                        let id = answer.field("x-request-id").or(answer.field("x-tidegate-decision"));
                        assert!(id.is_some() || answer.status == 400, "{}: {answer:?}", lines[line].target);
                        let id = id.unwrap_or_default();
                        mine.push(Sent { line, id, status: answer.status, sent, answered: now() });
                        if !answer.keeps_connection() {
                            assert_eq!(answer.status, 400, "a verdict does not close: {answer:?}");
                            *connection = gate.connect();
                        }
                    }
                }
                outcomes.lock().unwrap().append(&mut mine);
            });
        }
    });
    outcomes.into_inner().unwrap()
}

impl Logged {
    fn request(&self, line: usize) -> Vec<u8> {
        let lines = format!("Host: logs.example\r\nX-Forwarded-For: {}\r\nX-Line: {line}\r\n", self.address);
        request(&self.method, &self.target, &lines, b"")
    }
}

fn read_log(gz: &[u8]) -> Vec<Logged> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(gz).read_to_string(&mut text).expect("the log is gzipped text");
    let mut known: HashMap<&str, usize> = HashMap::new();
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some((client, rest)) = line.split_once(' ') else { continue };
        let mut words = rest.split('"').nth(1).unwrap_or_default().split(' ');
        let (Some(method), Some(target)) = (words.next(), words.next()) else { continue };
        if !target.starts_with('/') || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
            continue;
        }
        let fresh = known.len();
        let client_number = *known.entry(client).or_insert(fresh);
        let address = match client.parse::<std::net::Ipv4Addr>() {
            Ok(address) => address.to_string(),
            Err(_) => synthetic_address(client_number, number),
        };
        lines.push(Logged { client: client_number, address, method: method.to_owned(), target: target.to_owned() });
    }
    lines
}

/// An address for a client that the log knows by name: stable for IPv4, for IPv6 a stable /64 with a new end each time.
fn synthetic_address(client: usize, request: usize) -> String {
    match client % 2 {
        0 => format!("198.{}.{}.{}", 18 + client / 65_536, client / 256 % 256, client % 256),
        _ => format!("2001:db8:{:x}:{:x}::{:x}", client / 65_536, client % 65_536, request + 1),
    }
}
