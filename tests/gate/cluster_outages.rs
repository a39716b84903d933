//! What becomes of limits that three gates share when their store is replaced, moved, cut off or slow, under load: nobody but
//! under `closed` gets an error, and nobody gets more than docs/limits/cluster.md states.
//!
//! Each test prints what was measured. What decides are counts of clients and gates; of times only that nobody waited for the
//! whole outage.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::harness::apart::Apart;
use crate::harness::gate::{Folder, binary, end};
use crate::harness::redis::{Cluster, Sentinels, Server};
use crate::harness::relay::Relay;
use crate::harness::shared::{GATES, Seen, gate, gates, hammer, know_one_another, slowest, statuses, told, worst};
use crate::harness::{Gate, wait_for};
use crate::skips::skip;

/// What a request waits for the store at most.
const TIMEOUT: Duration = Duration::from_millis(100);
const BURST: f64 = 100.0;
const PER_SECOND: f64 = 50.0;
/// What leases add at most: three gates with a twelfth of the burst each.
const LEASES: f64 = 24.0;
/// A limit of its own behind each, and what it does without the store.
const PATHS: [&str; 3] = ["/local", "/closed", "/open"];

/// A gate's policy: three limits of the same key, each on a route of its own.
fn policy(store: &str) -> String {
    format!(
        "secrets: {{ client_hmac: \"one secret of all the gates\" }}
trusted_proxies: [127.0.0.0/8]
stores:
  shared: {{ {store}, timeout: {}ms }}
limits:
  local: {{ rate: 50/s, burst: 100, store: shared }}
  closed: {{ rate: 50/s, burst: 100, store: shared, sharing: exact, on_store_error: closed }}
  open: {{ rate: 50/s, burst: 100, store: shared, on_store_error: open }}
routes:
  - {{ name: local, match: {{ path: /local }}, limits: [local], respond: {{ status: 200, body: ok }} }}
  - {{ name: closed, match: {{ path: /closed }}, limits: [closed], respond: {{ status: 200, body: ok }} }}
  - {{ name: open, match: {{ path: /open }}, limits: [open], respond: {{ status: 200, body: ok }} }}
telemetry:
  metrics: {{ address: \"127.0.0.1:0\" }}
  access_log: {{ to: ACCESS_LOG, sample: {{ refused: none }} }}
",
        TIMEOUT.as_millis()
    )
}

fn addresses<'a>(servers: impl IntoIterator<Item = &'a Server>) -> String {
    let each: Vec<String> = servers.into_iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
    each.join(",")
}

/// What the clients of all three limits saw while something happened to the store.
struct Load {
    what: &'static str,
    seen: Vec<Seen>,
    /// Decisions by `local` before the trouble and after it: on a machine that has too much to do, a store may be late. Each
    /// may admit one request that the store does not count, and no more.
    calm: f64,
}

impl Load {
    /// A second without trouble, the trouble, and a second after the gates have an answer for each limit again. Both
    /// seconds are repeated until there is one in which the store decides all: so `calm` hides no gate that never asks.
    fn over(what: &'static str, gates: &[Gate], trouble: impl FnOnce()) -> Load {
        let by_local = || fallbacks(gates, "local");
        let second = || {
            wait_for("a second in which the store decides all", || {
                let (before, answers) = (by_local(), told(gates, "tidegate_store_answers_total", &[]));
                std::thread::sleep(Duration::from_secs(1));
                let answered = told(gates, "tidegate_store_answers_total", &[]) > answers;
                (answered && by_local() == before).then_some(())
            });
        };
        let (at_first, mut before, mut after) = (by_local(), 0.0, 0.0);
        let seen = hammer(gates, &PATHS, 1, Duration::from_millis(10), || {
            second();
            before = by_local();
            trouble();
            gates.iter().for_each(is_answered);
            after = by_local();
            second();
        });
        Load { what, seen, calm: before - at_first + by_local() - after }
    }

    fn of(&self, path: &str) -> Vec<Seen> {
        self.seen.iter().filter(|seen| seen.path == path).copied().collect()
    }

    /// Prints what was measured, and holds it against what may have been admitted beyond `burst + rate·τ`, by `local` and by
    /// `closed`.
    fn judge(&self, gates: &[Gate], local: f64, closed: f64) {
        for (path, most) in PATHS.into_iter().zip([local + self.calm, closed, f64::INFINITY]) {
            let seen = self.of(path);
            let (statuses, beyond) = (statuses(&seen), worst(&seen, PER_SECOND) - BURST);
            println!(
                "{}, {}: {} requests, {statuses:?}; worst interval burst + rate·τ {beyond:+.1}, stated {most:+.0}; \
                 slowest answer {:.0?}",
                self.what,
                &path[1..],
                seen.len(),
                slowest(&seen),
            );
            let fine = |status: &u16| matches!(status, 200 | 429) || *status == 503 && path == "/closed";
            assert!(statuses.keys().all(fine), "{}, {path}: {statuses:?}", self.what);
            assert!(beyond <= most, "{}, {path}: {beyond} beyond the promise", self.what);
        }
        for (number, gate) in gates.iter().enumerate() {
            let metrics = gate.metrics();
            let errors = |reason| metrics.sum("tidegate_store_errors_total", &[("reason", reason)]);
            println!(
                "{}, gate {number}: {:.0} questions, {:.0} timed out, {:.0} unreachable, {:.0} not sent; {:.0} requests \
                 waited, {:.0} decisions without the store; longest request by its own log {:.0?}",
                self.what,
                metrics.sum("tidegate_store_questions_total", &[]),
                errors("timeout"),
                errors("unreachable"),
                errors("breaker_open"),
                metrics.sum("tidegate_store_waits_total", &[]),
                metrics.sum("tidegate_store_fallback_decisions_total", &[]),
                longest(gate),
            );
        }
        // without a breaker all of them would have waited for nothing
        let in_vain = told(gates, "tidegate_store_errors_total", &[("reason", "timeout")]);
        let decided = told(gates, "tidegate_store_fallback_decisions_total", &[]);
        let most = decided / 2.0 + 20.0 * gates.len() as f64;
        assert!(in_vain <= most, "{in_vain} waits in vain for {decided} decisions without the store");
    }
}

/// Waits until the store has answered this gate something more.
fn is_answered(gate: &Gate) {
    let answers = || gate.metrics().sum("tidegate_store_answers_total", &[]);
    let before = answers();
    wait_for("the store to answer again", || (answers() >= before + 5.0).then_some(()));
}

/// By the gate's own clock.
fn longest(gate: &Gate) -> Duration {
    let text = gate.log_text();
    let nanos = text.lines().filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        line["duration_ns"].as_u64()
    });
    Duration::from_nanos(nanos.max().unwrap_or_default())
}

