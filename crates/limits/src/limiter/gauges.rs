//! What limits tell metrics of themselves.

use super::Limiter;
use super::state::State;
use crate::sketch::Crowding;
use crate::units::Timestamp;

/// What a limit can say of its own state, for metrics; what does not apply to its kind is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Gauges {
    /// Places taken, of `inflight`.
    pub inflight: Option<u64>,
    /// Connections that were switched to another protocol, of `inflight`.
    pub upgraded: Option<u64>,
    /// Bytes that it holds, the same from its first request to its last.
    pub memory: u64,
    /// Keys that are counted exactly, of `rate`, `quota` and `recent_average`.
    pub exact_keys: Option<u64>,
    /// How full the set of seen values is, 0 to 1, of `distinct`.
    pub load: Option<f64>,
    /// Values that had to make room for others before their time, of `distinct`.
    pub displaced: Option<u64>,
    /// Units held back for attempts whose answer has not come.
    pub pending: Option<u64>,
    /// A client's share at this moment, in requests per second, of `fair_share`.
    pub share: Option<f64>,
    /// What is shared out at this moment, in requests per second, of `fair_share`.
    pub capacity: Option<f64>,
    /// What would be admitted at this moment if the capacity did not cap it, in requests per second, of `fair_share`.
    pub offered: Option<f64>,
}

impl Limiter {
    /// What it can say of its state.
    pub fn gauges(&self) -> Gauges {
        let mut gauges = Gauges {
            memory: self.memory().0,
            pending: self.pending.as_ref().map(|pending| pending.total()),
            ..Gauges::default()
        };
        match &self.state {
            State::Rate(limiter) => gauges.exact_keys = Some(limiter.exact_entries()),
            State::Quota(limiter) => gauges.exact_keys = Some(limiter.exact_entries()),
            State::RecentAverage(limiter) => gauges.exact_keys = Some(limiter.tiered().exact_entries()),
            State::SlidingQuota(_) => {}
            State::Distinct(limiter) => {
                gauges.load = Some(limiter.load());
                gauges.displaced = Some(limiter.displaced());
            }
            State::FairShare { share, .. } => {
                gauges.share = Some(share.alpha());
                gauges.capacity = share.capacity();
                gauges.offered = Some(share.offered_rate());
            }
            State::Inflight(limiter) => {
                gauges.inflight = Some(limiter.held());
                gauges.upgraded = Some(limiter.upgraded());
            }
            State::InflightByKey { places, upgraded, .. } => {
                gauges.inflight = Some(places.held_total());
                gauges.upgraded = Some(upgraded.held_total());
            }
        }
        gauges
    }

    /// How crowded its table is at `now`, of `rate`, aligned `quota` and `recent_average`: the others have no such table.
    pub fn crowding(&self, now: Timestamp) -> Option<Crowding> {
        match &self.state {
            State::Rate(limiter) => Some(limiter.crowding(now)),
            State::Quota(limiter) => Some(limiter.crowding(now)),
            State::RecentAverage(limiter) => Some(limiter.tiered().crowding(now)),
            State::SlidingQuota(_)
            | State::Distinct(_)
            | State::FairShare { .. }
            | State::Inflight(_)
            | State::InflightByKey { .. } => None,
        }
    }
}
