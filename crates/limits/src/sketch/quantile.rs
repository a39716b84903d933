//! An upper quantile of numbers seen lately, in 2 KiB and without locks.
//!
//! Two histograms take turns, each for one period: what is seen goes to the present one, and the answer is read from both. So
//! a number counts for one to two periods and is then forgotten. A bucket is at most an eighth wider than its smallest
//! number, and the answer is its upper end, though never more than the greatest number seen: never below the quantile, and at most an
//! eighth above it.
//!
//! With few numbers the quantile is the greatest: of fewer than 1/(1 − q) numbers none is left out. With more, so many of the
//! greatest are left out as lie above the share q; one stray number among many moves nothing.
//!
//! Two threads at the turn of a period may lose a number that both count just then, and one that is seen while the answer is found
//! out may count only from the next number on. By one thread, the same numbers at the same times
//! give the same answers.

use std::io;
use std::time::Duration;

use crate::saved::{Fault, Reader, Writer, restore_cells, save_cells};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::units::Timestamp;
use crate::units::time::saturating_nanos;

/// Numbers below this have a bucket each.
const EXACT: u32 = 16;
/// Buckets for each doubling above.
const STEPS: u32 = 8;
const BUCKETS: usize = (EXACT + (32 - EXACT.ilog2()) * STEPS) as usize;

/// An upper quantile of the numbers of the last one to two periods.
#[derive(Debug)]
pub struct UpperQuantile {
    per_mille: u64,
    period_nanos: u64,
    /// The period that the present histogram belongs to, counted from time zero.
    period: AtomicU64,
    histograms: [Histogram; 2],
    /// The answer plus one; zero while nothing is known.
    known: AtomicU64,
    /// A number was counted since the answer was found out.
    stale: AtomicBool,
}

#[derive(Debug)]
struct Histogram {
    counts: [AtomicU32; BUCKETS],
    greatest: AtomicU32,
}

impl UpperQuantile {
    /// Nothing seen. `per_mille` is the quantile, such as 950; at least 1 and at most 1000.
    pub fn new(per_mille: u32, period: Duration) -> UpperQuantile {
        UpperQuantile {
            per_mille: u64::from(per_mille.clamp(1, 1000)),
            period_nanos: saturating_nanos(period).max(1),
            period: AtomicU64::new(0),
            histograms: [Histogram::default(), Histogram::default()],
            known: AtomicU64::new(0),
            stale: AtomicBool::new(false),
        }
    }

    /// Counts a number.
    pub fn see(&self, number: u32, now: Timestamp) {
        let period = self.turn(now);
        if let Some(present) = self.histograms.get((period & 1) as usize) {
            present.see(number);
        }
        // looked at first, as all threads share it and mostly nobody asks
        if !self.stale.load(Ordering::Relaxed) {
            self.stale.store(true, Ordering::Relaxed);
        }
    }

    /// The quantile; `None` when no number was seen lately.
    pub fn get(&self, now: Timestamp) -> Option<u32> {
        let before = self.period.load(Ordering::Relaxed);
        // what is counted while the answer is found out makes it stale again
        if self.turn(now) != before || self.stale.load(Ordering::Relaxed) && self.stale.swap(false, Ordering::Relaxed) {
            self.known.store(self.read().map_or(0, |number| u64::from(number) + 1), Ordering::Relaxed);
        }
        self.known.load(Ordering::Relaxed).checked_sub(1).and_then(|number| u32::try_from(number).ok())
    }

    /// Writes what it has seen. Numbers that are seen meanwhile may be in it or not.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn save(&self, to: &mut Writer<'_>) -> io::Result<()> {
        to.number(self.period.load(Ordering::Relaxed))?;
        self.histograms.iter().try_for_each(|histogram| {
            to.number(u64::from(histogram.greatest.load(Ordering::Relaxed)))?;
            save_cells(to, histogram.counts.iter().map(|count| u64::from(count.load(Ordering::Relaxed))))
        })
    }

    /// Reads what was [saved](UpperQuantile::save) of one with the same period, into one that has seen nothing.
    ///
    /// # Errors
    /// Damaged bytes, and other numbers than there can be.
    pub fn restore(&self, from: &mut Reader<'_>) -> Result<(), Fault> {
        self.period.store(from.number()?, Ordering::Relaxed);
        for histogram in &self.histograms {
            let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            histogram.greatest.store(number(from.number_up_to(u64::from(u32::MAX))?), Ordering::Relaxed);
            restore_cells(from, BUCKETS, |at, count| {
                if let Some(cell) = histogram.counts.get(at) {
                    cell.store(number(count), Ordering::Relaxed);
                }
            })?;
        }
        self.stale.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Forgets what is too old; returns the present period, which never goes back.
    fn turn(&self, now: Timestamp) -> u64 {
        let wanted = now.nanos() / self.period_nanos;
        let present = self.period.load(Ordering::Relaxed);
        if wanted <= present {
            return present;
        }
        let before = self.period.fetch_max(wanted, Ordering::Relaxed);
        if wanted <= before {
            return before;
        }
        // only the thread that moved the period empties what it left behind
        for (index, histogram) in self.histograms.iter().enumerate() {
            if wanted - before > 1 || index as u64 == wanted & 1 {
                histogram.clear();
            }
        }
        wanted
    }

    fn read(&self) -> Option<u32> {
        let [one, other] = &self.histograms;
        let both = one.counts.iter().zip(&other.counts);
        let counts =
            both.map(|(one, other)| u64::from(one.load(Ordering::Relaxed)) + u64::from(other.load(Ordering::Relaxed)));
        let all: u64 = counts.clone().sum();
        // so many may lie above the answer
        let above = all - (all * self.per_mille).div_ceil(1000);
        let mut seen = 0;
        let greatest = one.greatest.load(Ordering::Relaxed).max(other.greatest.load(Ordering::Relaxed));
        for (bucket, count) in counts.enumerate().rev() {
            seen += count;
            if seen > above {
                // a greatest number from below the bucket is an old one, or one that was forgotten as the period turned
                return Some(if bucket_of(greatest) == bucket { greatest } else { upper_end(bucket) });
            }
        }
        None
    }
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: std::array::from_fn(|_| AtomicU32::new(0)), greatest: AtomicU32::new(0) }
    }
}

