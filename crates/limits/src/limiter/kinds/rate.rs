//! `type: rate`: at most `burst + rate·τ` per key in **every** interval of length τ.
//!
//! A token bucket per key in a monotone sketch of fixed size, with an exact table for keys that have spent half their
//! burst. A refused request costs a few loads and writes nothing. The error is one-sided: colliding keys can only make a
//! key refused early, with the probability that `tidegate check -v` prints. A changed rate or burst keeps the state and
//! re-rates it: what was spent stays spent, to the unit, and comes back at the new rate ([`crate::sketch::TimeScale`]).

mod bytes;

use std::io;

use super::form::{
    Allowance, Bound, Counts, Form, FromWords, Levels, LimitKind, NANOS, Part, Shareable, compared, saturating,
};
use super::words::{At, Fault, Takes, Value, Word, Words};
use super::{Kind, RATE};
use crate::limiter::by_level::ByLevel;
use crate::limiter::kind::{MIXED, Sketch};
use crate::limiter::leveled::Leveled;
use crate::limiter::needs::{Needs, Owed};
use crate::limiter::sharing::Promise;
use crate::limiter::tiered::Tiered;
use crate::limiter::{Moved, Spec, State};
use crate::saved::{self, Reader, Writer};
use crate::sketch::{Bucket, Ratio, Seed};
use crate::units::amount::{amount_text, rate_text};
use crate::units::{self, Bytes, Cost, OutOfRange, Timestamp};

/// At most `burst + rate·τ` in every interval of length τ, per key.
#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    /// How fast the budget comes back, in units of cost.
    pub rate: units::Rate,
    /// How much may be spent at once: at least the rule's cost.
    pub burst: u32,
    /// Size of the sketch, fixed for the process's life.
    pub memory: Bytes,
}

pub(super) const BURST: Word = Word {
    in_tier: Some("How much at once, for `rate`. Default: with a `rate` of its own one second's worth of it."),
    ..Word::new(
        "burst",
        Takes::Amount,
        "How much may be spent at once: a number, or a size such as `64MiB` for a rate of bytes. Default: one second's worth, at least 1 \
         and at least `cost`. For `rate`. For `fair_share` the most at one instant; default: a quarter of a second's worth, at least 40.",
    )
};

impl Rate {
    /// The kind before it has numbers.
    pub const FORM: Form = Form {
        synonyms: &["bucket", "token_bucket", "leaky_bucket", "gcra"],
        words: &[&RATE, &BURST],
        tier_words: &[&RATE, &BURST],
        common: Form::CHARGED,
        counts_answers: true,
        may_count_bytes: true,
        sharing: Shareable::Always,
        ..Form::new::<Rate>(
            "rate",
            "at most `burst` + `rate`·t requests in any time t, per key.",
            "{ rate: 4/s, burst: 5 }",
        )
    };
}

impl FromWords for Rate {
    fn from_words(words: &mut Words) -> Option<Rate> {
        // with `max` it is more likely of another type
        if !words.has("max") {
            words.require(&[&RATE]);
        }
        let memory = words.sketch(Sketch::WHOLE);
        words.value(&RATE)?;
        words.unit = bytes::unit(words, &RATE, &BURST)?;
        let (rate, burst) = bucket(words)?;
        Some(Rate { rate, burst, memory })
    }
}

/// The rate and the burst of a limit or a tier, checked together; `None` when they do not go together.
fn bucket(words: &mut Words) -> Option<(units::Rate, u32)> {
    let (value, shown) = words.value_or_limits(&RATE)?;
    let rate = match (&value, words.unit) {
        (Value::ByteRate { bytes, period }, Some(unit)) => {
            let rate = units::Rate::new(bytes::units(*bytes, unit), *period).ok();
            if rate.is_none() {
                let least = Bytes(u64::from(unit));
                let label = format!("must be {least} or more at a time beside the limit's fastest rate");
                words.report(Fault::OutOfRange, At::Value("rate"), format!("the rate {shown} is too slow"), label);
            }
            rate?
        }
        _ => words.requests(&RATE, &value, words.unit.is_some())?,
    };
    let own = if words.has("burst") { Some(burst(words)?) } else { None };
    let cost = words.cost.unwrap_or(Cost::ONE).get();
    // at least one request must fit, or the limit would refuse everything
    let second = rate.per_second().ceil().max(1.0) as u32;
    let burst = own.unwrap_or(second.max(cost));
    let at = At::Value(if own.is_some() { "burst" } else { "rate" });
    let shown = amount_text(burst, words.unit);
    if burst < cost {
        let message = format!("a burst of {shown} cannot hold one request of cost {cost}");
        words.report(Fault::BelowCost, at, message, format!("must be {cost} or more"));
        return None;
    }
    if let Err(out) = Bucket::new(rate, burst) {
        let message = format!("a burst of {shown} at {} is out of range", rate_text(rate, words.unit));
        words.report(Fault::OutOfRange, at, message, out.to_string());
        words.related(At::Value("rate"), "with this rate");
        return None;
    }
    if own.is_some() && f64::from(burst) < rate.per_second().floor() {
        let message = format!("a burst of {shown} is less than one second of {}", rate_text(rate, words.unit));
        words.report(Fault::SmallBurst, at, message, "requests that come together are refused below the rate");
        words.help(format!("write {} or more", amount_text(second, words.unit)));
    }
    Some((rate, burst))
}

