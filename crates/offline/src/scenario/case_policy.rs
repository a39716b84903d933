//! The policy of a case: the tested one with smaller sketches.
//!
//! A sketch is made for a million keys, and clearing it takes longer than most cases. Its size only shows in how often an innocent key
//! is refused early: with some hundred bytes per key of the case, never.

use std::sync::Arc;

use super::message::NUMBER;
use crate::config::case::{Case, From};
use crate::policy::{Kind, Policy, Rule};
use crate::units::Bytes;

/// The smallest sketch that a policy may ask for.
const LEAST: u64 = 64 << 10;

/// Bytes per key of the case: with a thousand keys at their limit, one in 10⁸ others shares all its cells with them.
const PER_KEY: u64 = 1 << 10;

/// Returns the policy with sketches that fit the case, never larger than written.
pub fn smaller(policy: &Policy, case: &Case) -> Policy {
    let most = Bytes(keys(case).saturating_mul(PER_KEY).clamp(LEAST, 1 << 40).next_power_of_two());
    let mut smaller = policy.clone();
    for rule in &mut smaller.rules {
        let own: &mut Rule = Arc::make_mut(rule);
        fit(&mut own.kind, most);
        own.tiers.iter_mut().filter_map(|tier| tier.kind.as_mut()).for_each(|kind| fit(kind, most));
    }
    smaller
}

fn fit(kind: &mut Kind, most: Bytes) {
    if let Some(memory) = kind.memory_mut() {
        *memory = (*memory).min(most);
    }
}

/// The most keys that the requests of a case can have: one per sender, or per request where their texts differ.
fn keys(case: &Case) -> u64 {
    let of_step = |step: &crate::config::case::Step| {
        let texts = step.headers.iter().map(|(_, value)| value).chain([&step.url.target]);
        if texts.into_iter().any(|text| text.contains(NUMBER)) {
            return u64::from(step.count);
        }
        let senders = step.from.iter().map(|from| match from {
            From::Network(_) => u64::from(step.count),
            From::Address(_) | From::Unix => 1,
        });
        senders.sum::<u64>().min(u64::from(step.count))
    };
    case.steps.iter().map(of_step).sum()
}
