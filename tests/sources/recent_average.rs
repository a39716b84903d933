//! The recent-average limiter (CEWMA) of its post: C1 to C9, with the values that ALGORITHMS 1.3 computes for them. The values
//! are those of the meter, what clients meet (C6 to C9) is asked of a gate.

use std::time::Duration;

use tidegate::sketch::{Meter, RecentAverage};
use tidegate::units::Rate;

use crate::gate::{Gate, passed};
use crate::shorthand::{at, cost};

const SECOND: u64 = 1_000_000_000;
/// The half-life that belongs to λ = 0.07 per second (C2).
const HALF_LIFE: f64 = 9.902_102_579_427_789;
const LAMBDA: f64 = 0.07;

fn average(events: u32, half_life: Duration, penalties: u32) -> RecentAverage {
    RecentAverage::new(Rate::new(events, Duration::from_secs(1)).unwrap(), half_life, half_life * penalties).unwrap()
}

fn of_the_source() -> RecentAverage {
    average(100, Duration::from_secs_f64(HALF_LIFE), 6)
}

fn seconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// λ·N, the source's value, after `requests` as (second, cost) and seen at `now`.
fn value(requests: &[(f64, u32)], now: f64) -> f64 {
    let meter = of_the_source();
    let level = requests.iter().fold(0, |level, (when, units)| meter.charge(level, at(seconds(*when)), cost(*units)));
    LAMBDA * meter.sum(level, at(seconds(now)))
}

fn near(found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() < tolerance, "{found} instead of {expected}");
}

/// A gate with a `recent_average` of so many requests per second and these seconds of half-life, and one client of it. Refused
/// requests count.
struct Client {
    gate: Gate,
}

impl Client {
    fn new(per_second: u32, half_life: u64, half_lives_of_penalty: u64) -> Client {
        let penalty = half_life * half_lives_of_penalty;
        let words = "type: recent_average, count: all";
        let gate =
            Gate::new(&format!("{words}, rate: {per_second}/s, half_life: {half_life}s, max_penalty: {penalty}s"));
        Client { gate }
    }

    fn ask(&self, now: u64) -> bool {
        passed(&self.gate.ask(1, now))
    }

    /// Asks evenly for `span` nanoseconds. Says when it was first refused, how often it was admitted after that, and what it
    /// was told last and when.
    fn ask_steadily(&self, per_second: f64, span: u64) -> Steady {
        let mut steady = Steady { refused: None, after: 0, last: (0, None) };
        for n in 0..(span as f64 / 1e9 * per_second) as u64 {
            let now = START + seconds(n as f64 / per_second);
            let reading = self.gate.ask(1, now);
            match passed(&reading) {
                true if steady.refused.is_some() => steady.after += 1,
                true => {}
                false => steady.refused = steady.refused.or(Some(now - START)),
            }
            steady.last = (now, reading.retry_nanos);
        }
        steady
    }

    /// When it is first refused, of a client that asks evenly.
    fn grace(&self, per_second: f64) -> u64 {
        let mut asked = (0_u64..).map(|n| seconds(n as f64 / per_second));
        asked.find(|after| !self.ask(START + after)).unwrap()
    }
}

/// A day after the origin.
const START: u64 = 86_400 * SECOND;

struct Steady {
    refused: Option<u64>,
    after: u32,
    last: (u64, Option<u64>),
}

pub fn c1_one_request_now_a_steady_trickle_and_two_requests_a_half_life_ago_are_alike() {
    near(value(&[(1.0, 1)], 1.0), 0.07, 1e-9);
    near(value(&[(1.0, 2)], 10.9), 0.070_01, 1e-4);
    // 0.07 a second for 200 half-lives: the mean of the values just after and just before a request
    let trickle: Vec<(f64, u32)> = (0..140).map(|n| (f64::from(n) / 0.07, 1)).collect();
    let last = 139.0 / 0.07;
    let mean = (0..1_000).map(|n| value(&trickle, last + f64::from(n) / 70.0)).sum::<f64>() / 1_000.0;
    near(mean, 0.07, 1e-3);
}

pub fn c2_the_half_life_of_the_source_is_that_of_its_lambda() {
    near(HALF_LIFE, std::f64::consts::LN_2 / LAMBDA, 1e-12);
    assert_eq!(format!("{HALF_LIFE:.4}"), "9.9021");
    near(of_the_source().half_life_nanos() as f64, HALF_LIFE * 1e9, 1e-9);
}

pub fn c3_impulses_add() {
    let impulses = [(1.0, 3), (4.5, 40), (4.5, 1), (30.0, 7)];
    let sum: f64 = impulses.iter().map(|(when, units)| f64::from(*units) * (-LAMBDA * (50.0 - when)).exp()).sum();
    near(value(&impulses, 50.0), LAMBDA * sum, 1e-8);
}

