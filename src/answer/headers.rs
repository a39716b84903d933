//! What an answer tells about limits: `RateLimit`, `RateLimit-Policy`, their two older spellings, and `Retry-After`.
//!
//! Everything is read from the one [`Decision`]; no limiter is asked. Only enforced `rate` limits are told: a shadow
//! rule must not show, and how full the gate or an origin is, is not the client's business. Numbers are in requests of
//! the rule's cost. Quotas and remainders are rounded down, times up, so that they never promise more than there is.
//!
//! Sources: draft-ietf-httpapi-ratelimit-headers-10 (the fields), its revision 06 (the triple), RFC 9110 §10.2.3
//! (`Retry-After`), the Fetch standard (`Access-Control-Expose-Headers`).

use std::cmp::Reverse;

use arrayvec::ArrayVec;
use http::header::ACCESS_CONTROL_EXPOSE_HEADERS;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::structured::{List, Unwritable};
use crate::engine::{Decision, Outcome, Reading, Refusal, Verdict};
use crate::policy::{FieldStyle, Kind, Mode, Policy, Report, Responses, Route, Rule};
use crate::units::time::ceil_seconds;

/// Fields to be added to an answer, each as a line of its own.
pub type Fields = ArrayVec<(HeaderName, HeaderValue), 4>;

static RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
static RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// What is the same on every answer of a route, made once when the policy is loaded.
#[derive(Debug, Clone)]
pub struct RouteFields {
    style: FieldStyle,
    /// `RateLimit-Policy`.
    plain: Option<HeaderValue>,
    /// The same under names that are set apart from the origin's.
    apart: Option<HeaderValue>,
    /// The names as they stand in a field, with their quotes, to recognise the origin's.
    names: Vec<String>,
    names_apart: Vec<String>,
    expose: bool,
}

impl RouteFields {
    /// The fields of one of the policy's routes.
    pub fn new(policy: &Policy, route: &Route) -> RouteFields {
        let rules = || {
            let rules = route.rules.iter().filter_map(|rule| policy.rules.get(*rule));
            rules.filter_map(|rule| Some((&**rule, quota(rule)?)))
        };
        RouteFields {
            style: policy.responses.fields,
            plain: policy_field("", rules()),
            apart: policy_field(APART, rules()),
            names: rules().map(|(rule, _)| format!("\"{}\"", rule.name)).collect(),
            names_apart: rules().map(|(rule, _)| format!("\"{APART}{}\"", rule.name)).collect(),
            expose: policy.responses.expose,
        }
    }

    /// What an answer of this route tells, to be added as further lines to those in `beside`: the origin's header
    /// fields, or none when the answer is ours. `wall_unix_nanos` is only used for the legacy spelling, which tells
    /// points in time.
    ///
    /// * 1xx: nothing.
    /// * 3xx: no remainder, because a low one makes clients wait where they should follow at once.
    /// * The origin names a limit as we do: ours are told as `edge.NAME`; when it uses those names too, ours are left
    ///   out.
    /// * The origin sends a field of the older spellings, which can stand only once: ours are left out.
    /// * Refused: all limits that were violated, the longest wait first; when it was not for a limit, no remainder.
    pub fn on_answer(
        &self,
        decision: &Decision,
        policy: &Policy,
        status: StatusCode,
        beside: &HeaderMap,
        wall_unix_nanos: u64,
    ) -> Fields {
        let readings = match decision.verdict {
            _ if status.is_redirection() => Selected::new(),
            Verdict::Admitted => nearest(decision, policy),
            Verdict::Refused(refusal) => behind(refusal, decision, policy),
        };
        if status.is_informational() {
            return Fields::new();
        }
        let mut fields = self.tell(&readings, beside, wall_unix_nanos);
        if self.expose && !fields.is_empty() {
            fields.push((ACCESS_CONTROL_EXPOSE_HEADERS, exposed(self.style)));
        }
        fields
    }

    /// What our own answer to a refusal tells, whatever the decision said before.
    pub fn on_refusal(&self, refusal: Refusal, decision: &Decision, policy: &Policy, wall_unix_nanos: u64) -> Fields {
        let mut fields = self.tell(&behind(refusal, decision, policy), &HeaderMap::new(), wall_unix_nanos);
        if self.expose {
            fields.push((ACCESS_CONTROL_EXPOSE_HEADERS, exposed(self.style)));
        }
        fields
    }

