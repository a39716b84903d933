//! The places of `type: inflight` with a `key`: at most N requests of a client, tenant or whatever the key says at once.
//!
//! `held and not given back ≤ max`, for every key at every instant. The keys are as many as clients please, so they are
//! counted in a summing sketch of fixed size; a number that the policy file fixes is counted exactly, in
//! [`slots`](crate::limiter::slots). A place is lent as a [`KeyPermit`] and comes back when that is dropped: at the answer's end, on
//! error, on a client's abort, on panic and on shutdown alike. A refused request reads eight cells and writes nothing.
//!
//! Streams that live long (upgrades, server-sent events) take a permit of another limit and then give this one back, or
//! else they would use up the cap for as long as they live.
//!
//! **Sizing.** A key's count is too high with probability (1 − e^(−n/w))^d beside n other busy keys, d rows and w
//! columns; it is refused wrongly only if the excess reaches its cap, which takes keys near their own caps in every row.
//!
//! | rows × columns | memory | n = 100 | 1,000 | 10,000 | 100,000 |
//! |---|---|---|---|---|---|
//! | 4 × 8,192, as in `pingora_limits::Inflight` | 128 KiB | 2·10⁻⁸ | 1.7·10⁻⁴ | 0.25 | 1 |
//! | 4 × 65,536 | 1 MiB | 5·10⁻¹² | 5·10⁻⁸ | 4·10⁻⁴ | 0.38 |
//! | **8 × 65,536**, the default | 2 MiB | 3·10⁻²³ | 3·10⁻¹⁵ | 1.6·10⁻⁷ | 0.14 |
//! | 4 × 524,288 | 8 MiB | 10⁻¹⁵ | 10⁻¹¹ | 10⁻⁷ | 9·10⁻⁴ |
//! | 8 × 262,144, ours with that memory | 8 MiB | 4·10⁻²⁸ | 4·10⁻²⁰ | 4·10⁻¹² | 1.1·10⁻⁴ |

use std::fmt;
use std::sync::Arc;

use crate::limiter::{Judgement, Lost};
use crate::sketch::{KeyHash, Seed, SummingTable};
use crate::units::{Bytes, Cost, OutOfRange};

/// The state of one `inflight` limit by key.
#[derive(Debug)]
pub struct InflightByKey {
    table: SummingTable,
    max: u32,
    seed: Seed,
    /// The class that long-lived streams move to.
    upgraded: Option<Arc<InflightByKey>>,
}

impl InflightByKey {
    /// The memory of the table unless the operator says otherwise: see the table of sizes above.
    pub const DEFAULT_MEMORY: Bytes = SummingTable::DEFAULT_MEMORY;

    /// `max` places for each key, all of them free.
    ///
    /// # Errors
    /// What [`SummingTable::with_memory`] refuses.
    pub fn new(max: u32, memory: Bytes, seed: Seed) -> Result<InflightByKey, OutOfRange> {
        Ok(InflightByKey { table: SummingTable::with_memory(memory, &seed)?, max, seed, upgraded: None })
    }

    /// Adds a class that places move to when their connection is switched to another protocol.
    pub fn with_upgraded(self, upgraded: Arc<InflightByKey>) -> InflightByKey {
        InflightByKey { upgraded: Some(upgraded), ..self }
    }

    /// Loads what a probe of the key will read into the cache.
    pub fn prefetch(&self, key: KeyHash) {
        self.table.prefetch(key);
    }

    /// Where the key's places are counted, for a request that comes back to them.
    pub fn spot(&self, key: KeyHash) -> [u32; 8] {
        self.table.spot(key)
    }

    /// Whether `cost` places of `max` are free for the key now. `max` is [`InflightByKey::max`], or the key's tier's.
    pub fn probe(&self, key: KeyHash, cost: Cost, max: u32) -> Judgement {
        self.probe_at(self.table.spot(key), cost, max)
    }

    /// [`InflightByKey::probe`] of the key whose spot it is.
    #[inline]
    pub fn probe_at(&self, spot: [u32; 8], cost: Cost, max: u32) -> Judgement {
        let others = self.table.estimate_at(spot);
        judgement(others, cost, max, others.checked_add(cost.get()).is_some_and(|sum| sum <= max))
    }

