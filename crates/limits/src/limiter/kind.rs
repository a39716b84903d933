//! The kinds of limit and their numbers, as the policy file gives them.

use std::time::Duration;

use crate::sketch::{Accuracy, Meter, RecentAverage, Shape};
use crate::units::{Bytes, OutOfRange, Period, Rate};

/// What a limit promises. The variants are named after the words in `type:`.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// At most `burst + rate·τ` in every interval of length τ, per key.
    Rate {
        /// How fast the budget comes back, in units of cost.
        rate: Rate,
        /// How much may be spent at once: at least the rule's cost.
        burst: u32,
        /// Size of the sketch, fixed for the process's life.
        memory: Bytes,
    },
    /// At most `max` per aligned window, per key.
    Quota {
        /// How much per window: at least the rule's cost.
        max: u32,
        /// What a window is. Windows of whole fractions of a day begin at midnight UTC.
        window: Period,
        /// Whether the window before counts in part, which smooths the boundary; not for windows of the calendar.
        sliding: bool,
        /// Size of the sketch.
        memory: Bytes,
    },
    /// At most `rate` as an average that forgets by `half_life`, per key.
    RecentAverage {
        /// The average.
        rate: Rate,
        /// After this long without a request, the average has halved.
        half_life: Duration,
        /// Whether a refused request counts as well.
        refused: RefusedCount,
        /// Size of the sketch.
        memory: Bytes,
    },
    /// At most `max` different values of one thing per key and period.
    Distinct {
        /// How many different values.
        max: u32,
        /// In what time.
        window: Duration,
        /// Whether the period is aligned (`false`) or moves along.
        sliding: bool,
        /// Whether a refused value counts as well, which only has a meaning where the period moves along.
        refused: RefusedCount,
        /// Size of the set of values that were seen.
        memory: Bytes,
    },
    /// At most `capacity` in all; above it the heaviest give way first.
    FairShare {
        /// What is shared.
        capacity: Capacity,
        /// How many times a client's share each node may take, in the order of the rule's nodes; at least 1.
        multipliers: Vec<u32>,
        /// How far each node is generalised, in the same order: never less than the one before it. Nodes of one level are compared
        /// with each other, and the heaviest stands for all.
        levels: Vec<u8>,
        /// Whether traffic that one node limited still counts in the wider ones.
        charge_parents: bool,
        /// Size of the table of offered rates.
        memory: Bytes,
    },
    /// At most `max` requests at once.
    Inflight {
        /// How many, at least one.
        max: u32,
        /// How many connections that were switched to another protocol at once; these do not count in `max`.
        upgraded: u32,
        /// What is counted together.
        scope: Scope,
    },
}

impl Kind {
    /// How many units one key may spend at once, of kinds that are charged in units.
    pub fn at_once(&self) -> Option<u32> {
        match self {
            Kind::Rate { burst, .. } => Some(*burst),
            Kind::Quota { max, .. } => Some(*max),
            Kind::RecentAverage { rate, half_life, .. } => {
                RecentAverage::new(*rate, *half_life, Duration::ZERO).ok().map(|average| average.quota())
            }
            Kind::Distinct { .. } | Kind::FairShare { .. } | Kind::Inflight { .. } => None,
        }
    }

    /// Whether refused requests count too, and for how long that can keep a key out.
    pub fn refused(&self) -> RefusedCount {
        match self {
            Kind::RecentAverage { refused, .. } | Kind::Distinct { refused, .. } => *refused,
            _ => RefusedCount::Admitted,
        }
    }

    /// The size of its sketch as the policy has it, and how a table lies in it; `None` of what is counted exactly.
    pub fn sketch(&self) -> Option<(Sketch, Bytes)> {
        Some(match self {
            Kind::Rate { memory, .. } | Kind::RecentAverage { memory, .. } => (Sketch::WHOLE, *memory),
            Kind::Quota { sliding: false, memory, .. } => (Sketch::WHOLE, *memory),
            Kind::Quota { sliding: true, memory, .. } | Kind::Distinct { memory, .. } => (Sketch::QUARTER, *memory),
            Kind::FairShare { memory, .. } => (Sketch::HALF, *memory),
            Kind::Inflight { scope: Scope::Key { memory }, .. } => (Sketch::PLACES, *memory),
            Kind::Inflight { .. } => return None,
        })
    }

