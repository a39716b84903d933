//! The form of an answer's body: `application/problem+json`, a small page, gRPC's none.
//!
//! The form is chosen from the request's head by content negotiation (RFC 9110 §12.5.1) between the two types that the gate writes
//! and those of the operator's own bodies. What is written into a body is our own text, numbers and the operator's names, never
//! anything of the request's.

use std::iter;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method};

use super::json;
use super::page;
use super::refusal::Meaning;
use crate::engine::DecisionId;
use crate::policy::BodyFormat;
use crate::policy::body::{Bodies, BodyMedia, BodyText};

/// How a client wants to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    grpc: bool,
    head: bool,
    wants: Wants,
}

/// How much a client wants each type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Wants {
    /// Whether it says anything about that.
    named: bool,
    html: Preference,
    problem: Preference,
    json: Preference,
    text: Preference,
}

/// The kinds of body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// `application/problem+json` (RFC 9457).
    Problem,
    /// A page for people.
    Html,
    /// `application/json`, which only the operator writes.
    Json,
    /// `text/plain`, which only the operator writes.
    Text,
    /// No body: the status stands in a header, which gRPC calls trailers-only.
    Grpc,
}

impl Form {
    /// For a request whose head could not be read.
    pub const UNKNOWN: Form = Form { grpc: false, head: false, wants: Wants::NOTHING };

    /// For a request with this head.
    pub fn of(method: &Method, headers: &HeaderMap) -> Form {
        let content_type = headers.get(CONTENT_TYPE).map(|line| line.as_bytes());
        Form::of_lines(method, content_type, headers.get_all(ACCEPT).into_iter().map(|line| line.as_bytes()))
    }

    /// For a request with this method, this first line of `Content-Type`, and these lines of `Accept`.
    pub fn of_lines<'a>(method: &Method, content_type: Option<&[u8]>, accept: impl Iterator<Item = &'a [u8]>) -> Form {
        let grpc = content_type.is_some_and(is_grpc);
        let wants = if grpc { Wants::NOTHING } else { Wants::of(accept) };
        Form { grpc, head: method == Method::HEAD, wants }
    }

    /// The kind of body, of the gate's own and those that the operator wrote in their place. A word of the operator's goes before
    /// `Accept`; a gRPC client understands nothing else.
    pub fn media(self, format: BodyFormat, own: Option<&Bodies>) -> Media {
        let has = |media| own.is_some_and(|own| own.get(media).is_some());
        let json_only = has(BodyMedia::Json) && !has(BodyMedia::Problem);
        match format {
            _ if self.grpc => Media::Grpc,
            BodyFormat::Html => Media::Html,
            BodyFormat::Json if json_only => Media::Json,
            BodyFormat::Json => Media::Problem,
            BodyFormat::Auto => self.wants.best(has(BodyMedia::Json), json_only, has(BodyMedia::Text)),
        }
    }

    /// Whether the request is a `HEAD`, whose answer has all of its fields and no body.
    pub fn is_head(self) -> bool {
        self.head
    }
}

impl Wants {
    const NOTHING: Wants = Wants { named: false, html: UNWANTED, problem: UNWANTED, json: UNWANTED, text: UNWANTED };

    fn of<'a>(accept: impl Iterator<Item = &'a [u8]>) -> Wants {
        let mut wants = Wants::NOTHING;
        let ranges = accept.flat_map(|line| split_outside_quotes(line, b','));
        for range in ranges.take(MOST_RANGES) {
            if range == b"*/*" {
                // what most programs say
                wants.named = true;
                for best in [&mut wants.problem, &mut wants.json, &mut wants.html, &mut wants.text] {
                    better(best, (Exactness::Any, WHOLE));
                }
                continue;
            }
            wants.named |= !range.trim_ascii().is_empty();
            let Some((name, weight)) = media_range(range) else { continue };
            consider(&mut wants.problem, name, weight, "application/problem+json", "application/*");
            consider(&mut wants.json, name, weight, "application/json", "application/*");
            consider(&mut wants.html, name, weight, "text/html", "text/*");
            consider(&mut wants.text, name, weight, "text/plain", "text/*");
        }
        wants
    }

    /// The type that is wanted most; of equal ones that for programs, which ask for nothing in particular. Who accepts none gets the
    /// page.
    fn best(&self, json: bool, json_only: bool, text: bool) -> Media {
        let first = if json_only { Media::Json } else { Media::Problem };
        if !self.named {
            return first;
        }
        // a client of JSON reads problem+json as well, where there is nothing else for it
        let exact = |wanted: Preference| (wanted.1, wanted.0);
        let either = if exact(self.json) > exact(self.problem) { self.json } else { self.problem };
        let problem = (Media::Problem, if json { self.problem } else { either });
        let json = (Media::Json, if json { self.json } else { UNWANTED });
        let text = (Media::Text, if text { self.text } else { UNWANTED });
        let order = if json_only { [json, problem] } else { [problem, json] };
        let (mut best, mut most) = (Media::Html, UNWANTED);
        // an equal weight is decided by the one that was named more exactly: `text/html, */*`
        for (media, wanted) in order.into_iter().chain([(Media::Html, self.html), text]) {
            if wanted.0 > 0 && wanted > most {
                (best, most) = (media, wanted);
            }
        }
        best
    }
}

impl Media {
    /// The operator's own body of this kind.
    pub fn written(self, own: Option<&Bodies>) -> Option<&BodyText> {
        own?.get(match self {
            Media::Problem => BodyMedia::Problem,
            Media::Html => BodyMedia::Html,
            Media::Json => BodyMedia::Json,
            Media::Text => BodyMedia::Text,
            Media::Grpc => return None,
        })
    }

