//! The last seconds of what was forwarded: in a single one there may be too few to tell a share or a quantile.

use std::collections::VecDeque;

use super::quantile::quantile;
use crate::observe::state::{Answers, Recent};

/// Length of the window, in seconds.
pub const WINDOW: usize = 10;

/// Requests that were forwarded and ended: since the start, or in one second.
#[derive(Debug, Clone, Default)]
pub struct Forwarded {
    pub answers: Answers,
    /// By the time to the answer's head.
    pub durations: Vec<u64>,
}

impl Forwarded {
    /// Takes over totals and returns what they grew by. A count that is lower than before began anew.
    pub fn grow(&mut self, answers: Answers, durations: &[u64]) -> Forwarded {
        let mut counts = self.answers.counts();
        let mut more = answers.counts();
        counts.iter_mut().zip(&mut more).for_each(|(before, now)| *now = grown(before, *now));
        self.answers = answers;
        self.durations.resize(durations.len(), 0);
        let durations = self.durations.iter_mut().zip(durations).map(|(before, now)| grown(before, *now));
        Forwarded { answers: Answers::of(more), durations: durations.collect() }
    }

    /// Adds another's.
    pub fn add(&mut self, more: &Forwarded) {
        self.answers += more.answers;
        if self.durations.len() < more.durations.len() {
            self.durations.resize(more.durations.len(), 0);
        }
        self.durations.iter_mut().zip(&more.durations).for_each(|(sum, more)| *sum += more);
    }
}

/// Returns what a counter grew by; one that is lower than before began anew, as its name had gone and came back.
pub fn grown(before: &mut u64, now: u64) -> u64 {
    let grown = now.checked_sub(*before).unwrap_or(now);
    *before = now;
    grown
}

/// What was forwarded in each of the last seconds, the oldest first.
#[derive(Debug, Default)]
pub struct Lately(VecDeque<Forwarded>);

impl Lately {
    /// Adds a second, and forgets one that is too old.
    pub fn push(&mut self, second: Forwarded) {
        if self.0.len() == WINDOW {
            self.0.pop_front();
        }
        self.0.push_back(second);
    }

    /// Returns all of them together.
    pub fn sum(&self) -> Forwarded {
        let mut sum = Forwarded::default();
        self.0.iter().for_each(|second| sum.add(second));
        sum
    }

    /// Returns the window as it is shown, with durations up to these bounds.
    pub fn recent(&self, bounds: &[f64]) -> Recent {
        let Forwarded { answers, durations } = self.sum();
        Recent {
            seconds: self.0.len() as u64,
            answers,
            p50_seconds: quantile(bounds, &durations, 0.5),
            p99_seconds: quantile(bounds, &durations, 0.99),
        }
    }
}
