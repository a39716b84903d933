//! The last ten minutes, second by second, of what the counters count.
//!
//! Nothing is counted for it: once a second the [`Totals`] of all counters are noted, and what they grew by is that second's
//! point. So it costs requests nothing, and its memory is fixed by the policy: 2,400 bytes for each number of a route (4), a
//! limit (3) and an origin (8).
//!
//! It is kept by name. A reload may bring another policy: names that stay go on, those that went are forgotten.
//!
//! It is not a store of metrics: it ends with the process, knows of this one only, and whoever wants last week has a
//! Prometheus.

mod quantile;
mod ring;
mod totals;

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use serde::Serialize;

use crate::units::Timestamp;
use quantile::quantile;
use ring::Ring;
pub use ring::SECONDS;
pub use totals::{LimitTotals, OriginTotals, RouteTotals, Totals};

/// Over how many seconds durations are looked at together: in a single one there may be too few.
const SMOOTHED: usize = 10;

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

/// A route's requests per second, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RoutePast {
    /// Passed at once.
    pub allowed: Vec<f32>,
    /// Passed after a wait.
    pub delayed: Vec<f32>,
    /// Turned away by its limits.
    pub limited: Vec<f32>,
    /// Turned away for lack of room.
    pub shed: Vec<f32>,
}

/// A limit's decisions per second, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LimitPast {
    /// Fitted.
    pub allowed: Vec<f32>,
    /// Turned away.
    pub limited: Vec<f32>,
    /// Did not fit, and passed.
    pub shadow: Vec<f32>,
}

/// An origin, second by second, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct OriginPast {
    /// Requests that were with it.
    pub inflight: Vec<f32>,
    /// How many might have been; 0 without a cap.
    pub cap: Vec<f32>,
    /// Requests that waited.
    pub queue: Vec<f32>,
    /// Failed attempts per second.
    pub errors: Vec<f32>,
    /// Requests without a place per second.
    pub shed: Vec<f32>,
    /// What half, 95 % and 99 % of the attempts took at most, in seconds, over the ten seconds up to this one; 0 where there were none.
    pub p50: Vec<f32>,
    /// See `p50`.
    pub p95: Vec<f32>,
    /// See `p50`.
    pub p99: Vec<f32>,
}

/// Everything by name, the oldest second first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Past {
    schema: &'static str,
    /// The number of the last second; `None` before the first.
    pub second: Option<u64>,
    /// By name.
    pub routes: BTreeMap<String, RoutePast>,
    /// By name.
    pub limits: BTreeMap<String, LimitPast>,
    /// By name.
    pub origins: BTreeMap<String, OriginPast>,
}

fn shorten<const N: usize>(series: [&mut Vec<f32>; N], seconds: usize) {
    for points in series {
        points.drain(..points.len().saturating_sub(seconds));
    }
}

impl RoutePast {
    fn of(rings: &[Ring; 4], points: impl Fn(&Ring) -> Vec<f32>) -> RoutePast {
        let [allowed, delayed, limited, shed] = rings.each_ref().map(points);
        RoutePast { allowed, delayed, limited, shed }
    }

    /// Only so many of the last seconds.
    pub fn shortened(mut self, seconds: usize) -> RoutePast {
        let series = [&mut self.allowed, &mut self.delayed, &mut self.limited, &mut self.shed];
        shorten(series, seconds);
        self
    }
}

impl LimitPast {
    fn of(rings: &[Ring; 3], points: impl Fn(&Ring) -> Vec<f32>) -> LimitPast {
        let [allowed, limited, shadow] = rings.each_ref().map(points);
        LimitPast { allowed, limited, shadow }
    }

    /// Only so many of the last seconds.
    pub fn shortened(mut self, seconds: usize) -> LimitPast {
        let series = [&mut self.allowed, &mut self.limited, &mut self.shadow];
        shorten(series, seconds);
        self
    }
}

impl OriginPast {
    fn of(rings: &[Ring; 8], points: impl Fn(&Ring) -> Vec<f32>) -> OriginPast {
        let [inflight, cap, queue, errors, shed, p50, p95, p99] = rings.each_ref().map(points);
        OriginPast { inflight, cap, queue, errors, shed, p50, p95, p99 }
    }

