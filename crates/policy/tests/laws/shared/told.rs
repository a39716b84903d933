//! Shared limits of which the store is told later what became of a grant: charges that the answer decides, bytes that pass, places.

use std::sync::{Arc, Mutex};

use http::{HeaderName, HeaderValue, StatusCode};
use tidegate_limits::limiter::HoldElsewhere;
use tidegate_limits::limiter::sharing::amend::amend;
use tidegate_limits::limiter::sharing::places::{LIFE, Lend, Places, RENEWED, lend};
use tidegate_limits::limiter::sharing::{Amendment, Change};
use tidegate_limits::units::Cost;
use tidegate_policy::engine::{Holds, StoreGrant};
use tidegate_policy::policy::{CostRule, Counted, KnownBy, StatusSet};

use super::*;
use crate::book::inflight_by_client;

const CLIENT: &str = "203.0.113.7";

/// What is to be told to the store, of which grant and with how much charged.
type ToTell = Arc<Mutex<Vec<(StoreGrant, u32)>>>;

/// What a request holds in the store, as the face keeps it.
#[derive(Debug)]
struct Kept {
    grant: Option<StoreGrant>,
    sent: bool,
    carried: u32,
    to_tell: ToTell,
}

impl Kept {
    fn finish(&mut self, charged: u32) {
        if let Some(grant) = self.grant.take() {
            self.to_tell.lock().unwrap().push((grant, charged));
        }
    }
}

impl HoldElsewhere for Kept {
    fn is_place(&self) -> bool {
        self.grant.as_ref().is_some_and(|grant| grant.known_by() != KnownBy::Answer)
    }

    fn cost(&self) -> Cost {
        self.grant.as_ref().map_or(Cost::ONE, StoreGrant::cost)
    }

    fn sent(&mut self) {
        self.sent = true;
    }

    fn failed(&mut self) {
        self.sent = false;
    }

    fn settle(mut self: Box<Self>, _: Timestamp, charge: Option<Cost>) {
        self.finish(charge.map_or(0, Cost::get));
    }

    fn charge(&mut self, cost: Cost) {
        self.carried += cost.get();
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let charged = if self.sent { self.cost().get() + self.carried } else { 0 };
        self.finish(charged);
    }
}

/// A request under way.
struct UnderWay {
    gate: usize,
    due: u64,
    evaluation: Evaluation,
    holds: Holds,
    status: StatusCode,
    says: Option<&'static str>,
}

/// Gates whose origins take their time, before one store that hears of it later.
struct Slow {
    gates: Vec<Engine>,
    store: Store,
    places: HashMap<StoreKey, (Places, u64)>,
    under_way: Vec<UnderWay>,
    to_tell: ToTell,
    /// With when it reaches the store.
    on_its_way: Vec<(u64, Amendment)>,
    delay: u64,
    /// Charged in the end, when the answer came.
    charged: Vec<u64>,
    refused: usize,
    slowest: u64,
}

impl Slow {
    fn new(rule: &Rule, delay: u64) -> Slow {
        Slow {
            gates: (0..3).map(|_| gate(vec![rule.clone()])).collect(),
            store: Store::default(),
            places: HashMap::new(),
            under_way: Vec::new(),
            to_tell: ToTell::default(),
            on_its_way: Vec::new(),
            delay,
            charged: Vec::new(),
            refused: 0,
            slowest: 0,
        }
    }

    fn ask(&mut self, question: &Question, nanos: u64) -> (Answer, u64) {
        let now = STORE_AT_ZERO + nanos / 1_000;
        let Promise::Places { max } = question.promise() else { return (self.store.ask(question, nanos), now) };
        (self.lend(question.key, max, (Lend::IfFree, None), now), now)
    }

    fn lend(&mut self, key: StoreKey, max: u32, (how, ends): (Lend, Option<u64>), now: u64) -> Answer {
        self.places.retain(|_, (_, ends)| *ends > now);
        let (answer, written) = lend(self.places.get(&key).map(|(places, _)| places), max, how, ends, now);
        if let Some((places, millis)) = written {
            self.places.insert(key, (places, now + millis * 1_000));
        }
        answer
    }

