//! Shared limits beside others on one route: what one of them refuses, the others do not pay for.

use super::*;
use http::HeaderValue;
use tidegate_policy::policy::{Condition, Tier};

/// One client of one gate whose store answers at once.
pub struct Lone {
    gate: Engine,
    store: Store,
    pub admitted: usize,
    /// What the first limit told the last one that was admitted of what is left.
    pub left: u32,
    /// How long the last one has to wait by the first limit's word, if it was refused and a wait helps.
    pub wait: Option<u64>,
    /// By limit.
    granted: Vec<u32>,
}

impl Lone {
    pub fn new(rules: Vec<Rule>) -> Lone {
        let granted = vec![0; rules.len()];
        Lone { gate: gate(rules), store: Store::default(), admitted: 0, left: 0, wait: None, granted }
    }

    fn run(&mut self, mut call: SharedCall, now: u64) -> SharedOutcome {
        loop {
            let answer = self.store.ask(&call.question, now);
            self.granted[call.question.rule] += answer.granted;
            match call.answered(Ok(answer), 1, Timestamp::from_nanos(now)) {
                ControlFlow::Continue(next) => call = next,
                ControlFlow::Break(outcome) => return outcome,
            }
        }
    }

    fn refill(&mut self, evaluation: &mut Evaluation, headers: &HeaderMap, now: u64) {
        for slot in self.gate.refills(evaluation) {
            let around = (1, Timestamp::from_nanos(now));
            if let Some(call) = self.gate.refill(evaluation, slot, &request(headers), around) {
                let _ = self.run(call, now);
            }
        }
    }

    fn arrive(&mut self, now: u64) {
        self.arrive_with(&head("203.0.113.7"), now);
    }

    /// Other limits of the same gate, before the same store.
    pub fn reload(&mut self, rules: Vec<Rule>, now: u64) {
        self.gate = reloaded(&self.gate, rules, SECRETS, now);
    }

    pub fn arrive_with(&mut self, headers: &HeaderMap, now: u64) {
        self.arrive_as(headers, &Method::GET, now);
    }

    pub fn arrive_as(&mut self, headers: &HeaderMap, method: &Method, now: u64) {
        let stamp = Timestamp::from_nanos(now);
        let mut evaluation = self.gate.judge(&Request { method, ..request(headers) }, arrival(now));
        for slot in self.gate.to_settle(&evaluation) {
            let outcome = match self.gate.step(&evaluation, slot, &request(headers), None, (1, stamp)) {
                SharedStep::Done(outcome) => outcome,
                SharedStep::Ask(call) => self.run(call, now),
                SharedStep::Wait { .. } => unreachable!("no other request asks"),
            };
            self.gate.settle(&mut evaluation, slot, outcome);
            self.refill(&mut evaluation, headers, now);
            if self.gate.refuses(&evaluation, slot) {
                break;
            }
        }
        self.refill(&mut evaluation, headers, now);
        let _ = self.gate.admit(&mut evaluation, stamp);
        if evaluation.decision.verdict == Verdict::Admitted {
            (self.admitted, self.left) = (self.admitted + 1, evaluation.decision.readings[0].remaining);
        }
        let refused = evaluation.decision.verdict != Verdict::Admitted;
        self.wait = refused.then(|| evaluation.decision.readings[0].retry_nanos).flatten();
    }

    /// So many requests a second, for so many seconds.
    fn flood(mut self, per_second: u64, seconds: u64) -> Lone {
        for nth in 0..per_second * seconds {
            self.arrive(SECOND + nth * SECOND / per_second);
        }
        self
    }
}

#[test]
fn what_a_narrow_limit_refuses_a_wide_one_beside_it_does_not_pay_for() {
    let wide = rate_per(60, "wide", 1, 300);
    let month = Rule { name: "month".into(), ..crate::book::by_client("month", month()) };
    let narrow = rate("narrow", 10, 5, Mode::Enforce);
    for (of_wide, of_narrow) in
        [(Sharing::Lease, Sharing::Lease), (Sharing::Exact, Sharing::Exact), (Sharing::Exact, Sharing::Lease)]
    {
        for long in [&wide, &month] {
            for narrow_first in [false, true] {
                let mut rules = vec![
                    shared(long.clone(), of_wide, OnStoreError::Closed),
                    shared(narrow.clone(), of_narrow, OnStoreError::Closed),
                ];
                if narrow_first {
                    rules.reverse();
                }
                let lone = Lone::new(rules).flood(600, 4);
                let charged = lone.granted[usize::from(narrow_first)] as usize;
                println!(
                    "{} {of_wide:?}, narrow {of_narrow:?}, narrow first {narrow_first}: {charged} charged for {}",
                    long.name, lone.admitted
                );
                assert!((43..=45).contains(&lone.admitted), "{}", lone.admitted);
                // beside what is held in advance of a key that comes ten times a second
                let held = if of_wide == Sharing::Lease { 4 } else { 0 };
                assert!(charged <= lone.admitted + held, "{charged} for {}", lone.admitted);
            }
        }
    }
}

#[test]
fn who_changes_tier_takes_along_what_was_spent() {
    let mut limit = rate_per(60, "per_client", 1, 20);
    let gold = rate_per(60, "per_client", 2, 40).kind;
    let headers = vec![("x-tier".parse().unwrap(), "gold".to_owned())];
    limit.tiers = vec![Tier { when: Condition { networks: Vec::new(), headers }, kind: Some(gold) }];
    let (plain, mut golden) = (head("203.0.113.7"), head("203.0.113.7"));
    golden.insert("x-tier", HeaderValue::from_static("gold"));
    for sharing in [Sharing::Lease, Sharing::Exact] {
        for (order, expected) in [([&plain, &golden], [20, 40]), ([&golden, &plain], [40, 40])] {
            let mut lone = Lone::new(vec![shared(limit.clone(), sharing, OnStoreError::Closed)]);
            for (headers, expected) in order.into_iter().zip(expected) {
                for nth in 0..100 {
                    lone.arrive_with(headers, SECOND + nth * MILLISECOND);
                }
                // what a lease holds dies with it, and a part of a unit has come back
                let least = if sharing == Sharing::Exact { expected } else { expected - 2 };
                assert!((least..=expected).contains(&lone.admitted), "{sharing:?}: {} of {expected}", lone.admitted);
            }
        }
    }
}

fn rate_per(seconds: u64, name: &str, events: u32, burst: u32) -> Rule {
    let rate = tidegate_limits::units::Rate::new(events, Duration::from_secs(seconds)).unwrap();
    let kind = tidegate_limits::limiter::Kind::Rate(tidegate_limits::limiter::kinds::Rate {
        rate,
        burst,
        memory: tidegate_limits::units::Bytes(1 << 20),
    });
    crate::book::by_client(name, kind)
}

fn month() -> tidegate_limits::limiter::Kind {
    let window = Duration::from_secs(31 * 86_400);
    tidegate_limits::limiter::Kind::Quota(tidegate_limits::limiter::kinds::Quota {
        max: 2_000,
        window: window.into(),
        sliding: false,
        memory: tidegate_limits::units::Bytes(1 << 20),
    })
}
