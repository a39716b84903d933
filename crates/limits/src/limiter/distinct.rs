//! `type: distinct`: at most N different values of one thing per key and period, such as user names per client.
//!
//! A value that was counted not long ago is free, even when the quota of new ones is spent. A new one takes a unit of its key's
//! quota, and only then is remembered. Two forms:
//!
//! * **aligned**: at most N different values in every aligned period. A value is counted once per period in which it is used.
//! * **sliding**: at most `N + N·τ/P` values are *counted* in every interval of length τ. A value is free for ¾P to P after
//!   it was counted and is then counted again, so that at most `N·(2 + τ/P)` different ones pass in any interval.
//!
//! With `count: all` a refused value takes a unit of its key's quota as well, so a key that goes on trying stays out, and one that
//! stops is let in again at the instant that it was told. A refused value is never remembered: known values stay free meanwhile, and a
//! value that is tried again counts again. It is Exim's `strict`, with a lock-out that is capped: at `max_penalty` after the last try.
//! It has no meaning for aligned periods, whose end no try puts off.
//!
//! The error is one-sided but for 1.2·10⁻⁷ per look-up: a collision of counters, a full bucket or a lost race counts too much and
//! refuses early. Filling the memory takes (capacity / N) keys, and it only makes repeats count again. A refused request
//! writes nothing unless it counts. A stamp older than the newest period seen is taken for the start of that period.
//!
//! What it replaces is Exim's `per_addr` (Finch): a Bloom filter for every key, which lets new values pass as
//! old ones (1 in 1,741 at the limit, 1 in 3.2 at four times that) and does not let an old one pass when the limit is reached.

mod counter;

use std::sync::Arc;
use std::time::Duration;

use super::kind::MIXED;
use super::leveled::Leveled;
use super::needs::{self, Owed};
use super::spec::most;
use super::{Judgement, Kind, Lost, Near, Place, RefusedCount, Said, Tiered, kinds};
use crate::sketch::{Admission, Charged, KeyHash, Lifetime, Meter, NextUnit, Pace, Seed, SeenSet, Spot};
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};
use counter::{Counter, Counting};

/// The state of one `distinct` limit: how many new values each key has had, and which.
#[derive(Debug)]
pub struct Distinct {
    /// How many each key has had: aligned ones in one table, sliding ones in one for each quota, as they come back at other speeds.
    counters: Tiered<Counter>,
    /// Shared with the limiters that it follows.
    seen: Arc<SeenSet>,
    offset: u64,
    counts_refused: bool,
}

impl Distinct {
    /// The memory of a limit unless the operator says otherwise: half for [`SeenSet::DEFAULT_MEMORY`], a quarter for each
    /// of the two tables of counters that take turns; innocents beside 1,000 keys at their limit are wrongly refused with
    /// probability 8·10⁻⁷.
    pub const DEFAULT_MEMORY: Bytes = kinds::Distinct::FORM.memory;

    /// An empty limiter: at most `max` different values per key and `period`. Half of `memory` holds the values and half
    /// the counters, of which 1/32 of it more are exact.
    ///
    /// # Errors
    /// `max` of nothing or of 2³²−1; a period outside 1 s to 31 days, or above a day when `sliding`; or
    /// `memory` that is not a power of two from 16 KiB to 1 GiB.
    pub fn new(max: u32, period: Duration, sliding: bool, memory: Bytes, seed: Seed) -> Result<Distinct, OutOfRange> {
        Distinct::of(
            &[Kind::Distinct(kinds::Distinct {
                max,
                window: period,
                sliding,
                refused: RefusedCount::Admitted,
                memory,
            })],
            seed,
        )
    }

    /// The same with the numbers of `kinds`: the limit's own, then those of its tiers. They share the set, and take note of what
    /// others count, so a client that changes its tier takes along what it has had.
    ///
    /// # Errors
    /// As [`Distinct::new`].
    pub fn of(kinds: &[Kind], seed: Seed) -> Result<Distinct, OutOfRange> {
        let own = kinds.first().ok_or(MIXED)?;
        let (counting, Kind::Distinct(kinds::Distinct { memory, .. })) = (Counting::of(own)?, own) else {
            return Err(MIXED);
        };
        if !(16 << 10..=1 << 30).contains(&memory.0) || !memory.0.is_power_of_two() {
            return Err(OutOfRange { allowed: "a power of two from 16KiB to 1GiB" });
        }
        let half = Bytes(memory.0 / 2);
        if counting.sliding && counting.period > Duration::from_secs(86_400) {
            return Err(OutOfRange { allowed: "1s to 1d when sliding" });
        }
        let counters = kinds.iter().map(|kind| Counter::new(most(kind)?, &counting, Pace::EVEN));
        let table = |counter| Leveled::new(counter, Bytes(memory.0 / 4), seed.clone(), false);
        let lifetime = if counting.sliding { Lifetime::smooth } else { Lifetime::aligned }(counting.period)?;
        Ok(Distinct {
            counters: Tiered::empty(counters, Counter::counts_as, table)?,
            seen: Arc::new(SeenSet::with_memory(half, lifetime)?),
            offset: 0,
            counts_refused: counting.penalty.is_some(),
        })
    }

