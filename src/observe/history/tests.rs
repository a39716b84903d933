use super::*;
use crate::observe::state::{Answers, Word};

fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * 1_000_000)
}

fn route(ended: u64, delayed: u64, limited: u64, shed: u64) -> state::Route {
    state::Route { name: "shop".to_owned(), ended, delayed, limited, shed, ..state::Route::default() }
}

fn of_route(route: state::Route) -> State {
    State { routes: vec![route], ..State::default() }
}

fn last(points: &[f32]) -> f32 {
    *points.last().unwrap()
}

fn sum(points: &[f32]) -> f32 {
    points.iter().sum()
}

#[test]
fn a_second_holds_what_the_counters_grew_by() {
    let history = History::new();
    history.note(at(500), &of_route(route(1_000, 0, 100, 10)));
    assert_eq!(sum(&history.lately(SECONDS).routes["shop"].allowed), 0.0, "what was before is not of the first second");
    history.note(at(1_500), &of_route(route(1_010, 0, 103, 11)));
    let past = history.lately(SECONDS).routes["shop"].clone();
    assert_eq!([last(&past.allowed), last(&past.limited), last(&past.shed), last(&past.delayed)], [6.0, 3.0, 1.0, 0.0]);
    assert_eq!(sum(&past.allowed), 6.0);
}

#[test]
fn a_request_that_ends_long_after_its_verdict_is_counted_once() {
    let history = History::new();
    history.note(at(0), &State::default());
    // five wait, four of them end later, together with six that did not have to
    for (second, ended, delayed) in [(1, 0, 5), (2, 1, 5), (3, 1, 5), (4, 11, 5)] {
        history.note(at(second * 1_000), &of_route(route(ended, delayed, 0, 0)));
    }
    let past = history.lately(SECONDS).routes["shop"].clone();
    assert_eq!((sum(&past.delayed), sum(&past.allowed), last(&past.allowed)), (5.0, 6.0, 6.0));
}

#[test]
fn rounds_that_come_late_or_early_leave_no_holes_and_lose_nothing() {
    let history = History::new();
    history.note(at(900), &of_route(route(0, 0, 0, 0)));
    history.note(at(1_000), &of_route(route(100, 0, 0, 0)));
    // in the same second again: waits for the next
    history.note(at(1_999), &of_route(route(200, 0, 0, 0)));
    // and none at all in second 2
    history.note(at(3_000), &of_route(route(300, 0, 0, 0)));
    let past = history.lately(SECONDS).routes["shop"].clone();
    assert_eq!(past.allowed[597..], [1_000.0, 100.0, 100.0]);
}

#[test]
fn a_clock_that_stands_still_or_sleeps_for_a_day_is_harmless() {
    let history = History::new();
    history.note(at(5_000), &of_route(route(0, 0, 0, 0)));
    history.note(at(4_000), &of_route(route(10, 0, 0, 0)));
    assert_eq!(sum(&history.lately(SECONDS).routes["shop"].allowed), 0.0);
    history.note(at(86_405_000), &of_route(route(86_400, 0, 0, 0)));
    let past = history.lately(SECONDS).routes["shop"].clone();
    assert!(past.allowed.iter().all(|point| *point == 1.0));
}

#[test]
fn names_that_stay_go_on_and_names_that_went_are_forgotten() {
    let history = History::new();
    let limit = |name: &str, allowed| {
        let decisions = [(Word::from("allowed"), allowed)].into();
        state::Limit { name: name.to_owned(), decisions, ..state::Limit::default() }
    };
    let totals = |limits| State { limits, ..State::default() };
    history.note(at(0), &totals(vec![limit("a", 0), limit("b", 0)]));
    history.note(at(1_000), &totals(vec![limit("a", 10), limit("b", 20)]));
    history.note(at(2_000), &totals(vec![limit("a", 30), limit("c", 5)]));
    assert_eq!(history.lately(SECONDS).limits["a"].allowed[598..], [10.0, 20.0]);
    assert!(!history.lately(SECONDS).limits.contains_key("b"));
    assert_eq!(history.lately(SECONDS).limits["c"].allowed[598..], [0.0, 5.0]);
    // as when the limit was gone for a while: its counters begin anew
    history.note(at(3_000), &totals(vec![limit("a", 7)]));
    assert_eq!(last(&history.lately(SECONDS).limits["a"].allowed), 7.0);
}

