//! Where windows begin: at equal distances, or when days, weeks or months do; and how that changes.
//!
//! Windows are numbered from 1, in **epochs**. When a reload changes them, the window that is open goes on as the new one that is open
//! then, under its epoch: what was counted in it counts on. Requests that began before the reload go by the new windows from that
//! moment, too: all that share a table number time in one way.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::sketch::hash::KeyHash;
use crate::sync::{AtomicU32, Ordering};
use crate::units::{Calendar, Divisor, OutOfRange, Period, Timestamp};

const SECOND: u64 = 1_000_000_000;
/// How far windows of a calendar are worked out, beyond the origin of stamps. After that nothing is admitted.
const YEARS: u32 = 60;
const YEAR: u32 = 31_556_952;

/// Where windows begin.
#[derive(Debug, Clone)]
pub struct Windows {
    /// Those in force when these were made, or later.
    stretch: Arc<Stretch>,
    /// What changes when these are in force.
    change: Option<Arc<Change>>,
    /// No stamp of those before is later: requests wait until then whose limit does not delay any more.
    until: u64,
}

/// What comes next.
#[derive(Debug)]
struct Change {
    stretch: Arc<Stretch>,
    /// From this epoch on windows are kept apart.
    apart_from: u32,
}

/// Windows of one shape.
#[derive(Debug)]
struct Stretch {
    shape: Shape,
    /// The stamp from which on it is in force.
    from: u64,
    /// The epoch of a window less its number by the shape.
    shift: i64,
    /// From this epoch on windows are kept apart.
    apart_from: AtomicU32,
    next: OnceLock<Arc<Stretch>>,
}

/// Windows numbered from zero.
#[derive(Debug, PartialEq, Eq)]
enum Shape {
    /// Windows of `length` that begin at `k·length − offset`.
    Even { length: Divisor, offset: u64 },
    /// Windows that begin at these seconds since 1970, the last of which none begins.
    Listed { begins: Box<[u32]>, unix_nanos_at_origin: u64, mean: u32 },
}

/// A window and a moment in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Within {
    /// The window; `None` past the last that 32 bits can name.
    pub epoch: Option<u32>,
    /// Nanoseconds since it began.
    pub elapsed: u64,
    /// Nanoseconds until it ends.
    pub left: u64,
}

impl Windows {
    const LENGTHS: OutOfRange = OutOfRange { allowed: "whole seconds from 1s to 31d" };

    /// Windows of a period. Those of a length begin at whole multiples of it since 1970, as those of an hour or a day do.
    ///
    /// # Errors
    /// A length that is not a whole number of seconds from 1 s to 31 d.
    pub fn of(period: &Period, unix_nanos_at_origin: u64) -> Result<Windows, OutOfRange> {
        Ok(Windows::shaped(Shape::of(period, unix_nanos_at_origin)?))
    }

    /// Windows of `length` that begin at the stamps `k·length − offset`.
    ///
    /// # Errors
    /// As [`Windows::of`].
    pub fn even(length: Duration, offset: Duration) -> Result<Windows, OutOfRange> {
        Ok(Windows::shaped(Shape::even(length, offset.as_nanos())?))
    }

    fn shaped(shape: Shape) -> Windows {
        let stretch = Stretch { shape, from: 0, shift: 1, apart_from: AtomicU32::new(u32::MAX), next: OnceLock::new() };
        Windows { stretch: Arc::new(stretch), change: None, until: 0 }
    }

    /// The same, each kept apart from the first on: counted by itself, so that what is charged ahead of time, in a window yet to come,
    /// says nothing about the windows before it.
    #[must_use]
    pub fn apart(self) -> Windows {
        // nobody else has them yet
        self.stretch.apart_from.store(0, Ordering::Relaxed);
        self
    }

