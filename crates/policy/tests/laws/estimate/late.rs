//! Estimates of limits that are charged after the verdict: by the answer, by what it says, by bytes that pass.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tidegate_limits::units::Cost;
use tidegate_policy::engine::Holds;
use tidegate_policy::policy::{CostRule, Counted, StatusSet};

use super::*;

const CLIENT: &str = "203.0.113.7";

fn failures((events, burst): (u32, u32)) -> Rule {
    let failed = StatusSet::NONE.with(401, 401);
    Rule { counted: Counted::Responses(failed), ..limited(events, burst) }
}

/// A request that waits for its answer.
struct UnderWay {
    gate: usize,
    due: u64,
    evaluation: Evaluation,
    holds: Holds,
    fails: bool,
}

/// Gates whose origins take their time.
struct Slow {
    world: World,
    under_way: Vec<UnderWay>,
    /// The longest that an answer took.
    slowest: u64,
    refused: usize,
}

impl Slow {
    fn new(numbers: (u32, u32), delay: u64) -> Slow {
        Slow { world: World::new(3, &failures(numbers), delay), under_way: Vec::new(), slowest: 0, refused: 0 }
    }

    /// All answers that are due, each after what was told before it.
    fn run_to(&mut self, now: u64) {
        loop {
            let next = (0..self.under_way.len()).min_by_key(|at| self.under_way[*at].due);
            let Some(next) = next.filter(|at| self.under_way[*at].due <= now) else { break };
            let UnderWay { gate, due, evaluation, mut holds, fails } = self.under_way.swap_remove(next);
            self.world.run_to(due);
            let status = if fails { StatusCode::UNAUTHORIZED } else { StatusCode::OK };
            self.world.gates[gate].engine.answered(&evaluation, &mut holds, status, &HeaderMap::new(), at(due));
            if fails {
                self.world.admitted.push(due);
            }
        }
        self.world.run_to(now);
    }

    fn arrive(&mut self, gate: usize, now: u64, (takes, fails): (u64, bool)) {
        self.run_to(now);
        let headers = head(CLIENT);
        let engine = &self.world.gates[gate].engine;
        let mut evaluation = engine.judge(&request(&headers), arrival(now));
        let (mut holds, _) = engine.admit(&mut evaluation, at(now));
        if evaluation.decision.verdict != Verdict::Admitted {
            self.refused += 1;
            return;
        }
        engine.sent(&mut holds);
        let others = self.world.gates[gate].known.iter().enumerate().filter(|(other, _)| *other != gate);
        self.world.oldest = self.world.oldest.max(others.map(|(_, known)| now - known).max().unwrap_or(0));
        self.slowest = self.slowest.max(takes);
        self.under_way.push(UnderWay { gate, due: now + takes, evaluation, holds, fails });
    }

    /// What all gates together may charge beyond rate·τ.
    fn promised(&self, (events, burst): (u32, u32)) -> f64 {
        let others = self.world.gates.len() as f64 - 1.0;
        self.world.promised((events, burst)) + others * f64::from(events) * self.slowest as f64 / SECOND as f64
    }
}

#[test]
fn guesses_at_three_gates_come_down_to_one_limit() {
    for takes in [MILLISECOND, 200 * MILLISECOND] {
        let numbers = (20, 30);
        let mut slow = Slow::new(numbers, MILLISECOND);
        for nth in 0..20_000_u64 {
            slow.arrive(nth as usize % 3, nth * 2 * MILLISECOND, (takes, true));
        }
        let (worst, promised) = (worst_excess(&slow.world.admitted, 20.0), slow.promised(numbers));
        let late = slow.world.admitted.iter().filter(|time| **time >= 20 * SECOND).count() as f64 / 400.0;
        println!(
            "answers in {} ms: rate·τ + {worst:.1} of {promised:.1}, then {late:.2} of the rate",
            takes / MILLISECOND
        );
        assert!(worst <= promised, "{worst} of {promised}");
        assert!((0.8..=1.2).contains(&late), "{late}: each for itself, it would be three");
    }
}

#[test]
fn answers_that_do_not_match_are_told_to_nobody() {
    let mut slow = Slow::new((1, 20), MILLISECOND);
    for nth in 0..3_000_u64 {
        slow.arrive(nth as usize % 3, nth * 10 * MILLISECOND, (5 * MILLISECOND, false));
    }
    assert_eq!(slow.refused, 0);
    let told = slow.world.gates.iter().map(|gate| gate.engine.peer_sync(0).unwrap().take(at(60 * SECOND)));
    assert!(told.into_iter().all(|section| section.deltas.is_empty()));
}

/// Whether the second gate admits, what it has left then, and how long it wants to wait, a second after the first has done this.
fn told(rule: &Rule, spend: impl Fn(&Engine)) -> (bool, u32, Option<u64>) {
    let mut world = World::new(2, rule, MILLISECOND);
    spend(&world.gates[0].engine);
    world.run_to(SECOND);
    let headers = head(CLIENT);
    let reading = world.gates[1].engine.judge(&request(&headers), arrival(SECOND)).decision.readings[0];
    (reading.outcome == tidegate_policy::engine::Outcome::Admitted, reading.remaining, reading.retry_nanos)
}

