//! Claims about the limit fields. Every field goes through an independent reader of structured fields.

mod kinds;

use crate::limiter::Scope;
use crate::policy::{CostRule, Rule};
use proptest::prelude::*;
use sfv::{BareItem, ListEntry, Parser, SerializeValue};

use super::super::sample::{SECOND, decision, lines, policy, rate};
use super::super::sample_kinds::{distinct, fair_share, inflight, inflight_per_key, quota, recent_average, shadow};
use super::*;
use crate::policy::Kind;
use crate::units::{Cost, Share};
use Outcome::{Admitted, Delayed, Exempt, Refused, Tagged};
use std::time::Duration;

/// The names of the limits that a refusal for a limit is due to, in the order in which they are told.
fn violated_names<'a>(refusal: Refusal, decision: &'a Decision, policy: &'a Policy) -> Vec<&'a str> {
    behind(refusal, decision, policy).iter().map(|line| line.name).collect()
}

fn responses() -> Responses {
    Responses::default()
}

/// What an answer of the only route tells.
fn told(policy: &Policy, decision: &Decision, status: u16, beside: &HeaderMap) -> Vec<String> {
    let fields = RouteFields::new(policy, policy.routes.route(0).unwrap());
    let status = StatusCode::from_u16(status).unwrap();
    lines(&fields.on_answer(decision, policy, status, beside, (0, &mut BytesMut::new())))
}

fn told_plainly(policy: &Policy, decision: &Decision) -> Vec<String> {
    told(policy, decision, 200, &HeaderMap::new())
}

fn beside(name: &'static str, value: &'static str) -> HeaderMap {
    [(HeaderName::from_static(name), HeaderValue::from_static(value))].into_iter().collect()
}

const LIMITED: Verdict = Verdict::Refused(Refusal::Limit);

#[test]
fn an_answer_tells_the_budget_and_what_is_left() {
    let policy = policy(vec![rate("login", 5, 60_000, 5)], responses());
    let admitted = decision(&policy, Verdict::Admitted, &[(Admitted, 4, Some(12 * SECOND))]);
    let expected = ["ratelimit-policy: \"login\";q=5;w=60", "ratelimit: \"login\";r=4;t=12"];
    assert_eq!(told_plainly(&policy, &admitted), expected);
    let full = decision(&policy, Verdict::Admitted, &[(Admitted, 5, None)]);
    assert_eq!(told_plainly(&policy, &full)[1], "ratelimit: \"login\";r=5");
}

#[test]
fn windows_are_rounded_up_and_left_out_below_a_second() {
    let window = |events, millis, burst| {
        let policy = policy(vec![rate("a", events, millis, burst)], responses());
        let admitted = decision(&policy, Verdict::Admitted, &[(Admitted, 1, None)]);
        told_plainly(&policy, &admitted)[0].strip_prefix("ratelimit-policy: \"a\";q=").unwrap().to_owned()
    };
    assert_eq!(window(40, 1_000, 100), "100;w=3");
    assert_eq!(window(10, 1_000, 10), "10;w=1");
    // an interval of whole nanoseconds would make it two seconds
    assert_eq!(window(3, 1_000, 3), "3;w=1");
    assert_eq!(window(50, 1_000, 25), "25");
    assert_eq!(window(1, 86_400_000, u32::MAX), format!("{};w=371085174288000", u32::MAX));
}

#[test]
fn a_quota_is_counted_in_requests_of_the_rules_cost() {
    let rule = Rule { cost: CostRule::Fixed(Cost::new(30).unwrap()), ..rate("upload", 100, 60_000, 100) };
    let policy = policy(vec![rule], responses());
    let admitted = decision(&policy, Verdict::Admitted, &[(Admitted, 2, Some(1))]);
    let expected = ["ratelimit-policy: \"upload\";q=3;w=60", "ratelimit: \"upload\";r=2;t=1"];
    assert_eq!(told_plainly(&policy, &admitted), expected);
}