    fn tell(&mut self, Amendment { question, change }: &Amendment, nanos: u64) -> Answer {
        let now = STORE_AT_ZERO + nanos / 1_000;
        if let Change::Place(how, ends) = *change {
            return self.lend(question.key, question.promise().most(), (how, Some(ends)), now);
        }
        self.store.keys.retain(|_, (_, ends)| *ends > now);
        let known = self.store.keys.get(&question.key).map(|(state, _)| state);
        if let Some((state, millis)) = amend(known, &terms_of(question), question.tier.into(), *change, now) {
            self.store.keys.insert(question.key, (state, now + millis * 1_000));
        }
        Answer { granted: 0, left: 0, retry_nanos: None, ends_nanos: u64::MAX }
    }

    /// Sends what is to be told.
    fn send(&mut self, now: u64) {
        let told = std::mem::take(&mut *self.to_tell.lock().unwrap());
        for (grant, charged) in told {
            let places = grant.places(Lend::Nothing).into_iter().map(|(_, amendment)| amendment);
            let amendments: Vec<_> = match grant.known_by() {
                KnownBy::Place => places.collect(),
                _ => grant.charged(charged).collect(),
            };
            self.on_its_way.extend(amendments.into_iter().map(|amendment| (now + self.delay, amendment)));
            grant.freed();
        }
    }

    fn run_to(&mut self, now: u64) {
        loop {
            let answer = (0..self.under_way.len()).map(|at| (self.under_way[at].due, false, at)).min();
            let heard = (0..self.on_its_way.len()).map(|at| (self.on_its_way[at].0, true, at)).min();
            let next = answer.into_iter().chain(heard).min();
            let Some((due, heard, at)) = next.filter(|(due, ..)| *due <= now) else { return };
            if heard {
                let (_, amendment) = self.on_its_way.swap_remove(at);
                self.tell(&amendment, due);
                continue;
            }
            let UnderWay { gate, evaluation, mut holds, status, says, .. } = self.under_way.swap_remove(at);
            let name = HeaderName::from_static("x-cost");
            let answer = HeaderMap::from_iter(says.map(|says| (name, HeaderValue::from_static(says))));
            self.gates[gate].answered(&evaluation, &mut holds, status, &answer, Timestamp::from_nanos(due));
            if status == StatusCode::UNAUTHORIZED {
                self.charged.push(due);
            }
            drop((evaluation, holds));
            self.send(due);
        }
    }

    /// What the store says of a request, and what it holds there then.
    fn granted(
        &mut self,
        gate: usize,
        evaluation: &Evaluation,
        now: u64,
    ) -> (Option<Box<dyn HoldElsewhere>>, SharedOutcome) {
        let (headers, at) = (head(CLIENT), Timestamp::from_nanos(now));
        let step = self.gates[gate].step(evaluation, 0, &request(&headers), None, (3, at));
        let SharedStep::Ask(call) = step else { panic!("{step:?}: it is asked about each request") };
        let (mut call, mut grant) = (call, None);
        let outcome = loop {
            let answer = self.ask(&call.question, now);
            grant.get_or_insert_with(|| call.grant().unwrap()).answered(&call.question, answer);
            match call.answered(Ok(answer.0), 3, at) {
                ControlFlow::Continue(next) => call = next,
                ControlFlow::Break(outcome) => break outcome,
            }
        };
        let to_tell = Arc::clone(&self.to_tell);
        // of one name that granted while the other did not, too
        let kept = Box::new(Kept { grant, sent: false, carried: 0, to_tell });
        let hold = matches!(outcome, SharedOutcome::Paid { .. }).then_some(kept as Box<dyn HoldElsewhere>);
        (hold, outcome)
    }

    /// A request that passes, with what it holds.
    fn ask_for(&mut self, gate: usize, now: u64) -> Option<(Evaluation, Holds)> {
        self.run_to(now);
        let (headers, at) = (head(CLIENT), Timestamp::from_nanos(now));
        let mut evaluation = self.gates[gate].judge(&request(&headers), arrival(now));
        if evaluation.decision.verdict == Verdict::Admitted {
            let (hold, outcome) = self.granted(gate, &evaluation, now);
            self.gates[gate].settle(&mut evaluation, 0, outcome);
            hold.into_iter().for_each(|hold| evaluation.keep(0, hold));
        }
        let (mut holds, _) = self.gates[gate].admit(&mut evaluation, at);
        if evaluation.decision.verdict != Verdict::Admitted {
            self.refused += 1;
            assert!(holds.is_empty());
            return None;
        }
        self.gates[gate].sent(&mut holds);
        Some((evaluation, holds))
    }

