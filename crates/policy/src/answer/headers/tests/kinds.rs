//! What is told of each kind of limit, in tiers, and of limits that hold for some clients only.

use super::super::super::sample::policy_with;
use super::*;
use crate::engine::{NoPlace, NoPlaceReason, Scarce};
use crate::policy::{Condition, Tier};

fn told_of(rule: Rule, reading: (Outcome, u32, Option<u64>)) -> Vec<String> {
    let policy = policy(vec![rule], responses());
    let verdict = if reading.0 == Refused { LIMITED } else { Verdict::Admitted };
    told_plainly(&policy, &decision(&policy, verdict, &[reading]))
}

const HOUR: Duration = Duration::from_secs(3_600);

fn bytes(rule: Rule) -> Rule {
    Rule { cost: CostRule::Bytes { unit: 4_096 }, ..rule }
}

#[test]
fn every_kind_tells_its_own_quota_and_window() {
    let ten_seconds = Duration::from_secs(10);
    let table = [
        (quota("a", 5_000, HOUR), "q=5000;w=3600"),
        (quota("a", 7, Duration::from_millis(1_500)), "q=7;w=2"),
        (recent_average("a", 10, 1_000, ten_seconds), "q=100;w=10"),
        // what an average lets through in its half-life: rounded down, but one request always fits
        (recent_average("a", 3, 2_000, Duration::from_millis(500)), "q=1;w=1"),
        (recent_average("a", 1, 3_600_000, ten_seconds), "q=1;w=10"),
        (distinct("a", 20, HOUR), "q=20;w=3600"),
        (distinct("a", 20, Duration::from_millis(999)), "q=20"),
        (inflight_per_key("a", 8), "q=8;qu=\"concurrent-requests\""),
        (bytes(rate("a", 5_120, 1_000, 10_240)), "q=41943040;qu=\"content-bytes\";w=2"),
        (bytes(quota("a", 1_000, HOUR)), "q=4096000;qu=\"content-bytes\";w=3600"),
        (Rule { cost: CostRule::Fixed(Cost::new(3).unwrap()), ..quota("a", 100, HOUR) }, "q=33;w=3600"),
    ];
    for (rule, expected) in table {
        let told = told_of(rule.clone(), (Admitted, 1, None));
        assert_eq!(told[0], format!("ratelimit-policy: \"a\";{expected}"), "{:?}", rule.kind);
    }
}

#[test]
fn a_remainder_is_in_the_unit_of_its_quota_and_never_more() {
    let limit = |rule, reading| told_of(rule, reading)[1].strip_prefix("ratelimit: \"a\";").unwrap().to_owned();
    assert_eq!(limit(quota("a", 5_000, HOUR), (Admitted, 4_321, Some(77 * SECOND))), "r=4321;t=77");
    assert_eq!(limit(bytes(rate("a", 5_120, 1_000, 10_240)), (Admitted, 100, Some(1))), "r=409600;t=1");
    // an average takes more at once than it lets through in a half-life
    assert_eq!(limit(recent_average("a", 10, 1_000, Duration::from_secs(10)), (Admitted, 143, None)), "r=100");
    assert_eq!(limit(inflight_per_key("a", 8), (Admitted, 5, Some(9 * SECOND))), "r=5");
    assert_eq!(limit(distinct("a", 20, HOUR), (Refused, 0, Some(60 * SECOND))), "r=0;t=60");
}

#[test]
fn a_request_that_waited_is_admitted_and_one_that_was_marked_has_nothing_left() {
    let delayed = told_of(rate("a", 1, 1_000, 9), (Delayed, 2, Some(SECOND)));
    assert_eq!(delayed[1], "ratelimit: \"a\";r=2;t=1");
    let policy = policy(vec![rate("a", 1, 1_000, 9), rate("b", 1, 1_000, 9)], responses());
    let mut tagged = decision(&policy, Verdict::Admitted, &[(Admitted, 1, None), (Tagged, 5, None)]);
    tagged.readings[1].retry_nanos = Some(3 * SECOND);
    assert_eq!(told_plainly(&policy, &tagged)[1], "ratelimit: \"b\";r=0;t=3");
    assert!(violated_names(Refusal::Limit, &tagged, &policy).is_empty());
}

#[test]
fn too_many_at_once_is_told_without_a_time() {
    let policy = policy(vec![inflight_per_key("streams", 8), rate("a", 1, 1_000, 9)], responses());
    let concurrency = Verdict::Refused(Refusal::Concurrency);
    let refused = decision(&policy, concurrency, &[(Refused, 0, None), (Admitted, 3, Some(1))]);
    assert_eq!(
        told(&policy, &refused, 429, &HeaderMap::new()),
        ["ratelimit-policy: \"streams\";q=8;qu=\"concurrent-requests\", \"a\";q=9;w=9", "ratelimit: \"streams\";r=0"]
    );
    assert_eq!(retry_after_seconds(Refusal::Concurrency, &refused, &policy), Some(1));
    assert_eq!(violated_names(Refusal::Concurrency, &refused, &policy).as_slice(), ["streams"]);
    // beside a spent budget it does not hide for how long that is spent
    let both = decision(&policy, LIMITED, &[(Refused, 0, None), (Refused, 0, Some(7 * SECOND))]);
    assert_eq!(told(&policy, &both, 429, &HeaderMap::new())[1], "ratelimit: \"a\";r=0;t=7, \"streams\";r=0");
    assert_eq!(retry_after_seconds(Refusal::Limit, &both, &policy), Some(7));
}

