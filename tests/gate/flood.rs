//! One million clients that each ask once, beside one abuser and fifty honest clients, through real sockets.
//!
//! The gate answers by itself (`respond:`), so that the figures are the limiter's and not an origin's. All clients meet
//! in one limit and thus in one sketch. What must hold: memory does not grow with clients; the abuser gets its promise
//! and not one request more; an honest client, who never asks faster than the rate, is never turned away by what the
//! others do (at most 1 in 10,000).
//!
//! Verdicts are checked from outside: a request was judged at some instant between being sent and being answered, by the
//! clock of this process. What these brackets leave open is milliseconds against an interval of 200.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::harness::{Connection, Gate};
use crate::promise::{Bucket, Promise};

/// Clients that ask once. A smaller number serves no claim; a larger one may be given for a longer look.
fn flood_size() -> usize {
    std::env::var("TIDEGATE_TEST_FLOOD")
        .map_or(1_000_000, |size| size.parse().expect("TIDEGATE_TEST_FLOOD is a number"))
}

const PROMISE: Promise = Promise::new(5, 1, 3);
const HONEST: usize = 50;
const THREADS: usize = 2;
const CONNECTIONS: usize = 48;
/// What may be left of one half of the flood: four bytes for each of its clients. A table that kept a hash of them would need
/// twice as much, in either half.
const GROWTH_KIB: u64 = 2048;
/// What one of the halves may cost beyond that: the allocator takes memory from the system in segments of 4 MiB, and opens
/// one more once, as soon as threads happen to need it; three million clients cost no more.
const ONCE_KIB: u64 = 4096;

#[test]
fn a_million_clients_cost_no_memory_and_hurt_nobody() {
    let gate = Gate::start(
        "trusted_proxies: [127.0.0.0/8]
limits:
  per_client: { key: client_ip, rate: 5/s, burst: 3 }
routes:
  - name: page
    limits: [per_client]
    respond: { status: 200, body: ok }
telemetry:
  metrics: { address: \"127.0.0.1:0\" }
  access_log: { to: ACCESS_LOG, sample: { limited: 1%, other: 1% } }
",
    );
    let size = flood_size();
    let clock = Instant::now();
    let now = || clock.elapsed().as_nanos() as u64;

    // the same kind of load before the first reading: pools, buffers and threads are there afterwards, and the allocator
    // has settled, which takes it some hundred thousand requests (of a million and of three million it takes the same)
    let warm = AtomicBool::new(false);
    let warmed = std::thread::scope(|scope| {
        scope.spawn(|| abuse(&gate, &warm, now));
        scope.spawn(|| honest_clients(&gate, &warm));
        let crowd = flood(&gate, 0..300_000);
        warm.store(true, Ordering::Relaxed);
        crowd
    });
    assert_eq!(warmed.refused, 0);
    // until the abuser's burst is whole again; waiting longer changes nothing
    sleep(Duration::from_nanos(PROMISE.burst * PROMISE.interval));
    let before = gate.resident_kib();
    let series = gate.metrics().count();

    let over = AtomicBool::new(false);
    let (abuse, honest, crowd, between) = std::thread::scope(|scope| {
        let abuser = scope.spawn(|| abuse(&gate, &over, now));
        let honest = scope.spawn(|| honest_clients(&gate, &over));
        let half = flood(&gate, 300_000..300_000 + size / 2);
        let between = gate.resident_kib();
        let crowd = half.and(flood(&gate, 300_000 + size / 2..300_000 + size));
        over.store(true, Ordering::Relaxed);
        (abuser.join().unwrap(), honest.join().unwrap(), crowd, between)
    });
    let after = gate.resident_kib();

    let admitted = abuse.iter().filter(|visit| visit.admitted).count();
    println!(
        "{size} clients in {:.0?} ({:.0}/s), {} refused; abuser {admitted} of {} admitted; honest {} of {} refused; \
         resident {before} KiB before, {between} KiB after one half, {after} KiB after both",
        crowd.took,
        size as f64 / crowd.took.as_secs_f64(),
        crowd.refused,
        abuse.len(),
        honest.refused,
        honest.asked,
    );
    let growth = [between.saturating_sub(before), after.saturating_sub(between)];
    assert!(growth.iter().min() <= Some(&GROWTH_KIB), "memory grows with clients: by {growth:?} KiB");
    assert!(growth.iter().sum::<u64>() <= GROWTH_KIB + ONCE_KIB, "memory grew by {growth:?} KiB");
    assert_eq!(gate.metrics().count(), series, "the number of series does not depend on clients");
    assert!(crowd.refused * 10_000 <= size, "{} first requests were refused", crowd.refused);
    assert!(honest.refused * 10_000 <= honest.asked, "{} of {} honest requests refused", honest.refused, honest.asked);
    held_to_the_promise(&abuse);
}

/// One request of the abuser, between two readings of our clock.
struct Visit {
    sent: u64,
    answered: u64,
    admitted: bool,
}

/// Neither more than the promise nor less, as far as the brackets tell.
fn held_to_the_promise(visits: &[Visit]) {
    // at most: even if each admitted request was judged as early or late as suits the gate best
    let admitted: Vec<&Visit> = visits.iter().filter(|visit| visit.admitted).collect();
    for (first, start) in admitted.iter().enumerate() {
        for (count, end) in admitted[first..].iter().enumerate() {
            let longest = end.answered - start.sent;
            let most = PROMISE.burst + longest / PROMISE.interval;
            assert!((count as u64) < most, "{} admitted within {longest} ns", count + 1);
        }
    }
    // at least: refused only when the bucket was full even if everything before was judged as late as possible
    let mut bucket = Bucket::new(PROMISE);
    let mut wrong = 0;
    for visit in visits {
        if visit.admitted {
            bucket.charge(visit.answered);
        } else {
            wrong += usize::from(bucket.has_room(visit.sent));
        }
    }
    assert!(wrong * 10_000 <= visits.len(), "the abuser was refused {wrong} times below its promise");
    assert!(admitted.len() < visits.len() / 2, "the abuser asks for much more than it gets");
}

/// Asks without pause, one request after the other.
fn abuse(gate: &Gate, over: &AtomicBool, now: impl Fn() -> u64) -> Vec<Visit> {
    let mut connection = gate.connect();
    let request = ask_as("192.0.2.66");
    let mut visits = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let sent = now();
        let status = status_of(gate, &mut connection, &request);
        visits.push(Visit { sent, answered: now(), admitted: status == 200 });
        assert!(matches!(status, 200 | 429), "{status}");
    }
    visits
}

