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

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::counter::{Counter, Counting};
use crate::limiter::kind::{MIXED, phase};
use crate::limiter::leveled::Leveled;
use crate::limiter::needs::{self, Owed};
use crate::limiter::probe::{Probe, Seen, SeenLevel};
use crate::limiter::tiered::Tiered;
use crate::limiter::{Gauges, Judgement, Kind, Lost, Moved, Place, Spec, State, Taken};
use crate::saved::{Fault, Reader, Writer};
use crate::sketch::{Admission, Charged, KeyHash, Lifetime, Meter, NextUnit, Ratio, Seed, SeenSet, Spot};
use crate::units::time::saturating_nanos;
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

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
    /// An empty limiter with the numbers of the spec's kinds: the limit's own, then those of its tiers. They share the set, and
    /// note what others count, so a client that changes its tier takes along what it has had. Half of the memory holds the values
    /// and half the counters, of which 1/32 of it more are exact.
    ///
    /// # Errors
    /// A `max` of nothing or of 2³²−1; a period outside 1 s to 31 days, or above a day when it slides; or memory that is not a
    /// power of two from 16 KiB to 1 GiB.
    pub fn new(spec: &Spec<'_>, seed: &Seed) -> Result<Distinct, OutOfRange> {
        let own = spec.kinds.first().ok_or(MIXED)?;
        let (counting, (_, memory)) = (Counting::of(own)?, own.sketch().ok_or(MIXED)?);
        if !(16 << 10..=1 << 30).contains(&memory.0) || !memory.0.is_power_of_two() {
            return Err(OutOfRange { allowed: "a power of two from 16KiB to 1GiB" });
        }
        let half = Bytes(memory.0 / 2);
        if counting.sliding && counting.period > Duration::from_secs(86_400) {
            return Err(OutOfRange { allowed: "1s to 1d when sliding" });
        }
        let counters = spec.kinds.iter().map(|kind| Counter::new(most(kind)?, &counting, Ratio::EVEN));
        let table = |counter| Leveled::new(counter, Bytes(memory.0 / 4), seed.clone(), false);
        let lifetime = if counting.sliding { Lifetime::smooth } else { Lifetime::aligned }(counting.period)?;
        Ok(Distinct {
            counters: Tiered::empty(counters, Counter::counts_as, table)?.with_longest_wait(spec.longest_wait),
            seen: Arc::new(SeenSet::with_memory(half, lifetime)?),
            offset: saturating_nanos(phase(counting.period, spec.unix_nanos_at_origin)),
            counts_refused: counting.penalty.is_some(),
        })
    }

    /// Whether the value counts as seen: it passes, and costs nothing. Changes nothing.
    pub fn is_repeat(&self, pair: KeyHash, now: Timestamp) -> bool {
        self.seen.contains(pair, self.moment(now).effective)
    }

    /// Clears dead values. Made for a timer; no promise rests on it.
    pub fn sweep(&self, now: Timestamp) {
        self.seen.sweep(self.shifted(now));
    }

    /// How full the set of values is, 0 to 1. See [`SeenSet::load`].
    pub fn load(&self) -> f64 {
        self.seen.load()
    }

    /// How many live values were forgotten for lack of room. See [`SeenSet::displaced`].
    pub fn displaced(&self) -> u64 {
        self.seen.displaced()
    }

    #[inline]
    fn remember(&self, pair: KeyHash, moment: Moment) {
        // not remembered is harmless: the value will be counted again
        let _ = self.seen.insert(pair, moment.effective);
    }

    /// The stamp by which everything inside goes: later by the offset. Spans stay the same.
    fn shifted(&self, now: Timestamp) -> Timestamp {
        Timestamp::from_nanos(now.nanos().saturating_add(self.offset))
    }

    fn moment(&self, now: Timestamp) -> Moment {
        let now = self.shifted(now);
        let effective = self.seen.moment(now);
        Moment { effective, lag: effective.nanos() - now.nanos() }
    }
}

/// How many values a key may have.
fn most(kind: &Kind) -> Result<u32, OutOfRange> {
    kind.most().map(|(_, most)| most).ok_or(MIXED)
}

impl State for Distinct {
    fn prefetch(&self, at: &Place) {
        self.seen.prefetch(at.value);
        self.counters.levels(at.tier).prefetch(at.key);
    }

    /// The place's value is the hash of the parts of the key *and* the value: equal values of two keys are two pairs.
    fn probe(&self, at: &Place, now: Timestamp, cost: Cost, held: u32) -> Probe {
        let (counted, moment) = (self.counters.at(at.tier), self.moment(now));
        let (counter, among) = (counted.meter(), moment.among(counted));
        let mut spot = Spot::default();
        let level = counted.levels().look(at.key, &mut spot);
        if self.seen.contains(at.value, moment.effective) {
            return Probe::new(at, cost, passing(counted, level, moment), Seen::Value(moment.effective));
        }
        let (judgement, seen) = match counter.admit(level, among, cost.saturating_add(held)) {
            Some(charged) => {
                let seen = if held == 0 { Seen::Level(SeenLevel { spot, charged, at: among }) } else { Seen::Nothing };
                (passed(counted, &charged, moment), seen)
            }
            None => {
                // as if all that others hold back were charged now: sooner than that nobody can promise
                let held = Cost::new(held).map_or(level, |held| counter.charge(level, among, held));
                (refused(counted, held, moment), Seen::Nothing)
            }
        };
        Probe::new(at, cost, judgement, seen)
    }

