//! A request with several values of a cookie or parameter is charged under each, or under none, whatever the kind of limit.

use std::collections::HashMap;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use proptest::prelude::*;
use proptest::sample::select;
use tidegate_limits::limiter::sharing::{OnStoreError, Sharing};
use tidegate_limits::limiter::{Kind, RefusedCount, Scope, kinds};
use tidegate_limits::units::{Bytes, Cost, Rate, Share, Timestamp};
use tidegate_policy::client::key::{KeyPart, KeySpec, Missing};
use tidegate_policy::engine::{Engine, Evaluation, Holds, Outcome, Refusal, Verdict};
use tidegate_policy::policy::{CostRule, Counted, Mode, OnLimit, Rule, StatusSet};
use tidegate_policy::request::Request;

use crate::book::{arrival, book, fair_share, head, request};
use crate::shared::{gate, shared};

const MEMORY: Bytes = Bytes(1 << 20);
const HOUR: Duration = Duration::from_secs(3_600);
const START: u64 = 1 << 52;

fn by_token(name: &str, kind: Kind) -> Rule {
    let key = KeySpec::new([KeyPart::Query("t".into())], Some(Missing::Allow)).unwrap();
    Rule::new(name, key, kind, Mode::Enforce)
}

fn rate(burst: u32) -> Kind {
    Kind::Rate(kinds::Rate { rate: Rate::new(1, HOUR).unwrap(), burst, memory: MEMORY })
}

fn judge(engine: &Engine, query: &str, nanos: u64) -> (Evaluation, Holds) {
    let headers = head("203.0.113.9");
    let request = Request { query: Some(query), ..request(&headers) };
    let mut evaluation = engine.judge(&request, arrival(nanos));
    engine.enter_rate_at_once(&mut evaluation, arrival(nanos).at);
    engine.reserve_all(&mut evaluation);
    let now = evaluation.decision.goes_on();
    let (holds, _) = engine.admit(&mut evaluation, now);
    (evaluation, holds)
}

fn passes(engine: &Engine, query: &str) -> bool {
    judge(engine, query, START).0.decision.verdict == Verdict::Admitted
}

/// Kinds that promise three in an hour.
fn of_three() -> Vec<Rule> {
    let quota = |sliding| Kind::Quota(kinds::Quota { max: 3, window: HOUR.into(), sliding, memory: MEMORY });
    let average = Kind::RecentAverage(kinds::RecentAverage {
        // three and a half, as levels are rounded up
        rate: Rate::new(35, HOUR * 10).unwrap(),
        half_life: HOUR.mul_f64(std::f64::consts::LN_2),
        refused: RefusedCount::Admitted,
        memory: MEMORY,
    });
    vec![
        by_token("rate", rate(3)),
        by_token("quota", quota(false)),
        by_token("sliding", quota(true)),
        by_token("average", average),
    ]
}

