//! Leases of a shared limit: what all gates together may spend, held against every schedule of a small world, every
//! interleaving of a few threads, random schedules with losses, and three gates that hammer one key.

mod costs;
mod hammered;
mod model;
mod schedules;
mod store;

use tidegate_limits::sketch::{KeyHash, KeyHasher, Seed};
use tidegate_limits::units::Timestamp;

fn key(number: u64) -> KeyHash {
    let mut hasher = KeyHasher::new(&Seed::from_bytes([3; 16]));
    hasher.part(1, &number.to_le_bytes());
    hasher.finish()
}

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}
