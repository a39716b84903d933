//! Tells the metrics where to read the state of limits, origins and stores.

use std::sync::Arc;

use super::backends::Backends;
use crate::engine::{Cluster, Snapshot};
use crate::limiter::Limiter;
use crate::limiter::cluster::Sharing;
use crate::observe::metrics::{EndpointLoad, LimitState, Metrics, OriginError, OriginLoad, Reader};
use crate::origins::origin::OriginState;
use crate::policy::OriginAddress;
use crate::system::clock::Clock;
use crate::units::Timestamp;

/// Has these metrics read the state of limits, origins and stores from now on, in place of what they read before.
pub fn register(metrics: &Metrics, snapshot: &Snapshot, backends: &Backends, clock: Clock) {
    for (index, origin) in backends.origins().iter().enumerate() {
        if let Some(counter) = metrics.origin_error_counter(index, OriginError::Surplus) {
            origin.way().count_surplus(counter);
        }
        metrics.register_origin(&origin.spec().name, of_origin(Arc::clone(origin), clock));
    }
    for (index, (rule, limiter)) in snapshot.policy().rules.iter().zip(snapshot.limiters()).enumerate() {
        let cluster = snapshot.cluster(index).cloned();
        metrics.register_limit(&rule.name, of_limit(Arc::clone(limiter), cluster, clock));
    }
    let stores = backends.stores().to_vec();
    metrics.register_stores(Arc::new(move || stores.iter().map(|store| store.state()).collect()));
}

fn of_origin(origin: Arc<OriginState>, clock: Clock) -> Reader<OriginLoad> {
    Arc::new(move || OriginLoad {
        inflight: u64::from(origin.inflight()),
        limit: origin.limit().map(u64::from),
        queued: u64::from(origin.waiting()),
        abandoned: u64::from(origin.abandoned().count()),
        despite: origin.watches().then(|| origin.despite()),
        endpoints: endpoints(&origin, clock.now()),
    })
}

/// The state of each address that the policy writes. A name stands for as many addresses as its name server says.
fn endpoints(origin: &OriginState, now: Timestamp) -> Vec<EndpointLoad> {
    let ring = origin.ring();
    let of_entry = |(entry, address): (usize, &OriginAddress)| {
        let mine = || ring.endpoints.iter().filter(move |endpoint| endpoint.entry == entry);
        let (all, usable) = (mine().count(), mine().filter(|endpoint| endpoint.is_usable(now)).count());
        EndpointLoad {
            endpoint: address.authority(),
            healthy: if all == 0 { 0.0 } else { usable as f64 / all as f64 },
            ejections: mine().map(|endpoint| endpoint.record.ejections()).sum(),
        }
    };
    origin.spec().addresses.iter().enumerate().map(of_entry).collect()
}

fn of_limit(limiter: Arc<Limiter>, cluster: Option<Arc<Cluster>>, clock: Clock) -> Reader<LimitState> {
    Arc::new(move || {
        let gauges = limiter.gauges();
        // a limit without keys has a few counters and no table
        let memory_bytes = limiter.is_keyed().then_some(gauges.memory);
        let leases = cluster.as_ref().filter(|cluster| cluster.shared().sharing == Sharing::Lease);
        let leased = leases.map(|cluster| cluster.leases().outstanding(clock.now()));
        LimitState { gauges, memory_bytes, crowding: limiter.crowding(clock.now()), leased }
    })
}
