//! The laws, on every kind of limit: the bound over all intervals, a retry time that comes true, monotony, refusals that
//! charge nobody, clocks that step back.

use std::path::Path;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method};
use proptest::prelude::*;
use tidegate_limits::limiter::kinds::Bound;
use tidegate_limits::limiter::{FORMS, Kind, RefusedCount, kinds};
use tidegate_limits::units::{Bytes, Cost, Rate};
use tidegate_policy::config::load_text;
use tidegate_policy::engine::{Decision, Engine, Verdict};
use tidegate_policy::policy::{CostRule, Mode, Rule};
use tidegate_policy::request::Request;

use crate::book::{arrival, book, by_client, distinct, fair_share, head, rate, request, strict_distinct};

const SECOND: u64 = 1_000_000_000;
/// A whole number of every window used here.
pub const START: u64 = 10_000_000 * SECOND;
const MEMORY: Bytes = Bytes(1 << 20);

/// A limit of every kind of the list that promises something of stamps, as its example has it.
fn examples() -> impl Iterator<Item = Rule> {
    FORMS.iter().filter_map(|form| {
        let text = format!(
            "listen: \":8080\"\nlimits: {{ {}: {} }}\nroutes: [{{ respond: {{ status: 200 }}, limits: [{0}] }}]\n",
            form.word, form.example
        );
        let config = load_text("t.yaml", &text, &|_: &str| None, Path::new(".")).outcome.expect(form.word);
        let mut rule = Rule::clone(&config.policy.rules[0]);
        if let Some(memory) = rule.kind.memory_mut() {
            *memory = MEMORY;
        }
        rule.kind.bound().is_some().then_some(rule)
    })
}

/// Every kind that promises something of stamps, in small numbers.
pub fn kinds() -> Vec<(Rule, Bound)> {
    let per_second = |events| Rate::new(events, Duration::from_secs(1)).unwrap();
    let quota =
        |sliding| Kind::Quota(kinds::Quota { max: 5, window: Duration::from_secs(2).into(), sliding, memory: MEMORY });
    let average = |refused| {
        Kind::RecentAverage(kinds::RecentAverage {
            rate: per_second(4),
            half_life: Duration::from_secs(1),
            refused,
            memory: MEMORY,
        })
    };
    let all = RefusedCount::All { max_penalty: Duration::from_secs(6) };
    let costly = |rule: Rule| Rule {
        cost: CostRule::ByMethod {
            methods: vec![(Method::POST, Cost::new(2).unwrap()), (Method::PUT, Cost::new(3).unwrap())],
            other: Cost::ONE,
        },
        ..rule
    };
    let rules = vec![
        costly(rate("costly_rate", 4, 5, Mode::Enforce)),
        costly(by_client("costly_quota", quota(false))),
        costly(by_client("sliding_quota", quota(true))),
        costly(by_client("average_admitted", average(RefusedCount::Admitted))),
        costly(by_client("average_all", average(all))),
        distinct(5, Duration::from_secs(2), false),
        distinct(5, Duration::from_secs(2), true),
        strict_distinct(5, Duration::from_secs(2), Duration::from_secs(6)),
        fair_share(20),
    ];
    rules.into_iter().chain(examples()).map(|rule| (rule.clone(), rule.kind.bound().unwrap())).collect()
}

/// Whether a request's judgement depends on what others offer, not on what its client was charged.
pub fn weighs_others(rule: &Rule) -> bool {
    rule.kind.has_nodes()
}

/// Whether it judges by each stamp: an aligned `distinct` judges one that lags behind in the newest period that it has met.
pub fn judges_by_stamps(rule: &Rule, bound: &Bound) -> bool {
    !(rule.of.is_some() && matches!(bound, Bound::Window { .. }))
}

fn counts_refused(rule: &Rule) -> bool {
    matches!(rule.kind.refused(), Some(RefusedCount::All { .. }))
}

/// Checks the stamps and costs of what was admitted, sorted, in every interval.
pub fn check(bound: &Bound, admitted: &[(u64, usize)]) -> Result<(), String> {
    for (first, (from, _)) in admitted.iter().enumerate() {
        let mut count = 0;
        for (to, cost) in &admitted[first..] {
            count += cost;
            let kept = match bound {
                Bound::Interval { burst, per_second } => {
                    count as f64 <= burst + per_second * (to - from) as f64 / 1e9 + 1e-6
                }
                Bound::Window { max, length, sliding } => {
                    let (max, window) = (*max as usize, length.as_nanos() as u64);
                    match to / window - from / window {
                        0 => count <= max,
                        1 if *sliding => {
                            count as f64 <= max as f64 * (1.0 + (to % window) as f64 / window as f64) + 1e-6
                        }
                        _ => true,
                    }
                }
            };
            if !kept {
                return Err(format!("{count} admitted from {from} to {to}"));
            }
        }
    }
    Ok(())
}

