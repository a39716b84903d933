//! All limits are charged or none, even when requests were judged before any of them was charged: the limit that will refuse is asked
//! first, wherever it stands in the file.

use proptest::prelude::*;
use tidegate_limits::units::Timestamp;
use tidegate_policy::engine::Verdict;
use tidegate_policy::policy::Mode;

use crate::book::{arrival, book, head, inflight, rate, request};

const START: u64 = 1_000_000_000_000_000;

proptest! {
    #[test]
    fn the_limit_that_refuses_late_stands_before_those_that_would_have_been_charged(
        bursts in prop::collection::vec(1_u32..9, 1..6),
        places in 1_u32..12,
        (places_at, at_once) in (any::<prop::sample::Index>(), 1_usize..14),
    ) {
        let mut rules: Vec<_> = bursts.iter().map(|burst| rate(&format!("of_{burst}"), 1, *burst, Mode::Enforce)).collect();
        let places_at = places_at.index(rules.len() + 1);
        rules.insert(places_at, inflight("places", places, Mode::Enforce));
        let engine = book(rules);
        let client = head("203.0.113.9");
        let judge = || engine.judge(&request(&client), arrival(START));
        // as many workers might: all have judged before the first charges
        let mut evaluation: Vec<_> = (0..at_once).map(|_| judge()).collect();
        let held: Vec<_> = evaluation.iter_mut().map(|one| engine.admit(one, Timestamp::from_nanos(START)).0).collect();
        let admitted = evaluation.iter().filter(|one| one.decision.verdict == Verdict::Admitted).count() as u32;
        let fewest = bursts.iter().copied().min().unwrap().min(places);
        prop_assert_eq!(admitted, fewest.min(at_once as u32));
        prop_assert_eq!(engine.limiters()[places_at].gauges(Timestamp::ZERO).inflight, Some(u64::from(admitted)));
        drop(held);
        prop_assert_eq!(engine.limiters()[places_at].gauges(Timestamp::ZERO).inflight, Some(0));
        // nobody paid for another limit's refusal
        let after = judge();
        let budgets = after.decision.readings.iter().enumerate().filter(|(slot, _)| *slot != places_at);
        for ((_, reading), burst) in budgets.zip(&bursts) {
            prop_assert_eq!(reading.remaining, (burst - admitted).saturating_sub(1), "of {}", burst);
        }
    }
}
