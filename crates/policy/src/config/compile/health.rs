//! `health`, `ejection`, `slow_start`, `adaptive` and `retries` of an origin.

use std::time::Duration;

use super::checks::{number32, out_of_place};
use crate::config::fault::{Code, Diagnostic, Faults};
use crate::config::pattern::ExactPath;
use crate::config::read::Field;
use crate::config::scalar;
use crate::config::schema;
use crate::config::setting::{Words, values};
use crate::config::shape::Either;
use crate::config::word::{ProbeWord, RetryOn};
use crate::limiter::adaptive::AdaptiveSpec;
use crate::policy::{Ejection, HealthCheck, InflightCap, Probe, Retries};
use crate::units::Share;

/// What Envoy and Linkerd take where tries may have reached an origin.
const BUDGET: f64 = 0.2;
/// Enough to measure by, and little enough to start with.
const LEAST_CAP: u32 = 10;

/// The checks; `None` when there are none.
pub fn health(field: &Field<Either<ExactPath, schema::Health>>, faults: &mut Faults) -> Option<HealthCheck> {
    let long = match field.value()? {
        Either::Short(path) => {
            let own = schema::Health::default();
            let probe = Probe::Http { path: path.0.clone(), host: None, statuses: own.status() };
            return Some(check(probe, &own));
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
            statuses: long.status(),
        }
    };
    let check = check(probe, long);
    if let Some(at) = long.timeout.get().filter(|at| at.value > check.every) {
        faults.push(
            Diagnostic::error(Code::CONFLICT, at.span, "a check may take longer than the time to the next one")
                .label(format!("must be at most `every`, {}", scalar::duration(check.every))),
        );
    }
    Some(check)
}

fn check(probe: Probe, own: &schema::Health) -> HealthCheck {
    HealthCheck {
        probe,
        every: own.every(),
        timeout: own.timeout().min(own.every()),
        healthy_after: own.healthy_after(),
        unhealthy_after: own.unhealthy_after(),
    }
}

impl Default for HealthCheck {
    fn default() -> HealthCheck {
        check(Probe::Tcp, &schema::Health::default())
    }
}

/// When servers are left out; `None` when they never are.
pub fn ejection(field: &Field<Words<Ejection>>, faults: &mut Faults) -> Option<Ejection> {
    let own = field.value()?;
    let mut ejection: Ejection = values(field);
    match own.max.get() {
        None => ejection.max = ejection.max.max(ejection.base),
        Some(at) if ejection.max < ejection.base => faults.push(
            Diagnostic::error(Code::CONFLICT, at.span, "the longest ejection is shorter than the first")
                .label(format!("must be at least `base`, {}", scalar::duration(ejection.base))),
        ),
        Some(_) => {}
    }
    for at in [&own.error_share, &own.most].into_iter().filter_map(Field::get).filter(|at| at.value.get() == 0.0) {
        faults.push(
            Diagnostic::error(Code::OUT_OF_RANGE, at.span, "0% would eject without reason or never")
                .label("must be above 0%, up to 100%")
                .help("without `ejection` no server is left out"),
        );
    }
    Some(ejection)
}

/// For how long a server that comes back gets less; zero when it gets all at once.
pub fn slow_start(origin: &schema::Origin, faults: &mut Faults) -> Duration {
    let taken_out = origin.health.is_present() || origin.ejection.is_present();
    if let Some(key) = origin.slow_start.key().filter(|_| !taken_out) {
        faults.push(
            Diagnostic::error(Code::CONFLICT, key, "`slow_start` without `health` or `ejection`")
                .label("no server is ever taken out")
                .help("give the origin a `health` or an `ejection`"),
        );
    }
    origin.slow_start().unwrap_or_default()
}

/// How the cap moves; `None` when it stays.
pub fn adaptive(
    field: &Field<schema::Adaptive>,
    inflight: Option<&InflightCap>,
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
        algorithm: own.algorithm(),
        min: number32(&own.min, 1..=cap.max, LEAST_CAP.min(cap.max), faults),
        max: cap.max,
        target: own.target.value().map(|target| target.0),
    })
}

/// What is tried again.
pub fn retries(field: &Field<schema::Retries>, faults: &mut Faults) -> Retries {
    let Some(own) = field.value() else { return Retries::default() };
    if let Some(on) = own.on.get().filter(|on| on.value.items.is_empty() && !on.value.bad) {
        faults.push(
            Diagnostic::error(Code::EMPTY_VALUE, on.span, "`on` names no reason to retry")
                .label("needs `connect_error`")
                .help("`max: 0` switches retries off"),
        );
    }
    retries_of(own)
}

fn retries_of(own: &schema::Retries) -> Retries {
    let has = |word: RetryOn| own.on.value().map(|on| on.items.iter().any(|item| item.value == word));
    let on_reset_before_answer = has(RetryOn::ResetBeforeAnswer).unwrap_or(false);
    let on_timeout = has(RetryOn::Timeout).unwrap_or(false);
    // what reached nobody loads nobody; everything else must be bounded
    let bounded = (on_reset_before_answer || on_timeout).then(|| Share::new(BUDGET).unwrap_or(Share::ALL));
    Retries {
        max: own.max(),
        on_connect_error: has(RetryOn::ConnectError).unwrap_or(true),
        on_reset_before_answer,
        on_timeout,
        budget: own.budget.value().copied().or(bounded),
    }
}

impl Default for Retries {
    fn default() -> Retries {
        retries_of(&schema::Retries::default())
    }
}
