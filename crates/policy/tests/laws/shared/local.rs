//! Gates that go on by their parts of a limit while its store says nothing, also where there are more of them than a burst has units.

use super::*;
use http::Method;
use tidegate_limits::limiter::{Kind, kinds};
use tidegate_limits::units::{Bytes, Cost, Rate};
use tidegate_policy::policy::CostRule;

/// The same limit, of which a POST costs so much.
fn with_heavy(rule: Rule, heavy: u32) -> Rule {
    let methods = vec![(Method::POST, Cost::new(heavy).unwrap())];
    Rule { cost: CostRule::ByMethod { methods, other: Cost::ONE }, ..rule }
}

/// A request of one client, of which this gate decides as one of so many.
fn alone(gate: &Engine, method: &Method, nodes: u32, now: u64) -> Evaluation {
    let headers = head("203.0.113.7");
    let mut evaluation = gate.judge(&Request { method, ..request(&headers) }, arrival(now));
    for slot in gate.to_settle(&evaluation) {
        gate.settle(&mut evaluation, slot, unanswered(StoreError::Unreachable, nodes));
    }
    let _ = gate.admit(&mut evaluation, Timestamp::from_nanos(now));
    evaluation
}

fn passes(evaluation: &Evaluation) -> bool {
    evaluation.decision.verdict == Verdict::Admitted
}

/// The most that was spent in any interval beyond `rate·τ`.
fn worst_units(spent: &[(u64, u32)], per_second: f64) -> f64 {
    let (mut total, mut lowest, mut worst) = (0.0, f64::INFINITY, 0.0_f64);
    for (now, cost) in spent {
        let drained = per_second * *now as f64 / SECOND as f64;
        lowest = lowest.min(total - drained);
        total += f64::from(*cost);
        worst = worst.max(total - drained - lowest);
    }
    worst
}

#[test]
fn six_gates_of_five_a_minute_each_let_one_in_and_say_when_the_next_passes() {
    let minute = Rate::new(5, Duration::from_secs(60)).unwrap();
    let kind = Kind::Rate(kinds::Rate { rate: minute, burst: 5, memory: Bytes(1 << 20) });
    for sharing in [Sharing::Lease, Sharing::Exact] {
        let rule = shared(crate::book::by_client("per_client", kind.clone()), sharing, OnStoreError::Local);
        let gates: Vec<Engine> = (0..6).map(|_| gate(vec![rule.clone()])).collect();
        let (mut spent, seconds) = (Vec::new(), 600);
        for now in (0..seconds).map(|second| second * SECOND) {
            for (number, gate) in gates.iter().enumerate() {
                let evaluation = alone(gate, &Method::GET, 6, now);
                if passes(&evaluation) {
                    spent.push((now, 1));
                } else {
                    let wait = evaluation.decision.readings[0].retry_nanos.expect("a wait helps");
                    assert!(wait <= 72 * SECOND, "gate {number}: six units at five a minute take {wait}");
                }
                assert!(now > 0 || passes(&evaluation), "gate {number} refuses its first request");
            }
        }
        assert!(worst_units(&spent, 5.0 / 60.0) <= 6.0 + 1e-6, "{sharing:?}: {spent:?}");
        // one each at once and then a sixth of five a minute each, as often as a whole request comes back
        assert_eq!(spent.len(), 6 * 9, "{sharing:?}");
    }
}

#[test]
fn what_costs_more_than_the_limit_is_told_that_no_wait_helps() {
    let rule = with_heavy(rate("per_client", 5, 5, Mode::Enforce), 6);
    let gate = gate(vec![shared(rule, Sharing::Exact, OnStoreError::Local)]);
    let refused = alone(&gate, &Method::POST, 3, 0);
    assert_eq!((passes(&refused), refused.decision.readings[0].retry_nanos), (false, None));
    assert!(passes(&alone(&gate, &Method::GET, 3, 0)), "and costs nobody anything");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Gates beyond the burst among them, requests that cost up to all of it, rates and quotas.
    #[test]
    fn gates_without_their_store_admit_together_what_is_stated_and_each_refusal_ends(
        gates in 1_usize..12,
        (events, burst) in (1_u32..30, 1_u32..10),
        (heavy, quota, exact) in (1_u32..10, any::<bool>(), any::<bool>()),
        arrivals in proptest::collection::vec((0_usize..12, any::<bool>(), prop_oneof![4 => 0_u64..50, 1 => 0_u64..3_000]), 20..300),
    ) {
        let heavy = heavy.min(burst);
        let window = Duration::from_secs(2);
        let rule = if quota {
            crate::book::by_client("per_client", Kind::Quota(kinds::Quota { max: burst, window: window.into(), sliding: false, memory: Bytes(1 << 20) }))
        } else {
            rate("per_client", events, burst, Mode::Enforce)
        };
        let sharing = if exact { Sharing::Exact } else { Sharing::Lease };
        let rule = shared(with_heavy(rule, heavy), sharing, OnStoreError::Local);
        let all: Vec<Engine> = (0..gates).map(|_| gate(vec![rule.clone()])).collect();
        let nodes = gates as u32;
        let (mut now, mut spent, mut came) = (0, Vec::new(), vec![false; gates]);
        for (at, dear, pause) in arrivals {
            now += pause * MILLISECOND;
            let at = at % gates;
            let (method, cost) = if dear { (Method::POST, heavy) } else { (Method::GET, 1) };
            let evaluation = alone(&all[at], &method, nodes, now);
            prop_assert!(passes(&evaluation) || came[at], "the first at gate {} is refused", at);
            prop_assert!(evaluation.decision.readings[0].retry_nanos.is_some(), "a refusal that does not say when");
            came[at] = true;
            if passes(&evaluation) {
                spent.push((now, cost));
            }
        }
        let dearest = spent.iter().map(|(_, cost)| *cost).max().unwrap_or(1);
        let most = f64::from(burst.max(nodes * dearest));
        if quota {
            let mut windows = HashMap::new();
            spent.iter().for_each(|(now, cost)| *windows.entry(now / (2 * SECOND)).or_insert(0) += cost);
            prop_assert!(windows.values().all(|units| f64::from(*units) <= most), "{:?} of {}", windows, most);
        } else {
            let worst = worst_units(&spent, f64::from(events));
            prop_assert!(worst <= most + 1e-6, "{} of {}", worst, most);
        }
        // and what each of them is told comes true
        for gate in &all {
            let refused = (0..).map(|_| alone(gate, &Method::POST, nodes, now)).find(|evaluation| !passes(evaluation)).unwrap();
            let wait = refused.decision.readings[0].retry_nanos.unwrap();
            prop_assert!(wait > 0 && !passes(&alone(gate, &Method::POST, nodes, now + wait - 1)));
            prop_assert!(passes(&alone(gate, &Method::POST, nodes, now + wait)));
        }
    }
}
