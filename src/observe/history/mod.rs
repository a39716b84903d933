//! The last ten minutes of the counters, second by second. Not a store of metrics: it ends with the process; for more use
//! Prometheus.
//!
//! Once a second the counters of the [`State`] are read, and their growth is a point. Requests pay nothing for it. Its memory is
//! fixed by the policy: 2,400 bytes for each number of a route (5), a limit (4) and an origin (11), 1.4 KB for the times of an origin ([`ROWS`]), and 2 KB for the
//! last seconds (`recent`) of each route and origin.
//!
//! Series are kept by name. After a reload series whose names stay continue, the others are dropped.

mod heat;
mod points;
mod quantile;
mod recent;
mod ring;
mod saved;

use std::collections::BTreeMap;

use super::state::{self, State};
use crate::units::Timestamp;
use heat::Heat;
pub use heat::{COLUMNS, Column, ROWS};
use parking_lot::Mutex;
pub use points::{LimitPast, OriginPast, Past, RoutePast};
use quantile::quantile;
use recent::{Forwarded, Lately, grown};
use ring::Ring;
pub use ring::SECONDS;

/// Ten minutes of everything. The lock is taken once a second by whoever notes, and by whoever reads; never by a request.
#[derive(Debug, Default)]
pub struct History {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    routes: BTreeMap<String, Route>,
    limits: BTreeMap<String, Limit>,
    origins: BTreeMap<String, Origin>,
}

impl History {
    /// Of a process that has done nothing yet.
    pub fn new() -> History {
        History::default()
    }

    /// Notes what the counters stand at. To be called about once a second; a call in the second of the one before adds to the next,
    /// seconds without a call get the mean of what came since. The first call only says where to begin.
    pub fn note(&self, now: Timestamp, totals: &State) {
        let mut kept = self.kept.lock();
        let Some(last) = kept.last else {
            kept.begin(now, totals);
            return;
        };
        let (from, to) = (second(last) + 1, second(now));
        if to < from {
            return;
        }
        let step =
            Step { from: from.max((to + 1).saturating_sub(SECONDS as u64)), to, took: now.since(last).as_secs_f64() };
        kept.last = Some(now);
        kept.note(step, totals);
        kept.forget(totals);
    }

    /// How many seconds have been noted, up to [`SECONDS`]: points before them mean nothing.
    pub fn seconds(&self) -> usize {
        let kept = self.kept.lock();
        let (first, last) = (kept.first.map_or(0, second), kept.last.map_or(0, second));
        usize::try_from(last.saturating_sub(first)).unwrap_or(SECONDS).min(SECONDS)
    }

    /// Returns all routes together, over the last so many seconds.
    pub fn flow(&self, seconds: usize) -> RoutePast {
        let kept = self.kept.lock();
        let last = kept.last.map_or(0, second);
        let mut sums = [const { Vec::new() }; 5].map(|mut sum: Vec<f32>| {
            sum.resize(seconds.min(SECONDS), 0.0);
            sum
        });
        for route in kept.routes.values() {
            for (sum, ring) in sums.iter_mut().zip(&route.rings) {
                sum.iter_mut().zip(ring.until(last, seconds)).for_each(|(sum, point)| *sum += point);
            }
        }
        let [allowed, delayed, limited, shed, failed] = sums;
        RoutePast { allowed, delayed, limited, shed, failed }
    }

    /// Fills in the last seconds of each route and origin.
    pub fn fill_recent(&self, state: &mut State) {
        let kept = self.kept.lock();
        for route in &mut state.routes {
            route.recent =
                kept.routes.get(&route.name).map(|kept| kept.lately.recent(state.bounds)).unwrap_or_default();
        }
        for origin in &mut state.origins {
            origin.recent =
                kept.origins.get(&origin.name).map(|kept| kept.lately.recent(state.bounds)).unwrap_or_default();
        }
    }

    /// Returns what each origin answered in the last so many seconds.
    pub fn endings(&self, seconds: usize) -> Vec<Endings> {
        let kept = self.kept.lock();
        let last = kept.last.map_or(0, second);
        let sum = |ring: &Ring| ring.until(last, seconds).iter().map(|point| f64::from(*point)).sum::<f64>();
        let endings = |(name, origin): (&String, &Origin)| {
            let [.., shed, p50, _, _, ended, server_errors, unanswered] = &origin.rings;
            Endings {
                origin: name.clone(),
                seconds,
                ended: sum(ended),
                server_errors: sum(server_errors),
                unanswered: sum(unanswered),
                shed: sum(shed),
                p50_seconds: p50.until(last, 1).last().map_or(0.0, |point| f64::from(*point)),
            }
        };
        kept.origins.iter().map(endings).collect()
    }