    /// Only so many of the last seconds.
    pub fn shortened(mut self, seconds: usize) -> OriginPast {
        let series = [
            &mut self.inflight,
            &mut self.cap,
            &mut self.queue,
            &mut self.errors,
            &mut self.shed,
            &mut self.p50,
            &mut self.p95,
            &mut self.p99,
        ];
        shorten(series, seconds);
        self
    }
}

impl History {
    /// Of a process that has done nothing yet.
    pub fn new() -> History {
        History::default()
    }

    /// Notes what the counters stand at. To be called about once a second; a call in the second of the one before adds to the next,
    /// seconds without a call get the mean of what came since. The first call only says where to begin.
    pub fn note(&self, now: Timestamp, totals: &Totals) {
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
        for totals in &totals.routes {
            kept.routes.entry(totals.name.clone()).or_insert_with(Route::new).note(step, totals);
        }
        for totals in &totals.limits {
            kept.limits.entry(totals.name.clone()).or_insert_with(Limit::new).note(step, totals);
        }
        for totals in &totals.origins {
            kept.origins.entry(totals.name.clone()).or_insert_with(Origin::new).note(step, totals);
        }
        kept.forget(totals);
    }

    /// The number of the last second noted, counted from the start; `None` before the first.
    pub fn last_second(&self) -> Option<u64> {
        self.kept.lock().last.map(second)
    }

    /// How many seconds have been noted, up to [`SECONDS`]: points before them mean nothing.
    pub fn seconds(&self) -> usize {
        let kept = self.kept.lock();
        let (first, last) = (kept.first.map_or(0, second), kept.last.map_or(0, second));
        usize::try_from(last.saturating_sub(first)).unwrap_or(SECONDS).min(SECONDS)
    }

    /// All routes together.
    pub fn flow(&self) -> RoutePast {
        let kept = self.kept.lock();
        let last = kept.last.map_or(0, second);
        let mut sums = [const { Vec::new() }; 4].map(|mut sum: Vec<f32>| {
            sum.resize(SECONDS, 0.0);
            sum
        });
        for route in kept.routes.values() {
            for (sum, ring) in sums.iter_mut().zip(&route.rings) {
                sum.iter_mut().zip(ring.until(last)).for_each(|(sum, point)| *sum += point);
            }
        }
        let [allowed, delayed, limited, shed] = sums;
        RoutePast { allowed, delayed, limited, shed }
    }

    /// The last second alone: every series has one point.
    pub fn latest(&self) -> Past {
        self.lately(1)
    }

    /// The last so many seconds, [`SECONDS`] at most.
    pub fn lately(&self, seconds: usize) -> Past {
        let kept = self.kept.lock();
        let last = kept.last.map_or(0, second);
        let points = |ring: &Ring| ring.until(last).split_off(SECONDS - seconds.min(SECONDS));
        let route = |(name, route): (&String, &Route)| (name.clone(), RoutePast::of(&route.rings, points));
        let limit = |(name, limit): (&String, &Limit)| (name.clone(), LimitPast::of(&limit.rings, points));
        let origin = |(name, origin): (&String, &Origin)| (name.clone(), OriginPast::of(&origin.rings, points));
        Past {
            schema: "tidegate.history/1",
            second: kept.last.map(second),
            routes: kept.routes.iter().map(route).collect(),
            limits: kept.limits.iter().map(limit).collect(),
            origins: kept.origins.iter().map(origin).collect(),
        }
    }

    /// What is known of a route.
    pub fn route(&self, name: &str) -> Option<RoutePast> {
        let kept = self.kept.lock();
        let (route, last) = (kept.routes.get(name)?, second(kept.last?));
        Some(RoutePast::of(&route.rings, |ring| ring.until(last)))
    }

    /// What is known of a limit.
    pub fn limit(&self, name: &str) -> Option<LimitPast> {
        let kept = self.kept.lock();
        let (limit, last) = (kept.limits.get(name)?, second(kept.last?));
        Some(LimitPast::of(&limit.rings, |ring| ring.until(last)))
    }

