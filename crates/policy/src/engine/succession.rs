//! Makes a snapshot: from nothing at a start, on the state of the one before at a reload.
//!
//! A limit of the new policy goes on from one of the old when both have one **identity**: the name (or the name that
//! `renamed_from` says), the type, what is counted by (with the lengths of networks as they come out), the values of `distinct`, the
//! window where it slides or is one of `distinct`, the shape and size of the table, and where its counts are if gates share it. Everything else may change: [`Limiter::followed_by`] says what becomes of the
//! numbers. A limit without a predecessor begins empty.
//!
//! Nothing here is in force before the face swaps the snapshots; the old one stays as it is, for requests that began under it.

use std::sync::Arc;

use super::core::Engine;
use super::drawn::Drawn;
use super::estimate::PeerSync;
use super::fate::{Carried, Fate, Succession};
use super::identity::{Identity, predecessor, shared_as};
use super::keys::SharedKeys;
use super::learned::Learned;
use super::numbers::Numbers;
use super::saved::Restored;
use super::shared_limit::SharedLimit;
use crate::bans::{Bans, KeySecret};
use crate::limiter::{Limiter, Moved};
use crate::policy::{Condition, FieldsRead, Mode, Policy, Rule, Tier};
use crate::sketch::Seed;
use crate::units::{OutOfRange, Timestamp};

/// What a snapshot goes on from.
#[derive(Debug, Clone, Copy)]
pub enum Base<'a> {
    /// Nothing: all limits begin empty.
    Nothing {
        /// What the seeds of all tables are derived from.
        seed: &'a Seed,
        /// The wall clock's time in nanoseconds since 1970 at the origin of all stamps. Aligned windows take their phase from it
        /// once, so that a stepped wall clock never opens one again.
        unix_nanos_at_origin: u64,
    },
    /// What was saved when another process, or this one, ended.
    Saved {
        /// What the seeds of all tables are derived from, then as now.
        seed: &'a Seed,
        /// As for [`Base::Nothing`], of the process that saved it: stamps go on.
        unix_nanos_at_origin: u64,
        /// The state.
        restored: &'a Restored,
    },
    /// The snapshot in force, which is to be replaced.
    Before {
        /// The snapshot.
        engine: &'a Engine,
        /// When it is replaced.
        now: Timestamp,
    },
}

/// Not secret: the same keys are picked in every process, and a client that finds out which gains nothing.
const ROLLOUT: Seed = Seed::from_bytes(*b"tidegate rollout");

impl Engine {
    /// Makes the snapshot of a policy, and says what it carries over from the one before. That one stays in force until the
    /// face swaps them and calls [`Engine::take_over`] on the new one.
    ///
    /// A face with stores has a secret that names the keys of shared limits, and beside it the secret before while gates are given
    /// a new one: what a store is asked about is charged under both then, so that all gates together keep their promise. Gates with
    /// different secrets hear nothing of each other's estimates. Without a secret this gate alone is all gates.
    ///
    /// # Errors
    /// A limit whose numbers its limiter refuses, or that cannot be shared, by name. `config` checks both first, so a loaded
    /// policy has none.
    pub fn next(
        policy: Policy,
        secrets: Option<(&[u8], Option<&[u8]>)>,
        base: Base<'_>,
    ) -> Result<(Engine, Succession), (String, OutOfRange)> {
        let (before, seed, unix_nanos_at_origin) = match base {
            Base::Nothing { seed, unix_nanos_at_origin } | Base::Saved { seed, unix_nanos_at_origin, .. } => {
                (None, seed, unix_nanos_at_origin)
            }
            Base::Before { engine, now } => (Some((engine, now)), &engine.seed, engine.unix_nanos_at_origin),
        };
        let numbers = Numbers::of(&policy, unix_nanos_at_origin);
        let generation = match base {
            Base::Nothing { .. } => 1,
            Base::Saved { restored, .. } => restored.generation + 1,
            Base::Before { engine, .. } => engine.generation + 1,
        };
        let (limiters, succession) = match base {
            Base::Saved { restored, .. } => restored_limiters((&policy, &numbers), seed, restored)?,
            _ => limiters((&policy, &numbers), seed, before)?,
        };
        let (limiters, drawn): (Vec<_>, Vec<_>) = limiters.into_iter().unzip();
        let before = before.map(|(before, _)| before);
        let learned = Learned::of(&policy, |index, route| {
            if let Base::Saved { restored, .. } = base {
                let rules = restored.learned.rules();
                let was = rules.get(predecessor(&rules, policy.rules.get(index)?)?)?;
                return restored.learned.get(was, &route.name).cloned();
            }
            let old = before?.policy();
            let rule = predecessor(&names(old), policy.rules.get(index)?)?;
            let route = old.routes.iter().position(|before| before.name == route.name)?;
            before?.learned.get(rule, route).cloned()
        });
        let (shared_limits, peer_syncs) = match secrets {
            Some(secrets) => {
                (shared_limits(&policy, secrets, before)?, peer_syncs((&policy, &limiters), (secrets.0, seed), before)?)
            }
            None => (Vec::new(), Vec::new()),
        };
        let keys = SharedKeys::new(&policy, seed);
        let partial = |rule: &Arc<Rule>| rule.mode == Mode::Enforce && rule.enforced.get() < 1.0;
        let rollouts = policy.rules.iter().map(|rule| partial(rule).then(|| ROLLOUT.derive(&rule.name))).collect();
        // gates with one secret hash banned keys alike
        let keys_of_bans = || match secrets {
            Some((secret, _)) => KeySecret::of_operator(secret),
            None => KeySecret::of_seed(seed),
        };
        let bans = before.map_or_else(|| Arc::new(Bans::new(keys_of_bans())), |before| Arc::clone(&before.bans));
        let next = Engine {
            fields: FieldsRead::of(&policy),
            policy,
            limiters,
            rollouts,
            keys,
            shared_limits,
            peer_syncs,
            learned,
            bans,
            seed: seed.clone(),
            unix_nanos_at_origin,
            generation,
            drawn,
        };
        Ok((next, succession))
    }

