use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::limiter::{Kind, Limiter, Place, Probe, RefusedCount, Scope, Spec, kinds};
use crate::sketch::{KeyHasher, Seed};
use crate::units::{Bytes, Cost, Timestamp};

const SEED: Seed = Seed::from_bytes([7; 16]);
const MEMORY: Bytes = Bytes(1 << 16);
const START: u64 = 400 * 86_400 * 1_000_000_000;
const SECOND: Duration = Duration::from_secs(1);

fn limiter(kind: &Kind) -> Arc<Limiter> {
    Arc::new(Limiter::new(&Spec::new("tried", std::slice::from_ref(kind)), &SEED).unwrap())
}

fn hash(limiter: &Limiter, text: &str) -> crate::sketch::KeyHash {
    let mut hasher = KeyHasher::new(&SEED);
    hasher.part(1, text.as_bytes());
    limiter.own_hash().of(hasher.finish())
}

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(START + nanos)
}

/// One request: how long after the last, what it costs, and which value it brings.
type Step = (u64, u32, u8);

/// Sends the steps one after the other. Gives those that were charged, at their times, and the first that was refused, with what
/// it owes.
fn first_refusal(kind: &Kind, steps: &[Step]) -> Option<(Vec<Step>, Step, Owed)> {
    let limiter = limiter(kind);
    let (mut now, mut charged, mut holds) = (0, Vec::new(), Vec::new());
    for &(after, cost, value) in steps {
        now += after;
        let step = (now, cost, value);
        let (place, units) = asked(&limiter, step);
        let probe = limiter.probe(&place, at(now), units);
        let judgement = probe.judgement;
        if !judgement.admitted {
            return Some((charged, step, limiter.owed(kind, place.tier, judgement.standing, units)));
        }
        holds.extend(limiter.commit(&probe, at(now)).unwrap().1);
        charged.push(step);
    }
    None
}

fn asked(limiter: &Limiter, (_, cost, value): Step) -> (Place, Cost) {
    let place = Place { key: hash(limiter, "key"), value: hash(limiter, &value.to_string()), ..Place::default() };
    (place, Cost::new(cost).unwrap())
}

/// Whether a limit with other numbers admits the last request after the same charges.
fn admits(kind: &Kind, charged: &[Step], last: Step) -> bool {
    let limiter = limiter(kind);
    let mut holds = Vec::new();
    for step in charged {
        let (place, cost) = asked(&limiter, *step);
        // by force where the smaller number would not have admitted it: it is the same charges that count
        match limiter.commit(&Probe::unasked(&place, cost), at(step.0)) {
            Ok((_, hold)) => holds.extend(hold),
            Err(_) => limiter.charge(&place, at(step.0), cost),
        }
    }
    let (place, cost) = asked(&limiter, last);
    limiter.probe(&place, at(last.0), cost).judgement.admitted
}

fn with_units(kind: &Kind, units: u32) -> Kind {
    let mut kind = kind.clone();
    match &mut kind {
        Kind::Rate(kinds::Rate { burst, .. }) => *burst = units,
        Kind::Quota(kinds::Quota { max, .. })
        | Kind::Distinct(kinds::Distinct { max, .. })
        | Kind::Inflight(kinds::Inflight { max, .. }) => *max = units,
        _ => {}
    }
    kind
}

fn with_rate(kind: &Kind, wanted: Rate) -> Kind {
    let mut kind = kind.clone();
    match &mut kind {
        Kind::Rate(kinds::Rate { rate, .. }) | Kind::RecentAverage(kinds::RecentAverage { rate, .. }) => *rate = wanted,
        _ => {}
    }
    kind
}

fn one_less(rate: Rate) -> Rate {
    Rate::new(rate.events() - 1, rate.period()).unwrap()
}

