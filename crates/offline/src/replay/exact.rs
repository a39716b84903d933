//! One counter per key beside a sketch: what the error of the sketch really is, on this traffic.
//!
//! Of kinds whose count of a key is one level: the arithmetic is the limit's, the table is a map without collisions. It is charged whenever the limit is, so that what differs is the sketch
//! alone. Grows with the number of keys.

use std::collections::HashMap;

use super::outcome::Error;
use crate::engine::{Evaluation, Outcome, Verdict};
use crate::limiter::kinds::Levels;
use crate::policy::{CostRule, Counted, Rule};
use crate::sketch::KeyHash;

/// The counters of one limit.
#[derive(Debug)]
pub struct Exact {
    meter: Box<dyn Levels>,
    levels: HashMap<KeyHash, u64>,
    cost: CostRule,
    error: Error,
    sum: f64,
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
        let meter = rule.kind.levels(zero)?;
        Some(Exact { meter, levels: HashMap::new(), cost: rule.cost.clone(), error: Error::default(), sum: 0.0 })
    }

    /// Compares what the limit said of a request, and charges it if the limit was.
    pub fn note(&mut self, evaluation: &Evaluation, slot: usize, method: &http::Method) {
        let Some(reading) = evaluation.decision.readings.get(slot) else { return };
        let (Some(key), Outcome::Admitted | Outcome::Refused) = (evaluation.key(slot), reading.outcome) else { return };
        let (at, cost) = (evaluation.decision.at, self.cost.on_entry(method));
        let level = self.levels.get(&key).copied().unwrap_or(0);
        let (fits, charged, left) = self.meter.weigh(level, at, cost);
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
        if evaluation.decision.verdict == Verdict::Admitted && !refused && fits {
            self.levels.insert(key, charged);
            for key in evaluation.more_keys(slot) {
                let level = self.levels.get(&key).copied().unwrap_or(0);
                let (_, charged, _) = self.meter.weigh(level, at, cost);
                self.levels.insert(key, charged);
            }
        }
    }

    /// What came of it.
    pub fn error(&self) -> Error {
        Error { mean: if self.error.asked == 0 { 0.0 } else { self.sum / self.error.asked as f64 }, ..self.error }
    }
}
