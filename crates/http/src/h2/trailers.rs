//! The fields that may stand in the trailers of a request (RFC 9110 section 6.5.1).
//!
//! The gate does not forward trailers, but a client that sends framing, routing or credentials behind the body hopes that a server
//! reads them there. Pseudo-header fields are found by [`field_names`](super::field_names).

use http::{HeaderMap, HeaderName, header};

/// Fields that change how the request before them is framed, routed, judged or read.
const FORBIDDEN: [HeaderName; 14] = [
    header::AUTHORIZATION,
    header::CACHE_CONTROL,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::COOKIE,
    header::EXPECT,
    header::FORWARDED,
    header::HOST,
    header::MAX_FORWARDS,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
];

/// Whether none of the fields is forbidden in trailers.
pub fn are_harmless(trailers: &HeaderMap) -> bool {
    !FORBIDDEN.iter().any(|name| trailers.contains_key(name))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn what_frames_a_request_stands_before_its_body() {
        let with =
            |name: &'static str| HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static("1"))]);
        for name in ["content-length", "transfer-encoding", "host", "authorization", "forwarded"] {
            assert!(!are_harmless(&with(name)), "{name}");
        }
        for name in ["grpc-status", "digest", "x-checksum"] {
            assert!(are_harmless(&with(name)), "{name}");
        }
        assert!(are_harmless(&HeaderMap::new()));
    }
}
