//! Of a cluster one server is gone, or silent: its keys are decided without the store, all others by the store, to the unit.

use std::collections::BTreeMap;

use crate::harness::gate::{binary, end};
use crate::harness::redis::{Cluster, Server};
use crate::harness::shared::gates;
use crate::harness::{Gate, wait_for};
use crate::shared_limits::without_store;

const BURST: usize = 20;
/// How often the count is tried, with other clients each time: one that a server answered too late proves nothing.
const TRIES: usize = 4;
/// Clients that have their key on the same server, in one try.
const CLIENTS: usize = 2;

fn policy(cluster: &Cluster) -> String {
    let each: Vec<String> = cluster.servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
    format!(
        "secrets: {{ client_hmac: \"one secret of all the gates\" }}
trusted_proxies: [127.0.0.0/8]
stores:
  shared: {{ url: \"redis://{}\", mode: cluster, timeout: 1s, breaker: {{ open_after: 2, half_open_every: 10s }} }}
limits:
  all: {{ rate: 1/h, burst: {BURST}, store: shared, sharing: exact, on_store_error: open }}
routes:
  - {{ name: page, limits: [all], respond: {{ status: 200, body: ok }} }}
telemetry:
  metrics: {{ address: \"127.0.0.1:0\" }}
  access_log: {{ to: ACCESS_LOG, sample: {{ refused: none }} }}
",
        each.join(",")
    )
}

fn fetch(gate: &Gate, client: usize) -> u16 {
    gate.fetch("/", &format!("X-Forwarded-For: 203.0.113.{client}\r\n")).status
}

fn keys(server: &Server) -> usize {
    server.cli(&["KEYS", "*:all:rate"]).lines().filter(|line| !line.is_empty()).count()
}

/// Clients by the server that has their keys, enough of each for all tries; each has spent one unit.
fn clients(cluster: &Cluster, gate: &Gate) -> BTreeMap<usize, Vec<usize>> {
    let mut by_server: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for client in 1..250 {
        if (0..3).all(|server| by_server.get(&server).is_some_and(|clients| clients.len() >= CLIENTS * TRIES)) {
            return by_server;
        }
        let before: Vec<usize> = cluster.servers.iter().map(keys).collect();
        assert_eq!(fetch(gate, client), 200);
        let has_more = |server: &usize| keys(&cluster.servers[*server]) > before[*server];
        // a question that was answered too late counts nevertheless
        let server = wait_for("its key to be somewhere", || (0..3).find(has_more));
        by_server.entry(server).or_default().push(client);
    }
    panic!("a server has fewer than {} keys of 250", CLIENTS * TRIES);
}

/// Asks each gate again and again for all clients, and holds what was admitted against what there was.
fn hold(gates: &[Gate], by_server: &BTreeMap<usize, Vec<usize>>, gone: usize) {
    for number in 0..TRIES {
        let clients = |all: &[usize]| all[number * CLIENTS..][..CLIENTS].to_vec();
        let by_server = by_server.iter().map(|(server, all)| (*server, clients(all))).collect();
        for gate in gates {
            wait_for("the other two to be asked", || (servers(gate, "asked") == 2.0).then_some(()));
        }
        if holds(gates, &by_server, gone) {
            return;
        }
    }
    panic!("in each of {TRIES} tries, requests were decided without the servers that are there");
}

/// `false` where a healthy server was not asked, or answered later than in a second: such a request passes, and is not
/// counted exactly.
fn holds(gates: &[Gate], by_server: &BTreeMap<usize, Vec<usize>>, gone: usize) -> bool {
    let mut admitted: BTreeMap<usize, usize> = BTreeMap::new();
    let before = without_store(gates);
    for _ in 0..BURST {
        for client in by_server.values().flatten() {
            for gate in gates {
                *admitted.entry(*client).or_default() += usize::from(fetch(gate, *client) == 200);
            }
        }
    }
    let expected = (BURST * gates.len() * CLIENTS) as f64;
    let without = without_store(gates) - before;
    println!("{without} decisions without the store, {expected} for the server that is gone");
    if without > expected {
        return false;
    }
    assert_eq!(without, expected, "each for a key of server {gone}");
    for (server, clients) in by_server {
        for client in clients {
            let expected = if *server == gone { BURST * gates.len() } else { BURST - 1 };
            assert_eq!(admitted[client], expected, "server {server}, of which {gone} is gone");
        }
    }
    true
}

fn servers(gate: &Gate, state: &str) -> f64 {
    gate.metrics().sum("tidegate_store_servers", &[("state", state)])
}

fn start() -> (Cluster, Vec<Gate>) {
    let cluster = Cluster::start();
    for server in &cluster.servers {
        assert_eq!(server.cli(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]), "OK");
    }
    let gates = gates(&policy(&cluster));
    for gate in &gates {
        assert_eq!(servers(gate, "asked"), 3.0);
    }
    (cluster, gates)
}

#[test]
fn a_server_that_is_killed_switches_no_limit_off_for_keys_of_the_others() {
    let (mut cluster, gates) = start();
    let by_server = clients(&cluster, &gates[0]);
    cluster.servers[0].kill();
    for gate in &gates {
        wait_for("the end of the connection", || (servers(gate, "not_connected") == 1.0).then_some(()));
    }
    hold(&gates, &by_server, 0);
    let gate = &gates[0];
    assert_eq!(servers(gate, "asked"), 2.0);
    let status = end(binary().args(["status", "--admin"]).arg(gate.admin_socket())).stdout;
    let told = format!("! store shared: 1 of 3 servers not asked (127.0.0.1:{}): ", cluster.servers[0].port);
    assert!(status.contains(&told), "{status}");
    cluster.servers[0].restart();
    wait_for("all servers", || (servers(gate, "asked") == 3.0).then_some(()));
}

#[test]
fn a_server_that_is_silent_is_left_alone_by_itself() {
    let (cluster, gates) = start();
    let by_server = clients(&cluster, &gates[0]);
    cluster.servers[1].pause();
    let client = by_server[&1][0];
    for gate in &gates {
        wait_for("the breaker", || {
            assert_eq!(fetch(gate, client), 200, "it is open to all");
            (servers(gate, "asked") == 2.0).then_some(())
        });
    }
    // two questions each were sent to the silent one, which may charge them yet, and are not counted here
    hold(&gates, &by_server, 1);
    cluster.servers[1].resume();
}
