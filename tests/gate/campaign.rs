//! Kills, restarts and upgrades one after the other beside load, with limits of each kind of budget: no key gets more than its promise.
//!
//! `TIDEGATE_CAMPAIGN=200,50,20` says how many upgrades, kills and restarts there are; the suite runs few.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::harness::client::request;
use crate::harness::gate::{Folder, binary};
use crate::harness::{Connection, Gate, wait_for};

const MAX: usize = 120;
const LOADS: usize = 2;
const KINDS: usize = 6;
const PATHS: [&str; KINDS] = ["/rate", "/quota", "/sliding", "/distinct", "/failures", "/average"];

/// Budgets that do not come back while the test runs. The average holds as many as its half-life has: 120 of them.
fn policy(directory: &Path) -> String {
    let limits = [
        format!("rate: {{ rate: {MAX}/d, burst: {MAX} }}"),
        format!("quota: {{ type: quota, max: {MAX}, window: 744h }}"),
        format!("sliding: {{ type: quota, sliding: true, max: {MAX}, window: 744h }}"),
        format!("distinct: {{ type: distinct, of: header:x-value, max: {MAX}, window: 744h }}"),
        format!("failures: {{ rate: {MAX}/d, burst: {MAX}, count: responses 200 }}"),
        "average: { type: recent_average, rate: 83/d, half_life: 24h, count: admitted }".to_owned(),
    ];
    let limit =
        |text: &String| format!("  {}\n", text.replace("{ ", "{ key: header:x-key, missing: deny, memory: 256KiB, "));
    let route = |path: &&str| {
        format!("  - {{ match: {{ path: {path} }}, limits: [{}], respond: {{ status: 200 }} }}\n", &path[1..])
    };
    format!(
        "listeners: {{ main: {{ address: \"127.0.0.1:0\" }} }}
limits:
{}routes:
{}server: {{ overload: off, state: {{ directory: \"{}\", every: 100ms }}, drain: {{ delay: 0s, timeout: 5s }} }}
telemetry: {{ metrics: {{ address: \"127.0.0.1:0\" }} }}
",
        limits.iter().map(limit).collect::<String>(),
        PATHS.iter().map(route).collect::<String>(),
        directory.display()
    )
}

/// What came of the requests of each key, by kind.
#[derive(Default)]
struct Key {
    admitted: [AtomicUsize; KINDS],
    refused: [AtomicUsize; KINDS],
}

impl Key {
    fn admitted(&self) -> [usize; KINDS] {
        self.admitted.each_ref().map(|count| count.load(Ordering::SeqCst))
    }

    /// Waits until each kind has refused so often.
    fn is_spent(&self) {
        wait_for("every budget to be spent", || {
            self.refused.iter().all(|count| count.load(Ordering::SeqCst) >= 3).then_some(())
        });
    }
}

struct Ground {
    keys: Vec<Key>,
    key: AtomicUsize,
    address: Mutex<SocketAddr>,
    /// Whether a request may fail, as no process serves.
    down: AtomicBool,
    failed: AtomicUsize,
    asked: AtomicUsize,
    stop: AtomicBool,
}

impl Ground {
    fn load(&self) {
        while !self.stop.load(Ordering::SeqCst) {
            let number = self.asked.fetch_add(1, Ordering::SeqCst);
            let (kind, at) = (number % KINDS, self.key.load(Ordering::SeqCst));
            let may_fail = self.down.load(Ordering::SeqCst);
            let lines = format!("Host: a\r\nConnection: close\r\nx-key: {at}\r\nx-value: {number}\r\n");
            let to = *self.address.lock().unwrap();
            let answer = Connection::try_open(to).and_then(|mut connection| {
                connection.send(&request("GET", PATHS[kind], &lines, b""))?;
                connection.answer_to("GET")
            });
            match answer.map(|answer| answer.status) {
                Ok(200) => self.keys[at].admitted[kind].fetch_add(1, Ordering::SeqCst),
                Ok(429) => self.keys[at].refused[kind].fetch_add(1, Ordering::SeqCst),
                _ if may_fail || self.down.load(Ordering::SeqCst) => 0,
                _ => self.failed.fetch_add(1, Ordering::SeqCst),
            };
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn next_key(&self) -> &Key {
        let at = self.key.fetch_add(1, Ordering::SeqCst) + 1;
        // some of it is spent before anything happens
        wait_for("requests of the key", || {
            self.keys[at].admitted().iter().all(|admitted| *admitted >= 10).then_some(())
        });
        &self.keys[at]
    }

    /// What was admitted before a snapshot began that is there now.
    fn saved(&self, key: &Key, snapshot: &Path) -> [usize; KINDS] {
        let file = || fs::metadata(snapshot).ok().map(|found| (found.ino(), found.mtime(), found.mtime_nsec()));
        let (mut before, mut admitted) = (file(), key.admitted());
        let mut next = || {
            wait_for("a snapshot", || {
                let answered = key.admitted();
                if file() == before {
                    admitted = answered;
                    return None;
                }
                before = file();
                Some(admitted)
            })
        };
        // answered before the first one was there, so before the second one began
        let saved = next();
        next();
        saved
    }
}

fn counts() -> [usize; 3] {
    let wanted = std::env::var("TIDEGATE_CAMPAIGN").unwrap_or_else(|_| "3,2,1".to_owned());
    let counts: Vec<usize> = wanted.split(',').map(|count| count.trim().parse().expect("numbers")).collect();
    counts.try_into().expect("upgrades, kills, restarts")
}

#[test]
fn kills_restarts_and_upgrades_under_load_admit_no_more_than_the_promise() {
    let [upgrades, kills, restarts] = counts();
    let kept = Folder::new();
    let directory = kept.path().join("state");
    let snapshot = directory.join("limits.state");
    let start = || {
        let folder = Folder::new();
        let mut command = binary();
        command.env("RUNTIME_DIRECTORY", folder.path());
        Gate::start_in(folder, Stdio::null(), command, &policy(&directory))
    };
    let mut gate = start();
    let ground = Ground {
        keys: (0..=upgrades + kills + restarts).map(|_| Key::default()).collect(),
        key: AtomicUsize::new(0),
        address: Mutex::new(gate.address("main")),
        down: AtomicBool::new(false),
        failed: AtomicUsize::new(0),
        asked: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
    };
    let (mut most_beyond, mut waits) = (0, Vec::new());
    std::thread::scope(|scope| {
        // ends the load also when an assertion fails
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..LOADS).for_each(|_| drop(scope.spawn(|| ground.load())));
            // what the average admits, which no formula tells to the unit
            ground.keys[0].is_spent();
            let alone = ground.keys[0].admitted();
            assert!(alone.iter().take(KINDS - 1).all(|admitted| *admitted == MAX), "{alone:?}");
            let within = |key: &Key, beyond: [usize; KINDS], what: &str| {
                key.is_spent();
                let admitted = key.admitted();
                for kind in 0..KINDS {
                    let most = alone[kind] + beyond[kind];
                    assert!(admitted[kind] <= most, "{what}: {} admitted {} of {most}", PATHS[kind], admitted[kind]);
                    // a charge of the moment of the copy may count twice, and one whose answer was cut off is known to nobody
                    assert!(2 * (admitted[kind] + LOADS) >= alone[kind], "{what}: {} {admitted:?}", PATHS[kind]);
                }
            };
            for _ in 0..kills {
                let key = ground.next_key();
                let saved = ground.saved(key, &snapshot);
                ground.down.store(true, Ordering::SeqCst);
                gate.signal("KILL");
                gate.exit_status();
                let admitted = key.admitted();
                gate = start();
                *ground.address.lock().unwrap() = gate.address("main");
                ground.down.store(false, Ordering::SeqCst);
                // one more whose answer was on its way
                let beyond = std::array::from_fn(|kind| admitted[kind] - saved[kind] + LOADS);
                most_beyond = most_beyond.max(beyond.into_iter().max().unwrap_or(0));
                within(key, beyond, "kill");
            }
            for _ in 0..restarts {
                let key = ground.next_key();
                ground.down.store(true, Ordering::SeqCst);
                gate.signal("TERM");
                assert!(gate.exit_status().success());
                gate = start();
                *ground.address.lock().unwrap() = gate.address("main");
                ground.down.store(false, Ordering::SeqCst);
                within(key, [0; KINDS], "restart");
            }
            for number in 0..upgrades {
                let key = ground.next_key();
                let ended = gate.upgrade();
                assert_eq!(ended.code, Some(0), "upgrade {number}: {}", ended.stderr);
                let wait =
                    ended.stdout.split("waited for ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
                waits.push(wait.expect("how long connections waited"));
                within(key, [0; KINDS], "upgrade");
            }
        }));
        ground.stop.store(true, Ordering::SeqCst);
        if let Err(fault) = ended {
            std::panic::resume_unwind(fault);
        }
    });
    waits.sort_by(f64::total_cmp);
    let at = |part: usize| waits.get((waits.len() * part / 100).min(waits.len().saturating_sub(1))).copied();
    println!(
        "{upgrades} upgrades, {kills} kills, {restarts} restarts beside {} requests: {} failed; connections waited {:?} ms (median), \
         {:?} ms (95 %), {:?} ms (longest); after a kill at most {most_beyond} more were allowed",
        ground.asked.load(Ordering::SeqCst),
        ground.failed.load(Ordering::SeqCst),
        at(50),
        at(95),
        at(100)
    );
    assert_eq!(ground.failed.load(Ordering::SeqCst), 0, "requests failed while a process served");
}
