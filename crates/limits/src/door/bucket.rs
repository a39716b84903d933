//! The units of a rate, in one word.

use crate::sync::{AtomicU64, Ordering};
use crate::units::Timestamp;

/// A bucket that fills at a rate. It is kept as the moment at which it will be full: a unit that is taken moves that moment on by the time
/// in which one comes. A moment that is past says that it is full.
///
/// **Other numbers** are written beside those in force. One exchange of the word makes them those in force and says the moment in their
/// scale: a unit is taken by the numbers before or by those after, and none is lost or found between.
#[derive(Debug)]
pub struct Bucket {
    /// The moment at which it will be full, and in the highest bits the count of changes.
    word: AtomicU64,
    /// By the lowest bit of that count.
    numbers: [Numbers; 2],
}

/// In nanoseconds of filling.
#[derive(Debug, Default)]
struct Numbers {
    /// One unit, rounded up: never more than promised.
    unit: AtomicU64,
    /// All of it.
    depth: AtomicU64,
    /// What the heaviest leave to lighter ones.
    kept: AtomicU64,
}

/// The numbers that a word goes with.
#[derive(Debug, Clone, Copy)]
struct InForce {
    unit: u64,
    depth: u64,
    kept: u64,
}

const SECOND: f64 = 1e9;

/// Seventy years of nanoseconds; above it, the count of changes.
const MOMENT: u64 = (1 << 61) - 1;

impl InForce {
    fn new(rate: f64, burst: f64, kept: f64) -> InForce {
        let unit = (SECOND / rate.max(1e-9)).ceil().max(1.0);
        let times = |units: f64| (unit * units.max(0.0)) as u64 & MOMENT;
        InForce { unit: unit as u64, depth: times(burst.max(1.0)), kept: times(kept) }
    }

    /// What is there, in nanoseconds of filling.
    fn there(&self, word: u64, now: Timestamp) -> u64 {
        self.depth.saturating_sub((word & MOMENT).saturating_sub(now.nanos()))
    }

    fn wanted(&self, more: f64) -> u64 {
        self.unit.saturating_add((self.unit as f64 * more.max(0.0)) as u64)
    }
}

impl Bucket {
    /// A full bucket of so many units per second, and `burst` at one instant, of which some are kept for those who weigh little.
    pub fn new(rate: f64, burst: f64, kept: f64) -> Bucket {
        let bucket = Bucket { word: AtomicU64::new(0), numbers: Default::default() };
        bucket.write(0, &InForce::new(rate, burst, kept));
        bucket
    }

    fn slot(&self, word: u64) -> &Numbers {
        let [even, odd] = &self.numbers;
        if word & (MOMENT + 1) == 0 { even } else { odd }
    }

    fn write(&self, word: u64, numbers: &InForce) {
        let slot = self.slot(word);
        // Relaxed: the exchange of the word that makes them those in force publishes them
        slot.unit.store(numbers.unit, Ordering::Relaxed);
        slot.depth.store(numbers.depth, Ordering::Relaxed);
        slot.kept.store(numbers.kept, Ordering::Relaxed);
    }

    fn in_force(&self, word: u64) -> InForce {
        let slot = self.slot(word);
        InForce {
            unit: slot.unit.load(Ordering::Relaxed).max(1),
            depth: slot.depth.load(Ordering::Relaxed),
            kept: slot.kept.load(Ordering::Relaxed),
        }
    }

    /// How many units there are.
    pub fn units(&self, now: Timestamp) -> f64 {
        let word = self.word.load(Ordering::Acquire);
        let numbers = self.in_force(word);
        numbers.there(word, now) as f64 / numbers.unit as f64
    }

    /// Takes one if it and those that are kept are there, and this part of the whole bucket.
    #[inline]
    pub fn take_of_many(&self, part: f64, now: Timestamp) -> bool {
        self.take_if(now, |numbers| {
            let leaves = if part > 0.0 { (numbers.depth as f64 * part) as u64 } else { 0 };
            numbers.unit.saturating_add(numbers.kept.max(leaves))
        })
    }

    /// Takes one if `1 + more` are there.
    pub fn take(&self, more: f64, now: Timestamp) -> bool {
        self.take_if(now, |numbers| numbers.wanted(more))
    }

    fn take_if(&self, now: Timestamp, wanted: impl Fn(&InForce) -> u64) -> bool {
        // Acquire: the numbers that the word goes with. Relaxed: an exchange goes on with what the change before it has released
        let taken = self.word.fetch_update(Ordering::Relaxed, Ordering::Acquire, |word| {
            let numbers = self.in_force(word);
            let full_at = (word & MOMENT).max(now.nanos()).saturating_add(numbers.unit);
            (numbers.there(word, now) >= wanted(&numbers)).then_some(word & !MOMENT | full_at & MOMENT)
        });
        taken.is_ok()
    }

