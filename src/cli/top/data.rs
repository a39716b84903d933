//! From the running process's answers to what is shown: rates of the last seconds, joined by name.
//!
//! Nothing is measured here and no clock is read: rates are means of the process's own history, so that one look says as much
//! as many. What a process of a later version tells beside is left out.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::observe::condition::{Next, next};
use crate::observe::history::{LimitPast, OriginPast, Past, RoutePast};
use crate::observe::notices;
use crate::observe::state::{
    Answers, Condition, Door, Limit as LimitNow, Offenders, Origin as OriginNow, Overload, Requests, Route as RouteNow,
    State, Word,
};

/// What the first member of `--format json` says.
pub const SCHEMA: &str = "tidegate.top/1";

/// How many seconds of history are asked for.
pub const SECONDS: usize = 600;

/// Over how many of the last seconds rates are means: a single one jumps.
const SMOOTHED: usize = 10;

/// How many points the ten minutes of a limit or route are put into.
const POINTS: usize = 20;

/// The configuration in force.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Config {
    /// Its fingerprint.
    pub fingerprint: String,
    /// Time since it is in force.
    pub age_seconds: u64,
}

/// Something that the operator should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// A word that stays.
    pub kind: Word,
    /// One line.
    pub text: String,
}

/// Everything that is shown; as JSON it is `tidegate.top/1`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Model {
    /// Always [`SCHEMA`].
    pub schema: &'static str,
    /// Of the running process.
    pub version: Word,
    /// The machine's name.
    pub instance: String,
    /// The process's number.
    pub process: u32,
    /// `starting`, `ready` or `stopping`.
    pub state: Word,
    /// Since its start.
    pub uptime_seconds: u64,
    /// The whole in one sentence.
    pub condition: Condition,
    /// What an operator can do.
    #[serde(skip)]
    pub next: Next,
    /// What is in force.
    pub config: Config,
    /// Since its start.
    pub requests: Requests,
    /// Of all routes, over the last ten seconds like every rate here.
    pub requests_per_second: f64,
    /// Passed, at once or after a wait, and not failed by the origin.
    pub passed_per_second: f64,
    /// Turned away by limits.
    pub limited_per_second: f64,
    /// Which part of all limits turned away, 0 to 1.
    pub limited_share: f64,
    /// Turned away for lack of room.
    pub shed_per_second: f64,
    /// Failed by their origins: answered 5xx, or not as a whole.
    pub failed_per_second: f64,
    /// How near the process is to what it can serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overload: Option<Overload>,
    /// In the order of the policy file.
    pub routes: Vec<Route>,
    /// In the order of the policy file.
    pub limits: Vec<Limit>,
    /// In the order of the policy file.
    pub origins: Vec<Origin>,
    /// Who holds places or waits, at each origin and `fair_share` at which somebody waits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doors: Vec<NamedDoor>,
    /// Whom the limits refused most.
    pub offenders: Offenders,
    /// What the operator should know of.
    pub notices: Vec<Notice>,
}

/// The door of an origin or a limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct NamedDoor {
    /// The origin or the limit.
    pub name: String,
    /// Who holds and who waits.
    #[serde(flatten)]
    pub door: Door,
}

/// A limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Limit {
    /// In the policy file.
    pub name: String,
    /// Its type.
    pub kind: Word,
    /// `enforce` or `shadow`.
    pub mode: Word,
    /// How many keys have a debt; estimated, unless the type counts them.
    pub keys: Option<u64>,
    /// Which part of its table holds a debt, 0 to 1.
    pub fill: Option<f64>,
    /// Requests that fitted.
    pub allowed_per_second: f64,
    /// Of these, the ones that nothing else refused: they were served.
    pub admitted_per_second: f64,
    /// Of these, the ones that were refused by another limit, or for lack of room.
    pub refused_elsewhere_per_second: f64,
    /// Requests turned away.
    pub limited_per_second: f64,
    /// Did not fit, and passed.
    pub shadow_per_second: f64,
    /// What did not fit per second, limited or not, over ten minutes in twenty points; the oldest first.
    pub ten_minutes: Vec<f64>,
    /// By verdict, since the process began.
    pub decisions: BTreeMap<Word, u64>,
}

