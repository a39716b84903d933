//! Another policy in the place of the one in force, by `tidegate reload`, SIGHUP and `watch`.

mod changes;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::harness::gate::{Ended, binary, end, on_the_way_asked_for};
use crate::harness::load::Ground;
use crate::harness::systemd::Systemd;
use crate::harness::{Connection, Gate, Latch, Origin, Reply, wait_for};
use crate::promise::{Bucket, Promise};

const RUN: &str = "exec \"$0\" \"$@\"";

fn start(systemd: &Systemd, policy: &str) -> Gate {
    let gate = systemd.start(&[], RUN, Stdio::null(), policy);
    systemd.wait_for("READY=1", 1);
    gate
}

fn write(gate: &Gate, policy: &str) {
    let log = gate.folder().join("access.json").display().to_string();
    // in one step, as an editor does: who watches the file finds the old one or the new one
    let [beside, file] = ["tidegate.yaml.new", "tidegate.yaml"].map(|name| gate.folder().join(name));
    std::fs::write(&beside, on_the_way_asked_for(&policy.replace("ACCESS_LOG", &log))).unwrap();
    std::fs::rename(beside, file).unwrap();
}

fn order(gate: &Gate, arguments: &[&str]) -> Ended {
    end(binary().arg("reload").arg("--admin").arg(gate.admin_socket()).args(arguments))
}

fn reload(gate: &Gate, policy: &str) -> Ended {
    write(gate, policy);
    order(gate, &[])
}

/// What a reload that must succeed says.
fn reloaded(gate: &Gate, policy: &str) -> String {
    let ended = reload(gate, policy);
    assert_eq!(ended.code, Some(0), "{}\n{policy}", ended.stderr);
    ended.stdout
}

const LISTENERS: &str = "listeners: { main: { address: \"127.0.0.1:0\" } }\n";
const REST: &str =
    "telemetry: { metrics: { address: \"127.0.0.1:0\" }, access_log: { to: ACCESS_LOG, sample: { refused: none } } }
server: { overload: off, threads: 2, drain: { delay: 0s, timeout: 5s } }
";

fn with(policy: &str) -> String {
    format!("{LISTENERS}{policy}{REST}")
}

/// The limit on one path, which answers by itself.
fn limited(limit: &str) -> String {
    with(&format!(
        "limits:\n  login: {{ {limit} }}\nroutes:\n  - {{ name: login, respond: {{ status: 200 }}, limits: [login] }}\n"
    ))
}

/// So many requests from this machine, and how many of them were admitted.
fn admitted(gate: &Gate, requests: usize) -> usize {
    (0..requests).filter(|_| gate.fetch("/", "").status == 200).count()
}