impl Histogram {
    fn see(&self, number: u32) {
        if number > self.greatest.load(Ordering::Relaxed) {
            self.greatest.fetch_max(number, Ordering::Relaxed);
        }
        if let Some(count) = self.counts.get(bucket_of(number)) {
            // a bucket that is full stays full
            let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_add(1));
        }
    }

    fn clear(&self) {
        self.greatest.store(0, Ordering::Relaxed);
        for count in &self.counts {
            count.store(0, Ordering::Relaxed);
        }
    }
}

fn bucket_of(number: u32) -> usize {
    if number < EXACT {
        return number as usize;
    }
    let octave = number.ilog2();
    let step = (number >> (octave - STEPS.ilog2())) - STEPS;
    (EXACT + (octave - EXACT.ilog2()) * STEPS + step) as usize
}

/// The greatest number of a bucket.
fn upper_end(bucket: usize) -> u32 {
    let bucket = bucket as u32;
    if bucket < EXACT {
        return bucket;
    }
    let (octave, step) = ((bucket - EXACT) / STEPS + EXACT.ilog2(), (bucket - EXACT) % STEPS);
    let next = u64::from(STEPS + step + 1) << (octave - STEPS.ilog2());
    u32::try_from(next - 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PERIOD: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn every_number_has_a_bucket_that_ends_at_most_an_eighth_above_it() {
        let edges = (0..32).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for number in edges.chain(0..5000).chain([u64::from(u32::MAX)]).map(|number| number as u32) {
            let end = upper_end(bucket_of(number));
            assert!(bucket_of(number) < BUCKETS && end >= number, "{number}");
            assert!(u64::from(end) <= u64::from(number) + u64::from(number) / 8, "{number} {end}");
            assert_eq!(bucket_of(end), bucket_of(number));
        }
    }

    #[test]
    fn a_stray_number_counts_while_few_are_known_and_is_forgotten_in_two_periods() {
        let quantile = UpperQuantile::new(950, PERIOD);
        assert_eq!(quantile.get(at(0)), None);
        quantile.see(1000, at(1));
        assert_eq!(quantile.get(at(1)), Some(1000));
        (0..18).for_each(|_| quantile.see(10, at(2)));
        assert_eq!(quantile.get(at(2)), Some(1000), "one of nineteen");
        quantile.see(10, at(3));
        assert_eq!(quantile.get(at(3)), Some(10), "one of twenty");
        let quantile = UpperQuantile::new(950, PERIOD);
        quantile.see(1000, at(59));
        assert_eq!(
            (quantile.get(at(60)), quantile.get(at(119)), quantile.get(at(120))),
            (Some(1000), Some(1000), None)
        );
        quantile.see(7, at(121));
        assert_eq!(quantile.get(at(500)), None);
    }

    proptest! {
        /// Against the definition: of the numbers that count, at most the share above q is greater than the answer.
        #[test]
        fn never_below_the_quantile_and_at_most_an_eighth_above(
            numbers in prop::collection::vec((0..3_u32, 0_u32..2_000_000), 1..300),
            per_mille in 1_u32..=1000,
        ) {
            let quantile = UpperQuantile::new(per_mille, PERIOD);
            let mut seen: Vec<u32> = Vec::new();
            for (shift, number) in numbers {
                let number = number >> (shift * 7);
                quantile.see(number, at(30));
                seen.push(number);
                seen.sort_unstable();
                let rank = (seen.len() * per_mille as usize).div_ceil(1000).max(1);
                let exact = seen[rank - 1];
                let answer = quantile.get(at(59)).unwrap();
                prop_assert!(answer >= exact && answer <= exact + exact / 8, "{answer} {exact}");
            }
        }
    }
}