/// A route.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Route {
    /// In the policy file.
    pub name: String,
    /// Requests that ended.
    pub requests_per_second: f64,
    /// Requests turned away, by limits or for lack of room.
    pub refused_per_second: f64,
    /// Requests that the origin failed: answered 5xx, or not as a whole.
    pub failed_per_second: f64,
    /// What was refused per second, over ten minutes in twenty points; the oldest first.
    pub ten_minutes: Vec<f64>,
    /// What became of those that were forwarded in the last ten seconds.
    pub answers: Answers,
    /// The time that half of these did not exceed until the answer's head; `None` without any.
    pub p50_seconds: Option<f64>,
    /// The same of 99 %.
    pub p99_seconds: Option<f64>,
}

/// An origin.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Origin {
    /// In the policy file.
    pub name: String,
    /// Requests that are with it.
    pub inflight: u64,
    /// How many may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Requests that wait for a place.
    pub queued: u64,
    /// What became of the requests of the last ten seconds.
    pub answers: Answers,
    /// The share of these that it failed, 0 to 1: answered 5xx, or not as a whole; `None` without any.
    pub failed_share: Option<f64>,
    /// The time that half of them did not exceed until the answer's head; `None` without any.
    pub p50_seconds: Option<f64>,
    /// What 95 % of them took at most.
    pub p95_seconds: Option<f64>,
    /// What 99 % of them took at most.
    pub p99_seconds: Option<f64>,
    /// Failed attempts.
    pub errors_per_second: f64,
    /// Requests without a place.
    pub shed_per_second: f64,
    /// Failed attempts since the process began.
    pub errors: u64,
    /// Requests without a place since the process began.
    pub shed: u64,
    /// Addresses in use.
    pub healthy: usize,
    /// All addresses.
    pub endpoints: usize,
}

impl Model {
    /// Joins the answers.
    pub fn of(status: State, history: &Past<f64>, offenders: Offenders) -> Model {
        // a process that is younger than the mean has not been silent before it began
        let seconds = usize::try_from(status.uptime_seconds).unwrap_or(SMOOTHED).clamp(1, SMOOTHED);
        let sum = |part: fn(&RoutePast<f64>) -> &Vec<f64>| -> f64 {
            history.routes.values().map(|route| mean(part(route), seconds)).sum()
        };
        let next = next(&status, &offenders);
        let limited = sum(|route| &route.limited);
        let passed = sum(|route| &route.allowed) + sum(|route| &route.delayed);
        let (shed, failed) = (sum(|route| &route.shed), sum(|route| &route.failed));
        let requests = passed + limited + shed + failed;
        let route = |now: RouteNow| {
            let past = history.routes.get(&now.name);
            Route::of(now, past.unwrap_or(&RoutePast::default()), seconds)
        };
        let limit = |now: LimitNow| {
            let past = history.limits.get(&now.name);
            Limit::of(now, past.unwrap_or(&LimitPast::default()), seconds)
        };
        let origin = |now: OriginNow| {
            let past = history.origins.get(&now.name);
            Origin::of(now, past.unwrap_or(&OriginPast::default()), seconds)
        };
        let named = |(name, door): (&str, &Door)| NamedDoor { name: name.to_owned(), door: door.clone() };
        let doors = status.contended_doors().into_iter().map(named).collect();
        Model {
            schema: SCHEMA,
            version: status.version,
            instance: status.instance,
            process: status.process,
            notices: notices(&status.state, status.waiting_for_upgrade, &status.notices),
            state: status.state,
            uptime_seconds: status.uptime_seconds,
            condition: status.condition,
            next,
            config: Config { fingerprint: status.config.fingerprint, age_seconds: status.config.age_seconds },
            requests: status.requests,
            requests_per_second: requests,
            passed_per_second: passed,
            limited_per_second: limited,
            limited_share: if requests > 0.0 { limited / requests } else { 0.0 },
            shed_per_second: shed,
            failed_per_second: failed,
            overload: status.overload,
            routes: status.routes.into_iter().map(route).collect(),
            limits: status.limits.into_iter().map(limit).collect(),
            origins: status.origins.into_iter().map(origin).collect(),
            doors,
            offenders,
        }
    }
}

