//! `responses`, and what limits and routes say of refusals themselves.

use http::{HeaderName, StatusCode, header};

use super::context::Context;
use super::own_fields::is_of_the_connection;
use crate::config::fault::{Code, Diagnostic};
use crate::config::nearest::nearest;
use crate::config::quoted::quoted;
use crate::config::read::{At, Field};
use crate::config::schema::{self, BodyFile};
use crate::config::shape::{Either, Keyed, OneOrMany};
use crate::config::span::Span;
use crate::config::text::FieldValue;
use crate::policy::body::{Bodies, BodyFault, BodyMedia, BodyText, BodyValue, MOST_BYTES, MOST_PLACEHOLDERS};
use crate::policy::{OwnAnswer, Responses};

/// The most lines of further fields.
const MOST_FIELDS: usize = 16;

/// What clients are told.
pub fn responses(own: &schema::Responses, context: &mut Context<'_>) -> Responses {
    let limited = own.limited.value().cloned().unwrap_or_default();
    let overloaded = own.overloaded.value().cloned().unwrap_or_default();
    Responses {
        fields: own.ratelimit_headers(),
        report: own.report(),
        expose: own.expose(),
        retry_jitter: own.retry_after.value().cloned().unwrap_or_default().jitter(),
        limited: OwnAnswer {
            status: status(limited.status()),
            format: Some(limited.format()),
            ..own_answer(&limited.body, &limited.headers, context)
        },
        overloaded: OwnAnswer {
            status: status(overloaded.status()),
            format: overloaded.format.value().copied(),
            ..own_answer(&overloaded.body, &overloaded.headers, context)
        },
        decision_id: own.decision_id(),
        proxy_name: own.proxy_name.value().map(|name| name.0.clone()),
    }
}

impl Default for Responses {
    fn default() -> Responses {
        let own = schema::Responses::default();
        let (limited, overloaded) = (schema::Limited::default(), schema::Overloaded::default());
        Responses {
            fields: own.ratelimit_headers(),
            report: own.report(),
            expose: own.expose(),
            retry_jitter: schema::RetryAfter::default().jitter(),
            limited: OwnAnswer {
                status: status(limited.status()),
                format: Some(limited.format()),
                ..OwnAnswer::default()
            },
            overloaded: OwnAnswer { status: status(overloaded.status()), ..OwnAnswer::default() },
            decision_id: own.decision_id(),
            proxy_name: None,
        }
    }
}

/// What a limit or a route says of a refusal.
pub fn refusal(field: &Field<schema::Refusal>, context: &mut Context<'_>) -> OwnAnswer {
    let Some(own) = field.value() else { return OwnAnswer::default() };
    OwnAnswer {
        status: own.status.value().and_then(|own| status(own.0)),
        format: own.format.value().copied(),
        ..own_answer(&own.body, &own.headers, context)
    }
}

fn status(number: u16) -> Option<StatusCode> {
    StatusCode::from_u16(number).ok()
}

fn own_answer(
    body: &Field<schema::Body>,
    headers: &Field<Keyed<HeaderName, OneOrMany<FieldValue>>>,
    context: &mut Context<'_>,
) -> OwnAnswer {
    let bodies = body.value().map(|body| {
        let fields = [&body.html, &body.json, &body.problem, &body.text];
        let all = BodyMedia::ALL.into_iter().zip(fields);
        Bodies::new(
            all.filter_map(|((word, media), field)| Some((media, self::body(word, media, field.get()?, context)?)))
                .collect(),
        )
    });
    OwnAnswer { bodies, headers: self::headers(headers, context), ..OwnAnswer::default() }
}