#[test]
fn what_an_answer_says_it_cost_is_told_whole_beyond_the_burst_too() {
    let header = HeaderName::from_static("x-cost");
    let cost = CostRule::Response { header: header.clone(), estimate: Cost::ONE, max: None };
    let rule = Rule { cost, ..limited(1, 100) };
    let spend = |says: &'static str| {
        let header = header.clone();
        move |engine: &Engine| {
            let headers = head(CLIENT);
            let mut evaluation = engine.judge(&request(&headers), arrival(0));
            let (mut holds, _) = engine.admit(&mut evaluation, at(0));
            engine.sent(&mut holds);
            let answer = HeaderMap::from_iter([(header.clone(), HeaderValue::from_static(says))]);
            engine.answered(&evaluation, &mut holds, StatusCode::OK, &answer, at(0));
        }
    };
    // 100 less the cost and the request that asks; it was charged at most a second ago
    let (admitted, left, _) = told(&rule, spend("40"));
    assert!(admitted && (59..=60).contains(&left), "{left}");
    assert_eq!(told(&rule, spend("0")).1, 99);
    let (admitted, _, wait) = told(&rule, spend("300"));
    let wait = wait.unwrap() as f64 / SECOND as f64;
    assert!(!admitted && (200.0..=201.1).contains(&wait), "a debt of 200 comes back in 200 s: {wait}");
}

#[test]
fn bytes_are_told_as_they_pass() {
    let rule = Rule { cost: CostRule::Bytes { unit: 1_024 }, ..limited(1, 1_000) };
    let spend = |bytes: u64| {
        move |engine: &Engine| {
            let headers = head(CLIENT);
            let mut evaluation = engine.judge(&request(&headers), arrival(0));
            let _holds = engine.admit(&mut evaluation, at(0));
            for _ in 0..10 {
                engine.carried(&mut evaluation, bytes / 10, at(0));
            }
        }
    };
    let (admitted, left, _) = told(&rule, spend(600 << 10));
    assert!(admitted && (399..=400).contains(&left), "{left}");
    let (admitted, _, wait) = told(&rule, spend(1_500 << 10));
    let wait = wait.unwrap() as f64 / SECOND as f64;
    assert!(!admitted && (500.0..=501.1).contains(&wait), "{wait}");
}

#[test]
fn gates_that_count_bytes_in_other_units_do_not_add_them_up() {
    let rule = |unit| Rule { cost: CostRule::Bytes { unit }, ..limited(1, 1_000) };
    let id = |rule| gate(vec![rule]).peer_sync(0).unwrap().id();
    assert_ne!(id(rule(1)), id(rule(32)));
    assert_ne!(id(rule(1)), id(limited(1, 1_000)));
    assert_eq!(id(rule(32)), id(Rule { kind: limited(5, 9).kind, ..rule(32) }));
}

#[test]
fn a_sliding_quota_counts_what_others_admitted_in_this_window_and_a_part_of_the_one_before() {
    let quota = |sliding| {
        let kind = kinds::Quota { max: 30, window: Duration::from_secs(10).into(), sliding, memory: Bytes(1 << 20) };
        estimated(Rule { kind: Kind::Quota(kind), ..rate("per_client", 1, 1, Mode::Enforce) })
    };
    let mut world = World::new(3, &quota(true), MILLISECOND);
    for nth in 0..10_000_u64 {
        let now = nth * 10 * MILLISECOND;
        world.run_to(now);
        world.arrive(nth as usize % 3, CLIENT, now);
    }
    let of =
        |from: u64, to: u64| world.admitted.iter().filter(|time| (from * SECOND..to * SECOND).contains(*time)).count();
    for window in 1..9 {
        let (whole, start) = (of(10 * window, 10 * window + 10), of(10 * window, 10 * window + 2));
        // 100 requests a second: in the half second that gates know nothing of each other each may take a third of 50
        assert!((15..=60).contains(&whole), "window {window}: {whole}");
        // a fifth of the window has passed, so four fifths of what the one before had count; an aligned one would be spent
        assert!(start <= 24, "window {window} begins with {start}");
    }
    let aligned = gate(vec![quota(false)]).peer_sync(0).unwrap().id();
    assert_eq!(world.gates[0].engine.peer_sync(0).unwrap().id(), aligned, "their units are the same");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn no_schedule_of_answers_charges_more_than_promised(
        arrivals in proptest::collection::vec((0_usize..3, 0_u64..40, 0_u64..400, prop::bool::weighted(0.7)), 200..1_000),
        delay in 1_u64..300,
        numbers in (1_u32..400, 1_u32..400),
    ) {
        let mut slow = Slow::new(numbers, delay * MILLISECOND);
        let mut now = 0;
        for (gate, pause, takes, fails) in arrivals {
            now += pause * MILLISECOND / 4;
            slow.arrive(gate, now, (takes * MILLISECOND, fails));
        }
        slow.run_to(now + SECOND);
        let (worst, promised) = (worst_excess(&slow.world.admitted, f64::from(numbers.0)), slow.promised(numbers));
        prop_assert!(worst <= promised + 1e-6, "{} over {}", worst, promised);
    }
}
