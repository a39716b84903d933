//! What a refused client is told of a shared limit comes true although the key was granted some since the store said no: at another
//! cost, or in another tier. And a flood of refused requests still asks the store next to nothing.

use super::beside::Lone;
use super::tiers::{in_tier, per, tiered};
use super::*;
use tidegate_limits::limiter::Kind;

const BOTH: [Sharing; 2] = [Sharing::Exact, Sharing::Lease];

fn lone(kinds: &[Kind], sharing: Sharing) -> Lone {
    Lone::new(vec![shared(tiered(kinds), sharing, OnStoreError::Closed)])
}

/// One request; how long it has to wait, if it was refused.
fn wait(lone: &mut Lone, (tier, method): (usize, &Method), now: u64) -> Option<u64> {
    let before = lone.admitted;
    lone.arrive_as(&in_tier(tier), method, now);
    (lone.admitted == before).then(|| lone.wait.expect("a wait helps"))
}

#[test]
fn a_refusal_is_told_anew_after_a_grant_at_another_cost() {
    for sharing in BOTH {
        let mut lone = lone(&[per(1, 1, 5)], sharing);
        let (get, put) = ((0, &Method::GET), (0, &Method::PUT));
        assert_eq!([get, get].map(|what| wait(&mut lone, what, SECOND)), [None; 2]);
        let told = wait(&mut lone, put, SECOND).unwrap();
        assert!((2 * SECOND..2 * SECOND + 20 * MILLISECOND).contains(&told), "{sharing:?}: {told}");
        assert_eq!([get, get, get].map(|what| wait(&mut lone, what, SECOND)), [None; 3]);
        let told = wait(&mut lone, put, SECOND).unwrap();
        assert!((5 * SECOND..5 * SECOND + 20 * MILLISECOND).contains(&told), "{sharing:?}: {told}");
        assert_eq!(wait(&mut lone, put, SECOND + told), None, "{sharing:?}: silent until then");
    }
}

#[test]
fn a_refusal_is_told_anew_after_a_grant_in_another_tier() {
    for sharing in BOTH {
        // four seconds a unit
        let mut lone = lone(&[per(1, 100, 100), per(60, 15, 2)], sharing);
        let (own, slow) = ((0, &Method::GET), (1, &Method::GET));
        assert_eq!([slow, slow].map(|what| wait(&mut lone, what, SECOND)), [None; 2]);
        let told = wait(&mut lone, slow, SECOND).unwrap();
        assert!((4 * SECOND..4 * SECOND + 20 * MILLISECOND).contains(&told), "{sharing:?}: {told}");
        // half a unit has come back, and is spent by the others
        let now = 3 * SECOND;
        assert_eq!([own, own, own].map(|what| wait(&mut lone, what, now)), [None; 3]);
        let told = wait(&mut lone, slow, now).unwrap();
        assert!((4 * SECOND..4 * SECOND + 20 * MILLISECOND).contains(&told), "{sharing:?}: {told}");
        assert_eq!(wait(&mut lone, slow, now + told), None, "{sharing:?}: silent until then");
    }
}

/// A request that waits for what the store says, and the question.
fn asking(gate: &Engine, (tier, method): (usize, &Method), now: u64) -> (Evaluation, Option<SharedCall>) {
    let headers = in_tier(tier);
    let request = Request { method, ..request(&headers) };
    let evaluation = gate.judge(&request, arrival(now));
    let slot = gate.to_settle(&evaluation).first().copied();
    let step = slot.map(|slot| gate.step(&evaluation, slot, &request, None, (1, Timestamp::from_nanos(now))));
    match step {
        Some(SharedStep::Ask(call)) => (evaluation, Some(call)),
        _ => (evaluation, None),
    }
}

