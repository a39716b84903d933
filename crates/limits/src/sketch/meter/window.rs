//! The fixed window, kept as one number: which window, and how much of it is spent.
//!
//! Source: the epoch-aligned window limiter of throttlekit's overload page, without its table of counters: here a newer
//! epoch is a greater level than any count of an older one, so nothing has to be rotated or reset.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::time::Duration;

use super::windows::Within;
use super::{Charged, Meter, NextUnit, Windows};
use crate::units::{Cost, OutOfRange, Timestamp};

/// At most `limit` in every **aligned** window of `length`, or in every day, week or month.
///
/// The level is an epoch in the high 32 bits and the count spent in it in the low 32. Epochs are counted from 1, so
/// that the level zero belongs to none. Across a boundary twice the limit can pass in an instant, all of it just before
/// and all of it just after: that is what an aligned window is. Whoever minds takes
/// [`SlidingWindows`](crate::sketch::SlidingWindows) or a [`Bucket`](super::Bucket).
///
/// **Stale stamps.** A request is charged to the newest epoch it meets, and admitted only if that is its own. One whose
/// stamp lies before a boundary, and which finds that its cells have already crossed it, is refused until the boundary:
/// how much of the old window was spent is no longer known. So the promise holds for the stamps used, in whatever order
/// they come, and a clock that steps back can open no window twice; it only refuses until it has caught up.
///
/// **Charges ahead of time.** A request that waits for a window is charged there before it begins. Where that happens, each window of
/// a key is counted [by itself](Windows): in a level of its own, the present one stays open for others that fit.
///
/// A count of 4,294,967,295 stands for "too many to tell" and admits nothing; so does an epoch beyond 32 bits, which 1 s
/// windows reach 136 years after the origin.
#[derive(Debug, Clone)]
pub struct Window {
    limit: u32,
    windows: Windows,
}

impl Window {
    /// The [standing](Meter::standing) of what no limit would admit.
    pub const NO_LIMIT_HELPS: u64 = u64::MAX;

    /// Windows of `length` that begin at the stamps `k·length − offset`. With the wall time of the origin as `offset`,
    /// windows of a day begin at midnight and windows of an hour on the hour, and no later step of the wall clock moves
    /// them. Only `offset` modulo `length` counts.
    ///
    /// # Errors
    /// A limit of zero, which would admit nothing, or of 4,294,967,295, which could not be told from more; a length
    /// that is not a whole number of seconds from 1 s to 31 d.
    pub fn new(limit: u32, length: Duration, offset: Duration) -> Result<Window, OutOfRange> {
        Window::on(limit, Windows::even(length, offset)?)
    }

    /// At most `limit` in each of these windows.
    ///
    /// # Errors
    /// A limit as for [`Window::new`].
    pub fn on(limit: u32, windows: Windows) -> Result<Window, OutOfRange> {
        if limit == 0 || limit == u32::MAX {
            return Err(OutOfRange { allowed: "1 to 4294967294" });
        }
        Ok(Window { limit, windows })
    }

    /// Where its windows begin.
    pub fn windows(&self) -> &Windows {
        &self.windows
    }

    /// The most that is admitted in one window, in units of cost.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Whether its windows begin when those of `other` do, so that a level means the same under both.
    pub fn has_windows_of(&self, other: &Window) -> bool {
        self.windows.same_as(&other.windows)
    }

    /// Nanoseconds from the beginning of the longest window to the beginning of the next.
    pub fn length_nanos(&self) -> u64 {
        self.windows.longest_nanos()
    }

    /// Nanoseconds from `now` to the end of its window: at least 1. `None` if time or epochs end first.
    pub fn end_nanos(&self, now: Timestamp) -> Option<u64> {
        self.until(self.epoch(now)?.checked_add(1)?, now)
    }

    /// The window that `now` lies in; `None` past the last that 32 bits can name.
    #[inline]
    pub(in crate::sketch) fn epoch(&self, now: Timestamp) -> Option<u32> {
        self.windows.within(now).epoch
    }

    /// Nanoseconds since the window of `now` began.
    #[inline]
    pub(in crate::sketch) fn elapsed(&self, now: Timestamp) -> u64 {
        self.windows.within(now).elapsed
    }

    /// Nanoseconds from `now` to the first of `epoch`, zero if it has begun; `None` if time ends first.
    pub(in crate::sketch) fn until(&self, epoch: u32, now: Timestamp) -> Option<u64> {
        self.windows.until(epoch, now)
    }

