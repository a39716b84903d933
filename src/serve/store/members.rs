//! How many gates share a store: each writes a stamp into it once a second, and counts whose stamp is fresh.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redis::RedisResult;

use super::link::Link;
use super::script;
use crate::serve::clock;

/// How often a gate writes its stamp, a tenth less or more.
const EVERY: Duration = Duration::from_secs(1);

/// How old a stamp may be, in milliseconds of the store's clock.
const LIFE_MILLIS: i64 = 5_000;

/// How long a stamp is waited for.
pub const PATIENCE: Duration = Duration::from_millis(500);

/// What this process is called among the gates: random, new with every start.
pub fn name() -> String {
    let halves = [clock::roll().to_be_bytes(), clock::roll().to_be_bytes()];
    URL_SAFE_NO_PAD.encode(halves.as_flattened())
}

/// When the next stamp is due.
pub fn next() -> Duration {
    let thousandths = 900 + u32::try_from(clock::roll() % 201).unwrap_or(0);
    EVERY * thousandths / 1_000
}

/// Writes a stamp and says how many gates there are; `None` if the store said something else.
pub async fn stamp(link: &mut Link, prefix: &str, name: &str) -> RedisResult<Option<u32>> {
    let value = link.run(&script::MEMBERS, &script::members_key(prefix), &[LIFE_MILLIS], &[name.as_bytes()]).await?;
    Ok(script::count(value))
}