    /// Windows of another period after these, once they [take over](Windows::take_over); until then they are these. `apart`: they are
    /// to be kept apart. No stamp of these is more than `ahead` nanoseconds later than `now`.
    ///
    /// # Errors
    /// As [`Windows::of`].
    pub fn followed_by(
        &self,
        (period, unix_nanos_at_origin): (&Period, u64),
        (now, ahead): (Timestamp, u64),
        apart: bool,
    ) -> Result<Windows, OutOfRange> {
        let shape = Shape::of(period, unix_nanos_at_origin)?;
        let (stretch, last) = (self.at(now), self.last());
        let until = now.nanos().saturating_add(ahead).max(self.until);
        // one that is not in force yet is not passed over
        let from = until.max(last.from);
        let open = last.within(Timestamp::from_nanos(from)).epoch;
        // Once known it stays: requests that wait may have been charged together in any window before it, and those from it on are
        // apart already.
        let apart_from = match last.apart_from.load(Ordering::Relaxed) {
            u32::MAX if apart => open.map_or(0, |open| open.saturating_add(1)),
            known => known,
        };
        let next = if last.shape == shape {
            Arc::clone(last)
        } else {
            let number = shape.within(from).map_or(0, |(number, ..)| number);
            let shift = open.map_or(1, |open| i64::from(open).saturating_sub_unsigned(number));
            Arc::new(Stretch { shape, from, shift, apart_from: AtomicU32::new(apart_from), next: OnceLock::new() })
        };
        let change = Change { stretch: next, apart_from };
        Ok(Windows { stretch: Arc::clone(stretch), change: Some(Arc::new(change)), until })
    }

