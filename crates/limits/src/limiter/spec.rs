//! What a limiter is made from: the numbers of its rule, and what of the policy around it concerns it.

use super::Kind;

/// What a limiter is made from.
#[derive(Debug, Clone, Copy)]
pub struct Spec<'a> {
    /// Separates its tables from those of other limits.
    pub name: &'a str,
    /// The promise of tier 0, then those of the tiers: all of one kind, of one window and one size of memory. A tier that
    /// exempts is never asked; it stands here as a copy of the first.
    pub kinds: &'a [Kind],
    /// Whether the charge is only known at the answer, so that attempts are held as pending.
    pub deferred: bool,
    /// Whether keys may be charged without being asked for: for answers, or for bytes.
    pub indebts: bool,
    /// Bytes per unit of the promise, of a limit on bytes; 1 of any other.
    pub unit: u32,
    /// How many nanoseconds ahead of now a request may be charged, because `action: delay` makes it wait.
    pub longest_wait: u64,
    /// Whether another limit may hold its clients below it, so that what they ask for is counted too: in a second table, a
    /// quarter of the first. Not of a limit that waits for answers.
    pub demand: bool,
    /// How many routes the policy has.
    pub routes: usize,
    /// How many origins.
    pub origins: usize,
    /// Nanoseconds since 1970 at the origin of all stamps: where aligned windows begin.
    pub unix_nanos_at_origin: u64,
}

impl<'a> Spec<'a> {
    /// A limit on requests that are charged when they are admitted, for one route and no origin, with stamps since 1970.
    pub fn new(name: &'a str, kinds: &'a [Kind]) -> Spec<'a> {
        Spec {
            name,
            kinds,
            deferred: false,
            indebts: false,
            unit: 1,
            longest_wait: 0,
            demand: false,
            routes: 1,
            origins: 0,
            unix_nanos_at_origin: 0,
        }
    }
}
