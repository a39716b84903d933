//! `type: distinct`: at most N different values of one thing per key and period, such as user names per client.
//!
//! A value that was counted not long ago is free, even when the quota of new ones is spent. A new one takes a unit of its key's
//! quota, and only then is remembered. Two forms:
//!
//! * **aligned**: at most N different values in every aligned period. A value is counted once per period in which it is used.
//! * **sliding**: at most `N + N·τ/P` values are *counted* in every interval of length τ. A value is free for ¾P to P after
//!   it was counted and is then counted again, so that at most `N·(2 + τ/P)` different ones pass in any interval.
//!
//! The error is one-sided but for 1.2·10⁻⁷ per look-up: a collision of counters, a full bucket or a lost race counts too much and
//! refuses early. Filling the memory takes (capacity / N) keys, and it only makes repeats count again. A refused request
//! writes nothing. A stamp older than the newest period seen is taken for the start of that period.
//!
//! What it replaces is Exim's `per_addr` (Finch): a Bloom filter for every key, which lets new values pass as
//! old ones (1 in 1,741 at the limit, 1 in 3.2 at four times that) and does not let an old one pass when the limit is reached.

mod counter;

use std::sync::Arc;
use std::time::Duration;

use super::needs::{self, Owed};
use super::{Judgement, Kind, Lost, Near, Place, Said};
use crate::sketch::{
    Admission, Charged, Course, KeyHash, Levels, Lifetime, Meter, NextUnit, Pace, Seed, SeenSet, Spot,
};
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};
use counter::Counter;

/// The state of one `distinct` limit: how many new values each key has had, and which.
#[derive(Debug)]
pub struct Distinct {
    own: Counter,
    tiers: Box<[Counter]>,
    /// Shared, as the set is, with the limiters that it follows.
    levels: Arc<Levels>,
    seen: Arc<SeenSet>,
    /// Where a moment lies among the levels; sliding ones only.
    course: Course,
    /// The longest span of the axis that levels needed to fade under the numbers before, and its slowest pace.
    before: (u64, Pace),
    seed: Seed,
    offset: u64,
    longest_wait: u64,
}

impl Distinct {
    /// The memory of a limit unless the operator says otherwise: half for [`SeenSet::DEFAULT_MEMORY`], a quarter for each
    /// of the two tables of counters that take turns; innocents beside 1,000 keys at their limit are wrongly refused with
    /// probability 8·10⁻⁷.
    pub const DEFAULT_MEMORY: Bytes = Bytes(4 << 20);

    /// An empty limiter: at most `max` different values per key and `period`. Half of `memory` holds the values and half
    /// the counters, of which 1/32 of it more are exact.
    ///
    /// # Errors
    /// `max` of nothing or of 2³²−1; a period outside 1 s to 31 days, or above a day when `sliding`; or
    /// `memory` that is not a power of two from 16 KiB to 1 GiB.
    pub fn new(max: u32, period: Duration, sliding: bool, memory: Bytes, seed: Seed) -> Result<Distinct, OutOfRange> {
        Distinct::with_tiers(max, &[], period, sliding, memory, seed)
    }

    /// The same with other numbers for tiers 1, 2 and so on. They share the counters and the set, so a client that changes its
    /// tier takes along what it has had.
    ///
    /// # Errors
    /// As [`Distinct::new`].
    pub fn with_tiers(
        max: u32,
        tiers: &[u32],
        period: Duration,
        sliding: bool,
        memory: Bytes,
        seed: Seed,
    ) -> Result<Distinct, OutOfRange> {
        if !(16 << 10..=1 << 30).contains(&memory.0) || !memory.0.is_power_of_two() {
            return Err(OutOfRange { allowed: "a power of two from 16KiB to 1GiB" });
        }
        let half = Bytes(memory.0 / 2);
        if sliding && period > Duration::from_secs(86_400) {
            return Err(OutOfRange { allowed: "1s to 1d when sliding" });
        }
        let counter = |max: u32| Counter::new(max, period, sliding, Pace::EVEN);
        let own = counter(max)?;
        let tiers = tiers.iter().map(|max| counter(*max)).collect::<Result<_, _>>()?;
        let lifetime = if sliding { Lifetime::smooth(period)? } else { Lifetime::aligned(period)? };
        let levels = Levels::new(Bytes(memory.0 / 4), &seed)?;
        Ok(Distinct {
            own,
            tiers,
            levels: Arc::new(levels),
            seen: Arc::new(SeenSet::with_memory(half, lifetime)?),
            course: Course::first(),
            before: (0, Pace::EVEN),
            seed,
            offset: 0,
            longest_wait: 0,
        })
    }

