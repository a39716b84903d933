//! What one gate does with its leases, step by step.

mod refusals;

use std::time::Duration;

use super::*;
use crate::sketch::{KeyHasher, Seed};
use crate::units::{Bytes, Rate};

const MS: u64 = 1_000_000;

fn key(number: u64) -> KeyHash {
    let mut hasher = KeyHasher::new(&Seed::from_bytes([3; 16]));
    hasher.part(1, &number.to_le_bytes());
    hasher.finish()
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_nanos(millis * MS)
}

fn cost(cost: u32) -> Cost {
    Cost::new(cost).unwrap()
}

fn rate() -> Promise {
    Promise::Rate { rate: Rate::new(1000, Duration::from_secs(1)).unwrap(), burst: 1000 }
}

/// Of which gates can hold more than comes back in half a second, so that leases live for one.
fn steep() -> Promise {
    Promise::Rate { rate: Rate::new(1000, Duration::from_secs(1)).unwrap(), burst: 3000 }
}

/// Of which there is no stock: less than a token in twenty seconds' worth of leases.
fn slow() -> Promise {
    Promise::Rate { rate: Rate::new(4, Duration::from_secs(1)).unwrap(), burst: 100 }
}

fn quota() -> Promise {
    Promise::Quota { max: 1000, window: Duration::from_secs(60) }
}

fn grant(granted: u32) -> Answer {
    Answer { granted, left: 500, retry_nanos: Some(0), ends_nanos: u64::MAX }
}

fn refusal(retry: Option<u64>) -> Answer {
    Answer { granted: 0, left: 0, retry_nanos: retry, ends_nanos: u64::MAX }
}

fn ask(leases: &Leases, number: u64, cost: Cost, promise: &Promise, now: Timestamp) -> Asking {
    match leases.begin(key(number), cost, promise, 1, now) {
        Begin::Ask(asking) => asking,
        other => panic!("{other:?}"),
    }
}

/// What is left, and whether it is low.
fn held(look: Look) -> Option<(u32, bool)> {
    if let Look::Holds { left, low, .. } = look { Some((left, low)) } else { None }
}

fn ends(look: Look) -> Ends {
    if let Look::Holds { ends, .. } = look { ends } else { panic!("nothing is held") }
}

/// A table in which key 1 holds what is left of this grant after the asker took one.
fn holding(granted: u32, promise: &Promise, now: Timestamp) -> Leases {
    let leases = Leases::with_lines(1);
    let first = ask(&leases, 1, Cost::ONE, promise, now);
    let _ = leases.answered(first, &grant(1), now, now);
    for _ in 0..5 * granted {
        leases.note(key(1), Cost::ONE, now);
    }
    let asking = ask(&leases, 1, Cost::ONE, promise, now);
    assert!(asking.wanted() >= granted, "{asking:?}");
    assert_eq!(held(leases.answered(asking, &grant(granted), now, now)), Some((granted - 1, false)));
    leases
}

#[test]
fn an_answer_to_a_question_that_is_over_is_not_kept() {
    let leases = Leases::with_lines(1);
    let _ = ask(&leases, 1, Cost::ONE, &rate(), at(0));
    let (line, tag) = leases.place(key(1));
    let (_, entry, _) = leases.line(line).find(tag).unwrap();
    let asking = entry.state.load(Ordering::Acquire);
    let lease = Held { ends: words::tick(at(900)), tokens: 5 };
    let bring = |asking| steps::keep(entry, asking, &steps::Fresh { held: lease, life: LIFE, stocked: false }, at(0));
    // somebody else asks by now
    assert!(entry.state.exchange(asking, State::Idle { low: 0 }.word()));
    assert_eq!(bring(asking), Held::default());
    assert_eq!(Held::of(entry.held.load(Ordering::Acquire)).left(at(0)), 0);
    assert_eq!(bring(entry.state.load(Ordering::Acquire)).left(at(0)), 5, "and the one that is expected is");
}

#[test]
fn a_lone_request_asks_for_itself_and_nothing_more_where_tokens_are_few() {
    let leases = Leases::with_lines(1);
    for second in 0..10 {
        let now = at(1000 * second);
        assert_eq!(leases.look(key(1), Cost::ONE, &slow(), now), Look::Unknown);
        let asking = ask(&leases, 1, Cost::ONE, &slow(), now);
        assert_eq!((asking.wanted(), asking.least(), asking.is_kept()), (1, 1, true));
        assert_eq!(held(leases.answered(asking, &grant(1), now, now)), Some((0, false)));
        assert_eq!(leases.outstanding(now), 0);
    }
}

