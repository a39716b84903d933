//! Tiers of a limit that gates share: each keeps its own promise in the store, a change of tier or a reload brings no fresh budget, and no tier locks
//! a key out of another.

use super::beside::Lone;
use super::*;
use http::{HeaderMap, HeaderValue, Method};
use tidegate_limits::limiter::{Kind, kinds};
use tidegate_limits::units::{Bytes, Cost, Rate};
use tidegate_policy::policy::{Condition, CostRule, Tier};

pub fn per(seconds: u64, events: u32, burst: u32) -> Kind {
    let rate = Rate::new(events, Duration::from_secs(seconds)).unwrap();
    Kind::Rate(kinds::Rate { rate, burst, memory: Bytes(1 << 20) })
}

/// A limit whose tiers are told by `x-tier`, counted from 1, 0 being its own numbers. POST costs 2, PUT 5.
pub fn tiered(kinds: &[Kind]) -> Rule {
    let tier = |(number, kind): (usize, &Kind)| {
        let headers = vec![("x-tier".parse().unwrap(), number.to_string())];
        Tier { when: Condition { networks: Vec::new(), headers }, kind: Some(kind.clone()) }
    };
    let costs = [(Method::POST, 2), (Method::PUT, 5)];
    let methods = costs.map(|(method, cost)| (method, Cost::new(cost).unwrap())).to_vec();
    Rule {
        tiers: kinds.iter().enumerate().skip(1).map(tier).collect(),
        cost: CostRule::ByMethod { methods, other: Cost::ONE },
        ..crate::book::by_client("per_client", kinds[0].clone())
    }
}

pub fn in_tier(tier: usize) -> HeaderMap {
    let mut headers = head("203.0.113.7");
    headers.insert("x-tier", HeaderValue::from_str(&tier.to_string()).unwrap());
    headers
}

/// How many of `requests` at one instant are admitted.
fn burst(lone: &mut Lone, tier: usize, now: u64, requests: usize) -> usize {
    let before = lone.admitted;
    (0..requests).for_each(|_| lone.arrive_with(&in_tier(tier), now));
    lone.admitted - before
}

#[test]
fn whoever_spent_the_free_plan_has_the_rest_of_the_gold_one_and_no_second_free_one() {
    let limit = tiered(&[per(3_600, 100, 100), per(1, 1_000, 2_000)]);
    for (sharing, lost) in [(Sharing::Exact, 0), (Sharing::Lease, 4)] {
        let mut lone = Lone::new(vec![shared(limit.clone(), sharing, OnStoreError::Closed)]);
        assert_eq!(burst(&mut lone, 0, SECOND, 200), 100, "{sharing:?}");
        let gold = burst(&mut lone, 1, SECOND, 3_000);
        assert!((1_900 - lost..=1_900).contains(&gold), "{sharing:?}: {gold}");
        // all of gold has come back, and nothing of the free plan
        assert_eq!(burst(&mut lone, 0, 6 * SECOND, 10), 0, "{sharing:?}");
        let gold = burst(&mut lone, 1, 6 * SECOND, 3_000);
        assert!((2_000 - lost..=2_000).contains(&gold), "{sharing:?}: {gold}");
        assert_eq!(burst(&mut lone, 0, 7 * SECOND, 10), 0, "{sharing:?}");
    }
}

#[test]
fn a_flood_by_a_slow_tier_takes_its_own_few_units_and_leaves_the_others_theirs() {
    for sharing in [Sharing::Exact, Sharing::Lease] {
        let rule = tiered(&[per(1, 10, 10), per(3_600, 6, 5)]);
        let mut world = World::new(3, &shared(rule, sharing, OnStoreError::Closed), MILLISECOND);
        let (slow, normal) = (in_tier(1), in_tier(0));
        for nth in 0..20_000_u64 {
            let now = SECOND + nth * MILLISECOND;
            world.run_to(now);
            world.arrive_with(&slow, nth as usize % 3, now);
            // eight a second, of ten
            if nth % 125 == 60 {
                world.arrive_with(&normal, nth as usize % 3, now);
            }
        }
        world.run_to(40 * SECOND);
        let of = |tier| world.tiers.iter().filter(|(_, by)| *by == tier).count();
        println!("{sharing:?}: {} of 160 normal ones, {} of the slow tier", of(0), of(1));
        assert!(of(1) <= 5, "{sharing:?}: {} by a tier of 6/h, burst 5", of(1));
        assert!(of(0) >= 155, "{sharing:?}: {} of 160", of(0));
    }
}

