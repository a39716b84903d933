//! Tiers: each keeps its own promise, a change of tier brings no fresh budget, and no tier locks a key out of another.
//!
//! The engine is held against an exact account of one key: per tier the units spent, which come back at the tier's own rate. An
//! admission is charged to every tier, to those that did not judge it up to their whole quota.

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
const START: u64 = 100 * 86_400 * SECOND;

/// One limit with these words, by client.
fn policy(limit: &str) -> Policy {
    let text = format!(
        "listen: \":8080\"\ntrusted_proxies: [127.0.0.0/8]\nlimits:\n  one: {{ memory: 1MiB, {limit} }}\nroutes:\n  - respond: {{ status: 200 }}\n    limits: [one]\n"
    );
    let loaded = load_text("t.yaml", &text, &|_: &str| None, std::path::Path::new("."));
    let told: Vec<String> = loaded.diagnostics.iter().map(|told| format!("{told:?}")).collect();
    loaded.outcome.unwrap_or_else(|_| panic!("{}\n{text}", told.join("\n"))).policy
}

fn gate(limit: &str) -> Engine {
    Engine::new(policy(limit), &Seed::from_bytes([5; 16]), 0).unwrap()
}

fn reload(gate: &Engine, limit: &str, now: u64) -> Engine {
    let (next, _) = gate.followed_by(policy(limit), Timestamp::from_nanos(now)).unwrap();
    next.take_over();
    next
}

/// The head of a request of the one client in a tier (0 is none), with a value to count.
fn fields(tier: usize, value: u32) -> HeaderMap {
    let mut headers = head("192.0.2.1");
    headers.insert("x-tier", HeaderValue::from_str(&tier.to_string()).unwrap());
    headers.insert("x-name", HeaderValue::from_str(&value.to_string()).unwrap());
    headers
}

fn decide(gate: &Engine, tier: usize, now: u64) -> Decision {
    costing(gate, &fields(tier, 0), now, 1)
}

/// What a request costs by its method: one, two …
const METHODS: [Method; 5] = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// A request that costs so much where costs go by method.
fn costing(gate: &Engine, headers: &HeaderMap, now: u64, cost: usize) -> Decision {
    gate.decide(&Request { method: &METHODS[cost - 1], ..request(headers) }, arrival(now)).0
}

/// Whether the request would pass, charging nothing.
fn fits(gate: &Engine, tier: usize, value: u32, now: u64, cost: usize) -> bool {
    let fields = fields(tier, value);
    let evaluation = gate.judge(&Request { method: &METHODS[cost - 1], ..request(&fields) }, arrival(now));
    evaluation.decision.verdict == Verdict::Admitted
}

fn admits(gate: &Engine, tier: usize, now: u64) -> bool {
    decide(gate, tier, now).verdict == Verdict::Admitted
}

/// How many of `requests` at one instant are admitted in a tier.
fn burst(gate: &Engine, tier: usize, now: u64, requests: usize) -> usize {
    (0..requests).filter(|_| admits(gate, tier, now)).count()
}

fn tier(number: usize, words: &str) -> String {
    format!("{{ when: {{ header: {{ x-tier: \"{number}\" }} }}, {words} }}")
}

#[test]
fn one_request_of_a_slow_tier_takes_one_unit_of_a_fast_one() {
    let gate = gate(&format!("rate: 10/s, burst: 10, tiers: [{}]", tier(1, "rate: 6/h, burst: 1")));
    assert_eq!(burst(&gate, 1, START, 2), 1);
    assert_eq!(burst(&gate, 0, START, 20), 9);
    let admitted: usize = (1..=60).map(|second| burst(&gate, 0, START + second * SECOND, 20)).sum();
    assert_eq!(admitted, 600);
    assert!(!admits(&gate, 1, START + 60 * SECOND), "what the fast tier spent counts for the slow one");
    let wait = decide(&gate, 1, START + 60 * SECOND).readings[0].retry_nanos.unwrap();
    assert!(wait <= 600 * SECOND, "and no longer than it takes to refill: {wait}");
    assert!(admits(&gate, 1, START + 60 * SECOND + wait));
}

#[test]
fn whoever_spent_the_free_plan_has_the_rest_of_the_gold_one() {
    let gate = gate(&format!("rate: 100/h, burst: 100, tiers: [{}]", tier(1, "rate: 1000/s, burst: 2000")));
    assert_eq!(burst(&gate, 0, START, 200), 100);
    assert_eq!(burst(&gate, 1, START, 3000), 1900);
    assert_eq!(burst(&gate, 1, START + 2 * SECOND, 3000), 2000);
    assert_eq!(burst(&gate, 0, START + 2 * SECOND, 10), 0);
}

