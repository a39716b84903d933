//! A reload to another rate keeps the new promise to the nanosecond, whatever the old rate was: levels are converted between the two,
//! and every rounding is against the client. Over a chain of reloads by any factor, with any burst and any bytes per unit, what is left
//! and when there is more is what an account in units says.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_limits::limiter::{Kind, kinds};
use tidegate_limits::units::{Bytes, Rate, Timestamp};
use tidegate_policy::engine::{Engine, Fate, Verdict};
use tidegate_policy::policy::{CostRule, Mode, Rule};

use crate::book::{ask, book, by_client, head};

const START: u64 = 20_000_000_000_000_000;
const DAY: u64 = 86_400;
/// In nanoseconds: the longest in which a burst may refill.
const TEN_YEARS: u128 = 3_650 * 86_400 * 1_000_000_000;

fn limit(events: u32, seconds: u64, burst: u32) -> Option<Rule> {
    let rate = Rate::new(events, Duration::from_secs(seconds)).ok()?;
    Some(Rule {
        mode: Mode::Enforce,
        ..by_client("one", Kind::Rate(kinds::Rate { rate, burst, memory: Bytes(1 << 20) }))
    })
}

fn gate(rule: Rule) -> Option<Engine> {
    Engine::new(book(vec![rule]).policy().clone(), &tidegate_limits::sketch::Seed::from_bytes([3; 16]), 0).ok()
}

fn reloaded(before: &Engine, rule: Rule, now: u64) -> Option<Engine> {
    let mut policy = before.policy().clone();
    policy.rules[0] = std::sync::Arc::new(rule);
    let (after, told) = before.followed_by(policy, Timestamp::from_nanos(now)).ok()?;
    assert!(matches!(told.limits[0].fate, Fate::Kept { .. } | Fate::Rerated { .. }), "{told:?}");
    after.take_over();
    Some(after)
}

