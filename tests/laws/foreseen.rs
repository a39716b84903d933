//! A request that was looked ahead at, judged in a record that was used before, is judged as any other.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::client;
use tidegate::engine::{Foresight, Judged};
use tidegate::policy::{Mode, OnLimit, Rule};
use tidegate::sketch::Seed;
use tidegate::units::Timestamp;

use crate::book::{arrival, book, head, rate, request};
use crate::kinds::{START, kinds};

fn rules() -> Vec<Vec<Rule>> {
    let action = OnLimit::Delay { max: Duration::from_secs(2) };
    let smooth = Rule { action, ..rate("smooth", 3, 1, Mode::Enforce) };
    let mut books: Vec<_> = kinds().into_iter().map(|(rule, _)| vec![rule]).collect();
    books.push(vec![smooth.clone(), rate("rate", 5, 4, Mode::Enforce)]);
    books.push(vec![rate("rate", 1, 2, Mode::Shadow), smooth]);
    books
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn nothing_of_the_request_before_is_left_in_a_record(
        requests in prop::collection::vec((0_u64..300, 0_u8..3, 0_u32..6), 1..60),
    ) {
        for rules in rules() {
            let (plain, ahead) = (book(rules.clone()), book(rules));
            let foresight = Foresight::new(ahead.policy().clone(), &Seed::from_bytes([3; 16]));
            let mut again = Judged::new(arrival(START));
            let mut now = START;
            for (gap, client, name) in &requests {
                now += gap * 1_000_000;
                let mut headers = head(&format!("203.0.113.{client}"));
                headers.insert("x-name", (*name).into());
                let request = request(&headers);
                let client = client::resolve(&plain.policy().clients, request.peer, request.headers).unwrap();
                let mut fresh = plain.judge_for(&request, Some(client), arrival(now));
                let foreseen = foresight.foresee(&request, &client);
                ahead.approach(&foreseen);
                ahead.judge_foreseen(&foreseen, &request, client, arrival(now), &mut again);
                for (snapshot, judged) in [(&plain, &mut fresh), (&ahead, &mut again)] {
                    snapshot.reserve_all(judged);
                    let goes_on = judged.decision.goes_on();
                    let _held = snapshot.admit(judged, Timestamp::max(goes_on, Timestamp::from_nanos(now)));
                }
                prop_assert_eq!(format!("{:?}", fresh.decision), format!("{:?}", again.decision));
            }
        }
    }
}
