//! What an answer tells about limits: `RateLimit`, `RateLimit-Policy`, their two older spellings, and `Retry-After`.
//!
//! Everything is read from the one [`Decision`]; no limiter is asked. Only limits that are enforced for the request are
//! told, and of these only promises to a key: a shadow rule must not show, and how full the gate or an origin is, is not
//! the client's business. Quotas and remainders are rounded down, times up, so that they never promise more than there is.
//!
//! * `promise`: the numbers of each kind of limit.
//! * `lines`: `RateLimit-Policy`, and who sees what of it.
//!
//! Sources: draft-ietf-httpapi-ratelimit-headers-10 (the fields), its revision 06 (the triple), RFC 9110 §10.2.3
//! (`Retry-After`), the Fetch standard (`Access-Control-Expose-Headers`).

mod lines;
mod promise;

use std::cmp::Reverse;

use arrayvec::ArrayVec;
use bytes::BytesMut;
use http::header::ACCESS_CONTROL_EXPOSE_HEADERS;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::cors::{CorsFields, told};
use super::structured::{List, Unwritable};
use crate::engine::{Decision, Outcome, Reading, Refusal, Verdict};
use crate::policy::{FieldStyle, Mode, Policy, Report, Responses, Route};
use crate::units::time::ceil_seconds;
use lines::{APART, PolicyLines};
use promise::{Promise, Unit};
use tidegate_http::lines::Lookup;

/// Fields to be added to an answer, each as a line of its own.
pub type Fields = ArrayVec<(HeaderName, HeaderValue), 4>;

static RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
static RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// What answers of a route tell, as far as it can be written when the policy is loaded.
#[derive(Debug, Clone)]
pub struct RouteFields {
    style: FieldStyle,
    policy: PolicyLines,
    expose: bool,
    cors: Option<CorsFields>,
}

impl RouteFields {
    /// The fields of one of the policy's routes.
    pub fn new(policy: &Policy, route: &Route) -> RouteFields {
        RouteFields {
            style: policy.responses.fields,
            policy: PolicyLines::new(policy, route),
            // `cors` exposes them itself, to the pages that it allows
            expose: policy.responses.expose && route.cors.is_none(),
            cors: CorsFields::new(policy, route),
        }
    }

    /// What answers tell about pages of other sites, if the route says something about that.
    pub fn cors(&self) -> Option<&CorsFields> {
        self.cors.as_ref()
    }

