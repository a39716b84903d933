use std::time::Duration;

use super::*;
use crate::units::Dice;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);
/// A day in 2026, in microseconds since 1970.
const NOW: u64 = 1_790_000_000_000_000;

fn rate(events: u32, period: Duration, burst: u32) -> Promise {
    Promise::Rate { rate: Rate::new(events, period).unwrap(), burst }
}

fn rate_terms(promise: Promise) -> RateTerms {
    match promise.terms().unwrap() {
        Terms::Rate(terms) => terms,
        _ => panic!("a rate"),
    }
}

/// Of a limit without tiers.
fn judge(state: &Option<State>, terms: &Terms, wanted: u32, least: u32, now: u64) -> Outcome {
    grant(state.as_ref(), &[(0, *terms)], 0, (wanted, least), now)
}

fn kept(outcome: &Outcome, before: Option<State>) -> Option<State> {
    outcome.written.clone().map_or(before, |(state, _)| Some(state))
}

#[test]
fn a_rate_is_counted_without_a_common_divisor() {
    let terms = rate_terms(rate(10, SECOND, 5));
    assert_eq!(terms, RateTerms { cost: 100_000, drain: 1, tick_micros: 1, burst: 5, bursts: 1 });
    let terms = rate_terms(rate(7, SECOND, 5));
    assert_eq!((terms.cost, terms.drain), (1_000_000, 7));
    let terms = rate_terms(rate(10_000_000, SECOND, 5));
    assert_eq!((terms.cost, terms.drain), (1, 10));
}

#[test]
fn a_burst_too_great_for_microseconds_is_counted_in_longer_ticks() {
    let terms = rate_terms(rate(9_999_991, DAY, 3_999_996_400));
    assert!(terms.tick_micros > 1);
    let exact = u128::from(terms.drain) * DAY.as_micros() == 9_999_991 * u128::from(terms.cost * terms.tick_micros);
    assert!(exact, "{terms:?}");
    assert!(terms.full() < MOST_DEBT);
}

#[test]
fn numbers_that_cannot_be_counted_are_refused() {
    assert!(rate(1, DAY, 401).terms().is_err(), "a burst of 401 days");
    assert!(rate(1, DAY, 400).terms().is_ok());
    assert!(rate(999_999_937, Duration::from_nanos(86_399_999_999_999), u32::MAX).terms().is_err());
    assert!(Promise::Quota { max: 1, window: Duration::ZERO }.terms().is_err());
    assert!(Promise::Quota { max: 1, window: Duration::from_micros(1_500) }.terms().is_err());
    assert!(Promise::Quota { max: 1, window: 400 * DAY }.terms().is_ok());
    assert!(Promise::Quota { max: 1, window: 401 * DAY }.terms().is_err());
}

#[test]
fn as_much_is_granted_as_fits_and_nothing_below_the_least() {
    let terms = rate(1, SECOND, 10).terms().unwrap();
    let first = judge(&None, &terms, 8, 1, NOW);
    assert_eq!((first.answer.granted, first.answer.left), (8, 2));
    let state = kept(&first, None);
    let second = judge(&state, &terms, 8, 3, NOW);
    assert_eq!((second.answer.granted, second.answer.left), (0, 2));
    assert_eq!(second.answer.retry_nanos, Some(1_000_000_000));
    assert_eq!(second.written, None, "a refusal costs the store nothing");
    let third = judge(&state, &terms, 8, 2, NOW);
    assert_eq!((third.answer.granted, third.answer.left), (2, 0));
    assert_eq!(judge(&state, &terms, 20, 11, NOW).answer.retry_nanos, None, "never");
}

