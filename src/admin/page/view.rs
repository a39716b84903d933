//! What the page shows, at one moment: plain values, gathered elsewhere and drawn elsewhere.

use std::sync::Arc;

use crate::observe::history::{LimitPast, LimitTotals, OriginPast, OriginTotals, RoutePast, RouteTotals};
use crate::observe::notices::Notice;

/// Everything.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Which process, since when, with which policy.
    pub header: Header,
    /// What the operator should know, the most urgent first.
    pub notices: Arc<Vec<Notice>>,
    /// Routes with most requests first; not all, if there are very many.
    pub routes: Vec<RouteView>,
    /// How many routes there are.
    pub routes_in_all: usize,
    /// Requests that no route took, since the start.
    pub unmatched: u64,
    /// All routes together, per second.
    pub flow: RoutePast,
    /// In the policy's order; not all, if there are very many.
    pub limits: Vec<LimitView>,
    /// How many limits there are.
    pub limits_in_all: usize,
    /// In the policy's order; not all, if there are very many.
    pub origins: Vec<OriginView>,
    /// How many origins there are.
    pub origins_in_all: usize,
    /// Limits of type `fair_share`.
    pub shares: Vec<ShareView>,
    /// What limits are shared through.
    pub stores: Vec<StoreView>,
    /// Whom the limits refuse most.
    pub offenders: Offenders,
    /// What was decided lately, the latest first: refusals, and a sample of the others.
    pub decisions: Vec<DecisionView>,
    /// The number of the second that all series end with; all begin at the same, ten minutes before it at most.
    pub last_second: u64,
    /// Whether clients and configuration were left out, because the reader gave no token.
    pub unnamed: bool,
}

/// Which process this is.
#[derive(Debug, Clone, Default)]
pub struct Header {
    /// The machine's name.
    pub instance: String,
    /// The process's number.
    pub process: u32,
    /// The program's version.
    pub version: String,
    /// When it started, in seconds since 1970.
    pub started: u64,
    /// Now, in seconds since 1970.
    pub now: u64,
    /// A hash over the policy in force.
    pub fingerprint: String,
    /// The policy's number: 1 at start.
    pub generation: u64,
    /// When the policy came in force, in seconds since 1970.
    pub installed: u64,
    /// Whether it is about to stop.
    pub draining: bool,
}

/// A route.
#[derive(Debug, Clone)]
pub struct RouteView {
    /// Since the start.
    pub totals: RouteTotals,
    /// Per second.
    pub past: RoutePast,
}

/// A limit.
#[derive(Debug, Clone)]
pub struct LimitView {
    /// The word of its type.
    pub kind: &'static str,
    /// Whether it is obeyed.
    pub enforced: bool,
    /// The word for how gates share it, if they do.
    pub sharing: Option<&'static str>,
    /// Since the start.
    pub totals: LimitTotals,
    /// Per second.
    pub past: LimitPast,
    /// How full its table is, 0 to 1, and how likely a newcomer is refused because of others; where that can be told.
    pub crowding: Option<(f64, f64)>,
    /// Requests under way, of `inflight`.
    pub inflight: Option<u64>,
}

/// An origin.
#[derive(Debug, Clone)]
pub struct OriginView {
    /// Now, and since the start.
    pub totals: OriginTotals,
    /// Per second.
    pub past: OriginPast,
    /// Its addresses, with the share of each that is in use, 0 to 1.
    pub endpoints: Vec<(String, f64)>,
}

/// A `fair_share` limit, in requests per second.
#[derive(Debug, Clone, PartialEq)]
pub struct ShareView {
    /// Its name.
    pub name: String,
    /// What it shares out; `None` as long as that is not known.
    pub capacity: Option<f64>,
    /// What would pass if there were no capacity.
    pub offered: f64,
    /// What one client may take.
    pub share: f64,
}

/// A store that limits are shared through. Counts are those since the start, or since the store is in the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreView {
    /// The operator's name for it.
    pub name: String,
    /// Whether there is a connection.
    pub connected: bool,
    /// Where its breaker stands: `closed`, `open` or `half_open`.
    pub breaker: &'static str,
    /// Of a cluster: how many servers have slots, and which of them are not asked just now, some of them by name.
    pub servers: usize,
    /// See `servers`.
    pub not_asked: Vec<String>,
    /// How many gates share it, as far as is known.
    pub nodes: u32,
    /// The names of the limits that it has.
    pub limits: Vec<String>,
    /// What it was asked.
    pub questions: u64,
    /// What it answered.
    pub answers: u64,
    /// Requests that waited for it.
    pub waits: u64,
    /// Decisions that were made without it.
    pub fallbacks: u64,
    /// Of limits with `sharing: estimate`: how old the oldest is that is known of another gate, in milliseconds.
    pub staleness_millis: Option<u64>,
    /// What went wrong last, and how many seconds ago.
    pub last_fault: Option<(String, u64)>,
}

/// A decision and why it came out as it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionView {
    /// Its id.
    pub id: String,
    /// The explanation's first line: when, what, how it came out.
    pub summary: String,
    /// All of it, as in a terminal.
    pub explanation: String,
}

/// Whom the limits refuse most.
#[derive(Debug, Clone, Default)]
pub struct Offenders {
    /// Clients, the most refused first.
    pub clients: Vec<Offender>,
    /// Networks of those clients, the most refused first: network, refusals, clients.
    pub networks: Vec<(String, u64, u64)>,
    /// All refusals; those of the last minutes weigh most.
    pub total: u64,
    /// By how much any count may be too high.
    pub error_bound: u64,
}

/// One client under one limit.
#[derive(Debug, Clone)]
pub struct Offender {
    /// As in the access log.
    pub client: String,
    /// The limit's name.
    pub limit: String,
    /// Refusals, as they weigh now.
    pub count: u64,
    /// By how much that may be too high.
    pub error: u64,
    /// Seconds since the last one.
    pub ago: u64,
}
