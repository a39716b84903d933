//! The sliding window: this window's count and a shrinking part of the last one's, in two re-keyed pairs of tables.
//!
//! Windows with an even epoch are counted in one pair, odd ones in the other. A request is admitted if
//! `current + previous·(1 − f)` with its cost is at most the limit L, f being the part of its window that has passed.
//! Source: the interpolation is folklore; its bound is derived below, and is not "at most L in any span of length W".
//!
//! **Promise.** At most L in every aligned window; and in every interval across one boundary, of which v lies after it,
//! at most L·(1 + v/W). So twice the limit can still pass, but only over a whole window W, where a plain
//! [`Window`] lets it pass at once. Both hold for the stamps used, for any colliding keys, under every interleaving.
//! *Why.* The last request admitted of those after the boundary, at f ≤ v/W, left `current ≤ L − previous·(1 − f)`; with
//! all of `previous` that is at most `L + previous·f`.
//!
//! **Price.** A client that always asks for more is admitted L − 1 per window in the long run, since the last unit of
//! a window comes free only at its end: nine of ten, 99 of 100, and 1 in two windows at L = 1.
//!
//! **Stale stamps.** A request whose stamp lies before a boundary that its key, or others in all of its cells, have
//! crossed already is refused until that boundary. Hence nothing is added to a window that a later one has been judged
//! by. Of two requests that cross paths there, one at least sees the other: each raises its own table, *then* looks at
//! the other one, with a fence between. That look can refuse, and what was charged by then stays charged: it counts too
//! high, never too low.
//!
//! **Re-keying** ([`rekeyed`](super::rekeyed)) changes each pair by itself, and leaves all of this as it is. Of two requests
//! that cross paths the fences order all that is raised and read, in each table that serves. What is left are two that
//! raise and read a pair in phases without a common table: then a whole overlap lies between them, two windows and a second
//! from a stamp that is later than the first one's. Nothing that long ago weighs anything. As there, a request
//! judged more than a second after its stamp counts as stamped when it was judged.

use std::sync::Arc;
use std::{fmt, io};

use super::hash::{KeyHash, Seed};
use super::meter::window::split;
use super::meter::{Charged, Meter, NextUnit, Window};
use super::monotone::{Admission, MAX_ATTEMPTS, MonotoneTable, Word};
use super::rekeyed::Rekeyed;
use crate::saved::{Fault, Reader, Writer};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// What [`SlidingWindows`] says of one request.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlidingReading {
    /// Whether it fits, or has been charged.
    pub admitted: bool,
    /// It was refused only because other threads moved the key's cells every time. To be counted.
    pub contended: bool,
    /// How many more requests of cost one fit now: before this one if it was probed, after it if it was admitted.
    pub remaining: u32,
    /// Nanoseconds until it is admitted if nothing else is charged until then, and not one too many; zero if it fits
    /// or was admitted. `None` if no wait helps: its cost is over the limit, or time ends first.
    pub retry_nanos: Option<u64>,
    /// Nanoseconds until `remaining` grows by one; `None` if nothing is spent, or time ends first.
    pub reset_nanos: Option<u64>,
    /// What counts against the limit, in units of cost: this window's charges and the weight of the last one's, rounded up.
    /// [`Window::NO_LIMIT_HELPS`] when the refusal is not for their sum.
    pub spent: u64,
}

/// Sliding windows for every key there could be, in fixed memory. See the module for what it promises.
pub struct SlidingWindows<C: Word = AtomicU64, const ROWS: usize = 4> {
    window: Window,
    /// Windows of even epochs, and of odd ones.
    even: Arc<Rekeyed<C, ROWS>>,
    odd: Arc<Rekeyed<C, ROWS>>,
}

impl SlidingWindows {
    /// Two tables of four rows that fill exactly `memory`, and as many again to take turns with. `seed` draws the columns.
    ///
    /// # Errors
    /// Not a power of two from 8 KiB to 1 GiB.
    pub fn with_memory(window: Window, memory: Bytes, seed: &Seed) -> Result<SlidingWindows, OutOfRange> {
        let columns = MonotoneTable::columns_in(Bytes(memory.0 / 2)).ok().filter(|_| memory.0.is_power_of_two());
        let columns = columns.ok_or(OutOfRange { allowed: "a power of two from 8KiB to 1GiB" })?;
        Self::with_shape(window, columns, seed)
    }
}

