//! One decision as it is remembered: numbers and a pseudonym, packed into words.
//!
//! A word is the unit in which a ring of atomics can keep it. What is left out is everything that a client wrote (host, path, header
//! fields, addresses); the policy that it was decided by is remembered once, as a [`Book`](super::Book).
//!
//! | words | what |
//! |---|---|
//! | 1 | when, as the stamp that every limit was judged by |
//! | 2 | the client's pseudonym |
//! | 1 | route, alternative, runner-up, policy, method, number of readings |
//! | 1 | verdict, criticality, how the client was found, `Retry-After`, wait, what a store met it with |
//! | 8 to 17 without a place | what the queue of the origin looked like, and who had most |
//! | 1 under a ban | its number |
//! | 2 or 3 a limit | rule, tier, mode, outcome, node, what remained; the wait; of a refusal, what it was short of |
//!
//! So a decision about two limits, one of which refused, is ten words, and none has more than [`Record::MAX_WORDS`].

use arrayvec::ArrayVec;
use http::Method;

use crate::client::{Client, Mark, Source};
use crate::engine::{DecidedBy, Decision, Engine, Evaluation, NoPlace, Outcome, Reading, Refusal, Verdict};
use crate::limiter::Owed;
use crate::limiter::sharing::StoreError;
use crate::policy::{Class, Mode, Route, Taken};
use crate::units::{Criticality, Timestamp};

/// What is remembered of one decision, beside its id.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The stamp that every limit was judged by.
    pub at: Timestamp,
    /// The client's pseudonym; zero when it could not be told who it is.
    pub client: [u8; 16],
    /// How the client was found; `None` when that failed and the policy rejects such requests.
    pub found: Option<Found>,
    /// The method, if it is one of the nine that HTTP defines.
    pub method: Option<Method>,
    /// Position of the route in the policy.
    pub route: Option<u16>,
    /// Which of the route's alternatives took the request; `None` when it takes everything, or has more than 254.
    pub alternative: Option<u8>,
    /// The route that would have taken the request next.
    pub runner_up: Option<u16>,
    /// Which policy decided.
    pub book: u16,
    /// How much it mattered.
    pub criticality: Criticality,
    /// The outcome.
    pub verdict: Verdict,
    /// What the client was told to wait, in seconds; 0 when it was told nothing.
    pub retry_after: u32,
    /// What the request was held back for, in milliseconds, up to 65,535.
    pub delay_millis: u16,
    /// What the store of a shared limit met the request with, in the place of an answer; of several the last.
    pub store_error: Option<StoreError>,
    /// What each limit said.
    pub limits: ArrayVec<Said, { Route::MAX_RULES }>,
    /// As in [`Decision::no_place`].
    pub no_place: Option<NoPlace>,
    /// As in [`Decision::ban`].
    pub ban: Option<u32>,
}

/// How a client was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Whose word the address is.
    pub source: Source,
    /// How sure it is.
    pub mark: Mark,
    /// Which element from the right, 0 for the peer.
    pub hops: u8,
    /// Whether the peer may speak for others.
    pub peer_trusted: bool,
    /// Whether a peer that may not sent a forwarding header.
    pub ignored_header: bool,
}

/// What one limit said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Said {
    /// Position of the limit in the policy.
    pub rule: u16,
    /// As in [`Reading::tier`].
    pub tier: u8,
    /// As in [`Reading::mode`].
    pub mode: Mode,
    /// As in [`Reading::outcome`].
    pub outcome: Outcome,
    /// As in [`Reading::node`].
    pub node: Option<u8>,
    /// As in [`Reading::by`].
    pub by: DecidedBy,
    /// Whether the key was counted exactly.
    pub exact: bool,
    /// As in [`Reading::remaining`].
    pub remaining: u32,
    /// Nanoseconds until it fits, or, when it did fit, until more appears; `None` as in [`Reading`].
    pub wait_nanos: Option<u64>,
    /// Of a refusal: what it was short of.
    pub owed: Owed,
}

/// What the face adds to a decision.
#[derive(Debug, Clone, Copy)]
pub struct Beside<'a> {
    /// The client's pseudonym.
    pub client: [u8; 16],
    /// The method.
    pub method: &'a Method,
    /// The routes that take the request, the one that did first.
    pub taken: [Option<Taken<'a>>; 2],
    /// Which policy decided.
    pub book: u16,
    /// What the client is told to wait, in seconds.
    pub retry_after: u64,
    /// As in [`Record::store_error`].
    pub store_error: Option<StoreError>,
}

impl Record {
    /// Words of the longest record.
    pub const MAX_WORDS: usize = 5 + 3 * Route::MAX_RULES + NoPlace::WORDS;