/// A route that forwards to the origin `shop`, which has answered so and taken so long.
fn forwarded(success: u64, server_error: u64, failed: u64, durations: [u64; 3]) -> State {
    let answers = Answers { success, server_error, failed, ..Answers::default() };
    let origin = state::Origin {
        name: "shop".to_owned(),
        inflight: 3,
        limit: Some(4),
        queued: 1,
        errors: 2,
        answers,
        ..state::Origin::default()
    };
    let ended = answers.total();
    let route = state::Route { origin: Some(0), answers, durations: durations.to_vec(), ..route(ended, 0, 0, 0) };
    State { routes: vec![route], origins: vec![origin], bounds: &[0.1, 1.0], ..State::default() }
}

#[test]
fn an_origins_durations_are_those_of_the_last_ten_seconds() {
    let history = History::new();
    history.note(at(0), &forwarded(500, 0, 0, [0, 0, 500]));
    history.note(at(1_000), &forwarded(600, 0, 0, [100, 0, 500]));
    let past = history.lately(SECONDS).origins["shop"].clone();
    assert!((last(&past.p50) - 0.05).abs() < 1e-6, "{}", last(&past.p50));
    assert_eq!([last(&past.inflight), last(&past.cap), last(&past.queue), last(&past.errors)], [3.0, 4.0, 1.0, 0.0]);
    history.note(at(2_000), &forwarded(700, 0, 0, [100, 100, 500]));
    assert!((last(&history.lately(SECONDS).origins["shop"].p50) - 0.1).abs() < 1e-6);
    for second in 3..=12 {
        history.note(at(second * 1_000), &forwarded(700, 0, 0, [100, 100, 500]));
    }
    assert_eq!(last(&history.lately(SECONDS).origins["shop"].p50), 0.0, "ten seconds after the last attempt");
}

#[test]
fn the_last_seconds_have_the_answers_of_each_route_and_origin_by_class() {
    let history = History::new();
    history.note(at(0), &forwarded(1_000, 50, 50, [0, 0, 0]));
    let mut now = forwarded(1_010, 75, 55, [30, 10, 0]);
    history.note(at(1_000), &now);
    history.fill_recent(&mut now);
    let expected = Answers { success: 10, server_error: 25, failed: 5, ..Answers::default() };
    for recent in [&now.routes[0].recent, &now.origins[0].recent] {
        assert_eq!((recent.seconds, recent.answers, recent.answers.error_share()), (1, expected, Some(0.75)));
        assert!(recent.p50_seconds.is_some_and(|p50| p50 < 0.1) && recent.p99_seconds.is_some_and(|p99| p99 > 0.1));
    }
    let endings = &history.endings(10)[0];
    assert_eq!((endings.origin.as_str(), endings.seconds), ("shop", 10));
    assert_eq!([endings.ended, endings.server_errors, endings.unanswered, endings.shed], [40.0, 25.0, 5.0, 0.0]);
    assert!(endings.p50_seconds > 0.0);
    let past = history.lately(1).routes["shop"].clone();
    assert_eq!((past.allowed.as_slice(), past.failed.as_slice()), ([10.0].as_slice(), [30.0].as_slice()));
    for second in 2..=11 {
        history.note(at(second * 1_000), &now);
    }
    history.fill_recent(&mut now);
    assert_eq!((now.origins[0].recent.seconds, now.origins[0].recent.answers.total()), (10, 0), "a while later");
}

