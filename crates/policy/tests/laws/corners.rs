//! Corners where words meet: delays beside shared limits, tiers, stand-ins, shares of keys, answers that come late.

use std::path::Path;

use http::{HeaderMap, HeaderValue, StatusCode};
use tidegate_limits::sketch::Seed;
use tidegate_limits::units::Timestamp;
use tidegate_policy::config::load_text;
use tidegate_policy::engine::{Decision, Engine, Evaluation, Holds, Outcome, Refusal, Verdict};
use tidegate_policy::policy::Mode;

use crate::book::{arrival, head, request};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_000_000 * SECOND;

/// The limits of this YAML on one route. A request's client is its `x-forwarded-for`.
fn gate_at(limits: &str, on_route: &str, wall: u64) -> Engine {
    let text = format!(
        "listen: \":8080\"\ntrusted_proxies: [127.0.0.0/8]\nlimits:\n{limits}\nroutes:\n  - respond: {{ status: 200 }}\n    limits: [{on_route}]\n"
    );
    let environment = |_: &str| None;
    let loaded = load_text("t.yaml", &text, &environment, Path::new("."));
    let told: Vec<String> = loaded.diagnostics.iter().map(|told| format!("{told:?}")).collect();
    let config = loaded.outcome.unwrap_or_else(|_| panic!("{text}\n{}", told.join("\n")));
    Engine::new(config.policy, &Seed::from_bytes([3; 16]), wall).unwrap()
}

fn gate(limits: &str, on_route: &str) -> Engine {
    gate_at(limits, on_route, 0)
}

fn judge(gate: &Engine, headers: &HeaderMap, at: u64) -> Evaluation {
    gate.judge(&request(headers), arrival(at))
}

/// One request as a face drives it: one that must wait stays in its wait, where it holds nothing.
fn ask(gate: &Engine, headers: &HeaderMap, at: u64) -> (Evaluation, Holds) {
    let mut evaluation = judge(gate, headers, at);
    gate.enter_rate_at_once(&mut evaluation, Timestamp::from_nanos(at));
    gate.reserve(&mut evaluation, Timestamp::from_nanos(at));
    if evaluation.decision.delay_nanos > 0 {
        return (evaluation, Holds::new());
    }
    let (holds, _) = gate.admit(&mut evaluation, Timestamp::from_nanos(at));
    (evaluation, holds)
}

