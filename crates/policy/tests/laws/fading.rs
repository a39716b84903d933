//! How long what was charged is kept: a limit that is charged without being asked keeps it for longer than its burst takes.

use std::time::Duration;

use tidegate_limits::limiter::sharing::{OnStoreError, Sharing};
use tidegate_limits::units::Timestamp;
use tidegate_policy::client;
use tidegate_policy::engine::Engine;
use tidegate_policy::policy::{Mode, Rule};

use crate::book::{head, rate, request};
use crate::shared::{gate, shared};

const START: u64 = 1_000_000_000_000_000;

/// Until when a pardon matters, which is when nothing from before it is left.
fn faded(rule: Rule) -> u64 {
    let engine: Engine = gate(vec![rule]);
    let headers = head("203.0.113.9");
    let request = request(&headers);
    let client = client::resolve(&engine.policy().clients, request.peer, request.headers).unwrap();
    let pardons = engine.pardon(&client, None, None, Timestamp::from_nanos(START), Duration::ZERO);
    pardons[0].outcome.unwrap().nanos() - START
}

#[test]
fn what_other_gates_tell_is_kept_for_an_hours_debt() {
    let local = || rate("per_client", 10, 5, Mode::Enforce);
    let hour = 3_600_000_000_000;
    assert!(faded(local()) < hour);
    assert!(faded(shared(local(), Sharing::Estimate, OnStoreError::Local)) > hour);
}