#[test]
fn no_interval_has_more_than_the_promise() {
    for (events, period, burst) in [(7, SECOND, 3), (100, Duration::from_millis(1_700), 50), (1, SECOND, 1)] {
        let promise = rate(events, period, burst);
        let terms = promise.terms().unwrap();
        let (mut dice, mut now, mut state) = (Dice(1), NOW, None);
        let mut granted: Vec<(u64, u64)> = Vec::new();
        for _ in 0..600 {
            now += dice.roll() % 200_000;
            let least = 1 + u32::try_from(dice.roll() % 3).unwrap();
            let outcome = judge(&state, &terms, least + 2, least, now);
            state = kept(&outcome, state);
            granted.push((now, u64::from(outcome.answer.granted)));
        }
        for (index, (from, _)) in granted.iter().enumerate() {
            let mut sum = 0;
            for (until, units) in &granted[index..] {
                sum += units;
                // sum <= burst + events * (until - from) / period
                let passed = u128::from(until - from) * u128::from(events) * 1_000;
                assert!(u128::from(sum - sum.min(u64::from(burst))) * period.as_nanos() <= passed);
            }
        }
    }
}

#[test]
fn the_retry_time_is_true_to_the_microsecond() {
    for promise in [rate(7, SECOND, 5), rate(3, DAY, 5), rate(9_999_991, DAY, 3_999_996_400)] {
        let terms = promise.terms().unwrap();
        let most = promise.most();
        let state = kept(&judge(&None, &terms, most, most, NOW), None);
        let later = NOW + 1_234;
        let refused = judge(&state, &terms, most, most, later).answer;
        let wait = refused.retry_nanos.unwrap() / 1_000;
        assert_eq!(judge(&state, &terms, most, most, later + wait - 1).answer.granted, 0);
        assert_eq!(judge(&state, &terms, most, most, later + wait).answer.granted, most);
    }
}

#[test]
fn a_state_is_kept_until_its_debt_has_drained_and_no_longer_than_a_millisecond_more() {
    let terms = rate(7, SECOND, 5).terms().unwrap();
    let (state, millis) = judge(&None, &terms, 5, 5, NOW).written.unwrap();
    let full = |after: u64| judge(&Some(state.clone()), &terms, 5, 5, NOW + after).answer.granted == 5;
    assert!(full(millis * 1_000));
    assert!(!full((millis - 1) * 1_000));
}

#[test]
fn a_clock_that_steps_back_gives_nothing_and_goes_on_from_there() {
    let terms = rate(1, SECOND, 5).terms().unwrap();
    let spent = kept(&judge(&None, &terms, 5, 5, NOW), None);
    let back = NOW - 3_600_000_000;
    let refused = judge(&spent, &terms, 1, 1, back);
    assert_eq!(refused.answer.granted, 0);
    assert_eq!(refused.answer.retry_nanos, Some(1_000_000_000));
    let state = kept(&refused, spent);
    assert_eq!(judge(&state, &terms, 5, 1, back + 1_000_000).answer.granted, 1);
}

#[test]
fn changed_numbers_keep_what_was_spent() {
    let before = rate(10, SECOND, 100).terms().unwrap();
    let state = kept(&judge(&None, &before, 60, 60, NOW), None);
    for (promise, left) in [
        (rate(1, SECOND, 100), 40),
        (rate(7, Duration::from_secs(3), 100), 40),
        (rate(10, SECOND, 61), 1),
        (rate(3, DAY, 60), 0),
        (rate(3, DAY, 50), 0),
    ] {
        let terms = promise.terms().unwrap();
        let answer = judge(&state, &terms, 1_000, 1_000, NOW).answer;
        assert_eq!((answer.granted, answer.left), (0, left), "{promise:?}");
    }
    // there and back again: never less than before
    let mut debt = 1_234_567_891;
    for _ in 0..4 {
        let slow = rate_terms(rate(7, DAY, 2_000));
        let quick = rate_terms(rate(11, Duration::from_secs(86_399), 2_000));
        let there = quick.converted(debt, slow.cost);
        let again = slow.converted(there, quick.cost);
        assert!(again >= debt && again < debt + 16, "{debt} {again}");
        debt = again;
    }
}

