//! In a flood a client over its own limit is told that limit, and what a limit allows is told apart from what was served.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::gate::{Folder, binary, end};
use crate::harness::{Gate, Latch, Origin, Reply, wait_for};

fn start(policy: &str) -> Gate {
    let folder = Folder::new();
    let mut command = binary();
    command.env("RUNTIME_DIRECTORY", folder.path());
    let gate = Gate::start_in(folder, std::process::Stdio::null(), command, policy);
    wait_for("the admin socket", || std::os::unix::net::UnixStream::connect(gate.admin_socket()).ok());
    gate
}

fn status(gate: &Gate, arguments: &[&str]) -> String {
    end(binary().arg("status").args(arguments).arg("--admin").arg(gate.admin_socket())).stdout
}

fn limit(gate: &Gate, name: &str) -> Value {
    let state: Value = serde_json::from_str(&status(gate, &["--format", "json"])).expect("it is JSON");
    let limits = state["limits"].as_array().unwrap().clone();
    limits.into_iter().find(|limit| limit["name"] == name).unwrap_or_else(|| panic!("no {name}: {state}"))
}

/// A flood under a limit of the client's own, beside a fair share that leaves it less; what client and operator are told.
fn told_its_own_limit(own: &str) {
    let gate = start(&format!(
        "trusted_proxies: [127.0.0.0/8]
limits:
  per_client: {own}
  fair: {{ type: fair_share, capacity: 2/s, burst: 2, wait: 1ms }}
routes:
  - {{ name: site, limits: [fair, per_client], respond: {{ status: 200 }} }}
"
    ));
    let mut client = gate.connect();
    let (mut by_own, mut by_share, begun) = (0, 0, Instant::now());
    while begun.elapsed() < Duration::from_secs(4) {
        let answer = client.ask("GET", "/", "X-Forwarded-For: 198.51.100.66\r\nX-Api-Key: k\r\n", b"");
        // the first second finds out how much it asks for
        if begun.elapsed() > Duration::from_secs(1) {
            by_own += u32::from(answer.status == 429);
            by_share += u32::from(answer.status == 503);
            if answer.status == 429 {
                let told = answer.field("ratelimit").expect("the limit is told");
                assert!(told.contains("per_client") && told.contains("r=0"), "{own}: {told}");
                assert!(answer.field("retry-after").is_some(), "{own}");
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(by_own > 15 && by_share < by_own, "{own}: {by_own} of its own limit, {by_share} of the fair share");
    let (per_client, fair) = (limit(&gate, "per_client"), limit(&gate, "fair"));
    assert!(per_client["decisions"]["limited"].as_u64() > Some(15), "{own}: {per_client}");
    assert!(fair["decisions"]["exempt"].as_u64() >= per_client["decisions"]["limited"].as_u64(), "{own}: {fair}");
    let explained = end(binary().args(["explain", "--client", "198.51.100.66", "--admin"]).arg(gate.admin_socket()));
    assert!(
        explained.stdout.contains("asks for more than this limit admits"),
        "{own}: {}{}",
        explained.stdout,
        explained.stderr
    );
}

#[test]
fn a_client_over_its_own_limit_gets_429_from_it_and_not_503_from_the_fair_share() {
    // the fair share leaves less than each of them admits; all are far below what a busy machine still asks for
    let owns = [
        "{ rate: 4/s, burst: 4 }",
        "{ key: 'header:x-api-key', missing: deny, rate: 4/s, tiers: [{ when: { cidr: 10.0.0.0/8 }, rate: 5000/s }] }",
        "{ rate: 8/s, burst: 8, cost: 2 }",
        "{ rate: 4/s, action: { delay: { max: 1ms } } }",
    ];
    std::thread::scope(|scope| {
        for own in owns {
            scope.spawn(move || told_its_own_limit(own));
        }
    });
}

#[test]
fn what_a_limit_allows_and_a_full_origin_refuses_stands_in_a_column_of_its_own() {
    let latch = Latch::default();
    let held = latch.clone();
    let origin = Origin::start(move |_| Reply::Held(held.clone()));
    let gate = start(&format!(
        "origins:
  shop: {{ addresses: [\"{}\"], inflight: {{ max: 1 }} }}
limits:
  fair: {{ type: fair_share, capacity: 10000/s }}
routes:
  - {{ name: site, limits: [fair], origin: shop }}
",
        origin.address()
    ));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| gate.fetch("/", "").status);
        wait_for("the place to be taken", || (origin.count() == 1).then_some(()));
        for _ in 0..7 {
            assert_eq!(gate.fetch("/", "").status, 503);
        }
        latch.open();
        assert_eq!(first.join().unwrap(), 200);
    });
    gate.counts("tidegate_requests_total", &[], 8.0);
    let fair = limit(&gate, "fair");
    assert_eq!((&fair["decisions"]["allowed"], &fair["refused_elsewhere"]), (&8.into(), &7.into()), "{fair}");
    let text = status(&gate, &[]);
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{text}"));
    let cells = |name: &str| row(name).split("   ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>();
    let columns = ["LIMIT", "keys~", "fill", "admitted", "refused", "refused elsewhere", "shadow"];
    assert_eq!(cells("LIMIT"), columns);
    assert_eq!(cells("fair")[3..], ["1", "0", "7", "0"], "{text}");
    assert_eq!(gate.metrics().sum("tidegate_limit_refused_elsewhere_total", &[("limit", "fair")]), 7.0);
}
