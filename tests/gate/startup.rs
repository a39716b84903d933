//! Starting: what is said when it cannot be done, and the ways that need no policy file.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use regex::Regex;

use crate::explain_document::same;
use crate::harness::gate::{end, run_to_end, shell};
use crate::harness::ports::own_port;
use crate::harness::{Connection, Gate, Origin, Reply};
use crate::skips::skip;

#[test]
fn an_address_in_use_is_told_and_ends_with_71() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let policy = format!(
        "listeners: {{ main: {{ address: \"{address}\" }} }}\nroutes:\n  - {{ name: page, respond: {{ status: 200, body: ok }} }}\n"
    );
    let ended = run_to_end(&["run", "-c", "tidegate.yaml"], &policy);
    assert_eq!(ended.code, Some(71), "{}", ended.stderr);
    let said = ended.stderr.to_lowercase();
    assert!(said.contains(&address.to_string()) && said.contains("in use"), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn two_gates_cannot_share_an_address() {
    let origin = Origin::that(Reply::Ok);
    let gate = Gate::start(&format!("routes:\n  - {{ name: site, origin: \"{}\" }}\n", origin.address()));
    let address = gate.address("main").to_string();
    let ended = run_to_end(&["run", "--listen", &address, "--origin", &origin.address().to_string()], "");
    assert_eq!(ended.code, Some(71), "{}", ended.stderr);
    assert_eq!(gate.fetch("/", "").status, 200, "the first is not disturbed");
}

#[test]
fn a_gate_that_was_killed_can_be_started_again_at_once() {
    let origin = Origin::that(Reply::Ok);
    let address = origin.address().to_string();
    // no port of the system's choice: another connection could have it before the second start
    let place = format!("127.0.0.1:{}", own_port());
    let first = Gate::start_with(&["run", "--listen", &place, "--origin", &address]);
    // connections that the killed one leaves behind, some of them still open
    let mut kept = Connection::open(first.address("main"));
    assert_eq!(kept.ask("GET", "/", "", b"").status, 200);
    drop(first);
    let second = Gate::start_with(&["run", "--listen", &place, "--origin", &address]);
    assert_eq!(second.fetch("/", "").status, 200);
}

#[test]
fn every_fault_of_a_broken_policy_is_told_at_once_and_ends_with_78() {
    let policy = "listen: \"127.0.0.1:0\"
limits:
  api: { rate: 10/sec, brust: 5 }
routes:
  - name: site
    limits: [apii]
    origin: nowhere
  - name: site
    respond: { status: 200 }
";
    for verb in [&["run", "-c", "tidegate.yaml"][..], &["check", "tidegate.yaml"]] {
        let ended = run_to_end(verb, policy);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.code, Some(78), "{verb:?}: {said}");
        for fault in ["10/sec", "apii", "brust"] {
            assert!(said.contains(fault), "{verb:?} does not tell of {fault}: {said}");
        }
        assert!(said.contains("did you mean `burst`") && said.contains("tidegate.yaml:3:24"), "{said}");
    }
}

#[test]
fn a_policy_file_that_is_not_there_is_told() {
    let ended = run_to_end(&["run", "-c", "not-there.yaml"], "");
    assert!(ended.code.is_some_and(|code| code != 0 && code != 101), "{:?} {}", ended.code, ended.stderr);
    assert!(ended.stderr.contains("not-there.yaml"), "{}", ended.stderr);
}

#[test]
fn four_lines_protect_a_server() {
    let origin = Origin::that(Reply::Ok);
    let gate = Gate::start(&format!("routes:\n  - origin: {}\n    limit: 10/h\n", origin.address()));
    let mut connection = gate.connect();
    let statuses: Vec<u16> = (0..20).map(|_| connection.ask("GET", "/", "", b"").status).collect();
    assert_eq!(statuses[0], 200);
    assert_eq!(statuses[19], 429);
    let served = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!(origin.count(), served);
}

#[test]
fn run_works_without_a_file() {
    let origin = Origin::that(Reply::Ok);
    let address = origin.address().to_string();
    let mut gate =
        Gate::start_with(&["run", "--listen", "127.0.0.1:0", "--origin", &address, "--limit", "10/h burst 20"]);
    let mut connection = gate.connect();
    let statuses: Vec<u16> = (0..25).map(|_| connection.ask("GET", "/", "", b"").status).collect();
    assert_eq!(statuses, [[200; 20].as_slice(), &[429; 5]].concat());
    assert_eq!(origin.count(), 20);
    gate.signal("TERM");
    assert_eq!(gate.exit_status().code(), Some(0));
}

