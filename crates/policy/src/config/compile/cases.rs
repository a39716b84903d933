//! `tests`: what is sent and expected, with names resolved against the policy that is tested.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::checks::{number, number32};
use super::matches;
use crate::config::case::{By, Case, Expected, From, Range, Reply, Step};
use crate::config::case_text::Between;
use crate::config::fault::{Code, Diagnostic, Faults, Severity};
use crate::config::nearest::nearest;
use crate::config::quoted::quoted;
use crate::config::read::{At, Field, Scalar};
use crate::config::scalar::Count;
use crate::config::schema;
use crate::config::shape::{Either, Keyed, List, OneOrMany};
use crate::config::text::FieldValue;
use crate::config::tree::Tree;
use crate::policy::Policy;

mod written;

/// Documentation's own addresses (RFC 5737), so that nobody's is meant.
const ANYBODY: From = From::Address(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)));

/// What is known by name to those who expect something.
pub struct Known<'a> {
    policy: &'a Policy,
    /// Limits that have a name, and faults of their own: who expects something of them is not blamed.
    broken: &'a [String],
}

impl<'a> Known<'a> {
    /// The names of a policy, and those of limits that are none for their faults.
    pub fn new(policy: &'a Policy, broken: &'a [String]) -> Known<'a> {
        Known { policy, broken }
    }
}

/// All tests in file order, and each as the effective configuration writes it.
pub fn cases(field: &Field<List<schema::Test>>, known: &Known<'_>, faults: &mut Faults) -> Vec<(Case, Tree)> {
    let mut cases: Vec<(Case, Tree)> = Vec::new();
    for at in field.value().iter().flat_map(|list| &list.items) {
        let Some(name) = at.value.name.get() else { continue };
        if name.value.trim().is_empty() {
            faults.push(
                Diagnostic::error(Code::EMPTY_VALUE, name.span, "a test without a name").label("needs a sentence"),
            );
        }
        if let Some((first, _)) = cases.iter().find(|(case, _)| case.name == name.value) {
            faults.push(
                Diagnostic::error(
                    Code::DUPLICATE_NAME,
                    name.span,
                    format!("the test {} is here twice", quoted(&name.value)),
                )
                .label("a second time")
                .related(first.at, "first here"),
            );
        }
        let before = faults.errors();
        let case = case(name, at, known, faults);
        if faults.errors() == before {
            let tree = written::case(&case, known.policy);
            cases.push((case, tree));
        }
    }
    cases
}

fn case(name: &At<String>, at: &At<schema::Test>, known: &Known<'_>, faults: &mut Faults) -> Case {
    let before = faults.errors();
    let mut steps: Vec<Step> = Vec::new();
    let mut last = Duration::ZERO;
    let mut total = 0_u32;
    if let Some(OneOrMany(list)) = at.value.send.value() {
        if list.items.is_empty() && !list.bad {
            let send = at.value.send.get().map_or(at.span, |send| send.span);
            faults.push(
                Diagnostic::error(Code::EMPTY_VALUE, send, "a test that sends nothing").label("needs one or more"),
            );
        }
        for item in &list.items {
            let Some(step) = step(item, last, known, faults) else { continue };
            last = step.begins.saturating_add(step.every.saturating_mul(step.count.saturating_sub(1)));
            total = total.saturating_add(step.count);
            if total > Case::MOST || last > LONGEST {
                faults.push(
                    Diagnostic::error(Code::OUT_OF_RANGE, item.span, "the test is too long")
                        .label(format!("allowed are {} requests in ten years", Case::MOST)),
                );
            }
            steps.push(step);
        }
    }
    let expected = expected(&at.value.expect, known, faults);
    let says = expected.says_something() || steps.iter().any(|step| step.expected.says_something());
    // what could not be read has been told, and may have been what is missing
    let is_error = |fault: &Diagnostic| fault.severity() == Severity::Error;
    if !says && faults.errors() == before && !faults.within(at.span, is_error) {
        faults.push(
            Diagnostic::error(Code::MISSING_FIELD, name.span, "a test that expects nothing")
                .label("needs `expect`")
                .help("for example `expect: { allowed: 5, limited: 1 }`"),
        );
    }
    Case { name: name.value.clone(), at: name.span, steps, expected }
}

/// Longer than any window; the clock of stamps holds 584 years.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 86_400);

