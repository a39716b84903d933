//! Requests of different costs on one key, some of which another limit refuses in the end, at several gates, over a network whose answers may take up to a second or never come,
//! with pauses that outlast a lease: what is spent stays within the promise over every interval.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_limits::limiter::sharing::{Answer, Asking, Begin, Ends, Leases, Look, Promise};
use tidegate_limits::units::{Cost, Rate};

use crate::store::Store;
use crate::{at, key};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// A request: where, how many quarters of a millisecond after the one before, at what cost, and what becomes of its question.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    gate: usize,
    pause: u64,
    cost: u32,
    /// Milliseconds to the store, and back; `None` when the answer is lost.
    there: u64,
    back: Option<u64>,
    /// After how many milliseconds another limit refuses it; `None` when none does.
    refused: Option<u64>,
}

/// Crowds that come one after the other, with pauses between them in which what is left of a lease may end or not.
fn arrivals(gates: usize, costs: Vec<u32>) -> impl Strategy<Value = Vec<Arrival>> {
    let delay = prop_oneof![20 => 0..3_u64, 1 => 0..600_u64];
    let arrival = (
        0..gates,
        prop::sample::select(costs),
        delay.clone(),
        prop::option::weighted(0.97, delay),
        prop::option::weighted(0.2, 0..300_u64),
    );
    let wait = prop_oneof![0..40_u64, 0..4_000_u64, 0..16_000_u64, Just(3_900_u64), Just(15_000_u64)];
    let crowd = (wait, 0..3_u64, prop_oneof![vec(arrival.clone(), 1..20), vec(arrival, 200..1_200)]).prop_map(
        |(wait, ratio, crowd)| {
            crowd.into_iter().enumerate().map(move |(number, (gate, cost, there, back, refused))| {
                let pause = if number == 0 { wait } else { ratio };
                Arrival { gate, pause, cost, there, back, refused }
            })
        },
    );
    vec(crowd, 2..6).prop_map(|crowds| crowds.into_iter().flatten().collect())
}

enum Event {
    Arrives(usize),
    Charges(Asking, u64, u32, Arrival),
    Answers(Asking, Answer, u64, u32, Arrival),
    GivesBack(Arrival, Ends),
}

struct World {
    promise: Promise,
    gates: Vec<Leases>,
    store: Store,
    events: Vec<Option<Event>>,
    queue: BinaryHeap<Reverse<(u64, usize)>>,
    spent: Vec<(u64, u32)>,
}

impl World {
    fn new(promise: Promise, gates: usize) -> World {
        let gates = (0..gates).map(|_| Leases::with_lines(1)).collect();
        let (store, events, queue) = (Store::new(promise), Vec::new(), BinaryHeap::new());
        World { promise, gates, store, events, queue, spent: Vec::new() }
    }

    fn at(&mut self, now: u64, event: Event) {
        self.queue.push(Reverse((now, self.events.len())));
        self.events.push(Some(event));
    }

    /// Sends the question, if there is one to be sent.
    fn ask(&mut self, begin: Begin, own: u32, arrival: Arrival, now: u64) {
        if let Begin::Ask(asking) = begin {
            self.at(now + arrival.there * MS, Event::Charges(asking, now, own, arrival));
        }
    }

    fn run(&mut self, arrivals: &[Arrival]) {
        let (mut now, nodes) = (10 * SECOND, self.gates.len() as u32);
        for (number, arrival) in arrivals.iter().enumerate() {
            now += arrival.pause * MS / 4;
            self.at(now, Event::Arrives(number));
        }
        while let Some(Reverse((now, number))) = self.queue.pop() {
            match self.events[number].take().unwrap() {
                Event::Arrives(number) => {
                    let arrival = arrivals[number];
                    let (cost, promise) = (Cost::new(arrival.cost).unwrap(), self.promise);
                    let leases = &self.gates[arrival.gate];
                    let mut look = leases.look(key(1), cost, &promise, at(now));
                    if !matches!(look, Look::Refused { .. }) {
                        leases.note(key(1), cost, at(now));
                    }
                    let held = matches!(look, Look::Holds { .. });
                    if held {
                        look = leases.take(key(1), cost, &promise, at(now));
                    }
                    match look {
                        Look::Holds { low: true, .. } | Look::Refused { due: true, .. } => {
                            let begin = leases.refill(key(1), &promise, nodes, at(now));
                            self.ask(begin, 0, arrival, now);
                        }
                        Look::Unknown => {
                            let begin = leases.begin(key(1), cost, &promise, nodes, at(now));
                            self.ask(begin, arrival.cost, arrival, now);
                        }
                        _ => {}
                    }
                    if let (true, Look::Holds { ends, .. }) = (held, look) {
                        self.took(arrival, ends, now);
                    }
                }
                Event::GivesBack(arrival, ends) => {
                    let cost = Cost::new(arrival.cost).unwrap();
                    self.gates[arrival.gate].give_back(key(1), cost, ends, &self.promise, nodes, at(now));
                }
                Event::Charges(asking, sent, own, arrival) => {
                    let answer = self.store.answer(1, &asking, now);
                    match arrival.back {
                        Some(back) => self.at(now + back * MS, Event::Answers(asking, answer, sent, own, arrival)),
                        None => self.gates[arrival.gate].silent(asking),
                    }
                }
                Event::Answers(asking, answer, sent, own, arrival) => {
                    let leases = &self.gates[arrival.gate];
                    let look = leases.answered(asking, &answer, at(sent), at(now));
                    if let (true, Look::Holds { ends, .. }) = (own > 0, look) {
                        self.took(arrival, ends, now);
                    }
                }
            }
        }
    }

