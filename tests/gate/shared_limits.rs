//! Limits that three gates share through a real store, as three processes: what they admit together, what an outage changes,
//! and what the store, the log and the wire get to see.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant, SystemTime};

use crate::harness::gate::{binary, end};
use crate::harness::redis::Server;
use crate::harness::shared::{self, slowest};
pub use crate::harness::shared::{Seen, gates, statuses, told, worst};
use crate::harness::{Gate, undisturbed, wait_for};

/// Of tests with outages.
pub const SHORT: Duration = Duration::from_millis(50);
/// Of tests in which the store is well: the most that a policy allows. On a machine that has too much to do a healthy store is now and
/// then later, and a gate decides without it, as it should: see [`undisturbed`].
pub const LONG: Duration = Duration::from_secs(1);

/// Decisions that these gates made without their store.
pub fn without_store(gates: &[Gate]) -> f64 {
    told(gates, "tidegate_store_fallback_decisions_total", &[])
}

/// A gate's policy: two limits of the same key, each on a route of its own.
pub fn policy(store: &Server, timeout: Duration, words: &str) -> String {
    format!(
        "secrets: {{ client_hmac: \"one secret of all the gates\" }}
trusted_proxies: [127.0.0.0/8]
stores:
  shared: {{ url: \"redis://127.0.0.1:{}\", timeout: {}ms }}
limits:
  per_client: {{ {words}, store: shared }}
routes:
  - {{ name: site, limits: [per_client], respond: {{ status: 200, body: ok }} }}
telemetry:
  metrics: {{ address: \"127.0.0.1:0\" }}
  access_log: {{ to: ACCESS_LOG, sample: {{ refused: none }} }}
",
        store.port,
        timeout.as_millis()
    )
}

/// Hammers the one route of all gates.
pub fn hammer(gates: &[Gate], threads: usize, pause: Duration, during: impl FnOnce()) -> Vec<Seen> {
    shared::hammer(gates, &["/"], threads, pause, during)
}

#[test]
fn three_gates_admit_together_what_one_was_to_and_nearly_all_of_it() {
    // gates hold at most 48 units in leases, which come back in half a second: so a lease lives four seconds, and a
    // stall of one second loses none
    for (sharing, extra) in [("lease", 3.0 * 200.0 / 12.0), ("exact", 0.0)] {
        undisturbed(sharing, || nearly_all_is_admitted(sharing, extra));
    }
}

#[test]
fn three_gates_share_a_quota_that_slides() {
    for sharing in ["lease", "exact"] {
        let store = Server::start(&[]);
        let words = format!("type: quota, max: 6, window: 1h, sliding: true, sharing: {sharing}");
        let gates = gates(&policy(&store, LONG, &words));
        let client = "X-Forwarded-For: 203.0.113.7\r\n";
        let answers: Vec<_> = (0..12).map(|nth| gates[nth % 3].fetch("/", client)).collect();
        let passed = answers.iter().filter(|answer| answer.status == 200).count();
        if without_store(&gates) == 0.0 {
            assert_eq!(passed, 6, "{sharing}");
            let wait: u64 = answers[11].field("retry-after").unwrap().parse().unwrap();
            // of the six that it has spent one comes back within two windows at the latest
            assert!((1..=7_201).contains(&wait), "{sharing}: {wait}");
        }
        let keys = store.cli(&["KEYS", "*:per_client:sliding"]);
        let value = store.cli(&["GET", keys.trim()]);
        assert!(value.starts_with("1 3600000000 "), "{sharing}: {keys}: {value}");
    }
}

/// `None` if the store was late, or clients came too seldom to be refused until the end.
fn nearly_all_is_admitted(sharing: &str, extra: f64) -> Option<()> {
    let store = Server::start(&[]);
    let gates = gates(&policy(&store, LONG, &format!("rate: 100/s, burst: 200, sharing: {sharing}")));
    let seen = hammer(&gates, 2, Duration::from_millis(5), || std::thread::sleep(Duration::from_secs(5)));
    let (admitted, worst) = (statuses(&seen)[&200] as f64, worst(&seen, 100.0));
    // what comes back counts from the first charge to the last refusal: at that moment nothing was left
    let first = seen.iter().filter(|seen| seen.status == 200).map(|seen| seen.answered).min()?;
    let last = seen.iter().filter(|seen| seen.status == 429).map(|seen| seen.sent).max()?;
    let spent_after = last.saturating_duration_since(first).as_secs_f64();
    let quota = 200.0 + 100.0 * spent_after;
    let questions = told(&gates, "tidegate_store_questions_total", &[]);
    let waits = told(&gates, "tidegate_store_waits_total", &[]);
    println!(
        "{sharing}: {} requests, {admitted} of {quota:.0} admitted ({:.1} %), worst interval burst + rate·τ + {:.1} of \
             {extra:.0}; {:.0} round trips and {:.0} waits per 1,000 requests; {:?}",
        seen.len(),
        admitted / quota * 100.0,
        worst - 200.0,
        questions / seen.len() as f64 * 1e3,
        waits / seen.len() as f64 * 1e3,
        statuses(&seen),
    );
    assert!(statuses(&seen).keys().all(|status| matches!(status, 200 | 429)), "{sharing}: {:?}", statuses(&seen));
    if without_store(&gates) > 0.0 {
        return None;
    }
    assert!(worst <= 200.0 + extra, "{sharing}: {worst}");
    if spent_after < 4.0 {
        return None;
    }
    assert!(admitted >= 0.95 * quota, "{sharing}: {admitted} of {quota}");
    Some(())
}

#[test]
fn an_aligned_quota_of_all_gates_is_never_passed_by_one() {
    undisturbed("an aligned quota", || {
        let store = Server::start(&[]);
        let gates = gates(&policy(&store, LONG, "type: quota, max: 300, window: 1h"));
        let began = SystemTime::now();
        // twice as many as may pass, however long that takes
        let seen = hammer(&gates, 2, Duration::from_millis(1), || {
            std::thread::sleep(Duration::from_secs(3));
            wait_for("600 requests", || (told(&gates, "tidegate_requests_total", &[]) >= 600.0).then_some(()));
        });
        if without_store(&gates) > 0.0 {
            return None;
        }
        // the hour may end on the way, once; what a lease held then is lost with it
        let admitted = statuses(&seen)[&200];
        println!("{admitted} of 300 admitted of {}, {:?}", seen.len(), statuses(&seen));
        assert!(admitted <= 300 || admitted <= 600 && hour_of(began) != hour_of(SystemTime::now()), "{admitted}");
        assert!(admitted >= 280, "{admitted} of {}", seen.len());
        Some(())
    });
}

#[test]
fn a_month_of_a_zone_is_one_for_all_gates_and_ends_when_it_does() {
    let zone = jiff::tz::TimeZoneDatabase::bundled().get("Asia/Tokyo").unwrap();
    let now = || i64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()).unwrap();
    let month = |second: i64| zone.to_datetime(jiff::Timestamp::from_second(second).unwrap()).month();
    let run = |sharing: &str| {
        let store = Server::start(&[]);
        let words = format!("type: quota, max: 20, per: month, time_zone: Asia/Tokyo, sharing: {sharing}");
        let gates = gates(&policy(&store, LONG, &words));
        let before = now();
        let answers: Vec<_> = (0..90).map(|n| gates[n % gates.len()].fetch("/", "")).collect();
        // nothing can be said of the moment in which a month ends
        if month(before) != month(now()) || without_store(&gates) > 0.0 {
            return None;
        }
        let admitted = answers.iter().filter(|answer| answer.status == 200).count();
        assert!(admitted <= 20 && (sharing == "lease" || admitted == 20), "{sharing}: {admitted}");
        let refused = answers.iter().rfind(|answer| answer.status == 429).unwrap();
        let ends = before + refused.field("ratelimit").unwrap().rsplit_once("t=").unwrap().1.parse::<i64>().unwrap();
        assert_ne!(month(before), month(ends + 5), "{sharing}");
        Some(())
    };
    for sharing in ["lease", "exact"] {
        undisturbed(sharing, || run(sharing));
    }
}

#[test]
fn a_request_that_waits_is_counted_once_however_long_it_waits() {
    let store = Server::start(&[]);
    let gates = gates(&policy(&store, LONG, "rate: 10/s, burst: 30"));
    store.pause();
    // one of them asks, the others wait for that one, each for a second
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(gates[0].fetch("/", "X-Forwarded-For: 203.0.113.7\r\n").status, 200));
        }
    });
    let metrics = gates[0].metrics();
    assert_eq!(metrics.sum("tidegate_store_waits_total", &[]), 4.0);
    assert_eq!(metrics.sum("tidegate_store_fallback_decisions_total", &[("policy", "local")]), 4.0);
    store.resume();
}

