//! The rows of the attack table that take seconds.

use crate::attacks::{Attack, PLACES, Row};

fn holds(max: u32) {
    let missed = |row: Row| {
        let outcome = row.fair();
        println!("{row:?}: {outcome:?}");
        let held_to = if row.is_known() { "what it reaches" } else { "the bars" };
        row.misses(&outcome).into_iter().map(move |miss| format!("{row:?}, held to {held_to}: {miss}"))
    };
    // streams, and two hundred hosts, take minutes: the bench has them
    let rows = Row::all(max).filter(|row| row.hosts < 200 && row.attack != Attack::Streams);
    let missed: Vec<String> = rows.flat_map(missed).collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn every_row_with_few_places_holds() {
    holds(PLACES[0]);
}

#[test]
fn every_row_with_some_places_holds() {
    holds(PLACES[1]);
}

/// What the bars are worth: a queue in the order of arrival misses them.
#[test]
fn a_plain_queue_misses_them() {
    for attack in [Attack::Connections, Attack::Slow] {
        let row = Row { attack, hosts: 8, max: 8 };
        let outcome = row.by_arrival();
        assert!(outcome.light < 0.2, "{outcome:?}");
        assert!(!row.misses(&outcome).is_empty());
    }
}