impl<C: Word, const ROWS: usize> SlidingWindows<C, ROWS> {
    /// Tables of any shape, for tests and models.
    ///
    /// # Errors
    /// What [`MonotoneTable::with_shape`] refuses.
    pub fn with_shape(window: Window, columns: usize, seed: &Seed) -> Result<Self, OutOfRange> {
        Ok(SlidingWindows {
            window,
            even: Arc::new(Rekeyed::with_shape(columns, &seed.derive("even"))?),
            odd: Arc::new(Rekeyed::with_shape(columns, &seed.derive("odd"))?),
        })
    }

    /// The same tables under another limit: what was counted counts, for both.
    ///
    /// # Errors
    /// Windows of another length or phase: their counts mean something else.
    pub fn with_limit_of(&self, window: Window) -> Result<Self, OutOfRange> {
        if !window.has_windows_of(&self.window) {
            return Err(OutOfRange { allowed: "the same windows" });
        }
        Ok(SlidingWindows { window, even: Arc::clone(&self.even), odd: Arc::clone(&self.odd) })
    }

    /// Whether a request of `cost` fits now. Read only.
    pub fn probe(&self, key: KeyHash, now: Timestamp, cost: Cost) -> SlidingReading {
        let Some(view) = self.view(key, now) else { return SlidingReading::PAST_THE_END };
        self.reading(&view, now, cost, view.fits(&self.window, cost.get()))
    }

    /// Asks to admit one request of `key`, and charges it. At a key's limit this only reads.
    pub fn admit(&self, key: KeyHash, now: Timestamp, cost: Cost) -> SlidingReading {
        let Some(view) = self.view(key, now) else { return SlidingReading::PAST_THE_END };
        if !view.fits(&self.window, cost.get()) {
            return self.reading(&view, now, cost, false);
        }
        let allowance = Allowance { window: &self.window, units: view.allowance(&self.window) };
        let admission = self.table(view.epoch).admit(&allowance, key, now, cost);
        // Our raise before our look at the other table: whoever crosses our path sees us, or we see them. Acquire and release do not
        // give that: both looks may be served before either raise is seen.
        fence(Ordering::SeqCst);
        let Some(after) = self.view(key, now) else { return SlidingReading::PAST_THE_END };
        let admitted = match admission {
            Admission::Admitted { level } => {
                after.epoch == view.epoch && split(level).1 <= after.allowance(&self.window)
            }
            Admission::Refused { .. } | Admission::Contended { .. } => false,
        };
        let contended = matches!(admission, Admission::Contended { .. });
        SlidingReading { contended, ..self.reading(&after, now, cost, admitted) }
    }

    /// Charges the window of `now`, or the newest that the tables know of the key, whether that fits or not.
    pub fn charge(&self, key: KeyHash, now: Timestamp, cost: Cost) {
        let Some(present) = self.window.epoch(now) else { return };
        let pair = self.table(present);
        let mut charged = 0;
        for _ in 0..MAX_ATTEMPTS {
            let reading = pair.read(key);
            charged = self.window.charge(reading.level(), now, cost);
            if reading.is_current() && reading.raise(charged) {
                return;
            }
        }
        pair.lift(key, charged);
    }

    /// Raises the counts of `to` to at least those of `from`, in all windows that are known of it.
    pub fn carry(&self, from: KeyHash, to: KeyHash) {
        for pair in [&self.even, &self.odd] {
            pair.lift(to, level(pair, from));
        }
    }

    /// Writes the counts of this window and the last one. Requests go on: [`Rekeyed::save`] says what is in it.
    ///
    /// # Errors
    /// What the target refuses.
    pub fn save(&self, to: &mut Writer<'_>, now: Timestamp) -> io::Result<()> {
        let oldest = self.window.epoch(now).unwrap_or(u32::MAX).saturating_sub(1);
        let as_saved = |level| if split(level).0 < oldest { 0 } else { level };
        self.even.save(to, as_saved)?;
        self.odd.save(to, as_saved)
    }

