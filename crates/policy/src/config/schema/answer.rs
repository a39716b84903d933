//! `responses`.

use http::HeaderName;

use crate::config::scalar::digits;
use crate::config::section::section;
use crate::config::shape::{Either, Keyed, OneOrMany};
use crate::config::text::FieldValue;
use crate::policy::{BodyFormat, FieldStyle, Report};
use crate::units::Share;

section! {
    /// What clients are told.
    Responses ("a map") {
        /// Which rate-limit fields are sent: `draft` (RateLimit and RateLimit-Policy), `triple` (RateLimit-Limit and
        /// so on), `legacy` (X-RateLimit-Limit and so on) or `off`.
        optional ratelimit_headers: FieldStyle [default draft],
        /// Which of several limits an admitted answer reports: `nearest` to its end or `all`, at most 4.
        optional report: Report [default nearest],
        /// Whether browsers may show these fields to scripts (Access-Control-Expose-Headers).
        optional expose: bool [default false],
        /// When limited clients are told to come back.
        optional retry_after: RetryAfter,
        /// What a client over its limit gets.
        optional limited: Limited,
        /// What a client gets when there is no capacity.
        optional overloaded: Overloaded,
        /// Whether refusals carry X-Tidegate-Decision.
        optional decision_id: bool [default true],
        /// The name under which Proxy-Status (RFC 9209) is sent. Default: not sent.
        optional proxy_name: ProxyName,
    }
    later: ["unknown_host", "pages"]
}

section! {
    /// When limited clients are told to come back.
    RetryAfter ("a map") {
        /// By how much Retry-After is stretched at random, at most 5 s, so that not all come back at once.
        // enough to spread a window's end, too little for anybody to notice
        optional jitter: Share [default 10%],
    }
    later: []
}

section! {
    /// What a client over its limit gets.
    Limited ("a map") {
        /// The status, 400 to 599.
        optional status: RefusalStatus [default 429],
        /// The body: `auto` (by Accept), `json` or `html`.
        optional format: BodyFormat [default auto],
        /// Bodies in the place of the gate's own.
        optional body: Body,
        /// Further header fields.
        optional headers: Keyed<HeaderName, OneOrMany<FieldValue>>,
    }
    later: []
}

section! {
    /// What a client gets when there is no capacity.
    Overloaded ("a map") {
        /// The status, 400 to 599.
        optional status: RefusalStatus [default 503],
        /// The body: `auto` (by Accept), `json` or `html`.
        optional format: BodyFormat [default auto],
        /// Bodies in the place of the gate's own.
        optional body: Body,
        /// Further header fields.
        optional headers: Keyed<HeaderName, OneOrMany<FieldValue>>,
    }
    later: []
}

section! {
    /// What a refused client gets, over what is said above: of a limit over its route, of a route over `responses`. Each word that is
    /// missing is that of above.
    Refusal ("a map") {
        /// The status, 400 to 599.
        optional status: RefusalStatus,
        /// The body: `auto` (by Accept), `json` or `html`.
        optional format: BodyFormat,
        /// Bodies in the place of the gate's own.
        optional body: Body,
        /// Further header fields.
        optional headers: Keyed<HeaderName, OneOrMany<FieldValue>>,
    }
    later: []
}

section! {
    /// What clients of a route get when they are refused, over `responses`.
    RouteResponses ("a map with `limited` or `overloaded`") {
        /// What a client over its limit gets.
        optional limited: Refusal,
        /// What a client gets when there is no capacity.
        optional overloaded: Refusal,
    }
    later: []
}

section! {
    /// Bodies by media type, chosen by Accept; a type that is missing is the gate's own, if it has one. Each up to 16 KiB, as text or
    /// as `{ file: PATH }`. Placeholders, up to 32, are escaped for where they stand: `{status}`, `{title}`, `{detail}`,
    /// `{retry_after}` (seconds), `{limit}`, `{request.id}`, `{route}`; `{{limit}}` is that text itself, every other brace is a brace.
    Body ("a map with `html`, `json`, `problem` or `text`") {
        /// `text/html`. No placeholder may stand in a script, a style, a comment, or a tag outside of quotes.
        optional html: Either<String, BodyFile>,
        /// `application/json`. Outside of a string a placeholder is a whole value: a number, a string, or `null` where there is none.
        optional json: Either<String, BodyFile>,
        /// `application/problem+json` (RFC 9457), written as `json`.
        optional problem: Either<String, BodyFile>,
        /// `text/plain`.
        optional text: Either<String, BodyFile>,
    }
    later: []
}

section! {
    /// A body in a file of its own.
    BodyFile ("a map with `file`") {
        /// The file, relative to the policy's; read when the policy is loaded.
        required file: String,
    }
    later: []
}

/// The status of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusalStatus(pub u16);

impl crate::config::read::Scalar for RefusalStatus {
    const NAME: &'static str = "status of a refusal";
    const EXAMPLE: &'static str = "`429`";
    const CODE: crate::config::fault::Code = crate::config::fault::Code::OUT_OF_RANGE;

    fn parse(text: &str) -> Result<RefusalStatus, crate::config::read::Wrong> {
        let status = digits(text).and_then(|status| u16::try_from(status).ok());
        status.filter(|status| (400..=599).contains(status)).map(RefusalStatus).ok_or_else(|| {
            crate::config::read::Wrong::new("must be 400 to 599")
                .help("a refusal that claims another status is kept by caches, counted as served and never tried again")
        })
    }

    fn schema() -> schemars::Schema {
        schemars::json_schema!({ "anyOf": [
            { "type": "integer", "minimum": 400, "maximum": 599 },
            { "type": "string", "pattern": "^[45][0-9]{2}$" },
            { "type": "string", "pattern": "^\\$\\{" }
        ] })
    }
}

/// A token of RFC 9110, so that it can stand in Proxy-Status as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyName(pub String);

impl crate::config::read::Scalar for ProxyName {
    const NAME: &'static str = "proxy name";
    const EXAMPLE: &'static str = "`edge-1.example.com`";
    const CODE: crate::config::fault::Code = crate::config::fault::Code::BAD_TEXT;

    fn parse(text: &str) -> Result<ProxyName, crate::config::read::Wrong> {
        let token = text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.len() <= 64
            && HeaderName::from_bytes(text.as_bytes()).is_ok();
        if token {
            return Ok(ProxyName(text.to_owned()));
        }
        Err(crate::config::read::Wrong::new("must begin with a letter, then letters, digits, - . _, at most 64"))
    }

    fn schema() -> schemars::Schema {
        crate::config::scalar::pattern("^[A-Za-z][A-Za-z0-9!#$%&'*+.^_`|~-]{0,63}$")
    }
}
