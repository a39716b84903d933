//! Policies and decisions for the tests of this folder, from a few numbers.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;

use crate::client::ClientRules;
use crate::client::key::{KeyPart, KeySpec};
use crate::engine::{Decision, DecisionId, Outcome, Reading, Verdict};
use crate::limiter::{Kind, Scope};
use crate::policy::origin::Timeouts;
use crate::policy::{Action, HeaderEdits, Mode, Policy, Responses, Route, RouteTable, Rule};
use crate::units::{Bytes, Cost, Rate, Timestamp};

pub const SECOND: u64 = 1_000_000_000;

/// An enforced limit of so many events per milliseconds.
pub fn rate(name: &str, events: u32, millis: u64, burst: u32) -> Rule {
    Rule {
        name: name.to_owned(),
        key: KeySpec::new([KeyPart::Global], None).unwrap(),
        kind: Kind::Rate {
            rate: Rate::new(events, Duration::from_millis(millis)).unwrap(),
            burst,
            memory: Bytes(1 << 20),
        },
        cost: Cost::ONE,
        mode: Mode::Enforce,
    }
}

pub fn inflight(name: &str) -> Rule {
    Rule { kind: Kind::Inflight { max: 7, scope: Scope::Global }, ..rate(name, 1, 1_000, 1) }
}

pub fn shadow(rule: Rule) -> Rule {
    Rule { mode: Mode::Shadow, ..rule }
}

/// A policy with one route that has all these rules.
pub fn policy(rules: Vec<Rule>, responses: Responses) -> Policy {
    let route = Route {
        name: "shop".into(),
        matches: Vec::new(),
        rules: (0..rules.len()).collect(),
        action: Action::Forward(0),
        request_headers: HeaderEdits::default(),
        response_headers: HeaderEdits::default(),
        body_limit: None,
        timeouts: Timeouts::default(),
    };
    Policy {
        clients: ClientRules::default(),
        rules: rules.into_iter().map(Arc::new).collect(),
        origins: Vec::new(),
        routes: RouteTable::new(vec![route]),
        responses,
        fingerprint: String::new(),
    }
}

/// One reading per rule of [`policy`]. Without dice, so that no wait is stretched.
pub fn decision(policy: &Policy, verdict: Verdict, readings: &[(Outcome, u32, Option<u64>)]) -> Decision {
    let reading = |(rule, (outcome, remaining, nanos)): (usize, &(Outcome, u32, Option<u64>))| Reading {
        rule,
        mode: policy.rules[rule].mode,
        outcome: *outcome,
        remaining: *remaining,
        retry_nanos: if *outcome == Outcome::Refused { *nanos } else { Some(0) },
        reset_nanos: *nanos,
    };
    Decision {
        id: DecisionId(42),
        at: Timestamp::from_nanos(1),
        dice: 0,
        client: None,
        route: Some(0),
        readings: readings.iter().enumerate().map(reading).collect(),
        verdict,
    }
}

/// `name: value` lines, in the order in which they are sent.
pub fn lines<'a>(fields: impl IntoIterator<Item = &'a (http::HeaderName, HeaderValue)>) -> Vec<String> {
    fields.into_iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
}
