//! Why a request got nothing at the door of a rate or an origin, and how it stood.

use std::time::Duration;

use arrayvec::ArrayVec;
use strum::{IntoStaticStr, VariantArray};

use crate::client::label::META_BITS;
use crate::door::{HEAVIEST, Holder, Label, Places, Standing, TokenDoor};
use crate::units::{Criticality, Timestamp};

/// Why nothing was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum NoPlaceReason {
    /// The origin's cap is reached and there is no queue.
    Full,
    /// The origin's queue is full, and all others in it hold and used less.
    PushedOut,
    /// It waited in the origin's queue for as long as the policy allows.
    QueueTimeout,
    /// The queue of a `fair_share` is full, and all others in it used less.
    RatePushedOut,
    /// It waited for a unit of a `fair_share` for as long as the policy allows.
    RateTimeout,
}

impl NoPlaceReason {
    /// All of them, in the order of their numbers.
    pub const ALL: &'static [NoPlaceReason] = NoPlaceReason::VARIANTS;

    /// The word in metrics, log and explanations.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// What there was too little of. Thousandths, as a record keeps whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scarce {
    /// The places of an origin.
    Places {
        /// How many were held.
        held: u32,
        /// How many there were.
        places: u32,
        /// How many the request's own node held.
        own_held: u32,
        /// How many of them the request had to leave to more important ones.
        reserved: u32,
    },
    /// The units of a rate.
    Units {
        /// Thousandths per second.
        capacity: u32,
        /// Thousandths that were there.
        tokens: u32,
        /// Thousandths of those that the heaviest leave to lighter ones.
        kept: u32,
        /// Thousandths that the request had to leave to more important ones.
        reserved: u32,
    },
}

/// The queue before an origin or a rate when a request went without. Thousandths, as a record keeps whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPlace {
    /// Why it got none.
    pub reason: NoPlaceReason,
    /// Of what.
    pub of: Scarce,
    /// How many waited, this one included.
    pub waiting: u32,
    /// How many of them would have gone before it.
    pub ahead: u32,
    /// What weighed most: 0 the key, 1 its network, 2 the network around that.
    pub level: u8,
    /// How many requests of that waited.
    pub own_waiting: u32,
    /// Thousandths of places or units that it used lately: an average of places, a sum of units.
    pub own_used: u32,
    /// For how many clients it stands.
    pub share: u32,
    /// Thousandths that it held and used for each of them.
    pub score: u32,
    /// The same of the request that was next.
    pub next: u32,
    /// In this time a use counts half, in milliseconds.
    pub half_life: u32,
    /// How long it takes until all that are here have been served once, in milliseconds.
    pub round: u32,
    /// The client's tier, as in [`Class::tier`](crate::policy::Class::tier).
    pub tier: u8,
    /// Who had most: a network, if it had more than each key, then keys.
    pub heaviest: [Option<Heavy>; HEAVIEST],
}

/// Somebody who held places or waited when a request went without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heavy {
    /// Who, for [`Client::of_label`](crate::client::Client::of_label).
    pub label: Label,
    /// The level: 0 a key, 1 its network, 2 the network around that.
    pub level: u8,
    /// How much its latest request mattered.
    pub criticality: Criticality,
    /// How many places it held.
    pub held: u16,
    /// How many of its requests waited.
    pub waiting: u16,
}

impl Heavy {
    const WORDS: usize = 3;

    fn of(holder: Holder) -> Heavy {
        let Holder { label, level, criticality, held, waiting, .. } = holder;
        let few = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
        Heavy { label, level, criticality, held: few(held), waiting: few(waiting) }
    }

    fn pack(self) -> [u64; Heavy::WORDS] {
        let Heavy { label: Label([high, low, meta]), level, criticality, held, waiting } = self;
        let beside = u64::from(waiting) << 20 | u64::from(held) << 4 | (criticality as u64) << 2 | u64::from(level & 3);
        [high, low, beside << META_BITS | meta]
    }

    fn unpack([high, low, meta]: [u64; Heavy::WORDS]) -> Option<Heavy> {
        let beside = meta >> META_BITS;
        Some(Heavy {
            label: Label([high, low, meta & ((1 << META_BITS) - 1)]),
            level: (beside & 3) as u8,
            criticality: *Criticality::ALL.get((beside >> 2 & 3) as usize)?,
            held: (beside >> 4) as u16,
            waiting: (beside >> 20) as u16,
        })
    }
}

impl NoPlace {
    /// Of a request of this class that stood like this at these places.
    pub fn new(reason: NoPlaceReason, criticality: Criticality, standing: &Standing, places: &Places) -> NoPlace {
        let of = Scarce::Places {
            held: places.held(),
            places: places.max(),
            own_held: standing.held as u32,
            reserved: places.spec().reserved.before(criticality, places.max()),
        };
        let heaviest = places.line().heaviest();
        NoPlace::standing(reason, of, standing, [places.half_life(), places.round()], heaviest)
    }