fn with(client: &str, fields: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = head(client);
    for (name, value) in fields {
        headers.insert(*name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn settle(gate: &Engine, evaluation: &Evaluation, holds: &mut Holds, status: u16, at: u64) {
    gate.sent(holds);
    gate.answered(
        evaluation,
        holds,
        StatusCode::from_u16(status).unwrap(),
        &HeaderMap::new(),
        Timestamp::from_nanos(at),
    );
}

fn told(decision: &Decision) -> String {
    format!("{:?} {:?}", decision.verdict, decision.readings)
}

fn one_delayed_client_shuts_out(shared: &str) {
    let slow = "  slow: { key: client_ip, rate: 1/s, burst: 1, action: { delay: { max: 5s } } }\n";
    let gate = gate(&format!("{slow}{shared}"), "slow, all");
    for _ in 0..2 {
        // the second waits a second
        assert_eq!(ask(&gate, &head("203.0.113.9"), START).0.decision.verdict, Verdict::Admitted);
    }
    let other = ask(&gate, &head("198.51.100.1"), START + 1_000_000).0.decision;
    assert_eq!(other.verdict, Verdict::Admitted, "2 of 1000 are spent: {}", told(&other));
}

#[test]
fn who_waits_takes_nothing_from_a_shared_rate() {
    one_delayed_client_shuts_out("  all: { key: global, rate: 1000/s, burst: 500 }");
}

#[test]
fn who_waits_takes_nothing_from_a_shared_quota() {
    one_delayed_client_shuts_out("  all: { type: quota, key: global, max: 1000, window: 1s }");
}

#[test]
fn who_waits_takes_nothing_from_a_fair_share() {
    one_delayed_client_shuts_out("  all: { type: fair_share, capacity: 1000/s }");
}

#[test]
fn who_waits_takes_nothing_from_a_shared_sliding_quota() {
    one_delayed_client_shuts_out("  all: { type: quota, sliding: true, key: global, max: 1000, window: 1s }");
}

#[test]
fn who_waits_leaves_no_trace_in_a_shadow_limit() {
    // not a refusal, but the shadow limit reports refusals that would not be
    let slow = "  slow: { key: client_ip, rate: 1/s, burst: 1, action: { delay: { max: 5s } } }\n";
    let gate = gate(&format!("{slow}  all: {{ key: global, rate: 1000/s, burst: 500, mode: shadow }}"), "slow, all");
    for _ in 0..2 {
        ask(&gate, &head("203.0.113.9"), START);
    }
    let other = ask(&gate, &head("198.51.100.1"), START + 1_000_000).0.decision;
    assert_eq!(other.readings[1].outcome, Outcome::Admitted, "{}", told(&other));
}

fn a_queued_request_is_refused(limit: &str) {
    let gate = gate(&format!("  all: {limit}"), "all");
    // `admission` waits for a place at the origin between these two steps
    let mut queued = judge(&gate, &head("203.0.113.9"), START);
    assert_eq!(ask(&gate, &head("198.51.100.1"), START + 2 * SECOND).0.decision.verdict, Verdict::Admitted);
    gate.enter_rate_at_once(&mut queued, Timestamp::from_nanos(START + 3 * SECOND));
    gate.admit(&mut queued, Timestamp::from_nanos(START + 3 * SECOND));
    assert_eq!(queued.decision.verdict, Verdict::Admitted, "1 is spent: {}", told(&queued.decision));
}

#[test]
fn a_queued_request_is_judged_by_a_rate_when_it_goes_on() {
    a_queued_request_is_refused("{ key: global, rate: 100/s, burst: 100 }");
}

#[test]
fn a_queued_request_is_counted_in_the_window_in_which_it_goes_on() {
    a_queued_request_is_refused("{ type: quota, key: global, max: 1000, window: 1s }");
}

#[test]
fn a_queued_request_has_its_share_when_it_goes_on() {
    a_queued_request_is_refused("{ type: fair_share, capacity: 1000/s }");
}

#[test]
fn a_stand_in_for_two_limits_is_charged_once() {
    let limits = "  a: { key: header:x-a, rate: 100/s, missing: { use: both } }
  b: { key: header:x-b, rate: 100/s, missing: { use: both } }
  both: { key: client_ip, rate: 1/s, burst: 4 }";
    let gate = gate(limits, "a, b");
    let passed = (0..10).filter(|_| ask(&gate, &head("203.0.113.9"), START).0.decision.verdict == Verdict::Admitted);
    assert_eq!(passed.count(), 4);
}

fn delays(count: &str) -> Vec<u64> {
    let gate = gate(
        &format!(
            "  avg: {{ type: recent_average, rate: 1/s, half_life: 4s, {count} action: {{ delay: {{ max: 30s }} }} }}"
        ),
        "avg",
    );
    let mut now = START;
    // a client that asks again as soon as it was let through
    (0..40)
        .map(|_| {
            let decision = ask(&gate, &head("203.0.113.9"), now).0.decision;
            assert_eq!(decision.verdict, Verdict::Admitted, "{}", told(&decision));
            now += decision.delay_nanos;
            (now - START) / 1_000_000
        })
        .collect()
}

#[test]
fn a_delayed_request_counts_once_in_a_recent_average() {
    let (all, admitted) = (delays("")[39], delays("count: admitted,")[39]);
    assert!(all < admitted * 11 / 10, "40 requests take {all} ms, with count: admitted {admitted} ms");
}

#[test]
fn a_fair_share_is_obeyed_for_the_part_that_is_enforced() {
    let gate = gate("  fair: { type: fair_share, capacity: 1/s, enforce: 1% }", "fair");
    let refused = (0..1000)
        .filter(|n| {
            let client = head(&format!("203.0.{}.{}", n / 250, n % 250));
            ask(&gate, &client, START + n * 1_000_000).0.decision.verdict == Verdict::Refused(Refusal::FairShare)
        })
        .count();
    assert!(refused < 100, "{refused} of 1000 clients refused by a limit that is obeyed for 1 % of them");
}

fn confirmed(own: u32, tier: u32) -> u32 {
    let gate = gate(
        &format!(
            "  names: {{ type: distinct, of: header:x-name, missing: deny, max: {own}, window: 1h, sliding: true, count: responses 401,
    tiers: [{{ when: {{ cidr: 203.0.113.0/24 }}, max: {tier} }}] }}"
        ),
        "names",
    );
    (0..200)
        .filter(|n| {
            let client = with("203.0.113.9", &[("x-name", &format!("user{n}"))]);
            let (evaluation, mut holds) = ask(&gate, &client, START);
            let passed = evaluation.decision.verdict == Verdict::Admitted;
            if passed {
                settle(&gate, &evaluation, &mut holds, 401, START);
            }
            passed
        })
        .count() as u32
}

#[test]
fn a_stricter_tier_holds_for_values_that_count_by_their_answer() {
    assert_eq!(confirmed(20, 4), 4);
}

#[test]
fn a_looser_tier_holds_for_values_that_count_by_their_answer() {
    assert_eq!(confirmed(4, 20), 20);
}

#[test]
fn a_day_of_distinct_ends_with_a_day_of_quota() {
    let wall = 20_000 * 86_400 * SECOND + 17 * 3_600 * SECOND; // 17:00 at the origin of stamps
    let limits = "  names: { type: distinct, of: path, max: 1, window: 24h }
  hits: { type: quota, max: 1, window: 24h }";
    let gate = gate_at(limits, "names, hits", wall);
    let (evaluation, _) = ask(&gate, &head("203.0.113.9"), START);
    let readings = &evaluation.decision.readings;
    assert_eq!(readings[0].reset_nanos(), readings[1].reset_nanos(), "both say `window: 24h`");
}

#[test]
fn a_value_beside_pending_ones_is_told_to_wait() {
    let gate = gate(
        "  names: { type: distinct, of: header:x-name, missing: deny, max: 2, window: 1h, count: responses 401 }",
        "names",
    );
    let ask = |name: &str| ask(&gate, &with("203.0.113.9", &[("x-name", name)]), START);
    let (_one, _two) = (ask("a"), ask("b"));
    let third = ask("c").0.decision;
    assert_eq!(third.verdict, Verdict::Refused(Refusal::Limit));
    assert_ne!(third.readings[0].retry_nanos, Some(0), "{}", told(&third));
}

#[test]
fn the_wait_told_beside_pending_attempts_comes_true_if_they_count_at_once() {
    let gate = gate("  login: { rate: 5/m, burst: 5, count: responses 401 }", "login");
    let client = head("203.0.113.9");
    let mut under_way: Vec<_> = (0..5).map(|_| ask(&gate, &client, START)).collect();
    let sixth = ask(&gate, &client, START).0.decision;
    let wait = sixth.readings[0].retry_nanos.expect("told");
    for (evaluation, holds) in &mut under_way {
        settle(&gate, evaluation, holds, 401, START);
    }
    let again = ask(&gate, &client, START + wait).0.decision;
    assert_eq!(again.verdict, Verdict::Admitted, "told {wait} ns, then {}", told(&again));
}

#[test]
fn what_is_delayed_by_a_lost_race_is_recorded_as_delayed() {
    let gate = gate("  slow: { rate: 1/s, burst: 1, action: { delay: { max: 5s } } }", "slow");
    let client = head("203.0.113.9");
    let (mut one, mut two) = (judge(&gate, &client, START), judge(&gate, &client, START));
    gate.reserve(&mut one, Timestamp::from_nanos(START));
    gate.reserve(&mut two, Timestamp::from_nanos(START));
    assert_eq!((two.decision.verdict, two.decision.delay_nanos), (Verdict::Admitted, SECOND));
    assert_eq!(two.decision.readings[0].outcome, Outcome::Delayed);
}

#[test]
fn who_waits_holds_no_place() {
    let limits = "  slow: { key: client_ip, rate: 1/s, burst: 1, action: { delay: { max: 30s } } }
  room: { type: inflight, max: 10 }";
    let gate = gate(limits, "slow, room");
    let waiting: Vec<_> = (0..11).map(|_| ask(&gate, &head("203.0.113.9"), START)).collect();
    let under_way = waiting.iter().filter(|(evaluation, _)| evaluation.decision.delay_nanos == 0).count();
    let other = ask(&gate, &head("198.51.100.1"), START + 1).0.decision;
    assert_eq!(other.verdict, Verdict::Admitted, "{under_way} under way, the others only wait: {}", told(&other));
}

#[test]
fn a_missing_key_is_no_reason_to_refuse_before_all_keys_are_enforced() {
    let gate = gate("  api: { key: header:x-api-key, missing: deny, rate: 10/s, enforce: 1% }", "api");
    let decision = ask(&gate, &head("203.0.113.9"), START).0.decision;
    assert_ne!(decision.readings[0].mode, Mode::Enforce, "{}", told(&decision));
}

#[test]
fn a_websocket_is_no_failure() {
    let gate = gate("  bad: { rate: 1/m, burst: 2, count: not 2xx }", "bad");
    for nth in 0..4 {
        let (evaluation, mut holds) = ask(&gate, &head("203.0.113.9"), START + nth);
        assert_eq!(evaluation.decision.verdict, Verdict::Admitted, "connection {nth}");
        settle(&gate, &evaluation, &mut holds, 101, START + nth);
    }
}

#[test]
fn a_tier_of_inflight_holds_for_switched_connections_too() {
    let gate = gate(
        "  ws: { type: inflight, key: client_ip, max: 1, tiers: [{ when: { cidr: 203.0.113.0/24 }, max: 5 }] }",
        "ws",
    );
    let mut open: Vec<_> = Vec::new();
    for nth in 0..5 {
        let (evaluation, mut holds) = ask(&gate, &head("203.0.113.9"), START);
        assert_eq!(evaluation.decision.verdict, Verdict::Admitted);
        assert!(gate.upgraded(&evaluation, &mut holds).is_ok(), "connection {nth} of a tier of 5");
        open.push((evaluation, holds));
    }
}

#[test]
fn a_debt_of_answers_ends_when_told() {
    let gate = gate("  q: { rate: 1/s, burst: 10, cost: 'response:x-cost', cost_estimate: 1 }", "q");
    let client = head("203.0.113.9");
    let (evaluation, mut holds) = ask(&gate, &client, START);
    let mut answer = HeaderMap::new();
    answer.insert("x-cost", HeaderValue::from_static("100000000000"));
    gate.sent(&mut holds);
    gate.answered(&evaluation, &mut holds, StatusCode::OK, &answer, Timestamp::from_nanos(START));
    let refused = ask(&gate, &client, START).0.decision;
    let wait = refused.readings[0].retry_nanos.unwrap();
    assert!(wait <= 3_600 * SECOND, "{wait}");
    gate.maintain(Timestamp::from_nanos(START));
    assert_eq!(ask(&gate, &client, START + wait).0.decision.verdict, Verdict::Admitted);
}

#[test]
fn without_a_wait_nobody_is_shut_out_either() {
    for shared in ["{ type: fair_share, capacity: 1000/s }", "{ key: global, rate: 1000/s, burst: 500 }"] {
        let gate = gate(&format!("  slow: {{ key: client_ip, rate: 9/s, burst: 9 }}\n  all: {shared}"), "slow, all");
        for _ in 0..2 {
            ask(&gate, &head("203.0.113.9"), START);
        }
        let other = ask(&gate, &head("198.51.100.1"), START + 1_000_000).0.decision;
        assert_eq!(other.verdict, Verdict::Admitted, "{}", told(&other));
    }
}

#[test]
fn a_rekeying_gives_no_fresh_budget_to_who_is_delayed() {
    budget_across(599);
}

#[test]
fn far_from_a_rekeying_there_is_none_either() {
    budget_across(300);
}

fn budget_across(before: u64) {
    let gate =
        gate("  slow: { key: client_ip, rate: 1/s, burst: 1, memory: 4KiB, action: { delay: { max: 30s } } }", "slow");
    let clients: Vec<HeaderMap> = (0..60).map(|n| head(&format!("203.0.113.{n}"))).collect();
    let mut passed: Vec<Vec<u64>> = vec![Vec::new(); clients.len()];
    for second in 0..640 {
        let now = START + second * SECOND;
        gate.maintain(Timestamp::from_nanos(now));
        let asks = match second {
            // a page with many parts, just before the tables change
            at if at == before => 31,
            at if at == before + 6 => 31,
            _ => 0,
        };
        for (n, client) in clients.iter().enumerate() {
            for _ in 0..asks {
                let decision = ask(&gate, client, now + n as u64).0.decision;
                if decision.verdict == Verdict::Admitted {
                    passed[n].push(now + n as u64 + decision.delay_nanos);
                }
            }
        }
    }
    let mut worst = 0;
    for own in &mut passed {
        own.sort_unstable();
        let span = own.last().unwrap() - own[0];
        worst = worst.max(own.len() as u64 - (1 + span / SECOND).min(own.len() as u64));
    }
    assert_eq!(worst, 0, "one client got {worst} more than burst + rate * time");
}
