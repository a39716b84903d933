//! The keys that a limit has pardoned, each until its end.

use std::io;
use std::sync::Arc;

use crate::saved::{Fault, Reader, Writer};
use crate::sketch::KeyHash;
use crate::sync::{ArcSwap, AtomicBool, Mutex, Ordering};
use crate::units::Timestamp;

/// So many keys of one limit may be pardoned at a time.
pub const MOST_PARDONS: usize = 1_024;

/// How much later than its stamp a request may still look for a pardon.
const KEPT_NANOS: u64 = 60_000_000_000;

/// There is no room for another pardon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// The keys of one limit that are pardoned.
#[derive(Debug, Default)]
pub(super) struct Pardons {
    /// Whether there are any. Relaxed: who reads it too early, or an older list after it, came before the pardon.
    any: AtomicBool,
    /// By key.
    pardoned: ArcSwap<Vec<Pardoned>>,
    /// The number of the last pardon; held by whoever changes the list.
    last: Mutex<u64>,
}

/// One key's pardon, in nanoseconds on the axis of stamps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pardoned {
    pub(super) key: KeyHash,
    /// What the other hash is drawn by; `None` where the kind has no debt to forget.
    pub(super) fresh: Option<KeyHash>,
    /// Until then the limit does not apply.
    pub(super) exempt_until: u64,
    /// From then on both hashes count.
    pub(super) both_from: u64,
    /// From then on the key is as any other.
    pub(super) ends: u64,
}

/// Under which hashes a key counts.
pub(super) enum Standing {
    Own,
    Fresh(KeyHash),
    Both(KeyHash),
}

impl Pardons {
    #[inline]
    pub(super) fn find(&self, key: KeyHash) -> Option<Pardoned> {
        if self.are_any() { self.search(key) } else { None }
    }

    /// Whether any key has one.
    #[inline]
    pub(super) fn are_any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    #[cold]
    fn search(&self, key: KeyHash) -> Option<Pardoned> {
        let list = self.pardoned.load();
        let at = list.binary_search_by_key(&key.halves(), |pardoned| pardoned.key.halves()).ok()?;
        list.get(at).copied()
    }

    #[inline]
    pub(super) fn standing(&self, key: KeyHash, now: Timestamp) -> Standing {
        let Some(Pardoned { fresh: Some(fresh), both_from, ends, .. }) = self.find(key) else { return Standing::Own };
        match now.nanos() {
            now if now < both_from => Standing::Fresh(fresh),
            now if now < ends => Standing::Both(fresh),
            _ => Standing::Own,
        }
    }

    /// Puts `made` of the next number in the place of the key's pardon, if it has one, or beside the others.
    pub(super) fn put(&self, key: KeyHash, now: Timestamp, made: impl FnOnce(u64) -> Pardoned) -> Result<(), Full> {
        let mut last = self.last.lock();
        let mut list = self.kept(now);
        list.retain(|pardoned| pardoned.key != key);
        if list.len() >= MOST_PARDONS {
            return Err(Full);
        }
        *last += 1;
        list.push(made(*last));
        self.publish(list);
        Ok(())
    }

    /// Changes the key's pardon, if it has one.
    pub(super) fn change(&self, key: KeyHash, now: Timestamp, change: impl FnOnce(&mut Pardoned)) -> bool {
        let _last = self.last.lock();
        let mut list = self.kept(now);
        let Some(pardoned) = list.iter_mut().find(|pardoned| pardoned.key == key) else { return false };
        change(pardoned);
        self.publish(list);
        true
    }

    /// Writes the pardons that matter yet.
    pub(super) fn save(&self, to: &mut Writer<'_>, now: Timestamp) -> io::Result<()> {
        // by whoever changes the list it is read and numbered in one piece
        let last = *self.last.lock();
        let list = self.kept(now);
        to.number(last)?;
        to.number(list.len() as u64)?;
        for Pardoned { key, fresh, exempt_until, both_from, ends } in list {
            let [low, high] = key.halves();
            let [fresh_low, fresh_high] = fresh.unwrap_or_default().halves();
            let numbers = [low, high, u64::from(fresh.is_some()), fresh_low, fresh_high, exempt_until, both_from, ends];
            numbers.into_iter().try_for_each(|number| to.number(number))?;
        }
        Ok(())
    }

    /// Takes saved pardons over, where there are none yet.
    pub(super) fn restore(&self, from: &mut Reader<'_>) -> Result<(), Fault> {
        let mut last = self.last.lock();
        *last = from.number()?;
        let mut list = Vec::new();
        for _ in 0..from.number_up_to(MOST_PARDONS as u64)? {
            let key = KeyHash::from_halves([from.number()?, from.number()?]);
            let has_fresh = from.number()? == 1;
            let fresh = KeyHash::from_halves([from.number()?, from.number()?]);
            let (exempt_until, both_from, ends) = (from.number()?, from.number()?, from.number()?);
            list.push(Pardoned { key, fresh: has_fresh.then_some(fresh), exempt_until, both_from, ends });
        }
        self.publish(list);
        Ok(())
    }

    fn kept(&self, now: Timestamp) -> Vec<Pardoned> {
        let over = |pardoned: &&Pardoned| pardoned.ends.saturating_add(KEPT_NANOS) > now.nanos();
        self.pardoned.load().iter().filter(over).copied().collect()
    }

    fn publish(&self, mut list: Vec<Pardoned>) {
        list.sort_unstable_by_key(|pardoned| pardoned.key.halves());
        let any = !list.is_empty();
        self.pardoned.store(Arc::new(list));
        self.any.store(any, Ordering::Relaxed);
    }

    /// Drops what is over. For a timer.
    pub(super) fn maintain(&self, now: Timestamp) {
        if self.are_any() && self.kept(now).len() < self.pardoned.load().len() {
            let _last = self.last.lock();
            let list = self.kept(now);
            self.publish(list);
        }
    }
}