#[test]
fn a_request_whose_question_cannot_be_sent_waits_for_nothing_and_is_not_counted() {
    for sharing in ["exact", "lease"] {
        let mut store = Server::start(&[]);
        let words = format!("rate: 10/s, burst: 30, sharing: {sharing}, on_store_error: open");
        // bans would be asked about as well, and an answer from before the pause closes the breaker
        let calm = ", breaker: { open_after: 1, half_open_every: 10s }, share_bans: false";
        let gate = shared::gate(&policy(&store, SHORT, &words).replace("ms }", &format!("ms{calm} }}")));
        let sum = |metric: &str| gate.metrics().sum(metric, &[]);
        wait_for("a connection", || (sum("tidegate_store_connected") == 1.0).then_some(()));
        let ask = |client: usize| gate.fetch("/", &format!("X-Forwarded-For: 203.0.113.{client}\r\n")).status;
        store.pause();
        assert_eq!(ask(1), 200);
        assert_eq!(sum("tidegate_store_waits_total"), 1.0, "{sharing}: until the time was over");
        // the question may be given up a moment later than the request that asked
        wait_for("the breaker to open", || (sum("tidegate_store_breaker_state") == 2.0).then_some(()));
        (2..22).for_each(|client| assert_eq!(ask(client), 200));
        assert_eq!(sum("tidegate_store_waits_total"), 1.0, "{sharing}: of a store that is left alone");
        store.kill();
        wait_for("the end of the connection", || (sum("tidegate_store_connected") == 0.0).then_some(()));
        (22..42).for_each(|client| assert_eq!(ask(client), 200));
        assert_eq!(sum("tidegate_store_waits_total"), 1.0, "{sharing}: of a store that is not there");
        assert_eq!(sum("tidegate_store_fallback_decisions_total"), 41.0, "{sharing}");
    }
}

