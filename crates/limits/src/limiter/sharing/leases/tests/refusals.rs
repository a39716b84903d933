//! Refusals that are forgotten because the key was granted some.

use super::*;

/// A refusal of this cost in this tier, as the store says it of a limit whose gates ask each time.
fn refuse(leases: &Leases, number: u64, tier: u8, of: Cost) -> Watch {
    let watch = leases.watch(key(number), tier);
    leases.remember(key(number).of_tier(tier), of, &slow(), 60_000 * MS, (at(0), at(0)));
    watch
}

fn is_remembered(leases: &Leases, number: u64, tier: u8, of: Cost) -> bool {
    matches!(leases.look(key(number).of_tier(tier), of, &slow(), at(1)), Look::Refused { .. })
}

#[test]
fn a_grant_forgets_the_refusals_of_its_key_in_all_tiers_and_of_no_other_key() {
    let leases: Leases = Leases::with_lines(64);
    for (number, tier) in [(1, 0), (1, 1), (1, 16), (2, 0), (2, 16)] {
        let watch = refuse(&leases, number, tier, cost(5));
        leases.unless_overtaken(&watch);
    }
    let mut watch = leases.watch(key(1), 3);
    leases.granted(&mut watch, 17);
    assert_eq!([0, 1, 16].map(|tier| is_remembered(&leases, 1, tier, cost(5))), [false; 3]);
    assert_eq!([0, 16].map(|tier| is_remembered(&leases, 2, tier, cost(5))), [true; 2]);
}

#[test]
fn a_grant_takes_nothing_from_what_is_held_or_asked() {
    let leases = holding(40, &steep(), at(0));
    let mut watch = leases.watch(key(1), 0);
    leases.granted(&mut watch, 1);
    assert_eq!(held(leases.look(key(1), Cost::ONE, &steep(), at(1))), Some((39, false)));
    let asking = ask(&leases, 1, cost(100), &steep(), at(1));
    leases.granted(&mut watch, 1);
    assert!(matches!(leases.begin(key(1), cost(100), &steep(), 1, at(1)), Begin::Busy { .. }), "its question goes on");
    leases.silent(asking);
}

#[test]
fn a_refusal_is_not_kept_if_a_grant_was_told_since_its_question_was_sent() {
    let leases: Leases = Leases::with_lines(64);
    let overtaken = leases.watch(key(1), 0);
    let mut other = leases.watch(key(1), 7);
    leases.granted(&mut other, 8);
    let _ = refuse(&leases, 1, 0, cost(2));
    assert!(is_remembered(&leases, 1, 0, cost(2)));
    leases.unless_overtaken(&overtaken);
    assert!(!is_remembered(&leases, 1, 0, cost(2)));
    // and one that was sent after it is
    let watch = refuse(&leases, 1, 0, cost(2));
    leases.unless_overtaken(&watch);
    assert!(is_remembered(&leases, 1, 0, cost(2)));
}

#[test]
fn what_the_first_of_two_names_grants_is_not_held_against_the_refusal_by_the_second() {
    let leases: Leases = Leases::with_lines(64);
    let mut watch = leases.watch(key(1), 0);
    leases.granted(&mut watch, 1);
    let _ = refuse(&leases, 1, 0, cost(2));
    leases.unless_overtaken(&watch);
    assert!(is_remembered(&leases, 1, 0, cost(2)));
}
