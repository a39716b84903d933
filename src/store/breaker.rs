//! The breaker of a silent store: closed, open, half-open. Pure: time and dice are arguments.
//!
//! Closed, every question goes out. It opens after so many failures in a row, or when half of at least [`MANY`] outcomes
//! within [`SPAN`] were failures. Open, no question goes out until its time is over; then it is half-open, and exactly one
//! question tries. Its success closes, its failure opens again for twice as long, at most [`LONGEST`]. Every opening lasts
//! up to 20 % less or more than its time, so that many gates do not come back in one moment. A sign of life ends one early: as
//! long as some gates have found the store again and others have not, those go on by their parts of the limits beside it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::policy;
use crate::units::time::saturating_nanos;

/// So many outcomes make a share of failures worth something.
pub const MANY: u32 = 20;

/// Outcomes are counted in spans of this length, one after the other.
pub const SPAN: Duration = Duration::from_secs(1);

/// The longest an opening lasts, before the 20 %.
pub const LONGEST: Duration = Duration::from_secs(10);

/// State of a breaker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// Questions go out.
    #[default]
    Closed,
    /// No question goes out.
    Open,
    /// One question is trying, or the next will.
    HalfOpen,
}

impl BreakerState {
    /// The word in metrics and `status`.
    pub fn word(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::HalfOpen => "half_open",
        }
    }

    /// Its number in metrics: the further from closed, the greater.
    pub fn number(self) -> u8 {
        match self {
            BreakerState::Closed => 0,
            BreakerState::HalfOpen => 1,
            BreakerState::Open => 2,
        }
    }
}

/// Leave to ask one question. Goes back to the breaker in exactly one of [`Breaker::succeeded`], [`Breaker::failed`] and
/// [`Breaker::unheard`].
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Pass {
    /// How often the breaker had opened: an outcome from before an opening says nothing about the time after.
    era: u64,
    probe: bool,
}

impl Pass {
    /// Whether it is the one question that tries whether the store is back.
    pub fn is_probe(&self) -> bool {
        self.probe
    }
}

/// The state machine. Times are nanoseconds on any clock that does not go back.
#[derive(Debug)]
pub struct Breaker {
    settings: policy::Breaker,
    standing: Standing,
    era: u64,
    /// How long the next opening lasts, in nanoseconds.
    next_nanos: u64,
    in_a_row: u32,
    span_began: u64,
    outcomes: u32,
    failures: u32,
}

#[derive(Debug, Clone, Copy)]
enum Standing {
    Closed,
    Open { until: u64 },
    HalfOpen { probing: bool },
}

impl Breaker {
    /// A closed breaker.
    pub fn new(settings: policy::Breaker) -> Breaker {
        Breaker {
            settings,
            standing: Standing::Closed,
            era: 0,
            next_nanos: first(&settings),
            in_a_row: 0,
            span_began: 0,
            outcomes: 0,
            failures: 0,
        }
    }

    /// Leave to ask, unless the store is left alone at `now`.
    pub fn admit(&mut self, now: u64) -> Option<Pass> {
        let probe = match self.standing {
            Standing::Closed => false,
            Standing::Open { until } if now < until => return None,
            Standing::HalfOpen { probing: true } => return None,
            Standing::Open { .. } | Standing::HalfOpen { probing: false } => true,
        };
        if probe {
            self.standing = Standing::HalfOpen { probing: true };
        }
        Some(Pass { era: self.era, probe })
    }

    /// The store answered.
    pub fn succeeded(&mut self, pass: Pass, now: u64) {
        if pass.era != self.era {
            return;
        }
        if pass.probe {
            self.standing = Standing::Closed;
            self.next_nanos = first(&self.settings);
            (self.outcomes, self.failures) = (0, 0);
        }
        self.in_a_row = 0;
        self.count(now, false);
    }

