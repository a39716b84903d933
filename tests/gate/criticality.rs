//! How much a request matters, by its route, its client's tier and the word of a trusted peer: who goes first, what its origin is told,
//! and what a stranger cannot say.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::explain;
use crate::h2::raw::{Outcome, Raw, head};
use crate::harness::client::request;
use crate::harness::gate::{binary, end};
use crate::harness::{Arrival, Connection, Gate, Latch, Origin, Reply, wait_for};

/// What origins are told.
const TOLD: &str = "x-tidegate-criticality";

/// An origin that holds each request until its latch opens.
fn held(requests: usize) -> (Origin, Vec<Latch>) {
    let latches: Vec<Latch> = (0..requests).map(|_| Latch::default()).collect();
    let (of, next) = (latches.clone(), AtomicUsize::new(0));
    let origin = Origin::start(move |_| match of.get(next.fetch_add(1, Ordering::SeqCst)) {
        Some(latch) => Reply::Held(latch.clone()),
        None => Reply::Ok,
    });
    (origin, latches)
}

fn gate(origin: &Origin, inflight: &str, words: &str) -> Gate {
    explain::start(&format!(
        "listeners:
  main: {{ address: \"127.0.0.1:0\", protocols: [h2, http/1.1] }}
{words}
telemetry: {{ metrics: {{ address: \"127.0.0.1:0\" }}, access_log: {{ to: ACCESS_LOG, sample: {{ refused: none }} }} }}
origins:
  app: {{ addresses: [\"{}\"], inflight: {{ {inflight} }} }}
routes:
  - {{ name: pay, match: {{ path: /pay }}, origin: app, criticality: critical }}
  - {{ name: crawl, match: {{ path: /crawl }}, origin: app, criticality: background }}
  - {{ name: site, origin: app }}
",
        origin.address()
    ))
}

fn send(gate: &Gate, host: u8, path: &str, lines: &str) -> Connection {
    let mut connection = Connection::open_from(Ipv4Addr::new(127, 0, 0, host), gate.address("main"));
    connection.send(&request("GET", path, lines, b"")).unwrap();
    connection
}

fn waits(gate: &Gate, many: f64) {
    wait_for("the queue", || (gate.metrics().sum("tidegate_origin_queue_requests", &[]) == many).then_some(()));
}

fn waiting(gate: &Gate, class: &str) -> f64 {
    gate.metrics().sum("tidegate_origin_queue_requests", &[("origin", "app"), ("criticality", class)])
}

/// The paths in the order in which they came, each with what the origin was told.
fn told(origin: &Origin) -> Vec<String> {
    let told = |arrival: &Arrival| format!("{} {}", arrival.target, arrival.lines(TOLD).join("+"));
    origin.arrivals().iter().map(told).collect()
}

fn all_pass(latches: &[Latch], connections: &mut [Connection]) {
    latches.iter().for_each(Latch::open);
    for connection in connections {
        assert_eq!(connection.answer_to("GET").expect("an answer comes").status, 200);
    }
}

#[test]
fn what_a_stranger_says_changes_nothing_and_goes_no_further() {
    for words in [
        "",
        "trusted_proxies: [127.0.0.0/8]",
        "trusted_proxies: { from: [10.0.0.0/8], criticality: X-Criticality }",
        "trusted_proxies: { from: [127.0.0.0/8], criticality: x-word }",
    ] {
        let (origin, latches) = held(8);
        let mut gate = gate(&origin, "max: 1, queue: 8, queue_timeout: 60s", words);
        let mut all = vec![send(&gate, 1, "/first", "")];
        origin.wait_for(1);
        all.push(send(&gate, 2, "/honest", ""));
        waits(&gate, 1.0);
        // repeated lines are as little the stranger's to send
        let forged = format!("X-Criticality: critical\r\nX-Criticality: critical\r\n{TOLD}: critical\r\n");
        all.push(send(&gate, 3, "/forged", &forged));
        waits(&gate, 2.0);
        assert_eq!([waiting(&gate, "critical"), waiting(&gate, "default")], [0.0, 2.0], "{words}");
        all_pass(&latches, &mut all);
        assert_eq!(told(&origin), ["/first ", "/honest ", "/forged "], "{words}");
        let forged = origin.arrivals().pop().expect("it came");
        // a field that the policy does not know is the origin's business
        let known = words.contains("X-Criticality");
        assert_eq!(forged.lines("x-criticality").is_empty(), known, "{words}");
        gate.comes_to_rest();
    }
}

#[test]
fn a_stranger_finds_no_spelling_in_which_the_origin_takes_its_word() {
    let origin = Origin::that(Reply::Ok);
    let words = "trusted_proxies: { from: [10.0.0.0/8], criticality: X-Criticality }";
    let gate = gate(&origin, "max: 8", words);
    for name in ["X_Tidegate_Criticality", "X-Tidegate_Criticality", "X.Tidegate-Criticality"] {
        assert_eq!(gate.fetch("/", &format!("{name}: critical\r\n")).status, 400, "{name}");
    }
    for name in ["X_Criticality", "X-TIDEGATE-CRITICALITY", "x-criticality"] {
        let status = gate.fetch("/crawl", &format!("{name}: critical\r\n")).status;
        assert!([200, 400].contains(&status), "{name}: {status}");
    }
    let mut raw = Raw::open(gate.address("main"), &[]);
    let fields: [(&[u8], &[u8]); 6] = [
        (b":method", b"GET"),
        (b":scheme", b"http"),
        (b":authority", b"a"),
        (b":path", b"/crawl"),
        (b"x-criticality", b"critical"),
        (b"x-tidegate-criticality", b"critical"),
    ];
    raw.send(&head(1, &fields, true)).unwrap();
    assert_eq!(raw.outcome(1).unwrap(), Outcome::Status(200));
    for arrival in origin.arrivals() {
        assert_eq!(arrival.lines(TOLD), ["background"], "the route's word");
        let words = String::from_utf8_lossy(&arrival.head).to_lowercase();
        assert!(!words.contains("critical\r") && !words.contains("x-criticality"), "{words}");
    }
    assert!(origin.count() >= 3);
}

#[test]
fn the_word_of_a_trusted_peer_wins_over_route_and_tier_up_to_its_ceiling() {
    let origin = Origin::that(Reply::Ok);
    let gate = gate(
        &origin,
        "max: 8",
        "trusted_proxies: { from: [127.0.0.0/8], criticality: { field: X-Criticality, ceiling: default } }
tiers:
  staff: { when: { cidr: 192.0.2.0/24 }, criticality: sheddable }
  partner: { when: { cidr: 198.51.100.7/32 }, weight: 100, criticality: critical }",
    );
    for (client, path, said, wanted) in [
        ("203.0.113.1", "/", "", ""),
        ("203.0.113.1", "/pay", "", "critical"),
        ("203.0.113.1", "/pay", "background", "background"),
        ("203.0.113.1", "/crawl", "critical", ""),
        ("203.0.113.1", "/pay", "critical", "critical"),
        ("203.0.113.1", "/crawl", "urgent", "background"),
        ("192.0.2.9", "/pay", "", "sheddable"),
        ("192.0.2.9", "/pay", "Default", ""),
        ("192.0.2.9", "/pay", "critical", ""),
        ("198.51.100.7", "/crawl", "", "critical"),
        ("198.51.100.7", "/crawl", "critical", "critical"),
        ("198.51.100.7", "/crawl", "sheddable", "sheddable"),
    ] {
        let before = origin.count();
        let own = if said.is_empty() { String::new() } else { format!("X-Criticality: {said}\r\n") };
        let answer = gate.fetch(path, &format!("X-Forwarded-For: {client}\r\n{own}"));
        assert_eq!(answer.status, 200);
        let arrival = origin.arrivals().remove(before);
        assert_eq!(arrival.lines(TOLD).concat(), wanted, "{client} {path} {said}");
        assert!(arrival.lines("x-criticality").is_empty(), "the origin reads one field");
    }
    // one line is the proxy's and one is not, and nobody knows which
    let twice = gate.fetch("/", "X-Criticality: critical\r\nX-Criticality: background\r\n");
    assert_eq!(twice.status, 400);
    let logged: Vec<String> = gate.log_of(13).into_iter().take(4).map(|entry| entry.criticality).collect();
    assert_eq!(logged, ["", "critical", "background", ""]);
}

#[test]
fn a_tier_goes_first_and_is_told_of_where_it_is_refused() {
    let (origin, latches) = held(8);
    let mut gate = gate(
        &origin,
        "max: 1, queue: 2, queue_timeout: 60s, networks: {}",
        "tiers:
  partner: { when: { cidr: 127.0.0.7/32 }, weight: 100, criticality: critical }
  batch: { when: { cidr: 127.0.0.8/31 }, weight: 5, criticality: background }",
    );
    let mut all = vec![send(&gate, 1, "/first", "")];
    origin.wait_for(1);
    let mut batch = send(&gate, 8, "/batch", "");
    waits(&gate, 1.0);
    all.push(send(&gate, 2, "/site", ""));
    waits(&gate, 2.0);
    all.push(send(&gate, 7, "/partner", ""));
    let refused = batch.answer_to("GET").expect("an answer comes");
    assert_eq!(refused.status, 503);
    waits(&gate, 2.0);
    assert_eq!(
        ["critical", "default", "sheddable", "background"].map(|class| waiting(&gate, class)),
        [1.0, 1.0, 0.0, 0.0]
    );
    let shed = [("origin", "app"), ("criticality", "background"), ("reason", "pushed_out")];
    assert_eq!(gate.metrics().sum("tidegate_origin_shed_requests_total", &shed), 1.0);
    let id = refused.field("x-tidegate-decision").expect("a refusal has an id");
    let explained = end(binary().args(["explain", "--decision", &id, "--admin"]).arg(gate.admin_socket())).stdout;
    for words in ["class     background", "each of the 5 clients it stands for (tier batch)"] {
        assert!(explained.contains(words), "{words} in:\n{explained}");
    }
    all_pass(&latches, &mut all);
    assert_eq!(told(&origin), ["/first ", "/partner critical", "/site "]);
    gate.comes_to_rest();
}

#[test]
fn a_weight_counts_what_a_client_holds_for_as_many_clients() {
    for (tiers, last) in
        [("", "/other"), ("tiers: { office: { when: { cidr: 127.0.0.9/32 }, weight: 100 } }", "/office")]
    {
        let (origin, latches) = held(8);
        let mut gate = gate(&origin, "max: 4, queue: 8, queue_timeout: 60s, reserve: none, networks: {}", tiers);
        let mut all = Vec::new();
        // the office holds two places
        for (at, host) in [9, 9, 3, 4].into_iter().enumerate() {
            all.push(send(&gate, host, "/held", ""));
            origin.wait_for(at + 1);
        }
        all.push(send(&gate, 3, "/other", ""));
        waits(&gate, 1.0);
        all.push(send(&gate, 9, "/office", ""));
        waits(&gate, 2.0);
        // somebody else's
        latches[3].open();
        origin.wait_for(5);
        assert_eq!(origin.arrivals().last().expect("five came").target, last, "{tiers}");
        all_pass(&latches, &mut all);
        gate.comes_to_rest();
    }
}

#[test]
fn places_that_are_kept_for_a_class_are_free_when_it_comes() {
    let (origin, latches) = held(8);
    let words = "max: 4, queue: 1, queue_timeout: 60s, reserved: { critical: 25% }";
    let mut gate = gate(&origin, words, "");
    let mut all = Vec::new();
    for host in 1..=3 {
        all.push(send(&gate, host, "/site", ""));
        origin.wait_for(usize::from(host));
    }
    all.push(send(&gate, 4, "/waits", ""));
    waits(&gate, 1.0);
    // the first host holds a place, and so it is the heavier of the two
    let refused = send(&gate, 1, "/more", "").answer_to("GET").expect("an answer comes");
    assert_eq!(refused.status, 503);
    let id = refused.field("x-tidegate-decision").expect("a refusal has an id");
    let explained = end(binary().args(["explain", "--decision", &id, "--admin"]).arg(gate.admin_socket())).stdout;
    for words in ["app: 3 of 4 places held", "kept for more important requests: 1"] {
        assert!(explained.contains(words), "{words} in:\n{explained}");
    }
    all.push(send(&gate, 5, "/pay", ""));
    origin.wait_for(4);
    assert_eq!(gate.metrics().sum("tidegate_origin_inflight_requests", &[]), 4.0);
    waits(&gate, 1.0);
    all_pass(&latches, &mut all);
    let last = told(&origin).split_off(3);
    assert_eq!(last, ["/pay critical", "/waits "]);
    gate.comes_to_rest();
}