    /// What an answer of this route tells, to be added as further lines to those in `beside`: the origin's header
    /// fields, or none when the answer is ours. `wall_unix_nanos` is only used for the legacy spelling, which tells
    /// points in time; `memory` is for values.
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
        beside: &impl Lookup,
        (wall_unix_nanos, memory): (u64, &mut BytesMut),
    ) -> Fields {
        if self.style == FieldStyle::Off {
            return Fields::new();
        }
        let readings = match decision.verdict {
            _ if status.is_redirection() => Selected::new(),
            Verdict::Admitted => nearest(decision, policy),
            Verdict::Refused(refusal) => behind(refusal, decision, policy),
        };
        if status.is_informational() {
            return Fields::new();
        }
        let mut fields = self.tell(&readings, decision, policy, beside, (wall_unix_nanos, memory));
        if self.expose && !fields.is_empty() {
            fields.push((ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(told(self.style))));
        }
        fields
    }

    /// What our own answer to a refusal tells, whatever the decision said before.
    pub fn on_refusal(&self, refusal: Refusal, decision: &Decision, policy: &Policy, wall_unix_nanos: u64) -> Fields {
        self.on_refusal_for(&behind(refusal, decision, policy), decision, policy, wall_unix_nanos)
    }

    /// As [`RouteFields::on_refusal`], of a refusal for these limits.
    pub(super) fn on_refusal_for(
        &self,
        behind: &[Line<'_>],
        decision: &Decision,
        policy: &Policy,
        wall_unix_nanos: u64,
    ) -> Fields {
        let around = (wall_unix_nanos, &mut BytesMut::new());
        let mut fields = self.tell(behind, decision, policy, &HeaderMap::new(), around);
        if self.expose {
            fields.push((ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(told(self.style))));
        }
        fields
    }

    fn tell(
        &self,
        readings: &[Line<'_>],
        decision: &Decision,
        policy: &Policy,
        beside: &impl Lookup,
        (wall_unix_nanos, memory): (u64, &mut BytesMut),
    ) -> Fields {
        let mut fields = Fields::new();
        match self.style {
            FieldStyle::Draft => {
                let apart = match self.clashes(beside) {
                    None => false,
                    Some(false) => true,
                    Some(true) => return fields,
                };
                let policy = self.policy.line(decision, policy, apart);
                fields.extend(policy.map(|policy| (RATELIMIT_POLICY.clone(), policy)));
                let limits = limit_field(if apart { APART } else { "" }, readings, memory);
                fields.extend(limits.map(|limits| (RATELIMIT.clone(), limits)));
            }
            FieldStyle::Triple => single(&TRIPLE, readings, beside, 0, &mut fields),
            FieldStyle::Legacy => single(&LEGACY, readings, beside, wall_unix_nanos, &mut fields),
            FieldStyle::Off => {}
        }
        fields
    }

    /// Whether the origin uses one of our names, and if so, whether also with the prefix.
    fn clashes(&self, beside: &impl Lookup) -> Option<bool> {
        let lines = || beside.lines(&RATELIMIT).chain(beside.lines(&RATELIMIT_POLICY));
        lines().next()?;
        // a name inside a parameter's text counts too: one prefix too many does no harm
        let uses = |name: &String| lines().any(|line| contains(line, name.as_bytes()));
        self.policy.names.iter().any(uses).then(|| self.policy.names_apart.iter().any(uses))
    }
}

/// The wait that a refused client is told, in seconds, at least one; `None` when no wait helps, and for everything that
/// is not a refusal for a limit or for want of room.
///
/// For a limit it is the longest wait among those violated, stretched by the policy's jitter, so that it is never
/// shorter than any `t` that is told beside it; a client that stays silent until then will be admitted. For want of
/// room, the client's own or ours, nothing can be promised, because other requests decide when there is some: 1 or 2
/// seconds at random (1 without jitter), which says "soon" and keeps the refused from coming back together. Where
/// a queue gave nothing, it is the time in which all that wait in it are served, if that is longer.
pub fn retry_after_seconds(refusal: Refusal, decision: &Decision, policy: &Policy) -> Option<u64> {
    retry_after_for(refusal, first_behind(refusal, decision, policy).as_ref(), decision, policy)
}

/// As [`retry_after_seconds`], of a refusal for limits of which this is the first.
pub(super) fn retry_after_for(
    refusal: Refusal,
    first: Option<&Line<'_>>,
    decision: &Decision,
    policy: &Policy,
) -> Option<u64> {
    let responses = &policy.responses;
    let stretched = |wait: u64| ceil_seconds(wait.saturating_add(jitter(wait, decision.dice, responses))).max(1);
    match refusal {
        Refusal::Limit | Refusal::Penalty | Refusal::Concurrency => {
            match first {
                Some(line) if line.promise.unit != Unit::Concurrent => line.reading.retry_nanos.map(stretched),
                // only the client's own requests under way are in the way
                _ => Some(soon_seconds(decision.dice, responses)),
            }
        }
        Refusal::FairShare | Refusal::OriginFull => Some(match decision.no_place.map(|place| place.retry_nanos()) {
            Some(round) if round > SECOND => stretched(round),
            _ => soon_seconds(decision.dice, responses),
        }),
        Refusal::Inflight | Refusal::StoreSilent | Refusal::Overload => Some(soon_seconds(decision.dice, responses)),
        Refusal::KeyMissing
        | Refusal::AmbiguousValue
        | Refusal::RepeatedField
        | Refusal::NominatedField
        | Refusal::ValueTooLong
        | Refusal::NoRoute
        | Refusal::ClientUnresolved
        | Refusal::Banned
        | Refusal::Denied => None,
    }
}

/// A field as it reads in an answer: `Retry-After: 12`.
pub fn shown(name: &HeaderName, value: &HeaderValue) -> String {
    let name = match name.as_str() {
        "ratelimit" => "RateLimit".to_owned(),
        "ratelimit-policy" => "RateLimit-Policy".to_owned(),
        // every word with a capital, as the older fields are written
        other => other.split('-').map(capital).collect::<Vec<_>>().join("-").replace("Ratelimit", "RateLimit"),
    };
    format!("{name}: {}", String::from_utf8_lossy(value.as_bytes()))
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

const SECOND: u64 = 1_000_000_000;

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
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    promise: Promise,
    reading: &'a Reading,
}

impl Line<'_> {
    fn remaining(&self) -> u64 {
        self.promise.remaining(self.reading)
    }

    fn reset_nanos(&self) -> Option<u64> {
        self.promise.reset_nanos(self.reading)
    }

    /// Where it stands among those that refused: the longest wait first, places last.
    fn rank(&self) -> (bool, Reverse<u64>) {
        (self.promise.unit == Unit::Concurrent, Reverse(self.reading.retry_nanos.unwrap_or(u64::MAX)))
    }
}

