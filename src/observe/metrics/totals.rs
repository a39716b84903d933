//! What the counters stand at, read back by name for the [history](crate::observe::history).

use prometheus::core::Metric as _;
use prometheus::{Histogram, IntGauge};

use super::cells::{OriginCells, RouteCells};
use super::families::BUCKETS;
use super::labels::Found;
use super::shape::{LimitLabels, RouteLabels};
use super::{EndpointLoad, Metrics};
use crate::engine::Refusal;
use crate::observe::history::{LimitTotals, OriginTotals, RouteTotals, Totals};
use crate::policy::Mode;

impl Metrics {
    /// The number of the policy in force, 1 at start, and since when it is, in seconds since 1970.
    pub fn in_force(&self) -> (u64, u64) {
        let of = |gauge: &IntGauge| u64::try_from(gauge.get()).unwrap_or(0);
        (of(&self.generation), of(&self.reload_time))
    }

    /// Whether the last load of the policy file succeeded; the one at start did.
    pub fn last_reload_succeeded(&self) -> bool {
        self.reload_successful.get() == 1
    }

    /// Requests whose forwarding header was not believed, because their peer is not trusted, and all requests.
    pub fn headers_ignored(&self) -> (u64, u64) {
        let ignored = self.clients.counts().find(|(found, _)| **found == Found::HeaderIgnored);
        (ignored.map_or(0, |(_, count)| count), self.clients.total())
    }

    /// An origin's addresses, as they are now.
    pub fn endpoints(&self, origin: &str) -> Vec<EndpointLoad> {
        self.families.live.read_origin(origin).unwrap_or_default().endpoints
    }

    /// What all counters of routes, limits and origins stand at. Takes some microseconds for each; not for the path of
    /// requests.
    pub fn totals(&self) -> Totals {
        let ended = |route: Option<usize>| -> u64 {
            let codes = self.listeners.iter().filter_map(|listener| match route {
                Some(route) => listener.routes.get(route),
                None => Some(&listener.unmatched),
            });
            codes.map(|codes| codes.total()).sum()
        };
        let routes = self.shape.routes.iter().zip(&self.routes).enumerate();
        let origins = self.shape.origins.iter().zip(&self.origins);
        Totals {
            routes: routes.map(|(index, (labels, cells))| of_route(labels, cells, ended(Some(index)))).collect(),
            limits: self.of_limits(),
            origins: origins.map(|(name, cells)| self.of_origin(name, cells)).collect(),
            unmatched: ended(None),
        }
    }

    /// A limit is counted apart in each route that uses it.
    fn of_limits(&self) -> Vec<LimitTotals> {
        let named = |labels: &LimitLabels| LimitTotals { name: labels.name.clone(), ..LimitTotals::default() };
        let mut limits: Vec<LimitTotals> = self.shape.limits.iter().map(named).collect();
        for (rule, counts) in self.routes.iter().flat_map(RouteCells::limits) {
            let (Some(totals), Some(labels)) = (limits.get_mut(rule), self.shape.limits.get(rule)) else { continue };
            let [allowed, delayed, tagged, limited, exempt] = counts;
            totals.allowed += allowed + delayed;
            totals.exempt += exempt;
            totals.shadow += tagged;
            match labels.mode {
                Mode::Enforce => totals.limited += limited,
                Mode::Shadow => totals.shadow += limited,
            }
        }
        limits
    }

    fn of_origin(&self, name: &str, cells: &OriginCells) -> OriginTotals {
        let load = self.families.live.read_origin(name).unwrap_or_default();
        OriginTotals {
            name: name.to_owned(),
            inflight: load.inflight,
            cap: load.limit,
            queue: load.queued,
            errors: cells.errors.total(),
            shed: cells.shed.total(),
            durations: durations(&cells.duration),
            bounds: &BUCKETS,
        }
    }
}

fn of_route(labels: &RouteLabels, cells: &RouteCells, ended: u64) -> RouteTotals {
    let (mut limited, mut shed) = (0, 0);
    for (refusal, count) in cells.refused.counts() {
        match refusal {
            Refusal::Inflight | Refusal::FairShare | Refusal::OriginFull | Refusal::StoreSilent => shed += count,
            _ => limited += count,
        }
    }
    RouteTotals { name: labels.name.clone(), ended, delayed: cells.delays(), limited, shed }
}

/// Observations by bucket; the last holds those above all bounds.
fn durations(histogram: &Histogram) -> Vec<u64> {
    let metric = histogram.metric();
    let told = metric.get_histogram();
    let mut below = 0;
    let mut counts = Vec::with_capacity(BUCKETS.len() + 1);
    for bucket in told.get_bucket() {
        counts.push(bucket.cumulative_count().saturating_sub(below));
        below = bucket.cumulative_count();
    }
    counts.push(told.get_sample_count().saturating_sub(below));
    counts
}
