//! What the counters stand at, read back by name for the [history](crate::serve::telling::history).

use prometheus::Histogram;
use prometheus::core::Metric as _;

use super::Metrics;
use super::cells::{OriginCells, RouteCells};
use super::families::BUCKETS;
use super::shape::{LimitLabels, RouteLabels};
use crate::engine::Refusal;
use crate::policy::Mode;
use crate::serve::telling::history::{LimitTotals, OriginTotals, RouteTotals, Totals};

impl Metrics {
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
        let limits = self.shape.limits.iter().enumerate();
        let origins = self.shape.origins.iter().zip(&self.origins);
        Totals {
            routes: routes.map(|(index, (labels, cells))| of_route(labels, cells, ended(Some(index)))).collect(),
            limits: limits.map(|(rule, labels)| self.of_limit(rule, labels)).collect(),
            origins: origins.map(|(name, cells)| self.of_origin(name, cells)).collect(),
            unmatched: ended(None),
        }
    }

    /// A limit is counted apart in each route that uses it.
    fn of_limit(&self, rule: usize, labels: &LimitLabels) -> LimitTotals {
        let mut totals = LimitTotals { name: labels.name.clone(), ..LimitTotals::default() };
        for cells in self.routes.iter().filter_map(|route| route.limit(usize::MAX, rule)) {
            let [allowed, delayed, tagged, limited, exempt] = cells.counts();
            totals.allowed += allowed + delayed;
            totals.exempt += exempt;
            totals.shadow += tagged;
            match labels.mode {
                Mode::Enforce => totals.limited += limited,
                Mode::Shadow => totals.shadow += limited,
            }
        }
        totals
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
            Refusal::Inflight | Refusal::FairShare | Refusal::OriginFull => shed += count,
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
