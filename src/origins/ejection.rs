//! Which addresses of an origin are left out because requests to them fail: passive health, or outlier detection as Envoy
//! calls it.
//!
//! An address is ejected after so many failures in a row, or when a share of its requests within a window of the clock fail.
//! Each ejection lasts twice as long as the one before it, up to a bound; every window without one takes a doubling back. At
//! most a share of an origin's addresses is out at once, and never all that are left. An address that returns is on probation: its first
//! failure ejects it again, its first success lifts that.
//!
//! Fixed memory per address, no lock: a report is one or two atomic operations on words of its own address. Whether there is
//! room for one more ejection is looked up under a lock that is only tried: a thread that finds it taken leaves the ejection to
//! the next failure.
//!
//! Sources: Envoy, "Outlier detection" (consecutive 5xx, failure percentage, ejection times, maximum ejection percentage).
//! The probation is a circuit breaker's half-open state (Nygard 2007, "Release It!").

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::policy::Ejection;
use crate::units::Timestamp;
use crate::units::time::saturating_nanos;

/// What the reports about one address have come to.
#[derive(Debug, Default)]
pub struct Record {
    /// Failures in a row. Relaxed throughout: each word stands for itself, and a report that is judged by a value of a moment
    /// ago ejects a moment later.
    failures: AtomicU32,
    /// The present window: its number (20 bits), requests (22), failures (22).
    window: AtomicU64,
    /// When the last ejection ends or ended, in nanoseconds; zero before the first.
    until: AtomicU64,
    /// How often the time has been doubled.
    doublings: AtomicU32,
    ejections: AtomicU64,
}

/// Why an address should be ejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// So many failures in a row.
    InARow,
    /// A share of the requests in the window.
    Share,
}

impl Cause {
    /// The word in the log.
    pub fn word(self) -> &'static str {
        match self {
            Cause::InARow => "consecutive_failures",
            Cause::Share => "error_share",
        }
    }
}

impl Record {
    /// Whether requests are kept from the address.
    pub fn is_out(&self, now: Timestamp) -> bool {
        now.nanos() < self.until.load(Ordering::Relaxed)
    }

    /// When the last ejection ended or will; [`Timestamp::ZERO`] when there was none.
    pub fn ends(&self) -> Timestamp {
        Timestamp::from_nanos(self.until.load(Ordering::Relaxed))
    }

    /// How often the address was ejected.
    pub fn ejections(&self) -> u64 {
        self.ejections.load(Ordering::Relaxed)
    }

    /// A request that was sent at `began` ended at `now`; says whether the address should be ejected for it. What was sent
    /// before the last ejection ended says nothing new.
    pub fn note(&self, spec: &Ejection, failed: bool, began: Timestamp, now: Timestamp) -> Option<Cause> {
        if began.nanos() < self.until.load(Ordering::Relaxed) {
            return None;
        }
        let row = if failed {
            // saturating: a word that wrapped would forgive everything
            let before = self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |row| row.checked_add(1));
            before.unwrap_or(u32::MAX).saturating_add(1)
        } else {
            if self.failures.load(Ordering::Relaxed) != 0 {
                self.failures.store(0, Ordering::Relaxed);
            }
            0
        };
        let (requests, failures) = self.count(spec, failed, now);
        if failed && row >= spec.consecutive_failures {
            return Some(Cause::InARow);
        }
        let over = f64::from(failures) >= spec.error_share.get() * f64::from(requests);
        (failed && requests >= spec.min_requests && over).then_some(Cause::Share)
    }

    /// Ejects the address if fewer than `most` are out; gives for how long. `out` are the records that are out now.
    ///
    /// To be called by one thread at a time.
    pub fn eject(&self, spec: &Ejection, out: usize, most: usize, now: Timestamp) -> Option<Duration> {
        let until = self.until.load(Ordering::Relaxed);
        if out >= most || now.nanos() < until {
            return None;
        }
        let well = now.nanos().saturating_sub(until) / saturating_nanos(spec.window).max(1);
        let taken_back = u32::try_from(well).unwrap_or(u32::MAX);
        let doublings = match until {
            0 => 0,
            // two to the 40th times a millisecond is 34 years
            _ => self.doublings.load(Ordering::Relaxed).saturating_add(1).saturating_sub(taken_back).min(40),
        };
        let length = spec.base.saturating_mul(1 << doublings.min(31)).min(spec.max);
        self.doublings.store(doublings, Ordering::Relaxed);
        // on probation from its return on
        self.failures.store(spec.consecutive_failures.saturating_sub(1), Ordering::Relaxed);
        self.window.store(0, Ordering::Relaxed);
        self.ejections.fetch_add(1, Ordering::Relaxed);
        self.until.store(now.after(length).nanos(), Ordering::Relaxed);
        Some(length)
    }

    /// Counts in the present window, which is begun anew when the clock has left it; gives its counts.
    fn count(&self, spec: &Ejection, failed: bool, now: Timestamp) -> (u32, u32) {
        let number = (now.nanos() / saturating_nanos(spec.window).max(1)) & NUMBER;
        let mut after = (0, 0);
        let _ = self.window.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            let (mut requests, mut failures) = match word >> 44 == number {
                true => ((word >> 22) & COUNT, word & COUNT),
                false => (0, 0),
            };
            if requests == COUNT {
                // the share stays what it is
                (requests, failures) = (requests / 2, failures / 2);
            }
            requests += 1;
            failures += u64::from(failed);
            after = (requests as u32, failures as u32);
            Some((number << 44) | (requests << 22) | failures)
        });
        after
    }
}

