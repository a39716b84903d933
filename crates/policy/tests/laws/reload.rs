//! A reload never gives a client budget, and takes none away that the new numbers leave it: for every kind, against a model of
//! one client that is exact.

mod fates;

use proptest::prelude::*;
use tidegate_limits::sketch::Seed;
use tidegate_limits::units::Timestamp;
use tidegate_policy::config::load_text;
use tidegate_policy::engine::{Arrival, Engine, Fate, Succession, Verdict};
use tidegate_policy::policy::Policy;

use crate::book::{arrival, ask, head, request};

const SECOND: u64 = 1_000_000_000;
pub const START: u64 = 100 * 86_400 * SECOND;

/// The limits of this YAML on one route. A request's client is its `x-forwarded-for`.
pub fn policy(limits: &str, on_route: &str) -> Policy {
    policy_beside("", limits, on_route)
}

/// The same beside other words at the top of the file.
pub fn policy_beside(words: &str, limits: &str, on_route: &str) -> Policy {
    let text = format!(
        "listen: \":8080\"\n{words}\ntrusted_proxies: [127.0.0.0/8]\nlimits:\n{limits}\nroutes:\n  - respond: {{ status: 200 }}\n    limits: [{on_route}]\n"
    );
    let loaded = load_text("t.yaml", &text, &|_: &str| None, std::path::Path::new("."));
    let told: Vec<String> = loaded.diagnostics.iter().map(|told| format!("{told:?}")).collect();
    loaded.outcome.unwrap_or_else(|_| panic!("{text}\n{}", told.join("\n"))).policy
}

/// With one limit, called `one`.
pub fn of(limit: &str) -> Policy {
    policy(&format!("  one: {{ memory: 1MiB, {limit} }}"), "one")
}

fn first(limit: &str) -> Engine {
    Engine::new(of(limit), &Seed::from_bytes([5; 16]), 0).unwrap()
}

pub fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

pub fn reload(gate: &Engine, policy: Policy, now: u64) -> (Engine, Succession) {
    let (next, succession) = gate.followed_by(policy, at(now)).unwrap();
    next.take_over();
    (next, succession)
}

fn fate(succession: &Succession) -> &Fate {
    &succession.limits[0].fate
}

pub fn admits(gate: &Engine, client: &str, now: u64) -> bool {
    ask(gate, &head(client), now).0.verdict == Verdict::Admitted
}

/// One client of a limit, exactly.
#[derive(Debug, Clone, Copy)]
pub enum Model {
    /// Spent units, which come back at a rate per second; at most a burst.
    Bucket { spent: f64, per_second: f64, burst: f64 },
    /// A sum that halves.
    Average { sum: f64, half_life: f64, most: f64 },
    /// A count, and the window that it is of.
    Window { count: f64, window: u64, length: u64, most: f64 },
}

impl Model {
    pub fn pass(&mut self, from: u64, to: u64) {
        let seconds = (to - from) as f64 / 1e9;
        match self {
            Model::Bucket { spent, per_second, .. } => *spent = (*spent - seconds * *per_second).max(0.0),
            Model::Average { sum, half_life, .. } => *sum *= (-seconds / *half_life).exp2(),
            Model::Window { count, window, length, .. } => {
                if to / *length != *window {
                    (*count, *window) = (0.0, to / *length);
                }
            }
        }
    }

    /// How many more fit.
    pub fn room(&self) -> f64 {
        match self {
            Model::Bucket { spent, burst, .. } => burst - spent,
            Model::Average { sum, most, .. } => most - sum,
            Model::Window { count, most, .. } => most - count,
        }
    }

    pub fn charge(&mut self) {
        match self {
            Model::Bucket { spent, .. } => *spent += 1.0,
            Model::Average { sum, .. } => *sum += 1.0,
            Model::Window { count, .. } => *count += 1.0,
        }
    }
}

/// Numbers of a limit of one kind: as YAML, and put into the model.
#[derive(Debug, Clone, Copy)]
pub enum Numbers {
    Rate { events: u32, seconds: u32, burst: u32 },
    Average { events: u32, seconds: u32, half_life: u32 },
    Quota { max: u32 },
    Distinct { max: u32, sliding: bool },
}

