//! A request that waits is charged as of the end of its wait: for a place at an origin, or because another limit delays it. Every
//! promise is about the stamps at which requests go on.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_limits::limiter::kinds::Bound;
use tidegate_limits::sketch::Seed;
use tidegate_limits::units::Timestamp;
use tidegate_policy::config::load_text;
use tidegate_policy::engine::{Engine, Refusal, Verdict};
use tidegate_policy::policy::{Mode, OnLimit, Rule};

use crate::book::{arrival, ask, book, head, rate, request};
use crate::kinds::{START, check, judges_by_stamps, kinds, nth, weighs_others};

const MILLISECOND: u64 = 1_000_000;

/// The kinds that judge a stamp by itself.
fn judging_by_stamps() -> impl Iterator<Item = (Rule, Bound)> {
    kinds().into_iter().filter(|(rule, bound)| !weighs_others(rule) && judges_by_stamps(rule, bound))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// Requests are judged in the order in which they come, and charged in the order in which their waits end.
    #[test]
    fn who_waited_for_a_place_is_charged_as_of_the_end_of_the_wait(
        requests in prop::collection::vec((0_u64..300, 0_u64..3_000), 1..80),
    ) {
        for (rule, bound) in judging_by_stamps() {
            let name = rule.name.clone();
            let engine = book(vec![rule]);
            let (mut now, mut waiting, mut stamps) = (START, Vec::new(), Vec::new());
            let mut go_on = |waiting: &mut Vec<(u64, _)>, until: u64| {
                waiting.sort_by_key(|(end, _)| *end);
                let over = waiting.partition_point(|(end, _)| *end <= until);
                for (end, mut evaluation) in waiting.drain(..over) {
                    let _held = engine.admit(&mut evaluation, Timestamp::from_nanos(end));
                    if evaluation.decision.verdict == Verdict::Admitted {
                        stamps.push(end);
                    }
                }
            };
            for (n, (gap, wait)) in requests.iter().enumerate() {
                now += gap * MILLISECOND;
                go_on(&mut waiting, now);
                waiting.push((now + wait * MILLISECOND, engine.judge(&request(&nth(n)), arrival(now))));
            }
            go_on(&mut waiting, u64::MAX);
            let kept = check(&bound, &stamps.iter().map(|stamp| (*stamp, 1)).collect::<Vec<_>>());
            prop_assert!(kept.is_ok(), "{name}: {}", kept.unwrap_err());
        }
    }

    /// Another limit of the same route makes requests wait.
    #[test]
    fn who_was_delayed_is_charged_as_of_the_end_of_the_delay(
        // bursts, as nobody waits else
        gaps in prop::collection::vec(prop_oneof![3 => Just(0_u64), 1 => 0_u64..1_500], 1..80),
        delay_first in any::<bool>(),
    ) {
        for (rule, bound) in judging_by_stamps() {
            let name = rule.name.clone();
            let action = OnLimit::Delay { max: Duration::from_secs(5) };
            let smooth = Rule { action, ..rate("smooth", 7, 1, Mode::Enforce) };
            let engine = book(if delay_first { vec![smooth, rule] } else { vec![rule, smooth] });
            let (mut now, mut stamps) = (START, Vec::new());
            for (n, gap) in gaps.iter().enumerate() {
                now += gap * MILLISECOND;
                let (decision, _) = ask(&engine, &nth(n), now);
                if decision.verdict == Verdict::Admitted {
                    stamps.push(decision.goes_on().nanos());
                }
            }
            stamps.sort_unstable();
            let kept = check(&bound, &stamps.iter().map(|stamp| (*stamp, 1)).collect::<Vec<_>>());
            prop_assert!(kept.is_ok(), "{name}: {}", kept.unwrap_err());
        }
    }
}

