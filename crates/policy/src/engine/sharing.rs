//! The limits of a policy that are shared, and what they go on from.

use std::sync::Arc;

use super::core::Engine;
use super::estimate::Told;
use super::shared_limit::SharedLimit;
use crate::limiter::Limiter;
use crate::limiter::sharing::Sharing;
use crate::policy::{Policy, Rule};
use crate::sketch::Seed;
use crate::units::OutOfRange;

/// How a limit is shared, its name, and of its store the name, the prefix and the database.
pub(super) type SharedAs<'p> = (Sharing, &'p str, Option<(&'p str, &'p str, u8)>);

/// Of shared limits: how, and where in which store its counts are: their names begin with the prefix, and hold the limit's. The
/// store's addresses and how it is spoken to may change: they lead to the same counts.
pub(super) fn shared_as<'p>(rule: &'p Rule, policy: &'p Policy) -> Option<SharedAs<'p>> {
    let shared = rule.shared?;
    let store = policy.stores.get(shared.store);
    let place = store.map(|store| (store.name.as_str(), store.prefix.as_str(), store.database));
    Some((shared.sharing, &rule.name, place))
}

/// The position of the limit of the same counts in the same store in the snapshot before.
fn shared_before(rule: &Rule, policy: &Policy, before: &Engine) -> Option<usize> {
    let old = before.policy();
    let place = shared_as(rule, policy);
    place.and(old.rules.iter().position(|was| shared_as(was, old) == place))
}

/// The limits of a policy that a store is asked about. Each holds on to what the snapshot before held of the same counts in the same
/// store.
pub(super) fn shared_limits(
    policy: &Policy,
    secrets: (&[u8], Option<&[u8]>),
    before: Option<&Engine>,
) -> Result<Vec<Option<Arc<SharedLimit>>>, (String, OutOfRange)> {
    let shared_limit = |rule: &Arc<Rule>| {
        let before = before.and_then(|before| before.shared_limit(shared_before(rule, policy, before)?));
        let made = SharedLimit::of(rule, secrets, before.map(Arc::as_ref));
        made.map(|made| made.map(Arc::new)).map_err(|fault| (rule.name.clone(), fault))
    };
    policy.rules.iter().map(shared_limit).collect()
}

/// The limits of a policy that gates tell each other of. Each goes on from the sums that the snapshot before had of the same
/// counts in the same store.
pub(super) fn all_told(
    (policy, limiters): (&Policy, &[Arc<Limiter>]),
    (secret, seed): (&[u8], &Seed),
    before: Option<&Engine>,
) -> Result<Vec<Option<Arc<Told>>>, (String, OutOfRange)> {
    let told = |(rule, limiter): (&Arc<Rule>, &Arc<Limiter>)| {
        let before = before.and_then(|before| before.told(shared_before(rule, policy, before)?));
        let made = Told::of(rule, limiter, secret, seed, before.map(Arc::as_ref));
        made.map(|made| made.map(Arc::new)).map_err(|fault| (rule.name.clone(), fault))
    };
    policy.rules.iter().zip(limiters).map(told).collect()
}