/// The burst in units of the limit's rate.
fn burst(words: &mut Words) -> Option<u32> {
    let (value, shown) = words.value(&BURST)?;
    let at = At::Value("burst");
    match (value, words.unit) {
        (Value::Amount(number), None) => match u32::try_from(number) {
            Ok(number @ 1..) => return Some(number),
            _ => words.out_of_range(&BURST, &shown, "must be 1 to 4294967295"),
        },
        (Value::Size(Bytes(size)), Some(unit)) => match bytes::units(size, unit) {
            0 => words.out_of_range(&BURST, &shown, format!("must be {} or more at this rate", Bytes(u64::from(unit)))),
            units => return Some(units),
        },
        (Value::Amount(_), Some(_)) => {
            let label = "must be a size, such as 64MiB, like the rate";
            words.report(Fault::Conflict, at, "a burst without a unit of bytes", label);
        }
        (Value::Size(_), None) => {
            words.report(Fault::Conflict, at, "a burst of bytes beside a rate of requests", "must be a number");
        }
        _ => {}
    }
    None
}

impl LimitKind for Rate {
    fn form(&self) -> &'static Form {
        &Rate::FORM
    }

    fn state(&self, spec: &Spec<'_>, seed: &Seed) -> Result<Box<dyn State>, OutOfRange> {
        state(spec, seed)
    }

    fn bound(&self) -> Option<Bound> {
        Some(Bound::Interval { burst: self.burst.into(), per_second: self.rate.per_second() })
    }

    fn sketch(&self) -> Option<(Sketch, Bytes)> {
        Some((Sketch::WHOLE, self.memory))
    }

    fn memory_mut(&mut self) -> Option<&mut Bytes> {
        Some(&mut self.memory)
    }

    fn settings(&self) -> Vec<(&'static str, Value)> {
        vec![("rate", Value::Rate(self.rate)), ("burst", Value::Amount(self.burst.into()))]
    }

    fn needs(&self, owed: Owed) -> Needs {
        let (units, events) = owed.parts();
        let rate = events.and_then(|events| units::Rate::new(events, self.rate.period()).ok());
        Needs { units, rate }
    }

    fn standing(&self) -> Vec<Part> {
        let (position, burst) = (Part::Position(self.burst), Part::Amount(self.burst));
        // a rate and burst that say the same number
        match self.rate.events() == self.burst {
            true => {
                let window = Part::Window(units::Period::Length(self.rate.period()));
                vec![position, Part::Text(" of "), burst, Part::Text(" per "), window]
            }
            false => {
                vec![position, Part::Text(" of a burst of "), burst, Part::Text(", "), Part::Rate(self.rate)]
            }
        }
    }

    fn summary(&self) -> String {
        "{rate} burst {burst}".to_owned()
    }

    fn tier(&self, words: &mut Words) -> Option<Kind> {
        let (rate, burst) = bucket(words)?;
        Some(Rate { rate, burst, ..self.clone() }.into())
    }

    fn is_no_looser(&self, other: &dyn LimitKind) -> Option<bool> {
        compared(other, |other: &Rate| self.rate.per_second() <= other.rate.per_second() && self.burst <= other.burst)
    }

    fn at_once(&self) -> Option<u32> {
        Some(self.burst)
    }

    fn most(&self) -> Option<(&'static str, u32)> {
        Some(("burst", self.burst))
    }

    fn allowance(&self) -> Option<Allowance> {
        // from the rate as it was written, because its interval is rounded
        let span = u128::from(self.burst) * self.rate.period().as_nanos();
        let second = u128::from(self.rate.events()) * NANOS;
        let window = (span >= second).then(|| saturating(span.div_ceil(second)));
        Some(Allowance { quota: u64::from(self.burst), counts: Counts::Cost, window })
    }

    fn store_promise(&self) -> Option<Promise> {
        Some(Promise::Rate { rate: self.rate, burst: self.burst })
    }

    fn unit_shape(&self) -> Option<u64> {
        Some(1)
    }

    fn refill(&self) -> Option<units::Rate> {
        Some(self.rate)
    }

    fn bucket(&self) -> Option<(units::Rate, u32)> {
        Some((self.rate, self.burst))
    }

    fn levels(&self, _zero: u64) -> Option<Box<dyn Levels>> {
        Some(Box::new(Bucket::new(self.rate, self.burst).ok()?))
    }

    fn has_table_per_tier(&self) -> bool {
        true
    }
}

