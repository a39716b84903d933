//! Which limits of a policy are shared, and what of the snapshot before they go on from.

use std::sync::Arc;

use super::cluster::Cluster;
use super::estimate::Told;
use super::snapshot::Snapshot;
use crate::limiter::Limiter;
use crate::limiter::cluster::Sharing;
use crate::policy::{Policy, Rule};
use crate::units::OutOfRange;

impl Snapshot {
    /// The same in a face that has the policy's stores, where limits are shared that say so. Keys are named under `secret`;
    /// what the snapshot `before` held of limits with the same counts in the same store is held on.
    ///
    /// # Errors
    /// A shared limit of a kind that cannot be shared, by name; `config` checks that first.
    pub fn sharing(self, secret: &[u8], before: Option<&Snapshot>) -> Result<Snapshot, (String, OutOfRange)> {
        self.sharing_while_changed(secret, None, before)
    }

    /// The same while the secret is changed on one gate after the other, and `previous` is the one of before: what a store is
    /// asked about is charged under both, so that all gates together keep their promise. Of an estimate gates with different
    /// secrets tell each other nothing.
    ///
    /// # Errors
    /// As [`Snapshot::sharing`].
    pub fn sharing_while_changed(
        self,
        secret: &[u8],
        previous: Option<&[u8]>,
        before: Option<&Snapshot>,
    ) -> Result<Snapshot, (String, OutOfRange)> {
        let clusters = clusters(self.policy(), (secret, previous), before)?;
        let told = all_told(&self, secret, before)?;
        Ok(self.with_shared(clusters, told))
    }
}

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
fn shared_before(rule: &Rule, policy: &Policy, before: &Snapshot) -> Option<usize> {
    let old = before.policy();
    let place = shared_as(rule, policy);
    place.and(old.rules.iter().position(|was| shared_as(was, old) == place))
}

/// The limits of a policy that a store is asked about, each on what the one of the same counts in the same store held in the snapshot before.
fn clusters(
    policy: &Policy,
    secrets: (&[u8], Option<&[u8]>),
    before: Option<&Snapshot>,
) -> Result<Vec<Option<Arc<Cluster>>>, (String, OutOfRange)> {
    let cluster = |rule: &Arc<Rule>| {
        let before = before.and_then(|before| before.cluster(shared_before(rule, policy, before)?));
        let made = Cluster::of(rule, secrets, before.map(Arc::as_ref));
        made.map(|made| made.map(Arc::new)).map_err(|fault| (rule.name.clone(), fault))
    };
    policy.rules.iter().map(cluster).collect()
}

/// The limits of a policy that are shared so, each on what the one of the same counts in the same store held in the snapshot
/// before.
fn all_told(
    snapshot: &Snapshot,
    secret: &[u8],
    before: Option<&Snapshot>,
) -> Result<Vec<Option<Arc<Told>>>, (String, OutOfRange)> {
    let policy = snapshot.policy();
    let told = |(rule, limiter): (&Arc<Rule>, &Arc<Limiter>)| {
        let before = before.and_then(|before| before.told(shared_before(rule, policy, before)?));
        let made = Told::of(rule, limiter, secret, snapshot.seed(), before.map(Arc::as_ref));
        made.map(|made| made.map(Arc::new)).map_err(|fault| (rule.name.clone(), fault))
    };
    policy.rules.iter().zip(snapshot.limiters()).map(told).collect()
}
