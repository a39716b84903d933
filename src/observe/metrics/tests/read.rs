//! A state with everything that the page shows beside what is counted.

use super::stores;
use crate::limiter::Gauges;
use crate::observe::lines::LogState;
use crate::observe::state::{Address, Certificate, Door, Holder, Limit, Origin, Overload, Snapshots, State};
use crate::units::Criticality;

/// Every number that a limit could have.
fn all_gauges() -> Gauges {
    Gauges {
        inflight: Some(2),
        upgraded: Some(3),
        memory: 4_096,
        exact_keys: Some(5),
        load: Some(0.25),
        displaced: Some(6),
        pending: Some(7),
        capacity: Some(1_000.0),
        tokens: Some(3.75),
        kept: Some(125.0),
        waiting: Some(9),
    }
}

/// Three places held by two clients of one network.
fn door() -> Door {
    let holder = |held| Holder { held, ..Holder::default() };
    Door {
        held: Criticality::ALL.into_iter().zip([0, 3, 0, 0]).map(|(class, held)| (class.word().into(), held)).collect(),
        reserve: 1.5,
        clients: vec![holder(2), holder(1)],
        networks: vec![holder(3)],
        ..Door::default()
    }
}

/// An origin with two addresses, of which one is out.
pub fn backend() -> Origin {
    let address = |port: u16, healthy, ejections| Address { address: format!("127.0.0.1:{port}"), healthy, ejections };
    Origin {
        name: "backend".to_owned(),
        inflight: 3,
        limit: Some(10),
        queued: 1,
        queued_by_class: [0, 1, 0, 0],
        abandoned: 2,
        despite: Some(6),
        addresses: vec![address(1, 1.0, 0), address(2, 0.0, 4)],
        door: Some(door()),
        ..Origin::default()
    }
}

/// A limit with every number that it could have.
pub fn full(name: &str) -> Limit {
    Limit {
        name: name.to_owned(),
        keyed: true,
        memory_bytes: 8,
        fill: Some(0.3),
        error: Some(0.0),
        leased: Some(12),
        gauges: all_gauges(),
        ..Limit::default()
    }
}

/// A state with everything that the page shows beside what is counted.
pub fn all_read() -> State {
    let certificate = |name: &str, expires| Certificate {
        listener: "other".to_owned(),
        certificate: name.to_owned(),
        expires,
        current: true,
    };
    let per_client = Limit { name: "per_client".to_owned(), keyed: true, memory_bytes: 4_096, ..Limit::default() };
    State {
        origins: vec![backend()],
        limits: vec![per_client, full("at_once")],
        certificates: vec![certificate("a.test", Some(1_900_000_000)), certificate("client_certificates", None)],
        stores: vec![stores::state()],
        overload: Some(Overload::of(
            crate::overload::Resource::ALL.map(|resource| (resource.word(), 0.25)),
            std::time::Duration::from_millis(7),
            true,
        )),
        snapshots: Some(Snapshots { age_seconds: Some(0.5), bytes: 4_096, errors: 1, ..Snapshots::default() }),
        logs: vec![
            ("access", LogState { dropped: 5, errors: Some(1) }),
            ("process", LogState { dropped: 0, errors: Some(0) }),
        ],
        ..State::default()
    }
}
