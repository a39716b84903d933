//! Limits whose cost the answer tells: how far they can be exceeded, and that what is held back is learned.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;
use tidegate_limits::units::{Cost, Timestamp};
use tidegate_policy::engine::{Engine, Evaluation, Holds, Verdict};
use tidegate_policy::policy::{CostRule, Mode, Rule};

use crate::book::{arrival, book, head, rate, request};
use crate::saved::{SEED, saved, start};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_000_000 * SECOND;
const FIELD: HeaderName = HeaderName::from_static("x-cost");

fn priced(per_second: u32, burst: u32, estimate: u32, max: Option<u32>) -> Rule {
    let max = max.map(|max| Cost::new(max).unwrap());
    let cost = CostRule::Response { header: FIELD, estimate: Cost::new(estimate).unwrap(), max };
    Rule { cost, ..rate("graph", per_second, burst, Mode::Enforce) }
}

/// A request that was admitted and whose answer is not there yet.
struct UnderWay {
    evaluation: Evaluation,
    held: Holds,
    /// What was held back for it.
    estimate: u64,
    cost: u32,
}

fn pending(engine: &Engine) -> u64 {
    engine.limiters()[0].gauges(Timestamp::ZERO).pending.unwrap()
}

fn send(engine: &Engine, client: &HeaderMap, now: u64, cost: u32) -> Option<UnderWay> {
    let mut evaluation = engine.judge(&request(client), arrival(now));
    let before = pending(engine);
    let (mut held, _) = engine.admit(&mut evaluation, Timestamp::from_nanos(now));
    if evaluation.decision.verdict != Verdict::Admitted {
        return None;
    }
    engine.sent(&mut held);
    Some(UnderWay { evaluation, held, estimate: pending(engine) - before, cost })
}

fn answer(engine: &Engine, mut one: UnderWay, now: u64) {
    let fields = HeaderMap::from_iter([(FIELD, HeaderValue::from(one.cost))]);
    engine.answered(&one.evaluation, &mut one.held, StatusCode::OK, &fields, Timestamp::from_nanos(now));
}

/// So many at once, all answered then; how many passed.
fn burst(engine: &Engine, client: &HeaderMap, now: u64, cost: u32) -> usize {
    let under_way: Vec<_> = (0..20).filter_map(|_| send(engine, client, now, cost)).collect();
    let passed = under_way.len();
    under_way.into_iter().for_each(|one| answer(engine, one, now));
    passed
}

#[test]
fn what_is_held_back_is_learned_from_answers_for_all_clients_and_forgotten() {
    let engine = book(vec![priced(100, 100, 10, None)]);
    let (one, other) = (head("203.0.113.9"), head("203.0.113.10"));
    assert_eq!(burst(&engine, &one, START, 40), 10, "what is written");
    assert_eq!(burst(&engine, &other, START, 40), 2, "what was learned: 80 of 100");
    assert_eq!(burst(&engine, &one, START, 40), 0, "300 are owed");
    assert_eq!(burst(&engine, &one, START + 4 * SECOND, 40), 2);
    // cheap answers are learned, too, once the dear ones are fewer than one in twenty; and never below what is written
    for second in 5..160 {
        burst(&engine, &other, START + second * SECOND, 1);
    }
    assert_eq!(burst(&engine, &one, START + 160 * SECOND, 1), 10);
    assert_eq!(burst(&engine, &other, START + 1500 * SECOND, 40), 10, "nothing is known any more");
}

#[test]
fn one_dear_answer_shuts_nobody_out() {
    let engine = book(vec![priced(1, 100, 10, None)]);
    let dear = send(&engine, &head("203.0.113.9"), START, 4_000_000_000).unwrap();
    answer(&engine, dear, START);
    // others have half of their limit held back for each, whatever was told
    assert_eq!(burst(&engine, &head("203.0.113.10"), START, 10), 2);
    // one of 23 since: no quantile any more
    for client in 11..31 {
        assert!(burst(&engine, &head(&format!("203.0.113.{client}")), START, 10) >= 2);
    }
    assert_eq!(burst(&engine, &head("203.0.113.40"), START, 10), 10);
}