#[test]
fn a_key_that_comes_once_a_second_waits_once_where_tokens_are_many() {
    let leases = Leases::with_lines(1);
    let mut asked = 0;
    for second in 0..100 {
        let now = at(990 * second);
        let settle = |asking: Asking| {
            let granted = asking.wanted();
            leases.answered(asking, &grant(granted), now, now)
        };
        if leases.look(key(1), Cost::ONE, &rate(), now) == Look::Unknown {
            asked += 1;
            let _ = settle(ask(&leases, 1, Cost::ONE, &rate(), now));
        } else if let Look::Holds { low: true, .. } = leases.take(key(1), Cost::ONE, &rate(), now)
            && let Begin::Ask(asking) = leases.refill(key(1), &rate(), 1, now)
        {
            let _ = settle(asking);
        }
    }
    assert_eq!(asked, 1);
    assert!(leases.outstanding(at(99 * 990)) <= 4, "its stock");
}

#[test]
fn of_a_line_one_entry_at_most_is_held_for_a_key_that_came_once() {
    let leases = Leases::with_lines(1);
    for (number, wanted) in [(1, 2), (2, 1)] {
        let asking = ask(&leases, number, Cost::ONE, &rate(), at(0));
        assert_eq!(asking.wanted(), wanted);
        let _ = leases.answered(asking, &grant(wanted), at(0), at(0));
    }
    assert!(ask(&leases, 3, Cost::ONE, &rate(), at(5)).is_kept());
    assert_eq!(leases.outstanding(at(990)), 1);
    assert_eq!(leases.outstanding(at(1000)), 0, "for a second");
}

#[test]
fn two_keys_of_one_line_leave_each_other_alone() {
    let leases = Leases::with_lines(1);
    let mut asked = [0; 2];
    for millis in 0..3_000 {
        let now = at(millis);
        for (which, number) in [1, 2].into_iter().enumerate() {
            leases.note(key(number), Cost::ONE, now);
            match leases.take(key(number), Cost::ONE, &rate(), now) {
                Look::Holds { low: true, .. } => {
                    let Begin::Ask(asking) = leases.refill(key(number), &rate(), 1, now) else { continue };
                    let granted = asking.wanted();
                    let _ = leases.answered(asking, &grant(granted), now, now);
                }
                Look::Holds { .. } => {}
                _ => {
                    asked[which] += 1;
                    let asking = ask(&leases, number, Cost::ONE, &rate(), now);
                    assert!(asking.is_kept());
                    let granted = asking.wanted();
                    let _ = leases.answered(asking, &grant(granted), now, now);
                }
            }
        }
    }
    // until there is a demand to go by, and at the end of a lease
    assert!(asked.iter().all(|asked| *asked < 30), "of 3,000 requests each {asked:?} waited");
}

#[test]
fn what_is_held_is_spent_to_the_last_token_and_no_further() {
    let leases = holding(10, &rate(), at(0));
    for left in (0..9).rev() {
        assert!(matches!(leases.take(key(1), Cost::ONE, &rate(), at(1)), Look::Holds { left: l, .. } if l == left));
    }
    assert_eq!(leases.take(key(1), Cost::ONE, &rate(), at(1)), Look::Unknown);
}

#[test]
fn a_lease_dies_a_second_after_its_question_was_sent() {
    let leases = holding(10, &steep(), at(0));
    assert!(matches!(leases.look(key(1), Cost::ONE, &steep(), at(990)), Look::Holds { left: 9, .. }));
    assert_eq!(leases.outstanding(at(990)), 9);
    assert_eq!(leases.take(key(1), Cost::ONE, &steep(), at(1000)), Look::Unknown);
    assert_eq!(leases.outstanding(at(1000)), 0);
}

#[test]
fn a_lease_lives_four_seconds_where_all_that_gates_hold_soon_comes_back() {
    let leases = holding(10, &rate(), at(0));
    assert!(matches!(leases.look(key(1), Cost::ONE, &rate(), at(3990)), Look::Holds { left: 9, .. }));
    assert_eq!(leases.take(key(1), Cost::ONE, &rate(), at(4000)), Look::Unknown);
}

