//! A limit of every kind, beside those of [`sample`](super::sample).

use std::time::Duration;

use super::sample::rate;
use crate::limiter::{Kind, RefusedCount, Scope, kinds};
use crate::policy::{Mode, Rule};
use crate::units::{Bytes, Rate};

pub fn inflight(name: &str) -> Rule {
    Rule {
        kind: Kind::Inflight(kinds::Inflight { max: 7, upgraded: 7, scope: Scope::Global }),
        ..rate(name, 1, 1_000, 1)
    }
}

/// An enforced limit of another kind.
pub fn of_kind(name: &str, kind: Kind) -> Rule {
    Rule { kind, ..rate(name, 1, 1_000, 1) }
}

pub fn quota(name: &str, max: u32, window: Duration) -> Rule {
    of_kind(name, Kind::Quota(kinds::Quota { max, window: window.into(), sliding: false, memory: Bytes(1 << 20) }))
}

pub fn distinct(name: &str, max: u32, window: Duration) -> Rule {
    of_kind(
        name,
        Kind::Distinct(kinds::Distinct {
            max,
            window,
            sliding: false,
            refused: RefusedCount::Admitted,
            memory: Bytes(1 << 20),
        }),
    )
}

pub fn recent_average(name: &str, events: u32, millis: u64, half_life: Duration) -> Rule {
    let rate = Rate::new(events, Duration::from_millis(millis)).unwrap();
    let refused = RefusedCount::All { max_penalty: half_life * 6 };
    of_kind(name, Kind::RecentAverage(kinds::RecentAverage { rate, half_life, refused, memory: Bytes(1 << 20) }))
}

pub fn inflight_per_key(name: &str, max: u32) -> Rule {
    of_kind(name, Kind::Inflight(kinds::Inflight { max, upgraded: 1, scope: Scope::Key { memory: Bytes(1 << 20) } }))
}

pub fn fair_share(name: &str) -> Rule {
    let capacity = Rate::new(1_000, Duration::from_secs(1)).unwrap();
    of_kind(name, Kind::FairShare(kinds::FairShare::of(capacity)))
}

pub fn shadow(rule: Rule) -> Rule {
    Rule { mode: Mode::Shadow, ..rule }
}