const NUMBER: u64 = (1 << 20) - 1;
const COUNT: u64 = (1 << 22) - 1;

/// How many of `addresses` may be out at once: the share, rounded down, but one if there are two or more, and never all.
pub fn most_out(spec: &Ejection, addresses: usize) -> usize {
    let share = (spec.most.get() * addresses as f64 + 1e-9) as usize;
    share.max(1).min(addresses.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::units::Share;

    fn spec() -> Ejection {
        Ejection {
            consecutive_failures: 3,
            error_share: Share::new(0.5).unwrap(),
            window: Duration::from_secs(10),
            min_requests: 20,
            base: Duration::from_secs(10),
            max: Duration::from_secs(60),
            most: Share::new(0.5).unwrap(),
        }
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    fn fail(record: &Record, seconds: u64) -> Option<Cause> {
        record.note(&spec(), true, at(seconds), at(seconds))
    }

    #[test]
    fn so_many_failures_in_a_row_and_a_success_forgives_them() {
        let record = Record::default();
        assert_eq!((fail(&record, 1), fail(&record, 1)), (None, None));
        assert_eq!(record.note(&spec(), false, at(1), at(1)), None);
        assert_eq!((fail(&record, 1), fail(&record, 1)), (None, None));
        assert_eq!(fail(&record, 1), Some(Cause::InARow));
    }

    #[test]
    fn a_share_of_enough_requests_in_one_window() {
        let record = Record::default();
        for n in 0..19 {
            assert_eq!(record.note(&spec(), n % 2 == 0, at(1), at(1)), None, "too few to tell");
        }
        assert_eq!(fail(&record, 1), Some(Cause::Share));
        let record = Record::default();
        for n in 0..18 {
            record.note(&spec(), n % 2 == 0, at(1), at(1));
        }
        for n in 0..19 {
            assert_eq!(record.note(&spec(), n % 2 == 0, at(11), at(11)), None, "another window");
        }
    }

    #[test]
    fn each_ejection_is_twice_as_long_up_to_the_bound_and_quiet_windows_shorten_it() {
        let record = Record::default();
        let mut now = 100;
        for length in [10, 20, 40, 60, 60] {
            assert_eq!(record.eject(&spec(), 0, 1, at(now)), Some(Duration::from_secs(length)));
            assert!(record.is_out(at(now)) && record.is_out(at(now + length - 1)) && !record.is_out(at(now + length)));
            now += length;
        }
        // four doublings, three windows of ten seconds without an ejection
        now += 30;
        assert_eq!(record.eject(&spec(), 0, 1, at(now)), Some(Duration::from_secs(40)));
        now += 40 + 10_000;
        assert_eq!(record.eject(&spec(), 0, 1, at(now)), Some(Duration::from_secs(10)), "all is forgotten");
        assert_eq!(record.ejections(), 7);
    }

    #[test]
    fn who_returns_is_on_probation_and_late_news_from_before_do_not_count() {
        let record = Record::default();
        record.eject(&spec(), 0, 1, at(100)).unwrap();
        assert_eq!(record.note(&spec(), true, at(99), at(120)), None, "sent before it was ejected");
        assert_eq!(record.note(&spec(), true, at(111), at(120)), Some(Cause::InARow));
        let record = Record::default();
        record.eject(&spec(), 0, 1, at(100)).unwrap();
        assert_eq!(record.note(&spec(), false, at(111), at(112)), None);
        assert_eq!(fail(&record, 113), None, "one success lifts the probation");
    }

    #[test]
    fn never_more_than_the_share_and_never_all() {
        for (addresses, most) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (10, 5)] {
            assert_eq!(most_out(&spec(), addresses), most, "{addresses} addresses");
        }
        let all = Ejection { most: Share::ALL, ..spec() };
        assert_eq!((most_out(&all, 1), most_out(&all, 4)), (0, 3));
        let few = Ejection { most: Share::new(0.1).unwrap(), ..spec() };
        assert_eq!((most_out(&few, 3), most_out(&few, 30)), (1, 3));
    }

    #[test]
    fn a_clock_that_steps_back_keeps_it_out_no_longer_than_planned() {
        let record = Record::default();
        record.eject(&spec(), 0, 1, at(100)).unwrap();
        assert!(record.is_out(at(50)));
        assert!(!record.is_out(at(110)));
        assert_eq!(record.eject(&spec(), 0, 1, at(50)), None, "it is out already");
    }

    proptest! {
        #[test]
        fn the_floor_and_the_bounds_of_time_hold_under_any_sequence(
            addresses in 1_usize..8,
            events in prop::collection::vec((0_usize..8, any::<bool>(), 0_u64..40), 0..400),
        ) {
            let records: Vec<Record> = (0..addresses).map(|_| Record::default()).collect();
            let most = most_out(&spec(), addresses);
            let mut now = 1;
            for (who, failed, later) in events {
                now += later;
                let record = &records[who % addresses];
                if record.is_out(at(now)) {
                    continue;
                }
                if record.note(&spec(), failed, at(now), at(now)).is_some() {
                    let out = records.iter().filter(|record| record.is_out(at(now))).count();
                    if let Some(length) = record.eject(&spec(), out, most, at(now)) {
                        prop_assert!((spec().base..=spec().max).contains(&length));
                    }
                }
                let out = records.iter().filter(|record| record.is_out(at(now))).count();
                prop_assert!(out <= most && (addresses < 2 || out < addresses), "{out} of {addresses} are out");
            }
        }
    }
}
