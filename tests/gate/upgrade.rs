//! A new process in the place of the running one, ordered by `tidegate upgrade`.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::admin::{ask, verb};
use crate::harness::client::request;
use crate::harness::gate::{binary, end, on_the_way_asked_for};
use crate::harness::load::Ground;
use crate::harness::systemd::Systemd;
use crate::harness::{Connection, Gate, Latch, Origin, Reply, wait_for};

const RUN: &str = "exec \"$0\" \"$@\"";
const POLICY: &str = "listeners: { main: { address: \"127.0.0.1:0\" } }
routes:
  - { name: page, respond: { status: 200, body: first } }
telemetry: { metrics: { address: \"127.0.0.1:0\" } }
";

fn start(systemd: &Systemd, policy: &str) -> Gate {
    let gate = systemd.start(&[], RUN, Stdio::null(), policy);
    systemd.wait_for("READY=1", 1);
    gate
}

fn rewrite(gate: &Gate, policy: &str) {
    std::fs::write(gate.folder().join("tidegate.yaml"), on_the_way_asked_for(policy)).unwrap();
}

#[test]
fn twenty_upgrades_under_load_fail_no_request() {
    const UPGRADES: usize = 20;
    const EACH: usize = 20;
    let (systemd, ground) = (Systemd::new(), Ground::new());
    let policy = |generation| ground.policy(generation, "127.0.0.1:0", "127.0.0.1:0");
    let mut gate = start(&systemd, &policy(0));
    let load = ground.load(&gate);
    for number in 1..=UPGRADES {
        load.is_served_by(number - 1, EACH);
        rewrite(&gate, &policy(number));
        let before = gate.id();
        let ended = gate.upgrade();
        assert_eq!(ended.code, Some(0), "upgrade {number}: {}", ended.stderr);
        assert_ne!(gate.id(), before);
        // only systemd's main process is heard, so the order counts
        systemd.wait_for(&format!("MAINPID={}", gate.id()), 1);
        systemd.wait_for("READY=1", number + 1);
        wait_for("the old process to go", || gone(before).then_some(()));
    }
    load.is_served_by(UPGRADES, EACH);
    let met = load.stop();
    assert!(!gate.talk().contains("cut off"), "{}", gate.talk());
    println!("{UPGRADES} upgrades:\n{}", met.by_each_of(0, UPGRADES).at_least((UPGRADES + 1) * EACH));
}

/// Three kinds of limits by the header `x-key`, each for a route of its own.
fn limited(max: u32) -> String {
    format!(
        "listeners: {{ main: {{ address: \"127.0.0.1:0\" }} }}
limits:
  rate: {{ key: header:x-key, missing: deny, rate: {max}/d, burst: {max} }}
  quota: {{ type: quota, key: header:x-key, missing: deny, max: {max}, window: 744h }}
  distinct: {{ type: distinct, key: header:x-key, missing: deny, of: header:x-value, max: {max}, window: 744h }}
routes:
  - {{ match: {{ path: /rate }}, limits: [rate], respond: {{ status: 200 }} }}
  - {{ match: {{ path: /quota }}, limits: [quota], respond: {{ status: 200 }} }}
  - {{ match: {{ path: /distinct }}, limits: [distinct], respond: {{ status: 200 }} }}
telemetry: {{ metrics: {{ address: \"127.0.0.1:0\" }} }}
server: {{ overload: off, drain: {{ delay: 0s, timeout: 5s }} }}
"
    )
}

const ROUTES: [&str; 3] = ["/rate", "/quota", "/distinct"];

fn is_admitted(gate: &Gate, route: &str, key: &str, value: usize) -> bool {
    let answer = gate.fetch(route, &format!("Host: a\r\nConnection: close\r\nx-key: {key}\r\nx-value: {value}\r\n"));
    assert!(matches!(answer.status, 200 | 429), "{}", answer.status);
    answer.status == 200
}

#[test]
fn who_spent_a_budget_has_none_after_an_upgrade_and_numbers_may_change_with_it() {
    let systemd = Systemd::new();
    let mut gate = start(&systemd, &limited(5));
    for route in ROUTES {
        assert_eq!((0..9).filter(|value| is_admitted(&gate, route, "spent", *value)).count(), 5, "{route}");
        assert_eq!((0..2).filter(|value| is_admitted(&gate, route, "half", *value)).count(), 2, "{route}");
    }
    for _ in 0..2 {
        let ended = gate.upgrade();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        for route in ROUTES {
            assert!(!is_admitted(&gate, route, "spent", 100), "{route}");
        }
    }
    rewrite(&gate, &limited(6));
    let ended = gate.upgrade();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for route in ROUTES {
        assert_eq!((200..209).filter(|value| is_admitted(&gate, route, "spent", *value)).count(), 1, "{route}");
        assert_eq!((200..209).filter(|value| is_admitted(&gate, route, "half", *value)).count(), 4, "{route}");
    }
}

#[test]
fn what_was_decided_and_who_was_refused_is_known_after_an_upgrade() {
    let systemd = Systemd::new();
    let policy = |burst: u32, spare: &str| {
        format!(
            "listeners: {{ main: {{ address: \"127.0.0.1:0\" }} }}
limits:
  per_client: {{ key: client_ip, rate: 1/h, burst: {burst} }}
{spare}routes:
  - {{ name: page, limits: [per_client], respond: {{ status: 200 }} }}
server: {{ overload: off, drain: {{ delay: 0s, timeout: 5s }} }}
"
        )
    };
    let mut gate = start(&systemd, &policy(2, ""));
    let refused: Vec<_> =
        (0..7).map(|_| gate.fetch("/", "Host: a\r\n")).filter(|answer| answer.status == 429).collect();
    assert_eq!(refused.len(), 5);
    let decision = refused[0].field("x-tidegate-decision").expect("an id").to_owned();
    let seen = |gate: &Gate, path: &str| ask(gate, "GET", path, &Value::Null);
    let first = |gate: &Gate| seen(gate, "/api/v1/offenders").1["offenders"][0].clone();
    let known = |gate: &Gate| verb(gate, &["explain", "--decision", &decision]);
    let limited = |gate: &Gate| {
        let past = seen(gate, "/api/v1/history").1;
        let points = past["routes"]["page"]["limited"].as_array().expect("points").clone();
        points.iter().map(|point| point.as_f64().unwrap()).sum::<f64>().round()
    };
    wait_for("the history", || (limited(&gate) == 5.0).then_some(()));
    assert_eq!(verb(&gate, &["pardon", "127.0.0.1"]).code, Some(0));
    let (before, told) = (first(&gate), known(&gate).stdout);
    assert!(told.contains("per_client"), "{told}");
    for round in 0..2 {
        assert_eq!(gate.upgrade().code, Some(0));
        let after = first(&gate);
        assert_eq!(
            (&after["client"], &after["limit"], &after["count"]),
            (&before["client"], &before["limit"], &before["count"]),
            "{round}"
        );
        assert_eq!(known(&gate).code, Some(0), "{round}: {decision}");
        assert!(known(&gate).stdout.contains("per_client"), "{round}");
        let client = before["client"].as_str().expect("a name");
        assert!(verb(&gate, &["explain", "--client", client]).stdout.contains(&decision), "{round}: {client}");
        assert_eq!(limited(&gate), 5.0, "{round}");
    }
    let listed = verb(&gate, &["pardon", "--list"]).stdout;
    assert!(listed.contains("per_client"), "{listed}");
    assert_eq!(verb(&gate, &["pardon", "--revoke", "127.0.0.1"]).code, Some(0));
    // another policy: its limits have the same names, and what the old one decided cannot be told by it
    rewrite(&gate, &policy(3, ""));
    assert_eq!(gate.upgrade().code, Some(0));
    assert_eq!(first(&gate)["client"], before["client"]);
    assert_eq!(known(&gate).code, Some(1));
    // nor does a position mean the same limit where there is another
    rewrite(&gate, &policy(3, "  other: { key: client_ip, rate: 5/s, burst: 5 }\n"));
    assert_eq!(gate.upgrade().code, Some(0));
    assert_eq!(first(&gate), Value::Null);
    assert_eq!(limited(&gate), 5.0);
}

#[test]
fn upgrades_under_load_never_admit_more_than_the_promise_and_fail_no_request() {
    const UPGRADES: usize = 8;
    const MAX: u32 = 400;
    const LOADS: usize = 2;
    let systemd = Systemd::new();
    let mut gate = start(&systemd, &limited(MAX));
    let address = gate.address("main");
    let (stop, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    let admitted = ROUTES.map(|_| AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..LOADS {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let number = asked.fetch_add(1, Ordering::Relaxed);
                    let lines = format!("Host: a\r\nConnection: close\r\nx-key: one\r\nx-value: {number}\r\n");
                    let answer = Connection::open(address).ask("GET", ROUTES[number % 3], &lines, b"");
                    assert!(matches!(answer.status, 200 | 429), "{}", answer.status);
                    admitted[number % 3].fetch_add(usize::from(answer.status == 200), Ordering::Relaxed);
                }
            });
        }
        for number in 0..UPGRADES {
            let before = asked.load(Ordering::Relaxed);
            wait_for("requests", || (asked.load(Ordering::Relaxed) > before + 60).then_some(()));
            let ended = gate.upgrade();
            assert_eq!(ended.code, Some(0), "upgrade {number}: {}", ended.stderr);
        }
        let before = asked.load(Ordering::Relaxed);
        wait_for("requests", || (asked.load(Ordering::Relaxed) > before + 3 * MAX as usize + 100).then_some(()));
        stop.store(true, Ordering::Relaxed);
    });
    let admitted = admitted.map(AtomicUsize::into_inner);
    let told: Vec<String> =
        gate.talk().lines().filter(|line| line.contains("no connection was accepted")).map(str::to_owned).collect();
    println!(
        "{UPGRADES} upgrades, {} requests, admitted {admitted:?} of {MAX}:\n{}",
        asked.into_inner(),
        told.join("\n")
    );
    assert_eq!(told.len(), UPGRADES);
    assert!(admitted.iter().all(|admitted| *admitted <= MAX as usize), "{admitted:?}");
    // a charge of the moment in which its limit is copied may count twice, and none more often
    assert!(admitted.iter().all(|admitted| 2 * *admitted >= MAX as usize), "{admitted:?}");
}

/// A child that nobody waits for stays in the list of processes.
fn gone(id: u32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{id}/status")) else { return true };
    status.lines().any(|line| line.starts_with("State:") && line.contains('Z'))
}

#[test]
fn both_processes_together_have_no_more_places_at_an_origin_than_there_are() {
    let systemd = Systemd::new();
    let latches: Vec<Latch> = (0..8).map(|_| Latch::default()).collect();
    let (of, next) = (latches.clone(), AtomicUsize::new(0));
    let origin = Origin::start(move |_| match of.get(next.fetch_add(1, Ordering::SeqCst)) {
        Some(latch) => Reply::Held(latch.clone()),
        None => Reply::Ok,
    });
    let mut gate = start(
        &systemd,
        &format!(
            "listeners: {{ main: {{ address: \"127.0.0.1:0\" }} }}
origins:
  app: {{ addresses: [\"{}\"], inflight: {{ max: 4, queue: 40, queue_timeout: 60s }} }}
routes:
  - {{ name: site, origin: app }}
telemetry: {{ metrics: {{ address: \"127.0.0.1:0\" }} }}
server: {{ overload: off }}
",
            origin.address()
        ),
    );
    let send = |gate: &Gate| {
        let mut connection = Connection::open(gate.address("main"));
        connection.send(&request("GET", "/", "", b"")).unwrap();
        connection
    };
    let sum = |gate: &Gate, name: &str| gate.metrics().sum(name, &[]);
    let mut all: Vec<Connection> = (0..4).map(|_| send(&gate)).collect();
    origin.wait_for(4);
    let old = gate.id();
    assert_eq!(gate.upgrade().code, Some(0));
    all.extend((0..4).map(|_| send(&gate)));
    wait_for("those of the new process to wait", || {
        (sum(&gate, "tidegate_origin_queue_requests") == 4.0).then_some(())
    });
    for (at, latch) in latches.iter().take(4).enumerate() {
        assert_eq!(origin.count(), 4 + at, "the old process holds {} places", 4 - at);
        latch.open();
        origin.wait_for(5 + at);
    }
    wait_for("the old process to go", || gone(old).then_some(()));
    latches.iter().for_each(Latch::open);
    for connection in &mut all {
        assert_eq!(connection.answer_to("GET").expect("an answer comes").status, 200);
    }
    wait_for("all places to be its own", || (sum(&gate, "tidegate_origin_inflight_limit") == 4.0).then_some(()));
}

#[test]
fn a_process_that_cannot_serve_changes_nothing_and_is_quoted() {
    let systemd = Systemd::new();
    let mut gate = start(&systemd, POLICY);
    let id = gate.id();
    rewrite(&gate, &POLICY.replace("respond", "resond"));
    let ended = gate.upgrade();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("resond") && ended.stderr.contains("did you mean `respond`"), "{}", ended.stderr);
    let (_taken, address) = crate::harness::systemd::port();
    rewrite(&gate, &POLICY.replace("main:", &format!("second: {{ address: \"{address}\" }}, main:")));
    let ended = gate.upgrade();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains(&address.to_string()) && ended.stderr.contains("in use"), "{}", ended.stderr);
    assert_eq!(gate.id(), id);
    assert!(gate.is_alive());
    assert_eq!(gate.fetch("/", "").text(), "first");
    assert!(systemd.messages().iter().all(|message| !message.contains("MAINPID") && !message.contains("STOPPING")));
    // and it can be tried again
    rewrite(&gate, &POLICY.replace("first", "second"));
    assert_eq!(gate.upgrade().code, Some(0));
    wait_for("the new policy", || (gate.fetch("/", "").text() == "second").then_some(()));
}

#[test]
fn an_upgrade_to_another_file_is_refused_and_to_its_own_is_done() {
    let systemd = Systemd::new();
    let mut gate = start(&systemd, POLICY);
    let id = gate.id();
    let [file, other, link] = ["tidegate.yaml", "other.yaml", "link.yaml"].map(|name| gate.folder().join(name));
    std::fs::write(&other, POLICY.replace("first", "other")).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let refused = gate.upgrade_with(&["-c", other.to_str().unwrap()]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""));
    let serves = format!("the running process serves {}, not {}\n", file.display(), other.display());
    assert!(refused.stderr.contains("not upgraded") && refused.stderr.contains(&serves), "{}", refused.stderr);
    assert!(refused.stderr.contains("copy it over that one and `tidegate upgrade`"), "{}", refused.stderr);
    assert_eq!((gate.id(), gate.fetch("/", "").text().as_str()), (id, "first"));
    rewrite(&gate, &POLICY.replace("first", "second"));
    assert_eq!(gate.upgrade_with(&["-c", link.to_str().unwrap()]).code, Some(0));
    wait_for("the new policy", || (gate.fetch("/", "").text() == "second").then_some(()));
}

#[test]
fn a_program_that_is_broken_changes_nothing() {
    let systemd = Systemd::new();
    let program = std::env::temp_dir().join(format!("tidegate-replaced-{}", std::process::id()));
    std::fs::copy(binary().get_program(), &program).unwrap();
    let script = format!("exec {} \"$@\"", program.display());
    let mut gate = systemd.start(&[], &script, Stdio::null(), POLICY);
    systemd.wait_for("READY=1", 1);
    // as a package manager does it: a new file in the place of the old one
    let broken = program.with_extension("new");
    for (bytes, says) in [("#!/bin/sh\nexit 3\n", "exit status: 3"), ("no program", "")] {
        std::fs::write(&broken, bytes).unwrap();
        end(std::process::Command::new("chmod").arg("755").arg(&broken));
        std::fs::rename(&broken, &program).unwrap();
        let ended = gate.upgrade();
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains("not upgraded") && ended.stderr.contains(says), "{}", ended.stderr);
        assert_eq!(gate.fetch("/", "").text(), "first");
    }
    std::fs::copy(binary().get_program(), &broken).unwrap();
    std::fs::rename(&broken, &program).unwrap();
    assert_eq!(gate.upgrade().code, Some(0), "a good one in its place is taken");
    assert_eq!(gate.fetch("/", "").text(), "first");
    std::fs::remove_file(&program).unwrap();
}

#[test]
fn listeners_come_and_go_with_an_upgrade_and_files_stay_for_whom_they_serve() {
    let systemd = Systemd::new();
    let folder = crate::harness::gate::Folder::new();
    let (kept, dropped) = (folder.path().join("kept.sock"), folder.path().join("dropped.sock"));
    let with = |more: &str| {
        let kept = format!("main: {{ address: \"127.0.0.1:0\" }}, kept: {{ address: \"unix:{}\" }}", kept.display());
        POLICY.replace("main: { address: \"127.0.0.1:0\" }", &format!("{kept}, {more}"))
    };
    // on an address of its own, so that no other test is given its port when it is free again
    let going =
        format!("gone: {{ address: \"127.77.0.1:0\" }}, dropped: {{ address: \"unix:{}\" }}", dropped.display());
    let mut gate = start(&systemd, &with(&going));
    let gone_address = gate.address("gone");
    rewrite(&gate, &with("come: { address: \"127.0.0.1:0\" }"));
    let old = gate.id();
    assert_eq!(gate.upgrade().code, Some(0));
    wait_for("the old process to go", || gone(old).then_some(()));
    assert_eq!(Connection::open(gate.address("come")).ask("GET", "/", "", b"").status, 200);
    assert!(Connection::try_open(gone_address).is_err());
    assert!(!dropped.exists());
    let mut stream = UnixStream::connect(&kept).expect("its file is still there");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    wait_for("the store to hold what is wanted", || {
        let mut stored = systemd.stored();
        stored.sort();
        let wanted = ["listener.come", "listener.kept", "listener.main", "metrics.metrics"];
        stored.iter().map(|name| name.trim_start_matches("tidegate.")).eq(wanted).then_some(())
    });
}

#[test]
fn a_request_on_its_way_is_finished_by_the_old_process_while_the_new_one_serves() {
    let latch = Latch::default();
    let held = latch.clone();
    let origin = Origin::start(move |arrival| match arrival.target.as_str() {
        "/held" => Reply::Held(held.clone()),
        _ => Reply::Ok,
    });
    let systemd = Systemd::new();
    let mut gate = start(
        &systemd,
        &format!(
            "listeners: {{ main: {{ address: \"127.0.0.1:0\" }} }}
origins: {{ app: {{ addresses: [\"{}\"], timeouts: {{ read: 120s, request: 120s }} }} }}
routes: [{{ name: site, origin: app }}]
server: {{ overload: off, drain: {{ timeout: 100s }} }}
telemetry: {{}}
",
            origin.address()
        ),
    );
    let mut inside = gate.connect();
    inside.send(&request("GET", "/held", "", b"")).unwrap();
    origin.wait_for(1);
    let old = gate.id();
    assert_eq!(gate.upgrade().code, Some(0));
    assert_eq!(gate.fetch("/", "").status, 200);
    assert!(!gone(old));
    latch.open();
    assert_eq!(inside.answer_to("GET").unwrap().status, 200);
    wait_for("the old process to go", || gone(old).then_some(()));
    // the new one ends as any other
    let new = gate.id();
    end(std::process::Command::new("sh").arg("-c").arg(format!("kill -TERM {new}")));
    wait_for("the new process to go", || gone(new).then_some(()));
}

#[test]
fn the_admin_socket_is_private_and_nobody_behind_it_is_told_with_69() {
    use std::os::unix::fs::PermissionsExt;
    let gate = start(&Systemd::new(), POLICY);
    let socket = gate.admin_socket();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(socket.parent().unwrap()), mode(&socket)), (0o700, 0o600));
    let mut stranger = UnixStream::connect(&socket).unwrap();
    stranger.write_all(b"POST /api/v1/dance HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}").unwrap();
    stranger.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = String::new();
    stranger.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 404 ") && answer.contains("{\"error\":"), "{answer}");
    let nowhere = gate.folder().join("nowhere.sock");
    let ended = end(binary().arg("upgrade").arg("--admin").arg(&nowhere));
    assert_eq!(ended.code, Some(69), "{}", ended.stderr);
    assert!(ended.stderr.contains("nowhere.sock"), "{}", ended.stderr);
}

#[test]
fn an_admin_socket_in_a_folder_of_others_is_refused() {
    let ended = crate::harness::gate::run_to_end(
        &["run", "-c", "tidegate.yaml", "--admin", "/tmp/admin.sock"],
        &format!("{POLICY}\n"),
    );
    assert_eq!(ended.code, Some(71), "{}", ended.stderr);
    assert!(ended.stderr.contains("/tmp is not private"), "{}", ended.stderr);
}