#[test]
fn a_refusal_that_is_heard_of_after_a_later_grant_is_not_remembered() {
    for sharing in BOTH {
        let kinds = [per(1, 100, 100), per(60, 15, 2)];
        let gate = gate(vec![shared(tiered(&kinds), sharing, OnStoreError::Closed)]);
        let (own, slow) = ((0, &Method::GET), (1, &Method::GET));
        let mut store = Store::default();
        let stamp = Timestamp::from_nanos(SECOND);
        for _ in 0..2 {
            let call = asking(&gate, slow, SECOND).1.unwrap();
            let answer = store.ask(&call.question, SECOND);
            let _ = outcome(call, answer, stamp);
        }
        let late = asking(&gate, slow, SECOND).1.unwrap();
        let refusal = store.ask(&late.question, SECOND);
        assert_eq!(refusal.granted, 0);
        let call = asking(&gate, own, SECOND).1.unwrap();
        let grant = store.ask(&call.question, SECOND);
        assert!(grant.granted > 0);
        let _ = outcome(call, grant, stamp);
        let _ = outcome(late, refusal, stamp);
        let (evaluation, next) = asking(&gate, slow, SECOND);
        assert!(next.is_some(), "{sharing:?}: {:?}", evaluation.decision);
        // one that no grant overtakes is remembered
        let next = next.unwrap();
        let refusal = store.ask(&next.question, SECOND);
        let _ = outcome(next, refusal, stamp);
        assert!(asking(&gate, slow, SECOND).1.is_none(), "{sharing:?}");
    }
}

#[test]
fn a_flood_of_refused_requests_asks_no_more_than_a_few_times_for_each_grant_beside_it() {
    for sharing in BOTH {
        // by the limit's own numbers one passes every tenth of a second; PUT never does, and in the slow tier next to nothing
        let kinds = [per(1, 10, 5), per(3_600, 1, 1)];
        let rule = shared(tiered(&kinds), sharing, OnStoreError::Closed);
        let mut world = World::new(1, &rule, MILLISECOND);
        for nth in 0..20_000_u64 {
            let now = SECOND + nth * MILLISECOND;
            world.run_to(now);
            let (tier, method) = match nth % 100 {
                0 => (0, &Method::GET),
                odd if odd % 2 == 1 => (0, &Method::PUT),
                _ => (1, &Method::GET),
            };
            world.arrive_as(&in_tier(tier), method, 0, now);
        }
        world.run_to(30 * SECOND);
        println!("{sharing:?}: {} admitted, {} questions", world.admitted.len(), world.store.questions);
        assert!(world.admitted.len() >= 190, "{sharing:?}: {}", world.admitted.len());
        assert!(world.store.questions <= 8 * world.admitted.len(), "{sharing:?}: {}", world.store.questions);
    }
}

fn numbers() -> impl Strategy<Value = (u64, u32, u32)> {
    (prop_oneof![Just(1_u64), Just(60), Just(3_600)], 1_u32..60, 5_u32..30)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever a key has asked for before, in whatever tier and at whatever cost: once it is silent for as long as it was told, what was
    /// refused passes.
    #[test]
    fn who_is_silent_for_as_long_as_it_was_told_passes(
        all in proptest::collection::vec(numbers(), 1..4),
        exact in any::<bool>(),
        arrivals in proptest::collection::vec(
            (0_usize..3, 0_usize..3, prop_oneof![4 => 0_u64..5, 2 => 0_u64..1_500, 1 => 0_u64..100_000], 0_u8..4), 50..300),
    ) {
        let kinds: Vec<Kind> = all.iter().map(|(seconds, events, burst)| per(*seconds, *events, *burst)).collect();
        let sharing = if exact { Sharing::Exact } else { Sharing::Lease };
        let mut lone = lone(&kinds, sharing);
        let mut now = SECOND;
        for (tier, method, pause, silent) in arrivals {
            let method = [Method::GET, Method::POST, Method::PUT][method].clone();
            let what = (tier % kinds.len(), &method);
            now += pause * MILLISECOND;
            // by leases a dear request may have to come back once more: docs/limits/leases.md
            let holds = silent == 0 && (exact || method == Method::GET);
            if let Some(told) = wait(&mut lone, what, now).filter(|_| holds) {
                now += told;
                prop_assert_eq!(wait(&mut lone, what, now), None, "{:?} {:?}: told {}", sharing, what, told);
            }
        }
    }
}