#[test]
fn a_store_that_refuses_the_gate_opens_nothing_whatever_the_limit_says() {
    let mut store = Server::start(&[]);
    store.lock("a password that the gate does not have");
    for words in ["on_store_error: open", "on_store_error: local", "sharing: exact, on_store_error: open"] {
        let gate = shared::gate(&policy(&store, LONG, &format!("rate: 10/s, burst: 30, {words}")));
        // how it stands before it has tried for the first time is nobody's mistake
        wait_for("the first refusal", || (gate.fetch("/", "").status == 503).then_some(()));
        for _ in 0..50 {
            assert_eq!(gate.fetch("/", "").status, 503, "{words}");
        }
        let metrics = gate.metrics();
        let without = |policy| metrics.sum("tidegate_store_fallback_decisions_total", &[("policy", policy)]);
        assert!(without("closed") >= 51.0, "{words}");
        assert!(metrics.sum("tidegate_store_errors_total", &[("reason", "faulty")]) >= 51.0, "{words}");
    }
}

/// How many lines of a gate's log have this text in them.
fn lines(gate: &Gate, text: &str) -> usize {
    gate.talk().lines().filter(|line| line.contains(text)).count()
}

/// Warnings about stores; a machine of few descriptors has one of its own.
fn warnings(gate: &Gate) -> usize {
    gate.talk().lines().filter(|line| line.contains("\"WARN\"") && line.contains("store")).count()
}

#[test]
fn each_kind_of_fault_has_a_line_of_the_log_and_that_the_store_is_back_one_after_it() {
    let mut store = Server::start(&[]);
    let gate = shared::gate(&policy(&store, LONG, "rate: 10/s, burst: 30"));
    let said = |text: &'static str, times: usize| wait_for(text, || (lines(&gate, text) >= times).then_some(()));
    said("connected to the store", 1);
    store.kill();
    wait_for("a warning", || (warnings(&gate) >= 1).then_some(()));
    store.restart();
    said("connected to the store", 2);
    assert_eq!(warnings(&gate), 1, "{}", gate.talk());
    // the same again within the minute, and then something else
    store.lock("a password that the gate does not have");
    store.restart();
    said("wrong user or password", 1);
    assert_eq!(store.cli(&["CONFIG", "SET", "requirepass", ""]), "OK");
    said("connected to the store", 3);
    assert_eq!(warnings(&gate), 2, "{}", gate.talk());
}

