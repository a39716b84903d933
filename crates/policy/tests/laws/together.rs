//! Several limits on one route: all are read, then all are charged or none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate_limits::units::Timestamp;
use tidegate_policy::engine::{Outcome, Refusal, Verdict};
use tidegate_policy::policy::Mode;

use crate::book::{arrival, ask, book, head, inflight, rate, request};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_000_000 * SECOND;

#[test]
fn nobody_pays_for_another_limits_refusal() {
    let engine = book(vec![rate("wide", 1, 10, Mode::Enforce), rate("narrow", 1, 1, Mode::Enforce)]);
    let client = head("203.0.113.9");
    assert_eq!(ask(&engine, &client, START).0.verdict, Verdict::Admitted);
    for _ in 0..20 {
        let (decision, _) = ask(&engine, &client, START);
        assert_eq!(decision.verdict, Verdict::Refused(Refusal::Limit));
        let outcomes: Vec<_> = decision.readings.iter().map(|reading| reading.outcome).collect();
        assert_eq!(outcomes, [Outcome::Admitted, Outcome::Refused]);
        assert_eq!(decision.readings[0].remaining, 8, "the wide limit was charged once, and would have eight left");
    }
}

#[test]
fn a_shadow_limit_counts_and_never_decides() {
    let engine = book(vec![rate("shadow", 1, 1, Mode::Shadow), rate("real", 1, 3, Mode::Enforce)]);
    let client = head("203.0.113.9");
    let shadow: Vec<_> = (0..3)
        .map(|_| {
            let (decision, _) = ask(&engine, &client, START);
            assert_eq!(decision.verdict, Verdict::Admitted);
            assert_eq!(decision.violated().count(), 0);
            decision.readings[0].outcome
        })
        .collect();
    assert_eq!(shadow, [Outcome::Admitted, Outcome::Refused, Outcome::Refused]);
    assert_eq!(ask(&engine, &client, START).0.verdict, Verdict::Refused(Refusal::Limit));
}

#[test]
fn the_clients_own_budget_is_named_before_our_capacity() {
    let engine = book(vec![inflight("places", 1, Mode::Enforce), rate("budget", 1, 1, Mode::Enforce)]);
    let client = head("203.0.113.9");
    let (first, held) = ask(&engine, &client, START);
    assert_eq!(first.verdict, Verdict::Admitted);
    assert_eq!(ask(&engine, &client, START).0.verdict, Verdict::Refused(Refusal::Limit));
    assert_eq!(ask(&engine, &head("203.0.113.10"), START).0.verdict, Verdict::Refused(Refusal::Inflight));
    drop(held);
    assert_eq!(ask(&engine, &head("203.0.113.10"), START).0.verdict, Verdict::Admitted);
}

#[test]
fn gives_back_the_place_when_the_budget_is_gone_after_all() {
    let engine = book(vec![inflight("places", 5, Mode::Enforce), rate("budget", 1, 1, Mode::Enforce)]);
    let client = head("203.0.113.9");
    let request = request(&client);
    // both are judged before either is charged, as two workers might
    let (mut a, mut b) = (engine.judge(&request, arrival(START)), engine.judge(&request, arrival(START)));
    assert_eq!((a.decision.verdict, b.decision.verdict), (Verdict::Admitted, Verdict::Admitted));
    let (held, _) = engine.admit(&mut a, Timestamp::from_nanos(START));
    let (none, contended) = engine.admit(&mut b, Timestamp::from_nanos(START));
    assert_eq!((a.decision.verdict, b.decision.verdict), (Verdict::Admitted, Verdict::Refused(Refusal::Limit)));
    assert_eq!((held.len(), none.len(), contended), (1, 0, None));
    assert_eq!(engine.limiters()[0].gauges(Timestamp::ZERO).inflight, Some(1));
}

#[test]
fn never_over_admits_under_contention() {
    const BURST: u32 = 1_000;
    let engine = Arc::new(book(vec![rate("r", 1, BURST, Mode::Enforce), inflight("i", 2, Mode::Enforce)]));
    let admitted = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let client = head("203.0.113.9");
                for _ in 0..20_000 {
                    let (decision, permits) = ask(&engine, &client, START);
                    if decision.verdict == Verdict::Admitted {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                    drop(permits);
                }
            });
        }
    });
    let admitted = admitted.into_inner();
    assert_eq!(admitted, BURST, "the whole budget is used, and nothing beyond it");
    assert_eq!(engine.limiters()[1].gauges(Timestamp::ZERO).inflight, Some(0));
}
