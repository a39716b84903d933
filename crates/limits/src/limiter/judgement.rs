//! What a limit says about a request.

use crate::sketch::NextUnit;

/// What a limit says about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// Whether it fits, or has been charged.
    pub admitted: bool,
    /// How many more of the same cost would fit at once, after this one.
    pub remaining: u32,
    /// Of how many in all; `remaining` over it says how near the limit is to its end.
    pub quota: u32,
    /// Nanoseconds until it would fit: `Some(0)` if it did, `None` if no wait helps or none can be promised.
    pub retry_nanos: Option<u64>,
    /// When more budget appears; see [`Judgement::reset_nanos`].
    pub next_unit: NextUnit,
    /// Of a refusal: what it rests on, in the arithmetic of its kind, for [`Limiter::owed`](super::Limiter::owed); zero otherwise.
    pub standing: u64,
}

impl Judgement {
    /// A refusal without a promise: of a place that does not exist.
    pub const REFUSED: Judgement = Judgement {
        admitted: false,
        remaining: 0,
        quota: 0,
        retry_nanos: None,
        next_unit: NextUnit::Known(None),
        standing: 0,
    };

    /// An admission, with room for `remaining` more of `quota`.
    pub const fn admitted(remaining: u32, quota: u32) -> Judgement {
        Judgement { admitted: true, remaining, quota, retry_nanos: Some(0), ..Judgement::REFUSED }
    }

    /// Nanoseconds until more budget appears; `None` when full or when that is up to others.
    pub fn reset_nanos(&self) -> Option<u64> {
        self.next_unit.nanos()
    }
}

/// Why [`Limiter::commit`](super::Limiter::commit) refused although [`Limiter::probe`](super::Limiter::probe) had admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// What the limit says now.
    pub judgement: Judgement,
    /// True when the race could not be settled in a bounded number of tries: counted, as it refuses without need.
    pub contended: bool,
}

impl Lost {
    /// A refusal that no race forced.
    pub const fn refused(judgement: Judgement) -> Lost {
        Lost { judgement, contended: false }
    }
}

/// What a limit's refusal means, before it is put into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refuses {
    /// The key's budget is spent.
    Quota,
    /// The key has too much under way.
    Concurrency,
    /// There is no room, whoever asks.
    Room,
    /// The traffic is among the heaviest of what asks for too much in all.
    Share,
}
