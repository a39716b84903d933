//! Shared limits of which the store hears later what became of a grant: failures, costs by answer, bytes, and places of requests under way.
//! Three gates on one store.

use std::process::Stdio;
use std::time::Duration;

use crate::harness::client::request;
use crate::harness::redis::Server;
use crate::harness::shared::{gates, told};
use crate::harness::systemd::Systemd;
use crate::harness::{Connection, Gate, Latch, Origin, Reply, undisturbed, wait_for};

const CLIENT: &str = "X-Forwarded-For: 203.0.113.7\r\n";
const FAILED: &[u8] = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno";
const DEAR: &[u8] = b"HTTP/1.1 200 OK\r\nX-Cost: 40\r\nContent-Length: 2\r\n\r\nok";

fn origin(latch: &Latch) -> Origin {
    let latch = latch.clone();
    Origin::start(move |arrival| match arrival.target.as_str() {
        "/held" => Reply::Held(latch.clone()),
        "/wrong" => Reply::Bytes(FAILED),
        "/dear" => Reply::Bytes(DEAR),
        "/echo" => Reply::Echo,
        _ => Reply::Ok,
    })
}

fn policy(store: &Server, origin: &Origin, words: &str) -> String {
    format!(
        "secrets: {{ client_hmac: \"one secret of all the gates\" }}
trusted_proxies: [127.0.0.0/8]
stores:
  shared: {{ url: \"redis://127.0.0.1:{}\", timeout: 1s }}
limits:
  per_client: {{ {words}, store: shared }}
routes:
  - {{ name: all, origin: \"{}\", limits: [per_client] }}
telemetry:
  metrics: {{ address: \"127.0.0.1:0\" }}
",
        store.port,
        origin.address()
    )
}

fn status(gate: &Gate, path: &str) -> u16 {
    gate.fetch(path, CLIENT).status
}

/// `None` if a gate has decided without its store, which proves nothing then.
fn with_the_store(gates: &[Gate]) -> Option<()> {
    (told(gates, "tidegate_store_fallback_decisions_total", &[]) == 0.0).then_some(())
}

#[test]
fn guesses_at_all_gates_come_to_one_limit_and_right_passwords_cost_nothing() {
    for sharing in ["lease", "exact"] {
        undisturbed(sharing, || {
            let (store, origin) = (Server::start(&[]), origin(&Latch::default()));
            let words =
                format!("rate: 5/h, burst: 5, count: \"responses 401\", sharing: {sharing}, on_store_error: closed");
            let gates = gates(&policy(&store, &origin, &words));
            for nth in 0..30 {
                assert_eq!(status(&gates[nth % 3], "/right"), 200, "{sharing}: {nth}");
                // at the other gates it is free once the store has heard of the answer
                wait_for("the store to hear of it", || {
                    (store.cli(&["KEYS", "*:per_client:*"]).is_empty()).then_some(())
                });
            }
            for nth in 0..5 {
                assert_eq!(status(&gates[nth % 3], "/wrong"), 401, "{sharing}: {nth}");
            }
            with_the_store(&gates)?;
            for nth in 0..12 {
                assert_eq!(status(&gates[nth % 3], "/wrong"), 429, "{sharing}: {nth}");
            }
            assert_eq!(status(&gates[1], "/right"), 429, "{sharing}: as at one gate");
            assert_eq!(origin.count(), 35);
            Some(())
        });
    }
}

#[test]
fn what_answers_say_they_cost_is_one_budget_of_all_gates() {
    undisturbed("costs by answer", || {
        let (store, origin) = (Server::start(&[]), origin(&Latch::default()));
        let words = "rate: 100/h, burst: 100, cost: 'response:x-cost', cost_estimate: 10, on_store_error: closed";
        let gates = gates(&policy(&store, &origin, words));
        for (nth, units) in [40, 80, 120].into_iter().enumerate() {
            assert_eq!(status(&gates[nth], "/dear"), 200, "{nth}");
            // format, cost of a unit, debt, stamp
            wait_for("the store to hear of the cost", || {
                let value = store.cli(&["GET", &store.cli(&["KEYS", "*:per_client:rate"])]);
                let words: Vec<u64> = value.split(' ').filter_map(|word| word.parse().ok()).collect();
                let [_, cost, debt, _] = words[..] else { return None };
                (debt.div_ceil(cost) == units).then_some(())
            });
        }
        with_the_store(&gates)?;
        let answer = gates[0].fetch("/dear", CLIENT);
        let wait: u64 = answer.field("retry-after")?.parse().ok()?;
        // 20 beyond the burst, and what the next is held to cost
        assert!(answer.status == 429 && (20 * 36..=61 * 36).contains(&wait), "{wait}");
        assert!(gates.iter().all(|gate| status(gate, "/") == 429));
        Some(())
    });
}

#[test]
fn bytes_that_pass_at_one_gate_are_charged_at_all() {
    undisturbed("bytes", || {
        let (store, origin) = (Server::start(&[]), origin(&Latch::default()));
        let gates = gates(&policy(&store, &origin, "rate: 1MiB/h, burst: 1MiB, on_store_error: closed"));
        let body = vec![b'x'; 600 << 10];
        let answer = gates[0].connect().ask("POST", "/echo", CLIENT, &body);
        assert_eq!((answer.status, answer.body.len()), (200, body.len()));
        with_the_store(&gates)?;
        for gate in &gates[1..] {
            wait_for("the other gates to hear of it", || (status(gate, "/") == 429).then_some(()));
        }
        Some(())
    });
}

/// How many places the store has written down.
fn lent(store: &Server) -> u32 {
    let value = store.cli(&["GET", &store.cli(&["KEYS", "*:per_client:places"])]);
    value.split(' ').skip(2).filter_map(|word| word.parse::<u32>().ok()).sum()
}

fn begin(gate: &Gate, origin: &Origin) -> Connection {
    let mut connection = gate.connect();
    begin_on(&mut connection, origin);
    connection
}

fn begin_on(connection: &mut Connection, origin: &Origin) {
    let before = origin.count();
    connection.send(&request("GET", "/held", CLIENT, b"")).unwrap();
    origin.wait_for(before + 1);
}

#[test]
fn places_in_the_store_outlive_an_upgrade_and_end_with_the_requests_of_the_old_process() {
    let (systemd, latch) = (Systemd::new(), Latch::default());
    let (store, origin) = (Server::start(&[]), origin(&latch));
    // the old process asks the new one about the limit beside it
    let policy = policy(&store, &origin, "type: inflight, key: client_ip, max: 3, on_store_error: closed")
        .replace("limits:\n", "limits:\n  beside: { rate: 1000/s }\n")
        .replace("[per_client]", "[beside, per_client]")
        + "server: { overload: off, drain: { delay: 0s, timeout: 60s } }\nlisteners: { main: { address: \"127.0.0.1:0\" } }\n";
    let mut gate = systemd.start(&[], "exec \"$0\" \"$@\"", Stdio::null(), &policy);
    systemd.wait_for("READY=1", 1);
    wait_for("a connection to the store", || {
        (gate.metrics().sum("tidegate_store_connected", &[]) == 1.0).then_some(())
    });
    let mut first = begin(&gate, &origin);
    let mut kept = gate.connect();
    assert_eq!(kept.ask("GET", "/", CLIENT, b"").status, 200);
    let ended = gate.upgrade();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    begin_on(&mut kept, &origin);
    let mut third = begin(&gate, &origin);
    assert_eq!(status(&gate, "/"), 429, "two are under way in the old process, one in the new");
    latch.open();
    for connection in [&mut first, &mut kept, &mut third] {
        assert_eq!(connection.answer_to("GET").unwrap().status, 200);
    }
    wait_for("all places", || store.cli(&["KEYS", "*:per_client:places"]).is_empty().then_some(()));
}

#[test]
fn requests_under_way_at_all_gates_come_to_one_cap_and_a_killed_gate_keeps_no_place() {
    undisturbed("places", || {
        let latch = Latch::default();
        let (store, origin) = (Server::start(&[]), origin(&latch));
        let words = "type: inflight, key: client_ip, max: 2, on_store_error: closed";
        let mut gates = gates(&policy(&store, &origin, words));
        // one after the other, a place is free as soon as the store has heard of it
        for nth in 0..9 {
            assert_eq!(status(&gates[nth % 3], "/"), 200, "{nth}");
            wait_for("its place", || store.cli(&["KEYS", "*:per_client:places"]).is_empty().then_some(()));
        }
        let mut first = begin(&gates[0], &origin);
        let _second = begin(&gates[1], &origin);
        for gate in &gates {
            let answer = gate.fetch("/", CLIENT);
            assert_eq!((answer.status, answer.field("retry-after").is_some()), (429, true), "{answer:?}");
        }
        with_the_store(&gates)?;
        drop(gates.remove(1));
        std::thread::sleep(Duration::from_secs(5));
        // before its life is over it counts
        assert!(gates.iter().all(|gate| status(gate, "/") == 429));
        let free = || gates.iter().any(|gate| status(gate, "/") == 200).then_some(());
        wait_for("the place of the killed gate", free);
        wait_for("the place that was asked for to be free again", || (lent(&store) == 1).then_some(()));
        // and until no gate believes a refusal any more
        std::thread::sleep(Duration::from_millis(50));
        // the other is as old, and was lent anew for as long as its request is under way
        let third = begin(&gates[1], &origin);
        assert!(gates.iter().all(|gate| status(gate, "/") == 429), "both are under way");
        with_the_store(&gates)?;
        latch.open();
        assert_eq!(first.answer_to("GET").unwrap().status, 200);
        drop(third);
        wait_for("all places", || store.cli(&["KEYS", "*:per_client:places"]).is_empty().then_some(()));
        Some(())
    });
}

#[test]
fn a_store_that_is_emptied_lends_as_many_places_again_at_most_and_only_for_a_moment() {
    undisturbed("an emptied store", || {
        let latch = Latch::default();
        let (store, origin) = (Server::start(&[]), origin(&latch));
        let gates = gates(&policy(&store, &origin, "type: inflight, key: client_ip, max: 2, on_store_error: closed"));
        let _held = [begin(&gates[0], &origin), begin(&gates[1], &origin)];
        assert_eq!(status(&gates[2], "/"), 429);
        store.cli(&["FLUSHALL"]);
        wait_for("the places to be lent anew", || (lent(&store) == 2).then_some(()));
        with_the_store(&gates)?;
        assert!(gates.iter().all(|gate| status(gate, "/") == 429));
        latch.open();
        Some(())
    });
}

#[test]
fn without_its_store_each_gate_has_a_part_of_the_places_and_of_the_guesses() {
    let latch = Latch::default();
    let (mut store, origin) = (Server::start(&[]), origin(&latch));
    let places = gates(&policy(&store, &origin, "type: inflight, key: client_ip, max: 6"));
    store.kill();
    for gate in &places {
        let _held = [begin(gate, &origin), begin(gate, &origin)];
        wait_for("its part to be taken", || (status(gate, "/") == 429).then_some(()));
    }
    drop(places);
    store.restart();
    let guesses = gates(&policy(&store, &origin, "rate: 6/h, burst: 6, count: \"responses 401\""));
    store.kill();
    for gate in &guesses {
        for nth in 0..10 {
            assert_eq!(status(gate, "/right"), 200, "{nth}: costs nothing");
        }
        let statuses = [(); 4].map(|()| status(gate, "/wrong"));
        assert_eq!(statuses, [401, 401, 429, 429], "two of six");
    }
    latch.open();
}
