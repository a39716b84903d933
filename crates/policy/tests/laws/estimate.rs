//! Limits of which gates tell each other what they admitted, on a virtual clock: real snapshots and real messages, and a way
//! between them that takes its time, is cut, and brings some twice.

mod late;

use std::time::Duration;

use proptest::prelude::*;
use tidegate_limits::limiter::sharing::deltas::message::{Message, NodeId, Section};
use tidegate_limits::limiter::sharing::deltas::peers::{Peers, Received};
use tidegate_limits::limiter::sharing::{OnStoreError, Sharing};
use tidegate_limits::units::{Bytes, Timestamp};
use tidegate_policy::engine::{Base, DecidedBy, Engine, Evaluation, Verdict};
use tidegate_policy::policy::{Kind, Mode, Rule, kinds};

use crate::book::{arrival, head, rate, request};
use crate::shared::{SECRETS, gate, shared, worst_excess};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

fn estimated(rule: Rule) -> Rule {
    shared(rule, Sharing::Estimate, OnStoreError::Local)
}

fn limited(events: u32, burst: u32) -> Rule {
    estimated(rate("per_client", events, burst, Mode::Enforce))
}

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

/// One gate with all that its face keeps.
struct Gate {
    engine: Engine,
    node: NodeId,
    sequence: u64,
    peers: Peers,
    /// Up to when the admissions of each gate are charged here.
    known: Vec<u64>,
    /// When it tells and asks next, and, while it does, when the answer is there.
    next: u64,
    hears: Option<u64>,
    /// How many of the letters it has read.
    read: usize,
}

/// A message in the store.
struct Letter {
    from: usize,
    taken: u64,
    stored: u64,
    bytes: Vec<u8>,
}

/// Gates that tell each other what they admit through a store, every 100 to 250 ms and over a way of `delay`, there and back.
struct World {
    gates: Vec<Gate>,
    letters: Vec<Letter>,
    delay: u64,
    dice: u64,
    /// Whether nobody reaches the store.
    cut: bool,
    /// Whether every message comes twice.
    twice: bool,
    admitted: Vec<u64>,
    /// The oldest that a gate knew of any other when it admitted.
    oldest: u64,
}

impl World {
    fn new(gates: usize, rule: &Rule, delay: u64) -> World {
        let gate = |number| Gate {
            engine: gate(vec![rule.clone()]),
            node: NodeId([number as u8; 16]),
            sequence: 0,
            peers: Peers::default(),
            known: vec![0; gates],
            next: number as u64 * 70 * MILLISECOND,
            hears: None,
            read: 0,
        };
        World {
            gates: (0..gates).map(gate).collect(),
            letters: Vec::new(),
            delay,
            dice: 1,
            cut: false,
            twice: false,
            admitted: Vec::new(),
            oldest: 0,
        }
    }

    fn arrive(&mut self, gate: usize, client: &str, now: u64) -> Evaluation {
        let headers = head(client);
        let engine = &self.gates[gate].engine;
        let mut evaluation = engine.judge(&request(&headers), arrival(now));
        assert!(engine.to_settle(&evaluation).is_empty(), "no request waits for a store");
        let _ = engine.admit(&mut evaluation, at(now));
        if evaluation.decision.verdict == Verdict::Admitted {
            self.admitted.push(now);
            let others = self.gates[gate].known.iter().enumerate().filter(|(other, _)| *other != gate);
            let oldest = others.map(|(_, known)| now - known).max().unwrap_or(0);
            self.oldest = self.oldest.max(oldest);
        }
        evaluation
    }

    /// Everything that is told and heard up to `now`, in its order.
    fn run_to(&mut self, now: u64) {
        loop {
            let due = |gate: &Gate| gate.hears.unwrap_or(gate.next);
            let first = (0..self.gates.len()).min_by_key(|gate| due(&self.gates[*gate])).unwrap();
            match (due(&self.gates[first]), self.gates[first].hears) {
                (next, _) if next > now => return,
                (next, None) => self.tell(first, next),
                (next, Some(_)) => self.hear(first, next),
            }
        }
    }