#[test]
fn an_origin_whose_route_went_elsewhere_answers_nothing_in_that_second() {
    let history = History::new();
    history.note(at(0), &forwarded(1_000, 0, 0, [1_000, 0, 0]));
    history.note(at(1_000), &forwarded(1_000, 0, 0, [1_000, 0, 0]));
    let mut moved = forwarded(0, 0, 0, [0, 0, 0]);
    moved.routes[0].origin = None;
    history.note(at(2_000), &moved);
    assert_eq!(sum(&history.lately(SECONDS).origins["shop"].ended), 0.0);
}

#[test]
fn a_young_process_says_how_much_of_its_past_there_is() {
    let history = History::new();
    assert_eq!((history.seconds(), history.lately(0).second), (0, None));
    history.note(at(5_000), &State::default());
    history.note(at(8_000), &of_route(route(30, 0, 0, 0)));
    assert_eq!((history.seconds(), history.lately(0).second), (3, Some(8)));
    assert_eq!(history.lately(4).routes["shop"].allowed, [0.0, 10.0, 10.0, 10.0]);
    history.note(at(9_000_000), &State::default());
    assert_eq!(history.seconds(), SECONDS);
}

#[test]
fn the_flow_is_all_routes_together() {
    let history = History::new();
    let two = |shop, site| State {
        routes: vec![route(shop, 0, 0, 0), state::Route { name: "site".to_owned(), ..route(site, 0, 1, 0) }],
        ..State::default()
    };
    history.note(at(1_000), &State::default());
    history.note(at(2_000), &two(3, 6));
    let flow = history.flow(SECONDS);
    assert_eq!((last(&flow.allowed), last(&flow.limited), sum(&flow.allowed)), (8.0, 1.0, 8.0));
    let latest = history.lately(1);
    assert_eq!((latest.second, latest.routes["site"].allowed.as_slice()), (Some(2), [5.0].as_slice()));
    assert_eq!(history.lately(SECONDS).routes["site"].allowed.len(), SECONDS);
}

#[test]
fn another_process_shows_the_ten_minutes_before_it_and_goes_on() {
    let origin = || state::Origin { name: "app".to_owned(), inflight: 7, ..state::Origin::default() };
    let history = History::new();
    for second in 0..=700 {
        let totals = State { origins: vec![origin()], ..of_route(route(10 * second, 0, second, 0)) };
        history.note(at(second * 1_000), &totals);
    }
    let key = crate::saved::Key::from_bytes([3; 16]);
    let mut stream = Vec::new();
    let mut writer = crate::saved::Writer::new(&mut stream, &key).unwrap();
    writer.begin("history").unwrap();
    history.save(&mut writer).unwrap();
    writer.end().unwrap();
    writer.finish().unwrap();
    // its counters begin at zero, and it first looked before it was told
    let next = History::new();
    next.note(at(703_000), &of_route(route(0, 0, 0, 0)));
    let mut bytes = stream.as_slice();
    let mut reader = crate::saved::Reader::new(&mut bytes, &key).unwrap();
    reader.begin().unwrap();
    next.restore(&mut reader).unwrap();
    reader.end().unwrap();
    next.note(at(704_000), &State { origins: vec![origin()], ..of_route(route(5, 0, 2, 0)) });
    let past = next.lately(SECONDS);
    let shop = &past.routes["shop"];
    assert_eq!(shop.allowed[594..], [9.0, 9.0, 0.0, 0.0, 0.0, 3.0][..]);
    assert_eq!(shop.limited[593..], [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 2.0][..]);
    assert_eq!(sum(&shop.limited), 598.0, "ten minutes less three seconds, and two");
    assert_eq!(next.seconds(), SECONDS);
    assert_eq!(past.origins["app"].inflight[594..], [7.0, 7.0, 0.0, 0.0, 0.0, 7.0][..]);
}
