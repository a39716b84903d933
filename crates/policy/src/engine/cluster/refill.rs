//! Questions in the background: for a lease that runs low, or one that is spent.

use super::Errand;
use crate::client::Client;
use crate::engine::judged::Judged;
use crate::engine::snapshot::Snapshot;
use crate::limiter::cluster::Begin;
use crate::request::Request;
use crate::units::Timestamp;

impl Snapshot {
    /// Whether [`Snapshot::refill`] may have an errand for any limit of the request.
    pub fn refills(&self, judged: &Judged) -> bool {
        judged.refills != 0
    }

    /// The errand that should be run in the background for a limit that refused this request, or that had to be asked for it,
    /// if nobody is on it.
    pub fn refill(
        &self,
        judged: &Judged,
        slot: usize,
        (request, client): (&Request<'_>, &Client),
        nodes: u32,
        now: Timestamp,
    ) -> Option<Errand> {
        let (rule, cluster, ask) = self.shared_at(judged, slot).filter(|_| judged.refills >> slot & 1 == 1)?;
        let (key, promise) = cluster.held_by(&ask.place);
        let Begin::Ask(asking) = cluster.leases.refill(key, &promise, nodes, now) else { return None };
        let numbers = (asking.wanted(), asking.least());
        self.errand((rule, cluster, &ask), (request, client, judged.decision.route), Some(asking), numbers, now)
    }
}