    fn tell(&mut self, from: usize, now: u64) {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let gate = &mut self.gates[from];
        gate.next = now + self.delay + (100 + (self.dice >> 33) % 151) * MILLISECOND;
        if self.cut {
            return;
        }
        gate.sequence += 1;
        gate.hears = Some(now + self.delay);
        let section = gate.engine.peer_sync(0).unwrap().take(at(now));
        let message =
            Message { secret: 1, node: gate.node, sequence: gate.sequence, age_millis: 0, sections: vec![section] };
        for _ in 0..1 + u64::from(self.twice) {
            self.letters.push(Letter { from, taken: now, stored: now + self.delay / 2, bytes: message.encode() });
        }
    }

    fn hear(&mut self, to: usize, now: u64) {
        let gate = &mut self.gates[to];
        gate.hears = None;
        while let Some(letter) = self.letters.get(gate.read).filter(|letter| letter.stored <= now - self.delay / 2) {
            gate.read += 1;
            let message = Message::decode(&letter.bytes).unwrap();
            if letter.from == to
                || gate.peers.receive(message.node, message.sequence, at(letter.taken), at(now)) == Received::Replay
            {
                continue;
            }
            let told = gate.engine.peer_sync(0).unwrap();
            for section in &message.sections {
                assert_eq!(section.limit, told.id(), "all gates know it by the same");
                told.charge(section, at(now));
            }
            gate.known[letter.from] = letter.taken;
        }
    }

    /// What all gates together may admit beyond rate·τ, by the oldest knowledge that any of them had.
    fn promised(&self, (events, burst): (u32, u32)) -> f64 {
        let (rate, burst) = (f64::from(events), f64::from(burst));
        let others = self.gates.len() as f64 - 1.0;
        burst + others * (burst + rate * self.oldest as f64 / SECOND as f64)
    }
}

/// Three gates, one key, hammered at `times` its rate for so many seconds.
fn hammered((events, burst): (u32, u32), times: u32, seconds: u64, delay: u64) -> World {
    let mut world = World::new(3, &limited(events, burst), delay);
    let every = SECOND / u64::from(events * times);
    for nth in 0..seconds * SECOND / every {
        world.run_to(nth * every);
        world.arrive(nth as usize % 3, "203.0.113.7", nth * every);
    }
    world
}

#[test]
fn three_gates_stay_within_what_their_knowledge_allows_and_shed_all_the_rest() {
    for (numbers @ (events, burst), times) in [((100, 100), 10), ((100, 20), 10), ((1_000, 500), 4), ((20, 60), 20)] {
        for delay in [MILLISECOND, 50 * MILLISECOND, 400 * MILLISECOND] {
            // so long that the bursts of all gates have long come back
            let seconds = 30 + 10 * u64::from(burst / events);
            let world = hammered(numbers, times, seconds, delay);
            let (worst, promised) = (worst_excess(&world.admitted, f64::from(events)), world.promised(numbers));
            let half = seconds / 2 * SECOND;
            let late = world.admitted.iter().filter(|time| **time >= half).count() as f64;
            let share = late / (f64::from(events) * (seconds - seconds / 2) as f64);
            println!(
                "{events}/s burst {burst}, {times} times, way of {} ms: knowledge up to {} ms old, worst interval \
                 rate·τ + {worst:.1} of {promised:.1}; in the long run {share:.3} of the rate",
                delay / MILLISECOND,
                world.oldest / MILLISECOND
            );
            assert!(world.oldest <= 500 * MILLISECOND + 3 * delay, "{}", world.oldest);
            assert!(worst <= promised, "{numbers:?}: {worst} of {promised}");
            assert!((0.8..=1.2).contains(&share), "{numbers:?}: {share}");
        }
    }
}