    fn tell(&self, readings: &[Line<'_>], beside: &HeaderMap, wall_unix_nanos: u64) -> Fields {
        let mut fields = Fields::new();
        match self.style {
            FieldStyle::Draft => self.draft(readings, beside, &mut fields),
            FieldStyle::Triple => single(&TRIPLE, readings, beside, 0, &mut fields),
            FieldStyle::Legacy => single(&LEGACY, readings, beside, wall_unix_nanos, &mut fields),
            FieldStyle::Off => {}
        }
        fields
    }

    fn draft(&self, readings: &[Line<'_>], beside: &HeaderMap, fields: &mut Fields) {
        let (prefix, policy) = match self.clashes(beside) {
            None => ("", &self.plain),
            Some(false) => (APART, &self.apart),
            Some(true) => return,
        };
        fields.extend(policy.clone().map(|policy| (RATELIMIT_POLICY.clone(), policy)));
        fields.extend(limit_field(prefix, readings).map(|limits| (RATELIMIT.clone(), limits)));
    }

    /// Whether the origin uses one of our names, and if so, whether also with the prefix.
    fn clashes(&self, beside: &HeaderMap) -> Option<bool> {
        let lines = || beside.get_all(&RATELIMIT).iter().chain(beside.get_all(&RATELIMIT_POLICY));
        lines().next()?;
        // a name inside a parameter's text counts too: one prefix too many does no harm
        let uses = |name: &String| lines().any(|line| contains(line.as_bytes(), name.as_bytes()));
        self.names.iter().any(uses).then(|| self.names_apart.iter().any(uses))
    }
}

/// What is put before our names when the origin uses them itself.
const APART: &str = "edge.";

/// The wait that a refused client is told, in seconds, at least one; `None` when no wait helps, and for everything that
/// is not a refusal for a limit or for want of room.
///
/// For a limit it is the longest wait among those violated, stretched by the policy's jitter, so that it is never
/// shorter than any `t` that is told beside it; a client that stays silent until then will be admitted. For want of
/// room nothing can be promised, because others decide when there is some: 1 or 2 seconds at random (1 without jitter),
/// which says "soon" and keeps the refused from coming back together.
pub fn retry_after_seconds(refusal: Refusal, decision: &Decision, policy: &Policy) -> Option<u64> {
    match refusal {
        Refusal::Limit => {
            let lines = behind(refusal, decision, policy);
            let longest = lines.first().map_or(Some(0), |line| line.reading.retry_nanos)?;
            let stretched = longest.saturating_add(jitter(longest, decision.dice, &policy.responses));
            Some(ceil_seconds(stretched).max(1))
        }
        Refusal::Inflight | Refusal::OriginFull => Some(soon_seconds(decision.dice, &policy.responses)),
        Refusal::KeyMissing | Refusal::NoRoute | Refusal::ClientUnresolved => None,
    }
}

/// What is told where nothing can be promised: 1, or at even odds 2 if the policy has a jitter.
pub fn soon_seconds(dice: u64, responses: &Responses) -> u64 {
    if responses.retry_jitter.get() > 0.0 { 1 + (dice >> 63) } else { 1 }
}

/// Up to the policy's share of `wait`, at most five seconds.
fn jitter(wait: u64, dice: u64, responses: &Responses) -> u64 {
    const MOST: u64 = 5_000_000_000;
    // a float's rounding is far below a nanosecond's worth to anybody; the cast saturates
    let most = ((wait as f64 * responses.retry_jitter.get()) as u64).min(MOST);
    ((u128::from(most) * u128::from(dice)) >> 64) as u64
}

/// A limit that is told, and what it said.
#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    name: &'a str,
    quota: u64,
    reading: &'a Reading,
}

type Selected<'a> = ArrayVec<Line<'a>, { Route::MAX_RULES }>;

/// Of an admitted request: the limits that it was counted by, the nearest to its end first, as many as the policy
/// reports.
fn nearest<'a>(decision: &'a Decision, policy: &'a Policy) -> Selected<'a> {
    let counted = |line: &Line<'_>| line.reading.outcome == Outcome::Admitted;
    let mut lines: Selected<'a> = enforced(decision, policy).filter(counted).collect();
    lines.sort_unstable_by(|a, b| {
        // r/q, multiplied out; both factors are 32 bits wide
        let left = |line: &Line<'_>, other: &Line<'_>| u64::from(line.reading.remaining) * other.quota;
        let longer = |line: &Line<'_>| Reverse(line.reading.reset_nanos);
        left(a, b).cmp(&left(b, a)).then_with(|| longer(a).cmp(&longer(b)))
    });
    lines.truncate(match policy.responses.report {
        Report::Nearest => 1,
        Report::All => 4,
    });
    lines
}

/// Of a refused request: the limits that were violated, the longest wait first and an endless one before all; none when
/// it was not refused for a limit.
fn behind<'a>(refusal: Refusal, decision: &'a Decision, policy: &'a Policy) -> Selected<'a> {
    if refusal != Refusal::Limit {
        return Selected::new();
    }
    let violated = |line: &Line<'_>| line.reading.outcome == Outcome::Refused;
    let mut lines: Selected<'a> = enforced(decision, policy).filter(violated).collect();
    lines.sort_unstable_by_key(|line| Reverse(line.reading.retry_nanos.unwrap_or(u64::MAX)));
    lines
}

/// The names of the limits that a refusal for a limit is due to, in the order in which they are told.
pub fn violated_names<'a>(
    refusal: Refusal,
    decision: &'a Decision,
    policy: &'a Policy,
) -> ArrayVec<&'a str, { Route::MAX_RULES }> {
    behind(refusal, decision, policy).into_iter().map(|line| line.name).collect()
}

