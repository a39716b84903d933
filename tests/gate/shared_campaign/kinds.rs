//! The kinds of shared limits of the campaign, and what docs/limits/cluster.md states of each.

use super::{Event, GATES, LOADS, MAX};
use crate::harness::Origin;

/// A limit of `MAX` units that do not come back while the test runs.
pub struct Kind {
    pub path: &'static str,
    /// How it is written, after its key and its store.
    words: &'static str,
    pub sharing: Sharing,
    /// What an admitted request is answered.
    pub admitted: u16,
    /// The units that an admitted request is charged.
    pub units: usize,
    /// Those that are known only when it is answered.
    late: usize,
}

/// How gates share, and what they do without the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Budget is taken ahead; a part of the limit without the store.
    Lease,
    /// Each request asks; a part of the limit without the store.
    Asked,
    /// Each request asks; none passes without the store.
    Closed,
    /// Gates tell one another.
    Estimate,
}

const fn kind(path: &'static str, words: &'static str, sharing: Sharing) -> Kind {
    Kind { path, words, sharing, admitted: 200, units: 1, late: 0 }
}

pub const KINDS: usize = 10;

pub const ALL: [Kind; KINDS] = [
    kind("/lease", "rate: MAX/d, burst: MAX", Sharing::Lease),
    kind("/exact", "rate: MAX/d, burst: MAX, sharing: exact", Sharing::Closed),
    kind("/quota", "type: quota, max: MAX, window: 744h, sharing: exact", Sharing::Closed),
    kind("/sliding", "type: quota, sliding: true, max: MAX, window: 744h, sharing: exact", Sharing::Closed),
    kind("/leased", "type: quota, max: MAX, window: 744h", Sharing::Lease),
    kind("/estimate", "rate: MAX/d, burst: MAX, sharing: estimate", Sharing::Estimate),
    Kind { admitted: 401, ..kind("/guesses", "rate: MAX/d, burst: MAX, count: \"responses 401\"", Sharing::Asked) },
    Kind {
        units: 2,
        late: 1,
        ..kind("/costs", "rate: MAX/d, burst: MAX, cost: 'response:x-cost', cost_estimate: 1", Sharing::Closed)
    },
    // each request has a name of its own
    kind("/names", "type: distinct, of: header:x-name, max: MAX, window: 744h", Sharing::Asked),
    Kind { late: 1, ..kind("/bytes", "rate: MAXKiB/d, burst: MAXKiB, sharing: exact", Sharing::Closed) },
];

/// Half of what `/bytes` charges as one unit: it is charged on both ways.
pub const BODY: [u8; 512] = [b'x'; 512];

impl Kind {
    /// The limit and its route in the policy.
    pub fn limit(&self) -> String {
        let closed = if self.sharing == Sharing::Closed { ", on_store_error: closed" } else { "" };
        let words = self.words.replace("MAX", &MAX.to_string());
        let name = &self.path[1..];
        format!("  {name}: {{ key: header:x-key, missing: deny, store: shared, memory: 256KiB, {words}{closed} }}\n")
    }

    pub fn route(&self, origin: &Origin) -> String {
        let Kind { path, .. } = self;
        let to = match self.admitted == 401 || self.late > 0 {
            true => format!("origin: \"{}\"", origin.address()),
            false => "respond: { status: 200 }".to_owned(),
        };
        format!("  - {{ match: {{ path: {path} }}, limits: [{}], {to} }}\n", &path[1..])
    }

    /// The units that may be admitted beyond the limit. `before` were admitted until it had happened, and `LOADS` requests may have been on
    /// their way.
    pub fn beyond(&self, event: Event, before: usize) -> usize {
        let ended = matches!(event, Event::Killed | Event::Restarted);
        let beyond = match (event, self.sharing) {
            // gates that tell each other; a gate that is ended without a snapshot forgets what it counted
            (_, Sharing::Estimate) => (GATES - 1) * MAX + if ended { MAX } else { 0 },
            // a burst, or a window's budget, once
            (Event::Emptied, _) => MAX,
            // what the replica had not heard of, which may be all
            (Event::FailedOver, sharing) => {
                let without = match sharing {
                    // of those also what gates had taken ahead and not spent, a quarter of the burst for all of them
                    Sharing::Lease => MAX + MAX / 4,
                    Sharing::Asked => MAX,
                    Sharing::Closed | Sharing::Estimate => 0,
                };
                before + LOADS * self.units + without
            }
            (Event::Killed | Event::Restarted | Event::Upgraded, _) => 0,
        };
        // what answers on their way cost above what was held back, and a rate that gives one unit every twelve minutes
        beyond + LOADS * self.late + 1
    }
}
