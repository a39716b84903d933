//! One shared word, and what its readers see with it.

use crate::sync::{AtomicU64, Ordering};

/// A `u64` shared by threads, zero at first.
pub trait Word: Default {
    /// The value, and with it all that its writer had written before (*acquire*).
    fn load(&self) -> u64;

    /// Replaces `from` by `to` unless the word has moved; says whether it did (*relaxed*: whoever exchanges has loaded the
    /// word before, and what it decides on is the word itself).
    fn exchange(&self, from: u64, to: u64) -> bool;

    /// Writes, and publishes all that was written before (*release*).
    fn store(&self, value: u64);

    /// Adds one. Publishes nothing: it is for counters (*relaxed*).
    fn count(&self);

    /// The value as a number.
    #[inline]
    fn number(&self) -> f64 {
        f64::from_bits(self.load())
    }

    /// Writes a number.
    #[inline]
    fn set_number(&self, value: f64) {
        self.store(value.to_bits());
    }
}

impl Word for AtomicU64 {
    #[inline]
    fn load(&self) -> u64 {
        AtomicU64::load(self, Ordering::Acquire)
    }

    #[inline]
    fn exchange(&self, from: u64, to: u64) -> bool {
        // a failed exchange decides nothing: the word is read again before it is used
        self.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn store(&self, value: u64) {
        AtomicU64::store(self, value, Ordering::Release);
    }

    #[inline]
    fn count(&self) {
        self.fetch_add(1, Ordering::Relaxed);
    }
}
