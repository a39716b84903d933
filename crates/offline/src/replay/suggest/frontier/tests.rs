use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::replay::suggest::Trial;
use crate::sketch::{Admission, KeyHasher, Levels, Seed};
use crate::units::Bytes;

const SECOND: u64 = 1_000_000_000;

fn rate(events: u32, seconds: u64) -> Rate {
    Rate::new(events, Duration::from_secs(seconds)).unwrap()
}

fn key(name: u32) -> KeyHash {
    let mut hasher = KeyHasher::new(&Seed::from_bytes([7; 16]));
    hasher.part(1, &name.to_le_bytes());
    hasher.finish()
}

fn seen(rates: Vec<Rate>, most: usize, requests: &[(u64, u32, u32)]) -> Frontier {
    let mut frontier = Frontier::new(rates, most).unwrap();
    for (at, client, cost) in requests {
        frontier.observe(key(*client), Timestamp::from_nanos(*at), Cost::new(*cost).unwrap());
    }
    frontier
}

/// The levels of a limiter: its sketch and its exact table.
fn levels() -> Levels {
    Levels::new(Bytes(1 << 16), &Seed::from_bytes([1; 16])).unwrap()
}

/// Whom they limit.
fn limited(rate: Rate, burst: u32, requests: &[(u64, u32, u32)]) -> BTreeSet<KeyHash> {
    let (levels, bucket) = (levels(), Bucket::new(rate, burst).unwrap());
    let refused = |(at, client, cost): &&(u64, u32, u32)| {
        let admission = levels.admit(&bucket, key(*client), Timestamp::from_nanos(*at), Cost::new(*cost).unwrap());
        !matches!(admission, Admission::Admitted { .. })
    };
    requests.iter().filter(refused).map(|(_, client, _)| key(*client)).collect()
}

#[test]
fn requests_at_one_instant_need_a_burst_of_as_many() {
    let frontier = seen(vec![rate(1, 1)], 10, &[(0, 1, 1), (0, 1, 1), (0, 1, 1), (0, 2, 1)]);
    let column = frontier.column(0).unwrap();
    assert_eq!((column.burst(0), column.burst(1), column.burst(2)), (3, 1, 1));
    assert_eq!((column.touched(3), column.touched(2), column.touched(1)), (0, 1, 1));
    assert_eq!(frontier.touched(0, 2), [key(1)]);
    assert_eq!((frontier.clients(), frontier.requests(), frontier.busiest()), (2, 4, Some((key(1), 3))));
}

#[test]
fn a_backlog_of_part_of_a_request_needs_a_whole_one() {
    // half a second after one at 1/s: a backlog of 1.5
    let frontier = seen(vec![rate(1, 1)], 10, &[(0, 1, 1), (SECOND / 2, 1, 1)]);
    let column = frontier.column(0).unwrap();
    assert_eq!((column.peak(0), column.burst(0)), (1.5, 2));
    assert_eq!((column.touched(1), column.touched(2)), (1, 0));
}

#[test]
fn a_single_request_needs_its_cost() {
    let column = seen(vec![rate(1, 1)], 10, &[(0, 1, 7)]).column(0).unwrap();
    assert_eq!((column.burst(0), column.touched(6), column.touched(7)), (7, 1, 0));
}

#[test]
fn a_client_at_rest_gives_its_room_to_another_and_larger_bursts_stay_exact() {
    let mut requests: Vec<(u64, u32, u32)> = Vec::new();
    for client in 0..50_u64 {
        // one after the other, two requests each, ten seconds apart: at rest when the next comes
        requests.extend([(client * 10 * SECOND, client as u32, 1); 2]);
    }
    // one of them comes back, for five at once
    requests.extend([(600 * SECOND, 3, 1); 5]);
    let frontier = seen(vec![rate(1, 1), rate(5, 1)], 8, &requests);
    assert!(frontier.has_floor());
    assert_eq!((frontier.clients(), frontier.beyond(), frontier.cells.len()), (50, 0, 16));
    let column = frontier.column(0).unwrap();
    assert_eq!((column.touched(5), column.touched(4), column.touched(3)), (0, 1, 1));
    assert_eq!(frontier.touched(0, 4), [key(3)]);
}

