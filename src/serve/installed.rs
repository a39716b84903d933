//! A policy made ready to serve: its snapshot, its origins at run time, and what of its answers can be written in advance.

use std::sync::Arc;

use http::HeaderName;

use super::metrics::{LimitState, Metrics, OriginLoad, Reader};
use super::origin::OriginState;
use crate::answer::RouteFields;
use crate::engine::Snapshot;
use crate::limiter::Limiter;

/// Everything that a request takes from the policy in force. Swapped as one.
pub struct Installed {
    snapshot: Snapshot,
    origins: Vec<Arc<OriginState>>,
    fields: Vec<RouteFields>,
    fields_read: Vec<HeaderName>,
    metrics: Metrics,
}

impl Installed {
    /// A snapshot with the metrics that were resolved for its policy, which learn here what to read from it.
    pub fn new(snapshot: Snapshot, metrics: Metrics) -> Installed {
        let policy = snapshot.policy();
        let origins: Vec<_> = policy.origins.iter().map(|origin| OriginState::new(Arc::clone(origin))).collect();
        let fields = policy.routes.iter().map(|route| RouteFields::new(policy, route)).collect();
        for origin in &origins {
            metrics.register_origin(&origin.spec().name, reader_of_origin(Arc::clone(origin)));
        }
        for (rule, limiter) in policy.rules.iter().zip(snapshot.limiters()) {
            metrics.register_limit(&rule.name, reader_of_limit(Arc::clone(limiter)));
        }
        let fields_read = policy.fields_read();
        Installed { snapshot, origins, fields, fields_read, metrics }
    }

    /// The policy and the state of its limits.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// All origins, in the policy's order.
    pub fn origins(&self) -> &[Arc<OriginState>] {
        &self.origins
    }

    /// The origin at this position in the policy.
    pub fn origin(&self, index: usize) -> Option<&Arc<OriginState>> {
        self.origins.get(index)
    }

    /// The prepared rate-limit fields of the route at this position in the policy.
    pub fn fields(&self, route: usize) -> Option<&RouteFields> {
        self.fields.get(route)
    }

    /// The names of all header fields that a decision may read.
    pub fn fields_read(&self) -> &[HeaderName] {
        &self.fields_read
    }

    /// The counters of this policy.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

fn reader_of_origin(origin: Arc<OriginState>) -> Reader<OriginLoad> {
    Arc::new(move || OriginLoad {
        inflight: u64::from(origin.inflight()),
        limit: origin.spec().inflight.map(|cap| u64::from(cap.max)),
        queued: u64::from(origin.waiting()),
    })
}

fn reader_of_limit(limiter: Arc<Limiter>) -> Reader<LimitState> {
    Arc::new(move || match &*limiter {
        Limiter::Rate(rate) => LimitState { inflight: None, memory_bytes: Some(rate.memory().0) },
        Limiter::Inflight(inflight) => LimitState {
            inflight: Some(inflight.slots().iter().map(|slots| u64::from(slots.held())).sum()),
            memory_bytes: None,
        },
    })
}
