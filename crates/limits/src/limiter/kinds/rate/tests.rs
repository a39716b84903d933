//! The state of a rate: retry times, debts, tiers, and numbers that change.

use std::time::Duration;

use super::*;
use crate::limiter::{Judgement, Lost, Place, Probe};
use crate::sketch::KeyHasher;
use crate::units::Timestamp;

const MEMORY: Bytes = Bytes(1 << 16);

fn rate(kinds: &[Kind], indebts: bool, unit: u32) -> RateState {
    let spec = Spec { indebts, unit, ..Spec::new("tested", kinds) };
    RateState::new(&spec, &Seed::from_bytes([1; 16])).unwrap()
}

fn followed(before: &RateState, kinds: &[Kind], unit: u32, now: Timestamp) -> RateState {
    let tiers: Vec<_> = (0..kinds.len() as u8).map(Some).collect();
    let moved = Moved { routes: &[], origins: &[], tiers: &tiers, now };
    ByLevel::follow(before, &Spec { indebts: before.unit > 1 || unit > 1, unit, ..Spec::new("tested", kinds) }, &moved)
        .unwrap()
}

fn probe(limiter: &RateState, place: &Place, now: Timestamp, cost: Cost, held: u32) -> Judgement {
    limiter.probe(place, now, cost, held).judgement
}

fn admit(limiter: &RateState, place: &Place, now: Timestamp, cost: Cost) -> Result<Judgement, Lost> {
    limiter.commit(&Probe::unasked(place, cost), now).map(|(judgement, _)| judgement)
}

fn limiter() -> RateState {
    rate(&[kind(10, 1, 5), kind(10, 1, 50)], false, 1)
}

fn place(limiter: &RateState, name: &str) -> Place {
    let mut hasher = KeyHasher::new(limiter.tiered.seed());
    hasher.part(1, name.as_bytes());
    Place { key: hasher.finish(), ..Place::default() }
}

/// After `from` of `before` was spent at once, what is left after each of the chain, and the limiter at its end.
fn chained(before: &[Kind], spent: usize, chain: &[[Kind; 2]], now: Timestamp) -> (Vec<[u32; 2]>, RateState) {
    let mut limiter = rate(before, false, 1);
    let own = place(&limiter, "alice");
    (0..spent).for_each(|_| assert!(admit(&limiter, &own, now, Cost::ONE).is_ok()));
    let mut left = Vec::new();
    for kinds in chain {
        limiter = followed(&limiter, kinds, 1, now);
        State::take_over(&limiter);
        let gold = Place { tier: 1, ..own };
        left.push([own, gold].map(|place| 1 + probe(&limiter, &place, now, Cost::ONE, 0).remaining));
    }
    (left, limiter)
}

fn kind(events: u32, seconds: u64, burst: u32) -> Kind {
    Kind::Rate(Rate { rate: units::Rate::new(events, Duration::from_secs(seconds)).unwrap(), burst, memory: MEMORY })
}

#[test]
fn numbers_that_no_axis_can_follow_count_the_same_units_in_a_table_of_their_own() {
    let slow = kind(6, 3_600, 6);
    let now = Timestamp::from_nanos(1 << 50);
    let (fast, faster) = (kind(10, 1, 10), kind(1_000_000, 1, 30));
    let chain = [[fast.clone(), fast.clone()], [faster.clone(), slow.clone()], [slow.clone(), fast]];
    let (left, _) = chained(&[slow.clone(), slow.clone()], 3, &chain, now);
    assert_eq!(left, [[7, 7], [27, 3], [3, 7]]);
    // those who shared a table still do
    let (_, last) = chained(&[slow.clone(), slow.clone()], 3, &[[faster.clone(), faster]], now);
    assert!(last.tiered.at(0).shares_table_with(last.tiered.at(1)));
    assert!(last.tiered.at(0).timeline().time_scale().is_time());
    // an hour's levels fade in the time that the new numbers need for them
    assert!(last.tiered.fade_nanos() <= 30_000, "{}", last.tiered.fade_nanos());
    // it goes on where the axis can: no table is made
    let (_, last) = chained(&[kind(10, 1, 10), slow.clone()], 3, &[[slow, kind(5, 3_600, 6)]], now);
    assert!(!last.tiered.at(0).timeline().time_scale().is_time());
}

