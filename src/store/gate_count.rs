//! How many gates share a store: each writes a stamp into it once a second, and counts whose stamp is fresh.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use redis::RedisResult;

use super::script::{self, ScriptCall};
use super::wire::Wire;
use crate::system::clock;

/// How often a gate writes its stamp, a tenth less or more.
const EVERY: Duration = Duration::from_secs(1);

/// How old a stamp may be, in milliseconds of the store's clock.
const LIFE_MILLIS: i64 = 5_000;

/// The same in nanoseconds of a gate's.
const LIFE_NANOS: u64 = 5_000_000_000;

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

/// How many gates there are, by the store's answers to stamps. Times are nanoseconds on any clock that does not go back.
///
/// After an outage one gate finds the store before the others, whose stamps in it are old or gone. That gate would take itself for the
/// only one, and its part of each limit for the whole. So for the life of a stamp after an outage the count does not fall.
#[derive(Debug)]
pub struct GateCount {
    nodes: u32,
    /// When the others have had the time to write theirs; `None` in an outage.
    settled: Option<u64>,
}

impl GateCount {
    /// One: this gate.
    pub fn new() -> GateCount {
        GateCount { nodes: 1, settled: None }
    }

    /// Takes in the store's count, and returns how many gates there are.
    pub fn counted(&mut self, nodes: u32, now: u64) -> u32 {
        let settled = *self.settled.get_or_insert(now.saturating_add(LIFE_NANOS));
        self.nodes = if now < settled { self.nodes.max(nodes) } else { nodes.max(1) };
        self.nodes
    }

    /// Notes that the store did not answer, or not everything.
    pub fn unanswered(&mut self) {
        self.settled = None;
    }
}

/// Writes a stamp and returns how many gates there are; `None` if the answer is none.
pub async fn stamp(wire: &mut Wire, prefix: &str, name: &str) -> RedisResult<Option<u32>> {
    let key = script::members_key(prefix);
    let call = ScriptCall { script: &script::MEMBERS, key: &key, numbers: &[LIFE_MILLIS], rest: &[name.as_bytes()] };
    Ok(script::count(wire.run(&call, false).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_that_leaves_is_discounted_at_once_and_after_an_outage_only_when_all_had_time_to_come_back() {
        let mut gates = GateCount::new();
        let second = 1_000_000_000;
        assert_eq!(gates.counted(3, 0), 3);
        assert_eq!(gates.counted(1, 4 * second), 3, "the first seconds are those after a silence too");
        assert_eq!(gates.counted(1, 5 * second), 1);
        assert_eq!(gates.counted(3, 6 * second), 3);
        gates.unanswered();
        gates.unanswered();
        assert_eq!(gates.counted(1, 20 * second), 3);
        assert_eq!(gates.counted(4, 21 * second), 4, "who is new counts at once");
        assert_eq!(gates.counted(2, 24 * second), 4);
        assert_eq!(gates.counted(2, 25 * second), 2);
        assert_eq!(gates.counted(0, 26 * second), 1, "itself");
    }
}