    /// From now on these windows are in force, also for all that hold those of before.
    pub fn take_over(&self) {
        let Some(change) = &self.change else { return };
        let last = self.last();
        if !Arc::ptr_eq(last, &change.stretch) {
            // nothing but a second call finds it set
            let _ = last.next.set(Arc::clone(&change.stretch));
        }
        // read by whoever numbers a window later than this one; it publishes nothing else
        let known = &change.stretch.apart_from;
        let _ = known.compare_exchange(u32::MAX, change.apart_from, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The window that `now` lies in, and the first of those that are kept apart: what [`Windows::marked`] goes on from.
    pub fn mark(&self, now: Timestamp) -> [u32; 2] {
        let apart_from = self.last().apart_from.load(Ordering::Relaxed);
        [self.within(now).epoch.unwrap_or(u32::MAX), apart_from]
    }

    /// The same windows, numbered such that the one that `at` lies in has the number of the mark. They are kept apart from the mark's number
    /// on, or if it has none, and these are, from the window after on. For windows that nobody has yet.
    ///
    /// # Errors
    /// Somebody has them.
    pub fn marked(self, at: Timestamp, [epoch, apart_from]: [u32; 2]) -> Result<Windows, OutOfRange> {
        const SHARED: OutOfRange = OutOfRange { allowed: "windows that nobody has yet" };
        let apart_from = match apart_from {
            u32::MAX if self.keep_apart() => epoch.saturating_add(1),
            known => known,
        };
        let stretch = Arc::into_inner(self.stretch).ok_or(SHARED)?;
        let number = stretch.shape.within(at.nanos()).map_or(0, |(number, ..)| number);
        let shift = i64::from(epoch).saturating_sub_unsigned(number);
        let stretch = Stretch { shift, apart_from: AtomicU32::new(apart_from), ..stretch };
        Ok(Windows { stretch: Arc::new(stretch), change: None, until: 0 })
    }

    /// Whether both are the same at all times.
    pub fn same_as(&self, other: &Windows) -> bool {
        let same = |one: &Arc<Stretch>, other: &Arc<Stretch>| {
            Arc::ptr_eq(one, other) || one.shape == other.shape && one.shift == other.shift && one.next.get().is_none()
        };
        let changes = match (&self.change, &other.change) {
            (None, None) => true,
            (Some(one), Some(other)) => same(&one.stretch, &other.stretch),
            _ => false,
        };
        changes && same(&self.stretch, &other.stretch)
    }

    /// Whether this window is kept [apart](Windows::apart).
    #[inline]
    pub(super) fn are_apart(&self, epoch: u32, now: Timestamp) -> bool {
        epoch >= self.at(now).apart_from.load(Ordering::Relaxed)
    }

    /// Whether any are kept [apart](Windows::apart).
    #[inline]
    pub fn keep_apart(&self) -> bool {
        self.last().apart_from.load(Ordering::Relaxed) != u32::MAX
    }

    /// The key under which `key` is counted at `now`: another for each window that is kept apart.
    #[inline]
    pub fn key_at(&self, key: KeyHash, now: Timestamp) -> KeyHash {
        if !self.keep_apart() {
            return key;
        }
        match self.within(now).epoch {
            Some(epoch) if self.are_apart(epoch, now) => key.of_window(epoch),
            _ => key,
        }
    }

    /// Nanoseconds until [`Windows::key_at`] is another; `None` if it stays what it is.
    pub fn key_changes_nanos(&self, now: Timestamp) -> Option<u64> {
        let next = self.within(now).epoch?.checked_add(1)?;
        let wait = self.until(next, now)?;
        self.are_apart(next, now.after(Duration::from_nanos(wait))).then_some(wait)
    }

    /// The window that `now` lies in.
    #[inline]
    pub(super) fn within(&self, now: Timestamp) -> Within {
        self.at(now).within(now)
    }

    /// Nanoseconds from `now` to the first of `epoch`, zero if it has begun; `None` if time ends first.
    pub(super) fn until(&self, epoch: u32, now: Timestamp) -> Option<u64> {
        let (mut stretch, mut earliest) = (self.at(now), now.nanos());
        loop {
            let number = u64::try_from(i64::from(epoch).saturating_sub(stretch.shift)).unwrap_or(0);
            let begins = stretch.shape.begins(number)?.max(earliest);
            match stretch.next.get() {
                Some(next) if begins >= next.from => (stretch, earliest) = (next, next.from.max(earliest)),
                _ => return Some(begins - now.nanos()),
            }
        }
    }

    /// Of windows of the calendar: when the window before that of `now` began, that one, the next and the one after begin, in seconds
    /// since 1970.
    pub fn begins_around(&self, now: Timestamp) -> Option<[u32; 4]> {
        let stretch = self.change.as_ref().map_or(self.last(), |change| &change.stretch);
        let Shape::Listed { begins, .. } = &stretch.shape else { return None };
        let (number, ..) = stretch.shape.within(now.nanos())?;
        let first = usize::try_from(number).ok()?.checked_sub(1)?;
        begins.get(first..first + 4)?.try_into().ok()
    }

    /// The longest window. Where they change, one of either kind after the other, as the open one may be longer than both.
    pub fn longest_nanos(&self) -> u64 {
        let then = self.change.as_ref().map_or(self.last(), |change| &change.stretch);
        let longest = self.stretch.shape.longest();
        if Arc::ptr_eq(&self.stretch, then) { longest } else { longest.saturating_add(then.shape.longest()) }
    }

    #[inline]
    fn at(&self, now: Timestamp) -> &Arc<Stretch> {
        let mut stretch = &self.stretch;
        while let Some(next) = stretch.next.get() {
            if now.nanos() < next.from {
                break;
            }
            stretch = next;
        }
        stretch
    }

    #[inline]
    fn last(&self) -> &Arc<Stretch> {
        self.at(Timestamp::from_nanos(u64::MAX))
    }
}

impl Stretch {
    #[inline]
    fn within(&self, now: Timestamp) -> Within {
        match self.shape.within(now.nanos()) {
            Some((number, elapsed, left)) => {
                let epoch = u32::try_from(self.shift.saturating_add_unsigned(number)).ok();
                Within { epoch, elapsed, left }
            }
            None => Within { epoch: None, elapsed: 0, left: 0 },
        }
    }
}

impl Shape {
    fn of(period: &Period, unix_nanos_at_origin: u64) -> Result<Shape, OutOfRange> {
        match period {
            Period::Length(length) => Shape::even(*length, unix_nanos_at_origin.into()),
            Period::Calendar(calendar) => Ok(Shape::listed(calendar, unix_nanos_at_origin)),
        }
    }

    fn even(length: Duration, offset: u128) -> Result<Shape, OutOfRange> {
        if length < Duration::from_secs(1) || length > Duration::from_secs(31 * 86_400) || length.subsec_nanos() != 0 {
            return Err(Windows::LENGTHS);
        }
        let offset = u64::try_from(offset % length.as_nanos()).map_err(|_| Windows::LENGTHS)?;
        let nanos = u64::try_from(length.as_nanos()).map_err(|_| Windows::LENGTHS)?;
        Ok(Shape::Even { length: Divisor::new(nanos), offset })
    }

    fn listed(calendar: &Calendar, unix_nanos_at_origin: u64) -> Shape {
        let origin = u32::try_from(unix_nanos_at_origin / SECOND).unwrap_or(u32::MAX);
        // a store is told of the window before the present one
        let from = origin.saturating_sub(40 * 86_400);
        let begins: Box<[u32]> = calendar.beginnings(from, origin.saturating_add(YEARS * YEAR)).into();
        let all = begins.last().copied().unwrap_or(0).saturating_sub(begins.first().copied().unwrap_or(0));
        let mean = all / u32::try_from(begins.len()).unwrap_or(u32::MAX).saturating_sub(1).max(1);
        Shape::Listed { begins, unix_nanos_at_origin, mean: mean.max(1) }
    }

    /// The number of the window at this moment, nanoseconds since it began and until it ends.
    #[inline]
    fn within(&self, now: u64) -> Option<(u64, u64, u64)> {
        match self {
            Shape::Even { length, offset } => {
                // in two parts, as `now + offset` may lie past the end of time
                let (whole, part) = length.divide(now);
                // both parts of the sum are below a length
                let beyond = part + offset;
                let carried = beyond >= length.get();
                let elapsed = if carried { beyond - length.get() } else { beyond };
                Some((whole + u64::from(carried), elapsed, length.get() - elapsed))
            }
            Shape::Listed { begins, unix_nanos_at_origin, mean } => {
                let unix = now.checked_add(*unix_nanos_at_origin)?;
                let second = u32::try_from(unix / SECOND).ok()?;
                // windows differ little, so the guess is a window off at most, or two
                let guess = second.saturating_sub(*begins.first()?) / mean;
                let mut number = usize::try_from(guess).ok()?.min(begins.len().checked_sub(2)?);
                while number > 0 && *begins.get(number)? > second {
                    number -= 1;
                }
                while *begins.get(number + 1)? <= second {
                    number += 1;
                }
                let begun = u64::from(*begins.get(number)?) * SECOND;
                let ends = u64::from(*begins.get(number + 1)?) * SECOND;
                Some((u64::try_from(number).ok()?, unix.saturating_sub(begun), ends - unix))
            }
        }
    }

    /// The stamp at which a window begins, zero if that is before the origin; `None` if time ends first.
    fn begins(&self, number: u64) -> Option<u64> {
        match self {
            Shape::Even { length, offset } => {
                let begins = u128::from(number) * u128::from(length.get());
                u64::try_from(begins.saturating_sub(u128::from(*offset))).ok()
            }
            Shape::Listed { begins, unix_nanos_at_origin, .. } => {
                let begins = u64::from(*begins.get(usize::try_from(number).ok()?)?) * SECOND;
                Some(begins.saturating_sub(*unix_nanos_at_origin))
            }
        }
    }

    fn longest(&self) -> u64 {
        match self {
            Shape::Even { length, .. } => length.get(),
            Shape::Listed { begins, .. } => {
                let lengths = begins.iter().zip(begins.iter().skip(1)).map(|(begins, ends)| u64::from(ends - begins));
                lengths.max().unwrap_or(0) * SECOND
            }
        }
    }
}
