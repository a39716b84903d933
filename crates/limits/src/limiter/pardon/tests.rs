use std::sync::Arc;

use proptest::prelude::*;

use super::super::admission::stricter;
use super::super::{Hold, Judgement, Kind, MOST_PARDONS, Place, Probe, RefusedCount, Scope, Spec, kinds};
use super::*;
use crate::units::{Bytes, Cost, Rate};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 400 * 86_400 * SECOND;

fn limiter(kind: &Kind, deferred: bool) -> Arc<Limiter> {
    let spec = Spec { deferred, indebts: deferred, ..Spec::new("tested", std::slice::from_ref(kind)) };
    Arc::new(Limiter::new(&spec, &Seed::from_bytes([7; 16])).unwrap())
}

fn hash(kind: u8, number: u64) -> KeyHash {
    let mut hasher = KeyHasher::new(&Seed::from_bytes([9; 16]));
    hasher.part(kind, &number.to_le_bytes());
    hasher.finish()
}

fn place(limiter: &Limiter, key: u64, value: u64) -> Place {
    let (key, value) = (hash(0, key), hash(1, value));
    Place { key: limiter.own_hash().of(key), value: limiter.own_hash().of_pair(key, value), ..Place::default() }
}

/// Asks as the engine does, and says whether the request was admitted.
fn ask(limiter: &Arc<Limiter>, place: &Place, now: u64) -> bool {
    let now = Timestamp::from_nanos(now);
    let probe = limiter.probe(place, now, Cost::ONE);
    if !probe.judgement.admitted {
        limiter.count_refusal(place, now, Cost::ONE);
        return false;
    }
    let committed = limiter.commit(&probe, now);
    let admitted = committed.is_ok();
    if let Ok((_, Some(Hold::Attempt(mut attempt)))) = committed {
        attempt.sent();
    }
    admitted
}

/// Every kind that has a debt to forget, each with a budget of five for about ten seconds.
fn kinds() -> Vec<Kind> {
    let (memory, ten) = (Bytes(1 << 16), Duration::from_secs(10));
    let rate = Rate::new(5, ten).unwrap();
    let max_penalty = Duration::from_secs(60);
    vec![
        Kind::Rate(kinds::Rate { rate, burst: 5, memory }),
        Kind::Quota(kinds::Quota { max: 5, window: ten.into(), sliding: false, memory }),
        Kind::Quota(kinds::Quota { max: 5, window: ten.into(), sliding: true, memory }),
        Kind::RecentAverage(kinds::RecentAverage { rate, half_life: ten, refused: RefusedCount::Admitted, memory }),
        Kind::RecentAverage(kinds::RecentAverage {
            rate,
            half_life: ten,
            refused: RefusedCount::All { max_penalty },
            memory,
        }),
        Kind::Distinct(kinds::Distinct {
            max: 5,
            window: ten,
            sliding: false,
            refused: RefusedCount::Admitted,
            memory,
        }),
        Kind::Distinct(kinds::Distinct { max: 5, window: ten, sliding: true, refused: RefusedCount::Admitted, memory }),
        Kind::Distinct(kinds::Distinct {
            max: 5,
            window: ten,
            sliding: true,
            refused: RefusedCount::All { max_penalty },
            memory,
        }),
    ]
}