/// The numbers before and after, each rate as events in so many seconds, with a burst.
fn numbers() -> impl Strategy<Value = [(u32, u64, u32); 2]> {
    let usual = || (1_u32..2_000, prop::sample::select(vec![1, 7, 60, 3_600, DAY]), 1_u32..400);
    // a burst of years, for which the axis has no room at the pace that would be right
    let slow = (Just(1_u32), Just(DAY), 1_u32..3_000);
    let faster = (prop::sample::select(vec![2_u32, 4, 5, 8, 10, 16, 20, 25]), Just(DAY), 3_700_u32..8_000);
    prop_oneof![
        // the axis of levels runs faster or slower than time, and as fast as it may
        6 => (usual(), usual()).prop_map(|(old, new)| [old, new]),
        1 => (slow, faster).prop_map(|(old, new)| [old, new]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn the_new_promise_is_kept_to_the_nanosecond(
        [old, new] in numbers(),
        refills in prop::collection::vec((1_u64..3_000, 0_u64..3), 1..6),
    ) {
        let (before, after) = (limit(old.0, old.1, old.2), limit(new.0, new.1, new.2));
        let gate = before.and_then(gate);
        // numbers that a limit does not take
        let Some(gate) = gate.zip(after).and_then(|(gate, after)| reloaded(&gate, after, START)) else { return Ok(()) };
        let (events, seconds, burst) = new;
        let client = head("203.0.113.9");
        let (mut now, mut admitted) = (START, 0_u128);
        let take_all = |now: u64| {
            let passed = (0..2 * burst).take_while(|_| ask(&gate, &client, now).0.verdict == Verdict::Admitted);
            passed.count() as u128
        };
        admitted += take_all(now);
        prop_assert_eq!(admitted, u128::from(burst), "a client that spent nothing has all of it");
        // just before, just when and just after so many have come back
        for (units, beside) in refills {
            now += u64::try_from(u128::from(units) * u128::from(seconds) * 1_000_000_000 / u128::from(events)).unwrap() + beside - 1;
            admitted += take_all(now);
            let back = u128::from(now - START) * u128::from(events) / (u128::from(seconds) * 1_000_000_000);
            prop_assert!(admitted <= u128::from(burst) + back, "{admitted} in {} ns", now - START);
        }
    }
}

/// Numbers of a limit in a chain: units per second or day, a burst, and bytes per unit, 1 of one that counts requests.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    events: u32,
    seconds: u64,
    burst: u32,
    unit: u32,
}

impl Numbers {
    /// `None` for numbers that a limit does not take.
    fn rule(self, of_bytes: bool) -> Option<Rule> {
        if u128::from(self.interval()) * u128::from(self.burst) > TEN_YEARS {
            return None;
        }
        let rule = limit(self.events, self.seconds, self.burst)?;
        Some(if of_bytes { Rule { cost: CostRule::Bytes { unit: self.unit }, ..rule } } else { rule })
    }

    /// Nanoseconds in which a unit comes back.
    fn interval(self) -> u64 {
        (self.seconds * 1_000_000_000).div_ceil(u64::from(self.events))
    }
}

/// From one unit in a day to a million in a second, with bursts that may take years to refill.
fn chains() -> impl Strategy<Value = (Vec<Numbers>, bool)> {
    let events = prop_oneof![1_u32..10, 10_u32..2_000, 2_000_u32..1_000_000];
    let seconds = prop::sample::select(vec![1, 60, 3_600, DAY]);
    let burst = prop_oneof![3 => 1_u32..200, 1 => 1_000_u32..8_000];
    // units of powers of two, as the policy file makes them
    let numbers = (events, seconds, burst, 0_u32..24);
    (prop::collection::vec(numbers, 2..8), any::<bool>()).prop_map(|(all, of_bytes)| {
        let numbers = |(events, seconds, burst, shift): (u32, u64, u32, u32)| Numbers {
            events,
            seconds,
            burst,
            unit: if of_bytes { 1 << shift } else { 1 },
        };
        (all.into_iter().map(numbers).collect(), of_bytes)
    })
}

/// What may be lost to rounding by each reload, of the greatest unit so far: nanoseconds, of the thousand and more of a unit.
const LOST: f64 = 4e-3;
/// A place of a slow axis, on which a request is charged from the place before it, and what arithmetic in `f64` is off by. It does not
/// add up.
const OFF: f64 = 1.1e-3;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_chain_of_reloads_by_any_factor_counts_what_was_spent_to_the_unit(
        (numbers, of_bytes) in chains(),
        steps in prop::collection::vec((0_u64..3_000, 1_usize..120), 8),
    ) {
        let client = head("203.0.113.9");
        let mut now = START;
        let mut gate_now: Option<Engine> = None;
        // bytes, or requests
        let (mut spent, mut greatest, mut lost) = (0.0_f64, 0.0_f64, 0.0_f64);
        for (numbers, (refill, requests)) in numbers.into_iter().zip(steps) {
            let Some(rule) = numbers.rule(of_bytes) else { continue };
            // a table of its own forgives what is beyond ten years
            if spent / f64::from(numbers.unit) * numbers.interval() as f64 > TEN_YEARS as f64 {
                continue;
            }
            let next = match &gate_now {
                Some(gate) => reloaded(gate, rule, now),
                None => gate(rule),
            };
            let Some(gate) = next else { continue };
            let (unit, burst) = (f64::from(numbers.unit), f64::from(numbers.burst));
            greatest = unit.max(greatest);
            lost += LOST * greatest;
            let off = OFF * greatest / unit;
            let interval = numbers.interval();
            // hundredths of a unit
            let passed = refill * interval / 100;
            for at in [now, now + passed] {
                spent = (spent - (at - now) as f64 / interval as f64 * unit).max(0.0);
                now = at;
                for _ in 0..requests {
                    let decision = ask(&gate, &client, now).0;
                    let room = burst - spent / unit;
                    let reading = &decision.readings[0];
                    if decision.verdict != Verdict::Admitted {
                        prop_assert!(room < 1.0 + lost / unit, "refused with {} left: {:?}", room, numbers);
                        let wait = reading.retry_nanos.expect("the cost is within the burst") as f64 / interval as f64;
                        prop_assert!(wait > 1.0 - room - off, "told to come {} too early", 1.0 - room - wait);
                        prop_assert!(wait < 1.0 - room + lost / unit, "told to come {} too late", wait + room - 1.0);
                        break;
                    }
                    prop_assert!(room > 1.0 - off, "admitted with {} left: {:?}", room, numbers);
                    spent += unit;
                    let (left, room) = (f64::from(reading.remaining), room - 1.0);
                    prop_assert!(left < room + off, "{} left, told {}: {:?}", room, left, numbers);
                    prop_assert!(left > room - 1.0 - lost / unit, "{} left, told {}: {:?}", room, left, numbers);
                }
            }
            gate_now = Some(gate);
        }
    }
}
