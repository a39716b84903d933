//! What a reload carries over: one snapshot after another, on the same state.
//!
//! A limit of the new policy goes on from one of the old when both have one **identity**: the name (or the name that
//! `renamed_from` says), the type, what is counted by (with the lengths of networks as they come out), the values of `distinct`, the
//! window where it slides or is one of `distinct`, the shape and size of the table, and where its counts are if gates share it. Everything else may change: [`Limiter::followed_by`] says what becomes of the
//! numbers. A limit without a predecessor begins empty.
//!
//! Nothing here is in force before the face swaps the snapshots; the old one stays as it is, for requests that began under it.

use std::fmt;
use std::sync::Arc;

use super::learned::Learned;
use super::numbers::Numbers;
use super::sharing::shared_as;
use super::snapshot::Snapshot;
use crate::client::key::{KeyPart, KeySpec};
use crate::limiter::{Kind, Moved, Scope};
use crate::policy::{Condition, CostRule, Policy, Rule};
use crate::units::{OutOfRange, Timestamp};

/// What became of the limits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Succession {
    /// Those of the new policy, in its order.
    pub limits: Vec<Carried>,
    /// The names of those that the new policy has no successor of.
    pub removed: Vec<String>,
}

/// One limit of the new policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Carried {
    /// Its name.
    pub name: String,
    /// What became of its state.
    pub fate: Fate,
}

/// What became of the state of a limit.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    /// It is what it was; `from` is the name before, if that was another.
    Kept {
        /// The name before.
        from: Option<String>,
    },
    /// It is what it was, and counts under other numbers.
    Rerated {
        /// The name before, if that was another.
        from: Option<String>,
        /// The promise before. The one now is the rule's.
        before: Kind,
    },
    /// It begins anew, empty: all of its clients have their whole budget.
    Reset(Reset),
    /// There was no such limit.
    New,
}

/// Why state could not be carried over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// Of another `type`.
    Type,
    /// By another `key`, or by other prefix lengths, or other nodes of `fair_share`.
    Key,
    /// Other things are counted: another `of`, or bytes instead of requests.
    Of,
    /// Other windows.
    Window,
    /// A table of another size.
    Memory,
    /// Shared through another store or under other names in it (its prefix, or the limit's own name), shared in another way, or
    /// no longer.
    Store,
}

impl Reset {
    /// What changed, as the report has it.
    pub fn word(self) -> &'static str {
        match self {
            Reset::Type => "type",
            Reset::Key => "key",
            Reset::Of => "of",
            Reset::Window => "window",
            Reset::Memory => "memory",
            Reset::Store => "store",
        }
    }
}

impl fmt::Display for Reset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} changed", self.word())
    }
}

