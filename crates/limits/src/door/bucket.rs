//! The units of a rate, in one word.

use crate::sync::{AtomicU64, Ordering};
use crate::units::Timestamp;

/// A bucket that fills at a rate. It is kept as the moment at which it was, or will be, empty: a unit moves that moment on by the time
/// in which one comes.
#[derive(Debug)]
pub struct Bucket {
    empty_at: AtomicU64,
    /// The time in which one unit comes, rounded up: never more than promised.
    unit: u64,
    /// The time in which the bucket fills.
    depth: u64,
}

const SECOND: f64 = 1e9;

impl Bucket {
    /// A full bucket of so many units per second, and `burst` at one instant.
    pub fn new(rate: f64, burst: f64) -> Bucket {
        let unit = (SECOND / rate.max(1e-9)).ceil().max(1.0);
        Bucket { empty_at: AtomicU64::new(0), unit: unit as u64, depth: (unit * burst) as u64 }
    }

    /// How many units there are.
    pub fn units(&self, now: Timestamp) -> f64 {
        // Relaxed: the number is its own message
        let since = now.nanos().saturating_sub(self.empty_at.load(Ordering::Relaxed));
        since.min(self.depth) as f64 / self.unit as f64
    }

    /// Takes one if `1 + more` are there.
    pub fn take(&self, more: f64, now: Timestamp) -> bool {
        let wanted = self.unit.saturating_add((self.unit as f64 * more.max(0.0)) as u64);
        let taken = self.empty_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |empty_at| {
            let empty_at = empty_at.max(now.nanos().saturating_sub(self.depth));
            let there = now.nanos().saturating_sub(empty_at);
            (there >= wanted).then(|| empty_at.saturating_add(self.unit))
        });
        taken.is_ok()
    }

    /// Puts one back that was not used.
    pub fn put_back(&self) {
        let _ = self
            .empty_at
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |empty_at| Some(empty_at.saturating_sub(self.unit)));
    }

    /// In how many nanoseconds `1 + more` units are there.
    pub fn until(&self, more: f64, now: Timestamp) -> u64 {
        let wanted = self.unit.saturating_add((self.unit as f64 * more.max(0.0)) as u64).min(self.depth.max(self.unit));
        self.empty_at.load(Ordering::Relaxed).saturating_add(wanted).saturating_sub(now.nanos())
    }
}