impl Route {
    fn of(now: RouteNow, past: &RoutePast<f64>, seconds: usize) -> Route {
        let refused = mean(&past.limited, seconds) + mean(&past.shed, seconds);
        let failed = mean(&past.failed, seconds);
        let turned_away = past.limited.iter().zip(&past.shed).map(|(limited, shed)| limited + shed);
        let turned_away: Vec<f64> = turned_away.collect();
        Route {
            ten_minutes: points(&turned_away),
            name: now.name,
            requests_per_second: mean(&past.allowed, seconds) + mean(&past.delayed, seconds) + refused + failed,
            refused_per_second: refused,
            failed_per_second: failed,
            answers: now.recent.answers,
            p50_seconds: now.recent.p50_seconds,
            p99_seconds: now.recent.p99_seconds,
        }
    }
}

impl Limit {
    fn of(now: LimitNow, past: &LimitPast<f64>, seconds: usize) -> Limit {
        let refused: Vec<f64> =
            past.limited.iter().zip(&past.shadow).map(|(limited, shadow)| limited + shadow).collect();
        let [admitted, limited, shadow, elsewhere] =
            [&past.allowed, &past.limited, &past.shadow, &past.elsewhere].map(|points| mean(points, seconds));
        Limit {
            name: now.name,
            kind: now.kind,
            mode: now.mode,
            keys: now.keys.or(now.exact_keys),
            fill: now.fill,
            allowed_per_second: admitted + elsewhere,
            admitted_per_second: admitted,
            refused_elsewhere_per_second: elsewhere,
            limited_per_second: limited,
            shadow_per_second: shadow,
            ten_minutes: points(&refused),
            decisions: now.decisions,
        }
    }
}

impl Origin {
    fn of(now: OriginNow, past: &OriginPast<f64>, seconds: usize) -> Origin {
        Origin {
            name: now.name,
            inflight: now.inflight,
            limit: now.limit,
            queued: now.queued,
            answers: now.recent.answers,
            failed_share: now.recent.answers.error_share(),
            p50_seconds: now.recent.p50_seconds,
            p95_seconds: past.p95.last().copied().filter(|seconds| *seconds > 0.0),
            p99_seconds: now.recent.p99_seconds,
            errors_per_second: mean(&past.errors, seconds),
            shed_per_second: mean(&past.shed, seconds),
            errors: now.errors,
            shed: now.shed,
            healthy: now.healthy,
            endpoints: now.endpoints.len(),
        }
    }
}

/// The process's own notices, behind those on its state and its file.
fn notices(state: &str, waiting: Vec<String>, told: &[notices::notice::Notice]) -> Vec<Notice> {
    let mut notices = Vec::new();
    if state != "ready" {
        notices.push(Notice { kind: "state".into(), text: format!("the process is {state}") });
    }
    let waits =
        |text| Notice { kind: "waiting_for_upgrade".into(), text: format!("waits for `tidegate upgrade`: {text}") };
    notices.extend(waiting.into_iter().map(waits));
    notices.extend(told.iter().map(|notice| Notice { kind: notice.kind.word().into(), text: notice.text.clone() }));
    notices
}

/// The mean of the last so many points.
fn mean(points: &[f64], seconds: usize) -> f64 {
    let last = points.get(points.len().saturating_sub(seconds)..).unwrap_or_default();
    if last.is_empty() { 0.0 } else { last.iter().sum::<f64>() / last.len() as f64 }
}

/// The last ten minutes in few points, each the mean of its seconds.
fn points(past: &[f64]) -> Vec<f64> {
    let lately = past.get(past.len().saturating_sub(SECONDS)..).unwrap_or_default();
    lately.chunks(SECONDS / POINTS).map(|seconds| mean(seconds, seconds.len())).collect()
}

#[cfg(test)]
pub mod tests;
