//! Three gates and their store, beside load: the store is emptied and replaced, gates are killed, restarted and upgraded. No key gets more
//! than docs/limits/cluster.md states, and a ban holds at all gates after each.
//!
//! `TIDEGATE_SHARED_CAMPAIGN=20,10,10,10,10` says how often the store is emptied and failed over, and gates are killed, restarted and
//! upgraded; the suite does each once.

use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::admin::verb;
use crate::harness::client::request;
use crate::harness::gate::{Folder, binary};
use crate::harness::redis::{Sentinels, Server};
use crate::harness::shared::{GATES, know_one_another};
use crate::harness::{Connection, Gate, Origin, Reply, wait_for};

mod kinds;
mod places;

use kinds::{ALL, KINDS, Kind, Sharing};
use places::Places;

/// A budget that does not come back while the test runs.
const MAX: usize = 120;
const LOADS: usize = 2;

fn policy(sentinels: &[Server], origin: &Origin) -> String {
    let each: Vec<String> = sentinels.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
    format!(
        "listeners: {{ main: {{ address: \"127.0.0.1:0\" }} }}
trusted_proxies: [127.0.0.0/8]
secrets: {{ client_hmac: \"one secret of all the gates\" }}
stores:
  shared: {{ url: \"redis://{}\", mode: sentinel, primary: shared, timeout: 500ms }}
limits:
{}{}routes:
  - {{ match: {{ path: /ok }}, respond: {{ status: 200 }} }}
  - {{ match: {{ path: /places }}, limits: [places], origin: \"{}\" }}
{}server: {{ overload: off, drain: {{ delay: 0s, timeout: 5s }} }}
telemetry: {{ metrics: {{ address: \"127.0.0.1:0\" }} }}
",
        each.join(","),
        ALL.iter().map(Kind::limit).collect::<String>(),
        places::LIMIT,
        origin.address(),
        ALL.iter().map(|kind| kind.route(origin)).collect::<String>(),
    )
}

/// The origin of the limits that are charged by the answer, and of those of requests under way.
fn origin(places: &Arc<[Places]>) -> Origin {
    let places = Arc::clone(places);
    Origin::start(move |arrival| match arrival.target.as_str() {
        "/guesses" => Reply::Bytes(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno"),
        "/costs" => Reply::Bytes(b"HTTP/1.1 200 OK\r\nX-Cost: 2\r\nContent-Length: 2\r\n\r\nok"),
        "/bytes" => Reply::Echo,
        _ => {
            let key: usize = arrival.lines("x-key")[0].parse().expect("a number");
            places[key].hold();
            Reply::Ok
        }
    })
}

/// What came of the requests of each key, by kind; admitted in units.
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
            let lines = format!("Host: a\r\nConnection: close\r\nx-key: {at}\r\nx-name: {number}\r\n");
            let Kind { path, units, .. } = ALL[kind];
            let (method, body) = if path == "/bytes" { ("POST", &kinds::BODY[..]) } else { ("GET", &[][..]) };
            let answer = Connection::try_open(to).and_then(|mut connection| {
                connection.send(&request(method, path, &lines, body))?;
                connection.answer_to(method)
            });
            match answer.map(|answer| answer.status) {
                Ok(status) if status == ALL[kind].admitted => {
                    self.keys[at].admitted[kind].fetch_add(units, Ordering::SeqCst)
                }
                Ok(429) => self.keys[at].refused[kind].fetch_add(1, Ordering::SeqCst),
                // `closed`, and a store that is late, as on a machine with too much to do
                Ok(503) if ALL[kind].sharing == Sharing::Closed => self.closed.fetch_add(1, Ordering::SeqCst),
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
    let places = places::of_keys(1 + counts.iter().sum::<usize>());
    let origin = origin(&places);
    let policy = policy(&servers.sentinels, &origin);
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
    let mut most_under_way = [0; 5];
    let mut worst = [[i64::MIN; KINDS]; 5];
    std::thread::scope(|scope| {
        // ends the load also when an assertion fails
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..LOADS).for_each(|_| drop(scope.spawn(|| ground.load())));
            let ground = &ground;
            (0..GATES * places::CLIENTS).for_each(|at| drop(scope.spawn(move || places::want(ground, at % GATES))));
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
                for (kind, what) in ALL.iter().enumerate() {
                    let (most, path) = (MAX + what.beyond(event, before[kind]), what.path);
                    worst[at][kind] = worst[at][kind].max(admitted[kind] as i64 - MAX as i64);
                    assert!(admitted[kind] <= most, "{event:?}: {path} admitted {} of {most}", admitted[kind]);
                    assert!(2 * admitted[kind] >= MAX, "{event:?}: {path} {admitted:?}");
                }
                let of_key = &places[ground.key.load(Ordering::SeqCst)];
                // a killed gate may have had all of them
                if event != Event::Killed {
                    of_key.are_lent();
                }
                let (under_way, most) = (of_key.most(), places::most(event));
                assert!(under_way <= most, "{event:?}: {under_way} under way at once of {most}");
                most_under_way[at] = most_under_way[at].max(under_way);
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
        "{counts:?} of {:?} beside {asked} requests, {closed} refused by `closed`; beyond {MAX}, at most, of {:?}: {worst:?}; under way at \
         once, of {}: {most_under_way:?}",
        Event::ALL,
        ALL.map(|kind| kind.path),
        places::MAX
    );
    assert_eq!(ground.failed.load(Ordering::SeqCst), 0, "requests failed while nothing happened");
}