#[test]
fn a_message_that_comes_twice_counts_once() {
    let (mut once, mut twice) =
        (World::new(2, &limited(100, 100), MILLISECOND), World::new(2, &limited(100, 100), MILLISECOND));
    twice.twice = true;
    for world in [&mut once, &mut twice] {
        for nth in 0..40 {
            world.arrive(0, "203.0.113.7", nth);
        }
        world.run_to(SECOND / 2);
    }
    let left = |world: &mut World| world.arrive(1, "203.0.113.7", SECOND / 2).decision.readings[0].remaining;
    assert_eq!(left(&mut once), left(&mut twice));
}

#[test]
fn what_was_told_counts_for_that_key_alone_and_says_whose_word_it_is() {
    let mut world = World::new(2, &limited(1, 10), MILLISECOND);
    for nth in 0..10 {
        world.arrive(0, "203.0.113.7", nth);
    }
    world.run_to(SECOND);
    let reading = world.arrive(1, "203.0.113.7", SECOND).decision.readings[0];
    assert_eq!(reading.by, DecidedBy::Estimate);
    assert_eq!(world.arrive(1, "203.0.113.8", SECOND).decision.readings[0].remaining, 9);
    assert_eq!(reading.remaining, 0, "one came back, and was taken");
}

#[test]
fn who_stayed_below_its_rate_is_not_kept_out_when_gates_find_each_other_again() {
    let mut world = World::new(3, &limited(30, 30), MILLISECOND);
    world.cut = true;
    // nine tenths of the rate, evenly over all gates, while none hears of another for a minute
    let every = SECOND / 27;
    let mut refused = 0;
    for nth in 0..27 * 90 {
        let now = nth * every;
        world.cut = now < 60 * SECOND;
        world.run_to(now);
        let verdict = world.arrive(nth as usize % 3, "203.0.113.7", now).decision.verdict;
        refused += usize::from(verdict != Verdict::Admitted);
    }
    assert_eq!(refused, 0);
}

#[test]
fn gates_that_were_cut_off_stay_within_what_the_cut_allows() {
    let numbers = (50, 100);
    let mut world = World::new(3, &limited(50, 100), MILLISECOND);
    let every = SECOND / 1_000;
    for nth in 0..60_000 {
        let now = nth * every;
        world.cut = (10 * SECOND..20 * SECOND).contains(&now);
        world.run_to(now);
        world.arrive(nth as usize % 3, "203.0.113.7", now);
    }
    let (worst, promised) = (worst_excess(&world.admitted, 50.0), world.promised(numbers));
    println!("cut off for 10 s: worst interval rate·τ + {worst:.1} of {promised:.1}");
    assert!(worst <= promised, "{worst} of {promised}");
    let late = world.admitted.iter().filter(|time| **time >= 40 * SECOND).count();
    assert!((900..=1_100).contains(&late), "{late} in 20 s of 50/s");
}

#[test]
fn a_quota_counts_what_others_admitted_in_its_window_and_forgets_it_at_its_end() {
    let kind = Kind::Quota(kinds::Quota {
        max: 30,
        window: Duration::from_secs(10).into(),
        sliding: false,
        memory: Bytes(1 << 20),
    });
    let rule = estimated(Rule { kind, ..rate("per_client", 1, 1, Mode::Enforce) });
    let mut world = World::new(3, &rule, MILLISECOND);
    for nth in 0..4_000_u64 {
        let now = nth * 10 * MILLISECOND;
        world.run_to(now);
        world.arrive(nth as usize % 3, "203.0.113.7", now);
    }
    for window in 0..4 {
        let range = window * 10 * SECOND..(window + 1) * 10 * SECOND;
        let admitted = world.admitted.iter().filter(|time| range.contains(time)).count();
        // 100 requests a second: a third of 25 at each gate before any hears of the others
        assert!((30..=60).contains(&admitted), "window {window}: {admitted}");
    }
}