#[test]
fn refusals_of_a_slow_tier_keep_out_of_that_tier_only() {
    let words = "type: recent_average, rate: 10/s, half_life: 100s, count: all, max_penalty: 10m";
    let gate = gate(&format!("{words}, tiers: [{}]", tier(1, "rate: 1/m")));
    for n in 0..20_000_u64 {
        let _ = admits(&gate, 1, START + n * SECOND / 1_000);
    }
    let now = START + 20 * SECOND;
    assert!(!admits(&gate, 1, now));
    assert!(burst(&gate, 0, now, 2_000) > 1_400, "a budget of 1,442, of which a few units are spent");
}

const STRICT: &str = "type: distinct, of: header:x-name, missing: deny, window: 60s, sliding: true, count: all";

/// How many of so many requests at one instant, each with another name, are admitted in a tier.
fn names(gate: &Engine, tier: usize, now: u64, values: std::ops::Range<u32>) -> usize {
    values.filter(|value| costing(gate, &fields(tier, *value), now, 1).verdict == Verdict::Admitted).count()
}

#[test]
fn refused_names_of_a_small_tier_keep_out_of_that_tier_only() {
    let gate = gate(&format!("{STRICT}, max: 40, max_penalty: 10m, tiers: [{}]", tier(1, "max: 2")));
    assert_eq!(names(&gate, 1, START, 0..1_000), 2);
    assert_eq!(names(&gate, 0, START + 60 * SECOND, 2_000..2_100), 40);
    assert_eq!(names(&gate, 1, START + 500 * SECOND, 1_000..1_001), 0, "ten minutes of silence");
}

#[test]
fn a_reload_forgets_no_refused_name_and_none_comes_back_before_it_was_told() {
    let [lax, strict] = [STRICT.replace("count: all", "count: admitted"), format!("{STRICT}, max_penalty: 5m")];
    let first = gate(&format!("{lax}, max: 3"));
    assert_eq!(names(&first, 0, START, 0..50), 3);
    // from then on refused names count: 20 seconds each
    let second = reload(&first, &format!("{strict}, max: 3"), START);
    assert_eq!(names(&second, 0, START, 50..53), 0);
    let told = |gate: &Engine, now: u64| costing(gate, &fields(0, 999), now, 1).readings[0].retry_nanos.unwrap();
    assert_eq!(told(&second, START), 100 * SECOND, "one for its own, four for refused ones");
    // and once they do not count any more, those that did are still owed
    let third = reload(&second, &format!("{lax}, max: 3"), START);
    assert_eq!(told(&third, START), 100 * SECOND);
    assert_eq!(names(&third, 0, START + 100 * SECOND - 1, 60..61), 0);
    assert_eq!(names(&third, 0, START + 100 * SECOND, 60..63), 1);
}

#[test]
fn a_reload_of_the_limits_own_rate_moves_no_tier() {
    let gold = tier(1, "rate: 100/h, burst: 100");
    for (from, to) in [("1/m", "100/m"), ("100/m", "1/m"), ("1/h", "1000/s"), ("1000/s", "1/h")] {
        let first = gate(&format!("rate: {from}, burst: 100, tiers: [{gold}]"));
        assert_eq!(burst(&first, 1, START, 200), 100);
        let next = reload(&first, &format!("rate: {to}, burst: 100, tiers: [{gold}]"), START);
        assert_eq!(burst(&next, 1, START, 200), 0, "{from} to {to}");
        let wait = decide(&next, 1, START).readings[0].retry_nanos.unwrap();
        assert_eq!(wait, 36 * SECOND, "{from} to {to}");
        assert!(admits(&next, 1, START + wait));
    }
}

#[test]
fn a_tier_that_a_reload_adds_begins_with_what_its_clients_had_spent() {
    let first = gate("rate: 10/h, burst: 10");
    assert_eq!(burst(&first, 0, START, 20), 10);
    let gold = tier(1, "rate: 100/s, burst: 15");
    let next = reload(&first, &format!("rate: 10/h, burst: 10, tiers: [{gold}]"), START);
    assert_eq!(burst(&next, 1, START, 20), 5);
    assert_eq!(burst(&next, 0, START, 20), 0);
    // it comes back at the tier's own rate
    assert_eq!(burst(&next, 1, START + SECOND, 20), 15);
    let last = reload(&next, "rate: 10/h, burst: 10", START + SECOND);
    assert_eq!(burst(&last, 0, START + SECOND, 20), 0);
}