impl Numbers {
    pub fn yaml(self) -> String {
        match self {
            Numbers::Rate { events, seconds, burst } => format!("rate: {events}/{seconds}s, burst: {burst}"),
            Numbers::Average { events, seconds, half_life } => {
                format!("type: recent_average, rate: {events}/{seconds}s, half_life: {half_life}s, count: admitted")
            }
            Numbers::Quota { max } => format!("type: quota, max: {max}, window: 60s"),
            Numbers::Distinct { max, sliding } => {
                format!("type: distinct, of: header:x-name, missing: deny, max: {max}, window: 60s, sliding: {sliding}")
            }
        }
    }

    pub fn into_model(self, model: &mut Option<Model>) {
        let before = model.map_or(0.0, |model| match model {
            Model::Bucket { spent, .. } => spent,
            Model::Average { sum, .. } => sum,
            Model::Window { count, .. } => count,
        });
        // a unit comes back in whole nanoseconds
        let bucket = |events: u32, seconds: u32, burst: u32| {
            let interval = (u64::from(seconds) * SECOND).div_ceil(u64::from(events));
            Model::Bucket { spent: before, per_second: SECOND as f64 / interval as f64, burst: f64::from(burst) }
        };
        let window = |most: u32| {
            let length = 60 * SECOND;
            let since = if let Some(Model::Window { window, .. }) = *model { window } else { START / length };
            Model::Window { count: before, window: since, length, most: f64::from(most) }
        };
        *model = Some(match self {
            Numbers::Rate { events, seconds, burst } => bucket(events, seconds, burst),
            Numbers::Average { events, seconds, half_life } => Model::Average {
                sum: before,
                half_life: f64::from(half_life),
                most: f64::from(events) * f64::from(half_life) / f64::from(seconds) / std::f64::consts::LN_2,
            },
            Numbers::Quota { max } | Numbers::Distinct { max, sliding: false } => window(max),
            Numbers::Distinct { max, sliding: true } => bucket(max, 60, max),
        });
    }
}

/// Numbers that follow each other.
fn list(one: impl Strategy<Value = Numbers>) -> impl Strategy<Value = Vec<Numbers>> {
    prop::collection::vec(one, 2..8)
}

fn distinct(max: std::ops::Range<u32>, sliding: bool) -> BoxedStrategy<Numbers> {
    max.prop_map(move |max| Numbers::Distinct { max, sliding }).boxed()
}

/// No two of a list lie further apart than the 128 times that an axis may run faster, so that they share a table, and it hears of
/// requests that began before.
pub fn near() -> impl Strategy<Value = Vec<Numbers>> {
    let rate = |events: std::ops::Range<u32>, seconds: std::ops::Range<u32>| {
        let rate = (events, seconds, 1..40_u32);
        rate.prop_map(|(events, seconds, burst)| Numbers::Rate { events, seconds, burst }).boxed()
    };
    let average =
        (1..20_u32, 2..40_u32).prop_map(|(events, half_life)| Numbers::Average { events, seconds: 1, half_life });
    let quota = (1..40_u32).prop_map(|max| Numbers::Quota { max });
    prop_oneof![
        2 => list(rate(8..200, 1..5)),
        1 => list(rate(1..11, 5..60)),
        2 => list(average),
        1 => list(quota),
        1 => list(distinct(1..40, false)),
        1 => list(distinct(1..40, true)),
    ]
}

/// Numbers up to a thousand million times apart, one after the other in any direction: from one in a day to ten thousand in a
/// second, half-lives from a second to a day.
fn far() -> impl Strategy<Value = Vec<Numbers>> {
    let seconds = || prop::sample::select(vec![1_u32, 7, 60, 3_600, 86_400]);
    let events = prop_oneof![1_u32..10, 10_u32..1_000, 1_000_u32..10_000];
    let rate = (events, seconds(), 1..40_u32);
    let rate = rate.prop_map(|(events, seconds, burst)| Numbers::Rate { events, seconds, burst });
    let half_life = prop_oneof![1_u32..10, 10_u32..5_000, 5_000_u32..86_400];
    // as many in a day as a budget of so much makes
    let average = (half_life, 2..40_u32).prop_map(|(half_life, most)| Numbers::Average {
        events: (f64::from(most) * std::f64::consts::LN_2 * 86_400.0 / f64::from(half_life)).ceil() as u32,
        seconds: 86_400,
        half_life,
    });
    prop_oneof![
        4 => list(rate),
        2 => list(average),
        2 => list(prop_oneof![distinct(1..40, true), distinct(1_000..40_000, true)]),
    ]
}