/// The empty state of a limit whose keys have a bucket each.
///
/// # Errors
/// A kind without a bucket, or numbers that [`Bucket::new`] or the table refuse.
pub(super) fn state(spec: &Spec<'_>, seed: &Seed) -> Result<Box<dyn State>, OutOfRange> {
    Ok(Box::new(RateState::new(spec, seed)?))
}

/// A bucket per key.
#[derive(Debug)]
struct RateState {
    tiered: Tiered<Bucket>,
    /// Bytes per unit of the numbers; 1 where requests are counted.
    unit: u32,
}

impl RateState {
    fn new(spec: &Spec<'_>, seed: &Seed) -> Result<RateState, OutOfRange> {
        let (_, memory) = spec.kinds.first().and_then(|kind| kind.sketch()).ok_or(MIXED)?;
        let meters = spec.kinds.iter().map(|kind| paced(kind, Ratio::EVEN));
        let table = |bucket| Leveled::new(bucket, memory, seed.clone(), spec.indebts);
        let tiered = Tiered::empty(meters, Bucket::eq, table)?.with_longest_wait(spec.longest_wait);
        Ok(RateState { tiered, unit: spec.unit })
    }
}

impl ByLevel for RateState {
    type Meter = Bucket;

    fn tiered(&self) -> &Tiered<Bucket> {
        &self.tiered
    }

    fn tiered_mut(&mut self) -> &mut Tiered<Bucket> {
        &mut self.tiered
    }

    fn save(&self, to: &mut Writer<'_>, now: Timestamp) -> io::Result<()> {
        to.number(self.unit.into())?;
        self.tiered.save(to, now)
    }

    fn restore(&mut self, from: &mut Reader<'_>, _spec: &Spec<'_>, moved: &Moved<'_>) -> Result<(), saved::Fault> {
        let unit = from.number_up_to(u32::MAX.into())?;
        let units = (u32::try_from(unit).unwrap_or(u32::MAX), self.unit);
        self.tiered.restore(from, (moved.tiers, moved.now), units)
    }

    /// What was spent stays spent, to the unit, for each tier by its own change of rate.
    fn follow(&self, spec: &Spec<'_>, moved: &Moved<'_>) -> Result<RateState, OutOfRange> {
        let units = (self.unit, spec.unit);
        let follow = |before: &Leveled<Bucket>, kind: &Kind| {
            let new = paced(kind, Ratio::EVEN)?;
            let ratio = before.meter().pace_for(&new, units);
            let timeline = before.timeline().followed_by(moved.now, ratio).filter(|_| new.fits(ratio));
            timeline.map(|timeline| Ok(before.followed_by(paced(kind, ratio)?, timeline, spec.indebts))).transpose()
        };
        let apart = |before: &Leveled<Bucket>, kind: &Kind| {
            let new = paced(kind, Ratio::EVEN)?;
            Ok(before.apart(new, moved.now, before.meter().pace_for(&new, units), spec.indebts))
        };
        let after = self.tiered.follow((spec.kinds, moved.tiers), Bucket::eq, follow, apart)?;
        Ok(RateState { tiered: after.with_longest_wait(spec.longest_wait), unit: spec.unit })
    }

    fn owed(&self, kind: &Kind, tier: u8, standing: u64, cost: Cost) -> Owed {
        Owed::of_rate(self.tiered.at(tier).meter(), kind.refill(), standing, cost)
    }
}

/// The bucket of these numbers on an axis of this pace.
fn paced(kind: &Kind, ratio: Ratio) -> Result<Bucket, OutOfRange> {
    let (rate, burst) = kind.bucket().ok_or(MIXED)?;
    Bucket::paced(rate, burst, ratio)
}

#[cfg(test)]
mod tests;
