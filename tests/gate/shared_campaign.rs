//! Three gates and their store, beside load: the store is emptied and replaced, gates are killed, restarted and upgraded. No key gets more
//! than docs/limits/cluster.md states, and a ban holds at all gates after each.
//!
//! `TIDEGATE_SHARED_CAMPAIGN=20,10,10,10,10` says how often the store is emptied and failed over, and gates are killed, restarted and
//! upgraded; the suite does each once.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::admin::verb;
use crate::harness::client::request;
use crate::harness::gate::{Folder, binary};
use crate::harness::redis::{Sentinels, Server};
use crate::harness::shared::{GATES, know_one_another};
use crate::harness::{Connection, Gate, wait_for};

/// A budget that does not come back while the test runs.
const MAX: usize = 120;
const LOADS: usize = 2;
const KINDS: usize = 6;
const PATHS: [&str; KINDS] = ["/lease", "/exact", "/quota", "/sliding", "/leased", "/estimate"];
/// Those that are refused without the store.
const CLOSED: std::ops::Range<usize> = 1..4;

fn policy(sentinels: &[Server]) -> String {
    let each: Vec<String> = sentinels.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
    let limits = [
        format!("lease: {{ rate: {MAX}/d, burst: {MAX} }}"),
        format!("exact: {{ rate: {MAX}/d, burst: {MAX}, sharing: exact, on_store_error: closed }}"),
        format!("quota: {{ type: quota, max: {MAX}, window: 744h, sharing: exact, on_store_error: closed }}"),
        format!(
            "sliding: {{ type: quota, sliding: true, max: {MAX}, window: 744h, sharing: exact, on_store_error: closed }}"
        ),
        format!("leased: {{ type: quota, max: {MAX}, window: 744h }}"),
        format!("estimate: {{ rate: {MAX}/d, burst: {MAX}, sharing: estimate }}"),
    ];
    let limit = |text: &String| {
        let text = text.replace("{ ", "{ key: header:x-key, missing: deny, store: shared, memory: 256KiB, ");
        format!("  {text}\n")
    };
    let route = |path: &&str| {
        format!("  - {{ match: {{ path: {path} }}, limits: [{}], respond: {{ status: 200 }} }}\n", &path[1..])
    };
    format!(
        "listeners: {{ main: {{ address: \"127.0.0.1:0\" }} }}
trusted_proxies: [127.0.0.0/8]
secrets: {{ client_hmac: \"one secret of all the gates\" }}
stores:
  shared: {{ url: \"redis://{}\", mode: sentinel, primary: shared, timeout: 500ms }}
limits:
{}routes:
  - {{ match: {{ path: /ok }}, respond: {{ status: 200 }} }}
{}server: {{ overload: off, drain: {{ delay: 0s, timeout: 5s }} }}
telemetry: {{ metrics: {{ address: \"127.0.0.1:0\" }} }}
",
        each.join(","),
        limits.iter().map(limit).collect::<String>(),
        PATHS.iter().map(route).collect::<String>(),
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
}

struct Ground {
    keys: Vec<Key>,
    key: AtomicUsize,
    /// Of each gate; `None` while it is down.
    gates: Mutex<[Option<SocketAddr>; GATES]>,
    /// Whether requests may fail.
    trouble: AtomicBool,
    failed: AtomicUsize,
    /// Requests that `on_store_error: closed` refused.
    closed: AtomicUsize,
    asked: AtomicUsize,
    stop: AtomicBool,
}

impl Ground {
    fn load(&self) {
        while !self.stop.load(Ordering::SeqCst) {
            let number = self.asked.fetch_add(1, Ordering::SeqCst);
            let (kind, gate, at) = (number % KINDS, number / KINDS % GATES, self.key.load(Ordering::SeqCst));
            let Some(to) = self.gates.lock().unwrap()[gate] else { continue };
            let in_trouble = self.trouble.load(Ordering::SeqCst);
            let lines = format!("Host: a\r\nConnection: close\r\nx-key: {at}\r\n");
            let answer = Connection::try_open(to).and_then(|mut connection| {
                connection.send(&request("GET", PATHS[kind], &lines, b""))?;
                connection.answer_to("GET")
            });
            match answer.map(|answer| answer.status) {
                Ok(200) => self.keys[at].admitted[kind].fetch_add(1, Ordering::SeqCst),
                Ok(429) => self.keys[at].refused[kind].fetch_add(1, Ordering::SeqCst),
                // `closed`, and a store that is late, as on a machine with too much to do
                Ok(503) if CLOSED.contains(&kind) => self.closed.fetch_add(1, Ordering::SeqCst),
                // the gate has just been ended
                _ if in_trouble || self.trouble.load(Ordering::SeqCst) => 0,
                _ => self.failed.fetch_add(1, Ordering::SeqCst),
            };
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A key of which some is spent before anything happens.
    fn next_key(&self) -> &Key {
        let at = self.key.fetch_add(1, Ordering::SeqCst) + 1;
        wait_for("requests of the key", || {
            self.keys[at].admitted().iter().all(|admitted| *admitted >= 20).then_some(())
        });
        &self.keys[at]
    }

    /// What each kind admitted since `before`, once every kind has refused so often since then that nothing more comes.
    fn spent(&self, key: &Key) -> [usize; KINDS] {
        let before = key.refused.each_ref().map(|count| count.load(Ordering::SeqCst));
        wait_for("every budget to be spent", || {
            let refused = |(count, before): (&AtomicUsize, usize)| count.load(Ordering::SeqCst) >= before + 3 * GATES;
            key.refused.iter().zip(before).all(refused).then_some(())
        });
        key.admitted()
    }
}

fn start(policy: &str) -> Gate {
    let folder = Folder::new();
    let mut command = binary();
    command.env("RUNTIME_DIRECTORY", folder.path());
    Gate::start_in(folder, Stdio::null(), command, policy)
}

fn counts() -> [usize; 5] {
    let wanted = std::env::var("TIDEGATE_SHARED_CAMPAIGN").unwrap_or_else(|_| "1,1,1,1,1".to_owned());
    let counts: Vec<usize> = wanted.split(',').map(|count| count.trim().parse().expect("numbers")).collect();
    counts.try_into().expect("emptied, failed over, killed, restarted, upgraded")
}

/// What happens to the store or to a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Emptied,
    FailedOver,
    Killed,
    Restarted,
    Upgraded,
}

impl Event {
    const ALL: [Event; 5] = [Event::Emptied, Event::FailedOver, Event::Killed, Event::Restarted, Event::Upgraded];

    /// What each kind may admit beyond its budget. `before` was admitted until it had happened, and `LOADS` may have been on their way.
    fn beyond(self, before: [usize; KINDS]) -> [usize; KINDS] {
        let estimate = (GATES - 1) * MAX;
        let mut beyond = match self {
            // a burst, or a window's budget, once
            Event::Emptied => [MAX; KINDS],
            // what the replica had not heard of, which may be all; by `local` a burst beside it, all gates together
            Event::FailedOver => before.map(|before| before + LOADS),
            Event::Killed | Event::Restarted | Event::Upgraded => [0; KINDS],
        };
        if self == Event::FailedOver {
            // lease, leased: of those also what gates had taken ahead and not spent, a quarter of the burst for all of them
            [0, 4].into_iter().for_each(|kind| beyond[kind] += MAX + MAX / 4);
        }
        // gates that tell each other; a gate that is ended without a snapshot forgets what it counted
        beyond[5] = if matches!(self, Event::Killed | Event::Restarted) { estimate + MAX } else { estimate };
        // a rate that gives one unit every twelve minutes
        beyond.map(|beyond| beyond + 1)
    }
}

/// Makes the old primary follow the new one, and changes their names.
fn follow(servers: &mut Sentinels) {
    servers.primary.restart();
    let port = servers.replica.port.to_string();
    servers.primary.cli(&["REPLICAOF", "127.0.0.1", &port]);
    wait_for("the replica", || servers.replica.cli(&["INFO", "replication"]).contains("state=online").then_some(()));
    wait_for("it to have everything", || {
        let linked = servers.primary.cli(&["INFO", "replication"]).contains("master_link_status:up");
        (linked && servers.primary.cli(&["DBSIZE"]) == servers.replica.cli(&["DBSIZE"])).then_some(())
    });
    for sentinel in &servers.sentinels {
        wait_for("the sentinels to know it", || {
            let told = sentinel.cli(&["SENTINEL", "REPLICAS", "shared"]);
            let port = servers.primary.port.to_string();
            (told.lines().any(|line| line == port) && !told.contains("s_down")).then_some(())
        });
    }
    std::mem::swap(&mut servers.primary, &mut servers.replica);
}

/// Waits until all know one another and ask the store.
fn are_well(gates: &[Gate]) {
    know_one_another(gates);
    for gate in gates {
        wait_for("the store to be asked", || {
            (gate.metrics().sum("tidegate_store_breaker_state", &[]) == 0.0).then_some(())
        });
    }
}

#[test]
fn whatever_happens_to_three_gates_and_their_store_no_key_gets_more_than_is_stated() {
    let counts = counts();
    let mut servers = Sentinels::start();
    let policy = policy(&servers.sentinels);
    let mut gates: Vec<Gate> = (0..GATES).map(|_| start(&policy)).collect();
    know_one_another(&gates);
    let mut addresses = [None; GATES];
    addresses.iter_mut().zip(&gates).for_each(|(address, gate)| *address = Some(gate.address("main")));
    let ground = Ground {
        keys: (0..=counts.iter().sum()).map(|_| Key::default()).collect(),
        key: AtomicUsize::new(0),
        gates: Mutex::new(addresses),
        trouble: AtomicBool::new(false),
        failed: AtomicUsize::new(0),
        closed: AtomicUsize::new(0),
        asked: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
    };
    let mut worst = [[i64::MIN; KINDS]; 5];
    std::thread::scope(|scope| {
        // ends the load also when an assertion fails
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..LOADS).for_each(|_| drop(scope.spawn(|| ground.load())));
            let order = Event::ALL.into_iter().zip(counts).enumerate();
            let order = order.flat_map(|(at, (event, count))| std::iter::repeat_n((at, event), count));
            for (banned, (at, event)) in (1..).zip(order) {
                let key = ground.next_key();
                let client = format!("203.0.113.{}", banned % 250);
                let ended = verb(&gates[banned % GATES], &["ban", &client, "--for", "10m"]);
                assert_eq!(ended.code, Some(0), "{}", ended.stderr);
                let hit = banned % GATES;
                ground.trouble.store(true, Ordering::SeqCst);
                match event {
                    Event::Emptied => assert_eq!(servers.primary.cli(&["FLUSHALL"]), "OK"),
                    Event::FailedOver => servers.primary.kill(),
                    Event::Killed | Event::Restarted => {
                        ground.gates.lock().unwrap()[hit] = None;
                        gates[hit].signal(if event == Event::Killed { "KILL" } else { "TERM" });
                        gates[hit].exit_status();
                        gates[hit] = start(&policy);
                        ground.gates.lock().unwrap()[hit] = Some(gates[hit].address("main"));
                    }
                    Event::Upgraded => {
                        let ended = gates[hit].upgrade();
                        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
                    }
                }
                let before = key.admitted();
                if event == Event::FailedOver {
                    let Sentinels { replica, .. } = &servers;
                    wait_for("the replica to take over", || replica.cli(&["ROLE"]).starts_with("master").then_some(()));
                }
                are_well(&gates);
                ground.trouble.store(false, Ordering::SeqCst);
                let admitted = ground.spent(key);
                let beyond = event.beyond(before);
                for kind in 0..KINDS {
                    let (most, path) = (MAX + beyond[kind], PATHS[kind]);
                    worst[at][kind] = worst[at][kind].max(admitted[kind] as i64 - MAX as i64);
                    assert!(admitted[kind] <= most, "{event:?}: {path} admitted {} of {most}", admitted[kind]);
                    assert!(2 * admitted[kind] >= MAX, "{event:?}: {path} {admitted:?}");
                }
                let began = Instant::now();
                for gate in &gates {
                    wait_for("a ban at all gates", || {
                        (gate.fetch("/ok", &format!("X-Forwarded-For: {client}\r\n")).status == 403).then_some(())
                    });
                }
                println!("{event:?}: {admitted:?} of {MAX}; the ban held everywhere {:.0?} later", began.elapsed());
                if event == Event::FailedOver {
                    ground.trouble.store(true, Ordering::SeqCst);
                    follow(&mut servers);
                    are_well(&gates);
                    ground.trouble.store(false, Ordering::SeqCst);
                }
            }
        }));
        ground.stop.store(true, Ordering::SeqCst);
        if let Err(fault) = ended {
            std::panic::resume_unwind(fault);
        }
    });
    let [asked, closed] = [&ground.asked, &ground.closed].map(|count| count.load(Ordering::SeqCst));
    println!(
        "{counts:?} of {:?} beside {asked} requests, {closed} refused by `closed`; beyond {MAX}, at most, of {PATHS:?}: {worst:?}",
        Event::ALL
    );
    assert_eq!(ground.failed.load(Ordering::SeqCst), 0, "requests failed while nothing happened");
}