    /// The same counts and values under other quotas, from `now` on: the quota of tier 0, then those of the tiers. What was
    /// counted stays counted. `None` when it cannot be carried over.
    ///
    /// # Errors
    /// As [`Distinct::new`]. The period and the form must be as they were.
    pub fn followed_by(
        &self,
        max: u32,
        tiers: &[u32],
        period: Duration,
        now: Timestamp,
    ) -> Result<Option<Distinct>, OutOfRange> {
        let sliding = matches!(self.own, Counter::Sliding(_));
        let counter = |max: u32, pace| Counter::new(max, period, sliding, pace);
        let pace = match (&self.own, counter(max, Pace::EVEN)?) {
            (Counter::Sliding(before), Counter::Sliding(new)) => before.pace_for(&new, (1, 1)),
            _ => Pace::EVEN,
        };
        // as levels are charged: no later than the set says it is
        let Some(course) = self.course.followed_by(self.moment(now).effective, pace) else { return Ok(None) };
        Ok(Some(Distinct {
            own: counter(max, pace)?,
            tiers: tiers.iter().map(|max| counter(*max, pace)).collect::<Result<_, _>>()?,
            levels: Arc::clone(&self.levels),
            seen: Arc::clone(&self.seen),
            course,
            before: (self.fade(), self.before.1.slower(pace)),
            seed: self.seed.clone(),
            offset: self.offset,
            longest_wait: 0,
        }))
    }

    /// From now on these quotas are in force.
    pub fn take_over(&self) {
        self.course.take_over();
    }

    /// The same with aligned periods that begin `offset` before whole multiples of their length on the axis of stamps, so that
    /// they can follow the wall clock.
    pub fn with_offset(self, offset: Duration) -> Distinct {
        Distinct { offset: u64::try_from(offset.as_nanos()).unwrap_or(0), ..self }
    }

    /// The same for requests that may be charged so far ahead of now, because they wait.
    pub fn with_longest_wait(self, nanos: u64) -> Distinct {
        Distinct { longest_wait: nanos, ..self }
    }

    /// Whether a request of `key` with the value of `pair` would pass. `pair` is the hash of the parts of the key *and*
    /// the value: equal values of two keys are two pairs. Changes nothing.
    pub fn probe(&self, key: KeyHash, pair: KeyHash, now: Timestamp) -> Judgement {
        self.probe_beside(0, key, pair, now, 0)
    }

    /// The same by the numbers of a tier, on top of `held` new values that others of the key may yet be charged.
    pub fn probe_beside(&self, tier: u8, key: KeyHash, pair: KeyHash, now: Timestamp, held: u32) -> Judgement {
        let (counter, moment) = (self.counter(tier), self.moment(now));
        let level = self.levels.estimate(key);
        if self.seen.contains(pair, moment.effective) {
            return self.passing_in_full(counter, level, moment);
        }
        let charged = counter.charge(level, moment.place, Cost::ONE.saturating_add(held));
        if counter.admits(charged, moment.place) {
            self.passing_in_full(counter, charged, moment)
        } else {
            // as if all that others hold back were charged now: sooner than that nobody can promise
            let held = Cost::new(held).map_or(level, |held| counter.charge(level, moment.place, held));
            self.refused(counter, held, moment)
        }
    }

    /// What [`Distinct::probe_beside`] says of a tier where nothing is held back, in a word.
    #[inline(never)]
    pub fn said(&self, place: &Place, near: &mut Near, now: Timestamp, next: &mut NextUnit) -> Said {
        let (counter, moment) = (self.counter(place.tier), self.moment(now));
        let level = self.levels.look(&mut near.spot, place.key);
        near.repeat = self.seen.contains(place.value, moment.effective);
        if near.repeat {
            let (remaining, unit) = self.passing(counter, level, moment);
            (near.charged, near.at) = (Charged { to: level, remaining, ..Charged::default() }, moment.effective);
            *next = unit;
            return Said::Fits(remaining.into());
        }
        let Some(charged) = counter.leaves_charged(level, moment.place, Cost::ONE) else { return Said::Over(level) };
        (near.charged, near.at) = (charged, moment.place);
        *next = NextUnit::Known(self.told(counter.next_unit_later(&charged, moment.place).nanos(), moment));
        Said::Fits(charged.remaining.into())
    }

    /// What is told of a new value at this level of its key's counter.
    pub(super) fn told_at(&self, tier: u8, level: u64, now: Timestamp) -> Judgement {
        self.refused(self.counter(tier), level, self.moment(now))
    }

    /// Where the counter of the key is, for a request that comes back to it.
    #[inline]
    pub fn spot(&self, key: KeyHash) -> Spot {
        self.levels.spot(key)
    }

    /// [`Distinct::prefetch`] for the key whose spot it is.
    #[inline]
    pub fn prefetch_at(&self, spot: &Spot, key: KeyHash, pair: KeyHash) {
        self.seen.prefetch(pair);
        self.levels.prefetch_at(spot, key);
    }