/// The nth request of one client: a new name each time, so that `distinct` has something to count.
pub fn nth(n: usize) -> HeaderMap {
    let mut headers = head("203.0.113.9");
    headers.insert("x-name", HeaderValue::from(n));
    headers
}

/// What requests cost by their method, where costs go by it.
const METHODS: [Method; 3] = [Method::GET, Method::POST, Method::PUT];

fn costs_of(rule: &Rule, cost: usize) -> usize {
    if matches!(rule.cost, CostRule::ByMethod { .. }) { cost } else { 1 }
}

/// What one client's nth request comes to.
pub fn decide(engine: &Engine, n: usize, cost: usize, at: u64) -> Decision {
    engine.decide(&Request { method: &METHODS[cost - 1], ..request(&nth(n)) }, arrival(at)).0
}

fn admitted(engine: &Engine, n: usize, cost: usize, at: u64) -> bool {
    decide(engine, n, cost, at).verdict == Verdict::Admitted
}

/// Whether the request would pass, charging nothing.
fn fits(engine: &Engine, n: usize, cost: usize, at: u64) -> bool {
    let evaluation = engine.judge(&Request { method: &METHODS[cost - 1], ..request(&nth(n)) }, arrival(at));
    evaluation.decision.verdict == Verdict::Admitted
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_kind_keeps_its_bound_over_all_intervals(
        steps in prop::collection::vec((-200_i64..500, 1..4_usize), 1..100),
    ) {
        for (rule, bound) in kinds() {
            let steps_back = judges_by_stamps(&rule, &bound);
            let (name, engine) = (rule.name.clone(), book(vec![rule.clone()]));
            let mut now = START as i64;
            let mut passed = Vec::new();
            for (n, (step, cost)) in steps.iter().enumerate() {
                now += if steps_back { *step } else { step.abs() } * 1_000_000;
                let cost = costs_of(&rule, *cost);
                if admitted(&engine, n, cost, now as u64) {
                    passed.push((now as u64, cost));
                }
            }
            passed.sort_unstable();
            let kept = check(&bound, &passed);
            prop_assert!(kept.is_ok(), "{name}: {}", kept.unwrap_err());
        }
    }

    #[test]
    fn a_silent_client_is_admitted_when_it_was_told_and_not_before(
        gaps in prop::collection::vec((0_u64..400, 1..4_usize), 1..60),
    ) {
        for (rule, _) in kinds() {
            let (name, counts_refused) = (rule.name.clone(), counts_refused(&rule));
            if name == "share" {
                continue; // nobody can promise when the dice will fall otherwise
            }
            let engine = book(vec![rule.clone()]);
            let mut now = START;
            for (n, (gap, cost)) in gaps.iter().enumerate() {
                now += gap * 1_000_000;
                let cost = costs_of(&rule, *cost);
                let decision = decide(&engine, n, cost, now);
                if decision.verdict == Verdict::Admitted {
                    continue;
                }
                let wait = decision.readings[0].retry_nanos.unwrap();
                prop_assert!(wait > 0, "{name}");
                if !counts_refused {
                    prop_assert!(!fits(&engine, n, cost, now + wait - 1), "{name}: admitted a nanosecond early");
                }
                now += wait;
                prop_assert!(admitted(&engine, n, cost, now), "{name}: refused when the wait was over");
            }
        }
    }

    /// Who has been charged less is never refused where one who has been charged more is admitted.
    #[test]
    fn less_spent_is_never_worse(
        trace in prop::collection::vec((0_u64..300, 1..4_usize, any::<bool>()), 1..60),
        (pause, last) in (0_u64..3_000, 1..4_usize),
    ) {
        for (rule, _) in kinds() {
            if weighs_others(&rule) {
                continue; // its judgement depends on what others offer, not on what one was charged
            }
            let name = rule.name.clone();
            let (more, less) = (book(vec![rule.clone()]), book(vec![rule.clone()]));
            let mut now = START;
            for (n, (gap, cost, kept)) in trace.iter().enumerate() {
                now += gap * 1_000_000;
                let cost = costs_of(&rule, *cost);
                let passed = admitted(&more, n, cost, now);
                if *kept && passed {
                    prop_assert!(admitted(&less, n, cost, now), "{name}");
                }
            }
            now += pause * 1_000_000;
            let last = costs_of(&rule, last);
            prop_assert!(!fits(&more, trace.len(), last, now) || fits(&less, trace.len(), last, now), "{name}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// A client that tries faster than the rate gives back stays out from its first refusal on, however long that goes on.
    #[test]
    fn where_refusals_count_a_client_that_keeps_trying_stays_out(gaps in prop::collection::vec(0_u64..240, 1..400)) {
        for (rule, _) in kinds().into_iter().filter(|(rule, _)| counts_refused(rule)) {
            let name = rule.name.clone();
            let (engine, mut now) = (book(vec![rule]), START);
            let spent = (0..40).filter(|n| admitted(&engine, *n, 1, now)).count();
            prop_assert_eq!(spent, 5, "{}", name);
            for (n, gap) in gaps.iter().enumerate() {
                now += gap * 1_000_000;
                prop_assert!(!admitted(&engine, 100 + n, 1, now), "{name}: let in after {n} more tries");
            }
        }
    }

    /// However a client went on before, nothing keeps it out for longer than `max_penalty`, or than one value takes to come back.
    #[test]
    fn a_strict_distinct_keeps_nobody_out_beyond_its_penalty(
        max in 1_u32..6,
        seconds in 1_u64..20,
        penalty in 1_u64..40,
        gaps in prop::collection::vec(0_u64..900, 20..200),
    ) {
        let span = Duration::from_secs;
        let engine = book(vec![strict_distinct(max, span(seconds), span(penalty))]);
        let most = (penalty * SECOND).max((seconds * SECOND).div_ceil(u64::from(max)));
        let mut now = START;
        for (n, gap) in gaps.iter().enumerate() {
            now += gap * 1_000_000;
            let decision = decide(&engine, n, 1, now);
            if decision.verdict != Verdict::Admitted {
                let wait = decision.readings[0].retry_nanos.unwrap();
                prop_assert!(wait <= most, "{wait} of {most}");
                prop_assert!(fits(&engine, 1_000 + n, 1, now + wait));
            }
        }
    }
}

/// However short `max_penalty` is beside the time in which a value comes back.
#[test]
fn a_short_penalty_keeps_a_client_out_for_as_long_as_it_tries_again_within_it() {
    for max in [1, 2, 20] {
        let engine = book(vec![strict_distinct(max, Duration::from_secs(60), Duration::from_secs(1))]);
        let spent = (0..40).filter(|n| admitted(&engine, *n, 1, START)).count();
        assert_eq!(spent, max as usize);
        let tries = (1..300).map(|n| START + n * SECOND / 2);
        let late = tries.enumerate().filter(|(n, now)| admitted(&engine, 100 + n, 1, *now)).count();
        assert_eq!(late, 0, "of {max} values a minute");
        assert!(admitted(&engine, 1_000, 1, START + 152 * SECOND), "silent for longer than the penalty");
    }
}

#[test]
fn a_refusal_charges_nobody() {
    for (rule, _) in kinds() {
        if counts_refused(&rule) || weighs_others(&rule) {
            continue; // the one kind counts refused requests, the other offered ones: that is what they are for
        }
        let name = rule.name.clone();
        let (cost, engine) = (costs_of(&rule, 3), book(vec![rule]));
        let mut waits = Vec::new();
        for n in 0..200 {
            let decision = decide(&engine, n, cost, START + 1);
            if decision.verdict != Verdict::Admitted {
                waits.push(decision.readings[0].retry_nanos);
            }
        }
        assert!(waits.len() > 100, "{name}");
        assert!(waits.iter().all(|wait| *wait == waits[0]), "{name}: refusals moved the way back");
    }
}

#[test]
fn a_clock_that_steps_back_opens_nothing() {
    for (rule, _) in kinds() {
        let name = rule.name.clone();
        let engine = book(vec![rule]);
        let spent = (0..200).filter(|n| admitted(&engine, *n, 1, START)).count();
        assert!(spent > 0, "{name}");
        let stamps = [START - 1, START - 3 * SECOND, START - 90 * SECOND, 70 * SECOND, START - 2 * SECOND];
        let more = (200..400).filter(|n| admitted(&engine, *n, 1, stamps[n % stamps.len()])).count();
        assert_eq!(more, 0, "{name}: a stamp from the past was admitted beyond the spent budget");
        // and once the clock is where it was, nothing has been lost but what had been spent
        assert!(fits(&engine, 400, 1, START + 60 * SECOND), "{name}");
    }
}
