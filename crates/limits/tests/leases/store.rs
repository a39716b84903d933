//! The store by the letter of its promise: what any real one has to do with a question. Written apart from
//! [`tidegate_limits::limiter::sharing::promise`], which is what the scripts compute, so that the two are held against one law.

use std::collections::HashMap;

use tidegate_limits::limiter::sharing::{Answer, Asking, Promise};

/// One limit in the store, by key. Its time is its own.
pub struct Store {
    promise: Promise,
    /// Of a rate the theoretical arrival time, of a quota window and use.
    levels: HashMap<u64, (u64, u64)>,
    /// Everything that was ever granted.
    pub granted: u64,
    pub questions: u64,
}

impl Store {
    pub fn new(promise: Promise) -> Store {
        Store { promise, levels: HashMap::new(), granted: 0, questions: 0 }
    }

    /// Answers what `asking` asks about the key, at the store's time `now`.
    pub fn answer(&mut self, key: u64, asking: &Asking, now: u64) -> Answer {
        self.questions += 1;
        let (wanted, least) = (u64::from(asking.wanted()), u64::from(asking.least()));
        assert!(least >= 1 && wanted >= least, "{asking:?}");
        let level = self.levels.entry(key).or_default();
        let (granted, left, retry, ends) = match self.promise {
            Promise::Rate { rate, burst } => {
                let interval = rate.interval_nanos();
                let full = interval * u64::from(burst);
                let from = level.0.max(now);
                let fits = (now + full - from) / interval;
                let granted = if fits >= least { fits.min(wanted) } else { 0 };
                level.0 = from + granted * interval;
                let retry = (least <= u64::from(burst)).then(|| (from + least * interval).saturating_sub(now + full));
                (granted, fits - granted, retry, u64::MAX)
            }
            // of one that slides, what its windows alone allow
            Promise::Quota { max, window }
            | Promise::Sliding { max, window }
            | Promise::Calendar { max, nominal: window, .. } => {
                let length = window.as_nanos() as u64;
                let (number, rest) = (now / length, length - now % length);
                if level.0 != number {
                    *level = (number, 0);
                }
                let fits = u64::from(max) - level.1;
                let granted = if fits >= least { fits.min(wanted) } else { 0 };
                level.1 += granted;
                (granted, fits - granted, (least <= u64::from(max)).then_some(rest), rest)
            }
            Promise::Places { .. } | Promise::Values { .. } => panic!("nothing is taken in advance"),
        };
        self.granted += granted;
        let retry_nanos = if granted > 0 { Some(0) } else { retry };
        Answer { granted: granted as u32, left: left as u32, retry_nanos, ends_nanos: ends }
    }
}
