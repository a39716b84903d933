//! A client over its own limit is refused by that limit, also while `fair_share` holds it below; and no refused request is charged.
//!
//! Three engines are asked the same: one with the limit and a fair share, one with the limit alone, and one with the limit alone that is
//! asked only what the fair share did not refuse.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Method};
use proptest::prelude::*;
use tidegate_limits::limiter::{Kind, RefusedCount, kinds as of_kind};
use tidegate_limits::units::{Bytes, Prefix, Rate};
use tidegate_policy::client::key::{KeyPart, KeySpec, Missing};
use tidegate_policy::engine::{Arrival, DecidedBy, Decision, DecisionId, Engine, Outcome, Refusal, Verdict};
use tidegate_policy::policy::{Condition, Mode, OnLimit, Policy, Rule, Tier};
use tidegate_policy::request::Request;

use crate::book::{arrival, ask, book, by_client, by_header, fair_share, head, inflight_by_client, rate, request};
use crate::kinds::{START, kinds, nth};

const SECOND: u64 = 1_000_000_000;
/// After it nothing is remembered that a limit does not hold by its own promise.
const PAUSE: u64 = 70 * SECOND;
/// A refused client that asks for nothing for so long may come again with the same requests, which are counted once.
const WAITED: u64 = 750_000_000;
const METHODS: [Method; 3] = [Method::GET, Method::POST, Method::PUT];

/// Every kind of the list that refuses by a client's own key, and a rate in all the ways in which a limit can be a client's own.
fn own_limits() -> Vec<Rule> {
    let plain = || rate("own", 4, 5, Mode::Enforce);
    let networks = vec![Prefix::new("203.0.113.0".parse().unwrap(), 24).unwrap()];
    let when = Condition { networks, ..Condition::default() };
    let tier = |per_second| rate("tier", per_second, per_second, Mode::Enforce).kind;
    let parts = [KeyPart::CLIENT_IP, KeyPart::Path];
    let mut rules: Vec<_> = kinds().into_iter().map(|(rule, _)| rule).filter(|rule| !rule.kind.has_nodes()).collect();
    rules.push(Rule { tiers: vec![Tier { when: when.clone(), kind: Some(tier(2)) }], ..plain() });
    rules.push(Rule { tiers: vec![Tier { when, kind: Some(tier(9)) }], ..plain() });
    rules.push(by_header(plain(), Missing::Deny));
    rules.push(Rule { key: KeySpec::new(parts, None).unwrap(), ..plain() });
    rules.push(Rule { action: OnLimit::Close, ..plain() });
    rules.push(Rule { action: OnLimit::Delay { max: Duration::from_millis(600) }, ..plain() });
    rules
}

/// One client's nth request, told apart by all that keys are made of.
fn decide(engine: &Engine, client: usize, n: usize, cost: usize, at: u64) -> Decision {
    let mut headers = nth(n);
    headers.insert("x-forwarded-for", HeaderValue::from_str(&format!("203.0.113.{client}")).unwrap());
    headers.insert("x-api-key", HeaderValue::from(client));
    let dice = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let arrival = Arrival { dice, ..arrival(at) };
    engine.decide(&Request { method: &METHODS[cost - 1], ..request(&headers) }, arrival).0
}

