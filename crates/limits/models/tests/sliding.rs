//! Sliding windows: requests that cross at a boundary, also while the tables change.

use std::sync::Arc;

use tidegate_limits::sketch::rekeyed::PERIOD_NANOS;
use tidegate_limits::sketch::{Seed, SlidingWindows};
use tidegate_limits::sync::AtomicU64;

use crate::shorthand::{LENGTH, breaks_the_promise, window};
use crate::{at, cost, explore, key};

const SEED: Seed = Seed::from_bytes([6; 16]);

const OVER: &str = "more than the limit across the boundary";

/// One thread asks for each of the stamps at once; the promise must hold whatever is admitted.
fn race<const ROWS: usize>(limit: u32, stamps: &'static [u64], preemptions: usize) {
    explore(preemptions, None, move || {
        let windows = Arc::new(SlidingWindows::<AtomicU64, ROWS>::with_shape(window(limit, 0), 1, &SEED).unwrap());
        let asks = |windows: &SlidingWindows<AtomicU64, ROWS>, now| windows.admit(key(0), at(now), cost(1)).admitted;
        let others: Vec<_> = stamps[1..]
            .iter()
            .map(|now| {
                let windows = windows.clone();
                loom::thread::spawn(move || (*now, asks(&windows, *now)))
            })
            .collect();
        let mut outcomes = vec![(stamps[0], asks(&windows, stamps[0]))];
        outcomes.extend(others.into_iter().map(|thread| thread.join().unwrap()));
        let admitted: Vec<(u64, u32)> =
            outcomes.iter().filter(|(_, admitted)| *admitted).map(|(now, _)| (*now, 1)).collect();
        assert!(!breaks_the_promise(limit, 0, &admitted), "{OVER}");
    });
}

#[test]
pub fn two_requests_that_cross_at_a_boundary_keep_the_promise() {
    race::<1>(1, &[LENGTH - 1, LENGTH], 4);
    race::<2>(1, &[LENGTH - 1, LENGTH], 3);
    race::<1>(2, &[LENGTH - 1, LENGTH - 1, LENGTH], 2);
    race::<1>(1, &[LENGTH - 1, LENGTH, 2 * LENGTH], 2);
}

#[test]
pub fn two_requests_that_cross_at_a_boundary_while_the_tables_change_keep_the_promise() {
    // as both pairs begin to overlap, and as they end
    for (steps, boundary) in [(vec![0], PERIOD_NANOS), (vec![0, PERIOD_NANOS, PERIOD_NANOS], PERIOD_NANOS + 3 * LENGTH)]
    {
        explore(3, None, move || {
            let windows = SlidingWindows::<AtomicU64, 1>::with_shape(window(1, 0), 1, &SEED).unwrap();
            let windows = Arc::new(windows);
            steps.iter().for_each(|now| windows.maintain(at(*now)));
            let changing = windows.clone();
            let later = loom::thread::spawn(move || {
                changing.maintain(at(boundary));
                changing.admit(key(0), at(boundary), cost(1)).admitted
            });
            let earlier = windows.admit(key(0), at(boundary - 1), cost(1)).admitted;
            let both = [(boundary - 1, earlier), (boundary, later.join().unwrap())];
            let admitted: Vec<(u64, u32)> =
                both.iter().filter(|(_, passed)| *passed).map(|(now, _)| (*now, 1)).collect();
            assert!(!breaks_the_promise(1, 0, &admitted), "{both:?}");
        });
    }
}
