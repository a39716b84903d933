//! Random schedules of one gate and a store that answers late, out of order or never: what is spent was granted, and had not
//! ended; a refused key is left alone; and nobody asks while somebody does.

use std::collections::HashMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_limits::limiter::sharing::{Answer, Asking, Begin, Leases, Look, Promise};
use tidegate_limits::units::{Cost, Rate};

use crate::store::Store;
use crate::{at, key};

const MS: u64 = 1_000_000;

/// Within a tick of the table's time.
const TICK: u64 = 1 << 21;

#[derive(Debug, Clone)]
enum Step {
    Wait(u64),
    Request {
        key: u64,
        cost: u32,
    },
    Refill {
        key: u64,
    },
    /// The store answers the question that has been on its way longest, or another.
    Charge(usize),
    Lose(usize),
    Arrive(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => prop_oneof![0..3 * MS, 0..300 * MS, Just(1100 * MS)].prop_map(Step::Wait),
        6 => (0..4_u64, prop_oneof![5 => Just(1_u32), 2 => 2..6_u32, 1 => Just(60_u32)])
            .prop_map(|(key, cost)| Step::Request { key, cost }),
        2 => (0..4_u64).prop_map(|key| Step::Refill { key }),
        5 => (0..4_usize).prop_map(Step::Charge),
        1 => (0..4_usize).prop_map(Step::Lose),
        5 => (0..4_usize).prop_map(Step::Arrive),
    ];
    vec(step, 1..400)
}

fn promises() -> impl Strategy<Value = Promise> {
    let rate = (prop_oneof![Just(2_u32), Just(50), Just(2000)], 1..60_u32)
        .prop_map(|(events, burst)| Promise::Rate { rate: Rate::new(events, Duration::from_secs(1)).unwrap(), burst });
    let quota =
        (1..60_u32, 1..4_u64).prop_map(|(max, seconds)| Promise::Quota { max, window: Duration::from_secs(seconds) });
    prop_oneof![rate, quota]
}

/// A question between gate and store.
struct Flight {
    key: u64,
    sent: u64,
    asking: Asking,
    own: u32,
    /// When what it brought must have been spent.
    ends: u64,
    answer: Option<Answer>,
}

/// What one key was granted and has spent: budget by its end.
#[derive(Default)]
struct Account {
    grants: Vec<(u64, u32)>,
    /// Until when the key may not be asked about with this cost or a higher one.
    refused: Option<(u64, u32)>,
    asked: Option<u64>,
}

impl Account {
    /// Spends out of the grants that live, those that end first first; so if this fails, no other choice would have done.
    fn spend(&mut self, cost: u32, now: u64) {
        let mut missing = cost;
        self.grants.retain(|(ends, tokens)| *ends > now && *tokens > 0);
        self.grants.sort_unstable();
        for (_, tokens) in &mut self.grants {
            let taken = missing.min(*tokens);
            *tokens -= taken;
            missing -= taken;
        }
        assert_eq!(missing, 0, "spent {cost} at {now}, of which so much was never granted or had ended");
    }
}