pub(super) type Selected<'a> = ArrayVec<Line<'a>, { Route::MAX_RULES }>;

/// Of an admitted request: the limits that it was counted by, and those that it is over and was only marked for, the
/// nearest to its end first, as many as the policy reports.
fn nearest<'a>(decision: &'a Decision, policy: &'a Policy) -> Selected<'a> {
    let counted =
        |line: &Line<'_>| matches!(line.reading.outcome, Outcome::Admitted | Outcome::Delayed | Outcome::Tagged);
    let mut lines: Selected<'a> = enforced(decision, policy).filter(counted).collect();
    if lines.len() > 1 {
        lines.sort_unstable_by(|a, b| {
            // r/q, multiplied out
            let left =
                |line: &Line<'_>, other: &Line<'_>| u128::from(line.remaining()) * u128::from(other.promise.quota);
            let longer = |line: &Line<'_>| Reverse(line.reset_nanos());
            left(a, b).cmp(&left(b, a)).then_with(|| longer(a).cmp(&longer(b)))
        });
    }
    lines.truncate(match policy.responses.report {
        Report::Nearest => 1,
        Report::All => 4,
    });
    lines
}

/// Of a refused request: the limits that were violated, the longest wait first and an endless one before all, but for the
/// client's own requests under way, which come last; none when it was not refused for a limit.
pub(super) fn behind<'a>(refusal: Refusal, decision: &'a Decision, policy: &'a Policy) -> Selected<'a> {
    let mut lines: Selected<'a> = violated(refusal, decision, policy).collect();
    lines.sort_by_key(Line::rank);
    lines
}

/// The first of them.
fn first_behind<'a>(refusal: Refusal, decision: &'a Decision, policy: &'a Policy) -> Option<Line<'a>> {
    violated(refusal, decision, policy).min_by_key(Line::rank)
}

/// The position of the limit that a refusal for a limit is told to be due to first.
pub fn first_violated(refusal: Refusal, decision: &Decision, policy: &Policy) -> Option<usize> {
    first_behind(refusal, decision, policy).map(|line| line.reading.rule)
}

/// Of a refusal for limits, these, in the order of the route.
fn violated<'a>(refusal: Refusal, decision: &'a Decision, policy: &'a Policy) -> impl Iterator<Item = Line<'a>> {
    let is_for_limits = matches!(refusal, Refusal::Limit | Refusal::Penalty | Refusal::Concurrency);
    enforced(decision, policy).filter(move |line| is_for_limits && line.reading.outcome == Outcome::Refused)
}

fn enforced<'a>(decision: &'a Decision, policy: &'a Policy) -> impl Iterator<Item = Line<'a>> {
    let told = decision.readings.iter().filter(|reading| reading.mode == Mode::Enforce);
    told.filter_map(|reading| {
        let rule = policy.rules.get(reading.rule)?;
        Some(Line { name: &rule.name, promise: Promise::of(rule, reading.tier)?, reading })
    })
}

/// `"login";r=0;t=12`
fn limit_field(prefix: &str, lines: &[Line<'_>], memory: &mut BytesMut) -> Option<HeaderValue> {
    let mut list = List::new();
    let mut write = |line: &Line<'_>| -> Result<(), Unwritable> {
        list.string(prefix, line.name)?;
        list.integer("r", line.remaining())?;
        line.reset_nanos().map_or(Ok(()), |nanos| list.integer("t", ceil_seconds(nanos)))
    };
    lines.iter().try_for_each(&mut write).ok()?;
    list.finish(memory)
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

/// The older spellings, of the first limit only that is counted in requests, as they have no word for anything else. The reset is counted in seconds from `epoch_nanos` ago: 0 gives the
/// wait, the wall clock gives a point in time.
fn single(names: &Names, lines: &[Line<'_>], beside: &impl Lookup, epoch_nanos: u64, fields: &mut Fields) {
    let Some(line) = lines.iter().find(|line| line.promise.unit == Unit::Requests) else { return };
    if names.iter().any(|name| beside.has(name)) {
        return;
    }
    let reset = ceil_seconds(epoch_nanos.saturating_add(line.reset_nanos().unwrap_or(0)));
    let values = [line.promise.quota, line.remaining(), reset];
    fields.extend(names.iter().cloned().zip(values.map(HeaderValue::from)));
}

fn contains(line: &[u8], text: &[u8]) -> bool {
    line.windows(text.len().max(1)).any(|window| window == text)
}

#[cfg(test)]
mod tests;
