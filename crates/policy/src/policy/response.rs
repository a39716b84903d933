//! What a refused client sees, and what an admitted one is told about its budget.

use http::StatusCode;

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
    /// Status when a client is over its limit.
    pub limited_status: StatusCode,
    /// Body when a client is over its limit.
    pub limited_format: BodyFormat,
    /// Status when there is no capacity.
    pub overloaded_status: StatusCode,
    /// Whether refusals carry `X-Tidegate-Decision`.
    pub decision_id: bool,
    /// The name under which `Proxy-Status` (RFC 9209) is sent: the deployment's, not the product's. None: not sent.
    pub proxy_name: Option<String>,
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
    /// Always `application/problem+json`.
    Json,
    /// Always HTML.
    Html,
}
