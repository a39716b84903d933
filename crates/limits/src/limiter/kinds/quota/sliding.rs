//! `type: quota` with `sliding: true`: the window before counts in part, as much of it as the present one has yet to come.
//!
//! **Promise.** At most `max` per aligned window, and across one boundary at most `max·(1 + v/W)`, where v is the time since
//! it. So twice `max` can still be had, but only spread over a whole window.
//!
//! What is held of a key are two counts and not one level, so there is no exact table beside the sketch, no tiers, and no charge
//! that waits for an answer.

use std::io;

use crate::limiter::kind::MIXED;
use crate::limiter::needs::Owed;
use crate::limiter::probe::{Probe, Seen};
use crate::limiter::{Judgement, Kind, Lost, Moved, Place, Spec, State, Taken};
use crate::saved::{Fault, Reader, Writer};
use crate::sketch::{NextUnit, Seed, SlidingReading, SlidingWindows, Window, Windows};
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// The state of one sliding `quota`.
#[derive(Debug)]
struct SlidingQuota {
    windows: SlidingWindows,
    max: u32,
}

/// An empty state: every key has its whole quota.
///
/// # Errors
/// Tiers, or numbers that [`Window::on`] or the tables refuse.
pub fn state(spec: &Spec<'_>, seed: &Seed) -> Result<Box<dyn State>, OutOfRange> {
    let (max, window, memory) = numbers(spec)?;
    // both tables have a successor beside them, which takes as much again
    let half = Bytes((memory.0 / 2).max(8 << 10));
    Ok(Box::new(SlidingQuota { windows: SlidingWindows::with_memory(window, half, seed)?, max }))
}

impl SlidingQuota {
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

impl State for SlidingQuota {
    fn probe(&self, at: &Place, now: Timestamp, cost: Cost, _held: u32) -> Probe {
        let reading = self.windows.probe(at.key, now, cost);
        // a reading tells what is free before the request
        let own = if reading.admitted { cost.get() } else { 0 };
        let judgement = self.judgement(&reading, reading.remaining.saturating_sub(own), cost);
        Probe::new(at, cost, judgement, Seen::Nothing)
    }

    fn commit(&self, probe: &Probe, now: Timestamp) -> Result<(Judgement, Option<Taken>), Lost> {
        let reading = self.windows.admit(probe.place.key, now, probe.cost);
        let judgement = self.judgement(&reading, reading.remaining, probe.cost);
        if reading.admitted { Ok((judgement, None)) } else { Err(Lost { judgement, contended: reading.contended }) }
    }

    fn charge(&self, at: &Place, now: Timestamp, cost: Cost) {
        self.windows.charge(at.key, now, cost);
    }

    /// Other windows are refused: counts would mean something else in them.
    fn follow(&self, spec: &Spec<'_>, _: &Moved<'_>) -> Result<Box<dyn State>, OutOfRange> {
        if !spec.kinds.iter().all(|kind| kind.fixed_windows().1) {
            return Err(MIXED);
        }
        let (max, window, _) = numbers(spec)?;
        Ok(Box::new(SlidingQuota { windows: self.windows.with_limit_of(window)?, max }))
    }

    fn save(&self, to: &mut Writer<'_>, now: Timestamp) -> io::Result<()> {
        self.windows.save(to, now)
    }

    fn restore(&mut self, from: &mut Reader<'_>, _spec: &Spec<'_>, _moved: &Moved<'_>) -> Result<(), Fault> {
        self.windows.restore(from)
    }

    fn carry(&self, from: &Place, to: &Place, _now: Timestamp) {
        self.windows.carry(from.key, to.key);
    }

    fn fade_nanos(&self) -> Option<u64> {
        Some(self.windows.fade_nanos())
    }

    fn maintain(&self, now: Timestamp) {
        self.windows.maintain(now);
    }

    fn owed(&self, _: &Kind, _: u8, standing: u64, cost: Cost) -> Owed {
        Owed::units(standing.saturating_add(u64::from(cost.get())), 0)
    }

    /// A gate that decides without its store charges so much at once, and the rest as a debt.
    fn whole(&self, _tier: u8) -> Option<u32> {
        Some(self.max)
    }

    fn has_windows(&self) -> bool {
        true
    }

    /// The size of all tables, those that take turns included: twice what was asked for.
    fn memory(&self) -> Bytes {
        self.windows.memory()
    }
}

/// The quota, its window and the memory.
fn numbers(spec: &Spec<'_>) -> Result<(u32, Window, Bytes), OutOfRange> {
    let [kind] = spec.kinds else { return Err(OutOfRange { allowed: "no tiers when sliding" }) };
    let ((_, max), window, (_, memory)) =
        (kind.most().ok_or(MIXED)?, kind.windows().ok_or(MIXED)?, kind.sketch().ok_or(MIXED)?);
    Ok((max, Window::on(max, Windows::of(&window, spec.unix_nanos_at_origin)?)?, memory))
}
