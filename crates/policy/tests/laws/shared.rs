//! Limits that several gates share, on a virtual clock: real snapshots, the store's own arithmetic, and a network that takes
//! its time, loses answers, and fails.

mod beside;
mod local;
mod refusals;
mod rotation;
mod silence;
mod sliding;
mod tiers;
mod told;
mod values;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Duration;

use http::{HeaderMap, Method};
use proptest::prelude::*;
use tidegate_limits::limiter::sharing::promise::{self, State, Terms};
use tidegate_limits::limiter::sharing::{Answer, OnStoreError, Promise, Question, Sharing, StoreError, StoreKey};
use tidegate_limits::units::Timestamp;
use tidegate_limits::units::dice::mixed;
use tidegate_policy::engine::{
    Arrival, Base, DecidedBy, DecisionId, Engine, Evaluation, Outcome, Refusal, SharedCall, SharedOutcome, SharedStep,
    Verdict,
};
use tidegate_policy::policy::{Mode, Rule, Shared, StoreId};
use tidegate_policy::request::Request;

use crate::book::{arrival, book, head, rate, request};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
/// The store's clock has nothing to do with those of gates.
const STORE_AT_ZERO: u64 = 1_790_000_000_000_000;
/// What gates name keys by: the secret, and the one before it while it is changed.
pub type Secrets<'a> = (&'a [u8], Option<&'a [u8]>);
pub const SECRETS: Secrets<'static> = (b"one secret for all gates", None);

/// A store that answers as the scripts do.
#[derive(Default)]
struct Store {
    /// With when they go.
    keys: HashMap<StoreKey, (State, u64)>,
    questions: usize,
}

impl Store {
    fn ask(&mut self, question: &Question, nanos: u64) -> Answer {
        self.questions += 1;
        let terms = terms_of(question);
        let key = question.key;
        let now = STORE_AT_ZERO + nanos / 1_000;
        self.keys.retain(|_, (_, ends)| *ends > now);
        let known = self.keys.get(&key).map(|(state, _)| state);
        let asked = usize::from(question.tier);
        let outcome = promise::grant(known, &terms, asked, (question.wanted, question.least), now);
        if let Some((state, millis)) = outcome.written {
            self.keys.insert(key, (state, now + millis * 1_000));
        }
        outcome.answer
    }
}

fn terms_of(question: &Question) -> Vec<(u32, Terms)> {
    let terms = question.tiers.iter().map(|tier| (tier.id, tier.promise.terms().unwrap()));
    terms.map(|(id, terms)| (id, if question.told { terms.told() } else { terms })).collect()
}

pub fn shared(rule: Rule, sharing: Sharing, on_store_error: OnStoreError) -> Rule {
    Rule { shared: Some(Shared { store: StoreId(0), sharing, on_store_error }), ..rule }
}

pub fn gate(rules: Vec<Rule>) -> Engine {
    let policy = book(rules);
    let base = Base::Nothing { seed: policy.seed(), unix_nanos_at_origin: 0 };
    Engine::next(policy.policy().clone(), Some(SECRETS), base).unwrap().0
}

/// The gate after a reload at `now`.
pub fn reloaded(before: &Engine, rules: Vec<Rule>, secrets: Secrets<'_>, now: u64) -> Engine {
    let base = Base::Before { engine: before, now: Timestamp::from_nanos(now) };
    let (next, _) = Engine::next(book(rules).policy().clone(), Some(secrets), base).unwrap();
    next.take_over();
    next
}

/// A question on its way, and the request that waits for it.
struct OnItsWay {
    gate: usize,
    call: SharedCall,
    /// When the store sees it, and when its answer is back.
    reaches: u64,
    back: u64,
    answer: Option<Answer>,
    waits: Option<(usize, Evaluation)>,
}

/// A request that waits for another's question.
struct Waiting {
    gate: usize,
    began: u64,
    waited_for: u64,
    evaluation: Evaluation,
}

/// Three gates before one store; requests that wait for another's call take another step when time goes on.
struct World {
    gates: Vec<Engine>,
    store: Store,
    on_their_way: Vec<OnItsWay>,
    waiting: Vec<Waiting>,
    delay: u64,
    admitted: Vec<u64>,
    /// When, and in which tier; and at what cost.
    tiers: Vec<(u64, u8)>,
    costs: Vec<u32>,
    asked: usize,
    waited: usize,
}

