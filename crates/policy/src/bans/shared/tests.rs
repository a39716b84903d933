use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::super::saved::Saved;
use super::super::{Bans, KeySecret, MOST_AUTOMATIC, Merged, Order};
use super::*;
use crate::client::Mark;
use crate::client::ban_terms::BanTerms;
use crate::sketch::KeyHash;
use crate::units::{Prefix, Timestamp};

/// The wall clock's time at stamp zero.
const ORIGIN: u64 = 1_000_000_000_000;

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_nanos(seconds * 1_000_000_000)
}

fn wall(seconds: u64) -> u64 {
    ORIGIN + seconds * 1_000_000_000
}

fn target(last: u32) -> Target {
    Target::Network(Prefix::new(Ipv4Addr::from(0xcb00_7100 + last).into(), 32).unwrap())
}

fn order(target: Target, given: u64, until: u64) -> Order {
    let (by, why) = ("alice".to_owned(), "because".to_owned());
    Order { target, given: wall(given), until: at(until), by, why, automatic: false, in_row: None, elsewhere: false }
}

fn gate() -> Bans {
    Bans::new(KeySecret([7; 16]))
}

/// What the gate knows: who is banned until when.
fn known(bans: &Bans, now: u64) -> Vec<(Target, u64)> {
    let mut known: Vec<_> = bans.list(at(now)).iter().map(|ban| (ban.target.clone(), ban.ends)).collect();
    known.sort_by_key(|(target, _)| format!("{target:?}"));
    known
}

/// One exchange of a gate with a store that keeps this text.
fn exchange(bans: &Bans, store: &mut Vec<u8>, now: u64) {
    let received = decode(store).unwrap_or_default();
    let merged = bans.merge(received, |_| false, at(now), wall(now));
    if merged.differs {
        *store = encode(&merged.records);
    }
}

#[test]
fn an_order_reaches_the_other_gate_and_its_end_too() {
    let (here, there, mut store) = (gate(), gate(), Vec::new());
    let before = there.revision();
    let mut both = |now| [&here, &there].into_iter().for_each(|bans| exchange(bans, &mut store, now));
    here.give(order(target(7), 1, 100), at(1)).unwrap();
    let key = Target::Key { limit: "by_key".into(), secret: KeySecret([9; 16]), hash: KeyHash::from_halves([1, 2]) };
    here.give(order(key.clone(), 1, 100), at(1)).unwrap();
    both(2);
    assert_eq!(known(&there, 2), known(&here, 2));
    assert!(there.revision() > before, "it has something new for other stores");
    let ban = there.list(at(2)).into_iter().find(|ban| ban.target == target(7)).unwrap();
    assert!(ban.elsewhere && ban.by == "alice" && ban.why == "because" && ban.given == wall(1));
    assert_eq!((ban.until, there.given().elsewhere, there.given().ordered), (at(100), 2, 0));
    let news = there.news();
    assert_eq!((news.given.len(), news.lifted.len(), there.news().given.len()), (2, 0, 0));
    there.lift(|ban| ban.target == target(7), at(3), wall(3));
    both(4);
    both(4);
    assert_eq!(here.list(at(4)).iter().map(|ban| ban.target.clone()).collect::<Vec<_>>(), [key]);
    assert_eq!(here.news().lifted.len(), 1);
    // and again, although the clock of the other gate is far behind
    here.give(order(target(7), 0, 50), at(5)).unwrap();
    both(6);
    assert_eq!(there.list(at(6)).len(), 2);
}

#[test]
fn a_gate_that_was_away_does_not_bring_back_what_was_lifted() {
    let (here, there, mut store) = (gate(), gate(), Vec::new());
    here.give(order(target(7), 1, 100), at(1)).unwrap();
    exchange(&here, &mut store, 2);
    exchange(&there, &mut store, 2);
    there.lift(|_| true, at(3), wall(3));
    exchange(&there, &mut store, 3);
    // the store is emptied while the one that has the ban was away
    store.clear();
    exchange(&here, &mut store, 5);
    exchange(&there, &mut store, 5);
    exchange(&here, &mut store, 6);
    assert_eq!((known(&here, 6).len(), known(&there, 6).len()), (0, 0));
}