#[test]
fn a_reload_of_a_tiers_rate_neither_gives_it_budget_nor_locks_it_out() {
    for sharing in [Sharing::Exact, Sharing::Lease] {
        for (from, to, wait) in [((3_600, 6), (1, 1), 1), ((1, 1), (3_600, 6), 600), ((60, 1), (3_600, 100), 36)] {
            for changed in [0, 1] {
                let limit = |(seconds, events): (u64, u32)| {
                    let (other, this) = (per(3_600, 1, 40), per(seconds, events, 40));
                    let rule = tiered(&if changed == 0 { [this, other] } else { [other, this] });
                    vec![shared(rule, sharing, OnStoreError::Closed)]
                };
                let mut lone = Lone::new(limit(from));
                let now = 10_000 * SECOND;
                let spent = burst(&mut lone, changed, now, 60);
                assert!((36..=40).contains(&spent), "{sharing:?}: {spent}");
                lone.reload(limit(to), now);
                assert_eq!(burst(&mut lone, changed, now, 60), 0, "{sharing:?} {from:?} {to:?}");
                assert_eq!(burst(&mut lone, 1 - changed, now, 60), 0, "the other took note");
                let later = now + wait * SECOND + 60 * MILLISECOND;
                assert_eq!(burst(&mut lone, changed, later, 1), 1, "{sharing:?} {from:?} {to:?}");
            }
        }
    }
}

#[test]
fn a_tier_that_a_reload_adds_begins_with_what_was_spent_wherever_it_stands() {
    let gold = || per(1, 100, 15);
    let mut lone = Lone::new(vec![shared(tiered(&[per(3_600, 10, 10)]), Sharing::Exact, OnStoreError::Closed)]);
    assert_eq!(burst(&mut lone, 0, SECOND, 20), 10);
    let with = |kinds: &[Kind]| vec![shared(tiered(kinds), Sharing::Exact, OnStoreError::Closed)];
    lone.reload(with(&[per(3_600, 10, 10), gold()]), SECOND);
    assert_eq!(burst(&mut lone, 1, SECOND, 20), 5);
    assert_eq!(burst(&mut lone, 1, 3 * SECOND, 20), 15, "it comes back at the tier's own rate");
    // another before it is not taken for it
    let mut rule = tiered(&[per(3_600, 10, 10), gold(), per(3_600, 1, 12)]);
    rule.tiers.reverse();
    lone.reload(vec![shared(rule, Sharing::Exact, OnStoreError::Closed)], 3 * SECOND);
    assert_eq!(burst(&mut lone, 1, 3 * SECOND, 20), 0);
    // less the tenth that has come back
    assert_eq!(burst(&mut lone, 2, 3 * SECOND, 20), 2, "what was owed by the limit's own numbers");
    lone.reload(with(&[per(3_600, 10, 10)]), 3 * SECOND);
    assert_eq!(burst(&mut lone, 0, 3 * SECOND, 20), 0);
}

#[test]
fn a_gate_with_other_tiers_does_not_forget_those_that_it_has_not() {
    let own = per(3_600, 10, 10);
    let rules = |kinds: &[Kind]| vec![shared(tiered(kinds), Sharing::Exact, OnStoreError::Closed)];
    let mut lone = Lone::new(rules(&[own.clone(), per(3_600, 1_000, 100)]));
    assert_eq!(burst(&mut lone, 1, SECOND, 200), 100);
    for _ in 0..3 {
        lone.reload(rules(&[per(1, 1_000, 10)]), 2 * SECOND);
        assert!(burst(&mut lone, 0, 2 * SECOND, 1) <= 1);
        lone.reload(rules(&[own.clone(), per(3_600, 1_000, 100)]), 2 * SECOND);
        assert_eq!(burst(&mut lone, 1, 2 * SECOND, 200), 0);
    }
}

