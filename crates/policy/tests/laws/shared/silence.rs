//! Gates whose store does not answer.

use super::*;

fn in_silence(gate: &Engine, store_error: StoreError, nodes: u32, now: u64) -> Evaluation {
    let headers = head("203.0.113.7");
    let mut evaluation = gate.judge(&request(&headers), arrival(now));
    for slot in gate.to_settle(&evaluation) {
        gate.settle(&mut evaluation, slot, unanswered(store_error, nodes));
    }
    let _ = gate.admit(&mut evaluation, Timestamp::from_nanos(now));
    evaluation
}

#[test]
fn a_silent_store_leaves_each_gate_its_part() {
    let numbers = rate("per_client", 30, 60, Mode::Enforce);
    let gate = gate(vec![shared(numbers, Sharing::Lease, OnStoreError::Local)]);
    let admitted = (0..10_000_u64)
        .filter(|nth| {
            in_silence(&gate, StoreError::TimedOut, 3, nth * MILLISECOND).decision.verdict == Verdict::Admitted
        })
        .count();
    // a third of 60 + 30 · 10 s, the last of which comes with the next millisecond
    assert_eq!(admitted, 20 + 99, "of ten seconds");
    let refused = in_silence(&gate, StoreError::Breaker, 3, 10 * SECOND);
    assert_eq!(refused.decision.verdict, Verdict::Refused(Refusal::Limit));
    let reading = refused.decision.readings[0];
    assert_eq!((reading.by, reading.outcome), (DecidedBy::Fallback, Outcome::Refused));
    let again = 10 * SECOND + reading.retry_nanos.unwrap();
    assert_eq!(in_silence(&gate, StoreError::Breaker, 3, again).decision.verdict, Verdict::Admitted, "as it was told");
}

#[test]
fn silence_is_met_as_the_limit_says_and_a_fault_of_ours_opens_nothing() {
    for (direction, store_error, expected) in [
        (OnStoreError::Open, StoreError::Unreachable, Verdict::Admitted),
        (OnStoreError::Closed, StoreError::Unreachable, Verdict::Refused(Refusal::StoreSilent)),
        (OnStoreError::Local, StoreError::Unreachable, Verdict::Admitted),
        (OnStoreError::Open, StoreError::Faulty, Verdict::Refused(Refusal::StoreSilent)),
        (OnStoreError::Local, StoreError::Faulty, Verdict::Refused(Refusal::StoreSilent)),
    ] {
        let gate = gate(vec![shared(rate("per_client", 30, 60, Mode::Enforce), Sharing::Exact, direction)]);
        let evaluation = in_silence(&gate, store_error, 3, 0);
        assert_eq!(evaluation.decision.verdict, expected, "{direction:?} {store_error:?}");
        let told = if store_error == StoreError::Faulty { OnStoreError::Closed } else { direction };
        assert_eq!(gate.fallbacks(&evaluation).collect::<Vec<_>>(), [(StoreId(0), store_error, told)]);
    }
    let watched = gate(vec![shared(rate("per_client", 30, 60, Mode::Shadow), Sharing::Exact, OnStoreError::Closed)]);
    assert_eq!(in_silence(&watched, StoreError::TimedOut, 3, 0).decision.verdict, Verdict::Admitted, "in shadow");
}
