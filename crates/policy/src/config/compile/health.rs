//! `health`, `ejection`, `slow_start`, `adaptive` and `retries` of an origin.

use std::time::Duration;

use super::checks::{number32, out_of_place, span};
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::pattern::ExactPath;
use crate::config::read::Field;
use crate::config::scalar;
use crate::config::schema;
use crate::config::shape::Either;
use crate::config::word::{ProbeWord, RetryOn};
use crate::limiter::adaptive::{AdaptiveSpec, Algorithm};
use crate::policy::{Ejection, HealthCheck, InflightCap, Probe, Retries, StatusSet};
use crate::units::Share;

const HOUR: Duration = Duration::from_secs(3_600);

/// An answer that was sent on, or says where to go, comes from a server that works.
fn well() -> StatusSet {
    StatusSet::NONE.with(200, 399)
}

/// Half of the requests is more than any one bad page makes.
const ERROR_SHARE: f64 = 0.5;
/// Below this many two unlucky ones would be a tenth.
const MIN_REQUESTS: u32 = 20;
/// With more than half of the servers out, the rest would get more than twice their load.
const MOST: f64 = 0.5;
/// What Envoy and Linkerd take where tries may have reached an origin.
const BUDGET: f64 = 0.2;
/// Enough to measure by, and little enough to start with.
const LEAST_CAP: u32 = 10;

/// The checks; `None` when there are none.
pub fn health(field: &Field<Either<ExactPath, schema::Health>>, faults: &mut Faults) -> Option<HealthCheck> {
    let own = HealthCheck::default();
    let long = match field.value()? {
        Either::Short(path) => {
            let probe = Probe::Http { path: path.0.clone(), host: None, statuses: well() };
            return Some(HealthCheck { probe, ..own });
        }
        Either::Long(long) => long,
    };
    let tcp = match long.r#type.is_present() {
        true => long.r#type.value() == Some(&ProbeWord::Tcp),
        false => !long.path.is_present(),
    };
    let probe = if tcp {
        const HELP: &str = "give the check a `path`, and no `type: tcp`";
        out_of_place(&long.path, "a check that only connects has no `path`", "leave out `type: tcp`", faults);
        out_of_place(&long.host, "a check that only connects has no `host`", HELP, faults);
        out_of_place(&long.status, "a check that only connects has no `status`", HELP, faults);
        Probe::Tcp
    } else {
        Probe::Http {
            path: long.path.value().map_or("/", |path| &path.0).to_owned(),
            host: long.host.value().map(|host| host.0.clone()),
            statuses: long.status.value().map_or_else(well, |statuses| statuses.0),
        }
    };
    let every = span(&long.every, Duration::from_millis(100)..=HOUR, own.every, faults);
    let timeout = span(&long.timeout, Duration::from_millis(1)..=HOUR, own.timeout.min(every), faults);
    if timeout > every {
        let at = long.timeout.get().map(|at| at.span).unwrap_or_default();
        faults.push(
            Diagnostic::error(Code::CONFLICT, at, "a check may take longer than the time to the next one")
                .label(format!("must be at most `every`, {}", scalar::duration(every))),
        );
    }
    let healthy_after = number32(&long.healthy_after, 1..=100, own.healthy_after, faults);
    let unhealthy_after = number32(&long.unhealthy_after, 1..=100, own.unhealthy_after, faults);
    Some(HealthCheck { probe, every, timeout, healthy_after, unhealthy_after })
}

/// When servers are left out; `None` when they never are.
pub fn ejection(field: &Field<schema::Ejection>, faults: &mut Faults) -> Option<Ejection> {
    let own = field.value()?;
    let seconds = Duration::from_secs;
    let base = span(&own.base, Duration::from_millis(100)..=HOUR, seconds(10), faults);
    let max = span(&own.max, Duration::from_millis(100)..=24 * HOUR, seconds(300).max(base), faults);
    if max < base {
        let at = own.max.get().map(|at| at.span).unwrap_or_default();
        faults.push(
            Diagnostic::error(Code::CONFLICT, at, "the longest ejection is shorter than the first")
                .label(format!("must be at least `base`, {}", scalar::duration(base))),
        );
    }
    Some(Ejection {
        consecutive_failures: number32(&own.consecutive_failures, 1..=1_000, 5, faults),
        error_share: part(&own.error_share, ERROR_SHARE, faults),
        window: span(&own.window, seconds(1)..=HOUR, seconds(10), faults),
        min_requests: number32(&own.min_requests, 1..=1_000_000, MIN_REQUESTS, faults),
        base,
        max,
        most: part(&own.most, MOST, faults),
    })
}