/// What the arithmetic of instants may be off by, in units: a few nanoseconds of a request.
pub const ROUNDING: f64 = 1e-3;

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn what_was_admitted_counts_under_the_new_numbers_and_no_more_than_that(
        (numbers, stragglers) in prop_oneof![(near(), any::<bool>()), (far(), Just(false))],
        steps in prop::collection::vec((prop_oneof![3 => 0..4_000_u64, 1 => 0..40_000_000_u64], 1..30_usize), 2..8),
    ) {
        let mut model = None;
        numbers[0].into_model(&mut model);
        let mut gate = first(&numbers[0].yaml());
        let mut old: Option<Engine> = None;
        let (mut now, mut value) = (START, 0);
        for (number, (pause, requests)) in numbers.iter().cycle().zip(&steps) {
            let model_now = model.as_mut().unwrap();
            model_now.pass(now, now + pause * 1_000_000);
            now += pause * 1_000_000;
            for _ in 0..*requests {
                value += 1;
                let mut headers = head("192.0.2.1");
                headers.insert("x-name", value.to_string().parse().unwrap());
                // a request that began before the last reload is charged to the same state
                let straggles = stragglers && value % 7 == 0;
                let asked = old.as_ref().filter(|_| straggles).unwrap_or(&gate);
                let admitted = ask(asked, &headers, now).0.verdict == Verdict::Admitted;
                let room = model.unwrap().room();
                if !straggles {
                    prop_assert!(!admitted || room >= 1.0 - ROUNDING, "budget was given: {number:?} {room}");
                }
                // one that straggles goes by other numbers, and may count too much: then the client has less
                if !stragglers {
                    prop_assert!(admitted || room < 1.0 + ROUNDING, "budget was taken: {number:?} {room}");
                }
                if admitted {
                    model.as_mut().unwrap().charge();
                }
            }
            let (next, succession) = reload(&gate, of(&number.yaml()), now);
            prop_assert!(!matches!(fate(&succession), Fate::Reset(_) | Fate::New), "{succession:?}");
            number.into_model(&mut model);
            old = Some(std::mem::replace(&mut gate, next));
        }
    }
}

#[test]
fn a_lowered_rate_and_a_raised_one_keep_what_was_spent_to_the_unit() {
    let gate = first("rate: 10/m, burst: 10");
    (0..10).for_each(|_| assert!(admits(&gate, "192.0.2.1", START)));
    let (gate, told) = reload(&gate, of("rate: 5/m, burst: 10"), START);
    assert!(matches!(fate(&told), Fate::Rerated { from: None, .. }));
    // the instant at which ten at 10/m are back is that of five at 5/m: judged by that, five would be a gift
    assert!(!admits(&gate, "192.0.2.1", START + 12 * SECOND - 1));
    let refused = ask(&gate, &head("192.0.2.1"), START).0;
    assert_eq!(refused.readings[0].retry_nanos, Some(12 * SECOND), "and the wait is that of the new rate");
    assert!(admits(&gate, "192.0.2.1", START + 12 * SECOND));
    let (gate, _) = reload(&gate, of("rate: 60/m, burst: 10"), START + 12 * SECOND);
    assert!(!admits(&gate, "192.0.2.1", START + 13 * SECOND - 1));
    assert!(admits(&gate, "192.0.2.1", START + 13 * SECOND));
    assert!(admits(&gate, "192.0.2.2", START));
}

