//! Counters of a store's client.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::limiter::sharing::{Answer, StoreError};
use crate::units::time::saturating_nanos;

/// Upper ends of the buckets of [`Counters::durations`], in microseconds; one more bucket holds what took longer.
pub const BUCKETS_MICROS: [u64; 10] = [250, 500, 1_000, 2_000, 3_000, 5_000, 7_500, 10_000, 25_000, 50_000];

/// Counts since the start. Relaxed everywhere: nothing is published by them.
#[derive(Debug, Default)]
pub struct Counters {
    /// Questions, whatever became of them.
    pub asked: AtomicU64,
    /// Questions with an answer, refusals among them.
    pub answered: AtomicU64,
    /// Questions without one, in the order of [`StoreError::ALL`].
    pub silent: [AtomicU64; StoreError::ALL.len()],
    /// How often a connection to a server was made.
    pub connected: AtomicU64,
    /// How often a breaker opened.
    pub breaker_opened: AtomicU64,
    /// How many questions that were sent took how long, those without an answer too: not cumulative, see [`BUCKETS_MICROS`].
    pub durations: [AtomicU64; BUCKETS_MICROS.len() + 1],
    /// How long they took together, in nanoseconds.
    pub duration_nanos: AtomicU64,
}

impl Counters {
    /// Counts one question. `sent_for` is how long it was waited for, if it was sent.
    pub fn heard(&self, outcome: &Result<Answer, StoreError>, sent_for: Option<Duration>) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match outcome {
            Ok(_) => _ = self.answered.fetch_add(1, Ordering::Relaxed),
            Err(store_error) => {
                for (counter, _) in self.silent.iter().zip(StoreError::ALL).filter(|(_, kind)| kind == store_error) {
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        let Some(took) = sent_for else { return };
        let micros = took.as_micros();
        let bucket = BUCKETS_MICROS.partition_point(|&end| u128::from(end) < micros);
        if let Some(counter) = self.durations.get(bucket) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
        self.duration_nanos.fetch_add(saturating_nanos(took), Ordering::Relaxed);
    }

    /// How many questions met this silence.
    pub fn silent(&self, store_error: StoreError) -> u64 {
        let mut all = self.silent.iter().zip(StoreError::ALL);
        all.find(|(_, kind)| *kind == store_error).map_or(0, |(counter, _)| counter.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_the_bucket_whose_end_it_does_not_pass() {
        let counters = Counters::default();
        for micros in [0, 250, 251, 50_000, 50_001] {
            counters.heard(&Err(StoreError::TimedOut), Some(Duration::from_micros(micros)));
        }
        let counts: Vec<u64> = counters.durations.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        assert_eq!(counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(counters.silent(StoreError::TimedOut), 5);
        assert_eq!(counters.silent(StoreError::Busy), 0);
    }

    #[test]
    fn a_question_that_was_not_sent_has_no_duration() {
        let counters = Counters::default();
        counters.heard(&Err(StoreError::Breaker), None);
        assert_eq!(counters.asked.load(Ordering::Relaxed), 1);
        assert!(counters.durations.iter().all(|count| count.load(Ordering::Relaxed) == 0));
    }
}