    /// [`Engine::next`] from nothing, in a face without stores.
    ///
    /// # Errors
    /// As [`Engine::next`].
    pub fn new(policy: Policy, seed: &Seed, unix_nanos_at_origin: u64) -> Result<Engine, (String, OutOfRange)> {
        Ok(Engine::next(policy, None, Base::Nothing { seed, unix_nanos_at_origin })?.0)
    }

    /// [`Engine::next`] after this one, in a face without stores.
    ///
    /// # Errors
    /// As [`Engine::next`].
    pub fn followed_by(&self, policy: Policy, now: Timestamp) -> Result<(Engine, Succession), (String, OutOfRange)> {
        Engine::next(policy, None, Base::Before { engine: self, now })
    }

    /// Puts its limits in force: state that they share with those of the snapshot before goes by their numbers from now on.
    pub fn take_over(&self) {
        self.limiters().iter().for_each(|limiter| limiter.take_over());
    }
}

type Limiters = (Vec<(Arc<Limiter>, Drawn)>, Succession);

/// The limiters of a policy on saved state.
fn restored_limiters(
    (policy, numbers): (&Policy, &Numbers<'_>),
    seed: &Seed,
    restored: &Restored,
) -> Result<Limiters, (String, OutOfRange)> {
    // a table that replaces one is drawn anew
    let generation = Some(restored.generation + 1);
    let limiters = policy.rules.iter().enumerate().map(|(at, rule)| match restored.limiters.get(at) {
        Some(Some((limiter, drawn))) => Ok((Arc::clone(limiter), drawn.clone())),
        _ => empty((rule, numbers), seed, generation),
    });
    Ok((limiters.collect::<Result<_, _>>()?, restored.succession.clone()))
}

/// A limiter without state that begins in this generation; `None`: in the first of all.
fn empty(
    (rule, numbers): (&Rule, &Numbers<'_>),
    seed: &Seed,
    generation: Option<u64>,
) -> Result<(Arc<Limiter>, Drawn), (String, OutOfRange)> {
    let drawn = Drawn { name: rule.name.clone(), generation };
    Ok((Arc::new(numbers.empty(rule, &drawn.seed(seed))?), drawn))
}

/// Makes the limiters of a policy on the state of the snapshot before, and says what became of that.
fn limiters(
    (policy, numbers): (&Policy, &Numbers<'_>),
    seed: &Seed,
    before: Option<(&Engine, Timestamp)>,
) -> Result<Limiters, (String, OutOfRange)> {
    // a table that replaces one is drawn anew
    let generation = before.map(|(before, _)| before.generation + 1);
    let empty = |rule: &Rule| empty((rule, numbers), seed, generation);
    let old = before.map(|(before, now)| {
        let (policy_before, zero) = (&before.policy, before.unix_nanos_at_origin);
        (before, Numbers::of(policy_before, zero), moves(policy_before, policy), now)
    });
    let old_names = before.map(|(before, _)| names(&before.policy)).unwrap_or_default();
    let mut taken = vec![false; before.map_or(0, |(before, _)| before.limiters.len())];
    let (mut limiters, mut limits) = (Vec::new(), Vec::new());
    for rule in &policy.rules {
        let predecessor = old.as_ref().and_then(|old| {
            let at = predecessor(&old_names, rule).filter(|at| taken.get(*at) == Some(&false))?;
            taken.iter_mut().skip(at).take(1).for_each(|taken| *taken = true);
            Some((old, old.0.rule(at)?.0, (old.0.limiters.get(at)?, old.0.drawn.get(at)?.clone())))
        });
        let (limiter, fate) = match predecessor {
            None => (empty(rule)?, Fate::New),
            Some(((before, numbers_before, moved, now), was, (limiter, drawn))) => {
                let from = (was.name != rule.name).then(|| was.name.clone());
                match Identity::of(was, &before.policy).changed(&Identity::of(rule, policy)) {
                    Some(reset) => (empty(rule)?, Fate::Reset(reset)),
                    None if numbers_before.same(was, numbers, rule) => {
                        ((Arc::clone(limiter), drawn), Fate::Kept { from })
                    }
                    None => {
                        let tiers = tiers_before(was, rule);
                        let moved = Moved { routes: &moved.0, origins: &moved.1, tiers: &tiers, now: *now };
                        let after = numbers.with_spec(rule, |spec| limiter.followed_by(spec, &moved));
                        let fate = match promises_the_same(was, rule) {
                            true => Fate::Kept { from },
                            false => Fate::Rerated { from },
                        };
                        ((Arc::new(after.map_err(|fault| (rule.name.clone(), fault))?), drawn), fate)
                    }
                }
            }
        };
        limiters.push(limiter);
        limits.push(Carried { name: rule.name.clone(), fate });
    }
    let rules = old.iter().flat_map(|(before, ..)| &before.policy.rules).zip(taken);
    let left = rules.filter(|(_, taken)| !taken).map(|(rule, _)| rule.name.clone());
    Ok((limiters, Succession { limits, removed: left.collect() }))
}

/// Returns whether the limit's own numbers and those of each tier that stays are what they were.
fn promises_the_same(was: &Rule, now: &Rule) -> bool {
    let same =
        |tier: &Tier| was.tiers.iter().find(|before| before.when == tier.when).is_none_or(|was| was.kind == tier.kind);
    was.kind == now.kind && now.tiers.iter().all(same)
}

/// Returns the position of the limit with the same counts in the same store in the engine before.
fn shared_before(rule: &Rule, policy: &Policy, before: &Engine) -> Option<usize> {
    let old = before.policy();
    let place = shared_as(rule, policy);
    place.and(old.rules.iter().position(|was| shared_as(was, old) == place))
}

/// The limits of a policy that a store is asked about. Each keeps the leases that the engine before had of the same counts in the same
/// store.
fn shared_limits(
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

/// The limits of a policy whose admissions gates publish to each other. Each keeps the sums that the engine before had of the same
/// counts in the same store.
fn peer_syncs(
    (policy, limiters): (&Policy, &[Arc<Limiter>]),
    (secret, seed): (&[u8], &Seed),
    before: Option<&Engine>,
) -> Result<Vec<Option<Arc<PeerSync>>>, (String, OutOfRange)> {
    let sync = |(rule, limiter): (&Arc<Rule>, &Arc<Limiter>)| {
        let before = before.and_then(|before| before.peer_sync(shared_before(rule, policy, before)?));
        let made = PeerSync::of(rule, limiter, secret, seed, before.map(Arc::as_ref));
        made.map(|made| made.map(Arc::new)).map_err(|fault| (rule.name.clone(), fault))
    };
    policy.rules.iter().zip(limiters).map(sync).collect()
}

/// For the limit's own numbers and each of its tiers, which tier of the old rule it was: the one with the same condition.
fn tiers_before(was: &Rule, now: &Rule) -> Vec<Option<u8>> {
    let before =
        |when: &Condition| (1_u8..).zip(&was.tiers).find(|(_, tier)| tier.when == *when).map(|(number, _)| number);
    std::iter::once(Some(0)).chain(now.tiers.iter().map(|tier| before(&tier.when))).collect()
}

/// The names of all limits.
fn names(policy: &Policy) -> Vec<&str> {
    policy.rules.iter().map(|rule| rule.name.as_str()).collect()
}

/// For each route and origin of the new policy, which of the old one it was.
fn moves(old: &Policy, new: &Policy) -> (Vec<Option<usize>>, Vec<Option<usize>>) {
    let route = |name: &str| old.routes.iter().position(|route| route.name == name);
    let origin = |name: &str| old.origins.iter().position(|origin| origin.name == name);
    let routes = new.routes.iter().map(|new| route(&new.name)).collect();
    (routes, new.origins.iter().map(|new| origin(&new.name)).collect())
}
