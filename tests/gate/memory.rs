//! The whole gate in bounded memory: ten limits of default size, every kind among them, and as many clients as may come.
//!
//! What the tables hold while they take turns over the hours is told by `tests/memory.rs`, on a virtual clock.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::flood::address_of;
use crate::harness::{Connection, Gate};

const POLICY: &str = include_str!("../data/ten_limits.yaml");

/// What the gate may hold in all.
const MOST_KIB: u64 = 128 << 10;

const THREADS: usize = 2;
const CONNECTIONS: usize = 48;

/// Clients that ask once. By default as many as fill every table; the promise is one of ten million, which take minutes.
fn size() -> usize {
    std::env::var("TIDEGATE_TEST_MEMORY")
        .map_or(300_000, |size| size.parse().expect("TIDEGATE_TEST_MEMORY is a number"))
}

#[test]
fn ten_limits_of_default_size_stay_within_their_memory() {
    let telemetry = "telemetry:
  metrics: { address: \"127.0.0.1:0\" }
  access_log: { to: ACCESS_LOG, sample: { limited: 1%, other: 1% } }
";
    let gate = Gate::start(&format!("{POLICY}{telemetry}"));
    let (size, start, before) = (size(), Instant::now(), gate.resident_kib());
    let next = AtomicUsize::new(0);
    let threads = |ask: &(dyn Fn() -> usize + Sync)| -> usize {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        })
    };
    let refused = threads(&|| {
        let mut connections: Vec<Connection> = (0..CONNECTIONS).map(|_| gate.connect()).collect();
        let mut refused = 0;
        loop {
            let first = next.fetch_add(CONNECTIONS, Ordering::Relaxed);
            let wave = first.min(size)..(first + CONNECTIONS).min(size);
            if wave.is_empty() {
                return refused;
            }
            for (client, connection) in wave.clone().zip(&mut connections) {
                connection.send(&ask_as(client)).expect("a request is sent");
            }
            for connection in connections.iter_mut().take(wave.len()) {
                let answer = connection.answer_to("GET").expect("an answer comes");
                assert!(matches!(answer.status, 200 | 401 | 429 | 503), "{answer:?}");
                refused += usize::from(matches!(answer.status, 429 | 503));
                if !answer.keeps_connection() {
                    *connection = gate.connect();
                }
            }
        }
    });
    let (after, peak, took) = (gate.resident_kib(), gate.resident_peak_kib(), start.elapsed());
    let tables = gate.metrics().sum("tidegate_limit_memory_bytes", &[]) / 1024.0;
    println!(
        "{size} clients in {took:.0?} ({:.0}/s), {refused} refused; resident {before} KiB before, {after} KiB after, \
         {peak} KiB at most, {tables} KiB of them told by the limits",
        size as f64 / took.as_secs_f64(),
    );
    assert!(refused * 1_000 <= size, "{refused} of {size} were refused and charged nowhere");
    assert!(peak <= MOST_KIB, "{peak} KiB for ten limits");
}

/// A client's only request: to one of the two routes, each of which is asked by both families.
fn ask_as(client: usize) -> Vec<u8> {
    let (path, address) = (if client % 4 < 2 { "/page" } else { "/login" }, address_of(client));
    format!("GET {path} HTTP/1.1\r\nHost: gate.example\r\nX-Forwarded-For: {address}\r\n\r\n").into_bytes()
}