    /// Raises counts that nobody uses yet to saved ones of the same windows.
    ///
    /// # Errors
    /// Damaged bytes, and what [`Rekeyed::restore`] refuses.
    pub fn restore(&self, from: &mut Reader<'_>) -> Result<(), Fault> {
        Rekeyed::restore(from, &[(&*self.even, &|level| level)])?;
        Rekeyed::restore(from, &[(&*self.odd, &|level| level)])
    }

    /// The windows' numbers.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Re-keys both pairs when that is due. To be called about once a second, never on the path of a request.
    pub fn maintain(&self, now: Timestamp) {
        self.even.maintain(now, self.fade_nanos());
        self.odd.maintain(now, self.fade_nanos());
    }

    /// How often both pairs were re-keyed so far.
    pub fn rekeyings(&self) -> u64 {
        self.even.generation().min(self.odd.generation())
    }

    /// The memory of all four tables.
    pub fn memory(&self) -> Bytes {
        Bytes(self.even.memory().0 + self.odd.memory().0)
    }

    /// Nanoseconds after which a key that was admitted has become as good as one never seen: two windows.
    pub fn fade_nanos(&self) -> u64 {
        2 * self.window.length_nanos()
    }

    fn table(&self, epoch: u32) -> &Rekeyed<C, ROWS> {
        if epoch.is_multiple_of(2) { &self.even } else { &self.odd }
    }

    /// What the tables say of the key, as of now or of the newest window they know, whichever is later.
    fn view(&self, key: KeyHash, now: Timestamp) -> Option<View> {
        let present = self.window.epoch(now)?;
        let (even, odd) = (split(level(&self.even, key)), split(level(&self.odd, key)));
        let epoch = present.max(even.0).max(odd.0);
        let count = |wanted: u32| [even, odd].into_iter().find(|(of, _)| *of == wanted).map_or(0, |(_, count)| count);
        Some(View {
            epoch,
            straggling: epoch > present,
            elapsed: if epoch > present { 0 } else { self.window.elapsed(now) },
            current: count(epoch),
            // epochs begin at 1, and level zero has no count: before the first window there was none
            previous: count(epoch.saturating_sub(1)),
        })
    }

    fn reading(&self, view: &View, now: Timestamp, cost: Cost, admitted: bool) -> SlidingReading {
        let remaining = view.remaining(&self.window);
        let wait = |units| view.opens(&self.window, now, units);
        SlidingReading {
            admitted,
            contended: false,
            remaining,
            retry_nanos: if admitted { Some(0) } else { wait(cost.get()) },
            reset_nanos: if remaining == self.window.limit() { None } else { wait(remaining.saturating_add(1)) },
            spent: if view.straggling { Window::NO_LIMIT_HELPS } else { view.spent(&self.window) },
        }
    }
}

/// What a pair says of the key, all in one phase.
#[inline]
fn level<C: Word, const ROWS: usize>(pair: &Rekeyed<C, ROWS>, key: KeyHash) -> u64 {
    loop {
        let reading = pair.read(key);
        // phases last for seconds at least, so this does not go round a third time
        if reading.is_current() {
            return reading.level();
        }
    }
}

impl SlidingReading {
    /// Beyond the last window that can be counted, nothing is admitted.
    const PAST_THE_END: SlidingReading = SlidingReading {
        admitted: false,
        contended: false,
        remaining: 0,
        retry_nanos: None,
        reset_nanos: None,
        spent: Window::NO_LIMIT_HELPS,
    };
}

/// One key's two windows at one instant.
#[derive(Clone, Copy)]
struct View {
    epoch: u32,
    /// The tables know a later window than the stamp's own.
    straggling: bool,
    /// Nanoseconds of `epoch` that have passed.
    elapsed: u64,
    current: u32,
    previous: u32,
}