    /// The store did not answer. Says whether the breaker opened by it. `dice` is a uniform random number.
    pub fn failed(&mut self, pass: Pass, now: u64, dice: u64) -> bool {
        if pass.era != self.era {
            return false;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.count(now, true);
        let half = self.outcomes >= MANY && self.failures >= self.outcomes.div_ceil(2);
        let opens = pass.probe || self.in_a_row >= self.settings.open_after || half;
        if opens {
            self.open(now, dice);
        }
        opens
    }

    /// Nobody waited for the outcome, or there was none that says anything about the store.
    pub fn unheard(&mut self, pass: Pass) {
        if pass.probe && pass.era == self.era {
            self.standing = Standing::HalfOpen { probing: false };
        }
    }

    /// The store has been heard of, by other means than a question: if it is left alone, the next question tries. How long the
    /// next opening lasts is unchanged.
    pub fn sign_of_life(&mut self) {
        if let Standing::Open { .. } = self.standing {
            self.standing = Standing::HalfOpen { probing: false };
        }
    }

    /// Where it stands at `now`.
    pub fn state(&self, now: u64) -> BreakerState {
        match self.standing {
            Standing::Closed => BreakerState::Closed,
            Standing::Open { until } if now < until => BreakerState::Open,
            Standing::Open { .. } | Standing::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    fn open(&mut self, now: u64, dice: u64) {
        // 80 % to 120 %
        let lasts = u128::from(self.next_nanos) * (800 + u128::from(dice % 401)) / 1_000;
        let lasts = u64::try_from(lasts).unwrap_or(u64::MAX);
        self.standing = Standing::Open { until: now.saturating_add(lasts) };
        self.era += 1;
        self.next_nanos = self.next_nanos.saturating_mul(2).min(saturating_nanos(LONGEST));
        self.in_a_row = 0;
        (self.outcomes, self.failures) = (0, 0);
    }

    fn count(&mut self, now: u64, failure: bool) {
        if now.saturating_sub(self.span_began) >= saturating_nanos(SPAN) {
            self.span_began = now;
            (self.outcomes, self.failures) = (0, 0);
        }
        self.outcomes = self.outcomes.saturating_add(1);
        self.failures = self.failures.saturating_add(u32::from(failure));
    }
}

/// The first opening's length.
fn first(settings: &policy::Breaker) -> u64 {
    saturating_nanos(settings.half_open_every.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    /// Dice whose opening lasts exactly its time.
    const EVEN: u64 = 200;

    fn breaker() -> Breaker {
        Breaker::new(policy::Breaker::default())
    }

    fn fail(breaker: &mut Breaker, now: u64) -> bool {
        let pass = breaker.admit(now).unwrap();
        breaker.failed(pass, now, EVEN)
    }

    fn succeed(breaker: &mut Breaker, now: u64) {
        let pass = breaker.admit(now).unwrap();
        breaker.succeeded(pass, now);
    }

    fn opened() -> Breaker {
        let mut breaker = breaker();
        for n in 0..5 {
            assert_eq!(fail(&mut breaker, 0), n == 4);
        }
        breaker
    }

    #[test]
    fn opens_after_failures_in_a_row_and_asks_nothing_while_open() {
        let mut breaker = opened();
        assert_eq!(breaker.state(0), BreakerState::Open);
        assert_eq!(breaker.admit(500 * MS - 1), None);
    }

    #[test]
    fn a_sign_of_life_lets_one_question_try_at_once_and_changes_nothing_else() {
        let mut breaker = opened();
        breaker.sign_of_life();
        assert_eq!(breaker.state(0), BreakerState::HalfOpen);
        let probe = breaker.admit(0).unwrap();
        assert_eq!(breaker.admit(0), None, "one tries");
        // another sign while it tries lets no second one go
        breaker.sign_of_life();
        assert_eq!(breaker.admit(0), None);
        assert!(breaker.failed(probe, 0, EVEN));
        assert_eq!(breaker.admit(1_000 * MS - 1), None, "twice as long, as without the sign");
        let mut well = Breaker::new(policy::Breaker::default());
        well.sign_of_life();
        assert_eq!(well.state(0), BreakerState::Closed);
    }

    #[test]
    fn a_success_ends_the_row() {
        let mut breaker = breaker();
        for n in 0..40 {
            for _ in 0..4 {
                // four of five fail, but never twenty in one span
                assert!(!fail(&mut breaker, n * 1_000 * MS));
            }
            succeed(&mut breaker, n * 1_000 * MS);
        }
        assert_eq!(breaker.state(40_000 * MS), BreakerState::Closed);
    }

    #[test]
    fn opens_when_half_of_many_fail_within_a_second() {
        let mut breaker = breaker();
        for n in 0..9 {
            succeed(&mut breaker, n * MS);
            assert!(!fail(&mut breaker, n * MS));
        }
        succeed(&mut breaker, 10 * MS);
        assert!(fail(&mut breaker, 11 * MS), "the tenth of twenty");
    }

    #[test]
    fn half_open_lets_exactly_one_question_try() {
        let mut breaker = opened();
        let probe = breaker.admit(500 * MS).unwrap();
        assert_eq!(breaker.admit(500 * MS), None);
        assert_eq!(breaker.state(500 * MS), BreakerState::HalfOpen);
        breaker.succeeded(probe, 501 * MS);
        assert_eq!(breaker.state(501 * MS), BreakerState::Closed);
    }

    #[test]
    fn a_probe_that_nobody_waited_for_lets_the_next_try() {
        let mut breaker = opened();
        let probe = breaker.admit(500 * MS).unwrap();
        breaker.unheard(probe);
        assert!(breaker.admit(500 * MS).is_some());
    }

    #[test]
    fn every_failed_probe_doubles_the_wait_up_to_ten_seconds() {
        let mut breaker = opened();
        let mut now = 0;
        for wait in [500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000] {
            assert_eq!(breaker.admit(now + wait * MS - 1), None);
            now += wait * MS;
            assert!(fail(&mut breaker, now));
        }
        now += 10_000 * MS;
        succeed(&mut breaker, now);
        for _ in 0..5 {
            fail(&mut breaker, now);
        }
        assert!(breaker.admit(now + 500 * MS).is_some(), "a success forgets the doubling");
    }

    #[test]
    fn an_opening_lasts_a_fifth_less_or_more() {
        for (dice, lasts) in [(0, 400), (400, 600), (401, 400)] {
            let mut breaker = breaker();
            for _ in 0..5 {
                let pass = breaker.admit(0).unwrap();
                breaker.failed(pass, 0, dice);
            }
            assert_eq!(breaker.admit(lasts * MS - 1), None);
            assert!(breaker.admit(lasts * MS).is_some());
        }
    }

    #[test]
    fn outcomes_from_before_an_opening_say_nothing_about_the_time_after() {
        let mut breaker = breaker();
        let (late, later) = (breaker.admit(0).unwrap(), breaker.admit(0).unwrap());
        for _ in 0..5 {
            fail(&mut breaker, 0);
        }
        breaker.succeeded(late, MS);
        assert!(!breaker.failed(later, MS, EVEN));
        assert_eq!(breaker.state(MS), BreakerState::Open);
        assert_eq!(breaker.era, 1);
    }
}