/// A policy from its words, each limit delaying.
fn delaying(limits: &[(&str, &str)]) -> Engine {
    let defined: String =
        limits.iter().map(|(name, words)| format!("  {name}: {{ memory: 1MiB, {words} }}\n")).collect();
    let names: Vec<&str> = limits.iter().map(|(name, _)| *name).collect();
    let text = format!(
        "listen: \":8080\"\ntrusted_proxies: [127.0.0.0/8]\nlimits:\n{defined}routes:\n  - respond: {{ status: 200 }}\n    limits: [{}]\n",
        names.join(", ")
    );
    let loaded = load_text("t.yaml", &text, &|_: &str| None, std::path::Path::new("."));
    let policy = loaded.outcome.unwrap_or_else(|_| panic!("{text}")).policy;
    Engine::new(policy, &Seed::from_bytes([5; 16]), 0).unwrap()
}

const SECOND: u64 = 1_000 * MILLISECOND;

/// Whoever waits for its own limit takes nothing of the time until then from a limit that all share.
#[test]
fn one_client_that_waits_locks_nobody_out_of_a_shared_limit() {
    let own = ("own", "key: client_ip, rate: 15/m, burst: 1, action: { delay: { max: 30s } }");
    let all = ("all", "key: global, rate: 100/s, burst: 100, action: { delay: { max: 10s } }");
    for limits in [[own, all], [all, own]] {
        let gate = delaying(&limits);
        let one = head("192.0.2.1");
        // as a face drives them, with none of the waits at its end
        let waits: Vec<u64> = (0..7)
            .map(|_| {
                let mut evaluation = gate.judge(&request(&one), arrival(START));
                gate.reserve(&mut evaluation, Timestamp::from_nanos(START));
                evaluation.decision.delay_nanos / SECOND
            })
            .collect();
        assert_eq!(waits, [0, 4, 8, 12, 16, 20, 24]);
        for other in 2..90 {
            let decision = gate.decide(&request(&head(&format!("192.0.2.{other}"))), arrival(START)).0;
            assert_eq!((decision.verdict, decision.delay_nanos), (Verdict::Admitted, 0), "{other}");
        }
    }
}

/// Requests that wait by a slow tier take nothing but their units from the others.
#[test]
fn whoever_waits_in_a_slow_tier_delays_nobody_in_a_fast_one() {
    let words = "key: global, rate: 100/s, burst: 50, action: { delay: { max: 30s } }, \
                 tiers: [{ when: { header: { x-tier: slow } }, rate: 15/m, burst: 1 }]";
    let gate = delaying(&[("plan", words)]);
    let mut slow = head("192.0.2.1");
    slow.insert("x-tier", "slow".parse().unwrap());
    let waits: Vec<u64> = (0..6).map(|_| gate.decide(&request(&slow), arrival(START)).0.delay_nanos / SECOND).collect();
    assert_eq!(waits, [0, 4, 8, 12, 16, 20]);
    // six of fifty are spent
    let normal: Vec<u64> =
        (0..45).map(|_| gate.decide(&request(&head("192.0.2.2")), arrival(START)).0.delay_nanos).collect();
    assert_eq!((&normal[..44], normal[44]), (&[0; 44][..], 10 * MILLISECOND));
}

/// A limit that delays: its name and words, what it promises, and how long it may make one wait.
struct Delaying {
    words: (&'static str, &'static str),
    promise: Held,
    longest: f64,
}

enum Held {
    /// So many at once, and so many a second.
    Rate { by_client: bool, burst: f64, rate: f64 },
    /// So many in each second of the clock.
    Window(usize),
}

fn three() -> Vec<Delaying> {
    let one = "key: client_ip, rate: 2/s, burst: 2, action: { delay: { max: 3s } }";
    let all = "key: global, rate: 3/s, burst: 3, action: { delay: { max: 2s } }";
    let clock = "type: quota, key: global, max: 4, window: 1s, action: { delay: { max: 5s } }";
    vec![
        Delaying { words: ("one", one), promise: Held::Rate { by_client: true, burst: 2.0, rate: 2.0 }, longest: 3.0 },
        Delaying { words: ("all", all), promise: Held::Rate { by_client: false, burst: 3.0, rate: 3.0 }, longest: 2.0 },
        Delaying { words: ("clock", clock), promise: Held::Window(4), longest: 5.0 },
    ]
}