#[test]
fn with_more_gates_a_lease_lives_shorter_and_nothing_is_lost() {
    // of two gates it may live for four seconds, of three for one
    let promise = Promise::Rate { rate: Rate::new(5, Duration::from_secs(1)).unwrap(), burst: 8 };
    let leases: Leases = Leases::with_lines(1);
    let begin = |nodes, now| match leases.begin(key(1), Cost::ONE, &promise, nodes, at(now)) {
        Begin::Ask(asking) => asking,
        other => panic!("{other:?}"),
    };
    let refill = |nodes, now| match leases.refill(key(1), &promise, nodes, at(now)) {
        Begin::Ask(asking) => asking,
        other => panic!("{other:?}"),
    };
    for _ in 0..2 {
        leases.note(key(1), Cost::ONE, at(0));
        let asking = begin(2, 0);
        assert!(asking.wanted() == 1);
        let _ = leases.answered(asking, &grant(1), at(0), at(0));
    }
    let asking = refill(2, 1);
    assert_eq!(asking.life_nanos(), 4_000 * MS);
    let _ = leases.answered(asking, &grant(1), at(1), at(1));
    leases.note(key(1), Cost::ONE, at(2));
    assert!(matches!(leases.take(key(1), Cost::ONE, &promise, at(2)), Look::Holds { left: 0, low: true, .. }));
    let asking = refill(3, 3);
    assert_eq!(asking.life_nanos(), 1_000 * MS);
    assert!(matches!(leases.answered(asking, &grant(1), at(3), at(4)), Look::Holds { left: 1, .. }));
}

#[test]
fn what_a_refused_request_took_is_there_again_until_it_would_have_ended() {
    let (leases, promise) = (holding(10, &steep(), at(0)), steep());
    let taken = leases.take(key(1), cost(4), &promise, at(1));
    assert_eq!(held(taken), Some((5, false)));
    leases.give_back(key(1), cost(4), ends(taken), &promise, 1, at(2));
    assert!(matches!(leases.look(key(1), Cost::ONE, &promise, at(2)), Look::Holds { left: 9, .. }));
    assert_eq!(leases.outstanding(at(1000)), 0);
    // of a lease that was replaced meanwhile
    let taken = leases.take(key(1), cost(9), &promise, at(900));
    let asking = ask(&leases, 1, Cost::ONE, &promise, at(950));
    let _ = leases.answered(asking, &grant(3), at(950), at(951));
    leases.give_back(key(1), cost(9), ends(taken), &promise, 1, at(952));
    assert_eq!(leases.outstanding(at(952)), 2);
}

#[test]
fn no_more_is_given_back_than_may_be_held_and_nothing_while_a_question_is_on_its_way() {
    let (leases, promise) = (holding(100, &steep(), at(0)), steep());
    let taken = leases.take(key(1), cost(50), &promise, at(1));
    // of thirty gates, each may hold 25
    leases.give_back(key(1), cost(50), ends(taken), &promise, 30, at(2));
    assert_eq!(leases.outstanding(at(2)), 49);
    while !matches!(leases.take(key(1), Cost::ONE, &promise, at(3)), Look::Holds { low: true, .. }) {}
    let Begin::Ask(asking) = leases.refill(key(1), &promise, 1, at(3)) else { panic!("nobody asks") };
    let before = leases.outstanding(at(3));
    leases.give_back(key(1), Cost::ONE, ends(taken), &promise, 1, at(3));
    assert_eq!(leases.outstanding(at(3)), before);
    leases.silent(asking);
    leases.give_back(key(1), Cost::ONE, ends(taken), &promise, 1, at(3));
    assert_eq!(leases.outstanding(at(3)), before + 1);
}

#[test]
fn what_was_asked_for_one_request_is_held_for_the_next_if_another_limit_refuses_it() {
    let leases = Leases::with_lines(1);
    let asking = ask(&leases, 1, Cost::ONE, &slow(), at(0));
    let taken = leases.answered(asking, &grant(1), at(0), at(1));
    assert_eq!((held(taken), leases.outstanding(at(1))), (Some((0, false)), 0));
    leases.give_back(key(1), Cost::ONE, ends(taken), &slow(), 1, at(2));
    assert_eq!(held(leases.take(key(1), Cost::ONE, &slow(), at(990))), Some((0, false)));
    leases.give_back(key(1), Cost::ONE, ends(taken), &slow(), 1, at(1100));
    assert_eq!(leases.outstanding(at(1100)), 0, "it has ended");
}

