//! A reload goes on with every limit of the file, in whatever order they stand then.

use std::sync::Arc;

use proptest::prelude::*;
use tidegate_limits::units::Timestamp;
use tidegate_policy::policy::{Mode, Route};

use crate::book::{arrival, ask, book, head, rate, request};

const START: u64 = 1_000_000_000_000_000;

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn what_was_spent_of_each_limit_stays_spent(
        bursts in prop::collection::vec(5_u32..50, 1..Route::MAX_RULES),
        spent in 0_u32..5,
        order in any::<u64>(),
    ) {
        let name = |at: usize| format!("of_{at}");
        let rules = bursts.iter().enumerate().map(|(at, burst)| rate(&name(at), 1, *burst, Mode::Enforce)).collect();
        let gate = book(rules);
        let client = head("203.0.113.9");
        (0..spent).for_each(|_| drop(ask(&gate, &client, START)));
        let mut policy = gate.policy().clone();
        let mut places: Vec<usize> = (0..bursts.len()).collect();
        places.sort_by_key(|at| (*at as u64 + 1).wrapping_mul(order | 1));
        policy.rules = places.iter().map(|at| Arc::clone(&gate.policy().rules[*at])).collect();
        let (next, _) = gate.followed_by(policy, Timestamp::from_nanos(START)).unwrap();
        next.take_over();
        let evaluation = next.judge(&request(&client), arrival(START));
        for reading in &evaluation.decision.readings {
            let burst = bursts[places[reading.rule]];
            prop_assert_eq!(reading.remaining, burst - spent - 1, "{}", name(places[reading.rule]));
        }
        prop_assert_eq!(evaluation.decision.readings.len(), bursts.len());
    }
}
