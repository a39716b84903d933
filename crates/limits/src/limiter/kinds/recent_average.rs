//! `type: recent_average`: an average per key that forgets.

use std::time::Duration;

use super::form::{
    Allowance, Counts, Form, FromWords, Levels, LimitKind, NANOS, Part, Shareable, ceil_seconds, compared, max_penalty,
    saturating,
};
use super::words::{At, Fault, Takes, Value, Word, Words};
use super::{Kind, MAX_PENALTY, RATE};
use crate::limiter::kind::{RefusedCount, Sketch};
use crate::limiter::needs::{Needs, Owed, smallest};
use crate::sketch;
use crate::units::time::written;
use crate::units::{Bytes, Cost, Rate};

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
    let message = format!("an average of {rate} by a half-life of {} refuses its first request", written(half_life));
    let label = format!("has room for {room:.2} at once, and a request takes {cost}");
    words.report(Fault::BelowCost, At::Value("rate"), message, label);
    // whole seconds are what people write
    let enough = (f64::from(cost) * std::f64::consts::LN_2 / rate.per_second()).ceil().max(1.0);
    let enough = Duration::from_secs(enough as u64);
    words.help(match &HALF_LIFE.takes {
        Takes::Duration(range) if enough <= *range.end() => format!("a half-life of {} would do", written(enough)),
        _ => "no half-life would do; `type: quota` counts so slow a rate".to_owned(),
    });
    None
}

impl RecentAverage {
    /// The kind before it has numbers.
    pub const FORM: Form = Form {
        synonyms: &["smooth", "ewma", "cewma"],
        promise: "at most `rate` as an average that forgets by `half_life`, per key; who goes on beyond it stays out.",
        words: &[&RATE, &HALF_LIFE, &MAX_PENALTY],
        tier_words: &[&RATE],
        common: Form::CHARGED,
        counts_refused: true,
        sharing: Shareable::AsEstimate,
        ..Form::new::<RecentAverage>("recent_average")
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
            ..Needs::default()
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
        self.meter(self.rate).map(|average| crate::sketch::Meter::quota(&average))
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