/// What gates admit by themselves while there is no store: a burst of their parts. And when it is back there is in it what it
/// got meanwhile, a burst at most.
const WITHOUT_STORE: f64 = 2.0 * BURST;

/// When a store went, when it was certainly not back yet, and when the last gate had found it.
struct Absence {
    began: Instant,
    ended: Instant,
    found: Instant,
    /// The fewest gates that any of them counted meanwhile: fewer than there are where a machine is so slow that stamps are missed.
    fewest: f64,
}

/// How many gates each counts, at the least.
fn fewest(gates: &[Gate]) -> f64 {
    gates.iter().map(|gate| gate.metrics().sum("tidegate_store_nodes", &[])).fold(f64::INFINITY, f64::min)
}

impl Absence {
    /// `ends` says whether it is back, and is asked until it is.
    fn over(gates: &[Gate], begin: impl FnOnce(), mut ends: impl FnMut() -> bool) -> Absence {
        let began = Instant::now();
        begin();
        let (mut ended, mut counted) = (Instant::now(), f64::INFINITY);
        wait_for("the store to be back", || {
            let asked = Instant::now();
            counted = counted.min(fewest(gates));
            let back = ends();
            if !back {
                ended = asked;
            }
            back.then_some(())
        });
        gates.iter().for_each(is_answered);
        Absence { began, ended, found: Instant::now(), fewest: counted.min(fewest(gates)) }
    }

    /// What `local` may admit by it. A gate that has not found the store yet goes on by its part, beside the others; and gates
    /// that count fewer than there are take so much more.
    fn local(&self) -> f64 {
        let (parts, more) = ((GATES - 1) as f64 / GATES as f64, GATES as f64 / self.fewest.max(1.0) - 1.0);
        let late = PER_SECOND * (self.found - self.ended).as_secs_f64() * parts;
        LEASES + WITHOUT_STORE + late + more * (BURST + PER_SECOND * (self.found - self.began).as_secs_f64())
    }

    fn print(&self, what: &str) {
        let (away, late) = (self.ended - self.began, self.found - self.ended);
        let fewest = self.fewest;
        println!(
            "{what}: back after {away:.1?}, found by the last gate {late:.1?} later; {fewest} gates counted at least"
        );
    }
}

