//! Clients that bring values to a limit of type `distinct`.

use std::time::Duration;

use tidegate_limits::limiter::Distinct;
use tidegate_limits::sketch::{KeyHash, KeyHasher, Seed};
use tidegate_limits::units::{Bytes, Timestamp};

use crate::shorthand::at;

pub const SECOND: u64 = 1_000_000_000;
pub const HOUR: Duration = Duration::from_secs(3_600);

pub fn limit(max: u32, period: Duration, sliding: bool) -> Distinct {
    Distinct::new(max, period, sliding, Bytes(64 << 10), Seed::from_bytes([3; 16])).unwrap()
}

pub fn second(number: u64) -> Timestamp {
    at(number * SECOND)
}

/// Client and value, as a rule hashes them.
pub fn ask(client: u64, value: u64) -> (KeyHash, KeyHash) {
    let mut hasher = KeyHasher::new(&Seed::from_bytes([3; 16]));
    hasher.part(0, &client.to_le_bytes());
    let client = hasher.clone().finish();
    hasher.part(1, &value.to_le_bytes());
    (client, hasher.finish())
}

pub fn passes(limit: &Distinct, client: u64, value: u64, now: Timestamp) -> bool {
    let (client, pair) = ask(client, value);
    let probed = limit.probe(client, pair, now);
    let admitted = limit.admit(client, pair, now);
    assert_eq!(probed.admitted, admitted.is_ok(), "nobody else is here");
    assert_eq!(probed, admitted.unwrap_or_else(|lost| lost.judgement));
    probed.admitted
}