#[test]
fn a_written_most_is_held_back_from_the_first_request_on() {
    let engine = book(vec![priced(100, 100, 10, Some(40))]);
    assert_eq!(burst(&engine, &head("203.0.113.9"), START, 40), 2);
    assert_eq!(burst(&engine, &head("203.0.113.10"), START, 90), 2, "no more is held back, whatever is told");
    let unlearned = book(vec![priced(100, 100, 10, Some(400))]);
    assert_eq!(burst(&unlearned, &head("203.0.113.9"), START, 10), 1, "a most above the limit is all of it");
}

#[test]
fn a_reload_goes_on_from_what_was_learned() {
    let engine = book(vec![priced(100, 100, 10, None)]);
    burst(&engine, &head("203.0.113.9"), START, 40);
    let mut policy = engine.policy().clone();
    policy.rules[0] = std::sync::Arc::new(priced(200, 100, 10, None));
    let (after, _) = engine.followed_by(policy, Timestamp::from_nanos(START)).unwrap();
    after.take_over();
    assert_eq!(burst(&after, &head("203.0.113.10"), START, 40), 2);
}

#[test]
fn another_process_goes_on_from_what_was_learned_by_the_names_of_limit_and_route() {
    let engine = Engine::new(book(vec![priced(100, 100, 10, None)]).policy().clone(), &SEED, 0).unwrap();
    burst(&engine, &head("203.0.113.9"), START, 40);
    let stream = saved(&engine, START);
    let with = |rule: Rule| {
        let mut policy = engine.policy().clone();
        policy.rules[0] = std::sync::Arc::new(rule);
        start(&stream, policy, START).0
    };
    let later = START + SECOND;
    assert_eq!(burst(&with(priced(200, 100, 10, None)), &head("203.0.113.10"), later, 40), 2);
    let renamed =
        Rule { name: "cost".to_owned(), renamed_from: Some("graph".to_owned()), ..priced(200, 100, 10, None) };
    assert_eq!(burst(&with(renamed), &head("203.0.113.10"), later, 40), 2);
    let other = Rule { name: "cost".to_owned(), ..priced(200, 100, 10, None) };
    assert_eq!(burst(&with(other), &head("203.0.113.10"), later, 40), 10);
    // two periods later nothing of it is known
    assert_eq!(burst(&with(priced(200, 100, 10, None)), &head("203.0.113.11"), START + 1500 * SECOND, 40), 10);
}

proptest! {
    /// The promise of `engine/learned.rs`, over all intervals, for answers in any order and of any cost that the debt holds.
    #[test]
    fn answers_cost_no_more_than_the_limit_and_what_those_under_way_exceed_their_estimates_by(
        (per_second, size, estimate) in (1_u32..50, 20_u32..200, 1_u32..20),
        most in prop::option::of(20_u32..300),
        steps in prop::collection::vec((0_u8..4, any::<u16>(), 0_u32..300), 1..250),
    ) {
        let engine = book(vec![priced(per_second, size, estimate, most)]);
        let client = head("203.0.113.9");
        let mut now = START;
        let mut under_way: Vec<UnderWay> = Vec::new();
        let mut charged: Vec<(u64, u64)> = Vec::new();
        let mut over = 0;
        for (step, random, cost) in steps {
            match step {
                0 => now += u64::from(random) * 1_000_000 / 50,
                1 if !under_way.is_empty() => {
                    let one = under_way.swap_remove(usize::from(random) % under_way.len());
                    charged.push((now, u64::from(one.cost)));
                    answer(&engine, one, now);
                }
                _ => under_way.extend(send(&engine, &client, now, cost)),
            }
            let exceeds = under_way.iter().map(|one| u64::from(one.cost).saturating_sub(one.estimate));
            over = over.max(exceeds.sum::<u64>());
            let fewest = under_way.iter().map(|one| one.estimate).min();
            prop_assert!(fewest.is_none_or(|least| least >= u64::from(estimate)));
            prop_assert!(under_way.len() <= (size / estimate) as usize);
        }
        for (first, (from, _)) in charged.iter().enumerate() {
            let mut cost = 0;
            for (to, units) in &charged[first..] {
                cost += units;
                let back = (u128::from(per_second) * u128::from(to - from)).div_ceil(u128::from(SECOND)) as u64;
                prop_assert!(cost <= u64::from(size) + back + over, "{cost} in {} ns, over {over}", to - from);
            }
        }
        // nothing stays held back
        drop(under_way);
        prop_assert_eq!(pending(&engine), 0);
    }
}
