//! What one limit promises: its bound over all intervals, a retry time that comes true, and harmless clocks.

use proptest::prelude::*;
use tidegate_limits::units::Timestamp;
use tidegate_policy::client::key::Missing;
use tidegate_policy::engine::{Outcome, Refusal, Verdict};
use tidegate_policy::policy::Mode;

use crate::book::{ask, book, by_header, head, inflight, rate};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_000_000 * SECOND;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Arrival curve: in every interval between two admitted requests at most burst + rate·τ, whatever the steps of the
    /// clock, backward ones among them.
    #[test]
    fn the_bound_holds_over_all_intervals(
        events in 1_u32..50,
        burst in 1_u32..20,
        steps in prop::collection::vec(-300_i64..700, 1..120),
    ) {
        let engine = book(vec![rate("r", events, burst, Mode::Enforce)]);
        let client = head("203.0.113.9");
        let mut now = START as i64;
        let mut admitted = Vec::new();
        for step in steps {
            now += step * 1_000_000;
            if ask(&engine, &client, now as u64).0.verdict == Verdict::Admitted {
                admitted.push(now as u64);
            }
        }
        admitted.sort_unstable();
        for (first, from) in admitted.iter().enumerate() {
            for (last, to) in admitted.iter().enumerate().skip(first) {
                let allowed = u128::from(burst) * u128::from(SECOND) + u128::from(to - from) * u128::from(events);
                let count = (last - first + 1) as u128 * u128::from(SECOND);
                prop_assert!(count <= allowed, "{} admitted in {} ns", last - first + 1, to - from);
            }
        }
    }

    /// A lone client that waits as long as it was told is admitted, and a nanosecond earlier it is not.
    #[test]
    fn the_retry_time_comes_true(events in 1_u32..1_000, burst in 1_u32..50, extra in 1_usize..20) {
        let engine = book(vec![rate("r", events, burst, Mode::Enforce)]);
        let client = head("2001:db8::7");
        let mut now = START;
        for _ in 0..burst as usize + extra {
            let (decision, _) = ask(&engine, &client, now);
            if decision.verdict == Verdict::Admitted {
                continue;
            }
            let wait = decision.readings[0].retry_nanos.unwrap();
            prop_assert!(wait > 0);
            prop_assert_eq!(ask(&engine, &client, now + wait - 1).0.verdict, Verdict::Refused(Refusal::Limit));
            now += wait;
            prop_assert_eq!(ask(&engine, &client, now).0.verdict, Verdict::Admitted);
        }
    }
}

#[test]
fn a_refusal_charges_nobody() {
    let engine = book(vec![rate("r", 1, 2, Mode::Enforce)]);
    let client = head("203.0.113.9");
    let verdicts: Vec<_> = (0..50).map(|_| ask(&engine, &client, START).0.verdict).collect();
    assert_eq!(verdicts.iter().filter(|verdict| **verdict == Verdict::Admitted).count(), 2);
    // forty-eight refusals have not moved the way back by a nanosecond
    assert_eq!(ask(&engine, &client, START + SECOND).0.verdict, Verdict::Admitted);
}

#[test]
fn a_permit_always_returns() {
    let engine = book(vec![inflight("i", 2, Mode::Enforce)]);
    let client = head("203.0.113.9");
    for _ in 0..100 {
        let (first, one) = ask(&engine, &client, START);
        let (second, two) = ask(&engine, &client, START);
        let (third, none) = ask(&engine, &client, START);
        assert_eq!((first.verdict, second.verdict), (Verdict::Admitted, Verdict::Admitted));
        assert_eq!(third.verdict, Verdict::Refused(Refusal::Inflight));
        assert_eq!((one.len(), two.len(), none.len()), (1, 1, 0));
        assert_eq!(engine.limiters()[0].gauges(Timestamp::ZERO).inflight, Some(2));
        drop((one, two, none));
        assert_eq!(engine.limiters()[0].gauges(Timestamp::ZERO).inflight, Some(0));
    }
}

#[test]
fn a_clock_that_steps_back_opens_nothing() {
    let engine = book(vec![rate("r", 1, 3, Mode::Enforce)]);
    let client = head("203.0.113.9");
    let admitted = [START, START - 90 * SECOND, START - 3 * SECOND, START - 50 * SECOND, 0, START]
        .into_iter()
        .filter(|now| ask(&engine, &client, *now).0.verdict == Verdict::Admitted)
        .count();
    assert!(admitted <= 3, "{admitted} admitted of a burst of three");
}

#[test]
fn one_network_is_one_client_and_marks_keep_apart() {
    let engine = book(vec![rate("r", 1, 1, Mode::Enforce)]);
    assert_eq!(ask(&engine, &head("2001:db8::1"), START).0.verdict, Verdict::Admitted);
    assert_eq!(ask(&engine, &head("2001:db8::beef"), START).0.verdict, Verdict::Refused(Refusal::Limit));
    assert_eq!(ask(&engine, &head("2001:db8:0:1::1"), START).0.verdict, Verdict::Admitted);
    // an unreadable chain is not the proxy's own bucket
    assert_eq!(ask(&engine, &head("6.6.6.6, unknown"), START).0.verdict, Verdict::Admitted);
    assert_eq!(ask(&engine, &http::HeaderMap::new(), START).0.verdict, Verdict::Admitted);
}

#[test]
fn a_missing_key_does_what_the_limit_says() {
    let engine = book(vec![by_header(rate("r", 1, 1, Mode::Enforce), Missing::Allow)]);
    let (decision, _) = ask(&engine, &head("203.0.113.9"), START);
    assert_eq!((decision.verdict, decision.readings[0].outcome), (Verdict::Admitted, Outcome::Exempt));
    let engine = book(vec![by_header(rate("r", 1, 1, Mode::Enforce), Missing::Deny)]);
    let (decision, _) = ask(&engine, &head("203.0.113.9"), START);
    assert_eq!(decision.verdict, Verdict::Refused(Refusal::KeyMissing));
    let engine = book(vec![by_header(rate("r", 1, 1, Mode::Shadow), Missing::Deny)]);
    let (decision, _) = ask(&engine, &head("203.0.113.9"), START);
    assert_eq!((decision.verdict, decision.readings[0].outcome), (Verdict::Admitted, Outcome::Refused));
}