/// Numbers of a limit and its tiers.
#[derive(Debug, Clone)]
enum Kind {
    Rate(Vec<(u32, u32)>),
    Average { half_life: u32, events: Vec<u32> },
    Quota(Vec<u32>),
    Distinct { max: Vec<u32>, sliding: bool },
}

impl Kind {
    fn yaml(&self) -> String {
        let tiers = |words: Vec<String>| {
            let tiers: Vec<String> = words.iter().enumerate().map(|(at, words)| tier(at + 1, words)).collect();
            format!("tiers: [{}]", tiers.join(", "))
        };
        let most = |all: &[u32]| tiers(all.iter().skip(1).map(|max| format!("max: {max}")).collect());
        match self {
            Kind::Rate(all) => {
                let words = |(per_hour, burst): &(u32, u32)| format!("rate: {per_hour}/h, burst: {burst}");
                format!("{}, {}", words(&all[0]), tiers(all.iter().skip(1).map(words).collect()))
            }
            Kind::Average { half_life, events } => format!(
                "type: recent_average, rate: {}/m, half_life: {half_life}s, count: admitted, {}",
                events[0],
                tiers(events.iter().skip(1).map(|events| format!("rate: {events}/m")).collect())
            ),
            Kind::Quota(all) => format!("type: quota, max: {}, window: 60s, {}", all[0], most(all)),
            Kind::Distinct { max, sliding } => format!(
                "type: distinct, of: header:x-name, missing: deny, max: {}, window: 60s, sliding: {sliding}, {}",
                max[0],
                most(max)
            ),
        }
    }

    /// Per tier: units per second that come back, the most there are; a half-life; a window.
    fn accounts(&self) -> Vec<Account> {
        match self {
            Kind::Rate(all) => {
                let account = |(per_hour, burst): &(u32, u32)| Account {
                    back: Back::PerSecond(f64::from(*per_hour) / 3600.0),
                    most: f64::from(*burst),
                    spent: 0.0,
                };
                all.iter().map(account).collect()
            }
            Kind::Average { half_life, events } => {
                let half_life = f64::from(*half_life);
                let most = |events: &u32| f64::from(*events) / 60.0 * half_life / std::f64::consts::LN_2;
                events
                    .iter()
                    .map(|events| Account { back: Back::HalfLife(half_life), most: most(events), spent: 0.0 })
                    .collect()
            }
            Kind::Quota(all) | Kind::Distinct { max: all, sliding: false } => {
                all.iter().map(|max| Account { back: Back::Window, most: f64::from(*max), spent: 0.0 }).collect()
            }
            Kind::Distinct { max, sliding: true } => max
                .iter()
                .map(|max| Account { back: Back::PerSecond(f64::from(*max) / 60.0), most: f64::from(*max), spent: 0.0 })
                .collect(),
        }
    }

    fn tiers(&self) -> usize {
        self.accounts().len()
    }
}

#[derive(Debug, Clone, Copy)]
enum Back {
    PerSecond(f64),
    HalfLife(f64),
    Window,
}

/// What one tier knows of the key.
#[derive(Debug, Clone, Copy)]
struct Account {
    back: Back,
    most: f64,
    spent: f64,
}

impl Account {
    fn pass(&mut self, from: u64, to: u64) {
        let seconds = (to - from) as f64 / 1e9;
        match self.back {
            Back::PerSecond(rate) => self.spent = (self.spent - rate * seconds).max(0.0),
            Back::HalfLife(half_life) => self.spent *= (-seconds / half_life).exp2(),
            Back::Window if from / (60 * SECOND) != to / (60 * SECOND) => self.spent = 0.0,
            Back::Window => {}
        }
    }
}

/// What an admission costs each tier.
fn charge(accounts: &mut [Account], evaluation: usize, cost: f64) {
    for (at, account) in accounts.iter_mut().enumerate() {
        // windows count units of all
        let in_full = at == evaluation || matches!(account.back, Back::Window);
        // a quota is of whole units
        let most = if in_full { f64::MAX } else { account.most.floor().max(account.spent) };
        account.spent = (account.spent + cost).min(most);
    }
}

