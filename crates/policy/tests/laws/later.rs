//! What is charged or given back after the verdict: places, attempts, bytes, waits.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use tidegate_limits::units::{Cost, Timestamp};
use tidegate_policy::engine::{Engine, Outcome, Refusal, Verdict};
use tidegate_policy::policy::{CostRule, Counted, Mode, OnLimit, Rule, StatusSet};

use crate::book::{arrival, ask, book, head, inflight_by_client, rate, request};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_000_000 * SECOND;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

#[test]
fn places_are_counted_by_client_and_always_return() {
    let engine = book(vec![inflight_by_client(2)]);
    let (one, other) = (head("203.0.113.9"), head("203.0.113.10"));
    for _ in 0..100 {
        let first = ask(&engine, &one, START);
        let second = ask(&engine, &one, START);
        let third = ask(&engine, &one, START);
        let stranger = ask(&engine, &other, START);
        assert_eq!((first.0.verdict, second.0.verdict), (Verdict::Admitted, Verdict::Admitted));
        assert_eq!(third.0.verdict, Verdict::Refused(Refusal::Concurrency));
        assert_eq!(stranger.0.verdict, Verdict::Admitted);
        assert_eq!(engine.limiters()[0].gauges(Timestamp::ZERO).inflight, Some(3));
        drop((first, second, third, stranger));
        assert_eq!(engine.limiters()[0].gauges(Timestamp::ZERO).inflight, Some(0));
    }
}

#[test]
fn a_switched_connection_moves_to_a_class_of_its_own() {
    let engine = book(vec![inflight_by_client(1)]);
    let client = head("203.0.113.9");
    let mut stream = engine.judge(&request(&client), arrival(START));
    let (mut held, _) = engine.admit(&mut stream, at(START));
    assert_eq!(ask(&engine, &client, START).0.verdict, Verdict::Refused(Refusal::Concurrency));
    assert_eq!(engine.upgraded(&stream, &mut held), Ok(()));
    let mut second = engine.judge(&request(&client), arrival(START));
    let (mut second_held, _) = engine.admit(&mut second, at(START));
    assert_eq!(second.decision.verdict, Verdict::Admitted, "the stream holds no place of requests any more");
    assert_eq!(engine.upgraded(&second, &mut second_held), Err(0), "and its class has a bound of its own");
    drop((held, second_held));
    let gauges = engine.limiters()[0].gauges(Timestamp::ZERO);
    assert_eq!((gauges.inflight, gauges.upgraded), (Some(0), Some(0)));
}

fn failures(burst: u32) -> Rule {
    let failed = StatusSet::NONE.with(401, 401).with(403, 403);
    Rule { counted: Counted::Responses(failed), ..rate("login", 1, burst, Mode::Enforce) }
}

/// Admits a request and says what became of it: its answer's status, or that none ever came.
fn attempt(engine: &Engine, client: &HeaderMap, now: u64, sent: bool, status: Option<u16>) -> Verdict {
    let mut evaluation = engine.judge(&request(client), arrival(now));
    let (mut held, _) = engine.admit(&mut evaluation, at(START));
    if sent {
        engine.sent(&mut held);
    }
    if let Some(status) = status {
        let status = StatusCode::from_u16(status).unwrap();
        engine.answered(&evaluation, &mut held, status, &HeaderMap::new(), at(now));
    }
    evaluation.decision.verdict
}

#[test]
fn only_matching_answers_are_charged_and_unknown_ones_count_as_matching() {
    let client = head("203.0.113.9");
    // what became of each attempt → how many of a burst of three are admitted in a row
    for (sent, status, most) in
        [(true, Some(200), 50), (true, Some(401), 3), (true, None, 3), (false, None, 50), (true, Some(403), 3)]
    {
        let engine = book(vec![failures(3)]);
        let admitted =
            (0..50).take_while(|_| attempt(&engine, &client, START, sent, status) == Verdict::Admitted).count();
        assert_eq!(admitted, most, "sent {sent}, answer {status:?}");
        assert_eq!(engine.limiters()[0].gauges(Timestamp::ZERO).pending, Some(0));
    }
}

#[test]
fn attempts_under_way_hold_their_part_back() {
    let engine = book(vec![failures(3)]);
    let client = head("203.0.113.9");
    let under_way: Vec<_> = (0..3).map(|_| ask(&engine, &client, START)).collect();
    assert!(under_way.iter().all(|(decision, _)| decision.verdict == Verdict::Admitted));
    assert_eq!(ask(&engine, &client, START).0.verdict, Verdict::Refused(Refusal::Limit));
    drop(under_way);
    assert_eq!(ask(&engine, &client, START).0.verdict, Verdict::Admitted, "none was sent, so none counts");
}