fn run(promise: Promise, steps: &[Step], lines: usize) {
    // with room for every key a refusal is never forgotten
    let roomy = lines > 1;
    let leases: Leases = Leases::with_lines(lines);
    let mut store = Store::new(promise);
    let mut accounts: HashMap<u64, Account> = HashMap::new();
    let mut flights: Vec<Flight> = Vec::new();
    let mut now = 5 * MS;
    for step in steps {
        match *step {
            Step::Wait(nanos) => now += nanos,
            Step::Request { key: number, cost } => {
                let account = accounts.entry(number).or_default();
                let price = Cost::new(cost).unwrap();
                let look = leases.look(key(number), price, &promise, at(now));
                if !matches!(look, Look::Refused { .. }) {
                    leases.note(key(number), price, at(now));
                }
                match look {
                    Look::Holds { left, .. } => {
                        assert!(left >= cost);
                        let taken = leases.take(key(number), price, &promise, at(now));
                        assert!(matches!(taken, Look::Holds { left: rest, .. } if rest == left - cost), "{taken:?}");
                        account.spend(cost, now);
                    }
                    Look::Refused { retry_nanos: None, .. } => assert!(cost > promise.most()),
                    Look::Refused { retry_nanos: Some(retry), .. } => assert!(retry > 0),
                    Look::Unknown => match leases.begin(key(number), price, &promise, 2, at(now)) {
                        Begin::Ask(asking) => {
                            assert!(asking.least() == cost && asking.wanted() >= cost);
                            begun(&mut flights, account, asking, number, now, cost);
                        }
                        Begin::Busy { .. } => {
                            assert!(account.asked.is_some_and(|since| now <= since + 1000 * MS + 2 * TICK))
                        }
                        Begin::Known(Look::Refused { retry_nanos: None, .. }) => assert!(cost > promise.most()),
                        Begin::Known(look) => panic!("nothing happened in between: {look:?}"),
                    },
                }
            }
            Step::Refill { key: number } => {
                if let Begin::Ask(asking) = leases.refill(key(number), &promise, 2, at(now)) {
                    assert_eq!(asking.least(), 1);
                    begun(&mut flights, accounts.entry(number).or_default(), asking, number, now, 0);
                }
            }
            Step::Charge(n) if n < flights.len() => {
                let flight = &mut flights[n];
                if flight.answer.is_none() {
                    let answer = store.answer(flight.key, &flight.asking, now);
                    // a window ends when the store says, whose clock this is; the gate may only think that it ends sooner
                    flight.ends = now.saturating_add(answer.ends_nanos).min(flight.sent + flight.asking.life_nanos());
                    flight.answer = Some(answer);
                }
            }
            Step::Lose(n) if n < flights.len() => {
                let flight = flights.remove(n);
                let account = accounts.get_mut(&flight.key).unwrap();
                // every other one is settled, the rest is forgotten
                if n % 2 == 0 {
                    if flight.asking.is_kept() && account.asked == Some(flight.sent) {
                        account.asked = None;
                    }
                    leases.silent(flight.asking);
                }
            }
            Step::Arrive(n) if flights.get(n).is_some_and(|flight| flight.answer.is_some()) => {
                let Flight { key: number, sent, asking, own, ends, answer } = flights.remove(n);
                let (answer, kept, least) = (answer.unwrap(), asking.is_kept(), asking.least());
                let account = accounts.get_mut(&number).unwrap();
                let ours = kept && account.asked == Some(sent);
                if ours {
                    account.asked = None;
                }
                account.grants.push((ends, answer.granted));
                match leases.answered(asking, &answer, at(sent), at(now)) {
                    Look::Holds { .. } if own > 0 => account.spend(own, now),
                    Look::Holds { .. } => assert!(answer.granted >= 1),
                    Look::Refused { retry_nanos, .. } => {
                        assert_eq!(answer.granted, 0);
                        assert_eq!(retry_nanos.is_none(), answer.retry_nanos.is_none());
                        if let (Some(told), Some(true_retry)) = (retry_nanos, answer.retry_nanos) {
                            assert!(told >= true_retry, "told {told} of {true_retry}");
                            if kept && ours && roomy {
                                // a pause of the gate's own may be cut short by 8.4 ms, never the store's
                                let short = told.saturating_sub(5 * TICK).max(true_retry);
                                account.refused = Some((now + short, least));
                            }
                        }
                    }
                    Look::Unknown => assert!(now >= sent + answer.ends_nanos.min(1000 * MS)),
                }
            }
            Step::Charge(_) | Step::Lose(_) | Step::Arrive(_) => {}
        }
        assert!(leases.outstanding(at(now)) <= store.granted);
    }
}

/// Somebody asks: nobody else does, and the key was not refused.
fn begun(flights: &mut Vec<Flight>, account: &mut Account, asking: Asking, key: u64, now: u64, own: u32) {
    if asking.is_kept() {
        let other = account.asked.replace(now);
        assert!(other.is_none_or(|since| now > since + 1000 * MS - TICK), "two ask at once: {other:?} and {now}");
        if let Some((until, cost)) = account.refused.take() {
            // a refusal is given up for a cheaper request
            assert!(now >= until || asking.least() < cost, "asked at {now}, refused until {until}");
        }
    }
    flights.push(Flight { key, sent: now, asking, own, ends: now, answer: None });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_is_spent_was_granted_and_lives(promise in promises(), steps in steps()) {
        run(promise, &steps, 16);
    }

    #[test]
    fn keys_that_share_two_entries_keep_their_budgets_apart(promise in promises(), steps in steps()) {
        run(promise, &steps, 1);
    }
}

/// A lone client of one gate, whose questions are answered at once, asks at these times; if it is refused, it comes back exactly
/// when it was told to.
fn comes_back(promise: Promise, gaps: &[u64]) {
    let leases: Leases = Leases::with_lines(4);
    let mut store = Store::new(promise);
    let mut now = 5 * MS;
    let mut settle = |asking: Asking, now: u64| {
        let answer = store.answer(1, &asking, now);
        leases.answered(asking, &answer, at(now), at(now))
    };
    for gap in gaps {
        now += gap;
        for attempt in 0..2 {
            let mut look = leases.look(key(1), Cost::ONE, &promise, at(now));
            leases.note(key(1), Cost::ONE, at(now));
            if let Look::Holds { .. } = look {
                look = leases.take(key(1), Cost::ONE, &promise, at(now));
            }
            if look == Look::Unknown {
                let Begin::Ask(asking) = leases.begin(key(1), Cost::ONE, &promise, 1, at(now)) else { panic!("{now}") };
                look = settle(asking, now);
            }
            match look {
                Look::Holds { low, .. } => {
                    if low && let Begin::Ask(asking) = leases.refill(key(1), &promise, 1, at(now)) {
                        let _ = settle(asking, now);
                    }
                    break;
                }
                Look::Refused { retry_nanos: Some(retry), due } if attempt == 0 => {
                    if due && let Begin::Ask(asking) = leases.refill(key(1), &promise, 1, at(now)) {
                        let _ = settle(asking, now);
                    }
                    now += retry;
                }
                look => panic!("came back at {now}, as it was told, and found {look:?}"),
            }
        }
    }
}

proptest! {
    #[test]
    fn the_retry_time_comes_true_for_a_lone_client(
        promise in promises(),
        gaps in vec(prop_oneof![0..MS, 0..50 * MS, 0..600 * MS], 1..300),
    ) {
        comes_back(promise, &gaps);
    }
}
