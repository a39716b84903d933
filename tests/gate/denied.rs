//! `deny` of routes and listeners: whom it refuses, and lists in files that are renewed while the gate serves.

use std::fmt::Write as _;

use serde_json::json;

use crate::admin::{ask, verb};
use crate::explain::start;
use crate::harness::{Gate, wait_for};

const POLICY: &str = "trusted_proxies: [127.0.0.0/8]
listeners: { main: { address: \"127.0.0.1:0\", deny: [192.0.2.0/24] } }
limits: { few: { key: client_ip, rate: 2/h, burst: 2 } }
routes:
  - { name: page, limits: [few], respond: { status: 200, body: page }, deny: [198.51.100.7, { file: list.txt }] }
  - { name: open, match: { path: /open }, respond: { status: 200, body: open } }
";

/// A gate whose list has these lines.
fn with_list(list: &str) -> Gate {
    let folder = crate::harness::gate::Folder::new();
    std::fs::write(folder.path().join("list.txt"), list).unwrap();
    let mut command = crate::harness::gate::binary();
    command.arg("--admin").arg(folder.path().join("private/admin.sock"));
    Gate::start_in(folder, std::process::Stdio::null(), command, POLICY)
}

fn status(gate: &Gate, path: &str, client: &str) -> u16 {
    gate.fetch(path, &format!("X-Forwarded-For: {client}\r\n")).status
}

fn reload(gate: &Gate) -> (u16, String) {
    let (status, told) = ask(gate, "POST", "/api/v1/reload", &json!({}));
    (status, told.to_string())
}

#[test]
fn clients_behind_a_proxy_are_denied_by_route_and_by_listener() {
    let gate = with_list("# bad ones\n203.0.113.0/25 # half of it\n2001:db8:bad::/48\n");
    for (client, page, open) in [
        ("198.51.100.7", 403, 200),
        ("198.51.100.8", 200, 200),
        ("203.0.113.127", 403, 200),
        ("203.0.113.128", 200, 200),
        ("::ffff:203.0.113.1", 403, 200),
        ("203.0.113.200, 203.0.113.1:99", 403, 200),
        ("2001:db8:bad:1::1", 403, 200),
        ("2001:db8:bae::1", 200, 200),
        ("192.0.2.1", 403, 403),
    ] {
        assert_eq!((status(&gate, "/", client), status(&gate, "/open", client)), (page, open), "{client}");
    }
    let explained = verb(&gate, &["explain", "--client", "203.0.113.1"]).stdout;
    assert!(explained.contains("403 refused: denied") && explained.contains("`deny` in the policy"), "{explained}");
    assert!(explained.contains("none was asked"), "no limit is charged: {explained}");
}

#[test]
fn a_renewed_list_is_in_force_after_a_reload_and_a_bad_one_leaves_the_old() {
    let gate = with_list("203.0.113.1\n");
    let list = gate.folder().join("list.txt");
    assert_eq!((status(&gate, "/", "203.0.113.1"), status(&gate, "/", "203.0.113.2")), (403, 200));
    std::fs::write(&list, "203.0.113.2\n").unwrap();
    assert_eq!(reload(&gate).0, 200);
    assert_eq!((status(&gate, "/", "203.0.113.1"), status(&gate, "/", "203.0.113.2")), (200, 403));
    std::fs::write(&list, "203.0.113.3\n10.0.0.0/33\n\nnobody\n").unwrap();
    let (answered, told) = reload(&gate);
    assert_eq!(answered, 409);
    assert!(told.contains("list.txt:2:1") && told.contains("list.txt:4:1"), "every bad line: {told}");
    assert_eq!((status(&gate, "/", "203.0.113.2"), status(&gate, "/", "203.0.113.3")), (403, 200), "the old list");
    // an empty list denies nobody
    std::fs::write(&list, "# nobody today\n").unwrap();
    assert_eq!(reload(&gate).0, 200);
    assert_eq!(status(&gate, "/", "203.0.113.4"), 200);
    // the listener's list too
    let file = gate.folder().join("tidegate.yaml");
    std::fs::write(&file, POLICY.replace("deny: [192.0.2.0/24]", "deny: [203.0.113.4]")).unwrap();
    assert_eq!(reload(&gate).0, 200);
    assert_eq!((status(&gate, "/open", "192.0.2.1"), status(&gate, "/open", "203.0.113.4")), (200, 403));
}

#[test]
fn a_watched_list_is_renewed_by_itself() {
    let gate = start(&POLICY.replace("{ file: list.txt }", "203.0.113.1").replace("limits: {", "watch: 1s\nlimits: {"));
    assert_eq!(status(&gate, "/", "203.0.113.1"), 403);
    std::fs::write(gate.folder().join("list.txt"), "203.0.113.9\n").unwrap();
    let file = gate.folder().join("tidegate.yaml");
    let with_file = std::fs::read_to_string(&file)
        .unwrap()
        .replace("deny: [198.51.100.7, 203.0.113.1]", "deny: [{ file: list.txt }]");
    std::fs::write(&file, with_file).unwrap();
    wait_for("the file to be read", || (status(&gate, "/", "203.0.113.9") == 403).then_some(()));
    std::fs::write(gate.folder().join("list.txt"), "203.0.113.8\n").unwrap();
    wait_for("the renewed list", || (status(&gate, "/", "203.0.113.8") == 403).then_some(()));
    assert_ne!(status(&gate, "/", "203.0.113.9"), 403);
}

/// `cargo bench -p tidegate-policy --bench networks` has the figures; this is the whole way from a file to a refusal.
#[test]
fn a_hundred_thousand_networks_are_loaded_and_found() {
    let mut list = String::new();
    for number in 0_u32..100_000 {
        let _ = writeln!(list, "{}", std::net::Ipv4Addr::from(0x6000_0000 + number * 512));
    }
    let gate = with_list(&list);
    for (number, expected) in [(0, 403), (1, 200), (99_999 * 512, 403), (50_000 * 512, 403), (50_000 * 512 + 1, 200)] {
        let client = std::net::Ipv4Addr::from(0x6000_0000 + number).to_string();
        assert_eq!(status(&gate, "/", &client), expected, "{client}");
    }
}

#[test]
fn a_route_takes_the_clients_that_its_match_names() {
    let policy = "trusted_proxies: [127.0.0.0/8]
listeners: { main: { address: \"127.0.0.1:0\" } }
limits: { few: { key: client_ip, rate: 2/h, burst: 2 } }
routes:
  - { name: office, match: { path: /admin, client: [198.51.100.0/24, \"2001:db8::/32\", { file: list.txt }] }, respond: { status: 200, body: office } }
  - { name: own, match: { client: private }, respond: { status: 200, body: own } }
  - { name: closed, match: { path: /admin }, respond: { status: 404, body: closed } }
  - { name: rest, respond: { status: 200, body: rest } }
";
    let folder = crate::harness::gate::Folder::new();
    std::fs::write(folder.path().join("list.txt"), "203.0.113.1\n").unwrap();
    let mut command = crate::harness::gate::binary();
    command.arg("--admin").arg(folder.path().join("private/admin.sock"));
    let gate = Gate::start_in(folder, std::process::Stdio::null(), command, policy);
    let taken = |path: &str, client: &str| gate.fetch(path, &format!("X-Forwarded-For: {client}\r\n")).text();
    for (path, client, body) in [
        ("/admin", "198.51.100.7", "office"),
        ("/admin/x", "2001:db8:1::1", "office"),
        ("/admin", "203.0.113.1", "office"),
        ("/admin", "203.0.113.2", "closed"),
        // what it says itself in front of what its proxy says counts for nothing
        ("/admin", "198.51.100.7, 203.0.113.2", "closed"),
        ("/x", "198.51.100.7", "rest"),
        ("/x", "10.1.2.3", "own"),
        ("/admin", "10.1.2.3", "closed"),
        // nobody knows whose request it is
        ("/x", "nonsense", "rest"),
    ] {
        assert_eq!(taken(path, client), body, "{path} {client}");
    }
    std::fs::write(gate.folder().join("list.txt"), "203.0.113.2\n").unwrap();
    assert_eq!(reload(&gate).0, 200);
    assert_eq!((taken("/admin", "203.0.113.1"), taken("/admin", "203.0.113.2")), ("closed".into(), "office".into()));
}
