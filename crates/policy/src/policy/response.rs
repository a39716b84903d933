//! What a refused client sees, and what an admitted one is told about its budget.

use http::{HeaderName, HeaderValue, StatusCode};

use super::body::Bodies;
use crate::units::Share;

/// The `responses:` section.
#[derive(Debug, Clone, PartialEq)]
pub struct Responses {
    /// Which rate-limit fields are sent.
    pub fields: FieldStyle,
    /// Which of several limits are reported on an admitted answer.
    pub report: Report,
    /// Whether the fields are added to `Access-Control-Expose-Headers`, so that browsers show them to scripts.
    pub expose: bool,
    /// `Retry-After` is stretched by up to this share (never more than 5 s), so that clients do not all come back at once.
    pub retry_jitter: Share,
    /// The answer when a client is over its limit.
    pub limited: OwnAnswer,
    /// The answer when there is no capacity.
    pub overloaded: OwnAnswer,
    /// Whether refusals carry `X-Tidegate-Decision`.
    pub decision_id: bool,
    /// The name under which `Proxy-Status` (RFC 9209) is sent: the deployment's, not the product's. None: not sent.
    pub proxy_name: Option<String>,
}

/// What an operator says of the answer to some refused requests, as far as he says something.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OwnAnswer {
    /// The status, 400 to 599.
    pub status: Option<StatusCode>,
    /// Which body is sent.
    pub format: Option<BodyFormat>,
    /// Bodies in the place of the gate's own.
    pub bodies: Option<Bodies>,
    /// Further fields, a line each.
    pub headers: Option<Vec<(HeaderName, HeaderValue)>>,
}

/// The spelling of the rate-limit fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldStyle {
    /// `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers-10).
    Draft,
    /// `RateLimit-Limit`, `-Remaining`, `-Reset` with delta seconds (drafts up to 06).
    Triple,
    /// `X-RateLimit-Limit`, `-Remaining`, `-Reset` with epoch seconds.
    Legacy,
    /// None.
    Off,
}

/// Which limits an admitted answer reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// The one that is nearest to its end.
    Nearest,
    /// Up to four.
    All,
}

/// The body of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFormat {
    /// `application/problem+json` or HTML, whichever `Accept` prefers.
    Auto,
    /// Always `application/problem+json`, or the operator's own `application/json`.
    Json,
    /// Always HTML.
    Html,
}