#[test]
fn what_is_left_is_told_in_requests_of_the_same_cost() {
    for sharing in [Sharing::Exact, Sharing::Lease] {
        let mut lone = Lone::new(vec![shared(tiered(&[per(3_600, 1, 20)]), sharing, OnStoreError::Closed)]);
        let mut told = || {
            lone.arrive_as(&in_tier(0), &Method::PUT, SECOND);
            lone.left
        };
        let all = [told(), told(), told(), told()];
        // what leases are told of the store is as old as its last answer
        let known = if sharing == Sharing::Exact { 4 } else { 3 };
        assert_eq!(all[..known], [3, 2, 1, 0][..known], "{sharing:?}");
    }
}

/// Units that a tier owes, exactly.
#[derive(Clone, Copy)]
struct Account {
    per_second: f64,
    burst: f64,
    owed: f64,
}

impl Account {
    fn pass(&mut self, seconds: f64) {
        self.owed = (self.owed - self.per_second * seconds).max(0.0);
    }
}

fn numbers() -> impl Strategy<Value = (u64, u32, u32)> {
    (prop_oneof![Just(1_u64), Just(60), Just(3_600)], 1_u32..60, 1_u32..30)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// One gate that asks each time admits what an account of units says; three with leases no more than each tier's promise.
    #[test]
    fn each_tier_admits_what_its_own_numbers_allow(
        all in proptest::collection::vec(numbers(), 1..4),
        arrivals in proptest::collection::vec((0_usize..4, 0_usize..3, prop_oneof![6 => 0_u64..30, 2 => 0_u64..1_500, 1 => 0_u64..100_000]), 50..400),
        delay in 1_u64..4_000,
    ) {
        let kinds: Vec<Kind> = all.iter().map(|(seconds, events, burst)| per(*seconds, *events, *burst)).collect();
        let rule = tiered(&kinds);
        let mut lone = Lone::new(vec![shared(rule.clone(), Sharing::Exact, OnStoreError::Closed)]);
        let account = |(seconds, events, burst): &(u64, u32, u32)| {
            Account { per_second: f64::from(*events) / *seconds as f64, burst: f64::from(*burst), owed: 0.0 }
        };
        let mut accounts: Vec<Account> = all.iter().map(account).collect();
        let mut world = World::new(3, &shared(rule, Sharing::Lease, OnStoreError::Closed), delay * 1_000);
        let mut now = SECOND;
        for (tier, method, pause) in arrivals {
            let (tier, cost) = (tier % all.len(), [1, 2, 5][method]);
            now += pause * MILLISECOND;
            accounts.iter_mut().for_each(|account| account.pass((pause * MILLISECOND) as f64 / 1e9));
            let method = [Method::GET, Method::POST, Method::PUT][method].clone();
            let before = lone.admitted;
            lone.arrive_as(&in_tier(tier), &method, now);
            let admitted = lone.admitted > before;
            let evaluation = accounts[tier];
            let room = evaluation.burst - evaluation.owed - f64::from(cost);
            // the store counts whole microseconds, and a refusal is remembered a few milliseconds longer than it holds
            if admitted {
                prop_assert!(room >= -1e-3, "tier {} admits {} beyond its room of {}", tier, cost, room);
            } else {
                prop_assert!(room < evaluation.per_second * 0.05 + 1e-3, "tier {} refuses {} with room for {}", tier, cost, room);
            }
            if admitted {
                for (at, account) in accounts.iter_mut().enumerate() {
                    let noted = account.owed + f64::from(cost);
                    account.owed = if at == tier { noted } else { noted.min(account.burst).max(account.owed) };
                }
            }
            world.run_to(now);
            world.arrive_as(&in_tier(tier), &method, (pause % 3) as usize, now);
        }
        world.run_to(now + SECOND);
        for (tier, (seconds, events, burst)) in all.iter().enumerate() {
            let per_second = f64::from(*events) / *seconds as f64;
            let mut units: Vec<u64> = Vec::new();
            for ((at, by), cost) in world.tiers.iter().zip(&world.costs) {
                if usize::from(*by) == tier {
                    units.extend(std::iter::repeat_n(*at, *cost as usize));
                }
            }
            // as in crates/limits/tests/leases/costs.rs: a gate may hold twice the cost of a request that is dear for its part
            let held = (f64::from(*burst) / 12.0).max(10.0);
            let extra = (3.0 * held).min(1.5 * per_second);
            let worst = worst_excess(&units, per_second);
            prop_assert!(worst <= f64::from(*burst) + extra + 1e-6, "tier {}: {} over {} + {}", tier, worst, burst, extra);
        }
    }
}