/// Many others ask at once, until the fair share refuses: from then on all that is asked for is counted.
fn press(engine: &Engine) {
    for n in 0..200 {
        let mut headers = head(&format!("10.{n}.0.1"));
        headers.insert("x-api-key", HeaderValue::from_str(&format!("other{n}")).unwrap());
        headers.insert("x-name", HeaderValue::from_static("x"));
        let arrival = Arrival { id: DecisionId(n), ..arrival(START) };
        if engine.decide(&request(&headers), arrival).0.verdict == Verdict::Refused(Refusal::FairShare) {
            return;
        }
    }
    panic!("the fair share refuses nobody");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_fair_share_refuses_only_what_the_clients_own_limit_would_admit(
        steps in prop::collection::vec((0_u64..300, 1..3_usize, 1..4_usize), 40..200),
        // from one that leaves the limit unused to one beside which it refuses by itself as well
        capacity in 2..12_u32,
    ) {
        for own in own_limits() {
            let with_share = book(vec![own.clone(), fair_share(capacity)]);
            let [alone, admitted] = [(); 2].map(|()| book(vec![own.clone()]));
            press(&with_share);
            let mut now = START;
            // of each client, since it paused for so long that nothing is remembered: its last request, whether it was over its limit, when it
            // was refused for what it asks for, and whether it came again after it had waited
            let mut clients = [(START, false, None::<u64>, false); 3];
            for (n, (gap, client, cost)) in steps.iter().enumerate() {
                now += if gap % 20 == 0 { PAUSE } else { gap * 1_000_000 };
                let (last, was_over, refused, again) = &mut clients[*client];
                if now - std::mem::replace(last, now) >= PAUSE {
                    (*was_over, *refused, *again) = (false, None, false);
                }
                *again |= refused.is_some_and(|refused| now - refused > WAITED);
                let decision = decide(&with_share, *client, n, *cost, now);
                let by_demand = decision.readings[0].by == DecidedBy::Offered;
                // what the limit refuses by its own count is no demand
                if decision.readings[0].outcome == Outcome::Refused && !by_demand {
                    let same = decide(&admitted, *client, n, *cost, now).verdict;
                    prop_assert_eq!(same, decision.verdict, "{} {:?}", own.name, own.kind);
                    *was_over = true;
                    continue;
                }
                let without = decide(&alone, *client, n, *cost, now).verdict;
                *was_over |= without != Verdict::Admitted;
                if decision.verdict == Verdict::Refused(Refusal::FairShare) || by_demand {
                    *refused = Some(now);
                }
                let told = format!("{} {:?}, request {n}: {decision:?}, alone {without:?}", own.name, own.kind);
                match decision.verdict {
                    Verdict::Refused(Refusal::FairShare) => prop_assert!(*again || without == Verdict::Admitted, "{}", told),
                    Verdict::Refused(_) if by_demand => {
                        prop_assert!(*was_over, "{}", told);
                        let wait = decision.readings[0].retry_nanos.expect("a wait is told");
                        prop_assert!(wait <= SECOND && decision.readings[1].outcome == Outcome::Exempt, "{}", told);
                    }
                    // what was refused elsewhere was charged nowhere, so the limit says what it would have without it
                    _ => {
                        let same = decide(&admitted, *client, n, *cost, now);
                        prop_assert_eq!(same.verdict, decision.verdict, "{}", told);
                        prop_assert_eq!(same.readings[0].remaining, decision.readings[0].remaining, "{}", told);
                    }
                }
            }
        }
    }
}

/// What became of a client's requests.
#[derive(Debug, Default)]
struct Told {
    admitted: u32,
    own: u32,
    share: u32,
}

/// Three seconds of a client that asks `abuser` times a second, beside forty that ask twice; what became of its requests after the
/// first second. Each decision is looked at.
fn flood(engine: &Engine, abuser: u64, look: impl Fn(&Decision)) -> Told {
    let mut told = Told::default();
    let hot = head("198.51.100.66");
    let others: Vec<_> = (0..40).map(|n| head(&format!("10.{n}.0.1"))).collect();
    let step = SECOND / abuser;
    for n in 0..3 * abuser {
        let now = START + n * step;
        // eighty a second in all, whatever the steps are
        if n * 80 / abuser != (n + 1) * 80 / abuser {
            let _ = ask(engine, &others[(n * 80 / abuser) as usize % 40], now);
        }
        let (decision, _) = ask(engine, &hot, now);
        if n < abuser {
            continue;
        }
        look(&decision);
        match decision.verdict {
            Verdict::Admitted => told.admitted += 1,
            Verdict::Refused(Refusal::FairShare) => told.share += 1,
            Verdict::Refused(_) => told.own += 1,
        }
    }
    told
}

#[test]
fn a_flood_is_told_its_own_limit_wherever_that_stands_and_whatever_its_kind() {
    // the fair share leaves it less than its limit does, so that the limit alone would never be used up
    let average = Kind::RecentAverage(of_kind::RecentAverage {
        rate: Rate::new(50, Duration::from_secs(1)).unwrap(),
        half_life: Duration::from_secs(1),
        refused: RefusedCount::All { max_penalty: Duration::from_secs(6) },
        memory: Bytes(1 << 20),
    });
    let quota = Kind::Quota(of_kind::Quota {
        max: 50,
        window: Duration::from_secs(1).into(),
        sliding: false,
        memory: Bytes(1 << 20),
    });
    for own in [rate("own", 50, 50, Mode::Enforce), by_client("own", average), by_client("own", quota)] {
        for own_first in [true, false] {
            let (own, share) = (own.clone(), fair_share(100));
            let engine = book(if own_first { vec![own, share] } else { vec![share, own] });
            let own = usize::from(!own_first);
            let told = flood(&engine, 1_000, |_| {});
            assert!(told.own > 1_700 && told.share < 110, "{told:?}");
            // nothing of what was refused was charged: when the pressure is over, the whole burst is there
            let (decision, _) = ask(&engine, &head("198.51.100.66"), START + 40 * SECOND);
            assert_eq!(decision.verdict, Verdict::Admitted);
            let reading = decision.readings.iter().find(|reading| reading.rule == own).unwrap();
            assert!(reading.remaining >= 48, "{reading:?}");
        }
    }
}

