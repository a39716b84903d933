//! `type: recent_average`: at most `rate` per key as an average that halves every `half_life` without a request.
//!
//! Source: the recent-average rate limiter (continuous exponentially weighted moving average). A client may burst up to
//! rate·half_life/ln 2 requests; above that it is refused until its average has come down.
//!
//! **Promise.** At most B + rate·τ admitted in every interval of length τ, with B = rate·half_life/ln 2.
//!
//! With `count: all` a refused request counts too, so a client that keeps on keeps itself out, and one that backs off is let
//! in again at the very instant that it was told. The lock-out is capped: it ends at most `max_penalty` after the time that
//! the full average itself needs, however long a client went on. Above that cap, and for raises too small to matter,
//! nothing is written, so that a flood costs reads only.

use std::time::Duration;

use super::form::{
    Allowance, Bound, Counts, Form, FromWords, Levels, LimitKind, NANOS, Part, Shareable, ceil_seconds, compared,
    max_penalty, numbers, own, saturating,
};
use super::words::{At, Fault, Takes, Value, Word, Words};
use super::{Kind, MAX_PENALTY, RATE};
use crate::limiter::by_level::ByLevel;
use crate::limiter::kind::{RefusedCount, Sketch};
use crate::limiter::leveled::Leveled;
use crate::limiter::needs::{Needs, Owed, smallest};
use crate::limiter::tiered::Tiered;
use crate::limiter::{Judgement, Moved, Place, Spec, State};
use crate::sketch::{self, Meter, Ratio, Seed};
use crate::units::time::written;
use crate::units::{Bytes, Cost, OutOfRange, Rate, Timestamp};

/// At most `rate` as an average that forgets by `half_life`, per key.
#[derive(Debug, Clone, PartialEq)]
pub struct RecentAverage {
    /// The average.
    pub rate: Rate,
    /// After this long without a request, the average has halved.
    pub half_life: Duration,
    /// Whether a refused request counts as well.
    pub refused: RefusedCount,
    /// Size of the sketch.
    pub memory: Bytes,
}

const HALF_LIFE: Word = Word::new(
    "half_life",
    Takes::Duration(Duration::from_secs(1)..=Duration::from_secs(86_400)),
    "After this long without a request the average has halved: {range}. For `recent_average`; must be given. It holds rate · half-life \
     / ln 2 requests at once.",
);

impl FromWords for RecentAverage {
    fn from_words(words: &mut Words) -> Option<RecentAverage> {
        words.require(&[&RATE, &HALF_LIFE]);
        let memory = words.sketch(Sketch::WHOLE);
        let known = words.value(&HALF_LIFE).is_some();
        let half_life = words.duration(&HALF_LIFE).unwrap_or(Duration::from_secs(60));
        let rate = rate(words, half_life, known);
        // an abuser that went silent at the cap has then sunk to a sixty-fourth of it
        let max_penalty = words.duration(&MAX_PENALTY).unwrap_or(half_life.saturating_mul(6));
        let refused = if words.counts_refused == Some(false) {
            if words.has("max_penalty") {
                let label = "belongs to `count: all`: without it, refused requests are not held against anybody";
                let message = "`max_penalty` beside `count: admitted`";
                words.report(Fault::Conflict, At::Name("max_penalty"), message, label);
                words.related(At::Value("count"), "refused requests do not count");
            }
            RefusedCount::Admitted
        } else {
            RefusedCount::All { max_penalty }
        };
        Some(RecentAverage { rate: rate.filter(|_| known)?, half_life, refused, memory })
    }
}

/// The rate of an average, if its first request fits: alone, it makes an average of cost · ln 2 / half-life. `known`: the half-life is
/// not a stand-in.
fn rate(words: &mut Words, half_life: Duration, known: bool) -> Option<Rate> {
    let (value, _) = words.value(&RATE)?;
    let rate = words.requests(&RATE, &value, false)?;
    let cost = words.cost.unwrap_or(Cost::ONE).get();
    let room = rate.per_second() * half_life.as_secs_f64() / std::f64::consts::LN_2;
    if !known || room >= f64::from(cost) {
        return Some(rate);
    }
    let message = format!("{rate} with half_life {} admits no request at all", written(half_life));
    // two digits, and not rounded up to what would do
    let decimals = (1.0 - room.log10().floor()).clamp(0.0, 9.0) as usize;
    let scale = 10f64.powi(decimals as i32);
    let room = (room * scale).floor() / scale;
    let label =
        format!("rate × half_life / ln 2 is {room:.decimals$}; it must be at least {cost}, the cost of a request");
    words.report(Fault::BelowCost, At::Value("rate"), message, label);
    // whole seconds are what people write
    let enough = (f64::from(cost) * std::f64::consts::LN_2 / rate.per_second()).ceil().max(1.0);
    let enough = Duration::from_secs(match enough as u64 {
        short @ ..=120 => short,
        minutes @ ..=7_200 => minutes.next_multiple_of(60),
        hours => hours.next_multiple_of(3_600),
    });
    words.help(match &HALF_LIFE.takes {
        Takes::Duration(range) if enough <= *range.end() => {
            format!("use half_life: {}, or a higher rate", written(enough))
        }
        _ => "no half_life is long enough: use a higher rate, or `type: quota`".to_owned(),
    });
    None
}

