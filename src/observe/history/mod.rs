//! The last ten minutes of the counters, second by second. Not a store of metrics: it ends with the process; for more use
//! Prometheus.
//!
//! Once a second the counters of the [`State`] are read, and their growth is a point. Requests pay nothing for it. Its memory is
//! fixed by the policy: 2,400 bytes for each number of a route (4), a limit (3) and an origin (8).
//!
//! Series are kept by name. After a reload series whose names stay continue, the others are dropped.

mod quantile;
mod ring;

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::state::{self, State, Word};
use crate::units::Timestamp;
use quantile::quantile;
use ring::Ring;
pub use ring::SECONDS;

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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RoutePast<N = f32> {
    /// Passed at once.
    pub allowed: Vec<N>,
    /// Passed after a wait.
    pub delayed: Vec<N>,
    /// Refused by limits.
    pub limited: Vec<N>,
    /// Refused for lack of room.
    pub shed: Vec<N>,
}

/// A limit's decisions per second, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LimitPast<N = f32> {
    /// Fitted.
    pub allowed: Vec<N>,
    /// Refused.
    pub limited: Vec<N>,
    /// Did not fit, and passed.
    pub shadow: Vec<N>,
}

/// An origin, second by second, the oldest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OriginPast<N = f32> {
    /// Requests that were with it.
    pub inflight: Vec<N>,
    /// Cap on these; 0 without one.
    pub cap: Vec<N>,
    /// Requests that waited.
    pub queue: Vec<N>,
    /// Failed attempts per second.
    pub errors: Vec<N>,
    /// Requests without a place per second.
    pub shed: Vec<N>,
    /// Durations that 50, 95 and 99 % of the attempts did not exceed, in seconds, over the ten seconds up to this one; 0 without any.
    pub p50: Vec<N>,
    /// See `p50`.
    pub p95: Vec<N>,
    /// See `p50`.
    pub p99: Vec<N>,
}

/// The past by name, the oldest second first: `tidegate.history/1`. Points are kept as `f32`, and read in full as `f64`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Past<N = f32> {
    /// Always `tidegate.history/1`.
    pub schema: Word,
    /// Number of the last second; `None` before the first.
    pub second: Option<u64>,
    /// By name.
    pub routes: BTreeMap<String, RoutePast<N>>,
    /// By name.
    pub limits: BTreeMap<String, LimitPast<N>>,
    /// By name.
    pub origins: BTreeMap<String, OriginPast<N>>,
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
        let mut sums = [const { Vec::new() }; 4].map(|mut sum: Vec<f32>| {
            sum.resize(seconds.min(SECONDS), 0.0);
            sum
        });
        for route in kept.routes.values() {
            for (sum, ring) in sums.iter_mut().zip(&route.rings) {
                sum.iter_mut().zip(ring.until(last, seconds)).for_each(|(sum, point)| *sum += point);
            }
        }
        let [allowed, delayed, limited, shed] = sums;
        RoutePast { allowed, delayed, limited, shed }
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
            let [allowed, delayed, limited, shed] = route.rings.each_ref().map(points);
            (name.clone(), RoutePast { allowed, delayed, limited, shed })
        };
        let limit = |(name, limit): (&String, &Limit)| {
            let [allowed, limited, shadow] = limit.rings.each_ref().map(points);
            (name.clone(), LimitPast { allowed, limited, shadow })
        };
        let origin = |(name, origin): (&String, &Origin)| {
            let [inflight, cap, queue, errors, shed, p50, p95, p99] = origin.rings.each_ref().map(points);
            (name.clone(), OriginPast { inflight, cap, queue, errors, shed, p50, p95, p99 })
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

    fn note(&mut self, step: Step, totals: &state::Route) {
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

    fn note(&mut self, step: Step, totals: &state::Limit) {
        let counts = [totals.allowed(), totals.limited(), totals.shadowed()];
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

    fn note(&mut self, step: Step, totals: &state::Origin) {
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
        step.fill(cap, totals.limit.unwrap_or(0) as f64);
        step.fill(queue, totals.queued as f64);
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