/// Requests that are alike; `None` when there is no telling what they are, which has been told.
fn step(at: &At<schema::Send>, last: Duration, known: &Known<'_>, faults: &mut Faults) -> Option<Step> {
    let send = &at.value;
    let url = send.url.value().map(|url| url.0.clone());
    let from = send
        .from
        .value()
        .map_or_else(|| vec![ANYBODY], |OneOrMany(list)| list.items.iter().map(|item| item.value.0).collect());
    if from.is_empty()
        && let Some(written) = send.from.get()
        && !written.value.0.bad
    {
        faults
            .push(Diagnostic::error(Code::EMPTY_VALUE, written.span, "requests from nobody").label("needs an address"));
    }
    let every = send.every.value().copied().unwrap_or_default();
    let count = count(send, every, faults);
    if let (Some(first), Some(second)) = (send.at.key(), send.after.key()) {
        faults.push(
            Diagnostic::error(Code::CONFLICT, second, "both `at` and `after`")
                .label("the first request is sent once")
                .related(first, "the other"),
        );
    }
    let begins = match (send.at.value(), send.after.value()) {
        (Some(at), _) => *at,
        (_, after) => last.saturating_add(after.copied().unwrap_or_default()),
    };
    Some(Step {
        url: url?,
        from,
        method: send.method.value().cloned().unwrap_or(Method::GET),
        headers: headers(&send.headers, faults),
        body: send.body().0,
        count,
        every,
        begins,
        reply: reply(&send.answer, faults),
        expected: expected(&send.expect, known, faults),
    })
}

/// How many requests: as many as are said, or as fit.
fn count(send: &schema::Send, every: Duration, faults: &mut Faults) -> u32 {
    let Some(span) = send.r#for.get() else { return number32(&send.n, 1..=Case::MOST, 1, faults) };
    if let (Some(first), Some(second)) = (send.n.key(), send.r#for.key()) {
        faults.push(
            Diagnostic::error(Code::CONFLICT, second, "both `n` and `for`")
                .label("`for` says how many, together with `every`")
                .related(first, "the other"),
        );
        return 1;
    }
    if every.is_zero() {
        if !matches!(send.every, Field::Bad { .. }) {
            faults.push(
                Diagnostic::error(Code::CONFLICT, span.span, "`for` without `every`")
                    .label("how many requests that is, depends on how far they are apart"),
            );
        }
        return 1;
    }
    // one at the beginning, none at the end: `every: 1s` for 1m is 60
    let count = span.value.as_nanos().div_ceil(every.as_nanos()).max(1);
    match u32::try_from(count).ok().filter(|count| *count <= Case::MOST) {
        Some(count) => count,
        None => {
            faults.push(
                Diagnostic::error(Code::OUT_OF_RANGE, span.span, format!("{} is out of range", span.shown))
                    .label(format!("that makes more than {} requests", Case::MOST)),
            );
            1
        }
    }
}

fn headers(field: &Field<Keyed<HeaderName, OneOrMany<String>>>, faults: &mut Faults) -> Vec<(HeaderName, String)> {
    let mut headers: Vec<(HeaderName, String)> = Vec::new();
    for entry in field.value().iter().flat_map(|map| &map.0) {
        let (Some(name), Some(values)) = (&entry.key, &entry.value) else { continue };
        if headers.iter().any(|(known, _)| known == name) {
            faults.push(twice(name, entry.key_span));
        }
        for item in &values.value.0.items {
            // `{n}` becomes digits, which every value may hold
            if FieldValue::parse(&item.value).is_err() {
                faults.push(
                    Diagnostic::error(Code::BAD_HEADER, item.span, format!("invalid header value {}", item.shown))
                        .label("must be visible ASCII in one line"),
                );
            }
            headers.push((name.clone(), item.value.clone()));
        }
    }
    headers
}

fn twice(name: &HeaderName, at: crate::config::span::Span) -> Diagnostic {
    Diagnostic::error(Code::DUPLICATE_FIELD, at, format!("the header `{name}` is here twice"))
        .label("header names have no case")
}

