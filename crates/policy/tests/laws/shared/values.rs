//! Different values that several gates count in one store: `type: distinct`.

use std::collections::BTreeSet;

use http::HeaderValue;
use tidegate_limits::limiter::sharing::promise::Terms;
use tidegate_limits::limiter::sharing::values::{Values, count};
use tidegate_policy::engine::{Outcome, Reading};

use super::*;
use crate::book::distinct;

const WINDOW: Duration = Duration::from_secs(10);
const WINDOW_MICROS: u64 = 10_000_000;

/// A request of the one client with this name.
fn named(name: &str) -> HeaderMap {
    let mut headers = head("203.0.113.7");
    headers.insert("x-name", HeaderValue::from_str(name).unwrap());
    headers
}

fn micros(nanos: u64) -> u64 {
    STORE_AT_ZERO + nanos / 1_000
}

/// A store of values, by key.
#[derive(Default)]
struct ValueStore {
    keys: HashMap<StoreKey, Values>,
    questions: usize,
}

impl ValueStore {
    fn ask(&mut self, question: &Question, nanos: u64) -> Answer {
        self.questions += 1;
        let Ok(Terms::Values(terms)) = question.promise().terms() else { panic!("{question:?}") };
        let kept = self.keys.entry(question.key).or_default();
        count(kept, &terms, question.value.expect("the name of a value"), question.wanted, micros(nanos)).0
    }
}

/// A request, and where it is.
struct Asked {
    gate: usize,
    name: String,
    began: u64,
    evaluation: Evaluation,
    state: Where,
}

enum Where {
    ToStore(SharedCall, u64),
    /// With when the store answered, and when that is here.
    FromStore(SharedCall, Answer, u64, u64),
    Waits(u64),
}

/// Gates before one store, whose questions take their time, and are lost.
struct Gates {
    gates: Vec<Engine>,
    store: ValueStore,
    asked: Vec<Asked>,
    /// How long each question takes to the store and back, in turns; above a second the answer is lost.
    ways: Vec<(u64, u64)>,
    sent: usize,
    /// When a name passed: by a lease when it did, otherwise when the store said so.
    passed: Vec<(u64, String)>,
    refused: Vec<(u64, String)>,
    silent: usize,
    last: Option<Reading>,
}

impl Gates {
    fn new(rule: &Rule, ways: Vec<(u64, u64)>) -> Gates {
        Gates {
            gates: (0..3).map(|_| gate(vec![rule.clone()])).collect(),
            store: ValueStore::default(),
            asked: Vec::new(),
            ways,
            sent: 0,
            passed: Vec::new(),
            refused: Vec::new(),
            silent: 0,
            last: None,
        }
    }

    fn arrive(&mut self, gate: usize, name: &str, now: u64) {
        let evaluation = self.gates[gate].judge(&request(&named(name)), arrival(now));
        self.step(gate, name.to_owned(), now, evaluation, None, now);
    }

    fn step(
        &mut self,
        gate: usize,
        name: String,
        began: u64,
        evaluation: Evaluation,
        waited_for: Option<u64>,
        now: u64,
    ) {
        let engine = &self.gates[gate];
        if engine.to_settle(&evaluation).is_empty() {
            return self.finish(gate, name, evaluation, None, now, now);
        }
        let around = (3, Timestamp::from_nanos(now));
        let state = match engine.step(&evaluation, 0, &request(&named(&name)), waited_for, around) {
            SharedStep::Done(outcome) => return self.finish(gate, name, evaluation, Some(outcome), now, now),
            SharedStep::Ask(call) => self.send(call, now),
            SharedStep::Wait { question, .. } => Where::Waits(waited_for.unwrap_or(question)),
        };
        self.asked.push(Asked { gate, name, began, evaluation, state });
    }

    fn send(&mut self, call: SharedCall, now: u64) -> Where {
        self.sent += 1;
        Where::ToStore(call, now + self.ways[self.sent % self.ways.len()].0)
    }

    fn finish(
        &mut self,
        gate: usize,
        name: String,
        mut evaluation: Evaluation,
        outcome: Option<SharedOutcome>,
        said: u64,
        now: u64,
    ) {
        if let Some(outcome) = outcome {
            self.silent += usize::from(matches!(outcome, SharedOutcome::Unanswered { .. }));
            self.gates[gate].settle(&mut evaluation, 0, outcome);
        }
        assert_eq!(self.gates[gate].refills(&evaluation).count(), 0, "what is asked in the background counts");
        let _ = self.gates[gate].admit(&mut evaluation, Timestamp::from_nanos(now));
        let reading = evaluation.decision.readings[0];
        self.last = Some(reading);
        match reading.outcome {
            Outcome::Admitted => {
                self.passed.push((if reading.by == DecidedBy::Store { said } else { now }, name));
            }
            _ if evaluation.decision.verdict == Verdict::Refused(Refusal::Limit) => self.refused.push((now, name)),
            _ => {}
        }
    }

