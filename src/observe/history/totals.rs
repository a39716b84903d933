//! What counters stand at, by name: what a [`History`](super::History) is fed with.

/// All of them at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    /// In the policy's order.
    pub routes: Vec<RouteTotals>,
    /// In the policy's order.
    pub limits: Vec<LimitTotals>,
    /// In the policy's order.
    pub origins: Vec<OriginTotals>,
    /// Requests that ended without a route.
    pub unmatched: u64,
}

/// Of one route, since the process started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteTotals {
    /// Its name.
    pub name: String,
    /// Requests that ended.
    pub ended: u64,
    /// Requests that were held back first.
    pub delayed: u64,
    /// Requests that its limits turned away.
    pub limited: u64,
    /// Requests that were turned away because there was no room: at an origin, or under a limit of all requests together.
    pub shed: u64,
}

/// Of one limit, under its present mode, since the process started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitTotals {
    /// Its name.
    pub name: String,
    /// Requests that fitted, at once or after a wait.
    pub allowed: u64,
    /// Requests that it turned away.
    pub limited: u64,
    /// Requests that did not fit and passed all the same: it is a shadow, or only tags.
    pub shadow: u64,
    /// Requests that it was not asked about.
    pub exempt: u64,
}

/// Of one origin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OriginTotals {
    /// Its name.
    pub name: String,
    /// Requests that are with it now.
    pub inflight: u64,
    /// How many may be; `None` without a cap.
    pub cap: Option<u64>,
    /// Requests that wait for a place now.
    pub queue: u64,
    /// Failed attempts since the process started.
    pub errors: u64,
    /// Requests that it had no place for since the process started.
    pub shed: u64,
    /// Attempts since the process started by how long they took: one number for each of [`OriginTotals::bounds`], one for longer ones.
    pub durations: Vec<u64>,
    /// Upper bounds of the durations, in seconds.
    pub bounds: &'static [f64],
}