/// The number is enough, and one less is not.
fn is_smallest(kind: &Kind, steps: &[Step]) -> Result<(), TestCaseError> {
    let Some((charged, last, owed)) = first_refusal(kind, steps) else { return Ok(()) };
    let needs = kind.needs(Owed::from_word(owed.word()));
    let units = needs.units.unwrap();
    prop_assert!(admits(&with_units(kind, units), &charged, last), "{units} is not enough");
    prop_assert!(!admits(&with_units(kind, units - 1), &charged, last), "{units} is too many");
    Ok(())
}

fn steps(cost: u32) -> impl Strategy<Value = Vec<Step>> {
    // bursts, and pauses of up to some seconds
    let after = prop_oneof![Just(0_u64), 0..50_000_000_u64, 0..4_000_000_000_u64];
    prop::collection::vec((after, 1..=cost, 0..200_u8), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_smallest_burst_admits_and_one_less_refuses(
        rate in 1..50_u32, period in prop_oneof![Just(1_u64), Just(60), Just(7)], burst in 3..20_u32, steps in steps(3),
    ) {
        let rate = Rate::new(rate, Duration::from_secs(period)).unwrap();
        is_smallest(&Kind::Rate(kinds::Rate { rate, burst, memory: MEMORY }), &steps)?;
    }

    #[test]
    fn the_smallest_rate_admits_whatever_the_charges_were(
        rate in 1..50_u32, period in prop_oneof![Just(1_u64), Just(60), Just(7)], burst in 3..20_u32, steps in steps(3),
    ) {
        let rate = Rate::new(rate, Duration::from_secs(period)).unwrap();
        let kind = Kind::Rate(kinds::Rate { rate, burst, memory: MEMORY });
        if let Some((charged, last, owed)) = first_refusal(&kind, &steps)
            && let Some(wanted) = kind.needs(owed).rate
        {
            prop_assert!(wanted.events() > rate.events());
            prop_assert!(admits(&with_rate(&kind, wanted), &charged, last), "{wanted} is not enough");
        }
    }

    #[test]
    fn the_smallest_rate_is_exact_for_a_bucket_that_was_spent_at_one_instant(
        rate in 1..50_u32, period in prop_oneof![Just(1_u64), Just(60), Just(7)], burst in 1..20_u32, after in 1..1_000_u64,
    ) {
        let rate = Rate::new(rate, Duration::from_secs(period)).unwrap();
        let kind = Kind::Rate(kinds::Rate { rate, burst, memory: MEMORY });
        // some part of the time in which one unit comes back
        let after = rate.interval_nanos() * after / 1_000;
        let mut steps: Vec<Step> = vec![(0, 1, 0); burst as usize];
        steps.push((after, 1, 0));
        if let Some((charged, last, owed)) = first_refusal(&kind, &steps) {
            let Some(wanted) = kind.needs(owed).rate else {
                // faster than any rate
                prop_assert!(after < 200);
                return Ok(());
            };
            prop_assert!(admits(&with_rate(&kind, wanted), &charged, last), "{wanted} is not enough");
            prop_assert!(!admits(&with_rate(&kind, one_less(wanted)), &charged, last), "{wanted} is too much");
        }
    }

    #[test]
    fn the_smallest_max_of_a_quota_admits_and_one_less_refuses(
        max in 3..20_u32, window in 1..20_u64, sliding: bool, steps in steps(3),
    ) {
        is_smallest(&Kind::Quota(kinds::Quota { max, window: Duration::from_secs(window).into(), sliding, memory: MEMORY }), &steps)?;
    }

    #[test]
    fn the_smallest_rate_of_a_recent_average_admits_and_one_less_refuses(
        rate in 2..50_u32, half_life in 1..20_u64, steps in steps(3),
    ) {
        let (rate, half_life) = (Rate::new(rate, SECOND).unwrap(), Duration::from_secs(half_life));
        let kind = Kind::RecentAverage(kinds::RecentAverage { rate, half_life, refused: RefusedCount::Admitted, memory: MEMORY });
        if let Some((charged, last, owed)) = first_refusal(&kind, &steps) {
            let wanted = kind.needs(owed).rate.unwrap();
            prop_assert!(admits(&with_rate(&kind, wanted), &charged, last), "{wanted} is not enough");
            prop_assert!(!admits(&with_rate(&kind, one_less(wanted)), &charged, last), "{wanted} is too much");
        }
    }

    #[test]
    fn the_smallest_number_of_values_admits_and_one_less_refuses(
        max in 1..20_u32, window in 1..20_u64, steps in steps(1),
    ) {
        let window = Duration::from_secs(window);
        is_smallest(&Kind::Distinct(kinds::Distinct { max, window, sliding: false, refused: RefusedCount::Admitted, memory: MEMORY }), &steps)?;
        let kind = Kind::Distinct(kinds::Distinct { max, window, sliding: true, refused: RefusedCount::Admitted, memory: MEMORY });
        if let Some((charged, last, owed)) = first_refusal(&kind, &steps) {
            let units = kind.needs(owed).units.unwrap();
            prop_assert!(admits(&with_units(&kind, units), &charged, last), "{units} is not enough");
        }
    }

    #[test]
    fn the_smallest_number_at_once_admits_and_one_less_refuses(max in 3..20_u32, steps in steps(3)) {
        let kind = Kind::Inflight(kinds::Inflight { max, upgraded: max, scope: Scope::Key { memory: MEMORY } });
        is_smallest(&kind, &steps)?;
        let steps: Vec<Step> = steps.into_iter().map(|(after, _, value)| (after, 1, value)).collect();
        is_smallest(&Kind::Inflight(kinds::Inflight { max, upgraded: max, scope: Scope::Global }), &steps)?;
    }
}

#[test]
fn a_burst_at_one_instant_no_rate_could_have_let_through() {
    let kind =
        Kind::Rate(kinds::Rate { rate: Rate::new(5, Duration::from_secs(60)).unwrap(), burst: 5, memory: MEMORY });
    let (_, _, owed) = first_refusal(&kind, &[(0, 1, 0); 6]).unwrap();
    assert_eq!(kind.needs(owed), Needs { units: Some(6), ..Needs::default() });
}

#[test]
fn a_sum_of_requests_that_fade_needs_the_whole_number_above_it() {
    let rate = Rate::new(5, SECOND).unwrap();
    let kind = Kind::RecentAverage(kinds::RecentAverage {
        rate,
        half_life: SECOND,
        refused: RefusedCount::Admitted,
        memory: MEMORY,
    });
    let units = [4.995, 5.0, 5.005, 5.015, 5.5].map(|sum| kind.needs(Owed::sum(sum)).units);
    // a hundredth may be what the level was rounded up by
    assert_eq!(units, [5, 5, 5, 6, 6].map(Some));
}

#[test]
fn a_straggler_is_refused_whatever_the_limit_is() {
    for sliding in [false, true] {
        let kind = Kind::Quota(kinds::Quota { max: 3, window: SECOND.into(), sliding, memory: MEMORY });
        let limiter = limiter(&kind);
        let (place, cost) = asked(&limiter, (0, 1, 0));
        limiter.commit(&Probe::unasked(&place, cost), at(5_000_000_000)).unwrap();
        let judgement = limiter.probe(&place, at(0), cost).judgement;
        assert!(!judgement.admitted);
        assert_eq!(kind.needs(limiter.owed(&kind, place.tier, judgement.standing, cost)), Needs::default());
    }
}

proptest! {
    #[test]
    fn the_smallest_that_fits_is_found_wherever_it_lies(
        from in 0_u32..1_000,
        above in prop_oneof![1_u32..100, 1_u32..1_000_000_000],
        end in any::<u32>(),
    ) {
        let wanted = from + above;
        // the kind takes no number from `end` on
        let fits = |number: u32| (number < end).then_some(number >= wanted);
        prop_assert_eq!(smallest(from, fits), (wanted < end).then_some(wanted));
    }
}
