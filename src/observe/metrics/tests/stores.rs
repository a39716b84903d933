//! A store, and how it stands.

use std::time::Duration;

use crate::limiter::sharing::{OnStoreError, StoreError};
use crate::policy::{Breaker, Store, StoreMode};
use crate::store::{BUCKETS_MICROS, Dropped, ExchangeState, ServerStanding, StoreState};

pub fn spec() -> Store {
    Store {
        name: "cluster".to_owned(),
        mode: StoreMode::Single,
        servers: vec![("127.0.0.1".to_owned(), 6_379)],
        tls: false,
        ca: None,
        database: 0,
        username: None,
        timeout: Duration::from_millis(5),
        ready_within: Duration::from_secs(2),
        prefix: "tidegate:".to_owned(),
        share_bans: true,
        breaker: Breaker::default(),
    }
}

/// With everything that there can be.
pub fn state() -> StoreState {
    let finite = (1..=BUCKETS_MICROS.len()).map(|nth| (nth as f64, 4));
    StoreState {
        name: "cluster".to_owned(),
        standings: ServerStanding::ALL.iter().map(|standing| (*standing, 1)).collect(),
        nodes: 3,
        durations: finite.chain([(f64::INFINITY, 5)]).collect(),
        duration_seconds: 0.5,
        errors: StoreError::ALL.map(|store_error| (store_error.word(), 1)).to_vec(),
        fallbacks_by_direction: OnStoreError::ALL.map(|to| (to.word(), 2)).to_vec(),
        bans_age_seconds: Some(1.0),
        exchange: Some(ExchangeState {
            messages_dropped: Dropped::ALL.iter().map(|reason| (reason.word(), 1)).collect(),
            ..ExchangeState::default()
        }),
        ..StoreState::default()
    }
}