#[test]
fn what_is_given_back_takes_the_place_of_nothing_that_is_held() {
    let (leases, promise) = (holding(10, &steep(), at(0)), steep());
    // five are held to the first second's end, and five were taken of what lives longer
    let _ = leases.take(key(1), cost(4), &promise, at(1));
    leases.give_back(key(1), cost(5), Ends(tick(at(1990))), &promise, 1, at(998));
    assert_eq!(leases.outstanding(at(998)), 10);
    assert_eq!(leases.outstanding(at(1000)), 0);
}

#[test]
fn what_is_given_back_does_not_die_with_the_little_that_is_held() {
    let (leases, promise) = (holding(10, &steep(), at(0)), steep());
    let _ = leases.take(key(1), cost(9), &promise, at(1));
    leases.give_back(key(1), cost(5), Ends(tick(at(1990))), &promise, 1, at(998));
    assert_eq!((leases.outstanding(at(998)), leases.outstanding(at(1000))), (5, 5));
}

#[test]
fn a_lease_dies_with_its_window() {
    let leases = Leases::with_lines(1);
    let asking = ask(&leases, 1, Cost::ONE, &quota(), at(0));
    let answer = Answer { granted: 1, left: 9, retry_nanos: Some(0), ends_nanos: 50 * MS };
    assert_eq!(leases.answered(asking, &answer, at(0), at(50)), Look::Unknown, "it came after the end");
}

#[test]
fn a_quarter_left_is_low_and_a_sixteenth_near_the_end() {
    for (now, low_from) in [(1, 9), (800, 1)] {
        let leases = holding(40, &steep(), at(0));
        let mut first_low = None;
        while let Look::Holds { left, low, .. } = leases.take(key(1), Cost::ONE, &steep(), at(now)) {
            first_low = first_low.or(low.then_some(left));
        }
        assert_eq!(first_low, Some(low_from), "at {now} ms");
    }
}

#[test]
fn a_refill_asks_for_what_is_missing_and_adds_to_what_is_left() {
    let leases = holding(40, &steep(), at(0));
    assert!(matches!(leases.refill(key(1), &steep(), 1, at(1)), Begin::Known(Look::Holds { low: false, .. })));
    while !matches!(leases.take(key(1), Cost::ONE, &steep(), at(1)), Look::Holds { low: true, .. }) {}
    let Begin::Ask(asking) = leases.refill(key(1), &steep(), 1, at(1)) else { panic!("nobody asks") };
    assert_eq!((asking.wanted(), asking.least()), (40 - 9, 1));
    assert!(matches!(leases.refill(key(1), &steep(), 1, at(1)), Begin::Known(_)), "it is low, but being asked about");
    assert_eq!(held(leases.answered(asking, &grant(31), at(1), at(2))), Some((40, false)));
    // the sum has the end of the older
    assert_eq!(leases.look(key(1), Cost::ONE, &steep(), at(1000)), Look::Unknown);
}

#[test]
fn a_refill_that_could_not_be_spent_in_time_takes_the_new_end() {
    let leases = holding(40, &steep(), at(0));
    while !matches!(leases.take(key(1), Cost::ONE, &steep(), at(900)), Look::Holds { low: true, .. }) {}
    let Begin::Ask(asking) = leases.refill(key(1), &steep(), 1, at(900)) else { panic!("nobody asks") };
    assert_eq!(held(leases.answered(asking, &grant(30), at(900), at(901))), Some((30, false)));
    assert!(matches!(leases.look(key(1), Cost::ONE, &steep(), at(1890)), Look::Holds { left: 30, .. }));
}

