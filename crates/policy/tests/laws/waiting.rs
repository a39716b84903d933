//! Requests that wait for a quota: each goes in the first window that has room for it, charges that window and no other, and no
//! window ever admits more than was promised, by the moments at which requests go.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue, Method};
use proptest::prelude::*;
use tidegate_limits::sketch::Seed;
use tidegate_limits::units::Timestamp;
use tidegate_policy::config::load_text;
use tidegate_policy::engine::{Decision, Engine, Verdict};
use tidegate_policy::policy::Policy;
use tidegate_policy::request::Request;

use crate::book::{arrival, head, request};

const SECOND: u64 = 1_000_000_000;
const MILLI: u64 = 1_000_000;
/// A whole number of every window used here.
const START: u64 = 100 * 86_400 * SECOND;

/// A policy with these limits, by client.
fn policy(limits: &[String]) -> Policy {
    let defined: String =
        (0..).zip(limits).map(|(n, words)| format!("  l{n}: {{ memory: 1MiB, {words} }}\n")).collect();
    let names: Vec<String> = (0..limits.len()).map(|n| format!("l{n}")).collect();
    let text = format!(
        "listen: \":8080\"\ntrusted_proxies: [127.0.0.0/8]\nlimits:\n{defined}routes:\n  - respond: {{ status: 200 }}\n    limits: [{}]\n",
        names.join(", ")
    );
    let loaded = load_text("t.yaml", &text, &|_: &str| None, std::path::Path::new("."));
    let told: Vec<String> = loaded.diagnostics.iter().map(|told| format!("{told:?}")).collect();
    loaded.outcome.unwrap_or_else(|_| panic!("{}\n{text}", told.join("\n"))).policy
}

fn gate(limits: &[String]) -> Engine {
    Engine::new(policy(limits), &Seed::from_bytes([5; 16]), 0).unwrap()
}

fn cost_of(method: &Method) -> u64 {
    match method.as_str() {
        "POST" => 2,
        "PUT" => 8,
        "PATCH" => 3,
        "DELETE" => 4,
        _ => 1,
    }
}

/// A request in a tier, with what it costs.
fn send(gate: &Engine, method: &Method, tier: usize, now: u64) -> Decision {
    let mut headers: HeaderMap = head("192.0.2.1");
    headers.insert("x-tier", HeaderValue::from_str(&tier.to_string()).unwrap());
    gate.decide(&Request { method, ..request(&headers) }, arrival(now)).0
}

/// What requests cost; see [`cost_of`].
const COSTS: &str = "cost: { GET: 1, POST: 2, PUT: 8, PATCH: 3, DELETE: 4, other: 1 }";

fn quota(max: u64, window: u64, delay: u64) -> String {
    format!("type: quota, {COSTS}, max: {max}, window: {window}s, action: {{ delay: {{ max: {delay}s }} }}")
}

#[test]
fn whoever_waits_for_the_next_window_leaves_this_one_open() {
    let gate = gate(&[quota(10, 10, 10)]);
    let now = START + SECOND;
    assert_eq!(send(&gate, &Method::PUT, 0, now).delay_nanos, 0);
    assert_eq!(send(&gate, &Method::PUT, 0, now).delay_nanos, 9 * SECOND, "two of ten are left");
    let cheap: Vec<u64> = (0..4).map(|_| send(&gate, &Method::GET, 0, now).delay_nanos).collect();
    // two fit this window, two the next beside what waits for it
    assert_eq!(cheap, [0, 0, 9 * SECOND, 9 * SECOND]);
    let late = send(&gate, &Method::GET, 0, now);
    assert_eq!((late.verdict == Verdict::Admitted, late.readings[0].retry_nanos), (false, Some(19 * SECOND)));
}

#[test]
fn a_wait_that_a_second_limit_makes_longer_is_charged_where_it_ends() {
    // the rate has requests wait in the middle of windows, after the quota has found the first with room
    let slow = "rate: 20/m, burst: 8, action: { delay: { max: 30s } }".to_owned();
    let gate = gate(&[quota(1, 5, 30).replace(COSTS, "cost: 1"), slow]);
    let mut windows = BTreeMap::<u64, u64>::new();
    for step in 0..30 {
        let now = START + step * 700 * MILLI;
        let decision = send(&gate, &Method::GET, 0, now);
        if decision.verdict == Verdict::Admitted {
            *windows.entry(decision.goes_on().nanos() / (5 * SECOND)).or_default() += 1;
        }
    }
    assert!(windows.len() > 3 && windows.values().all(|requests| *requests <= 1), "{windows:?}");
}

#[test]
fn a_wait_that_is_added_anew_opens_no_window_again_that_requests_wait_for() {
    let plain = vec![format!("type: quota, {COSTS}, max: 12, window: 2s")];
    let reload = |gate: &Engine, limits: &[String]| {
        let (next, _) = gate.followed_by(policy(limits), Timestamp::from_nanos(START)).unwrap();
        next.take_over();
        next
    };
    for between in [&plain[..], &[quota(12, 2, 1)]] {
        let gate = reload(&gate(&plain), &[quota(12, 2, 10)]);
        let waits: Vec<u64> = (0..4).map(|_| send(&gate, &Method::PUT, 0, START).delay_nanos / SECOND).collect();
        assert_eq!(waits, [0, 2, 4, 6]);
        let gate = reload(&reload(&gate, between), &[quota(12, 2, 1)]);
        for window in 1..4 {
            // eight of twelve are charged there
            let decision = send(&gate, &Method::PUT, 0, START + 2 * window * SECOND);
            assert_ne!((decision.verdict, decision.delay_nanos), (Verdict::Admitted, 0), "window {window}");
        }
    }
}