impl World {
    fn new(gates: usize, rule: &Rule, delay: u64) -> World {
        World {
            gates: (0..gates).map(|_| gate(vec![rule.clone()])).collect(),
            store: Store::default(),
            on_their_way: Vec::new(),
            waiting: Vec::new(),
            delay,
            admitted: Vec::new(),
            tiers: Vec::new(),
            costs: Vec::new(),
            asked: 0,
            waited: 0,
        }
    }

    fn arrive(&mut self, gate: usize, client: &str, now: u64) {
        self.arrive_with(&head(client), gate, now);
    }

    fn arrive_with(&mut self, headers: &HeaderMap, gate: usize, now: u64) {
        self.arrive_as(headers, &Method::GET, gate, now);
    }

    fn arrive_as(&mut self, headers: &HeaderMap, method: &Method, gate: usize, now: u64) {
        // by the way: what it costs where that goes by method
        let cost = [(Method::POST, 2), (Method::PUT, 5)]
            .iter()
            .find(|(known, _)| known == method)
            .map_or(1, |(_, cost)| *cost);
        let told = Arrival { id: DecisionId(cost), ..arrival(now) };
        let mut evaluation = self.gates[gate].judge(&Request { method, ..request(headers) }, told);
        self.asked += 1;
        self.refill(gate, &mut evaluation, headers, now);
        self.go_on(gate, evaluation, now, now, None);
    }

    fn refill(&mut self, gate: usize, evaluation: &mut Evaluation, headers: &HeaderMap, now: u64) {
        let around = (self.gates.len() as u32, Timestamp::from_nanos(now));
        for slot in self.gates[gate].refills(evaluation) {
            if let Some(call) = self.gates[gate].refill(evaluation, slot, &request(headers), around) {
                self.send(gate, call, None, now);
            }
        }
    }

    fn go_on(&mut self, gate: usize, mut evaluation: Evaluation, began: u64, now: u64, waited_for: Option<u64>) {
        let engine = &self.gates[gate];
        let Some(slot) = engine.to_settle(&evaluation).first().copied() else { return };
        let headers = head(&evaluation.decision.client.unwrap().address.to_string());
        let nodes = self.gates.len() as u32;
        let step = engine.step(&evaluation, slot, &request(&headers), waited_for, (nodes, Timestamp::from_nanos(now)));
        match step {
            SharedStep::Done(outcome) => {
                engine.settle(&mut evaluation, slot, outcome);
                self.refill(gate, &mut evaluation, &headers, now);
                self.finish(gate, evaluation, now);
            }
            SharedStep::Ask(call) => {
                self.waited += usize::from(waited_for.is_none());
                self.send(gate, call, Some((slot, evaluation)), now);
            }
            SharedStep::Wait { .. } if now - began > 5 * MILLISECOND => {
                engine.settle(&mut evaluation, slot, unanswered(StoreError::TimedOut, nodes));
                self.finish(gate, evaluation, now);
            }
            SharedStep::Wait { question, .. } => {
                self.waited += usize::from(waited_for.is_none());
                let waited_for = waited_for.unwrap_or(question);
                self.waiting.push(Waiting { gate, began, waited_for, evaluation });
            }
        }
    }

    fn send(&mut self, gate: usize, call: SharedCall, waits: Option<(usize, Evaluation)>, now: u64) {
        let (reaches, back) = (now + self.delay / 2, now + self.delay);
        self.on_their_way.push(OnItsWay { gate, call, reaches, back, answer: None, waits });
    }

    fn finish(&mut self, gate: usize, mut evaluation: Evaluation, now: u64) {
        let _ = self.gates[gate].admit(&mut evaluation, Timestamp::from_nanos(now));
        if evaluation.decision.verdict == Verdict::Admitted {
            self.admitted.push(now);
            self.tiers.push((now, evaluation.decision.readings[0].tier));
            self.costs.push(evaluation.decision.id.0 as u32);
        }
    }

    /// Everything that happens up to `now`, in its order.
    fn run_to(&mut self, now: u64) {
        loop {
            let next =
                self.on_their_way.iter().map(|way| if way.answer.is_none() { way.reaches } else { way.back }).min();
            let Some(at) = next.filter(|at| *at <= now) else { return };
            let place = self
                .on_their_way
                .iter()
                .position(|way| if way.answer.is_none() { way.reaches == at } else { way.back == at })
                .unwrap();
            if self.on_their_way[place].answer.is_none() {
                let answer = self.store.ask(&self.on_their_way[place].call.question, at);
                self.on_their_way[place].answer = Some(answer);
                continue;
            }
            let OnItsWay { gate, call, answer, waits, .. } = self.on_their_way.swap_remove(place);
            let outcome = match call.answered(Ok(answer.unwrap()), self.gates.len() as u32, Timestamp::from_nanos(at)) {
                ControlFlow::Break(outcome) => outcome,
                ControlFlow::Continue(call) => {
                    self.send(gate, call, waits, at);
                    continue;
                }
            };
            if let Some((slot, mut evaluation)) = waits {
                self.gates[gate].settle(&mut evaluation, slot, outcome);
                let headers = head(&evaluation.decision.client.unwrap().address.to_string());
                self.refill(gate, &mut evaluation, &headers, at);
                self.finish(gate, evaluation, at);
            }
            for Waiting { gate, began, waited_for, evaluation } in std::mem::take(&mut self.waiting) {
                self.go_on(gate, evaluation, began, at, Some(waited_for));
            }
        }
    }
}