    /// The same counts and values under the numbers of `kinds`, from `now` on; `was` says for each of them which tier it was before.
    /// What was counted stays counted.
    ///
    /// # Errors
    /// As [`Distinct::new`]. The period and the form must be as they were.
    pub fn followed_by(&self, (kinds, was): (&[Kind], &[Option<u8>]), now: Timestamp) -> Result<Distinct, OutOfRange> {
        // as levels are charged: no later than the set says it is
        let now = self.moment(now).effective;
        let follow = |before: &Leveled<Counter>, kind: &Kind| {
            let (max, counting) = (most(kind)?, Counting::of(kind)?);
            let new = Counter::new(max, &counting, Pace::EVEN)?;
            let pace = before.meter().pace_for(&new);
            let course = before.course().followed_by(now, pace).filter(|_| new.fits(pace));
            course.map(|course| Ok(before.followed_by(Counter::new(max, &counting, pace)?, course, false))).transpose()
        };
        let apart = |before: &Leveled<Counter>, kind: &Kind| {
            let new = Counter::new(most(kind)?, &Counting::of(kind)?, Pace::EVEN)?;
            let pace = before.meter().pace_for(&new);
            Ok(before.apart(new, now, pace, false))
        };
        let counts_refused = kinds.first().is_some_and(|own| Counting::of(own).is_ok_and(|own| own.penalty.is_some()));
        let counters = self.counters.follow((kinds, was), Counter::counts_as, follow, apart)?;
        let (seen, offset) = (Arc::clone(&self.seen), self.offset);
        Ok(Distinct { counters, seen, offset, counts_refused })
    }

    /// From now on these quotas are in force.
    pub fn take_over(&self) {
        self.counters.take_over();
    }

    /// The same with aligned periods that begin `offset` before whole multiples of their length on the axis of stamps, so that
    /// they can follow the wall clock.
    pub fn with_offset(self, offset: Duration) -> Distinct {
        Distinct { offset: u64::try_from(offset.as_nanos()).unwrap_or(0), ..self }
    }

    /// The same for requests that may be charged so far ahead of now, because they wait.
    pub fn with_longest_wait(self, nanos: u64) -> Distinct {
        Distinct { counters: self.counters.with_longest_wait(nanos), ..self }
    }

    /// Whether a request of `key` with the value of `pair` would pass. `pair` is the hash of the parts of the key *and*
    /// the value: equal values of two keys are two pairs. Changes nothing.
    pub fn probe(&self, key: KeyHash, pair: KeyHash, now: Timestamp) -> Judgement {
        self.probe_beside(0, key, pair, now, 0)
    }

    /// The same by the numbers of a tier, on top of `held` new values that others of the key may yet be charged.
    pub fn probe_beside(&self, tier: u8, key: KeyHash, pair: KeyHash, now: Timestamp, held: u32) -> Judgement {
        let (counted, moment) = (self.counters.at(tier), self.moment(now));
        let (counter, place) = (counted.meter(), moment.among(counted));
        let level = counted.levels().estimate(key);
        if self.seen.contains(pair, moment.effective) {
            return passing_in_full(counted, level, moment);
        }
        let charged = counter.charge(level, place, Cost::ONE.saturating_add(held));
        if counter.admits(charged, place) {
            passing_in_full(counted, charged, moment)
        } else {
            // as if all that others hold back were charged now: sooner than that nobody can promise
            let held = Cost::new(held).map_or(level, |held| counter.charge(level, place, held));
            refused(counted, held, moment)
        }
    }

    /// What [`Distinct::probe_beside`] says of a tier where nothing is held back, in a word.
    #[inline(never)]
    pub fn said(&self, place: &Place, near: &mut Near, now: Timestamp, next: &mut NextUnit) -> Said {
        let (counted, moment) = (self.counters.at(place.tier), self.moment(now));
        let (counter, at) = (counted.meter(), moment.among(counted));
        let level = counted.levels().look(&mut near.spot, place.key);
        near.repeat = self.seen.contains(place.value, moment.effective);
        if near.repeat {
            let (remaining, unit) = passing(counted, level, moment);
            (near.charged, near.at) = (Charged { to: level, remaining, ..Charged::default() }, moment.effective);
            *next = unit;
            return Said::Fits(remaining.into());
        }
        let Some(charged) = counter.leaves_charged(level, at, Cost::ONE) else { return Said::Over(level) };
        (near.charged, near.at) = (charged, at);
        *next = NextUnit::Known(told(counted, counter.next_unit_later(&charged, at).nanos(), moment));
        Said::Fits(charged.remaining.into())
    }

