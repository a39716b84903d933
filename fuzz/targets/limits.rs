//! The bounds of a head, for targets that read one.

use tidegate_http::head::HeadLimits;
use tidegate_http::head::UnderscoreTwins;
use tidegate_http::path::EscapedSlash;

/// So many bytes in all and in the request line, and so many fields.
pub const fn limits(bytes: usize, request_line: usize, fields: usize) -> HeadLimits {
    HeadLimits { bytes, request_line, fields, twins: UnderscoreTwins::Refuse, escaped_slash: EscapedSlash::Keep }
}

/// Reached by nearly everything.
pub const TIGHT: HeadLimits = limits(96, 24, 3);

/// Reached by no input: what is accepted is a matter of form.
pub const ROOMY: HeadLimits = limits(1 << 20, 1 << 20, 10_000);