impl Snapshot {
    /// The snapshot of a policy that follows this one at `now`, and what it carries over. This one stays in force until the face
    /// swaps them and calls [`Snapshot::take_over`] on the new one.
    ///
    /// # Errors
    /// As [`Snapshot::new`].
    pub fn followed_by(&self, policy: Policy, now: Timestamp) -> Result<(Snapshot, Succession), (String, OutOfRange)> {
        let generation = self.generation() + 1;
        // a table that replaces one is drawn anew; no limit has a name with spaces
        let fresh = self.seed().derive(&format!("generation {generation}"));
        let old = self.policy();
        let numbers = Numbers::of(&policy, self.unix_nanos_at_origin());
        let before = Numbers::of(old, self.unix_nanos_at_origin());
        let moved = moves(old, &policy);
        let moved = Moved { routes: &moved.0, origins: &moved.1, tiers: &[], now };
        let mut taken = vec![false; old.rules.len()];
        let mut limiters = Vec::with_capacity(policy.rules.len());
        let mut limits = Vec::with_capacity(policy.rules.len());
        for rule in &policy.rules {
            let fault = |fault| (rule.name.clone(), fault);
            let predecessor = predecessor(old, rule).filter(|at| taken.get(*at) == Some(&false));
            let predecessor = predecessor.and_then(|at| Some((at, old.rules.get(at)?, self.limiters().get(at)?)));
            let (limiter, fate) = match predecessor {
                None => (Arc::new(numbers.empty(rule, &fresh)?), Fate::New),
                Some((at, was, limiter)) => {
                    taken.iter_mut().skip(at).take(1).for_each(|taken| *taken = true);
                    let from = (was.name != rule.name).then(|| was.name.clone());
                    match changed((was, old), (rule, &policy)) {
                        Some(reset) => (Arc::new(numbers.empty(rule, &fresh)?), Fate::Reset(reset)),
                        None if before.same(was, &numbers, rule) => (Arc::clone(limiter), Fate::Kept { from }),
                        None => {
                            let tiers = tiers_before(was, rule);
                            let moved = Moved { tiers: &tiers, ..moved };
                            let after = numbers.with_spec(rule, |spec| limiter.followed_by(spec, &moved));
                            let fate = match was.kind == rule.kind {
                                true => Fate::Kept { from },
                                false => Fate::Rerated { from, before: was.kind.clone() },
                            };
                            (Arc::new(after.map_err(fault)?), fate)
                        }
                    }
                }
            };
            limiters.push(limiter);
            limits.push(Carried { name: rule.name.clone(), fate });
        }
        let left = old.rules.iter().zip(taken).filter(|(_, taken)| !taken).map(|(rule, _)| rule.name.clone());
        let succession = Succession { limits, removed: left.collect() };
        let (seed, origin) = (self.seed(), self.unix_nanos_at_origin());
        let learned = Learned::of(&policy, |index, route| {
            let rule = predecessor(old, policy.rules.get(index)?)?;
            let route = old.routes.iter().position(|before| before.name == route.name)?;
            self.learned().get(rule, route).cloned()
        });
        Ok((Snapshot::of(policy, limiters, seed, origin, generation).knowing(learned), succession))
    }

    /// This snapshot is in force from now on.
    pub fn take_over(&self) {
        self.limiters().iter().for_each(|limiter| limiter.take_over());
    }
}

/// For the limit's own numbers and each of its tiers, which tier of the old rule it was: the one with the same condition.
fn tiers_before(was: &Rule, now: &Rule) -> Vec<Option<u8>> {
    let before =
        |when: &Condition| (1_u8..).zip(&was.tiers).find(|(_, tier)| tier.when == *when).map(|(number, _)| number);
    std::iter::once(Some(0)).chain(now.tiers.iter().map(|tier| before(&tier.when))).collect()
}

/// The rule of the old policy that this one goes on from.
fn predecessor(old: &Policy, rule: &Rule) -> Option<usize> {
    let named = |name: &str| old.rules.iter().position(|rule| rule.name == name);
    // a file that has been loaded before still says what it was renamed from
    named(&rule.name).or_else(|| named(rule.renamed_from.as_deref()?))
}

/// For each route and origin of the new policy, which of the old one it was.
fn moves(old: &Policy, new: &Policy) -> (Vec<Option<usize>>, Vec<Option<usize>>) {
    let route = |name: &str| old.routes.iter().position(|route| route.name == name);
    let origin = |name: &str| old.origins.iter().position(|origin| origin.name == name);
    let routes = new.routes.iter().map(|new| route(&new.name)).collect();
    (routes, new.origins.iter().map(|new| origin(&new.name)).collect())
}

/// What of the identity is another; `None` if it is the same.
fn changed((was, old): (&Rule, &Policy), (now, new): (&Rule, &Policy)) -> Option<Reset> {
    let of = |rule: &Rule, policy: &Policy| rule.of.as_ref().map(|of| canonical(of, policy));
    let bytes = |rule: &Rule| matches!(rule.cost, CostRule::Bytes { .. });
    if was.kind.word() != now.kind.word() {
        return Some(Reset::Type);
    }
    if counted_by(was, old) != counted_by(now, new) {
        return Some(Reset::Key);
    }
    if of(was, old) != of(now, new) || bytes(was) != bytes(now) {
        return Some(Reset::Of);
    }
    if was.kind.fixed_windows() != now.kind.fixed_windows() {
        return Some(Reset::Window);
    }
    if memory(was) != memory(now) {
        return Some(Reset::Memory);
    }
    (shared_as(was, old) != shared_as(now, new)).then_some(Reset::Store)
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

/// The size of the table.
fn memory(rule: &Rule) -> Option<crate::units::Bytes> {
    rule.kind.sketch().map(|(_, memory)| memory)
}