#[test]
fn a_gate_that_was_away_does_not_bring_back_what_was_made_shorter_nor_lifts_what_is_newer() {
    let (here, there, mut store) = (gate(), gate(), Vec::new());
    here.give(order(target(7), 1, 1_000), at(1)).unwrap();
    exchange(&here, &mut store, 1);
    exchange(&there, &mut store, 1);
    // the other gate is away; the long ban is made a short one, which ends
    here.give(order(target(7), 2, 10), at(2)).unwrap();
    exchange(&here, &mut store, 3);
    exchange(&here, &mut store, 20);
    exchange(&there, &mut store, 20);
    exchange(&here, &mut store, 20);
    assert_eq!((known(&here, 20).len(), known(&there, 20).len()), (0, 0));
    // lifted there, banned for long and for a moment here while that one is away, and again
    here.give(order(target(7), 21, 2_000), at(21)).unwrap();
    exchange(&here, &mut store, 21);
    exchange(&there, &mut store, 21);
    there.lift(|_| true, at(22), wall(22));
    exchange(&there, &mut store, 22);
    exchange(&here, &mut store, 22);
    here.give(order(target(7), 23, 30), at(23)).unwrap();
    here.give(order(target(7), 40, 500), at(40)).unwrap();
    exchange(&here, &mut store, 41);
    exchange(&there, &mut store, 41);
    exchange(&here, &mut store, 41);
    assert_eq!(known(&here, 41), [(target(7), wall(500))]);
    assert_eq!(known(&there, 41), known(&here, 41));
}

#[test]
fn an_emptied_store_is_filled_again_and_one_that_lies_says_nothing() {
    let (here, there, mut store) = (gate(), gate(), Vec::new());
    here.give(order(target(7), 1, 100), at(1)).unwrap();
    exchange(&here, &mut store, 2);
    let full = store.clone();
    for text in [&b""[..], b"nonsense", b"[]", b"{}"] {
        store = text.to_vec();
        exchange(&here, &mut store, 3);
        assert_eq!(store, full);
    }
    exchange(&there, &mut store, 200);
    assert_eq!(known(&there, 200).len(), 0, "it has ended");
}

#[test]
fn penalties_ban_no_spared_network_and_no_operators_ban_ends_by_one() {
    let penalty = |last: u32, ends| Record {
        target: target(last),
        rank: Rank { turn: 1, ordered: false, given: wall(9), ends: wall(ends), lifted: false },
        known_until: wall(ends),
        by: "limit abusers (automatic)".into(),
        why: String::new(),
        in_row: None,
    };
    let bans = gate();
    bans.give(order(target(1), 5, 1_000), at(5)).unwrap();
    let spared = |network: Prefix| target(2) == Target::Network(network);
    bans.merge(vec![penalty(1, 20), penalty(2, 20), penalty(3, 20)], spared, at(10), wall(10));
    assert_eq!(known(&bans, 10), [(target(1), wall(1_000)), (target(3), wall(20))]);
    assert!(bans.list(at(10)).iter().any(|ban| ban.automatic && ban.elsewhere));
}

#[test]
fn clients_of_unix_sockets_are_nobodys_at_other_gates() {
    let unix = Target::Client { network: ClientNetwork::Unix, mark: Mark::Verified };
    let bans = gate();
    bans.give(order(unix, 1, 100), at(1)).unwrap();
    assert_eq!(bans.merge(Vec::new(), |_| false, at(1), wall(1)).records, []);
}

