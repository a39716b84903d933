//! What refusals of a decision were short of, and how exact the counts are that it rests on: for people who ask why.

use super::judged::Judged;
use super::offered::is_share;
use super::snapshot::Snapshot;
use crate::limiter::Owed;
use crate::units::Cost;

impl Snapshot {
    /// What it would have taken for the reading at this position to be none of a refusal. Reads numbers only, no state: the answer
    /// stays the same however long one waits to ask.
    pub fn owed(&self, judged: &Judged, slot: usize) -> Owed {
        let Some(reading) = judged.decision.readings.get(slot) else { return Owed::default() };
        let Some((rule, limiter)) = self.rule(reading.rule) else { return Owed::default() };
        // `fair_share` has a reading and no ask
        let ask = judged.asks.get(slot).copied().flatten();
        if ask.is_none() && !is_share(rule) {
            // without its key the request was counted nowhere
            return Owed::default();
        }
        let cost = ask.map_or(Cost::ONE, |ask| ask.cost);
        limiter.owed(rule.kind_of(reading.tier), reading.tier, reading.standing, cost)
    }

    /// Whether what the limit of the reading at this position counts for the request's key is exact at this moment.
    pub fn is_exact(&self, judged: &Judged, slot: usize) -> bool {
        let limiter = judged.decision.readings.get(slot).and_then(|reading| self.limiter(reading.rule));
        let ask = judged.asks.get(slot).copied().flatten();
        limiter.zip(ask).is_some_and(|(limiter, ask)| limiter.is_exact(&ask.place))
    }
}