/// A value as some client may write it.
fn spelled() -> impl Strategy<Value = (char, String)> {
    (select(&['a', 'b', 'c', 'd', 'e'][..]), 0..4_usize, any::<bool>()).prop_map(|(value, way, name)| {
        let value_sent = match way {
            0 | 1 => value.to_string(),
            2 => format!("%{:02x}", value as u32),
            _ => format!("%{:02X}", value as u32),
        };
        (value, format!("{}={value_sent}", if name { "t" } else { "%74" }))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The model: each value has a count of its own, a request passes if all its values have room, and then counts for each.
    #[test]
    fn each_value_keeps_its_own_promise_and_nobody_pays_for_another(
        requests in prop::collection::vec((prop::collection::vec(spelled(), 1..5), select(&["&", "&x=1&"][..])), 1..40),
    ) {
        for rule in of_three() {
            let name = rule.name.clone();
            let engine = book(vec![rule]);
            let mut spent: HashMap<char, u32> = HashMap::new();
            for (values, separator) in &requests {
                let query = values.iter().map(|(_, sent)| sent.as_str()).collect::<Vec<_>>().join(separator);
                let mut different: Vec<char> = values.iter().map(|(value, _)| *value).collect();
                different.sort_unstable();
                different.dedup();
                let fits = different.iter().all(|value| spent.get(value).is_none_or(|spent| *spent < 3));
                prop_assert_eq!(passes(&engine, &query), fits, "{}: {}", &name, query);
                if fits {
                    different.iter().for_each(|value| *spent.entry(*value).or_default() += 1);
                }
            }
        }
    }

    /// No reader of a query sees one value more often than it may, however requests are put together.
    #[test]
    fn no_application_finds_a_value_more_often_than_the_limit_says(
        requests in prop::collection::vec(prop::collection::vec((spelled(), select(&["&", ";", "&x=;", ";x=&"][..])), 1..4), 1..60),
    ) {
        let engine = book(vec![by_token("rate", rate(3))]);
        let mut seen: HashMap<(&str, String), u32> = HashMap::new();
        for pieces in &requests {
            let query: String = pieces.iter().map(|((_, sent), separator)| format!("{sent}{separator}")).collect();
            if !passes(&engine, &query) {
                continue;
            }
            let readers: [(&str, &[char], bool); 4] =
                [("first", &['&'], true), ("last", &['&'], false), ("first ;", &['&', ';'], true), ("last ;", &['&', ';'], false)];
            for (reader, separators, first) in readers {
                let decoded = |text: &str| text.replace("%74", "t");
                let values: Vec<String> = query
                    .split(separators)
                    .filter_map(|pair| pair.split_once('='))
                    .filter(|(name, _)| decoded(name) == "t")
                    .map(|(_, value)| (b'a'..=b'e').fold(value.to_owned(), |text, letter| {
                        text.replace(&format!("%{letter:02x}"), &char::from(letter).to_string())
                    }))
                    .collect();
                let read = if first { values.first() } else { values.last() };
                if let Some(value) = read {
                    let times = seen.entry((reader, value.clone())).or_default();
                    *times += 1;
                    prop_assert!(*times <= 3, "{} found {} for the {}th time in {}", reader, value, times, query);
                }
            }
        }
    }
}

#[test]
fn places_are_held_under_each_value_and_come_back() {
    let kind = Kind::Inflight(kinds::Inflight { max: 2, upgraded: 2, scope: Scope::Key { memory: MEMORY } });
    let engine = book(vec![by_token("places", kind)]);
    let (_, first) = judge(&engine, "t=a&t=b", START);
    let (_, second) = judge(&engine, "t=b&t=c", START);
    assert_eq!((first.len(), second.len()), (2, 2));
    for (query, fits) in [("t=b", false), ("t=d&t=b", false), ("t=d&t=e", true), ("t=a&t=c", true)] {
        let (evaluation, held) = judge(&engine, query, START);
        assert_eq!(evaluation.decision.verdict == Verdict::Admitted, fits, "{query}");
        assert_eq!(held.len(), if fits { 2 } else { 0 }, "{query}");
    }
    drop(first);
    assert!(passes(&engine, "t=b"));
    drop(second);
    let gauges = engine.limiter(0).unwrap().gauges(Timestamp::ZERO);
    assert_eq!(
        format!("{gauges:?}"),
        format!("{:?}", book_of_places().limiter(0).unwrap().gauges(Timestamp::ZERO)),
        "all came back"
    );
}

fn book_of_places() -> Engine {
    book(vec![by_token(
        "places",
        Kind::Inflight(kinds::Inflight { max: 2, upgraded: 2, scope: Scope::Key { memory: MEMORY } }),
    )])
}

#[test]
fn failures_count_for_each_value() {
    let failed = StatusSet::NONE.with(401, 401);
    let engine = book(vec![Rule { counted: Counted::Responses(failed), ..by_token("failures", rate(2)) }]);
    let attempt = |query: &str, status: u16| {
        let (evaluation, mut holds) = judge(&engine, query, START);
        engine.sent(&mut holds);
        let status = StatusCode::from_u16(status).unwrap();
        engine.answered(&evaluation, &mut holds, status, &HeaderMap::new(), Timestamp::from_nanos(START));
        evaluation.decision.verdict == Verdict::Admitted
    };
    assert!(attempt("t=a&t=b", 401) && attempt("t=b&t=c", 401) && attempt("t=c&t=a", 200));
    assert!(!attempt("t=b", 401), "b has failed twice");
    assert!(attempt("t=a", 401) && attempt("t=c", 401), "a and c once");
    assert!(!attempt("t=a", 200) && !attempt("t=c&t=d", 200));
    assert!(attempt("t=d", 401), "d was refused with c, and has not tried");
    // attempts under way count for each value too
    let (_, held) = judge(&engine, "t=e&t=f", START);
    let (_, more) = judge(&engine, "t=f&t=g", START);
    assert_eq!((held.len(), more.len()), (2, 2));
    assert!(!passes(&engine, "t=f") && passes(&engine, "t=g"));
}

#[test]
fn values_are_counted_for_each_key_and_each_value() {
    let of = KeySpec::new([KeyPart::Query("name".into())], Some(Missing::Allow)).unwrap();
    let kind = Kind::Distinct(kinds::Distinct {
        max: 2,
        window: HOUR,
        sliding: false,
        refused: RefusedCount::Admitted,
        memory: MEMORY,
    });
    let engine = book(vec![Rule { of: Some(of), ..by_token("names", kind) }]);
    assert!(passes(&engine, "t=a&name=1&name=2"));
    assert!(!passes(&engine, "t=a&name=3"), "both count");
    assert!(passes(&engine, "t=a&name=2") && passes(&engine, "t=a&name=%31&name=2"), "known ones do not");
    assert!(!passes(&engine, "t=b&t=a&name=3"));
    assert!(passes(&engine, "t=b&name=3&name=4"), "b was refused with a, and has none");
    assert!(!passes(&engine, "t=c&t=d&name=1&name=2&name=3"), "six pairs are too many");
}

#[test]
fn bytes_and_delays_are_charged_under_each_value() {
    let delayed = Rule { action: OnLimit::Delay { max: HOUR * 3 }, ..by_token("delayed", rate(1)) };
    let engine = book(vec![delayed]);
    let delay = |query: &str| judge(&engine, query, START).0.decision.delay_nanos / 1_000_000_000;
    assert_eq!([delay("t=a"), delay("t=a&t=b"), delay("t=b"), delay("t=c")], [0, 3_600, 7_200, 0]);
    let bytes = Rule { cost: CostRule::Bytes { unit: 1 }, ..by_token("bytes", rate(100)) };
    let engine = book(vec![bytes]);
    let (mut evaluation, _) = judge(&engine, "t=a&t=b", START);
    engine.carried(&mut evaluation, 200, Timestamp::from_nanos(START));
    assert!(!passes(&engine, "t=a") && !passes(&engine, "t=b") && passes(&engine, "t=c"));
}

#[test]
fn the_reading_is_of_the_value_that_the_limit_objects_to_most() {
    let engine = book(vec![by_token("rate", rate(5))]);
    (0..3).for_each(|_| assert!(passes(&engine, "t=a")));
    for query in ["t=a&t=b", "t=c&t=a"] {
        let reading = judge(&engine, query, START).0.decision.readings[0];
        assert_eq!((reading.outcome, reading.remaining), (Outcome::Admitted, if query == "t=a&t=b" { 1 } else { 0 }));
    }
    for query in ["t=a", "t=d&t=a", "t=a&t=d"] {
        let (evaluation, _) = judge(&engine, query, START);
        let alone = judge(&engine, "t=a", START).0;
        assert_eq!(evaluation.decision.readings[0], alone.decision.readings[0], "{query}");
        assert_eq!(evaluation.key(0), alone.key(0), "{query}");
    }
}

#[test]
fn too_many_values_are_refused_and_shadows_refuse_nobody() {
    let five = "t=1&t=2&t=3&t=4&t=5";
    let refused = |rule: Rule, query: &str| judge(&book(vec![rule]), query, START).0.decision.verdict;
    let enforced = by_token("rate", rate(3));
    assert_eq!(refused(enforced.clone(), five), Verdict::Refused(Refusal::AmbiguousValue));
    assert_eq!(refused(enforced.clone(), "t=1&t=2&t=3&t=4"), Verdict::Admitted);
    let part = Rule { enforced: Share::new(0.01).unwrap(), ..enforced.clone() };
    assert_eq!(refused(part, five), Verdict::Refused(Refusal::AmbiguousValue), "not to be escaped by five values");
    assert_eq!(refused(Rule { mode: Mode::Shadow, ..enforced.clone() }, five), Verdict::Admitted);
    // five limits with three further keys each are more than there is room for
    let many = (0..5).map(|number| Rule { name: format!("rate{number}"), ..enforced.clone() }).collect();
    assert_eq!(
        judge(&book(many), "t=1&t=2&t=3&t=4", START).0.decision.verdict,
        Verdict::Refused(Refusal::AmbiguousValue)
    );
    // a fair share weighs a request once
    let node = KeySpec::new([KeyPart::Query("t".into())], Some(Missing::Allow)).unwrap();
    let share = fair_share(1_000);
    let share = Rule { nodes: share.nodes.iter().take(2).cloned().chain([node]).collect(), ..share };
    let engine = book(vec![share]);
    assert_eq!(judge(&engine, "t=1&t=2", START).0.decision.verdict, Verdict::Refused(Refusal::AmbiguousValue));
    assert!(passes(&engine, "t=1&t=%31"));
    // a store is asked about one key of a request; gates that tell each other need not ask
    let stored = |sharing| gate(vec![shared(enforced.clone(), sharing, OnStoreError::Local)]);
    for sharing in [Sharing::Lease, Sharing::Exact] {
        assert_eq!(
            judge(&stored(sharing), "t=1&t=2", START).0.decision.verdict,
            Verdict::Refused(Refusal::AmbiguousValue)
        );
    }
    let told = stored(Sharing::Estimate);
    assert!((0..3).all(|_| passes(&told, "t=1&t=2")));
    assert!(!passes(&told, "t=2") && passes(&told, "t=3"));
}

#[test]
fn a_part_that_is_enforced_is_not_escaped_by_a_value_beside_it() {
    let half = Rule { enforced: Share::new(0.5).unwrap(), ..by_token("half", rate(1)) };
    let is_enforced = |value: u32| {
        let engine = book(vec![half.clone()]);
        let query = format!("t={value}");
        passes(&engine, &query) && !passes(&engine, &query)
    };
    let (inside, outside): (Vec<u32>, Vec<u32>) = (0..40).partition(|value| is_enforced(*value));
    assert!(inside.len() > 5 && outside.len() > 5);
    let engine = book(vec![half]);
    for (inside, outside) in inside.iter().zip(&outside) {
        for _ in 0..3 {
            passes(&engine, &format!("t={outside}&t={inside}"));
        }
        assert!(!passes(&engine, &format!("t={inside}")), "{inside} beside {outside}");
        assert!(passes(&engine, &format!("t={outside}")));
    }
}

#[test]
fn a_decision_about_several_values_allocates_nothing() {
    let kind = Kind::Inflight(kinds::Inflight { max: 50, upgraded: 50, scope: Scope::Key { memory: MEMORY } });
    let failed = StatusSet::NONE.with(401, 401);
    let cost = CostRule::Fixed(Cost::new(1).unwrap());
    let rules = [of_three(), vec![by_token("places", kind), Rule { cost, ..by_token("more", rate(50)) }]].concat();
    let rules =
        rules.into_iter().chain([Rule { counted: Counted::Responses(failed), ..by_token("failures", rate(50)) }]);
    let engine = book(rules.collect());
    let headers = head("203.0.113.9");
    let request = Request { query: Some("t=a&t=%62"), ..request(&headers) };
    let mut passed = 0;
    let measured = allocation_counter::measure(|| {
        for _ in 0..8 {
            let (decision, _held) = engine.decide(&request, arrival(START));
            passed += u32::from(decision.verdict == Verdict::Admitted);
        }
    });
    assert_eq!((passed, measured.count_total), (3, 0));
}