#[test]
fn the_limit_that_is_nearest_to_its_end_is_told() {
    let rules = vec![rate("a", 100, 1_000, 100), rate("b", 10, 1_000, 10), rate("c", 10, 1_000, 10)];
    let readings = [(Admitted, 30, Some(1)), (Admitted, 2, Some(SECOND)), (Admitted, 2, Some(SECOND + 1))];
    let one = policy(rules.clone(), responses());
    let admitted = decision(&one, Verdict::Admitted, &readings);
    assert_eq!(told_plainly(&one, &admitted)[1], "ratelimit: \"c\";r=2;t=2");
    let all = policy(rules, Responses { report: Report::All, ..responses() });
    assert_eq!(
        told_plainly(&all, &admitted),
        [
            "ratelimit-policy: \"a\";q=100;w=1, \"b\";q=10;w=1, \"c\";q=10;w=1",
            "ratelimit: \"c\";r=2;t=2, \"b\";r=2;t=1, \"a\";r=30;t=1"
        ]
    );
}

#[test]
fn no_more_than_four_limits_are_told_of_an_admitted_request() {
    let rules = (0..8).map(|n| rate(&format!("r{n}"), 100, 1_000, 100)).collect();
    let policy = policy(rules, Responses { report: Report::All, ..responses() });
    let readings: Vec<_> = (0..8).map(|n| (Admitted, 10 + n, None)).collect();
    let admitted = decision(&policy, Verdict::Admitted, &readings);
    let expected = "ratelimit: \"r0\";r=10, \"r1\";r=11, \"r2\";r=12, \"r3\";r=13";
    assert_eq!(told_plainly(&policy, &admitted)[1], expected);
}

#[test]
fn a_refusal_tells_all_violated_limits_the_longest_wait_first() {
    let rules = vec![rate("a", 1, 1_000, 9), rate("b", 1, 60_000, 5), rate("c", 1, 1_000, 9), rate("d", 1, 1_000, 9)];
    let policy = policy(rules, responses());
    let readings = [
        (Refused, 0, Some(SECOND / 2)),
        (Refused, 0, Some(59 * SECOND + 1)),
        (Admitted, 3, Some(99 * SECOND)),
        (Refused, 0, Some(3 * SECOND)),
    ];
    let refused = decision(&policy, LIMITED, &readings);
    let expected = "ratelimit: \"b\";r=0;t=60, \"d\";r=0;t=3, \"a\";r=0;t=1";
    assert_eq!(told(&policy, &refused, 429, &HeaderMap::new())[1], expected);
    assert_eq!(retry_after_seconds(Refusal::Limit, &refused, &policy), Some(60));
    assert_eq!(violated_names(Refusal::Limit, &refused, &policy).as_slice(), ["b", "d", "a"]);
}

#[test]
fn shadow_rules_and_caps_never_show() {
    let rules = vec![shadow(rate("secret", 1, 1_000, 1)), inflight("full"), rate("open", 1, 1_000, 9)];
    let policy = policy(rules, Responses { report: Report::All, ..responses() });
    let readings = [(Refused, 0, Some(60 * SECOND)), (Refused, 0, None), (Refused, 0, Some(2 * SECOND))];
    for verdict in [Verdict::Admitted, LIMITED, Verdict::Refused(Refusal::Inflight)] {
        let decided = decision(&policy, verdict, &readings);
        assert!(!told_plainly(&policy, &decided).concat().contains("secret"));
        assert!(!told_plainly(&policy, &decided).concat().contains("full"));
    }
    let refused = decision(&policy, LIMITED, &readings);
    assert_eq!(retry_after_seconds(Refusal::Limit, &refused, &policy), Some(2));
    assert_eq!(violated_names(Refusal::Limit, &refused, &policy).as_slice(), ["open"]);
}

