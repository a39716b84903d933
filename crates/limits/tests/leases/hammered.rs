//! Three gates hammer one key of one store, over a network that takes its time: what is spent stays within the promise over
//! every interval, and nearly all of the promise can be spent.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tidegate_limits::limiter::sharing::{Answer, Asking, Begin, Leases, Look, Promise};
use tidegate_limits::units::{Cost, Rate};

use crate::store::Store;
use crate::{at, key};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const GATES: usize = 3;

/// How long a request waits for an answer.
const DEADLINE: u64 = 5 * MS;

/// Dice for schedules: splitmix64.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ word >> 31) % bound
    }

    /// The time to the next of so many events per second.
    fn gap(&mut self, per_second: f64) -> u64 {
        let uniform = (self.below(1 << 53) + 1) as f64 / (1_u64 << 53) as f64;
        (-uniform.ln() * 1e9 / per_second) as u64
    }
}

enum Event {
    Request,
    Charge(Asking, u64),
    Answer(Asking, Answer, u64),
}

struct Gate {
    leases: Leases,
    waiting: Vec<u64>,
    own_question: bool,
}

/// What came of it.
pub struct Outcome {
    /// The instants of what was admitted, in their order.
    pub admitted: Vec<u64>,
    pub offered: u64,
    /// Those that had to ask or wait, of those that came after the first second, in which nothing is known of a key's demand.
    pub waited: u64,
    pub later: u64,
    pub questions: u64,
}

/// Load on one key: so many requests per second at all gates together, of which `uneven` thirds fall to the first.
struct Load {
    promise: Promise,
    per_second: f64,
    uneven: bool,
    span: u64,
}

impl Load {
    fn run(&self, seed: u64) -> Outcome {
        let mut dice = Dice(seed);
        let mut store = Store::new(self.promise);
        let gate = || Gate { leases: Leases::with_lines(4), waiting: Vec::new(), own_question: false };
        let mut gates: [Gate; GATES] = std::array::from_fn(|_| gate());
        let mut events: Vec<Option<Event>> = Vec::new();
        let mut queue = BinaryHeap::new();
        let mut outcome = Outcome { admitted: Vec::new(), offered: 0, waited: 0, later: 0, questions: 0 };
        for gate in 0..GATES {
            queue.push(Reverse((SECOND, 0_u64, gate)));
        }
        events.push(Some(Event::Request));
        while let Some(Reverse((now, event, gate))) = queue.pop() {
            if now > SECOND + self.span {
                break;
            }
            let taken = match &mut events[event as usize] {
                Some(Event::Request) => None,
                other => other.take(),
            };
            let mut due = Vec::new();
            let delay = 300_000 + dice.below(1_700_000) / 2;
            match taken {
                None => {
                    outcome.offered += 1;
                    outcome.later += u64::from(now > 2 * SECOND);
                    let share = if self.uneven { [0.8, 0.1, 0.1][gate] } else { 1.0 / GATES as f64 };
                    queue.push(Reverse((now + dice.gap(self.per_second * share), 0, gate)));
                    let gate = &mut gates[gate];
                    let look = gate.leases.look(key(1), Cost::ONE, &self.promise, at(now));
                    if !matches!(look, Look::Refused { .. }) {
                        gate.leases.note(key(1), Cost::ONE, at(now));
                    }
                    gate.request(self.promise, now, now, look, &mut due, &mut outcome);
                }
                Some(Event::Charge(asking, sent)) => {
                    // the store's clock is another
                    let answer = store.answer(1, &asking, now + 777 * SECOND);
                    due.push((now + delay, Event::Answer(asking, answer, sent)));
                }
                Some(Event::Answer(asking, answer, sent)) => {
                    let gate = &mut gates[gate];
                    let own = asking.least() > 0 && gate.own_question;
                    gate.own_question = false;
                    let look = gate.leases.answered(asking, &answer, at(sent), at(now));
                    if own && matches!(look, Look::Holds { .. }) {
                        outcome.admitted.push(now);
                    }
                    for arrived in std::mem::take(&mut gate.waiting) {
                        if now <= arrived + DEADLINE {
                            let look = gate.leases.take(key(1), Cost::ONE, &self.promise, at(now));
                            match look {
                                Look::Holds { .. } => outcome.admitted.push(now),
                                look => gate.request(self.promise, now, arrived, look, &mut due, &mut outcome),
                            }
                        }
                    }
                }
                Some(Event::Request) => unreachable!(),
            }
            for (time, event) in due {
                let time = if matches!(event, Event::Charge(..)) { time + delay } else { time };
                events.push(Some(event));
                queue.push(Reverse((time, events.len() as u64 - 1, gate)));
            }
        }
        outcome.questions = store.questions;
        outcome
    }
}

impl Gate {
    fn request(
        &mut self,
        promise: Promise,
        now: u64,
        arrived: u64,
        look: Look,
        events: &mut Vec<(u64, Event)>,
        outcome: &mut Outcome,
    ) {
        match look {
            Look::Refused { due, .. } => {
                if due {
                    self.refill(promise, now, events);
                }
            }
            Look::Holds { .. } => match self.leases.take(key(1), Cost::ONE, &promise, at(now)) {
                Look::Holds { low, .. } => {
                    outcome.admitted.push(now);
                    if low {
                        self.refill(promise, now, events);
                    }
                }
                look => unreachable!("nobody else takes: {look:?}"),
            },
            Look::Unknown => {
                outcome.waited += u64::from(now == arrived && now > 2 * SECOND);
                match self.leases.begin(key(1), Cost::ONE, &promise, GATES as u32, at(now)) {
                    Begin::Ask(asking) => {
                        self.own_question = true;
                        events.push((now, Event::Charge(asking, now)));
                    }
                    Begin::Busy { .. } => self.waiting.push(arrived),
                    Begin::Known(look) => unreachable!("nothing came in between: {look:?}"),
                }
            }
        }
    }
}