    /// What is known of an origin.
    pub fn origin(&self, name: &str) -> Option<OriginPast> {
        let kept = self.kept.lock();
        let (origin, last) = (kept.origins.get(name)?, second(kept.last?));
        Some(OriginPast::of(&origin.rings, |ring| ring.until(last)))
    }
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
    fn forget(&mut self, totals: &Totals) {
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

    fn begin(&mut self, now: Timestamp, totals: &Totals) {
        (self.first, self.last) = (Some(now), Some(now));
        // nothing is filled: what was counted before the first look did not come in one second
        let step = Step { from: 1, to: 0, took: 1.0 };
        for totals in &totals.routes {
            self.routes.entry(totals.name.clone()).or_insert_with(Route::new).note(step, totals);
        }
        for totals in &totals.limits {
            self.limits.entry(totals.name.clone()).or_insert_with(Limit::new).note(step, totals);
        }
        for totals in &totals.origins {
            self.origins.entry(totals.name.clone()).or_insert_with(Origin::new).note(step, totals);
        }
    }
}

/// What a counter grew by; one that is lower than before began anew, as its name had gone and came back.
fn grown(before: &mut u64, now: u64) -> u64 {
    let grown = now.checked_sub(*before).unwrap_or(now);
    *before = now;
    grown
}

#[derive(Debug)]
struct Route {
    before: [u64; 4],
    /// Verdicts of requests that have not ended.
    under_way: u64,
    rings: [Ring; 4],
}

impl Route {
    fn new() -> Route {
        Route { before: [0; 4], under_way: 0, rings: std::array::from_fn(|_| Ring::new()) }
    }

    fn note(&mut self, step: Step, totals: &RouteTotals) {
        let [before_ended, before_delayed, before_limited, before_shed] = &mut self.before;
        let ended = grown(before_ended, totals.ended);
        let delayed = grown(before_delayed, totals.delayed);
        let limited = grown(before_limited, totals.limited);
        let shed = grown(before_shed, totals.shed);
        // A request is counted by its verdict and once more when it ends, seconds later perhaps if it waits or is slow. What
        // ended without another verdict before was allowed.
        let others = self.under_way + delayed + limited + shed;
        self.under_way = others.saturating_sub(ended);
        let allowed = ended.saturating_sub(others);
        for (ring, count) in self.rings.iter_mut().zip([allowed, delayed, limited, shed]) {
            step.fill_rate(ring, count);
        }
    }
}

#[derive(Debug)]
struct Limit {
    before: [u64; 3],
    rings: [Ring; 3],
}

impl Limit {
    fn new() -> Limit {
        Limit { before: [0; 3], rings: std::array::from_fn(|_| Ring::new()) }
    }

    fn note(&mut self, step: Step, totals: &LimitTotals) {
        let counts = [totals.allowed, totals.limited, totals.shadow];
        for ((ring, before), count) in self.rings.iter_mut().zip(&mut self.before).zip(counts) {
            step.fill_rate(ring, grown(before, count));
        }
    }
}

#[derive(Debug)]
struct Origin {
    before: [u64; 2],
    durations_before: Vec<u64>,
    /// What was added in each of the last seconds, the oldest first.
    lately: VecDeque<Vec<u64>>,
    rings: [Ring; 8],
}

impl Origin {
    fn new() -> Origin {
        let rings = std::array::from_fn(|_| Ring::new());
        Origin { before: [0; 2], durations_before: Vec::new(), lately: VecDeque::with_capacity(SMOOTHED), rings }
    }

    fn note(&mut self, step: Step, totals: &OriginTotals) {
        self.durations_before.resize(totals.durations.len(), 0);
        let before = self.durations_before.iter_mut();
        let added = before.zip(&totals.durations).map(|(before, now)| grown(before, *now)).collect();
        let mut within = vec![0; totals.durations.len()];
        // what was there before the first look did not happen now
        if step.to >= step.from {
            if self.lately.len() == SMOOTHED {
                self.lately.pop_front();
            }
            self.lately.push_back(added);
        }
        for second in &self.lately {
            within.iter_mut().zip(second).for_each(|(sum, count)| *sum += count);
        }
        let [inflight, cap, queue, errors, shed, p50, p95, p99] = &mut self.rings;
        step.fill(inflight, totals.inflight as f64);
        step.fill(cap, totals.cap.unwrap_or(0) as f64);
        step.fill(queue, totals.queue as f64);
        let [before_errors, before_shed] = &mut self.before;
        step.fill_rate(errors, grown(before_errors, totals.errors));
        step.fill_rate(shed, grown(before_shed, totals.shed));
        for (ring, share) in [(p50, 0.5), (p95, 0.95), (p99, 0.99)] {
            step.fill(ring, quantile(totals.bounds, &within, share).unwrap_or(0.0));
        }
    }
}

#[cfg(test)]
mod tests;