/// By any factor: what an axis cannot follow goes on in a table of its own.
#[test]
fn a_rate_that_is_raised_ever_so_much_keeps_what_was_spent_to_the_unit() {
    for (before, spent, after, left) in [
        ("rate: 1/m, burst: 10", 5, &["rate: 100/m, burst: 100"][..], 95),
        ("rate: 6/h, burst: 6", 3, &["rate: 10/s, burst: 10"], 7),
        ("rate: 1/h, burst: 5", 1, &["rate: 10/s, burst: 10"], 9),
        ("rate: 100/d, burst: 100", 50, &["rate: 10/s, burst: 100"], 50),
        ("rate: 1/d, burst: 10", 5, &["rate: 100/m, burst: 100"], 95),
        ("rate: 1/d, burst: 10", 5, &["rate: 10000/s, burst: 100"], 95),
        (
            "rate: 2/h, burst: 20",
            10,
            &["rate: 20/h, burst: 20", "rate: 200/h, burst: 20", "rate: 2000/h, burst: 20"],
            10,
        ),
        ("rate: 6/h, burst: 6", 3, &["rate: 10/s, burst: 10", "rate: 6/h, burst: 6", "rate: 10/s, burst: 10"], 7),
        (
            "rate: 10000/s, burst: 100",
            5,
            &["rate: 1/d, burst: 10", "rate: 1/h, burst: 3000", "rate: 10000/s, burst: 20"],
            15,
        ),
        ("rate: 1/d, burst: 10", 10, &["rate: 100/d, burst: 5000"], 4_990),
        (
            "type: recent_average, rate: 30/d, half_life: 24h, count: admitted",
            20,
            &[
                "type: recent_average, rate: 10/s, half_life: 1s, count: admitted",
                "type: recent_average, rate: 30/s, half_life: 1s, count: admitted",
            ],
            23,
        ),
    ] {
        let mut gate = first(before);
        (0..spent).for_each(|_| assert!(admits(&gate, "192.0.2.1", START), "{before}"));
        for numbers in after {
            gate = reload(&gate, of(numbers), START).0;
        }
        let mut passed = 0;
        while admits(&gate, "192.0.2.1", START) {
            passed += 1;
        }
        assert_eq!(passed, left, "{before}, then {after:?}");
    }
}

/// A request may wait for its place at the origin while the policy changes, and is charged after that.
#[test]
fn who_is_charged_late_under_the_old_numbers_is_charged_now() {
    for (old, new) in [
        ("rate: 1/m, burst: 5", "rate: 60/m, burst: 5"),
        (
            "type: recent_average, rate: 1/m, half_life: 240s, count: admitted",
            "type: recent_average, rate: 1/s, half_life: 4s, count: admitted",
        ),
    ] {
        let before = first(old);
        let (after, _) = reload(&before, of(new), START);
        let now = START + 4 * SECOND;
        let burst = (0..20).filter(|_| admits(&before, "192.0.2.1", now)).count();
        assert_eq!(burst, 5);
        assert!(!admits(&after, "192.0.2.1", now), "{new}");
    }
}

#[test]
fn numbers_that_change_two_hundred_times_give_nothing_and_lock_nobody_out() {
    let mut gate = first("rate: 10/s, burst: 20");
    let mut admitted = 0;
    let mut now = START;
    for step in 0..200_u32 {
        for _ in 0..40 {
            admitted += u32::from(admits(&gate, "192.0.2.1", now));
        }
        let numbers = ["rate: 10/s, burst: 20", "rate: 1/s, burst: 20", "rate: 10/s, burst: 5", "rate: 3/s, burst: 7"];
        now += SECOND / 10;
        gate = reload(&gate, of(numbers[step as usize % 4]), now).0;
    }
    // 20 seconds at most at 10/s, and the greatest burst
    assert!((60..=220).contains(&admitted), "{admitted}");
    let (gate, _) = reload(&gate, of("rate: 10/s, burst: 20"), now);
    let later = now + 2 * SECOND;
    assert_eq!((0..40).filter(|_| admits(&gate, "192.0.2.1", later)).count(), 20);
}

#[test]
fn a_limit_of_bytes_stays_in_bytes_when_its_unit_changes() {
    let spend = |gate: &Engine, bytes: u64| {
        let headers = head("192.0.2.1");
        let (decision, holds) = ask(gate, &headers, START);
        drop(holds);
        let _ = (decision, bytes);
    };
    let gate = first("rate: 1000B/s, burst: 1000B");
    spend(&gate, 1);
    let (next, told) = reload(&gate, of("rate: 64MiB/s, burst: 64MiB"), START);
    assert!(matches!(fate(&told), Fate::Rerated { .. }));
    assert!(admits(&next, "192.0.2.1", START + SECOND));
    let (back, told) = reload(&next, of("rate: 1000B/s, burst: 1000B"), START + SECOND);
    assert!(matches!(fate(&told), Fate::Rerated { .. }));
    assert!(admits(&back, "192.0.2.1", START + 3 * SECOND));
}

