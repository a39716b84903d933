//! Claims about what is packed and read again.

use proptest::prelude::*;

use super::*;
use crate::client::label::META_BITS;
use crate::door::{HEAVIEST, Label};
use crate::engine::{Heavy, NoPlaceReason, Scarce};

fn said() -> impl Strategy<Value = Said> {
    let numbers = (any::<u16>(), 0..=16_u8, any::<bool>(), 0..5_usize, 0..DecidedBy::ALL.len());
    let more = (prop::option::of(0..=10_u8), any::<bool>(), any::<u32>(), any::<Option<u64>>(), any::<u64>());
    (numbers, more).prop_map(|((rule, tier, shadow, outcome, by), (node, exact, remaining, wait_nanos, owed))| {
        let outcome = Outcome::ALL[outcome];
        let owed = if is_short(outcome) { Owed::from_word(owed) } else { Owed::default() };
        let mode = if shadow { Mode::Shadow } else { Mode::Enforce };
        // a limit with nodes is shared with no other gate
        let by = if node.is_some() { DecidedBy::Gate } else { DecidedBy::ALL[by] };
        Said { rule, tier, mode, outcome, node, by, exact, remaining, wait_nanos, owed }
    })
}

fn found() -> impl Strategy<Value = Found> {
    (any::<bool>(), 0..4_usize, 0..=32_u8, any::<bool>(), any::<bool>()).prop_map(
        |(forwarded, mark, hops, peer_trusted, ignored_header)| Found {
            source: if forwarded { Source::Forwarded } else { Source::Peer },
            mark: MARKS[mark],
            hops,
            peer_trusted,
            ignored_header,
        },
    )
}

fn record() -> impl Strategy<Value = Record> {
    let places = (prop::option::of(0..NONE), prop::option::of(0..u8::MAX), prop::option::of(0..NONE), any::<u16>());
    let who = (any::<u64>(), any::<[u8; 16]>(), prop::option::of(found()), prop::option::of(0..METHODS.len()));
    let store_error = prop::option::of(0..StoreError::ALL.len());
    let refusal = prop::option::of(0..Refusal::ALL.len());
    let end = (refusal, 0..=MAX_RETRY_AFTER, any::<u16>(), store_error, 0..Criticality::ALL.len());
    let limits = prop::collection::vec(said(), 0..=Route::MAX_RULES);
    (places, who, end, limits, prop::option::of(no_place())).prop_map(
        |(
            (route, alternative, runner_up, book),
            (at, client, found, method),
            (refusal, retry_after, delay_millis, store_error, criticality),
            limits,
            no_place,
        )| {
            limited(Record {
                at: Timestamp::from_nanos(at),
                client,
                found,
                method: method.map(|at| METHODS[at].clone()),
                route,
                alternative,
                runner_up,
                book,
                criticality: Criticality::ALL[criticality],
                verdict: refusal.map_or(Verdict::Admitted, |at| Verdict::Refused(Refusal::ALL[at])),
                retry_after,
                delay_millis,
                store_error: store_error.map(|at| StoreError::ALL[at]),
                limits: limits.into_iter().collect(),
                no_place,
                ban: None,
            })
        },
    )
}

/// No limit is asked of a banned client.
fn limited(record: Record) -> Record {
    match record.verdict {
        Verdict::Refused(Refusal::Banned) => {
            let ban = u32::try_from(record.at.nanos() >> 33).ok().filter(|number| *number > 0);
            Record { limits: ArrayVec::new(), no_place: None, ban, ..record }
        }
        _ => record,
    }
}

fn heavy() -> impl Strategy<Value = Heavy> {
    let words = (any::<[u64; 2]>(), 0..1_u64 << META_BITS).prop_map(|([high, low], meta)| Label([high, low, meta]));
    (words, 0..3_u8, 0..4_usize, any::<[u16; 2]>()).prop_map(|(label, level, class, [held, waiting])| {
        let criticality = Criticality::ALL[class];
        Heavy { label, level, criticality, held, waiting }
    })
}

fn no_place() -> impl Strategy<Value = NoPlace> {
    let numbers = (any::<[u32; 12]>(), any::<[u8; 2]>(), any::<u32>(), prop::collection::vec(heavy(), 0..=HEAVIEST));
    (numbers, 0..NoPlaceReason::ALL.len(), any::<bool>()).prop_map(|((numbers, bytes, ahead, some), reason, rate)| {
        let [held, places, waiting, own_held, own_waiting, own_used, share, score, next, half_life, round, reserved] =
            numbers;
        let ([level, tier], mut heavy) = (bytes, some.into_iter());
        let heaviest = std::array::from_fn(|_| heavy.next());
        let reason = NoPlaceReason::ALL[reason];
        let of = match rate {
            true => Scarce::Units { capacity: held, tokens: places, kept: own_held, reserved },
            false => Scarce::Places { held, places, own_held, reserved },
        };
        NoPlace {
            reason,
            of,
            waiting,
            ahead,
            level,
            own_waiting,
            own_used,
            share,
            score,
            next,
            half_life,
            round,
            tier,
            heaviest,
        }
    })
}

proptest! {
    #[test]
    fn what_is_packed_is_unpacked(record in record()) {
        prop_assert_eq!(Record::unpack(&record.pack()), Some(record));
    }

    #[test]
    fn anything_at_all_is_read_without_a_panic(words in prop::collection::vec(any::<u64>(), 0..40)) {
        let _ = Record::unpack(&words);
    }
}

#[test]
fn two_limits_one_of_which_refused_are_ten_words() {
    let said = |outcome| Said {
        rule: 1,
        tier: 0,
        mode: Mode::Enforce,
        outcome,
        node: None,
        by: DecidedBy::Gate,
        exact: true,
        remaining: 0,
        wait_nanos: Some(1),
        owed: Owed::default(),
    };
    let limits = [said(Outcome::Refused), said(Outcome::Admitted)].into_iter().collect();
    let record = Record {
        at: Timestamp::ZERO,
        client: [0; 16],
        found: None,
        method: None,
        route: Some(1),
        alternative: None,
        runner_up: None,
        book: 0,
        criticality: Criticality::Default,
        verdict: Verdict::Refused(Refusal::Limit),
        retry_after: 1,
        delay_millis: 0,
        store_error: None,
        limits,
        no_place: None,
        ban: None,
    };
    assert_eq!(record.pack().len(), 10);
}