#[test]
fn a_penalty_tells_the_longest_wait() {
    let policy = policy(vec![recent_average("a", 1, 1_000, HOUR), rate("b", 1, 1_000, 9)], responses());
    let penalty = Verdict::Refused(Refusal::Penalty);
    let refused = decision(&policy, penalty, &[(Refused, 0, Some(6 * 3_600 * SECOND)), (Refused, 0, Some(SECOND))]);
    assert_eq!(told(&policy, &refused, 429, &HeaderMap::new())[1], "ratelimit: \"a\";r=0;t=21600, \"b\";r=0;t=1");
    assert_eq!(retry_after_seconds(Refusal::Penalty, &refused, &policy), Some(21_600));
}

#[test]
fn a_share_is_never_told_but_the_round_of_its_queue() {
    let policy = policy(vec![fair_share("fair"), rate("a", 1, 1_000, 9)], responses());
    let wait = |round: Option<u32>| {
        let verdict = Verdict::Refused(Refusal::FairShare);
        let refused = decision(&policy, verdict, &[(Refused, 0, None), (Admitted, 3, Some(99 * SECOND))]);
        let refused = Decision { no_place: round.map(queue_with_round), ..refused };
        assert_eq!(told(&policy, &refused, 503, &HeaderMap::new()), ["ratelimit-policy: \"a\";q=9;w=9"]);
        retry_after_seconds(Refusal::FairShare, &refused, &policy)
    };
    assert_eq!((wait(None), wait(Some(2_001)), wait(Some(1))), (Some(1), Some(3), Some(1)));
}

/// A full queue of which all are served in so many milliseconds.
fn queue_with_round(round: u32) -> NoPlace {
    NoPlace {
        reason: NoPlaceReason::RatePushedOut,
        of: Scarce::Units { capacity: 10_000, tokens: 0, kept: 20_000, reserved: 0 },
        waiting: 65,
        level: 0,
        own_waiting: 60,
        own_used: 10_000,
        share: 1,
        score: 10_000,
        next: 0,
        half_life: 1_000,
        round,
        tier: 0,
        ahead: 0,
        heaviest: [None; 3],
    }
}

#[test]
fn older_spellings_have_no_word_for_bytes_or_for_requests_at_once() {
    let rules = vec![inflight_per_key("a", 8), bytes(rate("b", 1, 1_000, 9)), rate("c", 1, 1_000, 9)];
    let policy = policy(rules, Responses { fields: FieldStyle::Triple, report: Report::All, ..responses() });
    let admitted =
        decision(&policy, Verdict::Admitted, &[(Admitted, 0, None), (Admitted, 1, None), (Admitted, 5, None)]);
    assert_eq!(told_plainly(&policy, &admitted)[..2], ["ratelimit-limit: 9", "ratelimit-remaining: 5"]);
}

/// A limit with a tier of its own for some, and one that exempts.
fn tiered(name: &str) -> Rule {
    let tier = |kind| Tier { when: Condition::default(), kind };
    let rule = rate(name, 5, 60_000, 5);
    Rule { tiers: vec![tier(Some(rate("", 50, 60_000, 50).kind)), tier(None)], ..rule }
}

#[test]
fn a_request_in_a_tier_is_told_the_tiers_numbers() {
    let policy = policy(vec![tiered("login"), rate("b", 1, 1_000, 90)], responses());
    let mut admitted = decision(&policy, Verdict::Admitted, &[(Admitted, 3, None), (Admitted, 80, None)]);
    let ordinary = ["ratelimit-policy: \"login\";q=5;w=60, \"b\";q=90;w=90", "ratelimit: \"login\";r=3"];
    assert_eq!(told_plainly(&policy, &admitted), ordinary);
    admitted.readings[0].tier = 1;
    let paying = ["ratelimit-policy: \"login\";q=50;w=60, \"b\";q=90;w=90", "ratelimit: \"login\";r=3"];
    assert_eq!(told_plainly(&policy, &admitted), paying);
    let apart = told(&policy, &admitted, 200, &beside("ratelimit", "\"login\";r=1"));
    assert_eq!(apart[0], "ratelimit-policy: \"edge.login\";q=50;w=60, \"edge.b\";q=90;w=90");
}

