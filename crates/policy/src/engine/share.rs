//! `fair_share` among the other limits: asked last, because it counts what is offered and must not count what another limit
//! refuses anyway.

use arrayvec::ArrayVec;

use super::decision::{Outcome, Reading, Refusal};
use super::judged::Judged;
use super::keys::{Hashed, Unkeyed};
use super::offered::{Shared, is_share};
use super::read::Read;
use super::reading::fill;
use super::snapshot::Snapshot;
use crate::limiter::fair_share::{self, MAX_NODES};
use crate::limiter::{Limiter, Offered};
use crate::policy::{Mode, OnLimit, Rule};

impl Snapshot {
    /// Asks the route's `fair_share`, if it has one, and fills in its reading; says why it forbids the request if it does.
    pub(super) fn ask_share(&self, judged: &mut Judged, about: &Read<'_>, hashed: &mut Hashed) -> Option<Refusal> {
        let is_open = |reading: &Reading| {
            reading.outcome == Outcome::Exempt && self.rule(reading.rule).is_some_and(|(rule, _)| is_share(rule))
        };
        let slot = judged.decision.readings.iter().position(is_open)?;
        let reading = judged.decision.readings.get_mut(slot)?;
        let (rule, limiter) = self.rule(reading.rule)?;
        if rule.exempt.iter().any(|condition| condition.holds(about.request, about.client)) {
            return None;
        }
        // filled in where it stays
        let Shared { keys, offered, .. } =
            judged.shared.insert(Shared { slot, keys: ArrayVec::new(), offered: Offered::default() });
        for (position, node) in rule.nodes.iter().take(MAX_NODES).enumerate() {
            let key = match self.keys().node(reading.rule, position, node, about, hashed) {
                Err(Unkeyed::Several(_) | Unkeyed::TooMany) => {
                    // what is offered is counted once for each node
                    judged.shared = None;
                    reading.outcome = Outcome::Refused;
                    reading.mode = self.mode_of(reading.rule, rule, about);
                    return (reading.mode == Mode::Enforce).then_some(Refusal::AmbiguousValue);
                }
                key => key.ok(),
            };
            // what it will be judged by comes near while the next is hashed
            if let Some(key) = key {
                limiter.prefetch_node(key, position);
            }
            // there are at most as many
            let _ = keys.try_push(key);
        }
        *offered = limiter.offer(keys, about.at, judged.decision.dice)?;
        reading.mode = self.mode_of(reading.rule, rule, about);
        fill(reading, &offered.judgement());
        if offered.admitted() {
            return None;
        }
        reading.node = node_of(rule, offered);
        match (reading.mode, &rule.action) {
            (Mode::Shadow, _) => None,
            (Mode::Enforce, OnLimit::Tag { .. }) => {
                reading.outcome = Outcome::Tagged;
                None
            }
            (Mode::Enforce, _) => Some(Refusal::FairShare),
        }
    }

    /// Has what those nodes will be judged by brought near whose keys other limits have had hashed: mostly the client's. No more is
    /// done before those have spoken, as a request that they refuse is not offered.
    pub(super) fn approach_share(&self, index: usize, rule: &Rule, limiter: &Limiter, hashed: &Hashed) {
        for position in 0..rule.nodes.len() {
            if let Some(key) = self.keys().known_node(index, position, hashed) {
                limiter.prefetch_node(key, position);
            }
        }
    }
}

/// The node that refused; one past the last stands for the whole capacity.
fn node_of(rule: &Rule, offered: &Offered) -> Option<u8> {
    let node = match offered.refusal? {
        fair_share::Refusal::Total => rule.nodes.len(),
        fair_share::Refusal::Thinned | fair_share::Refusal::Capped => offered.node?,
    };
    u8::try_from(node).ok()
}