    /// Everything up to `now`, in its order.
    fn run_to(&mut self, now: u64) {
        loop {
            let due = |asked: &Asked| match asked.state {
                Where::ToStore(_, at) | Where::FromStore(_, _, _, at) => at,
                Where::Waits(_) => asked.began + 5 * MILLISECOND,
            };
            let next = self.asked.iter().enumerate().map(|(place, asked)| (due(asked), place)).min();
            let Some((at, place)) = next.filter(|(at, _)| *at <= now) else { return };
            let Asked { gate, name, began, evaluation, state } = self.asked.swap_remove(place);
            match state {
                Where::ToStore(call, _) => {
                    let answer = self.store.ask(&call.question, at);
                    let back = at + self.ways[self.sent % self.ways.len()].1;
                    let state = Where::FromStore(call, answer, at, back);
                    self.asked.push(Asked { gate, name, began, evaluation, state });
                }
                Where::FromStore(call, answer, said, _) => {
                    let lost = at - began > SECOND;
                    let answer = if lost { Err(StoreError::TimedOut) } else { Ok(answer) };
                    let outcome = match call.answered(answer, 3, Timestamp::from_nanos(at)) {
                        ControlFlow::Break(outcome) => outcome,
                        ControlFlow::Continue(call) => {
                            let state = self.send(call, at);
                            self.asked.push(Asked { gate, name, began, evaluation, state });
                            continue;
                        }
                    };
                    self.finish(gate, name, evaluation, Some(outcome), said, at);
                    let waiting = std::mem::take(&mut self.asked);
                    for asked in waiting {
                        match asked.state {
                            Where::Waits(question) => {
                                let Asked { gate, name, began, evaluation, .. } = asked;
                                self.step(gate, name, began, evaluation, Some(question), at);
                            }
                            _ => self.asked.push(asked),
                        }
                    }
                }
                Where::Waits(_) => {
                    self.finish(gate, name, evaluation, Some(unanswered(StoreError::TimedOut, 3)), at, at);
                }
            }
        }
    }

    /// How many different names passed in the window around `at`, or less than a window before it.
    fn different(&self, at: u64, sliding: bool) -> usize {
        let within = |(other, _): &&(u64, String)| match sliding {
            true => *other <= at && at - *other < SECOND * WINDOW.as_secs(),
            false => micros(*other) / WINDOW_MICROS == micros(at) / WINDOW_MICROS,
        };
        self.passed.iter().filter(within).map(|(_, name)| name).collect::<BTreeSet<_>>().len()
    }
}

fn rule(max: u32, sliding: bool, sharing: Sharing) -> Rule {
    shared(distinct(max, WINDOW, sliding), sharing, OnStoreError::Closed)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn no_schedule_lets_more_different_values_pass_than_promised(
        arrivals in proptest::collection::vec(
            (0_usize..3, 0_u32..9, prop_oneof![30 => 0..40 * MILLISECOND, 2 => 0..4 * SECOND]),
            100..600,
        ),
        // most are quick, some take most of a lease's life, and some are lost
        ways in proptest::collection::vec(prop_oneof![
            12 => (0..2 * MILLISECOND, 0..2 * MILLISECOND),
            2 => (0..400 * MILLISECOND, 0..500 * MILLISECOND),
            1 => (Just(MILLISECOND), Just(2 * SECOND)),
        ], 1..40),
        max in 1_u32..7,
        sliding: bool,
        sharing in prop_oneof![Just(Sharing::Lease), Just(Sharing::Exact)],
    ) {
        let mut gates = Gates::new(&rule(max, sliding, sharing), ways);
        let mut now = 0;
        for (gate, name, pause) in arrivals {
            now += pause;
            gates.run_to(now);
            gates.arrive(gate, &format!("name-{name}"), now);
        }
        gates.run_to(now + 10 * SECOND);
        prop_assert!(gates.asked.is_empty());
        let most = if sliding { 2 * max } else { max };
        for (at, _) in &gates.passed {
            let different = gates.different(*at, sliding);
            prop_assert!(different <= most as usize, "{different} of {most} around {at}");
        }
        // and a name that has passed in a window passes in all of it, at every gate, but for refusals that were on their way
        for (at, name) in gates.refused.iter().filter(|_| !sliding) {
            let before = |(other, known): &&(u64, String)| {
                known == name && other + SECOND < *at && micros(*other) / WINDOW_MICROS == micros(*at) / WINDOW_MICROS
            };
            prop_assert!(gates.passed.iter().find(before).is_none(), "{name} is refused at {at}");
        }
    }
}