    /// What is to be remembered of a decision.
    pub fn of(engine: &Engine, evaluation: &Evaluation, beside: &Beside<'_>) -> Record {
        let decision = &evaluation.decision;
        // of a request that was refused before its route was found, the routes say nothing
        let [taken, runner_up] = if decision.route.is_some() { beside.taken } else { [None, None] };
        let position = |index: usize| u16::try_from(index).ok().filter(|index| *index != NONE);
        Record {
            at: decision.at,
            client: beside.client,
            found: decision.client.as_ref().map(Found::of),
            method: METHODS.contains(beside.method).then(|| beside.method.clone()),
            route: decision.route.and_then(position),
            alternative: taken.and_then(|taken| u8::try_from(taken.alternative?).ok()).filter(|at| *at != u8::MAX),
            runner_up: runner_up.and_then(|taken| position(taken.index)),
            book: beside.book,
            criticality: decision.class.criticality,
            verdict: decision.verdict,
            retry_after: u32::try_from(beside.retry_after).unwrap_or(u32::MAX).min(MAX_RETRY_AFTER),
            delay_millis: u16::try_from(decision.delay_nanos.div_ceil(1_000_000)).unwrap_or(u16::MAX),
            store_error: beside.store_error,
            limits: (0..)
                .zip(&decision.readings)
                .filter_map(|(slot, reading)| Said::of(engine, evaluation, slot, reading))
                .collect(),
            no_place: decision.no_place,
            ban: decision.ban,
        }
    }

    /// Whether a limit would have refused it, obeyed or not.
    pub fn is_limited(&self) -> bool {
        self.limits.iter().any(|said| matches!(said.outcome, Outcome::Refused | Outcome::Tagged))
    }

    fn is_banned(&self) -> bool {
        self.verdict == Verdict::Refused(Refusal::Banned)
    }