#[test]
fn several_listeners_serve_the_same_policy() {
    let gate = Gate::start(
        "listeners:
  main: { address: \"127.0.0.1:0\" }
  other: { address: \"127.0.0.1:0\" }
routes:
  - { name: page, limit: 1/h burst 1, respond: { status: 200, body: ok } }
",
    );
    assert_eq!(gate.fetch("/", "").status, 200);
    assert_eq!(Connection::open(gate.address("other")).ask("GET", "/", "", b"").status, 429);
    for (listener, code) in [("main", "2xx"), ("other", "4xx")] {
        gate.counts("tidegate_requests_total", &[("listener", listener), ("code", code)], 1.0);
    }
}

#[test]
fn a_bracketed_ipv6_loopback_can_be_listened_on() {
    if let Err(error) = TcpListener::bind("[::1]:0") {
        return skip("a listener at [::1]", format!("no IPv6 loopback: {error}"));
    }
    let gate = Gate::start(
        "listeners: { main: { address: \"[::1]:0\" } }
routes:
  - { name: page, respond: { status: 200, body: ok } }
",
    );
    assert!(gate.address("main").is_ipv6());
    assert_eq!(gate.fetch("/", "").text(), "ok");
}

#[test]
fn the_lines_of_the_demo_do_what_the_readme_shows() {
    let mut gate = Gate::start_with(&["demo", "--port", "0"]);
    gate.address("main");
    let talk = gate.talk();
    let lines: Vec<&str> = talk.lines().filter(|line| line.contains("curl ")).map(str::trim).collect();
    assert_eq!(lines.len(), 3, "{talk}");
    let outputs: Vec<String> = lines
        .iter()
        .map(|line| {
            let output = Command::new("sh").arg("-c").arg(line).output().expect("a shell runs");
            assert!(output.status.success(), "{line}: {output:?}");
            String::from_utf8_lossy(&output.stdout).into_owned()
        })
        .collect();
    // an answer with its budget; five logins a minute; and a forged address that buys nothing
    assert!(
        outputs[0].starts_with("HTTP/1.1 200") && outputs[0].to_lowercase().contains("\r\nratelimit: "),
        "{}",
        outputs[0]
    );
    assert_eq!(outputs[1].trim(), "200 200 200 200 200 429");
    readme_lists("$ for i in 1 2 3 4 5 6; do curl ", &outputs[1]);
    assert!(
        outputs[2].starts_with("HTTP/1.1 429") && outputs[2].to_lowercase().contains("\r\nretry-after: "),
        "{}",
        outputs[2]
    );
    readme_lists("$ curl -i ", &outputs[2]);
    // and the line that says why
    let id = Regex::new("(?i)x-tidegate-decision: (.*)\r").unwrap().captures(&outputs[2]).expect("it has an id")[1]
        .to_owned();
    let why = talk.lines().find(|line| line.contains(" explain ")).expect("the demonstration tells how").trim();
    // the one place that differs from that of whoever types it
    let typed = why.replace("ID", &id);
    assert!(!typed.contains("--admin"), "it is found without: {typed}");
    let mut shell = Command::new("sh");
    let output = shell.arg("-c").arg(typed).env("XDG_RUNTIME_DIR", gate.folder()).output().expect("a shell runs");
    assert!(output.status.success(), "{why}: {output:?}");
    readme_shows("$ tidegate explain --decision ", &id, &String::from_utf8_lossy(&output.stdout));
    gate.signal("INT");
    assert_eq!(gate.exit_status().code(), Some(0));
}

/// Asserts that each line that the README shows under a command that begins so is printed, in this order, but for what differs in every run.
fn readme_lists(command: &str, printed: &str) {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let block = readme.split_once(command).expect("the README has the command").1.split("```").next().unwrap();
    let numbers = Regex::new(r"(retry-after: |;t=)\d+|(x-tidegate-decision: )\w+").unwrap();
    let same = |line: &str| numbers.replace_all(line.trim().to_lowercase().as_str(), "$1$2N").into_owned();
    let mut lines = printed.lines().map(same);
    let shown: Vec<String> = block.lines().skip(1).filter(|line| *line != "…").map(same).collect();
    assert!(!shown.is_empty() && !shown.iter().any(|line| line.starts_with("$ ")), "{block}");
    for line in shown {
        assert!(lines.any(|known| known == line), "the README shows `{line}`, which is not printed:\n{printed}");
    }
}

/// Asserts that the README prints this output under a command that begins so and ends with `id`; with `UPDATE_EXPECTED` it is
/// made to.
fn readme_shows(command: &str, id: &str, printed: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let begin = readme.find(command).expect("the README has the command");
    let (before, rest) = readme.split_at(begin);
    let (block, behind) = rest.split_at(rest.find("```").expect("a block ends"));
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        std::fs::write(path, format!("{before}{command}{id}\n{printed}{behind}")).unwrap();
        return;
    }
    let (_, shown) = block.split_once('\n').expect("a command is a line");
    assert_eq!(same(shown), same(printed), "the README shows something else than is printed");
}

/// The flags of a gate whose origin nobody asks.
const ALONE: &str = "run --listen 127.0.0.1:0 --origin 127.0.0.1:1";

#[test]
fn a_gate_without_a_place_for_its_admin_socket_says_how_to_get_one() {
    // root has a place of its own
    let user = "if [ \"$(id -u)\" = 0 ]; then set -- setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"; fi";
    let script = format!("unset XDG_RUNTIME_DIR; set -- \"$0\" {ALONE} \"$@\"; {user}; exec \"$@\"");
    let gate = Gate::start_by(shell(&script));
    gate.address("main");
    let said = gate.talk();
    assert!(said.contains("warning: no admin socket: neither RUNTIME_DIRECTORY nor XDG_RUNTIME_DIR is set"), "{said}");
    assert!(said.contains("`run --admin PATH` (or TIDEGATE_ADMIN=PATH)"), "{said}");
}

#[test]
fn the_admin_socket_of_root_is_in_run_tidegate() {
    let script = format!(
        "unshare -m sh -c 'mount -t tmpfs tmpfs /run || exit 99
\"$0\" {ALONE} & gate=$!
for i in $(seq 100); do \"$0\" status -q 2>/dev/null && break; sleep 0.1; done
\"$0\" status; stat -c \"%a %n\" /run/tidegate /run/tidegate/private /run/tidegate/private/admin.sock
kill $gate; wait $gate' \"$0\""
    );
    let ended = end(&mut shell(&script));
    if ended.code != Some(0) && (ended.code == Some(99) || ended.stderr.contains("unshare")) {
        return skip("root's admin socket", format!("no folder of its own for /run: {}", ended.stderr));
    }
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("config ") && ended.stdout.contains("from the command line"), "{}", ended.stdout);
    for line in ["755 /run/tidegate\n", "700 /run/tidegate/private\n"] {
        assert!(ended.stdout.contains(line), "{line}: {}", ended.stdout);
    }
}
