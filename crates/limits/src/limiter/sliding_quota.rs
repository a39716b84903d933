//! `type: quota` with `sliding: true`: the window before counts in part, as much of it as the present one has yet to come.
//!
//! **Promise.** At most `max` per aligned window, and across one boundary at most `max·(1 + v/W)`, where v is the time since
//! it. So twice `max` can still be had, but only spread over a whole window.
//!
//! What is held of a key are two counts and not one level, so there is no exact table beside the sketch, no tiers, and no charge
//! that waits for an answer.

use super::{Judgement, Kind, Lost, Place, kinds};
use crate::sketch::{KeyHash, NextUnit, Seed, SlidingReading, SlidingWindows, Window, Windows};
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// The state of one sliding `quota`.
#[derive(Debug)]
pub struct SlidingQuota {
    windows: SlidingWindows,
    max: u32,
}

impl SlidingQuota {
    /// An empty limiter: every key has its whole quota.
    ///
    /// # Errors
    /// Not exactly one kind, one that is not `quota`, or numbers that [`Window::on`] or the tables refuse.
    pub fn new(kinds: &[Kind], unix_nanos_at_origin: u64, seed: Seed) -> Result<SlidingQuota, OutOfRange> {
        let [Kind::Quota(kinds::Quota { max, window, memory, .. })] = kinds else {
            return Err(OutOfRange { allowed: "no tiers when sliding" });
        };
        let windows = Window::on(*max, Windows::of(window, unix_nanos_at_origin)?)?;
        // both tables have a successor beside them, which takes as much again
        let half = Bytes((memory.0 / 2).max(8 << 10));
        let windows = SlidingWindows::with_memory(windows, half, &seed)?;
        Ok(SlidingQuota { windows, max: *max })
    }

    /// The same counts under another quota.
    ///
    /// # Errors
    /// As [`SlidingQuota::new`], and other windows, in which counts mean something else.
    pub fn followed_by(&self, kinds: &[Kind], unix_nanos_at_origin: u64) -> Result<SlidingQuota, OutOfRange> {
        let [Kind::Quota(kinds::Quota { max, window, .. })] = kinds else {
            return Err(OutOfRange { allowed: "no tiers when sliding" });
        };
        let window = Window::on(*max, Windows::of(window, unix_nanos_at_origin)?)?;
        Ok(SlidingQuota { windows: self.windows.with_limit_of(window)?, max: *max })
    }

    /// Whether a request of `cost` fits now.
    pub fn probe(&self, place: &Place, now: Timestamp, cost: Cost) -> Judgement {
        let reading = self.windows.probe(place.key, now, cost);
        // a reading tells what is free before the request
        let own = if reading.admitted { cost.get() } else { 0 };
        self.judgement(&reading, reading.remaining.saturating_sub(own), cost)
    }

    /// Charges `cost`.
    ///
    /// # Errors
    /// It does not fit any more.
    pub fn admit(&self, place: &Place, now: Timestamp, cost: Cost) -> Result<Judgement, Lost> {
        let reading = self.windows.admit(place.key, now, cost);
        let judgement = self.judgement(&reading, reading.remaining, cost);
        if reading.admitted { Ok(judgement) } else { Err(Lost { judgement, contended: reading.contended }) }
    }

    /// Re-keys the tables when that is due.
    pub fn maintain(&self, now: Timestamp) {
        self.windows.maintain(now);
    }

    /// Nanoseconds after which whatever a key was charged has faded.
    pub fn fade_nanos(&self) -> u64 {
        self.windows.fade_nanos()
    }

    /// Raises the counts of a key to at least those of another.
    pub fn carry(&self, from: KeyHash, to: KeyHash) {
        self.windows.carry(from, to);
    }

    /// The size of all tables, those that take turns included: twice what was asked for.
    pub fn memory(&self) -> Bytes {
        self.windows.memory()
    }

    fn judgement(&self, reading: &SlidingReading, remaining: u32, cost: Cost) -> Judgement {
        Judgement {
            admitted: reading.admitted,
            remaining: remaining / cost.get(),
            quota: self.max / cost.get(),
            retry_nanos: reading.retry_nanos,
            next_unit: NextUnit::Known(reading.reset_nanos),
            standing: if reading.admitted { 0 } else { reading.spent },
        }
    }
}