#[test]
fn an_average_counts_what_others_admitted() {
    let kind = Kind::RecentAverage(kinds::RecentAverage {
        rate: tidegate_limits::units::Rate::new(20, Duration::from_secs(1)).unwrap(),
        half_life: Duration::from_secs(2),
        refused: tidegate_limits::limiter::RefusedCount::Admitted,
        memory: Bytes(1 << 20),
    });
    let rule = estimated(Rule { kind, ..rate("per_client", 1, 1, Mode::Enforce) });
    let mut world = World::new(3, &rule, MILLISECOND);
    for nth in 0..40_000_u64 {
        let now = nth * MILLISECOND;
        world.run_to(now);
        world.arrive(nth as usize % 3, "203.0.113.7", now);
    }
    let late = world.admitted.iter().filter(|time| **time >= 20 * SECOND).count();
    assert!((320..=480).contains(&late), "{late} in 20 s of 20/s");
}

#[test]
fn sums_that_nobody_took_outlive_a_reload_of_other_numbers() {
    let before = gate(vec![limited(100, 100)]);
    let headers = head("203.0.113.7");
    let _ = before.decide(&request(&headers), arrival(0));
    let after = |rule| {
        let policy = crate::book::book(vec![rule]).policy().clone();
        Engine::next(policy, Some(SECRETS), Base::Before { engine: &before, now: at(1) }).unwrap().0
    };
    let next = after(limited(50, 100));
    let told = next.peer_sync(0).unwrap().take(at(2));
    assert_eq!(told.deltas.iter().map(|delta| delta.units).collect::<Vec<_>>(), [1]);
    let renamed = after(Rule { name: "another".into(), ..limited(100, 100) });
    assert!(renamed.peer_sync(0).unwrap().take(at(2)).deltas.is_empty());
}

/// What a gate says of the key after it has heard these.
fn heard(sections: &[Section]) -> (bool, u32) {
    let gate = gate(vec![limited(10, 100)]);
    sections.iter().for_each(|section| gate.peer_sync(0).unwrap().charge(section, at(SECOND)));
    let headers = head("203.0.113.7");
    let (decision, _) = gate.decide(&request(&headers), arrival(SECOND));
    (decision.verdict == Verdict::Admitted, decision.readings[0].remaining)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn what_different_gates_tell_counts_the_same_in_any_order(spent in proptest::collection::vec(1_u64..60, 1..6)) {
        let told = |units: &u64| {
            let gate = gate(vec![limited(10, 100)]);
            let headers = head("203.0.113.7");
            (0..*units).for_each(|_| drop(gate.decide(&request(&headers), arrival(SECOND))));
            gate.peer_sync(0).unwrap().take(at(SECOND))
        };
        let mut sections: Vec<Section> = spent.iter().map(told).collect();
        let forth = heard(&sections);
        sections.reverse();
        prop_assert_eq!(heard(&sections), forth);
        let all: u64 = spent.iter().sum();
        prop_assert_eq!(forth, (all < 100, 99_u64.saturating_sub(all) as u32));
    }

    #[test]
    fn no_schedule_of_arrivals_brings_more_than_promised(
        arrivals in proptest::collection::vec((0_usize..3, 0_u64..40), 200..1_500),
        delay in 1_u64..300,
        (events, burst) in (1_u32..400, 1_u32..400),
        cut in (0_u64..3_000, 0_u64..3_000),
    ) {
        let mut world = World::new(3, &limited(events, burst), delay * MILLISECOND);
        let mut now = 0;
        for (gate, pause) in arrivals {
            now += pause * MILLISECOND / 4;
            world.cut = (cut.0..cut.0 + cut.1).contains(&(now / MILLISECOND));
            world.run_to(now);
            world.arrive(gate, "203.0.113.7", now);
        }
        let (worst, promised) = (worst_excess(&world.admitted, f64::from(events)), world.promised((events, burst)));
        prop_assert!(worst <= promised + 1e-6, "{} over {}", worst, promised);
    }
}
