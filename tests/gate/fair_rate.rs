//! `type: fair_share` through real sockets: bystanders beside a flood, a reload and a stop while requests wait.

use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::harness::client::request;
use crate::harness::gate::{Folder, binary, end};
use crate::harness::{Connection, Gate, wait_for};

/// Bystanders that ask at one instant.
const TOGETHER: usize = 10;
/// What they ask for in all is far below what is kept for them, so that a machine that stands still for a moment changes nothing.
const ROUNDS: usize = 3;
/// More than the queue has room for.
const FLOODING: usize = 100;

fn from(client: &str) -> Vec<u8> {
    request("GET", "/", &format!("X-Forwarded-For: {client}\r\n"), b"")
}

/// A site with so much for all.
fn site(fair: &str) -> String {
    format!(
        "listeners:
  main: {{ address: \"127.0.0.1:0\" }}
trusted_proxies: [127.0.0.0/8]
limits:
  fair: {{ type: fair_share, {fair} }}
routes:
  - {{ name: site, limits: [fair], respond: {{ status: 200, body: ok }} }}
telemetry:
  metrics: {{ address: \"127.0.0.1:0\" }}
server: {{ overload: off, threads: 2, drain: {{ delay: 0s, timeout: 20s }} }}
"
    )
}

/// Asks on many connections at once, again and again, until it is over. Says how many requests passed.
fn flood(gate: &Gate, refused: &AtomicUsize, over: &AtomicBool) -> usize {
    let mut connections: Vec<Connection> = (0..FLOODING / 2).map(|_| gate.connect()).collect();
    let mut passed = 0;
    while !over.load(Ordering::Relaxed) {
        for connection in &mut connections {
            connection.send(&from("198.51.100.9")).expect("a request is sent");
        }
        for connection in &mut connections {
            let answer = connection.answer_to("GET").expect("an answer comes");
            match answer.status {
                200 => passed += 1,
                503 => {
                    assert!(answer.field("retry-after").is_some(), "{answer:?}");
                    refused.fetch_add(1, Ordering::Relaxed);
                }
                _ => panic!("{answer:?}"),
            }
            if !answer.keeps_connection() {
                *connection = gate.connect();
            }
        }
    }
    passed
}

#[test]
fn bystanders_that_come_together_beside_a_flood_are_all_served() {
    let gate = Gate::start(&site("capacity: 30/s"));
    let (refused, over, begun) = (AtomicUsize::new(0), AtomicBool::new(false), Instant::now());
    let (bystanders, passed) = std::thread::scope(|scope| {
        let floods: Vec<_> = (0..2).map(|_| scope.spawn(|| flood(&gate, &refused, &over))).collect();
        let mut connections: Vec<Connection> = (0..TOGETHER).map(|_| gate.connect()).collect();
        wait_for("the flood to be refused", || (refused.load(Ordering::Relaxed) > FLOODING).then_some(()));
        let mut statuses = Vec::new();
        for _ in 0..ROUNDS {
            // as long as what is kept takes to come back, twice
            sleep(Duration::from_millis(1_400));
            for (client, connection) in connections.iter_mut().enumerate() {
                connection.send(&from(&format!("150.{client}.7.9"))).expect("a request is sent");
            }
            statuses.extend(connections.iter_mut().map(|one| one.answer_to("GET").expect("an answer comes").status));
        }
        over.store(true, Ordering::Relaxed);
        (statuses, floods.into_iter().map(|flood| flood.join().unwrap()).sum::<usize>())
    });
    let took = begun.elapsed().as_secs_f64();
    let refused = refused.load(Ordering::Relaxed);
    println!("{bystanders:?}; of the flood {passed} passed and {refused} were refused in {took:.1} s");
    assert!(bystanders.iter().all(|status| *status == 200), "{bystanders:?}");
    let most = 30.0 * took + 40.0;
    assert!((passed + bystanders.len()) as f64 <= most, "{passed} and {} passed, {most} at most", bystanders.len());
    let metrics = gate.metrics();
    let of = |metric, label, value| metrics.sum(metric, &[("limit", "fair"), (label, value)]);
    let shed = |reason| of("tidegate_fair_share_shed_requests_total", "reason", reason);
    assert_eq!(shed("rate_pushed_out") + shed("rate_timeout"), refused as f64);
    assert!(shed("rate_pushed_out") > 0.0, "the queue is shorter than the flood is wide");
    assert_eq!(of("tidegate_fair_share_refused_total", "node", "client_ip"), refused as f64);
    assert_eq!(
        metrics.sum("tidegate_limit_waiting_requests", &[("limit", "fair")]),
        0.0,
        "nobody waits when all is over"
    );
}

/// Spends what there is, so that the next request waits.
fn waiting(gate: &Gate) -> Connection {
    let mut connection = gate.connect();
    for _ in 0..2 {
        connection.send(&from("198.51.100.9")).unwrap();
        assert_eq!(connection.answer_to("GET").unwrap().status, 200);
    }
    connection.send(&from("198.51.100.9")).unwrap();
    wait_for("a request to wait", || {
        (gate.metrics().sum("tidegate_limit_waiting_requests", &[("limit", "fair")]) == 1.0).then_some(())
    });
    connection
}

#[test]
fn a_reload_keeps_who_waits_and_the_bucket() {
    let folder = Folder::new();
    let mut command = binary();
    command.env("RUNTIME_DIRECTORY", folder.path());
    // a unit comes in ten seconds: nobody is served before the reload
    let gate = Gate::start_in(folder, Stdio::null(), command, &site("capacity: 6/m, burst: 2, reserve: 0%, wait: 60s"));
    wait_for("the admin socket", || std::os::unix::net::UnixStream::connect(gate.admin_socket()).ok());
    let begun = Instant::now();
    let mut connection = waiting(&gate);
    std::fs::write(gate.folder().join("tidegate.yaml"), site("capacity: 5/s, burst: 50, reserve: 0%")).unwrap();
    let ended = end(binary().args(["reload", "--admin"]).arg(gate.admin_socket()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(connection.answer_to("GET").unwrap().status, 200, "who waits is served by the new numbers");
    // a new bucket would have fifty at once
    let mut crowd: Vec<Connection> = (0..40).map(|_| gate.connect()).collect();
    for (client, one) in crowd.iter_mut().enumerate() {
        one.send(&from(&format!("150.{client}.7.9"))).unwrap();
    }
    let passed =
        crowd.iter_mut().map(|one| one.answer_to("GET").unwrap().status).filter(|status| *status == 200).count();
    let most = 5.0 * begun.elapsed().as_secs_f64() + 2.0;
    assert!(passed as f64 <= most, "{passed} passed, {most} at most");
}

#[test]
fn a_stop_answers_who_waits() {
    let mut gate = Gate::start(&site("capacity: 12/m, burst: 2, reserve: 0%, wait: 60s"));
    let mut connection = waiting(&gate);
    gate.signal("TERM");
    assert_eq!(connection.answer_to("GET").unwrap().status, 200, "it waited, and has its turn");
    assert!(gate.exit_status().success());
}

#[test]
fn what_is_kept_of_a_rate_for_critical_requests_is_theirs() {
    let policy = site("capacity: 1/h, burst: 10, wait: 1ms, reserve: 10%, reserved: { critical: 40% }");
    let pay = "  - { name: pay, match: { path: /pay }, limits: [fair], respond: { status: 200 }, criticality: critical }\ntelemetry:";
    let folder = Folder::new();
    let mut command = binary();
    command.env("RUNTIME_DIRECTORY", folder.path());
    let gate = Gate::start_in(folder, Stdio::null(), command, &policy.replacen("telemetry:", pay, 1));
    let ask = |net: u8, path: &str| gate.fetch(path, &format!("X-Forwarded-For: 10.{net}.0.1\r\n"));
    // six of ten are everybody's
    let site: Vec<u16> = (0..8).map(|net| ask(net, "/").status).collect();
    assert_eq!(site, [200, 200, 200, 200, 200, 200, 503, 503]);
    let pay: Vec<u16> = (100..105).map(|net| ask(net, "/pay").status).collect();
    assert_eq!(pay, [200, 200, 200, 200, 503]);
    let refused = ask(9, "/");
    let id = refused.field("x-tidegate-decision").expect("a refusal has an id");
    let told = end(binary().args(["explain", "--decision", &id, "--admin"]).arg(gate.admin_socket())).stdout;
    assert!(told.contains("kept for more important requests: 4"), "{told}");
}