    /// Counts the value if it is new, as `cost` values where this gate has only part of the limit. Of two requests with one new value at the same instant both may be counted.
    ///
    /// The order matters: a value is remembered only after its charge, and at the same moment, so that whatever
    /// is found in the set has been paid for in the period in which it is found.
    fn commit(&self, probe: &Probe, now: Timestamp) -> Result<(Judgement, Option<Taken>), Lost> {
        let (Place { tier, key, value, .. }, cost) = (probe.place, probe.cost);
        let (counted, moment) = (self.counters.at(tier), self.moment(now));
        let (counter, among) = (counted.meter(), moment.among(counted));
        match &probe.seen {
            Seen::Value(at) if *at == moment.effective => return Ok((probe.judgement, None)),
            Seen::Level(seen)
                if seen.at == among && counted.levels().raise_seen(&seen.spot, counter, key, among, &seen.charged) =>
            {
                self.counters.note_elsewhere(tier, key, moment.effective, cost);
                self.remember(value, moment);
                return Ok((probe.judgement, None));
            }
            _ => {}
        }
        if self.seen.contains(value, moment.effective) {
            return Ok((passing(counted, counted.levels().estimate(key), moment), None));
        }
        let (level, contended) = match counted.levels().admit(counter, key, among, cost) {
            Admission::Admitted { level } => {
                self.counters.note_elsewhere(tier, key, moment.effective, cost);
                self.remember(value, moment);
                return Ok((passing(counted, level, moment), None));
            }
            Admission::Refused { level } => (level, false),
            Admission::Contended { level } => (level, true),
        };
        Err(Lost { judgement: refused(counted, level, moment), contended })
    }

    /// Counts the value unless it is seen, even above the quota. For values that are charged only once the answer is known:
    /// what is admitted only beside all pending attempts stays within the quota.
    fn charge(&self, at: &Place, now: Timestamp, _cost: Cost) {
        let (counted, moment) = (self.counters.at(at.tier), self.moment(now));
        if self.seen.contains(at.value, moment.effective) {
            return;
        }
        let (counter, among) = (counted.meter(), moment.among(counted));
        // What other tiers admit can fill a quota beside the values that wait for their answers, of which there are no
        // more than fit: aligned counts are of all tiers, sliding ones of their own.
        let quota = if counter.is_aligned() { self.counters.greatest_quota() } else { counter.quota() };
        let most = Cost::new(quota.saturating_mul(2)).unwrap_or(Cost::ONE);
        counted.levels().charge(counter, at.key, among, Cost::ONE, counter.charge(0, among, most));
        self.counters.note_elsewhere(at.tier, at.key, moment.effective, Cost::ONE);
        self.remember(at.value, moment);
    }

    /// Counts by the numbers that refused the value alone, as a client may choose those.
    fn count_refusal(&self, at: &Place, now: Timestamp, _cost: Cost) -> Option<(Judgement, bool)> {
        if !self.counts_refused {
            return None;
        }
        let (counted, moment) = (self.counters.at(at.tier), self.moment(now));
        let (counter, among) = (counted.meter(), moment.among(counted));
        let (before, ceiling) = (counted.levels().estimate(at.key), counter.ceiling(among));
        let raised = counter.charge(before, among, Cost::ONE).min(ceiling);
        let level = if counter.worth_raising(before, raised) {
            counted.levels().charge(counter, at.key, among, Cost::ONE, ceiling)
        } else {
            before
        };
        Some((refused(counted, level, moment), !counter.worth_raising(level, ceiling)))
    }

    fn is_free(&self, at: &Place, now: Timestamp) -> bool {
        self.is_repeat(at.value, now)
    }

    /// What was counted stays counted. The period and the form must be as they were.
    fn follow(&self, spec: &Spec<'_>, moved: &Moved<'_>) -> Result<Box<dyn State>, OutOfRange> {
        let own = Counting::of(spec.kinds.first().ok_or(MIXED)?)?;
        // as levels are charged: no later than the set says it is
        let now = self.moment(moved.now).effective;
        let follow = |before: &Leveled<Counter>, kind: &Kind| {
            let (max, counting) = (most(kind)?, Counting::of(kind)?);
            let new = Counter::new(max, &counting, Ratio::EVEN)?;
            let ratio = before.meter().pace_for(&new);
            let timeline = before.timeline().followed_by(now, ratio).filter(|_| new.fits(ratio));
            timeline
                .map(|timeline| Ok(before.followed_by(Counter::new(max, &counting, ratio)?, timeline, false)))
                .transpose()
        };
        let apart = |before: &Leveled<Counter>, kind: &Kind| {
            let new = Counter::new(most(kind)?, &Counting::of(kind)?, Ratio::EVEN)?;
            let ratio = before.meter().pace_for(&new);
            Ok(before.apart(new, now, ratio, false))
        };
        let counters = self.counters.follow((spec.kinds, moved.tiers), Counter::counts_as, follow, apart)?;
        Ok(Box::new(Distinct {
            counters: counters.with_longest_wait(spec.longest_wait),
            seen: Arc::clone(&self.seen),
            offset: self.offset,
            counts_refused: own.penalty.is_some(),
        }))
    }

