//! `type: recent_average`: an average per key that forgets.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::form::{
    Allowance, Counts, Form, Levels, LimitKind, NANOS, Part, Shareable, Value, ceil_seconds, compared, max_penalty,
    saturating,
};
use crate::limiter::kind::{RefusedCount, Sketch};
use crate::limiter::needs::{Needs, Owed, smallest};
use crate::sketch;
use crate::units::{Bytes, Rate};

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

impl RecentAverage {
    /// The half-lives that an average can have.
    pub const HALF_LIVES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);
    /// The penalties that it can have.
    pub const PENALTIES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(31 * 86_400);

    /// Six half-lives: an abuser that went silent at the cap has then sunk to a sixty-fourth of it.
    pub fn default_penalty(half_life: Duration) -> Duration {
        half_life.saturating_mul(6)
    }

    /// The kind before it has numbers.
    pub const FORM: Form = Form {
        synonyms: &["smooth", "ewma", "cewma"],
        words: &[
            "key",
            "missing",
            "rate",
            "half_life",
            "max_penalty",
            "cost",
            "cost_estimate",
            "cost_max",
            "count",
            "tiers",
        ],
        tier_words: &["rate"],
        counts_refused: true,
        sharing: Shareable::AsEstimate,
        ..Form::new("recent_average")
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
