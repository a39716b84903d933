//! A policy made ready to serve: its snapshot, its origins at run time, and what of its answers can be written in advance.

use std::sync::Arc;

use http::HeaderName;

use super::flood::Flood;
use super::metrics::{LimitState, Metrics, OriginLoad, Reader};
use super::origin::OriginState;
use super::refused::MostRefused;
use crate::answer::RouteFields;
use crate::engine::Snapshot;
use crate::limiter::Limiter;
use crate::policy::{Capacity, Kind, OnLimit, Policy, Rule};

/// Everything that a request takes from the policy in force. Swapped as one.
pub struct Installed {
    snapshot: Snapshot,
    origins: Vec<Arc<OriginState>>,
    fields: Vec<RouteFields>,
    fields_read: Vec<HeaderName>,
    tag_fields: Vec<HeaderName>,
    times_origins: bool,
    floods: Vec<Option<Flood>>,
    refused: MostRefused,
    metrics: Metrics,
}

impl Installed {
    /// A snapshot with the metrics that were resolved for its policy, which learn here what to read from it, and with what
    /// counts its refusals.
    pub fn new(snapshot: Snapshot, metrics: Metrics, refused: MostRefused) -> Installed {
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
        let tag_fields = tag_fields(policy);
        let times_origins = policy.rules.iter().any(|rule| follows_an_origin(rule));
        let floods = policy.rules.iter().map(|rule| Flood::of(rule)).collect();
        Installed { snapshot, origins, fields, fields_read, tag_fields, times_origins, floods, refused, metrics }
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

    /// The names of all fields that limits with `action: tag` may send to an origin; without doubles. Clients have no say in
    /// them.
    pub fn tag_fields(&self) -> &[HeaderName] {
        &self.tag_fields
    }

    /// Whether any limit wants to know how long origins take to answer.
    pub fn times_origins(&self) -> bool {
        self.times_origins
    }

    /// What is known of the refusals of the limit at this position in the policy, if it is a `fair_share`.
    pub fn flood(&self, rule: usize) -> Option<&Flood> {
        self.floods.get(rule)?.as_ref()
    }

    /// Whom its limits refuse most.
    pub fn refused(&self) -> &MostRefused {
        &self.refused
    }

    /// The counters of this policy.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

fn tag_fields(policy: &Policy) -> Vec<HeaderName> {
    let mut names: Vec<HeaderName> = Vec::new();
    for rule in &policy.rules {
        if let OnLimit::Tag { header } = &rule.action
            && !names.contains(header)
        {
            names.push(header.clone());
        }
    }
    names
}

/// Whether the limit shares out what an origin can take, which shows in how long that one takes.
fn follows_an_origin(rule: &Rule) -> bool {
    let tiers = rule.tiers.iter().filter_map(|tier| tier.kind.as_ref());
    let mut kinds = std::iter::once(&rule.kind).chain(tiers);
    kinds.any(|kind| matches!(kind, Kind::FairShare { capacity: Capacity::Origin(_), .. }))
}

fn reader_of_origin(origin: Arc<OriginState>) -> Reader<OriginLoad> {
    Arc::new(move || OriginLoad {
        inflight: u64::from(origin.inflight()),
        limit: origin.spec().inflight.map(|cap| u64::from(cap.max)),
        queued: u64::from(origin.waiting()),
    })
}

fn reader_of_limit(limiter: Arc<Limiter>) -> Reader<LimitState> {
    Arc::new(move || {
        let gauges = limiter.gauges();
        // a limit without keys has a few counters and no table worth telling of
        let memory_bytes = limiter.is_keyed().then_some(gauges.memory);
        LimitState { gauges, memory_bytes }
    })
}