#[test]
fn a_client_within_its_own_limit_is_never_told_that_it_is_over() {
    let engine = book(vec![rate("own", 1_000, 100, Mode::Enforce), fair_share(100)]);
    let told = flood(&engine, 500, |_| {});
    assert!(told.own == 0 && told.share > 500, "{told:?}");
}

#[test]
fn a_limit_that_refuses_nothing_or_is_not_the_clients_own_is_not_told() {
    let plain = || rate("own", 50, 50, Mode::Enforce);
    let key = |part| KeySpec::new([part], None).unwrap();
    let rules = [
        Rule { mode: Mode::Shadow, ..plain() },
        Rule { action: OnLimit::Tag { header: "x-over".parse().unwrap() }, ..plain() },
        // what all ask for together is nobody's fault
        Rule { key: key(KeyPart::Global), kind: rate("own", 500, 500, Mode::Enforce).kind, ..plain() },
        Rule { key: key(KeyPart::Path), kind: rate("own", 500, 500, Mode::Enforce).kind, ..plain() },
        // what it never got it does not hold
        inflight_by_client(2),
    ];
    for own in rules {
        let told = flood(&book(vec![own.clone(), fair_share(100)]), 1_000, |_| {});
        assert!(told.own == 0 && told.share > 1_500, "{:?}: {told:?}", own.kind);
    }
}

#[test]
fn a_demand_goes_on_after_a_reload_and_costs_memory_beside_a_fair_share_only() {
    let own = || rate("own", 50, 50, Mode::Enforce);
    let engine = book(vec![own(), fair_share(100)]);
    let told = flood(&engine, 1_000, |_| {});
    assert!(told.own > 1_800, "{told:?}");
    let faster = rate("own", 60, 60, Mode::Enforce);
    let policy =
        |rules: Vec<Rule>| Policy { rules: rules.into_iter().map(Arc::new).collect(), ..engine.policy().clone() };
    let now = tidegate_limits::units::Timestamp::from_nanos(START + 3 * SECOND);
    let (next, _) = engine.followed_by(policy(vec![faster, fair_share(100)]), now).unwrap();
    next.take_over();
    let hot = head("198.51.100.66");
    let (own, share) =
        (0..100).fold((0, 0), |(own, share), n| match ask(&next, &hot, START + 3 * SECOND + n).0.verdict {
            Verdict::Refused(Refusal::Limit) => (own + 1, share),
            Verdict::Refused(Refusal::FairShare) => (own, share + 1),
            _ => (own, share),
        });
    assert!(own > 80 && share < 15, "{own} {share}");
    let [beside, alone] =
        [vec![faster_rule(), fair_share(100)], vec![faster_rule()]].map(|rules| book(rules).memory().0);
    let share = book(vec![fair_share(100)]).memory().0;
    // an eighth of it, but for what each table needs whatever its size
    let demand = beside - share - alone;
    assert!((alone / 8..alone / 6).contains(&demand), "{demand} beside {alone}");
}

#[test]
fn a_client_that_waits_as_it_was_told_is_not_told_a_limit_that_has_room() {
    // a hundred an hour: a request that is refused once a second would use that up in two minutes, if each try counted
    let hourly =
        of_kind::Rate { rate: Rate::new(100, Duration::from_secs(3_600)).unwrap(), burst: 100, memory: Bytes(1 << 20) };
    let engine = book(vec![by_client("own", Kind::Rate(hourly)), fair_share(30)]);
    let polite = head("203.0.113.7");
    // its own network, so that it is as heavy as that
    let others: Vec<_> = (10..210).map(|n| head(&format!("203.0.113.{n}"))).collect();
    let (mut refused, mut now) = (0, START);
    for _ in 0..300 {
        for n in 0..60_u64 {
            let _ = ask(&engine, &others[(now / SECOND + n) as usize % 200], now + n * SECOND / 60);
        }
        let (decision, _) = ask(&engine, &polite, now + SECOND - 1);
        match decision.verdict {
            Verdict::Admitted => {}
            Verdict::Refused(Refusal::FairShare) => refused += 1,
            Verdict::Refused(_) => panic!("after {refused} refusals: {decision:?}"),
        }
        now += SECOND;
    }
    assert!(refused > 150, "{refused}");
}

fn faster_rule() -> Rule {
    rate("own", 60, 60, Mode::Enforce)
}
