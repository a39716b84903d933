//! Clients that bring values to a limit of type `distinct`.

use std::time::Duration;

use tidegate_limits::limiter::kinds::distinct::state::Distinct;
use tidegate_limits::limiter::{Judgement, Kind, Place, RefusedCount, Spec, State, kinds};
use tidegate_limits::sketch::{KeyHash, KeyHasher, Seed};
use tidegate_limits::units::{Bytes, Cost, OutOfRange, Timestamp};

use crate::shorthand::at;

pub const SECOND: u64 = 1_000_000_000;
pub const HOUR: Duration = Duration::from_secs(3_600);

pub fn limit(max: u32, period: Duration, sliding: bool) -> Distinct {
    limit_in(max, period, sliding, Bytes(64 << 10)).unwrap()
}

pub fn limit_in(max: u32, window: Duration, sliding: bool, memory: Bytes) -> Result<Distinct, OutOfRange> {
    let kind = Kind::Distinct(kinds::Distinct { max, window, sliding, refused: RefusedCount::Admitted, memory });
    Distinct::new(&Spec::new("values", &[kind]), &Seed::from_bytes([3; 16]))
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

pub fn place((key, value): (KeyHash, KeyHash)) -> Place {
    Place { key, value, ..Place::default() }
}

/// What is said of a client and a value; changes nothing.
pub fn probe(limit: &Distinct, asked: (KeyHash, KeyHash), now: Timestamp) -> Judgement {
    limit.probe(&place(asked), now, Cost::ONE, 0).judgement
}

pub fn passes(limit: &Distinct, client: u64, value: u64, now: Timestamp) -> bool {
    let probe = limit.probe(&place(ask(client, value)), now, Cost::ONE, 0);
    let committed = limit.commit(&probe, now).map(|(judgement, _)| judgement);
    assert_eq!(probe.judgement.admitted, committed.is_ok(), "nobody else is here");
    assert_eq!(probe.judgement, committed.unwrap_or_else(|lost| lost.judgement));
    probe.judgement.admitted
}