#[test]
fn of_a_cluster_that_is_not_there_only_the_gate_itself_writes_into_its_log() {
    let mut gone = Server::start(&[]);
    gone.kill();
    let single = policy(&gone, LONG, "rate: 10/s, burst: 30");
    let gate = shared::gate(&single.replace("timeout:", "mode: cluster, ready_within: 0s, timeout:"));
    wait_for("the line", || (lines(&gate, "cannot connect") > 0).then_some(()));
    // it tries again meanwhile
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(warnings(&gate), 1, "{}", gate.talk());
    assert_eq!(lines(&gate, "redis::"), 0, "{}", gate.talk());
}

/// Hours since 1970, which is where windows of an hour begin.
fn hour_of(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() / 3_600
}

/// What befalls a store.
type Trouble = fn(&mut Server);

/// A store goes and comes back under load.
fn outage(words: &str, trouble: impl FnOnce(&mut Server)) -> (Vec<Seen>, f64, String) {
    let mut store = Server::start(&[]);
    let gates = gates(&policy(&store, SHORT, words));
    let began = Instant::now();
    let seen = hammer(&gates, 2, Duration::from_millis(5), || {
        std::thread::sleep(Duration::from_secs(1));
        trouble(&mut store);
        std::thread::sleep(Duration::from_secs(2));
    });
    let took = began.elapsed().as_secs_f64();
    for gate in &gates {
        wait_for("the store to be back", || (gate.metrics().sum("tidegate_store_connected", &[]) == 1.0).then_some(()));
    }
    let told = format!(
        "{} requests, {:?}, slowest {:.0?}, {} decisions without the store, worst interval burst + rate·τ + {:.1}",
        seen.len(),
        statuses(&seen),
        slowest(&seen),
        told(&gates, "tidegate_store_fallback_decisions_total", &[]),
        worst(&seen, 100.0) - 200.0
    );
    (seen, took, told)
}

#[test]
fn a_store_that_is_killed_paused_or_emptied_costs_nobody_an_error_and_admits_at_most_two_bursts_more() {
    let outages: [(&str, Trouble); 3] = [
        ("killed", |store| {
            store.kill();
            std::thread::sleep(Duration::from_secs(2));
            store.restart();
        }),
        ("paused", |store| {
            store.pause();
            std::thread::sleep(Duration::from_secs(2));
            store.resume();
        }),
        ("emptied", |store| store.restart()),
    ];
    for (name, trouble) in outages {
        let (seen, took, told) = outage("rate: 100/s, burst: 200", trouble);
        println!("{name}: {told}");
        assert!(statuses(&seen).keys().all(|status| matches!(status, 200 | 429)), "{name}: {told}");
        // a burst of the gates' own parts, and one of a store that has forgotten or got it meanwhile, beside the leases
        let most = 200.0 + 100.0 * took + 200.0 + 200.0 + 50.0;
        assert!((statuses(&seen)[&200] as f64) <= most, "{name}: {told}");
        assert!(worst(&seen, 100.0) <= 650.0, "{name}: {told}");
    }
}

#[test]
fn only_closed_answers_503_while_a_store_is_gone_and_open_lets_everybody_pass() {
    let gone: Trouble = |store| {
        store.kill();
        std::thread::sleep(Duration::from_secs(2));
        store.restart();
    };
    let (seen, _, told) = outage("rate: 100/s, burst: 200, sharing: exact, on_store_error: closed", gone);
    println!("closed: {told}");
    assert!(statuses(&seen).keys().all(|status| matches!(status, 200 | 429 | 503)), "{:?}", statuses(&seen));
    assert!(statuses(&seen).contains_key(&503), "{:?}", statuses(&seen));
    let (seen, _, told) = outage("rate: 100/s, burst: 200, sharing: exact, on_store_error: open", gone);
    println!("open: {told}");
    assert!(statuses(&seen).keys().all(|status| matches!(status, 200 | 429)));
}

#[test]
fn nobody_reads_a_client_in_the_store_on_the_wire_or_in_the_log() {
    let store = Server::start(&[]);
    let words = "key: [header:x-api-key, client_ip], missing: deny, rate: 5/s, burst: 5";
    let gates = gates(&policy(&store, LONG, words));
    let wire = store.listen_in();
    for gate in &gates {
        for _ in 0..10 {
            let fields = "X-Forwarded-For: 198.51.100.77\r\nX-Api-Key: very-secret-key\r\n";
            let _ = gate.fetch("/", fields);
        }
    }
    let (wire, stored) = (wire.heard(), store.contents());
    assert!(wire.contains("evalsha") || wire.contains("EVALSHA"), "something was heard: {wire}");
    assert!(stored.contains("per_client"), "something is stored: {stored}");
    let logs: String = gates.iter().map(|gate| gate.log_text() + &gate.talk()).collect();
    for (place, text) in [("store", &stored), ("wire", &wire), ("log", &logs)] {
        // as text, as hexadecimal digits, as bytes that redis-cli escapes
        for raw in ["198.51.100.77", "very-secret-key", "c633644d", "\\xc63d"] {
            assert!(!text.contains(raw), "{raw} in the {place}: {text}");
        }
    }
}