    fn arrive(&mut self, gate: usize, now: u64, takes: u64, status: u16, says: Option<&'static str>) {
        let Some((evaluation, holds)) = self.ask_for(gate, now) else { return };
        self.slowest = self.slowest.max(takes + self.delay);
        let status = StatusCode::from_u16(status).unwrap();
        self.under_way.push(UnderWay { gate, due: now + takes, evaluation, holds, status, says });
    }
}

fn failures((events, burst): (u32, u32), sharing: Sharing) -> Rule {
    let rule = rate("per_client", events, burst, Mode::Enforce);
    shared(Rule { counted: Counted::Responses(StatusSet::NONE.with(401, 401)), ..rule }, sharing, OnStoreError::Closed)
}

fn priced((events, burst): (u32, u32)) -> Rule {
    let cost =
        CostRule::Response { header: HeaderName::from_static("x-cost"), estimate: Cost::new(2).unwrap(), max: None };
    shared(Rule { cost, ..rate("per_client", events, burst, Mode::Enforce) }, Sharing::Lease, OnStoreError::Closed)
}

#[test]
fn guesses_at_three_gates_come_to_one_limit_however_it_is_shared() {
    for sharing in [Sharing::Lease, Sharing::Exact] {
        let mut slow = Slow::new(&failures((10, 20), sharing), MILLISECOND);
        for nth in 0..15_000_u64 {
            slow.arrive(nth as usize % 3, nth * 2 * MILLISECOND, 50 * MILLISECOND, 401, None);
        }
        slow.run_to(40 * SECOND);
        let worst = worst_excess(&slow.charged, 10.0);
        println!("{sharing:?}: {} charged in 30 s, rate·τ + {worst:.2} of 20.5", slow.charged.len());
        assert!(worst <= 20.0 + 10.0 * 0.051, "{worst}");
        assert!((310..=321).contains(&slow.charged.len()), "{}", slow.charged.len());
        // fifty times a second at each gate, and what passes
        let most = 3 * 50 * 30 + slow.charged.len();
        assert!(slow.store.questions <= most, "a flood on a spent key asks seldom: {}", slow.store.questions);
    }
}

#[test]
fn answers_that_do_not_count_cost_nothing() {
    let mut slow = Slow::new(&failures((1, 5), Sharing::Lease), MILLISECOND);
    for nth in 0..3_000_u64 {
        slow.arrive(nth as usize % 3, nth * 5 * MILLISECOND, 3 * MILLISECOND, 200, None);
    }
    // five at once that come without a pause are each seen by the next
    assert_eq!(slow.refused, 0);
    slow.run_to(16 * SECOND);
    let after = STORE_AT_ZERO + 16_000_000;
    assert!(slow.store.keys.values().all(|(_, ends)| *ends <= after), "{:?}", slow.store.keys);
}

#[test]
fn attempts_under_way_at_one_gate_count_at_the_others() {
    let mut slow = Slow::new(&failures((1, 5), Sharing::Exact), MILLISECOND);
    for nth in 0..30_u64 {
        slow.arrive(nth as usize % 3, nth * MILLISECOND, 500 * MILLISECOND, 401, None);
    }
    assert_eq!((slow.under_way.len(), slow.refused), (5, 25));
    slow.run_to(SECOND);
    assert_eq!(slow.charged.len(), 5);
}

#[test]
fn what_an_answer_says_it_cost_is_charged_at_all_gates_beyond_the_burst_too() {
    // an answer that costs less than was held back, and then three bursts
    let mut slow = Slow::new(&priced((1, 10)), MILLISECOND);
    slow.arrive(0, 0, MILLISECOND, 200, Some("1"));
    slow.run_to(100 * MILLISECOND);
    assert!(slow.ask_for(1, 100 * MILLISECOND).is_some());
    slow.to_tell.lock().unwrap().clear();
    let mut slow = Slow::new(&priced((1, 10)), MILLISECOND);
    slow.arrive(0, 0, MILLISECOND, 200, Some("30"));
    for gate in 0..3 {
        for second in [1, 10, 19, 20] {
            assert!(slow.ask_for(gate, second * SECOND).is_none(), "gate {gate} after {second} s");
        }
    }
    assert!(slow.ask_for(1, 23 * SECOND).is_some(), "two bursts have come back, and what is held back for one");
}