#[test]
fn gates_of_different_numbers_spend_no_more_together_than_the_loosest_allow() {
    for (numbers, loosest) in [
        ([(20, 40), (50, 100)], (50, 100)),
        ([(80, 160), (100, 200)], (100, 200)),
        ([(100, 50), (100, 200)], (100, 200)),
        ([(200, 50), (100, 200)], (200, 200)),
        ([(1, 1), (1_000, 1_000)], (1_000, 1_000)),
    ] {
        let terms = numbers.map(|(events, burst)| rate(events, SECOND, burst).terms().unwrap());
        let (mut dice, mut now, mut state) = (Dice(5), NOW, None);
        let (mut total, mut lowest, mut worst) = (0.0, f64::INFINITY, 0.0_f64);
        for nth in 0..100_000 {
            // by turns crowds and pauses
            now += dice.roll() % if nth / 1_000 % 2 == 0 { 2_000 } else { 40_000 };
            let outcome = judge(&state, &terms[dice.roll() as usize % 2], 1 + dice.roll() as u32 % 3, 1, now);
            state = kept(&outcome, state);
            let drained = f64::from(loosest.0) * (now - NOW) as f64 / 1e6;
            lowest = f64::min(lowest, total - drained);
            total += f64::from(outcome.answer.granted);
            worst = worst.max(total - drained - lowest);
        }
        // a part of a unit is rounded up at every change of numbers
        assert!(worst <= f64::from(loosest.1) + 1e-3, "{numbers:?}: {worst}");
    }
}

#[test]
fn under_a_smaller_burst_nobody_waits_longer_than_it_takes_to_come_back() {
    let before = rate(1_000, SECOND, 100_000).terms().unwrap();
    let state = kept(&judge(&None, &before, 100_000, 1, NOW), None);
    let small = rate(1, SECOND, 3).terms().unwrap();
    let refused = judge(&state, &small, 1, 1, NOW);
    assert_eq!(refused.answer.retry_nanos, Some(1_000_000_000));
    let again = judge(&kept(&refused, state.clone()), &small, 3, 1, NOW + 1_000_000);
    assert_eq!((again.answer.granted, again.answer.left), (1, 0));
    let state = kept(&again, state);
    assert_eq!(judge(&state, &small, 3, 1, NOW + 4_000_000).answer.granted, 3, "after a pause the whole burst");
    // what was spent is remembered for those that know of it: it was drained by the rate of the gate that asked last
    assert_eq!(judge(&state, &before, 100_000, 1, NOW + 1_000_000).answer.granted, 0);
}

#[test]
fn a_window_has_its_budget_once_whatever_the_clock_does() {
    let terms = Promise::Quota { max: 5, window: SECOND }.terms().unwrap();
    let (mut dice, mut now, mut state) = (Dice(3), NOW, None);
    let mut windows = std::collections::BTreeMap::new();
    for _ in 0..5_000 {
        let step = dice.roll() % 500_000;
        now = if dice.roll().is_multiple_of(4) { now - step } else { now + step };
        let outcome = judge(&state, &terms, 3, 1, now);
        state = kept(&outcome, state);
        let Some(State::Quota { index, .. }) = state else { panic!("a quota") };
        *windows.entry(index).or_insert(0) += outcome.answer.granted;
    }
    assert!(windows.values().all(|&units| units <= 5));
    assert!(windows.values().any(|&units| units == 5));
}

#[test]
fn a_quota_ends_with_its_window() {
    let terms = Promise::Quota { max: 5, window: SECOND }.terms().unwrap();
    let start = NOW / 1_000_000 * 1_000_000;
    let first = judge(&None, &terms, 5, 1, start + 400_000);
    assert_eq!(first.answer, Answer { granted: 5, left: 0, retry_nanos: Some(0), ends_nanos: 600_000_000 });
    assert_eq!(first.written.as_ref().unwrap().1, 600);
    let state = kept(&first, None);
    let refused = judge(&state, &terms, 5, 1, start + 999_999).answer;
    assert_eq!((refused.granted, refused.retry_nanos), (0, Some(1_000)));
    assert_eq!(judge(&state, &terms, 5, 1, start + 1_000_000).answer.granted, 5);
}

