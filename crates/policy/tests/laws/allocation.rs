//! An admitted decision of local limits allocates nothing, and neither does a refused one, whatever the kinds.

use std::time::Duration;

use tidegate_limits::limiter::sharing::{OnStoreError, Sharing};
use tidegate_limits::limiter::{Kind, RefusedCount, kinds};
use tidegate_limits::units::{Bytes, Rate};
use tidegate_policy::engine::{Engine, Verdict};
use tidegate_policy::policy::{Counted, Mode, Rule, StatusSet};

use crate::book::{arrival, book, by_client, distinct, fair_share, head, inflight, inflight_by_client, rate, request};
use crate::shared::{gate, shared};

const MEMORY: Bytes = Bytes(1 << 20);

#[test]
fn a_decision_allocates_nothing() {
    decides_without_allocating(vec![
        rate("a", 10, 3, Mode::Enforce),
        rate("b", 10, 5, Mode::Shadow),
        inflight("c", 5, Mode::Enforce),
    ]);
}

#[test]
fn no_kind_of_limit_allocates() {
    let window = Duration::from_secs(60);
    let average = Kind::RecentAverage(kinds::RecentAverage {
        rate: Rate::new(100, Duration::from_secs(1)).unwrap(),
        half_life: Duration::from_secs(1),
        refused: RefusedCount::All { max_penalty: Duration::from_secs(6) },
        memory: MEMORY,
    });
    let quota = |sliding| Kind::Quota(kinds::Quota { max: 50, window: window.into(), sliding, memory: MEMORY });
    let failed = StatusSet::NONE.with(401, 401);
    decides_without_allocating(vec![
        by_client("quota", quota(false)),
        by_client("sliding", quota(true)),
        by_client("average", average),
        distinct(50, window, false),
        fair_share(1_000),
        inflight_by_client(50),
        Rule { counted: Counted::Responses(failed), ..rate("failures", 10, 50, Mode::Enforce) },
        rate("last", 10, 3, Mode::Enforce),
    ]);
}

#[test]
fn a_limit_of_which_gates_tell_each_other_allocates_nothing() {
    let estimated = shared(rate("a", 10, 3, Mode::Enforce), Sharing::Estimate, OnStoreError::Local);
    decides_without_allocating_on(&gate(vec![estimated]));
}

fn decides_without_allocating(rules: Vec<Rule>) {
    decides_without_allocating_on(&book(rules));
}

/// The book admits three of eight requests.
fn decides_without_allocating_on(engine: &Engine) {
    let mut headers = head("198.51.100.20, 203.0.113.9:51234, 127.0.0.3");
    headers.insert("x-name", "alice".parse().unwrap());
    let request = request(&headers);
    let mut verdicts = Vec::with_capacity(8);
    // a thread's first look at the bans allocates its place among those that look, once
    assert!(engine.bans().list(arrival(0).at).is_empty());
    let measured = allocation_counter::measure(|| {
        for _ in 0..8 {
            let (decision, _held) = engine.decide(&request, arrival(1 << 50));
            verdicts.push(decision.verdict == Verdict::Admitted);
        }
    });
    assert_eq!(verdicts, [true, true, true, false, false, false, false, false]);
    assert_eq!(measured.count_total, 0, "{measured:?}");
}