pub fn unanswered(store_error: StoreError, nodes: u32) -> SharedOutcome {
    SharedOutcome::Unanswered { store_error, nodes }
}

/// The outcome of a call without a second question.
pub fn outcome(call: SharedCall, answer: Answer, now: Timestamp) -> SharedOutcome {
    call.answered(Ok(answer), 1, now).break_value().unwrap()
}

/// The most that was admitted in any interval beyond `rate·τ`.
pub fn worst_excess(times: &[u64], per_second: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    // Σ in [s, t] − r·(t − s), as the highest rise of a walk
    let (mut lowest, mut worst) = (f64::INFINITY, 0.0_f64);
    for (count, time) in sorted.iter().enumerate() {
        let drift = count as f64 - per_second * *time as f64 / SECOND as f64;
        lowest = lowest.min(drift);
        worst = worst.max(drift + 1.0 - lowest);
    }
    worst
}

/// Three gates, one key, hammered at `times` its rate for so many seconds.
fn hammered(sharing: Sharing, (events, burst): (u32, u32), times: u32, seconds: u64, delay: u64) -> World {
    let rule = shared(rate("per_client", events, burst, Mode::Enforce), sharing, OnStoreError::Closed);
    let mut world = World::new(3, &rule, delay);
    let every = SECOND / u64::from(events * times);
    for nth in 0..seconds * SECOND / every {
        let now = nth * every;
        world.run_to(now);
        world.arrive(nth as usize % 3, "203.0.113.7", now);
    }
    world.run_to(seconds * SECOND + SECOND);
    world
}

#[test]
fn by_leases_three_gates_admit_no_more_than_promised_and_nearly_all_of_it() {
    for (numbers @ (events, burst), times) in
        [((100, 100), 3), ((100, 200), 10), ((1_000, 1_000), 3), ((50, 500), 4), ((20, 20), 10)]
    {
        for delay in [MILLISECOND / 4, 2 * MILLISECOND] {
            let world = hammered(Sharing::Lease, numbers, times, 20, delay);
            let (rate, burst, admitted) = (f64::from(events), f64::from(burst), world.admitted.len() as f64);
            // N·q, or r·δ
            let extra = (3.0 * (burst / 12.0).max(1.0)).min(rate).max(3.0);
            let worst = worst_excess(&world.admitted, rate);
            let usable = admitted / (burst + rate * 20.0);
            println!(
                "{events}/s burst {burst}, {times} times, {} µs: {admitted} admitted, {:.1} % of the quota, worst interval \
                 burst + rate·τ + {:.1} of {extra:.1}; {} questions, {:.2} % waited",
                delay / 1_000,
                usable * 100.0,
                worst - burst,
                world.store.questions,
                100.0 * world.waited as f64 / world.asked as f64
            );
            assert!(worst <= burst + extra, "{numbers:?}: {worst}");
            assert!(usable >= 0.95, "{numbers:?}: {usable}");
        }
    }
}

#[test]
fn exactly_three_gates_admit_what_one_would() {
    let world = hammered(Sharing::Exact, (100, 100), 3, 10, MILLISECOND);
    // the store's time is that of the question, half a round trip before the request goes on
    assert!(worst_excess(&world.admitted, 100.0) <= 100.0 + 1.0);
    assert!(world.admitted.len() as f64 >= 0.99 * 1_100.0);
    assert!(world.store.questions > world.admitted.len());
}

