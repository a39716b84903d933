//! Published algorithms in fixed memory, one per file.
//!
//! * [`hash`]: a key becomes 128 bits under a secret seed; every table takes its columns out of them.
//! * [`own_hash`]: or first one of the limiter's own, so that a key is hashed once for all limiters.
//! * [`columns`]: or draws them by secret multipliers, where four slices are too few.
//! * [`meter`]: what charging a request does to a key's *level*, as plain arithmetic on one `u64`.
//! * [`monotone`]: the table that keeps a level for every key there could be, without ever forgetting one.
//! * [`rekeyed`]: two such tables that take turns, so that collisions do not last.
//! * [`levels`]: what a limiter keeps for its keys: a re-keyed pair, and exact entries for heavy keys.
//! * [`sliding`]: two tables of windows, the older of which weighs less and less.
//! * [`summing`]: the table whose counts can be given back.
//! * [`seen`]: which (key, value) pairs were counted not long ago; may forget, and then counts twice.
//! * [`lattice`]: levels for several kinds of key side by side, in one re-keyed pair.
//! * [`offered`]: how often every key was asked for lately, estimated, without a promise.
//! * [`quantile`]: an upper quantile of numbers seen lately.
//! * [`heaviest`]: the keys that weigh most in a stream, with their error.
//! * [`accuracy`]: how large a table must be for an error, and the error of a table.
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
pub use summing::{CountCell, SummingTable};

/// Asks the processor to bring `what` near, and goes on at once. A load for the same purpose would hold up everything behind
/// it: few hundred instructions are all that a processor has begun at a time, and none retires before those ahead of it.
#[inline(always)]
pub fn bring_near<T>(what: &T) {
    branches::prefetch_read_data::<T, 0>(what);
}
