//! The leases: takers race for tokens, an answer adds some, and the entry changes hands under those who still look at it.

use std::sync::Arc;

use loom::thread;
use tidegate_limits::limiter::sharing::{Answer, Asking, Begin, Leases, Look, Promise};
use tidegate_limits::sketch::KeyHash;
use tidegate_limits::units::{Cost, Timestamp};

use crate::{at, explore, key};

type Table = Leases;

const PROMISE: Promise = Promise::Quota { max: 1000, window: std::time::Duration::from_secs(60) };
const SECOND: u64 = 1_000_000_000;

fn ask(leases: &Table, key: KeyHash, now: Timestamp) -> Asking {
    match leases.begin(key, Cost::ONE, &PROMISE, 1, now) {
        Begin::Ask(asking) => asking,
        other => panic!("{other:?}"),
    }
}

fn grant(granted: u32) -> Answer {
    Answer { granted, left: 500, retry_nanos: Some(0), ends_nanos: u64::MAX }
}

/// A key of the table's one line that tries the first entry first.
fn first_choice(number: usize) -> KeyHash {
    (0..).map(key).filter(|key| key.halves()[1] >> 63 == 0).nth(number).unwrap()
}

/// Whether one was taken.
fn took(leases: &Table, key: KeyHash, now: Timestamp) -> u32 {
    u32::from(matches!(leases.take(key, Cost::ONE, &PROMISE, now), Look::Holds { .. }))
}

/// A table in which the key of this number holds so many tokens.
fn holding(tokens: u32, number: usize) -> Table {
    let leases = Table::with_lines(1);
    let name = first_choice(number);
    let asking = ask(&leases, name, at(0));
    let _ = leases.answered(asking, &grant(1), at(0), at(0));
    for _ in 0..5 * (tokens + 1) {
        leases.note(name, Cost::ONE, at(0));
    }
    let asking = ask(&leases, name, at(0));
    let _ = leases.answered(asking, &grant(tokens + 1), at(0), at(0));
    assert_eq!(leases.outstanding(at(0)), u64::from(tokens));
    leases
}

#[test]
pub fn takers_and_a_refill_share_every_token_once() {
    explore(3, Some(20_000), || {
        let leases = Arc::new(holding(1, 0));
        let name = first_choice(0);
        for _ in 0..20 {
            leases.note(name, Cost::ONE, at(1));
        }
        let Begin::Ask(asking) = leases.begin(name, Cost::new(2).unwrap(), &PROMISE, 1, at(1)) else { panic!() };
        let takers = [0, 1].map(|_| {
            let leases = leases.clone();
            thread::spawn(move || took(&leases, name, at(1)))
        });
        // two for itself, one more to keep
        assert!(asking.wanted() >= 3, "{asking:?}");
        let settled = leases.answered(asking, &grant(3), at(1), at(2));
        assert!(matches!(settled, Look::Holds { .. }), "{settled:?}");
        let taken: u32 = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
        assert!(taken >= 1, "a token was there for one of them");
        assert_eq!(u64::from(taken) + leases.outstanding(at(2)), 2, "a token was lost or spent twice");
    });
}

#[test]
pub fn of_two_that_begin_one_gets_the_entry() {
    explore(3, Some(20_000), || {
        let leases = Arc::new(Table::with_lines(1));
        let name = first_choice(0);
        let begin = |leases: Arc<Table>| {
            thread::spawn(move || match leases.begin(name, Cost::ONE, &PROMISE, 1, at(0)) {
                Begin::Ask(asking) => Some(asking.is_kept()),
                _ => None,
            })
        };
        let racing = [begin(leases.clone()), begin(leases.clone())];
        let asked = racing.map(|thread| thread.join().unwrap());
        // one that meets the other in the midst of its claim again and again asks for itself, and keeps nothing
        assert_eq!(asked.iter().flatten().filter(|kept| **kept).count(), 1, "{asked:?}");
    });
}

#[test]
pub fn an_entry_that_changes_hands_mixes_no_tokens() {
    explore(3, Some(20_000), || {
        // the old key's lease ended after a second; one taker has an old stamp and still finds it alive
        let leases = Arc::new(holding(1, 0));
        let (old, new) = (first_choice(0), first_choice(1));
        // the other entry is in use, so that the new key needs this one
        let _lost = ask(&leases, key(99), at(SECOND));
        let taker = {
            let leases = leases.clone();
            thread::spawn(move || took(&leases, old, at(SECOND - 50_000_000)))
        };
        let stranger = {
            let leases = leases.clone();
            thread::spawn(move || took(&leases, new, at(SECOND - 50_000_000)))
        };
        let asking = ask(&leases, new, at(SECOND));
        assert!(asking.is_kept() || asking.wanted() == 1);
        let kept = asking.is_kept();
        let answered = leases.answered(asking, &grant(1), at(SECOND), at(SECOND));
        assert!(matches!(answered, Look::Holds { left: 0, .. }));
        let (taken, stolen) = (taker.join().unwrap(), stranger.join().unwrap());
        assert!(taken <= 1);
        assert_eq!(stolen, 0, "another key's token was spent: kept {kept}");
    });
}

#[test]
pub fn a_late_answer_gives_nothing_to_the_next_key() {
    explore(3, Some(20_000), || {
        let leases = Arc::new(Table::with_lines(1));
        let (old, new) = (first_choice(0), first_choice(1));
        for _ in 0..50 {
            leases.note(old, Cost::ONE, at(0));
        }
        let first = ask(&leases, old, at(0));
        let _ = leases.answered(first, &grant(1), at(0), at(0));
        for _ in 0..50 {
            leases.note(old, Cost::ONE, at(0));
        }
        let late = ask(&leases, old, at(0));
        let _lost = ask(&leases, key(99), at(SECOND));
        let answer = {
            let leases = leases.clone();
            // it was sent long after it had begun, so that its lease still lives when the question is void
            thread::spawn(move || {
                let _ = leases.answered(late, &grant(3), at(SECOND), at(SECOND));
            })
        };
        let void = at(SECOND + 10_000_000);
        if let Begin::Ask(asking) = leases.begin(new, Cost::ONE, &PROMISE, 1, void) {
            let _ = leases.answered(asking, &grant(1), void, void);
        }
        answer.join().unwrap();
        assert_eq!(took(&leases, new, void), 0, "another key's token was spent");
    });
}

#[test]
pub fn a_refusal_that_races_with_a_grant_of_its_key_is_not_remembered() {
    explore(3, Some(20_000), || {
        let leases = Arc::new(Table::with_lines(1));
        let name = first_choice(0);
        let asking = ask(&leases, name, at(0));
        leases.silent(asking);
        let watch = leases.watch(name, 0);
        let granting = {
            let leases = leases.clone();
            thread::spawn(move || {
                let mut watch = leases.watch(name, 0);
                leases.granted(&mut watch, 1);
            })
        };
        leases.remember(name, Cost::ONE, &PROMISE, SECOND, (at(0), at(0)));
        leases.unless_overtaken(&watch);
        granting.join().unwrap();
        assert_eq!(leases.look(name, Cost::ONE, &PROMISE, at(1)), Look::Unknown);
    });
}