#[test]
fn two_hundred_reloads_under_load_fail_no_request_and_give_no_budget() {
    const RELOADS: usize = 200;
    let ground = Ground::new();
    let listeners = ground.listeners("127.0.0.1:0", "127.0.0.1:0");
    let origin = Origin::that(Reply::Ok);
    // the first are the greatest: what any client may be admitted is what these promise
    const NUMBERS: [(u64, u64); 4] = [(20, 10), (5, 10), (20, 3), (8, 6)];
    let policy = |step: usize| {
        let (rate, burst) = NUMBERS[step % NUMBERS.len()];
        let (cap, weight) = (64 + step % 7, 1 + step % 3);
        let more = if step.is_multiple_of(5) {
            "  - { name: extra, match: { path: /extra }, respond: { status: 200 } }\n"
        } else {
            ""
        };
        format!(
            "{listeners}origins:
  shop: {{ addresses: [{{ address: {}, weight: {weight} }}], inflight: {{ max: {cap}, queue: 100, queue_timeout: 10s }} }}
limits:
  wide: {{ type: inflight, max: {} }}
  login: {{ rate: {rate}/s, burst: {burst} }}
routes:
  - {{ name: login, match: {{ path: /login }}, respond: {{ status: 200 }}, limits: [login] }}
{more}  - name: page
    origin: shop
    limits: [wide]
    response_headers: {{ set: {{ x-generation: \"{step}\" }} }}
{REST}",
            origin.address(),
            1_000 + step,
        )
    };
    let broken = |step: usize| {
        let (from, to) = [
            ("rate:", "rat:"),
            ("/s,", "/sec,"),
            ("limits: [login]", "limits: [logn]"),
            ("burst:", "burst"),
            ("origin: shop", "origin: shp"),
            ("status: 200", "status: 2000"),
            ("routes:", "routs:"),
            ("]", ""),
            ("queue: 100", "queue: many"),
            ("inflight", "in\tflight"),
        ][step / 4 % 10];
        let good = policy(step);
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1 + step % 2)
    };
    let systemd = Systemd::new();
    let mut gate = start(&systemd, &policy(0));
    let load = ground.load(&gate);
    let (stop, hammered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let hammer = std::thread::spawn({
        let (stop, hammered, address) = (Arc::clone(&stop), Arc::clone(&hammered), gate.address("main"));
        move || {
            let mut connection = Connection::open(address);
            while !stop.load(Ordering::Relaxed) {
                let answer = connection.ask("GET", "/login", "", b"");
                assert!([200, 429].contains(&answer.status), "{answer:?}");
                hammered.fetch_add(1, Ordering::Relaxed);
                if !answer.keeps_connection() {
                    connection = Connection::open(address);
                }
            }
        }
    });
    let mut counters: BTreeMap<String, f64> = BTreeMap::new();
    let (mut good, mut refused) = (0_usize, 0_usize);
    for step in 1..=RELOADS {
        load.goes_on(3);
        if step.is_multiple_of(4) {
            let ended = reload(&gate, &broken(step));
            assert_eq!(ended.code, Some(1), "{}{}\n{}", ended.stdout, ended.stderr, broken(step));
            let place =
                ended.stderr.split("tidegate.yaml:").nth(1).unwrap_or_else(|| panic!("no place: {}", ended.stderr));
            let mut numbers = place.split([':', '\n', ' ']).map(str::parse::<u32>);
            assert!(numbers.next().unwrap().is_ok() && numbers.next().unwrap().is_ok(), "{}", ended.stderr);
            refused += 1;
        } else {
            let told = reloaded(&gate, &policy(step));
            assert!(told.starts_with("reloaded ") && told.contains("re-rated"), "{told}");
            assert!(!told.contains("reset"), "{told}");
            good += 1;
        }
        if step.is_multiple_of(20) {
            let metrics = gate.metrics();
            for name in ["tidegate_http_requests_total", "tidegate_limit_decisions_total", "tidegate_connections_total"]
            {
                let name = metrics.names().into_iter().find(|known| *known == name).unwrap_or(name);
                for (series, value) in metrics.every(name) {
                    // a route that was gone meanwhile counts anew
                    if series.contains("extra") {
                        continue;
                    }
                    let before = counters.insert(format!("{name}{series}"), value).unwrap_or(0.0);
                    assert!(value >= before, "{name}{series} went from {before} to {value}");
                }
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    hammer.join().unwrap();
    // nothing failed and nothing was refused, or it had said so
    let met = load.stop();
    eprintln!("{met}");
    let answered = met.total();
    gate.comes_to_rest();
    assert_eq!(gate.metrics().sum("tidegate_limit_inflight_requests", &[]), 0.0);
    gate.counts("tidegate_config_reloads_total", &[("result", "success")], good as f64);
    gate.counts("tidegate_config_reloads_total", &[("result", "failure")], refused as f64);
    gate.counts("tidegate_config_last_reload_successful", &[], 0.0);
    // every admitted request of the client that never stopped, by the stamps that the gate judged by
    let requests = hammered.load(Ordering::Relaxed);
    let logins = wait_for("the access log", || {
        let text = gate.log_text();
        let lines: Vec<_> = text.lines().filter(|line| line.contains("\"route\":\"login\"")).collect();
        (lines.len() >= requests).then(|| lines.into_iter().map(crate::harness::log::read).collect::<Vec<_>>())
    });
    let mut stamps: Vec<u64> = logins.iter().filter(|entry| entry.status == 200).map(|entry| entry.at).collect();
    stamps.sort_unstable();
    let mut bucket = Bucket::new(Promise::new(NUMBERS[0].0, 1, NUMBERS[0].1));
    for at in &stamps {
        assert!(bucket.has_room(*at), "more than the largest promise was admitted");
        bucket.charge(*at);
    }
    println!(
        "{good} reloads and {refused} refusals, {answered} requests, none failed; {} of {requests} logins admitted",
        stamps.len()
    );
}

#[test]
fn limits_keep_what_was_spent_whatever_their_numbers_and_names_become() {
    let systemd = Systemd::new();
    let gate = start(&systemd, &limited("rate: 4/h, burst: 4"));
    assert_eq!(admitted(&gate, 5), 4);
    let told = reloaded(&gate, &limited("rate: 1/h, burst: 4"));
    assert!(told.contains("re-rated 1 (login 4/h → 1/h, counts kept)"), "{told}");
    assert_eq!(admitted(&gate, 2), 0, "the slower rate gives nothing back at once");
    let told = reloaded(&gate, &limited("rate: 1/h, burst: 6"));
    assert!(told.contains("burst 4 → 6"), "{told}");
    assert_eq!(admitted(&gate, 5), 2, "what the burst has grown by");
    let renamed = limited("rate: 1/h, burst: 6, renamed_from: login").replace("  login:", "  guess:");
    let told = reloaded(&gate, &renamed.replace("limits: [login]", "limits: [guess]"));
    assert!(told.contains("guess (was login)"), "{told}");
    assert_eq!(admitted(&gate, 2), 0);
    let told = reloaded(&gate, &limited("rate: 1/h, burst: 6, key: [client_ip, path]"));
    assert!(told.contains("new 1 (login)") && told.contains("gone 1 (guess)"), "{told}");
    assert_eq!(admitted(&gate, 7), 6);
    let told = reloaded(&gate, &limited("rate: 1/h, burst: 6, key: [client_ip]"));
    assert!(told.contains("reset 1 (login: key changed)"), "{told}");
    assert_eq!(admitted(&gate, 7), 6);
}

#[test]
fn a_refused_file_changes_nothing_and_is_drawn_for_whoever_asked() {
    let systemd = Systemd::new();
    let gate = start(&systemd, &limited("rate: 1/h, burst: 2"));
    assert_eq!(admitted(&gate, 1), 1);
    let ended = reload(&gate, &limited("rate: 10/sec, burst: 2"));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(ended.stderr.contains("error[E0203]: invalid rate `10/sec`"), "{}", ended.stderr);
    assert!(ended.stderr.contains("tidegate.yaml:3:18"), "{}", ended.stderr);
    assert_eq!(gate.metrics().sum("tidegate_config_last_reload_successful", &[]), 0.0);
    let json = order(&gate, &["--format", "json"]);
    assert_eq!(json.code, Some(1));
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert!(json["refused"].as_str().unwrap().contains("E0203"), "{json}");
    assert_eq!(admitted(&gate, 3), 1, "the old policy, with what was spent");
    let since = gate.metrics().sum("tidegate_config_last_reload_success_timestamp_seconds", &[]);
    reloaded(&gate, &limited("rate: 1/h, burst: 3"));
    assert_eq!(admitted(&gate, 3), 1);
    let metrics = gate.metrics();
    assert_eq!(metrics.sum("tidegate_config_last_reload_successful", &[]), 1.0);
    assert!(metrics.sum("tidegate_config_last_reload_success_timestamp_seconds", &[]) >= since);
}

#[test]
fn a_dry_run_says_all_and_does_nothing() {
    let systemd = Systemd::new();
    let gate = start(&systemd, &limited("rate: 1/h, burst: 2"));
    write(&gate, &limited("rate: 1/h, burst: 3").replace("name: login", "name: other"));
    let ended = order(&gate, &["--dry-run"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("would reload "), "{}", ended.stdout);
    assert!(ended.stdout.contains("+1 (other)  ~0  -1 (login)"), "{}", ended.stdout);
    assert!(ended.stdout.contains("burst 2 → 3"), "{}", ended.stdout);
    assert_eq!(admitted(&gate, 4), 2);
    let metrics = gate.metrics();
    assert_eq!(metrics.sum("tidegate_config_reloads_total", &[]), 0.0);
    assert_eq!(metrics.sum("tidegate_http_requests_total", &[("route", "other")]), 0.0);
    let json = order(&gate, &["--dry-run", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["schema"], &json["dry_run"]), (&"tidegate.reload/2".into(), &true.into()));
    assert_eq!(json["limits"]["rerated"][0]["numbers"][0]["to"], "3");
    write(&gate, &limited("rate: nothing"));
    assert_eq!(order(&gate, &["--dry-run"]).code, Some(1));
    assert_eq!(gate.metrics().sum("tidegate_config_last_reload_successful", &[]), 1.0);
}

#[test]
fn what_needs_another_process_is_said_to_wait() {
    let systemd = Systemd::new();
    let gate = start(&systemd, &limited("rate: 1/h, burst: 2"));
    let changed = limited("rate: 1/h, burst: 2")
        .replace("main: { address: \"127.0.0.1:0\" }", "main: { address: \"127.0.0.1:1\" }")
        .replace("threads: 2", "threads: 3");
    for _ in 0..2 {
        let told = reloaded(&gate, &changed);
        assert!(told.contains("listeners.main.address changed: needs `tidegate upgrade`"), "{told}");
        assert!(told.contains("server.threads changed: needs `tidegate upgrade`"), "{told}");
    }
    let told = reloaded(&gate, &limited("rate: 1/h, burst: 2"));
    assert!(!told.contains("waiting"), "it is as the process was started: {told}");
}

#[test]
fn requests_in_flight_count_for_both_policies_and_waiters_find_what_is_freed() {
    let latch = Latch::default();
    let held = latch.clone();
    let origin =
        Origin::start(move |arrival| if arrival.target == "/held" { Reply::Held(held.clone()) } else { Reply::Ok });
    let policy = |max: u32, weight: u32| {
        with(&format!(
            "origins:
  shop: {{ addresses: [{{ address: {}, weight: {weight} }}], inflight: {{ max: {max}, queue: 10, queue_timeout: 60s }} }}
routes:
  - {{ name: page, origin: shop }}
",
            origin.address()
        ))
    };
    let systemd = Systemd::new();
    let mut gate = start(&systemd, &policy(1, 1));
    let address = gate.address("main");
    let ask = move |path: &'static str| {
        std::thread::spawn(move || Connection::open(address).ask("GET", path, "", b"").status)
    };
    let first = ask("/held");
    origin.wait_for(1);
    // the origin is rebuilt, and its one place is taken all the same
    reloaded(&gate, &policy(1, 2));
    assert_eq!(gate.metrics().sum("tidegate_origin_inflight_requests", &[]), 1.0);
    let second = ask("/");
    wait_for("the second to wait", || (gate.metrics().sum("tidegate_origin_queue_requests", &[]) == 1.0).then_some(()));
    assert_eq!(origin.count(), 1);
    // more places: whoever waits is told
    reloaded(&gate, &policy(2, 3));
    let third = ask("/");
    assert_eq!(third.join().unwrap(), 200);
    latch.open();
    assert_eq!((first.join().unwrap(), second.join().unwrap()), (200, 200));
    gate.comes_to_rest();
}

#[test]
fn a_signal_and_a_watched_file_do_the_same() {
    let body = |word: &str, watch: &str| {
        with(&format!("routes:\n  - {{ name: page, respond: {{ status: 200, body: {word} }} }}\n{watch}"))
    };
    let systemd = Systemd::new();
    let gate = start(&systemd, &body("first", ""));
    write(&gate, &body("second", "watch: 1s\n"));
    gate.signal("HUP");
    wait_for("the second policy", || (gate.fetch("/", "").text() == "second").then_some(()));
    write(&gate, &body("third", "watch: 1s\n"));
    wait_for("the third policy", || (gate.fetch("/", "").text() == "third").then_some(()));
    write(&gate, &body("third", "watch: soon\n"));
    gate.counts("tidegate_config_last_reload_successful", &[], 0.0);
    // the line is written after the number
    wait_for("the refusal in the log", || {
        let said = gate.talk();
        (said.contains("the policy file is refused") && said.contains("tidegate.yaml:")).then_some(())
    });
    write(&gate, &body("fourth", "watch: 1s\n"));
    wait_for("the fourth policy", || (gate.fetch("/", "").text() == "fourth").then_some(()));
    // what is refused is refused once
    gate.counts("tidegate_config_reloads_total", &[("result", "failure")], 1.0);
}

#[test]
fn secrets_levels_and_samples_change_with_the_file() {
    let key = |text: &str| {
        let path = std::env::temp_dir().join(format!("tidegate-key-{}-{text}", std::process::id()));
        std::fs::write(&path, text.repeat(32)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let (one, two) = (key("a"), key("b"));
    let policy = |key: &std::path::Path, level: &str, other: &str| {
        format!(
            "{LISTENERS}secrets: {{ client_hmac: {{ file: {} }} }}\nroutes: [{{ name: page, respond: {{ status: 200 }} }}]
telemetry: {{ metrics: {{ address: \"127.0.0.1:0\" }}, access_log: {{ to: ACCESS_LOG, sample: {{ other: {other} }} }}, log: {{ level: {level} }} }}
server: {{ overload: off, threads: 2 }}\n",
            key.display()
        )
    };
    let systemd = Systemd::new();
    let gate = start(&systemd, &policy(&one, "info", "100%"));
    let clients = |lines: usize| -> Vec<String> { gate.log_of(lines).into_iter().map(|entry| entry.client).collect() };
    gate.fetch("/", "");
    let before = clients(1);
    let told = reloaded(&gate, &policy(&two, "warn", "100%"));
    assert!(told.contains("secrets.client_hmac") && told.contains("telemetry.log.level"), "{told}");
    gate.fetch("/", "");
    let after = clients(2);
    assert_ne!(before[0], after[1]);
    let lines = gate.talk().lines().count();
    reloaded(&gate, &policy(&one, "warn", "0%"));
    gate.fetch("/", "");
    reloaded(&gate, &policy(&one, "error", "100%"));
    gate.fetch("/", "");
    let all = clients(3);
    assert_eq!(all[2], before[0], "the first key again, and nothing of the request that was not sampled");
    assert_eq!(gate.talk().lines().count(), lines, "at `warn` a reload is no line: {}", gate.talk());
    // the same text, which names another key
    std::fs::write(&one, "c".repeat(32)).unwrap();
    let told = reloaded(&gate, &policy(&one, "error", "100%"));
    assert!(told.contains("changed    secrets.client_hmac") && !told.contains("nothing in it has changed"), "{told}");
    for path in [one, two] {
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn the_unit_reloads_as_it_says() {
    let unit = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/systemd/tidegate.service")).unwrap();
    let command = unit.lines().find_map(|line| line.strip_prefix("ExecReload=/usr/bin/tidegate ")).unwrap();
    let systemd = Systemd::new();
    let gate = start(&systemd, &limited("rate: 1/h, burst: 2"));
    // systemd sets this for every command of the unit
    let as_the_unit = || end(binary().env("RUNTIME_DIRECTORY", gate.folder()).args(command.split(' ')));
    assert_eq!(as_the_unit().code, Some(0));
    write(&gate, "broken");
    assert_eq!(as_the_unit().code, Some(1), "`systemctl reload` fails visibly");
}

#[test]
fn without_a_file_or_a_server_there_is_nothing_to_reload() {
    let nowhere = end(binary().args(["reload", "--admin", "/nowhere/admin.sock"]));
    assert_eq!(nowhere.code, Some(69), "{}", nowhere.stderr);
}