pub fn c4_a_steady_train_swings_around_its_rate() {
    let train: Vec<(f64, u32)> = (0..1_000).map(|n| (f64::from(n), 1)).collect();
    let (after, before) = (value(&train, 999.0), value(&train, 1_000.0));
    near(after, LAMBDA / (1.0 - (-LAMBDA).exp()), 1e-7);
    near(before, after * (-LAMBDA).exp(), 1e-7);
    assert_eq!((format!("{after:.5}"), format!("{before:.5}")), ("1.03541".into(), "0.96541".into()));
    let mean = (0..1_000).map(|n| value(&train, 999.0 + f64::from(n) / 1_000.0)).sum::<f64>() / 1_000.0;
    near(mean, 1.0, 1e-3);
}

pub fn c5_silence_halves_the_value_every_half_life() {
    let meter = of_the_source();
    let level = meter.charge(0, at(SECOND), cost(64));
    for n in 0..20 {
        let now = SECOND + n * meter.half_life_nanos();
        near(meter.sum(level, at(now)), 64.0 / 2.0_f64.powi(n as i32), 1e-9);
    }
}

pub fn c6_the_grace_from_empty_is_what_the_formula_says() {
    // a large budget, so that single requests do not show
    for (ratio, grace) in [(2.0_f64, 1.0), (1.1, 3.46), (10.0, 0.152), (100.0, 0.0145)] {
        let half_lives = Client::new(1_000, 20, 6).grace(1_000.0 * ratio) as f64 / 20e9;
        near(half_lives, -(1.0_f64 - 1.0 / ratio).log2(), 2e-3);
        near(half_lives, grace, 5e-3);
    }
}

pub fn c7_the_lock_out_after_stopping_is_the_logarithm_of_the_excess() {
    for (ratio, lock_out) in [(2.0, 1.0), (10.0, 3.32), (100.0, 6.64)] {
        let client = Client::new(40, 10, 30);
        // eleven half-lives: the sum has settled
        let steady = client.ask_steadily(40.0 * ratio, 110 * SECOND);
        assert!(steady.refused.is_some() && steady.after == 0, "out for as long as it persists");
        let (last, wait) = (steady.last.0, steady.last.1.unwrap());
        near(wait as f64 / 10e9, lock_out, 5e-3);
        // a nanosecond early is refused, and counts; and back at the very instant that it is told then
        let early = client.gate.ask(1, last + wait - 1);
        assert!(!passed(&early));
        assert!(client.ask(last + wait - 1 + early.retry_nanos.unwrap()));
    }
    // and ours ends at the penalty, where the source knows no bound
    the_lock_out_ends_at_the_penalty_however_fast_the_client_was();
}

fn the_lock_out_ends_at_the_penalty_however_fast_the_client_was() {
    // the second has a budget of 2,885, of which one request is less than 1/1,024 of a half-life
    for (per_second, half_life) in [(10, 10), (200, 10)] {
        let client = Client::new(per_second, half_life, 2);
        let asked = (0..20_000).map(|_| client.gate.ask(1, START).retry_nanos.unwrap_or(u64::MAX));
        let longest = asked.max().unwrap();
        near(longest as f64 / (half_life * SECOND) as f64, 2.0, 6e-3);
        assert!(client.ask(START + longest), "and not a nanosecond more than it was told");
    }
}

pub fn c8_just_under_the_limit_nobody_is_refused_and_just_over_it_for_ever() {
    for (per_second, half_life) in [(10, 10), (100, 20)] {
        let (rate, span) = (f64::from(per_second), 60 * half_life * SECOND);
        // the sum of an even train at the limit is B in the mean, and half a request more just after each
        let budget = rate * half_life as f64 / std::f64::consts::LN_2;
        let just_under = rate * (1.0 - 0.51 / budget);
        assert_eq!(Client::new(per_second, half_life, 6).ask_steadily(just_under, span).refused, None);
        let steady = Client::new(per_second, half_life, 6).ask_steadily(rate * 1.01, span);
        assert!(steady.refused.is_some_and(|after| after < span / 3), "{:?}", steady.refused);
        assert_eq!(steady.after, 0, "admitted again although it never slowed down");
    }
}

pub fn c9_from_empty_exactly_the_budget_passes_at_once() {
    for (per_second, half_life, budget) in [(10, 10, 144), (1, 60, 86), (100, 60, 8_656)] {
        near(
            average(per_second, Duration::from_secs(half_life), 6).budget(),
            f64::from(per_second) * half_life as f64 / std::f64::consts::LN_2,
            1e-12,
        );
        for now in [0, SECOND, 1 << 60] {
            let client = Client::new(per_second, half_life, 6);
            assert_eq!((0..2 * budget).filter(|_| client.ask(now)).count(), budget as usize);
        }
    }
}