#[test]
fn one_asks_and_the_others_wait() {
    let leases = Leases::with_lines(1);
    let asking = ask(&leases, 1, Cost::ONE, &rate(), at(0));
    assert!(matches!(leases.begin(key(1), Cost::ONE, &rate(), 1, at(1)), Begin::Busy { .. }));
    leases.silent(asking);
    let _lost = ask(&leases, 1, Cost::ONE, &rate(), at(1));
    assert!(
        matches!(leases.begin(key(1), Cost::ONE, &rate(), 1, at(1000)), Begin::Busy { .. }),
        "it is lost, but not void"
    );
    let _lost = ask(&leases, 1, Cost::ONE, &rate(), at(1010));
}

#[test]
fn an_answer_that_was_given_up_serves_its_own_request_alone() {
    let leases = Leases::with_lines(1);
    let late = ask(&leases, 1, Cost::ONE, &rate(), at(0));
    let asking = ask(&leases, 1, Cost::ONE, &rate(), at(1010));
    assert!(matches!(leases.answered(late, &grant(1), at(11), at(1010)), Look::Holds { left: 0, .. }));
    assert!(
        matches!(leases.begin(key(1), Cost::ONE, &rate(), 1, at(1011)), Begin::Busy { .. }),
        "its state is another's"
    );
    leases.silent(asking);
}

#[test]
fn a_refusal_is_remembered_until_its_time_and_for_its_cost() {
    let leases = Leases::with_lines(1);
    let asking = ask(&leases, 1, cost(5), &rate(), at(0));
    let refused = leases.answered(asking, &refusal(Some(200 * MS)), at(0), at(1));
    let Look::Refused { retry_nanos: Some(retry), .. } = refused else { panic!("{refused:?}") };
    assert!((200 * MS..203 * MS).contains(&retry), "{retry}");
    assert_eq!(leases.look(key(1), cost(5), &rate(), at(1)), refused);
    let dearer = leases.look(key(1), cost(7), &rate(), at(1));
    assert_eq!(dearer, Look::Refused { retry_nanos: Some(retry + 2 * MS), due: false }, "two tokens more take longer");
    assert_eq!(leases.look(key(1), cost(4), &rate(), at(1)), Look::Unknown, "less may fit");
    assert!(matches!(leases.begin(key(1), cost(5), &rate(), 1, at(100)), Begin::Known(Look::Refused { .. })));
    let back = Timestamp::from_nanos(MS + retry);
    assert_eq!(leases.look(key(1), cost(5), &rate(), back), Look::Unknown);
    let _lost = ask(&leases, 1, cost(5), &rate(), back);
}

#[test]
fn a_spent_key_is_left_alone_until_a_lease_has_come_back() {
    let leases = holding(100, &rate(), at(0));
    while let Look::Holds { .. } = leases.take(key(1), Cost::ONE, &rate(), at(1)) {}
    let asking = ask(&leases, 1, Cost::ONE, &rate(), at(1));
    let Look::Refused { retry_nanos: Some(retry), .. } = leases.answered(asking, &refusal(Some(MS)), at(1), at(2))
    else {
        panic!("not refused")
    };
    assert!((50 * MS..53 * MS).contains(&retry), "{retry}");
    // towards its end one asks in the background, and nobody waits for that
    let due = |now| matches!(leases.look(key(1), Cost::ONE, &rate(), at(now)), Look::Refused { due: true, .. });
    assert!(!due(40) && due(46));
    assert!(matches!(leases.begin(key(1), Cost::ONE, &rate(), 1, at(46)), Begin::Known(Look::Refused { .. })));
    let Begin::Ask(asking) = leases.refill(key(1), &rate(), 1, at(46)) else { panic!("nobody asks") };
    assert!(!due(46) && matches!(leases.look(key(1), Cost::ONE, &rate(), at(47)), Look::Refused { .. }));
    assert!(matches!(leases.refill(key(1), &rate(), 1, at(47)), Begin::Known(Look::Refused { due: false, .. })));
    let _ = leases.answered(asking, &grant(20), at(46), at(48));
    assert!(matches!(leases.take(key(1), Cost::ONE, &rate(), at(48)), Look::Holds { left: 19, .. }));
}

