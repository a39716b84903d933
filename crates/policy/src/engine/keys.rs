//! The hashes of one request's keys: each is taken once, however many limits count by it.
//!
//! All are taken under one seed of the policy. A limiter makes its [own](crate::sketch::OwnHash) of each before any table sees it;
//! but the doors know requests by them as they are, as each is a table of its own, of exact entries.

use arrayvec::ArrayVec;

use super::evaluation::Read;
use crate::client::Client;
use crate::client::key::{self, KeyPart, KeySpec, Keys, Missing, NoKey};
use crate::limiter::{Limiter, Place};
use crate::policy::{Action, InflightCap, Policy, Route, Rule};
use crate::request::Request;
use crate::sketch::hash::KeyInput;
use crate::sketch::{KeyHash, KeyHasher, Seed};

/// Which rules count by the same, and the seed that this is hashed under.
#[derive(Debug)]
pub struct SharedKeys {
    seed: Seed,
    numbers: Vec<Numbers>,
    /// Of each origin: the numbers of the keys of its queue.
    doors: Vec<Vec<usize>>,
}

/// Of one rule: the number of its key, of the value that it counts and of the keys of its nodes, the same for equal ones of other
/// rules.
#[derive(Debug)]
struct Numbers {
    key: usize,
    value: usize,
    nodes: Vec<usize>,
}

/// Why a request has no one key under a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unkeyed {
    /// It lacks a part of the key; what the rule says to that.
    Missing(Missing),
    /// It has several, each of which has to be asked: their hashes.
    Several(Keys<KeyHash>),
    /// It has more than can be asked.
    TooMany,
}

impl From<NoKey<'_>> for Unkeyed {
    fn from(none: NoKey<'_>) -> Unkeyed {
        match none {
            NoKey::Missing(missing) => Unkeyed::Missing(missing.then),
            NoKey::TooMany => Unkeyed::TooMany,
        }
    }
}

/// What a request has been hashed by so far, and the hashes.
#[derive(Debug, Default)]
pub struct Hashed {
    one: ArrayVec<(usize, KeyHash), { 2 * Route::MAX_RULES }>,
    /// Of what the request has several of.
    several: ArrayVec<(usize, Keys<KeyHash>), { Route::MAX_RULES }>,
}

impl Hashed {
    /// The hash of the key with this number, if it has been taken.
    #[inline]
    fn find(&self, number: usize) -> Option<KeyHash> {
        Some(self.one.iter().find(|(known, _)| *known == number)?.1)
    }
}

impl SharedKeys {
    /// The keys of a policy, hashed under a seed derived from `seed`.
    pub fn new(policy: &Policy, seed: &Seed) -> SharedKeys {
        let mut known = Vec::new();
        let mut number = |parts: &[KeyPart], by_origin: bool| {
            let same = |(other, of_origin): &(Vec<KeyPart>, bool)| other == parts && *of_origin == by_origin;
            known.iter().position(same).unwrap_or_else(|| {
                known.push((parts.to_vec(), by_origin));
                known.len() - 1
            })
        };
        let numbers = policy.rules.iter().map(|rule| Numbers {
            key: number(rule.key.parts(), rule.by_origin),
            value: rule.of.as_ref().map_or(0, |of| number(of.parts(), false)),
            nodes: rule.nodes.iter().map(|node| number(node.parts(), false)).collect(),
        });
        let numbers = numbers.collect();
        let doors = policy.origins.iter().map(|origin| {
            let nodes = origin.inflight.iter().flat_map(InflightCap::nodes);
            nodes.map(|(key, _)| number(key.parts(), false)).collect()
        });
        let doors = doors.collect();
        // no limit has a name with spaces, so no limiter has this seed
        SharedKeys { numbers, doors, seed: seed.derive("keys of all limits") }
    }

    /// Puts the limiter's own hash of the rule's key into the place, and that of the key together with the value that is counted,
    /// if one is.
    ///
    /// # Errors
    /// The request has no one key.
    #[inline]
    pub fn own(
        &self,
        index: usize,
        (rule, limiter): (&Rule, &Limiter),
        policy: &Policy,
        about: &Read<'_>,
        hashed: &mut Hashed,
        place: &mut Place,
    ) -> Result<(), Unkeyed> {
        let key = self.key(index, rule, policy, about, hashed)?;
        if let Some(of) = &rule.of {
            place.value = limiter.own_hash().of_pair(key, self.value(index, of, about, hashed)?);
        }
        place.key = limiter.own_hash().of(key);
        Ok(())
    }

    /// The limiter's own hash of a key that no route and no origin is part of, for a client of whom there is no request yet.
    ///
    /// # Errors
    /// The key is made of more than the client.
    pub fn of_client(
        &self,
        (rule, limiter): (&Rule, &Limiter),
        request: &Request<'_>,
        client: &Client,
    ) -> Result<KeyHash, Unkeyed> {
        Ok(limiter.own_hash().of(rule.key.hash(request, client, "", &self.seed)?))
    }

    /// The hash of a rule's key.
    ///
    /// # Errors
    /// The request has no one key.
    pub fn key(
        &self,
        index: usize,
        rule: &Rule,
        policy: &Policy,
        about: &Read<'_>,
        hashed: &mut Hashed,
    ) -> Result<KeyHash, Unkeyed> {
        // a preflight's own key is that of this rule alone
        let shared = !rule.counts_apart(about.request);
        let number = self.numbers.get(index).map(|numbers| numbers.key).filter(|_| shared);
        once(hashed, number, || {
            self.hash(|keys| keys_into(keys, rule, policy, (about.request, about.client, about.route)))
        })
    }