    /// The first instant at which a request that fits an empty window, but not `level` now, is admitted.
    fn opens(&self, level: u64, now: Timestamp, cost: u32) -> Option<u64> {
        let (epoch, count) = split(level);
        // a level of a window yet to come may have room in it; of this one there is none, or we would not be asked
        let room_there = epoch > self.epoch(now)? && u64::from(count) + u64::from(cost) <= u64::from(self.limit);
        self.until(if room_there { epoch } else { epoch.checked_add(1)? }, now)
    }
}

/// Epoch and count of a level.
#[inline]
pub(in crate::sketch) fn split(level: u64) -> (u32, u32) {
    ((level >> 32) as u32, level as u32)
}

#[inline]
fn join(epoch: u32, count: u32) -> u64 {
    u64::from(epoch) << 32 | u64::from(count)
}

impl Meter for Window {
    #[inline]
    fn charge(&self, level: u64, now: Timestamp, cost: Cost) -> u64 {
        let Some(current) = self.epoch(now) else { return u64::MAX };
        let (epoch, count) = split(level);
        if epoch < current { join(current, cost.get()) } else { join(epoch, count.saturating_add(cost.get())) }
    }

    #[inline]
    fn admit(&self, level: u64, now: Timestamp, cost: Cost) -> Option<Charged> {
        let Within { epoch: Some(current), left, .. } = self.windows.within(now) else { return None };
        let (epoch, count) = split(level);
        let spent = if epoch < current { 0 } else { count };
        // an epoch ahead of now's has nothing to give: the request is a straggler (see the type)
        let spent = spent.checked_add(cost.get()).filter(|_| epoch <= current)?;
        let remaining = self.limit.checked_sub(spent)?;
        // the end of the window, as something is spent of it
        let names_it = current < u32::MAX && now.nanos().checked_add(left).is_some();
        Some(Charged { to: join(current, spent), remaining, next_unit: NextUnit::Known(names_it.then_some(left)) })
    }

    fn quota(&self) -> u32 {
        self.limit
    }

    #[inline]
    fn outlook(&self, level: u64, now: Timestamp) -> (u32, NextUnit) {
        let (epoch, count) = split(level);
        let Some(current) = self.epoch(now) else { return (0, NextUnit::Known(None)) };
        let remaining = match epoch.cmp(&current) {
            Less => self.limit,
            Equal => self.limit.saturating_sub(count),
            Greater => 0,
        };
        let next = if remaining == self.limit { None } else { self.opens(level, now, 1) };
        (remaining, NextUnit::Known(next))
    }

    fn retry_nanos(&self, level: u64, now: Timestamp, cost: Cost) -> Option<u64> {
        if self.admit(level, now, cost).is_some() {
            return Some(0);
        }
        if cost.get() > self.limit {
            return None;
        }
        self.opens(level, now, cost.get())
    }

    /// What is spent of the window of `now`; [`Window::NO_LIMIT_HELPS`] of a straggler, which is refused whatever the limit is.
    fn standing(&self, level: u64, now: Timestamp) -> u64 {
        let (epoch, count) = split(level);
        match self.epoch(now) {
            Some(current) if epoch < current => 0,
            Some(current) if epoch == current => u64::from(count),
            _ => Window::NO_LIMIT_HELPS,
        }
    }

    fn fade_nanos(&self) -> u64 {
        self.windows.longest_nanos()
    }

    fn is_over(&self, level: u64, now: Timestamp) -> bool {
        self.epoch(now).is_some_and(|current| split(level).0 < current)
    }

