//! Ten limits of default size under any number of clients: what they hold in memory, tables that take turns included.
//!
//! A test program of its own with a single test, so that the resident memory of the process is that of this test. The
//! clock is virtual: forty minutes pass, in which every table is changed for a fresh one four times. The same policy
//! stands behind sockets in `tests/gate/memory.rs`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Instant;

use http::{HeaderMap, Method, StatusCode};
use tidegate::config::load_text;
use tidegate::config::render::{Format, render};
use tidegate::engine::{Arrival, DecisionId, Engine, Verdict};
use tidegate::request::{Peer, Request};
use tidegate::sketch::Seed;
use tidegate::units::Timestamp;

const POLICY: &str = include_str!("data/ten_limits.yaml");

/// Nobody listens; but a policy without a listener is none.
const LISTENER: &str = "listeners: { main: { address: \"127.0.0.1:0\" } }\n";

/// What the whole gate may hold, in KiB. It needs some of it for itself, so the limits alone must stay well below.
const MOST_KIB: u64 = 128 << 10;
const GATE_KIB: u64 = 48 << 10;

/// What an allocator may need beside what is told: tables become resident page by page. One byte for each of ten million clients would be
/// more.
const GROWTH_KIB: u64 = 1 << 10;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 10_000_000 * SECOND;
const LENGTH: u64 = 40 * 60 * SECOND;
/// From one housekeeping to the next. The gate does it every second, and doing it late does no harm.
const ROUND: u64 = 5 * SECOND;

/// How many clients come. By default as many as write to every page of every table many times over; the promise is one of
/// ten million, which take minutes.
fn clients() -> u64 {
    std::env::var("TIDEGATE_TEST_MEMORY")
        .map_or(500_000, |number| number.parse().expect("TIDEGATE_TEST_MEMORY is a number"))
}

#[test]
fn ten_limits_hold_all_clients_in_fixed_memory() {
    let loaded = load_text("ten_limits.yaml", &format!("{POLICY}{LISTENER}"), &|_: &str| None, Path::new("."));
    let told = render(&loaded, Format::Short, false);
    let policy = loaded.outcome.unwrap_or_else(|_| panic!("{told}")).policy;
    assert_eq!(policy.rules.len(), 10);
    let empty = resident("VmRSS");
    let engine = Engine::new(policy, &Seed::from_bytes([3; 16]), 0).expect("the limits are valid");
    let (size, begun) = (clients(), Instant::now());
    let (mut refused, mut tidied, headers) = (0_u64, START, HeaderMap::new());
    for n in 0..size {
        let at = START + LENGTH / size * n;
        while tidied <= at {
            engine.maintain(Timestamp::from_nanos(tidied));
            tidied += ROUND;
        }
        refused += u64::from(!visit(&engine, n, at, &headers));
    }
    let (now, peak) = (resident("VmRSS"), resident("VmHWM"));
    println!(
        "{size} clients in {:.0?}, {refused} refused; resident {empty} KiB before the limits, {now} KiB after, {peak} KiB at most",
        begun.elapsed()
    );
    for (rule, limiter) in engine.policy().rules.iter().zip(engine.limiters()) {
        println!("  {:>12}: {:>5} KiB told", rule.name, limiter.memory().0 >> 10);
    }
    let told = engine.memory().0 >> 10;
    println!("  {:>12}: {told:>5} KiB told, {} KiB resident", "all", peak - empty);
    assert!(refused * 1_000 <= size, "{refused} of {size} were refused and charged nowhere");
    assert!(peak - empty <= told + GROWTH_KIB, "{told} KiB told, {} KiB resident", peak - empty);
    assert!(peak - empty <= MOST_KIB - GATE_KIB, "{} KiB for ten limits", peak - empty);
}

/// One client's only request: `/page` or `/login`, where it fails. Says whether it was admitted.
fn visit(engine: &Engine, n: u64, at: u64, headers: &HeaderMap) -> bool {
    let request = Request {
        peer: Peer::Ip(address(n)),
        method: &Method::GET,
        host: "gate.example",
        path: if n % 4 < 2 { "/page" } else { "/login" },
        query: None,
        headers,
        tls_sni: None,
    };
    let at = Timestamp::from_nanos(at);
    let mut evaluation = engine.judge(&request, Arrival { id: DecisionId(n), at, dice: n });
    let (mut holds, _) = engine.admit(&mut evaluation, at);
    engine.answered(&evaluation, &mut holds, StatusCode::UNAUTHORIZED, headers, at);
    evaluation.decision.verdict == Verdict::Admitted
}

/// A different client for every number: half of them IPv4, half IPv6 networks of 64 bits.
fn address(n: u64) -> IpAddr {
    // an odd factor permutes the numbers of 32 bits
    let scattered = (n as u32).wrapping_mul(0x9E37_79B1);
    if n.is_multiple_of(2) {
        return IpAddr::V4(Ipv4Addr::from(scattered));
    }
    IpAddr::V6(Ipv6Addr::from((0x2a00_1000_u128 << 96) | u128::from(scattered) << 64 | 1))
}

/// A line of the kernel's about this process, in KiB.
fn resident(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("this is Linux");
    let value = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':')).expect("the line is there");
    value.trim().trim_end_matches(" kB").parse().expect("a number")
}
