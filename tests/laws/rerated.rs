//! A reload to another rate keeps the new promise to the nanosecond, whatever the old rate was: levels are converted between the two,
//! and every rounding is against the client.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::engine::{Snapshot, Verdict};
use tidegate::limiter::Kind;
use tidegate::policy::{Mode, Rule};
use tidegate::units::{Bytes, Rate, Timestamp};

use crate::book::{ask, book, by_client, head};

const START: u64 = 20_000_000_000_000_000;
const DAY: u64 = 86_400;

fn limit(events: u32, seconds: u64, burst: u32) -> Option<Rule> {
    let rate = Rate::new(events, Duration::from_secs(seconds)).ok()?;
    Some(Rule { mode: Mode::Enforce, ..by_client("one", Kind::Rate { rate, burst, memory: Bytes(1 << 20) }) })
}

fn reloaded(before: &Snapshot, rule: Rule) -> Option<Snapshot> {
    let mut policy = before.policy().clone();
    policy.rules[0] = std::sync::Arc::new(rule);
    let (after, _) = before.followed_by(policy, Timestamp::from_nanos(START)).ok()?;
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
        let gate = before.and_then(|before| Snapshot::new(book(vec![before]).policy().clone(), &tidegate::sketch::Seed::from_bytes([3; 16]), 0).ok());
        // numbers that a limit does not take
        let Some(gate) = gate.zip(after).and_then(|(gate, after)| reloaded(&gate, after)) else { return Ok(()) };
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
