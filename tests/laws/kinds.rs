//! The laws, on every kind of limit: the bound over all intervals, a retry time that comes true, monotony, refusals that
//! charge nobody, clocks that step back.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use tidegate::engine::{Snapshot, Verdict};
use tidegate::limiter::{Kind, RefusedCount};
use tidegate::policy::{Mode, Rule};
use tidegate::units::{Bytes, Rate};

use crate::book::{arrival, ask, book, by_client, distinct, fair_share, head, rate, request};

const SECOND: u64 = 1_000_000_000;
/// A whole number of every window used here.
pub const START: u64 = 10_000_000 * SECOND;
const MEMORY: Bytes = Bytes(1 << 20);

/// What a kind promises of the stamps of its admitted requests, sorted: how many may lie in an interval.
pub enum Promise {
    /// At most so many + so many per second × its length, in every interval.
    Curve(f64, f64),
    /// At most so many in every aligned window of so many seconds.
    Window(usize, u64),
    /// As `Window`, and across one boundary at most so many × (1 + the part of the window after it).
    Sliding(usize, u64),
}

/// Every kind that promises something of stamps, in small numbers.
pub fn kinds() -> Vec<(Rule, Promise)> {
    let per_second = |events| Rate::new(events, Duration::from_secs(1)).unwrap();
    let quota = |sliding| Kind::Quota { max: 5, window: Duration::from_secs(2), sliding, memory: MEMORY };
    let average = |refused| Kind::RecentAverage {
        rate: per_second(4),
        half_life: Duration::from_secs(1),
        refused,
        memory: MEMORY,
    };
    let all = RefusedCount::All { max_penalty: Duration::from_secs(6) };
    // B = L·h/ln 2
    let average_burst = 4.0 / std::f64::consts::LN_2;
    vec![
        (rate("rate", 4, 5, Mode::Enforce), Promise::Curve(5.0, 4.0)),
        (by_client("quota", quota(false)), Promise::Window(5, 2)),
        (by_client("sliding_quota", quota(true)), Promise::Sliding(5, 2)),
        (by_client("average_admitted", average(RefusedCount::Admitted)), Promise::Curve(average_burst, 4.0)),
        (by_client("average_all", average(all)), Promise::Curve(average_burst, 4.0)),
        (distinct(5, Duration::from_secs(2), false), Promise::Window(5, 2)),
        (distinct(5, Duration::from_secs(2), true), Promise::Curve(5.0, 2.5)),
        // a quarter of a second's worth, at least eight
        (fair_share(20), Promise::Curve(8.0, 20.0)),
    ]
}

impl Promise {
    pub fn check(&self, stamps: &[u64]) -> Result<(), String> {
        for (first, from) in stamps.iter().enumerate() {
            for (last, to) in stamps.iter().enumerate().skip(first) {
                let count = last - first + 1;
                let kept = match self {
                    Promise::Curve(burst, per_second) => {
                        count as f64 <= burst + per_second * (to - from) as f64 / 1e9 + 1e-6
                    }
                    Promise::Window(max, seconds) => {
                        from / (seconds * SECOND) != to / (seconds * SECOND) || count <= *max
                    }
                    Promise::Sliding(max, seconds) => {
                        let window = seconds * SECOND;
                        match to / window - from / window {
                            0 => count <= *max,
                            1 => count as f64 <= *max as f64 * (1.0 + (to % window) as f64 / window as f64) + 1e-6,
                            _ => true,
                        }
                    }
                };
                if !kept {
                    return Err(format!("{count} admitted from {from} to {to}"));
                }
            }
        }
        Ok(())
    }
}

/// The nth request of one client: a new name each time, so that `distinct` has something to count.
pub fn nth(n: usize) -> HeaderMap {
    let mut headers = head("203.0.113.9");
    headers.insert("x-name", HeaderValue::from(n));
    headers
}

fn admitted(snapshot: &Snapshot, n: usize, at: u64) -> bool {
    ask(snapshot, &nth(n), at).0.verdict == Verdict::Admitted
}