    /// Returns the last so many seconds of every name, [`SECONDS`] at most.
    pub fn lately(&self, seconds: usize) -> Past {
        self.select(seconds, |_, _| true)
    }

    /// Returns the last so many seconds of the names that are `wanted`, by what they are names of.
    pub fn select(&self, seconds: usize, wanted: impl Fn(Named, &str) -> bool) -> Past {
        let kept = self.kept.lock();
        let last = kept.last.map_or(0, second);
        let points = |ring: &Ring| ring.until(last, seconds);
        let route = |(name, route): (&String, &Route)| {
            let [allowed, delayed, limited, shed, failed] = route.rings.each_ref().map(points);
            (name.clone(), RoutePast { allowed, delayed, limited, shed, failed })
        };
        let limit = |(name, limit): (&String, &Limit)| {
            let [allowed, limited, shadow, elsewhere] = limit.rings.each_ref().map(points);
            (name.clone(), LimitPast { allowed, limited, shadow, elsewhere })
        };
        let origin = |(name, origin): (&String, &Origin)| {
            let [inflight, cap, queue, errors, shed, p50, p95, p99, ended, server_errors, unanswered] =
                origin.rings.each_ref().map(points);
            let past = OriginPast {
                inflight,
                cap,
                queue,
                errors,
                shed,
                p50,
                p95,
                p99,
                ended,
                server_errors,
                unanswered,
                heat: origin.heat.until(last),
            };
            (name.clone(), past)
        };
        Past {
            schema: "tidegate.history/1".into(),
            second: kept.last.map(second),
            routes: kept.routes.iter().filter(|(name, _)| wanted(Named::Route, name)).map(route).collect(),
            limits: kept.limits.iter().filter(|(name, _)| wanted(Named::Limit, name)).map(limit).collect(),
            origins: kept.origins.iter().filter(|(name, _)| wanted(Named::Origin, name)).map(origin).collect(),
        }
    }
}

/// What an origin answered in a window.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Endings {
    /// Its name.
    pub origin: String,
    /// Length of the window.
    pub seconds: usize,
    /// Requests that ended.
    pub ended: f64,
    /// Of these, the ones answered 5xx.
    pub server_errors: f64,
    /// Of these, the ones that got no whole answer.
    pub unanswered: f64,
    /// Requests that found no place.
    pub shed: f64,
    /// The time that half of the last ten seconds' requests did not exceed until the answer's head; 0 without any.
    pub p50_seconds: f64,
}

/// Bearer of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// A route.
    Route,
    /// A limit.
    Limit,
    /// An origin.
    Origin,
}

fn second(now: Timestamp) -> u64 {
    now.nanos() / 1_000_000_000
}

/// The seconds that one note fills, and how long they really were.
#[derive(Debug, Clone, Copy)]
struct Step {
    from: u64,
    to: u64,
    took: f64,
}

impl Step {
    /// Returns whether it fills no second.
    fn is_empty(self) -> bool {
        self.to < self.from
    }

    fn fill(self, ring: &mut Ring, value: f64) {
        for second in self.from..=self.to {
            ring.set(second, value as f32);
        }
    }

    fn fill_rate(self, ring: &mut Ring, count: u64) {
        self.fill(ring, count as f64 / self.took);
    }
}

impl Kept {
    /// Drops the names that are gone. Names differ, so there are some only if more are kept than were told.
    fn forget(&mut self, totals: &State) {
        if self.routes.len() > totals.routes.len() {
            self.routes.retain(|name, _| totals.routes.iter().any(|route| route.name == *name));
        }
        if self.limits.len() > totals.limits.len() {
            self.limits.retain(|name, _| totals.limits.iter().any(|limit| limit.name == *name));
        }
        if self.origins.len() > totals.origins.len() {
            self.origins.retain(|name, _| totals.origins.iter().any(|origin| origin.name == *name));
        }
    }

    fn begin(&mut self, now: Timestamp, totals: &State) {
        (self.first, self.last) = (Some(now), Some(now));
        // nothing is filled: what was counted before the first look did not come in one second
        let step = Step { from: 1, to: 0, took: 1.0 };
        self.note(step, totals);
    }

