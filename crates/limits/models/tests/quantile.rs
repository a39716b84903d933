//! The upper quantile: a number that was counted is not answered too low, whoever asks at the same time.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use tidegate_limits::sketch::UpperQuantile;
use tidegate_limits::sync::stepwise;

use crate::{at, explore};

const PERIOD: u64 = 60_000_000_000;

/// An answer reads five hundred words, so the search is cut off: passing it is evidence and not a proof.
const MOST_RUNS: usize = 500;

#[test]
pub fn a_number_that_is_seen_is_answered_whole() {
    explore(1, Some(MOST_RUNS), || {
        stepwise(|| {
            let quantile = Arc::new(UpperQuantile::new(990, Duration::from_nanos(PERIOD)));
            let seeing = quantile.clone();
            // a smaller one before, so that somebody has to look
            quantile.see(1, at(0));
            let thread = thread::spawn(move || seeing.see(1_000, at(0)));
            let early = quantile.get(at(0));
            assert!(early.is_some_and(|answer| answer == 1 || answer >= 1_000), "{early:?}");
            thread.join().unwrap();
            quantile.see(1, at(0));
            assert_eq!(quantile.get(at(0)), Some(1_000), "after {early:?}");
        });
    });
}

#[test]
pub fn a_number_that_is_seen_as_the_period_turns_is_answered_whole_or_forgotten() {
    explore(1, Some(MOST_RUNS), || {
        let quantile = Arc::new(UpperQuantile::new(990, Duration::from_nanos(PERIOD)));
        let seeing = quantile.clone();
        let thread = thread::spawn(move || seeing.see(1_000, at(PERIOD)));
        let _ = quantile.get(at(PERIOD));
        thread.join().unwrap();
        let answer = quantile.get(at(PERIOD));
        assert!(answer.is_none_or(|answer| answer >= 1_000), "{answer:?}");
    });
}