#[test]
fn a_store_that_gave_its_last_is_not_asked_again_at_once() {
    let leases = holding(40, &quota(), at(0));
    while let Look::Holds { .. } = leases.take(key(1), Cost::ONE, &quota(), at(1)) {}
    let asking = ask(&leases, 1, Cost::ONE, &quota(), at(1));
    let last = Answer { granted: 2, left: 0, retry_nanos: Some(0), ends_nanos: 30_000 * MS };
    assert_eq!(held(leases.answered(asking, &last, at(1), at(2))), Some((1, false)));
    assert_eq!(held(leases.take(key(1), Cost::ONE, &quota(), at(2))), Some((0, false)));
    let Look::Refused { retry_nanos: Some(retry), .. } = leases.take(key(1), Cost::ONE, &quota(), at(2)) else {
        panic!("not refused")
    };
    assert!((30_008 * MS..30_011 * MS).contains(&retry), "{retry}");
}

#[test]
fn a_store_that_granted_all_that_was_asked_for_is_asked_again_though_it_has_nothing_left() {
    // what a key of this rate has spent is back before a refusal would be forgotten
    let fast = Promise::Rate { rate: Rate::new(1000, Duration::from_secs(1)).unwrap(), burst: 10 };
    let leases = Leases::with_lines(1);
    let asking = ask(&leases, 1, cost(10), &fast, at(0));
    let all = Answer { granted: asking.wanted(), left: 0, retry_nanos: Some(0), ends_nanos: u64::MAX };
    assert_eq!((asking.wanted(), held(leases.answered(asking, &all, at(0), at(1)))), (10, Some((0, false))));
    assert_eq!(leases.look(key(1), Cost::ONE, &fast, at(2)), Look::Unknown);
}

#[test]
fn what_can_never_fit_is_refused_without_asking() {
    let leases: Leases = Leases::with_lines(1);
    let never = Look::Refused { retry_nanos: None, due: false };
    assert!(matches!(leases.begin(key(1), cost(1001), &rate(), 1, at(0)), Begin::Known(look) if look == never));
}

#[test]
fn live_entries_are_not_evicted_and_the_newcomer_asks_for_itself() {
    let leases = Leases::with_lines(1);
    for number in [1, 2] {
        let _lost = ask(&leases, number, Cost::ONE, &rate(), at(0));
    }
    let newcomer = ask(&leases, 3, cost(2), &rate(), at(1));
    assert_eq!((newcomer.is_kept(), newcomer.wanted()), (false, 2));
    assert_eq!(held(leases.answered(newcomer, &grant(2), at(1), at(2))), Some((0, false)));
    assert!(ask(&leases, 3, Cost::ONE, &rate(), at(1010)).is_kept(), "the questions of the others are void by now");
}

#[test]
fn a_refusal_nobody_runs_into_makes_room() {
    let leases = Leases::with_lines(1);
    for number in [1, 2] {
        let asking = ask(&leases, number, Cost::ONE, &quota(), at(0));
        let _ = leases.answered(asking, &refusal(Some(3_600_000 * MS)), at(0), at(1));
    }
    assert!(!ask(&leases, 3, Cost::ONE, &quota(), at(500)).is_kept());
    let _ = leases.look(key(1), Cost::ONE, &quota(), at(1500));
    assert!(ask(&leases, 3, Cost::ONE, &quota(), at(2500)).is_kept());
    assert!(matches!(leases.look(key(1), Cost::ONE, &quota(), at(2500)), Look::Refused { .. }), "1 is in use");
    assert_eq!(leases.look(key(2), Cost::ONE, &quota(), at(2500)), Look::Unknown);
}

#[test]
fn an_entry_that_changed_hands_gives_the_old_key_nothing() {
    let leases = holding(40, &steep(), at(0));
    let _lost = ask(&leases, 2, Cost::ONE, &steep(), at(500));
    let asking = ask(&leases, 3, Cost::ONE, &steep(), at(1000));
    assert!(asking.is_kept());
    assert_eq!(leases.take(key(1), Cost::ONE, &steep(), at(10)), Look::Unknown, "even on an old stamp");
    assert_eq!(leases.take(key(3), Cost::ONE, &steep(), at(10)), Look::Unknown);
    leases.silent(asking);
}

#[test]
fn the_table_is_as_large_as_it_says_and_refuses_to_be_tiny() {
    assert_eq!(Leases::new(Leases::MEMORY).unwrap().memory(), Bytes(2 << 20));
    assert_eq!(Leases::new(Bytes(100_000)).unwrap().memory(), Bytes(64 << 10));
    assert!(Leases::new(Bytes(1000)).is_err());
    assert!(Leases::new(Bytes(2 << 30)).is_err());
}
