//! Reads the counters back into a [`State`].

use prometheus::core::Metric as _;
use prometheus::{Histogram, IntCounter, IntGauge};

use super::Metrics;
use super::cells::{Each, ListenerCells, OriginCells, RouteCells};
use super::families::BUCKETS;
use super::labels::Found;
use super::shape::{LimitLabels, ListenerLabels, RouteLabels};
use crate::engine::{Outcome, Refusal};
use crate::observe::state::{Answers, Config, Limit, Listener, Origin, Requests, Route, State};
use crate::policy::Mode;
use crate::system::clock::wall_nanos;

impl Metrics {
    /// Returns the number of the policy in force, 1 at start, and when it came in force, in seconds since 1970.
    fn in_force(&self) -> (u64, u64) {
        let of = |gauge: &IntGauge| u64::try_from(gauge.get()).unwrap_or(0);
        (of(&self.generation), of(&self.reload_time))
    }

    /// Returns whether the last load of the policy file succeeded; the one at start did.
    pub fn last_reload_succeeded(&self) -> bool {
        self.reload_successful.get() == 1
    }

    /// Returns how many requests had a forwarding header that was not believed, because their peer is not trusted, and all requests.
    pub fn headers_ignored(&self) -> (u64, u64) {
        let ignored = self.clients.counts().find(|(found, _)| **found == Found::HeaderIgnored);
        (ignored.map_or(0, |(_, count)| count), self.clients.total())
    }

    /// Returns a state with everything that is counted here. Takes some microseconds for each name; not for the path of requests.
    pub fn state(&self) -> State {
        let (generation, since) = self.in_force();
        let now = wall_nanos() / 1_000_000_000;
        let unmatched = self.listeners.iter().map(|listener| listener.unmatched.total()).sum();
        let routes: Vec<Route> =
            self.shape.routes.iter().enumerate().map(|(index, labels)| self.route(index, labels)).collect();
        let refused = self.routes.iter().map(|route| route.refused.total()).sum::<u64>() + self.refused.total();
        let listeners = self.shape.listeners.iter().zip(&self.listeners);
        let mut origins: Vec<Origin> =
            self.shape.origins.iter().zip(&self.origins).map(|(name, cells)| of_origin(name, cells)).collect();
        for route in &routes {
            if let Some(origin) = route.origin.and_then(|origin| origins.get_mut(origin)) {
                origin.answers += route.answers;
            }
        }
        State {
            schema: "tidegate.status/1".into(),
            config: Config { generation, in_force_seconds: now.saturating_sub(since), ..Config::default() },
            requests: Requests {
                ended: routes.iter().map(|route| route.ended).sum::<u64>() + unmatched,
                refused,
                malformed: self.malformed.total(),
                unmatched,
            },
            listeners: listeners.map(|(labels, cells)| of_listener(labels, cells)).collect(),
            routes,
            limits: self.limits(),
            origins,
            bounds: &BUCKETS,
            ..State::default()
        }
    }

    fn route(&self, index: usize, labels: &RouteLabels) -> Route {
        let codes = self.listeners.iter().filter_map(|listener| listener.routes.get(index));
        let mut route =
            Route { name: labels.name.clone(), ended: codes.map(|codes| codes.total()).sum(), ..Route::default() };
        let Some(cells) = self.routes.get(index) else { return route };
        route.delayed = cells.delays();
        if let Some(forwarded) = &cells.forwarded {
            route.origin = Some(forwarded.origin);
            route.answers = Answers::of(forwarded.answers.each_ref().map(IntCounter::get));
            route.durations = durations(&forwarded.duration);
        }
        for (refusal, count) in cells.refused.counts() {
            match refusal {
                Refusal::Inflight
                | Refusal::FairShare
                | Refusal::OriginFull
                | Refusal::StoreSilent
                | Refusal::Overload => {
                    route.shed += count;
                }
                _ => route.limited += count,
            }
        }
        route
    }

    /// A limit is counted apart in each route that uses it.
    fn limits(&self) -> Vec<Limit> {
        let named = |labels: &LimitLabels| Limit {
            name: labels.name.clone(),
            mode: labels.mode.word().into(),
            decisions: Outcome::ALL.map(|outcome| (outcome.word().into(), 0)).into(),
            ..Limit::default()
        };
        let mut limits: Vec<Limit> = self.shape.limits.iter().map(named).collect();
        for (rule, more) in self.routes.iter().flat_map(RouteCells::refused_elsewhere) {
            if let Some(limit) = limits.get_mut(rule) {
                limit.refused_elsewhere += more;
            }
        }
        for (rule, mode, counts) in self.routes.iter().flat_map(RouteCells::limits) {
            let Some(limit) = limits.get_mut(rule) else { continue };
            for (outcome, more) in counts {
                if (mode, outcome) == (Mode::Shadow, Outcome::Refused) {
                    limit.not_obeyed += more;
                }
                if let Some(count) = limit.decisions.get_mut(outcome.word()) {
                    *count += more;
                }
            }
        }
        limits
    }
}

fn of_listener(labels: &ListenerLabels, cells: &ListenerCells) -> Listener {
    Listener {
        name: labels.name.clone(),
        connections: u64::try_from(cells.open.get()).unwrap_or(0),
        accepted: cells.accepted.get(),
        refused: cells.refused.total(),
        ..Listener::default()
    }
}

fn of_origin(name: &str, cells: &OriginCells) -> Origin {
    Origin {
        name: name.to_owned(),
        errors: cells.errors.total(),
        shed: cells.shed.iter().map(Each::total).sum(),
        retries: cells.retries.get(),
        ..Origin::default()
    }
}

/// Returns the observations by bucket; the last holds those above all bounds.
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
