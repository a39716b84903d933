//! Bytes are charged as they pass, rounded up: at no moment less than the whole units that have begun, however the body is cut.

use proptest::prelude::*;
use tidegate_limits::units::Timestamp;
use tidegate_policy::engine::Verdict;
use tidegate_policy::policy::{CostRule, Mode, Rule};

use crate::book::{arrival, book, head, rate, request};

const START: u64 = 1_000_000_000_000_000;
const BURST: u32 = 1_000_000;

proptest! {
    #[test]
    fn every_unit_that_has_begun_is_charged_and_no_other(
        unit in 1_u32..3_000,
        bodies in prop::collection::vec(prop::collection::vec(0_u64..5_000, 0..12), 1..6),
    ) {
        let rule = Rule { cost: CostRule::Bytes { unit }, ..rate("egress", 1, BURST, Mode::Enforce) };
        let engine = book(vec![rule]);
        let client = head("203.0.113.9");
        let now = Timestamp::from_nanos(START);
        let left = || engine.judge(&request(&client), arrival(START)).decision.readings[0].remaining + 1;
        let mut before = 0_u64;
        for body in bodies {
            let mut evaluation = engine.judge(&request(&client), arrival(START));
            let _held = engine.admit(&mut evaluation, now);
            prop_assert_eq!(evaluation.decision.verdict, Verdict::Admitted);
            let mut passed = 0_u64;
            let mut begun = 1; // entry is a unit
            for piece in body {
                prop_assert_eq!(engine.carried(&mut evaluation, piece, now), 0, "it does not delay");
                passed += piece;
                begun = passed.div_ceil(u64::from(unit)).max(1);
                prop_assert_eq!(u64::from(BURST - left()), before + begun, "{} bytes in units of {}", passed, unit);
            }
            before += begun;
        }
    }
}
