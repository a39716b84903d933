//! Several gates that share a limit, and what the clients that hammer them saw.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::gate::{Folder, binary};
use super::{Gate, wait_for};

/// How many gates share a limit here.
pub const GATES: usize = 3;

/// Gates with this policy, once they know one another.
pub fn gates(policy: &str) -> Vec<Gate> {
    let gates: Vec<Gate> = (0..GATES).map(|_| gate(policy)).collect();
    know_one_another(&gates);
    gates
}

/// A gate with this policy and an admin socket.
pub fn gate(policy: &str) -> Gate {
    let folder = Folder::new();
    let mut command = binary();
    command.env("RUNTIME_DIRECTORY", folder.path());
    Gate::start_in(folder, Stdio::null(), command, policy)
}

/// Waits until each of them has found all of them in its store.
pub fn know_one_another(gates: &[Gate]) {
    for gate in gates {
        wait_for("all gates to know one another", || {
            let metrics = gate.metrics();
            (metrics.sum("tidegate_store_nodes", &[]) == gates.len() as f64
                && metrics.sum("tidegate_store_connected", &[]) == 1.0)
                .then_some(())
        });
    }
}

/// One request as its client saw it.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// What was asked for.
    pub path: &'static str,
    /// Just before its first byte was sent.
    pub sent: Instant,
    /// Just after the last byte of its answer was read.
    pub answered: Instant,
    /// What the answer was.
    pub status: u16,
}

/// So many tests may hammer at once: more of them make stores late, and then prove nothing.
const AT_ONCE: usize = 2;

static HAMMERING: Mutex<usize> = Mutex::new(0);
static OVER: Condvar = Condvar::new();

/// A test's turn to hammer, which ends when it is dropped.
struct Turn;

impl Turn {
    fn wait() -> Turn {
        let hammering = HAMMERING.lock().unwrap_or_else(PoisonError::into_inner);
        let free = OVER.wait_while(hammering, |hammering| *hammering >= AT_ONCE);
        *free.unwrap_or_else(PoisonError::into_inner) += 1;
        Turn
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *HAMMERING.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        OVER.notify_one();
    }
}

/// Hammers all gates with requests of one client for each of these paths, from `threads` connections each, with so long a
/// pause between them, until `during` is over.
pub fn hammer(
    gates: &[Gate],
    paths: &[&'static str],
    threads: usize,
    pause: Duration,
    during: impl FnOnce(),
) -> Vec<Seen> {
    let _turn = Turn::wait();
    let (done, seen) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let (done, seen_by_all) = (&done, &seen);
    std::thread::scope(|scope| {
        for (gate, path) in gates.iter().flat_map(|gate| paths.iter().map(move |path| (gate, *path))) {
            for _ in 0..threads {
                scope.spawn(move || {
                    let (mut connection, mut mine) = (gate.connect(), Vec::new());
                    while !done.load(Ordering::Relaxed) {
                        let sent = Instant::now();
                        let answer = connection.ask("GET", path, "X-Forwarded-For: 203.0.113.7\r\n", b"");
                        mine.push(Seen { path, sent, answered: Instant::now(), status: answer.status });
                        if !answer.keeps_connection() {
                            connection = gate.connect();
                        }
                        std::thread::sleep(pause);
                    }
                    seen_by_all.lock().unwrap().append(&mut mine);
                });
            }
        }
        during();
        done.store(true, Ordering::Relaxed);
    });
    seen.into_inner().unwrap()
}

/// The most that was admitted for certain in any interval beyond `rate·τ`: requests that were sent and answered within it.
pub fn worst(seen: &[Seen], per_second: f64) -> f64 {
    let admitted = seen.iter().filter(|seen| seen.status == 200);
    let mut admitted: Vec<(Instant, Instant)> = admitted.map(|seen| (seen.sent, seen.answered)).collect();
    admitted.sort_unstable();
    // in order, when those were answered that were sent no earlier than the interval begins
    let mut ends: Vec<Instant> = Vec::with_capacity(admitted.len());
    let mut worst = 0.0_f64;
    for (begin, answered) in admitted.into_iter().rev() {
        ends.insert(ends.partition_point(|end| *end < answered), answered);
        for (count, end) in ends.iter().enumerate() {
            worst = worst.max(count as f64 + 1.0 - per_second * (*end - begin).as_secs_f64());
        }
    }
    worst
}

/// How often there was which status.
pub fn statuses(seen: &[Seen]) -> BTreeMap<u16, usize> {
    let mut counts = BTreeMap::new();
    seen.iter().for_each(|seen| *counts.entry(seen.status).or_default() += 1);
    counts
}

/// How long the slowest of them took.
pub fn slowest(seen: &[Seen]) -> Duration {
    seen.iter().map(|seen| seen.answered - seen.sent).max().unwrap_or_default()
}

/// Sum over all gates.
pub fn told(gates: &[Gate], metric: &str, labels: &[(&str, &str)]) -> f64 {
    gates.iter().map(|gate| gate.metrics().sum(metric, labels)).sum()
}