#[test]
fn sentinels_that_replace_the_primary_cost_nobody_an_error() {
    let mut servers = Sentinels::start();
    let sentinels = addresses(&servers.sentinels);
    let gates = gates(&policy(&format!("url: \"redis://{sentinels}\", mode: sentinel, primary: shared")));
    let mut absence = None;
    let load = Load::over("failed over by Sentinel", &gates, || {
        let Sentinels { primary, replica, .. } = &mut servers;
        let took_over = || replica.cli(&["ROLE"]).starts_with("master");
        absence = Some(Absence::over(&gates, || primary.kill(), took_over));
    });
    let absence = absence.unwrap();
    absence.print(load.what);
    // `closed`: what the replica had not heard, a burst at most
    load.judge(&gates, absence.local(), BURST);
    assert!(told(&gates, "tidegate_store_fallback_decisions_total", &[("policy", "local")]) > 0.0);
    assert!(statuses(&load.of("/closed")).contains_key(&503), "there was an outage");
}

#[test]
fn a_cluster_that_moves_a_hot_key_or_loses_its_primary_costs_nobody_an_error() {
    let mut cluster = Cluster::start();
    let url = addresses(&cluster.servers);
    let gates = gates(&policy(&format!("url: \"redis://{url}\", mode: cluster")));
    let (mut key, mut to) = (String::new(), 0);
    let load = Load::over("slot resharded", &gates, || {
        key = wait_for("the hot key", || {
            cluster.servers.iter().map(|server| server.cli(&["KEYS", "*:closed:*"])).find(|key| !key.is_empty())
        });
        let slot = cluster.servers[0].cli(&["CLUSTER", "KEYSLOT", &key]);
        let from = cluster.owner(&slot);
        to = (from + 1) % 3;
        // there and back, and there again
        for (from, to) in [(from, to), (to, from), (from, to)] {
            cluster.reshard(&slot, from, to);
            std::thread::sleep(Duration::from_millis(300));
        }
        assert_eq!(cluster.servers[to].cli(&["EXISTS", &key]), "1", "the key has moved");
    });
    // a key that moves is always at one of the two servers; what gates decided without an answer they did beside them
    load.judge(&gates, LEASES + fallbacks(&gates, "local"), 0.0);

    let replica = cluster.replica_of(to);
    let mut absence = None;
    let load = Load::over("primary of a cluster killed", &gates, || {
        let took_over = || replica.cli(&["ROLE"]).starts_with("master");
        absence = Some(Absence::over(&gates, || cluster.servers[to].kill(), took_over));
        assert_eq!(replica.cli(&["EXISTS", &key]), "1", "the replica has the key");
    });
    let absence = absence.unwrap();
    absence.print(load.what);
    load.judge(&gates, absence.local(), BURST);
    assert!(fallbacks(&gates, "closed") > 0.0, "there was an outage");
}

/// Decisions that all of them made without the store.
fn fallbacks(gates: &[Gate], policy: &str) -> f64 {
    told(gates, "tidegate_store_fallback_decisions_total", &[("policy", policy)])
}

#[test]
fn a_gate_that_is_cut_off_from_the_store_goes_on_by_its_part() {
    let apart = match Apart::new() {
        Ok(apart) => apart,
        Err(why) => return skip("a gate that is cut off", format!("no network namespace, which takes root: {why}")),
    };
    let near = apart.store.to_string();
    let store = Server::start(&["--bind", "127.0.0.1", &near, "--protected-mode", "no"]);
    let policy_of = |host: &str| policy(&format!("url: \"redis://{host}:{}\"", store.port));
    let mut all: Vec<Gate> = (1..GATES).map(|_| gate(&policy_of("127.0.0.1"))).collect();
    let inside = policy_of(&near)
        .replace("trusted_proxies: [127.0.0.0/8]", &format!("trusted_proxies: [{}]", apart.network))
        .replace("127.0.0.1:0", &format!("{}:0", apart.inside));
    let listeners = format!("listeners: {{ main: {{ address: \"{}:0\" }} }}\n", apart.inside);
    all.push(Gate::start_in(Folder::new(), Stdio::null(), apart.binary(), &(listeners + &inside)));
    know_one_another(&all);
    let [one, other, cut] = &all[..] else { panic!("three gates") };

    let mut away = Duration::ZERO;
    let mut others = 0.0;
    let load = Load::over("one gate cut off", &all, || {
        let began = Instant::now();
        apart.cut();
        for gate in [one, other] {
            wait_for("the others to see that there are two", || {
                (gate.metrics().sum("tidegate_store_nodes", &[]) == 2.0).then_some(())
            });
        }
        others = told(&all[..2], "tidegate_store_errors_total", &[]);
        apart.mend();
        wait_for("the store to be back", || (cut.metrics().sum("tidegate_store_connected", &[]) == 1.0).then_some(()));
        is_answered(cut);
        away = began.elapsed();
    });
    // its part for as long as it was alone, and a second more for what was measured late
    let alone = (BURST + PER_SECOND * (away + Duration::from_secs(1)).as_secs_f64()) / 3.0;
    println!(
        "one gate cut off: for {away:.1?}, its part {alone:.0}; {others:.0} questions of the other two failed meanwhile"
    );
    load.judge(&all, LEASES + alone + fallbacks(&all[..2], "local"), 0.0);
    let fell_back = |gate: &Gate| gate.metrics().sum("tidegate_store_fallback_decisions_total", &[]);
    assert!(fell_back(cut) > fell_back(one) + fell_back(other), "the others have their store");
    assert!(longest(cut) < away, "a request waited for the cable: {:?}", longest(cut));
    know_one_another(&all);
}

