//! The `RateLimit-Policy` of a route, prepared.
//!
//! The field is the same on every answer of a route, as far as the route's limits are the same for everybody. Where they
//! are not, it tells each request the limits that hold for it:
//!
//! * in a tier, the tier's numbers;
//! * of a limit that is enforced for a part of its keys, nothing to the others, to requests that lack the key and to those
//!   that are exempt, as it is unknown whether they are in that part;
//! * of a limit that took the place of another (`missing: { use: NAME }`), its own.
//!
//! Lines are written when the policy is loaded, so that an answer only shares one. A route whose limits can be told in more
//! than [`MOST_LINES`] ways has the rest of them written anew.

use arrayvec::ArrayVec;
use bytes::BytesMut;
use http::HeaderValue;

use super::super::structured::{List, Unwritable};
use super::promise::Promise;
use crate::engine::{Decision, Outcome, Reading};
use crate::policy::{Mode, Policy, Route, Rule};

/// How many lines are kept for one route: enough for a limit with fifteen tiers, or for two with three each.
const MOST_LINES: usize = 16;

/// What is put before our names when the origin uses them itself.
pub(super) const APART: &str = "edge.";

/// All lines of one route.
#[derive(Debug, Clone)]
pub(super) struct PolicyLines {
    /// The line of an ordinary request first.
    lines: Vec<Line>,
    /// That one under names that are set apart from the origin's.
    apart: Option<HeaderValue>,
    /// All names as they stand in a field, with their quotes, to recognise the origin's.
    pub names: Vec<String>,
    /// The same names, set apart.
    pub names_apart: Vec<String>,
}

#[derive(Debug, Clone)]
struct Line {
    shown: Shown,
    value: Option<HeaderValue>,
}

/// Which limits are told, by position in the policy, and by the numbers of which tier.
type Shown = ArrayVec<(usize, u8), { Route::MAX_RULES }>;

impl PolicyLines {
    /// The lines of one of the policy's routes.
    pub fn new(policy: &Policy, route: &Route) -> PolicyLines {
        let ways: Vec<Ways> = route.rules.iter().map(|rule| ways(policy, route, *rule)).collect();
        let mut named: Vec<usize> = ways.iter().flatten().flatten().map(|(rule, _)| *rule).collect();
        named.dedup();
        let named: Vec<&str> =
            named.iter().filter_map(|rule| policy.rules.get(*rule)).map(|rule| rule.name.as_str()).collect();
        let lines: Vec<Line> =
            combined(&ways).into_iter().map(|shown| Line { value: written("", &shown, policy), shown }).collect();
        PolicyLines {
            apart: lines.first().and_then(|ordinary| written(APART, &ordinary.shown, policy)),
            lines,
            names: named.iter().map(|name| format!("\"{name}\"")).collect(),
            names_apart: named.iter().map(|name| format!("\"{APART}{name}\"")).collect(),
        }
    }

    /// The line for the request that was decided so; `None` when no limit is told.
    pub fn line(&self, decision: &Decision, policy: &Policy, apart: bool) -> Option<HeaderValue> {
        let ordinary = self.lines.first()?;
        // a request that no limit was asked about, because its client could not be told
        if decision.readings.is_empty() {
            return if apart { self.apart.clone() } else { ordinary.value.clone() };
        }
        let shown = shown(decision, policy);
        if apart {
            return if shown == ordinary.shown { self.apart.clone() } else { written(APART, &shown, policy) };
        }
        match self.lines.iter().find(|line| line.shown == shown) {
            Some(line) => line.value.clone(),
            None => written("", &shown, policy),
        }
    }
}

/// The ways in which one place of a route can be told, the ordinary one first; `None` is not at all.
type Ways = Vec<Option<(usize, u8)>>;

fn ways(policy: &Policy, route: &Route, index: usize) -> Ways {
    let Some(rule) = policy.rules.get(index) else { return vec![None] };
    let mut ways = Ways::new();
    if Promise::of(rule, 0).is_none() || is_partial(rule) {
        ways.push(None);
    }
    if Promise::of(rule, 0).is_some() {
        ways.push(Some((index, 0)));
        let tiers = rule.tiers.iter().zip(1_u8..).filter(|(tier, _)| tier.kind.is_some());
        ways.extend(tiers.map(|(_, number)| Some((index, number))));
    }
    match rule.instead {
        // one that has a place of its own is told there; one that takes the place never hands it on
        Some(other) if other != index && !route.rules.contains(&other) => {
            ways.push(None);
            if policy.rules.get(other).is_some_and(|other| other.instead.is_none()) {
                ways.extend(self::ways(policy, route, other));
            }
        }
        _ => {}
    }
    ways
}

/// Every choice of one way per place, as far as [`MOST_LINES`] goes; places after that are told in their ordinary way.
fn combined(ways: &[Ways]) -> Vec<Shown> {
    let mut lines = vec![Shown::new()];
    for place in ways {
        let kept = if lines.len() * place.len() <= MOST_LINES { place.len() } else { 1 };
        let longer = lines.iter().flat_map(|line| {
            place.iter().take(kept).map(move |way| {
                let mut line = line.clone();
                // a route has as many places as a line
                line.extend(way.iter().copied().take(line.remaining_capacity()));
                line
            })
        });
        lines = longer.collect();
    }
    lines
}

/// What the request is told of its limits.
fn shown(decision: &Decision, policy: &Policy) -> Shown {
    let told = |reading: &Reading| {
        let rule = policy.rules.get(reading.rule)?;
        let concerned = reading.mode == Mode::Enforce && (!is_partial(rule) || reading.outcome != Outcome::Exempt);
        (concerned && Promise::of(rule, reading.tier).is_some()).then_some((reading.rule, reading.tier))
    };
    decision.readings.iter().filter_map(told).collect()
}

fn is_partial(rule: &Rule) -> bool {
    rule.enforced.get() < 1.0
}

/// `"login";q=5;w=60, "upload";q=3;qu="content-bytes"`
fn written(prefix: &str, shown: &Shown, policy: &Policy) -> Option<HeaderValue> {
    let mut list = List::new();
    let mut write = |(rule, tier): &(usize, u8)| -> Result<(), Unwritable> {
        let Some(rule) = policy.rules.get(*rule) else { return Ok(()) };
        let Some(promise) = Promise::of(rule, *tier) else { return Ok(()) };
        list.string(prefix, &rule.name)?;
        list.integer("q", promise.quota)?;
        if let Some(unit) = promise.unit.word() {
            list.text("qu", unit)?;
        }
        let window = rule.kind_of(*tier).allowance().and_then(|allowance| allowance.window);
        window.map_or(Ok(()), |seconds| list.integer("w", seconds))
    };
    shown.iter().try_for_each(&mut write).ok()?;
    list.finish(&mut BytesMut::new())
}
