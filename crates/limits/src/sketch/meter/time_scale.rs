//! The axis that levels lie on, when the numbers of a limit have changed under them.
//!
//! The level of a bucket or a recent average is an instant, and what it means in requests depends on the rate or the
//! half-life: a lead of a minute is ten requests at `10/m` and five at `5/m`. If other numbers simply judged the same instants, a
//! client that spent ten would be taken for one that spent five, and a lowered rate would be a gift.
//!
//! So levels lie on an axis that need not run as fast as time. It begins as time itself. When numbers change, nothing in the
//! table is touched: the axis runs faster or slower **from then on**, such that one request still moves a level by the same
//! span of the axis, and a half-life still is the same span. What was spent stays spent, to the unit, and fades at the new
//! rate from that moment.
//!
//! Requests that began under the old numbers go on by the old axis, in the same table: the two meet where the numbers changed, and
//! on each of them levels only grow. Where the new axis is ahead of the old one, they go by the new one ([`Timeline`]):
//! otherwise what they are charged would be taken for something that happened long ago.
//!
//! An axis that runs fast ends early, so there is a [fastest](Ratio::FASTEST) that one may run. Numbers that ask for more are judged on an
//! axis of their own, by a table into which the levels were put as they are there.
//!
//! **Rounding** is against the client: a place on the axis is rounded down, a wait up.

use std::sync::Arc;

use crate::sync::{ArcSwap, AtomicU64, Ordering};
use crate::units::Timestamp;

/// An axis that may run `real : places` slower than time, from one moment on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeScale(Option<Bend>);

/// From `since` on, at `place`, so many nanoseconds of time are so many of the axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bend {
    since: u64,
    place: u64,
    ratio: Ratio,
}

/// How many nanoseconds of time pass in how many of the axis: a fraction above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    real: u64,
    places: u64,
}

impl Ratio {
    /// That of time itself.
    pub const EVEN: Ratio = Ratio { real: 1, places: 1 };

    /// The fastest that an axis may run: it ends after 584 years of its own, and must outlast the process.
    pub const FASTEST: Ratio = Ratio { real: 1, places: 128 };

    /// `real` nanoseconds of time in `places` of the axis; a part of nothing counts as one. What does not fit is rounded so that the
    /// axis is the slower, as far as one place is enough for that.
    pub fn new(real: u128, places: u128) -> Ratio {
        let (mut real, mut places) = (real.max(1), places.max(1));
        let common = greatest_common_divisor(real, places);
        real /= common;
        places /= common;
        while real.max(places) > u128::from(u64::MAX) {
            real = real.div_ceil(2);
            places = (places / 2).max(1);
        }
        let fits = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
        Ratio { real: fits(real), places: fits(places) }
    }

    /// The slower of the two.
    #[must_use]
    pub fn slower(self, other: Ratio) -> Ratio {
        let crossed = |a: u64, b: u64| u128::from(a) * u128::from(b);
        if crossed(self.real, other.places) >= crossed(other.real, self.places) { self } else { other }
    }

    /// The span of the axis that takes so long, rounded down.
    pub fn places_in(self, real: u64) -> u64 {
        scaled(real, self.places, self.real, false)
    }

    /// The same, rounded up.
    pub fn places_in_at_least(self, real: u64) -> u64 {
        scaled(real, self.places, self.real, true)
    }

    /// Whether so long is a whole number of places, not none.
    pub fn is_whole(self, real: u64) -> bool {
        let product = u128::from(real) * u128::from(self.places);
        product > 0 && product.is_multiple_of(u128::from(self.real.max(1)))
    }

    /// How long a span of the axis takes, rounded up.
    pub fn real_in(self, places: u64) -> u64 {
        scaled(places, self.real, self.places, true)
    }
}

impl TimeScale {
    /// Time itself.
    pub const TIME: TimeScale = TimeScale(None);

    /// The place of a stamp: never later for an earlier stamp.
    #[inline]
    pub fn at(&self, now: Timestamp) -> Timestamp {
        match &self.0 {
            None => now,
            Some(bend) => bend.at(now),
        }
    }