    /// Of a request of this class that stood like this at the door of a rate.
    pub fn at_rate(
        reason: NoPlaceReason,
        criticality: Criticality,
        standing: &Standing,
        door: &TokenDoor,
        now: Timestamp,
    ) -> NoPlace {
        let (spec, spans, heaviest) =
            door.look(|tokens| (*tokens.spec(), [tokens.half_life(), tokens.round()], tokens.line().heaviest()));
        let thousandths = |units: f64| (units * 1e3) as u32;
        let of = Scarce::Units {
            capacity: thousandths(spec.rate),
            tokens: thousandths(door.units(now)),
            kept: thousandths(spec.kept),
            reserved: thousandths(spec.burst * spec.reserved.part_before(criticality)),
        };
        NoPlace::standing(reason, of, standing, spans, heaviest)
    }

    fn standing(
        reason: NoPlaceReason,
        of: Scarce,
        standing: &Standing,
        spans: [Duration; 2],
        heaviest: [Option<Holder>; HEAVIEST],
    ) -> NoPlace {
        let thousandths = |number: f32| (number * 1e3) as u32;
        let [half_life, round] = spans.map(|span| u32::try_from(span.as_millis()).unwrap_or(u32::MAX));
        NoPlace {
            reason,
            of,
            waiting: standing.line,
            ahead: standing.ahead,
            level: standing.level,
            own_waiting: standing.waiting as u32,
            own_used: thousandths(standing.used),
            share: standing.share as u32,
            score: thousandths(standing.score),
            next: thousandths(standing.next),
            half_life,
            round,
            tier: 0,
            heaviest: heaviest.map(|holder| holder.map(Heavy::of)),
        }
    }

    /// The words that [`NoPlace::unpack`] reads.
    pub fn pack(&self) -> ArrayVec<u64, { NoPlace::WORDS }> {
        let two = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let reason = NoPlaceReason::ALL.iter().position(|reason| *reason == self.reason).unwrap_or_default();
        let (kind, [first, second, third, fourth]) = match self.of {
            Scarce::Places { held, places, own_held, reserved } => (0, [held, places, own_held, reserved]),
            Scarce::Units { capacity, tokens, kept, reserved } => (1, [capacity, tokens, kept, reserved]),
        };
        let heaviest = self.heaviest.iter().flatten();
        let count = heaviest.clone().count() as u8;
        let own = [
            two(reason as u32, u32::from_le_bytes([self.level, self.tier, kind, count])),
            two(first, second),
            two(self.waiting, self.share),
            two(third, self.own_waiting),
            two(self.own_used, self.score),
            two(self.next, self.half_life),
            two(fourth, self.round),
            two(self.ahead, 0),
        ];
        own.into_iter().chain(heaviest.flat_map(|heavy| heavy.pack())).collect()
    }

    /// How many words it takes without those who had most.
    const OWN_WORDS: usize = 8;

    /// How many words it takes at most.
    pub const WORDS: usize = NoPlace::OWN_WORDS + HEAVIEST * Heavy::WORDS;

    /// Reads what [`NoPlace::pack`] wrote, and returns what comes after it.
    pub fn unpack(words: &[u64]) -> Option<(NoPlace, &[u64])> {
        let (own, mut rest) = words.split_first_chunk::<{ NoPlace::OWN_WORDS }>()?;
        let [
            [reason, level_tier_and_kind],
            [first, second],
            [waiting, share],
            [third, own_waiting],
            [own_used, score],
            [next, half_life],
            [fourth, round],
            [ahead, _],
        ] = own.map(|word| [(word >> 32) as u32, word as u32]);
        let reason = *NoPlaceReason::ALL.get(reason as usize)?;
        let [level, tier, kind, count] = level_tier_and_kind.to_le_bytes();
        let of = match kind {
            0 => Scarce::Places { held: first, places: second, own_held: third, reserved: fourth },
            1 => Scarce::Units { capacity: first, tokens: second, kept: third, reserved: fourth },
            _ => return None,
        };
        let mut heaviest = [None; HEAVIEST];
        for heavy in heaviest.iter_mut().take(usize::from(count)) {
            let (words, behind) = rest.split_first_chunk()?;
            (*heavy, rest) = (Some(Heavy::unpack(*words)?), behind);
        }
        let place = NoPlace {
            reason,
            of,
            waiting,
            ahead,
            level,
            own_waiting,
            own_used,
            share,
            score,
            next,
            half_life,
            round,
            tier,
            heaviest,
        };
        Some((place, rest))
    }

    /// How long until it is worth asking again: one round, a second at least.
    pub fn retry_nanos(&self) -> u64 {
        u64::from(self.round.max(1_000)) * 1_000_000
    }
}