fn enforced<'a>(decision: &'a Decision, policy: &'a Policy) -> impl Iterator<Item = Line<'a>> {
    decision.readings.iter().filter_map(|reading| {
        let rule = policy.rules.get(reading.rule)?;
        let quota = quota(rule)?;
        (reading.mode == Mode::Enforce).then_some(Line { name: &rule.name, quota, reading })
    })
}

/// How many requests may come at once; `None` for rules that are not told.
fn quota(rule: &Rule) -> Option<u64> {
    match rule.kind {
        _ if rule.mode == Mode::Shadow => None,
        Kind::Inflight { .. } => None,
        Kind::Rate { burst, .. } => Some(u64::from(burst / rule.cost.get())),
    }
}

/// Seconds in which an empty budget is full again, rounded up; `None` below one, and for rules without a budget.
fn window(rule: &Rule) -> Option<u64> {
    let Kind::Rate { rate, burst, .. } = rule.kind else { return None };
    // from the rate as it was written, because its interval is rounded
    let span = u128::from(burst) * rate.period().as_nanos();
    let second = u128::from(rate.events()) * 1_000_000_000;
    (span >= second).then(|| u64::try_from(span.div_ceil(second)).unwrap_or(u64::MAX))
}

/// Seconds until there is more: until a request fits when it was refused, until the next part of the budget comes back
/// when it was not; `None` when no wait helps or the budget is full.
fn reset_nanos(reading: &Reading) -> Option<u64> {
    if reading.outcome == Outcome::Refused { reading.retry_nanos } else { reading.reset_nanos }
}

/// `"login";q=5;w=60`
fn policy_field<'a>(prefix: &str, mut rules: impl Iterator<Item = (&'a Rule, u64)>) -> Option<HeaderValue> {
    let mut list = List::new();
    let mut write = |(rule, quota): (&Rule, u64)| -> Result<(), Unwritable> {
        list.string(prefix, &rule.name)?;
        list.integer("q", quota)?;
        window(rule).map_or(Ok(()), |seconds| list.integer("w", seconds))
    };
    rules.try_for_each(&mut write).ok()?;
    list.finish()
}

/// `"login";r=0;t=12`
fn limit_field(prefix: &str, lines: &[Line<'_>]) -> Option<HeaderValue> {
    let mut list = List::new();
    let mut write = |line: &Line<'_>| -> Result<(), Unwritable> {
        list.string(prefix, line.name)?;
        list.integer("r", u64::from(line.reading.remaining))?;
        reset_nanos(line.reading).map_or(Ok(()), |nanos| list.integer("t", ceil_seconds(nanos)))
    };
    lines.iter().try_for_each(&mut write).ok()?;
    list.finish()
}

/// Limit, remaining, reset.
type Names = [HeaderName; 3];

static TRIPLE: Names = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];

static LEGACY: Names = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];

/// The older spellings, of the first limit only. The reset is counted in seconds from `epoch_nanos` ago: 0 gives the
/// wait, the wall clock gives a point in time.
fn single(names: &Names, lines: &[Line<'_>], beside: &HeaderMap, epoch_nanos: u64, fields: &mut Fields) {
    let Some(line) = lines.first() else { return };
    if names.iter().any(|name| beside.contains_key(name)) {
        return;
    }
    let reset = ceil_seconds(epoch_nanos.saturating_add(reset_nanos(line.reading).unwrap_or(0)));
    let values = [line.quota, u64::from(line.reading.remaining), reset];
    fields.extend(names.iter().cloned().zip(values.map(HeaderValue::from)));
}

/// Names for scripts of other sites to see. One more line adds to the origin's list.
fn exposed(style: FieldStyle) -> HeaderValue {
    HeaderValue::from_static(match style {
        FieldStyle::Draft => "RateLimit, RateLimit-Policy, Retry-After",
        FieldStyle::Triple => "RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset, Retry-After",
        FieldStyle::Legacy => "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After",
        FieldStyle::Off => "Retry-After",
    })
}

fn contains(line: &[u8], text: &[u8]) -> bool {
    line.windows(text.len().max(1)).any(|window| window == text)
}

#[cfg(test)]
mod tests;