#[test]
fn clients_without_room_are_counted_and_told() {
    let requests: Vec<(u64, u32, u32)> = (0..40).map(|request| (0, request % 10, 1)).collect();
    let frontier = seen(vec![rate(1, 1)], 4, &requests);
    assert_eq!((frontier.clients(), frontier.beyond()), (10, 6 * 4));
}

#[test]
fn at_the_end_of_time_no_burst_is_enough() {
    let end = u64::MAX - 1;
    let frontier = seen(vec![rate(1, 1)], 10, &[(end, 1, 1), (end, 1, 1)]);
    assert_eq!(frontier.column(0).unwrap().touched(u32::MAX), 1);
}

/// Stamps that mostly rise, stand still often, and step back at times.
fn requests() -> impl Strategy<Value = Vec<(u64, u32, u32)>> {
    let step = prop_oneof![
        4 => Just(0_i64),
        3 => (0_i64..3).prop_map(|seconds| seconds * SECOND as i64),
        3 => 0_i64..3_000_000_000,
        1 => -2_000_000_000_i64..0,
    ];
    prop::collection::vec((step, 0_u32..6, 1_u32..4), 1..200).prop_map(|steps| {
        let mut now = 1_000 * SECOND as i64;
        let next = |(step, client, cost)| {
            now += step;
            (now.max(0) as u64, client, cost)
        };
        steps.into_iter().map(next).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_burst_touches_exactly_whom_the_limiter_limits(
        requests in requests(),
        (events, seconds) in (1_u32..20, prop_oneof![Just(1_u64), Just(7), Just(60), Just(3_600)]),
    ) {
        let rate = rate(events, seconds);
        let frontier = seen(vec![rate], 100, &requests);
        let column = frontier.column(0).unwrap();
        for allowed in 0..6 {
            let burst = column.burst(allowed);
            prop_assert!(column.touched(burst) <= allowed);
            // and the one below it touches more, so that it is the smallest
            for burst in [burst, burst.saturating_sub(1).max(1), burst * 3 / 2 + 1] {
                let promised: BTreeSet<KeyHash> = frontier.touched(0, burst).into_iter().collect();
                prop_assert_eq!(promised.len(), column.touched(burst));
                prop_assert_eq!(&promised, &limited(rate, burst, &requests), "burst {}", burst);
            }
            prop_assert!(burst == 1 || column.touched(burst - 1) > allowed);
        }
    }

    #[test]
    fn room_for_few_changes_nothing_above_the_floor(mut requests in requests(), events in 1_u32..20) {
        // who is at rest is so for all that comes later, and only for that
        requests.sort_by_key(|(at, _, _)| *at);
        for (at, _, _) in &mut requests {
            *at *= 4;
        }
        let rates = vec![rate(events, 1), rate(events + 1, 1)];
        let all = seen(rates.clone(), 100, &requests);
        let few = seen(rates, 3, &requests);
        if few.beyond() > 0 {
            return Ok(());
        }
        for column in 0..2 {
            for burst in Frontier::FLOOR..20 {
                let sorted = |frontier: &Frontier| frontier.touched(column, burst).into_iter().collect::<BTreeSet<_>>();
                prop_assert_eq!(sorted(&all), sorted(&few));
            }
        }
    }

    #[test]
    fn a_trial_refuses_what_the_limiter_refuses(requests in requests(), events in 1_u32..5, burst in 1_u32..6) {
        let rate = rate(events, 1);
        let frontier = seen(vec![rate], 100, &requests);
        let mut trial = Trial::new(&frontier, 0, rate, burst).unwrap();
        let (levels, bucket) = (levels(), Bucket::new(rate, burst).unwrap());
        for (at, client, cost) in &requests {
            let (now, cost) = (Timestamp::from_nanos(*at), Cost::new(*cost).unwrap());
            let admission = levels.admit(&bucket, key(*client), now, cost);
            let refused = !matches!(admission, Admission::Admitted { .. });
            prop_assert_eq!(trial.observe(key(*client), now, cost).unwrap_or(false), refused);
        }
        prop_assert!(trial.clients().iter().all(|(_, touched)| touched.refused > 0));
    }
}