/// A share above zero.
fn part(field: &Field<Share>, default: f64, faults: &mut Faults) -> Share {
    let default = Share::new(default).unwrap_or(Share::ALL);
    let Some(at) = field.get() else { return default };
    if at.value.get() > 0.0 {
        return at.value;
    }
    faults.push(
        Diagnostic::error(Code::OUT_OF_RANGE, at.span, "0% would eject without reason or never")
            .label("must be above 0%, up to 100%")
            .help("without `ejection` no server is left out"),
    );
    default
}

/// For how long a server that comes back gets less; zero when it gets all at once. `taken_out`: whether any ever is.
pub fn slow_start(field: &Field<Duration>, taken_out: bool, faults: &mut Faults) -> Duration {
    if let Some(key) = field.key().filter(|_| !taken_out) {
        faults.push(
            Diagnostic::error(Code::CONFLICT, key, "`slow_start` without `health` or `ejection`")
                .label("no server is ever taken out")
                .help("give the origin a `health` or an `ejection`"),
        );
    }
    span(field, Duration::from_millis(100)..=HOUR, Duration::ZERO, faults)
}

/// How the cap moves; `None` when it stays.
pub fn adaptive(
    field: &Field<schema::Adaptive>,
    inflight: Option<InflightCap>,
    has_inflight: bool,
    faults: &mut Faults,
) -> Option<AdaptiveSpec> {
    let own = field.value()?;
    let Some(cap) = inflight else {
        if let Some(key) = field.key().filter(|_| !has_inflight) {
            faults.push(
                Diagnostic::error(Code::CONFLICT, key, "`adaptive` without `inflight`")
                    .label("how high the cap may go is not known")
                    .help("give the origin an `inflight`, such as 400"),
            );
        }
        return None;
    };
    Some(AdaptiveSpec {
        algorithm: own.algorithm.value().copied().unwrap_or(Algorithm::Aimd),
        min: number32(&own.min, 1..=cap.max, LEAST_CAP.min(cap.max), faults),
        max: cap.max,
        target: own.target.value().map(|target| target.0),
    })
}

/// What is tried again.
pub fn retries(field: &Field<schema::Retries>, faults: &mut Faults) -> Retries {
    let own = Retries::default();
    let Some(retries) = field.value() else { return own };
    let on = retries.on.get();
    if let Some(on) = on.filter(|on| on.value.items.is_empty() && !on.value.bad) {
        faults.push(
            Diagnostic::error(Code::EMPTY_VALUE, on.span, "`on` names no reason to retry")
                .label("needs `connect_error`")
                .help("`max: 0` switches retries off"),
        );
    }
    let has = |word: RetryOn| on.map(|on| on.value.items.iter().any(|item| item.value == word));
    let on_reset_before_answer = has(RetryOn::ResetBeforeAnswer).unwrap_or(own.on_reset_before_answer);
    let on_timeout = has(RetryOn::Timeout).unwrap_or(own.on_timeout);
    // what reached nobody loads nobody; everything else must be bounded
    let bounded = (on_reset_before_answer || on_timeout).then(|| Share::new(BUDGET).unwrap_or(Share::ALL));
    Retries {
        max: number32(&retries.max, 0..=5, own.max, faults),
        on_connect_error: has(RetryOn::ConnectError).unwrap_or(own.on_connect_error),
        on_reset_before_answer,
        on_timeout,
        budget: retries.budget.value().copied().or(bounded),
    }
}