    /// The words that [`Record::unpack`] reads.
    pub fn pack(&self) -> ArrayVec<u64, { Record::MAX_WORDS }> {
        let mut words = ArrayVec::new();
        let (high, low) = self.client.split_at(8);
        let half = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap_or_default());
        let mut route = Bits::default();
        route.put(u64::from(self.route.unwrap_or(NONE)), 16);
        route.put(u64::from(self.runner_up.unwrap_or(NONE)), 16);
        route.put(u64::from(self.alternative.unwrap_or(u8::MAX)), 8);
        route.put(u64::from(self.book), 16);
        route.put(place_in(&METHODS, self.method.as_ref()), 4);
        route.put(self.limits.len() as u64, 4);
        let mut verdict = Bits::default();
        let refusal = match self.verdict {
            Verdict::Admitted => None,
            Verdict::Refused(refusal) => Some(refusal),
        };
        verdict.put(refusal.map_or(ADMITTED, |refusal| place_in(Refusal::ALL, Some(&refusal))), 5);
        verdict.put(u64::from(self.found.is_some()), 1);
        let nobody =
            Found { source: Source::Peer, mark: Mark::Verified, hops: 0, peer_trusted: false, ignored_header: false };
        let found = self.found.unwrap_or(nobody);
        verdict.put(place_in(&MARKS, Some(&found.mark)), 2);
        verdict.put(u64::from(found.source == Source::Forwarded), 1);
        verdict.put(u64::from(found.hops), 6);
        verdict.put(u64::from(found.peer_trusted), 1);
        verdict.put(u64::from(found.ignored_header), 1);
        verdict.put(u64::from(self.retry_after), 25);
        verdict.put(u64::from(self.delay_millis), 16);
        verdict.put(self.store_error.map_or(0, |store_error| place_in(&StoreError::ALL, Some(&store_error)) + 1), 3);
        verdict.put(u64::from(self.no_place.is_some()), 1);
        verdict.put(place_in(&Criticality::ALL, Some(&self.criticality)), 2);
        words.extend([self.at.nanos(), half(high), half(low), route.word, verdict.word]);
        for said in &self.limits {
            // as many as there is room for, by the size of the type
            words.extend(said.pack());
        }
        words.extend(self.no_place.iter().flat_map(NoPlace::pack));
        if self.is_banned() {
            // no limit was asked, so there is room
            let _ = words.try_push(self.ban.map_or(0, u64::from));
        }
        words
    }

    /// Reads what [`Record::pack`] wrote; `None` for anything else that can be told from it.
    pub fn unpack(words: &[u64]) -> Option<Record> {
        let (&[at, high, low, route, verdict], mut rest) = words.split_first_chunk()?;
        let mut route = Bits::from(route);
        let position = |number: u64| u16::try_from(number).ok().filter(|number| *number != NONE);
        let (taken, runner_up) = (position(route.take(16)), position(route.take(16)));
        let alternative = u8::try_from(route.take(8)).ok().filter(|at| *at != u8::MAX);
        let book = u16::try_from(route.take(16)).ok()?;
        let method = METHODS.get(route.take(4) as usize).cloned();
        let count = route.take(4);
        let mut verdict = Bits::from(verdict);
        let refusal = Refusal::ALL.get(verdict.take(5) as usize).copied();
        let known = verdict.take(1) == 1;
        let found = Found {
            mark: MARKS.get(verdict.take(2) as usize).copied()?,
            source: if verdict.take(1) == 1 { Source::Forwarded } else { Source::Peer },
            hops: u8::try_from(verdict.take(6)).ok()?,
            peer_trusted: verdict.take(1) == 1,
            ignored_header: verdict.take(1) == 1,
        };
        let (retry_after, delay_millis) = (verdict.take(25), verdict.take(16));
        let store_error = verdict.take(3).checked_sub(1).and_then(|at| StoreError::ALL.get(at as usize).copied());
        let without_place = verdict.take(1) == 1;
        let criticality = Criticality::ALL.get(verdict.take(2) as usize).copied()?;
        let mut limits = ArrayVec::new();
        for _ in 0..count {
            let (said, behind) = Said::unpack(rest)?;
            limits.try_push(said).ok()?;
            rest = behind;
        }
        let no_place = match without_place {
            true => {
                let (place, behind) = NoPlace::unpack(rest)?;
                rest = behind;
                Some(place)
            }
            false => None,
        };
        let ban = match refusal {
            Some(Refusal::Banned) => u32::try_from(*rest.first()?).ok().filter(|number| *number != 0),
            _ => None,
        };
        let mut client = [0; 16];
        client.iter_mut().zip([high, low].iter().flat_map(|half| half.to_be_bytes())).for_each(|(to, from)| *to = from);
        Some(Record {
            at: Timestamp::from_nanos(at),
            client,
            found: known.then_some(found),
            method,
            route: taken,
            alternative,
            runner_up,
            book,
            criticality,
            verdict: refusal.map_or(Verdict::Admitted, Verdict::Refused),
            retry_after: u32::try_from(retry_after).ok()?,
            delay_millis: u16::try_from(delay_millis).ok()?,
            store_error,
            limits,
            no_place,
            ban,
        })
    }

    /// The decision as far as it is remembered: enough to write the fields of its answer again.
    pub fn decision(&self, id: crate::engine::DecisionId) -> Decision {
        Decision {
            id,
            at: self.at,
            dice: 0,
            client: None,
            route: self.route.map(usize::from),
            class: Class { criticality: self.criticality, tier: self.no_place.map_or(0, |place| place.tier) },
            answers_preflight: false,
            readings: self.limits.iter().map(Said::reading).collect(),
            delay_nanos: u64::from(self.delay_millis) * 1_000_000,
            no_place: self.no_place,
            ban: self.ban,
            verdict: self.verdict,
        }
    }
}

impl Found {
    /// How this client was found.
    pub fn of(client: &Client) -> Found {
        let Client { source, mark, hops, peer_trusted, ignored_header, .. } = *client;
        Found { source, mark, hops, peer_trusted, ignored_header }
    }
}

impl Said {
    fn of(engine: &Engine, evaluation: &Evaluation, slot: usize, reading: &Reading) -> Option<Said> {
        let refused = is_short(reading.outcome);
        Some(Said {
            rule: u16::try_from(reading.rule).ok()?,
            tier: reading.tier,
            mode: reading.mode,
            outcome: reading.outcome,
            node: reading.node,
            by: reading.by,
            exact: engine.is_exact(evaluation, slot),
            remaining: reading.remaining,
            wait_nanos: if refused { reading.retry_nanos } else { reading.reset_nanos() },
            owed: if refused && reading.by.counts_here() {
                engine.shortfall(evaluation, slot)
            } else {
                Owed::default()
            },
        })
    }

    fn reading(&self) -> Reading {
        let refused = is_short(self.outcome);
        Reading {
            rule: usize::from(self.rule),
            mode: self.mode,
            tier: self.tier,
            node: self.node,
            outcome: self.outcome,
            remaining: self.remaining,
            retry_nanos: if refused { self.wait_nanos } else { Some(0) },
            next_unit: crate::sketch::NextUnit::Known(self.wait_nanos),
            standing: 0,
            by: self.by,
        }
    }

