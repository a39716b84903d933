//! The queue before an origin: who goes next, who is refused, and what is told of it.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::explain;
use crate::harness::client::request;
use crate::harness::gate::{binary, end};
use crate::harness::{Connection, Gate, Latch, Origin, Reply, wait_for};

/// An origin that holds its n-th request until the n-th latch opens.
struct Held {
    origin: Origin,
    latches: Vec<Latch>,
}

fn held(requests: usize) -> Held {
    let latches: Vec<Latch> = (0..requests).map(|_| Latch::default()).collect();
    let (of, next) = (latches.clone(), AtomicUsize::new(0));
    let origin = Origin::start(move |_| match of.get(next.fetch_add(1, Ordering::SeqCst)) {
        Some(latch) => Reply::Held(latch.clone()),
        None => Reply::Ok,
    });
    Held { origin, latches }
}

fn gate(origin: &Origin, inflight: &str) -> Gate {
    explain::start(&format!(
        "origins:
  app: {{ addresses: [\"{}\"], inflight: {{ {inflight} }} }}
routes:
  - {{ name: site, origin: app }}
",
        origin.address()
    ))
}

fn send(gate: &Gate, host: u8, path: &str) -> Connection {
    let mut connection = Connection::open_from(Ipv4Addr::new(127, 0, 0, host), gate.address("main"));
    connection.send(&request("GET", path, "", b"")).unwrap();
    connection
}

fn waits(gate: &Gate, many: f64) {
    wait_for("the queue", || (gate.metrics().sum("tidegate_origin_queue_requests", &[]) == many).then_some(()));
}

#[test]
fn the_next_place_goes_to_whoever_holds_fewest() {
    let Held { origin, latches } = held(40);
    let mut gate = gate(&origin, "max: 2, queue: 40, queue_timeout: 60s, reserve: none");
    let mut flood: Vec<Connection> = (0..20).map(|_| send(&gate, 1, "/flood")).collect();
    origin.wait_for(2);
    waits(&gate, 18.0);
    // they come last, and are next
    let mut light = [send(&gate, 2, "/light"), send(&gate, 3, "/light")];
    waits(&gate, 20.0);
    for (at, latch) in latches.iter().take(2).enumerate() {
        latch.open();
        origin.wait_for(3 + at);
    }
    let targets: Vec<String> = origin.arrivals().iter().map(|arrival| arrival.target.clone()).collect();
    assert_eq!(targets, ["/flood", "/flood", "/light", "/light"]);
    assert_eq!(gate.metrics().sum("tidegate_origin_inflight_requests", &[]), 2.0, "the cap is kept");
    latches.iter().for_each(Latch::open);
    for connection in flood.iter_mut().chain(&mut light) {
        assert_eq!(connection.answer_to("GET").expect("an answer comes").status, 200);
    }
    gate.comes_to_rest();
}

#[test]
fn first_come_first_served_where_the_policy_says_so() {
    let Held { origin, latches } = held(40);
    let mut gate = gate(&origin, "max: 1, queue: 40, queue_timeout: 60s, order: arrival");
    let mut all = vec![send(&gate, 1, "/flood")];
    origin.wait_for(1);
    for at in 0..3 {
        all.push(send(&gate, 1, "/flood"));
        waits(&gate, f64::from(at + 1));
    }
    all.push(send(&gate, 2, "/light"));
    waits(&gate, 4.0);
    latches.iter().for_each(Latch::open);
    for connection in &mut all {
        assert_eq!(connection.answer_to("GET").expect("an answer comes").status, 200);
    }
    assert_eq!(origin.arrivals().last().map(|arrival| arrival.target.clone()).as_deref(), Some("/light"));
    gate.comes_to_rest();
}

#[test]
fn of_a_full_queue_the_heaviest_is_refused_and_told_why() {
    let Held { origin, latches } = held(40);
    let mut gate = gate(&origin, "max: 1, queue: 4, queue_timeout: 60s, reserve: none");
    let mut flood = vec![send(&gate, 1, "/flood")];
    origin.wait_for(1);
    for at in 0..4 {
        flood.push(send(&gate, 1, "/flood"));
        waits(&gate, f64::from(at + 1));
    }
    let mut light = send(&gate, 2, "/light");
    let shed = |gate: &Gate| gate.metrics().sum("tidegate_origin_shed_requests_total", &[("reason", "pushed_out")]);
    wait_for("one to be refused", || (shed(&gate) == 1.0).then_some(()));
    waits(&gate, 4.0);
    // the newest of the flood
    let refused = flood.pop().expect("five were sent").answer_to("GET").expect("an answer comes");
    assert_eq!(refused.status, 503);
    assert!(refused.field("retry-after").is_some());
    let id = refused.field("x-tidegate-decision").expect("a refusal has an id");
    let told = end(binary().args(["explain", "--decision", &id, "--admin"]).arg(gate.admin_socket())).stdout;
    for words in [
        "app: 1 of 1 places held, 5 waited; the heaviest went",
        "its client held 1, had 4 waiting",
        "4 would have gone before it",
        ": 1 held, 3 waiting",
    ] {
        assert!(told.contains(words), "{words} in:\n{told}");
    }
    let document =
        end(binary().args(["explain", "--decision", &id, "--format", "json", "--admin"]).arg(gate.admin_socket()));
    let document: Value = serde_json::from_str(&document.stdout).expect("it is JSON");
    let heaviest = &document["queue"]["heaviest"][0];
    assert_eq!((&heaviest["what"], &heaviest["held"], &heaviest["waiting"]), (&"client".into(), &1.into(), &3.into()));
    // the pseudonym under which the access log has the client that was refused
    assert_eq!(heaviest["name"], document["client"]["pseudonym"]);
    // page, top, status and metrics say who holds and waits now
    let status =
        |arguments: &[&str]| end(binary().arg("status").args(arguments).arg("--admin").arg(gate.admin_socket())).stdout;
    let state: Value = serde_json::from_str(&status(&["--format", "json"])).expect("it is JSON");
    let door = &state["origins"][0]["door"];
    assert_eq!((&door["held"]["default"], &door["waiting"]["default"]), (&1.into(), &4.into()), "{door}");
    let clients: Vec<_> =
        door["clients"].as_array().unwrap().iter().map(|one| (&one["held"], &one["waiting"])).collect();
    assert_eq!(clients, [(&1.into(), &3.into()), (&0.into(), &1.into())], "{door}");
    let networks: Vec<_> = door["networks"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert!(networks.len() == 2 && !networks.iter().any(|name| name.to_string().contains("127.0")), "{door}");
    assert_eq!(door["clients"][0]["name"], document["client"]["pseudonym"], "{door}");
    let top = end(binary().args(["top", "--once", "--width", "100", "--admin"]).arg(gate.admin_socket())).stdout;
    let name = door["clients"][0]["name"].as_str().unwrap();
    for screen in [status(&[]), top] {
        let row = screen
            .lines()
            .find(|line| line.starts_with(&format!("client {name}")))
            .unwrap_or_else(|| panic!("{screen}"));
        let cells: Vec<&str> = row.split_whitespace().skip(2).take(4).collect();
        assert_eq!(cells, ["app", "default", "1", "3"], "{screen}");
    }
    let metrics = gate.metrics();
    assert_eq!(metrics.sum("tidegate_origin_held_requests", &[("criticality", "default")]), 1.0);
    assert_eq!(metrics.sum("tidegate_origin_most_held_requests", &[("by", "network")]), 1.0);
    latches.iter().for_each(Latch::open);
    for connection in flood.iter_mut().chain([&mut light]) {
        assert_eq!(connection.answer_to("GET").expect("an answer comes").status, 200);
    }
    gate.comes_to_rest();
}

#[test]
fn a_reload_keeps_who_holds_and_who_waits() {
    let Held { origin, latches } = held(40);
    let mut gate = gate(&origin, "max: 1, queue: 8, queue_timeout: 60s");
    let mut all: Vec<Connection> = (0..5).map(|_| send(&gate, 1, "/")).collect();
    origin.wait_for(1);
    waits(&gate, 4.0);
    let file = gate.folder().join("tidegate.yaml");
    let policy = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, policy.replace("max: 1, queue: 8", "max: 3, queue: 16, networks: {20: 4}")).unwrap();
    let reloaded = end(binary().args(["reload", "--admin"]).arg(gate.admin_socket()));
    assert_eq!(reloaded.code, Some(0), "{}", reloaded.stderr);
    origin.wait_for(3);
    assert_eq!(gate.metrics().sum("tidegate_origin_inflight_requests", &[]), 3.0);
    waits(&gate, 2.0);
    latches.iter().for_each(Latch::open);
    for connection in &mut all {
        assert_eq!(connection.answer_to("GET").expect("an answer comes").status, 200);
    }
    gate.comes_to_rest();
}

#[test]
fn critical_requests_go_before_others_and_background_ones_are_refused_first() {
    let Held { origin, latches } = held(40);
    let mut gate = explain::start(&format!(
        "origins:
  app: {{ addresses: [\"{}\"], inflight: {{ max: 1, queue: 2, queue_timeout: 60s }} }}
routes:
  - {{ name: pay, match: {{ path: /pay }}, origin: app, criticality: critical }}
  - {{ name: crawl, match: {{ path: /crawl }}, origin: app, criticality: background }}
  - {{ name: site, origin: app }}
",
        origin.address()
    ));
    let mut inside = send(&gate, 1, "/first");
    origin.wait_for(1);
    let mut crawl = send(&gate, 2, "/crawl");
    waits(&gate, 1.0);
    let mut site = send(&gate, 3, "/site");
    waits(&gate, 2.0);
    // the client that holds a place, and so the heaviest: it pays, and is next
    let mut pay = send(&gate, 1, "/pay");
    assert_eq!(crawl.answer_to("GET").expect("an answer comes").status, 503);
    waits(&gate, 2.0);
    latches.iter().for_each(Latch::open);
    for connection in [&mut inside, &mut site, &mut pay] {
        assert_eq!(connection.answer_to("GET").expect("an answer comes").status, 200);
    }
    let targets: Vec<String> = origin.arrivals().iter().map(|arrival| arrival.target.clone()).collect();
    assert_eq!(targets, ["/first", "/pay", "/site"]);
    gate.comes_to_rest();
}

/// The head of an upload from this host, which never comes whole.
fn upload(gate: &Gate, host: u8) -> Connection {
    let mut connection = Connection::open_from(Ipv4Addr::new(127, 0, 0, host), gate.address("main"));
    connection.send(b"POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n0").unwrap();
    connection
}

/// Sends a byte on each of them, time and again, until the request of the other is answered.
fn dripping(connections: &mut [Connection], other: &mut Connection) -> u16 {
    thread::scope(|scope| {
        let answer = scope.spawn(|| other.answer_to("GET").expect("an answer comes").status);
        while !answer.is_finished() {
            thread::sleep(Duration::from_millis(50));
            for connection in &mut *connections {
                // those that had to let go are closed
                let _ = connection.send(b"0");
            }
        }
        answer.join().unwrap()
    })
}

#[test]
fn slow_uploads_let_go_of_their_places_for_others_and_keep_what_is_theirs() {
    let origin = Origin::start(|_| Reply::Ok);
    // nothing is learned of how long requests wait
    let mut gate = gate(&origin, "max: 4, queue: 40, queue_timeout: 60s, reserve: none");
    let mut slow: Vec<Connection> = (0..4).map(|_| upload(&gate, 1)).collect();
    wait_for("all places", || (gate.metrics().sum("tidegate_origin_inflight_requests", &[]) == 4.0).then_some(()));
    let mut light = send(&gate, 2, "/light");
    assert_eq!(dripping(&mut slow, &mut light), 200);
    let gave_way = |gate: &Gate| gate.metrics().sum("tidegate_origin_shed_requests_total", &[("reason", "gave_way")]);
    let went = gave_way(&gate);
    assert!((1.0..=3.0).contains(&went), "{went}");
    // one place is anybody's own, and who waits for it waits
    let hosts = [1, 3, 4, 5];
    drop(slow);
    gate.comes_to_rest();
    let mut slow: Vec<Connection> = hosts.iter().map(|host| upload(&gate, *host)).collect();
    wait_for("all places", || (gate.metrics().sum("tidegate_origin_inflight_requests", &[]) == 4.0).then_some(()));
    let mut light = send(&gate, 2, "/light");
    for _ in 0..40 {
        thread::sleep(Duration::from_millis(50));
        slow.iter_mut().for_each(|connection| connection.send(b"0").expect("nobody had to let go"));
    }
    assert_eq!(gave_way(&gate), went);
    drop(slow);
    assert_eq!(light.answer_to("GET").expect("an answer comes").status, 200);
    gate.comes_to_rest();
}

#[test]
fn answers_that_are_not_taken_let_go_of_their_places_for_others() {
    // one that asks for another protocol goes through the framework, and stays HTTP as the origin does not know it
    for fields in ["", "Connection: upgrade\r\nUpgrade: websocket\r\n"] {
        let origin = Origin::start(|arrival| if arrival.target == "/endless" { Reply::Endless } else { Reply::Ok });
        let mut gate = gate(&origin, "max: 3, queue: 40, queue_timeout: 60s, reserve: none");
        let slow: Vec<Connection> = (0..3)
            .map(|_| {
                let mut connection = Connection::open_from(Ipv4Addr::LOCALHOST, gate.address("main"));
                connection.send(&request("GET", "/endless", fields, b"")).unwrap();
                connection
            })
            .collect();
        wait_for("all places", || (gate.metrics().sum("tidegate_origin_inflight_requests", &[]) == 3.0).then_some(()));
        let mut light = send(&gate, 2, "/light");
        assert_eq!(light.answer_to("GET").expect("an answer comes").status, 200, "{fields}");
        gate.counts("tidegate_origin_shed_requests_total", &[("reason", "gave_way")], 1.0);
        drop(slow);
        gate.comes_to_rest();
    }
}
