//! Published algorithms in fixed memory, one per file.
//!
//! * [`hash`]: 128 bits of a key under a secret seed. Tables take their columns out of them.
//! * [`own_hash`]: a limiter's own hash, drawn from the one that all limiters share.
//! * [`columns`]: columns drawn by secret multipliers, where four slices of the hash are too few.
//! * [`meter`]: what charging a request does to a key's *level*, as plain arithmetic on one `u64`.
//! * [`monotone`]: a table of levels for any number of keys that forgets no key.
//! * [`rekeyed`]: two such tables that take turns, so that collisions do not last.
//! * [`levels`]: the levels of a limiter: a re-keyed pair, and exact entries for heavy keys.
//! * [`sliding`]: two tables of windows, the older of which weighs less and less.
//! * [`summing`]: a table whose counts can be given back.
//! * [`seen`]: the (key, value) pairs counted recently. A pair that it forgets counts twice.
//! * [`lattice`]: levels for several kinds of key side by side, in one re-keyed pair.
//! * [`offered`]: an estimate of how often each key was asked for recently, without a promise.
//! * [`quantile`]: an upper quantile of recent numbers.
//! * [`heaviest`]: the keys that weigh most in a stream, with their error.
//! * [`accuracy`]: the size of a table for an error, and the error of a table.
//!
//! Nothing here knows of requests, clients, clocks or dice: keys arrive hashed, time arrives as an argument.

pub mod accuracy;
pub mod columns;
mod exact;
pub mod hash;
pub mod heaviest;
pub mod lattice;
pub mod levels;
pub mod meter;
pub mod monotone;
pub mod offered;
pub mod own_hash;
pub mod quantile;
pub mod rekeyed;
pub mod seen;
pub mod sliding;
pub mod summing;

pub use accuracy::{Accuracy, Shape};
pub use columns::Columns;
pub use hash::{KeyHash, KeyHasher, Seed};
pub use heaviest::Heaviest;
pub use lattice::NodeLevels;
pub use levels::Levels;
pub use meter::{Bucket, Charged, Meter, NextUnit, Ratio, RecentAverage, TimeScale, Timeline, Window, Windows};
pub use monotone::{Admission, Cell, Crowding, MonotoneTable, Word};
pub use offered::OfferedRates;
pub use own_hash::OwnHash;
pub use quantile::UpperQuantile;
pub use rekeyed::{Rekeyed, Spot};
pub use seen::{Inserted, Lifetime, SeenSet};
pub use sliding::{SlidingReading, SlidingWindows};
pub use summing::{CountCell, SummingElsewhere, SummingTable};

/// Asks the processor to bring `what` near, and goes on at once. A load for the same purpose would hold up everything behind
/// it: few hundred instructions are all that a processor has begun at a time, and none retires before those ahead of it.
#[inline(always)]
pub fn bring_near<T>(what: &T) {
    branches::prefetch_read_data::<T, 0>(what);
}
