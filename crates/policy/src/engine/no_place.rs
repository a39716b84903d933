//! Why a request got no place at its origin, and how it stood.

use std::time::Duration;

use strum::{IntoStaticStr, VariantArray};

use crate::door::{Places, Standing};

/// Why no place was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum NoPlaceReason {
    /// The cap is reached and there is no queue.
    Full,
    /// The queue is full, and all others in it hold and used less.
    PushedOut,
    /// It waited in the queue for as long as the policy allows.
    QueueTimeout,
}

impl NoPlaceReason {
    /// All of them, in the order of their numbers.
    pub const ALL: &'static [NoPlaceReason] = NoPlaceReason::VARIANTS;

    /// The word in metrics, log and explanations.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// The queue before an origin when a request went without a place. Thousandths, as a record keeps whole numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPlace {
    /// Why it got none.
    pub reason: NoPlaceReason,
    /// How many places were held.
    pub held: u32,
    /// How many there were.
    pub places: u32,
    /// How many waited, this one included.
    pub waiting: u32,
    /// What weighed most: 0 the key, 1 its network, 2 the network around that.
    pub level: u8,
    /// What of that held places.
    pub own_held: u32,
    /// What of that waited.
    pub own_waiting: u32,
    /// Thousandths of places that it used lately, an average.
    pub own_used: u32,
    /// For how many clients it stands.
    pub share: u32,
    /// Thousandths of places that it held and used for each of them.
    pub score: u32,
    /// The same of the request that was next.
    pub next: u32,
    /// In this time a use counts half, in milliseconds.
    pub half_life: u32,
    /// How long it takes until all that are here have been served once, in milliseconds.
    pub round: u32,
}

impl NoPlace {
    /// Of a request that stood like this at these places.
    pub fn new(reason: NoPlaceReason, standing: &Standing, places: &Places) -> NoPlace {
        let thousandths = |number: f32| (number * 1e3) as u32;
        let millis = |span: Duration| u32::try_from(span.as_millis()).unwrap_or(u32::MAX);
        NoPlace {
            reason,
            held: places.held(),
            places: places.max(),
            waiting: standing.line,
            level: standing.level,
            own_held: standing.held as u32,
            own_waiting: standing.waiting as u32,
            own_used: thousandths(standing.used),
            share: standing.share as u32,
            score: thousandths(standing.score),
            next: thousandths(standing.next),
            half_life: millis(places.half_life()),
            round: millis(places.round()),
        }
    }

    /// The words that [`NoPlace::unpack`] reads.
    pub fn pack(&self) -> [u64; NoPlace::WORDS] {
        let two = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let reason = NoPlaceReason::ALL.iter().position(|reason| *reason == self.reason).unwrap_or_default();
        [
            two(reason as u32, u32::from(self.level)),
            two(self.held, self.places),
            two(self.waiting, self.share),
            two(self.own_held, self.own_waiting),
            two(self.own_used, self.score),
            two(self.next, self.half_life),
            u64::from(self.round),
        ]
    }

    /// How many words it takes.
    pub const WORDS: usize = 7;

    /// Reads what [`NoPlace::pack`] wrote.
    pub fn unpack(words: &[u64; NoPlace::WORDS]) -> Option<NoPlace> {
        let [
            [reason, level],
            [held, places],
            [waiting, share],
            [own_held, own_waiting],
            [own_used, score],
            [next, half_life],
            [_, round],
        ] = words.map(|word| [(word >> 32) as u32, word as u32]);
        let (reason, level) = (*NoPlaceReason::ALL.get(reason as usize)?, u8::try_from(level).ok()?);
        Some(NoPlace {
            reason,
            held,
            places,
            waiting,
            level,
            own_held,
            own_waiting,
            own_used,
            share,
            score,
            next,
            half_life,
            round,
        })
    }

    /// How long until it is worth asking again: one round, a second at least.
    pub fn retry_nanos(&self) -> u64 {
        u64::from(self.round.max(1_000)) * 1_000_000
    }
}