    /// The hash of a value that a rule counts.
    ///
    /// # Errors
    /// The request has no one value.
    pub fn value(&self, index: usize, of: &KeySpec, about: &Read<'_>, hashed: &mut Hashed) -> Result<KeyHash, Unkeyed> {
        let number = self.numbers.get(index).map(|numbers| numbers.value);
        once(hashed, number, || self.hash_of(of, about))
    }

    /// The hash of the key of a rule's node at this position.
    ///
    /// # Errors
    /// The request has no one key.
    pub fn node(
        &self,
        index: usize,
        position: usize,
        node: &KeySpec,
        about: &Read<'_>,
        hashed: &mut Hashed,
    ) -> Result<KeyHash, Unkeyed> {
        let number = self.numbers.get(index).and_then(|numbers| numbers.nodes.get(position)).copied();
        once(hashed, number, || self.hash_of(node, about))
    }

    /// The hash of a key of an origin's queue.
    ///
    /// # Errors
    /// The request has no one key.
    pub fn door(
        &self,
        origin: usize,
        level: usize,
        key: &KeySpec,
        about: &Read<'_>,
        hashed: &mut Hashed,
    ) -> Result<KeyHash, Unkeyed> {
        let number = self.doors.get(origin).and_then(|numbers| numbers.get(level)).copied();
        once(hashed, number, || self.hash_of(key, about))
    }

    fn hash_of(&self, key: &KeySpec, about: &Read<'_>) -> Result<KeyHash, Unkeyed> {
        self.hash(|keys| Ok(key.add_to(keys, about.request, about.client, &about.route.name)?))
    }

    /// The hash of the only key that is added.
    #[inline]
    fn hash(&self, add: impl FnOnce(&mut Keys<KeyHasher>) -> Result<(), Unkeyed>) -> Result<KeyHash, Unkeyed> {
        let mut keys = Keys::from_iter([KeyHasher::new(&self.seed)]);
        add(&mut keys)?;
        only(keys, KeyHasher::finish)
    }
}

/// The hash of a request's only key.
#[inline]
pub fn only<I>(keys: Keys<I>, finish: impl Fn(I) -> KeyHash) -> Result<KeyHash, Unkeyed> {
    if keys.len() > 1 {
        return Err(Unkeyed::Several(keys.into_iter().map(finish).collect()));
    }
    Ok(keys.into_iter().next().map(finish).unwrap_or_default())
}

/// All hashes of which one was asked for.
///
/// # Errors
/// There is none, or there are too many.
pub fn all(one: Result<KeyHash, Unkeyed>) -> Result<Keys<KeyHash>, Unkeyed> {
    match one {
        Ok(hash) => Ok(Keys::from_iter([hash])),
        Err(Unkeyed::Several(hashes)) => Ok(hashes),
        Err(none) => Err(none),
    }
}

/// The hash of that number, taken if it has not been.
#[inline]
fn once(
    hashed: &mut Hashed,
    number: Option<usize>,
    hash: impl FnOnce() -> Result<KeyHash, Unkeyed>,
) -> Result<KeyHash, Unkeyed> {
    let Some(number) = number else { return hash() };
    if let Some(hash) = hashed.find(number) {
        return Ok(hash);
    }
    if let Some((_, hashes)) = hashed.several.iter().find(|(known, _)| *known == number) {
        return Err(Unkeyed::Several(hashes.clone()));
    }
    let hash = hash();
    // what finds no room is hashed again by the next that asks for it
    match &hash {
        Ok(hash) => _ = hashed.one.try_push((number, *hash)),
        Err(Unkeyed::Several(hashes)) => _ = hashed.several.try_push((number, hashes.clone())),
        Err(_) => {}
    }
    hash
}

/// Adds what a rule counts by to whatever takes it in, as [`KeySpec::add_to`] does.
///
/// # Errors
/// The request lacks a part of it, or has too many keys.
pub fn keys_into<I: KeyInput + Clone>(
    into: &mut Keys<I>,
    rule: &Rule,
    policy: &Policy,
    (request, client, route): (&Request<'_>, &Client, &Route),
) -> Result<(), Unkeyed> {
    // kinds of part that the key itself has none of
    const ORIGIN: u8 = 128;
    const NO_ORIGIN: u8 = 129;
    const PREFLIGHT: u8 = 130;
    let apart = rule.counts_apart(request);
    if apart {
        into.part(PREFLIGHT, b"");
    }
    match rule.key.add_to(into, request, client, &route.name) {
        // no browser sends the key with a preflight, so that is no reason to refuse it; nor may it go uncounted
        Err(NoKey::Missing(missing)) if apart && missing.then == Missing::Deny && rule.instead.is_none() => {
            key::add_client(into, client, client.network);
        }
        added => added?,
    }
    if rule.by_origin {
        let origin = if let Action::Forward(origin) = route.action { policy.origins.get(origin) } else { None };
        match origin {
            Some(origin) => into.part(ORIGIN, origin.name.as_bytes()),
            None => into.part(NO_ORIGIN, route.name.as_bytes()),
        }
    }
    Ok(())
}