    /// Has all that a request would be judged by brought near.
    #[inline]
    pub fn prefetch(&self, key: KeyHash, pair: KeyHash) {
        self.seen.prefetch(pair);
        self.levels.prefetch(key);
    }

    /// Lets the request pass and counts its value if that is new. Of two requests with one new value at the same
    /// instant both may be counted.
    ///
    /// # Errors
    /// The value is new and the quota of new values is spent.
    pub fn admit(&self, key: KeyHash, pair: KeyHash, now: Timestamp) -> Result<Judgement, Lost> {
        self.admit_in(0, key, pair, now)
    }

    /// The same by the numbers of a tier.
    ///
    /// # Errors
    /// As [`Distinct::admit`].
    pub fn admit_in(&self, tier: u8, key: KeyHash, pair: KeyHash, now: Timestamp) -> Result<Judgement, Lost> {
        self.count(self.counter(tier), key, pair, self.moment(now))
    }

    /// Lets a request pass of which was said that it fits, and counts its value if that is new, if nothing has moved since; says whether it did.
    /// All else that there is to say of it was said when it was asked about.
    #[inline(never)]
    pub fn charge_asked(&self, place: &Place, near: &Near, now: Timestamp) -> bool {
        let (moment, to) = (self.moment(now), near.charged.to);
        if near.repeat {
            return to > 0 && near.at == moment.effective;
        }
        let counter = self.counter(place.tier);
        let counted = to > 0
            && near.at == moment.place
            && self.levels.raise_kept(&near.spot, counter, place.key, moment.place, &near.charged);
        if counted {
            self.remember(place.value, moment);
        }
        counted
    }

    /// What a refusal of a new value is short of.
    pub(super) fn owed(&self, kind: &Kind, tier: u8, standing: u64) -> Owed {
        match self.counter(tier) {
            Counter::Aligned(_) => Owed::units(standing.saturating_add(1), 0),
            Counter::Sliding(bucket) => {
                let lead = u128::from(standing);
                let Kind::Distinct { window, .. } = kind else { return Owed::default() };
                // m·I − lead: how long ago m values at one instant were; by then one of m per window must have come back
                let fits = |max: u32| {
                    let since = (u128::from(max) * u128::from(bucket.interval_nanos())).saturating_sub(lead);
                    Some(since >= window.as_nanos().div_ceil(u128::from(max.max(1))))
                };
                let owed = needs::smallest(bucket.burst(), fits).filter(|_| standing > 0);
                Owed::units(owed.map_or(0, u64::from), 0)
            }
        }
    }

    /// Whether the key's values are counted exactly at this moment.
    pub(super) fn is_exact(&self, key: KeyHash) -> bool {
        self.levels.is_exact(key)
    }

    fn counter(&self, tier: u8) -> &Counter {
        usize::from(tier).checked_sub(1).and_then(|index| self.tiers.get(index)).unwrap_or(&self.own)
    }

    /// Whether the value counts as seen: it passes, and costs nothing. Changes nothing.
    pub fn is_repeat(&self, pair: KeyHash, now: Timestamp) -> bool {
        self.seen.contains(pair, self.moment(now).effective)
    }

    /// Counts the value unless it is seen, even above the quota. For values that are charged only once the answer is known:
    /// who admits only what fits beside all pending attempts stays within the quota.
    pub fn confirm(&self, tier: u8, key: KeyHash, pair: KeyHash, now: Timestamp) {
        let (counter, moment) = (self.counter(tier), self.moment(now));
        if !self.seen.contains(pair, moment.effective) {
            // what a tier admits can put a key over the numbers of another: twice the greatest quota is more than any
            let most = Cost::new(self.greatest().saturating_mul(2)).unwrap_or(Cost::ONE);
            self.levels.charge(counter, key, moment.place, Cost::ONE, counter.charge(0, moment.place, most));
            // not remembered is harmless: the value will be counted again
            let _ = self.seen.insert(pair, moment.effective);
        }
    }

    /// The greatest quota of any tier.
    fn greatest(&self) -> u32 {
        self.tiers.iter().map(Meter::quota).fold(self.own.quota(), u32::max)
    }

    /// Clears dead values. Made for a timer; no promise rests on it.
    pub fn sweep(&self, now: Timestamp) {
        self.seen.sweep(self.shifted(now));
    }

    /// Raises the count of a key to at least that of another, and has its value count as seen: it was charged under the other.
    pub fn carry(&self, from: KeyHash, (to, pair): (KeyHash, KeyHash), now: Timestamp) {
        self.levels.carry(from, to);
        let moment = self.moment(now).effective;
        if !self.seen.contains(pair, moment) {
            // not remembered is harmless: the value will be counted again
            let _ = self.seen.insert(pair, moment);
        }
    }