    /// The word in `type:`.
    pub fn word(&self) -> &'static str {
        match self {
            Kind::Rate { .. } => "rate",
            Kind::Quota { .. } => "quota",
            Kind::RecentAverage { .. } => "recent_average",
            Kind::Distinct { .. } => "distinct",
            Kind::FairShare { .. } => "fair_share",
            Kind::Inflight { .. } => "inflight",
        }
    }
}

/// How the table that estimates are read from lies in the memory of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sketch {
    rows: u32,
    /// The memory that one column of all rows stands for: a table's own, and that of what the limit has beside it.
    column: u64,
}

impl Sketch {
    /// Four rows of levels fill it.
    pub const WHOLE: Sketch = Sketch { rows: 4, column: 32 };
    /// Four rows of levels fill half: there are caps beside the rates.
    pub const HALF: Sketch = Sketch { rows: 4, column: 64 };
    /// Four rows of levels fill a quarter: there are two windows in two tables each, or values beside two tables of counters.
    pub const QUARTER: Sketch = Sketch { rows: 4, column: 128 };
    /// Eight rows of sums fill it.
    pub const PLACES: Sketch = Sketch { rows: 8, column: 32 };

    /// The table in so much memory.
    pub fn shape(self, memory: Bytes) -> Shape {
        // no table of levels is smaller, however little of the memory is left to it
        let least = if self == Sketch::QUARTER { 128 } else { 1 };
        Shape { rows: self.rows, columns: (memory.0 / self.column).max(least) }
    }

    /// The memory that an accuracy takes, a power of two; `None` if that is more than anybody has.
    pub fn memory(self, accuracy: Accuracy) -> Option<Bytes> {
        Some(Bytes(accuracy.columns(self.rows)?.checked_mul(self.column)?))
    }
}

/// Whether requests that `recent_average` or `distinct` refuses count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefusedCount {
    /// They do (`count: all`): who goes on stays out. The lock-out lasts at most `max_penalty` beyond the last request.
    All {
        /// How long at most after the last request.
        max_penalty: Duration,
    },
    /// They do not (`count: admitted`).
    Admitted,
}

/// What `fair_share` shares out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Capacity {
    /// So many requests per time.
    Rate(Rate),
    /// What the origin at this position in the policy can take: its in-flight cap over its mean time to answer (Little
    /// 1961).
    Origin(usize),
}

/// What an `inflight` limit counts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All requests under the limit, exactly.
    Global,
    /// The requests of each route, exactly.
    Route,
    /// The requests to each origin, exactly; a route that answers by itself counts as an origin of its own.
    Origin,
    /// The requests of each key, in a summing sketch, which may count too many and never too few.
    Key {
        /// Size of the sketch.
        memory: Bytes,
    },
}

/// Kinds that do not belong together, or none: a mistake of the caller.
pub const MIXED: OutOfRange = OutOfRange { allowed: "one or more kinds of one type" };

/// What a number in the policy says, per second.
pub(super) fn fixed(capacity: Capacity) -> Option<f64> {
    match capacity {
        Capacity::Rate(rate) => Some(rate.per_second()),
        Capacity::Origin(_) => None,
    }
}

/// How many, of kinds that say just that.
///
/// # Errors
/// Another kind.
pub(super) fn most(kind: &Kind) -> Result<u32, OutOfRange> {
    match kind {
        Kind::Inflight { max, .. } | Kind::Distinct { max, .. } => Ok(*max),
        _ => Err(MIXED),
    }
}

/// How many switched connections.
///
/// # Errors
/// Not `inflight`.
pub(super) fn most_upgraded(kind: &Kind) -> Result<u32, OutOfRange> {
    match kind {
        Kind::Inflight { upgraded, .. } => Ok(*upgraded),
        _ => Err(MIXED),
    }
}
