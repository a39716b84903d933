//! The charges of an admitted request after its verdict.
//!
//! The proxy reports that the request went out, that its answer came, how many bytes of a body passed, or that the connection was
//! switched to another protocol. The engine then charges costs that were unknown before.

use http::{HeaderName, StatusCode};

use super::core::Engine;
use super::decision::{Decision, Outcome};
use super::evaluation::{Evaluation, Held, Holds};
use super::shared_limit::SharedOutcome;
use crate::policy::{CostRule, Counted, Mode, OnLimit, Rule};
use crate::units::{Cost, Timestamp};
use tidegate_http::lines::Lookup;

impl Engine {
    /// The request is being sent to its origin. From here on an attempt that never gets an answer counts as one that
    /// matched.
    pub fn sent(&self, holds: &mut Holds) {
        for held in holds {
            held.hold.sent();
        }
    }

    /// The origin failed to answer, which is not the client's doing: attempts that are still pending will be released.
    pub fn failed(&self, holds: &mut Holds) {
        for held in holds {
            held.hold.failed();
        }
    }

    /// The head of the origin's answer (or of the route's own) has come: charges the attempts that it decides.
    pub fn answered(
        &self,
        evaluation: &Evaluation,
        holds: &mut Holds,
        status: StatusCode,
        headers: &impl Lookup,
        now: Timestamp,
    ) {
        let mut position = 0;
        while let Some(held) = holds.get(position) {
            // places stay where they are: there is room for many, and most requests hold no attempt
            if held.is_place() {
                position += 1;
                continue;
            }
            let Some(Held { slot, hold }) = holds.pop_at(position) else { continue };
            let index = evaluation.decision.readings.get(slot).map(|reading| reading.rule);
            let rule = index.and_then(|index| self.rule(index));
            let held_back = hold.cost();
            let charged = rule.and_then(|(rule, _)| charge(rule, status, headers));
            if let (Some(Charge::Stated(cost)), Some(index), Some(route)) = (charged, index, evaluation.decision.route)
            {
                self.learned().see(index, route, cost, now);
            }
            hold.settle(now, charged.and_then(|charged| charged.cost(held_back)));
        }
    }

    /// So many bytes of the request's or the answer's body pass at `now`. Charges the limits that count bytes, and says for
    /// how many nanoseconds the body should pause, because one of them delays.
    pub fn carried(&self, evaluation: &mut Evaluation, bytes: u64, now: Timestamp) -> u64 {
        let before = evaluation.carried;
        evaluation.carried = before.saturating_add(bytes);
        let mut pause = 0;
        let Evaluation { at_stores, settled, .. } = evaluation;
        let asked =
            evaluation.probes.iter().enumerate().filter_map(|(slot, probe)| Some((slot, &probe.as_ref()?.place)));
        for (slot, place) in asked.chain(evaluation.more.iter().map(|more| (more.slot, &more.place))) {
            let Some(reading) = evaluation.decision.readings.get(slot) else { continue };
            let Some((rule, limiter)) = self.rule(reading.rule) else { continue };
            let CostRule::Bytes { unit } = rule.cost else { continue };
            if !matches!(reading.outcome, Outcome::Admitted | Outcome::Delayed) {
                continue;
            }
            // entry has paid for the first unit
            let units = |bytes: u64| bytes.div_ceil(u64::from(unit.max(1))).max(1);
            let more = units(evaluation.carried) - units(before);
            if let Ok(cost) = Cost::new(u32::try_from(more).unwrap_or(u32::MAX)) {
                if let Some(held) = at_stores.iter_mut().find(|held| held.slot == slot) {
                    held.hold.charge(cost);
                    continue;
                }
                let cost = match settled.iter().find(|(known, _)| *known == slot) {
                    // its store did not answer: one of so many parts of the limit is charged
                    Some((_, SharedOutcome::Unanswered { nodes, .. })) => {
                        Cost::new(cost.get().saturating_mul((*nodes).max(1))).unwrap_or(cost)
                    }
                    _ => cost,
                };
                limiter.charge(place, now, cost);
                if let Some(sync) = self.peer_sync(reading.rule) {
                    sync.count(place, cost);
                }
            }
            if let (OnLimit::Delay { max }, Mode::Enforce) = (&rule.action, reading.mode) {
                let most = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX);
                pause = pause.max(limiter.ahead_nanos(place, now).min(most));
            }
        }
        pause
    }

    /// Whether any limit of the request counts bytes, so that [`Engine::carried`] is worth calling.
    pub fn counts_bytes(&self, evaluation: &Evaluation) -> bool {
        let mut rules = evaluation.decision.readings.iter().filter_map(|reading| self.rule(reading.rule));
        rules.any(|(rule, _)| matches!(rule.cost, CostRule::Bytes { .. }))
    }

    /// The connection is being switched to another protocol: its places move to the class of their own, so that long-lived
    /// streams never use up the places of ordinary requests.
    ///
    /// # Errors
    /// A limit has no room in that class; gives its position among the rules. All places stay as they were or have moved.
    pub fn upgraded(&self, evaluation: &Evaluation, holds: &mut Holds) -> Result<(), usize> {
        for held in holds {
            if !held.hold.upgrade() {
                let reading = evaluation.decision.readings.get(held.slot);
                if reading.is_none_or(|reading| reading.mode == Mode::Enforce) {
                    return Err(reading.map_or(0, |reading| reading.rule));
                }
            }
        }
        Ok(())
    }

    /// Housekeeping that must not wait for requests nor cost one anything: re-keying tables, sweeping sets. To be called
    /// about once a second; calling it late or more often does no harm.
    pub fn maintain(&self, now: Timestamp) {
        for limiter in self.limiters() {
            limiter.maintain(now);
        }
    }

    /// The fields that tell the origin which limits the request is over, for limits with `action: tag`.
    pub fn tags<'a>(&'a self, decision: &'a Decision) -> impl Iterator<Item = (&'a HeaderName, &'a str)> {
        decision.readings.iter().filter(|reading| reading.outcome == Outcome::Tagged).filter_map(|reading| {
            let (rule, _) = self.rule(reading.rule)?;
            let OnLimit::Tag { header } = &rule.action else { return None };
            Some((header, rule.name.as_str()))
        })
    }

    /// Whether the refusal is to close the connection, because a violated limit has `action: close`.
    pub fn closes(&self, decision: &Decision) -> bool {
        let mut violated = decision.violated().filter_map(|reading| self.rule(reading.rule));
        violated.any(|(rule, _)| rule.action == OnLimit::Close)
    }
}

/// What an answer costs under a rule; `None` if it does not count.
fn charge(rule: &Rule, status: StatusCode, headers: &impl Lookup) -> Option<Charge> {
    if let Counted::Responses(statuses) = &rule.counted
        && !statuses.contains(status)
    {
        return None;
    }
    let CostRule::Response { header, .. } = &rule.cost else { return Some(Charge::Held) };
    let stated = headers.first(header).and_then(number);
    Some(stated.map_or(Charge::Held, |cost| Charge::Stated(u32::try_from(cost).unwrap_or(u32::MAX))))
}

/// A number without a sign.
fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value.trim_ascii()).ok()?.parse().ok()
}

/// What an answer that counts costs.
#[derive(Debug, Clone, Copy)]
enum Charge {
    /// What was held back.
    Held,
    /// What it says, which may be nothing.
    Stated(u32),
}

impl Charge {
    fn cost(self, held_back: Cost) -> Option<Cost> {
        match self {
            Charge::Held => Some(held_back),
            Charge::Stated(cost) => Cost::new(cost).ok(),
        }
    }
}