#[test]
fn a_flood_on_a_spent_key_is_refused_without_asking_until_shortly_before_it_fits() {
    let rule = shared(rate("per_client", 30, 2, Mode::Enforce), Sharing::Exact, OnStoreError::Closed);
    let mut world = World::new(1, &rule, MILLISECOND);
    for nth in 0..10_000_u64 {
        let now = nth * MILLISECOND;
        world.run_to(now);
        world.arrive(0, "203.0.113.7", now);
    }
    world.run_to(10 * SECOND);
    println!("{} admitted, {} questions, of {}", world.admitted.len(), world.store.questions, world.asked);
    // 2 + 30 · 10 s, less the part of a token at the end
    assert!(world.admitted.len() >= 301, "{}", world.admitted.len());
    assert!(world.store.questions <= 3 * world.admitted.len(), "{}", world.store.questions);
    // and what one is told who comes right after another was refused comes true
    for nth in 0..3 {
        let now = 10 * SECOND + nth * 2 * MILLISECOND;
        world.run_to(now);
        world.arrive(0, "203.0.113.7", now);
    }
    let now = 10 * SECOND + 6 * MILLISECOND;
    world.run_to(now);
    let headers = head("203.0.113.7");
    let reading = world.gates[0].judge(&request(&headers), arrival(now)).decision.readings[0];
    assert_eq!((reading.outcome, reading.by), (Outcome::Refused, DecidedBy::Lease));
    let again = now + reading.retry_nanos.unwrap();
    let before = world.admitted.len();
    world.arrive(0, "203.0.113.7", again);
    world.run_to(11 * SECOND);
    assert_eq!(world.admitted.len(), before + 1);
}

/// Two thousand keys of one limit, each asked for so often at each of the gates, in turns or at random; counted from the first
/// second on, or from when every key has come twice. The part of the requests that waited, and round trips per 1,000.
fn two_thousand_keys(events: u32, gates: usize, per_second: u64, random: bool) -> (f64, f64) {
    let rule = shared(rate("per_client", events, events, Mode::Enforce), Sharing::Lease, OnStoreError::Closed);
    let mut world = World::new(gates, &rule, MILLISECOND);
    let round = 2_000 * gates as u64;
    let every = SECOND / (round * per_second);
    let warm = round * per_second.max(4);
    for nth in 0..warm + 4 * round * per_second.max(4) {
        let now = nth * every;
        world.run_to(now);
        if nth == warm {
            (world.asked, world.waited, world.store.questions) = (0, 0, 0);
        }
        let pick = if random { mixed(nth) } else { nth };
        let (gate, key) = (pick / 2_000 % gates as u64, pick % 2_000);
        world.arrive(gate as usize, &format!("203.0.{}.{}", key / 250, key % 250 + 1), now);
    }
    let asked = world.asked as f64;
    (world.waited as f64 / asked, 1_000.0 * world.store.questions as f64 / asked)
}

#[test]
fn two_thousand_hot_keys_seldom_wait_for_the_store() {
    for (events, gates, per_second, random) in [
        (1_000, 1, 50, false),
        (1_000, 1, 50, true),
        (1_000, 1, 10, true),
        (1_000, 1, 5, true),
        (1_000, 1, 3, true),
        (1_000, 1, 1, false),
        (100, 3, 10, true),
        (100, 3, 5, true),
        (100, 3, 1, false),
    ] {
        let (waited, trips) = two_thousand_keys(events, gates, per_second, random);
        let how = if random { "at random" } else { "in turns" };
        println!(
            "{events}/s, {gates} gates, each key {per_second}/s at each, {how}: {:.2} % waited; {trips:.0} round trips per 1,000",
            waited * 100.0
        );
        assert!(waited <= 0.01, "{events}/s, {gates} gates, {per_second}/s {how}: {waited}");
    }
}

#[test]
fn who_is_refused_by_another_limit_costs_the_store_nothing() {
    let spent = rate("spent", 1, 1, Mode::Enforce);
    let asked = shared(rate("asked", 100, 100, Mode::Enforce), Sharing::Exact, OnStoreError::Closed);
    let gate = gate(vec![spent, asked]);
    let headers = head("203.0.113.7");
    let settle = |now| {
        let evaluation = gate.judge(&request(&headers), arrival(now));
        let slots = gate.to_settle(&evaluation).len();
        (evaluation, slots)
    };
    let (mut first, slots) = settle(0);
    assert_eq!(slots, 1);
    gate.settle(&mut first, 1, unanswered(StoreError::TimedOut, 1));
    let _ = gate.admit(&mut first, Timestamp::ZERO);
    assert_eq!(first.decision.verdict, Verdict::Refused(Refusal::StoreSilent));
    // a refusal by the store charged nobody else either
    let (mut second, slots) = settle(1);
    assert_eq!((second.decision.verdict, slots), (Verdict::Admitted, 1));
    let step = gate.step(&second, 1, &request(&headers), None, (1, Timestamp::from_nanos(1)));
    let SharedStep::Ask(call) = step else { panic!("nothing is asked") };
    let answer = Store::default().ask(&call.question, 1);
    gate.settle(&mut second, 1, outcome(call, answer, Timestamp::from_nanos(2)));
    let _ = gate.admit(&mut second, Timestamp::from_nanos(2));
    assert_eq!((second.decision.verdict, second.decision.readings[1].by), (Verdict::Admitted, DecidedBy::Store));
    let (third, slots) = settle(3);
    assert_eq!((third.decision.verdict, slots), (Verdict::Refused(Refusal::Limit), 0), "the limit beside it is spent");
}