#[test]
fn a_refusal_for_want_of_room_tells_no_remainder() {
    let policy = policy(vec![rate("a", 1, 1_000, 9), inflight("full")], responses());
    let readings = [(Admitted, 3, Some(1)), (Refused, 0, None)];
    let fields = RouteFields::new(&policy, policy.routes.route(0).unwrap());
    // the origin's cap is met after the decision has admitted
    let decided = decision(&policy, Verdict::Admitted, &readings);
    for refusal in [Refusal::OriginFull, Refusal::Inflight, Refusal::FairShare, Refusal::KeyMissing] {
        assert_eq!(lines(&fields.on_refusal(refusal, &decided, &policy, 0)), ["ratelimit-policy: \"a\";q=9;w=9"]);
    }
}

#[test]
fn an_exempt_request_has_no_remainder() {
    let policy = policy(vec![rate("a", 1, 1_000, 9)], responses());
    let exempt = decision(&policy, Verdict::Admitted, &[(Exempt, 9, None)]);
    assert_eq!(told_plainly(&policy, &exempt), ["ratelimit-policy: \"a\";q=9;w=9"]);
}

#[test]
fn redirects_tell_no_remainder_and_interim_answers_nothing() {
    let policy = policy(vec![rate("a", 1, 1_000, 9)], responses());
    let admitted = decision(&policy, Verdict::Admitted, &[(Admitted, 0, Some(1))]);
    for status in [301, 302, 304, 307, 308] {
        assert_eq!(told(&policy, &admitted, status, &HeaderMap::new()), ["ratelimit-policy: \"a\";q=9;w=9"]);
    }
    for status in [100, 101, 103] {
        assert!(told(&policy, &admitted, status, &HeaderMap::new()).is_empty());
    }
}

#[test]
fn the_origins_limits_stay_and_ours_step_aside_for_equal_names() {
    let policy = policy(vec![rate("login", 1, 1_000, 9)], responses());
    let admitted = decision(&policy, Verdict::Admitted, &[(Admitted, 3, None)]);
    let plain = ["ratelimit-policy: \"login\";q=9;w=9", "ratelimit: \"login\";r=3"];
    let apart = ["ratelimit-policy: \"edge.login\";q=9;w=9", "ratelimit: \"edge.login\";r=3"];
    assert_eq!(told(&policy, &admitted, 200, &beside("ratelimit", "\"other\";r=1, \"login2\";r=1")), plain);
    assert_eq!(told(&policy, &admitted, 200, &beside("ratelimit", "\"other\";r=1, \"login\";r=1")), apart);
    assert_eq!(told(&policy, &admitted, 200, &beside("ratelimit-policy", "\"login\";q=1")), apart);
    let both = beside("ratelimit", "\"login\";r=1, \"edge.login\";r=1");
    assert!(told(&policy, &admitted, 200, &both).is_empty());
}