/// What an exact account of each window says: when the request goes, or after what wait it would.
struct Account {
    window: u64,
    delay: u64,
    spent: BTreeMap<u64, u64>,
}

impl Account {
    fn ask(&mut self, now: u64, cost: u64, max: u64) -> Result<u64, Option<u64>> {
        if cost > max {
            return Err(None);
        }
        let present = now / self.window;
        let fits = |number: &u64| self.spent.get(number).copied().unwrap_or(0) + cost <= max;
        let number = (present..).find(fits).unwrap();
        let wait = (number * self.window).saturating_sub(now);
        if wait > self.delay {
            return Err(Some(wait));
        }
        *self.spent.entry(number).or_default() += cost;
        Ok(wait)
    }
}

fn methods() -> impl Strategy<Value = Method> {
    prop::sample::select(vec![Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_request_goes_in_the_first_window_with_room(
        window in 1_u64..12,
        delay in 1_u64..=30,
        max in 8_u64..20,
        gold in 8_u64..40,
        reload in prop::option::of(0_usize..40),
        steps in prop::collection::vec((0_u64..1_500, methods(), 0_usize..2), 1..80),
    ) {
        let tiers = format!("tiers: [{{ when: {{ header: {{ x-tier: \"1\" }} }}, max: {gold} }}]");
        let limits = [format!("{}, {tiers}", quota(max, window, delay))];
        let mut gate = gate(&limits);
        let mut account = Account { window: window * SECOND, delay: delay * SECOND, spent: BTreeMap::new() };
        let mut now = START;
        for (n, (gap, method, tier)) in steps.into_iter().enumerate() {
            now += gap * MILLI;
            if reload == Some(n) {
                // the same numbers again: whoever waits keeps the place
                let (next, _) = gate.followed_by(policy(&limits), Timestamp::from_nanos(now)).unwrap();
                next.take_over();
                gate = next;
            }
            let decision = send(&gate, &method, tier, now);
            let said = match decision.verdict {
                Verdict::Admitted => Ok(decision.delay_nanos),
                _ => Err(decision.readings[0].retry_nanos),
            };
            prop_assert_eq!(said, account.ask(now, cost_of(&method), [max, gold][tier]), "request {}", n);
        }
        let most = max.max(gold);
        prop_assert!(account.spent.values().all(|units| *units <= most));
    }

    #[test]
    fn what_waits_for_a_sliding_quota_keeps_its_promise_too(
        delay in 1_u64..=30,
        steps in prop::collection::vec((0_u64..1_500, methods()), 1..80),
    ) {
        const MAX: u64 = 12;
        const WINDOW: u64 = 4 * SECOND;
        let gate = gate(&[format!("{}, sliding: true", quota(MAX, 4, delay))]);
        let (mut now, mut gone) = (START, Vec::new());
        for (gap, method) in steps {
            now += gap * MILLI;
            let decision = send(&gate, &method, 0, now);
            if decision.verdict == Verdict::Admitted {
                gone.push((decision.goes_on().nanos(), cost_of(&method)));
            }
        }
        gone.sort_unstable();
        for (to, _) in &gone {
            let units = |from: u64| gone.iter().filter(|(at, _)| *at >= from && at <= to).map(|(_, cost)| cost).sum::<u64>();
            let begun = to / WINDOW * WINDOW;
            prop_assert!(units(begun) <= MAX);
            let across = MAX as f64 * (1.0 + (to - begun) as f64 / WINDOW as f64);
            prop_assert!(units(begun - WINDOW) as f64 <= across + 1e-6);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// A reload that adds or takes the wait of a limit keeps what was charged and promises no more. The last reload also changes the
    /// windows: up to one moment the old windows hold, from then on the new ones.
    #[test]
    fn a_reload_that_adds_or_takes_the_wait_gives_no_window_twice(
        delays in prop::collection::vec(prop::option::of(1_u64..=30), 2..5),
        (window, last) in (1_u64..12, 1_u64..12),
        steps in prop::collection::vec((0_u64..1_500, methods()), 1..60),
    ) {
        const MAX: u64 = 12;
        let words = |nth: usize| {
            let window = if nth + 1 == delays.len() { last } else { window };
            match delays[nth] {
                Some(delay) => vec![quota(MAX, window, delay)],
                None => vec![format!("type: quota, {COSTS}, max: {MAX}, window: {window}s")],
            }
        };
        let mut gate = gate(&words(0));
        let (mut now, mut gone) = (START, Vec::new());
        let each = steps.len().div_ceil(delays.len());
        for (n, (gap, method)) in steps.into_iter().enumerate() {
            now += gap * MILLI;
            if n > 0 && n % each == 0 {
                let (next, _) = gate.followed_by(policy(&words(n / each)), Timestamp::from_nanos(now)).unwrap();
                next.take_over();
                gate = next;
            }
            let decision = send(&gate, &method, 0, now);
            if decision.verdict == Verdict::Admitted {
                gone.push((decision.goes_on().nanos(), cost_of(&method)));
            }
        }
        let holds = |from: u64| {
            let mut windows = BTreeMap::<(bool, u64), u64>::new();
            for (at, cost) in &gone {
                let new = *at >= from;
                *windows.entry((new, at / (if new { last } else { window } * SECOND))).or_default() += cost;
            }
            windows.values().all(|units| *units <= MAX)
        };
        let changes = gone.iter().map(|(at, _)| *at).chain([START, u64::MAX]);
        prop_assert!(changes.into_iter().any(holds), "{gone:?}");
    }
}
