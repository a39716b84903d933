//! Terms that several kinds of limit share: how a sketch lies in memory, whether refused requests count, what is shared, what counts together.

use std::time::Duration;

use crate::sketch::{Accuracy, Shape};
use crate::units::{Bytes, OutOfRange};

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

/// How far into a window the origin of all stamps lies.
pub fn phase(window: Duration, unix_nanos_at_origin: u64) -> Duration {
    let length = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX).max(1);
    Duration::from_nanos(unix_nanos_at_origin % length)
}