impl RecentAverage {
    /// The kind before it has numbers.
    pub const FORM: Form = Form {
        synonyms: &["smooth", "ewma", "cewma"],
        words: &[&RATE, &HALF_LIFE, &MAX_PENALTY],
        tier_words: &[&RATE],
        common: Form::CHARGED,
        counts_refused: true,
        sharing: Shareable::AsEstimate,
        ..Form::new::<RecentAverage>(
            "recent_average",
            "at most `rate` as an average that forgets by `half_life`, per key; who goes on beyond it stays out.",
            "{ type: recent_average, rate: 4/s, half_life: 1s }",
        )
    };

    /// The arithmetic; refused requests are a matter of the limiter.
    fn meter(&self, rate: Rate) -> Option<sketch::RecentAverage> {
        sketch::RecentAverage::new(rate, self.half_life, Duration::ZERO).ok()
    }
}

impl LimitKind for RecentAverage {
    fn form(&self) -> &'static Form {
        &RecentAverage::FORM
    }

    fn state(&self, spec: &Spec<'_>, seed: &Seed) -> Result<Box<dyn State>, OutOfRange> {
        Ok(Box::new(AverageState::new(spec, seed)?))
    }

    fn bound(&self) -> Option<Bound> {
        let per_second = self.rate.per_second();
        Some(Bound::Interval { burst: per_second * self.half_life.as_secs_f64() / std::f64::consts::LN_2, per_second })
    }

    fn sketch(&self) -> Option<(Sketch, Bytes)> {
        Some((Sketch::WHOLE, self.memory))
    }

    fn memory_mut(&mut self) -> Option<&mut Bytes> {
        Some(&mut self.memory)
    }

    fn settings(&self) -> Vec<(&'static str, Value)> {
        let mut settings = vec![("rate", Value::Rate(self.rate)), ("half_life", Value::Duration(self.half_life))];
        settings.extend(max_penalty(self.refused));
        settings
    }

    fn needs(&self, owed: Owed) -> Needs {
        let Some(sum) = owed.as_sum() else { return Needs::default() };
        let fits = |events: u32| Some(self.meter(Rate::new(events, self.rate.period()).ok()?)?.most() >= sum);
        Needs {
            // what a level's rounding adds is no request
            units: Some((sum - 0.01).ceil().clamp(1.0, f64::from(u32::MAX)) as u32),
            rate: smallest(self.rate.events(), fits).and_then(|events| Rate::new(events, self.rate.period()).ok()),
        }
    }

    fn standing(&self) -> Vec<Part> {
        let most = self.meter(self.rate).map_or(0, |average| average.most() as u32);
        vec![
            Part::Position(most),
            Part::Text(" of "),
            Part::Amount(most),
            Part::Text(", "),
            Part::Rate(self.rate),
            Part::Text(" with a half-life of "),
            Part::Duration(self.half_life),
        ]
    }

    fn summary(&self) -> String {
        "{rate} by half-life {half_life}".to_owned()
    }

    fn tier(&self, words: &mut Words) -> Option<Kind> {
        let rate = rate(words, self.half_life, true)?;
        Some(RecentAverage { rate, ..self.clone() }.into())
    }

    fn is_no_looser(&self, other: &dyn LimitKind) -> Option<bool> {
        compared(other, |other: &RecentAverage| self == other)
    }

    fn at_once(&self) -> Option<u32> {
        self.meter(self.rate).map(|average| average.quota())
    }

    fn refused(&self) -> Option<RefusedCount> {
        Some(self.refused)
    }

    fn keeps_out(&self) -> bool {
        matches!(self.refused, RefusedCount::All { .. })
    }

    fn allowance(&self) -> Option<Allowance> {
        let seconds = ceil_seconds(self.half_life);
        let events = u128::from(self.rate.events()) * u128::from(seconds) * NANOS;
        let quota = saturating(events / self.rate.period().as_nanos().max(1));
        Some(Allowance { quota, counts: Counts::Cost, window: Some(seconds) })
    }

    fn unit_shape(&self) -> Option<u64> {
        Some(3)
    }

    fn refill(&self) -> Option<Rate> {
        Some(self.rate)
    }

    fn levels(&self, _zero: u64) -> Option<Box<dyn Levels>> {
        match self.refused {
            RefusedCount::Admitted => Some(Box::new(self.meter(self.rate)?)),
            RefusedCount::All { .. } => None,
        }
    }

    fn has_table_per_tier(&self) -> bool {
        true
    }
}