#[test]
fn three_gates_let_as_many_different_values_pass_as_one_and_ask_seldom_about_those_they_know() {
    for (sharing, most) in [(Sharing::Lease, 400), (Sharing::Exact, usize::MAX)] {
        let mut gates = Gates::new(&rule(20, false, sharing), vec![(MILLISECOND / 2, MILLISECOND / 2)]);
        for nth in 0..9_000_u64 {
            let now = nth * MILLISECOND;
            gates.run_to(now);
            gates.arrive((nth % 3) as usize, &format!("name-{}", nth / 3 % 25), now);
        }
        gates.run_to(9 * SECOND);
        assert_eq!(gates.different(0, false), 20, "{sharing:?}");
        // twenty of 25 names pass, each time
        assert_eq!((gates.passed.len(), gates.refused.len(), gates.silent), (7_200, 1_800, 0), "{sharing:?}");
        println!("{sharing:?}: {} questions for 9,000 requests", gates.store.questions);
        assert!(gates.store.questions <= most, "{sharing:?}: {}", gates.store.questions);
    }
}

#[test]
fn what_is_left_is_what_the_store_has_room_for_and_retry_after_comes_true() {
    let mut gates = Gates::new(&rule(3, true, Sharing::Lease), vec![(0, 0)]);
    let ask = |gates: &mut Gates, name: &str, now: u64| {
        gates.arrive(0, name, now);
        gates.run_to(now);
        gates.last.unwrap()
    };
    for (nth, name) in ["a", "b", "a", "c"].into_iter().enumerate() {
        let reading = ask(&mut gates, name, nth as u64 * MILLISECOND);
        assert_eq!(reading.outcome, Outcome::Admitted, "{name}");
        assert_eq!(reading.remaining, [2, 1, 2, 0][nth], "{name}: what the store had left when it was asked about it");
    }
    assert_eq!(ask(&mut gates, "d", 4 * SECOND).by, DecidedBy::Store);
    let reading = ask(&mut gates, "d", 4 * SECOND);
    assert_eq!((reading.outcome, reading.by), (Outcome::Refused, DecidedBy::Lease));
    let again = reading.retry_nanos.unwrap();
    // the first ends ten seconds after it was counted, and a tick is two milliseconds
    assert!((6 * SECOND..=6 * SECOND + 3 * MILLISECOND).contains(&again), "{again}");
    assert_eq!(ask(&mut gates, "d", 4 * SECOND + again).outcome, Outcome::Admitted);
    assert_eq!(gates.refused.len(), 2);
}

#[test]
fn a_silent_store_leaves_each_gate_its_part_of_the_values() {
    let gate = gate(vec![shared(distinct(9, WINDOW, false), Sharing::Lease, OnStoreError::Local)]);
    let ask = |name: u32, nodes| {
        let mut evaluation = gate.judge(&request(&named(&name.to_string())), arrival(0));
        gate.settle(&mut evaluation, 0, unanswered(StoreError::Unreachable, nodes));
        let _ = gate.admit(&mut evaluation, Timestamp::ZERO);
        evaluation.decision.verdict == Verdict::Admitted
    };
    assert_eq!((0..20).filter(|name| ask(*name, 3)).collect::<Vec<_>>(), [0, 1, 2]);
    assert!((0..3).all(|name| ask(name, 3)), "those that passed pass again");
}

#[test]
fn a_value_counts_under_both_names_while_the_secret_is_changed() {
    const NEXT: Secrets<'static> = (b"the next secret of all", Some(SECRETS.0));
    let rules = || vec![rule(4, false, Sharing::Lease)];
    let mut gates = Gates::new(&rules()[0], vec![(MILLISECOND, MILLISECOND)]);
    gates.gates[1] = reloaded(&gates.gates[1], rules(), NEXT, 0);
    for nth in 0..60_u64 {
        let now = nth * 20 * MILLISECOND;
        gates.run_to(now);
        gates.arrive((nth % 3) as usize, &format!("name-{}", nth % 7), now);
    }
    gates.run_to(2 * SECOND);
    assert_eq!(gates.different(0, false), 4);
    // by whichever name: what passed at one gate passes at all
    let passed: BTreeSet<&String> = gates.passed.iter().map(|(_, name)| name).collect();
    assert!(gates.refused.iter().all(|(_, name)| !passed.contains(name)), "{:?}", gates.refused);
    let mut counts: Vec<usize> = gates.store.keys.values().map(Values::count).collect();
    counts.sort_unstable();
    // two names of the key, and the new one knows what passed at the gate that has it
    assert_eq!((counts.len(), counts[1]), (2, 4), "{counts:?}");
    assert!(counts[0] > 0);
}