    /// What is told of a new value at this level of its key's counter.
    pub(super) fn told_at(&self, tier: u8, level: u64, now: Timestamp) -> Judgement {
        refused(self.counters.at(tier), level, self.moment(now))
    }

    /// Where the counter of the key is, for a request that comes back to it.
    #[inline]
    pub fn spot(&self, tier: u8, key: KeyHash) -> Spot {
        self.counters.levels(tier).spot(key)
    }

    /// [`Distinct::prefetch`] for the key whose spot it is.
    #[inline]
    pub fn prefetch_at(&self, spot: &Spot, place: &Place) {
        self.seen.prefetch(place.value);
        self.counters.levels(place.tier).prefetch_at(spot, place.key);
    }

    /// Has all that a request would be judged by brought near.
    #[inline]
    pub fn prefetch(&self, place: &Place) {
        self.seen.prefetch(place.value);
        self.counters.levels(place.tier).prefetch(place.key);
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
        self.count(tier, key, pair, now)
    }

    /// Lets a request pass of which was said that it fits, and counts its value if that is new, if nothing has moved since; says whether it did.
    /// All else that there is to say of it was said when it was asked about.
    #[inline(never)]
    pub fn charge_asked(&self, place: &Place, near: &Near, now: Timestamp) -> bool {
        let (moment, to) = (self.moment(now), near.charged.to);
        if near.repeat {
            return to > 0 && near.at == moment.effective;
        }
        let counted = self.counters.at(place.tier);
        let at = moment.among(counted);
        let is_counted = to > 0
            && near.at == at
            && counted.levels().raise_kept(&near.spot, counted.meter(), place.key, at, &near.charged);
        if is_counted {
            self.counters.note_elsewhere(place.tier, place.key, moment.effective, Cost::ONE);
            self.remember(place.value, moment);
        }
        is_counted
    }

    /// Counts a new value that was refused, if refused ones count. Says what the client is told after that, and whether it has gone
    /// on for so long that its count is at the cap. It counts by the numbers that refused it alone, as a client may choose those.
    pub fn count_refusal(&self, place: &Place, now: Timestamp) -> Option<(Judgement, bool)> {
        if !self.counts_refused {
            return None;
        }
        let (counted, moment) = (self.counters.at(place.tier), self.moment(now));
        let (counter, at) = (counted.meter(), moment.among(counted));
        let (before, ceiling) = (counted.levels().estimate(place.key), counter.ceiling(at));
        let raised = counter.charge(before, at, Cost::ONE).min(ceiling);
        let level = if counter.worth_raising(before, raised) {
            counted.levels().charge(counter, place.key, at, Cost::ONE, ceiling)
        } else {
            before
        };
        Some((refused(counted, level, moment), !counter.worth_raising(level, ceiling)))
    }

