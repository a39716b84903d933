//! A client over its own limit is refused by that limit, not by `fair_share`.
//!
//! A refused request is charged nowhere. So the limit of a client that `fair_share` holds below it is never used up, and alone would never
//! refuse. But `fair_share` measures how much the client asks for: if that is more than the client's own limit admits in any case, that limit
//! refuses first. The answer is its own then (429), and `fair_share` is left with clients that keep to their limits.

use super::core::Engine;
use super::decision::{DecidedBy, Outcome, Reading, Refusal};
use super::evaluation::Evaluation;
use crate::client::key::KeyPart;
use crate::limiter::{Judgement, OFFERED_HALF_LIFE};
use crate::policy::{CostRule, Counted, Mode, OnLimit, Route, Rule};
use crate::sketch::NextUnit;
use crate::units::Cost;

/// Time that the offered rate remembers, in seconds: a limit of `rate` and `burst` admits at most `burst + rate·MEMORY` of what it weighs.
const MEMORY: f64 = OFFERED_HALF_LIFE.as_nanos() as f64 / 1e9 / std::f64::consts::LN_2;

impl Engine {
    /// Hands a refusal of the `fair_share` at `share` over to the limit that the client is over by itself, if there is one.
    pub(super) fn refuse_by_own_limit(&self, share: usize, evaluation: &mut Evaluation) -> Option<Refusal> {
        let reading = evaluation.decision.readings.get(share).copied()?;
        let (rule, limiter) = self.rule(reading.rule)?;
        let node = rule.nodes.get(usize::from(reading.node?))?.parts();
        let owed = limiter.owed(&rule.kind, 0, reading.standing, Cost::ONE);
        let offered = f64::from(rule.kind.needs(owed).offered?);
        let is_own = |other: &Reading| {
            let most = self
                .policy()
                .rules
                .get(other.rule)
                .and_then(|own| self.most_of_node(own, other, reading.rule, node))?;
            (offered > most).then_some((offered / most).ln())
        };
        let mut found = evaluation.decision.readings.iter().enumerate();
        let (slot, seconds) = found.find_map(|(slot, other)| Some((slot, is_own(other)?)))?;
        // until then what was asked for weighs less
        let wait = Some((seconds * MEMORY * 1e9).ceil() as u64);
        let own = evaluation.decision.readings.get_mut(slot)?;
        let judgement = Judgement { retry_nanos: wait, next_unit: NextUnit::Known(wait), ..Judgement::REFUSED };
        own.fill(&judgement);
        own.by = DecidedBy::Offered;
        let refusal = self.limiter(own.rule)?.refusal().into();
        *evaluation.decision.readings.get_mut(share)? = Reading::unasked(reading.rule, reading.mode);
        *evaluation.probes.get_mut(share)? = None;
        Some(refusal)
    }

    /// Returns the most that the rate of a node can weigh while its client keeps to this limit; `None` if the limit refuses nothing, or
    /// counts something else than the node's requests.
    fn most_of_node(&self, rule: &Rule, reading: &Reading, share: usize, node: &[KeyPart]) -> Option<f64> {
        let (rate, burst) = rule.kind.bucket()?;
        let asked = reading.mode == Mode::Enforce && reading.outcome == Outcome::Admitted;
        let refuses = asked && matches!(rule.action, OnLimit::Reject | OnLimit::Close);
        // all requests of the node count, each as one
        let plain = rule.cost == CostRule::Fixed(Cost::ONE) && rule.counted == Counted::Requests;
        let for_all = rule.exempt.is_empty() && rule.tiers.is_empty() && rule.of.is_none();
        let counts_node = rule.key.parts().iter().all(|part| node.contains(part));
        let is_client = rule.key.parts().iter().any(|part| matches!(part, KeyPart::ClientIp { .. }));
        // a node of all routes says nothing of a limit that some of them do not have
        let covers = |route: &Route| !route.rules.contains(&share) || route.rules.contains(&reading.rule);
        let everywhere = || node.contains(&KeyPart::Route) || self.policy().routes.iter().all(covers);
        let own = refuses && plain && for_all && is_client && counts_node && everywhere();
        own.then(|| f64::from(burst) + rate.per_second() * MEMORY)
    }
}