fn reply(field: &Field<Either<Count, schema::Reply>>, faults: &mut Faults) -> Reply {
    let mut reply = Reply { status: StatusCode::OK, headers: HeaderMap::new(), body: 0, takes: Duration::ZERO };
    let Some(at) = field.get() else { return reply };
    let as_status = |number: u64| {
        u16::try_from(number).ok().and_then(|status| StatusCode::from_u16(status).ok()).unwrap_or_default()
    };
    match &at.value {
        Either::Short(count) => {
            let alone = Field::Set { key: at.span, at: at.with(*count) };
            reply.status = as_status(number(&alone, 200..=599, 200, faults));
        }
        Either::Long(long) => {
            reply.status = as_status(long.status().into());
            reply.body = long.body().0;
            reply.takes = long.takes();
            for entry in long.headers.value().iter().flat_map(|map| &map.0) {
                let (Some(name), Some(values)) = (&entry.key, &entry.value) else { continue };
                if reply.headers.contains_key(name) {
                    faults.push(twice(name, entry.key_span));
                }
                for FieldValue(value) in values.value.0.items.iter().map(|item| &item.value) {
                    let value: HeaderValue = value.clone();
                    reply.headers.append(name.clone(), value);
                }
            }
        }
    }
    reply
}

fn expected(field: &Field<schema::Expect>, known: &Known<'_>, faults: &mut Faults) -> Expected {
    let Some(written) = field.value() else { return Expected::default() };
    let numbers = |field: &Field<Between<Count>>| {
        let bound = |end: Option<Count>| end.map(|Count(number)| number);
        field.value().map(|Between(Range { low, high })| Range { low: bound(*low), high: bound(*high) })
    };
    let span = |field: &Field<Between<Duration>>| field.value().map(|Between(range)| *range);
    let mut statuses = Vec::new();
    for at in written.status.value().iter().flat_map(|OneOrMany(list)| &list.items) {
        let alone = Field::Set { key: at.span, at: at.clone() };
        statuses.extend(u16::try_from(number(&alone, 200..=599, 200, faults)).ok());
    }
    let (headers, _) = matches::headers(&written.headers, faults);
    Expected {
        allowed: numbers(&written.allowed),
        limited: numbers(&written.limited),
        by: by(&written.by, known, faults),
        shadowed: numbers(&written.shadowed),
        shadowed_by: by(&written.shadowed_by, known, faults),
        delayed: numbers(&written.delayed),
        delay: span(&written.delay),
        tagged: numbers(&written.tagged),
        status: statuses,
        route: route(&written.route, known, faults),
        client: written.client.value().cloned(),
        retry_after: span(&written.retry_after),
        headers,
    }
}

/// The limits and origins of a list of names; those that are not known are told.
fn by(field: &Field<OneOrMany<String>>, known: &Known<'_>, faults: &mut Faults) -> Vec<By> {
    let mut found = Vec::new();
    for at in field.value().iter().flat_map(|OneOrMany(list)| &list.items) {
        if known.broken.contains(&at.value) {
            continue;
        }
        let (policy, name) = (known.policy, at.value.as_str());
        if let Some(origin) = name.strip_prefix("origin:") {
            match policy.origins.iter().position(|known| known.name == origin) {
                Some(origin) => found.push(By::Origin(origin)),
                None => faults.push(unknown(
                    Code::UNKNOWN_ORIGIN,
                    at,
                    ("origin", origin),
                    policy.origins.iter().map(|origin| origin.name.as_str()),
                )),
            }
        } else {
            match policy.rules.iter().position(|known| known.name == name) {
                Some(limit) => found.push(By::Limit(limit)),
                None => faults.push(unknown(
                    Code::UNKNOWN_LIMIT,
                    at,
                    ("limit", name),
                    policy.rules.iter().map(|rule| rule.name.as_str()),
                )),
            }
        }
    }
    found
}

fn route(field: &Field<String>, known: &Known<'_>, faults: &mut Faults) -> Option<String> {
    let at = field.get()?;
    let names = || known.policy.routes.iter().map(|route| route.name.as_str());
    if !names().any(|name| name == at.value) {
        faults.push(unknown(Code::UNKNOWN_ROUTE, at, ("route", &at.value), names()));
    }
    Some(at.value.clone())
}

/// A name that stands for nothing.
fn unknown<'a>(
    code: Code,
    at: &At<String>,
    (what, name): (&str, &str),
    known: impl Iterator<Item = &'a str>,
) -> Diagnostic {
    let known: Vec<&str> = known.collect();
    let fault = Diagnostic::error(code, at.span, format!("the test expects an unknown {what} {}", at.shown))
        .label(format!("no {what} has this name"));
    match nearest(name, known.iter().copied()) {
        Some(near) => fault.help(format!("did you mean `{near}`?")),
        None => {
            let some = known.get(..known.len().min(12)).unwrap_or_default();
            if some.is_empty() { fault } else { fault.help(format!("known here: {}", some.join(", "))) }
        }
    }
}
