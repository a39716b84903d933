//! `distinct` beside an exact reference: never more new values than promised, and repeats free to the end. What Exim's
//! `per_addr` shows of itself stands in `tests/sources`.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use proptest::prelude::*;
use tidegate_limits::limiter::kinds::distinct::state::Distinct;
use tidegate_limits::limiter::{State, kinds};
use tidegate_limits::sketch::KeyHash;
use tidegate_limits::units::{Bytes, Cost, Timestamp};

use crate::at;
use crate::values::{HOUR, SECOND, ask, limit, limit_in, passes, place, probe, second};

/// Counts the value unless it is seen, as at its answer.
fn confirm(limit: &Distinct, asked: (KeyHash, KeyHash), now: Timestamp) {
    limit.charge(&place(asked), now, Cost::ONE);
}

#[test]
fn a_limit_out_of_range_is_no_limit_at_all() {
    let new = limit_in;
    for sliding in [false, true] {
        assert!(new(0, HOUR, sliding, Bytes(1 << 20)).is_err());
        assert!(new(1, Duration::from_millis(999), sliding, Bytes(1 << 20)).is_err());
        assert!(new(1, HOUR, sliding, Bytes(3 << 20)).is_err() && new(1, HOUR, sliding, Bytes(8 << 10)).is_err());
        assert!(new(1, HOUR, sliding, Bytes(16 << 10)).is_ok());
    }
    assert!(new(20, 31 * 24 * HOUR, false, Bytes(1 << 20)).is_ok());
    assert!(new(20, 31 * 24 * HOUR, true, Bytes(1 << 20)).is_err());
    let ten: u64 = (0..10).map(|_| new(20, HOUR, true, kinds::Distinct::FORM.memory).unwrap().memory().0).sum();
    assert!(ten < 41 << 20, "ten limits take {ten} bytes");
}

#[test]
fn repeats_pass_when_the_quota_is_spent() {
    for sliding in [false, true] {
        let ours = limit(5, HOUR, sliding);
        let now = second(3_600);
        assert_eq!((0..50).filter(|n| passes(&ours, 1, *n, now)).count(), 5);
        for value in (0..5).cycle().take(1_000) {
            assert!(passes(&ours, 1, value, now));
        }
        let (client, pair) = ask(1, 3);
        let told = probe(&ours, (client, pair), now);
        assert_eq!((told.remaining, told.quota, told.retry_nanos, told.standing), (0, 5, Some(0), 0));
        assert!(told.reset_nanos().is_some_and(|reset| reset > 0));
        assert!(!passes(&ours, 1, 5, now) && passes(&ours, 2, 5, now), "another client has a quota of its own");
        assert!(!passes(&ours, 1, 6, now), "what is free for one client is not for another");
    }
}

#[test]
fn credential_stuffing_stops_at_twenty_names_and_one_name_is_never_stopped() {
    for sliding in [false, true] {
        let ours = limit(20, HOUR, sliding);
        let stuffing =
            (0..1_000).filter(|name| passes(&ours, 1, *name, at(8 * 3_600 * SECOND + name * 1_000_000))).count();
        assert_eq!(stuffing, 20);
        assert!((0..1_000).all(|n| passes(&ours, 2, 77, at(8 * 3_600 * SECOND + n * 1_000_000))));
    }
}

/// A value that is charged by its answer: seven attempts with new names are pending when their answers come.
#[test]
fn a_confirmed_value_is_charged_once_and_even_above_the_quota() {
    for sliding in [false, true] {
        let ours = limit(5, HOUR, sliding);
        let now = second(7_200);
        for value in 0..7 {
            let (client, pair) = ask(1, value);
            confirm(&ours, (client, pair), now);
            let told = probe(&ours, (client, pair), now);
            assert_eq!(told.remaining, 5_u32.saturating_sub(value as u32 + 1));
            assert!(ours.is_repeat(pair, now));
            confirm(&ours, (client, pair), now);
            assert_eq!(probe(&ours, (client, pair), now).remaining, told.remaining, "charged twice");
        }
        let (client, pair) = ask(1, 99);
        let refused = probe(&ours, (client, pair), now);
        assert!(!refused.admitted);
        let wait = refused.retry_nanos.unwrap();
        // sliding: two above the quota and the one that asks flow back at 12 minutes each
        assert_eq!(wait, if sliding { 3 * 720 * SECOND } else { 3_600 * SECOND });
        assert!(!probe(&ours, (client, pair), at(now.nanos() + wait - 1)).admitted);
        assert!(probe(&ours, (client, pair), at(now.nanos() + wait)).admitted);
    }
}

