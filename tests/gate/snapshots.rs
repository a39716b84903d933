//! The state of limits over the end of a process: `server.state`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::harness::gate::{Folder, binary, end};
use crate::harness::{Connection, Gate, wait_for};

/// A folder for state that outlives the gates of a test.
struct Kept(Folder);

impl Kept {
    fn new() -> Kept {
        Kept(Folder::new())
    }

    fn directory(&self) -> PathBuf {
        self.0.path().join("state")
    }

    fn snapshot(&self) -> PathBuf {
        self.directory().join("limits.state")
    }

    /// Three kinds of limits of five an hour, each for a route of its own, by the header `x-key`.
    fn policy(&self) -> String {
        self.policy_with("rate: 5/h, burst: 5")
    }

    fn policy_with(&self, rate: &str) -> String {
        format!(
            "limits:
  rate: {{ key: header:x-key, missing: deny, {rate} }}
  quota: {{ type: quota, key: header:x-key, missing: deny, max: 5, window: 744h }}
  distinct: {{ type: distinct, key: header:x-key, missing: deny, of: header:x-value, max: 5, window: 744h }}
routes:
  - {{ match: {{ path: /rate }}, limits: [rate], respond: {{ status: 200 }} }}
  - {{ match: {{ path: /quota }}, limits: [quota], respond: {{ status: 200 }} }}
  - {{ match: {{ path: /distinct }}, limits: [distinct], respond: {{ status: 200 }} }}
server: {{ overload: off, state: {{ directory: \"{}\", every: 100ms }}, drain: {{ delay: 0s, timeout: 5s }} }}
",
            self.directory().display()
        )
    }

    /// Waits for a snapshot that was begun after the call, while requests come all the time.
    fn waits_for_a_snapshot(&self) {
        let file = || fs::metadata(self.snapshot()).ok().map(|found| (found.ino(), found.mtime(), found.mtime_nsec()));
        // the first of them may have been under way
        for _ in 0..2 {
            let before = file();
            wait_for("another snapshot", || (file() != before).then_some(()));
        }
    }
}

const ROUTES: [&str; 3] = ["/rate", "/quota", "/distinct"];

/// How many of so many requests of a key are admitted; each has a value of its own.
fn admitted(gate: &Gate, route: &str, key: &str, requests: usize, values: &AtomicUsize) -> usize {
    let one = |_: &usize| {
        let value = values.fetch_add(1, Ordering::Relaxed);
        let answer = gate.fetch(route, &format!("Host: a\r\nx-key: {key}\r\nx-value: {value}\r\n"));
        assert!(matches!(answer.status, 200 | 429), "{}", answer.status);
        answer.status == 200
    };
    (0..requests).filter(one).count()
}

#[test]
fn who_spent_a_budget_has_none_after_a_restart_and_others_have_theirs() {
    let (kept, values) = (Kept::new(), AtomicUsize::new(0));
    let mut gate = Gate::start(&kept.policy());
    for route in ROUTES {
        assert_eq!(admitted(&gate, route, "spent", 7, &values), 5);
        assert_eq!(admitted(&gate, route, "half", 2, &values), 2);
    }
    gate.signal("TERM");
    assert!(gate.exit_status().success());
    let gate = Gate::start(&kept.policy());
    for route in ROUTES {
        assert_eq!(admitted(&gate, route, "spent", 3, &values), 0, "{route}");
        assert_eq!(admitted(&gate, route, "half", 9, &values), 3, "{route}");
        assert_eq!(admitted(&gate, route, "fresh", 9, &values), 5, "{route}");
    }
    let mut talk = gate.talk();
    assert!(talk.contains("limits go on from what was saved"), "{talk}");
    drop(gate);
    // numbers that changed meanwhile go on from the same counts, and a limit of another key from none
    let changed = kept
        .policy_with("rate: 8/h, burst: 8")
        .replace("type: quota, key: header:x-key", "type: quota, key: header:x-value");
    let gate = Gate::start(&changed);
    assert_eq!(admitted(&gate, "/rate", "spent", 9, &values), 3);
    assert_eq!(admitted(&gate, "/quota", "spent", 9, &values), 9);
    talk = gate.talk();
    assert!(talk.contains("the limit begins empty") && talk.contains("quota"), "{talk}");
}

/// Beside load, so that snapshots are written of tables that change.
#[test]
fn a_kill_gives_back_no_more_than_what_was_admitted_since_the_last_snapshot() {
    const KILLS: usize = 8;
    /// Admitted after the last snapshot that the test waits for, at most.
    const LATE: usize = 2;
    let (kept, values, stop) = (Kept::new(), AtomicUsize::new(0), AtomicBool::new(false));
    let mut gate = Gate::start(&kept.policy());
    let address = std::sync::Mutex::new(gate.address("main"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let to = *address.lock().unwrap();
                let value = values.fetch_add(1, Ordering::Relaxed);
                // it may be gone at any moment
                let Ok(mut connection) = Connection::try_open(to) else { continue };
                let _ = connection.send(
                    format!(
                        "GET {} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nx-key: {}\r\nx-value: {value}\r\n\r\n",
                        ROUTES[value % 3],
                        value % 50
                    )
                    .as_bytes(),
                );
                let _ = connection.answer_to("GET");
            }
        });
        let mut all = [0; 3];
        for number in 0..KILLS {
            for (at, route) in ROUTES.iter().enumerate() {
                all[at] += admitted(&gate, route, "killed", if number == 0 { 3 } else { 0 }, &values);
            }
            kept.waits_for_a_snapshot();
            for (at, route) in ROUTES.iter().enumerate() {
                all[at] += admitted(&gate, route, "killed", LATE, &values);
            }
            gate.signal("KILL");
            gate.exit_status();
            gate = Gate::start(&kept.policy());
            *address.lock().unwrap() = gate.address("main");
            assert!(gate.talk().contains("limits go on from what was saved"), "{}", gate.talk());
        }
        for (at, route) in ROUTES.iter().enumerate() {
            all[at] += admitted(&gate, route, "killed", 9, &values);
            assert!((5..=5 + KILLS * LATE).contains(&all[at]), "{route}: {all:?}");
            assert_eq!(admitted(&gate, route, "innocent", 9, &values), 5, "{route}");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_snapshot_that_cannot_be_used_is_told_and_no_part_of_it_is() {
    let (kept, values) = (Kept::new(), AtomicUsize::new(0));
    let mut gate = Gate::start(&kept.policy());
    assert_eq!(admitted(&gate, "/quota", "spent", 7, &values), 5);
    gate.signal("TERM");
    assert!(gate.exit_status().success());
    drop(gate);
    let good = fs::read(kept.snapshot()).unwrap();
    let mut corrupt = good.clone();
    let middle = corrupt.len() / 2;
    corrupt[middle] ^= 1;
    let mut newer = good.clone();
    newer[16] += 1;
    for (snapshot, told) in [
        (corrupt, "is corrupt: a checksum does not match"),
        (good[..good.len() - 1].to_vec(), "is cut off"),
        (Vec::new(), "is cut off"),
        (b"something that somebody else wrote, of some length, to be sure".to_vec(), "is no saved state"),
        (newer, "was written by a newer tidegate (version 3, this one reads 2)"),
    ] {
        fs::write(kept.snapshot(), snapshot).unwrap();
        let mut gate = Gate::start(&kept.policy());
        let talk = gate.talk();
        assert!(talk.contains(&format!("state: the snapshot {told}; all limits begin empty")), "{told}\n{talk}");
        assert_eq!(admitted(&gate, "/quota", "spent", 7, &values), 5, "{told}");
        gate.signal("KILL");
        gate.exit_status();
    }
    fs::write(kept.snapshot(), &good).unwrap();
    fs::write(kept.directory().join("secret"), [7; 16]).unwrap();
    let gate = Gate::start(&kept.policy());
    assert!(gate.talk().contains("the snapshot was written with another secret"), "{}", gate.talk());
    assert_eq!(admitted(&gate, "/quota", "spent", 7, &values), 5);
}

#[test]
fn a_directory_that_cannot_be_used_is_told_and_the_gate_serves() {
    let (kept, values) = (Kept::new(), AtomicUsize::new(0));
    fs::create_dir(kept.directory()).unwrap();
    let mode = |mode| fs::set_permissions(kept.directory(), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o755);
    let gate = Gate::start(&kept.policy());
    assert!(gate.talk().contains("others than its owner may enter it (mode 755)"), "{}", gate.talk());
    assert_eq!(admitted(&gate, "/quota", "a", 7, &values), 5);
    drop(gate);
    mode(0o700);
    // as on a full disk: what is to be written cannot be
    let obstacle = kept.directory().join("limits.state.new");
    fs::create_dir(&obstacle).unwrap();
    let gate = Gate::start(&kept.policy());
    wait_for("a line about it", || gate.talk().contains("no snapshot can be written").then_some(()));
    assert!(gate.metrics().sum("tidegate_snapshot_errors_total", &[]) >= 1.0);
    assert_eq!(admitted(&gate, "/quota", "a", 7, &values), 5);
    fs::remove_dir(obstacle).unwrap();
    wait_for("a snapshot", || kept.snapshot().exists().then_some(()));
    wait_for("a line about it", || gate.talk().contains("snapshots are written again").then_some(()));
    // another process of the same policy leaves it alone
    let other = Gate::start(&kept.policy());
    wait_for("a line about it", || other.talk().contains("another process has the directory").then_some(()));
    assert!(is_private(&kept.snapshot()) && is_private(&kept.directory().join("secret")));
}

/// The table of `docs/operations.md`: what survives what.
const SURVIVES: [(&str, [&str; 4]); 15] = [
    ("`rate`, `quota`, `recent_average`, `distinct`", ["kept", "kept", "kept", CRASHED]),
    ("pardons", ["kept", "kept", "kept", CRASHED]),
    ("the list of pardons", ["kept", "kept", ANEW, ANEW]),
    ("bans", ["kept", "kept", "kept", "kept: on disk before the order is answered"]),
    ("bans that gates share: in the store, without `state` too", ["kept"; 4]),
    ("`inflight`, and attempts that wait for their answers", ["kept", BOTH, ENDED, ENDED]),
    ("`fair_share`: units and what was used lately", ["kept", "kept", "kept", CRASHED]),
    ("`fair_share`: who waits", ["kept", WAITS, ENDED, ENDED]),
    ("shared limits: counts in the store", ["kept"; 4]),
    ("shared limits: leases of this process", ["kept", EXPIRE, EXPIRE, EXPIRE]),
    (
        "shared limits: places in the store",
        [
            "kept",
            "kept until the old process's requests end",
            "given back with their requests, or within 20 s",
            "back within 20 s",
        ],
    ),
    (
        "shared limits: attempts that wait for their answers",
        ["kept", "kept: the old process tells the store", "told with their requests, or charged", "charged"],
    ),
    ("learned costs", ["kept", "kept", "kept", CRASHED]),
    (
        "history; decisions, under the same policy; offenders, under limits of the same names",
        ["kept", "kept", ANEW, ANEW],
    ),
    ("metrics", ["kept", ANEW, ANEW, ANEW]),
];
const CRASHED: &str = "kept as of the latest snapshot";
const BOTH: &str = "kept: the new process counts what requests of the old one hold";
const WAITS: &str = "waits in the old process";
const ENDED: &str = "ended with their requests";
const ANEW: &str = "anew";
const EXPIRE: &str = "lost: counted as used until they expire";

#[test]
fn the_table_of_what_survives_what_is_that_of_the_documents() {
    let mut table = "<!-- written by the test `snapshots` -->\n".to_owned();
    table +=
        "| state | reload | upgrade | restart with `state` | crash with `state` |\n| --- | --- | --- | --- | --- |\n";
    for (state, fates) in SURVIVES {
        table += &format!("| {state} | {} |\n", fates.join(" | "));
    }
    table += "<!-- end -->\n";
    let document = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md")).unwrap();
    assert!(document.contains(&table), "it should have\n{table}");
}

/// Its first row, kind by kind, and the second.
#[test]
fn what_the_table_says_is_kept_is_kept_through_a_reload_an_upgrade_a_restart_and_a_crash() {
    let policy = |kept: &Kept| {
        let own = kept.policy();
        let own = own.replace("  distinct:", "  recent_average: { type: recent_average, key: header:x-key, missing: deny, rate: 3/h, half_life: 1h, count: admitted }\n  client: { type: quota, max: 1, window: 744h }\n  distinct:");
        own.replace("routes:\n", "routes:\n  - { match: { path: /recent_average }, limits: [recent_average], respond: { status: 200 } }\n  - { match: { path: /client }, limits: [client], respond: { status: 200 } }\n")
    };
    let routes = ["/rate", "/quota", "/recent_average", "/distinct"];
    for how in ["reload", "upgrade", "restart", "crash"] {
        let (kept, values) = (Kept::new(), AtomicUsize::new(0));
        let start = || {
            let folder = Folder::new();
            let mut command = binary();
            command.env("RUNTIME_DIRECTORY", folder.path());
            Gate::start_in(folder, Stdio::null(), command, &policy(&kept))
        };
        let mut gate = start();
        for route in routes {
            assert!(admitted(&gate, route, "spent", 9, &values) < 9, "{route}");
        }
        assert_eq!(admitted(&gate, "/client", "any", 2, &values), 1);
        let pardon = end(binary().args(["pardon", "127.0.0.1", "--admin"]).arg(gate.admin_socket()));
        assert_eq!(pardon.code, Some(0), "{}", pardon.stderr);
        assert_eq!(admitted(&gate, "/client", "any", 2, &values), 1);
        {
            // while it is open snapshots are written
            let _open = gate.connect();
            kept.waits_for_a_snapshot();
        }
        match how {
            "reload" => {
                gate.signal("HUP");
                wait_for("the reload", || gate.talk().contains("reloaded").then_some(()));
            }
            "upgrade" => {
                let ended = gate.upgrade();
                assert_eq!(ended.code, Some(0), "{}", ended.stderr);
                // the new process has the directory as soon as the old one has left it
                let ban = end(binary().args(["ban", "192.0.2.7", "--for", "1h", "--admin"]).arg(gate.admin_socket()));
                assert_eq!((ban.code, ban.stderr.contains("not on disk yet")), (Some(0), false), "{}", ban.stderr);
                assert!(!gate.talk().contains("another process has the directory"), "{}", gate.talk());
            }
            _ => {
                gate.signal(if how == "crash" { "KILL" } else { "TERM" });
                gate.exit_status();
                gate = start();
            }
        }
        for route in routes {
            assert_eq!(admitted(&gate, route, "spent", 1, &values), 0, "{how}: {route}");
        }
        assert_eq!(admitted(&gate, "/client", "any", 2, &values), 0, "{how}: spent since the pardon");
        let pardon = end(binary().args(["pardon", "127.0.0.1", "--admin"]).arg(gate.admin_socket()));
        assert_eq!(pardon.code, Some(0), "{}", pardon.stderr);
        assert_eq!(admitted(&gate, "/client", "any", 2, &values), 1, "{how}: another pardon");
    }
}

fn is_private(file: &Path) -> bool {
    fs::metadata(file).unwrap().mode() & 0o077 == 0
}

#[test]
fn the_snapshots_are_in_the_metrics() {
    let (kept, values) = (Kept::new(), AtomicUsize::new(0));
    let gate = Gate::start(&kept.policy());
    assert_eq!(admitted(&gate, "/quota", "a", 7, &values), 5);
    wait_for("a snapshot", || {
        let metrics = gate.metrics();
        let bytes = metrics.sum("tidegate_snapshot_bytes", &[]);
        (bytes > 0.0 && bytes == fs::metadata(kept.snapshot()).unwrap().len() as f64).then_some(())
    });
    let metrics = gate.metrics();
    assert!(metrics.names().contains(&"tidegate_snapshot_age_seconds"));
    assert!(metrics.sum("tidegate_snapshot_write_seconds", &[]) > 0.0);
    assert_eq!(metrics.sum("tidegate_snapshot_errors_total", &[]), 0.0);
}