/// The state of one `recent_average` limit.
#[derive(Debug)]
struct AverageState {
    tiered: Tiered<sketch::RecentAverage>,
    counts_refused: bool,
}

impl AverageState {
    fn new(spec: &Spec<'_>, seed: &Seed) -> Result<AverageState, OutOfRange> {
        let memory = own::<RecentAverage>(spec)?.memory;
        let meters = spec.kinds.iter().map(|kind| average(kind, Ratio::EVEN));
        let table = |meter| Leveled::new(meter, memory, seed.clone(), spec.indebts);
        AverageState::of(Tiered::empty(meters, sketch::RecentAverage::eq, table)?, spec)
    }

    fn of(tiered: Tiered<sketch::RecentAverage>, spec: &Spec<'_>) -> Result<AverageState, OutOfRange> {
        let tiered = tiered.with_longest_wait(spec.longest_wait);
        let counts_refused = own::<RecentAverage>(spec)?.keeps_out();
        Ok(AverageState { tiered, counts_refused })
    }
}

impl ByLevel for AverageState {
    type Meter = sketch::RecentAverage;

    fn tiered(&self) -> &Tiered<sketch::RecentAverage> {
        &self.tiered
    }

    fn tiered_mut(&mut self) -> &mut Tiered<sketch::RecentAverage> {
        &mut self.tiered
    }

    fn follow(&self, spec: &Spec<'_>, moved: &Moved<'_>) -> Result<AverageState, OutOfRange> {
        let ratio = |before: &Leveled<sketch::RecentAverage>, kind: &Kind| {
            Ok(before.meter().pace_for(numbers::<RecentAverage>(kind)?.half_life))
        };
        let follow = |before: &Leveled<sketch::RecentAverage>, kind: &Kind| {
            let ratio = ratio(before, kind)?;
            let timeline = before.timeline().followed_by(moved.now, ratio);
            timeline.map(|timeline| Ok(before.followed_by(average(kind, ratio)?, timeline, spec.indebts))).transpose()
        };
        let apart = |before: &Leveled<sketch::RecentAverage>, kind: &Kind| {
            Ok(before.apart(average(kind, Ratio::EVEN)?, moved.now, ratio(before, kind)?, spec.indebts))
        };
        let after = self.tiered.follow((spec.kinds, moved.tiers), sketch::RecentAverage::eq, follow, apart)?;
        AverageState::of(after, spec)
    }

    fn owed(&self, _: &Kind, _: u8, standing: u64, cost: Cost) -> Owed {
        Owed::sum(f64::from_bits(standing) + f64::from(cost.get()))
    }

    /// Counts by the numbers that refused the request alone: a client may choose to be refused by a slow tier, and must not lock
    /// others out of a faster one by that.
    fn count_refusal(&self, at: &Place, now: Timestamp, cost: Cost) -> Option<(Judgement, bool)> {
        if !self.counts_refused {
            return None;
        }
        let leveled = self.tiered.at(at.tier);
        let (meter, moment) = (leveled.meter(), leveled.timeline().at(now));
        let ceiling = meter.ceiling(moment);
        let before = leveled.level(at);
        let raised = meter.charge(before, moment, cost).min(ceiling);
        let level =
            if meter.worth_raising(before, raised) { leveled.charge_up_to(at, now, cost, ceiling) } else { before };
        let at_the_cap = !meter.worth_raising(level, ceiling);
        Some((leveled.refusal(at, level, now, cost), at_the_cap))
    }
}

/// The meter of these numbers on an axis of this pace.
fn average(kind: &Kind, ratio: Ratio) -> Result<sketch::RecentAverage, OutOfRange> {
    let RecentAverage { rate, half_life, refused, .. } = numbers(kind)?;
    let penalty = match refused {
        RefusedCount::All { max_penalty } => *max_penalty,
        RefusedCount::Admitted => Duration::ZERO,
    };
    sketch::RecentAverage::paced(*rate, *half_life, penalty, ratio)
}
