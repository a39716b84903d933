//! One counter per key beside a sketch: what the error of the sketch really is, on this traffic.
//!
//! Of types `rate`, `quota` (aligned) and `recent_average` (`count: admitted`), as these are levels that a meter moves: the meter
//! is the same, the table is a map without collisions. It is charged whenever the limit is, so that what differs is the sketch
//! alone. Grows with the number of keys.

use std::collections::HashMap;
use std::time::Duration;

use super::outcome::Error;
use crate::engine::{Judged, Outcome, Verdict};
use crate::limiter::{Kind, RefusedCount};
use crate::policy::{CostRule, Counted, Rule};
use crate::sketch::{Bucket, KeyHash, Meter, RecentAverage, Window, Windows};
use crate::units::Timestamp;

/// The counters of one limit.
#[derive(Debug)]
pub struct Exact {
    meter: Which,
    levels: HashMap<KeyHash, u64>,
    cost: CostRule,
    error: Error,
    sum: f64,
}

#[derive(Debug)]
enum Which {
    Rate(Bucket),
    Quota(Window),
    RecentAverage(RecentAverage),
}

impl Exact {
    /// Beside the limit; `None` for one whose counters are no levels, or which has tiers or is charged after the answer.
    pub fn new(rule: &Rule, zero: u64) -> Option<Exact> {
        if !rule.tiers.is_empty() || rule.counted != Counted::Requests {
            return None;
        }
        if !matches!(rule.cost, CostRule::Fixed(_) | CostRule::ByMethod { .. }) {
            return None;
        }
        let meter = match &rule.kind {
            Kind::Rate { rate, burst, .. } => Which::Rate(Bucket::new(*rate, *burst).ok()?),
            Kind::Quota { max, window, sliding: false, .. } => {
                Which::Quota(Window::on(*max, Windows::of(window, zero).ok()?).ok()?)
            }
            Kind::RecentAverage { rate, half_life, refused: RefusedCount::Admitted, .. } => {
                Which::RecentAverage(RecentAverage::new(*rate, *half_life, Duration::ZERO).ok()?)
            }
            _ => return None,
        };
        Some(Exact { meter, levels: HashMap::new(), cost: rule.cost.clone(), error: Error::default(), sum: 0.0 })
    }

    /// Compares what the limit said of a request, and charges it if the limit was.
    pub fn note(&mut self, judged: &Judged, slot: usize, method: &http::Method) {
        let Some(reading) = judged.decision.readings.get(slot) else { return };
        let (Some(key), Outcome::Admitted | Outcome::Refused) = (judged.key(slot), reading.outcome) else { return };
        let (at, cost) = (judged.decision.at, self.cost.on_entry(method));
        let level = self.levels.get(&key).copied().unwrap_or(0);
        let (fits, charged, left) = match &self.meter {
            Which::Rate(meter) => weigh(meter, level, at, cost),
            Which::Quota(meter) => weigh(meter, level, at, cost),
            Which::RecentAverage(meter) => weigh(meter, level, at, cost),
        };
        self.error.asked += 1;
        let refused = reading.outcome == Outcome::Refused;
        self.error.wrongly_limited += u64::from(refused && fits);
        if fits {
            // in requests of this cost, as the reading has it
            let left = left / cost.get().max(1);
            let short = if refused { left.saturating_add(1) } else { left.saturating_sub(reading.remaining) };
            self.error.most = self.error.most.max(short);
            self.sum += f64::from(short);
        }
        if judged.decision.verdict == Verdict::Admitted && !refused && fits {
            self.levels.insert(key, charged);
            for key in judged.more_keys(slot) {
                let level = self.levels.get(&key).copied().unwrap_or(0);
                let (_, charged, _) = match &self.meter {
                    Which::Rate(meter) => weigh(meter, level, at, cost),
                    Which::Quota(meter) => weigh(meter, level, at, cost),
                    Which::RecentAverage(meter) => weigh(meter, level, at, cost),
                };
                self.levels.insert(key, charged);
            }
        }
    }

    /// What came of it.
    pub fn error(&self) -> Error {
        Error { mean: if self.error.asked == 0 { 0.0 } else { self.sum / self.error.asked as f64 }, ..self.error }
    }
}

/// Whether it fits, the level after it, and how many units are left then.
fn weigh<M: Meter>(meter: &M, level: u64, at: Timestamp, cost: crate::units::Cost) -> (bool, u64, u32) {
    match meter.admit(level, at, cost) {
        Some(charged) => (true, charged.to, charged.remaining),
        None => (false, meter.charge(level, at, cost), 0),
    }
}