    /// Takes `cost` places of `max`.
    ///
    /// # Errors
    /// They are not free any more; nothing was taken.
    pub fn admit(self: &Arc<Self>, key: KeyHash, cost: Cost, max: u32) -> Result<(Judgement, KeyPermit), Lost> {
        self.admit_at(key, self.table.spot(key), cost, max)
    }

    /// [`InflightByKey::admit`] of the key whose spot it is.
    ///
    /// # Errors
    /// They are not free any more; nothing was taken.
    #[inline]
    pub fn admit_at(
        self: &Arc<Self>,
        key: KeyHash,
        spot: [u32; 8],
        cost: Cost,
        max: u32,
    ) -> Result<(Judgement, KeyPermit), Lost> {
        match self.table.reserve_at(spot, cost.get(), max) {
            Ok(others) => {
                let permit = KeyPermit { limiter: Arc::clone(self), key, spot, cost };
                Ok((judgement(others, cost, max, true), permit))
            }
            Err(others) => Err(Lost::refused(judgement(others, cost, max, false))),
        }
    }

    /// The table, for places that another process holds.
    pub(super) fn table(&self) -> &SummingTable {
        &self.table
    }

    /// How many places each key has, unless its tier says otherwise.
    pub fn max(&self) -> u32 {
        self.max
    }

    /// At least how many places the key holds.
    pub fn held(&self, key: KeyHash) -> u32 {
        self.table.estimate(key)
    }

    /// How many places all keys hold together, for a gauge. Reads one row of the table, some microseconds' work.
    pub fn held_total(&self) -> u64 {
        self.table.total()
    }

    /// How often a place came back that was not taken, which is always zero unless the gate itself is at fault.
    pub fn faults(&self) -> u64 {
        self.table.faults()
    }

    /// The seed that keys are hashed under.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// The size of the sketch.
    pub fn memory(&self) -> Bytes {
        self.table.memory()
    }
}

/// Places that one request holds; dropping it gives them back.
#[must_use = "a permit that is dropped at once limits nothing"]
pub struct KeyPermit {
    limiter: Arc<InflightByKey>,
    key: KeyHash,
    /// Where they are counted.
    spot: [u32; 8],
    cost: Cost,
}

impl KeyPermit {
    /// The same places of another limiter, if it has room for them beside `max`; these are given back when they are dropped.
    pub fn moved_to(&self, other: &Arc<InflightByKey>, max: u32) -> Option<KeyPermit> {
        other.admit(self.key, self.cost, max).ok().map(|(_, permit)| permit)
    }

    /// The same places in the class of switched connections, as [`KeyPermit::moved_to`]; `None` also if it has no such class
    /// or they are in it already.
    pub fn upgraded(&self, max: u32) -> Option<KeyPermit> {
        self.moved_to(self.limiter.upgraded.as_ref()?, max)
    }

    /// Whose places they are.
    pub fn limiter(&self) -> &Arc<InflightByKey> {
        &self.limiter
    }
}

impl Drop for KeyPermit {
    fn drop(&mut self) {
        self.limiter.table.release_at(self.spot, self.cost.get());
    }
}

impl fmt::Debug for KeyPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPermit").field("cost", &self.cost).finish_non_exhaustive()
    }
}

/// `others`: places held without counting this request.
#[inline]
fn judgement(others: u32, cost: Cost, max: u32, admitted: bool) -> Judgement {
    // most cost one, and a division takes as long as all else here
    let requests = |units: u32| if cost == Cost::ONE { units } else { units / cost.get() };
    let (free, quota) = (max.saturating_sub(others), requests(max));
    // a place comes back when another request ends, which nobody can promise
    match admitted {
        true => Judgement::admitted(requests(free.saturating_sub(cost.get())), quota),
        false => Judgement { remaining: requests(free), quota, standing: u64::from(others), ..Judgement::REFUSED },
    }
}

#[cfg(test)]
mod tests;