fn kind(tiers: usize) -> impl Strategy<Value = Kind> {
    // no less than one request of the greatest cost
    let list = |most: u32| prop::collection::vec(5..most, tiers);
    // from one in an hour to a hundred in a second, evenly by magnitude
    let rate = (0..12_u32, 1..9_u32).prop_map(|(magnitude, digit)| (digit << (magnitude + 4)).min(360_000));
    let rates = prop::collection::vec((prop_oneof![1..9_u32, rate], 5..60_u32), tiers);
    prop_oneof![
        4 => rates.prop_map(Kind::Rate),
        2 => (5..40_u32, prop::collection::vec(200..1_200_u32, tiers)).prop_map(|(half_life, events)| Kind::Average { half_life, events }),
        1 => list(60).prop_map(Kind::Quota),
        2 => (list(60), any::<bool>()).prop_map(|(max, sliding)| Kind::Distinct { max, sliding }),
    ]
}

/// Numbers, then others of the same kind with the same number of tiers.
fn numbers() -> impl Strategy<Value = Vec<Kind>> {
    (2..5_usize).prop_flat_map(|tiers| prop::collection::vec(kind(tiers), 12)).prop_map(|all| {
        let first = std::mem::discriminant(&all[0]);
        let (sliding, half_life) = match &all[0] {
            Kind::Distinct { sliding, .. } => (*sliding, 0),
            Kind::Average { half_life, .. } => (false, *half_life),
            _ => (false, 0),
        };
        let mut same: Vec<Kind> = all.into_iter().filter(|kind| std::mem::discriminant(kind) == first).collect();
        for kind in &mut same {
            match kind {
                Kind::Distinct { sliding: other, .. } => *other = sliding,
                Kind::Average { half_life: other, .. } => *other = half_life,
                _ => {}
            }
        }
        same
    })
}

/// What the arithmetic of instants may be off by, in units: a nanosecond at a hundred in a second.
const ROUNDING: f64 = 1e-3;

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn every_tier_admits_what_its_own_account_leaves_over_any_reload(
        numbers in numbers(),
        steps in prop::collection::vec((0..5_usize, 0..60_000_u64, 1..40_usize, 1..6_usize, any::<bool>()), 4..24),
    ) {
        let mut at = 0;
        let mut gate = gate(&with_cost(&numbers[0]));
        let mut accounts = numbers[0].accounts();
        let (mut now, mut value) = (START, 0);
        for (in_tier, pause, requests, cost, reloads) in steps {
            accounts.iter_mut().for_each(|account| account.pass(now, now + pause * 1_000_000));
            now += pause * 1_000_000;
            if reloads && numbers.len() > 1 {
                at = (at + 1) % numbers.len();
                gate = reload(&gate, &with_cost(&numbers[at]), now);
                for (account, new) in accounts.iter_mut().zip(numbers[at].accounts()) {
                    *account = Account { spent: account.spent, ..new };
                }
            }
            let in_tier = in_tier % numbers[at].tiers();
            let cost = if matches!(numbers[at], Kind::Distinct { .. }) { 1 } else { cost };
            for _ in 0..requests {
                value += 1;
                let decision = costing(&gate, &fields(in_tier, value), now, cost);
                let admitted = decision.verdict == Verdict::Admitted;
                let account = accounts[in_tier];
                let room = account.most - account.spent - cost as f64;
                prop_assert!(!admitted || room >= -ROUNDING, "too many in tier {}: {} {:?}", in_tier, room, numbers[at]);
                prop_assert!(admitted || room < ROUNDING, "too few in tier {}: {} {:?}", in_tier, room, numbers[at]);
                if admitted {
                    charge(&mut accounts, in_tier, cost as f64);
                    continue;
                }
                let wait = decision.readings[0].retry_nanos.expect("no cost here is above a burst");
                prop_assert!(fits(&gate, in_tier, value, now + wait, cost), "a wait that is not true: {:?}", numbers[at]);
                let early = now + wait - 1;
                prop_assert!(!fits(&gate, in_tier, value, early, cost), "a wait that is too long: {:?}", numbers[at]);
            }
        }
    }
}

/// The limit as YAML, with a cost by method where requests may cost more than one.
fn with_cost(kind: &Kind) -> String {
    match kind {
        Kind::Distinct { .. } => kind.yaml(),
        _ => format!("{}, cost: {{ POST: 2, PUT: 3, PATCH: 4, DELETE: 5 }}", kind.yaml()),
    }
}