    /// Re-keys the counters when that is due. To be called about once a second.
    pub fn maintain(&self, now: Timestamp) {
        self.levels.maintain(self.moment(now).effective, self.fade_nanos());
    }

    /// Nanoseconds after which whatever a key was charged has faded, whatever numbers it was charged by and however slow the axis was
    /// meanwhile.
    pub fn fade_nanos(&self) -> u64 {
        self.before.1.real_in(self.fade())
    }

    /// The longest span of the axis that any level needs to fade, whatever numbers it was charged by.
    fn fade(&self) -> u64 {
        // a confirmed value may put the slowest tier's counter ahead by twice the greatest quota
        let most = Cost::new(self.greatest().saturating_mul(2)).unwrap_or(Cost::ONE);
        let ahead = |counter: &Counter| match counter {
            Counter::Sliding(bucket) => bucket.charge(0, Timestamp::ZERO, most),
            Counter::Aligned(window) => window.fade_nanos(),
        };
        let fade = self.tiers.iter().map(ahead).fold(ahead(&self.own), u64::max);
        fade.saturating_add(self.course.axis().pace().places_in_at_least(self.longest_wait)).max(self.before.0)
    }

    /// The seed that keys and pairs are hashed under.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// The size of the counters and of the set of values with its marks: 1/256 more than was asked for.
    pub fn memory(&self) -> Bytes {
        Bytes(self.levels.memory().0 + self.seen.memory().0)
    }

    /// How full the set of values is, 0 to 1. See [`SeenSet::load`].
    pub fn load(&self) -> f64 {
        self.seen.load()
    }

    /// How many live values were forgotten for lack of room. See [`SeenSet::displaced`].
    pub fn displaced(&self) -> u64 {
        self.seen.displaced()
    }

    /// The order matters: a value is remembered only after its charge, and at the same moment, so that whatever
    /// is found in the set has been paid for in the period in which it is found.
    fn count(&self, counter: &Counter, key: KeyHash, pair: KeyHash, moment: Moment) -> Result<Judgement, Lost> {
        if self.seen.contains(pair, moment.effective) {
            return Ok(self.passing_in_full(counter, self.levels.estimate(key), moment));
        }
        let (level, contended) = match self.levels.admit(counter, key, moment.place, Cost::ONE) {
            Admission::Admitted { level } => {
                self.remember(pair, moment);
                return Ok(self.passing_in_full(counter, level, moment));
            }
            Admission::Refused { level } => (level, false),
            Admission::Contended { level } => (level, true),
        };
        Err(Lost { judgement: self.refused(counter, level, moment), contended })
    }

    #[inline]
    fn remember(&self, pair: KeyHash, moment: Moment) {
        // not remembered is harmless: the value will be counted again
        let _ = self.seen.insert(pair, moment.effective);
    }

    /// Everything inside goes by stamps that are this much later; what is told are spans, which stay the same.
    fn shifted(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_nanos(now.nanos().saturating_add(self.offset))
    }

    fn moment(&self, now: Timestamp) -> Moment {
        let now = self.shifted(now);
        let effective = self.seen.moment(now);
        Moment { effective, place: self.course.at(effective), lag: effective.nanos() - now.nanos() }
    }

    #[inline]
    fn passing(&self, counter: &Counter, level: u64, moment: Moment) -> (u32, NextUnit) {
        let (remaining, next) = counter.outlook(level, moment.place);
        (remaining, NextUnit::Known(self.told(next, moment)))
    }

    fn passing_in_full(&self, counter: &Counter, level: u64, moment: Moment) -> Judgement {
        let (remaining, next_unit) = self.passing(counter, level, moment);
        Judgement { admitted: true, remaining, quota: counter.quota(), retry_nanos: Some(0), next_unit, standing: 0 }
    }

    fn refused(&self, counter: &Counter, level: u64, moment: Moment) -> Judgement {
        let (remaining, next) = counter.outlook(level, moment.place);
        let retry_nanos = counter.retry_nanos(level, moment.place, Cost::ONE);
        Judgement {
            admitted: false,
            remaining,
            quota: counter.quota(),
            retry_nanos: self.told(retry_nanos, moment),
            next_unit: NextUnit::Known(self.told(next, moment)),
            standing: counter.standing(level, moment.place),
        }
    }

    /// What is told of a wait for so much of the axis.
    #[inline]
    fn told(&self, wait: Option<u64>, moment: Moment) -> Option<u64> {
        match wait? {
            0 => Some(0),
            places => Some(self.course.axis().wait(moment.effective, places)?.saturating_add(moment.lag)),
        }
    }
}

/// When a request is judged, and how far that is ahead of its own stamp.
#[derive(Debug, Clone, Copy)]
struct Moment {
    effective: Timestamp,
    /// The same among the levels.
    place: Timestamp,
    lag: u64,
}