    /// A request has what it costs: it spends it, or another limit refuses it after a while.
    fn took(&mut self, arrival: Arrival, ends: Ends, now: u64) {
        match arrival.refused {
            None => self.spent.push((now, arrival.cost)),
            Some(millis) => self.at(now + millis * MS, Event::GivesBack(arrival, ends)),
        }
    }

    /// The most that was spent in any interval beyond `rate·τ`.
    fn most(&self, per_second: f64) -> f64 {
        let (mut total, mut least, mut most) = (0.0, f64::INFINITY, 0.0_f64);
        for (instant, cost) in &self.spent {
            let drained = per_second * *instant as f64 / SECOND as f64;
            least = f64::min(least, total - drained);
            total += f64::from(*cost);
            most = most.max(total - drained - least);
        }
        most
    }
}

/// The second and third term of the promise, as `docs/limits/leases.md` has them.
fn extra(events: u32, burst: u32, gates: usize, dearest: u32) -> f64 {
    let (gates, rate, part) = (gates as f64, f64::from(events), (burst / (4 * gates as u32)).max(1));
    let long = gates * f64::from(part) <= rate / 2.0;
    let dear = 2 * dearest > part;
    let held = if dear { 2 * dearest } else { part };
    let life = if long && dear { 1.5 } else { 1.0 };
    (gates * f64::from(held)).min(rate * life)
}

/// Every gate is asked for so much at one moment that its lease becomes as large as any; then nobody comes for a while, and the store
/// fills up; then all spend what there is.
fn stocked_and_silent(gates: usize, wait_millis: u64) -> Vec<Arrival> {
    let arrival = |gate, pause| Arrival { gate, pause, cost: 1, there: 0, back: Some(0), refused: None };
    let all = |pause: u64| (0..gates).map(move |gate| arrival(gate, if gate == 0 { pause } else { 0 }));
    let crowd = (0..5_000).flat_map(|_| all(0));
    let crowd = crowd.chain((0..4).flat_map(|_| all(4)));
    crowd.chain(all(4 * wait_millis)).chain((0..5_000).flat_map(|_| all(1))).collect()
}

#[test]
fn what_is_held_through_a_silence_and_spent_beside_a_full_store_is_no_more_than_the_promise() {
    for (events, burst, gates, wait_millis) in [
        (100, 50, 3, 3_900),
        (100, 200, 1, 3_900),
        (100, 200, 3, 3_900),
        (100, 200, 5, 900),
        // gates can hold more of these than comes back in half a second, or in one
        (100, 399, 3, 3_900),
        (100, 600, 3, 3_900),
        (100, 600, 3, 900),
    ] {
        let promise = Promise::Rate { rate: Rate::new(events, Duration::from_secs(1)).unwrap(), burst };
        let mut world = World::new(promise, gates);
        world.run(&stocked_and_silent(gates, wait_millis));
        let (most, extra) = (world.most(f64::from(events)), extra(events, burst, gates, 1));
        println!(
            "{events}/s burst {burst}, {gates} gates, silent for {wait_millis} ms: {most:.1} of {burst} + {extra}"
        );
        assert!(most <= f64::from(burst) + extra + 1e-6, "{most} of {burst} + {extra}");
        // where they live through the silence, nearly all of it is there
        let part = burst / (4 * gates as u32);
        let longer = gates as u32 * part <= events / 2;
        let there = if longer { f64::from(burst) + 0.6 * extra } else { 0.0 };
        assert!(wait_millis == 900 || most >= there, "{most} of {burst} + {extra}, and {there} to be expected");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_mixture_of_costs_spends_more_than_the_promise(
        arrivals in prop_oneof![arrivals(3, vec![1]), arrivals(3, vec![1, 1, 1, 2, 5, 30])],
        // at two and at four seconds' worth of burst it changes what leases are
        (events, burst) in (1_u32..200, prop_oneof![0_u32..500, 50..450_u32]).prop_map(|(events, part)| (events, events * part / 100 + 1)),
    ) {
        let promise = Promise::Rate { rate: Rate::new(events, Duration::from_secs(1)).unwrap(), burst };
        let mut world = World::new(promise, 3);
        let arrivals: Vec<Arrival> =
            arrivals.into_iter().filter(|arrival| arrival.cost <= burst).collect();
        world.run(&arrivals);
        let dearest = arrivals.iter().map(|arrival| arrival.cost).max().unwrap_or(1);
        let (most, extra) = (world.most(f64::from(events)), extra(events, burst, 3, dearest));
        prop_assert!(most <= f64::from(burst) + extra + 1e-6, "{most} of {burst} + {extra}");
    }
}