/// One body; `None` for one with faults, which have been told.
fn body(
    word: &str,
    media: BodyMedia,
    at: &At<Either<String, BodyFile>>,
    context: &mut Context<'_>,
) -> Option<BodyText> {
    let (text, at) = match &at.value {
        Either::Short(text) => (text.clone(), at.span),
        Either::Long(file) => {
            let file = file.file.get()?;
            match context.sources.read(&context.directory.join(&file.value)) {
                Ok(source) => (context.sources.text(source).to_owned(), file.span),
                Err(fault) => {
                    context.faults.push(
                        Diagnostic::error(Code::BAD_BODY, file.span, format!("cannot use the body {}", file.shown))
                            .label(fault.message.clone()),
                    );
                    return None;
                }
            }
        }
    };
    BodyText::parse(media, &text).map_err(|fault| context.faults.push(told(word, fault, at))).ok()
}

/// What is wrong with a body.
fn told(word: &str, fault: BodyFault, at: Span) -> Diagnostic {
    let error = |message: String| Diagnostic::error(Code::BAD_BODY, at, message);
    match fault {
        BodyFault::TooLong => {
            error(format!("the body `{word}` is too long")).label(format!("allowed are {} KiB", MOST_BYTES >> 10))
        }
        BodyFault::TooMany => error(format!("too many placeholders in the body `{word}`"))
            .label(format!("allowed are {MOST_PLACEHOLDERS}")),
        BodyFault::NoJson(why) => error(format!("the body `{word}` is no JSON")).label(why),
        BodyFault::Place(name, place) => error(format!("`{{{name}}}` cannot stand {place}"))
            .label("no escape would keep a value from breaking out there")
            .help("let it stand in the text of an element, or in an attribute within quotes"),
        BodyFault::Unknown(name) => {
            let all: Vec<String> = BodyValue::ALL.iter().map(|(name, _)| format!("`{{{name}}}`")).collect();
            let fault = error(format!("{} is no placeholder", quoted(&format!("{{{name}}}"))))
                .label(format!("placeholders are {}", all.join(", ")));
            match nearest(&name, BodyValue::ALL.iter().map(|(known, _)| *known)) {
                Some(near) => fault.help(format!("did you mean `{{{near}}}`? `{{{{{name}}}}}` is that text itself")),
                None => fault.help(format!("`{{{{{name}}}}}` is that text itself")),
            }
        }
    }
}

/// Whether the gate writes the field itself on a refusal.
fn is_own(name: &HeaderName) -> bool {
    const OWN: [HeaderName; 6] =
        [header::CONTENT_TYPE, header::CACHE_CONTROL, header::RETRY_AFTER, header::VARY, header::DATE, header::ALLOW];
    let text = name.as_str();
    OWN.contains(name)
        || ["grpc-", "ratelimit", "x-ratelimit-", "access-control-", "x-tidegate-"]
            .iter()
            .any(|own| text.starts_with(own))
        || text == "proxy-status"
}

/// Further fields, a line each.
fn headers(
    field: &Field<Keyed<HeaderName, OneOrMany<FieldValue>>>,
    context: &mut Context<'_>,
) -> Option<Vec<(HeaderName, http::HeaderValue)>> {
    let written = field.get()?;
    let mut lines = Vec::new();
    for entry in &written.value.0 {
        let (Some(name), Some(values)) = (&entry.key, &entry.value) else { continue };
        let of_connection = is_of_the_connection(name);
        if of_connection || is_own(name) {
            let who = if of_connection { "belongs to the connection" } else { "is written by the gate" };
            context.faults.push(
                Diagnostic::error(Code::BAD_HEADER, entry.key_span, format!("the header `{name}` {who}"))
                    .label("cannot be set on a refusal"),
            );
        }
        let OneOrMany(list) = &values.value;
        lines.extend(list.items.iter().map(|value| (name.clone(), value.value.0.clone())));
    }
    if lines.len() > MOST_FIELDS {
        context.faults.push(
            Diagnostic::error(Code::OUT_OF_RANGE, written.span, format!("{} further header fields", lines.len()))
                .label(format!("allowed are {MOST_FIELDS}")),
        );
    }
    Some(lines)
}