impl Gate {
    fn refill(&mut self, promise: Promise, now: u64, events: &mut Vec<(u64, Event)>) {
        if let Begin::Ask(asking) = self.leases.refill(key(1), &promise, GATES as u32, at(now)) {
            self.own_question = false;
            events.push((now, Event::Charge(asking, now)));
        }
    }
}

/// The most by which any interval of the trace exceeds `rate·τ`, in tokens.
pub fn most_above(rate_per_second: f64, admitted: &[u64]) -> f64 {
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for (before, instant) in admitted.iter().enumerate() {
        let drift = before as f64 - rate_per_second * *instant as f64 / 1e9;
        least = least.min(drift);
        most = most.max(drift + 1.0 - least);
    }
    most
}

#[test]
fn the_law_itself_tells_a_full_interval_from_an_overfull_one() {
    assert_eq!(most_above(1.0, &[SECOND, SECOND, 2 * SECOND]), 2.0);
    assert_eq!(most_above(1.0, &[SECOND, SECOND, 2 * SECOND, 2 * SECOND]), 3.0);
}

#[test]
fn three_gates_spend_nearly_all_of_a_rate_and_no_more() {
    println!("rate burst load uneven | usable | above rate·τ of B + extra | questions per 1,000 requests | waited");
    for (number, (rate, seconds)) in
        [(5, 1), (20, 1), (20, 5), (100, 1), (1000, 1), (1000, 3), (5000, 1)].into_iter().enumerate()
    {
        for (load, uneven) in [(2, false), (2, true), (5, false), (10, false), (10, true)] {
            let burst = rate * seconds;
            let promise = Promise::Rate { rate: Rate::new(rate, Duration::from_secs(1)).unwrap(), burst };
            let span = if rate > 1000 { 4 * SECOND } else { 20 * SECOND };
            let per_second = f64::from(rate * load);
            let outcome = Load { promise, per_second, uneven, span }.run(number as u64);
            let all = f64::from(burst) + f64::from(rate) * span as f64 / 1e9;
            let usable = outcome.admitted.len() as f64 / all;
            let size = (burst / (4 * GATES as u32)).max(1);
            let extra = (GATES as u32 * size).min(rate);
            let above = most_above(f64::from(rate), &outcome.admitted);
            let per_mille = outcome.questions as f64 * 1000.0 / outcome.offered as f64;
            let waited = outcome.waited as f64 * 100.0 / outcome.later as f64;
            println!(
                "{rate:4} {burst:5} {load:2}× {uneven:5} | {:.1} % | {above:.1} of {burst} + {extra} | {per_mille:.0} | {waited:.2} %",
                usable * 100.0
            );
            assert!(above <= f64::from(burst + extra) + 0.001);
            assert!(usable >= 0.95, "{usable}");
        }
    }
}

#[test]
fn a_client_within_its_rate_is_never_refused_and_hardly_ever_waits() {
    for (rate, load) in [(100, 0.9), (1000, 0.3), (1000, 0.9), (5000, 0.9)] {
        let promise = Promise::Rate { rate: Rate::new(rate, Duration::from_secs(1)).unwrap(), burst: rate };
        let per_second = f64::from(rate) * load;
        let outcome = Load { promise, per_second, uneven: false, span: 10 * SECOND }.run(7);
        let admitted = outcome.admitted.len() as f64 / outcome.offered as f64;
        let (waited, questions) = (outcome.waited * 100, outcome.questions * 1000 / outcome.offered);
        println!("{load} of {rate}/s: {:.2} % waited, {questions} questions", waited as f64 / outcome.later as f64);
        assert!(admitted >= 0.995, "{admitted}");
        assert!(rate < 1000 || waited <= outcome.later, "{} waited", outcome.waited);
    }
}

#[test]
fn three_gates_spend_nearly_all_of_a_quota_and_no_more() {
    for (max, window) in [(10, 1), (100, 1), (3000, 2)] {
        let promise = Promise::Quota { max, window: Duration::from_secs(window) };
        let load = Load { promise, per_second: f64::from(max) * 5.0 / window as f64, uneven: false, span: 12 * SECOND };
        let outcome = load.run(u64::from(max));
        let windows = 12 / window;
        let usable = outcome.admitted.len() as f64 / (u64::from(max) * windows) as f64;
        println!("{max} in {window} s: {:.1} % of the windows", usable * 100.0);
        assert!(usable >= 0.95, "{usable}");
        // the windows of the store begin at whole seconds here too
        for number in 0..windows + 2 {
            let from = number * window * SECOND;
            let of_window = |instant: &&u64| (from..from + window * SECOND).contains(*instant);
            let admitted = outcome.admitted.iter().filter(of_window).count();
            assert!(admitted as u32 <= max, "{admitted} of {max} in window {number}");
        }
    }
}