#[test]
fn bans_in_a_row_are_counted_by_all_gates_together() {
    let seconds = Duration::from_secs;
    let (limit, first, longest, forgive) = ("abusers".to_owned(), seconds(10), seconds(1_000), seconds(100));
    let terms = Arc::new(BanTerms { limit, after: 2, first, longest, forgive, pause: seconds(5) });
    let Target::Network(network) = target(7) else { unreachable!() };
    // how long the gate bans the client for two strikes
    let banned = |bans: &Bans, now: u64| {
        (0..2).for_each(|_| bans.strike(network, &terms, at(now)));
        let given = bans.settle(|_| false, at(now), wall(now));
        given.iter().map(|ban| (ban.ends - wall(now)) / 1_000_000_000).sum::<u64>()
    };
    let (here, mut there, mut store) = (gate(), gate(), Vec::new());
    let mut both = |there: &Bans, now| [&here, there, &here].iter().for_each(|bans| exchange(bans, &mut store, now));
    assert_eq!(banned(&here, 1), 10);
    both(&there, 2);
    assert_eq!(banned(&there, 20), 20, "the second one");
    both(&there, 21);
    assert_eq!(banned(&here, 50), 40);
    both(&there, 51);
    // before they hear of each other both give the fourth
    assert_eq!((banned(&here, 150), banned(&there, 150)), (80, 80));
    both(&there, 151);
    assert_eq!(banned(&here, 240), 160);
    both(&there, 241);
    // until 400; forgiven at 500, whatever a gate remembers
    assert_eq!(banned(&there, 600), 10);
    both(&there, 601);
    assert_eq!(banned(&here, 620), 20);
    both(&there, 621);
    // a ban that comes from the store, by way of a file, to one that hears of nothing else
    let saved = Saved::of(&there, at(622), ORIGIN);
    there = gate();
    saved.restore(&there, at(622), ORIGIN).unwrap();
    let (third, mut emptied) = (gate(), Vec::new());
    [&there, &third].into_iter().for_each(|bans| exchange(bans, &mut emptied, 623));
    assert_eq!(banned(&third, 650), 40);
    // who is let in again at one gate begins anew at all
    assert_eq!(banned(&here, 660), 40);
    both(&there, 661);
    there.lift(|_| true, at(662), wall(662));
    both(&there, 663);
    assert_eq!((banned(&here, 710), banned(&there, 710)), (10, 10));
}

#[test]
fn lists_are_bounded_and_operators_come_first() {
    let record = |last: u32, ordered: bool, lifted: bool| Record {
        target: target(last),
        rank: Rank { turn: 1, ordered, given: 0, ends: wall(100 + u64::from(last)), lifted },
        known_until: wall(100 + u64::from(last)),
        by: "\"".repeat(LONGEST_TEXT),
        why: "\"".repeat(LONGEST_TEXT),
        in_row: Some(InRow { limit: "\"".repeat(64), nth: u32::MAX, forgive: Duration::MAX }),
    };
    let most = MOST_BANS as u32;
    let received = (0..2 * most).map(|last| record(last, last % 2 == 0, false));
    let lifted = (2 * most..4 * most).map(|last| record(last, true, true));
    let received: Vec<Record> = received.chain(lifted).collect();
    let bans = gate();
    let Merged { records: all, differs, .. } = bans.merge(received.clone(), |_| false, at(1), wall(1));
    assert!(!differs && all.len() == MOST_BANS + MOST_REMEMBERED);
    assert!(all.iter().all(|record| record.rank.ordered), "those of operators");
    assert_eq!(bans.list(at(1)).len(), MOST_BANS);
    assert!(bans.list(at(1)).iter().filter(|ban| ban.automatic).count() <= MOST_AUTOMATIC);
    assert!(bans.news().left_out > 0);
    assert_eq!(decode(&encode(&all)).unwrap().len(), all.len());
    let text = encode(&all);
    let more = bans.merge(decode(&text).unwrap(), |_| false, at(1), wall(1)).differs;
    println!("{} records are {} KiB", all.len(), text.len() >> 10);
    assert!(!more && text.len() <= LONGEST);
    // a gate that has others still says the same as one that has none
    let other = gate();
    other.give(order(target(5 * most), 1, 99), at(1)).unwrap();
    assert_eq!(other.merge(received, |_| false, at(1), wall(1)).records, all);
}

proptest! {
    /// Whatever gates do and whenever each hears of it, once all have heard of all they know the same, and a further exchange changes
    /// nothing.
    #[test]
    fn gates_come_to_know_the_same(
        steps in proptest::collection::vec((0..3_usize, 0..4_u32, 0..5_u8, 2..60_u64), 1..40),
    ) {
        let (gates, mut store) = ([gate(), gate(), gate()], Vec::new());
        for (second, (at_gate, last, what, length)) in (1..).zip(steps) {
            let Some(bans) = gates.get(at_gate) else { continue };
            match what {
                0 | 1 => drop(bans.give(order(target(last), second, second + length), at(second))),
                2 => drop(bans.lift(|ban| ban.target == target(last), at(second), wall(second))),
                3 => exchange(bans, &mut store, second),
                _ => store.clear(),
            }
        }
        // all but what was ordered last has ended or not: at one time
        let now = 41;
        for _ in 0..2 {
            gates.iter().for_each(|bans| exchange(bans, &mut store, now));
        }
        let text = store.clone();
        for bans in &gates {
            prop_assert_eq!(known(bans, now), known(&gates[0], now));
            exchange(bans, &mut store, now);
        }
        prop_assert_eq!(store, text);
    }
}
