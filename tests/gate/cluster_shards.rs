//! Of a cluster one server is gone, or silent: its keys are decided without the store, all others by the store, to the unit.

use std::collections::BTreeMap;

use crate::harness::gate::{binary, end};
use crate::harness::redis::{Cluster, Server};
use crate::harness::shared::gates;
use crate::harness::{Gate, wait_for};

const BURST: usize = 20;

fn policy(cluster: &Cluster, timeout: &str) -> String {
    let each: Vec<String> = cluster.servers.iter().map(|server| format!("127.0.0.1:{}", server.port)).collect();
    format!(
        "secrets: {{ client_hmac: \"one secret of all the gates\" }}
trusted_proxies: [127.0.0.0/8]
stores:
  shared: {{ url: \"redis://{}\", mode: cluster, timeout: {timeout}, breaker: {{ open_after: 2, half_open_every: 10s }} }}
limits:
  all: {{ rate: 1/h, burst: {BURST}, store: shared, sharing: exact, on_store_error: open }}
routes:
  - {{ name: page, limits: [all], respond: {{ status: 200, body: ok }} }}
telemetry:
  metrics: {{ address: \"127.0.0.1:0\" }}
  access_log: {{ to: ACCESS_LOG }}
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

/// Clients by the server that has their keys, two of each; each has spent one unit.
fn clients(cluster: &Cluster, gate: &Gate) -> BTreeMap<usize, Vec<usize>> {
    let mut by_server: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for client in 1..200 {
        if (0..3).all(|server| by_server.get(&server).is_some_and(|clients| clients.len() >= 2)) {
            return by_server;
        }
        let before: Vec<usize> = cluster.servers.iter().map(keys).collect();
        assert_eq!(fetch(gate, client), 200);
        let now: Vec<usize> = cluster.servers.iter().map(keys).collect();
        let server = (0..3).find(|server| now[*server] > before[*server]).expect("its key is somewhere");
        by_server.entry(server).or_default().push(client);
    }
    panic!("no server has two keys of 200");
}

/// Asks each gate again and again for all clients, and holds what was admitted against what there was.
fn hold(gates: &[Gate], by_server: &BTreeMap<usize, Vec<usize>>, gone: usize) {
    let mut admitted: BTreeMap<usize, usize> = BTreeMap::new();
    for _ in 0..BURST {
        for client in by_server.values().flatten() {
            for gate in gates {
                *admitted.entry(*client).or_default() += usize::from(fetch(gate, *client) == 200);
            }
        }
    }
    for (server, clients) in by_server {
        for client in clients {
            let expected = if *server == gone { BURST * gates.len() } else { BURST - 1 };
            assert_eq!(admitted[client], expected, "server {server}, of which {gone} is gone");
        }
    }
}

fn servers(gate: &Gate, state: &str) -> f64 {
    gate.metrics().sum("tidegate_store_servers", &[("state", state)])
}

fn start(timeout: &str) -> (Cluster, Vec<Gate>) {
    let cluster = Cluster::start();
    for server in &cluster.servers {
        assert_eq!(server.cli(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]), "OK");
    }
    let gates = gates(&policy(&cluster, timeout));
    for gate in &gates {
        assert_eq!(servers(gate, "asked"), 3.0);
    }
    (cluster, gates)
}

#[test]
fn a_server_that_is_killed_switches_no_limit_off_for_keys_of_the_others() {
    let (mut cluster, gates) = start("1s");
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
    let (cluster, gates) = start("500ms");
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
