//! Two thousand keys of one limit in use at once, at three gates that share it through a real store: how few of their requests
//! wait for it, and how many questions they cost.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::harness::redis::Server;
use crate::harness::shared::{gates, told};
use crate::harness::{Gate, undisturbed};
use crate::shared_limits::{LONG, policy, without_store};
use crate::skips::skip;

/// How many clients come in turn.
const KEYS: usize = 2_000;

/// Connections to each gate, each of which has clients of its own.
const CONNECTIONS: usize = 4;

/// Requests per second of each client at each gate, at least, where hardly a request waits (docs/limits/leases.md). A slow
/// machine sends them for fewer of the clients.
const PACE: f64 = 5.0;

/// A request may have to wait if its client's last one was longer ago than this, a quarter of a lease's life.
const STAYED_AWAY: Duration = Duration::from_secs(1);

/// What clients saw.
#[derive(Debug, Default)]
struct Seen {
    requests: usize,
    /// Those whose client had stayed away for too long at that gate.
    late: usize,
}

/// The first `keys` clients come so often to every gate, one after the other; all of them are admitted.
fn come(gates: &[Gate], keys: usize, times: usize, last: &mut [Vec<Option<Instant>>]) -> Seen {
    let seen = Mutex::new(Seen::default());
    std::thread::scope(|scope| {
        for (gate, last) in gates.iter().zip(last) {
            for (number, last) in last.chunks_mut(KEYS / CONNECTIONS).enumerate() {
                let seen = &seen;
                scope.spawn(move || {
                    let (mut connection, mut mine) = (gate.connect(), Seen::default());
                    for _ in 0..times {
                        for (key, last) in last.iter_mut().enumerate().take(keys / CONNECTIONS) {
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
    for sharing in ["exact", "estimate"] {
        undisturbed(sharing, || each_or_none_asks(sharing));
    }
    undisturbed("lease", hardly_a_request_waits);
}

/// Questions to the store, and requests that waited for it.
fn counts(gates: &[Gate]) -> [f64; 2] {
    ["questions", "waits"].map(|what| told(gates, &format!("tidegate_store_{what}_total"), &[]))
}

/// Without leases. `None` if the store was late.
fn each_or_none_asks(sharing: &str) -> Option<()> {
    let store = Server::start(&[]);
    let gates = gates(&policy(&store, LONG, &format!("rate: 100/s, sharing: {sharing}")));
    let requests = come(&gates, KEYS, 2, &mut vec![vec![None; KEYS]; gates.len()]).requests as f64;
    let [questions, waits] = counts(&gates);
    println!("{sharing}: {questions} questions and {waits} waits of {requests} requests");
    if without_store(&gates) > 0.0 {
        return None;
    }
    match sharing {
        // each one asks, and waits for that
        "exact" => assert!((waits - requests).abs() <= 1e-9 && questions >= requests, "{waits}, {questions}"),
        _ => assert_eq!((questions, waits), (0.0, 0.0)),
    }
    Some(())
}

/// `None` if the store was late.
fn hardly_a_request_waits() -> Option<()> {
    let store = Server::start(&[]);
    let gates = gates(&policy(&store, LONG, "rate: 100/s, sharing: lease"));
    let mut last = vec![vec![None; KEYS]; gates.len()];
    let (began, first) = (Instant::now(), come(&gates, KEYS, 2, &mut last));
    println!("at first {} requests in {:.1?}, {:.1} % waited", first.requests, began.elapsed(), {
        100.0 * counts(&gates)[1] / first.requests as f64
    });
    let mut keys = KEYS;
    for _ in 0..10 {
        // gates learn how often these come
        let _ = come(&gates, keys, 4, &mut last);
        let (before, since) = (counts(&gates), Instant::now());
        let seen = come(&gates, keys, 12, &mut last);
        let (took, requests, late) = (since.elapsed(), seen.requests as f64, seen.late as f64);
        let pace = requests / took.as_secs_f64() / keys as f64 / gates.len() as f64;
        let now = counts(&gates);
        let [questions, waits] = [0, 1].map(|what| now[what] - before[what]);
        println!(
            "of {keys} keys, {requests} requests in {took:.1?}, {pace:.1} per second of each at each gate: {:.2} % waited, \
             {:.0} round trips per 1,000; {late} of them came after more than {STAYED_AWAY:?}",
            100.0 * waits / requests,
            1e3 * questions / requests,
        );
        if without_store(&gates) > 0.0 {
            return None;
        }
        // the bound, and no more than a few that came too late for it
        if pace >= PACE && late <= requests / 100.0 {
            assert!(waits <= requests / 100.0 + late, "{waits} of {requests}");
            assert!(questions <= requests * 0.75 + late, "{questions} for {requests}");
            return Some(());
        }
        let share = (pace / PACE).min(1.0) * 0.8;
        keys = ((keys as f64 * share) as usize / CONNECTIONS * CONNECTIONS).max(100);
    }
    skip("waits of hot keys", format!("the machine sent none of them {PACE} requests/s at each gate, evenly"));
    Some(())
}