#[test]
fn older_spellings_tell_one_limit_and_yield_to_the_origins() {
    // throttlekit's vectors: a reset at 30 s, read at 0 s and at 28.5 s, and one that has passed
    let style = |fields| policy(vec![rate("a", 1, 1_000, 30)], Responses { fields, ..responses() });
    let at = |policy: &Policy, reset: Option<u64>, wall: u64, beside: &HeaderMap| {
        let admitted = decision(policy, Verdict::Admitted, &[(Admitted, 7, reset)]);
        let fields = RouteFields::new(policy, policy.routes.route(0).unwrap());
        lines(&fields.on_answer(&admitted, policy, StatusCode::OK, beside, (wall, &mut BytesMut::new())))
    };
    let none = HeaderMap::new();
    let triple = style(FieldStyle::Triple);
    let resets = |reset| format!("ratelimit-reset: {reset}");
    assert_eq!(at(&triple, Some(30 * SECOND), 0, &none)[..2], ["ratelimit-limit: 30", "ratelimit-remaining: 7"]);
    assert_eq!(at(&triple, Some(30 * SECOND), 0, &none)[2], resets(30));
    assert_eq!(at(&triple, Some(3 * SECOND / 2), 57 * SECOND / 2, &none)[2], resets(2));
    assert_eq!(at(&triple, Some(0), 31 * SECOND, &none)[2], resets(0));
    assert_eq!(at(&triple, None, 31 * SECOND, &none)[2], resets(0));
    let legacy = style(FieldStyle::Legacy);
    assert_eq!(at(&legacy, Some(30 * SECOND), 0, &none)[2], "x-ratelimit-reset: 30");
    assert_eq!(at(&legacy, Some(3 * SECOND / 2), 57 * SECOND / 2, &none)[2], "x-ratelimit-reset: 30");
    assert_eq!(at(&legacy, None, 31 * SECOND, &none)[2], "x-ratelimit-reset: 31");
    assert!(at(&legacy, None, 0, &beside("x-ratelimit-remaining", "1")).is_empty());
    assert_eq!(at(&legacy, None, 0, &beside("ratelimit-remaining", "1")).len(), 3);
    assert!(at(&style(FieldStyle::Off), None, 0, &none).is_empty());
}

#[test]
fn scripts_of_other_sites_see_what_is_told_if_the_operator_wants() {
    let with = |fields| {
        let policy = policy(vec![rate("a", 1, 1_000, 9)], Responses { fields, expose: true, ..responses() });
        let admitted = decision(&policy, Verdict::Admitted, &[(Admitted, 3, None)]);
        let fields = RouteFields::new(&policy, policy.routes.route(0).unwrap());
        let refusal = lines(&fields.on_refusal(Refusal::Limit, &admitted, &policy, 0));
        (told_plainly(&policy, &admitted).pop(), refusal.last().cloned())
    };
    let list = |names: &str| Some(format!("access-control-expose-headers: {names}"));
    let draft = list("RateLimit, RateLimit-Policy, Retry-After");
    assert_eq!(with(FieldStyle::Draft), (draft.clone(), draft));
    let triple = list("RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After");
    assert_eq!(with(FieldStyle::Triple).0, triple);
    let legacy = list("X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After");
    assert_eq!(with(FieldStyle::Legacy).0, legacy);
    assert_eq!(with(FieldStyle::Off), (None, list("Retry-After")));
}

#[test]
fn a_wait_is_rounded_up_and_never_none_or_now() {
    // throttlekit's vectors: 2400 ms, 1 ms, nothing
    let policy = policy(vec![rate("a", 1, 1_000, 9)], responses());
    let wait = |nanos| {
        let refused = decision(&policy, LIMITED, &[(Refused, 0, nanos)]);
        retry_after_seconds(Refusal::Limit, &refused, &policy)
    };
    assert_eq!(wait(Some(2_400_000_000)), Some(3));
    assert_eq!(wait(Some(1_000_000)), Some(1));
    assert_eq!(wait(Some(0)), Some(1));
    assert_eq!(wait(Some(u64::MAX)), Some(u64::MAX.div_ceil(SECOND)));
    assert_eq!(wait(None), None);
}

#[test]
fn a_limit_that_no_wait_satisfies_leaves_no_promise() {
    let policy = policy(vec![rate("a", 1, 1_000, 9), rate("b", 1, 1_000, 9)], responses());
    let refused = decision(&policy, LIMITED, &[(Refused, 0, Some(1)), (Refused, 0, None)]);
    assert_eq!(retry_after_seconds(Refusal::Limit, &refused, &policy), None);
    let expected = "ratelimit: \"b\";r=0, \"a\";r=0;t=1";
    assert_eq!(told(&policy, &refused, 429, &HeaderMap::new())[1], expected);
}