#[test]
fn a_full_set_counts_again_and_never_lets_a_new_value_pass_free() {
    let ours = limit_in(10, HOUR, false, Bytes(16 << 10)).unwrap();
    // 8 KiB hold 2,048 pairs; 300 clients bring 3,000, nearly all of which the few counters tell apart
    for value in 0..10 {
        for client in 0..300 {
            let _ = passes(&ours, client, value, second(1));
        }
    }
    assert!(ours.load() > 0.98 && ours.displaced() > 500, "{} {}", ours.load(), ours.displaced());
    let free = (0..300).filter(|client| (10..1_000).any(|value| passes(&ours, *client, value, second(1)))).count();
    assert_eq!(free, 0, "clients at their limit were let through with another new value");
    ours.sweep(second(3_600));
    assert_eq!(ours.load(), 0.0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// Never more than `max` different values per client and aligned period, whatever repeats, collides, is displaced or
    /// swept, and however the clock steps: an older stamp belongs to the newest period.
    #[test]
    fn at_most_so_many_different_values_pass_per_period(
        max in 1_u32..6,
        steps in prop::collection::vec((0..3_u64, 0..14_u64, -4_i64..6, any::<bool>()), 1..400),
    ) {
        let ours = limit_in(max, Duration::from_secs(8), false, Bytes(16 << 10)).unwrap();
        let mut passed: HashMap<(u64, u64), HashSet<u64>> = HashMap::new();
        let (mut clock, mut newest) = (1_000_i64, 0);
        for (client, value, step, sweep) in steps {
            clock += step;
            let now = second(clock as u64);
            if sweep && value == 0 {
                ours.sweep(now);
                newest = newest.max(clock);
            }
            // the reference's period is the newest in which anything was counted
            let period = clock.max(newest) as u64 / 8;
            let values = passed.entry((client, period)).or_default();
            let repeat = values.contains(&value);
            if passes(&ours, client, value, now) {
                values.insert(value);
                newest = newest.max(clock);
            } else {
                prop_assert!(!repeat, "a repeat was refused");
                prop_assert_eq!(values.len(), max as usize, "refused early in an empty table");
            }
            prop_assert!(values.len() <= max as usize, "{:?} in one period", values);
        }
    }

    /// Sliding: at most max + τ·max/P values counted in any interval τ, and no value free for longer than P.
    #[test]
    fn sliding_counts_no_more_than_its_bucket_and_keeps_no_value_longer_than_a_period(
        max in 1_u32..6,
        steps in prop::collection::vec((0..14_u64, -3_i64..6), 1..300),
    ) {
        const PERIOD: u64 = 60;
        let ours = limit(max, Duration::from_secs(PERIOD), true);
        let mut counted: Vec<u64> = Vec::new();
        let mut last: HashMap<u64, u64> = HashMap::new();
        let (mut clock, mut newest) = (10_000_i64, 0);
        for (value, step) in steps {
            clock += step;
            let now = second(clock as u64);
            // an older stamp is taken for the start of the newest quarter in which anything was counted
            let judged = (clock as u64).max(newest);
            let (client, pair) = ask(1, value);
            let new = !ours.is_repeat(pair, now);
            if passes(&ours, 1, value, now) && new {
                counted.push(judged);
                last.insert(value, judged);
                newest = judged / (PERIOD / 4) * (PERIOD / 4);
            } else if !new {
                prop_assert!(judged - last[&value].min(judged) < PERIOD, "free for too long");
            } else {
                let wait = probe(&ours, (client, pair), now).retry_nanos.unwrap();
                prop_assert!(wait > 0);
                prop_assert!(probe(&ours, (client, pair), at(now.nanos() + wait)).admitted);
            }
        }
        counted.sort_unstable();
        for (first, from) in counted.iter().enumerate() {
            for (last, to) in counted.iter().enumerate().skip(first) {
                let allowed = u64::from(max) * PERIOD + (to - from) * u64::from(max);
                prop_assert!((last - first + 1) as u64 * PERIOD <= allowed, "{} in {} s", last - first + 1, to - from);
            }
        }
    }
}
