//! A limit that counts refused requests keeps nobody out for longer than `max_penalty` beyond what a full budget takes.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_limits::limiter::{Kind, RefusedCount, kinds};
use tidegate_limits::units::{Bytes, Rate};
use tidegate_policy::engine::Verdict;

use crate::book::{ask, book, by_client, head};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_000_000 * SECOND;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn silence_for_the_longest_penalty_opens_again_whatever_was_sent_before(
        per_second in 1_u32..20,
        half_life in 1_u64..20,
        penalty in 1_u64..60,
        floods in prop::collection::vec((0_u64..20_000, 1_usize..400), 1..8),
    ) {
        let max_penalty = Duration::from_secs(penalty);
        let rule = by_client("average", Kind::RecentAverage(kinds::RecentAverage {
            rate: Rate::new(per_second, Duration::from_secs(1)).unwrap(),
            half_life: Duration::from_secs(half_life),
            refused: RefusedCount::All { max_penalty },
            memory: Bytes(1 << 20),
        }));
        let engine = book(vec![rule]);
        let client = head("203.0.113.9");
        // B = L·h/ln 2, and one request less than it
        let budget = f64::from(per_second) * half_life as f64 / std::f64::consts::LN_2;
        let after_a_budget = half_life as f64 * (budget / (budget - 1.0)).log2();
        // a microsecond is for roundings
        let longest = penalty * SECOND + (after_a_budget * 1e9) as u64 + 1_000;
        let mut now = START;
        for (gap, requests) in floods {
            now += gap * 1_000_000;
            for _ in 0..requests {
                let (decision, _) = ask(&engine, &client, now);
                if decision.verdict != Verdict::Admitted {
                    let told = decision.readings[0].retry_nanos.unwrap();
                    prop_assert!(told <= longest, "kept out for {told} ns");
                }
            }
        }
        prop_assert_eq!(ask(&engine, &client, now + longest).0.verdict, Verdict::Admitted);
    }
}
