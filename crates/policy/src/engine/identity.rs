//! By what a limit is the one that it was: at a reload, and after a restart.

use serde::{Deserialize, Serialize};

use super::fate::Reset;
use crate::client::key::{KeyPart, KeySpec};
use crate::limiter::Scope;
use crate::limiter::sharing::Sharing;
use crate::policy::{CostRule, Policy, Rule};

/// What must be equal for a limit to keep its state, in words that outlive the process. Everything else may change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    r#type: String,
    key: String,
    of: String,
    window: String,
    memory: Option<u64>,
    store: String,
}

impl Identity {
    /// The identity of a limit of a policy.
    pub fn of(rule: &Rule, policy: &Policy) -> Identity {
        let of = rule.of.as_ref().map(|of| canonical(of, policy));
        let bytes = matches!(rule.cost, CostRule::Bytes { .. });
        Identity {
            r#type: rule.kind.word().to_owned(),
            key: format!("{:?}", counted_by(rule, policy)),
            of: format!("{:?}", (of, bytes)),
            window: format!("{:?}", rule.kind.fixed_windows()),
            memory: rule.kind.sketch().map(|(_, memory)| memory.0),
            store: format!("{:?}", shared_as(rule, policy)),
        }
    }

    /// What of it is another now; `None` if it is the same.
    pub fn changed(&self, now: &Identity) -> Option<Reset> {
        let parts = [
            (self.r#type != now.r#type, Reset::Type),
            (self.key != now.key, Reset::Key),
            (self.of != now.of, Reset::Of),
            (self.window != now.window, Reset::Window),
            (self.memory != now.memory, Reset::Memory),
            (self.store != now.store, Reset::Store),
        ];
        parts.into_iter().find(|(differs, _)| *differs).map(|(_, reset)| reset)
    }
}

/// The limit's own numbers and those of its tiers, in words.
pub(super) fn numbers(rule: &Rule) -> Vec<String> {
    let tiers = rule.tiers.iter().map(|tier| format!("{:?}", tier.kind));
    std::iter::once(format!("{:?}", Some(&rule.kind))).chain(tiers).collect()
}

/// The conditions of its tiers, in words.
pub(super) fn conditions(rule: &Rule) -> Vec<String> {
    rule.tiers.iter().map(|tier| format!("{:?}", tier.when)).collect()
}

/// How a limit is shared, its name, and the name, the prefix and the database of its store.
type SharedAs<'p> = (Sharing, &'p str, Option<(&'p str, &'p str, u8)>);

/// Returns how a limit is shared, and where in which store its counts are: their names begin with the prefix and hold the limit's name.
/// The store's addresses and its protocol may change: they lead to the same counts.
pub(super) fn shared_as<'p>(rule: &'p Rule, policy: &'p Policy) -> Option<SharedAs<'p>> {
    let shared = rule.shared?;
    let store = policy.store(shared.store);
    let place = store.map(|store| (store.name.as_str(), store.prefix.as_str(), store.database));
    Some((shared.sharing, &rule.name, place))
}

/// All that its requests are told apart by: what is counted exactly, or the key, whether origins are apart, and nodes.
fn counted_by(rule: &Rule, policy: &Policy) -> (Option<Scope>, Vec<Vec<KeyPart>>, bool) {
    match rule.kind.scope() {
        Some(scope @ (Scope::Global | Scope::Route | Scope::Origin)) => (Some(scope), Vec::new(), false),
        _ => {
            let keys = std::iter::once(&rule.key).chain(&rule.nodes);
            (None, keys.map(|key| canonical(key, policy)).collect(), rule.by_origin)
        }
    }
}

/// The parts of a key with the lengths that the policy gives to those that say none.
fn canonical(key: &KeySpec, policy: &Policy) -> Vec<KeyPart> {
    let part = |part: &KeyPart| match part {
        KeyPart::ClientIp { ipv4_prefix, ipv6_prefix } => KeyPart::ClientIp {
            ipv4_prefix: Some(ipv4_prefix.unwrap_or(policy.clients.ipv4_prefix)),
            ipv6_prefix: Some(ipv6_prefix.unwrap_or(policy.clients.ipv6_prefix)),
        },
        other => other.clone(),
    };
    key.parts().iter().map(part).collect()
}

/// The position of the limit that this one goes on from, among the old ones' names.
pub(super) fn predecessor(old: &[&str], rule: &Rule) -> Option<usize> {
    let named = |name: &str| old.iter().position(|old| *old == name);
    // a file that has been loaded before still says what it was renamed from
    named(&rule.name).or_else(|| named(rule.renamed_from.as_deref()?))
}
