//! Two thousand keys of one limit in use at once, at three gates that share it through a real store: how few of their requests
//! wait for it, and how many questions they cost.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::harness::Gate;
use crate::harness::redis::Server;
use crate::harness::shared::{gates, told};
use crate::shared_limits::{LONG, policy};

/// How many clients come in turn.
const KEYS: usize = 2_000;

/// Connections to each gate, each of which has clients of its own.
const CONNECTIONS: usize = 4;

/// Half of the time that a lease lives: whose client stays away for longer than this, or for the rest of it, may have to wait. That
/// is the machine's affair.
const STAYED_AWAY: Duration = Duration::from_secs(2);

/// What clients saw.
#[derive(Debug, Default)]
struct Seen {
    requests: usize,
    /// Those whose client had stayed away for too long at that gate.
    late: usize,
}

/// Every client comes so often to every gate, one after the other; all of them are admitted.
fn come(gates: &[Gate], times: usize, last: &mut [Vec<Option<Instant>>]) -> Seen {
    let seen = Mutex::new(Seen::default());
    std::thread::scope(|scope| {
        for (gate, last) in gates.iter().zip(last) {
            for (number, last) in last.chunks_mut(KEYS / CONNECTIONS).enumerate() {
                let seen = &seen;
                scope.spawn(move || {
                    let (mut connection, mut mine) = (gate.connect(), Seen::default());
                    for _ in 0..times {
                        for (key, last) in last.iter_mut().enumerate() {
                            let key = number * (KEYS / CONNECTIONS) + key;
                            let client = format!("X-Forwarded-For: 203.0.{}.{}\r\n", key / 250, key % 250 + 1);
                            let now = Instant::now();
                            let before = last.replace(now);
                            mine.late += usize::from(before.is_some_and(|before| now - before > STAYED_AWAY));
                            let answer = connection.ask("GET", "/", &client, b"");
                            assert_eq!(answer.status, 200);
                            mine.requests += 1;
                            if !answer.keeps_connection() {
                                connection = gate.connect();
                            }
                        }
                    }
                    let mut all = seen.lock().unwrap();
                    all.requests += mine.requests;
                    all.late += mine.late;
                });
            }
        }
    });
    seen.into_inner().unwrap()
}

#[test]
fn of_two_thousand_keys_hardly_a_request_waits_for_a_lease() {
    for (sharing, times) in [("lease", 8), ("exact", 1), ("estimate", 1)] {
        let store = Server::start(&[]);
        let gates = gates(&policy(&store, LONG, &format!("rate: 100/s, sharing: {sharing}")));
        let counts = || ["questions", "waits"].map(|what| told(&gates, &format!("tidegate_store_{what}_total"), &[]));
        let mut last = vec![vec![None; KEYS]; gates.len()];
        let began = Instant::now();
        let first = come(&gates, 2, &mut last);
        let at_first = counts();
        let (since, seen) = (Instant::now(), come(&gates, times, &mut last));
        let took = since.elapsed();
        let at_last = counts();
        let requests = seen.requests as f64;
        let [questions, waits] = [0, 1].map(|what| at_last[what] - at_first[what]);
        println!(
            "{sharing}: {requests} requests in {took:.1?}, {:.1} per second of each key at each gate: {:.2} % waited, {:.0} round \
             trips per 1,000; of the {} before, in {:.1?}, {:.1} % waited",
            requests / took.as_secs_f64() / KEYS as f64 / gates.len() as f64,
            100.0 * waits / requests,
            1e3 * questions / requests,
            first.requests,
            since - began,
            100.0 * at_first[1] / first.requests as f64,
        );
        match sharing {
            "lease" => {
                println!("{} of them came after more than {STAYED_AWAY:?}", seen.late);
                assert!(waits <= requests / 100.0 + seen.late as f64, "{waits} of {requests}");
                assert!(questions <= requests * 0.75 + seen.late as f64, "{questions} for {requests}");
            }
            // each one asks, and waits for that
            "exact" => assert!((waits - requests).abs() <= 1e-9 && questions >= requests, "{waits}, {questions}"),
            _ => assert_eq!((questions, waits), (0.0, 0.0)),
        }
        assert_eq!(told(&gates, "tidegate_store_fallback_decisions_total", &[]), 0.0);
    }
}