#[test]
fn a_debt_that_no_life_would_pay_is_cut_to_ten_years_and_locks_nobody_out_for_ever() {
    const DAY: u64 = 86_400 * 1_000_000_000;
    let (now, mebibyte) = (Timestamp::from_nanos(1 << 50), 1 << 20);
    let fast = [kind(1_000, 1, 100)];
    let before = rate(&fast, true, mebibyte);
    let alice = place(&before, "alice");
    (0..100).for_each(|_| assert!(admit(&before, &alice, now, Cost::ONE).is_ok()));
    // a byte a day instead of a thousand mebibytes a second
    let slow = followed(&before, &[kind(1, 86_400, 1)], 1, now);
    let wait = probe(&slow, &alice, now, Cost::ONE, 0).retry_nanos.unwrap();
    assert_eq!(wait.div_ceil(DAY), 3_650, "beyond one that it may have");
    let back = followed(&slow, &fast, mebibyte, now);
    assert!(probe(&back, &alice, now, Cost::ONE, 0).admitted);
}

#[test]
fn a_probe_changes_nothing() {
    let limiter = limiter();
    let alice = place(&limiter, "alice");
    for _ in 0..100 {
        assert!(probe(&limiter, &alice, Timestamp::ZERO, Cost::ONE, 0).admitted);
    }
    assert_eq!(probe(&limiter, &alice, Timestamp::ZERO, Cost::ONE, 0).remaining, 4);
    assert_eq!(probe(&limiter, &alice, Timestamp::ZERO, Cost::ONE, 4).remaining, 0);
    assert!(!probe(&limiter, &alice, Timestamp::ZERO, Cost::ONE, 5).admitted, "what is held back for others counts");
}

#[test]
fn the_retry_time_comes_true_for_a_silent_client() {
    let limiter = limiter();
    let alice = place(&limiter, "alice");
    let now = Timestamp::from_nanos(1 << 40);
    for left in (0..5).rev() {
        assert_eq!(admit(&limiter, &alice, now, Cost::ONE).unwrap().remaining, left);
    }
    let refused = admit(&limiter, &alice, now, Cost::ONE).unwrap_err();
    assert!(!refused.contended);
    let wait = refused.judgement.retry_nanos.unwrap();
    let almost = Timestamp::from_nanos(now.nanos() + wait - 1);
    assert!(!probe(&limiter, &alice, almost, Cost::ONE, 0).admitted);
    assert!(admit(&limiter, &alice, Timestamp::from_nanos(now.nanos() + wait), Cost::ONE).is_ok());
}

#[test]
fn remaining_counts_requests_of_the_same_cost() {
    let limiter = limiter();
    let alice = place(&limiter, "alice");
    let two = Cost::new(2).unwrap();
    assert_eq!(admit(&limiter, &alice, Timestamp::ZERO, two).unwrap().remaining, 1);
    assert_eq!(admit(&limiter, &alice, Timestamp::ZERO, two).unwrap().remaining, 0);
    let refused = admit(&limiter, &alice, Timestamp::ZERO, two).unwrap_err().judgement;
    assert_eq!((refused.admitted, refused.remaining), (false, 0));
    assert_eq!(probe(&limiter, &alice, Timestamp::ZERO, Cost::new(6).unwrap(), 0).retry_nanos, None);
}

#[test]
fn a_client_takes_along_what_it_spent_when_its_tier_changes() {
    let limiter = limiter();
    let alice = place(&limiter, "alice");
    let gold = Place { tier: 1, ..alice };
    for _ in 0..20 {
        admit(&limiter, &gold, Timestamp::ZERO, Cost::ONE).unwrap();
    }
    assert_eq!(probe(&limiter, &gold, Timestamp::ZERO, Cost::ONE, 0).remaining, 29);
    assert!(!probe(&limiter, &alice, Timestamp::ZERO, Cost::ONE, 0).admitted);
}