#[test]
fn a_store_that_has_become_slow_is_left_alone() {
    // so long that a machine with too much to do is not taken for it
    const ANSWER: Duration = Duration::from_secs(3);
    let store = Server::start(&[]);
    let relay = Relay::to(store.port);
    let gates = gates(&policy(&format!("url: \"redis://127.0.0.1:{}\"", relay.port)));
    let mut absence = None;
    let load = Load::over("slow", &gates, || {
        let slow = || {
            relay.delay(ANSWER / 2);
            std::thread::sleep(ANSWER);
        };
        absence = Some(Absence::over(&gates, slow, || {
            relay.delay(Duration::ZERO);
            true
        }));
    });
    let absence = absence.unwrap();
    absence.print(load.what);
    load.judge(&gates, absence.local(), 0.0);
    for gate in &gates {
        let metrics = gate.metrics();
        assert!(metrics.sum("tidegate_store_errors_total", &[("reason", "timeout")]) > 0.0, "it was slow");
        assert!(longest(gate) < ANSWER, "a request waited for the store's answer: {:?}", longest(gate));
    }
}

/// Takes another text into a gate's policy.
fn reload(gate: &Gate, from: &str, to: &str) {
    let file = gate.folder().join("tidegate.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(from));
    std::fs::write(&file, text.replace(from, to)).unwrap();
    let ended = end(binary().arg("reload").arg("--admin").arg(gate.admin_socket()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn a_new_key_on_one_gate_after_the_other_counts_anew_once() {
    let store = Server::start(&[]);
    let gates = gates(&policy(&format!("url: \"redis://127.0.0.1:{}\"", store.port)));
    let name = || wait_for("the hot key", || Some(store.cli(&["KEYS", "*:closed:*"])).filter(|name| !name.is_empty()));
    let (mut names, mut apart) = ([String::new(), String::new()], Duration::ZERO);
    let load = Load::over("new client_hmac", &gates, || {
        names[0] = name();
        let began = Instant::now();
        for gate in &gates {
            reload(gate, "one secret of all the gates", "another of all the gates");
        }
        apart = began.elapsed();
        wait_for("the old name to go", || (!name().contains(&names[0])).then_some(()));
        names[1] = name();
    });
    assert_ne!(names[0], names[1], "the client has another name");
    // while some gates have the old key and some the new one, each group has the whole rate
    let extra = BURST + PER_SECOND * apart.as_secs_f64();
    println!("new client_hmac: on the last gate {apart:.1?} after the first");
    load.judge(&gates, LEASES + extra + fallbacks(&gates, "local"), extra);
}

#[test]
fn a_new_key_beside_the_previous_one_gives_nobody_more() {
    let store = Server::start(&[]);
    let gates = gates(&policy(&format!("url: \"redis://127.0.0.1:{}\"", store.port)));
    for gate in &gates {
        for (name, key) in [("old.key", "one secret of all the gates"), ("new.key", "another of all the gates")] {
            let file = gate.folder().join(name);
            std::fs::write(&file, key).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
    }
    let name = || wait_for("the hot key", || Some(store.cli(&["KEYS", "*:closed:*"])).filter(|name| !name.is_empty()));
    let mut names = [const { String::new() }; 3];
    let load = Load::over("new client_hmac beside the previous one", &gates, || {
        let pause = || std::thread::sleep(Duration::from_millis(700));
        names[0] = name();
        for gate in &gates {
            reload(gate, "\"one secret of all the gates\"", "{ file: new.key, previous_file: old.key }");
            pause();
        }
        names[1] = name();
        // until a burst has come back, and a second more for what was taken in advance
        std::thread::sleep(Duration::from_secs_f64(BURST / PER_SECOND + 1.0));
        for gate in &gates {
            reload(gate, "previous_file: old.key", "");
            pause();
        }
        wait_for("the old name to go", || (!name().contains(&names[0])).then_some(()));
        names[2] = name();
    });
    assert!(names[1].contains(&names[0]) && names[1].contains(&names[2]) && names[0] != names[2], "{names:?}");
    // what is left is told in whole requests
    load.judge(&gates, LEASES + 1.0 + fallbacks(&gates, "local"), 1.0);
}