#[test]
fn a_changed_window_keeps_what_was_taken_in_the_one_that_has_not_ended() {
    let short = Promise::Quota { max: 5, window: SECOND }.terms().unwrap();
    let long = Promise::Quota { max: 8, window: Duration::from_secs(3_600) }.terms().unwrap();
    let state = kept(&judge(&None, &short, 5, 1, NOW), None);
    assert_eq!(judge(&state, &long, 8, 1, NOW).answer.granted, 3);
    assert_eq!(judge(&state, &long, 8, 1, NOW + 1_000_000).answer.granted, 8);
}

#[test]
fn units_that_one_tier_grants_are_noted_by_the_others_up_to_all_that_they_have() {
    let terms = [(0, rate(1, SECOND, 10)), (7, rate(1_000, SECOND, 40)), (9, rate(1, DAY, 3))]
        .map(|(id, promise)| (id, promise.terms().unwrap()));
    let left = |state: &Option<State>, asked| grant(state.as_ref(), &terms, asked, (50, 50), NOW).answer.left;
    let by_own = kept(&grant(None, &terms, 0, (2, 2), NOW), None);
    assert_eq!([0, 1, 2].map(|asked| left(&by_own, asked)), [8, 38, 1]);
    let by_fast = kept(&grant(by_own.as_ref(), &terms, 1, (30, 30), NOW), by_own);
    assert_eq!([0, 1, 2].map(|asked| left(&by_fast, asked)), [0, 8, 0]);
    // none owes beyond its burst by what others were granted: it comes back in the time that this takes
    let later =
        |asked, seconds: u64| grant(by_fast.as_ref(), &terms, asked, (1, 1), NOW + seconds * 1_000_000).answer.granted;
    assert_eq!([later(0, 0), later(0, 1), later(2, 86_399), later(2, 86_400)], [0, 1, 0, 1]);
}

#[test]
fn no_number_of_units_is_too_many_to_be_noted_by_others() {
    // so many units of a day each have more parts than a word can hold
    let slow = rate(1, DAY, 1);
    let fast = rate(1_000_000, SECOND, 4_000_000_000);
    let terms = [(0, slow), (7, fast)].map(|(id, promise)| (id, promise.terms().unwrap()));
    let spent = kept(&grant(None, &terms, 1, (4_000_000_000, 1), NOW), None);
    assert_eq!(grant(spent.as_ref(), &terms, 0, (1, 1), NOW).answer.granted, 0);
}

#[test]
fn a_tier_that_a_key_has_not_met_begins_with_what_the_limits_own_numbers_say_and_is_kept_by_those_without_it() {
    let [own, tier] = [rate(1, SECOND, 10), rate(1, DAY, 30)].map(|promise| promise.terms().unwrap());
    let spent = kept(&grant(None, &[(0, own)], 0, (10, 10), NOW), None);
    let both = [(0, own), (7, tier)];
    let met = grant(spent.as_ref(), &both, 1, (22, 22), NOW + 1_000_000);
    assert_eq!((met.answer.granted, met.answer.left), (0, 21), "one has come back meanwhile");
    let met = kept(&met, spent);
    let alone = kept(&grant(met.as_ref(), &[(0, own)], 0, (1, 1), NOW + 5_000_000), met);
    assert_eq!(grant(alone.as_ref(), &both, 1, (22, 22), NOW + 5_000_000).answer.left, 21);
}

#[test]
fn a_debt_under_the_same_numbers_is_kept_to_the_unit() {
    // 86,400,000,000 parts a unit: what a conversion between such numbers rounds shows
    let promise = rate(1, DAY, 10);
    let (terms, numbers) = ([(0, promise.terms().unwrap())], rate_terms(promise));
    let before = kept(&grant(None, &terms, 0, (5, 1), NOW), None);
    let later = 12_345_678_901;
    let after = kept(&grant(before.as_ref(), &terms, 0, (1, 1), NOW + later), None);
    let last = grant(after.as_ref(), &terms, 0, (1, 1), NOW + 2 * later);
    let Some(State::Rate(debts)) = kept(&last, None) else { panic!("a debt is kept") };
    let debt = 7 * numbers.cost - 2 * later * numbers.drain;
    assert_eq!([(debts[0].cost, debts[0].debt, debts[0].stamp)], [(numbers.cost, debt, NOW + 2 * later)]);
}