    fn take_over(&self) {
        self.counters.take_over();
    }

    /// The values before their counts: each that is saved is in a count that is saved.
    fn save(&self, to: &mut Writer<'_>, now: Timestamp) -> io::Result<()> {
        let moment = self.moment(now).effective;
        self.seen.save(to, moment)?;
        self.counters.save(to, moment)
    }

    fn restore(&mut self, from: &mut Reader<'_>, _spec: &Spec<'_>, moved: &Moved<'_>) -> Result<(), Fault> {
        self.seen.restore(from)?;
        let now = self.moment(moved.now).effective;
        self.counters.restore(from, (moved.tiers, now), (1, 1))
    }

    /// Raises the count, and has the value count as seen: it was charged under the other hash.
    fn carry(&self, from: &Place, to: &Place, now: Timestamp) {
        let moment = self.moment(now);
        self.counters.carry(from.key, to.key, moment.effective);
        if !self.seen.contains(to.value, moment.effective) {
            self.remember(to.value, moment);
        }
    }

    fn fade_nanos(&self) -> Option<u64> {
        Some(self.counters.fade_nanos())
    }

    fn maintain(&self, now: Timestamp) {
        self.sweep(now);
        self.counters.maintain(self.moment(now).effective);
    }

    fn owed(&self, kind: &Kind, tier: u8, standing: u64, _cost: Cost) -> Owed {
        match self.counters.at(tier).meter() {
            Counter::Aligned(_) => Owed::units(standing.saturating_add(1), 0),
            Counter::Sliding(bucket, _) => {
                let lead = u128::from(standing);
                let Ok(Counting { period: window, .. }) = Counting::of(kind) else { return Owed::default() };
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

    fn is_exact(&self, at: &Place) -> bool {
        self.counters.levels(at.tier).is_exact(at.key)
    }

    fn gauge(&self, gauges: &mut Gauges, _now: Timestamp) {
        gauges.load = Some(self.load());
        gauges.displaced = Some(self.displaced());
    }

    /// The counters and the set of values with its marks: 1/256 more than was asked for.
    fn memory(&self) -> Bytes {
        Bytes(self.counters.memory().0 + self.seen.memory().0)
    }
}

/// The judgement of a new value that was charged so.
fn passed(counted: &Leveled<Counter>, charged: &Charged, moment: Moment) -> Judgement {
    let next_unit = NextUnit::Known(waited(counted, charged.next_unit.nanos(), moment));
    Judgement { next_unit, ..Judgement::admitted(charged.remaining, counted.meter().quota()) }
}

/// The judgement of a value that passes at this level.
fn passing(counted: &Leveled<Counter>, level: u64, moment: Moment) -> Judgement {
    let (remaining, next) = counted.meter().outlook(level, moment.among(counted));
    let next_unit = NextUnit::Known(waited(counted, next.nanos(), moment));
    Judgement { next_unit, ..Judgement::admitted(remaining, counted.meter().quota()) }
}

fn refused(counted: &Leveled<Counter>, level: u64, moment: Moment) -> Judgement {
    let (counter, among) = (counted.meter(), moment.among(counted));
    let (remaining, next) = counter.outlook(level, among);
    Judgement {
        remaining,
        quota: counter.quota(),
        retry_nanos: waited(counted, counter.retry_nanos(level, among, Cost::ONE), moment),
        next_unit: NextUnit::Known(waited(counted, next.nanos(), moment)),
        standing: counter.standing(level, among),
        ..Judgement::REFUSED
    }
}

/// A wait of so much of the axis, in nanoseconds of time.
#[inline]
fn waited(counted: &Leveled<Counter>, wait: Option<u64>, moment: Moment) -> Option<u64> {
    match wait? {
        0 => Some(0),
        places => Some(counted.timeline().time_scale().wait(moment.effective, places)?.saturating_add(moment.lag)),
    }
}

/// When a request is judged, and how far that is ahead of its own stamp.
#[derive(Debug, Clone, Copy)]
struct Moment {
    effective: Timestamp,
    lag: u64,
}

impl Moment {
    /// Where it lies among the levels of a counter.
    #[inline]
    fn among(self, counted: &Leveled<Counter>) -> Timestamp {
        counted.timeline().at(self.effective)
    }
}
