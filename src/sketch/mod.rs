//! Published algorithms in fixed memory, one per file.
//!
//! * [`hash`]: a key becomes 128 bits under a secret seed; every table slices its columns out of them.
//! * [`meter`]: what charging a request does to a key's *level*, as plain arithmetic on one `u64`.
//! * [`monotone`]: the table that keeps a level for every key there could be, without ever forgetting one.
//!
//! Nothing here knows of requests, clients, clocks or dice: keys arrive hashed, time arrives as an argument.

pub mod hash;
pub mod meter;
pub mod monotone;

pub use hash::{KeyHash, KeyHasher, Seed};
pub use meter::{Bucket, Meter};
pub use monotone::{Admission, Cell, MonotoneTable};
