//! One address of an origin at run time: what is with it, how it is, and how much of its weight it gets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::ejection::Record;
use super::kept::Kept;
use super::verdict::{Checked, Verdict};
use crate::limiter::Slots;
use crate::policy::Origin;
use crate::units::Timestamp;

/// The least part of its weight that an address gets once it is back, as Envoy has it: with less it would learn nothing.
const FIRST_PART: f64 = 0.1;

/// An address, and all that is known of it.
#[derive(Debug)]
pub struct Endpoint {
    /// Where to connect.
    pub address: SocketAddr,
    /// The same for people, made once as every line of the access log has it.
    pub name: Arc<str>,
    /// Its part of the traffic relative to its siblings.
    pub weight: u32,
    /// Position in the policy of the address that it was found by.
    pub entry: usize,
    /// Requests that are with it; the cap is never reached.
    pub inflight: Arc<Slots>,
    /// What checks have found.
    pub checked: Arc<Checked>,
    /// What requests have met.
    pub record: Arc<Record>,
    /// Connections that wait for another request of the direct lane.
    pub kept: Arc<Kept>,
}

impl Endpoint {
    /// One of which nothing is known.
    pub fn new(address: SocketAddr, name: &str, weight: u32, entry: usize) -> Arc<Endpoint> {
        let inflight = Slots::new(u32::MAX);
        let (checked, record, kept) = Default::default();
        Arc::new(Endpoint { address, name: name.into(), weight, entry, inflight, checked, record, kept })
    }

    /// The same address under another weight or at another place in the list. What checks have found is forgotten where none are made
    /// any more.
    pub fn moved(&self, weight: u32, entry: usize, is_checked: bool) -> Arc<Endpoint> {
        let checked = if is_checked { Arc::clone(&self.checked) } else { Arc::default() };
        let (inflight, record, kept) = (Arc::clone(&self.inflight), Arc::clone(&self.record), Arc::clone(&self.kept));
        Arc::new(Endpoint {
            address: self.address,
            name: Arc::clone(&self.name),
            weight,
            entry,
            inflight,
            checked,
            record,
            kept,
        })
    }

    /// Whether requests may be sent to it.
    pub fn is_usable(&self, now: Timestamp) -> bool {
        self.checked.verdict() != Verdict::Unhealthy && !self.record.is_out(now)
    }

    /// The part of its weight that it gets: 0 while it is out, then growing evenly from a tenth to the whole over the slow
    /// start. An address that was never out has the whole.
    pub fn part(&self, spec: &Origin, now: Timestamp) -> f64 {
        if !self.is_usable(now) {
            return 0.0;
        }
        if spec.slow_start == Duration::ZERO {
            return 1.0;
        }
        let back = self.checked.returned().max(self.record.ends());
        if back == Timestamp::ZERO {
            return 1.0;
        }
        grown(now.since(back), spec.slow_start)
    }
}

fn grown(since: Duration, slow_start: Duration) -> f64 {
    (since.as_secs_f64() / slow_start.as_secs_f64()).clamp(FIRST_PART, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::HealthCheck;

    #[test]
    fn the_part_grows_evenly_after_a_return_and_never_before() {
        let spec = Origin { slow_start: Duration::from_secs(10), ..Origin::of("shop".into(), Vec::new()) };
        let endpoint = Endpoint::new(SocketAddr::from(([127, 0, 0, 1], 1)), "127.0.0.1:1", 1, 0);
        let at = |seconds: u64| Timestamp::from_nanos(seconds * 1_000_000_000);
        assert_eq!(endpoint.part(&spec, at(100)), 1.0, "new ones are taken as they are");
        let check = HealthCheck { healthy_after: 1, unhealthy_after: 1, ..HealthCheck::default() };
        endpoint.checked.note(&check, false, at(100));
        assert_eq!(endpoint.part(&spec, at(101)), 0.0);
        endpoint.checked.note(&check, true, at(200));
        let mut last = 0.0;
        for seconds in 200..=210 {
            let part = endpoint.part(&spec, at(seconds));
            assert!(part >= last && part >= FIRST_PART);
            last = part;
        }
        assert_eq!((endpoint.part(&spec, at(205)), last), (0.5, 1.0));
        assert_eq!(endpoint.part(&spec, at(150)), FIRST_PART, "a clock that steps back: no time has passed");
        let at_once = Origin { slow_start: Duration::ZERO, ..spec };
        assert_eq!(endpoint.part(&at_once, at(200)), 1.0);
    }
}