#[test]
fn an_operator_sees_whose_word_a_refusal_is() {
    let store = Server::start(&[]);
    let gates = gates(&policy(&store, LONG, "rate: 1/m, burst: 3"));
    let mut refused = None;
    for _ in 0..6 {
        let answer = gates[0].fetch("/", "X-Forwarded-For: 203.0.113.7\r\n");
        refused = (answer.status == 429).then_some(answer).or(refused);
    }
    let refused = refused.expect("three were allowed");
    assert!(refused.field("retry-after").is_some());
    let run = |arguments: &[&str]| ask(&gates[0], arguments);
    let status = run(&["status"]);
    println!("{status}");
    assert!(status.contains("STORE") && status.contains("shared") && status.contains("closed"), "{status}");
    let explained = run(&["explain", "--client", "203.0.113.7"]);
    println!("{explained}");
    assert!(explained.contains("of store `shared`") || explained.contains("by store `shared`"), "{explained}");
}

/// What a verb says of a running gate.
fn ask(gate: &Gate, arguments: &[&str]) -> String {
    wait_for("the admin socket", || UnixStream::connect(gate.admin_socket()).ok());
    let ended = end(binary().args(arguments).arg("--admin").arg(gate.admin_socket()));
    ended.stdout + &ended.stderr
}

#[test]
fn a_silent_store_is_told_by_status_and_by_each_refusal_that_it_causes() {
    let mut store = Server::start(&[]);
    let gate = shared::gate(&policy(&store, LONG, "rate: 2/s, burst: 2, on_store_error: closed"));
    let connected = |number: f64| {
        wait_for("the connection", || (gate.metrics().sum("tidegate_store_connected", &[]) == number).then_some(()));
    };
    connected(1.0);
    store.kill();
    connected(0.0);
    let refused = gate.fetch("/", "X-Forwarded-For: 203.0.113.7\r\n");
    assert_eq!(refused.status, 503);
    let explained = ask(&gate, &["explain", "--decision", &refused.field("x-tidegate-decision").unwrap()]);
    println!("{explained}");
    for expected in [
        "503 refused: the store of `per_client` was silent",
        "per_client  CLOSED  not counted: its store was silent; by client_ip",
        "without store `shared`, which could not be reached (unreachable): on_store_error closed",
        &format!("Retry-After: {}", refused.field("retry-after").unwrap()),
        "not the client's doing",
    ] {
        assert!(explained.contains(expected), "{expected}: {explained}");
    }
    assert!(!explained.contains("no wait helps"), "{explained}");
    // the connection that broke is a fault too, and it is told until the next attempt to connect has failed
    let told = |status: &String| status.contains("ago: cannot connect: ");
    let status = wait_for("the failed attempt", || Some(ask(&gate, &["status"])).filter(told));
    println!("{status}");
    assert!(status.contains("NOT CONNECTED"), "{status}");
    assert!(status.contains("! store shared is not connected: its limits go by their on_store_error, 1 "), "{status}");
}

#[test]
fn a_pardon_says_that_a_count_in_a_store_stays_and_exempts_the_client_at_its_gate() {
    let store = Server::start(&[]);
    let gate = shared::gate(&policy(&store, LONG, "rate: 1/h, burst: 1"));
    wait_for("the connection", || (gate.metrics().sum("tidegate_store_connected", &[]) == 1.0).then_some(()));
    let status = || gate.fetch("/", "X-Forwarded-For: 203.0.113.7\r\n").status;
    assert_eq!([status(), status()], [200, 429]);
    let refused = ask(&gate, &["pardon", "203.0.113.7"]);
    assert!(refused.contains("has its count in a store; exempt the client for a time"), "{refused}");
    assert_eq!(status(), 429);
    let pardoned = ask(&gate, &["pardon", "203.0.113.7", "--for", "10m"]);
    assert!(pardoned.contains("exempt for 10 min in per_client;"), "{pardoned}");
    assert_eq!([status(), status(), status()], [200; 3]);
}
