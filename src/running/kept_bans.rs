//! How far the bans of this process are on disk.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// How long an order waits for the disk. It is in force meanwhile, and is written later all the same.
const PATIENCE: Duration = Duration::from_secs(2);

/// Counts changes of the bans, and how many of them are on disk.
pub struct KeptBans {
    /// Changes so far. The first writes what the process began with.
    changes: AtomicU64,
    progress: watch::Sender<Progress>,
    /// Wakes the thread that writes; without a directory there is none.
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// What the thread that writes has done.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// The changes that it has tried to write.
    tried: u64,
    /// The changes that are on disk.
    written: u64,
}

/// Whether a restart or a crash keeps an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// It is on disk.
    OnDisk,
    /// The policy names no directory for state, or it cannot be used.
    NoDirectory,
    /// It is not on disk yet: the disk is slow, or refuses.
    NotYet,
}

impl Default for KeptBans {
    fn default() -> KeptBans {
        KeptBans { changes: AtomicU64::new(1), progress: watch::Sender::default(), wake: OnceLock::new() }
    }
}

impl fmt::Debug for KeptBans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptBans").field("changes", &self.changes).field("progress", &self.progress.borrow()).finish()
    }
}

impl KeptBans {
    /// Has changes written from now on, by whom this wakes.
    pub fn begin(&self, wake: impl Fn() + Send + Sync + 'static) {
        // there is one directory
        let _ = self.wake.set(Box::new(wake));
    }

    /// Counts a change, and has it written. Returns its number.
    pub fn changed(&self) -> u64 {
        // before the thread is woken: it must not find that there is nothing to do
        let change = self.changes.fetch_add(1, Ordering::Release) + 1;
        if let Some(wake) = self.wake.get() {
            wake();
        }
        change
    }

    /// The changes so far that are not on disk; `None`: all are.
    pub fn due(&self) -> Option<u64> {
        let changes = self.changes.load(Ordering::Acquire);
        (changes > self.progress.borrow().written).then_some(changes)
    }

    /// The bans as of this change were written, or could not be.
    pub fn tried(&self, change: u64, written: bool) {
        self.progress.send_modify(|progress| {
            progress.tried = change;
            if written {
                progress.written = change;
            }
        });
    }

    /// Waits until a change is on disk, for `PATIENCE` at most.
    pub async fn kept(&self, change: u64) -> Kept {
        if self.wake.get().is_none() {
            return Kept::NoDirectory;
        }
        let mut progress = self.progress.subscribe();
        let tried = timeout(PATIENCE, progress.wait_for(|progress| progress.tried >= change)).await;
        match tried {
            Ok(Ok(progress)) if progress.written >= change => Kept::OnDisk,
            _ => Kept::NotYet,
        }
    }
}