/// Whether the request would pass, charging nothing.
fn fits(snapshot: &Snapshot, n: usize, at: u64) -> bool {
    snapshot.judge(&request(&nth(n)), arrival(at)).decision.verdict == Verdict::Admitted
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_kind_keeps_its_bound_over_all_intervals(steps in prop::collection::vec(-200_i64..500, 1..100)) {
        for (rule, promise) in kinds() {
            // aligned `distinct` judges a stamp that lags behind in the newest period it meets, not in its own
            let steps_back = !(rule.name == "distinct" && matches!(promise, Promise::Window(..)));
            let name = rule.name.clone();
            let snapshot = book(vec![rule]);
            let mut now = START as i64;
            let mut stamps = Vec::new();
            for (n, step) in steps.iter().enumerate() {
                now += if steps_back { *step } else { step.abs() } * 1_000_000;
                if admitted(&snapshot, n, now as u64) {
                    stamps.push(now as u64);
                }
            }
            stamps.sort_unstable();
            let kept = promise.check(&stamps);
            prop_assert!(kept.is_ok(), "{name}: {}", kept.unwrap_err());
        }
    }

    #[test]
    fn a_silent_client_is_admitted_when_it_was_told_and_not_before(gaps in prop::collection::vec(0_u64..400, 1..60)) {
        for (rule, _) in kinds() {
            let (name, counts_refused) = (rule.name.clone(), rule.name == "average_all");
            if name == "share" {
                continue; // nobody can promise when the dice will fall otherwise
            }
            let snapshot = book(vec![rule]);
            let mut now = START;
            for (n, gap) in gaps.iter().enumerate() {
                now += gap * 1_000_000;
                let (decision, _) = ask(&snapshot, &nth(n), now);
                if decision.verdict == Verdict::Admitted {
                    continue;
                }
                let wait = decision.readings[0].retry_nanos.unwrap();
                prop_assert!(wait > 0, "{name}");
                if !counts_refused {
                    prop_assert!(!fits(&snapshot, n, now + wait - 1), "{name}: admitted a nanosecond early");
                }
                now += wait;
                prop_assert!(admitted(&snapshot, n, now), "{name}: refused when the wait was over");
            }
        }
    }

    /// Who has been charged less is never refused where one who has been charged more is admitted.
    #[test]
    fn less_spent_is_never_worse(
        trace in prop::collection::vec((0_u64..300, any::<bool>()), 1..60),
        pause in 0_u64..3_000,
    ) {
        for (rule, _) in kinds() {
            if rule.name == "share" {
                continue; // its judgement depends on what others offer, not on what one was charged
            }
            let name = rule.name.clone();
            let (more, less) = (book(vec![rule.clone()]), book(vec![rule]));
            let mut now = START;
            for (n, (gap, kept)) in trace.iter().enumerate() {
                now += gap * 1_000_000;
                let passed = admitted(&more, n, now);
                if *kept && passed {
                    prop_assert!(admitted(&less, n, now), "{name}");
                }
            }
            now += pause * 1_000_000;
            prop_assert!(!fits(&more, trace.len(), now) || fits(&less, trace.len(), now), "{name}");
        }
    }
}

#[test]
fn a_refusal_charges_nobody() {
    for (rule, _) in kinds() {
        if rule.name == "average_all" || rule.name == "share" {
            continue; // the one counts refused requests, the other offered ones: that is what they are for
        }
        let name = rule.name.clone();
        let snapshot = book(vec![rule]);
        let mut waits = Vec::new();
        for n in 0..200 {
            let (decision, _) = ask(&snapshot, &nth(n), START + 1);
            if decision.verdict != Verdict::Admitted {
                waits.push(decision.readings[0].retry_nanos);
            }
        }
        assert!(waits.len() > 100, "{name}");
        assert!(waits.iter().all(|wait| *wait == waits[0]), "{name}: refusals moved the way back");
    }
}

#[test]
fn a_clock_that_steps_back_opens_nothing() {
    for (rule, _) in kinds() {
        let name = rule.name.clone();
        let snapshot = book(vec![rule]);
        let spent = (0..200).filter(|n| admitted(&snapshot, *n, START)).count();
        assert!(spent > 0, "{name}");
        let stamps = [START - 1, START - 3 * SECOND, START - 90 * SECOND, 70 * SECOND, START - 2 * SECOND];
        let more = (200..400).filter(|n| admitted(&snapshot, *n, stamps[n % stamps.len()])).count();
        assert_eq!(more, 0, "{name}: a stamp from the past was admitted beyond the spent budget");
        // and once the clock is where it was, nothing has been lost but what had been spent
        assert!(fits(&snapshot, 400, START + 60 * SECOND), "{name}");
    }
}