#[test]
fn bytes_are_charged_as_they_pass_at_all_gates() {
    let rule = Rule { cost: CostRule::Bytes { unit: 1_024 }, ..rate("per_client", 1, 1_000, Mode::Enforce) };
    let mut slow = Slow::new(&shared(rule, Sharing::Lease, OnStoreError::Closed), MILLISECOND);
    let (mut evaluation, holds) = slow.ask_for(0, 0).unwrap();
    for _ in 0..10 {
        assert_eq!(slow.gates[0].carried(&mut evaluation, 150 << 10, Timestamp::ZERO), 0);
    }
    drop((evaluation, holds));
    slow.send(0);
    assert!(slow.ask_for(1, SECOND).is_none() && slow.ask_for(2, 499 * SECOND).is_none());
    assert!(slow.ask_for(2, 502 * SECOND).is_some());
}

#[test]
fn what_another_limit_refuses_comes_back_from_the_store() {
    let asked = failures((1, 2), Sharing::Exact);
    let mut slow = Slow::new(&asked, 0);
    slow.gates[0] = gate(vec![asked, rate("spent", 1, 1, Mode::Enforce)]);
    let (headers, now) = (head(CLIENT), Timestamp::ZERO);
    // both are read before the first is charged
    let both = [(); 2].map(|()| slow.gates[0].judge(&request(&headers), arrival(0)));
    let admitted = both.map(|mut evaluation| {
        let (hold, outcome) = slow.granted(0, &evaluation, 0);
        slow.gates[0].settle(&mut evaluation, 0, outcome);
        evaluation.keep(0, hold.unwrap());
        let (mut holds, _) = slow.gates[0].admit(&mut evaluation, now);
        slow.gates[0].sent(&mut holds);
        (evaluation.decision.verdict, holds)
    });
    assert_eq!(admitted.each_ref().map(|(verdict, _)| *verdict), [Verdict::Admitted, Verdict::Refused(Refusal::Limit)]);
    assert!(slow.ask_for(1, 0).is_none(), "two are charged");
    slow.send(0);
    slow.run_to(25 * MILLISECOND);
    assert!(slow.ask_for(1, 25 * MILLISECOND).is_some(), "one came back");
    assert!(slow.ask_for(2, 25 * MILLISECOND).is_none(), "and no more");
}

fn places(max: u32) -> Rule {
    shared(inflight_by_client(max), Sharing::Lease, OnStoreError::Closed)
}

#[test]
fn three_gates_have_so_many_requests_of_a_client_under_way_as_one_was_to() {
    let mut slow = Slow::new(&places(4), MILLISECOND);
    let mut most = 0;
    for nth in 0..6_000_u64 {
        slow.arrive(nth as usize % 3, nth * 3 * MILLISECOND, (nth % 7) * 10 * MILLISECOND, 200, None);
        most = most.max(slow.under_way.len());
    }
    assert_eq!(most, 4);
    // each place is there again once it is told: a client of one request after the other is never refused
    slow.run_to(30 * SECOND);
    let before = slow.refused;
    for nth in 0..300_u64 {
        slow.arrive(nth as usize % 3, 30 * SECOND + nth * 20 * MILLISECOND, 10 * MILLISECOND, 200, None);
    }
    assert_eq!(slow.refused, before);
    assert!(slow.refused > 100);
}

#[test]
fn the_places_of_a_gate_that_is_killed_come_back_by_themselves() {
    let mut slow = Slow::new(&places(2), MILLISECOND);
    let killed = [slow.ask_for(0, 0).unwrap(), slow.ask_for(0, 0).unwrap()];
    killed.into_iter().for_each(std::mem::forget);
    let life = LIFE.as_nanos() as u64;
    assert!(slow.ask_for(1, life - SECOND).is_none());
    assert!(slow.ask_for(1, 2 * life).is_some());
}

#[test]
fn a_store_that_is_emptied_lends_at_most_as_many_again_until_all_are_lent_anew() {
    let mut slow = Slow::new(&places(3), 0);
    let first: Vec<_> = (0..3).map(|gate| slow.ask_for(gate, 0).unwrap()).collect();
    slow.places.clear();
    let second: Vec<_> = (0..9).filter_map(|nth| slow.ask_for(nth % 3, 21 * MILLISECOND * nth as u64)).collect();
    assert_eq!(second.len(), 3, "twice as many");
    // one of before ends, and takes another's place out with it: there are five, and one place is lent, so six again
    let mut first = first.into_iter();
    drop(first.next());
    slow.send(SECOND);
    let third = slow.ask_for(0, SECOND);
    assert!(third.is_some() && slow.ask_for(1, SECOND).is_none());
    // those of before are lent anew
    for (_, holds) in first.by_ref() {
        std::mem::forget(holds);
    }
    let key = *slow.places.keys().next().unwrap();
    let renewed = STORE_AT_ZERO + RENEWED.as_micros() as u64;
    (0..5).for_each(|_| _ = slow.lend(key, 3, (Lend::Anew, None), renewed));
    drop((second, third));
    slow.send(4 * SECOND);
    slow.run_to(5 * SECOND);
    assert!(slow.ask_for(2, 5 * SECOND).is_none(), "those that are under way count again");
}