impl View {
    /// The greatest count of this window, at `elapsed`, that keeps `count + previous·(1 − elapsed/W)` within the limit.
    fn allowance(&self, window: &Window) -> u32 {
        window.limit().saturating_sub(self.weight(window))
    }

    /// `previous·(1 − elapsed/W)`, rounded up.
    fn weight(&self, window: &Window) -> u32 {
        let left = u128::from(window.length_nanos() - self.elapsed);
        let weight = (u128::from(self.previous) * left).div_ceil(u128::from(window.length_nanos()));
        u32::try_from(weight).unwrap_or(u32::MAX)
    }

    fn spent(&self, window: &Window) -> u64 {
        u64::from(self.current) + u64::from(self.weight(window))
    }

    fn fits(&self, window: &Window, units: u32) -> bool {
        !self.straggling && u64::from(self.current) + u64::from(units) <= u64::from(self.allowance(window))
    }

    fn remaining(&self, window: &Window) -> u32 {
        if self.straggling { 0 } else { self.allowance(window).saturating_sub(self.current) }
    }

    /// Nanoseconds from `now` until `units` fit, if nothing else is charged: in this window, or in the next, for which this
    /// one is the previous, or at the latest at the beginning of the one after that.
    fn opens(mut self, window: &Window, now: Timestamp, units: u32) -> Option<u64> {
        if units > window.limit() {
            return None;
        }
        for _ in 0..2 {
            if let Some(elapsed) = self.opens_within(window, units) {
                let begins = window.until(self.epoch, now)?;
                // zero for a window that has begun: then it is counted from how much of it has passed
                let wait = if begins == 0 { elapsed - self.elapsed } else { begins.checked_add(elapsed)? };
                return now.nanos().checked_add(wait).map(|_| wait);
            }
            let epoch = self.epoch.checked_add(1)?;
            self = View { epoch, straggling: true, elapsed: 0, current: 0, previous: self.current };
        }
        window.until(self.epoch, now)
    }

    /// The first nanosecond of this window, not before `elapsed`, at which `units` fit.
    fn opens_within(&self, window: &Window, units: u32) -> Option<u64> {
        let room = u64::from(window.limit()).checked_sub(u64::from(self.current) + u64::from(units))?;
        let length = window.length_nanos();
        // previous·(W − elapsed) ≤ room·W
        let bearable = (u128::from(room) * u128::from(length)).checked_div(u128::from(self.previous));
        let left = bearable.map_or(length, |left| u64::try_from(left).unwrap_or(length).min(length));
        let elapsed = (length - left).max(self.elapsed);
        (elapsed < length).then_some(elapsed)
    }
}

/// A window's meter with less than its whole limit to give away.
struct Allowance<'a> {
    window: &'a Window,
    units: u32,
}

/// Only [`Meter::charge`] and [`Meter::admit`] are asked here; the rest is that of the whole window.
impl Meter for Allowance<'_> {
    #[inline]
    fn charge(&self, level: u64, now: Timestamp, cost: Cost) -> u64 {
        self.window.charge(level, now, cost)
    }

    #[inline]
    fn admit(&self, level: u64, now: Timestamp, cost: Cost) -> Option<Charged> {
        self.window.admit(level, now, cost).filter(|charged| split(charged.to).1 <= self.units)
    }

    fn quota(&self) -> u32 {
        self.units
    }

    fn outlook(&self, level: u64, now: Timestamp) -> (u32, NextUnit) {
        self.window.outlook(level, now)
    }

    fn retry_nanos(&self, level: u64, now: Timestamp, cost: Cost) -> Option<u64> {
        self.window.retry_nanos(level, now, cost)
    }

    fn standing(&self, level: u64, now: Timestamp) -> u64 {
        self.window.standing(level, now)
    }

    fn fade_nanos(&self) -> u64 {
        self.window.fade_nanos()
    }

    fn is_over(&self, level: u64, now: Timestamp) -> bool {
        self.window.is_over(level, now)
    }
}

impl<C: Word, const ROWS: usize> fmt::Debug for SlidingWindows<C, ROWS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlidingWindows").field("window", &self.window).field("even", &self.even).finish_non_exhaustive()
    }
}
