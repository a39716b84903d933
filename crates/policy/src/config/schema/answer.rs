//! `responses`.

use http::HeaderName;

use crate::config::scalar::Count;
use crate::config::section::section;
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
        /// The status.
        optional status: Count [400 to 599, default 429],
        /// The body: `auto` (problem+json or HTML, by Accept), `json` or `html`.
        optional format: BodyFormat [default auto],
    }
    later: ["body", "headers"]
}

section! {
    /// What a client gets when there is no capacity.
    Overloaded ("a map") {
        /// The status.
        optional status: Count [400 to 599, default 503],
    }
    later: ["body", "format", "headers"]
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