#[test]
fn a_new_secret_gives_nobody_more_places_at_any_step() {
    const BOTH: Secrets<'static> = (b"another for all gates", Some(SECRETS.0));
    const NEW: Secrets<'static> = (BOTH.0, None);
    let rule = places(3);
    let mut slow = Slow::new(&rule, 0);
    let mut now = 0;
    let mut under_way = vec![slow.ask_for(0, now).unwrap()];
    for (gate, secrets) in [(0, BOTH), (1, BOTH), (2, BOTH), (0, NEW), (1, NEW), (2, NEW)] {
        now += SECOND;
        slow.gates[gate] = reloaded(&slow.gates[gate], vec![rule.clone()], secrets, now);
        if gate == 0 && secrets == NEW {
            // what was lent under the previous name alone has ended by then
            under_way.clear();
            slow.send(now);
            slow.run_to(now);
        }
        for nth in 0..9 {
            now += 30 * MILLISECOND;
            under_way.extend(slow.ask_for(nth % 3, now));
        }
        assert_eq!(under_way.len(), 3, "gate {gate} has {secrets:?}");
        // one ends; of a grant by one name that the other refused nothing is left
        drop(under_way.remove(0));
        slow.send(now);
        slow.run_to(now);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Beyond B + r·τ what was held back and drained while answers were under way, and B once where the store was emptied.
    #[test]
    fn no_schedule_of_answers_has_more_charged_than_promised(
        arrivals in proptest::collection::vec((0_usize..3, 0_u64..60, 0_u64..2_000, prop::bool::weighted(0.6)), 200..900),
        delay in 0_u64..40,
        numbers in (1_u32..200, 1_u32..100),
        emptied in 0_usize..900,
    ) {
        let arrivals_in_all = arrivals.len();
        let mut slow = Slow::new(&failures(numbers, Sharing::Exact), delay * MILLISECOND);
        let mut now = 0;
        for (nth, (gate, pause, takes, fails)) in arrivals.into_iter().enumerate() {
            if nth == emptied {
                slow.store.keys.clear();
            }
            now += pause * MILLISECOND / 2;
            slow.arrive(gate, now, takes * MILLISECOND, if fails { 401 } else { 200 }, None);
        }
        slow.run_to(now + 10 * SECOND);
        let (rate, burst) = (f64::from(numbers.0), f64::from(numbers.1));
        let drained = rate * slow.slowest as f64 / SECOND as f64;
        let worst = worst_excess(&slow.charged, rate);
        let once = if emptied < arrivals_in_all { burst } else { 0.0 };
        prop_assert!(worst <= burst + drained + once + 1e-3, "{} over {} + {} + {}", worst, burst, drained, once);
    }

    /// Whatever ends when, and whatever is lent anew.
    #[test]
    fn no_schedule_has_more_places_taken_than_there_are(
        steps in proptest::collection::vec((0_usize..3, 0_u64..1_500, prop::bool::weighted(0.6)), 100..600),
        max in 1_u32..6,
    ) {
        let mut slow = Slow::new(&places(max), 0);
        let (mut now, mut under_way) = (0, Vec::<(u64, Evaluation, Holds)>::new());
        for (gate, pause, comes) in steps {
            now += pause * MILLISECOND;
            if comes {
                let admitted = slow.ask_for(gate, now);
                under_way.extend(admitted.map(|(evaluation, holds)| (now, evaluation, holds)));
            } else if !under_way.is_empty() {
                // the oldest ends; none is as old as a life, so none need be lent anew
                under_way.remove(0);
            }
            under_way.retain(|(began, ..)| now - began < LIFE.as_nanos() as u64 - 1_500 * MILLISECOND);
            slow.send(now);
            slow.run_to(now);
            prop_assert!(under_way.len() <= max as usize, "{} of {}", under_way.len(), max);
        }
    }
}
