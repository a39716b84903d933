//! A fair share as one limit of a policy, with the capacity that it shares out.

use std::time::Duration;

use super::offer::Offer;
use super::{FairShare, FairShareSpec, NodeSpec, Parents, spec};
use crate::limiter::follows::Follows;
use crate::limiter::kind::{Capacity, MIXED, fixed};
use crate::limiter::needs::Owed;
use crate::limiter::probe::{Probe, Seen};
use crate::limiter::state::State;
use crate::limiter::taken::Taken;
use crate::limiter::{Gauges, Judgement, Kind, Lost, Moved, Place, Refuses, Spec, kinds};
use crate::sketch::Seed;
use crate::units::{Bytes, Cost, OutOfRange, Timestamp};

/// The state of one `fair_share` limit.
#[derive(Debug)]
pub(in crate::limiter) struct SharedCapacity {
    share: FairShare,
    follows: Option<Follows>,
    /// What the policy says is shared out, per second; `None` where an origin says it.
    capacity: Option<f64>,
}

impl SharedCapacity {
    /// A fair share under no pressure.
    ///
    /// # Errors
    /// No kind, another one, or what [`FairShare::new`] refuses.
    pub fn new(spec: &Spec<'_>, seed: &Seed) -> Result<SharedCapacity, OutOfRange> {
        let (capacity, numbers) = numbers(spec)?;
        Ok(SharedCapacity {
            share: FairShare::new(&numbers, seed)?,
            follows: Follows::new(capacity, spec.origin_caps),
            capacity: fixed(capacity),
        })
    }
}

impl State for SharedCapacity {
    fn prefetch(&self, at: &Place<'_>) {
        for (node, key) in at.nodes.iter().enumerate() {
            if let Some(key) = key {
                self.share.prefetch(*key, node);
            }
        }
    }

    /// Counts the request as offered.
    fn probe(&self, at: &Place<'_>, now: Timestamp, cost: Cost, _held: u32) -> Probe {
        let offered = self.share.offer(at.nodes, now, at.dice);
        let judgement = offered.judgement(self.share.nodes.len());
        Probe::new(at, cost, judgement, Seen::Share(Offer::new(offered, at.nodes)))
    }

    fn commit(&self, probe: &Probe, now: Timestamp) -> Result<(Judgement, Option<Taken>), Lost> {
        let Seen::Share(offer) = &probe.seen else { return Err(Lost::refused(Judgement::REFUSED)) };
        Ok((self.share.admit(&offer.nodes(), &offer.offered, now)?, None))
    }

    fn follow(&self, spec: &Spec<'_>, moved: &Moved<'_>) -> Result<Box<dyn State>, OutOfRange> {
        let (capacity, numbers) = numbers(spec)?;
        let follows = Follows::new(capacity, spec.origin_caps);
        Ok(Box::new(SharedCapacity {
            share: self.share.followed_by(&numbers)?,
            follows: follows.map(|after| after.following(self.follows.as_ref(), moved.origins)),
            capacity: fixed(capacity),
        }))
    }

    fn take_over(&self) {
        if let Some(capacity) = self.capacity {
            self.share.set_capacity(capacity);
        }
    }

    fn maintain(&self, now: Timestamp) {
        self.share.maintain(now);
    }

    fn completed(&self, origin: usize, took: Duration, cap: u32) {
        if let Some(capacity) = self.follows.as_ref().and_then(|follows| follows.completed(origin, took, cap)) {
            self.share.set_capacity(capacity);
        }
    }

    fn owed(&self, _: &Kind, _: u8, standing: u64, _: Cost) -> Owed {
        Owed::shares(standing)
    }

    fn refuses(&self) -> Refuses {
        Refuses::Share
    }

    fn is_by_nodes(&self) -> bool {
        true
    }

    fn gauge(&self, gauges: &mut Gauges) {
        gauges.share = Some(self.share.alpha());
        gauges.capacity = self.share.capacity();
        gauges.offered = Some(self.share.offered_rate());
    }

    fn memory(&self) -> Bytes {
        self.share.memory()
    }
}

/// What is shared out, and by which numbers.
fn numbers(spec: &Spec<'_>) -> Result<(Capacity, FairShareSpec), OutOfRange> {
    let Some(Kind::FairShare(kinds::FairShare { capacity, multipliers, levels, charge_parents, memory })) =
        spec.kinds.first()
    else {
        return Err(MIXED);
    };
    let shared = match capacity {
        Capacity::Rate(rate) => spec::Capacity::Rate(*rate),
        Capacity::Origin(_) => spec::Capacity::Follows,
    };
    let node = |(level, multiplier): (&u8, &u32)| NodeSpec { level: *level, multiplier: f64::from(*multiplier) };
    let numbers = FairShareSpec {
        nodes: levels.iter().zip(multipliers).map(node).collect(),
        memory: *memory,
        parents: if *charge_parents { Parents::Charged } else { Parents::Apart },
        ..FairShareSpec::new(shared)
    };
    Ok((*capacity, numbers))
}