#[test]
fn want_of_room_promises_nothing_but_soon() {
    let policy = policy(Vec::new(), responses());
    for refusal in [Refusal::Inflight, Refusal::OriginFull, Refusal::Concurrency, Refusal::FairShare] {
        let wait = |dice| {
            let refused = Decision { dice, ..decision(&policy, Verdict::Refused(refusal), &[]) };
            retry_after_seconds(refusal, &refused, &policy)
        };
        assert_eq!((wait(0), wait(u64::MAX / 2), wait(u64::MAX)), (Some(1), Some(1), Some(2)));
    }
    for refusal in [
        Refusal::KeyMissing,
        Refusal::NoRoute,
        Refusal::ClientUnresolved,
        Refusal::ValueTooLong,
        Refusal::Banned,
        Refusal::Denied,
    ] {
        let refused = decision(&policy, Verdict::Refused(refusal), &[]);
        assert_eq!(retry_after_seconds(refusal, &refused, &policy), None);
    }
    assert_eq!(soon_seconds(u64::MAX, &Responses { retry_jitter: Share::new(0.0).unwrap(), ..responses() }), 1);
}

#[test]
fn fields_cost_no_allocation_on_an_admitted_answer() {
    let rules = vec![rate("a", 100, 1_000, 100), rate("b", 10, 1_000, 10)];
    let policy = policy(rules, Responses { report: Report::All, ..responses() });
    let admitted = decision(&policy, Verdict::Admitted, &[(Admitted, 30, Some(1)), (Admitted, 2, Some(SECOND))]);
    let fields = RouteFields::new(&policy, policy.routes.route(0).unwrap());
    let none = HeaderMap::new();
    // the prepared value begins to be shared with its first copy, as does the memory
    let mut memory = BytesMut::with_capacity(1024);
    let mut tell = || fields.on_answer(&admitted, &policy, StatusCode::OK, &none, (0, &mut memory));
    let mut told = tell();
    let counted = allocation_counter::measure(|| told = tell());
    assert_eq!((counted.count_total, told.len()), (0, 2));
}

fn any_reading() -> impl Strategy<Value = (Outcome, u32, Option<u64>)> {
    let nanos = prop::option::of(prop_oneof![any::<u64>(), 0..100 * SECOND]);
    (proptest::sample::select(&Outcome::ALL[..]), any::<u32>(), nanos)
}

fn any_rule() -> impl Strategy<Value = Rule> {
    ("[A-Za-z0-9_.-]{1,64}", 1..1_000_u32, 100..100_000_u64, 1..u32::MAX, 0..10, any::<u32>()).prop_map(
        |(name, events, millis, most, kind, unit)| {
            let span = Duration::from_millis(millis);
            match kind {
                0 => shadow(rate(&name, events, millis, most)),
                1 => inflight(&name),
                2 => fair_share(&name),
                3 => quota(&name, most, span),
                4 => distinct(&name, most, span),
                5 => recent_average(&name, events, millis, span),
                6 => inflight_per_key(&name, most),
                7 => Rule { cost: CostRule::Bytes { unit }, ..rate(&name, events, millis, most) },
                _ => rate(&name, events, millis, most),
            }
        },
    )
}

fn any_decided() -> impl Strategy<Value = (Policy, Decision)> {
    let rules = prop::collection::vec((any_rule(), any_reading()), 0..=Route::MAX_RULES);
    let verdict = prop_oneof![Just(Verdict::Admitted), Just(LIMITED), Just(Verdict::Refused(Refusal::Inflight))];
    let report = prop_oneof![Just(Report::All), Just(Report::Nearest)];
    (rules, verdict, report, any::<u64>(), 0.0..=1.0).prop_map(|(rules, verdict, report, dice, share)| {
        let (rules, readings): (Vec<_>, Vec<_>) = rules.into_iter().unzip();
        let retry_jitter = Share::new(share).unwrap();
        let policy = policy(rules, Responses { report, retry_jitter, ..responses() });
        let decided = Decision { dice, ..decision(&policy, verdict, &readings) };
        (policy, decided)
    })
}

