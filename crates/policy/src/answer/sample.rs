//! Policies and decisions for the tests of this folder, from a few numbers.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;

use crate::client::ClientRules;
use crate::client::key::{KeyPart, KeySpec};
use crate::engine::{DecidedBy, Decision, DecisionId, Outcome, Reading, Verdict};
use crate::limiter::{Kind, kinds};
use crate::policy::origin::Timeouts;
use crate::policy::{Action, HeaderEdits, Mode, Policy, Responses, Route, RouteTable, Rule};
use crate::sketch::NextUnit;
use crate::units::{Bytes, Rate, Timestamp};

pub const SECOND: u64 = 1_000_000_000;

/// An enforced limit of so many events per milliseconds.
pub fn rate(name: &str, events: u32, millis: u64, burst: u32) -> Rule {
    let rate = Rate::new(events, Duration::from_millis(millis)).unwrap();
    let key = KeySpec::new([KeyPart::Global], None).unwrap();
    Rule::new(name, key, Kind::Rate(kinds::Rate { rate, burst, memory: Bytes(1 << 20) }), Mode::Enforce)
}

/// A policy with one route that has all these rules.
pub fn policy(rules: Vec<Rule>, responses: Responses) -> Policy {
    let on_route = (0..rules.len()).collect();
    policy_with(rules, on_route, responses)
}

/// A policy with one route that has some of these rules, by position.
pub fn policy_with(rules: Vec<Rule>, on_route: Vec<usize>, responses: Responses) -> Policy {
    let route = Route {
        name: "shop".into(),
        matches: Vec::new(),
        rules: on_route,
        action: Action::Forward(0),
        request_headers: HeaderEdits::default(),
        response_headers: HeaderEdits::default(),
        cors: None,
        limited: Default::default(),
        overloaded: Default::default(),
        deny: Default::default(),
        body_limit: None,
        timeouts: Timeouts::default(),
        criticality: Default::default(),
    };
    Policy {
        clients: ClientRules::default(),
        repeated_fields: Default::default(),
        tiers: Vec::new(),
        rules: rules.into_iter().map(Arc::new).collect(),
        origins: Vec::new(),
        stores: Vec::new(),
        routes: RouteTable::new(vec![route]),
        responses,
    }
}

/// One reading per rule of [`policy`]. Without dice, so that no wait is stretched.
pub fn decision(policy: &Policy, verdict: Verdict, readings: &[(Outcome, u32, Option<u64>)]) -> Decision {
    let reading = |(rule, (outcome, remaining, nanos)): (usize, &(Outcome, u32, Option<u64>))| Reading {
        rule,
        mode: policy.rules[rule].mode,
        tier: 0,
        node: None,
        outcome: *outcome,
        remaining: *remaining,
        retry_nanos: if *outcome == Outcome::Refused { *nanos } else { Some(0) },
        next_unit: NextUnit::Known(*nanos),
        standing: 0,
        by: DecidedBy::Gate,
    };
    Decision {
        id: DecisionId(42),
        at: Timestamp::from_nanos(1),
        dice: 0,
        client: None,
        route: Some(0),
        class: Default::default(),
        answers_preflight: false,
        readings: readings.iter().enumerate().map(reading).collect(),
        delay_nanos: 0,
        no_place: None,
        ban: None,
        verdict,
    }
}

/// `name: value` lines, in the order in which they are sent.
pub fn lines<'a>(fields: impl IntoIterator<Item = &'a (http::HeaderName, HeaderValue)>) -> Vec<String> {
    fields.into_iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
}