#[test]
fn a_refused_key_is_admitted_from_its_pardon_on() {
    for kind in kinds() {
        for deferred in [false, true] {
            let limiter = limiter(&kind, deferred && !matches!(kind, Kind::Quota(kinds::Quota { sliding: true, .. })));
            let admitted =
                |from: u64| (from..from + 40).filter(|n| ask(&limiter, &place(&limiter, 1, *n), START)).count();
            let fresh = admitted(0);
            assert!(fresh >= 5 && admitted(100) == 0, "{kind:?}: {fresh}");
            limiter.pardon(place(&limiter, 1, 0).key, Timestamp::from_nanos(START), Duration::ZERO).unwrap();
            assert_eq!(admitted(200), fresh, "{kind:?}");
            assert_eq!(admitted(300), 0, "{kind:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Two limiters see the same requests of two keys; one pardons a key on the way, the other has never seen it before that.
    #[test]
    fn a_pardoned_key_is_as_one_never_seen_and_others_are_as_they_were(
        kind in 0..7_usize,
        steps in prop::collection::vec((0..3_u64, 0..6_u64, 0..4_000_u64), 20..200),
        pardon_at in 0..20_usize,
        long in prop::collection::vec(0..1_000_u64, 4),
    ) {
        let kind = kinds().swap_remove(kind);
        let averages = matches!(kind, Kind::RecentAverage(..));
        let (pardoning, plain, reference) = (limiter(&kind, false), limiter(&kind, false), limiter(&kind, false));
        let mut now = START;
        for (number, (key, value, millis)) in steps.iter().enumerate() {
            // now and then so long that one part of the pardon ends
            now += millis * 1_000_000 + if number % 50 == 49 { long[number / 50 % 4] * 100_000_000 } else { 0 };
            let key = u64::from(*key > 0);
            let at = place(&pardoning, key, *value);
            if number == pardon_at {
                pardoning.pardon(place(&pardoning, 1, 0).key, Timestamp::from_nanos(now), Duration::ZERO).unwrap();
            }
            let admitted = ask(&pardoning, &at, now);
            if key == 0 {
                prop_assert_eq!(admitted, ask(&plain, &at, now), "an innocent, {:?}", kind);
            } else if number >= pardon_at {
                let expected = ask(&reference, &at, now);
                // a level never fades to nothing by halves: what is left of it may cost a request a moment
                prop_assert!(admitted == expected || averages && !admitted, "the pardoned, {:?} at {}", kind, number);
            }
        }
    }

    /// The promise itself, whatever is pardoned and revoked meanwhile: in every interval at most burst and rate, counted
    /// from the last pardon on.
    #[test]
    fn revoking_gives_no_budget(
        steps in prop::collection::vec((0..12_u8, 0..6_000_u64), 1..300),
    ) {
        let kind = kinds().swap_remove(0);
        let limiter = limiter(&kind, false);
        let place = place(&limiter, 1, 0);
        let (mut now, mut admitted) = (START, Vec::new());
        for (step, millis) in steps {
            now += millis * 1_000_000;
            match step {
                0 => {
                    limiter.pardon(place.key, Timestamp::from_nanos(now), Duration::ZERO).unwrap();
                    admitted.clear();
                }
                1 => {
                    limiter.revoke_pardon(place.key, Timestamp::from_nanos(now));
                }
                2 => limiter.maintain(Timestamp::from_nanos(now)),
                _ if ask(&limiter, &place, now) => admitted.push(now),
                _ => {}
            }
            for (first, began) in admitted.iter().enumerate() {
                let most = 5 + (now - began) / (2 * SECOND);
                prop_assert!((admitted.len() - first) as u64 <= most, "{:?} until {}", &admitted[first..], now);
            }
        }
    }
}

#[test]
fn an_exemption_ends_by_itself_and_with_its_revocation() {
    let limiter = limiter(&kinds()[0], false);
    let key = place(&limiter, 1, 0).key;
    let exempt = |now| limiter.is_exempt(key, Timestamp::from_nanos(now));
    limiter.pardon(key, Timestamp::from_nanos(START), Duration::from_secs(60)).unwrap();
    assert!(exempt(START) && exempt(START + 60 * SECOND - 1) && !exempt(START + 60 * SECOND));
    assert!(!limiter.is_exempt(place(&limiter, 2, 0).key, Timestamp::from_nanos(START)));
    assert!(limiter.revoke_pardon(key, Timestamp::from_nanos(START + SECOND)));
    assert!(!exempt(START + SECOND));
    assert!(!limiter.revoke_pardon(place(&limiter, 2, 0).key, Timestamp::from_nanos(START)));
}

#[test]
fn a_revoked_pardon_has_the_old_debt_count_again() {
    let limiter = limiter(&kinds()[0], false);
    let place = place(&limiter, 1, 0);
    while ask(&limiter, &place, START) {}
    limiter.pardon(place.key, Timestamp::from_nanos(START), Duration::ZERO).unwrap();
    assert!(ask(&limiter, &place, START));
    limiter.revoke_pardon(place.key, Timestamp::from_nanos(START));
    assert!(!ask(&limiter, &place, START));
    assert!(ask(&limiter, &place, START + 2 * SECOND), "it fades as it would have");
}

#[test]
fn what_counts_what_is_there_has_nothing_to_forget() {
    let kind = Kind::Inflight(kinds::Inflight { max: 1, upgraded: 0, scope: Scope::Key { memory: Bytes(1 << 16) } });
    let limiter = limiter(&kind, false);
    let place = place(&limiter, 1, 0);
    let now = Timestamp::from_nanos(START);
    let _held = limiter.commit(&Probe::unasked(&place, Cost::ONE), now).unwrap();
    limiter.pardon(place.key, now, Duration::ZERO).unwrap();
    assert!(!limiter.probe(&place, now, Cost::ONE).judgement.admitted);
    limiter.pardon(place.key, now, Duration::from_secs(1)).unwrap();
    assert!(limiter.is_exempt(place.key, now));
}

#[test]
fn the_list_is_bounded_and_what_is_over_makes_room() {
    let limiter = limiter(&kinds()[0], false);
    let key = |n| place(&limiter, n, 0).key;
    let now = Timestamp::from_nanos(START);
    for n in 0..MOST_PARDONS as u64 {
        limiter.pardon(key(n), now, Duration::ZERO).unwrap();
    }
    assert_eq!(limiter.pardon(key(5_000), now, Duration::ZERO), Err(Full));
    assert!(limiter.pardon(key(7), now, Duration::ZERO).is_ok(), "one that is in it already needs no room");
    let later = now.after(Duration::from_secs(3_600));
    assert!(limiter.pardon(key(5_000), later, Duration::ZERO).is_ok());
    limiter.maintain(later.after(Duration::from_secs(3_600)));
    assert!(limiter.pardons.find(key(5_000)).is_none() && !limiter.pardons.are_any());
}

#[test]
fn of_two_judgements_of_one_kind_the_one_that_leaves_less_is_told() {
    for admitted in [true, false] {
        let [few, many] = [1, 7].map(|remaining| Judgement { admitted, remaining, ..Judgement::REFUSED });
        assert_eq!(stricter(few, many).remaining, 1);
        assert_eq!(stricter(many, few).remaining, 1);
    }
}