    /// The value of `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Media::Problem => "application/problem+json",
            Media::Html => "text/html; charset=utf-8",
            Media::Json => "application/json",
            Media::Text => "text/plain; charset=utf-8",
            Media::Grpc => "application/grpc",
        }
    }
}

/// What a body says.
#[derive(Debug, Clone, Copy)]
pub struct Content<'a> {
    /// The row of the table.
    pub meaning: &'a Meaning,
    /// What happened, in full.
    pub detail: &'a str,
    /// When to come back, in seconds.
    pub wait: Option<u64>,
    /// The request's identifier, if it has got that far.
    pub id: Option<DecisionId>,
    /// The names of the limits that were violated.
    pub violated: &'a [&'a str],
}

impl Content<'_> {
    /// Appends the bytes for this kind of body.
    pub fn write(&self, media: Media, out: &mut Vec<u8>) {
        match media {
            Media::Html => out.extend_from_slice(&page::page(self.meaning, self.wait, self.id)),
            Media::Grpc => {}
            // a kind that the operator did not write is never chosen
            Media::Problem | Media::Json | Media::Text => self.problem(out),
        }
    }

    fn problem(&self, out: &mut Vec<u8>) {
        out.reserve(384);
        // the program's own words, in which nothing is to be escaped
        out.extend_from_slice(br#"{"type":""#);
        out.extend_from_slice(self.meaning.problem.uri().as_bytes());
        out.extend_from_slice(br#"","title":""#);
        out.extend_from_slice(self.meaning.title().as_bytes());
        out.extend_from_slice(br#"","status":"#);
        json::number(out, u64::from(self.meaning.status.as_u16()));
        out.extend_from_slice(br#","detail":"#);
        own(out, self.detail);
        if let Some(id) = self.id {
            out.extend_from_slice(br#","instance":""#);
            out.extend_from_slice(&id.text());
            out.push(b'"');
        }
        if self.meaning.problem.is_of_a_limit() {
            out.extend_from_slice(br#","violated-policies":["#);
            for (at, name) in self.violated.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                own(out, name);
            }
            out.push(b']');
        }
        out.extend_from_slice(b"}\n");
    }
}

fn own(out: &mut Vec<u8>, text: &str) {
    json::text(out, text.as_bytes(), usize::MAX);
}

/// `application/grpc`, alone or with a `+` suffix or parameters; not `application/grpc-web`, which is another protocol.
fn is_grpc(content_type: &[u8]) -> bool {
    content_type.split_at_checked(b"application/grpc".len()).is_some_and(|(name, rest)| {
        let ends = matches!(rest.first(), None | Some(b'+' | b';' | b' ' | b'\t'));
        ends && name.eq_ignore_ascii_case(b"application/grpc")
    })
}

/// How much a client wants a type: the weight in thousandths, then how exactly it was named.
type Preference = (u16, Exactness);

/// The most weight that there is.
const WHOLE: u16 = 1_000;

const UNWANTED: Preference = (0, Exactness::Unnamed);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Exactness {
    #[default]
    Unnamed,
    Any,
    Family,
    Type,
}

/// How many ranges of `Accept` are looked at. Browsers send ten; a flood of refusals must not pay for a list of thousands.
const MOST_RANGES: usize = 64;

/// The most exact range that covers a type sets its weight (RFC 9110 §12.5.1); of equally exact ones the heaviest.
fn consider(best: &mut Preference, range: &[u8], weight: u16, exact: &str, family: &str) {
    let is = |name: &str| range.eq_ignore_ascii_case(name.as_bytes());
    let exactness = if is(exact) {
        Exactness::Type
    } else if is(family) {
        Exactness::Family
    } else if is("*/*") {
        Exactness::Any
    } else {
        return;
    };
    better(best, (exactness, weight));
}

/// Takes the more exact, and of equally exact ones the heavier.
fn better(best: &mut Preference, (exactness, weight): (Exactness, u16)) {
    if (exactness, weight) > (best.1, best.0) {
        *best = (weight, exactness);
    }
}

/// `type/subtype;parameters;q=0.5` → name and weight in thousandths. Parameters other than `q` are not looked at.
/// `None` for a range with a faulty weight, which is as good as not sent.
fn media_range(range: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = split_outside_quotes(range, b';').map(<[u8]>::trim_ascii);
    let name = parts.next()?;
    let weight = parts.find_map(|part| part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q=")));
    Some((name, weight.map_or(Some(WHOLE), thousandths)?))
}

/// `0`, `1`, and up to three decimals between them (RFC 9110 §12.4.2).
fn thousandths(weight: &[u8]) -> Option<u16> {
    let (whole, decimals) = match weight {
        [whole] | [whole, b'.'] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let digits = || decimals.iter().chain(iter::repeat(&b'0')).take(3);
    let value = iter::once(whole)
        .chain(digits())
        .try_fold(0, |value: u16, digit| digit.is_ascii_digit().then(|| value * 10 + u16::from(digit - b'0')))?;
    (value <= WHOLE).then_some(value)
}

/// The pieces between separators, but for those within quotes.
fn split_outside_quotes(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |byte| {
        if escaped {
            escaped = false;
        } else if quoted && *byte == b'\\' {
            escaped = true;
        } else if *byte == b'"' {
            quoted = !quoted;
        }
        *byte == separator && !quoted
    })
}

#[cfg(test)]
mod tests;
