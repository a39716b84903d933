//! The policy that a case is played under: the one that is tested, with smaller sketches.
//!
//! A sketch is made for a million keys, and clearing it takes longer than most cases. How large it is shows nowhere but in how
//! often an innocent key is refused early: with some hundred bytes per key of the case that is never, as in production with its
//! few keys in much memory.

use std::sync::Arc;

use super::message::NUMBER;
use crate::config::case::{Case, From};
use crate::policy::{Kind, Policy, Rule};
use crate::units::Bytes;

/// The smallest sketch that a policy may ask for.
const LEAST: u64 = 64 << 10;

/// So much per key of the case: with a thousand keys at their limit, one in 10⁸ others shares all its cells with them.
const PER_KEY: u64 = 1 << 10;

/// The policy with sketches that fit the case; never larger than they are written.
pub fn policy(policy: &Policy, case: &Case) -> Policy {
    let most = Bytes(keys(case).saturating_mul(PER_KEY).clamp(LEAST, 1 << 40).next_power_of_two());
    let mut fitted = policy.clone();
    for rule in &mut fitted.rules {
        let own: &mut Rule = Arc::make_mut(rule);
        fit(&mut own.kind, most);
        own.tiers.iter_mut().filter_map(|tier| tier.kind.as_mut()).for_each(|kind| fit(kind, most));
    }
    fitted
}

fn fit(kind: &mut Kind, most: Bytes) {
    if let Some(memory) = kind.memory_mut() {
        *memory = (*memory).min(most);
    }
}

/// How many keys the requests of a case have at most: one per sender, or per request where their texts differ.
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
