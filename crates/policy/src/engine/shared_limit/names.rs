//! What a store knows a limit by.

use std::sync::Arc;

use crate::client::store_names::StoreNames;
use crate::limiter::sharing::{Promise, StoreTier};
use crate::policy::{Kind, Rule};
use crate::units::OutOfRange;

/// What a store knows a limit's keys and tiers by, under one secret.
#[derive(Debug)]
pub(super) struct Names {
    pub keys: StoreNames,
    /// The limit's own numbers, then those of its tiers.
    pub tiers: Arc<[StoreTier]>,
}

impl Names {
    /// Those of the rule.
    ///
    /// # Errors
    /// A kind that no store keeps.
    pub fn new(rule: &Rule, secret: &[u8]) -> Result<Names, OutOfRange> {
        let keys = StoreNames::new(secret, &rule.name);
        let own = promise(&rule.kind).map(|promise| StoreTier { id: 0, promise });
        let tiers = rule.tiers.iter().map(|tier| {
            let id = keys.tier(&tier.when.networks, &tier.when.headers);
            // one that exempts is never asked
            promise(tier.kind.as_ref().unwrap_or(&rule.kind)).map(|promise| StoreTier { id, promise })
        });
        let tiers = std::iter::once(own).chain(tiers).collect::<Result<_, _>>()?;
        Ok(Names { keys, tiers })
    }
}

fn promise(kind: &Kind) -> Result<Promise, OutOfRange> {
    kind.store_promise().ok_or(OutOfRange { allowed: "`rate`, or `quota` that does not slide" })
}