#[test]
fn places_that_are_held_count_over_both_snapshots() {
    for key in ["global", "client_ip", "route"] {
        let limit = |max: u32| policy(&format!("  one: {{ type: inflight, key: {key}, max: {max} }}"), "one");
        let gate = Engine::new(limit(3), &Seed::from_bytes([5; 16]), 0).unwrap();
        let held: Vec<_> = (0..3).map(|_| ask(&gate, &head("192.0.2.1"), START).1).collect();
        let (next, told) = reload(&gate, limit(2), START);
        assert!(matches!(fate(&told), Fate::Rerated { .. }), "{key}");
        assert!(!admits(&next, "192.0.2.1", START), "{key}: three are held, and two is all there is");
        assert!(!admits(&gate, "192.0.2.1", START), "{key}");
        let (wide, _) = reload(&next, limit(4), START);
        let fourth = ask(&wide, &head("192.0.2.1"), START);
        assert!(fourth.0.verdict == Verdict::Admitted && !admits(&wide, "192.0.2.1", START), "{key}");
        drop((held, fourth));
        assert_eq!(wide.limiter(0).unwrap().gauges(Timestamp::ZERO).inflight, Some(0), "{key}: all came back");
        assert_eq!(gate.limiter(0).unwrap().gauges(Timestamp::ZERO).inflight, Some(0), "{key}");
    }
}

#[test]
fn attempts_that_wait_for_their_answer_count_over_both() {
    let limit = |max: u32| of(&format!("rate: {max}/h, burst: {max}, count: responses 401"));
    let gate = Engine::new(limit(3), &Seed::from_bytes([5; 16]), 0).unwrap();
    let held: Vec<_> = (0..3).map(|_| ask(&gate, &head("192.0.2.1"), START).1).collect();
    let (next, _) = reload(&gate, limit(4), START);
    let fourth = ask(&next, &head("192.0.2.1"), START).1;
    assert!(!admits(&next, "192.0.2.1", START));
    let (plain, _) = reload(&next, of("rate: 4/h, burst: 4"), START);
    assert!(!admits(&plain, "192.0.2.1", START), "held back by those from before");
    drop((held, fourth));
    assert!(admits(&plain, "192.0.2.1", START));
}

#[test]
fn a_shared_capacity_moves_without_a_moment_of_plenty() {
    let share = |capacity: u32| policy(&format!("  one: {{ type: fair_share, capacity: {capacity}/s }}"), "one");
    let mut gate = Engine::new(share(100), &Seed::from_bytes([5; 16]), 0).unwrap();
    let (mut admitted, mut now) = (0_u32, START);
    for step in 0..100_u32 {
        for _ in 0..20 {
            admitted += u32::from(admits(&gate, &format!("192.0.{}.{}", step % 7, step % 200), now));
            now += SECOND / 400;
        }
        gate = reload(&gate, share([100, 50, 80][step as usize % 3]), now).0;
    }
    // five seconds at no more than 100/s, and forty at once
    assert!((200..=540).contains(&admitted), "{admitted}");
}

#[test]
fn who_is_held_down_by_a_fair_share_stays_so_when_a_reload_moves_it() {
    let share = "  share: { type: fair_share, capacity: 100/s }";
    let alone = policy(share, "share");
    // another position, and limits before it that count by some of its nodes
    let beside = ["by_path: { rate: 100000/s, key: path }", "by_client: { rate: 100000/s, key: client_ip }"];
    let beside = || policy(&format!("  {}\n  {}\n{share}", beside[0], beside[1]), "by_path, by_client, share");
    let new = |policy| Engine::new(policy, &Seed::from_bytes([5; 16]), 0).unwrap();
    let mut gate = new(alone);
    let mut now = START;
    let admits = |gate: &Engine, client: &str, now: u64| {
        let dice = now.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        gate.decide(&request(&head(client)), Arrival { dice, ..arrival(now) }).0.verdict == Verdict::Admitted
    };
    // one asks a thousand times a second, and thirty others in thirty networks twice a second each
    let mut flood = |gate: &Engine, millis: u64| {
        let mut admitted = 0;
        for _ in 0..millis {
            now += SECOND / 1_000;
            admitted += u32::from(admits(gate, "198.51.100.9", now));
            if (now / (SECOND / 1_000)).is_multiple_of(16) {
                let _ = admits(gate, &format!("10.{}.0.1", now / (SECOND / 1_000) / 16 % 30), now);
            }
        }
        (admitted, now)
    };
    let _ = flood(&gate, 10_000);
    let (before, now) = flood(&gate, 200);
    gate = reload(&gate, beside(), now).0;
    let ((after, _), (unknown, _)) = (flood(&gate, 200), flood(&new(beside()), 200));
    println!("{before} and {after} of 200; {unknown} of who is not known yet");
    assert!((1..=14).contains(&before) && (1..=14).contains(&after), "{before} and {after}");
    assert!(unknown > 20, "{unknown}");
}