    /// How long it is from `now` until `places` further on the axis: not a nanosecond too short, and none too long. `None` if time
    /// ends first.
    #[inline]
    pub fn wait(&self, now: Timestamp, places: u64) -> Option<u64> {
        match &self.0 {
            None => Some(places),
            Some(bend) => bend.wait(now, places),
        }
    }

    /// Whether it is time itself, so that spans need no conversion.
    pub fn is_time(&self) -> bool {
        self.0.is_none()
    }

    /// How fast it runs now.
    pub fn ratio(&self) -> Ratio {
        self.0.map_or(Ratio::EVEN, |bend| bend.ratio)
    }

    /// The same axis until `now`, at another pace from then on. `None` when it might end within the life of the process: at a pace
    /// above [`Ratio::FASTEST`], or when too much of it is used up.
    pub fn bent(&self, now: Timestamp, ratio: Ratio) -> Option<TimeScale> {
        if ratio == self.ratio() {
            return Some(*self);
        }
        let place = self.at(now).nanos();
        let lasts = place < u64::MAX / 2 && ratio.slower(Ratio::FASTEST) == ratio;
        lasts.then_some(TimeScale(Some(Bend { since: now.nanos(), place, ratio })))
    }
}

/// The axis of one who charges a table, beside those of others who have charged it before or will after.
#[derive(Debug, Clone)]
pub struct Timeline {
    own: TimeScale,
    number: u64,
    current: Arc<Current>,
}

/// The axis that is in force, one for all who charge a table.
#[derive(Debug, Default)]
struct Current {
    /// Whose it is. Relaxed: whoever sees another number than his own takes the later of his own axis and of the one that he finds,
    /// and who finds an old one is as one who came a moment earlier.
    number: AtomicU64,
    time_scale: ArcSwap<TimeScale>,
}

impl Timeline {
    /// Of the first: time itself.
    pub fn first() -> Timeline {
        Timeline { own: TimeScale::TIME, number: 0, current: Arc::default() }
    }

    /// Of the next, at another pace from `now` on; not in force before [`Timeline::take_over`]. `None` as [`TimeScale::bent`].
    pub fn followed_by(&self, now: Timestamp, ratio: Ratio) -> Option<Timeline> {
        let (number, current) = (self.number + 1, Arc::clone(&self.current));
        Some(Timeline { own: self.own.bent(now, ratio)?, number, current })
    }

    /// From now on this one is in force.
    pub fn take_over(&self) {
        self.current.time_scale.store(Arc::new(self.own));
        self.current.number.store(self.number, Ordering::Relaxed);
    }

    /// The place of a stamp: on the own axis, or on the one in force if that is ahead.
    #[inline]
    pub fn at(&self, now: Timestamp) -> Timestamp {
        let own = self.own.at(now);
        if self.current.number.load(Ordering::Relaxed) == self.number { own } else { self.no_earlier(own, now) }
    }

    #[cold]
    fn no_earlier(&self, own: Timestamp, now: Timestamp) -> Timestamp {
        own.max(self.current.time_scale.load().at(now))
    }

    /// The own axis.
    pub fn time_scale(&self) -> &TimeScale {
        &self.own
    }
}

impl Bend {
    // not inlined, as the numbers of most limits have never changed
    #[inline(never)]
    fn at(&self, now: Timestamp) -> Timestamp {
        let now = now.nanos();
        Timestamp::from_nanos(match now.checked_sub(self.since) {
            Some(later) => self.place.saturating_add(self.ratio.places_in(later)),
            // a stamp that was taken just before the numbers changed
            None => self.place.saturating_sub(self.ratio.places_in_at_least(self.since - now)),
        })
    }

    fn wait(&self, now: Timestamp, places: u64) -> Option<u64> {
        let target = self.at(now).nanos().checked_add(places)?;
        let Some(beyond) = target.checked_sub(self.place) else { return Some(self.ratio.real_in(places)) };
        let after = self.ratio.real_in(beyond);
        let until = self.since.checked_add(after)?;
        (after < u64::MAX).then(|| until.saturating_sub(now.nanos()))
    }
}