    /// Takes one whether it is there or not: it is missing later.
    pub fn take_anyway(&self, now: Timestamp) {
        let _ = self.word.fetch_update(Ordering::Relaxed, Ordering::Acquire, |word| {
            let full_at = (word & MOMENT).max(now.nanos()).saturating_add(self.in_force(word).unit);
            Some(word & !MOMENT | full_at & MOMENT)
        });
    }

    /// Has so many units at `now`, of a bucket that nobody uses yet.
    pub fn fill(&self, units: f64, now: Timestamp) {
        let word = self.word.load(Ordering::Acquire);
        let numbers = self.in_force(word);
        let there = ((numbers.unit as f64 * units.max(0.0)) as u64).min(numbers.depth);
        let full_at = now.nanos().saturating_add(numbers.depth).saturating_sub(there);
        self.word.store(word & !MOMENT | full_at & MOMENT, Ordering::Release);
    }

    /// Puts one back that was not used.
    pub fn put_back(&self) {
        let _ = self.word.fetch_update(Ordering::Relaxed, Ordering::Acquire, |word| {
            let unit = self.in_force(word).unit;
            Some(word & !MOMENT | (word & MOMENT).saturating_sub(unit))
        });
    }

    /// In how many nanoseconds `1 + more` units are there.
    pub fn until(&self, more: f64, now: Timestamp) -> u64 {
        let word = self.word.load(Ordering::Acquire);
        let numbers = self.in_force(word);
        let wanted = numbers.wanted(more).min(numbers.depth.max(numbers.unit));
        (word & MOMENT).saturating_add(wanted).saturating_sub(numbers.depth).saturating_sub(now.nanos())
    }

    /// Other numbers from now on. As many units are there as before, and `burst` at most. One at a time: two calls at once would write the
    /// same numbers.
    pub fn change(&self, rate: f64, burst: f64, kept: f64, now: Timestamp) {
        let new = InForce::new(rate, burst, kept);
        let next = |word: u64| word.wrapping_add(MOMENT + 1) & !MOMENT;
        // Relaxed: whoever changes them has seen the change before
        self.write(next(self.word.load(Ordering::Relaxed)), &new);
        // Release: the numbers are there for whoever reads the word
        let _ = self.word.fetch_update(Ordering::Release, Ordering::Relaxed, |word| {
            let before = self.in_force(word);
            let units = before.there(word, now) as f64 / before.unit as f64;
            let there = ((units * new.unit as f64) as u64).min(new.depth);
            let full_at = now.nanos().saturating_add(new.depth).saturating_sub(there);
            Some(next(word) | full_at & MOMENT)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    fn take_all(bucket: &Bucket, now: Timestamp) -> usize {
        (0..1_000).take_while(|_| bucket.take(0.0, now)).count()
    }

    #[test]
    fn it_is_full_from_the_first_instant_and_fills_at_its_rate() {
        let bucket = Bucket::new(2.0, 5.0, 1.0);
        assert_eq!(take_all(&bucket, Timestamp::ZERO), 5);
        assert_eq!(bucket.until(0.0, Timestamp::ZERO), 500_000_000);
        assert_eq!(take_all(&bucket, at(1)), 2);
        assert_eq!(take_all(&bucket, at(100)), 5, "no more than its depth");
        bucket.put_back();
        assert_eq!(take_all(&bucket, at(100)), 1);
        assert!((0..2).all(|_| bucket.take(0.0, at(101))));
        assert!(bucket.take_of_many(0.0, at(102)));
        assert!(!bucket.take_of_many(0.0, at(102)), "the last one is kept");
        assert!(bucket.take_of_many(0.0, at(103)));
    }

    #[test]
    fn units_stay_units_under_other_numbers() {
        let bucket = Bucket::new(10.0, 40.0, 20.0);
        assert!((0..30).all(|_| bucket.take(0.0, at(50))));
        for (rate, burst, left) in [(1_000.0, 250.0, 10), (1.0, 40.0, 10), (1.0, 4.0, 4)] {
            bucket.change(rate, burst, 0.0, at(50));
            assert_eq!(take_all(&bucket, at(50)), left, "{rate}/s");
            (0..left).for_each(|_| bucket.put_back());
        }
        (0..20).for_each(|_| bucket.change(100.0, 25.0, 0.0, at(50)));
        assert_eq!(take_all(&bucket, at(50)), 4, "however often they change");
        assert_eq!(take_all(&bucket, at(51)), 25);
    }
}
