//! A client over its own limit is refused by that limit, not by `fair_share`.
//!
//! A refused request is charged nowhere. So the limit of a client that `fair_share` holds below it is never used up, and alone would never
//! refuse. Beside a `fair_share` each limit of the client's own, of whatever kind, counts what is asked for as well: its [`Demand`], charged
//! as if there were no `fair_share`. Of a request for which `fair_share` has no unit at once the demands are asked. If one has no room, its
//! limit refuses. The answer is that limit's then (429), and those who wait for a unit are clients that keep to their limits. A client that
//! comes again after it has waited as it was told asks for the same once more, and that is counted once.

use super::core::Engine;
use super::decision::{DecidedBy, Outcome, Reading, Refusal};
use super::evaluation::Evaluation;
use crate::client::key::KeyPart;
use crate::limiter::{Demand, Judgement, Place};
use crate::policy::{Counted, Mode, OnLimit, Policy, Rule};
use crate::sketch::NextUnit;
use crate::units::{Cost, Timestamp};

/// The longest wait that is told, in nanoseconds: the limit itself has room, and so may `fair_share` soon.
const LONGEST_TOLD: u64 = 1_000_000_000;

/// Returns whether the limit is its client's own, refuses, and stands beside a `fair_share`, so that its demand is counted.
///
/// None is counted of costs that only an answer tells: no answer comes to a refused request. What a request gives back at its end was never
/// taken by a refused one.
pub fn has_demand(policy: &Policy, index: usize, rule: &Rule) -> bool {
    let form = rule.kind.form();
    let refuses = rule.mode == Mode::Enforce && !matches!(rule.action, OnLimit::Tag { .. });
    let told_on_entry = !rule.cost.is_deferred() && rule.counted == Counted::Requests;
    let by_client = |part: &KeyPart| {
        matches!(part, KeyPart::ClientIp { .. } | KeyPart::Header(_) | KeyPart::Cookie(_) | KeyPart::Query(_))
    };
    let is_own = !form.gives_back && !rule.kind.has_nodes() && rule.key.parts().iter().any(by_client);
    let rule_at = |at: &usize| policy.rules.get(*at);
    let beside = |rules: &Vec<usize>| {
        let is_asked =
            rules.iter().any(|at| *at == index || rule_at(at).is_some_and(|other| other.instead == Some(index)));
        is_asked && rules.iter().filter_map(rule_at).any(|other| other.kind.has_nodes())
    };
    refuses && told_on_entry && is_own && policy.routes.iter().any(|route| beside(&route.rules))
}

impl Engine {
    /// Has all that is asked for of the client's own limits counted from now on.
    pub(super) fn watch_demands(&self, evaluation: &Evaluation, now: Timestamp) {
        self.demands(evaluation, now).for_each(|(_, demand, ..)| demand.watch(now));
    }

    /// Hands the request, for which the `fair_share` at `share` has no unit, over to the limit that the client is over by itself, if there is
    /// one.
    pub(super) fn refuse_by_own_limit(
        &self,
        share: usize,
        evaluation: &mut Evaluation,
        at: Timestamp,
    ) -> Option<Refusal> {
        let mut over = None;
        for (slot, demand, place, cost) in self.demands(evaluation, at) {
            if let Some(judgement) = demand.refusal(&place, at, cost) {
                let penalised = demand.refuse(&place, at, &judgement, cost);
                over = over.or(Some((slot, judgement, penalised)));
            }
        }
        let (slot, judgement, penalised) = over?;
        evaluation.decision.delay_nanos = 0;
        let own = evaluation.decision.readings.get_mut(slot)?;
        let wait = Some(judgement.retry_nanos.map_or(LONGEST_TOLD, |wait| wait.min(LONGEST_TOLD)));
        own.fill(&Judgement { retry_nanos: wait, next_unit: NextUnit::Known(wait), ..judgement });
        own.by = DecidedBy::Offered;
        let refusal = if penalised { Refusal::Penalty } else { self.limiter(own.rule)?.refusal().into() };
        let share = evaluation.decision.readings.get_mut(share)?;
        *share = Reading::unasked(share.rule, share.mode);
        Some(refusal)
    }

    /// Charges what an admitted request asks for of its client's own limits, while a `fair_share` refuses others.
    #[inline]
    pub(super) fn charge_watched_demands(&self, evaluation: &Evaluation, now: Timestamp) {
        let is_watched =
            |reading: &Reading| self.limiter(reading.rule).is_some_and(|limiter| limiter.is_demand_watched(now));
        if evaluation.decision.readings.iter().any(is_watched) {
            self.demands(evaluation, now)
                .for_each(|(_, demand, place, cost)| demand.charge_admitted(&place, now, cost));
        }
    }

    /// Charges what a request that a `fair_share` refuses asks for of its client's own limits.
    pub(super) fn charge_refused_demands(&self, evaluation: &Evaluation, now: Timestamp) {
        self.demands(evaluation, now).for_each(|(_, demand, place, cost)| demand.charge_refused(&place, now, cost));
    }

    /// The demands of the limits that have room for the request, with the position of their reading, and where and what it counts.
    fn demands<'a>(
        &'a self,
        evaluation: &'a Evaluation,
        now: Timestamp,
    ) -> impl Iterator<Item = (usize, &'a Demand, Place, Cost)> {
        let Evaluation { decision, probes, more, .. } = evaluation;
        let first = probes.iter().enumerate().filter_map(|(slot, probe)| {
            let probe = probe.as_ref()?;
            Some((slot, &probe.place, probe.cost))
        });
        let further = more.iter().map(|more| (more.slot, &more.place, more.cost));
        first.chain(further).filter_map(move |(slot, place, cost)| {
            let reading = decision.readings.get(slot)?;
            let asked = matches!(reading.outcome, Outcome::Admitted | Outcome::Delayed);
            let (demand, place) = self.limiter(reading.rule)?.demand(place, now)?;
            (asked && reading.mode == Mode::Enforce).then_some((slot, demand, place, cost))
        })
    }
}