fn scaled(span: u64, by: u64, over: u64, up: bool) -> u64 {
    let product = u128::from(span) * u128::from(by);
    let over = u128::from(over.max(1));
    u64::try_from(if up { product.div_ceil(over) } else { product / over }).unwrap_or(u64::MAX)
}

fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos)
    }

    #[test]
    fn it_is_time_until_it_is_bent_and_goes_on_from_there() {
        let time_scale = TimeScale::TIME;
        assert_eq!(time_scale.at(at(77)), at(77));
        let slow = time_scale.bent(at(1_000), Ratio::new(2, 1)).unwrap();
        assert_eq!([1_000, 1_001, 1_002, 1_010].map(|now| slow.at(at(now)).nanos()), [1_000, 1_000, 1_001, 1_005]);
        let fast = slow.bent(at(1_010), Ratio::new(1, 3)).unwrap();
        assert_eq!([1_010, 1_011, 1_020].map(|now| fast.at(at(now)).nanos()), [1_005, 1_008, 1_035]);
        assert!(fast.at(at(1_009)) < fast.at(at(1_010)));
    }

    #[test]
    fn whoever_comes_late_is_never_charged_in_the_past() {
        let first = Timeline::first();
        let fast = first.followed_by(at(100), Ratio::new(1, 2)).unwrap();
        assert_eq!((first.at(at(110)), fast.time_scale().at(at(110))), (at(110), at(120)));
        fast.take_over();
        assert_eq!((first.at(at(110)), fast.at(at(110))), (at(120), at(120)), "not ten before the others");
        let slow = fast.followed_by(at(110), Ratio::new(2, 1)).unwrap();
        slow.take_over();
        // at 120 now, then 5 in 10
        assert_eq!([&first, &fast, &slow].map(|timeline| timeline.at(at(120)).nanos()), [125, 140, 125]);
    }

    #[test]
    fn a_wait_ends_at_the_first_moment_that_is_late_enough() {
        for ratio in [Ratio::new(7, 3), Ratio::new(3, 7), Ratio::new(1_000_000_007, 13), Ratio::new(1, 128)] {
            let time_scale = TimeScale::TIME.bent(at(5_000), ratio).unwrap();
            for (now, places) in [(5_000, 1), (5_003, 10), (6_789, 1_000), (1 << 40, 12_345)] {
                let wait = time_scale.wait(at(now), places).unwrap();
                let target = time_scale.at(at(now)).nanos() + places;
                assert!(time_scale.at(at(now + wait)).nanos() >= target, "{ratio:?} {now} {places}");
                assert!(time_scale.at(at(now + wait - 1)).nanos() < target, "{ratio:?} {now} {places}");
            }
        }
    }

    #[test]
    fn numbers_that_do_not_fit_make_it_slower_and_never_faster() {
        let ratio = Ratio::new(u128::from(u64::MAX) * 3 + 1, 7);
        assert_eq!(ratio, Ratio { real: ratio.real, places: 1 });
        assert!(ratio.places_in(u64::MAX) <= 2);
        assert_eq!(Ratio::new(0, 0), Ratio::EVEN);
        assert_eq!(Ratio::new(4, 2).slower(Ratio::new(1, 3)), Ratio::new(2, 1));
    }

    #[test]
    fn an_axis_that_is_nearly_used_up_is_bent_no_more() {
        assert!(TimeScale::TIME.bent(at(u64::MAX / 2), Ratio::FASTEST).is_none());
        assert!(TimeScale::TIME.bent(at(u64::MAX / 2), Ratio::EVEN).is_some(), "nothing changes");
        assert!(TimeScale::TIME.bent(at(1), Ratio::new(1, 129)).is_none(), "it would end too soon");
        let ended = TimeScale::TIME.bent(at(1), Ratio::FASTEST).unwrap();
        assert_eq!(ended.at(at(u64::MAX)).nanos(), u64::MAX);
        assert_eq!(ended.wait(at(u64::MAX - 5), 1_000), None);
    }
}