    fn note(&mut self, step: Step, totals: &State) {
        let mut by_origin = vec![Forwarded::default(); totals.origins.len()];
        for route in &totals.routes {
            let more = self.routes.entry(route.name.clone()).or_insert_with(Route::new).note(step, route);
            if let Some(sum) = route.origin.and_then(|origin| by_origin.get_mut(origin)) {
                sum.add(&more);
            }
        }
        for limit in &totals.limits {
            self.limits.entry(limit.name.clone()).or_insert_with(Limit::new).note(step, limit);
        }
        for (origin, more) in totals.origins.iter().zip(by_origin) {
            let kept = self.origins.entry(origin.name.clone()).or_insert_with(Origin::new);
            kept.note(step, origin, more, totals.bounds);
        }
    }
}

#[derive(Debug)]
struct Route {
    before: [u64; 4],
    /// Verdicts of requests that have not ended.
    under_way: u64,
    forwarded: Forwarded,
    lately: Lately,
    rings: [Ring; 5],
}

impl Route {
    fn new() -> Route {
        Route {
            before: [0; 4],
            under_way: 0,
            forwarded: Forwarded::default(),
            lately: Lately::default(),
            rings: std::array::from_fn(|_| Ring::new()),
        }
    }

    /// Returns what it has forwarded since the last time.
    fn note(&mut self, step: Step, totals: &state::Route) -> Forwarded {
        let [before_ended, before_delayed, before_limited, before_shed] = &mut self.before;
        let ended = grown(before_ended, totals.ended);
        let delayed = grown(before_delayed, totals.delayed);
        let limited = grown(before_limited, totals.limited);
        let shed = grown(before_shed, totals.shed);
        // A request is counted by its verdict and once more when it ends, seconds later perhaps if it waits or is slow. What
        // ended without another verdict before was allowed.
        let others = self.under_way + delayed + limited + shed;
        self.under_way = others.saturating_sub(ended);
        let more = self.forwarded.grow(totals.answers, &totals.durations);
        let failed = more.answers.errors();
        let allowed = ended.saturating_sub(others).saturating_sub(failed);
        for (ring, count) in self.rings.iter_mut().zip([allowed, delayed, limited, shed, failed]) {
            step.fill_rate(ring, count);
        }
        if !step.is_empty() {
            self.lately.push(more.clone());
        }
        more
    }
}

#[derive(Debug)]
struct Limit {
    before: [u64; 4],
    rings: [Ring; 4],
}

impl Limit {
    fn new() -> Limit {
        Limit { before: [0; 4], rings: std::array::from_fn(|_| Ring::new()) }
    }

    fn note(&mut self, step: Step, totals: &state::Limit) {
        let counts = [totals.admitted(), totals.limited(), totals.shadowed(), totals.refused_elsewhere];
        for ((ring, before), count) in self.rings.iter_mut().zip(&mut self.before).zip(counts) {
            step.fill_rate(ring, grown(before, count));
        }
    }
}

#[derive(Debug)]
struct Origin {
    before: [u64; 2],
    lately: Lately,
    rings: [Ring; 11],
    heat: Heat,
}

impl Origin {
    fn new() -> Origin {
        Origin {
            before: [0; 2],
            lately: Lately::default(),
            rings: std::array::from_fn(|_| Ring::new()),
            heat: Heat::new(),
        }
    }

    fn note(&mut self, step: Step, totals: &state::Origin, more: Forwarded, bounds: &[f64]) {
        let answers = more.answers;
        // what was there before the first look did not happen now
        if !step.is_empty() {
            self.heat.add(step.to, bounds, &more.durations);
            self.lately.push(more);
        }
        let within = self.lately.sum().durations;
        let [inflight, cap, queue, errors, shed, p50, p95, p99, ended, server_errors, unanswered] = &mut self.rings;
        step.fill(inflight, totals.inflight as f64);
        step.fill(cap, totals.limit.unwrap_or(0) as f64);
        step.fill(queue, totals.queued as f64);
        let [before_errors, before_shed] = &mut self.before;
        step.fill_rate(errors, grown(before_errors, totals.errors));
        step.fill_rate(shed, grown(before_shed, totals.shed));
        for (ring, share) in [(p50, 0.5), (p95, 0.95), (p99, 0.99)] {
            step.fill(ring, quantile(bounds, &within, share).unwrap_or(0.0));
        }
        step.fill_rate(ended, answers.total());
        step.fill_rate(server_errors, answers.server_error);
        step.fill_rate(unanswered, answers.unanswered());
    }
}

#[cfg(test)]
mod tests;
