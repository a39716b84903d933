//! The form of an answer's body: `application/problem+json`, a small page, gRPC's none.
//!
//! The form is chosen from the request's head by content negotiation (RFC 9110 §12.5.1) between exactly two types. What
//! is written into a body is our own text, numbers and the operator's names, never anything of the request's.

use std::iter;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method};

use super::json;
use super::refusal::Meaning;
use crate::engine::DecisionId;
use crate::policy::BodyFormat;

/// How a client wants to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    media: Media,
    head: bool,
}

/// The kinds of body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// `application/problem+json` (RFC 9457).
    Problem,
    /// A page for people.
    Html,
    /// No body: the status stands in a header, which gRPC calls trailers-only.
    Grpc,
}

impl Form {
    /// For a request whose head could not be read.
    pub const UNKNOWN: Form = Form { media: Media::Problem, head: false };

    /// For a request with this head. `format` decides between problem and page if it is not [`BodyFormat::Auto`].
    pub fn of(method: &Method, headers: &HeaderMap) -> Form {
        let media = if is_grpc(headers) {
            Media::Grpc
        } else if prefers_html(headers) {
            Media::Html
        } else {
            Media::Problem
        };
        Form { media, head: method == Method::HEAD }
    }

    /// The same with the operator's word put over `Accept`; a gRPC client understands nothing else.
    pub fn with(self, format: BodyFormat) -> Form {
        let media = match (self.media, format) {
            (Media::Grpc, _) | (_, BodyFormat::Auto) => self.media,
            (_, BodyFormat::Json) => Media::Problem,
            (_, BodyFormat::Html) => Media::Html,
        };
        Form { media, ..self }
    }

    /// The kind of body.
    pub fn media(self) -> Media {
        self.media
    }

    /// Whether the request is a `HEAD`, whose answer has all of its fields and no body.
    pub fn is_head(self) -> bool {
        self.head
    }
}

impl Media {
    /// The value of `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Media::Problem => "application/problem+json",
            Media::Html => "text/html; charset=utf-8",
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
    /// The request's identifier, if it has got that far.
    pub id: Option<DecisionId>,
    /// The names of the limits that were violated.
    pub violated: &'a [&'a str],
}

impl Content<'_> {
    /// The bytes for this kind of body.
    pub fn write(&self, media: Media) -> Vec<u8> {
        match media {
            Media::Problem => self.problem(),
            Media::Html => self.page(),
            Media::Grpc => Vec::new(),
        }
    }

    fn problem(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(384);
        out.extend_from_slice(br#"{"type":"#);
        own(&mut out, self.meaning.problem.uri());
        out.extend_from_slice(br#","title":"#);
        own(&mut out, self.meaning.title());
        out.extend_from_slice(br#","status":"#);
        json::number(&mut out, u64::from(self.meaning.status.as_u16()));
        out.extend_from_slice(br#","detail":"#);
        own(&mut out, self.detail);
        if let Some(id) = self.id {
            out.extend_from_slice(br#","instance":"#);
            json::text(&mut out, &id.text(), usize::MAX);
        }
        if self.meaning.problem.is_of_a_limit() {
            out.extend_from_slice(br#","violated-policies":["#);
            for (at, name) in self.violated.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                own(&mut out, name);
            }
            out.push(b']');
        }
        out.extend_from_slice(b"}\n");
        out
    }

    /// Nothing here needs escaping: phrase and detail are texts of the table with numbers in them, the id has 32
    /// letters.
    fn page(&self) -> Vec<u8> {
        let (status, phrase, detail) = (self.meaning.status.as_u16(), self.meaning.phrase(), self.detail);
        let id = self.id.map(|id| format!("<p><small>{id}</small></p>\n")).unwrap_or_default();
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{status} {phrase}</title>\n\
             <h1>{status} {phrase}</h1>\n<p>{detail}</p>\n{id}</html>\n"
        )
        .into_bytes()
    }
}

fn own(out: &mut Vec<u8>, text: &str) {
    json::text(out, text.as_bytes(), usize::MAX);
}

/// `application/grpc`, alone or with a `+` suffix or parameters; not `application/grpc-web`, which is another protocol.
fn is_grpc(headers: &HeaderMap) -> bool {
    let is = |value: &[u8]| {
        let (name, rest) = value.split_at_checked(b"application/grpc".len())?;
        let ends = matches!(rest.first(), None | Some(b'+' | b';' | b' ' | b'\t'));
        (ends && name.eq_ignore_ascii_case(b"application/grpc")).then_some(())
    };
    headers.get(CONTENT_TYPE).is_some_and(|value| is(value.as_bytes()).is_some())
}

/// How much a client wants a type: the weight in thousandths, then how exactly it was named.
type Preference = (u16, Exactness);

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

/// Whether a page is wanted more than a problem document. Programs, which ask for nothing in particular, get the
/// document; so does whoever wants both equally. Who accepts neither gets the page.
fn prefers_html(headers: &HeaderMap) -> bool {
    let (mut html, mut problem) = (Preference::default(), Preference::default());
    let mut named = false;
    let ranges = headers.get_all(ACCEPT).into_iter().flat_map(|line| split_outside_quotes(line.as_bytes(), b','));
    for range in ranges.take(MOST_RANGES) {
        named |= !range.trim_ascii().is_empty();
        let Some((name, weight)) = media_range(range) else { continue };
        // a client of JSON reads problem+json as well
        let exact = ["application/problem+json", "application/json"];
        consider(&mut problem, name, weight, &exact, "application/*");
        consider(&mut html, name, weight, &["text/html"], "text/*");
    }
    // an equal weight is decided by the one that was named more exactly: `text/html, */*`
    named && (problem.0 == 0 || html > problem)
}

/// The most exact range that covers a type sets its weight (RFC 9110 §12.5.1); of equally exact ones the heaviest.
fn consider(best: &mut Preference, range: &[u8], weight: u16, types: &[&str], family: &str) {
    let is = |name: &str| range.eq_ignore_ascii_case(name.as_bytes());
    let exactness = if types.iter().any(|name| is(name)) {
        Exactness::Type
    } else if is(family) {
        Exactness::Family
    } else if is("*/*") {
        Exactness::Any
    } else {
        return;
    };
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
    Some((name, weight.map_or(Some(1_000), thousandths)?))
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
    (value <= 1_000).then_some(value)
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
