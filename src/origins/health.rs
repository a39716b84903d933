//! Active checks: every address of an origin is asked now and then whether it is well, whatever requests meet there.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::endpoint::Endpoint;
use super::origin::OriginState;
use super::probe::{self, Failure};
use super::verdict::Verdict;
use crate::policy::HealthCheck;
use crate::system::clock::{Clock, roll};

/// Checks under way at once for one origin: a name may have hundreds of addresses, and each check has a socket.
const AT_ONCE: usize = 64;

/// By how much rounds come earlier or later, as a part of their interval: gates that were started together must not ask
/// together for ever.
const JITTER: f64 = 0.1;

/// Checks all addresses round by round until shutdown, the first time at once. Returns at once where no checks are wanted.
pub async fn keep_checking(origin: Arc<OriginState>, clock: Clock, mut shutdown: watch::Receiver<bool>) {
    let Some(check) = origin.spec().health.clone() else { return };
    loop {
        let next = Instant::now() + jittered(check.every, roll());
        let rounds = async {
            check_all(&origin, &check, clock).await;
            tokio::time::sleep_until(next).await;
        };
        tokio::select! {
            () = rounds => {}
            changed = shutdown.changed() => if changed.is_err() || *shutdown.borrow() { return },
        }
    }
}

/// One round over the addresses that there are now.
async fn check_all(origin: &Arc<OriginState>, check: &HealthCheck, clock: Clock) {
    let endpoints = origin.ring().endpoints.clone();
    for some in endpoints.chunks(AT_ONCE) {
        let mut checks = JoinSet::new();
        for endpoint in some.iter().cloned() {
            let (origin, check) = (Arc::clone(origin), check.clone());
            checks.spawn(async move {
                let outcome = probe::check(origin.spec(), origin.way(), &check, endpoint.address, endpoint.entry).await;
                (endpoint, outcome)
            });
        }
        while let Some(ended) = checks.join_next().await {
            // a check that panicked has been reported by the panic hook and says nothing about its address
            let Ok((endpoint, outcome)) = ended else { continue };
            note(origin, check, &endpoint, &outcome, clock);
        }
    }
}

fn note(origin: &OriginState, check: &HealthCheck, endpoint: &Endpoint, outcome: &Result<(), Failure>, clock: Clock) {
    let name = &origin.spec().name;
    match (endpoint.checked.note(check, outcome.is_ok(), clock.now()), outcome) {
        (Some(Verdict::Unhealthy), Err(failure)) => tracing::warn!(
            origin = name,
            address = %endpoint.address,
            cause = %failure,
            "an address fails its health checks: it is left out"
        ),
        (Some(Verdict::Healthy), _) => {
            tracing::info!(origin = name, address = %endpoint.address, "an address passes its health checks");
        }
        _ => {}
    }
}

/// The interval, up to a tenth shorter or longer by the dice.
fn jittered(every: Duration, dice: u64) -> Duration {
    let uniform = (dice >> 11) as f64 / (1_u64 << 53) as f64;
    every.mul_f64(1.0 + JITTER * (2.0 * uniform - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_come_a_tenth_earlier_or_later_at_most() {
        let every = Duration::from_secs(10);
        assert_eq!(jittered(every, 0), Duration::from_secs(9));
        assert!(jittered(every, u64::MAX) <= Duration::from_secs(11));
        assert_eq!(jittered(every, 1 << 63), every);
    }
}