#[derive(Default)]
struct Tally {
    asked: usize,
    refused: usize,
    took: Duration,
}

impl Tally {
    /// One flood after the other.
    fn and(self, next: Tally) -> Tally {
        Tally { asked: self.asked + next.asked, refused: self.refused + next.refused, took: self.took + next.took }
    }
}

/// Fifty clients, half of them IPv6, each asking once per round. A round is longer than the interval of the rate, from
/// the last answer of one to the first request of the next, so no client is ever over its promise, whatever the machine
/// does to the time.
fn honest_clients(gate: &Gate, over: &AtomicBool) -> Tally {
    let mut connections: Vec<Connection> = (0..5).map(|_| gate.connect()).collect();
    let mut tally = Tally::default();
    while !over.load(Ordering::Relaxed) {
        for client in 0..HONEST {
            let address = match client % 2 {
                0 => format!("203.0.113.{client}"),
                _ => format!("2001:db8:ffff:{client:x}::{:x}", tally.asked + 1),
            };
            let connection = &mut connections[client % 5];
            let status = status_of(gate, connection, &ask_as(&address));
            tally.asked += 1;
            tally.refused += usize::from(status == 429);
            assert!(matches!(status, 200 | 429), "{status}");
        }
        sleep(Duration::from_nanos(PROMISE.interval));
    }
    tally
}

/// Every number in `clients` asks once, each from an address of its own, over kept connections.
fn flood(gate: &Gate, clients: std::ops::Range<usize>) -> Tally {
    let start = Instant::now();
    let next = AtomicUsize::new(clients.start);
    let total = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut connections: Vec<Connection> = (0..CONNECTIONS).map(|_| gate.connect()).collect();
                let mut tally = Tally::default();
                loop {
                    let first = next.fetch_add(CONNECTIONS, Ordering::Relaxed);
                    let wave = first.min(clients.end)..(first + CONNECTIONS).min(clients.end);
                    if wave.is_empty() {
                        break;
                    }
                    for (client, connection) in wave.clone().zip(&mut connections) {
                        connection.send(&ask_as(&address_of(client))).expect("a request is sent");
                    }
                    for connection in connections.iter_mut().take(wave.len()) {
                        let answer = connection.answer_to("GET").expect("an answer comes");
                        assert!(matches!(answer.status, 200 | 429), "{answer:?}");
                        tally.asked += 1;
                        tally.refused += usize::from(answer.status == 429);
                        if !answer.keeps_connection() {
                            *connection = gate.connect();
                        }
                    }
                }
                let mut total = total.lock().unwrap();
                total.asked += tally.asked;
                total.refused += tally.refused;
            });
        }
    });
    let mut total = total.into_inner().unwrap();
    total.took = start.elapsed();
    assert_eq!(total.asked, clients.len());
    total
}

fn ask_as(address: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: gate.example\r\nX-Forwarded-For: {address}\r\n\r\n").into_bytes()
}

fn status_of(gate: &Gate, connection: &mut Connection, request: &[u8]) -> u16 {
    connection.send(request).expect("a request is sent");
    let answer = connection.answer_to("GET").expect("an answer comes");
    if !answer.keeps_connection() {
        *connection = gate.connect();
    }
    answer.status
}

/// A different client for every number, in no order: half IPv4, half IPv6 networks of 64 bits. Both are one-to-one maps
/// of the number, so no two clients are the same.
pub fn address_of(client: usize) -> String {
    let client_32 = client as u32;
    if client.is_multiple_of(2) {
        // 32.0.0.0 to 95.255.255.255, none of it special; an odd factor permutes the numbers of 30 bits
        let address = 0x2000_0000 + (client_32.wrapping_mul(0x1E37_79B1) & 0x3FFF_FFFF);
        return std::net::Ipv4Addr::from(address).to_string();
    }
    let scattered = client_32.wrapping_mul(0x9E37_79B1);
    format!("2a00:1000:{:x}:{:x}::{:x}", scattered >> 16, scattered & 0xFFFF, client & 0xFFFF | 1)
}
