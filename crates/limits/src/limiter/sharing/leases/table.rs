//! The table of leases, and what is said about a key of it.

use std::fmt;

use super::entry::{Entry, Line};
use super::size::Terms;
use super::words::{LEAD_NANOS, LIFE, MOST_TOKENS, TICK};
use crate::limiter::sharing::Promise;
use crate::sketch::{KeyHash, Word};
use crate::sync::AtomicU64;
use crate::units::{Bytes, OutOfRange};

/// The leases of one gate, of any number of limits.
pub struct Leases<C = AtomicU64> {
    pub(super) lines: Box<[Line<C>]>,
    /// Stands in for a line out of range, which masking makes impossible.
    spare: Line<C>,
    /// Tells questions apart that begin in one tick.
    pub(super) nonces: AtomicU64,
    /// See [`refusals`](super::refusals).
    pub(super) grants: Box<[AtomicU64]>,
}

/// What this gate knows about a request of a key.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// The cost is held, or was just taken.
    Holds {
        /// What is left: before taking from [`Leases::look`], after it otherwise.
        left: u32,
        /// Whether so little is left that the face should [`refill`](Leases::refill) in the background.
        low: bool,
        /// When what is held ends, or what was taken, to [give it back](Leases::give_back).
        ends: Ends,
    },
    /// The store has refused it, or the cost is above the limit.
    Refused {
        /// Nanoseconds from now until it would fit if no other request took any; `None` when it never will.
        retry_nanos: Option<u64>,
        /// Whether the store is likely to have some again by now, so that the face should [`refill`](Leases::refill) in the
        /// background. This request is refused all the same. At most 20 times a second for a key that is spent all the time.
        due: bool,
    },
    /// Only the store knows. From [`Leases::answered`]: the answer came too late to be used.
    Unknown,
}

/// When a lease ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends(pub(super) u64);

impl Ends {
    /// The end of what cannot be held.
    pub const NEVER_LIVED: Ends = Ends(0);
}

/// Whether to ask the store.
#[must_use]
#[derive(Debug)]
pub enum Begin {
    /// Ask this, and settle it by [`Leases::answered`] or [`Leases::unanswered`]. While a lost one is not settled, no request asks about
    /// the key for a second.
    Ask(Asking),
    /// Another request is asking about the key.
    Busy {
        /// Identifies its question.
        question: u64,
    },
    /// Do not ask: this is known meanwhile. Nothing is taken yet.
    Known(Look),
}

/// A question on its way: what to ask, and what the answer is to be used for.
#[derive(Debug)]
pub struct Asking {
    pub(super) wanted: u32,
    pub(super) least: u32,
    /// What the request that asks will take for itself; 0 in the background.
    pub(super) own: u32,
    /// How much is to be held.
    pub(super) size: u32,
    /// How much of that is little.
    pub(super) mark: u32,
    /// How long what it brings lives at most, in nanoseconds.
    pub(super) life: u64,
    /// Whether there is a stock to give a token up from.
    pub(super) stocked: bool,
    pub(super) promise: Promise,
    pub(super) kept: Option<Kept>,
}

/// The entry that keeps what a question brings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kept {
    pub(super) line: usize,
    pub(super) number: usize,
    /// The state while it is on its way.
    pub(super) asking: u64,
    /// The low-water mark before.
    pub(super) low: u32,
}

impl Asking {
    /// For what the request needs by itself.
    pub(super) fn first(least: u32, own: u32, promise: &Promise, kept: Option<Kept>) -> Asking {
        Asking { wanted: least, least, own, size: least, mark: 0, life: LIFE, stocked: false, promise: *promise, kept }
    }

    /// For the next request of the key too, where there is a stock.
    pub(super) fn with_one_more(self, terms: &Terms) -> Asking {
        let (size, mark) = match terms.stock {
            MOST_TOKENS => (MOST_TOKENS, 0),
            _ => (self.least.saturating_add(1), 1),
        };
        if terms.stock < 2 || size > terms.part {
            return self;
        }
        Asking { wanted: size, size, mark, life: terms.life, stocked: true, ..self }
    }

    /// For what is missing to a lease by the demand.
    pub(super) fn again(self, demand: u32, left: u32, terms: &Terms) -> Asking {
        let size = terms.lease(demand, self.least);
        let (mark, wanted) = (terms.mark(size, demand), size.saturating_sub(left).max(self.least));
        Asking { wanted, size, mark, life: terms.life, stocked: terms.stock > 1, ..self }
    }

    /// How much to ask for: at least [`Asking::least`].
    pub fn wanted(&self) -> u32 {
        self.wanted
    }

    /// How much is needed for any to be of use: at least 1.
    pub fn least(&self) -> u32 {
        self.least
    }

    /// How many nanoseconds what it brings may be spent for at most, from before it was sent.
    pub fn life_nanos(&self) -> u64 {
        self.life
    }

    /// Whether there is room to keep anything. If not, exactly the request's own cost is asked for, others may be asking about the
    /// same key, and neither a lease nor a refusal stays.
    pub fn is_kept(&self) -> bool {
        self.kept.is_some()
    }
}

impl Leases {
    /// What a gate has unless told otherwise: 2 MiB.
    pub const MEMORY: Bytes = Bytes(2 << 20);

    /// By how much a refusal of [`Leases::remember`] is forgotten before the store's own time, at most: a tick, and what the answer took.
    pub const SLACK_NANOS: u64 = TICK + LEAD_NANOS;

    /// An empty table: the greatest power of two of lines of 64 bytes that fits.
    ///
    /// # Errors
    /// Less than 64 KiB or more than 1 GiB.
    pub fn new(memory: Bytes) -> Result<Leases, OutOfRange> {
        if !(64 << 10..=1 << 30).contains(&memory.0) {
            return Err(OutOfRange { allowed: "64KiB to 1GiB" });
        }
        let lines = memory.0 / size_of::<Line<AtomicU64>>() as u64;
        Ok(Leases::with_lines(1 << lines.ilog2()))
    }
}

impl<C: Word> Leases<C> {
    /// So many lines of two entries, rounded up to a power of two.
    pub fn with_lines(lines: usize) -> Self {
        let lines: Box<[_]> = (0..lines.next_power_of_two()).map(|_| Line::default()).collect();
        let grants = counters(lines.len());
        Leases { lines, spare: Line::default(), nonces: AtomicU64::new(0), grants }
    }

    /// What the table takes, beside 2 KiB of counters; it never grows.
    pub fn memory(&self) -> Bytes {
        Bytes(size_of_val(&*self.lines) as u64)
    }

    /// The number of the key's line, and its tag: disjoint halves of the hash.
    #[inline]
    pub(super) fn place(&self, key: KeyHash) -> (usize, u64) {
        let [low, high] = key.halves();
        (low as usize & self.lines.len().wrapping_sub(1), high.max(1))
    }

    #[inline]
    pub(super) fn line(&self, number: usize) -> &Line<C> {
        self.lines.get(number).unwrap_or(&self.spare)
    }

    pub(super) fn kept(&self, asking: &Asking) -> Option<(&Entry<C>, Kept)> {
        let kept = asking.kept?;
        Some((self.line(kept.line).0.get(kept.number)?, kept))
    }
}

/// The most counters of grants.
const COUNTERS: usize = 256;

/// Those of a table of so many lines, a power of two.
fn counters(lines: usize) -> Box<[AtomicU64]> {
    (0..lines.min(COUNTERS)).map(|_| AtomicU64::new(0)).collect()
}

impl<C> fmt::Debug for Leases<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leases").field("lines", &self.lines.len()).finish_non_exhaustive()
    }
}
