//! When files that belong together are worth reading, and when a fault in them is worth telling.

use std::fs;
use std::mem;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A fault is told when it has lasted for so long: certificate and key are replaced one after the other.
const SETTLING: Duration = Duration::from_secs(2);
/// Files that could not be used are tried again after so long even if they look the same: rights on a directory, or the time, may
/// have changed.
const RETRY: Duration = Duration::from_secs(60);

/// Files that are read together.
#[derive(Debug)]
pub struct Files {
    paths: Vec<PathBuf>,
    /// As they were at the last look.
    seen: Vec<Option<Stamp>>,
    /// As they were before they were last read.
    tried: Vec<Option<Stamp>>,
    tried_at: Option<Instant>,
    fault: Option<Fault>,
    fresh: bool,
}

#[derive(Debug)]
struct Fault {
    cause: String,
    since: Instant,
    told: bool,
}

/// What tells one state of a file from another. The time alone does not: two writes may share a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    /// Also moves with renames and rights, and cannot be set back.
    changed: (i64, i64),
}

impl Stamp {
    /// Of what a path leads to; `None` when it leads nowhere.
    fn of(path: &Path) -> Option<Stamp> {
        let metadata = fs::metadata(path).ok()?;
        Some(Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Whether this may be the other one in the middle of being written.
    fn is_same_file(self, other: Stamp) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

impl Files {
    /// Files that are about to be read for the first time.
    pub fn new<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Files {
        let paths: Vec<PathBuf> = paths.into_iter().cloned().collect();
        let seen: Vec<Option<Stamp>> = paths.iter().map(|path| Stamp::of(path)).collect();
        Files { paths, tried: seen.clone(), seen, tried_at: None, fault: None, fresh: false }
    }

    /// Whether they should be read now; they count as read then. `all`: they should in any case.
    pub fn are_due(&mut self, all: bool, now: Instant) -> bool {
        let stamps: Vec<Option<Stamp>> = self.paths.iter().map(|path| Stamp::of(path)).collect();
        let before = mem::replace(&mut self.seen, stamps);
        // a file that is written in place is left alone until it has not moved for a while
        let in_work = before.iter().zip(&self.seen).any(|(before, now)| {
            before != now && before.zip(*now).is_some_and(|(before, now)| before.is_same_file(now))
        });
        let retry =
            self.fault.is_some() && self.tried_at.is_none_or(|tried| now.saturating_duration_since(tried) >= RETRY);
        if !(all || retry || (self.tried != self.seen && !in_work)) {
            return false;
        }
        // as they were before they are read: a change meanwhile is another state
        self.tried.clone_from(&self.seen);
        self.tried_at = Some(now);
        true
    }

    /// What was read is in use; `fresh`: and is another than before.
    pub fn good(&mut self, fresh: bool) {
        self.fault = None;
        self.fresh |= fresh;
    }

    /// What was read cannot be used. The same cause again is the same fault.
    pub fn bad(&mut self, cause: String, now: Instant) {
        if self.fault.as_ref().is_none_or(|fault| fault.cause != cause) {
            self.fault = Some(Fault { cause, since: now, told: false });
        }
    }

    /// The fault that is to be told now, once. `at_once`: without waiting for it to pass.
    pub fn news(&mut self, at_once: bool, now: Instant) -> Option<&str> {
        let fault = self.fault.as_mut()?;
        if fault.told || !(at_once || now.saturating_duration_since(fault.since) >= SETTLING) {
            return None;
        }
        fault.told = true;
        Some(&fault.cause)
    }

    /// Whether something else was taken into use since the last question.
    pub fn take_success(&mut self) -> bool {
        mem::take(&mut self.fresh)
    }
}