#[test]
fn a_limit_for_a_part_of_its_keys_shows_to_those_only() {
    let partial = Rule { enforced: Share::new(0.25).unwrap(), ..rate("trial", 1, 1_000, 9) };
    let policy = policy(vec![partial, rate("b", 1, 1_000, 90)], responses());
    let readings = [(Refused, 0, Some(SECOND)), (Admitted, 80, None)];
    let mut inside = decision(&policy, LIMITED, &readings);
    let both = ["ratelimit-policy: \"trial\";q=9;w=9, \"b\";q=90;w=90", "ratelimit: \"trial\";r=0;t=1"];
    assert_eq!(told(&policy, &inside, 429, &HeaderMap::new()), both);
    inside.verdict = Verdict::Admitted;
    inside.readings[0].mode = Mode::Shadow;
    let other = ["ratelimit-policy: \"b\";q=90;w=90", "ratelimit: \"b\";r=80"];
    assert_eq!(told_plainly(&policy, &inside), other);
    // who is exempt, or lacks the key, or has no readings at all, has not been found to be in it
    let exempt = decision(&policy, Verdict::Admitted, &[(Exempt, 0, None), (Admitted, 80, None)]);
    assert_eq!(told_plainly(&policy, &exempt), other);
    let unresolved = decision(&policy, Verdict::Refused(Refusal::ClientUnresolved), &[]);
    assert_eq!(told_plainly(&policy, &unresolved), other[..1]);
}

#[test]
fn a_limit_that_takes_anothers_place_tells_its_own_promise() {
    let by_key = Rule { instead: Some(1), ..rate("by_key", 1, 1_000, 900) };
    let policy = policy_with(vec![by_key, rate("by_address", 1, 1_000, 9)], vec![0], responses());
    let mut keyed = decision(&policy, Verdict::Admitted, &[(Admitted, 3, None)]);
    assert_eq!(told_plainly(&policy, &keyed)[0], "ratelimit-policy: \"by_key\";q=900;w=900");
    keyed.readings[0].rule = 1;
    assert_eq!(
        told_plainly(&policy, &keyed),
        ["ratelimit-policy: \"by_address\";q=9;w=9", "ratelimit: \"by_address\";r=3"]
    );
}

#[test]
fn more_ways_than_are_prepared_are_told_all_the_same() {
    let policy = policy((0..8).map(|n| tiered(&format!("r{n}"))).collect(), responses());
    let mut admitted = decision(&policy, Verdict::Admitted, &[(Admitted, 3, None); 8]);
    for number in 0..256_usize {
        for (bit, reading) in admitted.readings.iter_mut().enumerate() {
            reading.tier = (number >> bit & 1) as u8;
        }
        let quota = |bit: usize| if number >> bit & 1 == 1 { 50 } else { 5 };
        let expected: Vec<String> = (0..8).map(|n| format!("\"r{n}\";q={};w=60", quota(n))).collect();
        assert_eq!(told_plainly(&policy, &admitted)[0], format!("ratelimit-policy: {}", expected.join(", ")));
    }
}

#[test]
fn the_longest_names_and_numbers_fit_into_one_field() {
    let rule = |n: u32| Rule {
        cost: CostRule::Bytes { unit: u32::MAX },
        ..rate(&n.to_string().repeat(64), 1, 1_000, u32::MAX)
    };
    let policy = policy((0..8).map(rule).collect(), Responses { report: Report::All, ..responses() });
    let refused = decision(&policy, LIMITED, &[(Refused, u32::MAX, Some(u64::MAX)); 8]);
    let told = told(
        &policy,
        &refused,
        429,
        &beside("ratelimit", "\"0000000000000000000000000000000000000000000000000000000000000000\""),
    );
    assert_eq!(told.len(), 2, "{told:?}");
}

#[test]
fn no_prepared_line_is_written_for_an_admitted_request() {
    let partial = Rule { enforced: Share::new(0.5).unwrap(), ..rate("trial", 1, 1_000, 9) };
    let policy = policy(vec![tiered("login"), partial], responses());
    let fields = RouteFields::new(&policy, policy.routes.route(0).unwrap());
    let mut admitted = decision(&policy, Verdict::Admitted, &[(Admitted, 3, None), (Admitted, 8, None)]);
    let none = HeaderMap::new();
    for (tier, mode) in [(0, Mode::Enforce), (1, Mode::Enforce), (1, Mode::Shadow)] {
        (admitted.readings[0].tier, admitted.readings[1].mode) = (tier, mode);
        // the prepared value begins to be shared with its first copy, as does the memory
        let mut memory = BytesMut::with_capacity(1024);
        let mut tell = || fields.on_answer(&admitted, &policy, StatusCode::OK, &none, (0, &mut memory));
        let mut told = tell();
        let counted = allocation_counter::measure(|| told = tell());
        assert_eq!((counted.count_total, told.len()), (0, 2), "only what is left is written, to memory that is there");
    }
}