    fn windows(&self) -> Option<&Windows> {
        Some(&self.windows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn window(limit: u32, seconds: u64) -> Window {
        Window::new(limit, Duration::from_secs(seconds), Duration::ZERO).unwrap()
    }

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    fn spend(window: &Window, level: &mut u64, now: u64, cost: u32) -> bool {
        let charged = window.admit(*level, at(now), Cost::new(cost).unwrap());
        *level = charged.map_or(*level, |charged| charged.to);
        charged.is_some()
    }

    #[test]
    fn the_third_of_two_waits_for_the_next_window() {
        let window = window(2, 1);
        let mut level = 0;
        assert!(spend(&window, &mut level, 0, 1) && spend(&window, &mut level, 0, 1));
        assert!(!spend(&window, &mut level, 0, 1));
        assert_eq!(window.retry_nanos(level, at(0), Cost::ONE), Some(SECOND));
        assert!(!spend(&window, &mut level, SECOND - 1, 1));
        assert!(spend(&window, &mut level, SECOND, 1));
        // the first request of a window is told its end
        assert!(spend(&window, &mut level, 2_500_000_000, 1));
        assert_eq!(window.outlook(level, at(2_500_000_000)).1.nanos(), Some(500_000_000));
    }

    #[test]
    fn nobody_seen_has_the_whole_window_even_at_the_origin() {
        let window = window(5, 60);
        assert_eq!(window.outlook(0, Timestamp::ZERO).0, 5);
        assert_eq!(window.outlook(0, Timestamp::ZERO).1.nanos(), None);
    }

    #[test]
    fn the_offset_puts_the_boundaries_where_the_wall_clock_has_them() {
        // the run began at 17:30:00 UTC of some day, 20,000 days after the wall clock's own origin
        let day = 86_400;
        let offset = Duration::from_secs(20_000 * day + 17 * 3_600 + 1_800);
        let daily = Window::new(1, Duration::from_secs(day), offset).unwrap();
        let midnight = (6 * 3_600 + 1_800) * SECOND;
        assert_eq!(daily.end_nanos(Timestamp::ZERO), Some(midnight));
        assert_eq!(daily.end_nanos(at(midnight - 1)), Some(1));
        assert_eq!(daily.end_nanos(at(midnight)), Some(day * SECOND));
        assert_eq!((daily.elapsed(at(midnight)), daily.elapsed(at(midnight + 7))), (0, 7));
        let hourly = Window::new(1, Duration::from_secs(3_600), offset).unwrap();
        assert_eq!(hourly.end_nanos(Timestamp::ZERO), Some(1_800 * SECOND));
    }

    #[test]
    fn a_straggler_is_refused_until_its_cells_own_window_begins() {
        let window = window(2, 10);
        let mut level = 0;
        assert!(spend(&window, &mut level, 20 * SECOND, 1));
        assert!(!spend(&window, &mut level, 20 * SECOND - 3, 1), "how much of the old window was spent is forgotten");
        assert_eq!(window.outlook(level, at(20 * SECOND - 3)).0, 0);
        assert_eq!(window.retry_nanos(level, at(20 * SECOND - 3), Cost::ONE), Some(3));
        assert_eq!(window.retry_nanos(level, at(20 * SECOND - 3), Cost::new(2).unwrap()), Some(10 * SECOND + 3));
        assert_eq!(window.outlook(level, at(20 * SECOND - 3)).1.nanos(), Some(3));
    }

    #[test]
    fn where_numbers_end_it_refuses_instead_of_wrapping() {
        let window = window(u32::MAX - 1, 1);
        let mut level = 0;
        assert!(!spend(&window, &mut level, 0, u32::MAX));
        assert!(spend(&window, &mut level, 0, u32::MAX - 1));
        assert_eq!(split(window.charge(level, Timestamp::ZERO, Cost::new(u32::MAX).unwrap())), (1, u32::MAX));
        let last = u64::from(u32::MAX) * SECOND - 1;
        assert_eq!(window.epoch(at(last)), Some(u32::MAX));
        assert!(spend(&window, &mut level, last, 1));
        assert!(!spend(&window, &mut level, last + 1, 1));
        assert_eq!(window.retry_nanos(level, at(last), Cost::new(u32::MAX - 1).unwrap()), None);
        assert_eq!(window.retry_nanos(level, at(last + 1), Cost::ONE), None);
        assert_eq!((window.end_nanos(at(last)), window.outlook(0, at(u64::MAX)).0), (None, 0));
    }

    #[test]
    fn limits_and_lengths_out_of_range_are_refused() {
        let with = |limit, length| Window::new(limit, length, Duration::MAX).is_ok();
        assert!(with(1, Duration::from_secs(1)) && with(u32::MAX - 1, Duration::from_secs(31 * 86_400)));
        assert!(!with(0, Duration::from_secs(1)) && !with(u32::MAX, Duration::from_secs(1)));
        assert!(!with(1, Duration::from_millis(999)) && !with(1, Duration::from_millis(1_500)));
        assert!(!with(1, Duration::from_secs(31 * 86_400 + 1)) && !with(1, Duration::MAX));
    }
}