/// A member of a field: name, and its parameters, texts as they stand.
type Member = (String, Vec<(String, Result<i64, String>)>);

/// The members of a field.
fn members(value: &str) -> Vec<Member> {
    let list = Parser::parse_list(value.as_bytes()).unwrap();
    assert_eq!(list.serialize_value().unwrap(), value);
    let member = |entry: &ListEntry| {
        let ListEntry::Item(item) = entry else { panic!("{value} holds an inner list") };
        let parameter = |value: &BareItem| value.as_int().ok_or_else(|| value.as_str().unwrap().to_owned());
        let parameters = item.params.iter().map(|(key, value)| (key.clone(), parameter(value)));
        (item.bare_item.as_str().unwrap().to_owned(), parameters.collect())
    };
    list.iter().map(member).collect()
}

fn is_told(rule: &Rule) -> bool {
    let full = matches!(
        rule.kind,
        Kind::FairShare(..) | Kind::Inflight(crate::policy::kinds::Inflight { scope: Scope::Global, .. })
    );
    rule.mode == Mode::Enforce && !full
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_field_is_well_formed_and_says_what_the_draft_allows((policy, decided) in any_decided()) {
        for line in told_plainly(&policy, &decided) {
            let (field, value) = line.split_once(": ").unwrap();
            let allowed: &[&[&str]] = match field {
                "ratelimit-policy" => &[&["q"], &["q", "w"], &["q", "qu"], &["q", "qu", "w"]],
                "ratelimit" => &[&["r"], &["r", "t"]],
                other => panic!("{other} was not asked for"),
            };
            for (name, parameters) in members(value) {
                prop_assert!(policy.rules.iter().any(|rule| rule.name == name && is_told(rule)), "{name} is told");
                let keys: Vec<&str> = parameters.iter().map(|(key, _)| key.as_str()).collect();
                prop_assert!(allowed.contains(&keys.as_slice()), "{line}");
                for (key, value) in parameters {
                    match value {
                        Ok(number) => prop_assert!(key != "qu" && number >= i64::from(key == "w"), "{line}"),
                        Err(text) => prop_assert!(["content-bytes", "concurrent-requests"].contains(&text.as_str())),
                    }
                }
            }
        }
    }

    #[test]
    fn a_wait_is_never_shorter_than_what_is_told_and_hardly_longer((policy, decided) in any_decided()) {
        let decided = Decision { verdict: LIMITED, ..decided };
        let is_budget = |rule: &Rule| is_told(rule) && !matches!(rule.kind, Kind::Inflight(..));
        let violated = decided.violated().filter(|reading| is_budget(&policy.rules[reading.rule]));
        let waits: Vec<_> = violated.map(|reading| reading.retry_nanos).collect();
        let wait = retry_after_seconds(Refusal::Limit, &decided, &policy);
        prop_assert_eq!(wait.is_none(), waits.contains(&None));
        if waits.is_empty() {
            prop_assert!(matches!(wait, Some(1 | 2)));
        } else if let Some(wait) = wait {
            let longest = waits.into_iter().flatten().max().unwrap_or(0);
            let share = policy.responses.retry_jitter.get();
            // the share is a float; a millionth of a wait is allowed for its rounding
            let most = (longest as f64 * (1.0 + share) * (1.0 + 1e-6) / 1e9).ceil().max(1.0);
            prop_assert!(wait >= ceil_seconds(longest).max(1));
            prop_assert!(wait <= ceil_seconds(longest).max(1) + 5 && wait as f64 <= most);
            for line in told(&policy, &decided, 429, &HeaderMap::new()) {
                let Some(limits) = line.strip_prefix("ratelimit: ") else { continue };
                for (_, parameters) in members(limits) {
                    let reset = parameters.iter().find(|(key, _)| key == "t").map_or(&Ok(0), |(_, reset)| reset);
                    prop_assert!(*reset.as_ref().unwrap() as u64 <= wait);
                }
            }
        }
    }
}