#[test]
fn a_sliding_quota_grants_its_number_per_window_and_across_a_boundary_a_part_more() {
    for (max, window) in [(10, SECOND), (7, Duration::from_millis(1)), (1_000, Duration::from_millis(3_600_001))] {
        let terms = Promise::Sliding { max, window }.terms().unwrap();
        let length = window.as_micros() as u64;
        let (mut dice, mut now, mut state) = (Dice(7), NOW, None);
        let mut granted: Vec<(u64, u64)> = Vec::new();
        for _ in 0..4_000 {
            now += dice.roll() % (length / 8);
            let least = 1 + u32::try_from(dice.below(u64::from(max) / 2)).unwrap();
            let outcome = judge(&state, &terms, least + 2, least, now);
            state = kept(&outcome, state);
            granted.push((now, u64::from(outcome.answer.granted)));
        }
        let within = |from: u64, to: u64| -> u64 {
            granted.iter().filter(|(time, _)| (from..to).contains(time)).map(|(_, units)| units).sum()
        };
        let most = u64::from(max);
        let mut busy = 0;
        for index in NOW / length..now / length {
            let (begins, ends) = (index * length, (index + 1) * length);
            let whole = within(begins, ends);
            assert!(whole <= most, "{whole} in a window");
            busy += u64::from(whole * 2 >= most);
            for eighth in 1..=8 {
                let after = length * eighth / 8;
                let across = within(begins, ends + after);
                assert!(u128::from(across) * u128::from(length) <= u128::from(most) * u128::from(length + after));
            }
        }
        assert!(busy > 100, "most windows are used: {busy}");
    }
}

#[test]
fn the_retry_time_of_a_sliding_quota_is_true_to_the_microsecond() {
    let mut dice = Dice(3);
    for (max, window) in [(10, SECOND), (1_000, DAY), (u32::MAX, Duration::from_millis(90_001)), (1, SECOND)] {
        let promise = Promise::Sliding { max, window };
        let terms = promise.terms().unwrap();
        let length = window.as_micros() as u64;
        let (mut now, mut state, mut refused) = (NOW, None, 0);
        for _ in 0..300 {
            now += dice.roll() % (length / 2);
            let least = 1 + u32::try_from(dice.below(u64::from(max))).unwrap();
            state = state.filter(|(_, ends)| *ends > now);
            let before = state.as_ref().map(|(state, _): &(State, u64)| state.clone());
            let outcome = judge(&before, &terms, least, least, now);
            if outcome.answer.granted == 0 {
                let wait = outcome.answer.retry_nanos.unwrap() / 1_000;
                let at = |after: u64| {
                    let known = state.as_ref().filter(|(_, ends)| now + after < *ends).map(|(state, _)| state);
                    grant(known, &[(0, terms)], 0, (least, least), now + after).answer.granted
                };
                assert_eq!((at(wait - 1), at(wait)), (0, least), "{max} per {window:?}");
                refused += 1;
            }
            if let Some((kept, millis)) = outcome.written {
                state = Some((kept, now + millis * 1_000));
            }
        }
        assert!(refused > 20, "{refused}");
        assert_eq!(judge(&None, &terms, u32::MAX, u32::MAX, now).answer.granted, if max == u32::MAX { max } else { 0 });
    }
}

#[test]
fn a_sliding_quota_of_another_length_counts_what_was_taken_and_a_clock_that_steps_back_begins_no_window_again() {
    let terms = |seconds: u64| Promise::Sliding { max: 10, window: SECOND * seconds as u32 }.terms().unwrap();
    let state = kept(&judge(&None, &terms(60), 8, 8, NOW), None);
    assert_eq!(judge(&state, &terms(3_600), 1, 1, NOW).answer.left, 1);
    assert_eq!(judge(&state, &terms(60), 1, 1, NOW - 3_600_000_000).answer.left, 1);
    assert_eq!(judge(&state, &terms(60), 10, 1, NOW - 3_600_000_000).answer.granted, 2);
}
