//! A request that waits is charged as of the end of its wait: for a place at an origin, or because another limit delays it. Every
//! promise is about the stamps at which requests go on.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::engine::Verdict;
use tidegate::policy::{Mode, OnLimit, Rule};
use tidegate::units::Timestamp;

use crate::book::{arrival, ask, book, rate, request};
use crate::kinds::{Promise, START, kinds, nth};

const MILLISECOND: u64 = 1_000_000;

/// The kinds that judge a stamp by itself. `fair_share` is steered by what is offered; see `kinds` for aligned `distinct`.
fn judging_by_stamps() -> impl Iterator<Item = (Rule, Promise)> {
    kinds().into_iter().filter(|(rule, promise)| {
        rule.name != "share" && !(rule.name == "distinct" && matches!(promise, Promise::Window(..)))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Requests are judged in the order in which they come, and charged in the order in which their waits end.
    #[test]
    fn who_waited_for_a_place_is_charged_as_of_the_end_of_the_wait(
        requests in prop::collection::vec((0_u64..300, 0_u64..3_000), 1..80),
    ) {
        for (rule, promise) in judging_by_stamps() {
            let name = rule.name.clone();
            let snapshot = book(vec![rule]);
            let (mut now, mut waiting, mut stamps) = (START, Vec::new(), Vec::new());
            let mut go_on = |waiting: &mut Vec<(u64, _)>, until: u64| {
                waiting.sort_by_key(|(end, _)| *end);
                let over = waiting.partition_point(|(end, _)| *end <= until);
                for (end, mut judged) in waiting.drain(..over) {
                    let _held = snapshot.admit(&mut judged, Timestamp::from_nanos(end));
                    if judged.decision.verdict == Verdict::Admitted {
                        stamps.push(end);
                    }
                }
            };
            for (n, (gap, wait)) in requests.iter().enumerate() {
                now += gap * MILLISECOND;
                go_on(&mut waiting, now);
                waiting.push((now + wait * MILLISECOND, snapshot.judge(&request(&nth(n)), arrival(now))));
            }
            go_on(&mut waiting, u64::MAX);
            let kept = promise.check(&stamps.iter().map(|stamp| (*stamp, 1)).collect::<Vec<_>>());
            prop_assert!(kept.is_ok(), "{name}: {}", kept.unwrap_err());
        }
    }

    /// Another limit of the same route makes requests wait.
    #[test]
    fn who_was_delayed_is_charged_as_of_the_end_of_the_delay(
        // bursts, as nobody waits else
        gaps in prop::collection::vec(prop_oneof![3 => Just(0_u64), 1 => 0_u64..1_500], 1..80),
        delay_first in any::<bool>(),
    ) {
        for (rule, promise) in judging_by_stamps() {
            let name = rule.name.clone();
            let action = OnLimit::Delay { max: Duration::from_secs(5) };
            let smooth = Rule { action, ..rate("smooth", 7, 1, Mode::Enforce) };
            let snapshot = book(if delay_first { vec![smooth, rule] } else { vec![rule, smooth] });
            let (mut now, mut stamps) = (START, Vec::new());
            for (n, gap) in gaps.iter().enumerate() {
                now += gap * MILLISECOND;
                let (decision, _) = ask(&snapshot, &nth(n), now);
                if decision.verdict == Verdict::Admitted {
                    stamps.push(decision.goes_on().nanos());
                }
            }
            stamps.sort_unstable();
            let kept = promise.check(&stamps.iter().map(|stamp| (*stamp, 1)).collect::<Vec<_>>());
            prop_assert!(kept.is_ok(), "{name}: {}", kept.unwrap_err());
        }
    }
}