/// When requests of which clients go on, as a face drives them, with waits side by side. They come late by up to so many nanoseconds.
fn drive(gate: &Engine, requests: &[(u64, u64, u8)]) -> Vec<(u64, u8)> {
    let mut waiting = Vec::new();
    let mut now = START;
    for (gap, back, client) in requests {
        now += gap;
        let evaluation = gate.judge(&request(&head(&format!("192.0.2.{client}"))), arrival(now - back));
        waiting.push((now - back, evaluation, *client));
    }
    let mut gone = Vec::new();
    // the earliest first: who has waited meets the next limit then
    while let Some(next) = (0..waiting.len()).min_by_key(|index| waiting[*index].0) {
        let (at, mut evaluation, client) = waiting.swap_remove(next);
        gate.reserve(&mut evaluation, Timestamp::from_nanos(at));
        if evaluation.decision.verdict != Verdict::Admitted {
            continue;
        }
        match evaluation.decision.goes_on().nanos() {
            on if on > at => waiting.push((on, evaluation, client)),
            _ => gone.push((at, client)),
        }
    }
    gone.sort_unstable();
    gone
}

/// What a request would have waited for is no part of a refusal.
#[test]
fn whoever_is_refused_waits_for_nothing() {
    let slow = ("slow", "key: global, rate: 1/s, burst: 1, action: { delay: { max: 30s } }");
    for shut in ["key: client_ip, rate: 1/h, burst: 1", "type: quota, key: client_ip, max: 1, window: 1h"] {
        for limits in [[slow, ("shut", shut)], [("shut", shut), slow]] {
            let gate = delaying(&limits);
            let judge = || gate.judge(&request(&head("192.0.2.1")), arrival(START)).decision;
            assert_eq!((judge().verdict, judge().delay_nanos), (Verdict::Admitted, 0));
            assert_eq!(gate.decide(&request(&head("192.0.2.1")), arrival(START)).0.verdict, Verdict::Admitted);
            let refused = judge();
            assert_eq!((refused.verdict, refused.delay_nanos), (Verdict::Refused(Refusal::Limit), 0));
            // and whoever is not would wait
            let other = gate.judge(&request(&head("192.0.2.2")), arrival(START)).decision;
            assert_eq!((other.verdict, other.delay_nanos), (Verdict::Admitted, SECOND));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Of limits that delay on one route, the last keeps its promise by the moments at which requests go on; one before it as well, but
    /// for as much of its rate as comes in the time that later ones may make a request wait. Windows come last and are never broken.
    #[test]
    fn limits_that_delay_keep_their_promises_where_requests_go_on(
        requests in prop::collection::vec((0_u64..500 * MILLISECOND, 0..50 * MILLISECOND, 0_u8..3), 1..60),
        mut limits in Just((0..3_usize).collect::<Vec<_>>()).prop_shuffle(),
        taken in 1_usize..=3,
    ) {
        limits.truncate(taken);
        let three = three();
        let mut row: Vec<&Delaying> = limits.iter().map(|limit| &three[*limit]).collect();
        let gone = drive(&delaying(&row.iter().map(|limit| limit.words).collect::<Vec<_>>()), &requests);
        row.sort_by_key(|limit| matches!(limit.promise, Held::Window(_)));
        for (position, limit) in row.iter().enumerate() {
            let later: f64 = row[position + 1..].iter().map(|limit| limit.longest).sum();
            match limit.promise {
                Held::Window(most) => {
                    for (at, _) in &gone {
                        let inside = gone.iter().filter(|(other, _)| other / SECOND == at / SECOND).count();
                        prop_assert!(inside <= most, "{inside} in one second");
                    }
                }
                Held::Rate { by_client, burst, rate } => {
                    for (index, (first, client)) in gone.iter().enumerate() {
                        let own = gone[index..].iter().filter(|(_, other)| !by_client || other == client);
                        for (count, (last, _)) in (1..).zip(own) {
                            let seconds = (last - first) as f64 / 1e9 + later;
                            prop_assert!(
                                f64::from(count) <= burst + rate * seconds + 1e-6,
                                "{}: {count} in {seconds} s", limit.words.0
                            );
                        }
                    }
                }
            }
        }
    }
}