#[test]
fn what_a_gate_holds_outlives_a_reload_unless_it_says_nothing_about_the_limit_after() {
    let limit =
        |events, sharing, direction| vec![shared(rate("per_client", events, 120, Mode::Enforce), sharing, direction)];
    let before = gate(limit(100, Sharing::Lease, OnStoreError::Closed));
    let (headers, mut store) = (head("203.0.113.7"), Store::default());
    // what is wanted in advance follows from what was asked for: nothing by the first request
    for nth in 0..40 {
        let (at, now) = (nth * 5 * MILLISECOND, Timestamp::from_nanos(nth * 5 * MILLISECOND));
        let mut evaluation = before.judge(&request(&headers), arrival(at));
        let found = match before.step(&evaluation, 0, &request(&headers), None, (1, now)) {
            SharedStep::Done(outcome) => outcome,
            SharedStep::Ask(call) => {
                let answer = store.ask(&call.question, at);
                outcome(call, answer, now)
            }
            SharedStep::Wait { .. } => unreachable!("no other request asks"),
        };
        before.settle(&mut evaluation, 0, found);
        if let Some(call) = before.refill(&mut evaluation, 0, &request(&headers), (1, now)) {
            let answer = store.ask(&call.question, at);
            let _ = outcome(call, answer, now);
        }
        let _ = before.admit(&mut evaluation, now);
        assert_eq!(evaluation.decision.verdict, Verdict::Admitted);
    }
    let now = Timestamp::from_nanos(200 * MILLISECOND);
    let held = |gate: &Engine| gate.shared_limit(0).unwrap().leases().outstanding(now);
    assert!(held(&before) > 0, "{}", held(&before));
    let after = |rules| reloaded(&before, rules, SECRETS, now.nanos());
    assert_eq!(held(&after(limit(100, Sharing::Lease, OnStoreError::Open))), held(&before));
    assert_eq!(held(&after(limit(50, Sharing::Lease, OnStoreError::Closed))), 0, "other numbers");
    assert_eq!(held(&after(limit(100, Sharing::Exact, OnStoreError::Closed))), 0, "shared otherwise");
}

#[test]
fn a_face_without_stores_judges_alone() {
    let rule = shared(rate("per_client", 10, 20, Mode::Enforce), Sharing::Lease, OnStoreError::Closed);
    let alone = book(vec![rule]);
    let headers = head("203.0.113.7");
    let admitted = (0..100).filter(|nth| crate::book::ask(&alone, &headers, *nth).0.verdict == Verdict::Admitted);
    assert_eq!(admitted.count(), 20);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn no_schedule_of_arrivals_brings_more_than_promised(
        // in quarters of a millisecond; a lease may outlast the longest
        arrivals in proptest::collection::vec((0_usize..3, prop_oneof![40 => 0_u64..40, 1 => 0_u64..16_000]), 200..1_500),
        delay in 1_u64..20_000,
        (events, burst) in (1_u32..400, 1_u32..400),
    ) {
        let rule = shared(rate("per_client", events, burst, Mode::Enforce), Sharing::Lease, OnStoreError::Closed);
        let mut world = World::new(3, &rule, delay * 1_000);
        let mut now = 0;
        for (gate, pause) in arrivals {
            now += pause * MILLISECOND / 4;
            world.run_to(now);
            world.arrive(gate, "203.0.113.7", now);
        }
        world.run_to(now + SECOND);
        let (rate, burst) = (f64::from(events), f64::from(burst));
        let extra = (3.0 * (burst / 12.0).max(1.0)).min(rate).max(3.0);
        let worst = worst_excess(&world.admitted, rate);
        prop_assert!(worst <= burst + extra + 1e-6, "{} over {} + {}", worst, burst, extra);
    }
}

#[test]
fn a_promise_has_the_limits_own_numbers() {
    let promise = Promise::Quota { max: 7, window: Duration::from_secs(60) };
    assert_eq!(promise.most(), 7);
}