    /// What a refusal of a new value is short of.
    pub(super) fn owed(&self, kind: &Kind, tier: u8, standing: u64) -> Owed {
        match self.counters.at(tier).meter() {
            Counter::Aligned(_) => Owed::units(standing.saturating_add(1), 0),
            Counter::Sliding(bucket, _) => {
                let lead = u128::from(standing);
                let Kind::Distinct(kinds::Distinct { window, .. }) = kind else { return Owed::default() };
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
    pub(super) fn is_exact(&self, tier: u8, key: KeyHash) -> bool {
        self.counters.levels(tier).is_exact(key)
    }

    /// Whether the value counts as seen: it passes, and costs nothing. Changes nothing.
    pub fn is_repeat(&self, pair: KeyHash, now: Timestamp) -> bool {
        self.seen.contains(pair, self.moment(now).effective)
    }

    /// Counts the value unless it is seen, even above the quota. For values that are charged only once the answer is known:
    /// who admits only what fits beside all pending attempts stays within the quota.
    pub fn confirm(&self, tier: u8, key: KeyHash, pair: KeyHash, now: Timestamp) {
        let (counted, moment) = (self.counters.at(tier), self.moment(now));
        if !self.seen.contains(pair, moment.effective) {
            let (counter, place) = (counted.meter(), moment.among(counted));
            // What other tiers admit can fill a quota beside the values that wait for their answers, of which there are no
            // more than fit: aligned counts are of all tiers, sliding ones of their own.
            let quota = if counter.is_aligned() { self.counters.greatest_quota() } else { counter.quota() };
            let most = Cost::new(quota.saturating_mul(2)).unwrap_or(Cost::ONE);
            counted.levels().charge(counter, key, place, Cost::ONE, counter.charge(0, place, most));
            self.counters.note_elsewhere(tier, key, moment.effective, Cost::ONE);
            // not remembered is harmless: the value will be counted again
            let _ = self.seen.insert(pair, moment.effective);
        }
    }

    /// Clears dead values. Made for a timer; no promise rests on it.
    pub fn sweep(&self, now: Timestamp) {
        self.seen.sweep(self.shifted(now));
    }

    /// Raises the count of a key to at least that of another, and has its value count as seen: it was charged under the other.
    pub fn carry(&self, from: KeyHash, (to, pair): (KeyHash, KeyHash), now: Timestamp) {
        let moment = self.moment(now).effective;
        self.counters.carry(from, to, moment);
        if !self.seen.contains(pair, moment) {
            // not remembered is harmless: the value will be counted again
            let _ = self.seen.insert(pair, moment);
        }
    }

    /// Re-keys the counters when that is due. To be called about once a second.
    pub fn maintain(&self, now: Timestamp) {
        self.counters.maintain(self.moment(now).effective);
    }

    /// Nanoseconds after which whatever a key was charged has faded, whatever numbers it was charged by and however slow the axis was
    /// meanwhile.
    pub fn fade_nanos(&self) -> u64 {
        self.counters.fade_nanos()
    }

    /// The seed that keys and pairs are hashed under.
    pub fn seed(&self) -> &Seed {
        self.counters.seed()
    }

    /// The size of the counters and of the set of values with its marks: 1/256 more than was asked for.
    pub fn memory(&self) -> Bytes {
        Bytes(self.counters.memory().0 + self.seen.memory().0)
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
    fn count(&self, tier: u8, key: KeyHash, pair: KeyHash, now: Timestamp) -> Result<Judgement, Lost> {
        let (counted, moment) = (self.counters.at(tier), self.moment(now));
        if self.seen.contains(pair, moment.effective) {
            return Ok(passing_in_full(counted, counted.levels().estimate(key), moment));
        }
        let admission = counted.levels().admit(counted.meter(), key, moment.among(counted), Cost::ONE);
        let (level, contended) = match admission {
            Admission::Admitted { level } => {
                self.counters.note_elsewhere(tier, key, moment.effective, Cost::ONE);
                self.remember(pair, moment);
                return Ok(passing_in_full(counted, level, moment));
            }
            Admission::Refused { level } => (level, false),
            Admission::Contended { level } => (level, true),
        };
        Err(Lost { judgement: refused(counted, level, moment), contended })
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
        Moment { effective, lag: effective.nanos() - now.nanos() }
    }
}

#[inline]
fn passing(counted: &Leveled<Counter>, level: u64, moment: Moment) -> (u32, NextUnit) {
    let (remaining, next) = counted.meter().outlook(level, moment.among(counted));
    (remaining, NextUnit::Known(told(counted, next, moment)))
}

fn passing_in_full(counted: &Leveled<Counter>, level: u64, moment: Moment) -> Judgement {
    let (remaining, next_unit) = passing(counted, level, moment);
    let quota = counted.meter().quota();
    Judgement { admitted: true, remaining, quota, retry_nanos: Some(0), next_unit, standing: 0 }
}

fn refused(counted: &Leveled<Counter>, level: u64, moment: Moment) -> Judgement {
    let (counter, place) = (counted.meter(), moment.among(counted));
    let (remaining, next) = counter.outlook(level, place);
    Judgement {
        admitted: false,
        remaining,
        quota: counter.quota(),
        retry_nanos: told(counted, counter.retry_nanos(level, place, Cost::ONE), moment),
        next_unit: NextUnit::Known(told(counted, next, moment)),
        standing: counter.standing(level, place),
    }
}

/// What is told of a wait for so much of the axis.
#[inline]
fn told(counted: &Leveled<Counter>, wait: Option<u64>, moment: Moment) -> Option<u64> {
    match wait? {
        0 => Some(0),
        places => Some(counted.course().axis().wait(moment.effective, places)?.saturating_add(moment.lag)),
    }
}

/// When a request is judged, and how far that is ahead of its own stamp.
#[derive(Debug, Clone, Copy)]
struct Moment {
    effective: Timestamp,
    lag: u64,
}

impl Moment {
    /// The same among the levels of a counter.
    #[inline]
    fn among(self, counted: &Leveled<Counter>) -> Timestamp {
        counted.course().at(self.effective)
    }
}
