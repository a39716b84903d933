//! The number of requests that an origin should carry at once, found from its answers.
//!
//! * [`aimd`]: adds one while all is well, takes a tenth away when it is not.
//! * [`gradient`]: compares the time to answer with its usual value.
//!
//! Only requests that were sent and have ended count as a [`Sample`]; refused requests do not. Both algorithms fold one sample
//! after the other, without a clock. [`Adaptive`] shares one of them between threads. Clients do not see this limit: it moves the
//! number of an origin's places between a least and a most.
//!
//! Sources: Chiu and Jain 1989 (additive increase, multiplicative decrease); Jacobson 1988 (at most one decrease per round trip,
//! exponential start); Netflix concurrency-limits, `Gradient2Limit`.

pub mod aimd;
mod ceiling;
pub mod gradient;
#[cfg(test)]
mod simulated;
pub mod spec;

use std::sync::Mutex;

use aimd::Aimd;
use gradient::Gradient;
pub use spec::{AdaptiveSpec, Algorithm, Sample, Target};

/// An algorithm between threads.
#[derive(Debug)]
pub struct Adaptive {
    // only ever tried, so that no request waits for another: who finds it taken leaves its sample out. Samples are lost
    // without regard to what they say, so what is left is as good
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Aimd(Aimd),
    Gradient(Box<Gradient>),
}

impl Adaptive {
    /// At its start: the cap is the least.
    pub fn new(spec: &AdaptiveSpec) -> Adaptive {
        let state = match spec.algorithm {
            Algorithm::Aimd => State::Aimd(Aimd::new(spec)),
            Algorithm::Gradient => State::Gradient(Box::new(Gradient::new(spec))),
        };
        Adaptive { state: Mutex::new(state) }
    }

    /// Takes a request into account that has ended. `set` is told the number of places if it is another than there `is`.
    pub fn completed(&self, sample: &Sample, is: impl FnOnce() -> u32, set: impl FnOnce(u32)) {
        let Ok(mut state) = self.state.try_lock() else { return };
        let cap = match &mut *state {
            State::Aimd(aimd) => aimd.completed(sample),
            State::Gradient(gradient) => gradient.completed(sample),
        };
        // still under the lock, so that an older number never overwrites a newer one
        if cap != is() {
            set(cap);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Timestamp;

    fn spec(algorithm: Algorithm) -> AdaptiveSpec {
        AdaptiveSpec { algorithm, min: 4, max: 40, target: None }
    }

    fn sample(at: u64, failed: bool) -> Sample {
        let ms = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
        Sample { began: ms(at), ended: ms(at + 10), inflight: 40, failed }
    }

    #[test]
    fn the_places_follow_and_never_leave_their_bounds() {
        for algorithm in [Algorithm::Aimd, Algorithm::Gradient] {
            let spec = spec(algorithm);
            let adaptive = Adaptive::new(&spec);
            let mut places = spec.min;
            for round in 0..5_000 {
                let is = places;
                adaptive.completed(&sample(round * 20, false), || is, |set| places = set);
                assert!((4..=40).contains(&places), "{algorithm:?}: {places}");
            }
            assert_eq!(places, 40, "{algorithm:?}: nothing speaks against the most");
            for round in 5_000..5_500 {
                let is = places;
                adaptive.completed(&sample(round * 20, true), || is, |set| places = set);
                assert!((4..=40).contains(&places), "{algorithm:?}: {places}");
            }
            assert_eq!(places, 4, "{algorithm:?}: nothing speaks for more than the least");
        }
    }
}