    fn pack(&self) -> ArrayVec<u64, 3> {
        let mut bits = Bits::default();
        bits.put(u64::from(self.rule), 16);
        bits.put(u64::from(self.tier.min(31)), 5);
        bits.put(place_in(&Outcome::ALL, Some(&self.outcome)), 3);
        bits.put(u64::from(self.mode == Mode::Shadow), 1);
        bits.put(u64::from(node_or_by(self.node, self.by)), 5);
        bits.put(u64::from(self.exact), 1);
        bits.put(u64::from(self.wait_nanos.is_some()), 1);
        bits.put(u64::from(self.remaining), 32);
        let mut words: ArrayVec<u64, 3> = [bits.word, self.wait_nanos.unwrap_or(0)].into_iter().collect();
        if is_short(self.outcome) {
            words.push(self.owed.word());
        }
        words
    }

    fn unpack(words: &[u64]) -> Option<(Said, &[u64])> {
        let (&[bits, wait], rest) = words.split_first_chunk()?;
        let mut bits = Bits::from(bits);
        let (rule, tier) = (u16::try_from(bits.take(16)).ok()?, u8::try_from(bits.take(5)).ok()?);
        let outcome = Outcome::ALL.get(bits.take(3) as usize).copied()?;
        let mode = if bits.take(1) == 1 { Mode::Shadow } else { Mode::Enforce };
        let (node, by) = node_and_by(bits.take(5));
        let (exact, waits) = (bits.take(1) == 1, bits.take(1) == 1);
        let remaining = u32::try_from(bits.take(32)).ok()?;
        let (owed, rest) = match is_short(outcome) {
            true => rest.split_first().map(|(owed, rest)| (Owed::from_word(*owed), rest))?,
            false => (Owed::default(), rest),
        };
        let wait_nanos = waits.then_some(wait);
        Some((Said { rule, tier, mode, outcome, node, by, exact, remaining, wait_nanos, owed }, rest))
    }
}

/// Whether the limit found the request too much.
fn is_short(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Refused | Outcome::Tagged)
}

/// A limit with nodes is shared with no other gate, so one number says the node or whose word it is.
fn node_or_by(node: Option<u8>, by: DecidedBy) -> u8 {
    match (node, by) {
        (Some(node), _) => node.min(NO_NODE - BYS - 1),
        (None, DecidedBy::Gate) => NO_NODE,
        (None, DecidedBy::Lease) => NO_NODE - 1,
        (None, DecidedBy::Store) => NO_NODE - 2,
        (None, DecidedBy::Fallback) => NO_NODE - 3,
        (None, DecidedBy::Estimate) => NO_NODE - 4,
        (None, DecidedBy::Offered) => NO_NODE - BYS,
    }
}

fn node_and_by(number: u64) -> (Option<u8>, DecidedBy) {
    match NO_NODE.wrapping_sub(number as u8) {
        0 => (None, DecidedBy::Gate),
        1 => (None, DecidedBy::Lease),
        2 => (None, DecidedBy::Store),
        3 => (None, DecidedBy::Fallback),
        4 => (None, DecidedBy::Estimate),
        BYS => (None, DecidedBy::Offered),
        _ => (u8::try_from(number).ok(), DecidedBy::Gate),
    }
}

/// How many there are beside that of the gate itself.
const BYS: u8 = 5;

/// No position: more routes and limits than this have no names here.
const NONE: u16 = u16::MAX;
const NO_NODE: u8 = 31;
/// A year; nobody is told to wait longer.
const MAX_RETRY_AFTER: u32 = (1 << 25) - 1;
/// In the place of a refusal.
const ADMITTED: u64 = 31;

const METHODS: [Method; 9] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::OPTIONS,
    Method::TRACE,
    Method::CONNECT,
];
const MARKS: [Mark; 4] = [Mark::Verified, Mark::Degraded, Mark::Short, Mark::AllTrusted];

/// The position in a list; one that is in no list has 15, which no list reaches.
fn place_in<T: PartialEq>(list: &[T], item: Option<&T>) -> u64 {
    item.and_then(|item| list.iter().position(|other| other == item)).map_or(15, |at| at as u64)
}

/// A word that is filled, or read, from its lowest bit on.
#[derive(Debug, Default)]
struct Bits {
    word: u64,
    used: u32,
}

impl Bits {
    fn from(word: u64) -> Bits {
        Bits { word, used: 0 }
    }

    fn put(&mut self, number: u64, width: u32) {
        let mask = (1_u64 << width) - 1;
        self.word |= (number & mask) << self.used;
        self.used += width;
    }

    fn take(&mut self, width: u32) -> u64 {
        let number = self.word >> self.used & ((1 << width) - 1);
        self.used += width;
        number
    }
}

#[cfg(test)]
mod tests;