#[test]
fn the_answer_tells_the_cost() {
    let header = http::HeaderName::from_static("x-cost");
    let cost = CostRule::Response { header: header.clone(), estimate: Cost::new(2).unwrap(), max: None };
    let rule = Rule { cost, ..rate("graph", 1, 10, Mode::Enforce) };
    // told cost → what is left of ten
    for (told, left) in [(Some("7"), 3), (Some("0"), 10), (None, 8), (Some("many"), 8), (Some("400000"), 0)] {
        let engine = book(vec![rule.clone()]);
        let client = head("203.0.113.9");
        let mut evaluation = engine.judge(&request(&client), arrival(START));
        let (mut held, _) = engine.admit(&mut evaluation, at(START));
        let mut answer = HeaderMap::new();
        if let Some(told) = told {
            answer.insert(&header, HeaderValue::from_static(told));
        }
        engine.sent(&mut held);
        engine.answered(&evaluation, &mut held, StatusCode::OK, &answer, at(START));
        let plain = book_reading(&engine, &client);
        // in requests of the estimate, after the one that asks
        assert_eq!(plain, (left / 2_u32).saturating_sub(1), "told {told:?}");
    }
}

fn book_reading(engine: &Engine, client: &HeaderMap) -> u32 {
    engine.judge(&request(client), arrival(START)).decision.readings[0].remaining
}

#[test]
fn bytes_are_charged_as_they_pass_and_pace_what_delays() {
    let action = OnLimit::Delay { max: Duration::from_secs(9) };
    let rule = Rule { cost: CostRule::Bytes { unit: 1_000 }, action, ..rate("egress", 10, 10, Mode::Enforce) };
    let engine = book(vec![rule]);
    let client = head("203.0.113.9");
    let mut evaluation = engine.judge(&request(&client), arrival(START));
    let _held = engine.admit(&mut evaluation, at(START));
    assert!(engine.counts_bytes(&evaluation));
    assert_eq!(engine.carried(&mut evaluation, 999, at(START)), 0, "the first unit was paid on entry");
    assert_eq!(engine.carried(&mut evaluation, 8_001, at(START)), 0, "nine units of ten");
    assert_eq!(
        engine.carried(&mut evaluation, 1_000, at(START)),
        SECOND / 10,
        "the tenth is spent, one must come free"
    );
    assert_eq!(engine.carried(&mut evaluation, 20_000, at(START)), 21 * SECOND / 10, "and twenty more are owed");
    let (late, _) = ask(&engine, &client, START);
    assert_eq!(late.delay_nanos, 21 * SECOND / 10, "the next request waits until the debt is paid");
}

#[test]
fn delayed_requests_leave_one_after_the_other() {
    let action = OnLimit::Delay { max: Duration::from_millis(350) };
    let engine = book(vec![Rule { action, ..rate("smooth", 10, 1, Mode::Enforce) }]);
    let client = head("203.0.113.9");
    let waits: Vec<_> = (0..6)
        .map(|_| {
            let (decision, _) = ask(&engine, &client, START);
            (decision.verdict == Verdict::Admitted).then_some(decision.delay_nanos)
        })
        .collect();
    let tenths = |n: u64| Some(n * SECOND / 10);
    assert_eq!(waits, [tenths(0), tenths(1), tenths(2), tenths(3), None, None]);
}

#[test]
fn a_tagged_request_passes_uncharged_and_is_told_apart() {
    let header = http::HeaderName::from_static("x-over");
    let tag = Rule { action: OnLimit::Tag { header }, ..rate("tag", 1, 1, Mode::Enforce) };
    let engine = book(vec![tag, rate("real", 1, 3, Mode::Enforce)]);
    let client = head("203.0.113.9");
    let outcomes: Vec<_> = (0..4)
        .map(|_| {
            let (decision, _) = ask(&engine, &client, START);
            let tags: Vec<_> = engine.tags(&decision).map(|(_, name)| name.to_owned()).collect();
            (decision.verdict, decision.readings[0].outcome, tags)
        })
        .collect();
    let tagged = || vec!["tag".to_owned()];
    assert_eq!(outcomes[0], (Verdict::Admitted, Outcome::Admitted, vec![]));
    assert_eq!(outcomes[1], (Verdict::Admitted, Outcome::Tagged, tagged()));
    assert_eq!(outcomes[2], (Verdict::Admitted, Outcome::Tagged, tagged()));
    assert_eq!(outcomes[3].0, Verdict::Refused(Refusal::Limit), "marking never overrules another limit");
    assert_eq!(ask(&engine, &client, START + SECOND).0.readings[0].outcome, Outcome::Admitted);
}

#[test]
fn only_a_limit_that_closes_closes_the_connection() {
    for (action, closes) in [(OnLimit::Close, true), (OnLimit::Reject, false)] {
        let engine = book(vec![Rule { action, ..rate("over", 1, 1, Mode::Enforce) }]);
        let client = head("203.0.113.9");
        assert!(!engine.closes(&ask(&engine, &client, START).0), "nothing is violated");
        assert_eq!(engine.closes(&ask(&engine, &client, START).0), closes);
    }
}
