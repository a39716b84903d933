//! What is known of the snapshots of this process, for the metrics and for `tidegate status`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::engine::{Fate, Succession};
use crate::observe::state::Snapshots;
use crate::units::Timestamp;
use crate::units::time::saturating_nanos;

/// Counters that the thread of the snapshots writes. Relaxed: each is shown for itself.
#[derive(Debug, Default)]
pub struct SnapshotStatus {
    /// The directory, once there are snapshots.
    directory: OnceLock<String>,
    /// What became of the limits when the process began.
    restored: OnceLock<Succession>,
    /// When the state was last saved, or found to be as it was saved; zero: never.
    saved: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
    errors: AtomicU64,
    orders: AtomicU64,
}

impl SnapshotStatus {
    /// Snapshots are to be written there.
    pub fn begin(&self, directory: String) {
        // there is one directory
        let _ = self.directory.set(directory);
    }

    /// The process began with saved state.
    pub fn restored(&self, succession: Succession) {
        // a process begins once
        let _ = self.restored.set(succession);
    }

    /// A snapshot of so many bytes was written in so long.
    pub fn wrote(&self, now: Timestamp, bytes: u64, took: Duration) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.nanos.store(saturating_nanos(took), Ordering::Relaxed);
        self.unchanged(now);
    }

    /// There is nothing to write that the latest snapshot does not have.
    pub fn unchanged(&self, now: Timestamp) {
        self.saved.store(now.nanos(), Ordering::Relaxed);
    }

    /// An order changed what is saved, without a request.
    pub fn ordered(&self) {
        self.orders.fetch_add(1, Ordering::Relaxed);
    }

    /// How many orders did.
    pub fn orders(&self) -> u64 {
        self.orders.load(Ordering::Relaxed)
    }

    /// A snapshot could not be written.
    pub fn failed(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// All of it; `None` without a directory.
    pub fn state(&self, now: Timestamp) -> Option<Snapshots> {
        let directory = self.directory.get()?.clone();
        let saved = self.saved.load(Ordering::Relaxed);
        let limits = self.restored.get().map(|succession| succession.limits.as_slice()).unwrap_or_default();
        let count = |wanted: fn(&Fate) -> bool| limits.iter().filter(|carried| wanted(&carried.fate)).count();
        let reset = limits.iter().filter_map(|carried| match &carried.fate {
            Fate::Reset(reset) => Some(format!("{}: {reset}", carried.name)),
            _ => None,
        });
        Some(Snapshots {
            directory,
            age_seconds: (saved > 0).then(|| now.since(Timestamp::from_nanos(saved)).as_secs_f64()),
            bytes: self.bytes.load(Ordering::Relaxed),
            write_seconds: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)).as_secs_f64(),
            errors: self.errors.load(Ordering::Relaxed),
            kept: count(|fate| matches!(fate, Fate::Kept { .. })),
            rerated: count(|fate| matches!(fate, Fate::Rerated { .. })),
            reset: reset.collect(),
        })
    }
}
