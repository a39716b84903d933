//! Limits of which three gates tell each other what they admitted, through a real store, as three processes.

use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::harness::gate::{Folder, binary, end};
use crate::harness::redis::Server;
use crate::harness::{Gate, Origin, Reply, undisturbed, wait_for};
use crate::shared_limits::{LONG, SHORT, gates, hammer, policy, statuses, told, worst};

const CLIENT: &str = "X-Forwarded-For: 203.0.113.7\r\n";

/// How old the oldest is that any gate knows of another, in seconds.
fn staleness(gates: &[Gate]) -> f64 {
    gates.iter().map(|gate| gate.metrics().sum("tidegate_store_staleness_seconds", &[])).fold(0.0, f64::max)
}

/// Waits until this gate has heard as many keys more as it had heard then.
fn has_heard(gate: &Gate, before: f64) {
    wait_for("word of the others", || {
        (gate.metrics().sum("tidegate_store_deltas_received_total", &[]) > before).then_some(())
    });
}

#[test]
fn three_gates_stay_within_what_their_knowledge_allows_and_shed_what_is_beyond() {
    undisturbed("an estimate", three_gates_shed_what_is_beyond);
}

/// `None` if the gates heard of each other too late, or clients came too seldom, to tell one limit from three.
fn three_gates_shed_what_is_beyond() -> Option<()> {
    let store = Server::start(&[]);
    let gates = gates(&policy(&store, LONG, "rate: 100/s, burst: 50, sharing: estimate"));
    let began = Instant::now();
    let mut stalest = 0.0_f64;
    let seen = hammer(&gates, 2, Duration::from_millis(2), || {
        while began.elapsed() < Duration::from_secs(6) {
            stalest = stalest.max(staleness(&gates));
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let took = began.elapsed().as_secs_f64();
    // as old as was seen, and what may have come and gone between two looks
    let known = 2.0 * stalest + 0.5;
    let (admitted, worst) = (statuses(&seen)[&200] as f64, worst(&seen, 100.0));
    let promised = 50.0 + 2.0 * (50.0 + 100.0 * known);
    let alone = 3.0 * (50.0 + 100.0 * took);
    println!(
        "{} requests in {took:.1} s, {admitted} admitted (each for itself: {alone:.0}); worst interval rate·τ + {worst:.1} of \
         {promised:.1}, knowledge up to {stalest:.2} s old; {:.1} messages a second, {:?}",
        seen.len(),
        told(&gates, "tidegate_store_messages_sent_total", &[]) / took,
        statuses(&seen),
    );
    assert!(statuses(&seen).keys().all(|status| matches!(status, 200 | 429)), "{:?}", statuses(&seen));
    assert!(worst <= promised, "{worst} of {promised}");
    assert!(admitted <= promised + 100.0 * took, "{admitted}");
    assert_eq!(told(&gates, "tidegate_store_waits_total", &[]), 0.0, "nobody waits");
    assert_eq!(told(&gates, "tidegate_store_questions_total", &[]), 0.0, "nobody asks");
    assert_eq!(told(&gates, "tidegate_store_unreported_units_total", &[]), 0.0);
    assert_eq!(told(&gates, "tidegate_store_messages_dropped_total", &[]), 0.0);
    if known >= 2.0 || seen.len() as f64 <= alone {
        return None;
    }
    // as the gates heard of each other, what each for itself would have admitted is far away
    assert!(admitted < 0.7 * alone, "{admitted} of {alone}");
    Some(())
}

#[test]
fn what_one_gate_admitted_another_refuses_and_says_whose_word_it_is() {
    let store = Server::start(&[]);
    let gates = gates(&policy(&store, LONG, "rate: 1/m, burst: 5, sharing: estimate"));
    for _ in 0..5 {
        assert_eq!(gates[0].fetch("/", CLIENT).status, 200);
    }
    has_heard(&gates[1], 0.0);
    // its five may be told in two messages
    let mut refused = gates[1].fetch("/", CLIENT);
    let mut passed = 0;
    while refused.status == 200 {
        passed += 1;
        assert!(passed < 5, "the whole burst once more");
        refused = gates[1].fetch("/", CLIENT);
    }
    assert!(refused.field("retry-after").is_some());
    assert_eq!(gates[1].fetch("/", "X-Forwarded-For: 203.0.113.8\r\n").status, 200, "that client alone");
    let run = |arguments: &[&str]| {
        let ended = end(binary().args(arguments).arg("--admin").arg(gates[1].admin_socket()));
        ended.stdout + &ended.stderr
    };
    wait_for("the admin socket", || UnixStream::connect(gates[1].admin_socket()).ok());
    let explained = run(&["explain", "--client", "203.0.113.7"]);
    println!("{explained}");
    assert!(explained.contains("with what others told it through store `shared`"), "{explained}");
    let status = run(&["status", "--format", "json"]);
    assert!(status.contains("\"staleness_seconds\""), "{status}");
    let status = run(&["status"]);
    assert!(status.contains("knows others") && status.contains("s ago"), "{status}");
}

/// What one gate charged by an answer, by its words or by its bytes, keeps the client out at another, for as long as it takes to pay.
#[test]
fn what_answers_cost_at_one_gate_is_owed_at_another() {
    const BODY: usize = 100 << 10;
    let head = format!("HTTP/1.1 401 Unauthorized\r\nX-Cost: 300\r\nContent-Length: {BODY}\r\n\r\n");
    let answer: &'static [u8] = Box::leak((head.into_bytes().into_iter().chain([b'x'; BODY])).collect::<Box<[u8]>>());
    let origin = Origin::start(move |_| Reply::Bytes(answer));
    // words, requests of one client that spend it, and the wait that they bring at least, in seconds
    for (words, spent, waits) in [
        ("rate: 1/m, burst: 5, count: responses 401", 5, 1),
        ("rate: 1/m, burst: 100, cost: \"response:x-cost\"", 1, 190 * 60),
        ("rate: 1KiB/m, burst: 64KiB", 1, 30 * 60),
        ("type: quota, max: 5, window: 1h, sliding: true", 5, 1),
    ] {
        let store = Server::start(&[]);
        let text = policy(&store, LONG, &format!("{words}, sharing: estimate"));
        let gates =
            gates(&text.replace("respond: { status: 200, body: ok }", &format!("origin: \"{}\"", origin.address())));
        for _ in 0..spent {
            assert_eq!(gates[0].fetch("/", CLIENT).status, 401, "{words}");
        }
        has_heard(&gates[1], 0.0);
        // its charges may be told in two messages
        let (mut refused, mut passed) = (gates[1].fetch("/", CLIENT), 0);
        while refused.status == 401 {
            passed += 1;
            assert!(passed < 5, "{words}: the whole budget once more");
            refused = gates[1].fetch("/", CLIENT);
        }
        assert_eq!(refused.status, 429, "{words}");
        let wait: u64 = refused.field("retry-after").unwrap().parse().unwrap();
        println!("{words}: {passed} more passed, then a wait of {wait} s");
        assert!(wait >= waits, "{words}: {wait}");
        assert_eq!(gates[1].fetch("/", "X-Forwarded-For: 203.0.113.8\r\n").status, 401, "{words}: that client alone");
        assert_eq!(told(&gates, "tidegate_store_messages_dropped_total", &[]), 0.0, "{words}");
    }
}

#[test]
fn answers_that_are_no_failures_are_told_to_nobody() {
    let store = Server::start(&[]);
    let gates = gates(&policy(&store, LONG, "rate: 1/m, burst: 2, count: responses 401, sharing: estimate"));
    for _ in 0..20 {
        assert_eq!(gates[0].fetch("/", CLIENT).status, 200);
    }
    let sent = |gate: &Gate| gate.metrics().sum("tidegate_store_messages_sent_total", &[]);
    let before = sent(&gates[0]);
    wait_for("two more messages", || (sent(&gates[0]) >= before + 2.0).then_some(()));
    assert_eq!(told(&gates, "tidegate_store_deltas_sent_total", &[]), 0.0);
    assert_eq!(gates[1].fetch("/", CLIENT).status, 200);
}

#[test]
fn what_was_told_before_a_reload_counts_after_it_and_gates_go_on_telling() {
    let store = Server::start(&[]);
    let gates = gates(&policy(&store, LONG, "rate: 1/m, burst: 5, sharing: estimate"));
    for _ in 0..5 {
        assert_eq!(gates[0].fetch("/", CLIENT).status, 200);
    }
    has_heard(&gates[1], 0.0);
    let heard = gates[1].metrics().sum("tidegate_store_deltas_received_total", &[]);
    // other numbers, and another way to the same store
    let file = gates[1].folder().join("tidegate.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let other = text.replace("burst: 5", "burst: 10").replace("timeout: 1000ms", "timeout: 900ms");
    assert!(other.contains("burst: 10") && other.contains("timeout: 900ms"), "{other}");
    std::fs::write(&file, other).unwrap();
    let ended = end(binary().arg("reload").arg("--admin").arg(gates[1].admin_socket()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let again = gates[1].metrics().sum("tidegate_store_deltas_received_total", &[]);
    assert!(again >= heard, "it goes on: {again} after {heard}");
    let mut passed = 0;
    while gates[1].fetch("/", CLIENT).status == 200 {
        passed += 1;
        assert!(passed < 10, "the whole burst once more");
    }
    let other = "X-Forwarded-For: 203.0.113.8\r\n";
    let before = gates[1].metrics().sum("tidegate_store_deltas_received_total", &[]);
    assert_eq!(gates[2].fetch("/", other).status, 200);
    has_heard(&gates[1], before);
    assert_eq!(told(&gates, "tidegate_store_messages_dropped_total", &[]), 0.0);
}

#[test]
fn a_store_that_is_killed_under_load_is_missed_by_no_request() {
    let mut store = Server::start(&[]);
    let gates = gates(&policy(&store, SHORT, "rate: 100/s, burst: 50, sharing: estimate"));
    let began = Instant::now();
    let seen = hammer(&gates, 2, Duration::from_millis(5), || {
        std::thread::sleep(Duration::from_secs(1));
        store.kill();
        std::thread::sleep(Duration::from_secs(2));
        store.restart();
        std::thread::sleep(Duration::from_secs(1));
    });
    let took = began.elapsed().as_secs_f64();
    let admitted = statuses(&seen)[&200] as f64;
    println!("killed for 2 s: {} requests, {:?}", seen.len(), statuses(&seen));
    assert!(statuses(&seen).keys().all(|status| matches!(status, 200 | 429)), "{:?}", statuses(&seen));
    assert!(admitted <= 3.0 * (50.0 + 100.0 * took), "{admitted}: each gate's own limit holds whatever happens");
    assert_eq!(told(&gates, "tidegate_store_fallback_decisions_total", &[]), 0.0);
    for gate in &gates {
        let before = gate.metrics().sum("tidegate_store_deltas_received_total", &[]);
        wait_for("gates to hear each other again", || {
            let _ = gates.iter().map(|gate| gate.fetch("/", CLIENT).status).collect::<Vec<_>>();
            (gate.metrics().sum("tidegate_store_deltas_received_total", &[]) > before).then_some(())
        });
    }
}

#[test]
fn nobody_reads_a_client_in_what_gates_tell_each_other() {
    let store = Server::start(&[]);
    let words = "key: [header:x-api-key, client_ip], missing: deny, rate: 5/s, burst: 5, sharing: estimate";
    let gates = gates(&policy(&store, LONG, words));
    let wire = store.listen_in();
    let before = gates[1].metrics().sum("tidegate_store_deltas_received_total", &[]);
    for _ in 0..10 {
        let _ = gates[0].fetch("/", "X-Forwarded-For: 198.51.100.77\r\nX-Api-Key: very-secret-key\r\n");
    }
    has_heard(&gates[1], before);
    let stored = store.contents();
    let wire = wire.heard();
    assert!(stored.contains("tidegate:{deltas}"), "something is stored: {stored}");
    assert!(wire.contains("evalsha") || wire.contains("EVALSHA"), "something was heard: {wire}");
    for (place, text) in [("store", &stored), ("wire", &wire)] {
        // as text, as hexadecimal digits, as bytes that redis-cli escapes
        for raw in ["198.51.100.77", "very-secret-key", "c633644d", "\\xc63dM"] {
            assert!(!text.contains(raw), "{raw} in the {place}: {text}");
        }
    }
}

#[test]
fn gates_with_another_secret_are_not_believed() {
    let store = Server::start(&[]);
    let text = policy(&store, LONG, "rate: 1/m, burst: 5, sharing: estimate");
    let ours = gates(&text);
    let folder = Folder::new();
    let mut command = binary();
    command.env("RUNTIME_DIRECTORY", folder.path());
    let other = text.replace("one secret of all the gates", "another secret than all those");
    let theirs = Gate::start_in(folder, Stdio::null(), command, &other);
    for _ in 0..5 {
        assert_eq!(theirs.fetch("/", CLIENT).status, 200);
    }
    wait_for("a message to be dropped", || {
        (ours[0].metrics().sum("tidegate_store_messages_dropped_total", &[("reason", "secret")]) >= 1.0).then_some(())
    });
    for _ in 0..5 {
        assert_eq!(ours[0].fetch("/", CLIENT).status, 200);
    }
}
